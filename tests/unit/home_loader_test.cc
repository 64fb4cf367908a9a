// Goal: whichever way a log left by a crash comes into working memory, all at once, in the
// background or when a page of it is touched, memory is what the log says and what it does not
// change stays; where the system refuses a part, the program never sees old data.
// Method: a region over a home image and a log beside it, applied to memory; calls that fail on
// request; faults that a test reports itself, for a real one that is not handled ends the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "media/self_memory.hpp"
#include "store/home_loader.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"
#include "track/protected_pages.hpp"
#include "track/reported.hpp"

namespace perdura::test {
namespace {

using store::HomeLoader;

class HomeLoaderTest : public testing::Test {
 protected:
  static constexpr u64 kLimit = 8 * kGiB;
  static constexpr u64 kBacked = 8 * kMiB;        // from the beginning
  static constexpr u64 kFar = kLimit - 2 * kMiB;  // and 1 MiB from here

  HomeLoaderTest() : volume_(open_volume("file:" + folder_.path("state.pd"))) {
    arm_calls(nullptr);
    region_ = add_region(*volume_, kLimit);
    value_or_throw(region_->back(0, kBacked));
    value_or_throw(region_->back(kFar, kMiB));
    mutators_ = value_or_throw(track::Mutators::create(nullptr, nullptr));
    tracker_ = value_or_throw(track::Reported::create(*mutators_, region_->base(), kLimit,
                                                      Tracking::kReported, kLineBytes));
  }
  ~HomeLoaderTest() override {
    loader_.reset();
    disarm_calls();
  }

  /// A version with random lines of each page in [first, first + count), and one whole page.
  void log_pages(u64 first, u64 count) {
    for (u64 page = first; page < first + count; ++page)
      for (u64 line = 0; line < kLinesPerPage; ++line)
        if (page == first || random_() % 8 == 0)
          expected_[page * kLinesPerPage + line] = {random_()};
  }
  void write_log() {
    log::Space log(*volume_, 1, 64 * kMiB);
    log::VersionInProgress version;
    version.number = version.ticket = 1;
    log::VersionWriter writer(log, *volume_, 1);
    writer.begin(version);
    write_lines(writer, expected_);
    value_or_throw(writer.finish_with_commit());
  }
  void make_loader() {
    write_log();
    log::Space log(*volume_, 1, 64 * kMiB);
    std::vector<log::LoggedVersion> versions;
    loader_ = std::make_unique<HomeLoader>(*volume_, HomeLoader::Verification{});
    value_or_throw(
        loader_->add_log(value_or_throw(log::read(*volume_, 1, 0, log)), kLimit, versions));
    ASSERT_EQ(versions.size(), 1u);
  }
  std::byte* page(u64 number) const { return region_->base() + number * kPageBytes; }
  void wait_until_done() const {
    while (!loader_->done() && !HasFailure()) std::this_thread::yield();
  }
  void expect_memory() const {
    for (u64 number = 0; number < kBacked / kLineBytes; ++number) {
      const auto found = expected_.find(number);
      const Line wanted = found != expected_.end() ? found->second : Line{};
      ASSERT_EQ(std::memcmp(region_->base() + number * kLineBytes, &wanted, kLineBytes), 0)
          << "line " << number;
    }
    for (auto at = expected_.lower_bound(kBacked / kLineBytes); at != expected_.end(); ++at)
      ASSERT_EQ(std::memcmp(region_->base() + at->first * kLineBytes, &at->second, kLineBytes), 0)
          << "line " << at->first;
  }
  static void fail(Call call, int error, u64 nth = 1, bool for_ever = false) {
    const CallFault fault{.call = call, .nth = nth, .error = error, .for_ever = for_ever};
    arm_calls(&fault);
  }

