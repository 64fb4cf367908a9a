#include "heap/block_source.hpp"

namespace perdura::heap {

BlockSource::BlockSource(Heap& from, Heap& to, detail::Mutator& mutator)
    : to_(to),
      mutator_(mutator),
      tags_(from, to, mutator),
      words_(from),
      layouts_(from.types().layouts()) {}

std::optional<BlockSource::Found> BlockSource::find(u64 address) const {
  const Block block = words_.find(reinterpret_cast<const void*>(address));
  if (block.entry.units == 0 || layouts_.of(block.tag()) == nullptr) return std::nullopt;
  return Found{words_.place_of(block), block.bytes(), block.tag()};
}

Result<void*> BlockSource::allocate_like(const Found& block) {
  PERDURA_ASSIGN(const u16 tag, tags_.of(block.tag));
  return to_.allocate_tagged(mutator_, tag, block.bytes, layouts_.of(block.tag)->alignment);
}

Result<bool> BlockSource::is_like(const Found& block, const void* own) {
  PERDURA_ASSIGN(const u16 tag, tags_.of(block.tag));
  PERDURA_ASSIGN(const Block found, to_.blocks().find(own));
  return found.tag() == tag && found.bytes() == block.bytes;
}

void BlockSource::store_changed(std::byte* own) const {
  for (u64 at = 0; at < scratch_.size();) {
    const u64 in_page = reinterpret_cast<std::uintptr_t>(own + at) % kPageBytes;
    const u64 bytes = std::min(scratch_.size() - at, kPageBytes - in_page);
    if (std::memcmp(own + at, &scratch_[at], bytes) != 0)
      std::memcpy(own + at, &scratch_[at], bytes);
    at += bytes;
  }
}

}  // namespace perdura::heap
