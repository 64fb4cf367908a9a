// The writer's lock of a medium on a memcached server: an item that says who the owner is.
//
// Invariants:
//  - The item names every connection that the owner ever wrote through, before the first write.
//  - Who takes over from a dead owner waits until the server has none of these connections: then
//    no write of the dead one can come after its own.
//  - Each change of the item is conditional on its CAS number: of two who take over one succeeds,
//    and the owner notices when the item is no longer its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "media/memcached_client.hpp"
#include "media/server_owner.hpp"

namespace perdura::media {

/// A held lock. Not thread-safe.
class MemcachedLock {
 public:
  struct Wanted {
    std::string key;
    std::string medium;     ///< for messages
    bool takeover = false;  ///< also from an owner of whom nobody knows whether it is dead
  };
  /// Through `main`, the first connection that is written through. kLocked names the owner.
  static Result<std::unique_ptr<MemcachedLock>> take(Wanted wanted, MemcachedConnection& main);

  /// A further connection may be written through.
  Status add(const std::string& address, MemcachedConnection& main);
  /// A failure when the item is no longer this lock's. A round trip.
  Status check(MemcachedConnection& main);
  /// Delete the item, if it is still this lock's. Nothing may be under way on other connections.
  void release(MemcachedConnection& main);
  /// The same through a new connection, after writes that were not waited for.
  void release_after_loss(MemcachedConnection& fresh, u64 patience_ms);

 private:
  MemcachedLock(Wanted wanted, ServerOwner owner)
      : wanted_(std::move(wanted)), owner_(std::move(owner)), opening_(owner_.opening) {}

  Result<bool> put(const std::string& condition, MemcachedConnection& main);
  Status may_take(const MemcachedReply& item, MemcachedConnection& main) const;

  const Wanted wanted_;
  ServerOwner owner_;
  const Opening opening_;
  u64 cas_ = 0;
};

}  // namespace perdura::media
