#include <perdura/compat/fgck.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include <perdura/store.hpp>

#include "base/process.hpp"
#include "model/own_store.hpp"
#include "store/c_error.hpp"
#include "store/runtime.hpp"
#include "track/dirty_map.hpp"

namespace perdura {
namespace {

constexpr u32 kAliases = 2;
constexpr u64 kLimitMin = kGiB;
constexpr u64 kAddressSpaceMax = u64{5} << 40;  ///< that there is room for more than one such store

u32 aliases_of_new_stores() {
  const char* text = detail::environment("PERDURA_ALIASES");
  if (text == nullptr) return kAliases;
  u32 aliases = 0;
  const char* const end = text + std::strlen(text);
  if (const auto parsed = std::from_chars(text, end, aliases);
      parsed.ec != std::errc{} || parsed.ptr != end || aliases == 0)
    throw Error(Code::kInvalidArgument,
                std::string("PERDURA_ALIASES is a power of two up to 256, not '") + text + "'");
  return aliases;
}

Store open_store() {
  const std::string uri = detail::own_store_uri();
  Options options;
  options.create = false;
  try {
    return Store::open(uri, options);
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;
  }
  options.create = true;
  options.aliases = aliases_of_new_stores();
  while (options.region_limit_bytes * (options.aliases + 1) > kAddressSpaceMax)
    options.region_limit_bytes /= 2;
  for (;;) {
    try {
      return Store::open(uri, options);
    } catch (const Error& error) {
      // Where addresses are few, as under ThreadSanitizer, a smaller heap may fit.
      if (error.code() != Code::kNoMemory || options.region_limit_bytes <= kLimitMin) throw;
      options.region_limit_bytes /= 2;
    }
  }
}

/// The program's objects.
class NamedObjects {
 public:
  NamedObjects() : NamedObjects(open_store()) {}

  void* allocate(size_t size, const char* name) {
    auto op = store_.operation();
    if (name == nullptr) return op.allocate(size);
    std::lock_guard lock(mutex_);
    if (store_.get_root(name) != nullptr)
      throw Error(Code::kMisuse, std::string("an object is called '") + name +
                                     "' already; nv_find gives it, nv_free removes it");
    detail::Runtime& runtime = store_.runtime();
    void* object =
        value_or_throw(runtime.heap().allocate_apart(runtime.mutators().this_thread(), size));
    // Before anybody can find the object by its name and free it.
    named_lines_.add_shared(line_of(object), 1);
    try {
      store_.set_root(name, object);
      try {
        names_.emplace(object, name);
      } catch (...) {
        store_.set_root(name, nullptr);
        throw;
      }
    } catch (...) {
      named_lines_.take(line_of(object));
      op.deallocate(object);
      throw;
    }
    return object;
  }

  void free(void* object) {
    auto op = store_.operation();
    // The name first: as soon as the object is given back another thread may get its place.
    if (store_.contains(object) && named_lines_.contains(line_of(object))) forget_name(object);
    op.deallocate(object);
  }

  void* find(const char* name) {
    if (void* object = store_.get_root(name)) return object;
    throw Error(Code::kNotFound, std::string("no object is called '") + name + "'");
  }

  Store& store() { return store_; }

 private:
  explicit NamedObjects(Store store)
      : store_(std::move(store)),
        named_lines_(value_or_throw(track::DirtyMap::create(store_.runtime().region().limit()))) {
    for (const heap::Roots::Root& root : store_.runtime().heap().roots().all()) {
      auto* object = const_cast<void*>(root.object);
      names_.emplace(object, root.name);
      named_lines_.add(line_of(object), 1);
    }
  }

  // Of an object, or of an address in its first line that is none.
  void forget_name(const void* object) {
    std::lock_guard lock(mutex_);
    const auto named = names_.find(const_cast<void*>(object));
    if (named == names_.end()) return;
    store_.set_root(named->second, nullptr);
    names_.erase(named);
    named_lines_.take(line_of(object));
  }

  u64 line_of(const void* object) const {
    return store_.runtime().region().offset_of(object) / kLineBytes;
  }

  Store store_;
  std::mutex mutex_;  ///< names
  std::unordered_map<void*, std::string> names_;
  track::DirtyMap named_lines_;  ///< the first line of each named object
};

// Opened by the first call; a failure is tried again by the next. Never closed: what is not durable
// when the program ends is not.
NamedObjects& objects() {
  static constinit MadeOnce<NamedObjects> opened;
  return opened.get([] { return new NamedObjects; });
}

void check_name(const char* name) {
  if (name == nullptr) throw Error(Code::kInvalidArgument, "a name is needed, not NULL");
  const size_t length = ::strnlen(name, 256);
  if (length == 0 || length > 255)
    throw Error(Code::kInvalidArgument, "an object's name has 1 to 255 bytes");
}

}  // namespace
}  // namespace perdura

using perdura::detail::c_call;

extern "C" {

void* nv_malloc(size_t size, const char* name) {
  void* object = nullptr;
  c_call([&] {
    if (name != nullptr) perdura::check_name(name);
    object = perdura::objects().allocate(size, name);
  });
  return object;
}

int nv_free(void* object) {
  if (object == nullptr) return 0;
  return c_call([&] { perdura::objects().free(object); });
}

int nv_ckall(void) {
  return c_call([] { perdura::objects().store().checkpoint(); });
}

int nv_ckone(const char* name) {
  return c_call([&] {
    perdura::check_name(name);
    perdura::objects().store().checkpoint_root(name);
  });
}

void* nv_find(const char* name) {
  void* object = nullptr;
  c_call([&] {
    perdura::check_name(name);
    object = perdura::objects().find(name);
  });
  return object;
}

}  // extern "C"
