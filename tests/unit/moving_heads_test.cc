// Goal: an object's head that moves in the table leaves one object: whatever fails or tears then,
// with an identity of its own, and for those who look meanwhile as well.
// Method: media that fail at a call, or of which a crash leaves a part; a writer that moves heads
// as often as it can.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "media/decorator.hpp"
#include "media/record.hpp"
#include "model/object/objects_runtime.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/fellows.hpp"
#include "support/files.hpp"
#include "support/filtered_queue.hpp"
#include "support/object_medium.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"
#include "support/worn_objects.hpp"

namespace perdura::test {
namespace {

/// Of writes and barriers, those that fail: the numbered one (from 1), or what is refused by site.
struct Plan {
  std::string site;
  u64 after = 0;
  u64 count = 0;
  bool barriers_only = false;
  bool is_written = false;
  u64 number = 0;        ///< counts down; at 0 it fails
  bool goes_on = false;  ///< and all that follow
  bool counting = false;
  u64 counted = 0;

  bool refuses(const media::Site& where, bool is_barrier) {
    if (counting) ++counted;
    if (number != 0) {
      if (number == 1) {
        if (!goes_on) number = 0;
        return true;
      }
      --number;
      return false;
    }
    if (count == 0 || where.what != site || (barriers_only && !is_barrier)) return false;
    if (after != 0) return --after, false;
    --count;
    return true;
  }
};

class Planned final : public media::Decorator {
 public:
  Planned(std::unique_ptr<media::Medium> inner, Plan& plan)
      : Decorator(std::move(inner)), plan_(plan) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    if (!plan_.refuses(site, false)) return Decorator::write(offset, data, site);
    if (plan_.is_written) PERDURA_TRY(Decorator::write(offset, data, site));
    return Failure{Code::kIo, "refused"};
  }
  Status barrier(const media::Site& site) override {
    if (!plan_.refuses(site, true)) return Decorator::barrier(site);
    if (plan_.is_written) PERDURA_TRY(Decorator::barrier(site));
    return Failure{Code::kIo, "refused"};
  }
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<FilteredQueue>(
        Decorator::queue(), [this](u64, const media::Site& site, const auto& submit) -> Status {
          if (!plan_.refuses(site, false)) return submit();
          if (plan_.is_written) PERDURA_TRY(submit());
          return Failure{Code::kIo, "refused"};
        });
  }

 private:
  Plan& plan_;
};

class MovingHeads : public testing::TestWithParam<const char*> {
 protected:
  std::string uri(const char* name = "objects.pd") const { return GetParam() + folder_.path(name); }
  static ObjectOptions options(u64 calls = 2) {
    return {.log_bytes = 8192, .checkpoint_calls = calls};
  }
  static ObjectOptions kept() {
    ObjectOptions all = options(1);
    all.history = ObjectHistory::kAll;
    all.callers = 4;
    all.archive_bytes = 1 << 16;
    return all;
  }
  static ObjectsOptions levelled(u64 moves = 10) {
    ObjectsOptions options;
    options.wear_moves = moves;
    return options;
  }
  const Hot initial_{};
  const std::vector<detail::ObjectMethod> methods_ = [] {
    const auto all = detail::methods_of<Hot>(Methods<Hot>{});
    return std::vector<detail::ObjectMethod>(all.begin(), all.end());
  }();
  detail::ObjectType type() const {
    return {typeid(Hot).name(), sizeof(Hot), methods_, &initial_, false};
  }
  std::unique_ptr<detail::ObjectsRuntime> planned(const std::string& uri, const ObjectsOptions& how,
                                                  Plan& plan, media::Recording* recording) {
    return value_or_throw(detail::ObjectsRuntime::open(
        uri, how, [&plan, recording, uri]() -> Result<std::unique_ptr<media::Medium>> {
          PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, {}));
          std::unique_ptr<media::Medium> medium =
              std::make_unique<Planned>(std::move(opened.medium), plan);
          if (recording != nullptr) return recording->wrap(std::move(medium));
          return medium;
        }));
  }
  static Result<u64> try_call(detail::OpenObject& object) {
    u64 answer = 0;
    PERDURA_TRY(object.core().call(object.call_of(0, 0, Domain::kAll, {}), &answer));
    object.level();
    return answer;
  }
  /// A worn object that keeps all its calls: its head alone moves.
  void make_worn(u64 calls) {
    Objects objects = Objects::open(uri());
    auto hot = objects.object<Hot>("hot", kept());
    for (u64 i = 1; i <= calls; ++i) ASSERT_EQ(hot.call<&Hot::next>(), i);
  }

  const TempDir folder_{TempDir::kMemory};
  const NothingLeft nothing_left_{uri()};
};

