// Goal: a mapped medium that cannot be extended or mapped is an error that says so; emulated NVM
// takes at least the time it was told to take.
// Method: media in files, whose system calls fail on request; a clock around barriers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/clock.hpp"
#include "media/medium.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

class MappedMediumTest : public testing::Test {
 protected:
  MappedMediumTest() { arm_calls(nullptr); }
  ~MappedMediumTest() override { disarm_calls(); }

  std::string path() const { return folder_.path("file"); }
  std::unique_ptr<media::Medium> open(const std::string& scheme,
                                      const std::string& parameters = "") {
    return value_or_throw(media::open_medium(scheme + ":" + path() + parameters, {})).medium;
  }
  static void fail(Call call, int error, u64 nth = 1) {
    const CallFault fault{.call = call, .nth = nth, .error = error};
    arm_calls(&fault);
  }
  /// How long a write of `lines` and its barrier take.
  static u64 time_of(media::Medium& medium, u64 lines) {
    AlignedBuffer data(round_up(lines * kLineBytes, kPageBytes));
    std::memset(data.data(), 1, data.size());
    const u64 begin = now_ns();
    EXPECT_TRUE(medium.write(0, data.first(lines * kLineBytes), PERDURA_SITE("test")));
    EXPECT_TRUE(medium.barrier(PERDURA_SITE("test")));
    return now_ns() - begin;
  }

  const TempDir folder_{TempDir::kMemory};
};

// A superblock may rely on it at once, and no barrier of ours reaches it.
TEST_F(MappedMediumTest, TheSizeOfPersistentMemoryIsFlushed) {
  const auto medium = open("dax");
  fail(Call::kFlush, EIO);
  expect_failure(medium->grow(kMiB, true), Code::kIo, "cannot flush the size of '" + path() + "'");
  EXPECT_EQ(medium->geometry().size, 0u);
}

TEST_F(MappedMediumTest, ARefusedMappingIsAnError) {
  for (const std::string scheme : {"emu", "dax"}) {
    const auto medium = open(scheme);
    fail(Call::kMap, ENOMEM);
    expect_failure(medium->grow(kMiB, true), Code::kNoMemory, "cannot map '" + path() + "'");
    EXPECT_EQ(medium->geometry().size, 0u);
    std::filesystem::resize_file(path(), 0);
  }
}

TEST_F(MappedMediumTest, EmulatedNvmTakesItsTime) {
  constexpr u64 kLines = 200;
  {
    const auto medium = open("emu", "?write_ns=20000");
    ASSERT_TRUE(medium->grow(kMiB, true));
    EXPECT_GE(time_of(*medium, kLines), kLines * 20'000);
    EXPECT_TRUE(medium->barrier(PERDURA_SITE("test"))) << "of nothing";
  }
  const auto medium = open("emu", "?bandwidth_mb=1");
  EXPECT_GE(time_of(*medium, kLines), kLines * kLineBytes * 1000);
}

// Valgrind has less address space to give.
TEST_F(MappedMediumTest, UnderValgrindTheWindowIsSmaller) {
  std::ofstream(path()).close();
  std::filesystem::resize_file(path(), 17 * kGiB);
  EXPECT_TRUE(media::open_medium("emu:" + path(), {}));
  EXPECT_EQ(in_child([&]() -> std::string {
              ::setenv("LD_PRELOAD", "/usr/libexec/valgrind/vgpreload_core-amd64-linux.so", 1);
              const auto opened = media::open_medium("emu:" + path(), {});
              if (opened) return "was opened";
              const std::string& text = opened.failure().message;
              return text.find("is larger than the 16 GiB") != text.npos ? "" : text;
            }),
            "");
}

}  // namespace
}  // namespace perdura::test
