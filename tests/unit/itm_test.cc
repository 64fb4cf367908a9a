// Goal: what GCC compiles with -fgnu-tm is a durable transaction of the store whose words it uses:
// of all types of words, with its blocks and exceptions, whole or not at all; memory outside of
// stores is isolated and undone with it; what could not be undone ends the program with a sentence.
// Method: the functions of tests/itm/, which GCC compiles so; what they call in their bodies
// commits in another thread at a chosen place, so that they begin again there; children that end
// without closing the store, which is opened again then.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <perdura/compat/fstm.h>
#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "itm/transactions.h"
#include "support/files.hpp"
#include "support/process.hpp"

extern "C" {
int _ITM_versionCompatible(int version);
int _ITM_getThreadnum();
const char* _ITM_libraryVersion();
std::uint32_t _ITM_inTransaction();
std::uint64_t _ITM_getTransactionId();
}

namespace perdura::test {
namespace {

/// What a body calls, as long as this lives: at first, or each time.
class InBody {
 public:
  explicit InBody(std::function<void(int run)> call) {
    call_ = std::move(call);
    runs_ = 0;
    itm_in_body = [] { call_(++runs_); };
  }
  ~InBody() { itm_in_body = nullptr; }
  InBody(const InBody&) = delete;
  static int runs() { return runs_; }

 private:
  static inline std::function<void(int run)> call_;
  static inline int runs_ = 0;
};

/// Another thread changes a word of the store that the body has read, when it runs first, or calls
/// for the `at`th time.
InBody with_another_thread(u64* word, u64 value, int at = 1) {
  return InBody([=](int run) {
    if (run == at) std::thread(itm_store, word, value).join();
  });
}

Store open(const std::string& uri) {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.log_limit_bytes = 2 * kMiB;
  options.log_segment_bytes = 128 * kKiB;
  return Store::open(uri, options);
}

root& root_of(Store& store) {
  if (void* const found = store.get_root("root")) return *static_cast<root*>(found);
  void* const made = store.allocate(sizeof(root), 64);
  std::memset(made, 0, sizeof(root));
  store.set_root("root", made);
  store.checkpoint();
  return *static_cast<root*>(made);
}

/// On both kinds of media, with what is new or what was there kept aside.
struct Way {
  const char* name;
  const char* scheme;
  perdura_fstm_logging logging;
};

class Itm : public testing::TestWithParam<Way> {
 protected:
  Itm() : folder_(std::string(GetParam().scheme) == "emu:" ? TempDir::kMemory : TempDir::kDisk) {
    open_again();
    itm_head = nullptr;
    itm_count = 0;
    std::memset(static_cast<void*>(&itm_fields), 0, sizeof itm_fields);
    std::memset(itm_accounts, 0, sizeof itm_accounts);
  }
  std::string uri() const { return GetParam().scheme + folder_.path("store.pd"); }
  void open_again() {
    store_.reset();
    store_.emplace(open(uri()));
    root_ = &root_of(*store_);
    ASSERT_EQ(perdura_fstm_configure(root_, PERDURA_FSTM_NON_TEMPORAL, GetParam().logging), 0);
  }
  /// What `change` does in a child, which ends without closing the store.
  void in_child_that_ends(const std::function<void()>& change) {
    store_.reset();
    EXPECT_EQ(in_child([&]() -> std::string {
                open_again();
                change();
                ::_exit(0);
              }),
              "");
    open_again();
  }
  u64 blocks() const {
    const HeapAudit audit = store_->audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
    return audit.live_blocks;
  }

