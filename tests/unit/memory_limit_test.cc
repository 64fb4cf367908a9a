// Goal: what a process may use of the machine's memory is what its control groups allow it, in
// either version of these, whichever group on the way to the root allows least. Method: files as
// the system has them, and a group of our own where we may make one.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/memory_limit.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

class MemoryLimit : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::string file = folder_.path("") + path;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << text;
  }
  u64 limit() const { return memory_limit(folder_.path("")); }

  const TempDir folder_;
  const u64 machine_ = static_cast<u64>(::sysconf(_SC_PHYS_PAGES)) * kPageBytes;
};

TEST_F(MemoryLimit, WithoutGroupsIsTheMachines) {
  EXPECT_EQ(limit(), machine_);
  write("proc/self/cgroup", "what is this\n:\n0:\n");
  EXPECT_EQ(limit(), machine_);
}

TEST_F(MemoryLimit, IsTheLeastOnTheWayToTheRoot) {
  write("proc/self/cgroup", "0::/all/some/one\n");
  EXPECT_EQ(limit(), machine_);
  write("sys/fs/cgroup/all/some/one/memory.max", "max\n");
  EXPECT_EQ(limit(), machine_);
  write("sys/fs/cgroup/all/memory.max", "268435456\n");
  EXPECT_EQ(limit(), 256 * kMiB);
  write("sys/fs/cgroup/all/some/one/memory.max", "9223372036854771712\n");
  EXPECT_EQ(limit(), 256 * kMiB);
  write("sys/fs/cgroup/all/some/memory.max", "134217728\n");
  EXPECT_EQ(limit(), 128 * kMiB);
}

TEST_F(MemoryLimit, OfAContainerIsAtTheRoot) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "134217728\n");
  EXPECT_EQ(limit(), 128 * kMiB);
}

TEST_F(MemoryLimit, IsFoundInTheFirstVersionToo) {
  write("proc/self/cgroup", "4:cpu,memory:/some\n3:name=memory_of:/some\n0::/\n");
  write("sys/fs/cgroup/memory/some/memory.limit_in_bytes", "134217728\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), 128 * kMiB);
}

TEST_F(MemoryLimit, IsThatOfTheGroupThatAProcessIsIn) {
  const bool first = std::filesystem::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const std::string group = (first ? "/sys/fs/cgroup/memory/" : "/sys/fs/cgroup/") +
                            ("perdura-test-" + std::to_string(::getpid()));
  std::error_code refused;
  if (!std::filesystem::create_directory(group, refused)) GTEST_SKIP() << "no group can be made";
  std::ofstream(group + (first ? "/memory.limit_in_bytes" : "/memory.max")) << 256 * kMiB;
  Child child([&]() -> std::string {
    if (!(std::ofstream(group + "/cgroup.procs") << ::getpid() << std::flush)) return "refused";
    const u64 found = memory_limit();
    return found == 256 * kMiB ? "" : "found " + std::to_string(found);
  });
  const std::string problem = child.wait();
  std::filesystem::remove(group, refused);
  if (problem == "refused") GTEST_SKIP() << "no process may enter a group";
  EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace perdura::test
