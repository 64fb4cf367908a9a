// What a power failure may leave on a medium, and running recovery on all of it.
//
// A recorded run gives, for a failure at any moment, a CrashState: bytes that are certain, and
// atoms (what the hardware never tears) of which any of several contents may be there. Nothing is
// chosen beforehand: an Execution presents the state as a medium and chooses an atom's content when
// recovery looks at it. What nobody looks at stays undecided, so one execution stands for all
// states that differ only there.
//
//   a record that recovery verifies      whole, in one of the contents it may have, or torn
//   bytes that recovery reads as such    each atom by itself
//
// Choices are numbered in the order of asking, so the same numbers give the same execution again.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "media/record.hpp"

namespace perdura::testing {

using media::Bytes;
using media::MutableBytes;
using media::Site;

/// What a failure tears, and what not.
enum class Tearing {
  kWords,         ///< NVM, non-temporal stores: any subset of the 8-byte words
  kLinePrefixes,  ///< NVM, cached stores: of each 64-byte line a prefix of its stores
  kSectors512,    ///< a disk: any subset of its sectors
  kSectors4096,
};
u64 atom_bytes(Tearing tearing);

/// A part of the protocol left out, to see whether anybody notices.
struct Mutation {
  enum class Kind {
    kBarrier,  ///< a barrier that does nothing
    kWrite,    ///< a write that no barrier covers
    kWhole,    ///< a record believed without looking at its checksum
  };
  Kind kind = Kind::kBarrier;
  const Site* site = nullptr;

  bool is(Kind which, const Site* where) const { return kind == which && site == where; }
};

/// The sites that were passed, by what was done there.
struct Passed {
  std::set<std::pair<Mutation::Kind, const Site*>> sites;
  void note(Mutation::Kind kind, const Site& site) { sites.emplace(kind, &site); }
};

class CrashState {
 public:
  /// A failure after the first `end` calls of `history`.
  CrashState(const media::History& history, size_t end, Tearing tearing,
             const Mutation* mutation = nullptr);

  u64 undecided() const { return atoms_.size(); }
  u64 size() const { return size_; }
  /// What is certain; undecided atoms have their old content. Not while an execution has it.
  const std::vector<std::byte>& image() const {
    PERDURA_ASSERT(image_.size() == size_);
    return image_;
  }
  /// Decimal logarithm of the number of states.
  double log10_states() const;
  /// A content of the medium: option `choose(atom, options)` of each undecided atom.
  template <class Choose>
  std::vector<std::byte> content(Choose&& choose) const {
    std::vector<std::byte> bytes = image();
    for (size_t i = 0; i < atoms_.size(); ++i) {
      const u32 chosen = choose(i, atoms_[i].count);
      std::copy_n(option(atoms_[i], chosen), atom_bytes_,
                  bytes.begin() + static_cast<std::ptrdiff_t>(atoms_[i].offset));
    }
    return bytes;
  }
  /// The same state with each atom decided.
  template <class Choose>
  CrashState decided(Choose&& choose) const {
    CrashState state = *this;
    state.image_ = content(choose);
    state.atoms_.clear();
    return state;
  }
  /// A process was killed, and not the power: all that it wrote can be read, and what no barrier
  /// covered may still be in the caches alone. It is durable when it is found whole, or written
  /// again and covered.
  CrashState killed() const {
    CrashState state = *this;
    state.killed_ = true;
    return state;
  }
  /// All writes reached the medium.
  CrashState nothing_lost() const {
    return decided([](size_t, u32 options) { return options - 1; });
  }

 private:
  friend class Execution;
  friend class ExecutedMedium;

  struct Atom {
    u64 offset;
    u32 first;  ///< its options: this one and the following in options_
    u32 count;
    u32 distinct;  ///< contents among them
  };
  struct Option {
    size_t call;   ///< that wrote it; 0 for the old content
    size_t place;  ///< in arena_
  };
  /// Options of atoms that were looked at.
  using Content = std::vector<u32>;
  /// A record that was found torn, whatever else its undecided atoms have: so it is from then on,
  /// also when the next failure comes, until it is written again.
  struct Torn {
    u64 offset;
    u64 length;
    u64 undecided;                  ///< atoms of it
    std::vector<Content> contents;  ///< those it is not
  };
  CrashState() = default;

