#include "region/faults.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/bits.hpp"
#include "base/mutant.hpp"
#include "base/process.hpp"

namespace perdura::region {
namespace {

constexpr size_t kWatchesMax = 192;  // a tracker's and a recovery's for each open store, and spare
constexpr size_t kNone = ~size_t{0};
constexpr u32 kRepeatsBeforeProbe = 16;

// Read by signal handlers without a lock: `handler` is published last and withdrawn first, and
// `users` keeps a handler alive while it runs.
struct Watch {
  std::atomic<std::byte*> begin{nullptr};
  std::atomic<std::byte*> end{nullptr};
  std::atomic<FaultHandler*> handler{nullptr};
  std::atomic<int> users{0};
  std::atomic<u64> generation{0};  ///< of the process that made it
  std::atomic<FaultWatch::Turn> turn{FaultWatch::Turn::kLast};
  bool claimed = false;  ///< under the mutex

  bool holds(const std::byte* address) const { return address >= begin && address < end; }
};

std::array<Watch, kWatchesMax> watches;
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGTRAP};
struct sigaction previous[3];

struct sigaction& previous_of(int signal) {
  return previous[std::ranges::find(kSignals, signal) - std::begin(kSignals)];
}

// --- one fault

enum class Outcome {
  kAnswered,
  kLetOn,  ///< by who is asked first: the access may fault again, for the others
  kRefused,
  kNotWatched,
};

const void* instruction_of(const ucontext_t& context) {
  return reinterpret_cast<const void*>(context.uc_mcontext.gregs[REG_RIP]);
}

// The processor's error code of a page fault says it; not every sandbox passes that on.
bool may_be_store(const ucontext_t& context) {
  constexpr greg_t kPageFault = 14;
  constexpr greg_t kWrite = 2;
  const auto& registers = context.uc_mcontext.gregs;
  return registers[REG_TRAPNO] != kPageFault || (registers[REG_ERR] & kWrite) != 0;
}

// Of a thread; in one place, since a library that is loaded while a program runs gets little of a
// thread's memory.
struct ThreadFaults {
  // The last fault that a handler answered, and how often it came without another one between: a
  // loop that stores to one page, once in each epoch, or something that stays out of reach (a file
  // was cut short, a disk fails, the program closed the page).
  const void* instruction;
  const std::byte* address;
  u32 times;
  u8 stepped;         ///< which one of all_stepped it has, from 1 on
  bool refusal_told;  ///< that the access which it is answering is refused, and why
};
__attribute__((tls_model("initial-exec"))) constinit thread_local ThreadFaults thread_faults{};

// The accesses of one instruction that are let through until it has run: of a vector that is
// scattered sixteen.
struct Stepped {
  struct Access {
    FaultHandler* handler;
    std::byte* address;
  };
  u32 count;
  Access accesses[16];
  std::atomic<bool> is_taken;
};
// Of the threads that are at such an instruction: they are few at once.
constinit std::array<Stepped, 64> all_stepped{};
static_assert(std::tuple_size_v<decltype(all_stepped)> <= 255);
constexpr greg_t kTrapFlag = 0x100;

Stepped* stepped() noexcept {
  return thread_faults.stepped != 0 ? &all_stepped[thread_faults.stepped - 1u] : nullptr;
}

// In a handler; nullptr where all are taken.
Stepped* take_stepped() noexcept {
  for (size_t i = 0; i < all_stepped.size(); ++i)
    if (!all_stepped[i].is_taken.exchange(true, std::memory_order_acquire)) {
      all_stepped[i].count = 0;
      thread_faults.stepped = static_cast<u8>(i + 1);
      break;
    }
  return stepped();
}

// In a forked child those of other threads are nobody's.
[[maybe_unused]] const bool forgets_stepped_in_child = [] {
  at_fork_in_child([]() noexcept {
    for (Stepped& each : all_stepped)
      if (&each != stepped()) each.is_taken.store(false, std::memory_order_relaxed);
  });
  return true;
}();

// Nothing may be mapped there, as in a forked child, or memory is short: the system says the same.
bool is_mapped(std::byte* page) noexcept {
  unsigned char resident = 0;
  return ::mincore(page, kPageBytes, &resident) == 0 || errno != ENOMEM;
}

// The system tries the access as the program would, and says what came of it. Older ones than Linux
// 5.14 cannot, like want of memory: then the program may go on trying.
bool is_out_of_reach(const Fault& fault) noexcept {
  std::byte* const page =
      fault.address - reinterpret_cast<std::uintptr_t>(fault.address) % kPageBytes;
  const int advice = fault.is_store ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (::madvise(page, kPageBytes, advice) == 0) return false;
  if (errno == ENOMEM) return !is_mapped(page);
  if (errno != EINVAL) return errno == EFAULT || errno == EHWPOISON;
  alignas(kPageBytes) static std::byte ours[kPageBytes];  // EINVAL: it must not, or cannot do that
  return ::madvise(ours, kPageBytes, advice) == 0;
}

bool repeats_for_ever(const Fault& fault, const void* instruction) noexcept {
  if (thread_faults.instruction != instruction || thread_faults.address != fault.address) {
    thread_faults.instruction = instruction;
    thread_faults.address = fault.address;
    thread_faults.times = 0;
  }
  return ++thread_faults.times % kRepeatsBeforeProbe == 0 && is_out_of_reach(fault);
}

/// By the watches of this process, or by those that a forked child has from its parent.
Outcome answer_by(bool inherited, FaultWatch::Turn turn, const Fault& fault,
                  const void* instruction) noexcept {
  Outcome outcome = Outcome::kNotWatched;
  for (Watch& watch : watches) {
    if (watch.handler.load(std::memory_order_acquire) == nullptr) continue;
    if (watch.turn.load(std::memory_order_relaxed) != turn) continue;
    if (!watch.holds(fault.address)) continue;
    if (forked_since(watch.generation.load(std::memory_order_relaxed)) != inherited) continue;
    watch.users.fetch_add(1, std::memory_order_seq_cst);
    FaultHandler* handler = watch.handler.load(std::memory_order_seq_cst);
    // Memory of a store holds no instructions: whoever jumps there has lost its way.
    const bool runs_there = watch.holds(static_cast<const std::byte*>(instruction));
    const bool good = handler != nullptr && !runs_there && handler->on_fault(fault);
    watch.users.fetch_sub(1, std::memory_order_seq_cst);
    // A watch that ended meanwhile left its memory accessible.
    if (good || handler == nullptr) return Outcome::kAnswered;
    outcome = Outcome::kRefused;
  }
  return outcome;
}

Outcome answer_by(bool inherited, const Fault& fault, const void* instruction) noexcept {
  const Outcome first = answer_by(inherited, FaultWatch::Turn::kFirst, fault, instruction);
  if (first == Outcome::kAnswered) return Outcome::kLetOn;
  const Outcome last = answer_by(inherited, FaultWatch::Turn::kLast, fault, instruction);
  return last == Outcome::kNotWatched ? first : last;
}

// A child's store may lie where one of its parent does, which is not mapped there.
Outcome answer(const Fault& fault, const void* instruction, bool& inherited) noexcept {
  const Outcome outcome = answer_by(false, fault, instruction);
  inherited = outcome == Outcome::kNotWatched;
  return inherited ? answer_by(true, fault, instruction) : outcome;
}

template <size_t kBytes>
void tell(char (&text)[kBytes], const Fault& fault) noexcept {
  char* const digits = std::strchr(text, '#');
  auto value = reinterpret_cast<std::uintptr_t>(fault.address);
  for (int i = 15; i >= 0; --i, value /= 16) digits[i] = "0123456789abcdef"[value % 16];
  const ssize_t written = ::write(STDERR_FILENO, text, kBytes - 1);
  (void)written;  // there is nobody to tell
}

void tell_refused(const Fault& fault, bool inherited) noexcept {
  char of_parent[] =
      "perdura: the access to 0x################ in a store's memory cannot be answered: the store "
      "belongs to the parent process, and a forked child does not have its memory: open stores "
      "after fork\n";
  char of_process[] =
      "perdura: the access to 0x################ in a store's memory cannot be answered: nothing "
      "is there, or its medium failed or was cut short\n";
  if (inherited) tell(of_parent, fault);
  else tell(of_process, fault);
}

// --- signals

void set_mask(int how, const sigset_t& set) noexcept {
  ::syscall(SYS_rt_sigprocmask, how, &set, nullptr, _NSIG / 8);
}

// As if ours were not there.
void pass_on(int signal, siginfo_t* info, ucontext_t* context) {
  const struct sigaction& next = previous_of(signal);
  const bool is_fault = info->si_code > 0 && signal != SIGTRAP;  // whose instruction has run
  if ((next.sa_flags & SA_SIGINFO) == 0 && next.sa_handler == SIG_IGN && !is_fault) return;
  if ((next.sa_flags & SA_SIGINFO) == 0 &&
      (next.sa_handler == SIG_DFL || next.sa_handler == SIG_IGN)) {
    // The access is repeated and ends the program; what somebody sent, it is sent again.
    struct sigaction fatal{};
    fatal.sa_handler = SIG_DFL;
    ::sigaction(signal, &fatal, nullptr);
    if (!is_fault) ::syscall(SYS_tgkill, ::getpid(), ::gettid(), signal);
    return;
  }
  sigset_t mask = context->uc_sigmask;
  ::sigorset(&mask, &mask, &next.sa_mask);
  if ((next.sa_flags & SA_NODEFER) == 0) ::sigaddset(&mask, signal);
  set_mask(SIG_SETMASK, mask);
  if ((next.sa_flags & SA_SIGINFO) != 0) next.sa_sigaction(signal, info, context);
  else next.sa_handler(signal);
}

void on_signal(int signal, siginfo_t* info, void* raw_context) {
  auto* const context = static_cast<ucontext_t*>(raw_context);
  const int saved_errno = errno;
  const Fault fault{static_cast<std::byte*>(info->si_addr), may_be_store(*context),
                    signal == SIGBUS, instruction_of(*context)};
  const void* const instruction = fault.instruction;
  thread_faults.refusal_told = false;
  bool inherited = false;
  Outcome outcome =
      info->si_code > 0 ? answer(fault, instruction, inherited) : Outcome::kNotWatched;
  if (outcome == Outcome::kAnswered && repeats_for_ever(fault, instruction))
    outcome = Outcome::kRefused;
  if (outcome == Outcome::kRefused && !thread_faults.refusal_told) tell_refused(fault, inherited);
  if (stepped() != nullptr) context->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
  errno = saved_errno;
  if (outcome == Outcome::kRefused || outcome == Outcome::kNotWatched)
    pass_on(signal, info, context);
}

// The instruction has run. Whoever wanted to know may be gone.
void on_trap(int signal, siginfo_t* info, void* raw_context) {
  auto* const context = static_cast<ucontext_t*>(raw_context);
  if (stepped() == nullptr) return pass_on(signal, info, context);
  const int saved_errno = errno;
  context->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
  Stepped& accessed = *stepped();
  for (u32 i = 0; i < accessed.count; ++i)
    for (Watch& watch : watches) {
      if (watch.handler.load(std::memory_order_acquire) != accessed.accesses[i].handler) continue;
      watch.users.fetch_add(1, std::memory_order_seq_cst);
      FaultHandler* const handler = watch.handler.load(std::memory_order_seq_cst);
      if (handler == accessed.accesses[i].handler)
        handler->after_access(accessed.accesses[i].address);
      watch.users.fetch_sub(1, std::memory_order_seq_cst);
    }
  thread_faults.stepped = 0;
  accessed.is_taken.store(false, std::memory_order_release);
  errno = saved_errno;
}

// Nothing interrupts the handler: what came between might touch a part that it is filling, and wait
// for it for ever. A fault of the handler itself ends the program.
Status install(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigfillset(&action.sa_mask);
  if (::sigaction(signal, &action, &previous_of(signal)) != 0)
    return system_failure(errno, "cannot install a fault handler");
  return {};
}

Status install_faults() {
  static const Status installed = []() -> Status {
    PERDURA_TRY(install(SIGSEGV, on_signal));
    return install(SIGBUS, on_signal);
  }();
  return installed;
}

sigset_t fault_signals() noexcept {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGSEGV);
  ::sigaddset(&set, SIGBUS);
  return set;
}

