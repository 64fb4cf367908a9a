// Goal: the userfault tracker finds the pages that were stored to since the last cut, all of them
// and no others; a version that failed gives its pages back; what is forgotten does not count.
// Method: stores to private memory, anonymous, over a file and new as a region has it, beside a set
// of page numbers. Skipped where the kernel or a sandbox refuses userfaultfd.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "support/call_faults.hpp"
#include "support/files.hpp"
#include "track/userfault.hpp"

namespace perdura::test {
namespace {

using track::Userfault;
using Pages = std::set<u64>;

class UserfaultTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr u64 kPages = 8192;
  static constexpr u64 kUnitPages = 512;  // of a view, which are watched or not
  static constexpr u64 kBytes = kPages * kPageBytes;

  void SetUp() override {
    range_ = value_or_throw(Mapping::reserve(nullptr, kBytes));
    void* mapped = MAP_FAILED;
    if (is_view()) {
      const std::string path = folder_.path("home");
      write_file(path, FileBytes(kBytes, std::byte{7}));
      const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
      mapped = ::mmap(base(), kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd.get(), 0);
    } else {
      mapped = ::mmap(base(), kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    ASSERT_EQ(mapped, base());
    // A region is never without pages: they are the file's until they are stored to.
    if (!is_view()) std::memset(base(), 7, kBytes);
    auto made = Userfault::create(base(), kBytes);
    if (!made) {
      ASSERT_EQ(made.failure().code, Code::kUnsupported) << made.failure().message;
      GTEST_SKIP() << made.failure().message;
    }
    tracker_ = std::move(*made);
  }

  std::byte* base() const { return range_.as(); }
  /// Pages that nobody stored to are those of a file.
  static bool is_view() { return GetParam() == std::string("file"); }
  void store(u64 page) {
    auto* at = reinterpret_cast<volatile u8*>(base() + page * kPageBytes + page % kPageBytes);
    *at = static_cast<u8>(*at + 1);
  }
  u64 load(u64 page) const {
    return *reinterpret_cast<const volatile u8*>(base() + page * kPageBytes);
  }
  void back(u64 first, u64 count) {
    const track::Part part{base() + first * kPageBytes, count * kPageBytes,
                           GetParam() == std::string("new")};
    const Status status = tracker_->backed({&part, 1});
    ASSERT_TRUE(status) << status.failure().message;
  }
  /// End the epoch; the pages found, which must be whole.
  Pages cut() {
    const Status status = tracker_->cut();
    EXPECT_TRUE(status);
    Pages pages;
    tracker_->collect().for_each_page([&](u64 page, u64 mask) {
      EXPECT_EQ(mask, ~u64{0}) << page;
      pages.insert(page);
    });
    return pages;
  }
  void begin_epoch() {
    cut();
    tracker_->settle(true);
  }

  const TempDir folder_{TempDir::kMemory};
  Mapping range_;
  std::unique_ptr<Userfault> tracker_;
};

TEST_P(UserfaultTest, PagesStoredToAreFoundAndNoOthers) {
  back(0, kPages);
  begin_epoch();
  std::mt19937_64 random(1);
  for (u64 count : {0, 1, 5, 300, 3000, 0, 20'000, 10}) {
    Pages expected;
    for (u64 i = 0; i < count; ++i) {
      const u64 page = random() % kPages;
      store(page);
      expected.insert(page);
      load(random() % kPages);
    }
    EXPECT_EQ(cut(), expected) << count << " stores";
    tracker_->settle(true);
    EXPECT_TRUE(tracker_->collect().empty());
  }
}

// More runs of pages than one scan returns.
TEST_P(UserfaultTest, ManySeparateRunsAreFound) {
  back(0, kPages);
  begin_epoch();
  Pages expected;
  for (u64 page = 0; page < kPages; page += 2) {
    store(page);
    expected.insert(page);
  }
  EXPECT_EQ(cut(), expected);
}

TEST_P(UserfaultTest, ReadingChangesNothing) {
  back(0, kPages);
  begin_epoch();
  u64 sum = 0;
  for (u64 page = 0; page < kPages; ++page) sum += load(page);
  EXPECT_EQ(sum, 7 * kPages);
  EXPECT_EQ(cut(), Pages());
  store(0);
  EXPECT_EQ(cut(), Pages{0});
}

TEST_P(UserfaultTest, AFailedVersionGivesItsPagesToTheNext) {
  back(0, kPages);
  begin_epoch();
  store(3);
  store(100);
  EXPECT_EQ(cut(), (Pages{3, 100}));
  store(3);  // while the version is being captured
  store(200);
  tracker_->settle(false);
  EXPECT_EQ(cut(), (Pages{3, 100, 200}));
  tracker_->settle(true);
  EXPECT_EQ(cut(), Pages());
}

TEST_P(UserfaultTest, StoresAfterTheCutBelongToTheNextVersion) {
  back(0, kPages);
  begin_epoch();
  store(3);
  EXPECT_EQ(cut(), Pages{3});
  store(3);
  store(4);
  tracker_->settle(true);
  EXPECT_EQ(cut(), (Pages{3, 4}));
}

TEST_P(UserfaultTest, TheRegionGrows) {
  back(0, 100);
  begin_epoch();
  store(99);
  store(100);  // of no part yet
  EXPECT_EQ(cut(), Pages{99});
  tracker_->settle(true);
  back(1000, 50);
  back(100, 100);
  begin_epoch();
  for (u64 page : {0, 99, 100, 199, 1000, 1049}) store(page);
  store(200);
  store(999);
  EXPECT_EQ(cut(), (Pages{0, 99, 100, 199, 1000, 1049}));
}

TEST_P(UserfaultTest, WhatIsForgottenDoesNotCount) {
  back(0, kPages);
  begin_epoch();
  for (u64 page = 10; page < 30; ++page) store(page);
  EXPECT_TRUE(tracker_->can_close());
  ASSERT_TRUE(tracker_->after_fill(base() + 15 * kPageBytes, 10 * kPageBytes));
  store(20);
  EXPECT_EQ(cut(), (Pages{10, 11, 12, 13, 14, 20, 25, 26, 27, 28, 29}));
}

TEST_P(UserfaultTest, StoresOfSeveralThreadsAreFound) {
  back(0, kPages);
  begin_epoch();
  for (u64 round = 0; round < 10; ++round) {
    std::vector<std::thread> threads;
    Pages expected;
    for (u64 thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (u64 page = thread; page < 3000; page += 3 + round) store(page);
      });
      for (u64 page = thread; page < 3000; page += 3 + round) expected.insert(page);
    }
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(cut(), expected) << round;
    tracker_->settle(true);
  }
}

// Nothing stored is lost between two epochs: what one cut misses the next one finds.
TEST_P(UserfaultTest, StoresDuringCutsAreInOneEpochOrTheNext) {
  back(0, kPages);
  begin_epoch();
  std::thread mutator([&] {
    for (u64 page = 0; page < kPages; ++page) store(page);
  });
  Pages found;
  for (int i = 0; i < 20; ++i) {
    found.merge(cut());
    tracker_->settle(true);
  }
  mutator.join();
  found.merge(cut());
  EXPECT_EQ(found.size(), kPages);
}

// Units are read, stored to, filled or left alone in each epoch, so each comes to be watched in its
// own way; a change is found once.
TEST_P(UserfaultTest, HoweverAUnitIsTouchedItsStoresAreFound) {
  constexpr u64 kFirst = 100;  // a unit begins with the view, wherever that is
  back(kFirst, kPages - 2 * kFirst);
  begin_epoch();
  std::mt19937_64 random(3);
  const auto drawn = [&] { return kFirst + random() % (kPages - 2 * kFirst); };
  Pages ever;  // stored to: the library fills what nobody could access yet
  for (int epoch = 0; epoch < 100; ++epoch) {
    Pages expected;
    const auto change = [&](u64 page) {
      store(page);
      expected.insert(page);
      ever.insert(page);
    };
    for (u64 runs = random() % 4; runs != 0; --runs) {
      const u64 begin = drawn();
      const u64 end = std::min(begin + 1 + random() % (2 * kUnitPages), kPages - kFirst);
      const auto way = random() % 3;
      const auto next = ever.lower_bound(begin);
      if (way == 2 && (next == ever.end() || *next >= end)) {
        for (u64 page = begin; page < end; page += 3) store(page);
        const Status filled =
            tracker_->after_fill(base() + begin * kPageBytes, (end - begin) * kPageBytes);
        ASSERT_TRUE(filled) << filled.failure().message;
      } else if (way == 1) {
        for (u64 page = begin; page < end; ++page) change(page);
      } else {
        for (u64 page = begin; page < end; ++page) load(page);
      }
    }
    for (u64 stores = random() % 100; stores != 0; --stores) change(drawn());
    ASSERT_EQ(cut(), expected) << epoch;
    tracker_->settle(true);
  }
}

// Where nearly all pages of a unit change in each of several epochs no page has a fault any more:
// all that was ever stored to counts as changed, until that is over.
TEST_P(UserfaultTest, UnitsThatChangeAllTheTimeAreNotProtectedUntilTheyDoNot) {
  constexpr Pages::value_type kColdUnit = 3;
  back(0, kPages);
  begin_epoch();
  const auto unit_of = [](u64 page) { return page / kUnitPages; };
  Pages never;  // in a hot unit, stored to
  for (u64 page = 5; page < kPages; page += 50) never.insert(page);
  const auto work = [&](int thinned) {
    Pages stored;
    for (u64 page = 0; page < kPages; ++page) {
      const bool is_cold = unit_of(page) == kColdUnit && page % 7 != 0;
      if (is_cold || never.contains(page) || (thinned != 0 && page % 20 == 3)) continue;
      store(page);
      stored.insert(page);
    }
    return stored;
  };
  const auto faults = [] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<u64>(usage.ru_minflt);
  };
  const u64 hot_units = kPages / kUnitPages - 1;
  Pages all = work(0);
  EXPECT_EQ(cut(), all);
  tracker_->settle(true);
  for (int epoch = 1; epoch < 10; ++epoch) {
    const u64 before = faults();
    const Pages stored = work(epoch % 2);
    const u64 taken = faults() - before;
    const Pages found = cut();
    tracker_->settle(true);
    if (epoch < 3) {
      EXPECT_EQ(found, stored) << epoch;
      continue;
    }
    EXPECT_TRUE(std::includes(found.begin(), found.end(), stored.begin(), stored.end())) << epoch;
    Pages wrong;
    for (const u64 page : found) {
      const bool is_wrong =
          unit_of(page) == kColdUnit ? !stored.contains(page) : is_view() && !all.contains(page);
      if (is_wrong) wrong.insert(page);
    }
    EXPECT_EQ(wrong, Pages()) << epoch;
    // Of a hot unit the sample alone.
    EXPECT_LT(epoch <= 4 ? 0 : taken, hot_units * 32 + kUnitPages) << epoch;
  }
  // The first cut that finds little changed cannot say what; the next one can.
  store(1000);
  EXPECT_TRUE(cut().contains(1000));
  tracker_->settle(true);
  for (const u64 page : {0, 1, 511, 512, 8191}) {
    store(page);
    EXPECT_EQ(cut(), Pages{page});
    tracker_->settle(true);
  }
  EXPECT_EQ(cut(), Pages());
}

// Another one watches a part already, so the kernel refuses it: what was stored to there counts in
// each version, and none is lost.
TEST_P(UserfaultTest, AUnitThatCannotBeWatchedHasAllItsStoresInEachVersion) {
  if (!is_view()) GTEST_SKIP() << "all of it was stored to";
  const UniqueFd other = value_or_throw(track::open_userfault());
  uffdio_api api{};
  api.api = UFFD_API;
  ASSERT_EQ(::ioctl(other.get(), UFFDIO_API, &api), 0);
  constexpr u64 kTaken = kUnitPages;  // the first page
  ASSERT_TRUE(track::register_write_protect(other.get(), base() + kTaken * kPageBytes,
                                            kUnitPages * kPageBytes));
  back(0, kPages);
  Pages stored;
  for (const u64 page : {kTaken, kTaken + 7, kTaken + kUnitPages - 1}) {
    store(page);
    store(page + 2 * kUnitPages);
    stored.insert(page);
    Pages all = stored;
    all.insert(page + 2 * kUnitPages);
    EXPECT_EQ(cut(), all);
    tracker_->settle(true);
    EXPECT_EQ(cut(), stored);
    tracker_->settle(true);
  }
  load(kTaken + 20);
  ASSERT_TRUE(tracker_->after_fill(base() + (kTaken + 30) * kPageBytes, kPageBytes));
  EXPECT_EQ(cut(), stored);
}

// In a hot unit as well: they may be inaccessible.
TEST_P(UserfaultTest, PagesThatNobodyStoredToAreNotFoundInAHotUnit) {
  if (!is_view()) GTEST_SKIP() << "all of it was stored to";
  back(0, kPages);
  begin_epoch();
  constexpr u64 kClosed = 40;
  ASSERT_EQ(::mprotect(base(), kClosed * kPageBytes, PROT_NONE), 0);
  load(kUnitPages - 1);
  Pages stored;
  for (u64 page = kClosed; page < kUnitPages - 1; ++page) stored.insert(page);
  for (int epoch = 0; epoch < 8; ++epoch) {
    for (const u64 page : stored) store(page);
    EXPECT_EQ(cut(), stored) << epoch;
    tracker_->settle(true);
  }
}

TEST_P(UserfaultTest, MemoryThatIsGivenBackIsFoundInAHotUnit) {
  if (GetParam() != std::string("new")) GTEST_SKIP() << "of a view what it was comes again";
  back(0, kUnitPages);
  begin_epoch();
  for (int epoch = 0; epoch < 8; ++epoch) {
    for (u64 page = 0; page < kUnitPages; ++page)
      if (page != 5) store(page);
    if (epoch % 3 == 0) ::madvise(base() + 5 * kPageBytes, kPageBytes, MADV_DONTNEED);
    const bool found = cut().contains(5);
    EXPECT_TRUE(found || epoch % 3 != 0) << epoch;
    tracker_->settle(true);
    if (epoch % 3 == 0) store(5);
  }
}

// Whatever call is refused while units cool down, a later cut finds what was stored to.
TEST_P(UserfaultTest, ACallThatIsRefusedLosesNothing) {
  back(0, 4 * kUnitPages);
  begin_epoch();
  bool refused = true;
  for (u64 nth = 1; refused; ++nth) {
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (u64 page = 0; page < 4 * kUnitPages; ++page) store(page);
      begin_epoch();
    }
    const Pages stored{50, 700, 1300};
    for (const u64 page : stored) store(page);
    const CallFault fault{.call = Call::kControl, .nth = nth, .error = ENOMEM};
    arm_calls(&fault);
    refused = !in_library([&] { return tracker_->cut(); });
    disarm_calls();
    tracker_->settle(!refused);
    if (!refused) break;
    const Pages found = cut();
    EXPECT_TRUE(std::includes(found.begin(), found.end(), stored.begin(), stored.end())) << nth;
    tracker_->settle(true);
    ASSERT_LT(nth, 100u);
  }
}

