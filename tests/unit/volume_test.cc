// Goal: a medium is opened as what it is: a new store, a whole one, one whose creation was cut
// short, or refused with the sentence that says why.
// Method: files made or changed byte by byte, and crash images of a recorded creation: after every
// call, with any subset of the atoms that no barrier covers.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/checksum.hpp"
#include "format/format.hpp"
#include "media/record.hpp"
#include "region/volume.hpp"
#include "support/files.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using format::Superblock;

Options small() {
  Options options;
  options.region_limit_bytes = 16 * kMiB;
  return options;
}

class VolumeTest : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return folder_.path("state.pd"); }
  std::string uri() const { return GetParam() + (":" + path()); }

  void expect_refused(Code code, const std::string& sentence) {
    try {
      WrappedStore store(uri(), small());
      ADD_FAILURE() << "was opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(sentence), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
    }
  }
  FileBytes closed_store() {
    WrappedStore(uri(), small()).close();
    return read_file(path());
  }
  /// Changes both superblocks, with their checksums.
  template <class Change>
  static FileBytes with_superblocks(FileBytes image, Change&& change) {
    for (u64 offset : format::kSuperblockOffset) {
      Superblock superblock;
      std::memcpy(&superblock, image.data() + offset, sizeof superblock);
      change(superblock);
      constexpr size_t kFrom = offsetof(Superblock, format_version);
      superblock.checksum =
          checksum(reinterpret_cast<const char*>(&superblock) + kFrom, sizeof superblock - kFrom);
      std::memcpy(image.data() + offset, &superblock, sizeof superblock);
    }
    return image;
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(VolumeTest, ForeignFilesAreRefusedAndLeftAlone) {
  std::mt19937_64 random(1);
  for (u64 size : {1, 100, 511, 512, 4095, 4096, 5000, 8192, 60'000, 65'536, 200'000}) {
    FileBytes foreign(size);
    for (std::byte& byte : foreign) byte = static_cast<std::byte>(random() | 1);
    write_file(path(), foreign);
    SCOPED_TRACE(size);
    expect_refused(Code::kForeign, "is not a Perdura store");
    EXPECT_EQ(read_file(path()), foreign);
  }
}

TEST_P(VolumeTest, EmptyAndZeroFilesBecomeStores) {
  for (u64 size : {0, 1, 4096, 10'000, 65'536}) {
    write_file(path(), FileBytes(size));
    SCOPED_TRACE(size);
    WrappedStore store(uri(), small());
    EXPECT_EQ(store.durable_version(), 1u);
    store.close();
  }
}

TEST_P(VolumeTest, NewerFormatsAndOtherMachinesAreRefused) {
  const FileBytes image = closed_store();
  write_file(path(), with_superblocks(image, [](Superblock& s) { s.format_version = 2; }));
  expect_refused(Code::kIncompatible, "has format version 2, this Perdura reads version 1");
  write_file(path(), with_superblocks(image, [](Superblock& s) { s.incompatible_features = 8; }));
  expect_refused(Code::kIncompatible, "uses format features (mask 8)");
  write_file(path(), with_superblocks(image, [](Superblock& s) { s.compatible_features = 8; }));
  WrappedStore(uri(), small()).close();
  write_file(path(), with_superblocks(image, [](Superblock& s) {
               std::memcpy(s.architecture, "riscv64-be-64\0\0", 16);
             }));
  expect_refused(Code::kIncompatible, "was written on the architecture 'riscv64-be-64'");
}

TEST_P(VolumeTest, TruncatedStoresAreRefused) {
  const FileBytes image = closed_store();
  for (u64 size : {u64{4096}, u64{8192}, u64{65536}, image.size() - 1, image.size() - 4096}) {
    SCOPED_TRACE(size);
    write_file(path(), FileBytes(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(size)));
    expect_refused(Code::kCorrupt, "truncated");
  }
}

TEST_P(VolumeTest, OneDamagedSuperblockIsBorneTwoAreNot) {
  const FileBytes image = closed_store();
  for (u64 offset : format::kSuperblockOffset) {
    FileBytes damaged = image;
    damaged[offset + 100] ^= std::byte{1};
    write_file(path(), damaged);
    WrappedStore(uri(), small()).close();
  }
  FileBytes damaged = image;
  for (u64 offset : format::kSuperblockOffset) damaged[offset + 100] ^= std::byte{1};
  write_file(path(), damaged);
  expect_refused(Code::kCorrupt, "both superblocks");
}

TEST_P(VolumeTest, DamagedDirectoriesAreRefused) {
  FileBytes damaged = closed_store();
  for (u64 offset : format::kDirectoryOffset) damaged[offset + 20] ^= std::byte{1};
  write_file(path(), damaged);
  expect_refused(Code::kCorrupt, "the directory of");
}

// A crash during creation leaves a store that opens: as a new one until its first version is
// durable, and in any case without a version lost that was acknowledged.
TEST_P(VolumeTest, CreationCutShortAnywhereOpens) {
  media::Recording recording;
  {
    WrappedStore store(uri(), small(), [&](std::unique_ptr<media::Medium> inner) {
      return recording.wrap(std::move(inner));
    });
    store.crash();
  }
  const media::History history = recording.history();
  std::mt19937_64 random(3);
  for (size_t end = 0; end <= history.calls().size(); ++end) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      // None, all, or a random half of what no barrier covers.
      write_file(path(), history.after_crash(end, [&](size_t, u64) {
        return attempt == 0 ? false : attempt == 1 ? true : random() % 2 == 0;
      }));
      try {
        WrappedStore store(uri(), small());
        EXPECT_GE(store.durable_version(), 1u);
        EXPECT_TRUE(store.audit().clean);
        store.close();
        EXPECT_EQ(home_problems(store.runtime().volume()), std::vector<std::string>());
      } catch (const Error& error) {
        FAIL() << "after " << end << " of " << history.calls().size() << " calls, attempt "
               << attempt << ": " << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Media, VolumeTest, testing::Values("file", "emu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
