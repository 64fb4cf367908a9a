// Goal: blocks of types with records are found again at any address: whatever a graph is made of,
// the store moves when its place is taken or another is wanted, and what cannot be moved is refused
// with a sentence and left as it was.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "heap/heap.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/wrapped_store.hpp"

namespace {

struct Leaf {
  const char* text;
  std::uint64_t number;
};

enum Kind : std::uint32_t { kNumber, kText, kLeaf };

struct Node {
  Node* next;
  Node* back;    ///< cycles
  char* middle;  ///< into another object
  Kind kind;
  std::uint32_t number;
  union {
    char* text;
    std::uint64_t number;
    Leaf leaf;
  } value;
  Leaf leaves[2];
  std::uintptr_t word;  ///< a pointer, or not
};

struct Index {
  std::uint64_t count;
  Node* nodes[];
};

struct Text {
  std::uint64_t length;
  char bytes[];
};

struct alignas(64) Lined {
  Lined* next;
  std::uint64_t number;
};

struct Twice {
  Twice* next;
};

struct [[gnu::packed]] Packed {
  Packed* next;
  std::uint32_t number;
};

struct [[gnu::packed]] AroundPacked {
  char kind;
  Packed packed;
};

struct Counted {
  std::uint32_t size;
  std::uint32_t capacity;
  char* text;  ///< or what looks like its address
};

struct Reporting {
  perdura::Field<Reporting*> next;
  perdura::Field<std::uint64_t> number;
};

}  // namespace

PERDURA_TYPE(Leaf, text)
PERDURA_TYPE_OF(Node, PERDURA_POINTER(Node, next), PERDURA_POINTER(Node, back),
                PERDURA_POINTER(Node, middle), PERDURA_POINTER_WHEN(Node, value.text, kind, kText),
                PERDURA_VALUE_WHEN(Node, value.leaf, perdura::TypeRecord<Leaf>::value, kind, kLeaf),
                PERDURA_VALUE(Node, leaves, perdura::TypeRecord<Leaf>::value),
                PERDURA_MAYBE(Node, word))
PERDURA_TYPE_OF(Index, PERDURA_FLEXIBLE_POINTERS(Index, nodes))
PERDURA_TYPE(Text)
PERDURA_TYPE(Lined, next)
PERDURA_TYPE_OF(Twice, PERDURA_POINTER(Twice, next), PERDURA_MAYBE(Twice, next))
PERDURA_TYPE(Packed, next)
PERDURA_TYPE(AroundPacked, packed)
PERDURA_TYPE(Reporting, next)
PERDURA_TYPE_OF(Counted, PERDURA_POINTER_UNLESS(Counted, text, capacity, 0))