  const TempDir folder_{TempDir::kMemory};
  std::unique_ptr<region::Volume> volume_;
  std::unique_ptr<region::Region> region_;
  std::unique_ptr<track::Mutators> mutators_;
  std::unique_ptr<track::Reported> tracker_;
  std::unique_ptr<HomeLoader> loader_;
  Lines expected_;
  std::mt19937_64 random_{1};
};

// However many there are, and however often they are touched.
TEST_F(HomeLoaderTest, EachDamagedPageIsToldOnce) {
  constexpr u64 kDamaged = 1100;
  const auto home = region_->home();
  AlignedBuffer content(kPageBytes);
  std::memset(content.data(), 1, content.size());
  for (u64 number = 0; number < kDamaged; ++number) {
    const u64 place =
        region::HomeMap::page_place(*home->find(number * kPageBytes), number * kPageBytes);
    value_or_throw(volume_->medium().write(place, content.span(), PERDURA_SITE("damage")));
  }
  loader_ = std::make_unique<HomeLoader>(*volume_, HomeLoader::Verification{.before_use = true});
  testing::internal::CaptureStderr();
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
  for (int round = 0; round < 2; ++round)
    for (u64 number = 0; number < kDamaged; ++number)
      EXPECT_FALSE(loader_->on_fault(page(number))) << number;
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(static_cast<u64>(std::count(said.begin(), said.end(), '\n')), kDamaged);
  EXPECT_EQ(loader_->findings().damaged_pages, kDamaged);
}

TEST_F(HomeLoaderTest, AllAtOnce) {
  log_pages(3, 500);
  make_loader();
  ASSERT_TRUE(loader_->load_all(*region_));
  expect_memory();
}

TEST_F(HomeLoaderTest, InTheBackground) {
  log_pages(3, 500);
  make_loader();
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
  wait_until_done();
  expect_memory();
}

TEST_F(HomeLoaderTest, WhenTouchedBySeveralThreads) {
  log_pages(3, 1500);
  make_loader();
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([this] { expect_memory(); });
  for (std::thread& thread : threads) thread.join();
  wait_until_done();
}

TEST_F(HomeLoaderTest, ItMayEndBeforeItIsDone) {
  log_pages(3, 1500);
  make_loader();
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
  loader_.reset();
}

// In a region of many gigabytes chunks are larger: each may split the kernel's map of the process.
TEST_F(HomeLoaderTest, FarApart) {
  log_pages(3, 500);
  log_pages(kFar / kPageBytes + 7, 100);
  make_loader();
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
  wait_until_done();
  expect_memory();
}

// At once, and without closing anything to the program.
TEST_F(HomeLoaderTest, FewPagesAtOnce) {
  log_pages(3, 60);
  make_loader();
  arm_calls(nullptr);
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
  EXPECT_EQ(calls_counted(Call::kProtect), 0u);
  expect_memory();
}

TEST_F(HomeLoaderTest, WithoutOwnMemoryAsAFileAtOnce) {
  log_pages(3, 500);
  make_loader();
  fail(Call::kOpen, EACCES);
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
  EXPECT_EQ(calls_failed(), 1u);
  EXPECT_EQ(calls_counted(Call::kProtect), 0u);
  expect_memory();
}

TEST_F(HomeLoaderTest, WithATrackerOfAliasesAtOnce) {
  log_pages(3, 500);
  make_loader();
  const auto tracker = value_or_throw(track::ProtectedPages::create(
      region_->base(), kLimit, Tracking::kProtect, track::Memory::kShared));
  arm_calls(nullptr);
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker));
  EXPECT_EQ(calls_counted(Call::kProtect), 0u);
  expect_memory();
}

TEST_F(HomeLoaderTest, PagesWithoutAPlaceAreRefused) {
  log_pages(kBacked / kPageBytes, 100);
  const std::string sentence = "region offset " + std::to_string(kBacked) + ", which has no place";
  make_loader();
  expect_failure(loader_->load_lazily(*region_, *tracker_), Code::kCorrupt, sentence);
  make_loader();
  expect_failure(loader_->load_all(*region_), Code::kCorrupt, sentence);
}

