#include "store/check_options.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include <fmt/format.h>

#include "format/format.hpp"
#include "store/storage.hpp"
#include "track/kinds.hpp"

namespace perdura::store {
namespace {

constexpr u64 kAddressBegin = 64 * kKiB;  // below it the system maps nothing (vm.mmap_min_addr)

/// Whether it is an enumerator; from C it may be any number.
template <class Enum>
bool is_up_to(Enum last, Enum value) {
  return static_cast<u32>(value) <= static_cast<u32>(last);
}

}  // namespace

Status check_options(const Options& options) {
  const auto invalid = [](const std::string& what) {
    return Failure{Code::kInvalidArgument, what};
  };
  if (!std::has_single_bit(options.granule_bytes) || options.granule_bytes < kLineBytes ||
      options.granule_bytes > kPageBytes)
    return invalid("granule_bytes is a power of two from 64 to 4096, not " +
                   std::to_string(options.granule_bytes));
  if (options.region_limit_bytes < kMiB || options.region_limit_bytes % kMiB != 0 ||
      options.region_limit_bytes > format::kRegionBytesMax)
    return invalid("region_limit_bytes is a multiple of 1 MiB from 1 MiB to 16 TiB, not " +
                   std::to_string(options.region_limit_bytes));
  if (options.region_address % kPageBytes != 0)
    return invalid("region_address must be a multiple of 4096");
  if (options.region_address != 0) PERDURA_TRY(check_region_address(options.region_address, kMiB));
  if (!std::has_single_bit(options.log_segment_bytes) ||
      options.log_segment_bytes < format::kSegmentBytesMin ||
      options.log_segment_bytes > format::kSegmentBytesMax)
    return invalid("log_segment_bytes is a power of two from 32768 to 1048576, not " +
                   std::to_string(options.log_segment_bytes));
  if (!std::has_single_bit(options.chunk_bytes) || options.chunk_bytes < kPageBytes ||
      options.chunk_bytes > 4 * kMiB)
    return invalid("chunk_bytes is a power of two from 4096 to 4194304, not " +
                   std::to_string(options.chunk_bytes));
  if (options.aliases != 0 &&
      (!std::has_single_bit(options.aliases) || options.aliases > format::kAliasesMax))
    return invalid("aliases is 0 or a power of two up to 256, not " +
                   std::to_string(options.aliases));
  PERDURA_TRY(check_region_name(options.region));
  if (options.log_limit_bytes != 0 && options.log_limit_bytes < 2 * format::kSegmentBytesMin)
    return invalid("log_limit_bytes is at least " + std::to_string(2 * format::kSegmentBytesMin));
  const track::Kind* const tracker = track::find_kind(options.tracking);
  if (tracker == nullptr) return invalid("tracking is none of the trackers");
  if (options.aliases != 0 && tracker->is_reported)
    return invalid("aliases tell objects apart for a page tracker; reported stores need none");
  if (!is_up_to(Capture::kBackground, options.capture))
    return invalid("capture is none of the three ways");
  if (options.capture == Capture::kBackground && options.aliases != 0)
    return invalid("with aliases there is no background capture; choose one of the two");
  if (!is_up_to(Verify::kNever, options.verify)) return invalid("verify is none of the three ways");
  if (!is_up_to(OnDamage::kThrow, options.on_damage))
    return invalid("on_damage is neither kEnd nor kThrow");
  if (options.verify_reports && !tracker->is_reported)
    return invalid("verify_reports needs a tracker of reported stores");
  if (options.strict) {
    if (options.verify_reports)
      return invalid("strict and verify_reports watch the same pages; choose one of the two");
    if (options.aliases != 0) return invalid("strict watches a region without aliases");
    if (tracker->by_access)
      return invalid("strict closes pages to the program, which '" + std::string(tracker->name) +
                     "' opens; choose another tracker, or kAutomatic");
  }
  if (!options.drain.empty() && (options.read_only || options.version != 0))
    return invalid("a store that is open to be read makes no versions that could be drained");
  const EngineKind* const kind = find_engine_kind(options.engine);
  if (kind == nullptr) return invalid("engine is none of the engines");
  return kind->check_options(options);
}

Status check_region_address(u64 address, u64 bytes) {
  if (address >= kAddressBegin && bytes <= format::kAddressEnd - kPageBytes &&
      address <= format::kAddressEnd - kPageBytes - bytes)
    return {};
  return Failure{
      Code::kInvalidArgument,
      fmt::format(
          "no program has the {} bytes from region_address {:#x} on: addresses are {:#x} to "
          "{:#x}; choose one there, or 0 for one that is free",
          bytes, address, kAddressBegin, format::kAddressEnd - kPageBytes)};
}

Status check_region_name(std::string_view name) {
  if (name.size() <= format::kRegionNameMax && name.find('\0') == name.npos) return {};
  std::string shown(name);
  std::ranges::replace(shown, '\0', '?');  // a message ends there
  return Failure{Code::kInvalidArgument,
                 "region is a name of up to 31 bytes, none of them zero, not '" + shown +
                     "' with " + std::to_string(name.size())};
}

}  // namespace perdura::store
