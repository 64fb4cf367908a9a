// Goal: the records of transactions in the log count for as long as a store may live, and only in
// the use of a segment that they were written in; threads share what they need of it, and take over
// what others leave. Method: stores with tens of thousands of versions; the beginning of a segment
// is lost, as by a power failure, before the next session uses it; hundreds of threads, at once or
// in turn.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <map>
#include <thread>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "base/mapping.hpp"
#include "format/transaction_format.hpp"
#include "log/record.hpp"
#include "media/decorator.hpp"
#include "media/fault.hpp"
#include "store/inspect.hpp"
#include "store/transaction_replay.hpp"
#include "support/files.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

Options small_store() {
  Options options;
  options.region_limit_bytes = 4 * kMiB;
  options.log_segment_bytes = 32 * kKiB;
  options.log_limit_bytes = 256 * kKiB;
  options.tracking = Tracking::kReported;
  options.lazy_recovery = false;
  return options;
}

// A record says on which version it relies, and is read for as long as its thread keeps the
// segment: the versions that follow may be more than 16 bits can tell apart. Who only looks reads
// it too.
TEST(TransactionLog, ARecordStaysRightForAnyNumberOfVersions) {
  const TempDir folder{TempDir::kMemory};
  const std::string uri = "emu:" + folder.path("store.pd");
  u64 expected = 0;
  const auto crash_after = [&](u64 versions) {
    WrappedStore store(uri, small_store());
    if (store.get_root("word") == nullptr) {
      const auto operation = store.operation();
      operation.set_root("word", operation.allocate(sizeof(u64)));
    }
    u64& word = *static_cast<u64*>(store.get_root("word"));
    EXPECT_EQ(word, expected);
    ++expected;
    store.atomically([&](Transaction& tx) { tx.write(word, expected); });
    for (u64 i = 0; i < versions; ++i) {
      {
        const auto operation = store.operation();
        operation.touch(&word, sizeof word);
        word = ++expected;
      }
      store.checkpoint();
    }
    store.crash();
  };
  // More than half of the range of 16 bits, more than all of it, and none.
  for (const u64 versions : {33'000, 70'000, 0}) {
    SCOPED_TRACE(versions);
    crash_after(versions);
    const store::CheckReport report = value_or_throw(store::check(uri, {}));
    for (const store::Finding& finding : report.findings) ADD_FAILURE() << finding.message;
    const store::Description description = value_or_throw(store::describe(uri, {}));
    EXPECT_GE(description.regions.at(0).log.value().transactions, 1u) << "nobody reads the record";
  }
  EXPECT_EQ(*static_cast<u64*>(WrappedStore(uri, small_store()).get_root("word")), expected);
}

/// A record of this many words and the header fill a page.
constexpr u64 kWordsOfAPage =
    (kPageBytes - sizeof(format::RecordHeader)) / sizeof(u64) - 1;  // one says where they are

struct Words {
  u64 first[kWordsOfAPage];
  u64 second[kWordsOfAPage];
  u64 other;
};

/// Where the segment of transactions is that was begun last.
u64 newest_segment(const std::vector<std::byte>& content) {
  u64 place = 0;
  u64 generation = 0;
  for (u64 at = format::kDataBegin; at + kPageBytes <= content.size(); at += kPageBytes) {
    const auto* const header = reinterpret_cast<const format::LogBlockHeader*>(&content[at]);
    if (header->magic != format::kLogBlockMagic || header->flags != format::kLogTransactions ||
        header->place != at || header->generation < generation)
      continue;
    place = at;
    generation = header->generation;
  }
  return place;
}

/// Zeroes, in the segment of transactions that was begun last, what tells of that use.
void lose_segment_header(const std::string& path) {
  std::vector<std::byte> content = read_file(path);
  const u64 place = newest_segment(content);
  ASSERT_NE(place, 0u);
  std::memset(&content[place], 0, kPageBytes);
  write_file(path, content);
}

