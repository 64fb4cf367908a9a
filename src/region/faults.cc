#include "region/faults.hpp"

#include <signal.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

namespace perdura::region {
namespace {

constexpr size_t kWatchesMax = 192;  // a tracker's and a recovery's for each open store, and spare
constexpr size_t kNone = ~size_t{0};

// Read by signal handlers without a lock: `handler` is published last and withdrawn first, and
// `users` keeps a handler alive while it runs.
struct Watch {
  std::atomic<std::byte*> begin{nullptr};
  std::atomic<std::byte*> end{nullptr};
  std::atomic<FaultHandler*> handler{nullptr};
  std::atomic<int> users{0};
  bool claimed = false;  ///< under the mutex
};

std::array<Watch, kWatchesMax> watches;
std::mutex watches_mutex;
struct sigaction previous[2];  // SIGSEGV, SIGBUS

bool handled(std::byte* address) noexcept {
  for (Watch& watch : watches) {
    if (watch.handler.load(std::memory_order_acquire) == nullptr) continue;
    if (address < watch.begin.load() || address >= watch.end.load()) continue;
    watch.users.fetch_add(1, std::memory_order_seq_cst);
    FaultHandler* handler = watch.handler.load(std::memory_order_seq_cst);
    const bool good = handler != nullptr && handler->on_fault(address);
    watch.users.fetch_sub(1, std::memory_order_seq_cst);
    // A watch that ended meanwhile left its memory accessible.
    if (good || handler == nullptr) return true;
  }
  return false;
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool ours = info->si_code > 0 && handled(static_cast<std::byte*>(info->si_addr));
  errno = saved_errno;
  if (ours) return;
  const struct sigaction& next = previous[signal == SIGSEGV ? 0 : 1];
  if ((next.sa_flags & SA_SIGINFO) != 0) {
    next.sa_sigaction(signal, info, context);
  } else if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
    next.sa_handler(signal);
  } else {
    // The default: the access is repeated and ends the process as it would have without us.
    ::sigaction(signal, &next, nullptr);
  }
}

Status install() {
  static const Status installed = [] {
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    if (::sigaction(SIGSEGV, &action, &previous[0]) != 0 ||
        ::sigaction(SIGBUS, &action, &previous[1]) != 0)
      return Status(system_failure(errno, "cannot install a fault handler"));
    return Status{};
  }();
  return installed;
}

}  // namespace

Result<FaultWatch> FaultWatch::create(std::byte* begin, std::byte* end, FaultHandler& handler) {
  std::lock_guard lock(watches_mutex);
  PERDURA_TRY(install());
  for (size_t i = 0; i < watches.size(); ++i) {
    Watch& watch = watches[i];
    if (watch.claimed) continue;
    watch.claimed = true;
    watch.begin = begin;
    watch.end = end;
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
  std::lock_guard lock(watches_mutex);
  watch.claimed = false;
}

}  // namespace perdura::region
