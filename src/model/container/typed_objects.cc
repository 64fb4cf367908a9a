// Objects of programs that are compiled with --perdura-types (perdura/typed.h): what malloc and
// new would have given them, in the heap of volatile objects.
//
//   malloc(n) of a known type     a volatile object of that type
//   ... of an allocator           a volatile object whose words may be pointers, until it is tagged
//   either, near an object        the same in the container that holds that object
//   free(p)                       back to where p is from: volatile objects, a container, malloc
//
// In a forked child, whose parent's volatile objects cannot change, malloc serves.
#include <perdura/typed.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include <malloc.h>

#include <perdura/container.hpp>

#include "base/checksum.hpp"
#include "base/process.hpp"
#include "heap/container_types.hpp"
#include "heap/known_types.hpp"
#include "model/container/container_runtime.hpp"
#include "store/c_error.hpp"
#include "store/runtime.hpp"

namespace perdura {
namespace {

using detail::Mutator;
using detail::VolatileHeap;
using heap::kWords;
using track::InOperation;

constexpr perdura_type kText{"char", 1, 1, 0, nullptr};

/// What allocators of programs keep before and behind what they give out.
constexpr u64 kHeaderMax = 64;
constexpr u64 kTrailerMax = 16;

/// Of a block that was made for so many bytes.
u64 block_bytes_for(u64 bytes) {
  const unsigned size_class = heap::class_for(bytes, 1);
  return size_class != heap::kSizes ? u64{heap::kClassInfo[size_class].block_bytes}
                                    : round_up(bytes, format::kUnitBytes);
}

bool holds(const void* object) noexcept {
  const VolatileHeap* const objects = VolatileHeap::existing();
  if (objects != nullptr && objects->contains(object)) return true;
  return detail::runtime_holding(object) != nullptr;
}

[[gnu::cold]] void tell_once(const std::string& what) noexcept {
  static constinit std::atomic<int> told{0};
  if (told.fetch_add(1) < 20) std::fprintf(stderr, "perdura: %s\n", what.c_str());
}

/// What was handed to free is no object: the program's fault, as a double free of malloc's is.
[[gnu::cold, noreturn]] void end_with(const char* what) noexcept {
  std::fprintf(stderr, "perdura: %s\n", what);
  std::abort();
}

/// In which container this thread wants its objects (perdura_allocate_near): which opening of one,
/// as it may be closed, and another one be at its addresses. 0: none.
constinit thread_local u64 near_container = 0;

u64 id_of(detail::Runtime& runtime) noexcept { return runtime.mutators().key().id; }

detail::Runtime* nearby() noexcept {
  return near_container == 0 ? nullptr : detail::runtime_of_mutators(near_container);
}

/// Volatile objects before those of a container, as a cut stops them.
Result<void*> try_make(VolatileHeap& objects, const perdura_type& type, size_t bytes,
                       unsigned shape, bool zeroed) {
  const bool flexible = shape == PERDURA_SHAPE_FLEXIBLE;
  Mutator& mutator = objects.mutators().this_thread();
  const InOperation operation(mutator);
  if (detail::Runtime* const runtime = nearby()) [[unlikely]] {
    PERDURA_TRY(runtime->usable());
    Mutator& inner = runtime->mutators().this_thread();
    const InOperation inside(inner);
    return runtime->heap().allocate_array(inner, type, bytes, zeroed, flexible);
  }
  return objects.heap().allocate_array(mutator, type, bytes, zeroed, flexible);
}

/// Words that hold pointers are zero, also where malloc's are not: a pointer that was there before
/// would be followed.
void* make(const perdura_type* type, size_t bytes, unsigned shape, bool zeroed) noexcept {
  try {
    VolatileHeap* objects = VolatileHeap::existing();
    if (objects == nullptr) [[unlikely]]
      objects = &VolatileHeap::instance();
    const size_t least = type->size;
    bytes = bytes > least ? bytes : least;
    zeroed = zeroed || type->slot_count != 0;
    if (objects->is_inherited()) [[unlikely]]
      return zeroed ? std::calloc(1, bytes) : std::malloc(bytes);
    Result<void*> made = try_make(*objects, *type, bytes, shape, zeroed);
    if (made) [[likely]]
      return *made;
    // Also where there are as many types as there can be; where there is no memory, there is none
    // of this type either.
    const Code code = made.failure().code;
    if (code == Code::kTypeMismatch || code == Code::kInvalidArgument || code == Code::kNoSpace) {
      const std::string why = std::move(made).failure().message;
      made = try_make(*objects, kWords, bytes, PERDURA_SHAPE_OBJECTS, true);
      if (made) {
        tell_once(why + "; its words may be pointers here");
        return *made;
      }
    }
  } catch (...) {
    errno = ENOMEM;  // as below
    return nullptr;
  }
  errno = ENOMEM;
  return nullptr;
}

size_t usable_bytes(const void* object) noexcept {
  try {
    VolatileHeap* const objects = VolatileHeap::existing();
    if (objects != nullptr && objects->contains(object)) {
      const Result<heap::Heap::Usable> usable = objects->heap().usable(object);
      return usable ? usable->bytes : 0;
    }
    if (detail::Runtime* const runtime = detail::runtime_holding(object)) {
      const Result<heap::Heap::Usable> usable = runtime->heap().usable(object);
      return usable ? usable->bytes : 0;
    }
  } catch (...) {
    return 0;
  }
  return ::malloc_usable_size(const_cast<void*>(object));
}

/// A copy of what `from` points to, with space for `bytes`.
void* copied(void* from, size_t bytes, void* to) noexcept {
  if (to == nullptr) return nullptr;
  const size_t had = usable_bytes(from);
  std::memcpy(to, from, had < bytes ? had : bytes);
  perdura_typed_free(from);
  return to;
}

void* renew(void* object, size_t bytes) noexcept {
  VolatileHeap* const objects = VolatileHeap::existing();
  if (objects != nullptr && objects->is_inherited())
    return copied(object, bytes, std::malloc(bytes));
  const size_t had = usable_bytes(object);
  if (bytes <= had && bytes >= had / 2) return object;
  try {
    return reallocate(object, bytes);
  } catch (const Error& error) {
    if (error.code() == Code::kMisuse) end_with(error.what());
    errno = ENOMEM;
  } catch (...) {
    errno = ENOMEM;
  }
  return nullptr;
}

void* typed_realloc(void* object, size_t bytes, const perdura_type* type, unsigned shape) noexcept {
  if (object == nullptr) return make(type, bytes, shape, false);
  if (bytes == 0) {
    perdura_typed_free(object);
    return nullptr;
  }
  return holds(object) ? renew(object, bytes)
                       : copied(object, bytes, make(type, bytes, shape, false));
}

void* copied_text(const char* text, size_t length) noexcept {
  char* const made = static_cast<char*>(make(&kText, length + 1, 0, false));
  if (made == nullptr) return nullptr;
  std::memcpy(made, text, length);
  made[length] = 0;
  return made;
}

// --- what begins behind the beginning of its block -----------------------------------------------

/// The record of a block with an object at an offset: before it words that may be pointers.
struct Shifted {
  std::string name;
  std::array<perdura_slot, 3> slots;
  perdura_type type;
};

const perdura_type& shifted(const perdura_type& type, u32 offset, bool& flexible) {
  using Key = std::tuple<const perdura_type*, u32, bool>;
  static constinit std::mutex mutex;
  static constinit std::map<Key, std::unique_ptr<Shifted>>* all = nullptr;
  const bool tailed = flexible;
  flexible = true;  // what is behind the object is an array, or words that may be pointers
  std::lock_guard lock(mutex);
  if (all == nullptr) all = new std::map<Key, std::unique_ptr<Shifted>>;
  std::unique_ptr<Shifted>& made = (*all)[Key(&type, offset, tailed)];
  if (made != nullptr) return made->type;
  auto fresh = std::make_unique<Shifted>();
  const u32 words = offset / 8 * 8;
  fresh->name = std::string(type.name).substr(0, 200) + (tailed ? " and more" : "s") + " behind " +
                std::to_string(offset) + " bytes";
  fresh->slots[0] = {"before", PERDURA_SLOT_MAYBE, 0, words, nullptr, 0, 0, 0};
  u32 size = offset;
  if (tailed) {
    size = (offset + type.size + 7) / 8 * 8;
    fresh->slots[1] = {"words", PERDURA_SLOT_MAYBE, words, size - words, nullptr, 0, 0, 0};
    fresh->slots[2] = {"behind", PERDURA_SLOT_MAYBE, size, 0, nullptr, 0, 0, 0};
  } else {
    fresh->slots[1] = {"objects", PERDURA_SLOT_VALUE, offset, 0, &type, 0, 0, 0};
  }
  fresh->type = {fresh->name.c_str(), size, 8, tailed ? 3u : 2u, fresh->slots.data()};
  made = std::move(fresh);
  return made->type;
}

/// The first ones that a table has places for, so that threads mostly need no lock: they stay.
const perdura_type& shifted_cached(const perdura_type& type, u32 offset, bool& flexible) {
  struct Known {
    const perdura_type* type;
    u32 offset;
    bool flexible;
    const perdura_type* made;
  };
  constexpr std::size_t kTries = 8;
  static constinit std::array<std::atomic<const Known*>, 1024> table{};
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(&type) >> 3) + offset / 8;
  std::atomic<const Known*>* free = nullptr;
  for (std::size_t i = 0; i < kTries; ++i) {
    std::atomic<const Known*>& place = table[(first + i) % table.size()];
    const Known* const known = place.load(std::memory_order_acquire);
    if (known == nullptr) {
      free = &place;
      break;
    }
    if (known->type == &type && known->offset == offset && known->flexible == flexible) [[likely]] {
      flexible = true;
      return *known->made;
    }
  }
  const bool asked = flexible;
  const perdura_type& made = shifted(type, offset, flexible);
  if (free != nullptr) {
    const Known* const fresh = new Known{&type, offset, asked, &made};
    const Known* none = nullptr;
    if (!free->compare_exchange_strong(none, fresh, std::memory_order_release)) delete fresh;
  }
  return made;
}

// --- what allocators of the program give out -----------------------------------------------------

Status retype(detail::Runtime* runtime, VolatileHeap& objects, const heap::Block& block,
              const perdura_type& type, bool flexible) {
  Mutator& mutator = objects.mutators().this_thread();
  const InOperation operation(mutator);
  if (runtime == nullptr) return objects.heap().retype(mutator, block, type, flexible);
  Mutator& inner = runtime->mutators().this_thread();
  const InOperation inside(inner);
  return runtime->heap().retype(inner, block, type, flexible);
}

/// A typed object: where it is, with what has it.
struct Held {
  detail::Runtime* runtime = nullptr;  ///< of a container; nullptr: it is volatile
  heap::Heap* heap = nullptr;
  heap::Block block{};

