#include "media/memcached_lock.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "format/format.hpp"
#include "media/lock.hpp"

namespace perdura::media {
namespace {

constexpr std::string_view kTitle = "perdura lock 1";
constexpr u64 kPatienceMs = 5000;  // of who takes over
constexpr int kAttempts = 10;

// Openings of this process that are not over. One that is, and left its item, is as dead as one of
// a process that died.
struct Openings {
  std::mutex& mutex = process_mutex(ProcessMutex::kLocks);
  std::set<u64>& ids;
};

// Takes no memory: a lock that could not be taken for want of it looks in here when it goes.
Openings openings() {
  alignas(std::set<u64>) static constinit std::byte place[sizeof(std::set<u64>)]{};
  static constinit std::set<u64>* never_destroyed = nullptr;
  std::lock_guard lock(process_mutex(ProcessMutex::kLocks));
  if (never_destroyed == nullptr) never_destroyed = new (place) std::set<u64>;
  return {.ids = *never_destroyed};
}

bool is_open_here(u64 opening) {
  const Openings mine = openings();
  std::lock_guard lock(mine.mutex);
  return mine.ids.contains(opening);
}

std::string first_line(const char* text, size_t size) {
  std::string line(text, ::strnlen(text, size));
  return line.substr(0, line.find('\n'));
}

Result<MemcachedOwner> describe_opening() {
  format::OwnerRecord record;
  std::memcpy(&record, describe_owner().bytes, sizeof record);
  MemcachedOwner owner;
  owner.pid = record.pid;
  owner.start_time = record.start_time;
  owner.boot_id = first_line(record.boot_id, sizeof record.boot_id);
  owner.program = first_line(record.program, sizeof record.program);
  char name[256] = "";
  (void)!::readlink("/proc/self/ns/pid", name, sizeof name - 1);
  owner.pid_namespace = name;
  std::memset(name, 0, sizeof name);
  (void)!::gethostname(name, sizeof name - 1);
  owner.host = first_line(name, sizeof name);
  if (::getrandom(&owner.opening, sizeof owner.opening, 0) != sizeof owner.opening)
    return system_failure(errno, "cannot draw a number for the lock");
  return owner;
}

std::string text_of(const MemcachedOwner& owner) {
  std::string text =
      fmt::format("{}\npid {}\nstart {}\nopening {}\nboot {}\npids {}\nhost {}\nprogram {}\n",
                  kTitle, owner.pid, owner.start_time, owner.opening, owner.boot_id,
                  owner.pid_namespace, owner.host, owner.program);
  for (const std::string& address : owner.addresses) text += fmt::format("at {}\n", address);
  return text;
}

std::optional<MemcachedOwner> parse_owner(std::string_view text) {
  MemcachedOwner owner;
  const auto next_line = [&] {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
  };
  if (next_line() != kTitle) return std::nullopt;
  while (!text.empty()) {
    const std::string_view line = next_line();
    const std::string_view word = line.substr(0, line.find(' '));
    const std::string_view rest = line.substr(std::min(word.size() + 1, line.size()));
    const auto number = [&](u64& into) {
      std::from_chars(rest.data(), rest.data() + rest.size(), into);
    };
    if (word == "pid") number(owner.pid);
    else if (word == "start") number(owner.start_time);
    else if (word == "opening") number(owner.opening);
    else if (word == "boot") owner.boot_id = rest;
    else if (word == "pids") owner.pid_namespace = rest;
    else if (word == "host") owner.host = rest;
    else if (word == "program") owner.program = rest;
    else if (word == "at") owner.addresses.push_back(plain_address(rest));
  }
  return owner;
}

enum class OwnerState { kGone, kRunning, kElsewhere };

OwnerState state_of(const MemcachedOwner& owner, const MemcachedOwner& self) {
  if (owner.boot_id != self.boot_id || owner.pid_namespace != self.pid_namespace)
    return OwnerState::kElsewhere;
  const bool same_process = owner.pid == self.pid && owner.start_time == self.start_time;
  const bool running =
      same_process ? is_open_here(owner.opening) : is_running(owner.pid, owner.start_time);
  return running ? OwnerState::kRunning : OwnerState::kGone;
}

enum class Wait { kGone, kListed, kHidden };

// Until the server has none of these connections. Where it does not list ours under the address
// that we know, addresses are translated between us, and it says nothing about the others.
Result<Wait> wait_until_gone(const std::vector<std::string>& addresses, u64 patience_ms,
                             MemcachedConnection& connection) {
  const u64 end_ns = now_ns() + patience_ms * 1'000'000;
  for (;;) {
    PERDURA_ASSIGN(const std::vector<std::string> listed, list_connections(connection));
    const auto is_listed = [&](const std::string& address) {
      return std::ranges::count(listed, address) != 0;
    };
    if (!is_listed(connection.address())) return Wait::kHidden;
    if (std::ranges::none_of(addresses, is_listed)) return Wait::kGone;
    if (now_ns() >= end_ns) return Wait::kListed;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// The condition that an item is what it was at this number.
std::string if_cas(u64 cas) { return fmt::format("C{}", cas); }

constexpr char kTakeoverRemedy[] = "if it is dead for sure, open with the URI parameter takeover=1";

}  // namespace

Result<std::unique_ptr<MemcachedLock>> MemcachedLock::take(Wanted wanted,
                                                           MemcachedConnection& main) {
  PERDURA_ASSIGN(MemcachedOwner self, describe_opening());
  self.addresses.push_back(main.address());
  std::unique_ptr<MemcachedLock> lock(new MemcachedLock(std::move(wanted), std::move(self)));
  {
    const Openings mine = openings();
    std::lock_guard guard(mine.mutex);
    mine.ids.insert(lock->owner_.opening);
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    PERDURA_ASSIGN(const bool added, lock->put("ME", main));  // where there is none
    if (added) return lock;
    PERDURA_ASSIGN(const MemcachedReply item,
                   main.ask(fmt::format("mg {} v c\r\n", lock->wanted_.key)));
    if (item.is("EN")) continue;
    const std::optional<u64> cas = item.number('c');
    if (!item.is("VA ") || !cas) return main.nonsense(item);
    PERDURA_TRY(lock->may_take(item, main));
    PERDURA_ASSIGN(const bool replaced, lock->put(if_cas(*cas), main));
    if (replaced) return lock;
  }
  return Failure{Code::kLocked, "'" + lock->wanted_.medium +
                                    "' is being opened by others again and again; try again"};
}

MemcachedLock::~MemcachedLock() {
  const Openings mine = openings();
  std::lock_guard guard(mine.mutex);
  mine.ids.erase(owner_.opening);
}

// Whether the item is this lock's now: not when `condition` does not hold.
Result<bool> MemcachedLock::put(const std::string& condition, MemcachedConnection& main) {
  const std::string text = text_of(owner_);
  PERDURA_ASSIGN(
      const MemcachedReply reply,
      main.ask(fmt::format("ms {} {} c {}\r\n{}\r\n", wanted_.key, text.size(), condition, text)));
  if (reply.is_error()) return main.refusal(reply, "cannot lock '" + wanted_.medium + "'");
  if (reply.is("NS") || reply.is("EX") || reply.is("NF")) return false;
  const std::optional<u64> cas = reply.number('c');
  if (!reply.is("HD") || !cas) return main.nonsense(reply);
  cas_ = *cas;
  return true;
}

Status MemcachedLock::may_take(const MemcachedReply& item, MemcachedConnection& main) const {
  const std::optional<MemcachedOwner> owner = parse_owner(item.value);
  const auto locked = [&](const std::string& why) {
    return Failure{Code::kLocked, "'" + wanted_.medium + "' " + why};
  };
  if (!owner) {
    if (wanted_.takeover) return {};
    return locked(std::string("is locked by an owner of whom nothing is known; ") +
                  kTakeoverRemedy);
  }
  const std::string who = "process " + std::to_string(owner->pid) + " (" + owner->program + ")" +
                          (owner->pid == owner_.pid && owner->start_time == owner_.start_time
                               ? ", which is this process"
                               : "");
  const OwnerState state = state_of(*owner, owner_);
  if (state == OwnerState::kRunning)
    return locked("is open in " + who + "; a store has one opener at a time: close it there first");
  if (state == OwnerState::kElsewhere && !wanted_.takeover)
    return locked("is open in " + who + " on another machine or in another container (" +
                  owner->host + "); close it there first, or " + kTakeoverRemedy);
  PERDURA_ASSIGN(const Wait waited, wait_until_gone(owner->addresses, kPatienceMs, main));
  if (waited == Wait::kGone || wanted_.takeover) return {};
  return locked("was open in " + who + ", which is gone, but the server " +
                (waited == Wait::kListed
                     ? "still has connections of it; try again, or "
                     : "does not show whose connections it has (a proxy is between); ") +
                kTakeoverRemedy);
}

Status MemcachedLock::add(const std::string& address, MemcachedConnection& main) {
  owner_.addresses.push_back(address);
  PERDURA_ASSIGN(const bool replaced, put(if_cas(cas_), main));
  return replaced ? Status{} : check(main);
}

Status MemcachedLock::check(MemcachedConnection& main) {
  PERDURA_ASSIGN(const MemcachedReply reply, main.ask(fmt::format("mg {} c\r\n", wanted_.key)));
  if (reply.is("HD") && reply.number('c') == cas_) return {};
  if (reply.is("EN"))
    return Failure{Code::kIo, "the lock of '" + wanted_.medium +
                                  "' is gone from the server, so its blocks may be as well: they "
                                  "were flushed or evicted, or another program took the lock"};
  if (reply.is("HD"))
    return Failure{Code::kIo, "'" + wanted_.medium + "' was taken over by another opener"};
  return main.nonsense(reply);
}

void MemcachedLock::release(MemcachedConnection& main) {
  (void)main.ask(fmt::format("md {} {}\r\n", wanted_.key, if_cas(cas_)));
}

void MemcachedLock::release_after_loss(MemcachedConnection& fresh, u64 patience_ms) {
  const Result<Wait> waited = wait_until_gone(owner_.addresses, patience_ms, fresh);
  if (waited && *waited == Wait::kGone) release(fresh);
}

}  // namespace perdura::media
