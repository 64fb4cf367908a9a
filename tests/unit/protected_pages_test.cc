// Goal: the page trackers lose no store, also of threads that store while an epoch is cut: what a
// change set does not have yet, a later one has.
// Method: threads store to private memory without any order with the cuts, and each change set is
// copied to a shadow of it, as a capture does. When they rest and all is copied, the shadow is the
// same.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/mapping.hpp"
#include "support/slice.hpp"
#include "track/protected_pages.hpp"
#include "track/userfault.hpp"

namespace perdura::test {
namespace {

constexpr u64 kBytes = kMiB;
constexpr u64 kWords = kBytes / sizeof(u64);

Result<std::unique_ptr<track::Tracker>> make_tracker(Tracking kind, std::byte* base) {
  if (kind == Tracking::kUserfault) {
    PERDURA_ASSIGN(auto tracker, track::Userfault::create(base, kBytes));
    return std::unique_ptr<track::Tracker>(std::move(tracker));
  }
  PERDURA_ASSIGN(auto tracker,
                 track::ProtectedPages::create(base, kBytes, kind, track::Memory::kPrivate));
  return std::unique_ptr<track::Tracker>(std::move(tracker));
}

class PageTrackerTest : public testing::TestWithParam<Tracking> {};

TEST_P(PageTrackerTest, LosesNoStoreOfThreadsThatGoOn) {
  const Mapping memory = value_or_throw(Mapping::anonymous(kBytes));
  ::madvise(memory.as(), kBytes, MADV_NOHUGEPAGE);
  auto made = make_tracker(GetParam(), memory.as());
  if (!made) {
    ASSERT_EQ(made.failure().code, Code::kUnsupported) << made.failure().message;
    GTEST_SKIP() << made.failure().message;
  }
  track::Tracker& tracker = **made;
  const track::Part part{memory.as(), kBytes};
  value_or_throw(tracker.backed({&part, 1}));
  std::vector<u64> shadow(kWords);
  const auto take = [&] {
    value_or_throw(tracker.cut());
    tracker.collect().for_each_page([&](u64 page, u64) {
      for (u64 i = page * kPageBytes / 8; i < (page + 1) * kPageBytes / 8; ++i)
        shadow[i] = std::atomic_ref(memory.as<u64>()[i]).load(std::memory_order_relaxed);
    });
    tracker.settle(true);
  };

  // A store that is lost is seen only if its page is left alone afterwards: so they come in bursts.
  constexpr u64 kThreads = 3;
  constexpr int kBursts = 1500 / kSlower;
  std::barrier together(static_cast<std::ptrdiff_t>(kThreads) + 1);
  std::vector<std::thread> threads;
  for (u64 seed = 1; seed <= kThreads; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      for (int burst = 0; burst < kBursts; ++burst) {
        together.arrive_and_wait();
        // Every now and then nearly all pages change in each epoch, so that they are hot.
        const u64 hot_pages = burst % 32 < 8 ? kBytes / kPageBytes * 15 / 16 : 0;
        for (u64 page = seed - 1; page < hot_pages; page += kThreads)
          std::atomic_ref(memory.as<u64>()[page * kPageBytes / 8 + random() % (kPageBytes / 8)])
              .store(random(), std::memory_order_relaxed);
        for (int i = 0; i < 10; ++i) {
          const u64 number = random();
          std::atomic_ref(memory.as<u64>()[number % kWords])
              .store(number, std::memory_order_relaxed);
        }
        together.arrive_and_wait();
      }
    });
  u64 lost = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    together.arrive_and_wait();
    if (burst % 32 >= 4) take();  // before, epochs are whole bursts
    together.arrive_and_wait();
    take();
    if (std::memcmp(shadow.data(), memory.as(), kBytes) != 0)
      for (u64 i = 0; i < kWords; ++i) lost += shadow[i] != memory.as<u64>()[i];
    shadow.assign(memory.as<u64>(), memory.as<u64>() + kWords);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, PageTrackerTest,
                         testing::Values(Tracking::kUserfault, Tracking::kSigbus,
                                         Tracking::kProtect));

}  // namespace
}  // namespace perdura::test