/// The place of a record of the segment at `segment`, by its number in it.
u64 place_of_record(const std::vector<std::byte>& content, u64 segment, u64 number) {
  for (u64 at = segment + sizeof(format::LogBlockHeader); at < content.size(); at += kLineBytes) {
    const auto* const record = reinterpret_cast<const format::RecordHeader*>(&content[at]);
    if (record->number == number && record->bytes >= sizeof *record) return at;
  }
  ADD_FAILURE() << "there is no record " << number;
  return segment;
}

/// The segments of a store's log that transactions have, by their place.
std::map<u64, std::vector<std::byte>> segments_with_transactions(const std::string& path,
                                                                 u64 segment_bytes) {
  const std::vector<std::byte> content = read_file(path);
  std::map<u64, std::vector<std::byte>> segments;
  for (u64 at = format::kDataBegin; at + segment_bytes <= content.size(); at += kPageBytes) {
    const auto* const header = reinterpret_cast<const format::LogBlockHeader*>(&content[at]);
    if (header->magic == format::kLogBlockMagic && header->flags == format::kLogTransactions &&
        header->place == at)
      segments[at].assign(&content[at], &content[at] + segment_bytes);
  }
  return segments;
}

// That a version has what its transactions did does not free a segment, for as long as the log
// before it counts: of what is written over it any part may arrive, and then the records that are
// left have a hole.
TEST(TransactionLog, ASegmentStaysUntilAVersionOfItIsHome) {
  const TempDir folder{TempDir::kMemory};
  const std::string path = folder.path("store.pd");
  Options options = small_store();
  options.log_limit_bytes = 8 * kMiB;  // nothing goes home by itself
  const auto open = [&] { return WrappedStore("file:" + path, options); };
  const auto word_of = [](WrappedStore& store) {
    return static_cast<u64*>(store.get_root("word"));
  };
  {
    WrappedStore store = open();
    {
      const auto operation = store.operation();
      operation.set_root("word", operation.allocate(sizeof(u64)));
    }
    for (u64 i = 0; i < 500; ++i)
      store.atomically([&](Transaction& tx) { tx.write(*word_of(store), i); });
    store.crash();
  }
  open().crash();  // a version has them from here on, in the log

  WrappedStore store = open();
  const u64 home = store.runtime().statistics().replayed_version;
  const auto before = segments_with_transactions(path, options.log_segment_bytes);
  ASSERT_GE(before.size(), 1u);
  for (u64 i = 0; i < 40; ++i) {
    {
      const auto operation = store.operation();
      for (u64 block = 0; block < 16; ++block)
        std::memset(operation.allocate(kPageBytes), 1, kPageBytes);
    }
    store.checkpoint();
  }
  ASSERT_EQ(store.runtime().statistics().replayed_version, home);
  const std::vector<std::byte> after = read_file(path);
  for (const auto& [place, content] : before)
    EXPECT_EQ(std::memcmp(&after[place], content.data(), content.size()), 0)
        << "the segment at " << place << " is used again";
  store.crash();
}

