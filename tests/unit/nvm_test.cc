// Goal: a processor that lacks an instruction gets the next older way to store, and every way
// stores all lines and nothing else.
// Method: processors that lack what this one may have; random lines between guards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "media/nvm.hpp"

namespace perdura::test {
namespace {

using media::CopyLines;
using media::Flush;
using media::Processor;

/// What this processor has of `wanted`.
Processor at_most(const Processor& wanted) {
  const Processor here = media::this_processor();
  return {.avx512f = here.avx512f && wanted.avx512f,
          .avx2 = here.avx2 && wanted.avx2,
          .clwb = here.clwb && wanted.clwb,
          .clflushopt = here.clflushopt && wanted.clflushopt};
}

constexpr Processor kOldest{};
constexpr Processor kAvx2{.avx2 = true};
constexpr Processor kAvx512{.avx512f = true, .avx2 = true};
constexpr Processor kClflushopt{.clflushopt = true};
constexpr Processor kClwb{.clwb = true, .clflushopt = true};

TEST(Nvm, AnInstructionThatIsMissingIsReplacedByTheNextOlderOne) {
  using media::flushing_copy;
  const CopyLines clflush = flushing_copy(Flush::kClflush, kClwb);
  const CopyLines clflushopt = flushing_copy(Flush::kClflushopt, kClwb);
  const CopyLines clwb = flushing_copy(Flush::kClwb, kClwb);
  EXPECT_NE(clwb, clflushopt);
  EXPECT_NE(clflushopt, clflush);
  EXPECT_NE(clwb, clflush);
  EXPECT_EQ(flushing_copy(Flush::kClwb, kClflushopt), clflushopt);
  EXPECT_EQ(flushing_copy(Flush::kClwb, kOldest), clflush);
  EXPECT_EQ(flushing_copy(Flush::kClflushopt, kOldest), clflush);
  EXPECT_EQ(flushing_copy(Flush::kClflush, kOldest), clflush);
}

TEST(Nvm, NonTemporalStoresUseTheWidestVectors) {
  const CopyLines oldest = media::nontemporal_copy(kOldest);
  const CopyLines avx2 = media::nontemporal_copy(kAvx2);
  const CopyLines avx512 = media::nontemporal_copy(kAvx512);
  EXPECT_NE(oldest, avx2);
  EXPECT_NE(avx2, avx512);
  EXPECT_NE(oldest, avx512);
  EXPECT_EQ(media::flushing_copy(Flush::kNonTemporal, kOldest), oldest);
  EXPECT_EQ(media::flushing_copy(Flush::kNonTemporal, kAvx2), avx2);
  EXPECT_EQ(media::flushing_copy(Flush::kNonTemporal),
            media::nontemporal_copy(media::this_processor()));
}

TEST(Nvm, EveryWayStoresAllLinesAndNothingElse) {
  constexpr std::byte kGuard{0xa5};
  constexpr size_t kLines = 130;
  std::mt19937_64 random(1);
  std::vector<std::byte> source(kLines * kLineBytes + 1);
  std::generate(source.begin(), source.end(), [&] { return std::byte(random()); });
  AlignedBuffer destination((kLines + 2) * kLineBytes);
  for (const Processor& wanted : {kOldest, kAvx2, kAvx512, kClflushopt, kClwb})
    for (const Flush flush :
         {Flush::kNonTemporal, Flush::kClwb, Flush::kClflushopt, Flush::kClflush})
      for (const size_t lines : {size_t{0}, size_t{1}, size_t{2}, size_t{64}, kLines})
        for (const size_t shift : {0, 1}) {  // sources lie anywhere
          std::fill_n(destination.data(), destination.size(), kGuard);
          std::byte* const to = destination.data() + kLineBytes;
          media::flushing_copy(flush, at_most(wanted))(to, source.data() + shift,
                                                       lines * kLineBytes);
          media::store_fence();
          ASSERT_EQ(std::memcmp(to, source.data() + shift, lines * kLineBytes), 0);
          const auto is_guard = [](std::byte byte) { return byte == kGuard; };
          ASSERT_TRUE(std::all_of(destination.data(), to, is_guard));
          ASSERT_TRUE(std::all_of(to + lines * kLineBytes, destination.data() + destination.size(),
                                  is_guard));
        }
}

}  // namespace
}  // namespace perdura::test