INSTANTIATE_TEST_SUITE_P(Media, MovingHeads, testing::Values("emu:", "file:"), name_of_scheme);

// A checkpoint's head has reached the medium, and its barrier failed, which nobody is told: the
// object goes on. It is worn, and its head moves: where it was there is a head that the object
// knows nothing of, of the sequence that the first one at the new place would have.
TEST_P(MovingHeads, AHeadThatMayBeThereAllTheSameGoesBeforeItsObjectMoves) {
  make_worn(40);
  Plan plan;
  media::Recording recording;
  size_t begin = 0;
  {
    const auto runtime = planned(uri(), levelled(), plan, &recording);
    const auto hot = value_or_throw(runtime->object("hot", type(), kept()));
    for (u64 i = 1; i <= 40; ++i) {
      u64 answer = 0;  // a program that is run again
      value_or_throw(hot->core().call(hot->call_of(0, 0, Domain::kAll, {}), &answer));
      ASSERT_EQ(answer, i);
    }
    begin = recording.size();
    plan.site = "object head";
    plan.barriers_only = true;
    plan.count = 1;
    EXPECT_EQ(value_or_throw(try_call(*hot)), 41u);
    EXPECT_EQ(plan.count, 0u);
    EXPECT_EQ(value_or_throw(runtime->moves()).heads, 1u);
    EXPECT_EQ(value_or_throw(try_call(*hot)), 42u);
    runtime->abandon();
  }
  u64 states = 0, corrupt = 0;
  for_each_crash(
      recording.history(), begin, 3,
      [&](size_t end, const FileBytes& image) {
        write_file(folder_.path("crashed.pd"), image);
        ++states;
        const bool damaged = value_or_throw(store::check(uri("crashed.pd"), {})).damaged();
        std::string why;
        try {
          (void)Objects::open(uri("crashed.pd"), levelled());
        } catch (const Error& error) {
          why = error.what();
        }
        corrupt += damaged || !why.empty();
        EXPECT_TRUE(why.empty()) << end << ": " << why;
        EXPECT_FALSE(damaged) << end;
      },
      [] { return true; });
  EXPECT_EQ(corrupt, 0u) << "of " << states;
}

// The same, and there is no crash: the medium fails once more, and the store is closed.
TEST_P(MovingHeads, TheSameWhereTheMediumFailsAgain) {
  make_worn(40);
  Plan plan;
  {
    const auto runtime = planned(uri(), levelled(), plan, nullptr);
    const auto hot = value_or_throw(runtime->object("hot", type(), kept()));
    for (u64 i = 1; i <= 40; ++i) {
      u64 answer = 0;
      value_or_throw(hot->core().call(hot->call_of(0, 0, Domain::kAll, {}), &answer));
    }
    plan.site = "object head";
    plan.barriers_only = true;
    plan.count = 1;
    // The second one: what the head left, which is "cleared" first, or said to have none.
    u64 barriers = 0;
    (void)barriers;
    EXPECT_EQ(value_or_throw(try_call(*hot)), 41u);
    (void)runtime->close();
  }
  // How many calls of the medium there are until then is found by trying all of them.
  for (u64 number = 1; number <= 40; ++number) {
    const FileBytes before = read_file(folder_.path("objects.pd"));
    write_file(folder_.path("again.pd"), before);
    Plan twice;
    u64 count = 41;
    {
      const auto runtime = planned(uri("again.pd"), levelled(1), twice, nullptr);
      const auto hot = value_or_throw(runtime->object("hot", type(), kept()));
      for (u64 i = 1; i <= 41; ++i) {
        u64 answer = 0;
        value_or_throw(hot->core().call(hot->call_of(0, 0, Domain::kAll, {}), &answer));
      }
      twice.site = "object head";
      twice.barriers_only = true;
      twice.count = 1;
      u64 answer = 0;
      value_or_throw(hot->core().call(hot->call_of(0, 0, Domain::kAll, {}), &answer));
      ASSERT_EQ(answer, ++count);
      twice.number = number;
      hot->level();
      (void)runtime->close();
    }
    std::string why;
    try {
      Objects objects = Objects::open(uri("again.pd"), levelled());
      auto hot = objects.object<Hot>("hot", kept());
      EXPECT_EQ(hot.read<&Hot::now>(), count) << number;
    } catch (const Error& error) {
      why = error.what();
    }
    EXPECT_EQ(why, "") << number;
  }
}

