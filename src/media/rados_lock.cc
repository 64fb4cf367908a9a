#include "media/rados_lock.hpp"

#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/threads.hpp"
#include "media/rados_api.hpp"

namespace perdura::media {
namespace {

constexpr char kLockObject[] = "lock";
constexpr char kLockName[] = "perdura";
constexpr char kLockOwner[] = "owner";
constexpr int kLockAttempts = 10;
/// A client that was evicted is never let in again under its address; so the list may forget it
/// when no machine can have been asleep for so long.
constexpr u32 kBlocklistSeconds = 365 * 24 * 3600;

}  // namespace

// The lock's cookie says who has it, so that nobody has it who is not described.
RadosLock::RadosLock(const RadosClient& client, Wanted wanted, ServerOwner owner)
    : client_(client),
      wanted_(std::move(wanted)),
      owner_(std::move(owner)),
      opening_(owner_.opening),
      cookie_(owner_.text()) {}

Result<std::unique_ptr<RadosLock>> RadosLock::take(const RadosClient& client, Wanted wanted) {
  PERDURA_ASSIGN(ServerOwner self, ServerOwner::describe());
  std::unique_ptr<RadosLock> lock(new RadosLock(client, std::move(wanted), std::move(self)));
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    PERDURA_ASSIGN(const bool taken, lock->try_take());
    if (!taken) continue;
    const NoSignals no_signals;
    lock->taken_ = true;
    if (lock->wanted_.lease_s != 0)
      lock->thread_ = std::thread([raw = lock.get()] { raw->renew(); });
    return lock;
  }
  return Failure{Code::kLocked, "'" + lock->wanted_.medium +
                                    "' is being opened by others again and again; try again"};
}

int RadosLock::lock(bool renews) {
  timeval lease{.tv_sec = static_cast<time_t>(wanted_.lease_s), .tv_usec = 0};  // 0: for ever
  return client_.api().lock_exclusive(client_.pool(), kLockObject, kLockName, cookie_.c_str(),
                                      owner_.program.c_str(), &lease,
                                      renews ? LIBRADOS_LOCK_FLAG_MAY_RENEW : 0);
}

int RadosLock::list(std::optional<Locker>& locker) const {
  locker.reset();
  int exclusive = 0;
  char tag[256], clients[1024], cookies[8192], addresses[1024];
  size_t tag_length = sizeof tag, clients_length = sizeof clients;
  size_t cookies_length = sizeof cookies, addresses_length = sizeof addresses;
  const ssize_t count = client_.api().list_lockers(
      client_.pool(), kLockObject, kLockName, &exclusive, tag, &tag_length, clients,
      &clients_length, cookies, &cookies_length, addresses, &addresses_length);
  if (count > 0) locker = Locker{clients, cookies, addresses};  // the first, where each ends with 0
  return static_cast<int>(std::min<ssize_t>(count, 0));
}

Result<bool> RadosLock::try_take() {
  const int locked = lock(false);
  if (locked == -EBUSY) {
    std::optional<Locker> locker;
    const int listed = list(locker);
    if (listed < 0 && listed != -ENOENT)
      return rados_failure(listed, "cannot read who has '" + wanted_.medium + "' open");
    if (locker) PERDURA_TRY(evict(*locker));
    return false;
  }
  // Another process has had this client's address, and was taken over from.
  wanted_.same_address = locked == -ESHUTDOWN;
  if (locked < 0) return rados_failure(locked, "cannot lock '" + wanted_.medium + "'");
  const auto described = describe();
  if (!described || !*described) (void)unlock();
  return described;
}

// Where the lease ran out meanwhile, and another one has come, its description is there, or not
// that of the former owner any more: false.
Result<bool> RadosLock::describe() {
  PERDURA_ASSIGN(const std::string own, address());
  std::string former;
  const int got = client_.get_attribute(kLockObject, kLockOwner, former);
  if (got < 0 && got != -ENOENT && got != -ENODATA)
    return rados_failure(got, "cannot read who has '" + wanted_.medium + "' open");
  if (const std::optional<ServerOwner> owner = ServerOwner::parse(former)) {
    // Its lease ran out, and it did not give the lock back: it may be asleep.
    wanted_.same_address = std::ranges::count(owner->addresses, own) != 0;
    if (wanted_.same_address)
      return rados_failure(-ESHUTDOWN, "cannot lock '" + wanted_.medium + "'");
    for (const std::string& each : owner->addresses)
      PERDURA_TRY(keep_out(owner->who(owner_) + " at " + each + ", which had", each));
  }
  owner_.addresses = {own};
  RadosWrite operation(client_.api());
  operation.assert_attribute(kLockOwner, former);
  operation.set_attribute(kLockOwner, owner_.text());
  const int set = operation.operate(client_.pool(), kLockObject);
  if (set == -ECANCELED) return false;
  if (set < 0) return rados_failure(set, "cannot lock '" + wanted_.medium + "'");
  return lock(true) == 0;
}

int RadosLock::unlock() const {
  return client_.api().unlock(client_.pool(), kLockObject, kLockName, cookie_.c_str());
}

