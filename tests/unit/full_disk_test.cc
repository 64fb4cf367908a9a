// Goal: a medium that cannot grow any more locks no store: what was acknowledged on it is there
// after a crash, versions can be made, and transactions go on. Method: stores whose medium is
// refused all growth from the second session on, with small segments so that each of them counts;
// drawn steps, each of which must end with what a model in ordinary memory says, or with the error
// that there is no space, and then without effect.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "media/fault.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

constexpr u64 kSeeds = kSanitized ? 2 : 5;
constexpr u64 kLines = 8000;
constexpr u64 kLinesMax = 1700;  ///< that a record of a segment can name

struct Line {
  alignas(kLineBytes) u64 word;
};
struct Lines {
  Line lines[kLines];
};

struct Way {
  const char* name;
  const char* medium;
  Tracking tracking;
  u32 granule_bytes;
};

Options options_of(const Way& way) {
  Options options;
  options.region_limit_bytes = 8 * kMiB;
  options.log_segment_bytes = 32 * kKiB;
  options.log_limit_bytes = 128 * kKiB;
  options.tracking = way.tracking;
  options.granule_bytes = way.granule_bytes;
  options.lazy_recovery = false;
  return options;
}

class FullDisk : public testing::TestWithParam<Way> {
 protected:
  WrappedStore open(const char* region = "") {
    Options options = options_;
    options.region = region;
    return WrappedStore(uri_, options, [&](std::unique_ptr<media::Medium> inner) {
      return plan_.wrap(std::move(inner));
    });
  }
  static Lines& lines_of(WrappedStore& store) {
    return *static_cast<Lines*>(store.get_root("lines"));
  }
  void create(const char* region = "") {
    WrappedStore store = open(region);
    {
      const auto operation = store.operation();
      void* const lines = operation.allocate(sizeof(Lines), kLineBytes);
      operation.set_root("lines", lines);
    }
    store.checkpoint();
    store.atomically([&](Transaction& tx) { tx.write(lines_of(store).lines[0].word, u64{0}); });
    store.close();
  }
  void fill_disk() {
    plan_.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  }
  void empty_disk() {
    plan_.disarm();
    for (const auto& each : std::filesystem::directory_iterator(folder_.path("")))
      std::filesystem::remove_all(each.path());
  }
  /// Whether it was acknowledged; if not there was no space, and nothing is changed.
  template <class Call>
  static bool acknowledges(Call&& call) {
    try {
      call();
      return true;
    } catch (const Error& error) {
      if (error.code() != Code::kNoSpace) throw;
      EXPECT_EQ(std::string(error.what()).find("has happened"), std::string::npos) << error.what();
      return false;
    }
  }

  const TempDir folder_{TempDir::kMemory};
  const std::string uri_ = GetParam().medium + folder_.path("store.pd");
  Options options_ = options_of(GetParam());
  media::FaultPlan plan_;
};

// The largest transaction that the disk still takes is repeated on it, whatever its size.
TEST_P(FullDisk, TakesNoTransactionThatItCannotRepeat) {
  create();
  std::vector<u64> expected(kLines);
  u64 value = 0;
  u64 taken = 0;
  for (u64 lines = 50; lines <= kLinesMax; lines += 150) {
    fill_disk();
    ++value;
    {
      WrappedStore store = open();
      const u64 step = kLines / lines;
      const bool done = acknowledges([&] {
        store.atomically([&](Transaction& tx) {
          for (u64 i = 0; i < lines; ++i) tx.write(lines_of(store).lines[i * step].word, value);
        });
      });
      if (done)
        for (u64 i = 0; i < lines; ++i) expected[i * step] = value;
      taken += done;
      store.crash();
    }
    WrappedStore store = open();
    for (u64 i = 0; i < kLines; ++i)
      ASSERT_EQ(lines_of(store).lines[i].word, expected[i]) << lines << " lines, line " << i;
    ASSERT_NO_THROW(store.checkpoint()) << "of " << lines << " lines";
    store.atomically([&](Transaction& tx) { tx.write(lines_of(store).lines[0].word, value); });
    expected[0] = value;
    ASSERT_TRUE(store.audit().clean);
    store.crash();
  }
  EXPECT_GE(taken, 1u);
}