// Also where a head moves to the place of the last object that was made, and is removed.
TEST_P(MovingHeads, NoTwoObjectsEverHaveOneIdentity) {
  u64 last = 0;
  {
    Objects objects = Objects::open(uri(), levelled(1));
    auto hot = objects.object<Hot>("hot", options());
    {
      auto gone = objects.object<Hot>("gone", options());
      EXPECT_EQ(gone.call<&Hot::next>(), 1u);
    }
    for (const auto& each : table_of(uri())) last = std::max(last, each.head.identity);
    objects.remove("gone");
    for (u64 i = 1; i <= 400; ++i) EXPECT_EQ(hot.call<&Hot::next>(), i);
  }
  Objects objects = Objects::open(uri(), levelled(1));
  (void)objects.object<Hot>("new", options());
  objects.close();
  u64 identity = 0;
  for (const auto& each : table_of(uri()))
    if (each.head.log_lines != 0 && std::string(each.head.name) == "new")
      identity = each.head.identity;
  EXPECT_GT(identity, last) << "another object had it";
}

// The first head at a place that was never used is whole, and what follows it torn off.
TEST_P(MovingHeads, ATornFirstHeadIsNotCountedAsManyWrites) {
  media::Recording recording;
  size_t begin = 0;
  {
    Plan none;
    const auto runtime = planned(uri(), levelled(50), none, &recording);
    const auto hot = value_or_throw(runtime->object("hot", type(), options()));
    begin = recording.size();
    for (u64 i = 1; i <= 130; ++i) ASSERT_EQ(value_or_throw(try_call(*hot)), i);
    EXPECT_GE(value_or_throw(runtime->moves()).heads, 1u);
    runtime->abandon();
  }
  const media::History history = recording.history();
  u64 before = 0;
  for (const size_t end : history.crash_points()) {
    if (end < begin) continue;
    for (int variant = 0; variant < 2; ++variant) {
      // All of what is in flight, but for what is behind the head and the build.
      const FileBytes image = history.after_crash(end, [&](size_t at, u64 atom) {
        const media::RecordedCall& call = history.calls()[at];
        if (variant == 0 || call.site == nullptr ||
            std::string_view(call.site->what) != "object head")
          return false;
        return atom * history.atomic_bytes() < sizeof(format::ObjectSlot);
      });
      write_file(folder_.path("crashed.pd"), image);
      const u64 all = writes_in(table_of(uri("crashed.pd")));
      if (variant == 0) before = all;
      else EXPECT_LE(all, before + 2) << end << ": writes were counted that were none";
    }
  }
}

