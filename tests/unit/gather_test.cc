// Goal: gathering writes exactly the bytes of its sources and returns their checksum, by every way
// of storing to NVM, for every number of lines; what is fetched ahead changes nothing.
// Method: random bytes scattered over memory, a destination with guards on both sides, and the
// plain checksum() of what was written.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "media/summed_copy.hpp"

namespace perdura::test {
namespace {

using media::CopyLines;
using media::Flush;
using media::Gather;

struct Way {
  const char* name;
  CopyLines copy;  ///< nullptr: to ordinary memory
};

class GatherTest : public testing::TestWithParam<Way> {
 protected:
  static constexpr u64 kSourcePages = 256;
  static constexpr std::byte kGuard{0xa5};

  GatherTest() : source_(kSourcePages * kPageBytes), destination_(3 * kPageBytes) {
    std::generate_n(source_.data(), source_.size(), [&] { return std::byte(random_()); });
  }

  const std::byte* random_line() {
    return source_.data() + random_() % (source_.size() / kLineBytes) * kLineBytes;
  }
  std::vector<const std::byte*> random_lines(size_t count) {
    std::vector<const std::byte*> lines(count);
    for (const std::byte*& line : lines) line = random_line();
    return lines;
  }

  void expect_gathered(const Gather& gather, size_t shift = 0) {
    std::vector<std::byte> expected;
    if (gather.page != nullptr) expected.assign(gather.page, gather.page + kPageBytes);
    for (const std::byte* line : gather.lines)
      expected.insert(expected.end(), line, line + kLineBytes);
    ASSERT_EQ(gather.bytes(), expected.size());
    std::fill_n(destination_.data(), destination_.size(), kGuard);
    std::byte* const to = destination_.data() + kPageBytes + shift;
    const u64 sum = GetParam().copy != nullptr ? media::gather_summed(to, gather, GetParam().copy)
                                               : media::gather_summed(to, gather);
    media::store_fence();
    EXPECT_EQ(std::memcmp(to, expected.data(), expected.size()), 0);
    EXPECT_EQ(sum, checksum(expected.data(), expected.size()));
    const auto is_guard = [](std::byte byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(destination_.data(), to, is_guard)) << "wrote before its place";
    EXPECT_TRUE(
        std::all_of(to + expected.size(), destination_.data() + destination_.size(), is_guard))
        << "wrote behind its place";
  }

  std::mt19937_64 random_{1};
  AlignedBuffer source_;
  AlignedBuffer destination_;
};

TEST_P(GatherTest, Pages) {
  for (u64 i = 0; i < 50; ++i) {
    const std::byte* page = source_.data() + random_() % kSourcePages * kPageBytes;
    const std::byte* ahead = source_.data() + random_() % kSourcePages * kPageBytes;
    expect_gathered({.page = page, .page_ahead = i % 2 == 0 ? ahead : nullptr}, i % 3 * kLineBytes);
  }
}

TEST_P(GatherTest, AnyNumberOfScatteredLines) {
  for (size_t count = 1; count <= Gather::kLinesMax; ++count) {
    SCOPED_TRACE(count);
    const auto lines = random_lines(count);
    for (size_t ahead_count : {size_t{0}, size_t{1}, count, Gather::kLinesMax}) {
      const auto ahead = random_lines(ahead_count);
      expect_gathered({.lines = lines, .ahead = ahead}, count % 2 * kLineBytes);
    }
  }
}

TEST_P(GatherTest, LinesThatAreAPageSumUpAsThePage) {
  std::vector<const std::byte*> lines;
  for (u64 i = 0; i < kLinesPerPage; ++i) lines.push_back(source_.data() + i * kLineBytes);
  expect_gathered({.lines = lines});
  // The same line again and again, and lines of equal bytes.
  std::fill(lines.begin(), lines.end(), lines[5]);
  expect_gathered({.lines = lines});
  std::fill_n(source_.data(), kPageBytes, std::byte{0});
  expect_gathered({.page = source_.data()});
  std::fill_n(source_.data(), kPageBytes, std::byte{0xff});
  expect_gathered({.page = source_.data()});
}

// Each byte matters: one bit changed anywhere in a page changes the sum.
TEST_P(GatherTest, TheSumFollowsEveryByte) {
  std::byte* const to = destination_.data();
  const auto sum_of_page = [&] {
    const Gather gather{.page = source_.data()};
    return GetParam().copy != nullptr ? media::gather_summed(to, gather, GetParam().copy)
                                      : media::gather_summed(to, gather);
  };
  const u64 sum = sum_of_page();
  for (u64 at = 0; at < kPageBytes; at += 7) {
    source_.data()[at] ^= std::byte{1};
    ASSERT_NE(sum_of_page(), sum) << at;
    source_.data()[at] ^= std::byte{1};
  }
  EXPECT_EQ(sum_of_page(), sum);
}

// Sources that change meanwhile: which bytes are taken is open, but the sum is that of the bytes.
#if !defined(__SANITIZE_THREAD__)
TEST_P(GatherTest, TheSumFitsTheCopyOfRacingSources) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (u64 value = 0; !stop; ++value)
      for (u64 at = 0; at < kPageBytes; at += sizeof value)
        *reinterpret_cast<volatile u64*>(source_.data() + at) = value;
  });
  std::vector<const std::byte*> lines;
  for (u64 i = 0; i < kLinesPerPage; ++i) lines.push_back(source_.data() + i * kLineBytes);
  std::byte* const to = destination_.data();
  for (int i = 0; i < 20'000; ++i) {
    const Gather gather = i % 2 == 0 ? Gather{.page = source_.data()} : Gather{.lines = lines};
    const u64 sum = GetParam().copy != nullptr ? media::gather_summed(to, gather, GetParam().copy)
                                               : media::gather_summed(to, gather);
    media::store_fence();
    EXPECT_EQ(sum, checksum(to, kPageBytes));
    if (HasFailure()) break;
  }
  stop = true;
  writer.join();
}
#endif

// Also those of older processors, which this one has.
std::vector<Way> ways() {
  std::vector<Way> ways{{"memory", nullptr},
                        {"sse2", media::nontemporal_copy({})},
                        {"clwb", media::flushing_copy(Flush::kClwb)},
                        {"clflushopt", media::flushing_copy(Flush::kClflushopt)},
                        {"clflush", media::flushing_copy(Flush::kClflush)}};
  const media::Processor here = media::this_processor();
  if (here.avx2) ways.push_back({"avx2", media::nontemporal_copy({.avx2 = true})});
  if (here.avx512f) ways.push_back({"avx512", media::nontemporal_copy({.avx512f = true})});
  return ways;
}
INSTANTIATE_TEST_SUITE_P(Ways, GatherTest, testing::ValuesIn(ways()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
