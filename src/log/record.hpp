// Records in the log: what one commit did, durable before it is told.
//
// What is on the medium if power fails: a record that was not whole never was; the barrier behind
// each makes it durable before another one of its stream is written.
#pragma once

#include <span>

#include "base/aligned_buffer.hpp"
#include "format/transaction_format.hpp"
#include "log/open_segment.hpp"
#include "media/medium.hpp"

namespace perdura::log {

/// Of a record of so many bytes, of any layout. One of another use of the segment, or of another
/// place, has another one.
u64 record_checksum(const std::byte* record, u64 bytes, u64 place, const SegmentUse& use);

/// A record in the making.
class RecordBuilder {
 public:
  explicit RecordBuilder(u64 segment_bytes);

  /// Begin a record; it takes words until the next begin().
  void begin() { words_ = sizeof(format::RecordHeader) / sizeof(u64); }
  /// Place for the next `count` words; kNoSpace when the record becomes too large.
  Result<u64*> take(u64 count) {
    if (count > words_max_ - words_) [[unlikely]]
      return too_large();
    u64* const place = reinterpret_cast<u64*>(record_.data()) + words_;
    words_ += count;
    return place;
  }
  u64 bytes() const { return words_ * sizeof(u64); }
  std::span<const u64> entries() const {
    constexpr u64 kHeaderWords = sizeof(format::RecordHeader) / sizeof(u64);
    return {reinterpret_cast<const u64*>(record_.data()) + kHeaderWords, words_ - kHeaderWords};
  }
  /// With padding.
  u64 length() const { return round_up(bytes(), kLineBytes); }

  struct Commit {
    u64 time;
    u64 sequence;         ///< of the stream's records
    u64 durable_version;  ///< on which it relies
  };
  /// `number`: in its segment. `behind`: so many records of its stream before it are perhaps not
  /// durable. Without the checksum it is no record.
  media::Bytes set_header(const Commit& commit, u64 number, u64 behind);
  /// That of a record at this place, in this use of a segment.
  void set_checksum(u64 place, const SegmentUse& use);

 private:
  Failure too_large() const;

  AlignedBuffer record_;
  const u64 words_max_;
  u64 words_ = 0;
};

/// The segment that records go to: it begins with a block of no version, which says so.
class RecordSegment : public OpenSegment {
 public:
  /// For the records of a stream (TransactionState).
  RecordSegment(Space& space, region::Volume& volume, u32 region, u16 stream);

  /// Whether `bytes` more are left of it, for `version` at the latest.
  bool has_room(u64 bytes, u64 version);
  /// Another one. Its header, a multiple of the medium's write unit, is to be written before its
  /// first record counts.
  Status take(u64 version);
  media::Bytes header(u64 first_sequence);
  /// In it, of the stream's record `sequence`: after header().
  u64 number_of(u64 sequence) const;

 private:
  const u16 stream_;
  const u64 header_bytes_;
  AlignedBuffer header_;
  u64 first_sequence_ = 0;
};

/// Byte-addressable media: one stream of records, each durable before the next. Not thread-safe.
class RecordWriter {
 public:
  RecordWriter(Space& space, region::Volume& volume, u32 region, u16 stream)
      : medium_(volume.medium()), segment_(space, volume, region, stream) {}

  /// For a record of so many bytes, the stream's `sequence`; `version` will hold what it does, at
  /// the latest. Where this fails there is no record.
  Status make_room(u64 length, u64 version, u64 sequence);

  /// Barriers: one behind the record; one before its first line as well; or one behind each word.
  enum class Steps { kOne, kRecordThenMark, kEachWord };
  /// Make it durable, after make_room. On failure it may be durable or not: the stream's next
  /// record is to rely on a version that says that it has this one, and goes to another segment.
  Status commit(RecordBuilder& record, const RecordBuilder::Commit& commit, Steps steps);

 private:
  Status write(RecordBuilder& record, const RecordBuilder::Commit& commit, Steps steps);
  Status write_before(media::Bytes record, u64 place, u64 bytes, Steps steps);

  media::Medium& medium_;
  RecordSegment segment_;
};

}  // namespace perdura::log
