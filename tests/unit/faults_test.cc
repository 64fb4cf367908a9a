// Goal: a fault in a store's memory is answered in every thread, whatever signals it blocks and
// however small the stack of its handlers is; what cannot be answered, and what was no fault, ends
// the program as it would without the library; and the library's threads take no signals.
// Method: children that block signals, touch memory that only a fault opens, and tell what they
// found; or that do what must end them. Parts that stay closed for as long as a test wants.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <perdura/perdura.hpp>

#include "region/faults.hpp"
#include "store/lazy_parts.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"
#include "support/process.hpp"
#include "support/slice.hpp"
#include "track/protected_pages.hpp"
#include "track/userfault.hpp"

// Sanitizers leave these signals to the library and to the system.
extern "C" const char* __asan_default_options() { return "handle_segv=0:handle_sigbus=0"; }
extern "C" const char* __tsan_default_options() { return "handle_segv=0:handle_sigbus=0"; }

namespace perdura::test {
namespace {

constexpr u64 kBytes = 16 * kMiB;

Store open_store(const std::string& path, Tracking tracking, Engine engine = Engine::kRedoLog) {
  Options options;
  options.tracking = tracking;
  options.engine = engine;
  options.region_limit_bytes = 64 * kMiB;
  return Store::open(path, options);
}

/// A store whose first touch after opening finds parts closed: it was killed with all of it in its
/// log, or has it in chunks.
void leave_crashed_store(const std::string& path, Engine engine) {
  Child child([&]() -> std::string {
    Store store = open_store(path, Tracking::kAutomatic, engine);
    void* const block = store.allocate(kBytes);
    std::memset(block, 1, kBytes);
    store.set_root("block", block);
    store.checkpoint();
    ::kill(::getpid(), SIGKILL);
    return "not killed";
  });
  ASSERT_EQ(child.wait(), "");
}

/// What is wrong with the block, which is read from its end and stored to.
std::string use_block(Store& store) {
  auto* const bytes = static_cast<volatile char*>(store.get_root("block"));
  for (u64 at = kBytes; at != 0; at -= kPageBytes)
    if (bytes[at - 1] != 1) return "another byte";
  bytes[kBytes / 2] = 2;
  return bytes[kBytes / 2] == 2 ? "" : "not stored";
}

void block_all(int (*set_mask)(int, const sigset_t*, sigset_t*), int how) {
  sigset_t all;
  ::sigfillset(&all);
  if (set_mask(how, &all, nullptr) != 0) throw std::runtime_error("cannot block signals");
}

void block_all_in_kernel() {
  const u64 all = ~u64{0};
  if (::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, sizeof all) != 0)
    throw std::runtime_error("cannot block signals");
}

// --- signals that are blocked --------------------------------------------------------------------

struct Blocked {
  Tracking tracking;
  Engine engine;
};

class BlockedSignalsTest : public testing::TestWithParam<Blocked> {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(leave_crashed_store(path_, GetParam().engine)); }
  Store open() const { return open_store(path_, GetParam().tracking, GetParam().engine); }

  const TempDir folder_{TempDir::kMemory};
  const std::string path_ = "file:" + folder_.path("state.pd");
};

TEST_P(BlockedSignalsTest, WhoOpensItBlocksThem) {
  EXPECT_EQ(in_child([&] {
              block_all(&::pthread_sigmask, SIG_BLOCK);
              Store store = open();
              return use_block(store);
            }),
            "");
}

// As daemons do, of which one thread waits for signals.
TEST_P(BlockedSignalsTest, ThreadsThatNeverCallTheLibraryBlockThem) {
  for (const bool before : {false, true})
    for (const auto set_mask : {&::pthread_sigmask, &::sigprocmask})
      for (const int how : {SIG_BLOCK, SIG_SETMASK})
        EXPECT_EQ(in_child([&] {
                    if (before) block_all(set_mask, how);
                    Store store = open();
                    if (!before) block_all(set_mask, how);
                    std::string problem;
                    std::thread([&] { problem = use_block(store); }).join();
                    return problem;
                  }),
                  "")
            << before << ' ' << how;
}

