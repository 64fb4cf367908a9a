// Proves that the B+-tree is an ordered map (against std::map, with random and ordered keys, up to
// sizes of several levels), and that it reports every store: the environment used here keeps a
// copy of all memory as of the last report, and demands after each change that only bytes reported
// since differ from it.

#include <perdura/structures/bplus_tree.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

namespace perdura::structures {
namespace {

using std::uint64_t;
using Tree = BPlusTree<uint64_t>;

/// Memory whose every byte is compared with a copy that is only renewed where a touch says so.
class RecordingMemory {
 public:
  ~RecordingMemory() {
    for (auto& [block, shadow] : blocks_) ::operator delete(block, std::align_val_t{64});
  }

  void* allocate(std::size_t size, std::size_t alignment) {
    EXPECT_LE(alignment, 64u);
    if (allocations_left_ == 0) throw std::bad_alloc();
    --allocations_left_;
    auto* block = static_cast<std::byte*>(::operator new(size, std::align_val_t{64}));
    std::memset(block, 0xa5, size);  // no structure may rely on zeros
    blocks_[block].resize(size);
    fresh_.insert(block);
    return block;
  }
  void deallocate(void* block) {
    const auto found = blocks_.find(static_cast<std::byte*>(block));
    ASSERT_NE(found, blocks_.end()) << "freed what was not allocated";
    fresh_.erase(found->first);
    blocks_.erase(found);
    ::operator delete(block, std::align_val_t{64});
  }
  void touch(const void* address, std::size_t length) {
    ASSERT_GT(length, 0u);
    touched_.push_back({static_cast<const std::byte*>(address), length});
    touched_bytes_ += length;
    // The report comes before the store: what it covers must be unchanged so far, unless an
    // earlier report covers it.
    check_untouched_since(touched_.back());
  }

  /// Also watch memory that was not allocated here.
  void watch(void* address, std::size_t size) {
    outside_ = static_cast<std::byte*>(address);
    outside_shadow_.assign(outside_, outside_ + size);
  }

  /// Demand that all changed bytes were reported; forget the reports.
  void verify() {
    for (auto& [block, shadow] : blocks_) verify_range(block, shadow, fresh_.contains(block));
    if (outside_ != nullptr) verify_range(outside_, outside_shadow_, false);
    touched_.clear();
    fresh_.clear();
  }

  std::size_t blocks() const { return blocks_.size(); }
  std::size_t touched_bytes() const { return touched_bytes_; }
  void limit_allocations(std::size_t left) { allocations_left_ = left; }

 private:
  struct Range {
    const std::byte* begin;
    std::size_t length;
    bool covers(const std::byte* at) const { return at >= begin && at < begin + length; }
  };

  void verify_range(std::byte* block, std::vector<std::byte>& shadow, bool fresh) {
    if (!fresh && std::memcmp(block, shadow.data(), shadow.size()) != 0) {
      for (std::size_t i = 0; i < shadow.size(); ++i)
        ASSERT_TRUE(block[i] == shadow[i] || reported(block + i, touched_.size()))
            << "byte " << i << " of a block of " << shadow.size() << " changed unreported";
    }
    std::copy(block, block + shadow.size(), shadow.begin());
  }
  bool reported(const std::byte* at, std::size_t first_reports) const {
    return std::any_of(touched_.begin(),
                       touched_.begin() + static_cast<std::ptrdiff_t>(first_reports),
                       [&](const Range& range) { return range.covers(at); });
  }
  void check_untouched_since(Range range) {
    const std::byte* block = outside_;
    const std::vector<std::byte>* shadow = &outside_shadow_;
    const auto next = blocks_.upper_bound(const_cast<std::byte*>(range.begin));
    if (next != blocks_.begin()) {
      const auto& [begin, copy] = *std::prev(next);
      if (range.begin < begin + copy.size()) {
        if (fresh_.contains(begin)) return;
        block = begin;
        shadow = &copy;
      }
    }
    ASSERT_NE(block, nullptr) << "a report outside all memory";
    const auto offset = static_cast<std::size_t>(range.begin - block);
    ASSERT_LE(offset + range.length, shadow->size()) << "a report reaches beyond its block";
    for (std::size_t i = 0; i < range.length; ++i)
      ASSERT_TRUE(range.begin[i] == (*shadow)[offset + i] ||
                  reported(range.begin + i, touched_.size() - 1))
          << "reported after the store";
  }

