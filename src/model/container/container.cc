// The C++ surface of containers: failures become exceptions.
#include <perdura/container.hpp>

#include <cstring>

#include <perdura/store.hpp>

#include "model/container/container_runtime.hpp"

namespace perdura {

using detail::ContainerRuntime;
using detail::Mutator;
using detail::VolatileHeap;
using track::InOperation;

namespace {

/// The heap that an object is in, and this thread inside an operation of it. Volatile objects
/// before those of a container, as a cut stops them.
class Home {
 public:
  explicit Home(const void* object)
      : volatile_operation_(VolatileHeap::instance().mutators().this_thread()) {
    VolatileHeap& objects = VolatileHeap::instance();
    if (objects.contains(object)) {
      heap_ = &objects.heap();
      mutator_ = &objects.mutators().this_thread();
      return;
    }
    detail::Runtime* const runtime = detail::runtime_holding(object);
    if (runtime == nullptr)
      throw Error(Code::kMisuse, "the address is of no object; give it back to where it came from");
    value_or_throw(runtime->usable());
    heap_ = &runtime->heap();
    mutator_ = &runtime->mutators().this_thread();
    operation_.emplace(*mutator_);
  }
  heap::Heap& heap() const { return *heap_; }
  Mutator& mutator() const { return *mutator_; }

