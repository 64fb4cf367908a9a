// Goal: giving a store's space back, and giving a copy an identity of its own, lose nothing,
// whatever moment a crash or a power failure comes at, and say why where they do nothing.
// Method: stores of all engines with two regions, of which one was removed so that there is a gap;
// the work runs on a medium that kills the process at each of its calls, and on one that records
// them, of which every crash point is rebuilt with all, none and some of what no barrier covers.
// What is left is checked, opened, compared with what was stored, and used.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>

#include <perdura/perdura.hpp>
#include <perdura/type.hpp>

#include "format/format.hpp"
#include "media/decorator.hpp"
#include "media/medium.hpp"
#include "media/record.hpp"
#include "store/compact.hpp"
#include "store/identity.hpp"
#include "store/inspect.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/killing_medium.hpp"
#include "support/memcached_server.hpp"
#include "support/process.hpp"
#include "support/store_places.hpp"

namespace {
struct Link {
  Link* next;
  std::uint64_t number;
};
}  // namespace
PERDURA_TYPE(Link, next)

namespace perdura::test {
namespace {

namespace fs = std::filesystem;

using Work = std::function<Status(std::unique_ptr<media::Medium>)>;

Status compact_it(std::unique_ptr<media::Medium> medium) {
  const auto done = store::compact(std::move(medium));
  return done ? Status{} : Status(done.failure());
}
Status renew_it(std::unique_ptr<media::Medium> medium) {
  const auto done = store::renew_identity(std::move(medium));
  return done ? Status{} : Status(done.failure());
}

class Compact : public testing::TestWithParam<StorePlace> {
 protected:
  static constexpr u64 kSmall = 100'000;
  static constexpr u64 kLarge = 1'500'000;

  std::string path() const { return folder_.path(disk_ + "store.pd"); }
  std::string uri() const { return GetParam().scheme + path(); }
  static Options options(const char* region) {
    Options options;
    options.engine = GetParam().engine;
    options.tracking = Tracking::kReported;
    options.chunk_bytes = 64 * kKiB;
    options.versions_kept = 3;
    options.log_limit_bytes = 4 * kMiB;
    options.region_limit_bytes = 32 * kMiB;
    options.region = region;
    options.huge_pages = false;
    return options;
  }

  /// A session that ends with a change that is in no version, and does not close the store.
  std::string leave_by_a_crash() const {
    return in_child([this]() -> std::string {
      Store store = Store::open(uri(), options("kept"));
      put(store, "late", 'd', kSmall);
      ::_exit(0);
    });
  }

  static void put(Store& store, const char* root, char with, u64 bytes) {
    auto* const text = static_cast<char*>(store.allocate(bytes));
    {
      auto operation = store.operation();
      operation.touch(text, bytes);
      std::memset(text, with, bytes);
    }
    store.set_root(root, text);
    store.checkpoint();
  }

  /// "kept" around the space of "removed".
  void make() const {
    {
      Store kept = Store::open(uri(), options("kept"));
      put(kept, "one", 'a', kSmall);
      Store removed = Store::open(uri(), options("removed"));
      put(removed, "gone", 'x', kLarge);
      put(kept, "two", 'b', kLarge);
      removed.close();
      kept.close();
    }
    const Status removed = store::remove_region(uri(), "removed", {});
    ASSERT_TRUE(removed) << removed.failure().message;
  }

