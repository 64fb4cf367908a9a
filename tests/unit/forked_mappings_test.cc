// Goal: a child never has its parent's durable memory, also where it was forked while another
// thread was mapping some of it. Method: whenever a growing store asks the system to keep memory
// from children, another thread forks; the child looks at its own map of memory.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>

#include "support/call_faults.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using namespace std::chrono_literals;

struct Range {
  u64 begin;
  u64 end;
};

/// Without the allocator, which other threads of the parent may have left locked.
bool has_readable(const Range& range) {
  static char text[1 << 20];
  const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  for (ssize_t n = 1; n > 0; length += static_cast<size_t>(n))
    n = std::max<ssize_t>(::read(fd, text + length, sizeof text - length), 0);
  ::close(fd);
  std::string_view left(text, length);
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    u64 begin = 0;
    u64 end = 0;
    const auto dash = std::from_chars(line.begin(), line.end(), begin, 16);
    const auto space = std::from_chars(dash.ptr + 1, line.end(), end, 16);
    if (begin < range.end && end > range.begin && space.ptr[1] == 'r') return true;
  }
  return false;
}

/// Forks in a thread of its own as soon as it is asked to.
class Forker {
 public:
  explicit Forker(const Range& range) : range_(range), thread_([this] { run(); }) {}
  ~Forker() {
    {
      std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Forker(const Forker&) = delete;

  /// Until the child has looked. Where fork waits for the thread that asks, that goes on.
  void fork() {
    std::unique_lock lock(mutex_);
    const int before = asked_ == done_ ? ++asked_ : asked_;
    changed_.notify_all();
    changed_.wait_for(lock, 200ms, [&] { return done_ == before; });
  }
  int forks() {
    std::lock_guard lock(mutex_);
    return done_;
  }
  int seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void run() {
    const TestThread here;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || asked_ != done_; });
      if (ends_) return;
      lock.unlock();
      const pid_t child = ::fork();
      if (child == 0) ::_exit(has_readable(range_) ? 1 : 0);
      int status = -1;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      lock.lock();
      seen_ += status != 0;
      ++done_;
      changed_.notify_all();
    }
  }

  const Range range_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  int asked_ = 0;
  int done_ = 0;
  int seen_ = 0;
  std::thread thread_;
};

Forker* forker = nullptr;

struct Way {
  const char* name;
  const char* scheme;
  Engine engine;
  u32 aliases;
};

class ForkedMappings : public testing::TestWithParam<Way> {
 protected:
  const TempDir folder_;
};

TEST_P(ForkedMappings, AreNeverAChilds) {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.engine = GetParam().engine;
  options.aliases = GetParam().aliases;
  WrappedStore store(GetParam().scheme + folder_.path("store.pd"), options);
  const auto base = reinterpret_cast<std::uintptr_t>(store.operation().allocate(64));
  const u64 begin = round_down(base, options.region_limit_bytes);
  Forker forks({begin, begin + options.region_limit_bytes});
  forker = &forks;
  for (u64 nth = 1; nth <= 12; ++nth) {
    const CallFault fault{
        .call = Call::kAdvise, .nth = nth, .own = true, .before = [] { forker->fork(); }};
    arm_calls(&fault);
    in_library([&] { store.operation().allocate(kMiB + nth * kPageBytes); });
    disarm_calls();
  }
  EXPECT_GT(forks.forks(), 0);
  EXPECT_EQ(forks.seen(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, ForkedMappings,
                         testing::Values(Way{"file", "file:", Engine::kRedoLog, 0},
                                         Way{"emu", "emu:", Engine::kRedoLog, 0},
                                         Way{"aliases", "emu:", Engine::kRedoLog, 2},
                                         Way{"chunks", "file:", Engine::kRemap, 0},
                                         Way{"copies", "file:", Engine::kDualCopy, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
