// Goal: a medium keeps what was written to it, through every way of writing, and refuses what it
// cannot do with a sentence that names it: URIs, places beyond its end, a second opener, a full
// disk, memory that is not persistent.
// Method: media of every kind in files, read back through the same medium and through a new one;
// other processes where another opener is meant; a full tmpfs in a user namespace.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "base/mapping.hpp"
#include "format/format.hpp"
#include "media/lock.hpp"
#include "media/medium.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

using media::Medium;

std::unique_ptr<Medium> open(const std::string& uri) {
  return value_or_throw(media::open_medium(uri, {})).medium;
}

struct Kind {
  const char* name;
  const char* scheme;
  const char* parameters;
};

class MediaTest : public testing::TestWithParam<Kind> {
 protected:
  static constexpr u64 kBytes = 3 * kMiB;

  MediaTest() {
    std::mt19937_64 random(1);
    std::generate_n(data_.data(), data_.size(), [&] { return std::byte(random()); });
  }
  std::string path() const { return folder_.path("medium"); }
  std::string uri() const { return GetParam().scheme + path() + GetParam().parameters; }
  media::Bytes data(u64 offset, u64 length) const { return {data_.data() + offset, length}; }

  /// Everything, through the medium, in reads of many sizes and places.
  void expect_holds(Medium& medium, media::Bytes expected) {
    AlignedBuffer all(expected.size());
    ASSERT_TRUE(medium.read(0, all.first(expected.size())));
    ASSERT_EQ(std::memcmp(all.data(), expected.data(), expected.size()), 0);
    std::mt19937_64 random(2);
    for (int i = 0; i < 100; ++i) {
      const u64 offset = random() % (expected.size() - 1);
      const u64 length = 1 + random() % std::min<u64>(expected.size() - offset, 10'000);
      std::vector<std::byte> piece(length);
      ASSERT_TRUE(medium.read(offset, piece));
      ASSERT_EQ(std::memcmp(piece.data(), expected.data() + offset, length), 0) << offset;
    }
    AlignedBuffer scattered(40 * kPageBytes);
    std::vector<media::ReadRequest> requests;
    for (u64 i = 0; i < 40; ++i)
      requests.push_back({(i * 7 % (expected.size() / kPageBytes)) * kPageBytes,
                          scattered.span().subspan(i * kPageBytes, kPageBytes)});
    ASSERT_TRUE(medium.read_all(requests));
    for (const media::ReadRequest& request : requests)
      ASSERT_EQ(std::memcmp(request.into.data(), &expected[request.offset], kPageBytes), 0);
    ASSERT_NE(medium.linear(), nullptr);
    const std::byte* const direct = medium.linear()->direct(0, kPageBytes);
    EXPECT_EQ(medium.geometry().byte_addressable, direct != nullptr);
    if (direct != nullptr) {
      EXPECT_EQ(std::memcmp(direct, expected.data(), expected.size()), 0);
    }
  }

  const TempDir folder_;
  AlignedBuffer data_{kBytes};
};

TEST_P(MediaTest, GrowsReadsAsZerosAndKeepsWhatIsWritten) {
  {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    EXPECT_TRUE(opened.created);
    Medium& medium = *opened.medium;
    EXPECT_EQ(medium.name(), path());
    EXPECT_EQ(medium.geometry().size, 0u);
    ASSERT_TRUE(medium.grow(kMiB, false));
    ASSERT_TRUE(medium.grow(kBytes, true));
    ASSERT_TRUE(medium.grow(kMiB, true)) << "smaller than it is: nothing to do";
    EXPECT_EQ(medium.geometry().size, kBytes);
    expect_holds(medium, FileBytes(kBytes));
    for (u64 offset = 0; offset < kBytes; offset += 256 * kKiB)
      ASSERT_TRUE(medium.write(offset, data(offset, 256 * kKiB), PERDURA_SITE("test")));
    ASSERT_TRUE(medium.barrier(PERDURA_SITE("test")));
    expect_holds(medium, data(0, kBytes));
  }
  auto again = value_or_throw(media::open_medium(uri(), {}));
  EXPECT_FALSE(again.created);
  EXPECT_EQ(again.medium->geometry().size, kBytes);
  expect_holds(*again.medium, data(0, kBytes));
}

TEST_P(MediaTest, QueuesWriteEverythingSubmitted) {
  std::mt19937_64 random(3);
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(kBytes, true));
    const auto queue = medium->queue();
    // More writes than any ring holds, of many lengths and in any order.
    std::vector<std::pair<u64, u64>> pieces;
    for (u64 at = 0; at < kBytes;) {
      const u64 length = std::min((1 + random() % 6) * kPageBytes, kBytes - at);
      pieces.emplace_back(at, length);
      at += length;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto [offset, length] = pieces[i];
      ASSERT_TRUE(queue->submit(offset, data(offset, length), PERDURA_SITE("test")));
      if (i % 50 == 49) {
        ASSERT_TRUE(queue->drain(3));
      }
    }
    ASSERT_TRUE(queue->drain());
    ASSERT_TRUE(medium->barrier(PERDURA_SITE("test")));
    expect_holds(*medium, data(0, kBytes));
  }
  expect_holds(*open(uri()), data(0, kBytes));
}