// The mask of who executes a program is the program's.
TEST_P(BlockedSignalsTest, WhoUsesTheStoreHadThemBlockedBefore) {
  EXPECT_EQ(in_child([&] {
              block_all_in_kernel();
              Store store = open();
              std::string problem;
              std::thread([&] {
                block_all_in_kernel();
                {
                  const auto operation = store.operation();
                }
                problem = use_block(store);
              }).join();
              return problem;
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Stores, BlockedSignalsTest,
                         testing::Values(Blocked{Tracking::kAutomatic, Engine::kRedoLog},
                                         Blocked{Tracking::kProtect, Engine::kRedoLog},
                                         Blocked{Tracking::kReported, Engine::kRedoLog},
                                         Blocked{Tracking::kAutomatic, Engine::kRemap},
                                         Blocked{Tracking::kProtect, Engine::kRemap}));

TEST(SignalMask, AllOthersAreBlockedAsAsked) {
  EXPECT_EQ(in_child([]() -> std::string {
              sigset_t all, old;
              ::sigfillset(&all);
              if (::pthread_sigmask(SIG_SETMASK, &all, nullptr) != 0) return "not set";
              if (::pthread_sigmask(SIG_BLOCK, nullptr, &old) != 0) return "not told";
              // 32 and 33 are the C library's own.
              for (int signal = 1; signal <= 64; ++signal) {
                const bool ours = signal == SIGSEGV || signal == SIGBUS;
                const bool never = signal == SIGKILL || signal == SIGSTOP;
                if (signal == 32 || signal == 33 || ours || never) continue;
                if (::sigismember(&old, signal) != 1) return "open: " + std::to_string(signal);
              }
              if (::sigismember(&old, SIGSEGV) != 0 || ::sigismember(&old, SIGBUS) != 0)
                return "blocked";
              sigset_t one;
              ::sigemptyset(&one);
              ::sigaddset(&one, SIGUSR1);
              if (::sigprocmask(SIG_UNBLOCK, &one, &old) != 0) return "not unblocked";
              if (::sigismember(&old, SIGUSR1) != 1) return "the old mask is another";
              ::sigprocmask(SIG_BLOCK, nullptr, &old);
              if (::sigismember(&old, SIGUSR1) != 0) return "still blocked";
              errno = 0;
              if (::pthread_sigmask(99, &one, nullptr) != EINVAL || errno != 0) return "99 is good";
              if (::sigprocmask(99, &one, nullptr) != -1 || errno != EINVAL) return "99 is good";
              return "";
            }),
            "");
}

// --- what cannot be answered ---------------------------------------------------------------------

class UnansweredTest : public testing::TestWithParam<Tracking> {
 protected:
  /// How a child ended that does this with a block of a store that it opened again, of which some
  /// is open to stores. Within a time in which a fault that repeats would not end.
  std::string end_of(const std::function<void(Store&, volatile char*)>& body) {
    std::filesystem::remove(path_);
    leave_crashed_store("file:" + path_, Engine::kRedoLog);
    Child child([&]() -> std::string {
      {
        Store store = open_store("file:" + path_, Tracking::kAutomatic);
      }  // all of it is home
      ::signal(SIGALRM, SIG_DFL);
      Store store = open_store("file:" + path_, GetParam());
      auto* const bytes = static_cast<volatile char*>(store.get_root("block"));
      bytes[0] = 2;
      bytes[kBytes / 2] = 2;
      ::alarm(60);
      body(store, bytes);
      return "survived";
    });
    return child.wait();
  }
  static std::string died_of(int signal) { return " died of signal " + std::to_string(signal); }

  const TempDir folder_{TempDir::kMemory};
  const std::string path_ = folder_.path("state.pd");
};

// Stands for pages that the disk cannot read: the kernel's signal is the same.
TEST_P(UnansweredTest, NothingBehindThePage) {
  for (const bool store : {false, true})
    EXPECT_EQ(end_of([&](Store&, volatile char* bytes) {
                std::filesystem::resize_file(path_, kMiB);
                if (store) bytes[kBytes / 2 + 2 * kPageBytes] = 3;
                else bytes[0] = bytes[kBytes / 2 + 2 * kPageBytes];
              }),
              died_of(SIGBUS))
        << store;
}

TEST_P(UnansweredTest, AJumpIntoTheRegion) {
  EXPECT_EQ(end_of([](Store&, volatile char* bytes) {
              reinterpret_cast<void (*)()>(reinterpret_cast<std::uintptr_t>(bytes))();
            }),
            died_of(SIGSEGV));
}

TEST_P(UnansweredTest, TheProgramClosesItsOwnMemory) {
  EXPECT_EQ(end_of([](Store&, volatile char* bytes) {
              auto* const page = reinterpret_cast<char*>(
                  round_up(reinterpret_cast<std::uintptr_t>(bytes), kPageBytes));
              ::mprotect(page, kPageBytes, PROT_NONE);
              bytes[0] = *static_cast<volatile char*>(page);
            }),
            died_of(SIGSEGV));
}

// --- signals that are no faults ------------------------------------------------------------------

TEST_P(UnansweredTest, ASignalThatSomebodySentEndsTheProgram) {
  for (const int signal : {SIGSEGV, SIGBUS})
    EXPECT_EQ(end_of([&](Store&, volatile char*) { ::kill(::getpid(), signal); }), died_of(signal));
}

// A breakpoint, which is not run again, ends the program as without a store; also where stores that
// nobody reported are looked for, for which the library takes traps.
TEST(FaultSignals, ABreakpointEndsTheProgram) {
  for (const bool verify : {false, true}) {
    const TempDir folder(TempDir::kMemory);
    EXPECT_EQ(in_child([&]() -> std::string {
                Options options;
                options.tracking = verify ? Tracking::kReported : Tracking::kProtect;
                options.verify_reports = verify;
                const Store store = Store::open(folder.path("state.pd"), options);
                asm volatile("int3");
                return "survived";
              }),
              " died of signal " + std::to_string(SIGTRAP))
        << verify;
  }
}

std::atomic<int> taken{0};
void take_signal(int) { taken.fetch_add(1); }

TEST(FaultSignals, WhatSomebodySentGoesWhereItWentBefore) {
  for (const auto handler : {SIG_IGN, &take_signal}) {
    const TempDir folder(TempDir::kMemory);
    EXPECT_EQ(in_child([&]() -> std::string {
                ::signal(SIGSEGV, handler);
                Store store = open_store(folder.path("state.pd"), Tracking::kProtect);
                auto* const bytes = static_cast<volatile char*>(store.allocate(kBytes));
                for (int i = 1; i <= 3; ++i) {
                  store.checkpoint();
                  ::kill(::getpid(), SIGSEGV);
                  if (handler == &take_signal && taken != i) return "not taken";
                  bytes[kBytes / 2] = static_cast<char>(i);
                }
                return "";
              }),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(Trackers, UnansweredTest,
                         testing::Values(Tracking::kAutomatic, Tracking::kProtect));

// --- small stacks --------------------------------------------------------------------------------

class SmallStackTest : public testing::TestWithParam<Blocked> {};

// The kernel's part of the stack depends on the processor; the program adds a page.
TEST_P(SmallStackTest, IsEnough) {
  if (kSanitized) GTEST_SKIP() << "sanitizers make frames larger";
  const TempDir folder(TempDir::kMemory);
  const std::string path = "file:" + folder.path("state.pd");
  ASSERT_NO_FATAL_FAILURE(leave_crashed_store(path, GetParam().engine));
  EXPECT_EQ(in_child([&]() -> std::string {
              const u64 size = round_up(::getauxval(AT_MINSIGSTKSZ), 1024) + kPageBytes;
              // Below it lies memory that nobody may touch, wider than any frame.
              const u64 mapped = round_up(size, kPageBytes) + kMiB;
              auto* const memory = static_cast<char*>(::mmap(
                  nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
              ::mprotect(memory, kMiB, PROT_NONE);
              stack_t stack{};
              stack.ss_sp = memory + kMiB;
              stack.ss_size = size;
              if (::sigaltstack(&stack, nullptr) != 0) return "no stack";
              ::alarm(60);
              Store store = open_store(path, GetParam().tracking, GetParam().engine);
              return use_block(store);
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Stores, SmallStackTest,
                         testing::Values(Blocked{Tracking::kAutomatic, Engine::kRedoLog},
                                         Blocked{Tracking::kProtect, Engine::kRedoLog},
                                         Blocked{Tracking::kAutomatic, Engine::kRemap},
                                         Blocked{Tracking::kProtect, Engine::kRemap}));

// --- the library's threads -----------------------------------------------------------------------

/// Of each thread of the library in this process: its name, and the signals it blocks.
std::vector<std::pair<std::string, u64>> library_threads() {
  std::vector<std::pair<std::string, u64>> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name = "perdura-";
    u64 blocked = ~u64{0};  // as while the C library makes a thread
    while (name.rfind("perdura-", 0) == 0 && (blocked & 1 << (SIGSEGV - 1)) != 0) {
      std::ifstream status(task.path() / "status");
      if (!status) break;  // it has ended
      for (std::string word; status >> word;) {
        if (word == "Name:") status >> name;
        if (word == "SigBlk:" && status >> word) blocked = std::stoull(word, nullptr, 16);
      }
    }
    if (name.rfind("perdura-", 0) == 0) found.emplace_back(name, blocked);
  }
  return found;
}

TEST(LibraryThreads, TakeNoSignalsOfTheProgram) {
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap}) {
    const TempDir folder(TempDir::kMemory);
    const std::string path = "file:" + folder.path("state.pd");
    ASSERT_NO_FATAL_FAILURE(leave_crashed_store(path, engine));
    EXPECT_EQ(in_child([&]() -> std::string {
                Store store = open_store(path, Tracking::kAutomatic, engine);
                const auto ours = library_threads();
                for (const auto& [name, blocked] : ours) {
                  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGALRM, SIGPROF})
                    if ((blocked & u64{1} << (signal - 1)) == 0)
                      return name + " takes signal " + std::to_string(signal);
                }
                if (ours.empty()) return "no threads";
                sigset_t old;
                ::pthread_sigmask(SIG_BLOCK, nullptr, &old);
                return ::sigisemptyset(&old) ? "" : "the program's thread blocks some";
              }),
              "");
  }
}

TEST(LibraryThreads, SigwaitGetsASignalOfTheProcess) {
  const TempDir folder(TempDir::kMemory);
  EXPECT_EQ(in_child([&]() -> std::string {
              Store store = open_store(folder.path("state.pd"), Tracking::kAutomatic);
              sigset_t terminate;
              ::sigemptyset(&terminate);
              ::sigaddset(&terminate, SIGTERM);
              ::pthread_sigmask(SIG_BLOCK, &terminate, nullptr);
              ::kill(::getpid(), SIGTERM);
              int got = 0;
              return ::sigwait(&terminate, &got) == 0 && got == SIGTERM ? "" : "another signal";
            }),
            "");
}

// --- parts that are closed -----------------------------------------------------------------------

constexpr u64 kPart = 256 * kKiB;

/// Fills parts with their number on top of a value, the first ones, with which the background
/// begins, when it may.
class GatedFiller final : public store::Filler {
 public:
  GatedFiller(std::byte* base, u64 value) : base_(base), value_(value) {}
  bool fill(u64 begin, u64 end, const media::SelfMemory& memory, bool last) noexcept override {
    if (begin == 0) may_begin_.wait(false);
    const bool fails = fails_ || (begin <= bad_ * kPart && bad_ * kPart < end);
    told_ += fails && last ? 1 : 0;
    std::byte page[512];
    for (u64 at = begin; at < (fails ? begin + kPageBytes : end); at += sizeof page) {
      std::memset(page, static_cast<int>(value_ + at / kPart), sizeof page);
      if (!memory.write(base_ + at, page)) return false;
    }
    failed_ += fails ? 1 : 0;
    return !fails;
  }
  bool fills_in_handlers() const override { return in_handlers_; }
  void open_gate() {
    may_begin_ = true;
    may_begin_.notify_all();
  }

  bool in_handlers_ = true;
  std::atomic<bool> fails_{false};  ///< with the first page of a part written
  std::atomic<u64> bad_{~u64{0}};   ///< a part that fails so
  std::atomic<u64> failed_{0};
  std::atomic<u64> told_{0};  ///< of these, what nobody tries again

 private:
  std::byte* const base_;
  const u64 value_;
  std::atomic<bool> may_begin_{false};
};

class ClosedPartsTest : public testing::Test {
 protected:
  static constexpr u64 kParts = 32;
  static constexpr u64 kTogether = 16;   ///< parts, in the background
  static constexpr u64 kElsewhere = 20;  ///< of none that the background begins with

  ClosedPartsTest() : volume_(open_volume("file:" + folder_.path("state.pd"))) {
    region_ = add_region(*volume_, 64 * kMiB);
    value_or_throw(region_->back(0, kParts * kPart));
  }
  ~ClosedPartsTest() override {
    if (filler_) filler_->open_gate();
    parts_.reset();
  }

  void close(std::unique_ptr<track::Tracker> tracker, u64 value = 0) {
    tracker_ = std::move(tracker);
    value_or_throw(region_->on_backed([this](std::byte* address, u64 length, bool anonymous) {
      const track::Part part{address, length, anonymous};
      return tracker_->backed({&part, 1});
    }));
    filler_.emplace(region_->base(), value);
    parts_ = value_or_throw(store::LazyParts::create(
        *region_, *tracker_, *filler_,
        {.part_bytes = kPart, .parts = std::vector<store::Wanted>(kParts, store::Wanted::kSoon)}));
  }
  volatile char& byte_of(u64 part) const {
    return reinterpret_cast<volatile char&>(region_->base()[part * kPart + 100]);
  }
  u64 value_of(u64 part) const { return static_cast<u64>(byte_of(part)); }

  const TempDir folder_{TempDir::kMemory};
  std::unique_ptr<region::Volume> volume_;
  std::unique_ptr<region::Region> region_;
  std::unique_ptr<track::Tracker> tracker_;
  std::optional<GatedFiller> filler_;
  std::unique_ptr<store::LazyParts> parts_;
};

// It has a descriptor that leads to its parent's memory.
TEST_F(ClosedPartsTest, AForkedChildFillsNothingOfItsParent) {
  auto tracker = track::Userfault::create(region_->base(), region_->limit());
  if (!tracker) GTEST_SKIP() << tracker.failure().message;
  close(std::move(*tracker));
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  Child child([&]() -> std::string {
    char word = 0;
    if (::read(go[0], &word, 1) != 1) return "not told";
    return "read " + std::to_string(value_of(kElsewhere));
  });
  byte_of(kElsewhere) = 77;
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  EXPECT_EQ(child.wait(), " died of signal " + std::to_string(SIGSEGV));
  EXPECT_EQ(value_of(kElsewhere), 77u);
  ::close(go[0]);
  ::close(go[1]);
}

// Its parent has opened the part, and tells a fault there to try again.
TEST_F(ClosedPartsTest, AForkedChildDiesOfWhatItsParentHasOpened) {
  auto tracker = track::Userfault::create(region_->base(), region_->limit());
  if (!tracker) GTEST_SKIP() << tracker.failure().message;
  close(std::move(*tracker));
  byte_of(kElsewhere) = 77;
  Child child([&]() -> std::string {
    ::alarm(10);
    return "read " + std::to_string(value_of(kElsewhere));
  });
  EXPECT_EQ(child.wait(), " died of signal " + std::to_string(SIGSEGV));
  EXPECT_EQ(value_of(kElsewhere), 77u);
}

// A server that does not answer, or want of memory, may pass.
TEST_F(ClosedPartsTest, WhatCannotBeFilledIsNoChangeAndIsTriedAgain) {
  for (const bool in_handlers : {true, false}) {
    SCOPED_TRACE(in_handlers ? "whoever touches it fills it" : "the background fills it");
    auto tracker = track::Userfault::create(region_->base(), region_->limit());
    if (!tracker) GTEST_SKIP() << tracker.failure().message;
    close(std::move(*tracker), in_handlers ? 0 : kParts);
    filler_->in_handlers_ = in_handlers;
    filler_->fails_ = true;
    filler_->open_gate();
    // Together, and then one by one; behind the last one the background has come to an end.
    while (filler_->failed_ < kParts + kParts / kTogether) std::this_thread::yield();
    std::byte* const last = region_->base() + (kParts - 1) * kPart;
    EXPECT_FALSE(parts_->open_all(last, last + kPart));
    EXPECT_FALSE(parts_->open_all(region_->base(), region_->base() + kParts * kPart));
    value_or_throw(tracker_->cut());
    EXPECT_TRUE(tracker_->collect().empty());
    tracker_->settle(true);
    filler_->fails_ = false;
    EXPECT_TRUE(parts_->open_all(region_->base(), region_->base() + kParts * kPart));
    for (u64 part = 0; part < kParts; ++part)
      EXPECT_EQ(value_of(part), part + (in_handlers ? 0 : kParts));
    parts_.reset();
    tracker_.reset();
  }
}

// Who waits for one part helps with others, perhaps amid the allocator: what is wrong with these is
// not told there, and once.
TEST_F(ClosedPartsTest, WhoHelpsTellsNothing) {
  auto tracker = track::Userfault::create(region_->base(), region_->limit());
  if (!tracker) GTEST_SKIP() << tracker.failure().message;
  close(std::move(*tracker));
  constexpr u64 kBad = kParts - 1;
  filler_->bad_ = kBad;
  // The background is at those before, and what lies between is open: one part is left.
  for (u64 part = kTogether; part < kBad; ++part) EXPECT_EQ(value_of(part), part);
  std::thread reader([&] { EXPECT_EQ(value_of(1), 1u); });
  while (filler_->failed_ == 0) std::this_thread::yield();
  EXPECT_EQ(filler_->told_, 0u);
  filler_->open_gate();
  reader.join();
  while (filler_->told_ == 0) std::this_thread::yield();
  parts_.reset();
  EXPECT_EQ(filler_->told_, 1u);
}

// However much a store opens: what was not filled is not shown, and not filled over the store.
TEST_F(ClosedPartsTest, AStoreOpensNothingThatIsNotFilled) {
  u64 value = 0;
  for (const u64 chunk : {64 * kKiB, kMiB}) {
    SCOPED_TRACE(chunk);
    value += kParts;  // not what was filled before
    close(
        value_or_throw(track::ProtectedPages::create(
            region_->base(), region_->limit(), Tracking::kProtect, track::Memory::kPrivate, chunk)),
        value);
    // Each page of one chunk faults once in an epoch: more faults than make chunks larger.
    std::byte* const far = region_->base() + 30 * kPart;
    for (int i = 0; i < 8 * 1024; ++i) {
      byte_of(30) = 30;
      ASSERT_EQ(::mprotect(far, kPart, PROT_READ), 0);
    }
    byte_of(kElsewhere) = 99;
    for (u64 part = kElsewhere - 4; part < kElsewhere + 8; ++part)
      EXPECT_EQ(value_of(part), part == kElsewhere ? 99 : value + part) << part;
    filler_->open_gate();
    while (!parts_->done()) std::this_thread::yield();
    EXPECT_EQ(value_of(kElsewhere), 99u);
    parts_.reset();
    tracker_.reset();
  }
}

}  // namespace
}  // namespace perdura::test
