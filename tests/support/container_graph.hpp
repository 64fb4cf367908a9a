// Graphs of all kinds, for unit tests of containers, and the containers that they are in.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "support/files.hpp"

namespace perdura::test {

enum Kind : u32 { kNumber, kText, kNode };

struct Node {
  Node* next;
  Node* other;
  char* inside;  ///< into another node
  u64 number;
  Kind kind;
  union {
    u64 number;
    char* text;
    Node* node;
  } value;
  const char* name;  ///< a literal
  u64 (*rule)(u64);
  std::uintptr_t word;  ///< a pointer, or not
};

struct Root {
  Node* first;
  Node* second;
  Node** all;
  u64 count;
};

struct Index {
  u64 count;
  Node* nodes[];
};

struct Link {
  Link* next;
  u64 number;
};

struct Chain {
  Link* first;
};

}  // namespace perdura::test

// Messages name types as the macros do.
using perdura::test::Chain;
using perdura::test::Index;
using perdura::test::Link;
using perdura::test::Node;
using perdura::test::Root;

PERDURA_TYPE_OF(Node, PERDURA_POINTER(Node, next), PERDURA_POINTER(Node, other),
                PERDURA_POINTER(Node, inside),
                PERDURA_POINTER_WHEN(Node, value.text, kind, perdura::test::kText),
                PERDURA_POINTER_WHEN(Node, value.node, kind, perdura::test::kNode),
                PERDURA_POINTER(Node, name), PERDURA_POINTER(Node, rule), PERDURA_MAYBE(Node, word))
PERDURA_TYPE(Root, first, second, all)
PERDURA_TYPE_OF(Index, PERDURA_FLEXIBLE_POINTERS(Index, nodes))
PERDURA_TYPE(Link, next)
PERDURA_TYPE(Chain, first)

namespace perdura::test {

template <class Call>
Code code_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_GT(std::string(error.what()).size(), 20u);
    return error.code();
  }
  return Code::kOk;
}

constexpr perdura_type kBytes{"char", 1, 1, 0, nullptr};
constexpr perdura_slot kNodePointerSlot{"pointer", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0};
constexpr perdura_type kNodePointer{"Node*", 8, 8, 1, &kNodePointerSlot};

inline u64 twice(u64 value) { return value * 2; }
inline u64 square(u64 value) { return value * value; }
constexpr const char* kLiteral = "a literal of the program";

struct Way {
  Tracking tracking;
  Engine engine;
};
inline std::vector<Way> ways() {
  std::vector<Way> all;
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap, Engine::kDualCopy})
    for (const Tracking tracking : {Tracking::kUserfault, Tracking::kSigbus, Tracking::kProtect})
      all.push_back({tracking, engine});
  return all;
}
inline std::string name_of_way(const testing::TestParamInfo<Way>& info) {
  return std::string(name_of(info.param.tracking)) +
         (info.param.engine == Engine::kRemap      ? "_chunks"
          : info.param.engine == Engine::kDualCopy ? "_copies"
                                                   : "");
}

class Containers : public testing::TestWithParam<Way> {
 protected:
  Options options(u64 address = 0) const {
    Options options;
    options.tracking = GetParam().tracking;
    options.engine = GetParam().engine;
    options.region_limit_bytes = 256 * kMiB;
    options.log_limit_bytes = 32 * kMiB;
    options.region_address = address;
    return options;
  }
  Container open(u64 address = 0) { return Container::open(uri(), options(address)); }
  std::string uri(const std::string& name = "container.pd") const {
    return "file:" + folder_.path(name);
  }

  const TempDir folder_{TempDir::kMemory};
};

inline char* make_text(const std::string& text) {
  auto* made = static_cast<char*>(allocate(kBytes, text.size() + 1));
  std::memcpy(made, text.c_str(), text.size() + 1);
  return made;
}

inline Node* make_node(u64 number) {
  Node* node = make<Node>();
  node->number = number;
  node->name = kLiteral;
  node->rule = number % 2 == 0 ? twice : square;
  node->kind = static_cast<Kind>(number % 3);
  if (node->kind == kText) node->value.text = make_text("text " + std::to_string(number));
  else node->value.number = number;
  return node;
}

// A ring of nodes with pointers across, and into each other; an array of all.
inline void make_graph(Root& root, u64 count) {
  root.count = count;
  root.all = static_cast<Node**>(allocate(kNodePointer, count));
  for (u64 i = 0; i < count; ++i) root.all[i] = make_node(i);
  for (u64 i = 0; i < count; ++i) {
    Node& node = *root.all[i];
    node.next = root.all[(i + 1) % count];
    node.other = root.all[i * 7 % count];
    node.inside = reinterpret_cast<char*>(&node.other->number);
    if (node.kind == kNode) node.value.node = root.all[count - 1 - i];
    node.word = i % 2 == 0 ? reinterpret_cast<std::uintptr_t>(node.next) : i;
  }
  root.first = root.all[0];
  root.second = root.all[count / 2];
}

inline void expect_graph(const Container& container, const Root& root, u64 count) {
  ASSERT_EQ(root.count, count);
  ASSERT_TRUE(container.contains(root.all));
  for (u64 i = 0; i < count; ++i) {
    ASSERT_TRUE(container.contains(root.all[i])) << i;
    const Node& node = *root.all[i];
    ASSERT_EQ(node.number, i);
    ASSERT_EQ(node.next, root.all[(i + 1) % count]);
    ASSERT_EQ(node.other, root.all[i * 7 % count]);
    ASSERT_EQ(node.inside, reinterpret_cast<char*>(&node.other->number));
    if (node.kind == kText) {
      ASSERT_TRUE(container.contains(node.value.text));
      ASSERT_EQ(node.value.text, "text " + std::to_string(i));
    } else if (node.kind == kNode) {
      ASSERT_EQ(node.value.node, root.all[count - 1 - i]);
    } else {
      ASSERT_EQ(node.value.number, i);
    }
    ASSERT_EQ(node.word, i % 2 == 0 ? reinterpret_cast<std::uintptr_t>(node.next) : i);
    ASSERT_STREQ(node.name, kLiteral);
    ASSERT_EQ(node.rule(i), i % 2 == 0 ? i * 2 : i * i);
  }
  ASSERT_EQ(root.first, root.all[0]);
  ASSERT_EQ(root.second, root.all[count / 2]);
  ASSERT_TRUE(container.audit().clean) << container.audit().problem;
}

constexpr u64 kNodes = 3000;

}  // namespace perdura::test
