// Goal: a store says how often each place of its objects was written, over sessions and from object
// to object; with ObjectsOptions::wear_moves one that is written much moves to where less was
// written, so that no place is written much more often than the others, and each crash leaves it in
// one place or the other with all that was answered.
// Method: a hot object beside cold ones, in sessions that end in order or not; the counts of all
// places, added up as the free ones are said by heads; a medium that is rebuilt as a crash may have
// left it at each of its calls.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "media/record.hpp"
#include "model/object/objects_runtime.hpp"
#include "object/place_wear.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/fellows.hpp"
#include "support/files.hpp"
#include "support/object_medium.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"
#include "support/worn_objects.hpp"

namespace perdura::test {
namespace {

using object::FreeSpace;
using object::PlaceWear;

// --- what is known of places ---------------------------------------------------------------------

constexpr u64 kPage = kPageBytes;

TEST(PlaceWear, TheHighestOfWhatIsSaidCounts) {
  PlaceWear wear;
  wear.note(10 * kPage, 4 * kPage, 7);
  wear.note(12 * kPage, 4 * kPage, 3);
  wear.note(11 * kPage, kPage, 9);
  wear.note(11 * kPage, kPage, 2);
  const u64 expected[] = {0, 7, 9, 7, 7, 3, 3, 0};
  for (u64 i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(wear.of((9 + i) * kPage, kPage), expected[i]) << i;
  EXPECT_EQ(wear.of(9 * kPage, 3 * kPage), 9u);
  EXPECT_EQ(wear.of(13 * kPage, 100), 7u);
  EXPECT_EQ(wear.of(14 * kPage, 10 * kPage), 3u);
}

TEST(PlaceWear, IsThatOfEachPageWhateverIsSaid) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    PlaceWear wear;
    std::vector<u64> pages(64);
    FreeSpace free;
    for (int i = 0; i < 30; ++i) {
      const u64 begin = random() % 60;
      const u64 count = 1 + random() % std::min<u64>(12, 64 - begin);
      const u64 writes = random() % 20;
      wear.note(begin * kPage, count * kPage - random() % kPage, writes);
      for (u64 page = begin; page < begin + count; ++page)
        pages[page] = std::max(pages[page], writes);
      for (u64 page = 0; page < pages.size(); ++page)
        ASSERT_EQ(wear.of(page * kPage, 1), pages[page]) << page;
    }
    for (u64 page = 0; page < 64; page += 1 + random() % 8) {
      const u64 length = std::min(1 + random() % 10, 64 - page);
      free.emplace(page * kPage, length * kPage);
      page += length;
    }
    for (const u64 length : {u64{1}, u64{3}, u64{7}}) {
      std::optional<u64> least;
      for (const auto& [begin, bytes] : free)
        for (u64 at = begin; at + length * kPage <= begin + bytes; at += kPage)
          if (const u64 writes = wear.of(at, length * kPage); !least || writes < *least)
            least = writes;
      const std::optional<u64> found = wear.least_worn(free, length * kPage);
      ASSERT_EQ(found.has_value(), least.has_value());
      if (found) {
        EXPECT_EQ(wear.of(*found, length * kPage), *least);
      }
    }
    // What heads say of it tells who reads them the same of what is worn most.
    PlaceWear again;
    const auto told = wear.worn(free);
    ASSERT_LE(told.size(), format::kObjectFreePlacesMax);
    for (const auto& each : told) again.note(each.place, each.bytes, each.writes);
    if (told.size() == format::kObjectFreePlacesMax) continue;
    for (const auto& [begin, bytes] : free)
      for (u64 at = begin; at < begin + bytes; at += kPage)
        EXPECT_EQ(again.of(at, kPage), wear.of(at, kPage));
  }
}

// --- of a store ----------------------------------------------------------------------------------

class ObjectsWear : public testing::TestWithParam<const char*> {
 protected:
  std::string uri(const char* name = "objects.pd") const { return GetParam() + folder_.path(name); }
  static ObjectOptions options() { return {.log_bytes = 8192, .checkpoint_calls = 2}; }
  static ObjectsOptions levelled(u64 moves = 10) {
    ObjectsOptions options;
    options.wear_moves = moves;
    return options;
  }
  store::ObjectDescription described(const std::string& name) const {
    const store::Description description = value_or_throw(store::describe(uri(), {}));
    for (const store::ObjectDescription& each : *description.regions.at(0).objects)
      if (each.name == name) return each;
    return {};
  }
  u64 most(const std::string& name) const {
    const store::ObjectDescription object = described(name);
    return std::max({object.copy_writes[0], object.copy_writes[1], object.log_writes});
  }
  static void call(Object<Hot>& hot, u64 times, u64& count) {
    for (u64 i = 0; i < times; ++i) ASSERT_EQ(hot.call<&Hot::next>(), ++count);
  }

