// The C surface of types that change: roots with a type, and objects that get the layout which
// their type has now.
#include <perdura/perdura.h>

#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "heap/record_members.hpp"
#include "store/c_error.hpp"
#include "store/c_store.hpp"
#include "store/runtime.hpp"

namespace perdura::detail {
namespace {

Error invalid_record(const std::string& what) { return Error(Code::kInvalidArgument, what); }

/// The fingerprint that a root of this type has; C++ gives it the same one.
u64 root_fingerprint_of(const perdura_type& type) {
  const std::string name = value_or_throw(heap::name_of_record(type));
  return type_fingerprint(name.c_str(), type.size, type.alignment);
}

/// Throws where an object is of another type, or has no space for one of this one.
void expect_object(Runtime& runtime, const char* name, const void* object,
                   const perdura_type& type) {
  const auto [bytes, typed] = value_or_throw(runtime.heap().usable(object));
  const std::string wanted = value_or_throw(heap::name_of_record(type));
  if (!typed) {
    if (bytes >= type.size) return;
    throw Error(Code::kTypeMismatch,
                fmt::format("the object of the root '{}' of '{}' has {} bytes, and one of '{}' {}",
                            name, runtime.name(), bytes, type.name, type.size));
  }
  const std::string stored = value_or_throw(runtime.heap().type_name(object));
  if (stored == wanted) return;
  throw Error(Code::kTypeMismatch,
              fmt::format("the object of the root '{}' of '{}' is of the type '{}', not '{}'", name,
                          runtime.name(), heap::readable_name(stored), type.name));
}

/// As far as the store can learn now, as of a root of C++.
void learn(Runtime& runtime, const perdura_type& type) {
  Mutator& mutator = runtime.mutators().this_thread();
  if (runtime.read_only() || mutator.in_transaction) return;
  const track::InOperation operation(mutator);
  value_or_throw(runtime.heap().types().learn_members(mutator, type));
}

/// Of a conversion that C states.
class ConversionOfC {
 public:
  explicit ConversionOfC(const perdura_conversion& given) : given_(given) {
    for (const perdura_type* const type : {given.former, given.now}) {
      if (type == nullptr)
        throw invalid_record("a conversion needs a former type and the type now");
      if (!heap::has_all_members(*type))
        throw invalid_record(
            fmt::format("the record of '{}' does not say all members, so that a store "
                        "cannot tell when they change: define it with PERDURA_STRUCT",
                        type->name != nullptr ? type->name : "(nameless)"));
    }
    const std::string former = value_or_throw(heap::name_of_record(*given.former));
    if (former != value_or_throw(heap::name_of_record(*given.now)))
      throw invalid_record(
          fmt::format("'{}' is not what '{}' was: define the former type with "
                      "PERDURA_STRUCT_AS and the name of the type now",
                      given.former->name, given.now->name));
    if (given.convert == nullptr) value_or_throw(heap::can_evolve(*given.former, *given.now));
  }

  Conversion conversion() {
    return {.former = given_.former,
            .now = given_.now,
            .former_members = nullptr,
            .now_members = nullptr,
            .root_fingerprint = root_fingerprint_of(*given_.now),
            .convert = &convert,
            .function = this};
  }

 private:
  static void convert(void* self, const void* was, void* object) {
    const perdura_conversion& given = static_cast<ConversionOfC*>(self)->given_;
    if (given.defaults != nullptr) std::memcpy(object, given.defaults, given.now->size);
    if (given.convert == nullptr)
      return value_or_throw(heap::evolve_record(*given.former, *given.now, was, object));
    if (const int result = given.convert(was, object, given.user); result != 0)
      throw invalid_record(
          fmt::format("the function that converts '{}' returned {} for the object at {}; "
                      "the store is as it was",
                      given.now->name, result, was));
  }

  perdura_conversion given_;
};

/// As this library knows them; what it does not know must be 0.
std::vector<ConversionOfC> conversions_of(const perdura_conversion* given, size_t count,
                                          size_t bytes) {
  constexpr size_t kKnown = sizeof(perdura_conversion);
  if (count == 0 || given == nullptr) throw invalid_record("perdura_migrate needs conversions");
  if (bytes < kKnown)
    throw invalid_record(
        fmt::format("a perdura_conversion has {} bytes, not {}; hand over "
                    "sizeof(perdura_conversion)",
                    kKnown, bytes));
  std::vector<ConversionOfC> all;
  all.reserve(count);
  const auto* at = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = 0; i < count; ++i, at += bytes) {
    for (size_t byte = kKnown; byte < bytes; ++byte)
      if (at[byte] != 0)
        throw Error(Code::kUnsupported,
                    "the program sets what this libperdura does not know of a perdura_conversion; "
                    "run it with the one that it was compiled for, or a newer one");
    perdura_conversion one;
    std::memcpy(&one, at, sizeof one);
    all.emplace_back(one);
  }
  return all;
}

}  // namespace
}  // namespace perdura::detail

using perdura::detail::c_call;
using perdura::detail::pointer_of;
using perdura::detail::required;
using perdura::detail::required_name;

extern "C" {

void* perdura_root_get_typed(perdura_store* store, const char* name, const perdura_type* type) {
  return pointer_of([&]() -> void* {
    perdura::detail::Runtime& runtime = store->store.runtime();
    store->store.expect_type(required(type));
    void* const object =
        store->store.get_root(required_name(name), perdura::detail::root_fingerprint_of(*type));
    if (object == nullptr) return nullptr;
    perdura::detail::expect_object(runtime, name, object, *type);
    perdura::detail::learn(runtime, *type);
    return object;
  });
}

int perdura_root_set_typed(perdura_store* store, const char* name, void* object,
                           const perdura_type* type) {
  return c_call([&] {
    perdura::detail::Runtime& runtime = store->store.runtime();
    store->store.expect_type(required(type));
    if (object != nullptr)
      perdura::detail::expect_object(runtime, required_name(name), object, *type);
    store->store.set_root(required_name(name), object, perdura::detail::root_fingerprint_of(*type));
    perdura::detail::learn(runtime, *type);
  });
}

int perdura_migrate_sized(perdura_store* store, const perdura_conversion* conversions, size_t count,
                          size_t conversion_bytes, uint64_t* converted) {
  return c_call([&] {
    std::vector<perdura::detail::ConversionOfC> given =
        perdura::detail::conversions_of(conversions, count, conversion_bytes);
    std::vector<perdura::Conversion> all;
    for (perdura::detail::ConversionOfC& each : given) all.push_back(each.conversion());
    const uint64_t blocks = store->store.migrate(std::span<const perdura::Conversion>(all));
    if (converted != nullptr) *converted = blocks;
  });
}

}  // extern "C"
