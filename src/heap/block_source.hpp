// Another durable heap, of whose blocks this one has copies: what addresses lead to there, and
// blocks of the same types and sizes here. While the mutators of both stand still.
#pragma once

#include <optional>
#include <vector>

#include "heap/tag_map.hpp"
#include "heap/typed_words.hpp"

namespace perdura::heap {

class BlockSource {
 public:
  struct Found {
    std::byte* place;
    u64 bytes;
    u16 tag;
  };

  /// Of heaps whose types are loaded.
  BlockSource(Heap& from, Heap& to, detail::Mutator& mutator);

  /// The typed block that an address of the other region leads into.
  std::optional<Found> find(u64 address) const;

  /// A block of that type and size in this heap, zeroed. kTypeMismatch when it knows another layout
  /// of the type.
  Result<void*> allocate_like(const Found& block);
  /// Whether a block of this heap is of that type and size.
  Result<bool> is_like(const Found& block, const void* own);

  /// visit(word, maybe) of each word of the block that may be a pointer.
  template <class Visit>
  void for_each_pointer(const Found& block, Visit&& visit) const {
    if (const Layout* const layout = layouts_.of(block.tag))
      layout->for_each_pointer(block.place, block.bytes, (block.tag & 1) != 0, visit);
  }

  /// Make a block of this heap one like the other, but for its pointers: these are as
  /// translate(word, maybe, own_word) says. Pages that are so already are not stored to.
  template <class Translate>
  void copy(const Found& block, std::byte* own, Translate&& translate) {
    scratch_.assign(block.place, block.place + block.bytes);
    for_each_pointer(block, [&](u64* word, bool maybe) {
      const auto at = static_cast<u64>(reinterpret_cast<std::byte*>(word) - block.place);
      const u64 value = translate(word, maybe, reinterpret_cast<const u64*>(own + at));
      std::memcpy(&scratch_[at], &value, sizeof value);
    });
    store_changed(own);
  }

 private:
  void store_changed(std::byte* own) const;

  Heap& to_;
  detail::Mutator& mutator_;
  TagMap tags_;
  const TypedWords words_;
  const Layouts layouts_;
  std::vector<std::byte> scratch_;
};

}  // namespace perdura::heap