namespace perdura::test {
namespace {

template <class T>
const perdura_type& type_of() {
  return TypeRecord<T>::value;
}

constexpr u64 kNodes = 3000;  // with their texts more than some slabs

Options options(Tracking tracking, u32 aliases = 0) {
  Options options;
  options.tracking = tracking;
  options.aliases = aliases;
  options.region_limit_bytes = 64 * kMiB;
  options.log_limit_bytes = 8 * kMiB;
  return options;
}

std::string text_of(u64 i) { return "text " + std::to_string(i); }

char* make_text(Store& store, u64 i) {
  const std::string text = text_of(i);
  auto* made =
      static_cast<Text*>(store.allocate_flexible(type_of<Text>(), sizeof(Text) + text.size() + 1));
  store.touch(made, sizeof(Text) + text.size() + 1);
  made->length = text.size();
  std::memcpy(made->bytes, text.c_str(), text.size() + 1);
  return made->bytes;
}

// A ring of nodes of each kind, and a large block that points to all of them.
void make_graph(Store& store) {
  auto* index = static_cast<Index*>(
      store.allocate_flexible(type_of<Index>(), sizeof(Index) + kNodes * sizeof(Node*)));
  store.touch(index, sizeof(Index) + kNodes * sizeof(Node*));
  index->count = kNodes;
  for (u64 i = 0; i < kNodes; ++i) {
    index->nodes[i] = static_cast<Node*>(store.allocate(type_of<Node>()));
    store.touch(index->nodes[i], sizeof(Node));
  }
  for (u64 i = 0; i < kNodes; ++i) {
    Node& node = *index->nodes[i];
    node.number = static_cast<u32>(i);
    node.next = index->nodes[(i + 1) % kNodes];
    node.back = index->nodes[(i + kNodes - 1) % kNodes];
    node.middle = reinterpret_cast<char*>(&node.next->number);
    node.kind = static_cast<Kind>(i % 3);
    char* const text = make_text(store, i);
    if (node.kind == kText) node.value.text = text;
    else if (node.kind == kLeaf) node.value.leaf = {text, i};
    // The address of something, and no pointer.
    else node.value.number = reinterpret_cast<std::uintptr_t>(&node);
    node.leaves[1] = {text, reinterpret_cast<std::uintptr_t>(&node)};
    node.word = i % 2 == 0 ? reinterpret_cast<std::uintptr_t>(&node) : i;
  }
  store.set_root("index", index);
}

// `made_at` is where the region was when the numbers that look like pointers were stored.
void check_graph(Store& store, const void* region, const std::byte* made_at) {
  const auto moved = static_cast<const std::byte*>(region) - made_at;
  const auto* index = static_cast<const Index*>(store.get_root("index"));
  ASSERT_NE(index, nullptr);
  ASSERT_EQ(index->count, kNodes);
  for (u64 i = 0; i < kNodes; ++i) {
    const Node& node = *index->nodes[i];
    const auto here = reinterpret_cast<std::uintptr_t>(&node);
    ASSERT_EQ(node.number, i);
    ASSERT_EQ(node.next, index->nodes[(i + 1) % kNodes]);
    ASSERT_EQ(node.back, index->nodes[(i + kNodes - 1) % kNodes]);
    ASSERT_EQ(node.middle, reinterpret_cast<const char*>(&node.next->number));
    ASSERT_EQ(node.leaves[1].text, text_of(i));
    ASSERT_EQ(node.leaves[0].text, nullptr);
    ASSERT_EQ(node.leaves[1].number, here - moved);
    ASSERT_EQ(node.word, i % 2 == 0 ? here : i);
    if (node.kind == kText) {
      ASSERT_EQ(node.value.text, text_of(i));
    } else if (node.kind == kLeaf) {
      ASSERT_EQ(node.value.leaf.text, text_of(i));
      ASSERT_EQ(node.value.leaf.number, i);
    } else {
      ASSERT_EQ(node.value.number, here - moved);
    }
  }
  EXPECT_TRUE(store.audit().clean) << store.audit().problem;
  EXPECT_EQ(store.audit().types, 3);
}

std::byte* base_of(Store& store) { return store.runtime().region().base(); }

/// Takes up a page at an address.
class Squatter {
 public:
  explicit Squatter(const void* address)
      : page_(::mmap(const_cast<void*>(address), kPageBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)) {
    EXPECT_NE(page_, MAP_FAILED);
  }
  ~Squatter() { ::munmap(page_, kPageBytes); }
  Squatter(const Squatter&) = delete;

