// A formatted volume, whose log a test writes and reads without a store.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "log/space.hpp"
#include "log/version_writer.hpp"
#include "region/region.hpp"
#include "region/volume.hpp"
#include "store/runtime.hpp"

namespace perdura::test {

/// The volume at a URI, on a medium that a test decorates; a new one where there is none.
inline std::unique_ptr<region::Volume> open_volume(const std::string& uri,
                                                   const detail::WrapMedium& wrap = {}) {
  auto opened = value_or_throw(media::open_medium(uri, {}));
  if (wrap) opened.medium = wrap(std::move(opened.medium));
  auto volume = value_or_throw(
      opened.created ? region::Volume::create(std::move(opened.medium), format::kSegmentBytesMax)
                     : region::Volume::open(std::move(opened.medium)));
  value_or_throw(volume->begin_session());
  return volume;
}

/// A region with this number, and a name and a place of its own.
inline format::RegionRecord region_record(u32 number = 1) {
  format::RegionRecord record{};
  record.region = number;
  record.address = 0x552000000000 + number * kMiB;
  record.limit_bytes = kMiB;
  record.engine = format::EngineId::kRedoLog;
  std::snprintf(record.name, sizeof record.name, "region %u", number);
  return record;
}

/// A region of the volume, the first, mapped with nothing in it.
inline std::unique_ptr<region::Region> add_region(region::Volume& volume, u64 limit_bytes) {
  format::RegionRecord record = region_record();
  record.limit_bytes = limit_bytes;
  record.address = value_or_throw(region::Region::choose_address(limit_bytes));
  value_or_throw(volume.add_region(record));
  return value_or_throw(region::Region::map(volume, record));
}

using Line = std::array<u64, kLineBytes / sizeof(u64)>;
using Lines = std::map<u64, Line>;  ///< by their number in the region

/// The lines of a block in memory, added to `lines`; true when one of them was there already.
inline bool add_lines(const std::byte* block, const log::BlockRef& ref, Lines& lines) {
  const u64* runs = log::block_runs(block, ref.data_bytes);
  const std::byte* data = log::block_data(block);
  bool twice = false;
  for (u32 i = 0; i < ref.run_count; ++i) {
    const u64 first = format::run_first(runs[i]);
    for (u64 line = first; line < first + format::run_count(runs[i]); ++line, data += kLineBytes) {
      Line bytes;
      std::memcpy(&bytes, data, sizeof bytes);
      twice |= !lines.insert_or_assign(line, bytes).second;
    }
  }
  return twice;
}

/// Write `lines` as pieces of the version that `writer` has begun.
inline void write_lines(log::VersionWriter& writer, const Lines& lines) {
  std::vector<u64> numbers;
  std::vector<const std::byte*> sources;
  const auto write = [&] {
    if (numbers.empty()) return;
    ASSERT_TRUE(writer.make_room());
    const u64 sum = writer.write({.lines = sources});
    writer.keep(numbers, sum);
    numbers.clear();
    sources.clear();
  };
  for (const auto& [number, bytes] : lines) {
    numbers.push_back(number);
    sources.push_back(reinterpret_cast<const std::byte*>(&bytes));
    if (numbers.size() == log::kPieceLines) write();
  }
  write();
}

}  // namespace perdura::test
