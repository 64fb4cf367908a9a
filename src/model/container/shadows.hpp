// A container's copies of the objects of other containers that it leads to (SoftPM §8, "Container
// sharing").
//
//   in memory    word of B ───────────────▶ object of A       one object, and both lead to it
//   in B         word of B holds A's address; the state's table says which shadow it stands for
//                word of a shadow ──▶ shadow of what the object leads to, or object of B
//
// Each point of B finds again what B leads to. A shadow then is as its object is; what is not found
// any more goes. When B is opened its words lead to the shadows, which are objects from there on,
// and the table is empty.
//
// An object of a container that was closed is not there to look at: its shadow stays as it was,
// with those that it leads to.
//
// Under the discovery mutex, while mutators stand still.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "format/container_format.hpp"
#include "heap/block_source.hpp"
#include "heap/closure.hpp"
#include "heap/container_view.hpp"

namespace perdura::detail {

/// A shadow, by an address.
struct ShadowPlace {
  u64 begin;
  u32 shadow;
};

class Shadows {
 public:
  /// Another container that is open.
  struct Other {
    const std::string* name;
    heap::Heap* heap;
    u64 begin;
    u64 bytes;
  };

  /// A discovery begins, and ends.
  void begin(format::ContainerState& state, heap::Closure::Side own, std::vector<Other> others);
  void end() { pass_.reset(); }

  /// Whether an address is in another container, or was when this one had its last point.
  bool concern(u64 address) const;
  /// The place in a shadow of what such an address leads to; 0: it leads to no object.
  Result<u64> follow(u64 address);
  /// Bring the shadow up to date that was found next, with words as translate(word, maybe, word of
  /// the shadow) says. False: there is none.
  template <class Translate>
  Result<bool> refresh_next(Translate&& translate) {
    if (pass_->waiting.empty()) return false;
    const Waiting next = pass_->waiting.back();
    pass_->waiting.pop_back();
    if (next.blocks == nullptr) {
      PERDURA_TRY(keep_what_leads_from(next.shadow));
    } else {
      next.blocks->copy(next.block, copy_of(next.shadow), translate);
    }
    return true;
  }
  /// Give back those that were not found. Once all that were are up to date.
  Status sweep();

  /// visit(name, objects) of the other containers in which this discovery found any.
  template <class Visit>
  void for_each_other(Visit&& visit) const {
    for (const Source& source : pass_->sources)
      if (source.objects != 0) visit(*source.other.name, source.objects);
  }

 private:
  enum class Mark : u8 { kNotFound, kKept, kUpToDate };
  struct Source {
    Other other;
    std::unique_ptr<heap::BlockSource> blocks;  ///< since an address led there
    u64 objects;
  };
  struct Waiting {
    u32 shadow;
    heap::BlockSource* blocks;  ///< nullptr: it is kept as it is
    heap::BlockSource::Found block;
  };
  struct Pass {
    format::ContainerState& state;
    heap::Closure::Side own;
    std::vector<Source> sources;
    std::vector<Mark> marks;  ///< by shadow
    std::vector<Waiting> waiting;
    std::vector<ShadowPlace> closed;   ///< those of objects in no open container, by these
    std::vector<ShadowPlace> by_copy;  ///< those of before; since one was kept
    std::unique_ptr<heap::BlockSource> own_blocks;
  };

  static Status look_into(Pass& pass, Source& source);
  Result<u32> shadow_of(heap::BlockSource& blocks, const heap::BlockSource::Found& block);
  Status add(heap::BlockSource& blocks, const heap::BlockSource::Found& block, u64 original);
  void keep(u32 shadow);
  Status keep_what_leads_from(u32 shadow);
  const ShadowPlace* closed_at(u64 address) const;
  std::byte* copy_of(u32 shadow) const {
    return static_cast<std::byte*>(pass_->state.shadows[shadow].copy);
  }

  std::unordered_map<u64, u32> by_original_;
  std::optional<Pass> pass_;
};

/// The table that a container was closed with, while it is opened.
class ShadowsBefore {
 public:
  explicit ShadowsBefore(const heap::ContainerView& view);

  /// The place in a shadow of what a word led to, as the container's pointers hold.
  std::optional<u64> place_of(u64 value) const;
  /// They are objects as others from here on.
  Status end(heap::Heap& heap, Mutator& mutator) const;

 private:
  const heap::ContainerView& view_;
  std::vector<ShadowPlace> places_;  ///< of their originals
};

}  // namespace perdura::detail