// The call has protected pages before it came to where it fails, and tells none of them.
TEST_P(UserfaultTest, AScanThatFailsAmidItsWayLosesNothing) {
  if (GetParam() != std::string("new")) GTEST_SKIP() << "other parts may hold other mappings";
  back(0, kUnitPages);
  begin_epoch();
  store(3);
  store(5);
  std::byte* const foreign = base() + 9 * kPageBytes;
  ASSERT_EQ(::mmap(foreign, kPageBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            foreign);
  *reinterpret_cast<volatile char*>(foreign) = 1;
  EXPECT_FALSE(tracker_->cut());
  for (const u64 page : {3, 5}) EXPECT_TRUE(tracker_->collect().has_page(page)) << page;
}

// The system takes protections away from pages of a file near by, where its cache has large ones.
TEST_P(UserfaultTest, WhatIsWrittenToTheFileBesideItIsNoStore) {
  if (!is_view()) GTEST_SKIP();
  const TempDir on_disk;
  const std::string path = on_disk.path("home");
  write_file(path, FileBytes(kBytes, std::byte{7}));
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd direct(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!direct) GTEST_SKIP() << "no direct writes here";
  ASSERT_EQ(::fsync(fd.get()), 0);
  ASSERT_EQ(::mmap(base(), kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd.get(), 0),
            base());
  back(0, kPages);
  const auto read_all = [&] {
    for (u64 page = 0; page < kPages; ++page) load(page);
  };
  alignas(kPageBytes) std::byte content[kPageBytes] = {};
  for (u64 page = 1000; page < 1400; page += 50) {
    read_all();
    store(page + 7);
    EXPECT_EQ(cut(), Pages{page + 7});
    tracker_->settle(true);
    for (const u64 written : {page, page + 7})
      ASSERT_EQ(
          ::pwrite(direct.get(), content, kPageBytes, static_cast<off_t>(written * kPageBytes)),
          static_cast<ssize_t>(kPageBytes));
    EXPECT_EQ(cut(), Pages()) << page;
    read_all();
    EXPECT_EQ(cut(), Pages()) << page;
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, UserfaultTest, testing::Values("anonymous", "file", "new"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