TEST_P(MediaTest, GatheredWritesReturnTheSumOfWhatIsThere) {
  const auto medium = open(uri());
  if (!medium->geometry().byte_addressable) GTEST_SKIP() << "lines are gathered to NVM only";
  ASSERT_TRUE(medium->grow(kBytes, true));
  const auto queue = medium->queue();
  std::mt19937_64 random(4);
  for (u64 round = 0; round < 100; ++round) {
    std::vector<const std::byte*> lines;
    for (u64 i = 0; i < media::Gather::kLinesMax; ++i)
      lines.push_back(data_.data() + random() % (kBytes / kLineBytes) * kLineBytes);
    const u64 page = random() % (kBytes / kPageBytes) * kPageBytes;
    media::Gather gather{.lines = lines};
    if (round % 3 == 0) gather = {.page = data_.data() + page};
    const u64 offset = random() % (kBytes / kPageBytes) * kPageBytes;
    const Result<u64> sum = queue->submit_gathered(offset, gather, PERDURA_SITE("test"));
    ASSERT_TRUE(sum);
    ASSERT_TRUE(queue->drain());
    AlignedBuffer there(kPageBytes);
    ASSERT_TRUE(medium->read(offset, there.span()));
    EXPECT_EQ(checksum(there.data(), kPageBytes), *sum);
    for (u64 i = 0; i < lines.size(); ++i) {
      const std::byte* expected = gather.page != nullptr ? gather.page + i * kLineBytes : lines[i];
      ASSERT_EQ(std::memcmp(there.data() + i * kLineBytes, expected, kLineBytes), 0) << i;
    }
  }
}

TEST_P(MediaTest, VerifiedReadsCompareTheSum) {
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kBytes, true));
  ASSERT_TRUE(medium->write(kPageBytes, data(0, kPageBytes), PERDURA_SITE("test")));
  AlignedBuffer into(kPageBytes);
  const u64 sum = checksum(data_.data(), kPageBytes);
  EXPECT_TRUE(
      value_or_throw(medium->verified_read(kPageBytes, into.span(), sum, PERDURA_SITE("test"))));
  EXPECT_FALSE(value_or_throw(
      medium->verified_read(kPageBytes, into.span(), sum + 1, PERDURA_SITE("test"))));
  EXPECT_FALSE(value_or_throw(medium->verified_read(0, into.span(), sum, PERDURA_SITE("test"))));
}

TEST_P(MediaTest, ReadingBeyondTheEndIsAnError) {
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  AlignedBuffer into(2 * kPageBytes);
  ASSERT_TRUE(medium->read(kMiB - 2 * kPageBytes, into.span()));
  for (u64 offset : {kMiB - kPageBytes, kMiB, kMiB + 64 * kKiB, kMiB - 100}) {
    SCOPED_TRACE(offset);
    const Status status = medium->read(offset, into.span());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.failure().code, Code::kCorrupt) << status.failure().message;
    EXPECT_NE(status.failure().message.find(path()), std::string::npos);
    const media::ReadRequest requests[] = {{0, into.first(kPageBytes)}, {offset, into.span()}};
    EXPECT_FALSE(medium->read_all(requests));
  }
}

TEST_P(MediaTest, AHomeViewIsPrivate) {
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kBytes, true));
  ASSERT_TRUE(medium->write(kMiB, data(0, kMiB), PERDURA_SITE("test")));
  ASSERT_TRUE(medium->barrier(PERDURA_SITE("test")));
  const Mapping view = value_or_throw(Mapping::reserve(nullptr, kMiB));
  ASSERT_TRUE(medium->linear()->map_home(view.as(), kMiB, kMiB));
  EXPECT_EQ(std::memcmp(view.as(), data_.data(), kMiB), 0);
  std::memset(view.as(), 0, kMiB);
  AlignedBuffer there(kMiB);
  ASSERT_TRUE(medium->read(kMiB, there.span()));
  EXPECT_EQ(std::memcmp(there.data(), data_.data(), kMiB), 0);
}

