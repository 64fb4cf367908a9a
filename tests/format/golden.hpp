// What the golden images hold: a small store of each kind, whose content follows from its number.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <perdura/container.hpp>
#include <perdura/objects.hpp>
#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

namespace perdura::golden {

struct Node {
  Node* next;
  std::uint64_t number;
};
struct List {
  Node* first;
  std::uint64_t count;
};

}  // namespace perdura::golden

PERDURA_TYPE(perdura::golden::Node, next)
PERDURA_TYPE(perdura::golden::List, first)

namespace perdura::golden {

using Numbers = perdura::map<std::uint64_t, perdura::string>;
constexpr std::uint64_t kNodes = 100;
constexpr std::uint64_t kNumbers = 50;

inline Options small() {
  Options options;
  options.region_limit_bytes = 1 << 20;
  options.log_segment_bytes = 32 << 10;
  options.tracking = Tracking::kProtect;
  options.lazy_recovery = false;
  return options;
}
inline Options in_chunks() {
  Options options = small();
  options.engine = Engine::kRemap;
  options.chunk_bytes = 4096;
  options.versions_kept = 3;
  return options;
}
inline Options in_two_copies() {
  Options options = small();
  options.engine = Engine::kDualCopy;
  return options;
}
inline Options aliased() {
  Options options = small();
  options.aliases = 2;
  return options;
}

/// Nodes first + kNodes - 1 down to first.
inline void fill(Store& store, const char* name, std::uint64_t first) {
  List& list = store.root<List>(name);
  const auto operation = store.operation();
  operation.touch(&list, sizeof list);
  for (std::uint64_t i = 0; i < kNodes; ++i) {
    Node* const node = store.make<Node>();
    operation.touch(node, sizeof *node);
    *node = {list.first, first + i};
    list.first = node;
    ++list.count;
  }
}

/// "" when the list is what fill() made, once for each of `firsts`, the last one first.
inline std::string wrong_with(const List* list, std::vector<std::uint64_t> firsts) {
  if (list == nullptr) return "there is no list";
  const Node* node = list->first;
  for (std::uint64_t first : firsts)
    for (std::uint64_t i = kNodes; i-- != 0; node = node->next)
      if (node == nullptr || node->number != first + i) return "the list is another one";
  return node == nullptr && list->count == firsts.size() * kNodes ? "" : "the list is too long";
}

struct Image {
  const char* name;
  /// A store that is new, and perhaps its overflow store at `path` + ".overflow". The process ends
  /// without a word behind it.
  std::function<void(const std::string& path)> make;
  /// Opens it: what is wrong with it, or "".
  std::function<std::string(const std::string& path)> check;
  int since = 2;  ///< the format version with which there was the first one
};

/// The state of an object.
struct Tally {
  std::uint64_t sums[600];
  void add(std::uint32_t at, std::uint64_t value) noexcept {
    sums[at] += value;
    object_changed(&sums[at], sizeof sums[at]);
  }
  std::uint64_t take(std::uint32_t at) noexcept {
    const std::uint64_t before = sums[at];
    sums[at] = before * 3 + 1;
    return before;
  }
  std::uint64_t at(std::uint32_t index) const noexcept { return sums[index]; }
};

/// One that is as large as its object.
struct Row {
  static constexpr bool kIsFlexible = true;
  std::uint64_t calls;
  void put(std::uint64_t at, std::uint64_t value) noexcept {
    ++calls;
    object_rest<std::uint64_t>(this)[at] = value;
  }
  std::uint64_t swap(std::uint64_t at, std::uint64_t value) noexcept {
    const std::uint64_t before = this->at(at);
    put(at, value);
    return before;
  }
  std::uint64_t at(std::uint64_t index) const noexcept {
    return object_rest<std::uint64_t>(this)[index];
  }
};

}  // namespace perdura::golden

template <>
struct perdura::Methods<perdura::golden::Row>
    : perdura::MethodList<perdura::Deferrable<&perdura::golden::Row::put>,
                          perdura::Instant<&perdura::golden::Row::swap>> {};
template <>
struct perdura::Methods<perdura::golden::Tally>
    : perdura::MethodList<perdura::Deferrable<&perdura::golden::Tally::add, perdura::kReports>,
                          perdura::Instant<&perdura::golden::Tally::take>> {};

namespace perdura::golden {

/// All kinds.
std::vector<Image> images();

}  // namespace perdura::golden
