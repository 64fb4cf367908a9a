// The writer's lock of a medium on RADOS: a lease that a thread renews, and who has it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <rados/librados.h>

#include "base/bits.hpp"
#include "media/rados_api.hpp"
#include "media/server_owner.hpp"

namespace perdura::media {

class RadosLock {
 public:
  struct Wanted {
    std::string medium;                        ///< for messages
    bool takeover = false;                     ///< also from an owner that may be alive
    u64 lease_s = 0;                           ///< 0, for tests: for ever, without a thread
    std::function<void(const Failure&)> lost;  ///< called by the thread, once
    /// Who held the lock has the address that this client has, and now neither can write: librados
    /// draws addresses, and a process draws what the one that forked it does. With another client
    /// it can be tried again.
    bool& same_address;
  };
  /// kLocked names the owner and its address. Whoever had it before without giving it back can
  /// write no more when this returns.
  static Result<std::unique_ptr<RadosLock>> take(const RadosClient& client, Wanted wanted);
  /// Gives it back.
  ~RadosLock();
  RadosLock(const RadosLock&) = delete;

  /// kLocked where another opening has it. A round trip.
  Status check();
  /// That another opening has the store, and which, as far as a client that is not refused can see.
  Failure taken_over() const;
  /// In a forked child: nothing is given back.
  void abandon() noexcept;

 private:
  struct Locker {
    std::string client;
    std::string cookie;
    std::string address;
  };

  RadosLock(const RadosClient& client, Wanted wanted, ServerOwner owner);
  Result<bool> try_take();
  Result<std::string> address();
  Status keep_out(const std::string& who, const std::string& address);
  Result<bool> describe();
  int unlock() const;
  Status evict(const Locker& locker);
  /// Negative on failure.
  int list(std::optional<Locker>& locker) const;
  int lock(bool renews);
  void renew();

  const RadosClient& client_;
  const Wanted wanted_;
  ServerOwner owner_;
  const Opening opening_;
  const std::string cookie_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;
  bool taken_ = false;
  std::thread thread_;
};

}  // namespace perdura::media