TEST_P(MediaTest, TheSecondOpenerIsToldWhoHasIt) {
  auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  expect_failure(media::open_medium(uri(), {}), Code::kLocked, "not signed it yet");
  const media::OwnerPage& owner = media::describe_owner();
  ASSERT_TRUE(medium->write(format::kOwnerOffset, owner.bytes, PERDURA_SITE("test")));
  const std::string pid = "process " + std::to_string(::getpid()) + " (";
  expect_failure(media::open_medium(uri(), {}), Code::kLocked, pid);
  EXPECT_EQ(in_child([&]() -> std::string {
              const auto opened = media::open_medium(uri(), {});
              if (opened) return "was opened";
              const std::string& text = opened.failure().message;
              return text.find(pid) != text.npos && text.find("this process") == text.npos ? ""
                                                                                           : text;
            }),
            "");
  medium.reset();
  EXPECT_TRUE(media::open_medium(uri(), {}));
}

// Who signed it last may be gone, and another process may be about to sign.
TEST_P(MediaTest, AnOwnerThatIsGoneIsNotTakenForTheOpener) {
  EXPECT_EQ(in_child([&]() -> std::string {
              auto medium = open(uri());
              if (!medium->grow(kMiB, true)) return "does not grow";
              const media::OwnerPage owner = media::describe_owner();
              return medium->write(format::kOwnerOffset, owner.bytes, PERDURA_SITE("test")) &&
                             medium->barrier(PERDURA_SITE("test"))
                         ? ""
                         : "cannot write";
            }),
            "");
  const UniqueFd fd(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock{};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(fd.get(), F_OFD_SETLK, &lock), 0);
  expect_failure(media::open_medium(uri(), {.timeout_ms = 20}), Code::kLocked,
                 "the last one known was process");
}

TEST_P(MediaTest, AWriteThatTheSystemRefusesIsAnError) {
  EXPECT_EQ(in_child([&]() -> std::string {
              auto medium = open(uri());
              if (medium->geometry().byte_addressable) return {};
              if (!medium->grow(2 * kMiB, true)) return "does not grow";
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{kMiB, kMiB};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit";
              const Status written = medium->write(kMiB, data(0, kPageBytes), PERDURA_SITE("test"));
              if (written || written.failure().message.find("cannot write") == std::string::npos)
                return "a write was not refused";
              const auto queue = medium->queue();
              Status queued = queue->submit(kMiB, data(0, kPageBytes), PERDURA_SITE("test"));
              if (queued) queued = queue->drain();
              if (queued || queued.failure().message.find("cannot write") == std::string::npos)
                return "a queued write was not refused";
              return queue->submit(0, data(0, kPageBytes), PERDURA_SITE("test")) && queue->drain()
                         ? ""
                         : "a failure stays";
            }),
            "");
}

// A tmpfs of 2 MiB in a mount namespace of a child's own.
std::string enter_small_tmpfs(const std::string& folder) {
  const uid_t uid = ::getuid();
  if (::unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0) return "unshare";
  if (uid != 0) {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "mount private";
  if (::mount("none", folder.c_str(), "tmpfs", 0, "size=2m") != 0) return "mount tmpfs";
  return {};
}

TEST_P(MediaTest, AFullDiskIsAnErrorThatPasses) {
  const std::string folder = folder_.path("small");
  std::filesystem::create_directory(folder);
  const std::string problem = in_child([&]() -> std::string {
    if (std::string refused = enter_small_tmpfs(folder); !refused.empty()) return "skip " + refused;
    const auto medium = open(GetParam().scheme + (folder + "/m") + GetParam().parameters);
    if (!medium->grow(kMiB, true)) return "does not grow to 1 MiB";
    if (!medium->write(0, data(0, kMiB), PERDURA_SITE("test"))) return "cannot write";
    const Status full = medium->grow(4 * kMiB, true);
    if (full) return "grew beyond the file system";
    if (full.failure().code != Code::kNoSpace ||
        full.failure().message.find("cannot extend '" + folder) == std::string::npos ||
        full.failure().message.find("free space") == std::string::npos)
      return full.failure().message;
    if (medium->geometry().size != kMiB || std::filesystem::file_size(folder + "/m") != kMiB)
      return "has another size after the failure";
    if (!medium->grow(kMiB + kMiB / 2, true)) return "does not grow to what there is";
    if (!medium->write(kMiB, data(kMiB, kMiB / 2), PERDURA_SITE("test"))) return "cannot write";
    if (!medium->barrier(PERDURA_SITE("test"))) return "cannot flush";
    AlignedBuffer all(kMiB + kMiB / 2);
    if (!medium->read(0, all.span())) return "cannot read";
    return std::memcmp(all.data(), data_.data(), all.size()) == 0 ? "" : "holds something else";
  });
  if (problem.starts_with("skip ")) GTEST_SKIP() << "this system refuses: " << problem.substr(5);
  EXPECT_EQ(problem, "");
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MediaTest,
    testing::Values(Kind{"file", "file:", ""}, Kind{"file_no_ring", "file:", "?io_uring=0"},
                    Kind{"emu", "emu:", ""}, Kind{"emu_nt", "emu:", "?flush=nt"},
                    Kind{"emu_clwb", "emu:", "?flush=clwb"},
                    Kind{"emu_clflushopt", "emu:", "?flush=clflushopt"},
                    Kind{"emu_clflush", "emu:", "?flush=clflush"},
                    Kind{"emu_slow", "emu:", "?write_ns=10&bandwidth_mb=4000"}),
    [](const auto& info) { return std::string(info.param.name); });

// --- what a URI names --------------------------------------------------------------------------

class UriTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "m") const { return folder_.path(name); }
  void expect_refused(const std::string& uri, const std::string& sentence) {
    SCOPED_TRACE(uri);
    expect_failure(media::open_medium(uri, {}), Code::kInvalidArgument, sentence);
    EXPECT_FALSE(std::filesystem::exists(path())) << "was created all the same";
  }
  const TempDir folder_;
};

