// Goal: a store that has lived long opens as fast as a new one of the same content, and neither its
// file nor its directory grow. Method: sessions follow each other, some end in order and some in a
// crash; each takes versions of what it changes and allocates, some in transactions, and now and
// then the heap is filled until nothing fits and emptied again. From the middle of its life on
// nothing that is on the medium may get larger. At the end it is opened in turn with a new store
// into which the same content was copied, and both must ask the same of the medium.
//
// A slice: PERDURA_OLD_VERSIONS=10000000 PERDURA_OLD_SESSIONS=100000 PERDURA_OLD_FILLS=1000 for a
// long life. The time that an opening takes is no test, but a figure of the proof:
// PERDURA_SUMMARIES names a folder for old.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include "base/clock.hpp"
#include "media/decorator.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

u64 number_from_environment(const char* name, u64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// What an opening asks of a medium.
struct Asked {
  bool counts_loads = false;  ///< where these are of the log; chunks are loaded whenever
  u64 calls = 0;
  u64 maps = 0;
  u64 read_bytes = 0;
  u64 written_bytes = 0;
};

class Counting final : public media::Decorator {
 public:
  Counting(std::unique_ptr<media::Medium> inner, Asked& asked)
      : Decorator(std::move(inner)), asked_(asked) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    ++asked_.calls;
    asked_.written_bytes += data.size();
    return Decorator::write(offset, data, site);
  }
  Status barrier(const media::Site& site) override {
    ++asked_.calls;
    return Decorator::barrier(site);
  }
  Status read(u64 offset, media::MutableBytes into) override {
    ++asked_.calls;
    asked_.read_bytes += into.size();
    return Decorator::read(offset, into);
  }
  Status read_all(std::span<const media::ReadRequest> requests) override {
    count(requests);
    return Decorator::read_all(requests);
  }
  Status load(std::span<const media::ReadRequest> requests) override {
    if (asked_.counts_loads) count(requests);
    return Decorator::load(requests);
  }
  const std::byte* direct(u64 offset, u64 length) override {
    ++asked_.calls;
    asked_.read_bytes += length;
    return Decorator::direct(offset, length);
  }
  Status map_home(void* address, u64 offset, u64 length) override {
    ++asked_.maps;
    return Decorator::map_home(address, offset, length);
  }

 private:
  void count(std::span<const media::ReadRequest> requests) {
    asked_.calls += requests.size();
    for (const media::ReadRequest& each : requests) asked_.read_bytes += each.into.size();
  }
  Asked& asked_;
};

constexpr u64 kSlots = 4096;
constexpr u64 kBytesMin = 64;
constexpr u64 kBytesMax = 12 * kKiB;

/// The content: blocks with what belongs to their slot and their round.
struct Slot {
  u64* block;
  u64 bytes;
  u64 round;
};
struct Content {
  Slot slots[kSlots];
  u64 transactions;
};

struct Kind {
  const char* name;
  const char* scheme;
  Engine engine;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

/// What may not grow.
using Sizes = std::map<std::string, u64>;

class OldStore : public testing::TestWithParam<Kind> {
 protected:
  Options options() const {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking =
        GetParam().engine == Engine::kRemap ? Tracking::kProtect : Tracking::kReported;
    options.engine = GetParam().engine;
    options.chunk_bytes = 64 * kKiB;
    options.log_limit_bytes = 4 * kMiB;
    options.log_segment_bytes = 256 * kKiB;
    options.lazy_recovery = true;
    options.verify_bytes_per_second = 0;
    return options;
  }
  bool has_transactions() const { return GetParam().engine == Engine::kRedoLog; }
  std::string uri(const char* name) const { return GetParam().scheme + folder_.path(name); }
  WrappedStore open(const char* name) {
    return WrappedStore(uri(name), options(), [this](std::unique_ptr<media::Medium> inner) {
      return std::make_unique<Counting>(std::move(inner), asked_);
    });
  }
  static Content& content_of(WrappedStore& store) {
    return *static_cast<Content*>(store.get_root("content"));
  }
  static void make_content(WrappedStore& store);
  static void fill_slot(const WrappedStore::Op& operation, Slot& slot, u64 bytes, u64 round);
  static void copy(const Content& from, WrappedStore& into);
  static void check(const Content& content);
  void change(WrappedStore& store);
  void fill_and_empty(WrappedStore& store);
  Sizes sizes_of(const char* name, WrappedStore& store) const;
  void live(u64 versions, u64 sessions, u64 fills);
  double time_of_opening(const char* name, Asked& asked);

