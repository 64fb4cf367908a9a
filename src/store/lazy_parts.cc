#include "store/lazy_parts.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/futex.hpp"
#include "base/mutant.hpp"
#include "base/spin.hpp"
#include "base/threads.hpp"

namespace perdura::store {
namespace {
constexpr u64 kPartBytesMin = 256 * kKiB;
constexpr u64 kPartsMax = 8192;  // each may split the kernel's map of the process twice
/// How far it is filled ahead of a program that reads in order: as far again each time that it has
/// come to where that ends, up to the second one. A program stops there to be heard, so it should
/// not be often.
constexpr u64 kAheadBytes = 8 * kMiB;
constexpr u64 kAheadBytesMax = 64 * kMiB;
/// What of it is opened together. The call of the system keeps the program out of its own
/// meanwhile, and whoever needs one of the parts waits for all of them.
constexpr u64 kAtOnceBytes = 4 * kMiB;
/// So many parts that could be open are closed with those around them: two splits of the kernel's
/// map of the process cost more than to open them.
constexpr u64 kGapPartsMax = 8;
/// A program that was just started has better uses for the medium.
constexpr std::chrono::milliseconds kPacedDelay(250);

void fill_gaps(std::vector<Wanted>& wanted) {
  const auto is_wanted = [](Wanted each) { return each != Wanted::kNever; };
  auto at = std::find_if(wanted.begin(), wanted.end(), is_wanted);
  while (at != wanted.end()) {
    const auto next = std::find_if(at + 1, wanted.end(), is_wanted);
    if (next != wanted.end() && next - at <= static_cast<std::ptrdiff_t>(kGapPartsMax) + 1)
      std::fill(at + 1, next, *next);
    at = next;
  }
}

}  // namespace

LazyParts::LazyParts(region::Region& region, track::Tracker& tracker, Filler& filler,
                     media::SelfMemory memory, Plan plan)
    : home_(region.home()),
      base_(region.base()),
      tracker_(tracker),
      filler_(filler),
      memory_(std::move(memory)),
      plan_(std::move(plan)),
      part_bytes_(plan_.part_bytes),
      parts_at_once_(std::max<u64>(1, kAtOnceBytes / part_bytes_)),
      soon_at_once_(filler.fills_in_handlers() ? parts_at_once_ : 1),
      parts_ahead_(parts_at_once_ * (kAheadBytes / kAtOnceBytes)),
      states_(plan_.parts.size()),
      window_(parts_ahead_) {}

u64 LazyParts::part_bytes_for(u64 end, u64 unit) {
  u64 bytes = std::max(kPartBytesMin, unit);
  while (end / bytes > kPartsMax) bytes *= 2;
  return bytes;
}

Result<std::unique_ptr<LazyParts>> LazyParts::create(region::Region& region,
                                                     track::Tracker& tracker, Filler& filler,
                                                     Plan plan) {
  if (!tracker.can_close())
    return Failure{Code::kUnsupported, "what this tracker watches cannot be closed"};
  PERDURA_ASSIGN(media::SelfMemory memory, media::SelfMemory::open());
  fill_gaps(plan.parts);
  std::unique_ptr<LazyParts> parts(
      new LazyParts(region, tracker, filler, std::move(memory), std::move(plan)));
  const std::vector<Wanted>& wanted = parts->plan_.parts;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == Wanted::kNever) continue;
    parts->states_[i] = kClosed;
    ++parts->remaining_;
  }
  if (!tracker.set_closed(parts.get())) {
    std::byte* const base = parts->base_;
    PERDURA_ASSIGN(
        region::FaultWatch watch,
        region::FaultWatch::create(base, base + wanted.size() * parts->part_bytes_, *parts));
    parts->watch_.emplace(std::move(watch));
  }
  PERDURA_TRY(parts->close());
  const NoSignals no_signals;
  parts->thread_ = std::thread([lazy = parts.get()] {
    lazy->fill_in_background();
    // Nobody joins it before; a thread that has ended would be a leak where a program just exits.
    lazy->stopping_.wait(false);
  });
  ::pthread_setname_np(parts->thread_.native_handle(), "perdura-patch");
  return parts;
}