// Whatever follows each other: small transactions and large ones, versions, crashes.
TEST_P(FullDisk, LeavesWhatItAcknowledged) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    empty_disk();
    create();
    fill_disk();
    std::vector<u64> expected(kLines);
    u64 value = 0;
    for (u64 session = 0; session < 6; ++session) {
      WrappedStore store = open();
      for (u64 i = 0; i < kLines; ++i) ASSERT_EQ(lines_of(store).lines[i].word, expected[i]) << i;
      ASSERT_NO_THROW(store.checkpoint());
      for (u64 step = 0; step < 60; ++step) {
        ++value;
        if (random() % 4 == 0) {
          // Now and then one that has the log go round.
          const u64 count = random() % 4 == 0 ? 1 + random() % 1500 : 1;
          const u64 at = random() % (kLines - count);
          const std::vector<u64> before(&expected[at], &expected[at] + count);
          {
            const auto operation = store.operation();
            operation.touch(&lines_of(store).lines[at], count * sizeof(Line));
            for (u64 i = at; i < at + count; ++i)
              lines_of(store).lines[i].word = expected[i] = value;
          }
          // Of many transactions, which recovery repeats a part at a time.
          if (acknowledges([&] { store.checkpoint(); })) continue;
          std::copy(before.begin(), before.end(), &expected[at]);
          break;
        }
        const u64 lines = random() % 3 == 0 ? 1 + random() % kLinesMax : 1 + random() % 60;
        const u64 stride = 1 + random() % (kLines / lines);
        const u64 from = random() % (kLines - (lines - 1) * stride);
        const bool done = acknowledges([&] {
          store.atomically([&](Transaction& tx) {
            for (u64 i = 0; i < lines; ++i)
              tx.write(lines_of(store).lines[from + i * stride].word, value);
          });
        });
        for (u64 i = 0; done && i < lines; ++i) expected[from + i * stride] = value;
        ASSERT_EQ(lines_of(store).lines[from].word, expected[from]);
      }
      store.crash();
    }
  }
}

// A version takes the space of one that is home, also where the log is far from its limit.
TEST_P(FullDisk, HasRoomForOneVersionAfterAnother) {
  create();
  fill_disk();
  WrappedStore store = open();
  for (u64 value = 1; value <= 600; ++value) {
    {
      const auto operation = store.operation();
      Line& line = lines_of(store).lines[value % kLines];
      operation.touch(&line, sizeof line);
      line.word = value;
    }
    ASSERT_NO_THROW(store.checkpoint()) << value;
  }
}

// A version that fails leaves nothing in the way of the next attempt: each takes the same space.
TEST_P(FullDisk, KeepsNothingOfVersionsThatFailed) {
  constexpr u64 kFailures = 40;
  create();
  WrappedStore store = open();
  const auto change = [&](u64 value) {
    const auto operation = store.operation();
    Line& line = lines_of(store).lines[0];
    operation.touch(&line, sizeof line);
    line.word = value;
  };
  u64 capacity = 0;
  for (u64 value = 0; value < kFailures; ++value) {
    change(value);
    plan_.arm({.calls = media::kFaultWrite | media::kFaultSubmit, .for_ever = true});
    EXPECT_THROW(store.checkpoint(), Error);
    plan_.disarm();
    if (value == 3) capacity = store.statistics().log_capacity_bytes;
  }
  EXPECT_EQ(store.statistics().log_capacity_bytes, capacity);
  store.checkpoint();
  store.crash();
  WrappedStore again = open();
  EXPECT_EQ(lines_of(again).lines[0].word, kFailures - 1);
}

// Blocks that transactions allocate and give back: the heap's notes of them are part of a version.
TEST_P(FullDisk, RepeatsWhatTransactionsAllocated) {
  create();
  std::vector<u64> expected(kLines);
  const auto pointer = [](WrappedStore& store, u64 i) -> u64& {
    return lines_of(store).lines[i].word;
  };
  std::mt19937_64 random(7);
  fill_disk();
  for (u64 session = 0; session < 25; ++session) {
    WrappedStore store = open();
    ASSERT_NO_THROW(store.checkpoint()) << "session " << session;
    for (u64 i = 0; i < kLines; ++i) {
      const u64 block = pointer(store, i);
      ASSERT_EQ(block == 0, expected[i] == 0) << i;
      ASSERT_TRUE(block == 0 || *reinterpret_cast<u64*>(block) == expected[i]) << i;
    }
    const HeapAudit audit = store.audit();
    ASSERT_TRUE(audit.clean) << "session " << session;
    for (u64 step = 0; step < 8; ++step) {
      const u64 count = 1 + random() % (random() % 4 == 0 ? 600 : 20);
      const u64 from = random() % (kLines - count);
      const u64 seed = random();
      std::vector<u64> after;
      const bool done = acknowledges([&] {
        store.atomically([&](Transaction& tx) {
          std::mt19937_64 drawn(seed);
          after.assign(&expected[from], &expected[from] + count);
          for (u64 i = 0; i < count; ++i) {
            u64& place = pointer(store, from + i);
            if (const u64 old = tx.read(place)) tx.deallocate(reinterpret_cast<void*>(old));
            const bool again = drawn() % 2 == 0;
            const u64 size = u64{8} << drawn() % 8;
            auto* const block = again ? static_cast<u64*>(tx.allocate(size)) : nullptr;
            if (again) tx.write(*block, seed + i);
            tx.write(place, reinterpret_cast<u64>(block));
            after[i] = again ? seed + i : 0;
          }
        });
      });
      if (done) std::copy(after.begin(), after.end(), &expected[from]);
    }
    store.crash();
  }
}