  const TempDir folder_{TempDir::kMemory};
  std::mt19937_64 random_{1};
  Asked asked_;
};

void OldStore::make_content(WrappedStore& store) {
  const auto operation = store.operation();
  void* const content = operation.allocate(sizeof(Content));
  operation.touch(content, sizeof(Content));
  std::memset(content, 0, sizeof(Content));
  operation.set_root("content", content);
}

void OldStore::fill_slot(const WrappedStore::Op& operation, Slot& slot, u64 bytes, u64 round) {
  auto* const block = static_cast<u64*>(operation.allocate(bytes));
  operation.touch(block, bytes);
  for (u64 i = 0; i < bytes / sizeof(u64); ++i) block[i] = round * kSlots + i;
  if (slot.block != nullptr) operation.deallocate(slot.block);
  operation.touch(&slot, sizeof slot);
  slot = {block, bytes, round};
}

void OldStore::copy(const Content& from, WrappedStore& into) {
  make_content(into);
  const auto operation = into.operation();
  Content& content = content_of(into);
  for (u64 i = 0; i < kSlots; ++i)
    if (from.slots[i].block != nullptr)
      fill_slot(operation, content.slots[i], from.slots[i].bytes, from.slots[i].round);
}

void OldStore::check(const Content& content) {
  for (const Slot& slot : content.slots)
    for (u64 i = 0; i < slot.bytes / sizeof(u64); ++i)
      ASSERT_EQ(slot.block[i], slot.round * kSlots + i);
}

// A version's worth.
void OldStore::change(WrappedStore& store) {
  Content& content = content_of(store);
  if (has_transactions() && random_() % 4 == 0) {
    store.atomically([&](Transaction& tx) {
      tx.write(content.transactions, tx.read(content.transactions) + 1);
    });
    return;
  }
  const auto operation = store.operation();
  Slot& slot = content.slots[random_() % kSlots];
  const u64 bytes = round_up(kBytesMin + random_() % (kBytesMax - kBytesMin), sizeof(u64));
  fill_slot(operation, slot, bytes, slot.round + 1);
}

void OldStore::fill_and_empty(WrappedStore& store) {
  std::vector<void*> blocks;
  for (u64 bytes = kMiB; bytes >= kKiB;) {
    try {
      const auto operation = store.operation();
      blocks.push_back(operation.allocate(bytes / 2 + random_() % bytes));
      operation.touch(blocks.back(), sizeof(u64));
      *static_cast<u64*>(blocks.back()) = bytes;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kNoSpace) << error.what();
      bytes /= 2;
    }
  }
  store.checkpoint();
  std::shuffle(blocks.begin(), blocks.end(), random_);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i == blocks.size() / 2) store.checkpoint();
    store.operation().deallocate(blocks[i]);
  }
  store.checkpoint();
}

Sizes OldStore::sizes_of(const char* name, WrappedStore& store) const {
  const region::Volume& volume = store.runtime().volume();
  const Statistics statistics = store.statistics();
  return {{"file", std::filesystem::file_size(folder_.path(name))},
          {"directory", volume.superblock().directory_bytes},
          {"log", statistics.log_capacity_bytes},
          {"backed", statistics.region_backed_bytes},
          {"types", store.audit().types}};
}

void OldStore::live(u64 versions, u64 sessions, u64 fills) {
  Sizes middle;
  u64 filled = 0;
  u64 taken = 0;
  for (u64 session = 1; session <= sessions; ++session) {
    WrappedStore store = open("old");
    if (session == 1) make_content(store);
    for (; taken < versions * session / sessions; ++taken) {
      change(store);
      store.checkpoint();
    }
    for (; filled < fills * session / sessions; ++filled) fill_and_empty(store);
    if (testing::Test::HasFatalFailure()) return;
    const Sizes sizes = sizes_of("old", store);
    if (session % 3 == 0) store.crash();
    else store.close();
    for (const auto& [what, bytes] : sizes) {
      u64& most = middle[what];
      if (session <= sessions / 2) most = std::max(most, bytes);
      else ASSERT_LE(bytes, most) << "the " << what << " has grown in session " << session;
    }
  }
}

