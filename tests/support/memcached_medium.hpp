// A medium on a memcached server, for the unit tests of its parts.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "format/memcached_format.hpp"
#include "media/medium.hpp"
#include "support/expect_failure.hpp"
#include "support/memcached_server.hpp"
#include "support/random_bytes.hpp"

namespace perdura::test {

using media::Medium;

constexpr u64 kUnit = format::kObjectUnitBytes;

inline std::unique_ptr<Medium> open(const std::string& uri) {
  return value_or_throw(media::open_medium(uri, {})).medium;
}

/// In objects of a unit each, as all but chunks are.
inline Status write(Medium& medium, u64 offset, media::Bytes data) {
  if (data.size() == kUnit) return medium.write(offset, data, PERDURA_SITE("test"));
  return medium.write_pages(offset, data, PERDURA_SITE("test"));
}
inline Status barrier(Medium& medium) { return medium.barrier(PERDURA_SITE("test")); }

inline void expect_holds(Medium& medium, u64 offset, media::Bytes expected) {
  AlignedBuffer got(expected.size());
  const Status read = medium.load_pages(offset, got.first(expected.size()));
  ASSERT_TRUE(read) << read.failure().message;
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size()), 0) << offset;
}

inline std::string with_checksum(format::MemcachedHead head) {
  constexpr size_t kFrom = offsetof(format::MemcachedHead, version);
  const char* const bytes = reinterpret_cast<const char*>(&head);
  head.checksum = checksum(bytes + kFrom, sizeof head - kFrom);
  return std::string(bytes, sizeof head);
}

class MemcachedMediumTest : public testing::Test {
 protected:
  std::string uri(const std::string& parameters = "") const {
    return server_.uri("store") + parameters;
  }
  /// The key of the object at a place of the store, as the head item says it.
  std::string object_key(u64 place) const { return server_.object_key("store", place); }

  MemcachedProcess server_;
};

}  // namespace perdura::test
