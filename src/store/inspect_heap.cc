// What is in a region's heap, in its newest version.
#include <algorithm>

#include <fmt/format.h>

#include "heap/container_view.hpp"
#include "heap/heap.hpp"
#include "heap/members.hpp"
#include "store/heap_view.hpp"
#include "store/inspection.hpp"

namespace perdura::store {
namespace {

constexpr u64 kRootNameMax = 255;

void describe_container(const heap::ContainerView& view, ContainerDescription& description) {
  for (u32 i = 0; i < view.state().module_count; ++i) {
    const format::ContainerModule& module = view.modules()[i];
    auto& described = description.modules.emplace_back();
    described.name = heap::name_of_file(view.file_of(module));
    for (u32 byte = 0; byte < module.build_id_bytes; ++byte)
      described.build_id += fmt::format("{:02x}", module.build_id[byte]);
  }
  for (u32 i = 0; i < view.state().symbol_count; ++i)
    ++description.modules[view.symbols()[i].module].symbols;
  view.for_each_marked([&](u64) { ++description.marked_pages; });
  description.shadows = view.state().shadow_count;
  for (u32 i = 0; i < view.state().shadow_count; ++i)
    description.shadow_bytes += view.shadows()[i].bytes;
}

Status read_roots(const heap::Heap& heap, const region::Region& region,
                  RegionDescription& description) {
  const auto& header = *reinterpret_cast<const format::HeapHeader*>(region.base());
  for (u64 at = header.roots; at != 0;) {
    const auto* node = reinterpret_cast<const format::RootNode*>(region.base() + at);
    PERDURA_ASSIGN(const heap::Heap::Usable usable, heap.usable(node));
    if (usable.bytes < sizeof *node ||
        node->name_length > std::min(kRootNameMax, usable.bytes - sizeof *node))
      return Failure{Code::kCorrupt,
                     "the root at region offset " + std::to_string(at) + " has an impossible name"};
    description.roots.push_back(
        {.name = std::string(reinterpret_cast<const char*>(node + 1), node->name_length),
         .offset = node->object,
         .fingerprint = node->fingerprint,
         .type = {}});
    at = node->next;
  }
  return {};
}

}  // namespace

Status Inspection::read_heap(RegionDescription& description, const HeapVisit& visit) {
  if (durable_version() == 0) return {};
  format::RegionRecord record = record_;
  record.address = 0;
  record.aliases = 0;  // nobody stores to it
  PERDURA_ASSIGN(const auto region, map_newest(record));
  try {
    heap::Heap heap(*region, volume_.name());
    PERDURA_TRY(heap.attach());
    description.heap = heap.audit();
    if (!description.heap->clean) return {};
    const Status content = check_content(heap, *region);
    if (!content) damaged_part_ = content_part();
    PERDURA_TRY(content);
    PERDURA_TRY(read_roots(heap, *region, description));
    PERDURA_ASSIGN(const auto types, heap.types().read());
    for (const heap::Layout& type : types)
      description.types.push_back({heap::readable_name(type.name), heap::is_members_entry(type)
                                                                       ? heap::readable(type.text)
                                                                       : type.text});
    PERDURA_ASSIGN(const auto container, heap::ContainerView::find(heap, *region));
    if (container) describe_container(*container, description.container.emplace());
    PERDURA_ASSIGN(const HeapView view, HeapView::of(heap, *region, record_));
    for (RootDescription& root : description.roots)
      if (const auto object = view.find(root.offset); object && object->type != nullptr)
        root.type = heap::readable_name(object->type->name);
    if (visit) PERDURA_TRY(visit(heap, *region));
  } catch (const Error& error) {
    return Failure{error.code(), error.what()};
  }
  return {};
}

}  // namespace perdura::store