LazyParts::~LazyParts() {
  stopping_ = true;
  stopping_.notify_all();
  futex_wake(bell_);
  if (thread_.joinable()) thread_.join();
  tracker_.set_closed(nullptr);
}

// Calls visit(address, length) for what is backed of [begin, end) of the region.
template <class Visit>
Status LazyParts::for_each_backed(u64 begin, u64 end, Visit&& visit) const {
  for (const format::Extent& extent : home_->extents()) {
    const u64 first = std::max(begin, extent.region_offset);
    const u64 last = std::min(end, extent.region_offset + extent.length);
    if (first < last) PERDURA_TRY(visit(base_ + first, last - first));
  }
  return {};
}

Status LazyParts::close() {
  for (u64 part = 0; part < states_.size();) {
    if (states_[part] != kClosed) {
      ++part;
      continue;
    }
    const u64 begin = part;
    while (part < states_.size() && states_[part] == kClosed) ++part;
    PERDURA_TRY(for_each_backed(
        begin * part_bytes_, part * part_bytes_, [](std::byte* address, u64 length) -> Status {
          if (::mprotect(address, length, PROT_NONE) == 0) return {};
          return system_failure(errno, "cannot close a part of the region for recovery");
        }));
  }
  return {};
}

// Fill and open a closed part, or wait for the thread that does. What is open may have been stored
// to, so nothing is filled or forgotten once any of it is. Where it was filled with others, one of
// which could not be, it is filled alone.
bool LazyParts::fill(u64 part) noexcept {
  std::atomic<u8>& state = states_[part];
  u8 seen = state.load(std::memory_order_acquire);
  for (;;) {
    while (is_to_be_opened(seen))
      if (state.compare_exchange_weak(seen, kFilling, std::memory_order_acq_rel))
        return fill_claimed(part, seen);
    if (seen != kFilling) return seen == kOpen;
    help_behind(part);
    await_soon([&] { return (seen = state.load(std::memory_order_acquire)) != kFilling; });
  }
}

// Its state is kFilling by this thread's hand, and was `before`.
bool LazyParts::fill_claimed(u64 part, u8 before) noexcept {
  const Run run{part, part + 1};
  if (before == kClosed && !fill_pages(run, true)) {
    set_states(run, kRefused);
    return false;
  }
  return open_filled(run);
}

// Parts that this thread has claimed: whole then, or closed as before.
bool LazyParts::fill_together(Run run) noexcept {
  if (fill_pages(run, false)) return true;
  set_states(run, kClosed);
  return false;
}

// Parts that could not be opened stay closed, and the access ends the program rather than showing
// it old data.
bool LazyParts::open_filled(Run run) noexcept {
  const bool good = static_cast<bool>(
      for_each_backed(run.begin * part_bytes_, run.end * part_bytes_,
                      [this](std::byte* address, u64 length) -> Status {
                        if (::mprotect(address, length, tracker_.protection()) == 0) return {};
                        return Failure{};
                      }));
  set_states(run, good ? kOpen : kFilled);
  if (good) remaining_.fetch_sub(run.end - run.begin, std::memory_order_acq_rel);
  return good;
}

void LazyParts::set_states(Run run, u8 state) noexcept {
  for (u64 part = run.begin; part < run.end; ++part)
    states_[part].store(state, std::memory_order_release);
}

// Parts from `begin` on, all `wanted` so, that this thread has claimed: none, if that is not
// closed.
LazyParts::Run LazyParts::claim(u64 begin, u64 end, Wanted wanted) noexcept {
  Run run{begin, begin};
  for (; run.end < std::min(end, states_.size()); ++run.end) {
    u8 seen = kClosed;
    if (plan_.parts[run.end] != wanted ||
        !states_[run.end].compare_exchange_strong(seen, kFilling, std::memory_order_acq_rel))
      break;
  }
  return run;
}

