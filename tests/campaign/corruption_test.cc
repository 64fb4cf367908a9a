// Goal: a bit that changes on the medium is never taken for data. Opening a store with one either
// fails with a sentence that names the place, or finds exactly the right data.
// Method: a store is closed in order, or its file is copied while it is open, which is what a kill
// leaves. Bits of the used bytes of superblocks and directories (all with PERDURA_FLIPS=all, else
// one in 17 from a random one on), and bits sampled over the log, are flipped one at a time, and
// the store is opened. Damage in the blocks of the last version cannot be told from a write that
// the crash cut short: there, and only there, exactly the version before is right as well. Flips in
// home pages are found by their checksums.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "format/format.hpp"
#include "store/inspect.hpp"
#include "support/files.hpp"
#include "support/ledger.hpp"
#include "support/process.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

constexpr u64 kVersions = 12;
constexpr u64 kStepsPerVersion = 25;

Options options() {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.log_limit_bytes = 16 * kMiB;
  return options;
}

/// A store with a ledger of kVersions * kStepsPerVersion steps, as its file is when it is closed
/// and as a kill would have left it.
struct Images {
  FileBytes crashed;
  FileBytes closed;
};

Images make_images(const std::string& scheme) {
  const TempDir folder(TempDir::kMemory);
  const std::string path = folder.path("state.pd");
  Images images;
  WrappedStore store(scheme + ":" + path, options());
  Ledger* ledger = nullptr;
  {
    const auto op = store.operation();
    ledger = make_ledger(op, 3);
    op.set_root("ledger", ledger);
  }
  for (u64 version = 0; version < kVersions; ++version) {
    for (u64 i = 0; i < kStepsPerVersion; ++i) do_step(store.operation(), *ledger, version % 4);
    store.checkpoint();
  }
  images.crashed = read_file(path);
  store.close();
  store.crash();
  images.closed = read_file(path);
  return images;
}

u64 steps_of_version(u64 from_the_last) { return (kVersions - from_the_last) * kStepsPerVersion; }

/// Where a failure to open may say that the damage is.
bool names_a_place(const std::string& text) {
  return text.find("offset") != text.npos || text.find("superblock") != text.npos ||
         text.find("directory") != text.npos;
}

/// Opens the image and returns what is wrong, or "". `steps` are those that the data may show.
std::string open_and_check(const std::string& uri, const std::vector<u64>& steps) {
  try {
    WrappedStore store(uri, options());
    const auto* ledger = static_cast<const Ledger*>(store.get_root("ledger"));
    if (ledger == nullptr) return "the root is gone";
    if (std::string problem = check_ledger(*ledger, store.audit(), 1); !problem.empty())
      return problem;
    for (u64 each : steps)
      if (ledger->steps == each) return {};
    return "opened with " + std::to_string(ledger->steps) + " steps";
  } catch (const Error& error) {
    if (error.code() != Code::kCorrupt && error.code() != Code::kForeign &&
        error.code() != Code::kIncompatible)
      return std::string("failed with another code: ") + error.what();
    return names_a_place(error.what()) ? "" : std::string("names no place: ") + error.what();
  }
}

class Corruption : public testing::TestWithParam<const char*> {
 protected:
  /// Flip each of `bits` in turn and open.
  void flip_each(const FileBytes& image, const std::vector<u64>& bits,
                 const std::vector<u64>& steps) {
    const TempDir folder(TempDir::kMemory);
    const std::string path = folder.path("state.pd");
    write_file(path, image);
    int failures = 0;
    for (u64 bit : bits) {
      {
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out | std::ios::trunc);
        file.write(reinterpret_cast<const char*>(image.data()),
                   static_cast<std::streamsize>(image.size()));
        const auto flipped = static_cast<char>(static_cast<u8>(image[bit / 8]) ^ (1u << bit % 8));
        file.seekp(static_cast<std::streamoff>(bit / 8));
        file.put(flipped);
      }
      const std::string problem = open_and_check(GetParam() + (":" + path), steps);
      EXPECT_EQ(problem, "") << "bit " << bit % 8 << " of byte " << bit / 8 << " flipped";
      if (!problem.empty()) {
        ASSERT_LT(++failures, 10);
      }
    }
  }

  static std::vector<u64> bits_of(u64 begin, u64 bytes, u64 first, u64 stride) {
    std::vector<u64> bits;
    for (u64 bit = begin * 8 + first; bit < (begin + bytes) * 8; bit += stride) bits.push_back(bit);
    return bits;
  }
};

