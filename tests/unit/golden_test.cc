// Goal: what an earlier library wrote can be opened. Method: small stores of each kind, written
// once by a build of each version of the formats (format/make_images.cc) and kept in
// format/VERSION; each is opened, checked and compared with what its kind holds, used, and opened
// again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "format/format.hpp"
#include "format/golden.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

struct Golden {
  std::string version;
  golden::Image image;
};

std::vector<Golden> all() {
  std::vector<Golden> found;
  const std::filesystem::path folder = PERDURA_SOURCE_DIR "/tests/format";
  for (const auto& each : std::filesystem::directory_iterator(folder))
    if (each.is_directory())
      for (const golden::Image& image : golden::images())
        if (std::stoi(each.path().filename()) >= image.since)
          found.push_back({each.path().filename().string(), image});
  return found;
}

class GoldenImages : public testing::TestWithParam<Golden> {};

TEST_P(GoldenImages, AreOpened) {
  const auto& [version, image] = GetParam();
  const TempDir folder{TempDir::kMemory};
  const std::string path = folder.path("store.pd");
  const std::string packed =
      std::string(PERDURA_SOURCE_DIR "/tests/format/") + version + "/" + image.name + ".pd";
  for (const std::string part : {"", ".overflow"})
    if (part.empty() || std::filesystem::exists(packed + part + ".gz")) {
      ASSERT_EQ(std::system(("gzip -dc " + packed + part + ".gz >" + path + part).c_str()), 0);
    }
  EXPECT_EQ(image.check(path), "");
  EXPECT_EQ(image.check(path), "") << "after it was used";
}

// A version of a format that nobody wrote images of would not be tested.
TEST(GoldenImagesOfThisFormat, AreThere) {
  EXPECT_TRUE(std::filesystem::is_directory(PERDURA_SOURCE_DIR "/tests/format/" +
                                            std::to_string(format::kFormatVersion)));
  EXPECT_FALSE(all().empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenImages, testing::ValuesIn(all()), [](const auto& info) {
  return std::string(info.param.image.name) + "_" + info.param.version;
});

}  // namespace
}  // namespace perdura::test
