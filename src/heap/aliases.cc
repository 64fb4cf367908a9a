// Where the program sees blocks of a region with aliases, and what it can store to there.
#include <algorithm>
#include <cstring>

#include "heap/heap.hpp"

namespace perdura::heap {

using format::UnitEntry;
using format::UnitKind;

// Of a place in a block or at its beginning. Large blocks begin with a page.
std::byte* BlockMap::shown_at(u64 offset) const {
  std::byte* const place = region_.base() + offset;
  if (region_.aliases() == 0) return place;
  u64 start = 0;
  if (const Block slab = slab_of(place); slab.slab != nullptr) {
    const u64 block_bytes = slab.info().block_bytes;
    start = static_cast<u64>(place - units_.address(slab.unit)) / block_bytes * block_bytes;
  }
  return region_.alias(region_.alias_of(start)) + offset;
}

// A word as the last version has it.
template <class T>
T Heap::last(const T& place) const {
  const u64 offset = region_.offset_of(&place);
  const track::Scatter::Line line = scatter_->image(offset / kLineBytes);
  T value;
  std::memcpy(&value, line.data() + offset % kLineBytes, sizeof value);
  return value;
}

// Whether the place of a small block that was just given out is a free block in the last version.
bool Heap::was_free(const std::byte* place) const {
  const Result<Block> block = blocks_.find_at(place);
  if (!block || block->slab == nullptr) return true;
  const UnitEntry entry = last(units_.table()[block->unit]);
  if (entry.kind == UnitKind::kFree) return true;
  if (entry.kind != UnitKind::kSlab || entry.size_class != block->entry.size_class) return false;
  const ClassInfo& info = block->info();
  const u64 free = last(block->slab->free()[block->index / 64]) |
                   last(block->slab->remote(info)[block->index / 64]);
  return (free >> block->index % 64 & 1) != 0;
}

Result<void*> Heap::allocate_apart(detail::Mutator& mutator, u64 size) {
  if (scatter_ == nullptr) return allocate(mutator, size, 16);
  constexpr size_t kAttempts = 64;
  std::array<void*, kAttempts> given{};
  size_t count = 0;
  Failure failure{};
  bool found = false;
  while (!found && count < kAttempts) {
    Result<void*> block = allocate(mutator, size, kLineBytes);
    if (!block) {
      failure = block.failure();
      break;
    }
    given[count++] = *block;
    found = was_free(blocks_.place_of(*block));
  }
  if (count == 0) return failure;
  for (size_t i = 0; i + 1 < count; ++i) PERDURA_TRY(deallocate(mutator, given[i]));
  return given[count - 1];
}

namespace {

// Of bytes [first, last] of a page, which may reach beyond it.
u64 lines_of(u64 page_begin, u64 first, u64 last) {
  first = std::max(first, page_begin);
  last = std::min(last, page_begin + kPageBytes - 1);
  const u64 first_line = (first - page_begin) / kLineBytes;
  return bit_range(static_cast<unsigned>(first_line),
                   static_cast<unsigned>((last - page_begin) / kLineBytes - first_line + 1));
}

}  // namespace

u64 BlockMap::visible_lines(u64 page, u64 alias) const {
  const std::byte* const place = region_.base() + page * kPageBytes;
  const Block found = slab_of(place);
  Slab* const slab = found.slab;
  if (slab == nullptr)
    return alias == 0 && found.unit != ~u64{0} && units_.may_be_used(found.unit) ? ~u64{0} : u64{0};

  const ClassInfo& info = found.info();
  const auto begin = static_cast<u64>(place - units_.address(found.unit));
  u64 lines = 0;
  const auto add = [&](u64 index) {
    if (index >= info.first_block && index < info.block_count && !slab->is_free(info, index))
      lines |= lines_of(begin, index * info.block_bytes, (index + 1) * info.block_bytes - 1);
  };
  // A block that crosses into this page belongs to the part in which it starts.
  const u64 crossing = begin / info.block_bytes;
  if (crossing * info.block_bytes != begin &&
      region_.alias_of(crossing * info.block_bytes) == alias)
    add(crossing);
  const u64 part_bytes = kPageBytes / region_.aliases();
  const u64 part = begin + alias * part_bytes;
  for (u64 index = (part + info.block_bytes - 1) / info.block_bytes;
       index * info.block_bytes < part + part_bytes; ++index)
    add(index);
  return lines;
}

void BlockMap::blocks_of_page(u64 page, std::vector<BlockLines>& into) const {
  into.clear();
  const std::byte* const place = region_.base() + page * kPageBytes;
  const Block found = slab_of(place);
  Slab* const slab = found.slab;
  if (slab == nullptr) {
    if (found.unit != ~u64{0}) into.push_back({0, ~u64{0}, units_.may_be_used(found.unit)});
    return;
  }
  const ClassInfo& info = found.info();
  const auto begin = static_cast<u64>(place - units_.address(found.unit));
  for (u64 index = std::max<u64>(begin / info.block_bytes, info.first_block);
       index < info.block_count && index * info.block_bytes < begin + kPageBytes; ++index)
    into.push_back({index * info.block_bytes % kPageBytes,
                    lines_of(begin, index * info.block_bytes, (index + 1) * info.block_bytes - 1),
                    !slab->is_free(info, index)});
}

}  // namespace perdura::heap