  /// What is wrong with the store, or "". It is used afterwards.
  static std::string problem_of(const std::string& uri) {
    const auto report = store::check(uri, {});
    if (!report) return report.failure().message;
    for (const store::Finding& finding : report->findings)
      if (finding.severity == store::Finding::Severity::kDamage) return finding.message;
    try {
      Options chosen = options("kept");
      chosen.create = false;
      Store store = Store::open(uri, chosen);
      const auto holds = [&](const char* root, char with, u64 bytes) {
        const auto* const text = static_cast<const char*>(store.get_root(root));
        return text != nullptr &&
               std::all_of(text, text + bytes, [&](char c) { return c == with; });
      };
      if (!holds("one", 'a', kSmall) || !holds("two", 'b', kLarge)) return "lacks what was stored";
      put(store, "three", 'c', kLarge);
      if (!store.audit().clean) return store.audit().problem;
      store.close();
    } catch (const std::exception& error) {
      return error.what();
    }
    const auto after = store::check(uri, {});
    if (!after) return after.failure().message;
    return after->damaged() ? after->findings.at(0).message : "";
  }

  static std::unique_ptr<media::Medium> open_medium(const std::string& uri) {
    media::MediumOptions chosen;
    chosen.create = false;
    auto opened = media::open_medium(uri, chosen);
    EXPECT_TRUE(opened) << opened.failure().message;
    return std::move(opened->medium);
  }