TEST_F(UriTest, WrongParametersAreRefusedByName) {
  for (const std::string scheme : {"file:", "emu:", "dax:"}) {
    expect_refused(scheme + path() + "?speed=1", "unknown URI parameter 'speed'");
    expect_refused(scheme + path() + "?speed=fast", "unknown URI parameter 'speed'");
    expect_refused(scheme + path() + "?timeout_ms=x", "timeout_ms needs a number, not 'x'");
    expect_refused(scheme + path() + "?timeout_ms=", "timeout_ms needs a number");
    expect_refused(scheme + path() + "?timeout_ms=99999999999999999999", "needs a number");
    expect_refused(scheme + path() + "?timeout_ms", "not 'timeout_ms'");
    expect_refused(scheme + path() + "?timeout_ms=1&=", "unknown URI parameter ''");
    expect_refused(scheme + path() + "?timeout_ms=1&Flush=nt", "Flush");
    expect_refused(scheme + path() + "?timeout_ms=0", "timeout_ms is 1 to 2147483647, not 0");
    expect_refused(scheme + path() + "?timeout_ms=2147483648", "timeout_ms is 1 to 2147483647");
    expect_refused(scheme + path() + "?timeout_ms=5&timeout_ms=5",
                   "timeout_ms is there twice; leave one of them out");
  }
  for (const std::string scheme : {"emu:", "dax:"}) {
    expect_refused(scheme + path() + "?write_ns=x", "write_ns needs a number, not 'x'");
    expect_refused(scheme + path() + "?bandwidth_mb=10k", "bandwidth_mb needs a number, not '10k'");
    expect_refused(scheme + path() + "?flush=fast", "not 'fast'");
  }
  expect_refused("file:" + path() + "?io_uring=-1", "io_uring needs a number, not '-1'");
  expect_refused("file:" + path() + "?io_uring=2", "io_uring is 0 or 1, not 2");
  expect_refused("file:" + path() + "?io_uring=0&timeout_ms=1&io_uring=1",
                 "io_uring is there twice");
  expect_refused("memcached://127.0.0.1:1/s?takeover=2", "takeover is 0 or 1, not 2");
}

// What one scheme has means nothing to another: it is not passed over in silence.
TEST_F(UriTest, ParametersOfOtherSchemesAreRefused) {
  for (const std::string parameter : {"write_ns=1", "bandwidth_mb=1", "flush=nt", "takeover=1"})
    expect_refused("file:" + path() + "?" + parameter, "of file:; it has io_uring, timeout_ms");
  for (const std::string parameter : {"io_uring=0", "takeover=1"})
    expect_refused("emu:" + path() + "?" + parameter,
                   "of emu:; it has write_ns, bandwidth_mb, flush, timeout_ms");
  expect_refused("memcached://127.0.0.1:1/s?io_uring=0", "of memcached:; it has timeout_ms");
  expect_failure(media::remove_medium("file:" + path() + "?flush=nt"), Code::kInvalidArgument,
                 "unknown URI parameter 'flush'");
}