// With what was read and written meanwhile.
double OldStore::time_of_opening(const char* name, Asked& asked) {
  asked_ = {.counts_loads = GetParam().engine == Engine::kRedoLog};
  const u64 begin = now_ns();
  WrappedStore store = open(name);
  const auto opened_ns = static_cast<double>(now_ns() - begin);
  asked = asked_;
  store.close();
  return opened_ns;
}

TEST_P(OldStore, OpensLikeANewOneAndDoesNotGrow) {
  const u64 share = GetParam().engine == Engine::kRemap ? 10 : 1;  // a version writes 64 KiB
  const u64 versions =
      number_from_environment("PERDURA_OLD_VERSIONS", slice_or_whole(4'000, 100'000)) / share;
  const u64 sessions =
      number_from_environment("PERDURA_OLD_SESSIONS", slice_or_whole(80, 1'000)) / share;
  // One of them at least in the first half of the life, after which nothing may grow.
  const u64 fills = std::max<u64>(
      2, number_from_environment("PERDURA_OLD_FILLS", slice_or_whole(10, 20)) / share);
  const u64 begin = now_ns();
  ASSERT_NO_FATAL_FAILURE(live(versions, sessions, fills));
  const double lived_s = static_cast<double>(now_ns() - begin) / 1e9;
  {
    WrappedStore old = open("old");
    EXPECT_TRUE(old.audit().clean) << old.audit().problem;
    ASSERT_NO_FATAL_FAILURE(check(content_of(old)));
    EXPECT_GE(old.durable_version(), versions);
    Options other = options();
    other.region_address = u64{1} << 44;
    WrappedStore made(uri("new"), other);
    copy(content_of(old), made);
    // As many versions as the old one keeps.
    for (u64 i = 0; i < other.versions_kept; ++i) {
      {
        const auto operation = made.operation();
        Content& content = content_of(made);
        operation.touch(&content.transactions, sizeof content.transactions);
        std::atomic_ref(content.transactions).store(0);
      }
      made.checkpoint();
    }
    if (has_transactions())
      made.atomically([&](Transaction& tx) { tx.write(content_of(made).transactions, u64{1}); });
    made.close();
    old.close();
  }
  constexpr size_t kOpenings = 201;
  std::vector<double> old_ns;
  std::vector<double> new_ns;
  Asked of_old;
  Asked of_new;
  for (size_t i = 0; i < kOpenings; ++i) {
    old_ns.push_back(time_of_opening("old", of_old));
    new_ns.push_back(time_of_opening("new", of_new));
  }
  EXPECT_EQ(of_old.calls, of_new.calls);
  // A heap that was full once has some pieces more than one that never was.
  EXPECT_LE(of_old.maps, of_new.maps + 12);
  EXPECT_LE(of_old.read_bytes, of_new.read_bytes + kPageBytes) << "the directory names these";
  EXPECT_EQ(of_old.written_bytes, of_new.written_bytes);
  // A tenth of them is quicker: other tests run meanwhile, and opening has threads of its own.
  const auto undisturbed = [](std::vector<double>& all) {
    std::nth_element(all.begin(), all.begin() + kOpenings / 10, all.end());
    return all[kOpenings / 10];
  };
  const double ratio = undisturbed(old_ns) / undisturbed(new_ns);
  std::printf(
      "%s: %llu versions, %llu sessions, %llu fills in %.1f s; opens in %.3f ms, a new one in %.3f "
      "ms: %.3f\n",
      GetParam().name, static_cast<unsigned long long>(versions),
      static_cast<unsigned long long>(sessions), static_cast<unsigned long long>(fills), lived_s,
      undisturbed(old_ns) / 1e6, undisturbed(new_ns) / 1e6, ratio);
  if (const char* folder = std::getenv("PERDURA_SUMMARIES"))
    std::ofstream(folder + std::string("/old_") + GetParam().name + ".json")
        << "{\"old_open\":" << ratio << ",\"versions\":" << versions << ",\"sessions\":" << sessions
        << ",\"fills\":" << fills << "}\n";
}

INSTANTIATE_TEST_SUITE_P(All, OldStore,
                         testing::Values(Kind{"nvm", "emu:", Engine::kRedoLog},
                                         Kind{"file", "file:", Engine::kRedoLog},
                                         Kind{"chunks", "emu:", Engine::kRemap},
                                         Kind{"copies", "emu:", Engine::kDualCopy}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace perdura::test