// Heads move while the table is read, from places that are read later to those read before.
TEST_P(MovingHeads, WhoLooksBesideAWriterMissesNoObject) {
  constexpr u64 kObjects = 8;
  {
    Objects objects = Objects::open(uri(), levelled(1));
    for (u64 i = 0; i < kObjects; ++i)
      (void)objects.object<Hot>("hot " + std::to_string(i), options(1));
  }
  Child writer([&]() -> std::string {
    Objects objects = Objects::open(uri(), levelled(1));
    std::vector<Object<Hot>> all;
    for (u64 i = 0; i < kObjects; ++i)
      all.push_back(objects.object<Hot>("hot " + std::to_string(i), options(1)));
    for (;;)
      for (auto& each : all) (void)each.call<&Hot::next>();
  });
  ::usleep(300000);
  u64 looks = 0, missing = 0, failed = 0, damaged = 0;
  std::string why;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    ++looks;
    try {
      const store::Description description = value_or_throw(store::describe(uri(), {}));
      const auto& objects = description.regions.at(0).objects;
      if (!objects || objects->size() != kObjects) ++missing;
    } catch (const Error& error) {
      ++failed;
      why = error.what();
    }
    const auto report = store::check(uri(), {});
    if (report && report->damaged()) {
      ++damaged;
      why = report->findings.front().message;
    }
  }
  EXPECT_EQ(missing, 0u) << "of " << looks;
  EXPECT_EQ(failed, 0u) << "of " << looks << ": " << why;
  EXPECT_EQ(damaged, 0u) << "of " << looks << ": " << why;
}

// Each call of the medium fails while a head moves; others go on, all is closed and opened.
TEST_P(MovingHeads, AnyFailureOfAMoveLeavesAll) {
  for (const bool is_written : {false, true})
    for (const bool goes_on : {false, true})
      for (u64 number = 1; number <= 60; ++number) {
        SCOPED_TRACE(std::to_string(number) + (is_written ? " written" : "") +
                     (goes_on ? " goes on" : ""));
        std::filesystem::remove(folder_.path("failing.pd"));
        Plan plan;
        plan.is_written = is_written;
        u64 hot_calls = 0, cold_calls = 0;
        bool pending = false;
        {
          const auto runtime = planned(uri("failing.pd"), levelled(1), plan, nullptr);
          const auto hot = value_or_throw(runtime->object("hot", type(), options(1)));
          const auto cold = value_or_throw(runtime->object("cold", type(), options(1)));
          for (u64 i = 0; i < 7; ++i) ASSERT_EQ(value_or_throw(try_call(*hot)), ++hot_calls);
          plan.number = number;
          plan.goes_on = goes_on;
          for (int i = 0; i < 3; ++i) {
            const Result<u64> called = try_call(*hot);
            if (called) ASSERT_EQ(*called, ++hot_calls);
            else pending = true;
          }
          plan.number = 0;
          for (int i = 0; i < 6; ++i) {
            const Result<u64> called = try_call(*cold);
            ASSERT_TRUE(called) << called.failure().message;
            ASSERT_EQ(*called, ++cold_calls);
          }
          const Result<u64> again = try_call(*hot);
          if (again) ASSERT_EQ(*again, ++hot_calls);
          else pending = true;
          // Something new, if that can be.
          (void)runtime->remove("nothing");
          if (auto made = runtime->object("made", type(), options(1)); made) (void)try_call(**made);
          (void)runtime->close();
        }
        ASSERT_FALSE(value_or_throw(store::check(uri("failing.pd"), {})).damaged());
        Objects objects = Objects::open(uri("failing.pd"), levelled(1));
        auto hot = objects.object<Hot>("hot", options(1));
        auto cold = objects.object<Hot>("cold", options(1));
        const u64 now = hot.read<&Hot::now>();
        ASSERT_GE(now, hot_calls);
        ASSERT_LE(now, hot_calls + (pending ? 1 : 0));
        ASSERT_TRUE(hot.read<&Hot::is_whole>());
        ASSERT_EQ(cold.read<&Hot::now>(), cold_calls);
        for (u64 i = 1; i < 20; ++i) ASSERT_EQ(hot.call<&Hot::next>(), now + i);
        ASSERT_GT(objects.moves().heads, 0u);
      }
}

}  // namespace
}  // namespace perdura::test
