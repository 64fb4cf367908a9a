// Goal: however the failures of a group's ranks fall together, no rank ever shows a version that
// another lacks, nor less than was acknowledged on any of them; also where they fail again while
// they recover, and in the first point after that; and where an attempt at a version had failed.
// Method: a run of two or three ranks is recorded, each medium by itself, with where all had met.
// Between two meetings the ranks are independent: every combination of moments at which each may
// have failed (before each of its barriers, and at the next meeting) is a state, with none, all, or
// some of what its medium had not covered. Each is opened as a group. Of states in which a rank is
// ahead, the recovery and a point are recorded as well, and taken apart in the same way.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include <perdura/detail/group.hpp>

#include "base/checksum.hpp"
#include "media/fault.hpp"
#include "media/record.hpp"
#include "store/group_look.hpp"
#include "support/files.hpp"
#include "support/group_of_threads.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using detail::GroupMember;
using media::History;

struct Setting {
  const char* name;
  const char* scheme;
  Engine engine;
  unsigned ranks;
};
constexpr Setting kSettings[] = {{"log_file_2", "file:", Engine::kRedoLog, 2},
                                 {"log_nvm_2", "emu:", Engine::kRedoLog, 2},
                                 {"chunks_file_2", "file:", Engine::kRemap, 2},
                                 {"chunks_nvm_2", "emu:", Engine::kRemap, 2},
                                 {"copies_file_2", "file:", Engine::kDualCopy, 2},
                                 {"copies_nvm_2", "emu:", Engine::kDualCopy, 2},
                                 {"log_nvm_3", "emu:", Engine::kRedoLog, 3},
                                 {"chunks_nvm_3", "emu:", Engine::kRemap, 3},
                                 {"copies_nvm_3", "emu:", Engine::kDualCopy, 3}};

struct Value {
  u64 number = 0;
};

using Contents = std::vector<History::Content>;

/// What was done to one rank's medium: each time that it was open, one behind the other.
class Past {
 public:
  explicit Past(std::vector<History> openings) {
    for (History& each : openings)
      if (!each.calls().empty() || openings_.empty()) openings_.push_back(std::move(each));
  }
  size_t calls() const {
    size_t count = 0;
    for (const History& each : openings_) count += each.calls().size();
    return count;
  }
  /// Before each barrier, and at the end of each.
  std::vector<size_t> crash_points() const {
    std::vector<size_t> points;
    size_t before = 0;
    for (const History& each : openings_) {
      for (const size_t point : each.crash_points()) points.push_back(before + point);
      before += each.calls().size();
    }
    return points;
  }
  History::Content after_crash(size_t end, const History::Keep& keep) const {
    for (const History& each : openings_) {
      if (end <= each.calls().size()) return each.after_crash(end, keep);
      end -= each.calls().size();
    }
    PERDURA_ASSERT(false);
    return {};
  }

 private:
  std::vector<History> openings_;
};

/// What was done to the media of all ranks.
struct Recorded {
  std::vector<Past> pasts;
  std::vector<std::vector<size_t>> meetings;  ///< of each rank, the calls that it had made
  struct Acknowledged {
    u64 value;
    size_t meetings;  ///< when so many had been
  };
  std::vector<Acknowledged> acknowledged;

  u64 least_value(size_t meeting, u64 before) const {
    for (const Acknowledged& each : acknowledged)
      if (each.meetings <= meeting) before = each.value;
    return before;
  }
};

/// Which of what no barrier covers is there.
enum class Kept { kNone, kAll, kSome };

class Crashes : public testing::TestWithParam<Setting> {
 protected:
  unsigned ranks() const { return GetParam().ranks; }
  std::string path(unsigned rank) const { return dir_.path("rank-" + std::to_string(rank)); }
  std::string uri() const { return GetParam().scheme + dir_.path("rank-%r"); }
  Options options() const {
    Options options;
    options.engine = GetParam().engine;
    options.region_limit_bytes = 1 << 20;
    options.log_segment_bytes = 32 << 10;
    options.chunk_bytes = 4096;
    options.verify_bytes_per_second = 0;
    options.on_event = [](const Event&) {};
    return options;
  }

  void put(const Contents& contents) {
    for (unsigned rank = 0; rank < ranks(); ++rank)
      if (contents[rank].empty()) std::filesystem::remove(path(rank));
      else write_file(path(rank), contents[rank]);
  }

