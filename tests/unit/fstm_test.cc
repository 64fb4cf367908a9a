// Goal: the calls of C inside an F-STM transaction are part of it, fail as they do outside, or wait
// for what they need; a thread that ends inside one leaves nothing of it; what was made before one
// that links it is there with the link after a crash. Method: a heap so small that what operations
// have given back is all there is; another thread that commits at a chosen place of a transaction,
// so that it begins again there; a child that is killed.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <perdura/compat/fstm.h>
#include <perdura/compat/heapo.h>
#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {

struct FstmNode {
  FstmNode* next;
  u64 key;
};

}  // namespace perdura::test

PERDURA_TYPE(perdura::test::FstmNode, next)

namespace {

struct Box {
  std::uint64_t word;
  Box* next;
};

}  // namespace

PERDURA_TYPE(Box, next)

namespace perdura::test {
namespace {

/// A list in a heap. Each node is made before the transaction that links it.
class List : public testing::TestWithParam<const char*> {
 protected:
  static constexpr const char* kHeap = "list";

  void SetUp() override {
    const std::string uri = GetParam() + folder_.path("own.pd");
    ASSERT_EQ(::setenv("PERDURA_STORE", uri.c_str(), 1), 0);
  }
  static u64* map() {
    auto* head = static_cast<u64*>(pos_map(kHeap));
    if (head == nullptr && perdura_last_code() == PERDURA_NOT_FOUND)
      head = static_cast<u64*>(pos_create(kHeap));
    return head;
  }
  static bool insert(u64* head, u64 key) {
    auto* const node = static_cast<FstmNode*>(pos_malloc(kHeap, sizeof(FstmNode)));
    if (node == nullptr) return false;
    node->key = key;
    TM_START
    TM_STORE(&node->next, TM_LOAD(head));
    TM_STORE(head, node);
    TM_COMMIT
    return true;
  }
  /// Of keys as they come, until it is killed.
  static std::string insert_all(ToldProcess::Ends ends) {
    u64* const head = map();
    if (head == nullptr) return perdura_last_error();
    for (u64 key = 0; ::read(ends.orders, &key, sizeof key) == sizeof key;) {
      if (!insert(head, key)) return perdura_last_error();
      if (::write(ends.replies, &key, sizeof key) != sizeof key) return "nobody listens";
    }
    return "was told nothing more";
  }
  /// What is wrong where these have returned, and one more may have happened; or "".
  static std::string problem_of(u64 inserted) {
    const u64* const head = map();
    if (head == nullptr) return perdura_last_error();
    std::vector<FstmNode*> nodes;
    for (auto* node = reinterpret_cast<FstmNode*>(*head); node != nullptr; node = node->next) {
      if (nodes.size() > inserted) return "there are too many nodes";
      nodes.push_back(node);
    }
    if (nodes.size() < inserted)
      return std::to_string(nodes.size()) + " of " + std::to_string(inserted) + " nodes are there";
    for (u64 i = 0; i < nodes.size(); ++i)
      if (nodes[i]->key != nodes.size() - i) return "a node is another one";
    for (FstmNode* const node : nodes)
      if (pos_free(kHeap, node) != 0) return perdura_last_error();
    return "";
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(List, HasWhatATransactionLinkedWithTheLink) {
  for (const u64 inserted : {0, 1, 2, 30}) {
    SCOPED_TRACE(inserted);
    ToldProcess child(&insert_all);
    for (u64 key = 1; key <= inserted; ++key) {
      u64 reply = 0;
      child.order(key);
      ASSERT_TRUE(child.get(reply)) << child.wait();
    }
    child.order(inserted + 1);
    EXPECT_EQ(child.kill(), "");
    EXPECT_EQ(in_child([&] { return problem_of(inserted); }), "");
    std::filesystem::remove(folder_.path("own.pd-list"));
  }
}

INSTANTIATE_TEST_SUITE_P(Media, List, testing::Values("emu:", "file:"));

class SmallHeap : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::setenv("PERDURA_STORE", ("emu:" + folder_.path("own.pd")).c_str(), 1), 0);
    Options options;
    options.region_limit_bytes = 4 * kMiB;
    Store::open("emu:" + folder_.path("own.pd-small"), options).close();
    first_ = static_cast<u64*>(pos_map("small"));
    ASSERT_NE(first_, nullptr) << perdura_last_error();
  }
  void TearDown() override { EXPECT_EQ(pos_unmap("small"), 0) << perdura_last_error(); }
  static std::vector<void*> fill() {
    std::vector<void*> blocks;
    while (void* const block = pos_malloc("small", kBlockBytes)) blocks.push_back(block);
    EXPECT_EQ(perdura_last_code(), PERDURA_NO_SPACE);
    return blocks;
  }
  /// Makes a transaction that stores what it is given.
  void store(u64 value) {
    TM_START
    TM_STORE(first_, value);
    TM_COMMIT
  }

