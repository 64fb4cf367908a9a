#include "media/rados_lock.hpp"

#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <list>
#include <utility>

#include <fmt/format.h>

#include "media/rados_failure.hpp"

namespace perdura::media {
namespace {

constexpr char kObject[] = "lock";
constexpr char kName[] = "perdura";
constexpr char kOwner[] = "owner";
constexpr int kAttempts = 10;
/// A client that was evicted is never let in again under its address; so the list may forget it
/// when no machine can have been asleep for so long.
constexpr u32 kBlocklistSeconds = 365 * 24 * 3600;

Result<ServerOwner> owner_in(librados::IoCtx& pool, const std::string& medium, bool& found) {
  librados::bufferlist text;
  const int got = pool.getxattr(kObject, kOwner, text);
  found = got >= 0;
  if (got < 0 && got != -ENOENT && got != -ENODATA)
    return rados_failure(got, "cannot read who has '" + medium + "' open");
  std::optional<ServerOwner> owner = ServerOwner::parse(text.to_str());
  found = found && owner;
  return owner ? std::move(*owner) : ServerOwner{};
}

}  // namespace

RadosLock::RadosLock(librados::Rados& cluster, librados::IoCtx& pool, Wanted wanted,
                     ServerOwner owner)
    : cluster_(cluster),
      pool_(pool),
      wanted_(std::move(wanted)),
      owner_(std::move(owner)),
      opening_(owner_.opening),
      cookie_(fmt::format("{:016x}", owner_.opening)) {}

Result<std::unique_ptr<RadosLock>> RadosLock::take(librados::Rados& cluster, librados::IoCtx& pool,
                                                   Wanted wanted) {
  PERDURA_ASSIGN(ServerOwner self, ServerOwner::describe());
  std::unique_ptr<RadosLock> lock(new RadosLock(cluster, pool, std::move(wanted), std::move(self)));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    PERDURA_ASSIGN(const bool taken, lock->try_take());
    if (!taken) continue;
    lock->thread_ = std::thread([raw = lock.get()] { raw->renew(); });
    return lock;
  }
  return Failure{Code::kLocked, "'" + lock->wanted_.medium +
                                    "' is being opened by others again and again; try again"};
}

int RadosLock::lock(bool renews) {
  timeval lease{.tv_sec = static_cast<time_t>(wanted_.lease_s), .tv_usec = 0};
  return pool_.lock_exclusive(kObject, kName, cookie_, owner_.program, &lease,
                              renews ? LIBRADOS_LOCK_FLAG_MAY_RENEW : 0);
}

Result<bool> RadosLock::try_take() {
  const int locked = lock(false);
  bool is_described = false;
  if (locked == -EBUSY) {
    int exclusive = 0;
    std::string tag;
    std::list<librados::locker_t> lockers;
    const int listed = pool_.list_lockers(kObject, kName, &exclusive, &tag, &lockers);
    if (listed < 0 && listed != -ENOENT)
      return rados_failure(listed, "cannot read who has '" + wanted_.medium + "' open");
    if (lockers.empty()) return false;
    PERDURA_ASSIGN(const ServerOwner owner, owner_in(pool_, wanted_.medium, is_described));
    const librados::locker_t& locker = lockers.front();
    // Between the lock and its description another one may have come.
    const bool fits = is_described && fmt::format("{:016x}", owner.opening) == locker.cookie;
    PERDURA_TRY(evict(fits ? &owner : nullptr, locker));
    return false;
  }
  if (locked < 0) return rados_failure(locked, "cannot lock '" + wanted_.medium + "'");
  PERDURA_TRY(evict_former());
  PERDURA_ASSIGN(const std::string own, address());
  owner_.addresses = {own};
  librados::bufferlist text;
  text.append(owner_.text());
  const int described = pool_.setxattr(kObject, kOwner, text);
  if (described < 0) return rados_failure(described, "cannot lock '" + wanted_.medium + "'");
  return true;
}

/// This client's, as the cluster sees it: that of the lock.
Result<std::string> RadosLock::address() {
  int exclusive = 0;
  std::string tag;
  std::list<librados::locker_t> lockers;
  const int listed = pool_.list_lockers(kObject, kName, &exclusive, &tag, &lockers);
  for (const librados::locker_t& each : lockers)
    if (each.cookie == cookie_) return each.address;
  return rados_failure(listed < 0 ? listed : -ESTALE, "cannot lock '" + wanted_.medium + "'");
}

