// Goal: memory of perdura/typed.h is what malloc's is, and besides zero where its words may hold
// pointers, whoever had it before; what allocators carve out of large blocks keeps the block as it
// is; and a program may have more types than a heap can know. Method: the functions that
// perdura-clang makes of malloc and new, called at random by several threads that fill all they
// get, and look at all of it again; records that are made here.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <perdura/container.h>
#include <perdura/typed.h>

#include "heap/known_types.hpp"
#include "model/container/volatile_heap.hpp"
#include "support/files.hpp"

namespace {

using namespace perdura;
using detail::VolatileHeap;

constexpr perdura_slot kNodeSlots[] = {{"next", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0}};
constexpr perdura_type kNode{"typed_memory::Node", 16, 8, 1, kNodeSlots};
constexpr perdura_type kNumbers{"typed_memory::Numbers", 8, 8, 0, nullptr};

std::string type_at(const void* block) {
  return value_or_throw(VolatileHeap::existing()->heap().type_name(block));
}

bool all_are(const unsigned char* bytes, size_t count, unsigned char value) {
  return count == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

struct Owned {
  unsigned char* bytes;
  size_t size;
  unsigned char fill;
};

/// At least an object's.
size_t random_size(std::mt19937_64& random) {
  const u64 which = random() % 64;
  return 16 + random() % (which == 0 ? 5u << 20 : which < 5 ? 200'000 : which < 17 ? 40'000 : 700);
}

// All that there is of a block is filled, also what is behind the bytes that were asked for.
Owned fill(void* made, std::mt19937_64& random) {
  const Owned owned{static_cast<unsigned char*>(made), perdura_typed_usable_size(made),
                    static_cast<unsigned char>(1 + random() % 255)};
  std::memset(owned.bytes, owned.fill, owned.size);
  return owned;
}

void work(unsigned seed, std::vector<Owned>& mine) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1500; ++i) {
    const size_t size = random_size(random);
    const size_t which = mine.empty() ? 0 : random() % mine.size();
    const unsigned what = random() % 8;
    if (what < 4 || mine.empty()) {
      const bool may_point = random() % 4 != 0;
      void* const made = what == 0   ? perdura_typed_calloc(1, size, &kNumbers, 0)
                         : may_point ? perdura_typed_malloc(size, &kNode, 0)
                                     : perdura_typed_malloc(size, &kNumbers, 0);
      ASSERT_NE(made, nullptr);
      ASSERT_GE(perdura_typed_usable_size(made), size);
      if (what == 0 || may_point) {
        const size_t zero = what == 0 ? size : perdura_typed_usable_size(made);
        ASSERT_TRUE(all_are(static_cast<unsigned char*>(made), zero, 0)) << size;
      }
      mine.push_back(fill(made, random));
    } else if (what == 4) {
      Owned& owned = mine[which];
      auto* const bytes =
          static_cast<unsigned char*>(perdura_typed_realloc(owned.bytes, size, &kNode, 0));
      ASSERT_NE(bytes, nullptr);
      const size_t now = perdura_typed_usable_size(bytes);
      const size_t kept = std::min(size, owned.size);
      ASSERT_TRUE(all_are(bytes, kept, owned.fill)) << size << " after " << owned.size;
      // Behind what was asked for are old contents, or nothing.
      const size_t from = bytes == owned.bytes ? owned.size : kept;
      if (from < now) {
        ASSERT_TRUE(all_are(bytes + from, now - from, 0)) << size;
      }
      owned = fill(bytes, random);
    } else {
      const Owned owned = mine[which];
      ASSERT_TRUE(all_are(owned.bytes, owned.size, owned.fill));
      perdura_typed_free(owned.bytes);
      mine[which] = mine.back();
      mine.pop_back();
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(PERDURA_THREAD_SANITIZER)
// Their shadows take more than is left.
TEST(TypedMemory, IsThereWhereAddressSpaceIsLimited) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has made none yet
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    for (const u64 mib : {400, 900, 3000}) {
      const auto use = [&] {
        const rlimit limit{mib << 20, mib << 20};
        if (::setrlimit(resource, &limit) != 0) std::_Exit(2);
        std::vector<void*> blocks;
        for (int i = 0; i < 50'000; ++i) {
          blocks.push_back(perdura_typed_malloc(500, &kNode, 0));
          if (blocks.back() == nullptr) std::_Exit(3);
        }
        for (void* const block : blocks) perdura_typed_free(block);
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
          threads.emplace_back([] { perdura_typed_free(perdura_typed_malloc(9, &kNumbers, 0)); });
        for (std::thread& thread : threads) thread.join();
        std::_Exit(0);
      };
      EXPECT_EXIT(use(), ::testing::ExitedWithCode(0), "") << mib;
    }
  }
}
#endif

// Before the others: no thread has ended whose memory of the heap another one may have.
TEST(TypedMemory, CanBeGivenBackByAThreadThatBeginsWithIt) {
  void* const block = perdura_typed_malloc(64, &kNode, 0);
  std::atomic<int> step{0};
  std::thread other([&] {
    while (step == 0) std::this_thread::yield();
    perdura_typed_free(block);
    step = 2;
  });
  std::ifstream statm("/proc/self/statm");
  u64 pages = 0;
  statm >> pages;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit little{pages * 4096 + (2u << 20), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  step = 1;
  other.join();
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(step, 2);
}

// A slab that is given back with blocks that nobody had: the next one there has others. Before
// tests that take more.
TEST(TypedMemory, IsZeroWhereOtherSizesWereBefore) {
  constexpr size_t kSizes[] = {28'000, 64, 9'000, 300, 2'000, 20'000, 16, 5'000};
  for (const size_t before : kSizes) {
    for (const size_t now : kSizes) {
      // A thread that ends gives back its empty slabs.
      std::thread([&] {
        std::vector<void*> blocks;
        for (size_t bytes = 0; bytes < 130'000; bytes += before) {
          blocks.push_back(perdura_typed_malloc(before, &kNode, 0));
          std::memset(blocks.back(), 0xa5, perdura_typed_usable_size(blocks.back()));
        }
        for (void* const block : blocks) perdura_typed_free(block);
      }).join();
      std::thread([&] {
        std::vector<void*> blocks;
        for (size_t bytes = 0; bytes < 130'000; bytes += now) {
          auto* const block = static_cast<unsigned char*>(perdura_typed_malloc(now, &kNode, 0));
          EXPECT_TRUE(all_are(block, perdura_typed_usable_size(block), 0))
              << before << " before " << now;
          std::memset(block, 0xa5, perdura_typed_usable_size(block));
          blocks.push_back(block);
        }
        for (void* const block : blocks) perdura_typed_free(block);
      }).join();
    }
  }
}

TEST(TypedMemory, IsZeroWhoeverHadItBefore) {
  std::vector<std::vector<Owned>> held(3);
  for (unsigned round = 0; round < 4; ++round) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < held.size(); ++i)
      threads.emplace_back([&held, i, round] { work(round * 100 + i, held[i]); });
    for (std::thread& thread : threads) thread.join();
    if (HasFatalFailure()) return;
    // What one has made another one frees, and slabs of threads that ended are taken over.
    std::rotate(held.begin(), held.begin() + 1, held.end());
  }
  for (const auto& each : held)
    for (const Owned& owned : each) perdura_typed_free(owned.bytes);
}

TEST(TypedMemory, PartsOfLargeBlocksLeaveThemAsTheyAre) {
  constexpr size_t kBytes = 300'000;
  for (const size_t into : {72ul, 128ul, 65'535ul, 65'536ul, 65'600ul, 131'072ul, 299'000ul}) {
    auto* const block = static_cast<char*>(perdura_typed_raw_malloc(kBytes));
    EXPECT_EQ(perdura_typed_tag(block + into, 16, &kNode, 0), block + into);
    EXPECT_EQ(type_at(block), "words") << into;
    perdura_typed_free(block);
  }
  // What begins in its first bytes is one object behind a header where it is as large, else a part.
  auto* const block = static_cast<char*>(perdura_typed_raw_malloc(kBytes));
  perdura_typed_tag(block + 64, kBytes - 64, &kNode, 0);
  EXPECT_EQ(type_at(block), "typed_memory::Nodes behind 64 bytes");
  perdura_typed_tag(block, kBytes, &kNode, 0);
  EXPECT_EQ(type_at(block), "typed_memory::Node");
  perdura_typed_tag(block, 16, &kNumbers, 0);
  EXPECT_EQ(type_at(block), "words");
  perdura_typed_free(block);
  // What was one object is none any more where parts of it are given out.
  for (const size_t bytes : {size_t{1000}, kBytes, 40 * kBytes}) {
    for (const size_t into : {size_t{80}, bytes / 2, bytes - 16}) {
      auto* const carved = static_cast<char*>(perdura_typed_raw_malloc(bytes));
      perdura_typed_tag(carved, bytes, &kNumbers, 0);
      EXPECT_EQ(type_at(carved), "typed_memory::Numbers");
      perdura_typed_tag(carved + into, 16, &kNode, 0);
      EXPECT_EQ(type_at(carved), "words") << into << " of " << bytes;
      perdura_typed_free(carved);
    }
  }
  int outside = 0;
  EXPECT_EQ(perdura_typed_tag(&outside, sizeof outside, &kNode, 0), &outside);
  EXPECT_EQ(perdura_typed_tag(nullptr, 16, &kNode, 0), nullptr);
}

// What realloc says counts where there were no pointers, and for more of the same; where a block
// was something else with pointers, its words may be of either.
TEST(TypedMemory, ReallocTakesTheTypeOfItsCaller) {
  static constexpr perdura_slot kMoreSlots[] = {
      kNodeSlots[0], {"behind", PERDURA_SLOT_MAYBE, 16, 0, nullptr, 0, 0, 0}};
  constexpr perdura_type kNodeAndMore{"typed_memory::Node and more", 16, 8, 2, kMoreSlots};
  static constexpr perdura_slot kOtherSlots[] = {
      {"p", PERDURA_SLOT_POINTER, 8, 8, nullptr, 0, 0, 0}};
  constexpr perdura_type kOther{"typed_memory::Other", 16, 8, 1, kOtherSlots};
  for (const size_t bytes : {size_t{16}, size_t{64}, size_t{400'000}}) {
    void* block = perdura_typed_malloc(16, &kNumbers, 0);
    block = perdura_typed_realloc(block, bytes, &kNode, 0);
    EXPECT_EQ(type_at(block), "typed_memory::Node") << bytes;
    block = perdura_typed_realloc(block, bytes + 32, &kNodeAndMore, 1);
    EXPECT_EQ(type_at(block), "typed_memory::Node and more") << bytes;
    block = perdura_typed_realloc(block, bytes, &kNode, 0);
    EXPECT_EQ(type_at(block), "typed_memory::Node and more") << bytes;
    block = perdura_typed_realloc(block, bytes, &kOther, 0);
    EXPECT_EQ(type_at(block), "words") << bytes;
    block = perdura_typed_realloc(block, bytes, &kNode, 0);
    EXPECT_EQ(type_at(block), "words") << bytes;
    perdura_typed_free(block);
  }
}

// Another structure of the program with the name of one: the block keeps no type that it had.
TEST(TypedMemory, ATypeThatCannotBeHadIsWords) {
  constexpr perdura_type kOther{"typed_memory::Node", 24, 8, 1, kNodeSlots};
  auto* const block = static_cast<char*>(perdura_typed_raw_malloc(64));
  perdura_typed_tag(block, 64, &kNumbers, 0);
  perdura_typed_free(perdura_typed_malloc(16, &kNode, 0));
  EXPECT_EQ(type_at(block), "typed_memory::Numbers");
  perdura_typed_tag(block, 64, &kOther, 0);
  EXPECT_EQ(type_at(block), "words");
  perdura_typed_free(block);
  void* const made = perdura_typed_malloc(64, &kOther, 0);
  EXPECT_EQ(type_at(made), "words");
  perdura_typed_free(made);
}

// The last test: there is no place for other types afterwards.
TEST(TypedMemory, TypesBeyondThoseThatAHeapCanKnowAreWords) {
  constexpr unsigned kCount = format::kTypesMax + 300;
  struct Made {
    std::string name;
    perdura_type type;
  };
  static std::vector<std::unique_ptr<Made>> all;
  unsigned words = 0;
  std::vector<void*> blocks;
  for (unsigned i = 0; i < kCount; ++i) {
    auto made = std::make_unique<Made>();
    made->name = "typed_memory::Drawn" + std::to_string(i);
    made->type = {made->name.c_str(), 16, 8, 1, kNodeSlots};
    void* const block = perdura_typed_malloc(48, &made->type, 0);
    ASSERT_NE(block, nullptr) << i;
    const std::string type = type_at(block);
    ASSERT_TRUE(type == made->name || type == "words") << type;
    words += type == "words";
    blocks.push_back(block);
    all.push_back(std::move(made));
  }
  EXPECT_GE(words, 300u);
  EXPECT_LT(words, 400u);
  // Those that are known are as before.
  void* const again = perdura_typed_malloc(48, &all[10]->type, 0);
  EXPECT_EQ(type_at(again), all[10]->name);
  perdura_typed_free(again);
  for (void* const block : blocks) perdura_typed_free(block);

  // In a container as well, whether points take them there or they are allocated near it.
  const test::TempDir folder;
  for (const bool near : {false, true}) {
    perdura_container* container = nullptr;
    const std::string name = folder.path(near ? "near" : "far");
    ASSERT_EQ(perdura_container_open(name.c_str(), nullptr, &container), 0);
    auto* const root = static_cast<void**>(perdura_container_root(container, &kNode));
    ASSERT_NE(root, nullptr);
    if (near) {
      ASSERT_EQ(perdura_allocate_near(root), 0);
    }
    for (const auto& made : all) {
      auto* const block = static_cast<void**>(perdura_typed_malloc(16, &made->type, 0));
      ASSERT_NE(block, nullptr);
      *block = *root;
      *root = block;
    }
    uint64_t version = 0;
    EXPECT_EQ(perdura_container_point(container, &version), 0) << perdura_last_error();
    unsigned count = 0;
    for (void** each = static_cast<void**>(*root); each != nullptr;
         each = static_cast<void**>(*each))
      ++count;
    EXPECT_EQ(count, kCount);
    EXPECT_EQ(perdura_container_close(container), 0) << perdura_last_error();
  }
}

}  // namespace
