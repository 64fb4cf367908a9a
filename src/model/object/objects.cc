// The public face of objects: results become exceptions.
#include <perdura/objects.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/object/objects_runtime.hpp"

namespace perdura {

void object_changed(const void* first, size_t bytes) noexcept {
  object::ObjectChanges::report(first, bytes);
}

size_t object_bytes() noexcept { return object::InMethod::bytes(); }

namespace {

// A method may be run by a thread that holds what these wait for.
void refuse_in_method(const std::string& what) {
  throw Error(Code::kMisuse, "a method of an object " + what + "; do that when it has returned");
}

}  // namespace
namespace detail {

constinit thread_local std::uint32_t current_caller = 0;

void refuse_moved_from_object() {
  throw Error(Code::kMisuse,
              "an object that was moved from is used; use the one that it was moved to");
}

void object_defer(OpenObject& object, size_t method, Domain domain,
                  std::span<const std::byte> context) {
  const object::Call call = object.call_of(method, current_caller, domain, context);
  if (object.core().answers(call, nullptr)) return;
  value_or_throw(object.core().defer(call));
  object.level();
}

void object_call(OpenObject& object, size_t method, Domain domain,
                 std::span<const std::byte> context, void* result) {
  const object::Call call = object.call_of(method, current_caller, domain, context);
  if (object.core().answers(call, result)) return;
  value_or_throw(object.core().call(call, result));
  object.level();
}

void object_read(OpenObject& object, void (*look)(const void* state, void* with), void* with) {
  value_or_throw(object.core().read([&](const void* state) { look(state, with); }));
}

void object_sync(OpenObject& object) { value_or_throw(object.core().sync()); }

std::uint64_t object_checkpoint(OpenObject& object) {
  const u64 version = value_or_throw(object.core().checkpoint());
  object.level();
  return version;
}

void object_resize(OpenObject& object, size_t bytes, size_t bytes_min) {
  if (object::InMethod::any()) refuse_in_method("resizes object '" + object.core().name() + "'");
  if (bytes < bytes_min)
    throw Error(Code::kInvalidArgument,
                "object '" + object.core().name() + "' has at least its state's " +
                    std::to_string(bytes_min) + " bytes, not " + std::to_string(bytes));
  value_or_throw(guarded([&] { return object.resize(bytes); }));
}

size_t object_size(OpenObject& object) {
  if (object::InMethod::any())
    refuse_in_method("asks for the size of object '" + object.core().name() + "'");
  return value_or_throw(object.core().bytes());
}

CallerRecord object_caller(OpenObject& object, std::uint32_t potid) {
  const format::ObjectCaller found = value_or_throw(object.core().caller(potid));
  CallerRecord record{found.calls, std::min<u32>(found.answer_bytes, sizeof record.answer), {}};
  std::copy(std::begin(found.answer), std::end(found.answer), record.answer);
  return record;
}

}  // namespace detail

Objects Objects::open(std::string_view uri, const ObjectsOptions& options) {
  if (object::InMethod::any()) refuse_in_method("opens the objects of '" + std::string(uri) + "'");
  return Objects(
      value_or_throw(guarded([&] { return detail::ObjectsRuntime::open(uri, options); })));
}

namespace {

detail::ObjectsRuntime& in_use(const std::unique_ptr<detail::ObjectsRuntime>& runtime) {
  if (!runtime)
    throw Error(Code::kMisuse,
                "objects that were moved from are used; use those that they were moved to");
  if (object::InMethod::any()) refuse_in_method("uses the objects of '" + runtime->name() + "'");
  return *runtime;
}

}  // namespace

Objects::Objects(std::unique_ptr<detail::ObjectsRuntime> runtime) : runtime_(std::move(runtime)) {}
Objects::Objects(Objects&&) noexcept = default;
Objects& Objects::operator=(Objects&&) noexcept = default;
Objects::~Objects() = default;

std::shared_ptr<detail::OpenObject> Objects::open_object(std::string_view name,
                                                         const detail::ObjectType& type,
                                                         const ObjectOptions& options) {
  return value_or_throw(guarded([&] { return in_use(runtime_).object(name, type, options); }));
}

void Objects::remove(std::string_view name) {
  value_or_throw(guarded([&] { return in_use(runtime_).remove(name); }));
}

std::vector<ObjectDescription> Objects::list() const {
  return value_or_throw(guarded([&] { return in_use(runtime_).list(); }));
}

ObjectMoves Objects::moves() const {
  return value_or_throw(guarded([&] { return in_use(runtime_).moves(); }));
}

std::uint64_t Objects::recorded(std::uint32_t potid) const {
  return value_or_throw(guarded([&] { return in_use(runtime_).recorded(potid); }));
}

Caller::Caller(Objects& objects, std::uint32_t potid)
    : objects_(objects), potid_(potid), before_(std::exchange(detail::current_caller, potid)) {}
Caller::~Caller() { detail::current_caller = before_; }

void Objects::close() {
  value_or_throw(guarded([&] { return in_use(runtime_).close(); }));
}

}  // namespace perdura
