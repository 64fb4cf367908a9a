// Objects that are called much, and the table that their heads move in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "object/object_table.hpp"
#include "region/volume.hpp"
#include "store/recovery.hpp"

namespace perdura::test {

/// Each call says how many there were.
struct Hot {
  std::uint64_t count;
  std::uint64_t words[600];
  std::uint64_t next() noexcept {
    words[count % 600] = count;
    return ++count;
  }
  std::uint64_t now() const noexcept { return count; }
  bool is_whole() const noexcept {
    for (std::uint64_t i = 0; i < 600; ++i) {
      const std::uint64_t last = count < i + 1 ? 0 : i + (count - 1 - i) / 600 * 600;
      if (words[i] != last) return false;
    }
    return true;
  }
};

/// All places of the table of a store's first region, whether they have an object or not.
inline std::vector<object::ObjectTable::Entry> table_of(const std::string& uri) {
  auto medium = value_or_throw(media::open_medium(uri, {.read_only = true}));
  const auto volume = value_or_throw(store::open_volume_to_read(std::move(medium.medium)));
  std::vector<object::ObjectTable::Entry> found;
  if (volume->regions().empty()) return found;
  for (const format::Extent& extent :
       volume->extents(format::ExtentKind::kObjectHeads, volume->regions().at(0).region)) {
    AlignedBuffer bytes(extent.length);
    value_or_throw(volume->medium().load_pages(extent.medium_offset, bytes.span()));
    for (u64 at = 0; at < extent.length; at += format::kObjectHeadsBytes)
      found.push_back(object::ObjectTable::entry_of(volume->medium(), extent.medium_offset + at,
                                                    bytes.data() + at));
  }
  return found;
}
/// Heads of objects among them.
inline u64 heads_in(const std::vector<object::ObjectTable::Entry>& table) {
  return static_cast<u64>(
      std::ranges::count_if(table, [](const auto& each) { return each.head.log_lines != 0; }));
}
/// How often heads were written there, in all.
inline u64 writes_in(const std::vector<object::ObjectTable::Entry>& table) {
  u64 all = 0;
  for (const auto& each : table) all += each.head_writes();
  return all;
}

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Hot>
    : perdura::MethodList<perdura::Instant<&perdura::test::Hot::next>> {};
