// Goal: data that are summed in pieces have the checksum that they have at once. Method: pieces of
// drawn lengths, and a sum that is begun anew.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/checksum.hpp"
#include "base/checksum_of_pieces.hpp"

namespace perdura::test {
namespace {

TEST(ChecksumOfPieces, IsThatOfAll) {
  std::mt19937_64 random(1);
  ChecksumOfPieces sum;
  for (int round = 0; round < 200; ++round) {
    std::vector<unsigned char> data(random() % 100'000);
    for (unsigned char& each : data) each = static_cast<unsigned char>(random());
    sum.begin();
    for (size_t at = 0; at < data.size();) {
      const size_t here = std::min<size_t>(random() % 20'000 + 1, data.size() - at);
      sum.add(data.data() + at, here);
      at += here;
    }
    EXPECT_EQ(sum.sum(), checksum(data.data(), data.size())) << data.size();
  }
}

}  // namespace
}  // namespace perdura::test