  std::map<std::byte*, std::vector<std::byte>> blocks_;
  std::unordered_set<std::byte*> fresh_;
  std::vector<Range> touched_;
  std::byte* outside_ = nullptr;
  std::vector<std::byte> outside_shadow_;
  std::size_t touched_bytes_ = 0;
  std::size_t allocations_left_ = ~std::size_t{0};
};

void expect_same(const Tree& tree, const std::map<uint64_t, uint64_t>& model) {
  ASSERT_EQ(tree.verify(), "");
  ASSERT_EQ(tree.size(), model.size());
  auto expected = model.begin();
  for (auto at = tree.lower_bound(0); at; at.next(), ++expected) {
    ASSERT_NE(expected, model.end());
    ASSERT_EQ(at.key(), expected->first);
    ASSERT_EQ(at.value(), expected->second);
  }
  ASSERT_EQ(expected, model.end());
}

/// Random changes of tree and model alike, keys below `key_range`.
void run_random(uint64_t seed, int steps, uint64_t key_range, unsigned erase_percent) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  RecordingMemory memory;
  Tree tree;
  memory.watch(&tree, sizeof(tree));
  std::map<uint64_t, uint64_t> model;
  for (int i = 0; i < steps; ++i) {
    const uint64_t key = random() % key_range, value = random();
    const auto found = model.find(key);
    if (random() % 100 < erase_percent) {
      const auto erased = tree.erase(memory, key);
      ASSERT_EQ(erased.has_value(), found != model.end());
      if (erased) {
        ASSERT_EQ(*erased, found->second);
        model.erase(found);
      }
    } else if (random() % 8 == 0) {
      ASSERT_EQ(tree.assign(memory, key, value), found != model.end());
      if (found != model.end()) found->second = value;
    } else {
      ASSERT_EQ(tree.insert(memory, key, value), model.emplace(key, value).second);
    }
    const auto expected = model.find(key);
    const auto got = tree.find(key);
    ASSERT_EQ(got.has_value(), expected != model.end());
    if (got) {
      ASSERT_EQ(*got, expected->second);
    }
    memory.verify();
    if (::testing::Test::HasFatalFailure()) return;
    if (i % 64 == 0) {
      ASSERT_EQ(tree.verify(), "");
    }
  }
  expect_same(tree, model);
  if (seed % 2 == 0) tree.clear(memory);
  while (tree.size() != 0) {  // from anywhere on, so that every level shrinks by merging
    auto at = tree.lower_bound(random() % key_range);
    if (!at) at = tree.lower_bound(0);
    ASSERT_TRUE(tree.erase(memory, at.key()));
    memory.verify();
    if (::testing::Test::HasFatalFailure()) return;
  }
  memory.verify();
  EXPECT_EQ(memory.blocks(), 0u);
  EXPECT_EQ(tree.verify(), "");
}

TEST(BPlusTreeTest, RandomChangesMatchAMapAndAreReported) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    run_random(seed, 3000, 200, 45);
    run_random(seed + 100, 3000, 3000, 30);
    run_random(seed + 200, 2000, ~uint64_t{0}, 0);
  }
}

TEST(BPlusTreeTest, EmptyTree) {
  PlainMemory memory;
  Tree tree;
  EXPECT_EQ(tree.height(), 0u);
  EXPECT_FALSE(tree.find(7));
  EXPECT_FALSE(tree.lower_bound(0));
  EXPECT_FALSE(tree.erase(memory, 7));
  EXPECT_FALSE(tree.assign(memory, 7, 1));
  EXPECT_EQ(tree.scan(0, 10, [](uint64_t, uint64_t) {}), 0u);
  EXPECT_TRUE(tree.insert(memory, 7, 1));
  EXPECT_FALSE(tree.insert(memory, 7, 2));
  EXPECT_EQ(tree.find(7), 1u);
  EXPECT_EQ(tree.erase(memory, 7), 1u);
  EXPECT_EQ(tree.verify(), "");
}

TEST(BPlusTreeTest, ExtremeKeysAreOrdinary) {
  PlainMemory memory;
  Tree tree;
  std::map<uint64_t, uint64_t> model;
  for (uint64_t i = 0; i < 40; ++i)
    for (const uint64_t key : {i, ~i, (uint64_t{1} << 63) + i, (uint64_t{1} << 63) - i}) {
      EXPECT_FALSE(i == 0 && tree.find(key) && !model.contains(key));
      tree.insert(memory, key, i);
      model.emplace(key, i);
    }
  expect_same(tree, model);
  EXPECT_EQ(tree.lower_bound(~uint64_t{0}).key(), ~uint64_t{0});
  EXPECT_TRUE(tree.erase(memory, ~uint64_t{0}));
  EXPECT_FALSE(tree.find(~uint64_t{0}));
  EXPECT_FALSE(tree.lower_bound(~uint64_t{0}));
  tree.clear(memory);
}

/// All three searches agree at every count of keys, so whatever this machine lacks or has, the
/// others' answers are the same.
TEST(BPlusTreeTest, SearchVariantsAgree) {
  using detail::Node;
  using detail::Search;
  std::vector<Search> variants = {Search::kScalar};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) variants.push_back(Search::kAvx2);
  if (__builtin_cpu_supports("avx512f")) variants.push_back(Search::kAvx512);
