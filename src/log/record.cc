#include "log/record.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "base/mutant.hpp"
#include "log/block.hpp"

namespace perdura::log {

using format::LogBlockHeader;
using format::RecordHeader;

u64 record_checksum(const std::byte* record, u64 bytes, u64 place, const SegmentUse& use) {
  constexpr u64 kOdd = 0x9e3779b97f4a7c15;
  const u64 sum = checksum(record + sizeof(u64), bytes - sizeof(u64));
  const u64 session = is_mutant("session_of_segment") ? 0 : use.session;
  return sum + place * kOdd + use.generation * (kOdd * kOdd) + session * (kOdd * kOdd * kOdd);
}

RecordBuilder::RecordBuilder(u64 segment_bytes)
    : record_(segment_bytes), words_max_((segment_bytes - kPageBytes) / sizeof(u64)) {}

Failure RecordBuilder::too_large() const {
  return {Code::kNoSpace, "a transaction changes more than a log segment of " +
                              std::to_string(record_.size()) +
                              " bytes holds; make it several, or the store with larger "
                              "log_segment_bytes"};
}

media::Bytes RecordBuilder::set_header(const Commit& commit, u64 number, u64 behind) {
  *reinterpret_cast<RecordHeader*>(record_.data()) = {
      .checksum = 0,
      .time = commit.time,
      .durable_version = commit.durable_version,
      .bytes = static_cast<u32>(bytes()),
      .number = static_cast<u16>(number),
      .behind = static_cast<u16>(std::min(behind, format::kBehindMax))};
  std::memset(record_.data() + bytes(), 0, length() - bytes());
  return record_.first(length());
}

void RecordBuilder::set_checksum(u64 place, const SegmentUse& use) {
  auto& record = *reinterpret_cast<RecordHeader*>(record_.data());
  record.checksum = record_checksum(record_.data(), record.bytes, place, use);
}

RecordSegment::RecordSegment(Space& space, region::Volume& volume, u32 region, u16 stream)
    : OpenSegment(space, volume, region),
      stream_(stream),
      header_bytes_(round_up(sizeof(LogBlockHeader), volume.medium().geometry().write_bytes)),
      header_(header_bytes_) {}

bool RecordSegment::has_room(u64 bytes, u64 version) {
  if (bytes > left()) return false;
  note(version);
  return true;
}

Status RecordSegment::take(u64 version) {
  PERDURA_TRY(OpenSegment::take(Content::kTransactions, version));
  advance(header_bytes_);
  return {};
}

media::Bytes RecordSegment::header(u64 first_sequence) {
  std::memset(header_.data(), 0, header_bytes_);
  auto& header = *reinterpret_cast<LogBlockHeader*>(header_.data());
  stamp(header);
  header.place = begin();
  header.data_checksum = header.runs_checksum = checksum(nullptr, 0);
  header.ticket = first_sequence_ = first_sequence;
  header.flags = format::kLogTransactions;
  header.stream = stream_;
  header.records = format::kRecordLayout;
  header.block_bytes = static_cast<u32>(length());
  header.checksum = header_checksum(header);
  return header_.first(header_bytes_);
}

u64 RecordSegment::number_of(u64 sequence) const {
  PERDURA_ASSERT(sequence - first_sequence_ < length() / kLineBytes);
  return sequence - first_sequence_;
}

// The header of a new segment becomes durable with its first record.
Status RecordWriter::make_room(u64 length, u64 version, u64 sequence) {
  if (segment_.has_room(length, version)) return {};
  PERDURA_TRY(segment_.take(version));
  // Also where memory is short: in a segment without a header no record would count.
  Status written = guarded([&] {
    return medium_.write(segment_.begin(), segment_.header(sequence),
                         PERDURA_SITE("transaction segment"));
  });
  if (!written) segment_.leave();
  return written;
}

Status RecordWriter::commit(RecordBuilder& record, const RecordBuilder::Commit& commit,
                            Steps steps) {
  Status written = guarded([&] { return write(record, commit, steps); });
  if (!written) segment_.leave();
  return written;
}

Status RecordWriter::write(RecordBuilder& record, const RecordBuilder::Commit& commit,
                           Steps steps) {
  const u64 place = segment_.place();
  const media::Bytes bytes = record.set_header(commit, segment_.number_of(commit.sequence), 0);
  if (steps != Steps::kOne) PERDURA_TRY(write_before(bytes, place, record.bytes(), steps));
  record.set_checksum(place, segment_.current_use());
  PERDURA_TRY(medium_.write(place, steps == Steps::kOne ? bytes : bytes.first(kLineBytes),
                            PERDURA_SITE("transaction record")));
  // Barrier: the transaction is durable before others see what it stored, and before its slot
  // writes another record.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("transaction")));
  segment_.advance(bytes.size());
  return {};
}

// These barriers order nothing that recovery needs: they are what OpF-STM is measured against.
Status RecordWriter::write_before(media::Bytes record, u64 place, u64 bytes, Steps steps) {
  if (steps == Steps::kRecordThenMark) {
    PERDURA_TRY(medium_.write(place, record, PERDURA_SITE("transaction before its mark")));
    return medium_.barrier(PERDURA_SITE("before a transaction's mark"));
  }
  for (u64 word = sizeof(RecordHeader); word < bytes; word += sizeof(u64)) {
    const u64 line = round_down(word, kLineBytes);
    PERDURA_TRY(medium_.write(place + line, record.subspan(line, kLineBytes),
                              PERDURA_SITE("word of a transaction")));
    PERDURA_TRY(medium_.barrier(PERDURA_SITE("after a word of a transaction")));
  }
  return {};
}

}  // namespace perdura::log