  /// Kills the process at each call that the work makes of its medium.
  void kill_everywhere(const Work& work) const {
    const FileBytes base = read_file(path());
    const std::string copy = folder_.path("copy.pd");
    const std::string copy_uri = GetParam().scheme + copy;
    for (std::int64_t call = 1;; ++call) {
      write_file(copy, base);
      const pid_t child = ::fork();
      if (child == 0) {
        KillingMedium::Count left{call};
        const Status done = work(std::make_unique<KillingMedium>(open_medium(copy_uri), left));
        ::_exit(done ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
        ASSERT_GT(call, 8) << "it makes more calls than that";
        break;
      }
      ASSERT_EQ(WTERMSIG(status), SIGKILL);
      ASSERT_EQ(problem_of(copy_uri), "") << "killed at call " << call;
      const Status again = work(open_medium(copy_uri));
      ASSERT_TRUE(again) << "after a kill at call " << call << ": " << again.failure().message;
      ASSERT_EQ(problem_of(copy_uri), "") << "done again after call " << call;
    }
  }

  /// Rebuilds what a power failure may leave at each point where that differs.
  void cut_power_everywhere(const Work& work) const {
    media::Recording recording;
    const Status done = work(recording.wrap(open_medium(uri())));
    ASSERT_TRUE(done) << done.failure().message;
    const media::History history = recording.history();
    const std::string copy = folder_.path("copy.pd");
    const std::string copy_uri = GetParam().scheme + copy;
    std::mt19937_64 random(7);
    const std::vector<size_t> points = history.crash_points();
    ASSERT_GE(points.size(), 5u);
    for (const size_t point : points)
      for (int variant = 0; variant < 4; ++variant) {
        const u64 seed = random();
        const auto keep = [&](size_t call, u64 atom) {
          if (variant < 2) return variant == 0;
          return (std::hash<u64>{}((seed ^ call * 0x9e3779b97f4a7c15) + atom * 0xbf58476d1ce4e5b9) *
                      0x94d049bb133111eb >>
                  63) != 0;
        };
        write_file(copy, history.after_crash(point, keep));
        ASSERT_EQ(problem_of(copy_uri), "") << "cut at " << point << ", variant " << variant;
      }
  }

  /// A small disk of this process's own; false: it may not have one.
  bool mount_disk(const char* size) {
    if (::unshare(CLONE_NEWNS) != 0) return false;
    disk_ = "disk/";
    const std::string folder = folder_.path("disk");
    fs::create_directory(folder);
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", folder.c_str(), "tmpfs", 0, size) == 0;
  }
  /// Takes all that the disk has left.
  void fill_disk() const {
    std::ofstream file(folder_.path("disk/filler"), std::ios::binary);
    const std::string zeros(kPageBytes, 0);
    while (file.write(zeros.data(), static_cast<std::streamsize>(zeros.size())).flush().good()) {
    }
  }

  const TempDir folder_{TempDir::kMemory};
  std::string disk_;
};

TEST_P(Compact, GivesBackWhatNothingNeedsAndLosesNothing) {
  make();
  const auto plan = store::compact(uri(), {}, true);
  ASSERT_TRUE(plan) << plan.failure().message;
  const FileBytes before = read_file(path());
  EXPECT_EQ(plan->bytes_before, before.size());
  const auto done = store::compact(uri(), {}, false);
  ASSERT_TRUE(done) << done.failure().message;
  EXPECT_EQ(done->bytes_after, fs::file_size(path()));
  EXPECT_EQ(done->bytes_after, plan->bytes_after) << "what --dry-run has said";
  EXPECT_EQ(done->gap_bytes, plan->gap_bytes);
  EXPECT_GE(done->gap_bytes, kLarge) << "the removed region";
  EXPECT_LE(done->occupied_after + kLarge, done->occupied_before);
  EXPECT_LE(done->occupied_after, plan->occupied_after + 64 * kKiB);
  if (GetParam().engine == Engine::kRedoLog) {
    EXPECT_GE(done->log_bytes, 2 * kMiB);
  }
  EXPECT_TRUE(done->kept.empty());
  const auto description = store::describe(uri(), {});
  ASSERT_TRUE(description);
  EXPECT_EQ(description->superblock.clean, 1u) << "it is as it was closed";
  const auto again = store::compact(uri(), {}, false);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes_after, done->bytes_after) << "there is nothing more to give back";
  EXPECT_EQ(problem_of(uri()), "");
  EXPECT_EQ(problem_of(uri()), "") << "what it has taken again is kept";
}

TEST_P(Compact, HolesHaveTheirSpaceAgainBeforeTheyAreUsed) {
  make();
  const auto done = store::compact(uri(), {}, false);
  ASSERT_TRUE(done);
  {
    Store again = Store::open(uri(), options("again"));
    put(again, "text", 'y', kLarge);
    again.close();
  }
  const auto plan = store::compact(uri(), {}, true);
  ASSERT_TRUE(plan);
  EXPECT_LT(plan->gap_bytes, done->gap_bytes) << "the new region lies in the gap";
  EXPECT_GE(plan->occupied_before, done->occupied_after + kLarge);
  EXPECT_EQ(problem_of(uri()), "");
}

// A store to a place of a mapped file that has no space ends the process on a full disk.
TEST_P(Compact, OnAFullDiskWhatNeedsTheSpaceAgainFails) {
  const std::string problem = in_child([this]() -> std::string {
    if (!mount_disk("size=64m")) return "no mount";
    make();
    const auto done = store::compact(uri(), {}, false);
    if (!done) return done.failure().message;
    fill_disk();
    try {
      Store again = Store::open(uri(), options("again"));
      put(again, "text", 'y', kLarge);
      return "there was space";
    } catch (const Error& error) {
      if (error.code() != Code::kNoSpace) return error.what();
    }
    fs::remove(folder_.path("disk/filler"));
    return problem_of(uri());
  });
  if (problem == "no mount") GTEST_SKIP() << "this process may not mount anything";
  EXPECT_EQ(problem, "");
}

TEST_P(Compact, KillsAtEachCallLoseNothing) {
  make();
  kill_everywhere(compact_it);
}

TEST_P(Compact, PowerFailuresLoseNothing) {
  make();
  cut_power_everywhere(compact_it);
}

TEST_P(Compact, WhatACrashHasLeftIsKept) {
  make();
  ASSERT_EQ(leave_by_a_crash(), "");
  const auto done = store::compact(uri(), {}, false);
  ASSERT_TRUE(done) << done.failure().message;
  if (GetParam().engine == Engine::kRedoLog) {
    ASSERT_EQ(done->kept.size(), 1u);
    EXPECT_NE(done->kept[0].find("close it in order"), std::string::npos) << done->kept[0];
    EXPECT_EQ(done->log_bytes, 0u);
  }
  {
    Store store = Store::open(uri(), options("kept"));
    const auto* const late = static_cast<const char*>(store.get_root("late"));
    ASSERT_NE(late, nullptr);
    EXPECT_EQ(late[kSmall - 1], 'd');
    store.close();
  }
  EXPECT_EQ(problem_of(uri()), "");
}

TEST_P(Compact, IsRefusedWhileTheStoreIsOpen) {
  make();
  const FileBytes before = read_file(path());
  {
    Options reading = options("kept");
    reading.read_only = true;
    Store reader = Store::open(uri(), reading);
    const auto refused = store::compact(uri(), {}, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().code, Code::kLocked);
    EXPECT_NE(refused.failure().message.find("open to be read"), std::string::npos);
    const auto renewed = store::renew_identity(uri(), {});
    ASSERT_FALSE(renewed);
    EXPECT_EQ(renewed.failure().code, Code::kLocked);
    EXPECT_TRUE(store::compact(uri(), {}, true)) << "a dry run only looks";
    reader.close();
  }
  EXPECT_TRUE(read_file(path()) == before) << "nothing was written";
  Store writer = Store::open(uri(), options("kept"));
  const auto refused = store::compact(uri(), {}, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, Code::kLocked);
  writer.close();
}

/// Somebody begins to read between the first look for readers and the second one.
class ReaderComes final : public media::Decorator {
 public:
  using Decorator::Decorator;
  bool has_readers() const noexcept override { return looks_++ != 0; }

