#include "object/object_archive.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/checksum.hpp"

namespace perdura::object {
namespace {

using format::ObjectArchiveBlock;

constexpr int kLevel = 1;  // calls wait for it
constexpr u64 kBlockBytes = sizeof(ObjectArchiveBlock);
constexpr u64 kAnswerMax = sizeof format::ObjectCaller::answer;

u64 lines_of_block(u64 stored_bytes) {
  return (kBlockBytes + stored_bytes + kLineBytes - 1) / kLineBytes;
}

u64 block_checksum(const std::byte* block, u64 lines) {
  constexpr u64 kFrom = sizeof ObjectArchiveBlock::checksum;
  return checksum(block + kFrom, lines * kLineBytes - kFrom);
}

// In the log.
u64 lines_of(u16 function, u64 context_bytes) {
  return function == format::kObjectResized ? 0 : format::object_entry_lines(context_bytes);
}

// What it says of itself can be so.
bool is_possible(const ObjectArchiveBlock& block, u64 lines_max) {
  return block.lines <= lines_max && block.calls != 0 &&
         block.calls <= format::kObjectArchiveCallsMax &&
         block.raw_bytes <= format::kObjectArchiveRawMax &&
         block.raw_bytes >= block.calls * format::kObjectArchiveCallBytes &&
         block.stored_bytes <= block.raw_bytes && block.lines == lines_of_block(block.stored_bytes);
}

}  // namespace

bool ArchivedCalls::are_of(const ObjectArchiveBlock& block, u64 functions) {
  u64 contexts = 0;
  u64 answers = 0;
  u64 lines = 0;
  for (u64 i = 0; i < calls_; ++i) {
    const bool resized = functions_[i] == format::kObjectResized;
    if (context_bytes_[i] > format::kObjectContextMax || answer_bytes_[i] > kAnswerMax ||
        (resized ? context_bytes_[i] != sizeof(u64) : functions_[i] >= functions))
      return false;
    contexts += context_bytes_[i];
    answers += answer_bytes_[i];
    lines += lines_of(functions_[i], context_bytes_[i]);
  }
  answers_ = contexts_ + contexts;
  return lines == block.end - block.begin &&
         calls_ * format::kObjectArchiveCallBytes + contexts + answers == block.raw_bytes;
}

void ObjectArchive::FreeContext::operator()(ZSTD_CCtx_s* context) const noexcept {
  ZSTD_freeCCtx(context);
}
void ObjectArchive::FreeContext::operator()(ZSTD_DCtx_s* context) const noexcept {
  ZSTD_freeDCtx(context);
}

void ObjectArchive::Columns::clear() {
  potids.clear();
  domains.clear();
  context_bytes.clear();
  functions.clear();
  answer_bytes.clear();
  contexts.clear();
  answers.clear();
}

void ObjectArchive::Columns::copy_to(std::byte* raw) const {
  const auto copy = [&raw](const auto& column) {
    const u64 bytes = column.size() * sizeof column[0];
    if (bytes != 0) std::memcpy(raw, column.data(), bytes);
    raw += bytes;
  };
  copy(potids);
  copy(domains);
  copy(context_bytes);
  copy(functions);
  copy(answer_bytes);
  copy(contexts);
  copy(answers);
}

ObjectArchive::ObjectArchive(media::LinearMedium& medium, const format::ObjectHead& head)
    : medium_(medium),
      write_bytes_(medium.geometry().write_bytes),
      place_(head.archive_place),
      lines_(head.archive_lines),
      identity_(head.identity),
      checkpoint_(head.checkpoint),
      end_{head.archive_used, head.archive_sum},
      raw_(format::kObjectArchiveRawMax),
      compression_(ZSTD_createCCtx()) {
  if (!compression_) throw std::bad_alloc();
  page_.reserve(write_bytes_);
}

Failure ObjectArchive::damaged(const char* what) const {
  return {Code::kCorrupt, "the archive of an object of '" + medium_.name() + "' (medium offset " +
                              std::to_string(place_) + ") " + what +
                              "; restore the store from a copy"};
}

// --- reading ------------------------------------------------------------------------------------

// The chain of its blocks, from the object's identity to the sum that the head has.
bool ObjectArchive::fits(const std::byte* blocks) const {
  u64 sum = identity_;
  u64 index = kLinesPerPage;  // where an object's log begins
  for (u64 at = 0; at < end_.used;) {
    const std::byte* const here = blocks + at * kLineBytes;
    const auto& block = *reinterpret_cast<const ObjectArchiveBlock*>(here);
    if (!is_possible(block, end_.used - at) || block.previous != sum || block.begin != index ||
        block.end < block.begin || block.checksum != block_checksum(here, block.lines))
      return false;
    sum = block.checksum;
    index = block.end;
    at += block.lines;
  }
  return sum == end_.sum && index == checkpoint_;
}

Status ObjectArchive::visit_block(const std::byte* at, u64 functions, const Visit& visit) {
  const auto& block = *reinterpret_cast<const ObjectArchiveBlock*>(at);
  const std::byte* raw = at + kBlockBytes;
  if (block.stored_bytes != block.raw_bytes) {
    const size_t found = ZSTD_decompressDCtx(decompression_.get(), raw_.data(), block.raw_bytes,
                                             at + kBlockBytes, block.stored_bytes);
    if (ZSTD_isError(found) != 0 || found != block.raw_bytes)
      return damaged("has a block that is not what was compressed");
    raw = raw_.data();
  }
  ArchivedCalls calls(raw, block.calls);
  if (!calls.are_of(block, functions))
    return damaged("has a block of other calls than it says, or of functions that there are not");
  visit(calls);
  return {};
}

Status ObjectArchive::read(u64 functions, const Visit& visit) {
  const u64 bytes = end_.used * kLineBytes;
  AlignedBuffer blocks(std::max<u64>(bytes, 1));
  if (bytes != 0) PERDURA_TRY(medium_.load_pages(place_, blocks.span()));
  auto fits_at = [this](const std::byte* at) { return fits(at); };
  if (bytes == 0
          ? !fits(blocks.data())
          : !medium_.whole(place_, blocks.data(), bytes, PERDURA_SITE("object archive"), fits_at))
    return damaged("does not fit its checksums, or ends elsewhere than the object's head says");
  decompression_.reset(ZSTD_createDCtx());
  if (!decompression_) throw std::bad_alloc();
  for (u64 at = 0; at < end_.used;) {
    const std::byte* const block = blocks.data() + at * kLineBytes;
    PERDURA_TRY(visit_block(block, functions, visit));
    at += reinterpret_cast<const ObjectArchiveBlock*>(block)->lines;
  }
  decompression_.reset();
  page_.assign(blocks.data() + round_down(bytes, write_bytes_), blocks.data() + bytes);
  return {};
}

// --- writing ------------------------------------------------------------------------------------

void ObjectArchive::begin(u64 index) {
  next_ = end_;
  begin_ = index_ = index;
  columns_.clear();
  out_bytes_ = 0;
  if (!page_.empty()) std::memcpy(extend(page_.size()), page_.data(), page_.size());
}

void ObjectArchive::add(const RecordedCall& call) {
  const u64 bytes = format::kObjectArchiveCallBytes + call.context.size() + call.answer.size();
  if (columns_.potids.size() == format::kObjectArchiveCallsMax ||
      columns_.raw_bytes() + bytes > format::kObjectArchiveRawMax)
    seal();
  columns_.potids.push_back(call.potid);
  columns_.domains.push_back(call.domain);
  columns_.functions.push_back(call.function);
  columns_.context_bytes.push_back(static_cast<u32>(call.context.size()));
  columns_.answer_bytes.push_back(static_cast<u16>(call.answer.size()));
  columns_.contexts.insert(columns_.contexts.end(), call.context.begin(), call.context.end());
  columns_.answers.insert(columns_.answers.end(), call.answer.begin(), call.answer.end());
  index_ += lines_of(call.function, call.context.size());
}

// So many bytes more of what is written next.
std::byte* ObjectArchive::extend(u64 bytes) {
  const u64 wanted = out_bytes_ + bytes;
  if (wanted > out_.size()) {
    AlignedBuffer larger(2 * wanted);
    if (out_bytes_ != 0) std::memcpy(larger.data(), out_.data(), out_bytes_);
    out_ = std::move(larger);
  }
  return out_.data() + std::exchange(out_bytes_, wanted);
}

// The columns become a block: compressed where that makes them smaller.
void ObjectArchive::seal() {
  if (columns_.potids.empty()) return;
  const u64 raw_bytes = columns_.raw_bytes();
  columns_.copy_to(raw_.data());
  const u64 lines_max = lines_of_block(raw_bytes);
  const u64 bytes_before = out_bytes_;
  std::byte* const at = extend(lines_max * kLineBytes);
  const size_t compressed = ZSTD_compressCCtx(compression_.get(), at + kBlockBytes, raw_bytes - 1,
                                              raw_.data(), raw_bytes, kLevel);
  const bool smaller = ZSTD_isError(compressed) == 0;
  const u64 stored_bytes = smaller ? compressed : raw_bytes;
  if (!smaller) std::memcpy(at + kBlockBytes, raw_.data(), raw_bytes);
  const u64 lines = lines_of_block(stored_bytes);
  std::memset(at + kBlockBytes + stored_bytes, 0, lines * kLineBytes - kBlockBytes - stored_bytes);
  auto& block = *reinterpret_cast<ObjectArchiveBlock*>(at);
  block = {.checksum = 0,
           .previous = next_.sum,
           .begin = begin_,
           .end = index_,
           .calls = static_cast<u32>(columns_.potids.size()),
           .raw_bytes = static_cast<u32>(raw_bytes),
           .stored_bytes = static_cast<u32>(stored_bytes),
           .lines = static_cast<u32>(lines)};
  block.checksum = block_checksum(at, lines);
  out_bytes_ = bytes_before + lines * kLineBytes;
  next_ = {next_.used + lines, block.checksum};
  begin_ = index_;
  columns_.clear();
}

Result<ObjectArchive::End> ObjectArchive::write() {
  seal();
  if (next_.used == end_.used) return next_;
  if (next_.used > lines_)
    return Failure{Code::kNoSpace, "the archive of an object of '" + medium_.name() +
                                       "' has no room for the calls that its log has; restore the "
                                       "store from a copy"};
  const u64 whole = round_up(out_bytes_, write_bytes_);
  const u64 kept = out_bytes_;
  std::memset(extend(whole - kept), 0, whole - kept);
  out_bytes_ = kept;
  const u64 begin = round_down(end_.used * kLineBytes, write_bytes_);
  PERDURA_TRY(medium_.write(place_ + begin, out_.first(whole), PERDURA_SITE("object archive")));
  return next_;
}

void ObjectArchive::note_durable() {
  const u64 begin = round_down(end_.used * kLineBytes, write_bytes_);
  const u64 last = round_down(next_.used * kLineBytes, write_bytes_) - begin;
  page_.assign(out_.data() + last, out_.data() + out_bytes_);
  end_ = next_;
}

}  // namespace perdura::object