  const TempDir folder_{TempDir::kMemory};
  const NothingLeft nothing_left_{uri()};
};

INSTANTIATE_TEST_SUITE_P(Media, ObjectsWear, testing::Values("emu:", "file:"), name_of_scheme);

TEST_P(ObjectsWear, HowOftenPlacesWereWrittenIsSaid) {
  u64 count = 0;
  u64 before = 0;
  for (int session = 0; session < 3; ++session) {
    Objects objects = Objects::open(uri());
    auto hot = objects.object<Hot>("hot", options());
    call(hot, 400, count);
    objects.close();
    EXPECT_EQ(objects.moves().worn, 0u) << "nobody has asked for that";
    const store::ObjectDescription now = described("hot");
    const u64 checkpoints = now.copy_writes[0] + now.copy_writes[1];
    EXPECT_GE(checkpoints, before + 200);
    EXPECT_LE(checkpoints, before + 206);
    EXPECT_LE(now.copy_writes[0], now.copy_writes[1] + 1);
    EXPECT_LE(now.copy_writes[1], now.copy_writes[0] + 1);
    EXPECT_EQ(now.log_writes, count / 128) << "lines of it";
    EXPECT_GE(now.head_writes, checkpoints);
    before = checkpoints;
  }
}

// They count from 0 again, and nothing else is different.
TEST_P(ObjectsWear, DamagedCountsAreForgotten) {
  u64 count = 0;
  {
    Objects objects = Objects::open(uri(), levelled());
    auto hot = objects.object<Hot>("hot", options());
    call(hot, 200, count);
    EXPECT_GT(objects.moves().worn, 1u);
  }
  u64 place = 0;
  {
    auto medium = value_or_throw(media::open_medium(uri(), {}));
    const auto volume = value_or_throw(store::open_volume(std::move(medium.medium), false, 0));
    object::ObjectTable table(*volume, volume->regions().at(0).region);
    value_or_throw(table.read());
    const auto& entry = *table.find("hot");
    EXPECT_GT(entry.wear.copy_writes[0], 0u);
    place = entry.place + entry.head.sequence % 2 * format::kObjectHeadBytes;
  }
  const std::string path = folder_.path("objects.pd");
  const FileBytes before = read_file(path);
  const u64 begin = offsetof(format::ObjectSlot, wear);
  const u64 end = begin + sizeof(format::ObjectWear);
  for (u64 byte = begin; byte < sizeof(format::ObjectSlot) + 48; byte += 5) {
    if (byte >= end) byte = std::max(byte, sizeof(format::ObjectSlot));  // behind the build
    FileBytes bytes = before;
    bytes[place + byte] ^= std::byte{16};
    write_file(path, bytes);
    const bool is_wear = byte < end;
    EXPECT_EQ(described("hot").copy_writes[0] == 0, is_wear) << byte;
    EXPECT_FALSE(value_or_throw(store::check(uri(), {})).damaged()) << byte;
    Objects objects = Objects::open(uri(), levelled());
    auto hot = objects.object<Hot>("hot", options());
    EXPECT_EQ(hot.read<&Hot::now>(), count) << byte;
    u64 now = count;
    call(hot, 60, now);
    EXPECT_TRUE(hot.read<&Hot::is_whole>());
  }
}

// Of an object that is made where another one was: also after the session in which that went.
TEST_P(ObjectsWear, WhoGetsAPlaceGetsItsCount) {
  for (const bool reopened : {false, true}) {
    std::optional<Objects> objects = Objects::open(uri(), levelled(u64{1} << 40));
    u64 count = 0;
    auto hot = std::make_unique<Object<Hot>>(objects->object<Hot>("hot", options()));
    call(*hot, 600, count);
    hot.reset();
    objects->remove("hot");
    if (reopened) {
      objects->close();
      objects = Objects::open(uri(), levelled(u64{1} << 40));
    }
    (void)objects->object<Hot>("other", options());
    objects->close();
    const store::ObjectDescription other = described("other");
    EXPECT_GE(other.copy_writes[0] + other.copy_writes[1], 300u) << reopened;
    EXPECT_GE(other.log_writes, 4u) << reopened;
    objects = Objects::open(uri(), levelled(u64{1} << 40));
    objects->remove("other");
  }
}

// All places of four MiB are written about as often, in sessions that end in any way.
TEST_P(ObjectsWear, NoPlaceIsWrittenMuchMoreOften) {
  constexpr u64 kMoves = 10;
  u64 count = 0;
  {
    Objects objects = Objects::open(uri(), levelled());
    for (int i = 0; i < 3; ++i) {
      auto cold = objects.object<Hot>("cold " + std::to_string(i), options());
      EXPECT_EQ(cold.call<&Hot::next>(), 1u);
    }
  }
  for (int session = 0; session < 6; ++session) {
    const bool dies = session % 2 == 1;
    const auto live = [&]() -> std::string {
      Objects objects = Objects::open(uri(), levelled(kMoves));
      auto hot = objects.object<Hot>("hot", options());
      if (hot.read<&Hot::now>() != count || !hot.read<&Hot::is_whole>()) return "it is not whole";
      for (int i = 0; i < 3; ++i)
        if (objects.object<Hot>("cold " + std::to_string(i), options()).read<&Hot::now>() != 1)
          return "one beside it is not what it was";
      for (u64 i = 1; i <= 500; ++i)
        if (hot.call<&Hot::next>() != count + i) return "it counts otherwise";
      if (objects.moves().worn == 0) return "it did not move";
      if (!dies) {
        objects.close();
        return "";
      }
      ::kill(::getpid(), SIGKILL);
      return "";
    };
    EXPECT_EQ(in_child(live), "") << session;
    count += 500;
    EXPECT_LE(most("hot"), 2 * kMoves + 10) << session;
  }
  EXPECT_FALSE(value_or_throw(store::check(uri(), {})).damaged());
}

// The same of the table: its sixteen places, whoever has them. A session that does not level wear
// goes on counting, and versions of checkpoints grow from place to place.
TEST_P(ObjectsWear, NoPlaceOfTheTableIsWrittenMuchMoreOften) {
  constexpr u64 kMoves = 10;
  u64 count = 0;
  u64 written = 0;
  std::uint64_t version = 0;
  for (int session = 0; session < 8; ++session) {
    const u64 moves = session == 5 ? 0 : kMoves;
    const bool dies = session % 2 == 1;
    const auto live = [&]() -> std::string {
      Objects objects = Objects::open(uri(), levelled(moves));
      auto cold = objects.object<Hot>("cold", options());
      std::optional<Object<Hot>> hot = objects.object<Hot>("hot", options());
      std::uint64_t last = version;
      for (u64 i = 1; i <= 400; ++i) {
        if (hot->call<&Hot::next>() != count + i) return "it counts otherwise";
        if (i % 10 != 0) continue;
        const std::uint64_t now = hot->checkpoint();
        if (now <= last) return "a version is not larger than the one before";
        last = now;
      }
      if (!hot->read<&Hot::is_whole>()) return "it is not whole";
      if ((objects.moves().heads == 0) != (moves == 0)) return "its head did as it was not told";
      if (dies) ::kill(::getpid(), SIGKILL);
      hot.reset();
      objects.remove("hot");
      return "";
    };
    EXPECT_EQ(in_child(live), "") << session;
    count = dies ? count + 400 : 0;
    const auto table = table_of(uri());
    ASSERT_EQ(table.size(), 16u);
    EXPECT_EQ(heads_in(table), dies ? 2u : 1u);
    u64 most = 0, all = 0;
    for (const auto& each : table) {
      most = std::max(most, each.head_writes());
      all += each.head_writes();
      version = std::max(version, each.head.sequence);
    }
    if (!dies) version = 0;  // it is gone
    EXPECT_GE(all, written + 240) << session << ": writes were forgotten";
    EXPECT_LE(all, written + 600) << session << ": writes were counted that were none";
    if (session < 5) {
      EXPECT_LE(most, all / 16 + 3 * kMoves) << session;
    }
    written = all;
  }
  EXPECT_FALSE(value_or_throw(store::check(uri(), {})).damaged());
}

// Such a thing no crash leaves: who reads it does not choose one of them.
TEST_P(ObjectsWear, OneHeadAtTwoPlacesIsDamage) {
  {
    Objects objects = Objects::open(uri(), levelled());
    auto hot = objects.object<Hot>("hot", options());
    u64 count = 0;
    call(hot, 20, count);
  }
  const auto table = table_of(uri());
  const auto& has = *std::ranges::max_element(
      table, {}, [](const auto& each) { return each.head.log_lines != 0; });
  const auto& unused = table.at(&has == &table.at(9) ? 8 : 9);
  FileBytes bytes = read_file(folder_.path("objects.pd"));
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(has.place), format::kObjectHeadsBytes,
              bytes.begin() + static_cast<std::ptrdiff_t>(unused.place));
  write_file(folder_.path("objects.pd"), bytes);
  expect_error([&] { (void)Objects::open(uri(), {}); }, Code::kCorrupt, "another one's identity");
  EXPECT_TRUE(value_or_throw(store::check(uri(), {})).damaged());
}