  const TempDir folder_;
  std::optional<Store> store_;
  root* root_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Media, Itm,
                         testing::Values(Way{"emu", "emu:", PERDURA_FSTM_REDO},
                                         Way{"emu_undo", "emu:", PERDURA_FSTM_UNDO},
                                         Way{"file", "file:", PERDURA_FSTM_REDO},
                                         Way{"file_undo", "file:", PERDURA_FSTM_UNDO}),
                         [](const auto& info) { return std::string(info.param.name); });

/// Each field another value, and all that lies beside them too.
fields some_fields(int seed) {
  fields made;
  std::memset(static_cast<void*>(&made), seed, sizeof made);
  made.f = 1.5f + static_cast<float>(seed);
  made.after_f = 7;
  made.d = 2.5 + seed;
  made.e = 3.5L + seed;
  __real__ made.cf = 4;
  __imag__ made.cf = 5;
  __real__ made.cd = 6;
  __imag__ made.cd = 7;
  __real__ made.ce = 8;
  __imag__ made.ce = 9;
  made.m64 = _mm_set1_pi8(static_cast<char>(seed + 1));
  made.m128 = _mm_set1_ps(static_cast<float>(seed + 2));
  return made;
}

/// What itm_copy_fields makes of `to`.
void expect_copied(const fields& found, const fields& to, const fields& from) {
  EXPECT_EQ(found.u1, from.u1 ^ 1);
  EXPECT_EQ(found.u2, from.u2 ^ 1);
  EXPECT_EQ(found.u4, from.u4 ^ 1);
  EXPECT_EQ(found.u8, from.u8 ^ 1);
  EXPECT_EQ(found.f, from.f + 1);
  EXPECT_EQ(found.d, from.d + 1);
  EXPECT_EQ(found.e, from.e + 1);
  EXPECT_TRUE(found.cf == from.cf + 1.0f);
  EXPECT_TRUE(found.cd == from.cd + 1.0);
  EXPECT_TRUE(found.ce == from.ce + 1.0L);
  const __m64 changed = _mm_xor_si64(from.m64, _mm_set1_pi8(1));
  EXPECT_EQ(std::memcmp(&found.m64, &changed, sizeof changed), 0);
  const __m128 added = _mm_add_ps(from.m128, _mm_set1_ps(1));
  EXPECT_EQ(std::memcmp(&found.m128, &added, sizeof added), 0);
  EXPECT_EQ(found.before1, to.before1);
  EXPECT_EQ(found.after1, to.after1);
  EXPECT_EQ(found.after2, to.after2);
  EXPECT_EQ(found.after4, to.after4);
  EXPECT_EQ(found.after_f, to.after_f);
  EXPECT_EQ(std::memcmp(found.bytes, to.bytes, sizeof to.bytes), 0);
}

TEST_P(Itm, LoadsAndStoresWordsOfAllTypes) {
  const fields to = some_fields(1), from = some_fields(2);
  in_child_that_ends([&] {
    root_->fields = to;
    store_->checkpoint();
    itm_copy_fields(&root_->fields, &from);
  });
  expect_copied(root_->fields, to, from);
  const fields now = root_->fields;
  itm_fields = to;
  itm_copy_fields(&itm_fields, &root_->fields);
  expect_copied(itm_fields, to, now);
  fields local = to;
  itm_copy_fields(&local, &from);
  expect_copied(local, to, from);
}

// Where it meets another one all types are undone, and done once.
TEST_P(Itm, UndoesWordsOfAllTypes) {
  const fields to = some_fields(1), from = some_fields(2);
  for (fields* const place : {&root_->fields, &itm_fields}) {
    *place = to;
    fields source = from;
    std::thread other;
    // Who stores outside of the store returns when the body has ended, so it is not joined there.
    const InBody meets([&](int run) {
      if (run != 1) return;
      other = std::thread(itm_store, &source.u8, 77);
      while (std::atomic_ref(source.u8).load() != 77) std::this_thread::yield();
    });
    itm_copy_fields(place, &source);
    other.join();
    EXPECT_EQ(InBody::runs(), 2);
    fields changed = from;
    changed.u8 = 77;
    expect_copied(*place, to, changed);
  }
}

TEST_P(Itm, LoadsAndStoresWideWords) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "the processor has no AVX";
  alignas(32) std::array<float, 8> from;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  auto* const place = reinterpret_cast<std::byte*>(root_->words);
  auto* const to = place + (64 - reinterpret_cast<std::uintptr_t>(place) % 64);
  itm_copy_wide(to, from.data());
  std::array<float, 8> found;
  std::memcpy(&found, to, sizeof found);
  for (size_t i = 0; i < from.size(); ++i) EXPECT_EQ(found[i], 2 * from[i]);
}

TEST_P(Itm, LoadsAndStoresWordsThatAreNotAligned) {
  std::array<std::byte, 64> from;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i + 1);
  auto* const in_store = reinterpret_cast<std::byte*>(root_->words);
  std::array<std::byte, 64> outside{};
  for (std::byte* const to : {in_store, outside.data()})
    for (size_t at = 0; at < 32; ++at) {
      std::memset(to, 0, 64);
      itm_copy_packed(to + at, from.data() + at / 2);
      std::array<std::byte, 64> expected{};
      std::memcpy(expected.data() + at + 1, from.data() + at / 2 + 1, 22);
      ASSERT_EQ(std::memcmp(to, expected.data(), 64), 0) << "at " << at;
    }
}