  static constexpr u64 kBlockBytes = 200'000;
  const TempDir folder_{TempDir::kMemory};
  u64* first_ = nullptr;
};

// No version has yet what operations gave back, and transactions get it once one has.
TEST_F(SmallHeap, GivesATransactionWhatOperationsGaveBack) {
  store(1);
  for (void* const block : fill()) ASSERT_EQ(pos_free("small", block), 0);
  TM_START
  void* const block = pos_malloc("small", kBlockBytes);
  TM_STORE(first_, block);
  TM_COMMIT
  ASSERT_NE(*first_, 0u) << perdura_last_error();
  EXPECT_EQ(pos_free("small", reinterpret_cast<void*>(*first_)), 0);
}

TEST_F(SmallHeap, TellsATransactionWhatItsCallsCannotDo) {
  store(1);
  const std::vector<void*> blocks = fill();
  volatile int refused = 0;
  TM_START
  TM_STORE(first_, 2);
  if (pos_malloc("small", kBlockBytes) == nullptr) refused = refused + 1;
  if (pos_free("small", first_ + 1) != 0) refused = refused + 1;
  TM_COMMIT
  EXPECT_GE(refused, 2);
  EXPECT_EQ(*first_, 2u);
  EXPECT_EQ(blocks.empty(), false);
}

// A point of it moves what its words lead to, and would not know of these.
TEST(ContainersInTransactions, AreRefused) {
  const TempDir folder{TempDir::kMemory};
  const auto store_into_container = [&] {
    Container container = Container::open("emu:" + folder.path("container.pd"));
    u64& word = container.root<Box>().word;
    TM_START
    TM_STORE(&word, 1);
    TM_COMMIT
  };
  EXPECT_DEATH(store_into_container(), "is a container.*transactions need a store");
}

// It is one also for who has opened it as a store.
TEST(ContainersInTransactions, AreRefusedWhereTheyAreOpenedAsStores) {
  const TempDir folder{TempDir::kMemory};
  const std::string uri = "emu:" + folder.path("container.pd");
  {
    Container container = Container::open(uri);
    container.root<Box>().word = 1;
  }
  Store store = Store::open(uri);
  expect_error([&] { atomically(store, [](Transaction&) {}); }, Code::kUnsupported,
               "is a container");
}

/// A store that was opened in C, and one of HEAPO's heaps.
class CallsOfC : public testing::Test {
 protected:
  /// Each in lines of its own: transactions that use different ones do not meet.
  struct Words {
    alignas(64) u64 count;
    alignas(64) u64* block;
    alignas(64) u64 runs;
  };
  void SetUp() override {
    ASSERT_EQ(::setenv("PERDURA_STORE", ("emu:" + folder_.path("own.pd")).c_str(), 1), 0);
    perdura_options options{};
    options.region_limit_bytes = 4 * kMiB;
    ASSERT_EQ(perdura_open(("emu:" + folder_.path("store.pd")).c_str(), &options, &store_), 0)
        << perdura_last_error();
    words_ = static_cast<Words*>(perdura_aligned_alloc(store_, alignof(Words), sizeof *words_));
    *words_ = {};
    words_->block = static_cast<u64*>(perdura_alloc(store_, sizeof *words_->block));
    ASSERT_EQ(perdura_root_set(store_, "words", words_), 0);
    ASSERT_EQ(perdura_checkpoint(store_, nullptr), 0);
    heap_ = static_cast<u64*>(pos_create("heap"));
    ASSERT_NE(heap_, nullptr) << perdura_last_error();
    add(0);
    store(heap_, 0);
  }
  void TearDown() override {
    ASSERT_EQ(pos_delete("heap"), 0) << perdura_last_error();
    ASSERT_EQ(perdura_close(store_), 0) << perdura_last_error();
  }

  static void store(u64* word, u64 value) {
    TM_START
    TM_STORE(word, value);
    TM_COMMIT
  }
  void add(u64 value) const {
    TM_START
    TM_STORE(&words_->count, TM_LOAD(&words_->count) + value);
    TM_COMMIT
  }
  /// Changes what transactions of this thread have read: they begin again.
  void add_in_another_thread() const { std::thread(&CallsOfC::add, this, 10).join(); }
  /// Not inlined: what a function with TM_START has in variables may be lost.
  [[gnu::noinline]] void expect_that_a_child_has_its_own() const {
    EXPECT_EQ(in_child([&]() -> std::string {
                perdura_store* own = nullptr;
                if (perdura_open(("emu:" + folder_.path("child.pd")).c_str(), nullptr, &own) != 0)
                  return perdura_last_error();
                auto* const word = static_cast<u64*>(perdura_alloc(own, sizeof(u64)));
                store(word, 7);
                if (*word != 7) return "it did not store";
                return perdura_close(own) == 0 ? "" : perdura_last_error();
              }),
              "");
  }