  using Step = std::function<void(unsigned rank, GroupMember& group, media::FaultPlan& plan)>;
  /// Opens the group over `contents`, and has each rank make the step; then all are dropped.
  /// `acknowledge(value)` is called by rank 0 when a point has returned.
  Recorded record(const Contents& contents, const Step& step) {
    put(contents);
    const auto meeting = std::make_shared<Meeting>(ranks());
    std::vector<std::vector<std::unique_ptr<media::Recording>>> recordings(ranks());
    std::vector<media::FaultPlan> plans(ranks());
    Recorded run;
    meeting->when_met = [&] {
      std::vector<size_t> sizes;
      for (const auto& openings : recordings) {
        size_t& size = sizes.emplace_back(0);
        for (const auto& each : openings) size += each->size();
      }
      run.meetings.push_back(std::move(sizes));
    };
    acknowledge_ = [&](u64 value) { run.acknowledged.push_back({value, run.meetings.size()}); };
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < ranks(); ++rank)
      threads.emplace_back([&, rank] {
        const detail::InternalOptions internal{.wrap = [&, rank](auto medium) {
          auto& openings = recordings[rank];
          openings.push_back(std::make_unique<media::Recording>());
          return openings.back()->wrap(plans[rank].wrap(std::move(medium)));
        }};
        const auto group = GroupMember::open(std::make_unique<ThreadPeers>(meeting, rank), uri(),
                                             options(), &internal);
        step(rank, *group, plans[rank]);
        plans[rank].arm({.for_ever = true});  // it dies
      });
    for (std::thread& each : threads) each.join();
    for (const auto& openings : recordings) {
      std::vector<History> histories;
      for (const auto& each : openings) {
        histories.push_back(each->history());
        for (const media::RecordedCall& call : histories.back().calls()) check_taken_back(call);
      }
      run.pasts.emplace_back(std::move(histories));
    }
    return run;
  }
  std::function<void(u64)> acknowledge_;

  // A version of a log is taken back by zeros over its headers, whatever the memory held that they
  // are written from: with its own header there, it would be taken back for ever.
  void check_taken_back(const media::RecordedCall& call) {
    if (call.kind != media::RecordedCall::Kind::kWrite || call.site == nullptr ||
        std::string_view(call.site->what) != "version taken back")
      return;
    ++taken_back_;
    EXPECT_TRUE(is_zero(call.bytes.data(), call.bytes.size())) << call.offset;
  }
  u64 taken_back_ = 0;

  static void set(GroupMember& group, u64 number) {
    Value& value = group.store().root<Value>("value");
    const auto op = group.store().operation();
    op.touch(&value, sizeof value);
    value.number = number;
  }

  Contents contents_at(const Recorded& run, const std::vector<size_t>& at, Kept kept) const {
    Contents contents;
    for (unsigned rank = 0; rank < ranks(); ++rank)
      contents.push_back(run.pasts[rank].after_crash(at[rank], [&](size_t call, u64 atom) {
        if (kept == Kept::kSome) return ((call * 7 + atom * 13 + rank) >> 1) % 2 == 0;
        return kept == Kept::kAll;
      }));
    return contents;
  }

  /// Every combination of moments between one meeting and the next.
  template <class Each>
  void for_each_state(const Recorded& run, Each&& each) {
    std::set<std::vector<size_t>> seen;
    for (size_t meeting = 0; meeting <= run.meetings.size(); ++meeting) {
      std::vector<std::vector<size_t>> moments(ranks());
      for (unsigned rank = 0; rank < ranks(); ++rank) {
        const Past& past = run.pasts[rank];
        const size_t begin = meeting == 0 ? 0 : run.meetings[meeting - 1][rank];
        const size_t end =
            meeting == run.meetings.size() ? past.calls() : run.meetings[meeting][rank];
        std::set<size_t> all = {begin, end};
        for (const size_t point : past.crash_points())
          if (point >= begin && point <= end) all.insert(point);
        moments[rank].assign(all.begin(), all.end());
      }
      std::vector<size_t> index(ranks(), 0);
      for (;;) {
        std::vector<size_t> at;
        for (unsigned rank = 0; rank < ranks(); ++rank) at.push_back(moments[rank][index[rank]]);
        // Once for each meeting: another one may have been acknowledged.
        std::vector<size_t> key = at;
        key.push_back(static_cast<size_t>(run.least_value(meeting, 0)));
        if (seen.insert(key).second) each(at, meeting);
        unsigned rank = 0;
        while (rank < ranks() && ++index[rank] == moments[rank].size()) index[rank++] = 0;
        if (rank == ranks()) break;
      }
    }
  }

  /// Opens a state as a group; what all show. A problem ends the test.
  void check(const Contents& contents, u64 least, u64 most, const std::string& where) {
    std::vector<u64> key;
    for (const History::Content& each : contents) key.push_back(checksum(each.data(), each.size()));
    auto [known, is_new] = shown_.try_emplace(key, 0);
    if (is_new) {
      put(contents);
      std::vector<u64> values(ranks());
      try {
        run_ranks(ranks(), [&](unsigned rank, std::unique_ptr<detail::GroupPeers> peers) {
          const auto group = GroupMember::open(std::move(peers), uri(), options());
          const Value* const value = group->store().find_root<Value>("value");
          values[rank] = value != nullptr ? value->number : 0;
        });
      } catch (const Error& error) {
        problem_ = where + ": " + error.what();
        return;
      }
      ++states_;
      for (unsigned rank = 1; rank < ranks(); ++rank)
        if (values[rank] != values[0])
          problem_ = where + ": rank 0 shows " + std::to_string(values[0]) + ", rank " +
                     std::to_string(rank) + " shows " + std::to_string(values[rank]);
      known->second = values[0];
    }
    if (known->second < least || known->second > most)
      problem_ = where + ": shows " + std::to_string(known->second) + ", and " +
                 std::to_string(least) + " was acknowledged";
  }

  /// Whether ranks have different newest versions.
  bool any_ahead(const Contents& contents) {
    put(contents);
    std::set<u64> numbers;
    for (unsigned rank = 0; rank < ranks(); ++rank)
      numbers.insert(
          store::look_at_group(store::of_rank(uri(), rank, ranks()), options(), {}).region_version);
    return numbers.size() > 1;
  }

  const TempDir dir_{TempDir::kMemory};
  std::map<std::vector<u64>, u64> shown_;
  std::string problem_;
  u64 states_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Settings, Crashes, testing::ValuesIn(kSettings),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Crashes, NoRankShowsAVersionThatAnotherLacks) {
  // Of three ranks the stores are there already: how they are made is taken apart with two.
  Contents begin(ranks());
  if (ranks() == 3) {
    const Recorded first = record(begin, [&](unsigned, GroupMember& group, media::FaultPlan&) {
      set(group, 1);
      group.point();
    });
    std::vector<size_t> end;
    for (const Past& past : first.pasts) end.push_back(past.calls());
    begin = contents_at(first, end, Kept::kNone);
  }
  const Recorded run =
      record(begin, [&](unsigned rank, GroupMember& group, media::FaultPlan& plan) {
        const auto made = [&](u64 value) {
          if (rank == 0) acknowledge_(value);
        };
        if (ranks() == 2) {
          set(group, 1);
          group.point();
        }
        made(1);
        // One that fails, on the last rank alone, and one with the same number.
        set(group, 2);
        if (rank == ranks() - 1)
          plan.arm({.calls = media::kFaultWrite | media::kFaultSubmit, .nth = 1, .for_ever = true});
        EXPECT_THROW(group.point(), Error);
        plan.disarm();
        set(group, 3);
        group.point();
        made(3);
        if (ranks() == 3) return;
        set(group, 4);
        group.point_async();
        group.sync();
        made(4);
      });
  constexpr size_t kDeepMax = kSanitized ? 2 : 5;
  std::vector<Contents> ahead;
  std::vector<u64> least_of_ahead;
  std::set<std::vector<size_t>> seen_ahead;
  size_t count = 0;
  for_each_state(run, [&](const std::vector<size_t>& at, size_t meeting) {
    for (const Kept kept : {Kept::kNone, Kept::kAll, Kept::kSome}) {
      if (!problem_.empty() || (ranks() == 3 && kept != Kept::kNone)) return;
      if (kSanitized && kept == Kept::kSome) return;  // the accesses are those of the others
      ++count;
      const Contents contents = contents_at(run, at, kept);
      const u64 least = run.least_value(meeting, 0);
      check(contents, least, 4,
            "meeting " + std::to_string(meeting) + ", state " + std::to_string(count));
      if (problem_.empty() && kept == (ranks() == 3 ? Kept::kNone : Kept::kAll) && least >= 1 &&
          ahead.size() < kDeepMax && any_ahead(contents)) {
        ahead.push_back(contents);
        least_of_ahead.push_back(least);
      }
    }
  });
  std::printf("%zu contents, %llu states\n", count, static_cast<unsigned long long>(states_));
  ASSERT_EQ(problem_, "");
  EXPECT_FALSE(ahead.empty());
  for (size_t i = 0; i < ahead.size() && problem_.empty(); ++i) {
    const Recorded again =
        record(ahead[i], [&](unsigned rank, GroupMember& group, media::FaultPlan&) {
          set(group, 7);
          group.point();
          if (rank == 0) acknowledge_(7);
        });
    for_each_state(again, [&](const std::vector<size_t>& at, size_t meeting) {
      for (const Kept kept : {Kept::kNone, Kept::kAll}) {
        if (!problem_.empty()) return;
        check(contents_at(again, at, kept), again.least_value(meeting, least_of_ahead[i]), 7,
              "of state " + std::to_string(i) + ", again at meeting " + std::to_string(meeting));
      }
    });
  }
  EXPECT_EQ(problem_, "");
  EXPECT_GT(states_, 30u);
  EXPECT_EQ(taken_back_ > 0, GetParam().engine == Engine::kRedoLog);
  RecordProperty("states", std::to_string(states_));
  std::printf("%llu states\n", static_cast<unsigned long long>(states_));
}

}  // namespace
}  // namespace perdura::test