/// The bytes of superblocks and directories that hold anything.
std::vector<std::pair<u64, u64>> metadata_places(const FileBytes& image) {
  std::vector<std::pair<u64, u64>> places;
  for (u64 slot = 0; slot < 2; ++slot) {
    format::Superblock superblock;
    std::memcpy(&superblock, image.data() + format::kSuperblockOffset[slot], sizeof superblock);
    places.emplace_back(format::kSuperblockOffset[slot],
                        offsetof(format::Superblock, regions) + sizeof(format::RegionState));
    places.emplace_back(format::kDirectoryOffset[superblock.directory_slot],
                        superblock.directory_bytes);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

TEST_P(Corruption, OfSuperblocksAndDirectories) {
  const char* wanted = std::getenv("PERDURA_FLIPS");
  const u64 stride =
      wanted != nullptr && std::string(wanted) == "all" ? 1 : slice_or_whole(499, 17);
  const u64 first = std::random_device()() % stride;
  const Images images = make_images(GetParam());
  for (const FileBytes* image : {&images.crashed, &images.closed})
    for (const auto& [offset, bytes] : metadata_places(*image)) {
      SCOPED_TRACE(std::string(image == &images.crashed ? "crashed" : "closed") +
                   ", structure at " + std::to_string(offset));
      flip_each(*image, bits_of(offset, bytes, first, stride), {steps_of_version(0)});
    }
}

TEST_P(Corruption, OfTheLog) {
  const Images images = make_images(GetParam());
  std::mt19937_64 random(5);
  std::vector<u64> bits;
  // Log blocks by their magic number: every part of the header, and samples of the rest.
  for (u64 at = format::kDataBegin; at + 4096 <= images.crashed.size(); at += 64) {
    format::LogBlockHeader header;
    std::memcpy(&header, images.crashed.data() + at, sizeof header);
    if (header.magic != format::kLogBlockMagic) continue;
    for (u64 i = 0; i < slice_or_whole(3, 12); ++i)
      bits.push_back(at * 8 + random() % (sizeof header * 8));
    for (u64 i = 0; i < slice_or_whole(2, 8); ++i)
      bits.push_back(at * 8 + random() % (header.block_bytes * 8));
  }
  ASSERT_GT(bits.size(), slice_or_whole(5, 20) * 4);
  flip_each(images.crashed, bits, {steps_of_version(0), steps_of_version(1)});
  flip_each(images.closed, bits, {steps_of_version(0)});
}

TEST_P(Corruption, OfHomePagesIsFoundByTheirChecksums) {
  const Images images = make_images(GetParam());
  const TempDir folder(TempDir::kMemory);
  const std::string path = folder.path("state.pd");
  const std::string uri = GetParam() + (":" + path);
  write_file(path, images.closed);
  auto medium = value_or_throw(media::open_medium(uri, {}));
  auto volume = value_or_throw(region::Volume::open(std::move(medium.medium)));
  const auto extents = volume->extents(format::ExtentKind::kHome);
  volume.reset();
  ASSERT_FALSE(extents.empty());
  std::mt19937_64 random(11);
  for (int i = 0; i < 100; ++i) {
    const format::Extent& extent = extents[random() % extents.size()];
    // Also in the checksums themselves.
    const u64 length = i % 10 == 0 ? extent.length + extent.length / kPageBytes * 8 : extent.length;
    const u64 place =
        extent.medium_offset +
        (i % 10 == 0 ? extent.length + random() % (length - extent.length) : random() % length);
    FileBytes image = images.closed;
    image[place] ^= std::byte{1} << random() % 8;
    write_file(path, image);
    const store::CheckReport report = value_or_throw(store::check(uri, {}));
    std::vector<u64> pages;
    for (const store::Finding& finding : report.findings)
      if (finding.part == "home") pages.push_back(finding.medium_offset.value());
    ASSERT_EQ(pages.size(), 1u) << "byte " << place;
    if (i % 10 != 0) {
      EXPECT_EQ(pages[0], round_down(place, kPageBytes));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Media, Corruption, testing::Values("file", "emu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
