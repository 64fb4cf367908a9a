// All calls of an object before its checkpoint, with their answers, compressed: the archive of one
// whose history is kAll (docs/format/object.md).
//
//   begin ─ add ... add ─ write ─ [copy] ─ barrier ─ [head] ─ barrier ─ note_durable
//
// Each checkpoint appends blocks with the calls that it covers, before the barrier that comes
// before its head: so the archive costs no barrier of its own, and ends where the head says.
//
// Invariants:
//  - What the newest head names is never overwritten; on block media the page that it ends in is
//    written again as it was, with more behind it.
//  - A block fits nothing but the block before it, the first one nothing but its object.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "format/object_format.hpp"
#include "media/medium.hpp"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace perdura::object {

/// A call as it is kept; or, with the function kObjectResized, the object's new size.
struct RecordedCall {
  u32 potid = 0;
  std::int32_t domain = format::kDomainAll;
  u16 function = 0;
  std::span<const std::byte> context{};
  std::span<const std::byte> answer{};
};

/// A block's calls: its columns, which can be such.
class ArchivedCalls {
 public:
  /// Of so many, in `raw`.
  ArchivedCalls(const std::byte* raw, u64 calls)
      : calls_(calls),
        potids_(reinterpret_cast<const u32*>(raw)),
        domains_(reinterpret_cast<const std::int32_t*>(raw + 4 * calls)),
        context_bytes_(reinterpret_cast<const u32*>(raw + 8 * calls)),
        functions_(reinterpret_cast<const u16*>(raw + 12 * calls)),
        answer_bytes_(reinterpret_cast<const u16*>(raw + 14 * calls)),
        contexts_(raw + 16 * calls),
        answers_(contexts_) {}
  /// Whether they are those of this block; before each_run().
  bool are_of(const format::ObjectArchiveBlock& block, u64 functions);

  /// Calls visit(call, times) for all, in their order: calls that are the same and answer nothing,
  /// one behind the other, together.
  template <class Visit>
  void each_run(Visit&& visit) const {
    const std::byte* context = contexts_;
    const std::byte* answer = answers_;
    for (u64 first = 0; first < calls_;) {
      const std::byte* const first_context = context;
      u64 next = first;
      do {
        context += context_bytes_[first];
        ++next;
      } while (is_again(first, first_context, next, context));
      visit(RecordedCall{.potid = potids_[first],
                         .domain = domains_[first],
                         .function = functions_[first],
                         .context = {first_context, context_bytes_[first]},
                         .answer = {answer, answer_bytes_[first]}},
            next - first);
      answer += answer_bytes_[first];
      first = next;
    }
  }

 private:
  /// Whether there is a call `next`, and it is the first one again.
  bool is_again(u64 first, const std::byte* first_context, u64 next,
                const std::byte* context) const {
    return next != calls_ && potids_[next] == potids_[first] && domains_[next] == domains_[first] &&
           functions_[next] == functions_[first] &&
           (answer_bytes_[next] | answer_bytes_[first]) == 0 &&
           context_bytes_[next] == context_bytes_[first] &&
           is_same(context, first_context, context_bytes_[first]);
  }
  /// Most arguments are a word.
  static bool is_same(const std::byte* one, const std::byte* other, u64 bytes) {
    if (bytes == sizeof(u32)) return std::memcmp(one, other, sizeof(u32)) == 0;
    return std::memcmp(one, other, bytes) == 0;
  }

  u64 calls_;
  const u32* potids_;
  const std::int32_t* domains_;
  const u32* context_bytes_;
  const u16* functions_;
  const u16* answer_bytes_;
  const std::byte* contexts_;
  const std::byte* answers_;
};

class ObjectArchive {
 public:
  /// `medium` outlives it. `head`: the one whose archive it is.
  ObjectArchive(media::LinearMedium& medium, const format::ObjectHead& head);

  /// Calls visit(block) for each block, in their order, which is there during that. kCorrupt where
  /// the archive is not what the head says, and calls a function whose number is not below
  /// `functions`.
  using Visit = std::function<void(const ArchivedCalls& block)>;
  Status read(u64 functions, const Visit& visit);

  // --- by whoever writes checkpoints; read() has been called, or the archive is empty

  /// Lines that are free behind what the newest head names.
  u64 free_lines() const { return lines_ - end_.used; }
  /// So many are enough for calls that have `log_lines` in the log, in whatever blocks.
  static constexpr u64 lines_for(u64 log_lines) { return 3 * log_lines; }
  /// And these for one that has none there.
  static constexpr u64 kResizedLines = 2;

  /// What heads say of it.
  struct End {
    u64 used = 0;
    u64 sum = 0;
  };
  /// The calls that follow are those from this index of the log on: behind what the newest head
  /// names. What was written behind that and is in no head counts no more.
  void begin(u64 index);
  void add(const RecordedCall& call);
  /// Durable with the next barrier; then a head may name it. kNoSpace where there is no room for
  /// it.
  Result<End> write();
  /// The newest head names what write() returned.
  void note_durable();

 private:
  struct Columns {
    std::vector<u32> potids;
    std::vector<std::int32_t> domains;
    std::vector<u32> context_bytes;
    std::vector<u16> functions;
    std::vector<u16> answer_bytes;
    std::vector<std::byte> contexts;
    std::vector<std::byte> answers;

    u64 raw_bytes() const {
      return potids.size() * format::kObjectArchiveCallBytes + contexts.size() + answers.size();
    }
    void clear();
    void copy_to(std::byte* raw) const;
  };
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const noexcept;
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };

  bool fits(const std::byte* blocks) const;
  Status visit_block(const std::byte* block, u64 functions, const Visit& visit);
  void seal();
  std::byte* extend(u64 bytes);
  Failure damaged(const char* what) const;

  media::LinearMedium& medium_;
  const u64 write_bytes_;
  const u64 place_;
  const u64 lines_;
  const u64 identity_;
  const u64 checkpoint_;  ///< of the head that it was made of
  End end_;               ///< that the newest head names
  End next_;              ///< behind what was added since
  Columns columns_;
  u64 index_ = 0;  ///< of the log, behind what was added
  u64 begin_ = 0;  ///< of the block that is being made
  /// What is written next: from the beginning of the medium's page in which `end_` lies.
  AlignedBuffer out_;
  u64 out_bytes_ = 0;
  std::vector<std::byte> page_;  ///< block media: that page, as far as it is used
  AlignedBuffer raw_;
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> compression_;
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> decompression_;  ///< while it is read
};

}  // namespace perdura::object