 private:
  const InOperation volatile_operation_;
  std::optional<const InOperation> operation_;
  heap::Heap* heap_ = nullptr;
  Mutator* mutator_ = nullptr;
};

/// A volatile object, as `call(heap, mutator)` allocates it.
template <class Call>
void* make_volatile(Call&& call) {
  VolatileHeap& objects = VolatileHeap::instance();
  Mutator& mutator = objects.mutators().this_thread();
  const InOperation operation(mutator);
  return value_or_throw(call(objects.heap(), mutator));
}

}  // namespace

void* allocate(const perdura_type& type, std::size_t count) {
  return make_volatile([&](heap::Heap& heap, Mutator& mutator) {
    return heap.allocate_typed(mutator, type, count);
  });
}

void* allocate_flexible(const perdura_type& type, std::size_t bytes) {
  return make_volatile([&](heap::Heap& heap, Mutator& mutator) {
    return heap.allocate_flexible(mutator, type, bytes);
  });
}

void* reallocate(void* object, std::size_t bytes) {
  const Home home(object);
  VolatileHeap& objects = VolatileHeap::instance();
  if (!objects.has_said()) [[likely]]
    return value_or_throw(home.heap().reallocate_typed(home.mutator(), object, bytes));
  const u64 old_bytes = value_or_throw(home.heap().usable(object)).bytes;
  auto said = objects.take(object, old_bytes);
  auto made = home.heap().reallocate_typed(home.mutator(), object, bytes);
  if (!made) {
    objects.give(std::move(said), object, old_bytes);
    throw_failure(std::move(made).failure());
  }
  said.pin = {};
  objects.give(std::move(said), *made, value_or_throw(home.heap().usable(*made)).bytes);
  return *made;
}

void deallocate(void* object) {
  if (object == nullptr) return;
  const Home home(object);
  VolatileHeap& objects = VolatileHeap::instance();
  if (!objects.has_said()) [[likely]] {
    value_or_throw(home.heap().deallocate(home.mutator(), object));
    return;
  }
  const u64 bytes = value_or_throw(home.heap().usable(object)).bytes;
  auto said = objects.take(object, bytes);  // of another one's from when it is freed
  Status freed = home.heap().deallocate(home.mutator(), object);
  if (!freed) {
    objects.give(std::move(said), object, bytes);
    throw_failure(std::move(freed).failure());
  }
}

// What is in a container stays there.
void pin(const void* object) {
  VolatileHeap& objects = VolatileHeap::instance();
  if (!objects.contains(object)) {
    if (detail::Runtime* const runtime = detail::runtime_holding(object)) {
      value_or_throw(runtime->heap().usable(object));
      return;
    }
    throw Error(Code::kMisuse, "only an object can be pinned, and at the address there is none");
  }
  value_or_throw(objects.heap().usable(object));  // not one inside of an object
  objects.pin(object);
}

void unpin(const void* object) {
  VolatileHeap& objects = VolatileHeap::instance();
  if (objects.contains(object) && !objects.unpin(object))
    throw Error(Code::kMisuse, "the object is not pinned");
}

void refer(void** pointer) { VolatileHeap::instance().refer(pointer); }
void forget(void** pointer) { VolatileHeap::instance().forget(pointer); }

// --- containers ----------------------------------------------------------------------------------

namespace {

/// For a destructor, or a call that cannot fail. A forked child has neither the threads nor the
/// memory that tearing down its parent's container would need.
void end(ContainerRuntime* container, const char* call, bool closes) noexcept {
  if (!container->runtime().usable()) return;
  container->runtime().require_outside_at_end(container->require_outside_operation(call));
  if (closes) {
    const Status closed = container->close();
    (void)closed;  // nobody is there to be told; close() tells
  }
  delete container;
}

}  // namespace

void detail::ContainerDeleter::operator()(ContainerRuntime* container) const noexcept {
  end(container, "destroying it", std::uncaught_exceptions() == 0);
}

void detail::throw_closed_container() {
  throw Error(Code::kMisuse, "the container was closed, or moved to another object; open it again");
}

ContainerOperation::ContainerOperation(ContainerRuntime& container) : container_(container) {
  container_.enter();
}
ContainerOperation::~ContainerOperation() { container_.leave(); }

Container Container::open(std::string_view uri, const Options& options) {
  return Container(std::unique_ptr<ContainerRuntime, detail::ContainerDeleter>(
      ContainerRuntime::open(uri, options).release()));
}

namespace {
/// Not one that was closed, nor a forked parent's.
ContainerRuntime& usable(const Container& container) {
  ContainerRuntime& found = container.runtime();
  value_or_throw(found.runtime().usable());
  return found;
}
}  // namespace

void* Container::root(const perdura_type& type) {
  return value_or_throw(guarded([&] { return runtime().root(type); }));
}
std::uint64_t Container::point() { return value_or_throw(runtime().point()); }
std::uint64_t Container::point_async() { return value_or_throw(runtime().point_async()); }
void Container::sync() { value_or_throw(usable(*this).sync()); }

void Container::point_every(std::chrono::milliseconds interval) {
  usable(*this).runtime().checkpointer().every(interval);
}

std::uint64_t Container::durable_version() const {
  return usable(*this).runtime().checkpointer().durable_version();
}

void Container::exclude(const void* pointer) {
  (void)runtime();  // not one that was closed
  VolatileHeap::instance().exclude(pointer);
}

void Container::close() {
  if (!container_) return;
  value_or_throw(container_->runtime().usable());
  Status closed = container_->close();
  if (!closed && closed.failure().code == Code::kMisuse) throw_failure(std::move(closed).failure());
  delete container_.release();
  if (!closed) throw_failure(std::move(closed).failure());
}

void Container::discard() noexcept {
  if (container_) end(container_.release(), "discarding it", false);
}

void Container::warn_of_sharing(bool warn) { usable(*this).warn_of_sharing(warn); }
std::vector<std::string> Container::shared_objects() const {
  return value_or_throw(guarded([this] { return usable(*this).shared_objects(); }));
}

ContainerStatistics Container::statistics() const { return usable(*this).statistics(); }
std::vector<std::string> Container::nulled_pointers() const { return usable(*this).nulled(); }
HeapAudit Container::audit() const { return usable(*this).runtime().heap().audit(); }

bool Container::contains(const void* address) const {
  return usable(*this).runtime().region().contains(address);
}

}  // namespace perdura