// There is little free space, and what there is has been written as often: it stays.
TEST_P(ObjectsWear, ItStaysWhereNoPlaceIsBetter) {
  ObjectsOptions tight = levelled();
  tight.bytes_max = 2 * (4 * kPage + 8192) + 4 * kPage;
  Objects objects = Objects::open(uri(), tight);
  u64 count = 0;
  auto hot = objects.object<Hot>("hot", options());
  call(hot, 300, count);
  const u64 moves = objects.moves().worn;
  EXPECT_GE(moves, 1u);
  EXPECT_LE(moves, 150 / 10) << "it moves for a difference alone";
  auto cold = objects.object<Hot>("cold", options());
  call(hot, 100, count);
  EXPECT_LE(objects.moves().worn, moves + 1) << "there is no free space";
  EXPECT_EQ(hot.read<&Hot::now>(), count);
}

// As many more writes as numbers can say are never made, however worn what is free is.
TEST_P(ObjectsWear, TheLargestDifferenceIsNone) {
  u64 count = 0;
  ObjectsOptions tight = levelled();
  tight.bytes_max = 2 * (4 * kPage + 8192) + 4 * kPage;  // all of it is written sooner or later
  {
    Objects objects = Objects::open(uri(), tight);
    auto hot = objects.object<Hot>("hot", options());
    call(hot, 200, count);
    EXPECT_GT(objects.moves().worn, 1u);
  }
  for (const u64 moves : {~u64{0}, u64{1} << 63, u64{0}}) {
    tight.wear_moves = moves;
    Objects objects = Objects::open(uri(), tight);
    auto hot = objects.object<Hot>("hot", options());
    call(hot, 100, count);
    EXPECT_EQ(objects.moves().worn, 0u) << moves;
  }
}

