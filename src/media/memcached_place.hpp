// Where a medium on a memcached server is, as a URI says it, and its head item.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "format/memcached_format.hpp"
#include "media/medium.hpp"
#include "media/memcached_client.hpp"

namespace perdura::media {

struct MemcachedPlace {
  MemcachedServer server;
  std::string name;

  /// `address`: "//HOST[:PORT]/NAME".
  static Result<MemcachedPlace> parse(std::string_view address, const MediumOptions& options);

  std::string uri() const { return fmt::format("memcached://{}/{}", server.name(), name); }
  std::string key() const { return "perdura:" + name; }
  std::string lock_key() const { return key() + ":lock"; }
  std::string object_key_begin(u64 nonce) const { return fmt::format("{}:{:016x}:", key(), nonce); }
};

/// Of a medium that is made now, without its checksum.
Result<format::MemcachedHead> new_memcached_head();
/// What the head item of `medium` says. kForeign, kCorrupt and kIncompatible are of the item.
Result<format::MemcachedHead> parse_memcached_head(const std::string& medium,
                                                   std::string_view value);

}  // namespace perdura::media