TEST_F(UriTest, WrongPathsAreRefused) {
  for (const std::string scheme : {"file:", "emu:", "dax:"}) {
    SCOPED_TRACE(scheme);
    expect_failure(media::open_medium(scheme + path("none/m"), {}), Code::kNotFound,
                   "create its directory first");
    media::MediumOptions existing;
    existing.create = false;
    expect_failure(media::open_medium(scheme + path(), existing), Code::kNotFound, path());
    expect_failure(media::open_medium(scheme + "/dev/null", {}), Code::kInvalidArgument,
                   "'/dev/null' is not a regular file");
    for (const bool read_only : {false, true})
      for (const std::string& folder : {path("."), path("")})
        expect_failure(media::open_medium(scheme + folder, {.read_only = read_only}),
                       Code::kInvalidArgument, "'" + folder + "' names a directory, and a store");
    expect_failure(media::open_medium(scheme, {}), Code::kInvalidArgument, "needs a path");
  }
  expect_failure(media::open_medium("", {}), Code::kInvalidArgument, "needs a path");
}

TEST_F(UriTest, AMappedMediumLargerThanItsWindowIsRefused) {
  const TempDir folder(TempDir::kMemory);
  std::ofstream(folder.path("m")).close();
  std::filesystem::resize_file(folder.path("m"), 513 * kGiB);
  expect_failure(media::open_medium("emu:" + folder.path("m"), {}), Code::kNoMemory,
#if defined(__SANITIZE_THREAD__)
                 "is larger than the 64 GiB of address space");
#else
                 "is larger than the 512 GiB of address space");
#endif
}

TEST_F(UriTest, APlainPathIsTakenAsItIs) {
  const std::string odd = path("what?io_uring=0&emu:x");
  EXPECT_EQ(open(odd)->name(), odd);
  EXPECT_TRUE(std::filesystem::exists(odd));
  EXPECT_FALSE(open(odd)->geometry().byte_addressable);
}

TEST_F(UriTest, AWordThatBeginsLikeASchemeIsAPath) {
  media::MediumOptions existing;
  existing.create = false;
  for (const std::string name : {"filed:none", "emulated/none", "dax"})
    expect_failure(media::open_medium(name, existing), Code::kNotFound, "the store '" + name + "'");
}

// A mistyped scheme is named where the path that it would be is not there, and nowhere else.
TEST_F(UriTest, AMistypedSchemeIsNamed) {
  const std::string kKnown =
      "none of the schemes, which are file:, emu:, dax:, memcached:, rados:, s3:; choose";
  for (const std::string scheme : {"bogus:", "flie:", "a1+.-:"}) {
    const std::string uri = scheme + path("none/m");
    for (const bool create : {false, true})
      expect_failure(media::open_medium(uri, {.create = create}), Code::kNotFound,
                     "'" + scheme + "' is " + kKnown);
    expect_failure(media::remove_medium(uri), Code::kNotFound, "'" + scheme + "' is " + kKnown);
    expect_failure(media::open_medium("file:" + uri, {}), Code::kNotFound, "create its directory");
  }
  for (const std::string name : {"1:none/m", ":none/m", "none/a:m", "a b:none/m"})
    expect_failure(media::open_medium(name, {}), Code::kNotFound, "create its directory");
}

TEST_F(UriTest, APathWithAColonIsOneWhereItsDirectoryExists) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path("."));
  std::filesystem::create_directory("bogus:");
  for (const std::string name : {"bogus:/m", "odd:m"}) {
    EXPECT_EQ(open(name)->name(), name);
    EXPECT_TRUE(std::filesystem::exists(name));
    EXPECT_TRUE(media::open_medium(name, {.create = false}));
  }
  std::filesystem::current_path(before);
}

TEST_F(UriTest, OrdinaryMemoryIsNotTakenForPersistent) {
  for (const auto where : {TempDir::kDisk, TempDir::kMemory}) {
    const TempDir folder(where);
    auto medium = media::open_medium("dax:" + folder.path("m"), {});
    // An empty file is not mapped before it grows.
    if (medium) {
      const Status grown = medium->medium->grow(kMiB, true);
      if (grown) GTEST_SKIP() << "this file system has DAX";
      expect_failure(grown, Code::kUnsupported, "DAX");
      medium->medium.reset();
    }
    write_file(folder.path("m"), FileBytes(kMiB));
    expect_failure(media::open_medium("dax:" + folder.path("m"), {}), Code::kUnsupported, "DAX");
  }
}

}  // namespace
}  // namespace perdura::test