  const std::byte* option(const Atom& atom, u32 index) const {
    return arena_.data() + options_[atom.first + index].place;
  }

  class Builder;

  u64 atom_bytes_ = 8;
  Tearing tearing_ = Tearing::kWords;
  std::vector<std::byte> image_;  ///< undecided atoms hold their old content; `size_` bytes
  u64 size_ = 0;
  std::vector<Atom> atoms_;  ///< sorted by offset
  std::vector<Option> options_;
  std::vector<std::byte> arena_;
  std::vector<Torn> torn_;
  bool killed_ = false;
  u64 size_min_ = 0;  ///< growth that no barrier covers may have happened or not
};

/// The numbers chosen in an execution, and how to get to the next one.
class Choices {
 public:
  void rewind() { next_ = 0; }
  u32 choose(u32 alternatives) {
    if (alternatives == 1) return 0;
    if (next_ == choices_.size()) choices_.push_back({0, alternatives});
    return choices_[next_++].taken;
  }
  /// Set up for the next execution, depth first; false when all were run.
  bool advance();
  /// Whether what was chosen so far in this execution differs from the one before.
  bool differs() const { return next_ >= differs_from_; }

  std::vector<u32> taken() const;
  /// Choose these, and then the first alternatives.
  void set(std::span<const u32> taken);

 private:
  struct Choice {
    u32 taken;
    u32 alternatives;
  };
  std::vector<Choice> choices_;
  size_t next_ = 0;
  size_t differs_from_ = 0;  ///< this many choices and more
};

/// One state, for many executions, one at a time.
class Execution {
 public:
  /// Called at each barrier, before it has an effect.
  using AtBarrier = std::function<void(Execution&)>;

  Execution(const CrashState& state, media::Geometry geometry, Choices& choices,
            const Mutation* mutation, AtBarrier at_barrier, Passed* passed = nullptr)
      : Execution(state, nullptr, geometry, choices, mutation, std::move(at_barrier), passed) {}
  /// In the image of the state itself, which has it back as it was when the execution ends: images
  /// of a megabyte take as long to copy as a recovery takes.
  struct InPlace {
    CrashState& state;
  };
  Execution(InPlace in, media::Geometry geometry, Choices& choices, const Mutation* mutation,
            AtBarrier at_barrier, Passed* passed = nullptr)
      : Execution(in.state, &in.state, geometry, choices, mutation, std::move(at_barrier), passed) {
  }
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Back to the beginning.
  void reset();
  /// Change what is there, as decay does, until reset().
  void damage(u64 offset, Bytes bytes) { store(offset, bytes.data(), bytes.size()); }
  void truncate(u64 size) { size_ = size; }
  /// The state as a medium, for one owner at a time.
  std::unique_ptr<media::Medium> medium();

  /// Tells executions of one state from those of others.
  u64 state_id() const { return state_id_; }
  /// Whether the page at `offset` is as it is in the state, and nothing of it was undecided there.
  bool untouched(u64 offset) const { return untouched_[offset / kPageBytes] != 0; }

  /// Of bytes of the medium as they are now: whether they surely are `expected`.
  bool surely_equals(u64 offset, Bytes expected) const;
  /// The same of a page, where lines of `patched` (a bit each) do not matter.
  bool page_surely_equals(u64 offset, const std::byte* expected, u64 patched) const;

  void copy(u64 offset, MutableBytes into) const {
    std::copy_n(image_.begin() + static_cast<std::ptrdiff_t>(offset), into.size(), into.begin());
  }
  /// Stores to the medium so far, decisions included.
  size_t stores() const { return undo_.entries.size(); }
  /// Whether a store after that number changed bytes at `from` or later.
  bool changed_since(size_t stores, u64 from) const;

  /// Whether one of them was to [offset, offset + length).
  bool stored_since(size_t stores, u64 offset, u64 length) const;

  /// A digest of everything that a failure now could leave.
  u64 digest() const;
  /// What a failure now may leave.
  CrashState crash_state() const;
  /// The same for `use` alone, in the execution's own image, which is as it was afterwards. Nobody
  /// else may use the medium meanwhile.
  void with_crash_state(const std::function<void(CrashState&)>& use);

