// The C surface of containers.
#include <perdura/container.h>

#include <perdura/container.hpp>

#include "model/container/container_runtime.hpp"
#include "store/c_error.hpp"

using perdura::Code;
using perdura::Error;
using perdura::detail::c_call;
using perdura::detail::pointer_of;
using perdura::detail::required;

struct perdura_container {
  perdura::Container container;
};

extern "C" {

void* perdura_new(const perdura_type* type, size_t count) {
  return pointer_of([&] { return perdura::allocate(required(type), count); });
}

void* perdura_new_flexible(const perdura_type* type, size_t bytes) {
  return pointer_of([&] { return perdura::allocate_flexible(required(type), bytes); });
}

void* perdura_renew(void* object, size_t bytes) {
  return pointer_of([&] { return perdura::reallocate(object, bytes); });
}

int perdura_delete(void* object) {
  return c_call([&] { perdura::deallocate(object); });
}

int perdura_pin(const void* object) {
  return c_call([&] { perdura::pin(object); });
}
int perdura_unpin(const void* object) {
  return c_call([&] { perdura::unpin(object); });
}
int perdura_refer(void** pointer) {
  return c_call([&] { perdura::refer(pointer); });
}
int perdura_forget(void** pointer) {
  return c_call([&] { perdura::forget(pointer); });
}

int perdura_container_open_sized(const char* uri, const perdura_options* options,
                                 size_t options_bytes, perdura_container** container) {
  return c_call([&] {
    if (uri == nullptr || container == nullptr)
      throw Error(Code::kInvalidArgument, "perdura_container_open needs a URI and a container");
    *container = new perdura_container{
        perdura::Container::open(uri, perdura::detail::options_of(options, options_bytes))};
  });
}
// For programs from before sizes were handed over, as in store/c_api.cc.
int perdura_container_open_first(const char* uri, const perdura_options* options,
                                 perdura_container** container) __asm__("perdura_container_open");
int perdura_container_open_first(const char* uri, const perdura_options* options,
                                 perdura_container** container) {
  return perdura_container_open_sized(uri, options, perdura::detail::kFirstOptionsBytes, container);
}

void* perdura_container_root(perdura_container* container, const perdura_type* type) {
  return pointer_of([&] { return container->container.root(required(type)); });
}

int perdura_container_point(perdura_container* container, uint64_t* version) {
  return c_call([&] {
    const std::uint64_t made = container->container.point();
    if (version != nullptr) *version = made;
  });
}

int perdura_container_point_async(perdura_container* container, uint64_t* version) {
  return c_call([&] {
    const std::uint64_t begun = container->container.point_async();
    if (version != nullptr) *version = begun;
  });
}

int perdura_container_sync(perdura_container* container) {
  return c_call([&] { container->container.sync(); });
}

int perdura_container_point_every(perdura_container* container, uint32_t milliseconds) {
  return c_call([&] { container->container.point_every(std::chrono::milliseconds{milliseconds}); });
}

int perdura_container_exclude(perdura_container* container, const void* pointer) {
  return c_call([&] { container->container.exclude(pointer); });
}

int perdura_container_warn_of_sharing(perdura_container* container, int warn) {
  return c_call([&] { container->container.warn_of_sharing(warn != 0); });
}

int perdura_container_begin(perdura_container* container) {
  return c_call([&] { container->container.runtime().enter(); });
}

void perdura_container_end(perdura_container* container) {
  const int result = c_call([&] {
    if (!container->container.runtime().in_operation())
      throw Error(
          Code::kMisuse,
          "perdura_container_end without perdura_container_begin in this thread; nothing was "
          "ended");
    container->container.runtime().leave();
  });
  (void)result;  // is what perdura_last_code says
}

int perdura_container_close(perdura_container* container) {
  if (container == nullptr) return 0;
  const int result = c_call([&] { container->container.close(); });
  if (result != -static_cast<int>(Code::kMisuse)) delete container;
  return result;
}

void perdura_container_discard(perdura_container* container) {
  if (container == nullptr) return;
  container->container.discard();
  delete container;
}

}  // extern "C"