TEST_P(ObjectsWear, SharedOnesAndThoseThatKeepAllCallsStay) {
  {
    ObjectsOptions shared = levelled();
    shared.shared = true;
    Objects objects = Objects::open(uri(), shared);
    auto hot = objects.object<Hot>("hot", options());
    u64 count = 0;
    call(hot, 200, count);
    EXPECT_EQ(objects.moves().worn, 0u);
    EXPECT_EQ(objects.moves().heads, 0u);
  }
  EXPECT_GE(described("hot").copy_writes[0], 40u);
  Objects objects = Objects::open(uri(), levelled());
  ObjectOptions all = options();
  all.history = ObjectHistory::kAll;
  all.archive_bytes = 1 << 16;
  auto kept = objects.object<Hot>("kept", all);
  u64 count = 0;
  call(kept, 200, count);
  EXPECT_EQ(objects.moves().worn, 0u);
  EXPECT_GE(objects.moves().heads, 5u) << "what keeps it is not at its place in the table";
  auto hot = objects.object<Hot>("hot", options());
  EXPECT_EQ(hot.call<&Hot::next>(), 201u);
  EXPECT_EQ(objects.moves().worn, 1u) << "it was worn when it was opened";
}

TEST_P(ObjectsWear, WithAnOverflowStoreTheyMoveBothWays) {
  ObjectsOptions both = levelled(5);
  both.bytes_max = 3 * (4 * kPage + 8192) + 6 * kPage;
  both.overflow = uri("overflow.pd");
  u64 counts[5] = {};
  std::mt19937_64 random(6);
  for (int session = 0; session < 3; ++session) {
    Objects objects = Objects::open(uri(), both);
    std::vector<Object<Hot>> all;
    for (int i = 0; i < 5; ++i)
      all.push_back(objects.object<Hot>("hot " + std::to_string(i), options()));
    for (int i = 0; i < 60; ++i) {
      const u64 which = random() % 5;
      call(all[which], 1 + random() % 20, counts[which]);
    }
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(all[i].read<&Hot::now>(), counts[i]);
      EXPECT_TRUE(all[i].read<&Hot::is_whole>());
    }
    EXPECT_GT(objects.moves().out, 0u);
  }
}