// An error number, or 0.
int set_mask_without_faults(int how, const sigset_t* set, sigset_t* old) noexcept {
  sigset_t left;
  if (set != nullptr && how != SIG_UNBLOCK && !is_mutant("blocked_faults")) {
    left = *set;
    ::sigdelset(&left, SIGSEGV);
    ::sigdelset(&left, SIGBUS);
    // The C library's own two, which it leaves out as well, and sigdelset refuses to know.
    left.__val[0] &= ~(3ul << (__SIGRTMIN - 1));
    set = &left;
  }
  return ::syscall(SYS_rt_sigprocmask, how, set, old, _NSIG / 8) == 0 ? 0 : errno;
}

}  // namespace

void refusal_is_told() noexcept { thread_faults.refusal_told = true; }

Status allow_steps() {
  std::lock_guard lock(process_mutex(ProcessMutex::kFaults));
  static const Status installed = install(SIGTRAP, on_trap);
  return installed;
}

void step_over(FaultHandler& handler, std::byte* address) noexcept {
  Stepped* const accessed = thread_faults.stepped != 0 ? stepped() : take_stepped();
  // One that accesses more in one instruction repeats, and what is not noted stays let through.
  if (accessed == nullptr || accessed->count == std::size(accessed->accesses)) return;
  accessed->accesses[accessed->count++] = {&handler, address};
}

