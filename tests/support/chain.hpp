// A graph for tests of containers: a chain of links that lead to each other and into the program,
// with what must be true of it at every persistence point.
#pragma once

#include <string>
#include <vector>

#include <perdura/container.hpp>

#include "base/bits.hpp"

namespace perdura::test {

struct ChainLink {
  ChainLink* next;
  ChainLink* before;
  ChainLink** place;  ///< what leads to this link: interior, or the root's
  u64 number;
  const char* name;        ///< a literal
  u64 (*rule)(u64 value);  ///< a function of the program
};

struct ChainRoot {
  ChainLink* first;
  u64 count;
  u64 sum;
};

}  // namespace perdura::test

PERDURA_TYPE(perdura::test::ChainLink, next, before, place, name, rule)
PERDURA_TYPE(perdura::test::ChainRoot, first)

namespace perdura::test {

inline u64 chain_rule(u64 value) { return value * 0x9e3779b97f4a7c15; }

/// Adds a volatile link.
inline void push(ChainRoot& root, u64 number) {
  auto* const link = make<ChainLink>();
  link->number = number;
  link->next = root.first;
  link->name = number % 2 == 0 ? "even" : "odd";
  link->rule = chain_rule;
  link->place = &root.first;
  if (root.first != nullptr) {
    root.first->before = link;
    root.first->place = &link->next;
  }
  root.first = link;
  ++root.count;
  root.sum += chain_rule(number);
}

inline void pop(ChainRoot& root) {
  ChainLink* const link = root.first;
  if (link == nullptr) return;
  root.first = link->next;
  if (root.first != nullptr) {
    root.first->before = nullptr;
    root.first->place = &root.first;
  }
  --root.count;
  root.sum -= chain_rule(link->number);
  destroy(link);
}

/// What is wrong, or "". `numbers`, where not nullptr, gets those of the links.
inline std::string check_chain(const ChainRoot& root, std::vector<u64>* numbers = nullptr) {
  const ChainLink* before = nullptr;
  ChainLink* const* place = &root.first;
  u64 count = 0;
  u64 sum = 0;
  for (const ChainLink* link = root.first; link != nullptr; link = link->next) {
    const std::string which = "link " + std::to_string(count) + " of the chain ";
    if (count == root.count) return "the chain has no end";
    if (link->before != before || link->place != place) return which + "leads elsewhere";
    if (link->rule != chain_rule ||
        link->name != std::string(link->number % 2 == 0 ? "even" : "odd"))
      return which + "leads elsewhere in the program";
    ++count;
    sum += chain_rule(link->number);
    if (numbers != nullptr) numbers->push_back(link->number);
    before = link;
    place = &link->next;
  }
  return count == root.count && sum == root.sum ? "" : "the chain is not of one version";
}

}  // namespace perdura::test
