#include "media/memcached_lock.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/clock.hpp"

namespace perdura::media {
namespace {

constexpr u64 kPatienceMs = 5000;  // of who takes over
constexpr int kAttempts = 10;

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

}  // namespace

Result<std::unique_ptr<MemcachedLock>> MemcachedLock::take(Wanted wanted,
                                                           MemcachedConnection& main) {
  PERDURA_ASSIGN(ServerOwner self, ServerOwner::describe());
  self.addresses.push_back(main.address());
  std::unique_ptr<MemcachedLock> lock(new MemcachedLock(std::move(wanted), std::move(self)));
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

// Whether the item is this lock's now: not when `condition` does not hold.
Result<bool> MemcachedLock::put(const std::string& condition, MemcachedConnection& main) {
  const std::string text = owner_.text();
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
  std::optional<ServerOwner> owner = ServerOwner::parse(item.value);
  const auto locked = [&](const std::string& why) {
    return Failure{Code::kLocked, "'" + wanted_.medium + "' " + why};
  };
  if (!owner) {
    if (wanted_.takeover) return {};
    return locked(std::string("is locked by an owner of whom nothing is known; ") +
                  kTakeoverRemedy);
  }
  for (std::string& each : owner->addresses) each = plain_address(each);
  const std::string who = owner->who(owner_);
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