// Against the same calls without transactions, between all sorts of places.
TEST_P(Itm, CopiesAnyBytes) {
  constexpr size_t kBytes = 3000;
  auto* const in_store = static_cast<std::byte*>(store_->allocate(kBytes));
  std::vector<std::byte> outside(kBytes), model_in_store(kBytes), model_outside(kBytes);
  std::mt19937 random(1);
  for (size_t i = 0; i < kBytes; ++i)
    in_store[i] = model_in_store[i] = outside[i] = model_outside[i] =
        static_cast<std::byte>(random());
  store_->checkpoint();
  for (int i = 0; i < 400; ++i) {
    const size_t length = random() % (i % 4 == 0 ? kBytes : 40);
    const size_t to = random() % (kBytes - length), from = random() % (kBytes - length);
    const auto places = [&](std::byte* one, std::byte* other) {
      std::byte* const target = i % 2 == 0 ? one : other;
      std::byte* const source = i / 2 % 2 == 0 ? one : other;
      return std::pair(target + to, source + from);
    };
    const auto [target, source] = places(in_store, outside.data());
    const auto [model_target, model_source] = places(model_in_store.data(), model_outside.data());
    if (random() % 3 == 0) {
      itm_memset(target, i, length);
      std::memset(model_target, i, length);
    } else if (i % 2 != i / 2 % 2 && random() % 2 == 0) {
      itm_memcpy(target, source, length);
      std::memcpy(model_target, model_source, length);
    } else {
      itm_memmove(target, source, length);
      std::memmove(model_target, model_source, length);
    }
    ASSERT_EQ(std::memcmp(in_store, model_in_store.data(), kBytes), 0) << i;
    ASSERT_EQ(std::memcmp(outside.data(), model_outside.data(), kBytes), 0) << i;
  }
}

// --- durable -------------------------------------------------------------------------------------

// All that had returned, and nothing of what was undone.
TEST_P(Itm, IsDurableWhenItReturns) {
  const u64 before = blocks();
  in_child_that_ends([&] {
    for (u64 key = 1; key <= 50; ++key) itm_push(&root_->head, &root_->count, key);
    for (int i = 0; i < 20; ++i) itm_pop(&root_->head, &root_->count);
    itm_push_cleared(&root_->head, &root_->count);
    if (itm_cancel(root_) != 0) std::abort();
  });
  EXPECT_EQ(root_->count, 31u);
  const node* each = root_->head;
  EXPECT_EQ(each->key, 0u);
  for (u64 key = 30; key != 0; --key) {
    each = each->next;
    ASSERT_NE(each, nullptr);
    EXPECT_EQ(each->key, key);
    for (const u64 word : each->words) EXPECT_EQ(word, key);
  }
  EXPECT_EQ(each->next, nullptr);
  EXPECT_EQ(blocks(), before + 31);
}

TEST_P(Itm, WithoutDurabilityIsInTheNextVersion) {
  in_child_that_ends([&] {
    ASSERT_EQ(perdura_fstm_configure(root_, PERDURA_FSTM_NONE, GetParam().logging), 0);
    itm_add(&root_->count, 1);
    store_->checkpoint();
    itm_add(&root_->count, 1);
  });
  EXPECT_EQ(root_->count, 1u);
}

// --- undone --------------------------------------------------------------------------------------

TEST_P(Itm, CancelsAllOfIt) {
  node* const first = itm_push(&root_->head, &root_->count, 7);
  const u64 before = blocks();
  std::memset(itm_accounts, 1, sizeof itm_accounts);
  EXPECT_EQ(itm_cancel(root_), 0);
  EXPECT_EQ(root_->count, 1u);
  EXPECT_EQ(root_->head, first);
  EXPECT_EQ(first->key, 7u);
  EXPECT_EQ(first->next, nullptr);
  for (const u64 word : root_->words) EXPECT_EQ(word, 0u);
  EXPECT_EQ(itm_count, 0u);
  for (const std::int64_t account : itm_accounts) EXPECT_EQ(account, 0x0101010101010101);
  EXPECT_EQ(blocks(), before);
}