// --- crashes -------------------------------------------------------------------------------------

TEST_P(ObjectsWear, ACrashLeavesAllThatWasAnswered) {
  const Hot initial{};
  const auto methods = detail::methods_of<Hot>(Methods<Hot>{});
  const detail::ObjectType type{typeid(Hot).name(), sizeof(Hot), methods, &initial, false};
  media::Recording recording;
  std::vector<std::pair<size_t, u64>> answered;
  size_t begin = 0;
  {
    const auto runtime = value_or_throw(detail::ObjectsRuntime::open(
        uri(), levelled(2), [&]() -> Result<std::unique_ptr<media::Medium>> {
          PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri(), {}));
          return recording.wrap(std::move(opened.medium));
        }));
    const auto hot = value_or_throw(runtime->object("hot", type, options()));
    begin = recording.size();
    for (u64 i = 1; i <= 40; ++i) {
      u64 answer = 0;
      value_or_throw(hot->core().call(hot->call_of(0, 0, Domain::kAll, {}), &answer));
      EXPECT_EQ(answer, i);
      answered.emplace_back(recording.size(), i);
      hot->level();
    }
    EXPECT_GT(value_or_throw(runtime->moves()).worn, 4u);
    EXPECT_GT(value_or_throw(runtime->moves()).heads, 4u);
    runtime->abandon();
  }
  const media::History history = recording.history();
  const u64 size = history.size_after(history.calls().size());
  u64 states = 0, twice = 0;
  for_each_crash(
      history, begin, 3,
      [&](size_t end, const FileBytes& image) {
        write_file(folder_.path("crashed.pd"), image);
        ++states;
        const u64 heads = heads_in(table_of(uri("crashed.pd")));
        ASSERT_TRUE(heads == 1 || heads == 2) << end;
        twice += heads == 2;
        ASSERT_FALSE(value_or_throw(store::check(uri("crashed.pd"), {})).damaged()) << end;
        const auto said = value_or_throw(store::describe(uri("crashed.pd"), {}));
        ASSERT_EQ(said.regions.at(0).objects->size(), 1u) << end;
        if (heads == 2 && twice % 4 == 0) {  // there is none left, nor one that comes back
          value_or_throw(store::remove_object(uri("crashed.pd"), "", "hot", {}, {}));
          ASSERT_EQ(heads_in(table_of(uri("crashed.pd"))), 0u) << end;
          return;
        }
        ObjectsOptions how = levelled(2);
        how.shared = twice % 4 == 1;
        Objects objects = Objects::open(uri("crashed.pd"), how);
        ASSERT_EQ(heads_in(table_of(uri("crashed.pd"))), 1u) << end;
        auto hot = objects.object<Hot>("hot", options());
        const u64 count = hot.read<&Hot::now>();
        ASSERT_GE(count, noted_by(answered, end)) << end;
        ASSERT_LE(count, noted_by(answered, end) + 1) << end;
        ASSERT_TRUE(hot.read<&Hot::is_whole>()) << end;
        for (u64 i = 1; i <= 20; ++i) ASSERT_EQ(hot.call<&Hot::next>(), count + i);
        objects.close();
        ASSERT_LE(std::filesystem::file_size(folder_.path("crashed.pd")), size) << "space is lost";
      },
      [] { return !HasFatalFailure(); });
  EXPECT_GT(states, 100u);
  EXPECT_GT(twice, 10u) << "that had been moving";
}

}  // namespace
}  // namespace perdura::test