// Each region has a log of its own on the medium that all share: what one gives back another one
// may take, but none what it needs to come back.
TEST_P(FullDisk, LocksNoRegion) {
  constexpr const char* kRegions[] = {"a", "b", "c"};
  constexpr size_t kCount = std::size(kRegions);
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    empty_disk();
    for (const char* region : kRegions) create(region);
    std::vector<std::vector<u64>> expected(kCount, std::vector<u64>(kLines));
    std::optional<WrappedStore> stores[kCount];
    const auto open_and_compare = [&](size_t i) {
      stores[i].emplace(open(kRegions[i]));
      for (u64 line = 0; line < kLines; ++line)
        ASSERT_EQ(lines_of(*stores[i]).lines[line].word, expected[i][line])
            << "region " << i << ", line " << line;
      ASSERT_NO_THROW(stores[i]->checkpoint()) << "region " << i;
    };
    u64 value = 0;
    for (u64 step = 0; step < 250; ++step) {
      // Some of it is there before the disk is full.
      if (step == 40) fill_disk();
      const size_t i = random() % kCount;
      if (!stores[i]) {
        open_and_compare(i);
        if (HasFatalFailure()) return;
        continue;
      }
      WrappedStore& store = *stores[i];
      ++value;
      const u64 what = random() % 12;
      if (what == 0) {
        store.crash();
        stores[i].reset();
      } else if (what == 1) {
        if (!acknowledges([&] { store.close(); })) store.crash();
        stores[i].reset();
      } else if (what == 2) {
        acknowledges([&] { store.checkpoint(); });
      } else {
        const u64 lines = 1 + random() % (what == 3 ? kLinesMax : 40);
        const u64 stride = 1 + random() % (kLines / lines);
        const u64 from = random() % (kLines - (lines - 1) * stride);
        const bool done = acknowledges([&] {
          store.atomically([&](Transaction& tx) {
            for (u64 n = 0; n < lines; ++n)
              tx.write(lines_of(store).lines[from + n * stride].word, value);
          });
        });
        for (u64 n = 0; done && n < lines; ++n) expected[i][from + n * stride] = value;
      }
    }
    for (auto& store : stores) store.reset();
    for (size_t i = 0; i < kCount; ++i) {
      open_and_compare(i);
      if (HasFatalFailure()) return;
    }
    for (auto& store : stores) store.reset();
  }
}

// With several streams of records, one for each thread.
class FullDiskAndStreams : public FullDisk {};

// A thread that is idle keeps its segment of the log, and so a crash finds all younger ones again,
// also those whose transactions a version has. They have counted as free, and a large transaction
// was acknowledged on that.
TEST_P(FullDiskAndStreams, HaveTheRoomThatWasCountedOnBesideAnIdleThread) {
  constexpr u64 kFew = 100;
  options_.log_limit_bytes = 4 * kMiB;  // no checkpoint comes by itself
  for (u64 seed = 1; seed <= 2 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    empty_disk();
    plan_.disarm();
    create();
    const u64 capacity = (10 + random() % 6) * options_.log_segment_bytes;
    std::vector<u64> expected(kLines);
    u64 value = 0;
    u64 large = 0;
    for (u64 session = 0; session < 6; ++session) {
      WrappedStore store = open();
      const auto change = [&](u64 from, u64 lines) {
        ++value;
        const bool done = acknowledges([&] {
          store.atomically([&](Transaction& tx) {
            for (u64 i = 0; i < lines; ++i) tx.write(lines_of(store).lines[from + i].word, value);
          });
        });
        if (done) std::fill_n(&expected[from], lines, value);
        return done;
      };
      // The same lines again and again: what is one version takes many segments of records.
      const auto change_few = [&] { return change(random() % kFew, 1 + random() % kFew); };
      for (u64 i = 0; i < kLines; ++i) ASSERT_EQ(lines_of(store).lines[i].word, expected[i]) << i;
      ASSERT_NO_THROW(store.checkpoint()) << "session " << session;
      ASSERT_TRUE(store.audit().clean);
      std::thread([&] { change_few(); }).join();
      while (session == 0 && store.statistics().log_capacity_bytes < capacity) {
        ASSERT_TRUE(change_few());
      }
      fill_disk();
      for (u64 round = random() % 2; round < 2; ++round) {
        for (u64 i = 0; i < 2000 && change_few(); ++i) {
        }
        // Until two more versions are home their records count as needed.
        for (u64 version = 0; version < 2; ++version) {
          {
            const auto operation = store.operation();
            Line& line = lines_of(store).lines[kLines - 1];
            operation.touch(&line, sizeof line);
            line.word = expected[kLines - 1] = ++value;
          }
          ASSERT_NO_THROW(store.checkpoint());
        }
      }
      large += change(random() % kLinesMax, kLinesMax - random() % 200) ? 1 : 0;
      store.crash();
    }
    EXPECT_GE(large, 1u);
  }
}