/// This client's, as the cluster sees it: that of the lock.
Result<std::string> RadosLock::address() {
  std::optional<Locker> locker;
  const int listed = list(locker);
  if (locker && locker->cookie == cookie_) return locker->address;
  return rados_failure(listed < 0 ? listed : -ESTALE, "cannot lock '" + wanted_.medium + "'");
}

/// When this returns, this client has the map by which each OSD refuses that one. `who`: "…, which
/// has", for messages.
Status RadosLock::keep_out(const std::string& who, const std::string& address) {
  std::string blocked = address;  // librados takes it as text that might change
  const int listed =
      client_.api().blocklist_add(client_.cluster(), blocked.data(), kBlocklistSeconds);
  if (listed < 0)
    return rados_failure(listed,
                         "cannot keep " + who + " '" + wanted_.medium + "' open, from writing");
  const int seen = client_.api().wait_for_latest_osdmap(client_.cluster());
  if (seen < 0) return rados_failure(seen, "cannot take '" + wanted_.medium + "' over");
  return {};
}

Status RadosLock::evict(const Locker& locker) {
  const std::optional<ServerOwner> owner = ServerOwner::parse(locker.cookie);
  const std::string who =
      (owner ? owner->who(owner_) : std::string("a client")) + " at " + locker.address;
  const OwnerState state = owner ? state_of(*owner, owner_) : OwnerState::kElsewhere;
  if (!wanted_.takeover && state == OwnerState::kRunning)
    return Failure{Code::kLocked, "'" + wanted_.medium + "' is open in " + who +
                                      "; a store has one opener at a time: close it there first"};
  if (!wanted_.takeover && state == OwnerState::kElsewhere)
    return Failure{
        Code::kLocked,
        fmt::format("'{}' is open in {}{}; close it there first, wait {} s for its lease to run "
                    "out if it is dead, or {}",
                    wanted_.medium, who, owner ? " on " + owner->host : "", wanted_.lease_s,
                    kTakeoverRemedy)};
  PERDURA_TRY(keep_out(who + ", which has", locker.address));
  const int broken = client_.api().break_lock(client_.pool(), kLockObject, kLockName,
                                              locker.client.c_str(), locker.cookie.c_str());
  wanted_.same_address = broken == -ESHUTDOWN;
  if (broken < 0 && broken != -ENOENT)
    return rados_failure(broken, "cannot take '" + wanted_.medium + "' over");
  return {};
}

Status RadosLock::check() {
  const RadosApi& api = client_.api();
  const std::string text = owner_.text();
  const std::unique_ptr<void, void (*)(rados_read_op_t)> operation(api.create_read_op(),
                                                                   api.release_read_op);
  api.read_op_cmpxattr(operation.get(), kLockOwner, LIBRADOS_CMPXATTR_OP_EQ, text.data(),
                       text.size());
  const int done = api.read_op_operate(operation.get(), client_.pool(), kLockObject, 0);
  if (done >= 0) return {};
  if (done == -ECANCELED || done == -ENODATA || done == -ENOENT || done == -ESHUTDOWN)
    return taken_over();
  return rados_failure(done, "cannot ask whether '" + wanted_.medium + "' is still locked");
}

// This client may be on the blocklist, and so asks as another.
Failure RadosLock::taken_over() const {
  Failure failure{Code::kLocked, "'" + wanted_.medium + "' was taken over by another opening"};
  const Status asked = guarded([&]() -> Status {
    PERDURA_ASSIGN(const auto fresh, RadosClient::connect(client_.wanted()));
    std::string text;
    (void)fresh->get_attribute(kLockObject, kLockOwner, text);
    const std::optional<ServerOwner> owner = ServerOwner::parse(text);
    if (!owner || owner->opening == owner_.opening) return {};
    failure.message += fmt::format(": {}{}{}", owner->who(owner_),
                                   owner->host != owner_.host ? " on " + owner->host : "",
                                   owner->addresses.empty() ? "" : " at " + owner->addresses[0]);
    return {};
  });
  (void)asked;  // then nobody knows which
  return failure;
}

// A lease that ran out while the cluster was out of reach is taken again where nobody else has.
void RadosLock::renew() {
  std::unique_lock guard(mutex_);
  const auto pause = std::chrono::milliseconds(wanted_.lease_s * 1000 / 3);
  while (!ends_.wait_for(guard, pause, [&] { return ending_; })) {
    guard.unlock();
    const int done = lock(true);
    const Status checked =
        done >= 0 || done == -EBUSY ? check()
        : done == -ESHUTDOWN
            ? Status{taken_over()}
            : rados_failure(done, "cannot renew the lease of '" + wanted_.medium + "'");
    guard.lock();
    if (checked) continue;
    wanted_.lost(checked.failure());
    return;
  }
}

void RadosLock::abandon() noexcept {
  taken_ = false;
  if (thread_.joinable()) thread_.detach();  // there is none in a child
}

RadosLock::~RadosLock() {
  if (!taken_) return;
  {
    std::lock_guard guard(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
  // As one operation: who finds the description finds somebody who has not given the lock back.
  RadosWrite operation(client_.api());
  operation.assert_attribute(kLockOwner, owner_.text());
  operation.remove_attribute(kLockOwner);
  if (operation.operate(client_.pool(), kLockObject) >= 0) (void)unlock();
}

}  // namespace perdura::media
