#include "media/memcached_place.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "media/object_content.hpp"

namespace perdura::media {

using format::MemcachedHead;

namespace {

constexpr size_t kNameBytesMax = 200;  // keys have at most 250
constexpr HeadKind kMemcachedHeadKind{format::kMemcachedMagic, format::kMemcachedVersion,
                                      "head item"};

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

Result<MemcachedHead> new_memcached_head() {
  PERDURA_ASSIGN(const format::MediumHead begin, new_object_head(kMemcachedHeadKind));
  MemcachedHead head{};
  std::memcpy(&head, &begin, sizeof begin);
  return head;
}

Result<MemcachedHead> parse_memcached_head(const std::string& medium, std::string_view value) {
  MemcachedHead head{};
  PERDURA_TRY(
      check_object_head(medium, kMemcachedHeadKind, std::as_bytes(std::span(value)), sizeof head));
  std::memcpy(&head, value.data(), sizeof head);
  if (!is_aligned(head.items_end, format::kObjectUnitBytes) || head.size > head.items_end)
    return Failure{Code::kCorrupt,
                   "the head item of '" + medium + "' is damaged; restore the store from a copy"};
  return head;
}

}  // namespace perdura::media