// What marks far more than was stored to, so that no version of it finds room here.
class FullDiskAndCoarse : public FullDisk {};

// Versions are trimmed, while everyone stands still, for want of space alone.
TEST_P(FullDiskAndCoarse, TrimsVersionsUntilThereIsSpaceAgain) {
  create();
  fill_disk();
  WrappedStore store = open();
  const auto change_a_line_of_each_page = [&] {
    const auto operation = store.operation();
    for (u64 i = 0; i < kLines; i += kLinesPerPage) {
      Line& line = lines_of(store).lines[i];
      operation.touch(&line, sizeof line);
      ++line.word;
    }
  };
  change_a_line_of_each_page();
  ASSERT_NO_THROW(store.checkpoint());
  ASSERT_TRUE(store.runtime().log()->is_short()) << "a version of all that was marked fitted";
  plan_.disarm();
  change_a_line_of_each_page();
  ASSERT_NO_THROW(store.checkpoint());
  EXPECT_FALSE(store.runtime().log()->is_short());
  store.crash();
  store = open();
  for (u64 i = 0; i < kLines; i += kLinesPerPage) ASSERT_EQ(lines_of(store).lines[i].word, 2u);
}

class FindsNoSpace final : public commit::CutGuest {
 public:
  Status before_cut() override { return {}; }
  Status at_cut() override {
    ++cuts;
    if (cuts > refused_to) return {};
    return Failure{Code::kNoSpace, "a container's table finds no space"};
  }
  void after_cut() noexcept override {}

  u64 cuts = 0;
  u64 refused_to = 0;  ///< this one is the last that is refused
};

// What space was short for before the cut, a container's table say, is not helped by trimming.
TEST_P(FullDiskAndCoarse, WhatFindsNoSpaceIsNotTriedForEver) {
  create();
  fill_disk();
  FindsNoSpace guest;
  auto store = value_or_throw(detail::Runtime::open(
      uri_, options_,
      {.wrap = [&](auto inner) { return plan_.wrap(std::move(inner)); }, .guest = &guest}));
  auto* const lines = static_cast<Lines*>(value_or_throw(store->heap().roots().get("lines", 0)));
  for (u64 i = 0; i < kLines; i += kLinesPerPage) ++lines->lines[i].word;
  ASSERT_TRUE(store->checkpoint());
  ASSERT_TRUE(store->log()->is_short());
  ++lines->lines[0].word;
  const u64 before = guest.cuts;
  guest.refused_to = before + 100;
  expect_failure(store->checkpoint(), Code::kNoSpace, "finds no space");
  EXPECT_LE(guest.cuts, before + 2);
  guest.refused_to = 0;
  EXPECT_TRUE(store->checkpoint());
}

constexpr Way kCoarse{"file_protect", "file:", Tracking::kProtect, 64};
constexpr Way kNvmWays[] = {
    {"emu_reported", "emu:", Tracking::kReported, 64},
    {"emu_protect", "emu:", Tracking::kProtect, 64},
};
constexpr Way kWays[] = {
    {"file_reported", "file:", Tracking::kReported, 64},
    {"file_pages", "file:", Tracking::kReported, 4096},
    kCoarse,
    kNvmWays[0],
    kNvmWays[1],
};
INSTANTIATE_TEST_SUITE_P(Ways, FullDisk, testing::ValuesIn(kWays),
                         [](const auto& way) { return std::string(way.param.name); });
INSTANTIATE_TEST_SUITE_P(Ways, FullDiskAndStreams, testing::ValuesIn(kNvmWays),
                         [](const auto& way) { return std::string(way.param.name); });
INSTANTIATE_TEST_SUITE_P(Ways, FullDiskAndCoarse, testing::Values(kCoarse),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace perdura::test
