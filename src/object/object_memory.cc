#include "object/object_memory.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "object/object_table.hpp"

namespace perdura::object {

static_assert(std::atomic<u64>::is_always_lock_free && sizeof(std::atomic<u64>) == sizeof(u64));

ObjectMemory::Places::Places(const Sizes& sizes)
    : callers(sizes.callers),
      admitted(round_up(sizeof(ObjectControl), kPageBytes)),
      waiters(round_up(admitted + callers * sizeof(u64), kPageBytes)),
      circle(round_up(waiters + sizes.lines * sizeof(u64), kPageBytes)),
      slots(circle + sizes.lines * kLineBytes),
      slot_bytes(kLineBytes + round_up(sizes.answer_bytes, kLineBytes)),
      image(sizes.answer_bytes == 0 ? slots
                                    : round_up(slots + kWaiterSlots * slot_bytes, kPageBytes)),
      image_bytes(pages_bytes(sizes.image_bytes)),
      end(image + image_bytes) {}

u64 ObjectMemory::bytes(const Sizes& sizes) { return Places(sizes).end; }

// The image is memory of its own: its size may change.
Result<ObjectMemory> ObjectMemory::of_process(const Sizes& sizes) {
  const Places places(sizes);
  PERDURA_ASSIGN(Mapping mapping, Mapping::anonymous(places.image));
  new (mapping.as()) ObjectControl;
  ObjectMemory memory(std::move(mapping), places, false, true);
  memory.image_ = AlignedBuffer(std::max<u64>(sizes.image_bytes, 1));
  return memory;
}

ObjectMemory ObjectMemory::among_processes(Mapping mapping, const Sizes& sizes, bool is_new) {
  if (is_new) {
    auto& control = *new (mapping.as()) ObjectControl;
    control.execution.share();
    control.log.claims.make();
    control.log.among_processes = true;
  }
  return {std::move(mapping), Places(sizes), true, is_new};
}

}  // namespace perdura::object
