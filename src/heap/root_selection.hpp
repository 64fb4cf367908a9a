// The lines that make a root and its object durable without anything else (FGCK's nv_ckone).
//
// An object that the last version has takes its own lines. One that is newer takes along what says
// that it is allocated and has a name: but not as these structures are now, where other blocks have
// been allocated and freed since, which must not become durable yet. So the allocation is repeated
// on the structures as the last version has them (overlay.hpp), and the lines that this changes are
// taken.
#pragma once

#include "commit/engine.hpp"
#include "heap/heap.hpp"
#include "heap/overlay.hpp"

namespace perdura::heap {

class RootSelection final : public commit::Selection {
 public:
  RootSelection(Heap& heap, track::Scatter& scatter, std::string_view name)
      : roots_(heap.roots()),
        blocks_(heap.blocks()),
        units_(blocks_.units()),
        scatter_(scatter),
        name_(name) {}

  Status select() override;
  void settle(bool durable) override;

 private:
  Status select(const Roots::Place& place);
  Status select_block(const Roots::Place& place, const Block& object);
  Status select_new(Overlay& last, const Roots::Place& place, const Block& object);
  Result<bool> is_in(const Overlay& last, const format::RootNode& root) const;
  bool is_same_block(const Overlay& last, const Block& block) const;
  Status allocate_in(Overlay& last, const Block& block) const;
  bool is_empty_slab(const Overlay& last, u64 unit) const;
  void give_back_in(Overlay& last, u64 unit) const;
  Status allocate_in_slab(Overlay& last, const Block& block, bool new_slab) const;
  static void link_in(Overlay& last, format::HeapHeader& header, format::RootNode& node,
                      u64 node_offset);
  Failure typed() const;
  Failure taken() const;
  void add_lines(std::byte* begin, u64 bytes);

  Roots& roots_;
  const BlockMap& blocks_;
  const Units& units_;
  track::Scatter& scatter_;
  const std::string name_;
  Overlay::Images changed_;
};

}  // namespace perdura::heap
