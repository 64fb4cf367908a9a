// Goal: what a logged call costs that other processors notice stays as little as it is said to be:
// atomic steps of a call, barriers of a group, changes of the thread that executes.
// Method: they are counted, since a time would say more of the machine than of the library. Atomic
// steps are those instructions of a child process, which is run one at a time, that lock the bus.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <perdura/objects.hpp>

#include "media/fault.hpp"
#include "object/object_core.hpp"
#include "support/files.hpp"
#include "support/object_medium.hpp"
#include "support/slice.hpp"

namespace perdura::test {

struct Counter {
  std::uint64_t count;
  void add(std::uint64_t by) noexcept { count += by; }
  std::uint64_t next() noexcept { return ++count; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Counter>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Counter::add>,
                          perdura::Instant<&perdura::test::Counter::next>> {};

namespace perdura::test {
namespace {

/// Whether an instruction locks the bus: it has the prefix that says so, or exchanges with memory.
bool is_locked(const u8* code) {
  const auto is_prefix = [](u8 byte) {
    return byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x3e ||
           byte == 0x64 || byte == 0x65 || (byte >= 0x40 && byte <= 0x4f);
  };
  for (; is_prefix(*code); ++code) {
  }
  if (*code == 0xf0) return true;
  return (*code == 0x86 || *code == 0x87) && code[1] < 0xc0;
}

/// The locked instructions between two stops of a child, or nothing where it cannot be traced.
std::optional<u64> locked_until_stop(pid_t child) {
  for (u64 locked = 0;;) {
    user_regs_struct registers{};
    if (::ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) return std::nullopt;
    u64 code[2];
    for (u64 i = 0; i < 2; ++i)
      code[i] = static_cast<u64>(::ptrace(PTRACE_PEEKTEXT, child, registers.rip + i * 8, nullptr));
    locked += is_locked(reinterpret_cast<const u8*>(code));
    int status = 0;
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0 ||
        ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
      return std::nullopt;
    if (WSTOPSIG(status) == SIGSTOP) return locked;
  }
}

/// What a child that stops itself executes of them between its second and third stop less what it
/// does between its first and second. `run` is given an object and how often to call it.
template <class Run>
std::optional<u64> locked_of(const std::string& uri, u64 few, u64 many, Run&& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    Objects objects = Objects::open(uri);
    Object<Counter> counter = objects.object<Counter>("counter");
    run(counter, 8);  // what is done once is done
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    run(counter, few);
    ::raise(SIGSTOP);
    run(counter, many);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  std::optional<u64> of_few, of_many;
  int status = 0;
  if (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    of_few = locked_until_stop(child);
    of_many = locked_until_stop(child);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  if (!of_few || !of_many) return std::nullopt;
  return *of_many - *of_few;
}

TEST(ObjectScaling, ADeferredCallIsOneAtomicStep) {
  if (kSanitized) GTEST_SKIP() << "sanitizers add atomic steps";
  const TempDir folder{TempDir::kMemory};
  const auto locked =
      locked_of("emu:" + folder.path("store.pd"), 10, 110, [](Object<Counter>& counter, u64 times) {
        for (u64 i = 0; i < times; ++i) counter.defer<&Counter::add>(i);
      });
  if (!locked) GTEST_SKIP() << "a process cannot be traced here";
  EXPECT_EQ(*locked, 100u);
}

TEST(ObjectScaling, AnAnswerIsAFewAtomicSteps) {
  if (kSanitized) GTEST_SKIP() << "sanitizers add atomic steps";
  const TempDir folder{TempDir::kMemory};
  const auto locked =
      locked_of("emu:" + folder.path("store.pd"), 10, 110, [](Object<Counter>& counter, u64 times) {
        for (u64 i = 0; i < times; ++i) counter.call<&Counter::next>();
      });
  if (!locked) GTEST_SKIP() << "a process cannot be traced here";
  EXPECT_EQ(*locked, 200u) << "its place, and whoever executes";
}

/// A core on a medium that counts its calls.
class CountedCore {
 public:
  explicit CountedCore(const std::string& uri) {
    auto opened = value_or_throw(media::open_medium(uri, {}));
    medium_ = plan_.wrap(std::move(opened.medium));
    value_or_throw(medium_->grow(kMediumBytes, true));
    object::ObjectCore::Parts parts;
    parts.medium = medium_->linear();
    parts.session = 1;
    parts.head = new_object_head(kCopyAt, kLogAt, kLogLines);
    parts.functions.push_back(
        {.name = "add", .context_bytes = sizeof(u64), .run = [](void* state, const void*, void*) {
           ++*static_cast<u64*>(state);
         }});
    const u64 state[8] = {};
    core_ = value_or_throw(
        object::ObjectCore::create(std::move(parts), std::as_bytes(std::span(state))));
    plan_.disarm();  // counts from here
  }
  void defer() { value_or_throw(core_->defer(call())); }
  void tell() { value_or_throw(core_->call(call(), nullptr)); }
  u64 barriers() const { return plan_.count(media::kFaultBarrier); }
  object::CoreCounts counts() { return core_->counts(); }

 private:
  static constexpr u64 kLogLines = 1024;
  static constexpr u64 kCopyAt[2] = {8192, 12288};
  static constexpr u64 kLogAt = 16384;
  static constexpr u64 kMediumBytes = kLogAt + kLogLines * kLineBytes;

  object::Call call() const {
    return {.function = 0, .context = std::as_bytes(std::span(&argument_, 1))};
  }

  const u64 argument_ = 1;
  media::FaultPlan plan_;
  std::unique_ptr<media::Medium> medium_;
  std::unique_ptr<object::ObjectCore> core_;
};

TEST(ObjectScaling, AGroupIsDurableBehindOneBarrier) {
  const TempDir folder{TempDir::kMemory};
  for (const std::string scheme : {"emu:", "file:"}) {
    CountedCore core(scheme + folder.path("core"));
    for (u64 group = 1; group <= 5; ++group) {
      for (u64 i = 0; i < 99; ++i) core.defer();
      EXPECT_EQ(core.barriers(), group - 1) << scheme << ": what is deferred has none";
      core.tell();
      EXPECT_EQ(core.barriers(), group) << scheme;
    }
    EXPECT_EQ(core.counts().executed, 500u);
  }
}

// A thread executes what others have called as well; that it is another one than before is what
// moves the state from one processor's caches to another's.
TEST(ObjectScaling, WhoExecutesIsCounted) {
  const TempDir folder{TempDir::kMemory};
  CountedCore core("emu:" + folder.path("core"));
  for (u64 i = 0; i < 50; ++i) core.tell();
  const u64 before = core.counts().server_changes;
  for (u64 i = 0; i < 50; ++i) core.tell();
  EXPECT_EQ(core.counts().server_changes, before) << "of one thread";
  for (u64 i = 0; i < 10; ++i) std::thread([&] { core.tell(); }).join();
  const object::CoreCounts counts = core.counts();
  EXPECT_GT(counts.server_changes, before);
  EXPECT_LE(counts.server_changes, counts.rounds);
}

}  // namespace
}  // namespace perdura::test
