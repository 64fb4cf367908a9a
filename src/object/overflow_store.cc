#include "object/overflow_store.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "format/object_format.hpp"

namespace perdura::object {

using format::Extent;
using format::ExtentKind;
using format::OverflowRecord;

namespace {

constexpr u64 kRecordExtentBytes = 2 * format::kObjectHeadBytes;

u64 checksum_of(const OverflowRecord& record) {
  return checksum(&record.magic, sizeof record - sizeof record.checksum);
}

}  // namespace

Result<OverflowRecord> read_overflow_record(region::Volume& volume, u32 region) {
  OverflowRecord record{};
  const std::vector<Extent> heads = volume.extents(ExtentKind::kObjectHeads, region);
  if (heads.empty()) return record;
  const u64 place = heads.front().medium_offset;
  AlignedBuffer page(kPageBytes);
  PERDURA_TRY(volume.medium().load_pages(place, page.span()));
  const bool whole = volume.medium().whole(
      place, page.data(), sizeof record, PERDURA_SITE("overflow record"), [](const std::byte* at) {
        const auto& found = *reinterpret_cast<const OverflowRecord*>(at);
        return found.magic == format::kOverflowMagic && found.checksum == checksum_of(found);
      });
  if (whole) std::memcpy(&record, page.data(), sizeof record);
  return record;
}

Failure OverflowStore::is_anothers() const {
  return {Code::kMisuse, "the overflow store '" + name() +
                             "' has objects of another store, or of another region; open the "
                             "objects with the one that is theirs, or with a new one"};
}

// A record that was cut short is that of a region which has no copies yet.
Status OverflowStore::check_whose(const format::Superblock* first, u32 number) {
  PERDURA_ASSIGN(const OverflowRecord known, read_overflow_record(volume_, region_));
  is_bound_ = known.magic != 0;
  if (is_bound_) {
    const bool is_own = first != nullptr && known.region == number &&
                        std::memcmp(known.uuid, first->uuid, sizeof known.uuid) == 0;
    return is_own ? Status{} : Status(is_anothers());
  }
  if (volume_.extents(ExtentKind::kObjects, region_).empty()) return {};
  return Failure{Code::kCorrupt, "the overflow store '" + name() +
                                     "' does not say any more whose objects it has (its record is "
                                     "damaged); restore it from a copy"};
}

Status OverflowStore::bind(const format::Superblock& first, u32 number) {
  if (is_bound_) return {};
  const std::vector<Extent> heads = volume_.extents(ExtentKind::kObjectHeads, region_);
  if (!heads.empty()) return write_record(heads.front().medium_offset, first, number);
  PERDURA_ASSIGN(const Extent made,
                 volume_.allocate_objects(region_, ExtentKind::kObjectHeads, kRecordExtentBytes));
  return write_record(made.medium_offset, first, number);
}

Status OverflowStore::write_record(u64 place, const format::Superblock& first, u32 number) {
  OverflowRecord record{};
  record.magic = format::kOverflowMagic;
  record.region = number;
  std::memcpy(record.uuid, first.uuid, sizeof record.uuid);
  record.checksum = checksum_of(record);
  AlignedBuffer page(kPageBytes);
  std::memset(page.data(), 0, kPageBytes);
  std::memcpy(page.data(), &record, sizeof record);
  PERDURA_TRY(medium().write(place, page.span(), PERDURA_SITE("overflow record")));
  // Barrier: whose copies these are is durable before there is one.
  return medium().barrier(PERDURA_SITE("overflow record"));
}

// Whatever becomes of it nothing is in flight when it returns: its place may be another one's then.
Status OverflowStore::write(u64 place, std::span<const std::byte> image,
                            std::vector<u64>& page_sums) {
  if (buffer_.size() == 0) buffer_ = AlignedBuffer(kPieces * kPieceBytes);
  if (queue_ == nullptr) queue_ = medium().queue();
  page_sums.resize((image.size() + kPageBytes - 1) / kPageBytes);
  Status written = guarded([&] { return submit(place, image, page_sums); });
  Status drained = queue_->drain();
  PERDURA_TRY(std::move(written));
  PERDURA_TRY(std::move(drained));
  // Barrier: the copy is durable before a head in the first store names it.
  return medium().barrier(PERDURA_SITE("overflow copy"));
}

// Through buffers, so that what is summed is what is written, whatever a program stores to a state
// meanwhile; each page as it is copied, while the medium is busy with the pieces before.
Status OverflowStore::submit(u64 place, std::span<const std::byte> image,
                             std::vector<u64>& page_sums) {
  for (u64 done = 0, piece = 0; done < image.size(); ++piece) {
    PERDURA_TRY(queue_->drain(kPieces - 1));
    std::byte* const to = buffer_.data() + piece % kPieces * kPieceBytes;
    const u64 bytes = std::min(image.size() - done, kPieceBytes);
    const u64 whole = round_up(bytes, kPageBytes);
    for (u64 at = 0; at < bytes; at += kPageBytes) {
      const u64 here = std::min(bytes - at, kPageBytes);
      std::memcpy(to + at, image.data() + done + at, here);
      page_sums[(done + at) / kPageBytes] = checksum(to + at, here);
    }
    std::memset(to + bytes, 0, whole - bytes);
    PERDURA_TRY(queue_->submit(place + done, {to, whole}, PERDURA_SITE("overflow copy")));
    done += bytes;
  }
  return {};
}

}  // namespace perdura::object
