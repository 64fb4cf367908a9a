// The objects of a medium on a memcached server, as items, many at once.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "format/memcached_format.hpp"
#include "media/medium.hpp"
#include "media/memcached_client.hpp"

namespace perdura::media {

/// What a request sends, or is about: an object, or some of one that is in several items.
struct MemcachedItem {
  u64 place;
  Bytes data;
};

class MemcachedObjects {
 public:
  /// Keys are `key_begin` and the place, in hex.
  MemcachedObjects(const std::string& medium, std::string key_begin)
      : medium_(medium), key_begin_(std::move(key_begin)) {}

  std::string key(u64 place) const;
  /// The items that an object is in.
  template <class Visit>
  static void for_each_item(u64 place, u64 length, Visit&& visit);

  /// Send what sets objects, without waiting for the server to take them.
  Status send(MemcachedConnection& connection, std::span<const MemcachedItem> objects) const;
  /// Of all items that places in between may have.
  Status send_deletions(MemcachedConnection& connection, u64 from, u64 to) const;
  /// What deletes an object, added to what is to be sent; how many requests that is.
  u64 add_deletions(u64 place, u64 length, std::string& text) const;
  /// Wait until the server took all that was sent: the first refusal.
  Status finish(MemcachedConnection& connection) const;

  /// Of these, those that the server does not have.
  Result<std::vector<u64>> missing(MemcachedConnection& connection,
                                   std::span<const u64> places) const;
  /// Read objects, or beginnings of objects, each item verified as a whole.
  Status read(MemcachedConnection& connection, std::span<const ReadRequest> requests) const;

 private:
  Status send_items(MemcachedConnection& connection, std::span<const MemcachedItem> items) const;
  Status take(MemcachedConnection& connection, const MemcachedReply& reply,
              const ReadRequest& wanted) const;

  const std::string& medium_;  ///< for messages
  const std::string key_begin_;
};

template <class Visit>
void MemcachedObjects::for_each_item(u64 place, u64 length, Visit&& visit) {
  for (u64 at = 0; at < length; at += format::kMemcachedItemDataBytesMax)
    visit(place + at, at, std::min(format::kMemcachedItemDataBytesMax, length - at));
}

}  // namespace perdura::media
