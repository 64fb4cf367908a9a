#include "media/memcached_evictions.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace perdura::media {
namespace {

// Of `stats`: items that went for want of memory. The second and the third are those that were in
// the way when memory was moved between sizes, which -M does not forbid.
constexpr std::string_view kEvictionCounters[] = {"evictions", "slab_reassign_evictions_nomem",
                                                  "slab_reassign_busy_deletes"};

Result<std::string> count_evictions(MemcachedConnection& connection) {
  std::string counts;
  PERDURA_TRY(connection.list("stats\r\n", [&](auto name, auto value) {
    if (std::ranges::count(kEvictionCounters, name) != 0)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", name, value);
  }));
  return counts.empty() ? "nothing" : counts;
}

}  // namespace

Status MemcachedEvictions::refuse(MemcachedConnection& connection) {
  std::string evicts = "unknown";
  PERDURA_TRY(connection.list("stats settings\r\n", [&](auto name, auto value) {
    if (name == "evictions") evicts = value;
  }));
  if (evicts == "off") {
    PERDURA_ASSIGN(before_, count_evictions(connection));
    return {};
  }
  return Failure{
      Code::kUnsupported,
      fmt::format("the memcached server {} evicts items when its memory is full (its setting "
                  "evictions is {}), which would lose what it acknowledged; start it with -M (no "
                  "eviction), and with enough memory (-m)",
                  server_, evicts)};
}

// Counters that somebody reset prove nothing either.
Status MemcachedEvictions::check(MemcachedConnection& connection) const {
  PERDURA_ASSIGN(const std::string now, count_evictions(connection));
  if (now == before_) return {};
  return Failure{
      Code::kIo,
      fmt::format("the memcached server {} evicted items, perhaps objects of '{}' (its counters "
                  "said {} and say {}); start it with more memory (-m), and restore the store "
                  "from a copy if `perdura check` finds it damaged",
                  server_, medium_, before_, now)};
}

}  // namespace perdura::media