// Whoever waits for a part fills the next ones that nobody is at meanwhile: of two that read in
// order, the program and the background thread, none waits for the other then.
void LazyParts::help_behind(u64 part) noexcept {
  const Wanted wanted = plan_.parts[part];
  for (u64 next = part + 1; next < std::min(part + parts_ahead_, states_.size()); ++next) {
    if (plan_.parts[next] != wanted) return;
    const u64 at_once =
        wanted == Wanted::kSoon ? soon_at_once_ : at_once_.load(std::memory_order_relaxed);
    const Run run = claim(next, next + at_once, wanted);
    if (run.begin == run.end) continue;
    if (fill_together(run)) open_filled(run);
    return;
  }
}

bool LazyParts::fill_pages(Run run, bool last) noexcept {
  const u64 begin = run.begin * part_bytes_;
  const u64 end = run.end * part_bytes_;
  if (!filler_.stores(begin, end)) return filler_.fill(begin, end, memory_, last);
  return static_cast<bool>(guarded([&]() -> Status {
    PERDURA_TRY(for_each_backed(begin, end, [this](std::byte* address, u64 length) {
      return tracker_.before_fill(address, length);
    }));
    const bool filled = filler_.fill(begin, end, memory_, last);
    // What was filled in is durable: no change of the program's. Nor is a part of it: a checkpoint
    // would have to read what cannot be filled.
    PERDURA_TRY(for_each_backed(begin, end, [this](std::byte* address, u64 length) {
      return tracker_.after_fill(address, length);
    }));
    return filled ? Status{} : Failure{};
  }));
}

bool LazyParts::follows_an_open_one(u64 part) const noexcept {
  return part != 0 && states_[part - 1].load(std::memory_order_relaxed) == kOpen;
}

// A forked child has no part in the region, but the descriptor that leads to its parent's memory.
LazyParts::Answer LazyParts::on_access(std::byte* address) noexcept {
  const u64 part = static_cast<u64>(address - base_) / part_bytes_;
  if (part >= states_.size()) return Answer::kOpen;
  const u8 state = states_[part].load(std::memory_order_acquire);
  if (state == kPlain || state == kOpen) return Answer::kOpen;
  if (::getpid() != process_ && !is_mutant("child_fills_parent")) return Answer::kFailed;
  // What was in the way may be gone.
  u8 refused = kRefused;
  states_[part].compare_exchange_strong(refused, kClosed, std::memory_order_acq_rel);
  const bool opened = filler_.fills_in_handlers() ? fill(part) : ask_for(part);
  if (opened && plan_.parts[part] == Wanted::kPaced && follows_an_open_one(part)) {
    ahead_.store(part + 1, std::memory_order_relaxed);
    futex_wake(bell_);
  }
  return opened ? Answer::kOpened : Answer::kFailed;
}

bool LazyParts::open_all(std::byte* begin, std::byte* end) noexcept {
  std::byte* at = base_ + round_down(static_cast<u64>(begin - base_), part_bytes_);
  bool good = true;
  for (; good && at < end; at += part_bytes_) good = on_access(at) != Answer::kFailed;
  return good;
}

// Opened between the fault and now: the access is tried again.
bool LazyParts::on_fault(const region::Fault& fault) noexcept {
  const u64 part = static_cast<u64>(fault.address - base_) / part_bytes_;
  if (fault.is_bus || states_[part].load(std::memory_order_acquire) == kPlain) return false;
  return on_access(fault.address) != Answer::kFailed;
}