// Power fails while a segment is used again, and of its two pages only the one with the record
// arrives. The version that has what was there before is home, but an older segment that a thread
// still has makes its records be read all the same.
TEST(TransactionLog, ATornReuseOfASegmentThatIsHomeIsNoDamage) {
  constexpr u64 kWords = 256;
  constexpr u64 kTornMin = 4;
  const TempDir folder{TempDir::kMemory};
  const std::string path = folder.path("store.pd");
  Options options = small_store();
  options.log_limit_bytes = 512 * kKiB;
  const auto torn_path = [&](u64 number) { return folder.path("torn" + std::to_string(number)); };
  std::vector<u64> expected;  // the first word in each of the torn ones
  {
    WrappedStore store("emu:" + path, options);
    {
      const auto operation = store.operation();
      void* const words = operation.allocate(kWords * sizeof(u64));
      std::memset(words, 0, kWords * sizeof(u64));
      operation.set_root("words", words);
    }
    store.checkpoint();
    auto* const words = static_cast<u64*>(store.get_root("words"));
    std::barrier committed(2);
    std::barrier over(2);
    std::thread idle([&] {
      store.atomically([&](Transaction& tx) { tx.write(words[kWords - 1], u64{1}); });
      committed.arrive_and_wait();
      over.arrive_and_wait();
    });
    committed.arrive_and_wait();
    std::vector<std::byte> before = read_file(path);
    for (u64 i = 1; i <= 2'000 && expected.size() < kTornMin; ++i) {
      store.atomically([&](Transaction& tx) {
        for (u64 word = 0; word < kWords - 1; word += 6) tx.write(words[word], i);
      });
      std::vector<std::byte> after = read_file(path);
      const bool same_metadata = before.size() == after.size() &&
                                 std::equal(before.begin(), before.begin() + 8192, after.begin());
      for (u64 at = format::kDataBegin; same_metadata && at < after.size(); at += kPageBytes) {
        const auto* const last = reinterpret_cast<const format::LogBlockHeader*>(&before[at]);
        const auto* const now = reinterpret_cast<const format::LogBlockHeader*>(&after[at]);
        if (last->magic != format::kLogBlockMagic || last->flags != format::kLogTransactions ||
            now->flags != format::kLogTransactions || now->generation <= last->generation)
          continue;
        std::vector<std::byte> torn = before;
        std::copy(&after[at + sizeof *now], &after[at + kPageBytes], &torn[at + sizeof *now]);
        write_file(torn_path(expected.size()), torn);
        expected.push_back(i - 1);
      }
      before = std::move(after);
    }
    over.arrive_and_wait();
    idle.join();
    store.crash();
  }
  ASSERT_GE(expected.size(), kTornMin);
  for (u64 i = 0; i < expected.size(); ++i) {
    WrappedStore store("emu:" + torn_path(i), options);
    EXPECT_EQ(*static_cast<u64*>(store.get_root("words")), expected[i]);
    store.crash();
  }
}

/// Whose barriers wait while `is_held`.
class HeldBarriers final : public media::Decorator {
 public:
  HeldBarriers(std::atomic<bool>& is_held, std::unique_ptr<media::Medium> inner)
      : Decorator(std::move(inner)), is_held_(is_held) {}
  Status barrier(const media::Site& site) override {
    is_held_.wait(true);
    return inner().barrier(site);
  }

 private:
  std::atomic<bool>& is_held_;
};

