// Goal: what docs/operations.md says and no test of a part shows: copies of stores, stores that
// several containers see, services that are stopped, and how many mappings a store takes.
// Method: files are copied as cp does it, and opened by other processes; a child is in a process
// namespace of its own.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include <perdura/perdura.hpp>

#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

Options small(Engine engine = Engine::kRedoLog) {
  Options options;
  options.region_limit_bytes = 256 * kMiB;
  options.engine = engine;
  return options;
}

class OperationsDoc : public testing::Test {
 protected:
  std::string path(const std::string& name = "state.pd") const { return folder_.path(name); }
  const TempDir folder_;
};

/// As `cp` copies by itself: what was allocated and never written is a hole in the copy.
void copy_sparsely(const std::string& from, const std::string& to) {
  const FileBytes bytes = read_file(from);
  std::ofstream out(to, std::ios::binary);
  const auto* const data = reinterpret_cast<const char*>(bytes.data());
  for (size_t at = 0; at < bytes.size(); at += 4096) {
    const size_t length = std::min<size_t>(4096, bytes.size() - at);
    if (std::all_of(data + at, data + at + length, [](char each) { return each == 0; }))
      out.seekp(static_cast<std::streamoff>(at + length));
    else out.write(data + at, static_cast<std::streamsize>(length));
  }
  out.close();
  std::filesystem::resize_file(to, bytes.size());
}

u64 allocated_bytes(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return static_cast<u64>(info.st_blocks) * 512;
}

TEST_F(OperationsDoc, ACopyOfAClosedStoreIsTheStore) {
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap, Engine::kDualCopy}) {
    SCOPED_TRACE(static_cast<int>(engine));
    const std::string from = path(std::to_string(static_cast<int>(engine)) + ".pd");
    const std::string to = from + ".copy";
    {
      Store store = Store::open(from, small(engine));
      auto& numbers = store.root<vector<u64>>("numbers");
      const auto operation = store.operation();
      for (u64 i = 0; i < 100'000; ++i) numbers.push_back(i);
      (void)store.allocate(8 * kMiB);  // never stored to
    }
    copy_sparsely(from, to);
    EXPECT_LE(allocated_bytes(to), allocated_bytes(from));
    std::filesystem::remove(from);
    for (u64 round = 0; round < 2; ++round) {
      Store store = Store::open(to, small(engine));
      auto& numbers = store.root<vector<u64>>("numbers");
      ASSERT_EQ(numbers.size(), 100'000 + round);
      for (u64 i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], i);
      EXPECT_TRUE(store.audit().clean);
      const auto operation = store.operation();
      numbers.push_back(numbers.size());
    }
  }
}

TEST_F(OperationsDoc, ACopyIsOpenedByAnotherProcessThanTheOriginal) {
  {
    Store store = Store::open(path(), small());
    store.root<u64>("number") = 7;  // a block whose type has no record
  }
  copy_sparsely(path(), path("copy.pd"));
  Store store = Store::open(path(), small());
  expect_error([&] { Store::open(path("copy.pd"), small()); }, Code::kAddressTaken, "is taken by");
  EXPECT_EQ(in_child([&]() -> std::string {
              Store copy = Store::open(path("copy.pd"), small());
              return std::to_string(copy.root<u64>("number"));
            }),
            "7");
}

// A lock is of a file, whatever a process sees of others.
TEST_F(OperationsDoc, AStoreIsLockedInOtherContainersToo) {
  Store store = Store::open(path(), small());
  const std::string refused = in_child([&]() -> std::string {
    if (::unshare(CLONE_NEWPID | (::getuid() == 0 ? 0 : CLONE_NEWUSER)) != 0)
      return std::string("skipped: ") + std::strerror(errno);
    return in_child([&]() -> std::string {
      try {
        Store::open(path(), small());
      } catch (const Error& error) {
        return error.code() == Code::kLocked ? "locked" : error.what();
      }
      return "is opened twice";
    });
  });
  if (refused.starts_with("skipped: ")) GTEST_SKIP() << refused;
  EXPECT_EQ(refused, "locked");
}

// SIGTERM that nobody handles, in the middle of what is not durable yet.
TEST_F(OperationsDoc, AServiceThatIsStoppedLosesNothingThatWasAcknowledged) {
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    const std::string name = path(std::to_string(signal) + ".pd");
    Child child([&]() -> std::string {
      Store store = Store::open(name, small());
      u64& number = store.root<u64>("number");
      {
        const auto operation = store.operation();
        number = 7;
      }
      store.checkpoint();
      number = 8;
      ::kill(::getpid(), signal);
      for (;;) ::pause();
      return "";
    });
    const std::string died = child.wait();
    EXPECT_EQ(died, signal == SIGKILL ? "" : " died of signal " + std::to_string(signal));
    EXPECT_EQ(Store::open(name, small()).root<u64>("number"), 7u);
  }
}

u64 mappings() {
  std::ifstream maps("/proc/self/maps");
  u64 count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

// Of the 65,530 that vm.max_map_count lets a process have.
TEST_F(OperationsDoc, AStoreTakesFewMappingsHoweverMuchChanges) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map more beside";
#endif
  for (const Tracking tracking : {Tracking::kAutomatic, Tracking::kProtect, Tracking::kReported}) {
    SCOPED_TRACE(name_of(tracking));
    Options options = small();
    options.tracking = tracking;
    const u64 before = mappings();
    const TempDir memory(TempDir::kMemory);
    u64 most = 0;
    // Each second of the tracker's chunks, of which there are more than a thousand.
    const u64 bytes_max = tracking == Tracking::kProtect ? 192 * kMiB : 16 * kMiB;
    for (int round = 0; round < 2; ++round) {
      Store store = Store::open(memory.path("state.pd"), options);
      auto* const bytes = static_cast<char*>(store.allocate(bytes_max));
      store.checkpoint();
      for (u64 at = 0; at < bytes_max; at += 128 * kKiB) {
        const auto operation = store.operation();
        operation.touch(bytes + at, 8);
        bytes[at] = 1;
      }
      most = std::max(most, mappings() - before);
      store.checkpoint();
      store.deallocate(bytes);
      store.close();
    }
    // Two for each chunk, until they double in size with the 1,024th fault.
    const bool maps_chunks = tracking == Tracking::kProtect;
    EXPECT_GT(most, maps_chunks ? 1'000u : 0u);
    EXPECT_LT(most, maps_chunks ? 2'200u : 100u);
  }
}

}  // namespace
}  // namespace perdura::test
