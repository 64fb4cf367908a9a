#include "store/heap_view.hpp"

namespace perdura::store {

HeapView::HeapView(heap::Heap& heap, const region::Region& region,
                   const format::RegionRecord& record)
    : region_(&region),
      home_address_(heap.home_address()),
      reserved_bytes_(format::reserved_bytes(record)),
      offset_mask_(record.aliases == 0 ? ~u64{0} : format::alias_stride(record.limit_bytes) - 1),
      words_(heap),
      types_(&heap.types().layouts()),
      layouts_(*types_) {}

Result<HeapView> HeapView::of(heap::Heap& heap, const region::Region& region,
                              const format::RegionRecord& record) {
  PERDURA_TRY(heap.load_typed());
  return HeapView(heap, region, record);
}

std::optional<HeapView::Object> HeapView::find(u64 offset) const {
  if (offset >= region_->limit()) return std::nullopt;
  const heap::Block block = words_.find(at(offset));
  if (block.entry.units == 0) return std::nullopt;
  const u16 tag = block.tag();
  return Object{.offset = region_->offset_of(words_.place_of(block)),
                .bytes = block.bytes(),
                .type = layouts_.of(tag),
                .is_flexible = (tag & 1) != 0};
}

std::optional<u64> HeapView::target_of(u64 pointer) const {
  const u64 distance = pointer - home_address_;
  if (distance >= reserved_bytes_) return std::nullopt;
  const u64 offset = distance & offset_mask_;
  if (offset >= region_->limit()) return std::nullopt;
  return offset;
}

}  // namespace perdura::store