 private:
  friend class ExecutedMedium;

  static constexpr u32 kCertain = ~u32{0};
  struct Undo {
    u64 offset;
    u32 length;
    size_t place;  ///< of the old bytes
  };
  struct UndoLog {
    std::vector<Undo> entries;
    std::vector<std::byte> bytes;

    void keep(u64 offset, const std::byte* old, u64 length) {
      entries.push_back({offset, static_cast<u32>(length), bytes.size()});
      bytes.insert(bytes.end(), old, old + length);
    }
    /// Everything back into `image`, the last first.
    void undo(std::vector<std::byte>& image);
  };
  struct StatusUndo {
    size_t atom;
    u32 status;
  };
  /// A write that no barrier covers.
  struct Pending {
    u64 offset;
    u64 length;
    size_t place;  ///< of its bytes in pending_bytes_
    size_t old;    ///< of the bytes before it in undo_bytes_
    bool covered;  ///< by the next barrier
  };
  /// An atom whose content nobody looked at before a pending write.
  struct Shadowed {
    u64 offset;
    u32 status;
  };
  using Content = CrashState::Content;
  using Torn = CrashState::Torn;
  /// An undecided atom in a range, whose bytes there are [begin, end).
  struct Look {
    const CrashState::Atom* atom;
    u64 begin;
    u64 end;
    std::vector<u32> options{};         ///< that differ there
    std::vector<u32> representative{};  ///< of each option: the first that is the same there
  };

  Execution(const CrashState& state, CrashState* lender, media::Geometry geometry, Choices& choices,
            const Mutation* mutation, AtBarrier at_barrier, Passed* passed);

  /// What a failure now may leave, in `image`, which is as image_. What is overwritten there is
  /// kept in `undo`, unless that is null.
  CrashState left_by_failure(std::vector<std::byte> image, UndoLog* undo) const;
  void restore_image();
  void grow(u64 size, std::byte content);

  u32 status_at(u64 offset) const { return statuses_[offset / state_.atom_bytes_]; }
  void mark(size_t atom, u32 status);
  void set_status(u64 offset, u32 status);
  void store(u64 offset, const std::byte* from, u64 length);
  void write(u64 offset, Bytes data, const Site& site);
  void barrier(const Site& site);
  bool any_undecided(u64 offset, u64 length) const;
  u64 undecided_in(u64 offset, u64 length) const;
  void decide_each(u64 offset, u64 length);
  bool decide(u64 offset, std::byte* bytes, u64 length, const Site& site,
              const media::Medium::Fits& fits);
  void look_at(u64 offset, u64 length);
  bool contents(std::vector<Content>& found) const;
  void settle(const Content& content);
  void leave_unflushed();
  void flush(u64 offset, u64 length);
  u64 size();

  const u64 state_id_;
  const CrashState& state_;
  CrashState* const lender_;  ///< whose image this is, or null
  const media::Geometry geometry_;
  Choices& choices_;
  const Mutation* const mutation_;
  const AtBarrier at_barrier_;
  Passed* const passed_;
  std::vector<std::byte> image_;
  /// The lender's own bytes where the image had to move: others hold addresses in them.
  std::vector<std::byte> outgrown_;
  std::vector<u8> untouched_;  ///< by page
  std::vector<u8> decided_;    ///< what untouched_ is at the beginning
  std::vector<u32> undecided_in_page_;
  std::vector<u32> statuses_;  ///< by atom: kCertain or an index of state_.atoms_
  std::optional<u64> size_;
  std::vector<Torn> torn_;
  std::vector<Pending> pending_;
  std::vector<Shadowed> shadowed_;
  std::vector<Shadowed> unflushed_;  ///< of a process that was killed
  std::vector<std::byte> pending_bytes_;
  u64 digest_ = 0;

  UndoLog undo_;
  std::vector<StatusUndo> status_undo_;
  AlignedBuffer scratch_;
  std::vector<Look> looked_at_;
  std::vector<Content> contents_;
};

}  // namespace perdura::testing