// Power fails while relaxed commits are written, and one in the middle does not arrive: those
// behind it never were. Were their segment used again at once, and power failed there too, more
// would be missing before them than their stream had under way, and they would seem to count.
TEST(TransactionLog, RecordsThatNeverWereKeepTheirSegment) {
  constexpr u64 kWords = 2000;
  const TempDir folder{TempDir::kMemory};
  const std::string path = folder.path("store.pd");
  media::FaultPlan plan;
  std::atomic<bool> is_held{false};
  Options options = small_store();
  options.log_limit_bytes = 4 * kMiB;
  const auto open = [&] {
    return WrappedStore("file:" + path, options, [&](std::unique_ptr<media::Medium> inner) {
      return plan.wrap(std::make_unique<HeldBarriers>(is_held, std::move(inner)));
    });
  };
  const auto words_of = [](WrappedStore& store) {
    return static_cast<u64*>(store.get_root("words"));
  };
  const auto set = [&](WrappedStore& store, u64 word, u64 count) {
    store.atomically([&](Transaction& tx) {
      for (u64 i = 0; i < count; ++i) tx.write(words_of(store)[word + i], word + 1);
    });
  };
  {
    WrappedStore store = open();
    {
      const auto operation = store.operation();
      void* const words = operation.allocate(kWords * sizeof(u64));
      std::memset(words, 0, kWords * sizeof(u64));
      operation.set_root("words", words);
    }
    store.checkpoint();
    for (u64 word = 0; word < 5; ++word) set(store, word, 1);
    store.checkpoint();
    value_or_throw(store.runtime().engine().bring_home());
    auto& transactions = detail::transactions_of(store.runtime());
    transactions.set_durability(Durability::kRelaxed);
    // None of them is durable before the last one is appended.
    is_held = true;
    for (u64 word = 5; word <= 17; ++word) set(store, word, 1);
    is_held = false;
    is_held.notify_all();
    transactions.wait_for(transactions.last_commit());
    store.crash();
  }
  std::vector<std::byte> before = read_file(path);
  const u64 segment = newest_segment(before);
  auto* const lost =
      reinterpret_cast<format::RecordHeader*>(&before[place_of_record(before, segment, 5)]);
  std::memset(lost, 0, lost->bytes);
  write_file(path, before);
  const auto generation =
      reinterpret_cast<const format::LogBlockHeader*>(&before[segment])->generation;
  plan.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  {
    WrappedStore store = open();
    EXPECT_EQ(words_of(store)[4], 5u);
    for (u64 word = 5; word <= 17; ++word) EXPECT_EQ(words_of(store)[word], 0u);
    const u32 region = store.runtime().region().id();
    for (u64 round = 0; round < 400; ++round) {
      try {
        set(store, 20, 1000 + round);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::kNoSpace);
        break;
      }
      const std::vector<std::byte> now = read_file(path);
      const bool is_needed = store.runtime().volume().state(region).live_generation <= generation;
      if (!is_needed) break;
      ASSERT_EQ(std::memcmp(&now[segment], &before[segment], options.log_segment_bytes), 0);
    }
    EXPECT_NE(plan.fired(), 0u) << "there was space";
    store.crash();
  }
  plan.disarm();
  WrappedStore store = open();
  EXPECT_EQ(words_of(store)[4], 5u);
  for (u64 word = 5; word <= 17; ++word) EXPECT_EQ(words_of(store)[word], 0u);
}