TEST_P(Itm, CancelsWhatIsInsideAlone) {
  const auto expect = [&](u64 outer, u64 inner, u64 after) {
    EXPECT_EQ(root_->words[0], outer);
    EXPECT_EQ(itm_count, outer);
    EXPECT_EQ(root_->words[1], inner);
    EXPECT_EQ(root_->words[2], inner);
    EXPECT_EQ(root_->words[3], after);
  };
  itm_nested(root_, kItmNone);
  expect(11, 1, 1);
  itm_nested(root_, kItmInner);
  expect(12, 1, 2);
  itm_nested(root_, kItmOuter);
  expect(12, 1, 2);
}

// GCC may have what it knows of a word on one way to here, and load the word on the other one.
TEST_P(Itm, LoadsWhatATransactionInsideHasStored) {
  for (u64* const word : {&root_->words[0], &itm_count}) {
    itm_nested_word(word, 0);
    EXPECT_EQ(*word, 111u);
    itm_nested_word(word, 1);
    EXPECT_EQ(*word, 212u);
  }
}

TEST_P(Itm, CancelsBlocksOfWhatIsInside) {
  const u64 before = blocks();
  itm_nested_blocks(root_, 1);
  EXPECT_EQ(root_->head->key, 1u);
  EXPECT_EQ(root_->head->next, nullptr);
  EXPECT_EQ(blocks(), before + 1);
  itm_nested_blocks(root_, 0);
  EXPECT_EQ(root_->head->key, 2u);
  EXPECT_EQ(root_->head->next->key, 3u);
  EXPECT_EQ(blocks(), before + 3);
}

// Its variables, registers among them, the blocks that it has allocated, memory outside.
TEST_P(Itm, BeginsAgainAsIfItHadNotRun) {
  const u64 before = blocks();
  {
    const InBody meets = with_another_thread(&root_->words[0], 100);
    EXPECT_EQ(itm_begin_again(root_), 1);
    EXPECT_EQ(InBody::runs(), 2);
  }
  EXPECT_EQ(root_->count, 1u);
  EXPECT_EQ(itm_count, 1u);
  EXPECT_EQ(blocks(), before + 1);
  EXPECT_EQ(root_->head->next, nullptr);
}

// Those that it met 32 times cannot begin then, in the store or outside.
TEST_P(Itm, RunsAloneWhenItHasBegunAgain32Times) {
  u64* const word = &root_->words[0];
  std::thread in_store, outside;
  {
    const InBody meets([&](int run) {
      if (run <= 32) return std::thread(itm_store, word, run).join();
      std::atomic<bool> begins{false};
      in_store = std::thread(itm_store, word, 1000);
      outside = std::thread([&] {
        begins = true;
        itm_store(&itm_count, 1000);
      });
      while (!begins) std::this_thread::yield();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      EXPECT_EQ(std::atomic_ref(itm_count).load(), 0u);
    });
    EXPECT_EQ(itm_add(word, 5), 37u);
    EXPECT_EQ(InBody::runs(), 33);
  }
  in_store.join();
  outside.join();
  EXPECT_EQ(*word, 1000u);
  EXPECT_EQ(itm_count, 1000u);
}

// --- isolated ------------------------------------------------------------------------------------

// Accounts in the store and outside, between which money moves: each sum is taken in another order
// than it moves in, and an aborted body looks at its sum as well.
TEST_P(Itm, SeesNoMixOfStoreAndOutside) {
  constexpr size_t kAccounts = 64;
  constexpr int kTransfers = 5000;
  ASSERT_EQ(perdura_fstm_configure(root_, PERDURA_FSTM_RELAXED, GetParam().logging), 0);
  std::atomic<int> moving{2};
  const auto move = [&](unsigned seed) {
    std::mt19937 random(seed);
    const auto account = [&]() -> std::int64_t* {
      const size_t index = random() % (2 * kAccounts);
      return index < kAccounts ? &root_->accounts[index] : &itm_accounts[index - kAccounts];
    };
    for (int i = 0; i < kTransfers; ++i) {
      std::int64_t* const from = account();
      itm_transfer(from, account(), random() % 100);
    }
    --moving;
  };
  std::thread first(move, 1), second(move, 2);
  u64 sums = 0;
  while (moving != 0 || sums == 0) {
    ASSERT_EQ(itm_sum(root_->accounts, itm_accounts, kAccounts), 0);
    ++sums;
  }
  first.join();
  second.join();
  EXPECT_EQ(itm_sum(root_->accounts, itm_accounts, kAccounts), 0);
}