  const TempDir folder_{TempDir::kMemory};
  perdura_store* store_ = nullptr;
  Words* words_ = nullptr;
  u64* heap_ = nullptr;
};

TEST_F(CallsOfC, MakeTheFirstObjectOfATypeInATransaction) {
  volatile int runs = 0;
  TM_START
  runs = runs + 1;
  TM_STORE(&words_->count, TM_LOAD(&words_->count) + 1);
  void* const node = perdura_alloc_typed(store_, &TypeRecord<FstmNode>::value, 1);
  TM_STORE(&words_->block, node);
  TM_COMMIT
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(words_->count, 1u);
  EXPECT_NE(words_->block, nullptr);
}

// What it gives back another one has stored to since it has read the way there.
TEST_F(CallsOfC, BeginTheTransactionAgainThatMeetsOthers) {
  volatile int runs = 0;
  TM_START
  runs = runs + 1;
  TM_STORE(&words_->count, TM_LOAD(&words_->count) + 1);
  u64* const block = reinterpret_cast<u64*>(TM_LOAD(&words_->block));
  if (runs == 1)
    std::thread([&] {
      store(block, 5);
      store(reinterpret_cast<u64*>(&words_->block), reinterpret_cast<std::uintptr_t>(block));
    }).join();
  EXPECT_EQ(perdura_free(store_, block), 0) << perdura_last_error();
  TM_STORE(&words_->block, nullptr);
  TM_COMMIT
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(words_->count, 1u);
  EXPECT_EQ(words_->block, nullptr);
}

// Also before its first word: else a block would be left for each time it begins again.
TEST_F(CallsOfC, AllocateForTheTransactionThatBeginsWithThem) {
  std::array<void*, 2> blocks{};
  volatile int runs = 0;
  TM_START
  runs = runs + 1;
  void* const block = perdura_alloc(store_, 64);
  blocks[static_cast<size_t>(runs - 1) % 2] = block;
  const u64 count = TM_LOAD(&words_->count);
  if (runs == 1) add_in_another_thread();
  TM_STORE(&words_->count, count + 1);
  TM_STORE(&words_->block, block);
  TM_COMMIT
  ASSERT_EQ(runs, 2);
  EXPECT_EQ(words_->count, 11u);
  EXPECT_EQ(blocks[0], blocks[1]) << "the first one was not given back";
}

TEST_F(CallsOfC, EndNoOperationThatIsATransaction) {
  TM_START
  TM_STORE(&words_->count, 1);
  ASSERT_EQ(perdura_operation_begin(store_), 0);
  perdura_operation_end(store_);
  perdura_operation_end(store_);
  ASSERT_EQ(perdura_last_code(), PERDURA_MISUSE) << "the transaction's own was ended";
  TM_COMMIT
  EXPECT_EQ(words_->count, 1u);
  EXPECT_EQ(perdura_checkpoint(store_, nullptr), 0) << perdura_last_error();
}

TEST_F(CallsOfC, UnmapAndDeleteNoHeapInATransaction) {
  TM_START
  TM_STORE(heap_, 2);
  ASSERT_EQ(pos_unmap("heap"), -PERDURA_MISUSE);
  ASSERT_EQ(pos_delete("heap"), -PERDURA_MISUSE);
  TM_COMMIT
  EXPECT_EQ(*heap_, 2u);
  store(heap_, 3);
  ASSERT_EQ(pos_unmap("heap"), 0) << perdura_last_error();
  heap_ = static_cast<u64*>(pos_map("heap"));
  ASSERT_NE(heap_, nullptr) << perdura_last_error();
  EXPECT_EQ(*heap_, 3u);
}

// The next thread has its place in the store.
TEST_F(CallsOfC, LeaveNothingOfAThreadThatEndsInATransaction) {
  std::thread([&] {
    TM_START
    TM_STORE(&words_->count, 1000);
    TM_STORE(&words_->block, perdura_alloc(store_, 64));
  }).join();
  std::thread([&] { store(&words_->runs, 1); }).join();
  ASSERT_EQ(words_->count, 0u);
  ASSERT_NE(words_->block, nullptr);
  add(1);
  add_in_another_thread();
  EXPECT_EQ(words_->count, 11u);
}

TEST_F(CallsOfC, LetOthersGoOnWhereAThreadEndsThatRunsAlone) {
  constexpr int kRunsTogether = 32;
  std::atomic<int> runs = 0;
  std::thread([&] {
    TM_START
    const u64 count = TM_LOAD(&words_->count);
    if (++runs <= kRunsTogether) add_in_another_thread();
    TM_STORE(&words_->count, count + 1000);
  }).join();
  EXPECT_EQ(runs, kRunsTogether + 1);
  add(1);
  EXPECT_EQ(words_->count, u64{10} * kRunsTogether + 1);
  EXPECT_EQ(perdura_checkpoint(store_, nullptr), 0) << perdura_last_error();
}

// It is in the transaction of a store that is its parent's. ThreadSanitizer cannot follow threads
// started in the child of a process with threads.
#if !defined(__SANITIZE_THREAD__)
TEST_F(CallsOfC, BeginATransactionInAChildThatWasForkedInsideOne) {
  TM_START
  TM_STORE(&words_->count, 1);
  expect_that_a_child_has_its_own();
  TM_COMMIT
  EXPECT_EQ(words_->count, 1u);
}
#endif

}  // namespace
}  // namespace perdura::test