// Where a record allocates what is in use already, it is not of this store's past: opening refuses
// that, and whoever checks the store finds it.
TEST(TransactionLog, ABlockInThePlaceOfAnotherIsDamageAlsoToACheck) {
  const TempDir folder{TempDir::kMemory};
  const std::string path = folder.path("store.pd");
  Options options = small_store();
  options.log_segment_bytes = kMiB;  // a record has all of a new block
  options.log_limit_bytes = 8 * kMiB;
  const auto open = [&] { return WrappedStore("file:" + path, options); };
  {
    WrappedStore store = open();
    void* block = nullptr;
    {
      const auto operation = store.operation();
      block = operation.allocate(200'000);
      operation.set_root("block", block);
    }
    store.checkpoint();
    store.atomically([&](Transaction& tx) { tx.write(*static_cast<u64*>(block), u64{1}); });
    store.checkpoint();
    store.atomically(
        [&](Transaction& tx) { tx.write(*static_cast<void**>(block), tx.allocate(200'000)); });
    store.crash();
  }
  EXPECT_TRUE(value_or_throw(store::check("file:" + path, {})).findings.empty());
  std::vector<std::byte> content = read_file(path);
  const u64 segment = newest_segment(content);
  const u64 place = place_of_record(content, segment, 1);
  const auto& header = *reinterpret_cast<const format::LogBlockHeader*>(&content[segment]);
  auto* const record = reinterpret_cast<format::RecordHeader*>(&content[place]);
  auto* const words = reinterpret_cast<u64*>(record + 1);
  ASSERT_EQ(format::entry_kind(words[0]), format::EntryKind::kAllocate);
  // One unit earlier, of which the other block has the last one.
  words[0] -= format::kUnitBytes / 16;
  words[1] -= 1;
  record->checksum = log::record_checksum(
      &content[place], record->bytes, place,
      log::SegmentUse{.session = header.session, .generation = header.generation});
  write_file(path, content);
  const auto report = value_or_throw(store::check("file:" + path, {}));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_NE(report.findings[0].message.find("is in use where a transaction"), std::string::npos)
      << report.findings[0].message;
  EXPECT_THROW(open(), Error);
}

// What a record says is counted before anybody has looked whether it is all there.
TEST(TransactionLog, LinesOfARecordThatEndsTooEarlyAreCounted) {
  const Mapping memory = value_or_throw(Mapping::anonymous(2 * kPageBytes));
  auto* const page_behind = memory.as() + kPageBytes;
  ASSERT_EQ(::mprotect(page_behind, kPageBytes, PROT_NONE), 0);
  u64* const last = reinterpret_cast<u64*>(page_behind) - 1;
  *last = format::make_entry(format::EntryKind::kAllocate, 0, 1);
  EXPECT_GE(store::version_lines({last, 1}), 1u);
}

// Power fails while the first records of a segment are written at once, and the page of its header
// does not arrive, though those behind it do. The next session does not learn that the segment was
// used. When it uses it itself, what the dead one wrote there must stay dead.
TEST(TransactionLog, RecordsOfADeadSessionStayDead) {
  const TempDir folder{TempDir::kMemory};
  const std::string path = folder.path("store.pd");
  const auto words_of = [](WrappedStore& store) {
    return static_cast<Words*>(store.get_root("words"));
  };
  const auto fill = [](WrappedStore& store, u64* words) {
    store.atomically([&](Transaction& tx) {
      for (u64 i = 0; i < kWordsOfAPage; ++i) tx.write(words[i], u64{1});
    });
  };
  {
    WrappedStore store("file:" + path, small_store());
    {
      const auto operation = store.operation();
      void* const words = operation.allocate(sizeof(Words));
      operation.touch(words, sizeof(Words));
      std::memset(words, 0, sizeof(Words));
      operation.set_root("words", words);
    }
    store.atomically([&](Transaction& tx) { tx.write(words_of(store)->other, u64{1}); });
    store.close();
  }
  {
    WrappedStore store("file:" + path, small_store());
    fill(store, words_of(store)->first);
    fill(store, words_of(store)->second);
    store.crash();
  }
  lose_segment_header(path);
  {
    WrappedStore store("file:" + path, small_store());
    ASSERT_EQ(words_of(store)->first[0], 0u);
    store.atomically([&](Transaction& tx) { tx.write(words_of(store)->other, u64{2}); });
    store.crash();
  }
  WrappedStore store("file:" + path, small_store());
  EXPECT_EQ(words_of(store)->other, 2u);
  EXPECT_EQ(words_of(store)->first[0], 0u);
  EXPECT_EQ(words_of(store)->second[0], 0u) << "a transaction of the dead session is back";
}

// A crash, and then a disk without space.
class FullDisk : public testing::TestWithParam<const char*> {
 protected:
  /// Of transactions that are in the log and change so many lines each.
  void check(u64 transactions, u64 lines_of_each);
};

void FullDisk::check(u64 transactions, u64 lines_of_each) {
  constexpr u64 kLines = 6800;
  ASSERT_LE(transactions * lines_of_each, kLines);
  struct Lines {
    struct alignas(kLineBytes) {
      u64 word;
    } lines[kLines];
  };
  const TempDir folder{TempDir::kMemory};
  const std::string uri = GetParam() + folder.path("store.pd");
  media::FaultPlan plan;
  // No checkpoint relieves the log meanwhile.
  Options options = small_store();
  options.log_limit_bytes = 4 * kMiB;
  const auto open = [&] {
    return WrappedStore(uri, options, [&](std::unique_ptr<media::Medium> inner) {
      return plan.wrap(std::move(inner));
    });
  };
  const auto lines_of = [](WrappedStore& store) {
    return static_cast<Lines*>(store.get_root("lines"));
  };
  const auto count = [&](WrappedStore& store) {
    u64 found = 0;
    for (const auto& line : lines_of(store)->lines) found += line.word;
    return found;
  };
  {
    WrappedStore store = open();
    {
      const auto operation = store.operation();
      void* const lines = operation.allocate(sizeof(Lines), kLineBytes);
      operation.touch(lines, sizeof(Lines));
      std::memset(lines, 0, sizeof(Lines));
      operation.set_root("lines", lines);
    }
    store.checkpoint();
    store.close();
  }
  {
    WrappedStore store = open();
    for (u64 i = 0; i < transactions; ++i)
      store.atomically([&](Transaction& tx) {
        for (u64 line = 0; line < lines_of_each; ++line)
          tx.write(lines_of(store)->lines[line * transactions + i].word, u64{1});
      });
    store.crash();
  }
  plan.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  {
    WrappedStore store = open();
    EXPECT_EQ(count(store), transactions * lines_of_each);
    EXPECT_NE(plan.fired(), 0u) << "there was space";
    store.checkpoint();
    store.atomically([&](Transaction& tx) { tx.write(lines_of(store)->lines[0].word, u64{2}); });
    store.crash();
  }
  WrappedStore store = open();
  EXPECT_EQ(count(store), transactions * lines_of_each + 1);
  EXPECT_TRUE(store.audit().clean);
}

// What is in the log does not fit one version. It becomes several, one after the other, and the
// store goes on without more space.
TEST_P(FullDisk, DoesNotLockTheStore) { check(60, 100); }

// A version of one of these alone takes several segments.
TEST_P(FullDisk, HasRoomForLargeTransactions) { check(4, 1700); }

INSTANTIATE_TEST_SUITE_P(TransactionLog, FullDisk, testing::Values("file:", "emu:"));

/// Has no memory for the first header of a segment with records.
class NoMemoryForAHeader final : public media::Decorator {
 public:
  NoMemoryForAHeader(std::unique_ptr<media::Medium> inner, bool& refuses)
      : Decorator(std::move(inner)), refuses_(refuses) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    if (site.what == std::string_view("transaction segment") && std::exchange(refuses_, false))
      throw std::bad_alloc();
    return inner().write(offset, data, site);
  }

 private:
  bool& refuses_;
};

// What is acknowledged after memory was short once is in a segment with a header.
TEST(TransactionLog, AHeaderThatGotNoMemoryLosesNoRecord) {
  const TempDir folder(TempDir::kMemory);
  const std::string uri = "emu:" + folder.path("store.pd");
  bool refuses = false;
  const auto open = [&] {
    return std::make_unique<WrappedStore>(
        uri, Options{},
        [&](std::unique_ptr<media::Medium> medium) -> std::unique_ptr<media::Medium> {
          return std::make_unique<NoMemoryForAHeader>(std::move(medium), refuses);
        });
  };
  const auto word_of = [](WrappedStore& store) {
    return static_cast<u64*>(store.get_root("word"));
  };
  {
    const auto store = open();
    {
      const auto operation = store->operation();
      operation.set_root("word", operation.allocate(sizeof(u64)));
    }
    store->checkpoint();
    store->close();
  }
  {
    const auto store = open();
    refuses = true;
    for (const u64 value : {1, 2, 3}) {
      try {
        store->atomically([&](Transaction& tx) { tx.write(*word_of(*store), value); });
      } catch (const std::exception&) {
        EXPECT_EQ(value, 1u) << "it is refused once";
      }
    }
    EXPECT_FALSE(refuses);
    store->crash();
  }
  const auto store = open();
  EXPECT_EQ(*word_of(*store), 3u);
}

// Records are free when a version that has them is home. Without a bound a store would take as much
// as its program ever wrote, and each opening read all of that.
TEST(TransactionLog, IsBoundedWhereTransactionsAreAllThatChanges) {
  constexpr u64 kWords = 64;
  for (const std::string scheme : {"file:", "emu:"}) {
    SCOPED_TRACE(scheme);
    const TempDir folder{TempDir::kMemory};
    Options options;
    options.region_limit_bytes = 4 * kMiB;
    options.log_segment_bytes = 32 * kKiB;
    options.log_limit_bytes = 512 * kKiB;
    options.lazy_recovery = false;
    u64 capacity = 0;
    {
      WrappedStore store(scheme + folder.path("store.pd"), options);
      u64* words = nullptr;
      {
        const auto operation = store.operation();
        words = static_cast<u64*>(operation.allocate(kWords * sizeof(u64)));
        operation.set_root("words", words);
      }
      for (u64 i = 0; i < 20'000; ++i)
        store.atomically([&](Transaction& tx) {
          for (u64 at = 0; at < kWords; ++at) tx.write(words[at], i + at);
        });
      capacity = store.statistics().log_capacity_bytes;
      // The limit, a quarter of it for each of two versions that are to come, and half as much
      // again by which space grows.
      EXPECT_LE(capacity, 3 * options.log_limit_bytes);
      store.checkpoint();
      store.crash();
    }
    // What a version has needs no room for another one.
    WrappedStore store(scheme + folder.path("store.pd"), options);
    EXPECT_LE(store.statistics().log_capacity_bytes, capacity);
    EXPECT_EQ(static_cast<u64*>(store.get_root("words"))[1], 20'000u);
  }
}

// On byte-addressable media who commits keeps a segment of the log, also while it is idle. More
// threads than there are streams of records, or segments within the limit, share these.
TEST(TransactionLog, AnyNumberOfThreadsStaysWithinTheLimit) {
  constexpr size_t kThreads = 300;
  constexpr u64 kRounds = 3;
  struct Counts {
    u64 all;
    u64 of[kThreads];
  };
  const TempDir folder{TempDir::kMemory};
  const std::string uri = "emu:" + folder.path("store.pd");
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.log_limit_bytes = 4 * kMiB;
  options.tracking = Tracking::kReported;
  options.lazy_recovery = false;
  const auto counts_of = [](WrappedStore& store) {
    return static_cast<Counts*>(store.get_root("counts"));
  };
  {
    WrappedStore store(uri, options);
    {
      const auto operation = store.operation();
      void* const counts = operation.allocate(sizeof(Counts));
      operation.touch(counts, sizeof(Counts));
      std::memset(counts, 0, sizeof(Counts));
      operation.set_root("counts", counts);
    }
    Counts* const counts = counts_of(store);
    std::barrier all_are_there(kThreads);
    std::vector<std::thread> threads;
    for (u64& own : counts->of)
      threads.emplace_back([&] {
        for (u64 round = 0; round < kRounds; ++round) {
          store.atomically([&](Transaction& tx) {
            tx.write(own, tx.read(own) + 1);
            tx.write(counts->all, tx.read(counts->all) + 1);
          });
          all_are_there.arrive_and_wait();
        }
      });
    for (std::thread& each : threads) each.join();
    EXPECT_LE(store.statistics().log_capacity_bytes, options.log_limit_bytes);
    store.crash();
  }
  WrappedStore store(uri, options);
  EXPECT_EQ(counts_of(store)->all, kThreads * kRounds);
  for (const u64 each : counts_of(store)->of) EXPECT_EQ(each, kRounds);
  EXPECT_TRUE(store.audit().clean);
}

/// Made before the thread's first use of the store: it is destroyed behind what is made by that.
struct GivesBackAtTheEnd {
  WrappedStore* store = nullptr;
  void* block = nullptr;
  bool in_transaction = false;

  ~GivesBackAtTheEnd() {
    if (store == nullptr) return;
    if (in_transaction) store->atomically([this](Transaction& tx) { tx.deallocate(block); });
    else store->operation().deallocate(block);
  }
};
thread_local GivesBackAtTheEnd at_the_end;

// The next thread has the mutator, the transactions and the stream of the one before.
TEST(TransactionLog, ThreadsThatUseTheStoreUntilTheirVeryEndAreTakenOver) {
  constexpr u64 kThreads = 300;
  for (const std::string scheme : {"file:", "emu:"}) {
    SCOPED_TRACE(scheme);
    const TempDir folder{TempDir::kMemory};
    const std::string uri = scheme + folder.path("store.pd");
    Options options = small_store();
    options.region_limit_bytes = 64 * kMiB;
    options.log_limit_bytes = 64 * kMiB;  // for as many streams as there can be
    u64 live_blocks = 0;
    const auto add_one = [](WrappedStore& store) {
      u64& count = *static_cast<u64*>(store.get_root("count"));
      store.atomically([&](Transaction& tx) { tx.write(count, tx.read(count) + 1); });
    };
    {
      WrappedStore store(uri, options);
      {
        const auto operation = store.operation();
        auto* const count = static_cast<u64*>(operation.allocate(sizeof(u64)));
        operation.touch(count, sizeof *count);
        *count = 0;
        operation.set_root("count", count);
      }
      add_one(store);
      live_blocks = store.audit().live_blocks;
      for (u64 i = 0; i < kThreads; ++i)
        std::thread([&] {
          at_the_end.store = &store;
          at_the_end.block = store.operation().allocate(64);
          at_the_end.in_transaction = i % 2 == 0;
          add_one(store);
        }).join();
      EXPECT_EQ(store.runtime().mutators().all().size(), 2u);
      add_one(store);
      store.checkpoint();
      const auto* const state =
          value_or_throw(store::transaction_state("store", store.runtime().heap()));
      EXPECT_LE(std::ranges::count_if(state->slots, [](auto& slot) { return slot.time != 0; }), 2);
      store.crash();
    }
    WrappedStore store(uri, options);
    EXPECT_EQ(*static_cast<u64*>(store.get_root("count")), kThreads + 2);
    const HeapAudit audit = store.audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
    EXPECT_EQ(audit.live_blocks, live_blocks);
  }
}

// How many records wait for one barrier is said with 16 bits.
TEST(TransactionLog, ManyRecordsMayWaitTogether) {
  log::RecordBuilder builder(32 * kKiB);
  for (const u64 behind : {u64{0}, u64{3}, u64{0xffff}, u64{0x10000}, u64{0x20003}}) {
    builder.begin();
    const media::Bytes bytes = builder.set_header({1, behind + 1, 1}, 0, behind);
    const auto* const record = reinterpret_cast<const format::RecordHeader*>(bytes.data());
    EXPECT_EQ(record->behind, std::min<u64>(behind, 0xffff));
  }
}

// The words of a run are counted with 16 bits.
TEST(TransactionLog, ARunMayHaveMoreWordsThanItsCount) {
  constexpr u64 kWords = format::kEntryCountMax + 1000;
  const TempDir folder{TempDir::kMemory};
  Options options = small_store();
  options.log_segment_bytes = kMiB;
  options.log_limit_bytes = 4 * kMiB;
  for (const bool fresh : {false, true}) {
    const std::string uri = "emu:" + folder.path(fresh ? "fresh.pd" : "old.pd");
    {
      WrappedStore store(uri, options);
      u64* words = nullptr;
      if (!fresh)
        store.atomically(
            [&](Transaction& tx) { words = static_cast<u64*>(tx.allocate(kWords * sizeof(u64))); });
      u64** const root = [&] {
        const auto operation = store.operation();
        auto** const place = static_cast<u64**>(operation.allocate(sizeof(u64*)));
        operation.touch(place, sizeof *place);
        *place = words;
        operation.set_root("words", place);
        return place;
      }();
      store.checkpoint();
      store.atomically([&](Transaction& tx) {
        u64* const to = fresh ? static_cast<u64*>(tx.allocate(kWords * sizeof(u64))) : words;
        for (u64 i = 0; i < kWords; ++i) tx.write(to[i], i);
        tx.write(*root, to);
      });
      store.crash();
    }
    WrappedStore store(uri, options);
    const u64* const words = *static_cast<u64**>(store.get_root("words"));
    ASSERT_NE(words, nullptr);
    u64 wrong = 0;
    for (u64 i = 0; i < kWords; ++i) wrong += words[i] != i ? 1 : 0;
    EXPECT_EQ(wrong, 0u);
  }
}

}  // namespace
}  // namespace perdura::test
