// Whether a memcached server makes room by evicting items, which would be objects of any store, and
// whether it did all the same.
#pragma once

#include <string>

#include "media/memcached_client.hpp"

namespace perdura::media {

class MemcachedEvictions {
 public:
  /// Both are for messages; `medium` outlives it.
  MemcachedEvictions(std::string server, const std::string& medium)
      : server_(std::move(server)), medium_(medium) {}

  /// Before the first write. kUnsupported where the server may evict.
  Status refuse(MemcachedConnection& connection);
  /// kIo where it has evicted something since then, or its counters say something else.
  Status check(MemcachedConnection& connection) const;

 private:
  const std::string server_;
  const std::string& medium_;
  std::string before_;  ///< as the server counted them before the first write
};

}  // namespace perdura::media
