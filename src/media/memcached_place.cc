#include "media/memcached_place.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "base/checksum.hpp"

namespace perdura::media {

using format::kMemcachedUnitBytes;
using format::MemcachedHead;

namespace {

constexpr size_t kNameBytesMax = 200;  // keys have at most 250

struct Authority {
  std::string_view host;
  std::string_view port = "11211";
};

// "HOST[:PORT]", where the host that is an IPv6 address is in brackets.
Authority split_authority(std::string_view text) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : text.npos;
  const bool in_brackets = bracket != text.npos;
  const size_t end = in_brackets ? bracket + 1 : std::min(text.find(':'), text.size());
  Authority split{.host = in_brackets ? text.substr(1, bracket - 1) : text.substr(0, end)};
  if (end != text.size()) split.port = text[end] == ':' ? text.substr(end + 1) : "";
  return split;
}

bool is_port(std::string_view text) {
  u16 port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() && port != 0;
}

}  // namespace

Result<MemcachedPlace> MemcachedPlace::parse(std::string_view address,
                                             const MediumOptions& options) {
  const auto invalid = [&](const std::string& why) {
    return Failure{
        Code::kInvalidArgument,
        fmt::format("'memcached:{}': {}; as in memcached://127.0.0.1:11211/name", address, why)};
  };
  if (!address.starts_with("//")) return invalid("the server's address is missing");
  const std::string_view rest = address.substr(2);
  const size_t slash = std::min(rest.find('/'), rest.size());
  const auto [host, port] = split_authority(rest.substr(0, slash));
  const std::string_view name = rest.substr(std::min(slash + 1, rest.size()));
  if (host.empty()) return invalid("the server's address is missing");
  if (!is_port(port)) return invalid(fmt::format("'{}' is no port", port));
  if (name.empty()) return invalid("the store's name is missing");
  if (name.size() > kNameBytesMax)
    return invalid(
        fmt::format("the store's name has {} bytes, more than {}", name.size(), kNameBytesMax));
  if (std::ranges::any_of(name, [](char c) { return c <= ' ' || c > '~' || c == ':'; }))
    return invalid("a store's name here has no colons, spaces, control or non-ASCII characters");
  MemcachedPlace place{{std::string(host), std::string(port), static_cast<int>(options.timeout_ms)},
                       std::string(name)};
  place.server.medium = place.uri();
  return place;
}

u64 memcached_head_checksum(const MemcachedHead& head) {
  constexpr size_t kFrom = offsetof(MemcachedHead, version);
  return checksum(reinterpret_cast<const char*>(&head) + kFrom, sizeof head - kFrom);
}

Result<MemcachedHead> new_memcached_head() {
  MemcachedHead head{};
  std::memcpy(head.magic, format::kMemcachedMagic, sizeof head.magic);
  head.version = format::kMemcachedVersion;
  head.unit_bytes = kMemcachedUnitBytes;
  if (::getrandom(&head.nonce, sizeof head.nonce, 0) != sizeof head.nonce)
    return system_failure(errno, "cannot draw a number for the keys of a store");
  return head;
}

Result<MemcachedHead> parse_memcached_head(const std::string& medium, std::string_view value) {
  MemcachedHead head{};
  std::memcpy(&head, value.data(), std::min(value.size(), sizeof head));
  if (std::memcmp(head.magic, format::kMemcachedMagic, sizeof head.magic) != 0)
    return Failure{Code::kForeign, "'" + medium +
                                       "' is not a Perdura store (its head item is something "
                                       "else); choose another name, or remove it"};
  if (value.size() != sizeof head || head.checksum != memcached_head_checksum(head) ||
      !is_aligned(head.size | head.items_end, kMemcachedUnitBytes) || head.size > head.items_end)
    return Failure{Code::kCorrupt,
                   "the head item of '" + medium + "' is damaged; restore the store from a copy"};
  if (head.version != format::kMemcachedVersion || head.unit_bytes != kMemcachedUnitBytes)
    return Failure{
        Code::kIncompatible,
        fmt::format("the head item of '{}' has version {}, this Perdura reads version {}; {}",
                    medium, head.version, format::kMemcachedVersion,
                    head.version > format::kMemcachedVersion
                        ? "use a newer Perdura"
                        : "use the older Perdura that wrote it")};
  return head;
}

}  // namespace perdura::media
