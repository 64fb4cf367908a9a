// The blocks of a medium on a memcached server, as items, many at once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "media/medium.hpp"
#include "media/memcached_client.hpp"

namespace perdura::media {

class MemcachedBlocks {
 public:
  /// Keys are `key_begin` and the number of the block, in hex.
  MemcachedBlocks(const std::string& medium, std::string key_begin)
      : medium_(medium), key_begin_(std::move(key_begin)) {}

  /// Send what sets blocks, without waiting for the server to take them.
  Status send(MemcachedConnection& connection, u64 offset, Bytes data) const;
  Status send_zeros(MemcachedConnection& connection, u64 from, u64 to) const;
  Status send_deletions(MemcachedConnection& connection, u64 from, u64 to) const;
  /// Wait until the server took all that was sent: the first refusal.
  Status finish(MemcachedConnection& connection) const;

  /// The blocks of which the server has no item.
  Result<std::vector<u64>> missing(MemcachedConnection& connection, u64 from, u64 to) const;
  /// Read any bytes, each with the rest of its block, which is verified.
  Status read(MemcachedConnection& connection, std::span<const ReadRequest> requests) const;

 private:
  struct Part {
    u64 block;
    size_t begin;  ///< in the block
    MutableBytes into;
  };
  Status send_sets(MemcachedConnection& connection, u64 block, u64 count, const std::byte* data,
                   size_t stride) const;
  Status take(MemcachedConnection& connection, const MemcachedReply& reply, const Part& part) const;

  std::string key(u64 block) const;

  const std::string& medium_;  ///< for messages
  const std::string key_begin_;
};

}  // namespace perdura::media