  std::byte* begin() const { return heap->blocks().place_of(block); }
};
/// Without a heap: no object, or none of this process or a container.
Held held_at(VolatileHeap& objects, void* place) {
  Held held;
  if (objects.is_inherited()) return held;
  if (!objects.contains(place)) {
    held.runtime = detail::runtime_holding(place);
    if (held.runtime == nullptr || !held.runtime->is_container()) return held;
  }
  heap::Heap& heap = held.runtime != nullptr ? held.runtime->heap() : objects.heap();
  held.block = heap.block_at(place);
  if (held.block.entry.units != 0) held.heap = &heap;
  return held;
}
/// Or words, where it cannot have that type.
void retype_or_words(VolatileHeap& objects, const Held& held, const perdura_type& type,
                     bool flexible) {
  Status typed = retype(held.runtime, objects, held.block, type, flexible);
  if (typed) return;
  const std::string why = std::move(typed).failure().message;
  if (retype(held.runtime, objects, held.block, kWords, false))
    tell_once(why + "; its words may be pointers here");
}

/// The tag that a block of volatile objects has when its type was renewed: an array that grows step
/// by step has it already. Where a library was unloaded another one's type may be at its place.
struct Renewed {
  const perdura_type* type;
  unsigned shape;
  u16 tag;
  u64 name;  ///< of the type, its checksum
};
constinit thread_local Renewed last_renewed{nullptr, 0, 0, 0};

void take_type(VolatileHeap& objects, const Held& held, const perdura_type& type, unsigned shape) {
  const Result<const heap::Layout*> found = held.heap->types().find(held.block.tag());
  if (!found) return;
  const heap::Layout* const had = *found;
  const bool flexible = shape == PERDURA_SHAPE_FLEXIBLE;
  const std::string_view name = type.name;
  if (had == nullptr || !had->has_pointers() || had->name == name)
    return retype_or_words(objects, held, type, flexible);
  // Words are words, and `T and more` are a T.
  constexpr std::string_view kMore = " and more";
  const auto is_more = [&](std::string_view more, std::string_view one) {
    return more.size() == one.size() + kMore.size() && more.starts_with(one) &&
           more.ends_with(kMore);
  };
  if (had->name == kWords.name || is_more(had->name, name)) return;
  if (is_more(name, had->name)) return retype_or_words(objects, held, type, flexible);
  retype_or_words(objects, held, kWords, false);
}

/// What realloc has made larger or smaller has the type that its caller says, where it held no
/// pointers or was of the same structure. Of another one with pointers nobody knows which of both
/// is in it.
void renew_type(VolatileHeap& objects, void* object, const perdura_type& type, unsigned shape) {
  const Held held = held_at(objects, object);
  if (held.heap == nullptr) return;
  const u64 name = checksum(type.name, std::strlen(type.name));
  if (held.runtime == nullptr && last_renewed.type == &type && last_renewed.shape == shape &&
      last_renewed.tag == held.block.tag() && last_renewed.name == name)
    return;
  take_type(objects, held, type, shape);
  if (held.runtime == nullptr)
    last_renewed = {&type, shape, held.heap->block_at(object).tag(), name};
}

// An allocator may give out again what is in a container since a point. What malloc made has no
// type. What lies in a larger block, of which an allocator gives out parts, may be of several
// types: its words may be pointers, also where it was one object before.
[[gnu::noinline]] void tag(VolatileHeap& objects, void* place, size_t bytes,
                           const perdura_type* type, unsigned shape) {
  const Held held = held_at(objects, place);
  if (held.heap == nullptr) return;
  const auto offset = static_cast<u64>(static_cast<std::byte*>(place) - held.begin());
  const bool is_part =
      offset > kHeaderMax || held.block.bytes() > block_bytes_for(offset + bytes + kTrailerMax);
  try {
    bool flexible = shape == PERDURA_SHAPE_FLEXIBLE && !is_part;
    if (is_part) type = &kWords;
    else if (offset != 0) type = &shifted_cached(*type, static_cast<u32>(offset), flexible);
    retype_or_words(objects, held, *type, flexible);
  } catch (...) {
    return;  // without memory its words stay what they are
  }
}

}  // namespace
// Here, where what they use is named; in C they have no namespace.
extern "C" {

int perdura_typed_holds(const void* object) { return holds(object) ? 1 : 0; }

void* perdura_typed_malloc(size_t bytes, const perdura_type* type, unsigned shape) {
  return make(type, bytes, shape, false);
}

void* perdura_typed_calloc(size_t count, size_t bytes, const perdura_type* type, unsigned shape) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  return make(type, all, shape, true);
}