void let_faults_through() noexcept {
  if (!is_mutant("blocked_faults")) set_mask(SIG_UNBLOCK, fault_signals());
}

Result<FaultWatch> FaultWatch::create(std::byte* begin, std::byte* end, FaultHandler& handler,
                                      Turn turn) {
  std::lock_guard lock(process_mutex(ProcessMutex::kFaults));
  PERDURA_TRY(install_faults());
  let_faults_through();
  for (size_t i = 0; i < watches.size(); ++i) {
    Watch& watch = watches[i];
    if (watch.claimed) continue;
    watch.claimed = true;
    watch.begin = begin;
    watch.end = end;
    watch.turn = turn;
    watch.generation = process_generation();
    watch.handler.store(&handler, std::memory_order_release);
    return FaultWatch(i);
  }
  return Failure{Code::kNoMemory, "too many stores need a fault handler at once"};
}

FaultWatch::FaultWatch(FaultWatch&& other) noexcept : slot_(std::exchange(other.slot_, kNone)) {}

FaultWatch::~FaultWatch() {
  if (slot_ == kNone) return;
  Watch& watch = watches[slot_];
  watch.handler.store(nullptr, std::memory_order_seq_cst);
  while (watch.users.load(std::memory_order_seq_cst) != 0) {
  }
  std::lock_guard lock(process_mutex(ProcessMutex::kFaults));
  watch.claimed = false;
}

}  // namespace perdura::region

// In this file, so that they are part of every program with a store in it. Weak, as a program that
// is linked statically has the C library's beside them.
extern "C" {

__attribute__((weak)) int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  const int saved_errno = errno;
  const int error_number = perdura::region::set_mask_without_faults(how, set, old);
  errno = saved_errno;
  return error_number;
}

__attribute__((weak)) int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  const int error_number = perdura::region::set_mask_without_faults(how, set, old);
  if (error_number == 0) return 0;
  errno = error_number;
  return -1;
}

}  // extern "C"