 private:
  mutable std::atomic<int> looks_{0};
};

TEST_P(Compact, AReaderWhoComesMeanwhileKeepsWhatHeMayBeReading) {
  make();
  const FileBytes before = read_file(path());
  const auto refused = store::compact(std::make_unique<ReaderComes>(open_medium(uri())));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, Code::kLocked);
  const FileBytes after = read_file(path());
  ASSERT_EQ(after.size(), before.size()) << "nothing is cut off";
  EXPECT_TRUE(std::equal(before.begin() + format::kDataBegin, before.end(),
                         after.begin() + format::kDataBegin))
      << "nothing behind the directories has changed";
  const auto description = store::describe(uri(), {});
  ASSERT_TRUE(description);
  EXPECT_EQ(description->superblock.clean, 1u);
  const auto done = store::compact(uri(), {}, false);
  ASSERT_TRUE(done) << "when he has gone: " << done.failure().message;
  EXPECT_GE(done->gap_bytes, kLarge);
  EXPECT_EQ(problem_of(uri()), "");
}

// --- identity ------------------------------------------------------------------------------------

TEST_P(Compact, KillsWhileAnIdentityIsRenewedLoseNothing) {
  make();
  kill_everywhere(renew_it);
}

TEST_P(Compact, PowerFailuresWhileAnIdentityIsRenewedLoseNothing) {
  make();
  cut_power_everywhere(renew_it);
}

std::vector<u64> versions_of(const store::Description& description) {
  std::vector<u64> numbers;
  for (const store::VersionDescription& version : description.regions.at(0).versions)
    numbers.push_back(version.number);
  return numbers;
}

TEST_P(Compact, ACopyWithAnIdentityOfItsOwnIsAnotherStore) {
  make();
  const auto before = store::outline(uri(), {});
  ASSERT_TRUE(before);
  const auto uuid = store::renew_identity(uri(), {});
  ASSERT_TRUE(uuid) << uuid.failure().message;
  const auto after = store::outline(uri(), {});
  ASSERT_TRUE(after);
  EXPECT_NE(std::memcmp(before->superblock.uuid, after->superblock.uuid, 16), 0);
  EXPECT_EQ(std::memcmp(uuid->data(), after->superblock.uuid, 16), 0);
  EXPECT_EQ(after->regions[0].record.address, before->regions[0].record.address);
  EXPECT_EQ(versions_of(*after), versions_of(*before)) << "all kept versions are its own";
  EXPECT_EQ(after->superblock.clean, 1u);
  EXPECT_EQ(problem_of(uri()), "");
}

TEST_P(Compact, AStoreThatWasNotClosedKeepsItsIdentity) {
  make();
  ASSERT_EQ(leave_by_a_crash(), "");
  const auto refused = store::renew_identity(uri(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, Code::kMisuse);
  EXPECT_NE(refused.failure().message.find("close it in order first"), std::string::npos);
}

TEST_P(Compact, ACopyBesideItsOriginalIsNamedWhereItCannotBeOpened) {
  make();
  const std::string copy = folder_.path("copy.pd");
  fs::copy_file(path(), copy);
  Store original = Store::open(uri(), options("kept"));
  const auto opening = [&]() -> std::string {
    try {
      Store::open(GetParam().scheme + copy, options("kept")).close();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kAddressTaken);
      return error.what();
    }
  };
  const std::string message = opening();
  EXPECT_NE(message.find("are copies of one store"), std::string::npos) << message;
  EXPECT_NE(message.find("perdura identity --new"), std::string::npos) << message;
  original.close();
  EXPECT_EQ(opening(), "") << "alone it can";
}

TEST_P(Compact, ATypedCopyIsOpenBesideItsOriginal) {
  {
    Store store = Store::open(uri(), options("kept"));
    auto* const links = static_cast<Link*>(store.allocate(TypeRecord<Link>::value, 2));
    {
      auto operation = store.operation();
      operation.touch(links, 2 * sizeof(Link));
      links[0] = {&links[1], 1};
      links[1] = {&links[0], 2};
    }
    store.set_root("links", links);
    store.checkpoint();
    store.close();
  }
  const std::string copy = folder_.path("copy.pd");
  fs::copy_file(path(), copy);
  const auto renewed = store::renew_identity(GetParam().scheme + copy, {});
  ASSERT_TRUE(renewed) << renewed.failure().message;
  Store original = Store::open(uri(), options("kept"));
  Store beside = Store::open(GetParam().scheme + copy, options("kept"));
  const auto* const there = static_cast<Link*>(original.get_root("links"));
  const auto* const here = static_cast<Link*>(beside.get_root("links"));
  EXPECT_NE(there, here);
  EXPECT_EQ(here->next, here + 1);
  EXPECT_EQ(here->next->next, here);
  EXPECT_EQ(there->next->number, 2u);
  beside.checkpoint();
  beside.close();
  original.close();
}

TEST(CompactOnAServer, IsRefusedAndUsageIsSaid) {
  const MemcachedProcess server;
  const std::string uri = "memcached://" + server.address() + "/store";
  {
    Options chosen;
    chosen.engine = Engine::kRemap;
    chosen.chunk_bytes = 64 * kKiB;
    chosen.region_limit_bytes = 32 * kMiB;
    Store store = Store::open(uri, chosen);
    store.set_root("text", store.allocate(kMiB));
    store.checkpoint();
    store.close();
  }
  for (const bool dry_run : {false, true}) {
    const auto refused = store::compact(uri, {}, dry_run);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().code, Code::kUnsupported);
    EXPECT_NE(refused.failure().message.find("is on a server"), std::string::npos);
  }
  const auto renewed = store::renew_identity(uri, {});
  ASSERT_FALSE(renewed);
  EXPECT_EQ(renewed.failure().code, Code::kUnsupported);
  const auto usage = store::describe_usage(uri, {});
  ASSERT_TRUE(usage) << usage.failure().message;
  u64 bytes = 0;
  for (const store::SpaceUsage& part : usage->space) bytes += part.bytes;
  EXPECT_EQ(bytes, usage->medium_bytes);
  EXPECT_EQ(usage->regions.at(0).usage->total_bytes(), usage->regions.at(0).backed_bytes);
}

INSTANTIATE_TEST_SUITE_P(Places, Compact, testing::ValuesIn(kStorePlaces), name_of);

}  // namespace
}  // namespace perdura::test