 private:
  void* page_;
};

template <class Call>
void expect_error(Call&& call, Code code, const std::vector<std::string>& sentences) {
  try {
    call();
    ADD_FAILURE() << "does not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& sentence : sentences)
      EXPECT_NE(std::string(error.what()).find(sentence), std::string::npos)
          << error.what() << " lacks '" << sentence << "'";
  }
}

struct Way {
  const char* name;
  const char* scheme;
  Tracking tracking;
  u32 aliases;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class Relocation : public testing::TestWithParam<Way> {
 protected:
  Store open(u64 address = 0) {
    Options chosen = options(GetParam().tracking, opened_ ? 0 : GetParam().aliases);
    opened_ = true;
    chosen.region_address = address;
    return Store::open(std::string(GetParam().scheme) + ":" + folder_.path("store"), chosen);
  }

  const TempDir folder_{TempDir::kMemory};
  bool opened_ = false;
};

TEST_P(Relocation, AGraphMovesWhereItIsWanted) {
  const std::byte* made_at = nullptr;
  {
    Store store = open();
    make_graph(store);
    made_at = base_of(store);
    store.close();
  }
  constexpr u64 kWanted = 0x5520'0000'0000;
  for (const u64 wanted : {kWanted, u64{0}, kWanted + kGiB, u64{0}}) {
    Store store = open(wanted);
    if (wanted != 0) EXPECT_EQ(base_of(store), reinterpret_cast<std::byte*>(wanted));
    else EXPECT_NE(base_of(store), made_at) << "it stays where it was last";
    check_graph(store, base_of(store), made_at);
    store.close();
  }
}

TEST_P(Relocation, AGraphMovesWhenItsPlaceIsTaken) {
  const std::byte* made_at = nullptr;
  {
    Store store = open();
    make_graph(store);
    made_at = base_of(store);
  }
  {
    const Squatter squatter(made_at + kMiB);
    Store store = open();
    EXPECT_NE(base_of(store), made_at);
    check_graph(store, base_of(store), made_at);
  }
}

// Which address pointers hold at is part of the version.
TEST_P(Relocation, IsUndoneByACrash) {
  const std::byte* made_at = nullptr;
  {
    Store store = open();
    make_graph(store);
    made_at = base_of(store);
  }
  const std::string uri = std::string(GetParam().scheme) + ":" + folder_.path("store");
  Options elsewhere = options(GetParam().tracking);
  elsewhere.region_address = 0x5530'0000'0000;
  WrappedStore(uri, elsewhere).crash();
  {
    WrappedStore store(uri, options(GetParam().tracking));
    EXPECT_EQ(store.runtime().region().base(),
              reinterpret_cast<std::byte*>(elsewhere.region_address));
    store.checkpoint();
    store.crash();
  }
  Store store = open();
  check_graph(store, base_of(store), made_at);
}

// What becomes durable by itself after a move, a root's object or a transaction, holds pointers of
// the new address. After a crash they lead where they led, at a third address as well.
TEST_P(Relocation, WhatIsDurableByItselfAfterAMoveIsMovedOnce) {
  const std::string uri = std::string(GetParam().scheme) + ":" + folder_.path("store");
  const auto make = [](WrappedStore& store, u64 number) {
    const auto operation = store.operation();
    auto* const made =
        static_cast<Lined*>(operation.allocate_flexible(type_of<Lined>(), sizeof(Lined)));
    operation.touch(made, sizeof *made);
    made->number = number;
    return made;
  };
  const auto set_next = [](WrappedStore& store, Lined* of, Lined* next) {
    if (store.runtime().region().aliases() == 0) {
      store.atomically([&](Transaction& tx) { tx.write(of->next, next); });
    } else {
      of->next = next;
      value_or_throw(store.runtime().checkpoint_root("first"));
    }
  };
  Options where = options(GetParam().tracking, GetParam().aliases);
  {
    WrappedStore store(uri, where);
    Lined* const first = make(store, 1);
    store.operation().set_root("first", first);
    Lined* const second = make(store, 2);
    second->next = make(store, 3);
    store.checkpoint();
    set_next(store, first, second);
    store.close();
  }
  where.region_address = 0x5520'0000'0000;
  {
    WrappedStore store(uri, where);
    auto* const first = static_cast<Lined*>(store.get_root("first"));
    set_next(store, first, first->next->next);
    store.crash();
  }
  where.region_address += 16 * kGiB;
  WrappedStore store(uri, where);
  const auto* const first = static_cast<const Lined*>(store.get_root("first"));
  EXPECT_EQ(first->number, 1);
  ASSERT_TRUE(store.runtime().region().contains(first->next));
  EXPECT_EQ(first->next->number, 3);
}

// Its block is not of the slab that operations allocate from, where no version has what they took.
TEST_P(Relocation, WhatATransactionMakesBesideOperationsHasItsType) {
  if (GetParam().aliases != 0) GTEST_SKIP() << "no transactions with aliases";
  constexpr u64 kMade = 20;
  const auto work = [&]() -> std::string {
    Store& store = *new Store(open());  // never closed: the process ends without a word
    auto& first = store.root<Lined>("first");
    atomically(store, [&](Transaction& tx) { tx.write(first.number, u64{0}); });
    Lined* last = &first;
    for (u64 i = 1; i <= kMade; ++i) {
      {
        const auto operation = store.operation();
        std::vector<void*> blocks;  // of some slabs, so that what is free was taken
        for (u64 each = 0; each < 2500; ++each)
          blocks.push_back(operation.allocate(type_of<Lined>()));
        for (void* const block : blocks) operation.deallocate(block);
      }
      Lined* made = nullptr;
      atomically(store, [&](Transaction& tx) {
        made = tx.make<Lined>(nullptr, i);
        tx.write(last->next, made);
      });
      last = made;
    }
    return "";
  };
  ASSERT_EQ(in_child(work), "");
  Store store = open(0x5520'0000'0000);
  EXPECT_TRUE(store.audit().clean) << store.audit().problem;
  const std::byte* const base = base_of(store);
  u64 number = 0;
  for (const Lined* each = &store.root<Lined>("first"); each != nullptr; each = each->next) {
    ASSERT_TRUE(store.contains(each)) << "after object " << number << ", region at " << base;
    ASSERT_EQ(each->number, number);
    ++number;
  }
  EXPECT_EQ(number, kMade + 1);
}

INSTANTIATE_TEST_SUITE_P(Ways, Relocation,
                         testing::Values(Way{"file", "file", Tracking::kReported, 0},
                                         Way{"file_pages", "file", Tracking::kAutomatic, 0},
                                         Way{"emu", "emu", Tracking::kReported, 0},
                                         Way{"emu_pages", "emu", Tracking::kAutomatic, 0},
                                         Way{"aliases", "emu", Tracking::kAutomatic, 2}),
                         [](const auto& info) { return std::string(info.param.name); });

class Typed : public testing::Test {
 protected:
  Store open() { return Store::open(folder_.path("store"), options(Tracking::kReported)); }
  const TempDir folder_{TempDir::kMemory};
};

TEST_F(Typed, UntypedBlocksStayWhereTheyAre) {
  const std::byte* base = nullptr;
  {
    Store store = open();
    make_graph(store);
    for (int i = 0; i < 3; ++i) store.set_root("plain" + std::to_string(i), store.allocate(100));
    base = base_of(store);
  }
  {
    const Squatter squatter(base + kMiB);
    expect_error([&] { open(); }, Code::kAddressTaken,
                 {"3 blocks", "no type record", "is taken by"});
  }
  Store store = open();
  check_graph(store, base_of(store), base);
  for (int i = 0; i < 3; ++i) {
    store.deallocate(store.get_root("plain" + std::to_string(i)));
    store.set_root("plain" + std::to_string(i), nullptr);
  }
  store.close();
  const Squatter squatter(base + kMiB);
  Store moved = open();
  check_graph(moved, base_of(moved), base);
}

// By less than the region's size, so that a pointer which was moved looks like one that was not.
TEST_F(Typed, AWordThatTwoSlotsNameMovesOnce) {
  Options moved = options(Tracking::kReported);
  {
    Store store = open();
    auto& first = store.root<Twice>("first");
    const auto op = store.operation();
    first.next = store.make<Twice>();
    first.next->next = &first;
    moved.region_address = reinterpret_cast<std::uintptr_t>(base_of(store)) + 16 * kMiB;
  }
  Store store = Store::open(folder_.path("store"), moved);
  auto& first = *store.find_root<Twice>("first");
  ASSERT_TRUE(store.contains(first.next));
  EXPECT_EQ(first.next->next, &first);
}

TEST_F(Typed, APointerMayCountUnlessItsTagHasAValue) {
  Options moved = options(Tracking::kReported);
  const std::byte* base = nullptr;
  {
    Store store = open();
    auto* const made = static_cast<Counted*>(store.allocate(type_of<Counted>(), 3));
    for (u32 i = 0; i < 3; ++i)
      made[i] = {i, i * 256, reinterpret_cast<char*>(&made[i])};  // more than a byte
    store.set_root("counted", made);
    base = base_of(store);
    moved.region_address = reinterpret_cast<std::uintptr_t>(base) + kGiB;
  }
  Store store = Store::open(folder_.path("store"), moved);
  auto* const found = static_cast<Counted*>(store.get_root("counted"));
  const auto offset = reinterpret_cast<std::byte*>(found) - base_of(store);
  EXPECT_EQ(reinterpret_cast<std::byte*>(found[0].text), base + offset);
  for (u32 i = 1; i < 3; ++i) EXPECT_EQ(found[i].text, reinterpret_cast<char*>(&found[i]));
  EXPECT_TRUE(store.audit().clean) << store.audit().problem;
}

TEST_F(Typed, ObjectsAreZero) {
  Store store = open();
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) {
    auto* words = static_cast<u64*>(store.allocate(type_of<Node>(), 5));
    for (u64 word = 0; word < store.usable_size(words) / sizeof(u64); ++word)
      ASSERT_EQ(words[word], 0);
    std::memset(static_cast<void*>(words), 0xee, store.usable_size(words));
    blocks.push_back(words);
    if (i % 3 == 0) {
      store.deallocate(blocks.front());
      blocks.erase(blocks.begin());
    }
  }
  EXPECT_TRUE(store.audit().clean);
  EXPECT_EQ(store.audit().types, 1);
}

TEST_F(Typed, MakeMakesTypedObjects) {
  Store store = open();
  auto& node = store.root<Node>("node");
  auto* plain = store.make<u64>(1);
  auto& heap = store.runtime().heap();
  EXPECT_TRUE(value_or_throw(heap.usable(&node)).typed);
  EXPECT_FALSE(value_or_throw(heap.usable(plain)).typed);
  store.destroy(plain);
}

TEST_F(Typed, FieldsOfPointersMoveToo) {
  {
    Store store = open();
    auto& first = store.root<Reporting>("list");
    const auto op = store.operation();
    first.next = store.make<Reporting>();
    first.next->number = 7;
    first.next.get()->next = &first;
  }
  Options moved = options(Tracking::kReported);
  moved.region_address = 0x554c'0000'0000;
  Store store = Store::open(folder_.path("store"), moved);
  auto& first = *store.find_root<Reporting>("list");
  EXPECT_EQ(first.next.get()->number, 7u);
  EXPECT_EQ(first.next.get()->next, &first);
}

// Growing, shrinking and growing again within a block must not bring old pointers back.
TEST_F(Typed, ReallocationKeepsTheTypeAndClearsTheRest) {
  Store store = open();
  auto* index = static_cast<Index*>(store.allocate_flexible(type_of<Index>(), sizeof(Index)));
  auto& heap = store.runtime().heap();
  for (const size_t count : {3, 400, 10, 6, 7, 50'000, 5}) {
    index = static_cast<Index*>(store.reallocate(index, sizeof(Index) + count * sizeof(Node*)));
    EXPECT_TRUE(value_or_throw(heap.usable(index)).typed);
    const u64 kept = index->count;
    const u64 words = (store.usable_size(index) - sizeof(Index)) / sizeof(Node*);
    for (u64 i = 0; i < words; ++i) {
      if (i < std::min<u64>(kept, count))
        ASSERT_EQ(index->nodes[i], reinterpret_cast<Node*>(i + 1));
      else ASSERT_EQ(index->nodes[i], nullptr) << i << " of " << count << " after " << kept;
    }
    store.touch(index, sizeof(Index) + count * sizeof(Node*));
    index->count = count;
    for (u64 i = 0; i < count; ++i) index->nodes[i] = reinterpret_cast<Node*>(i + 1);
  }
}

// What is less than an object would have pointers behind its end.
TEST_F(Typed, ReallocationLeavesAnObjectWhole) {
  Store store = open();
  auto* node = static_cast<Node*>(store.allocate(type_of<Node>(), 3));
  node->next = node;
  for (const size_t size : {size_t{1}, size_t{0}}) {
    node = static_cast<Node*>(store.reallocate(node, size));
    EXPECT_GE(store.usable_size(node), sizeof(Node));
    EXPECT_NE(node->next, nullptr);
  }
  auto* index = store.allocate_flexible(type_of<Index>(), sizeof(Index) + 50'000 * sizeof(Node*));
  index = store.reallocate(index, 0);
  EXPECT_EQ(store.usable_size(index), 16u);
  const HeapAudit audit = store.audit();
  EXPECT_TRUE(audit.clean) << audit.problem;
  store.deallocate(node);
  for (const size_t size : {sizeof(Node), size_t{100'000}})
    expect_error([&] { store.reallocate(node, size); }, Code::kMisuse, {"freed before"});
  EXPECT_EQ(store.audit().live_blocks, audit.live_blocks - 1);
}

// In an array their pointers would not be aligned; by themselves they are.
TEST_F(Typed, ObjectsOfPackedTypesAreSingle) {
  {
    Store store = open();
    expect_error([&] { store.allocate(type_of<Packed>(), 2); }, Code::kInvalidArgument,
                 {"'Packed'", "multiple of 8"});
    expect_error([&] { store.make<AroundPacked>(); }, Code::kInvalidArgument,
                 {"'AroundPacked'", "'packed'", "not aligned to 8 bytes"});
    store.root<Packed>("packed").number = 7;
    store.touch(store.find_root<Packed>("packed"), sizeof(Packed));
    store.close();
  }
  Store store = open();
  EXPECT_EQ(store.root<Packed>("packed").number, 7u);
  EXPECT_TRUE(store.audit().clean) << store.audit().problem;
}

TEST_F(Typed, AnAllocationThatFailsLeavesNoType) {
  Store store = open();
  expect_error([&] { store.allocate(type_of<Leaf>(), kGiB); }, Code::kNoSpace, {"limit"});
  HeapAudit audit = store.audit();
  EXPECT_EQ(audit.types, 0);
  EXPECT_EQ(audit.live_blocks, 0);
  store.make<Leaf>();
  audit = store.audit();
  EXPECT_EQ(audit.types, 2) << "with what it is made of";
  EXPECT_EQ(audit.live_blocks, 3) << "the object, its type, and its members";
  EXPECT_TRUE(audit.clean) << audit.problem;
}

// As a wild store to the tags would leave it. A walk over the type's pointers would leave the
// block.
TEST_F(Typed, ABlockThatIsSmallerThanItsTypeIsRefused) {
  const std::string uri = folder_.path("store");
  Options elsewhere = options(Tracking::kReported);
  const perdura_type leaf_alone = type_of<Leaf>();  // nothing is known of its members
  const perdura_type node_alone = type_of<Node>();
  {
    WrappedStore store(uri, elsewhere);
    {
      const auto op = store.operation();
      auto* leaf = static_cast<std::byte*>(op.allocate_flexible(leaf_alone, sizeof(Leaf)));
      op.deallocate(op.allocate_flexible(node_alone, sizeof(Node)));
      auto* const slab = reinterpret_cast<heap::Slab*>(
          leaf - reinterpret_cast<std::uintptr_t>(leaf) % format::kUnitBytes);
      const heap::ClassInfo& info = heap::kClassInfo[slab->header.size_class];
      const u64 index =
          static_cast<u64>(leaf - reinterpret_cast<std::byte*>(slab)) / info.block_bytes;
      u16& tag = slab->types(info)[index];
      ASSERT_EQ(tag, 3) << "of the first type, flexible";
      op.touch(&tag, sizeof tag);
      tag = 5;
    }
    store.checkpoint();
    const HeapAudit audit = store.audit();
    EXPECT_NE(audit.problem.find("smaller than an object"), audit.problem.npos) << audit.problem;
    store.crash();
  }
  elsewhere.region_address = 0x554c'0000'0000;
  expect_error([&] { Store::open(uri, elsewhere); }, Code::kCorrupt, {"smaller than an object"});
}

TEST_F(Typed, AnotherLayoutIsRefusedAndBothAreNamed) {
  const perdura_slot slots[] = {{"text", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0},
                                {"more", PERDURA_SLOT_POINTER, 16, 8, nullptr, 0, 0, 0}};
  const perdura_type larger{"Leaf", 24, 8, 2, slots};
  {
    Store store = open();
    store.root<Leaf>("leaf");
  }
  Store store = open();
  const std::vector<std::string> both = {"'Leaf'", "16 bytes; text at 0: pointer",
                                         "24 bytes; text at 0: pointer, more at 16: pointer"};
  expect_error([&] { store.expect_type(larger); }, Code::kTypeMismatch, both);
  expect_error([&] { store.allocate(larger); }, Code::kTypeMismatch, both);
  store.expect_type(type_of<Leaf>());
  store.expect_type(type_of<Node>());
  EXPECT_EQ(store.audit().types, 2) << "expected types are not added";
}

TEST_F(Typed, RecordsThatCannotBeAreRefused) {
  Store store = open();
  const perdura_type wrong{"Wrong", 0, 8, 0, nullptr};
  expect_error([&] { store.allocate(wrong); }, Code::kInvalidArgument, {"'Wrong'", "no size"});
  expect_error([&] { store.allocate(type_of<Node>(), ~u64{0} / 2); }, Code::kNoSpace,
               {"larger than the region"});
  EXPECT_EQ(store.audit().types, 0);
}

// A wild store of the program reaches the list of types and becomes durable with it.
TEST_F(Typed, DamagedTypesAreRefused) {
  using format::HeapHeader;
  using format::TypeNode;
  struct Tables {
    HeapHeader& header;
    TypeNode& node;
    heap::Slab& slab;  ///< that holds the typed block
  };
  struct Case {
    const char* name;
    void (*damage)(Tables);
  };
  const Case cases[] = {
      {"a list nowhere", [](Tables t) { t.header.types = 3; }},
      {"a list outside", [](Tables t) { t.header.types = ~u64{0} - 63; }},
      {"no list", [](Tables t) { t.header.types = 0; }},
      {"more types than there are", [](Tables t) { t.header.type_count = 2; }},
      {"more types than there can be", [](Tables t) { t.header.type_count = 1 << 20; }},
      {"a list without end", [](Tables t) { t.node.next = t.header.types; }},
      {"another number", [](Tables t) { t.node.number = 7; }},
      {"runs beyond the block", [](Tables t) { t.node.run_count = 1 << 30; }},
      {"a name beyond the block", [](Tables t) { t.node.name_length = 1 << 30; }},
      {"another size", [](Tables t) { t.node.size = 8; }},
      {"a pointer elsewhere",
       [](Tables t) { reinterpret_cast<format::PointerRun*>(&t.node + 1)->offset += 8; }},
      {"another fingerprint", [](Tables t) { t.node.fingerprint ^= 2; }},
      {"blocks of no known type",
       [](Tables t) {
         const heap::ClassInfo& info = heap::kClassInfo[t.slab.header.size_class];
         for (u32 i = 0; i < info.block_count; ++i) t.slab.types(info)[i] = 500;
       }},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const std::string uri = folder_.path("store" + std::to_string(&each - cases));
    const Options reported = options(Tracking::kReported);
    const perdura_type leaf_alone = type_of<Leaf>();  // nothing is known of its members
    {
      WrappedStore store(uri, reported);
      auto& runtime = store.runtime();
      const void* block = store.operation().allocate_flexible(leaf_alone, sizeof(Leaf));
      std::byte* const base = runtime.region().base();
      auto& header = *reinterpret_cast<HeapHeader*>(base);
      const u64 offset = static_cast<u64>(static_cast<const std::byte*>(block) - base);
      const u64 unit = (offset - header.data_begin) / format::kUnitBytes;
      {
        const auto op = store.operation();
        auto& node = *reinterpret_cast<TypeNode*>(base + header.types);
        auto& slab =
            *reinterpret_cast<heap::Slab*>(base + header.data_begin + unit * format::kUnitBytes);
        op.touch(&header, sizeof header);
        op.touch(&node, sizeof node + sizeof(format::PointerRun));
        op.touch(&slab, format::kUnitBytes);
        each.damage({header, node, slab});
      }
      store.checkpoint();
      store.crash();
    }
    {
      Store store = Store::open(uri, reported);
      EXPECT_FALSE(store.audit().clean);
      EXPECT_NE(store.audit().problem.find("type"), std::string::npos) << store.audit().problem;
    }
    Options moved = reported;
    moved.region_address = 0x5548'0000'0000;
    expect_error([&] { Store::open(uri, moved); }, Code::kCorrupt, {"type"});
  }
}

// A type is part of the version in which the first block has it.
TEST_F(Typed, TypesRollBackWithBlocks) {
  const std::string uri = folder_.path("store");
  {
    WrappedStore store(uri, options(Tracking::kReported));
    {
      auto& runtime = store.runtime();
      const auto op = store.operation();
      value_or_throw(
          runtime.heap().allocate_typed(runtime.mutators().this_thread(), type_of<Node>(), 1));
    }
    EXPECT_EQ(store.audit().types, 1);
    store.crash();
  }
  Store store = open();
  EXPECT_EQ(store.audit().types, 0);
  EXPECT_EQ(store.audit().live_blocks, 0);
}

TEST_F(Typed, TypesOfTheSameNameAndLayoutAreOne) {
  const perdura_slot slots[] = {{"x", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0}};
  const perdura_type twin{"Leaf", 16, 8, 1, slots};
  const perdura_type leaf_alone = type_of<Leaf>();  // nothing is known of its members
  Store store = open();
  store.allocate(leaf_alone);
  store.allocate(twin);
  EXPECT_EQ(store.audit().types, 1);
}

}  // namespace
}  // namespace perdura::test