// One stores in the store what it has not seen outside, the other one the other way round: if each
// ran before the other, both would.
TEST_P(Itm, OrdersStoresInTheStoreAndOutside) {
  constexpr u64 kRounds = 4000;
  ASSERT_EQ(perdura_fstm_configure(root_, PERDURA_FSTM_RELAXED, GetParam().logging), 0);
  std::atomic<u64> begun{0}, ended{0};
  std::thread other([&] {
    for (u64 round = 1; round <= kRounds; ++round) {
      while (begun.load() < round) std::this_thread::yield();
      itm_store_if_none(&itm_count, &root_->count);
      ended = round;
    }
  });
  u64 both = 0;
  for (u64 round = 1; round <= kRounds; ++round) {
    begun = round;
    itm_store_if_none(&root_->count, &itm_count);
    while (ended.load() < round) std::this_thread::yield();
    both += root_->count + itm_count - 1;
    itm_store(&root_->count, 0);
    itm_store(&itm_count, 0);
  }
  other.join();
  EXPECT_EQ(both, 0u);
}

// What is not in a store is written in place: nobody else sees it before the commit.
TEST_P(Itm, HidesWhatIsOutsideUntilItCommits) {
  std::atomic<u64> seen{0};
  std::thread other;
  {
    const InBody looks([&](int run) {
      if (run != 1) return;
      other = std::thread([&] { seen = itm_add(&itm_count, 0); });
    });
    itm_actions(&itm_count, &root_->count, 0);
  }
  other.join();
  EXPECT_TRUE(seen == 0 || seen == 2) << seen;
  EXPECT_EQ(itm_count, 2u);
}

// Who has taken it out of what is shared may use it without a transaction when that has returned:
// one that still has a pointer to it has ended by then, and what it stored there is undone.
TEST_P(Itm, LeavesWhatATransactionTookToItsThread) {
  node own{};
  itm_store(reinterpret_cast<u64*>(&itm_head), reinterpret_cast<std::uintptr_t>(&own));
  std::atomic<bool> returned{false};
  bool early = false;
  node found{};
  std::thread taker;
  {
    const InBody has_a_pointer([&](int run) {
      if (run != 1) return;
      taker = std::thread([&] {
        itm_take(&itm_head);
        returned = true;
        found = own;
      });
      while (std::atomic_ref(itm_head).load() != nullptr) std::this_thread::yield();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      early = returned;
    });
    itm_use_first(&itm_head);
  }
  taker.join();
  EXPECT_FALSE(early);
  for (const u64 word : found.words) EXPECT_EQ(word, 0u);
}

// --- blocks of C++, and exceptions ---------------------------------------------------------------

TEST_P(Itm, NewAndDeleteAreOfTheStore) {
  const u64 before = blocks();
  in_child_that_ends([&] {
    itm_new(&root_->head);
    itm_new(&root_->head);
    itm_delete(&root_->head);
    itm_new_array(reinterpret_cast<u64**>(&root_->count));
  });
  EXPECT_EQ(blocks(), before + 2);
  EXPECT_EQ(root_->head->key, 5u);
  const u64* const array = reinterpret_cast<u64*>(root_->count);
  for (u64 i = 0; i < kItmArray; ++i) EXPECT_EQ(array[i], i);
  itm_delete_array(reinterpret_cast<u64**>(&root_->count));
  itm_delete(&root_->head);
  EXPECT_EQ(blocks(), before);
}

TEST_P(Itm, MallocSaysThatThereIsNoRoom) {
  EXPECT_EQ(itm_push_large(&root_->head, 100 * kMiB), 1);
  EXPECT_EQ(root_->head, nullptr);
  EXPECT_EQ(itm_push_large(&root_->head, 10000), 0);
  EXPECT_NE(root_->head, nullptr);
}