void* perdura_typed_realloc(void* object, size_t bytes, const perdura_type* type, unsigned shape) {
  void* const made = typed_realloc(object, bytes, type, shape);
  VolatileHeap* const objects = VolatileHeap::existing();
  const bool is_renewed = object != nullptr && made != nullptr && type != nullptr;
  if (!is_renewed || objects == nullptr) return made;
  try {
    renew_type(*objects, made, *type, shape);
  } catch (...) {
    return made;  // without memory its words stay what they are
  }
  return made;
}

char* perdura_typed_strdup(const char* text) {
  return static_cast<char*>(copied_text(text, std::strlen(text)));
}
char* perdura_typed_strndup(const char* text, size_t length_max) {
  return static_cast<char*>(copied_text(text, ::strnlen(text, length_max)));
}

void* perdura_typed_raw_malloc(size_t bytes) { return make(&kWords, bytes, 0, false); }
void* perdura_typed_raw_calloc(size_t count, size_t bytes) {
  return perdura_typed_calloc(count, bytes, &kWords, 0);
}
void* perdura_typed_raw_realloc(void* object, size_t bytes) {
  return typed_realloc(object, bytes, &kWords, 0);  // who calls the allocator says the type
}

void* perdura_typed_new_nothrow(size_t bytes, const perdura_type* type, unsigned shape) {
  for (;;) {
    if (void* const made = make(type, bytes, shape, false)) return made;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) return nullptr;
    handler();
  }
}
void* perdura_typed_new(size_t bytes, const perdura_type* type, unsigned shape) {
  void* const made = perdura_typed_new_nothrow(bytes, type, shape);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

void* perdura_typed_tag(void* place, size_t bytes, const perdura_type* type, unsigned shape) {
  VolatileHeap* const objects = VolatileHeap::existing();
  if (place == nullptr || objects == nullptr) return place;
  // Most of what allocators give out is a part of a large block, which is words already.
  if (objects->heap().tag_of_part(place, kHeaderMax) != objects->tag_of_words())
    tag(*objects, place, bytes, type, shape);
  return place;
}
void perdura_typed_free(void* object) {
  if (object == nullptr) return;
  VolatileHeap* const objects = VolatileHeap::existing();
  const bool is_volatile = objects != nullptr && objects->contains(object);
  if (!is_volatile && detail::runtime_holding(object) == nullptr) {
    std::free(object);
    return;
  }
  if (objects == nullptr || objects->is_inherited()) return;  // the parent's
  try {
    if (is_volatile && !objects->has_said()) [[likely]] {
      Mutator& mutator = objects->mutators().this_thread();
      const InOperation operation(mutator);
      value_or_throw(objects->heap().deallocate(mutator, object));
      return;
    }
    deallocate(object);
  } catch (const Error& error) {
    // A thread's first use of the heap takes memory. Where there is none the object stays.
    if (error.code() != Code::kNoMemory) end_with(error.what());
  } catch (...) {
    return;  // as above
  }
}

size_t perdura_typed_usable_size(const void* object) {
  return object != nullptr ? usable_bytes(object) : 0;
}

int perdura_allocate_near(const void* object) {
  return detail::c_call([&] {
    detail::Runtime* const runtime = object != nullptr ? detail::runtime_holding(object) : nullptr;
    if (object != nullptr && (runtime == nullptr || !runtime->is_container()))
      throw Error(Code::kNotFound,
                  "what to allocate near is in no container that is open; name its root, or an "
                  "object that a point has found");
    if (runtime != nullptr) {
      value_or_throw(runtime->usable());
      // When there are as many types as there can be, there are these: what is of further ones is
      // words, and a point makes blocks of the others.
      Mutator& mutator = runtime->mutators().this_thread();
      const InOperation operation(mutator);
      heap::TypeList& types = runtime->heap().types();
      value_or_throw(types.number_of(mutator, kWords));
      for (const perdura_type* type : heap::kTypesOfPoints)
        value_or_throw(types.number_of(mutator, *type));
    }
    near_container = runtime != nullptr ? id_of(*runtime) : 0;
  });
}

}  // extern "C"

}  // namespace perdura