TEST_F(HomeLoaderTest, MoreFaultHandlersThanThereAreIsAnError) {
  class Handler final : public region::FaultHandler {
    bool on_fault(const region::Fault&) noexcept override { return false; }
  } handler;
  log_pages(3, 500);
  make_loader();
  std::vector<region::FaultWatch> watches;
  for (;;) {
    auto watch = region::FaultWatch::create(nullptr, nullptr, handler);
    if (!watch) break;
    watches.push_back(std::move(*watch));
    ASSERT_LT(watches.size(), 10'000u);
  }
  expect_failure(loader_->load_lazily(*region_, *tracker_), Code::kNoMemory,
                 "too many stores need a fault handler");
}

TEST_F(HomeLoaderTest, AChunkThatCannotBeClosedIsAnError) {
  log_pages(3, 500);
  make_loader();
  fail(Call::kProtect, ENOMEM);
  expect_failure(loader_->load_lazily(*region_, *tracker_), Code::kNoMemory,
                 "cannot close a part of the region");
}

TEST_F(HomeLoaderTest, AFaultElsewhereIsNotItsOwn) {
  log_pages(3, 100);
  log_pages(1900, 100);
  make_loader();
  ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
  EXPECT_FALSE(loader_->on_fault(page(900))) << "nothing of the log is there, nor near";
  EXPECT_TRUE(loader_->on_fault(page(3)));
  wait_until_done();
  EXPECT_TRUE(loader_->on_fault(page(3))) << "it is open: to be tried again";
}

// Closed it stays, so that nobody sees old data, until the system gives what it refused.
TEST_F(HomeLoaderTest, AChunkThatCannotBePatchedStaysClosed) {
  log_pages(3, 500);
  for (const Call call : {Call::kRead, Call::kWrite, Call::kProtect}) {
    SCOPED_TRACE(name_of(call));
    make_loader();
    std::memset(region_->base(), 0, kBacked);
    // The first protection closes the chunks, which are neighbours; the others would open them.
    fail(call, EIO, call == Call::kProtect ? 2 : 1, true);
    ASSERT_TRUE(loader_->load_lazily(*region_, *tracker_));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(loader_->on_fault(page(3)));
    EXPECT_FALSE(loader_->done());
    EXPECT_GT(calls_failed(), 0u);
    disarm_calls();
    for (u64 number = 3; number < 503; ++number) EXPECT_TRUE(loader_->on_fault(page(number)));
    wait_until_done();
    expect_memory();
  }
}

// --- writing to memory that is closed ------------------------------------------------------------

TEST(SelfMemory, ReachesWhatIsClosedAndNotWhatIsNotMapped) {
  const auto memory = value_or_throw(media::SelfMemory::open());
  const Mapping range = value_or_throw(Mapping::anonymous(kPageBytes));
  std::memset(range.as(), 1, kPageBytes);
  std::byte bytes[100] = {};
  ASSERT_EQ(::mprotect(range.as(), kPageBytes, PROT_NONE), 0);
  EXPECT_TRUE(memory.read(range.as() + 5, bytes));
  EXPECT_EQ(bytes[99], std::byte{1});
  bytes[0] = std::byte{2};
  EXPECT_TRUE(memory.write(range.as() + 5, bytes));
  ASSERT_EQ(::mprotect(range.as(), kPageBytes, PROT_READ), 0);
  EXPECT_EQ(range.as()[5], std::byte{2});
  EXPECT_FALSE(memory.read(nullptr, bytes));
  EXPECT_FALSE(memory.write(nullptr, bytes));
}

TEST(SelfMemory, IsUnsupportedWhereTheSystemHasNone) {
  const CallFault fault{.call = Call::kOpen, .nth = 1, .error = ENOENT};
  arm_calls(&fault);
  expect_failure(media::SelfMemory::open(), Code::kUnsupported, "cannot open /proc/self/mem");
  disarm_calls();
}

}  // namespace
}  // namespace perdura::test