/// When this returns, this client has the map by which each OSD refuses that one. `who`: "…, which
/// has", for messages.
Status RadosLock::keep_out(const std::string& who, const std::string& address) {
  const int listed = cluster_.blocklist_add(address, kBlocklistSeconds);
  if (listed < 0)
    return rados_failure(listed,
                         "cannot keep " + who + " '" + wanted_.medium + "' open, from writing");
  const int seen = cluster_.wait_for_latest_osdmap();
  if (seen < 0) return rados_failure(seen, "cannot take '" + wanted_.medium + "' over");
  return {};
}

// Its lease ran out, and it did not give the lock back: it may be asleep.
Status RadosLock::evict_former() {
  bool is_there = false;
  PERDURA_ASSIGN(const ServerOwner former, owner_in(pool_, wanted_.medium, is_there));
  if (!is_there) return {};
  for (const std::string& each : former.addresses)
    PERDURA_TRY(keep_out(former.who(owner_) + " at " + each + ", which had", each));
  PERDURA_ASSIGN(const std::string own, address());
  wanted_.same_address = std::ranges::count(former.addresses, own) != 0;
  if (wanted_.same_address)
    return rados_failure(-ESHUTDOWN, "cannot lock '" + wanted_.medium + "'");
  return {};
}

Status RadosLock::evict(const ServerOwner* owner, const librados::locker_t& locker) {
  const std::string who =
      (owner != nullptr ? owner->who(owner_) : std::string("a client")) + " at " + locker.address;
  const OwnerState state = owner != nullptr ? state_of(*owner, owner_) : OwnerState::kElsewhere;
  if (!wanted_.takeover && state == OwnerState::kRunning)
    return Failure{Code::kLocked, "'" + wanted_.medium + "' is open in " + who +
                                      "; a store has one opener at a time: close it there first"};
  if (!wanted_.takeover && state == OwnerState::kElsewhere)
    return Failure{
        Code::kLocked,
        fmt::format("'{}' is open in {}{}; close it there first, wait {} s for its lease to run "
                    "out if it is dead, or {}",
                    wanted_.medium, who, owner != nullptr ? " on " + owner->host : "",
                    wanted_.lease_s, kTakeoverRemedy)};
  PERDURA_TRY(keep_out(who + ", which has", locker.address));
  const int broken = pool_.break_lock(kObject, kName, locker.client, locker.cookie);
  wanted_.same_address = broken == -ESHUTDOWN;
  if (broken < 0 && broken != -ENOENT)
    return rados_failure(broken, "cannot take '" + wanted_.medium + "' over");
  return {};
}

Status RadosLock::check() {
  librados::ObjectReadOperation operation;
  librados::bufferlist text;
  text.append(owner_.text());
  operation.cmpxattr(kOwner, LIBRADOS_CMPXATTR_OP_EQ, text);
  librados::bufferlist nothing;
  const int done = pool_.operate(kObject, &operation, &nothing);
  if (done >= 0) return {};
  if (done == -ECANCELED || done == -ENODATA || done == -ENOENT)
    return Failure{Code::kLocked, "'" + wanted_.medium + "' was taken over by another opening"};
  return rados_failure(done, "cannot ask whether '" + wanted_.medium + "' is still locked");
}

// A lease that ran out while the cluster was out of reach is taken again where nobody else has.
void RadosLock::renew() {
  std::unique_lock guard(mutex_);
  const auto pause = std::chrono::milliseconds(wanted_.lease_s * 1000 / 3);
  while (!ends_.wait_for(guard, pause, [&] { return ending_; })) {
    guard.unlock();
    const int done = lock(true);
    const Status checked =
        done >= 0 || done == -EBUSY
            ? check()
            : rados_failure(done, "cannot renew the lease of '" + wanted_.medium + "'");
    guard.lock();
    if (checked) continue;
    wanted_.lost(checked.failure());
    return;
  }
}

void RadosLock::abandon() noexcept {
  thread_.detach();  // there is none in a child
}

RadosLock::~RadosLock() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard guard(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
  // As one operation: who finds the description finds somebody who has not given the lock back.
  librados::ObjectWriteOperation operation;
  librados::bufferlist text;
  text.append(owner_.text());
  operation.cmpxattr(kOwner, LIBRADOS_CMPXATTR_OP_EQ, text);
  operation.rmxattr(kOwner);
  if (pool_.operate(kObject, &operation) >= 0) (void)pool_.unlock(kObject, kName, cookie_);
}

}  // namespace perdura::media