// Others ask as well: whoever is not heard asks again.
bool LazyParts::ask_for(u64 part) noexcept {
  const std::atomic<u8>& state = states_[part];
  while (state.load(std::memory_order_acquire) != kOpen) {
    if (state.load(std::memory_order_acquire) == kRefused) return false;
    wanted_.store(part, std::memory_order_release);
    futex_wake(bell_);
    const timespec pause{0, 20'000};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

void LazyParts::answer_asked() {
  const u64 part = wanted_.exchange(kNone, std::memory_order_acquire);
  if (part != kNone && !fill(part)) states_[part].store(kRefused, std::memory_order_release);
}

void LazyParts::fill_in_background() {
  if (fill_soon()) filler_.soon_filled();
  fill_paced();
}

// Whether all of them are open: else it ended before, or one of them cannot be filled.
bool LazyParts::fill_soon() {
  bool all = true;
  for (u64 part = 0; part < states_.size();) {
    if (stopping_.load(std::memory_order_relaxed)) return false;
    answer_asked();
    if (plan_.parts[part] != Wanted::kSoon) {
      ++part;
      continue;
    }
    const Run run = claim(part, part + soon_at_once_, Wanted::kSoon);
    if (run.begin != run.end) fill_ahead(run, kNone);
    else fill(part);
    for (const u64 end = std::max(run.end, part + 1); part < end; ++part)
      all = all && states_[part].load(std::memory_order_acquire) == kOpen;
  }
  return all;
}

// One that cannot be filled is left to whoever touches it.
void LazyParts::fill_paced() {
  using Clock = std::chrono::steady_clock;
  const std::chrono::nanoseconds pace(
      plan_.bytes_per_second == 0 ? 0 : part_bytes_ * 1'000'000'000 / plan_.bytes_per_second);
  u64 part = 0;
  auto due = Clock::now() + kPacedDelay;
  while (!done() && !stopping_.load(std::memory_order_relaxed)) {
    const u32 seen = bell_.load(std::memory_order_acquire);
    answer_asked();
    if (ahead_.load(std::memory_order_relaxed) != kNone) {
      fill_ahead();
      continue;
    }
    const bool ended = pace.count() == 0 || part == states_.size();
    const auto now = Clock::now();
    if (ended || now < due) {
      const auto wait = ended ? std::chrono::hours(1) : due - now;
      if (!stopping_.load(std::memory_order_acquire)) futex_wait(bell_, seen, wait);
      continue;
    }
    while (part < states_.size() && !is_to_be_opened(states_[part].load(std::memory_order_acquire)))
      ++part;
    if (part < states_.size()) fill(part++);
    due = std::max(due + pace, Clock::now());
  }
  if (done()) filler_.all_filled();
}

// Behind what is filled already, so that the program finds one stretch of parts open while the next
// one is being filled. It says how far it has come by touching a part that is whole but still
// closed: the first of a stretch, and halfway in the first one, of which it is at the beginning.
void LazyParts::fill_ahead() {
  const u64 begin = ahead_.exchange(kNone, std::memory_order_relaxed);
  const u64 windows_max = kAheadBytesMax / kAheadBytes;
  // It may not go on: what it does not touch need not be looked at in large pieces.
  const bool is_in_order = begin >= in_order_since_ && begin <= ahead_until_ + parts_at_once_;
  if (!is_in_order) in_order_since_ = begin;
  window_ = is_in_order ? std::min(2 * window_, windows_max * parts_ahead_) : parts_ahead_;
  const u64 looked_at = std::min(begin + 2 * window_, states_.size());
  u64 part = begin;
  while (part < looked_at && states_[part].load(std::memory_order_acquire) != kClosed) ++part;
  const u64 end = std::min(part + window_, states_.size());
  const u64 mark = part == begin ? begin + window_ / 2 : part;
  const u64 at_once = begin - in_order_since_ < parts_at_once_ ? 1 : parts_at_once_;
  at_once_.store(at_once, std::memory_order_relaxed);
  ahead_until_ = part;
  while (part < end) {
    if (plan_.parts[part] != Wanted::kPaced) return;
    const Run run = claim(part, std::min(part + at_once, end), Wanted::kPaced);
    ahead_until_ = part = std::max(run.end, part + 1);
    if (run.begin != run.end) fill_ahead(run, mark);
    // It has gone elsewhere, or come up.
    if (ahead_.load(std::memory_order_relaxed) != kNone) return;
  }
}

// One that cannot be filled keeps none of the others from it.
void LazyParts::fill_ahead(Run run, u64 mark) noexcept {
  if (!fill_together(run)) {
    for (u64 part = run.begin; part < run.end; ++part) fill(part);
    return;
  }
  if (run.begin == mark) set_states({run.begin, ++run.begin}, kFilled);
  if (run.begin != run.end) open_filled(run);
}

}  // namespace perdura::store
