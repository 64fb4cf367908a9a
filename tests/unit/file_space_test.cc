// Goal: a file that cannot be inspected, extended or made sure of is an error with its name; what
// is on a network is refused unless that is allowed; a ragged file is taken for what it is.
// Method: files whose system calls fail on request, and file systems that say they are others.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "format/format.hpp"
#include "media/file_space.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

class FileSpaceTest : public testing::Test {
 protected:
  FileSpaceTest() { arm_calls(nullptr); }
  ~FileSpaceTest() override {
    disarm_calls();
    pretend_filesystem(0);
  }

  std::string path() const { return folder_.path("file"); }
  static void fail(Call call, int error, u64 nth = 1, bool for_ever = false) {
    const CallFault fault{.call = call, .nth = nth, .error = error, .for_ever = for_ever};
    arm_calls(&fault);
  }
  void expect_not_opened(Code code, const std::string& sentence) {
    expect_failure(media::open_store_file(path(), {}), code, sentence);
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_F(FileSpaceTest, NetworkFileSystemsAreRefusedUnlessAllowed) {
  for (const u64 magic : {NFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, V9FS_MAGIC}) {
    pretend_filesystem(magic);
    expect_not_opened(Code::kUnsupported, path() + "' is on a network file system");
    EXPECT_TRUE(media::open_store_file(path(), {.allow_network_filesystem = true}));
  }
  pretend_filesystem(EXT4_SUPER_MAGIC);
  EXPECT_TRUE(media::open_store_file(path(), {}));
}

TEST_F(FileSpaceTest, AFileThatCannotBeInspectedIsNotOpened) {
  write_file(path(), FileBytes(kPageBytes));
  fail(Call::kInspect, EIO, 1);
  expect_not_opened(Code::kIo, "cannot inspect '" + path() + "'");
  fail(Call::kInspect, EIO, 2);
  expect_not_opened(Code::kIo, "cannot inspect the file system of '" + path() + "'");
}

// Else a power failure may leave the store's content without its name.
TEST_F(FileSpaceTest, ANewFileIsNotUsedBeforeItsNameIsDurable) {
  const std::string sentence = "cannot flush the directory of '" + path() + "'";
  fail(Call::kFlush, EIO);
  expect_not_opened(Code::kIo, sentence);
  fail(Call::kOpen, EMFILE, 2);
  expect_not_opened(Code::kIo, sentence);
  arm_calls(nullptr);
  EXPECT_TRUE(media::open_store_file(path(), {}));
  EXPECT_EQ(calls_counted(Call::kFlush), 1u) << "empty as it was, the name may not be durable";
  write_file(path(), FileBytes(format::kDataBegin));
  arm_calls(nullptr);
  EXPECT_TRUE(media::open_store_file(path(), {}));
  EXPECT_EQ(calls_counted(Call::kFlush), 1u) << "zeros as it is, it may be new";
  write_file(path(), FileBytes(format::kDataBegin + kPageBytes));
  arm_calls(nullptr);
  EXPECT_TRUE(media::open_store_file(path(), {}));
  EXPECT_EQ(calls_counted(Call::kFlush), 0u);
}

TEST_F(FileSpaceTest, TheNameBehindALinkIsMadeDurable) {
  struct Flushes final : DiskModel {
    void before_write(int, u64, u64) override {}
    void flush_failed(int) override {}
    void cache_dropped(int) override {}
    void flushed(int fd) override {
      struct stat info{};
      if (::fstat(fd, &info) == 0) files.push_back(info.st_ino);
    }
    std::vector<ino_t> files;
  } flushes;
  const std::string folder = folder_.path("elsewhere");
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  std::filesystem::create_symlink("elsewhere/store", folder_.path("link"));
  std::filesystem::create_symlink("link", path());
  model_disk(&flushes);
  const auto opened = media::open_store_file(path(), {});
  model_disk(nullptr);
  ASSERT_TRUE(opened);
  struct stat info{};
  ASSERT_EQ(::stat(folder.c_str(), &info), 0);
  EXPECT_EQ(flushes.files, std::vector<ino_t>{info.st_ino});
}

TEST_F(FileSpaceTest, APathWithoutADirectoryIsInTheCurrentOne) {
  EXPECT_EQ(in_child([&]() -> std::string {
              if (::chdir(folder_.path("").c_str()) != 0) return "chdir";
              const auto opened = media::open_store_file("file", {});
              if (!opened) return opened.failure().message;
              return std::filesystem::exists(path()) ? "" : "is elsewhere";
            }),
            "");
}

TEST_F(FileSpaceTest, ARaggedFileIsExtendedOnlyWhenItIsZero) {
  write_file(path(), FileBytes(kPageBytes + 100));
  fail(Call::kRead, EIO);
  expect_not_opened(Code::kIo, "cannot read '" + path() + "'");
  fail(Call::kExtend, ENOSPC);
  expect_not_opened(Code::kNoSpace, "cannot extend '" + path() + "'");
  EXPECT_EQ(std::filesystem::file_size(path()), kPageBytes + 100);
  arm_calls(nullptr);
  EXPECT_EQ(value_or_throw(media::open_store_file(path(), {})).size, 2 * kPageBytes);
  EXPECT_EQ(std::filesystem::file_size(path()), 2 * kPageBytes);
}

// Whether that is enough, the superblock says.
TEST_F(FileSpaceTest, ARaggedFileWithASuperblockIsAsLongAsItsWholePages) {
  for (const u64 offset : format::kSuperblockOffset) {
    FileBytes bytes(format::kSuperblockOffset[1] + kPageBytes + 100);
    std::memcpy(bytes.data() + offset, format::kMagic, sizeof format::kMagic);
    write_file(path(), bytes);
    EXPECT_EQ(value_or_throw(media::open_store_file(path(), {})).size, 2 * kPageBytes);
    EXPECT_EQ(read_file(path()), bytes);
  }
  FileBytes bytes(100);
  std::memcpy(bytes.data(), format::kMagic, sizeof format::kMagic);
  write_file(path(), bytes);
  expect_not_opened(Code::kCorrupt, "is truncated to 100 bytes");
  EXPECT_EQ(read_file(path()), bytes);
}

TEST_F(FileSpaceTest, NewSpaceIsZeroWhateverWasAppended) {
  write_file(path(), FileBytes(2 * kPageBytes + 100, std::byte{7}));
  const UniqueFd file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  fail(Call::kExtend, EIO);
  expect_failure(media::extend_file(file.get(), path(), kPageBytes, 4 * kPageBytes), Code::kIo,
                 "cannot cut '" + path() + "' back to 4096 bytes");
  fail(Call::kInspect, EIO);
  expect_failure(media::extend_file(file.get(), path(), kPageBytes, 4 * kPageBytes), Code::kIo,
                 "cannot inspect");
  arm_calls(nullptr);
  ASSERT_TRUE(media::extend_file(file.get(), path(), kPageBytes, 4 * kPageBytes));
  FileBytes expected(4 * kPageBytes);
  std::fill_n(expected.begin(), kPageBytes, std::byte{7});
  EXPECT_EQ(read_file(path()), expected);
}

TEST_F(FileSpaceTest, FileSystemsWithoutAllocationAreServedByTheLibrary) {
  const UniqueFd file(::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  fail(Call::kExtend, EOPNOTSUPP);
  ASSERT_TRUE(media::extend_file(file.get(), path(), 0, 3 * kPageBytes));
  EXPECT_EQ(calls_failed(), 1u);
  EXPECT_EQ(read_file(path()), FileBytes(3 * kPageBytes));
}

TEST_F(FileSpaceTest, AFileThatCannotBeExtendedKeepsItsSize) {
  const UniqueFd file(::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(media::extend_file(file.get(), path(), 0, kPageBytes));
  fail(Call::kExtend, ENOSPC);
  const std::string sentence = "cannot extend '" + path() + "' from 4096 to 8192 bytes";
  expect_failure(media::extend_file(file.get(), path(), kPageBytes, 2 * kPageBytes), Code::kNoSpace,
                 sentence);
  EXPECT_EQ(std::filesystem::file_size(path()), kPageBytes);
  fail(Call::kExtend, EIO, 1, true);
  expect_failure(media::extend_file(file.get(), path(), kPageBytes, 2 * kPageBytes), Code::kIo,
                 "(nor cut it back)");
}

}  // namespace
}  // namespace perdura::test