#endif
  std::mt19937_64 random(5);
  auto node = std::make_unique<Node>();
  for (unsigned count = 0; count <= Node::kKeys; ++count) {
    std::fill(std::begin(node->keys), std::end(node->keys), Node::kUnusedKey);
    std::generate(node->keys, node->keys + count, std::ref(random));
    std::sort(node->keys, node->keys + count);
    node->count = static_cast<std::uint16_t>(count);
    std::vector<uint64_t> probes = {0, 1, uint64_t{1} << 63, ~uint64_t{0}};
    for (unsigned i = 0; i < count; ++i)
      for (const int step : {-1, 0, 1})
        probes.push_back(node->keys[i] + static_cast<uint64_t>(step));
    for (const uint64_t probe : probes)
      for (const Search search : variants)
        ASSERT_EQ(detail::locate(node.get(), 0, probe, search).position,
                  static_cast<std::size_t>(std::lower_bound(node->keys, node->keys + count, probe) -
                                           node->keys))
            << "variant " << static_cast<int>(search) << ", " << count << " keys";
  }
}

TEST(BPlusTreeTest, OrderedInsertionFillsNodes) {
  PlainMemory memory;
  Tree tree;
  constexpr uint64_t kCount = 200'000;
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_TRUE(tree.insert(memory, i * 3, i));
  ASSERT_EQ(tree.verify(), "");
  EXPECT_EQ(tree.height(), 4u);  // 31 * 31^3 would fit, 31 * 31^2 does not
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(tree.find(i * 3), i);
  EXPECT_FALSE(tree.find(1));
  tree.clear(memory);
}

TEST(BPlusTreeTest, ScansFromAnywhere) {
  PlainMemory memory;
  Tree tree;
  for (uint64_t i = 0; i < 10'000; ++i) tree.insert(memory, (i * 7919) % 10'000 * 10, i);
  for (uint64_t from : {0u, 1u, 9u, 10u, 55'555u, 99'990u, 99'991u}) {
    std::vector<uint64_t> keys;
    const uint64_t visited =
        tree.scan(from, 100, [&](uint64_t key, uint64_t) { keys.push_back(key); });
    const uint64_t first = (from + 9) / 10;
    ASSERT_EQ(visited, std::min<uint64_t>(100, 10'000 - first));
    ASSERT_EQ(keys.size(), visited);
    for (uint64_t i = 0; i < visited; ++i) ASSERT_EQ(keys[i], (first + i) * 10);
  }
  tree.clear(memory);
}

/// A million keys in random order, then all erased in another: every level grows and shrinks.
TEST(BPlusTreeTest, GrowsLargeAndShrinksToNothing) {
  PlainMemory memory;
  Tree tree;
  constexpr uint64_t kCount = 1'000'000;
  std::vector<uint64_t> keys(kCount);
  std::mt19937_64 random(11);
  for (uint64_t i = 0; i < kCount; ++i) keys[i] = i * 0x9e3779b97f4a7c15u;
  std::shuffle(keys.begin(), keys.end(), random);
  for (uint64_t key : keys) ASSERT_TRUE(tree.insert(memory, key, ~key));
  ASSERT_EQ(tree.verify(), "");
  ASSERT_EQ(tree.size(), kCount);
  std::shuffle(keys.begin(), keys.end(), random);
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(tree.erase(memory, keys[i]), ~keys[i]);
    if (i % 100'000 == 0) {
      ASSERT_EQ(tree.verify(), "");
    }
  }
  EXPECT_EQ(tree.size(), 0u);
  EXPECT_EQ(tree.height(), 0u);
}

/// Wherever allocation fails, the tree is what it was before, and nothing leaks.
TEST(BPlusTreeTest, FailedAllocationChangesNothing) {
  RecordingMemory memory;
  Tree tree;
  memory.watch(&tree, sizeof(tree));
  std::map<uint64_t, uint64_t> model;
  std::mt19937_64 random(3);
  int failures = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t key = random();
    memory.limit_allocations(random() % 3);
    try {
      ASSERT_TRUE(tree.insert(memory, key, 1));
      model.emplace(key, 1);
    } catch (const std::bad_alloc&) {
      ++failures;
      ASSERT_FALSE(tree.find(key));
    }
    memory.verify();
  }
  EXPECT_GT(failures, 100);
  expect_same(tree, model);
  tree.clear(memory);
  EXPECT_EQ(memory.blocks(), 0u);
}

/// A change in the middle of a large tree reports a few lines, not nodes.
TEST(BPlusTreeTest, ReportsAreSmall) {
  RecordingMemory memory;
  Tree tree;
  memory.watch(&tree, sizeof(tree));
  for (uint64_t i = 0; i < 5'000; ++i) {
    tree.insert(memory, i * 0x9e3779b97f4a7c15u, i);
    memory.verify();
  }
  const std::size_t before = memory.touched_bytes();
  constexpr uint64_t kMore = 1'000;
  for (uint64_t i = 0; i < kMore; ++i) {
    tree.insert(memory, 1 + i * 0xd1342543de82ef95u, i);
    memory.verify();
  }
  EXPECT_LT((memory.touched_bytes() - before) / kMore, 256u);
  tree.clear(memory);
}

}  // namespace
}  // namespace perdura::structures