TEST_P(Itm, CommitsWithTheExceptionThatLeavesIt) {
  in_child_that_ends([&] {
    int caught = 0;
    try {
      itm_throw(&root_->words[0], 9);
    } catch (int thrown) {
      caught = thrown;
    }
    if (caught != 9 || itm_count != 1) std::abort();
  });
  EXPECT_EQ(root_->words[0], 1u);
  std::string said;
  try {
    itm_throw_standard(&root_->words[0]);
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  EXPECT_EQ(said, "a sentence that is too long to be kept in a small string");
  EXPECT_EQ(root_->words[0], 2u);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

TEST_P(Itm, CatchesExceptionsInside) {
  EXPECT_EQ(itm_catch(&root_->words[0], 4), 4);
  EXPECT_EQ(root_->words[0], 11u);
  const u64 before = blocks();
  EXPECT_EQ(itm_catch_standard(&root_->words[0]), 1u);
  EXPECT_EQ(blocks(), before);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(std::current_exception(), nullptr);
}

TEST_P(Itm, UndoesExceptions) {
  for (const auto cancel :
       {itm_cancel_in_handler, itm_cancel_in_handler_of_pointer, itm_cancel_in_handler_of_base}) {
    cancel(&root_->words[0]);
    EXPECT_EQ(root_->words[0], 0u);
    EXPECT_EQ(std::current_exception(), nullptr);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  }
  {
    const InBody meets = with_another_thread(&root_->words[0], 10);
    EXPECT_EQ(itm_begin_again_in_handler(&root_->words[0]), 3);
    EXPECT_EQ(InBody::runs(), 2);
  }
  EXPECT_EQ(root_->words[0], 13u);
  EXPECT_EQ(std::current_exception(), nullptr);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  {
    // A destructor that runs while the exception passes meets one that has changed its word.
    const InBody meets = with_another_thread(&root_->words[8], 20);
    EXPECT_EQ(itm_begin_again_in_destructor(&root_->words[0]), 7);
  }
  EXPECT_EQ(root_->words[8], 21u);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

// It meets another one in the handler that throws again, and when that has been left.
TEST_P(Itm, UndoesExceptionsThatAreThrownAgain) {
  for (const size_t meets_at : {16, 8}) {
    std::memset(root_->words, 0, sizeof root_->words);
    const int call = meets_at == 16 ? 1 : 2;
    const InBody meets = with_another_thread(&root_->words[meets_at], 20, call);
    EXPECT_EQ(itm_throw_again(root_->words), 7);
    EXPECT_EQ(root_->words[meets_at], 21u);
    EXPECT_EQ(root_->words[24 - meets_at], 1u);
    EXPECT_EQ(root_->words[0], 1u);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    EXPECT_EQ(std::current_exception(), nullptr);
  }
}

// It is found to have met another one when it commits.
TEST_P(Itm, KeepsWhatItsCallerHasCaught) {
  std::string said;
  try {
    try {
      throw std::runtime_error("a sentence that is too long to be kept in a small string");
    } catch (const std::runtime_error&) {
      const InBody meets = with_another_thread(&root_->words[8], 10);
      itm_throw_again_out(root_->words);
    }
  } catch (const std::runtime_error& error) {
    said = error.what();
    EXPECT_EQ(InBody::runs(), 2);
  }
  EXPECT_EQ(said, "a sentence that is too long to be kept in a small string");
  EXPECT_EQ(root_->words[0], 11u);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(std::current_exception(), nullptr);
}

// --- what it is told -----------------------------------------------------------------------------

TEST_P(Itm, RunsActionsWhenItHasCommittedOrIsUndone) {
  itm_committed = itm_undone = 0;
  itm_actions(&root_->count, &root_->words[0], 0);
  EXPECT_EQ(itm_committed, 1);
  EXPECT_EQ(itm_undone, 0);
  itm_actions(&root_->count, &root_->words[0], 1);
  EXPECT_EQ(itm_committed, 1);
  EXPECT_EQ(itm_undone, 1);
  const InBody meets = with_another_thread(&root_->words[0], 10);
  itm_actions(&root_->count, &root_->words[0], 0);
  EXPECT_EQ(InBody::runs(), 2);
  EXPECT_EQ(itm_committed, 2);
  EXPECT_EQ(itm_undone, 2);
  EXPECT_EQ(root_->count, 14u);
}

// Those of one that is inside are part of what that is inside.
TEST_P(Itm, RunsTransactionsWhenItIsUndone) {
  u64* const undone = root_->words;
  for (u64* const word : {&root_->count, &itm_count}) {
    undone[0] = undone[1] = 0;
    itm_undone = 0;
    itm_undo_transaction(word, undone, kItmOuter);
    EXPECT_EQ(*word, 0u);
    EXPECT_EQ(undone[0], 1u);
    EXPECT_EQ(undone[1], 1u);
    itm_undo_transaction(word, undone, kItmInner);
    EXPECT_EQ(*word, 101u);
    EXPECT_EQ(undone[0], 1u);
    EXPECT_EQ(undone[1], 2u);
    std::thread other;
    const InBody meets([&](int run) {
      if (run != 1) return;
      other = std::thread(itm_store, word, 1000);
      while (std::atomic_ref(*word).load() != 1000) std::this_thread::yield();
    });
    itm_undo_transaction(word, undone, kItmNone);
    other.join();
    EXPECT_EQ(*word, 1111u);
    EXPECT_EQ(undone[0], 2u);
    EXPECT_EQ(itm_undone, 2);
  }
}

TEST_P(Itm, KnowsItself) {
  u64 outer = 0, inner = 0, next = 0;
  std::uint32_t how = 0;
  EXPECT_EQ(_ITM_inTransaction(), 0u);
  EXPECT_EQ(_ITM_getTransactionId(), 1u);
  itm_numbers(&outer, &inner, &how, 0);
  EXPECT_EQ(how, 1u);
  EXPECT_NE(outer, inner);
  EXPECT_GT(outer, 1u);
  itm_numbers(&next, &inner, &how, 0);
  EXPECT_NE(next, outer);
  EXPECT_EQ(_ITM_inTransaction(), 0u);
  EXPECT_EQ(_ITM_versionCompatible(90), 1);
  EXPECT_EQ(_ITM_versionCompatible(91), 0);
  EXPECT_EQ(std::string(_ITM_libraryVersion()).substr(0, 7), "Perdura");
}

TEST_P(Itm, CallsFunctionsByPointer) {
  root_->count = 20;
  store_->checkpoint();
  itm_point_to_one_more();
  EXPECT_EQ(itm_call(&root_->count), 21u);
  itm_relaxed_add(&root_->count);
  EXPECT_EQ(root_->count, 22u);
}

// --- refused -------------------------------------------------------------------------------------

class ItmDeathTest : public testing::Test {
 protected:
  /// In a store of the child that is to end.
  void with_root(const std::function<void(root&)>& call) const {
    Store store = open("emu:" + folder_.path("store.pd"));
    call(root_of(store));
  }
  const TempDir folder_{TempDir::kMemory};
};

TEST_F(ItmDeathTest, RefusesWhatCouldNotBeUndone) {
  EXPECT_DEATH(itm_relaxed_whole(),
               "a transaction at .*itm_test\\+0x[0-9a-f]+.* cannot go on: GCC has compiled none of "
               "its code to be undone.*__transaction_atomic");
  EXPECT_DEATH(with_root([](root& root) { itm_relaxed_middle(&root.count); }),
               "a transaction at .*itm_test\\+0x[0-9a-f]+.* cannot go on: from here on its code "
               "could not be undone.*__transaction_atomic");
  EXPECT_DEATH(with_root([](root& root) { itm_relaxed_pointer(&root.count); }),
               "itm_test\\+0x[0-9a-f]+.*calls by pointer a function.*transaction_safe");
}

TEST_F(ItmDeathTest, RefusesTwoStoresAtOnce) {
  const auto with_two = [&](const std::function<void(root&, root&)>& call) {
    Store other = open("emu:" + folder_.path("other.pd"));
    with_root([&](root& root) { call(root, root_of(other)); });
  };
  EXPECT_DEATH(with_two([](root& one, root& other) {
                 itm_transfer(&one.accounts[0], &other.accounts[0], 1);
               }),
               "lie in two stores");
  // Which store a block is to be of is not known before its first word.
  EXPECT_DEATH(with_two([](root& one, root&) { itm_push(&one.head, &one.count, 1); }),
               "several are open; let it load a word");
  with_two([](root& one, root& other) {
    itm_transfer(&one.accounts[1], &one.accounts[0], 1);
    itm_transfer(&other.accounts[1], &other.accounts[0], 2);
    EXPECT_EQ(one.accounts[0], 1);
    EXPECT_EQ(other.accounts[0], 2);
  });
}

TEST_F(ItmDeathTest, RefusesToBeInsideAnOperation) {
  const auto in_operation = [&] {
    Store store = open("emu:" + folder_.path("store.pd"));
    root& root = root_of(store);
    const auto operation = store.operation();
    itm_add(&root.count, 1);
  };
  EXPECT_DEATH(in_operation(), "inside an operation of the same thread");
}

// --- without a store -----------------------------------------------------------------------------

TEST(ItmWithoutStore, IsIsolatedAndUndone) {
  itm_head = nullptr;
  itm_count = 0;
  for (u64 key = 1; key <= 10; ++key) itm_push(&itm_head, &itm_count, key);
  itm_pop(&itm_head, &itm_count);
  itm_push_cleared(&itm_head, &itm_count);
  itm_new(&itm_head);
  itm_delete(&itm_head);
  EXPECT_EQ(itm_count, 10u);
  EXPECT_EQ(itm_head->key, 0u);
  EXPECT_EQ(itm_head->next->key, 9u);
  const auto outside = std::make_unique<root>();
  std::memset(outside.get(), 0, sizeof(root));
  outside->head = itm_head;
  EXPECT_EQ(itm_cancel(outside.get()), 0);
  EXPECT_EQ(outside->count, 0u);
  EXPECT_EQ(outside->head, itm_head);
  EXPECT_EQ(itm_head->next->key, 9u);
  itm_nested(outside.get(), kItmInner);
  EXPECT_EQ(outside->words[0], 1u);
  EXPECT_EQ(outside->words[1], 0u);
  // Blocks that nobody knows of as a transaction's.
  while (itm_head != nullptr) std::free(std::exchange(itm_head, itm_head->next));
}

TEST(ItmWithoutStore, CountsOfThreadsAddUp) {
  itm_count = 0;
  const auto count = [] {
    for (int i = 0; i < 50000; ++i) itm_add(&itm_count, 1);
  };
  std::thread first(count), second(count);
  first.join();
  second.join();
  EXPECT_EQ(itm_count, 100000u);
}

TEST(ItmWithoutStore, ThreadsThatEndGiveTheirNumberBack) {
  const int own = _ITM_getThreadnum();
  std::set<int> others;
  for (int i = 0; i < 1000; ++i) std::thread([&] { others.insert(_ITM_getThreadnum()); }).join();
  EXPECT_FALSE(others.contains(own));
  EXPECT_EQ(others.size(), 1u);
}

TEST(ItmWithoutStore, HasNothingOfItsParentsInAChild) {
  itm_count = 0;
  itm_add(&itm_count, 1);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) itm_add(&itm_count, 0);
  });
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(in_child([&]() -> std::string {
                itm_add(&itm_count, 1);
                std::thread([] { itm_add(&itm_count, 1); }).join();
                return itm_count == 3 ? "" : "it did not count";
              }),
              "");
  stop = true;
  other.join();
}

// Its actions and what it gives back are not the child's.
TEST(ItmWithoutStore, LeavesWhatIsToRunToTheParent) {
  itm_count = 0;
  itm_committed = itm_undone = 0;
  u64 read = 0;
  const InBody forks([&](int run) {
    if (run != 1) return;
    EXPECT_EQ(in_child([&]() -> std::string {
                itm_add(&read, 1);
                return itm_committed == 0 && itm_undone == 0 ? "" : "it ran the parent's actions";
              }),
              "");
  });
  itm_actions(&itm_count, &read, 0);
  EXPECT_EQ(itm_committed, 1);
  EXPECT_EQ(itm_undone, 0);
  EXPECT_EQ(itm_count, 2u);
}

}  // namespace
}  // namespace perdura::test
