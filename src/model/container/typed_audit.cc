// Programs that are compiled with --perdura-audit (docs/types.md): each store of a pointer to an
// object with a type is checked against the type's record. A pointer that no record names is not
// followed by points, and stays as it is when what it leads to moves.
//
// Meant to be slow: each check looks its blocks up.
#include <perdura/typed.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include <unistd.h>

#include "heap/known_types.hpp"
#include "model/container/volatile_heap.hpp"
#include "store/runtime.hpp"

namespace perdura {
namespace {

using detail::VolatileHeap;
using format::PointerRun;
using heap::kWords;

/// The object that an address lies in.
struct TypedPlace {
  const heap::Layout* layout;  ///< nullptr: none, it holds no pointers
  std::byte* object;           ///< its beginning
  u64 offset;                  ///< of the address
  bool flexible;

  const char* type() const { return layout != nullptr ? layout->name.c_str() : "no type"; }
  const PointerRun* run() const {
    return layout != nullptr ? layout->run_at(offset, flexible) : nullptr;
  }
  /// Characters, or numbers: a buffer.
  bool is_buffer() const {
    return layout == nullptr || (layout->size <= sizeof(u64) && !layout->has_pointers());
  }
  /// The place in its element; in a buffer all places are one.
  u64 slot() const {
    if (is_buffer()) return 0;
    return flexible ? offset : offset % layout->size;
  }
};

std::optional<TypedPlace> place_in(heap::Heap& heap, const void* address) {
  const heap::Block block = heap.block_at(address);
  if (block.entry.units == 0 || block.is_free()) return std::nullopt;
  const Result<const heap::Layout*> layout = heap.types().find(block.tag());
  if (!layout) return std::nullopt;
  std::byte* const object = heap.blocks().place_of(block);
  const auto offset = static_cast<u64>(heap.blocks().place_of(address) - object);
  return TypedPlace{*layout, object, offset, (block.tag() & 1) != 0};
}

/// Of volatile objects and those in containers: pointers in other stores are nobody's concern.
std::optional<TypedPlace> place_of(const void* address) {
  VolatileHeap* const objects = VolatileHeap::existing();
  if (objects != nullptr && objects->contains(address))
    return objects->is_inherited() ? std::nullopt : place_in(objects->heap(), address);
  detail::Runtime* const runtime = detail::runtime_holding(address);
  if (runtime == nullptr || !runtime->is_container()) return std::nullopt;
  return place_in(runtime->heap(), address);
}

bool leads_to_object(u64 word) {
  return word != 0 && place_of(reinterpret_cast<const void*>(word)).has_value();
}

u64 word_at(const std::byte* place) {
  u64 word = 0;
  std::memcpy(&word, place, sizeof word);
  return word;
}

class Audit {
 public:
  /// Never destroyed: what ends behind it stores as well.
  static Audit& instance() {
    static Audit& only = *new Audit;
    return only;
  }

  void note_made(const TypedPlace& place, const char* where) {
    std::lock_guard lock(mutex_);
    made_[place.object] = where;
    made_of_type_[place.type()].insert(where);
  }

  /// A pointer is about to be stored there.
  void check(const void* at, const char* where) {
    const std::optional<TypedPlace> place = place_of(at);
    if (!place || place->run() != nullptr) return;
    std::lock_guard lock(mutex_);
    const std::string made = made_at(*place);
    // Words are the type of what has nothing in common but that nobody knows what it is.
    const bool is_anything = place->is_buffer() || place->type() == std::string(kWords.name);
    const std::string buffer = is_anything ? made : "";
    if (!slots_.emplace(place->type(), place->slot(), buffer).second) return;
    if (slots_.size() > kToldMax) return;
    std::fprintf(stderr,
                 "perdura: %s: a pointer is stored to byte %llu of an object of '%s', made at %s: "
                 "its record names no pointer there, so that no point follows it; make it a "
                 "pointer, annotate it PERDURA_MAY_POINT, or PERDURA_NO_POINTER where it need not "
                 "survive\n",
                 where, static_cast<unsigned long long>(place->offset), place->type(),
                 made.c_str());
  }

  unsigned long findings() const {
    std::lock_guard lock(mutex_);
    return slots_.size();
  }

  template <class Visit>
  Status take_census(VolatileHeap& objects, Visit&& visit) {
    std::map<std::pair<std::string, std::string>, perdura_audit_census> all;
    objects.mutators().stop();
    const Status done = guarded([&]() -> Status {
      std::lock_guard lock(mutex_);
      objects.heap().blocks().for_each_block([&](std::byte* object, u64 bytes, u16 tag) {
        if (tag == 0) return;  // the heap's own
        if (const std::optional<TypedPlace> place = place_in(objects.heap(), object))
          count(*place, bytes, all[{exact_place(*place), place->type()}]);
      });
      return {};
    });
    objects.mutators().resume();
    if (!done) return copy_of(done.failure());
    for (const auto& [key, census] : all) visit(key.first.c_str(), key.second.c_str(), census);
    return {};
  }

  /// Behind the program's last destructor.
  void end() const {
    if (findings() == 0) return;
    const char* const code = std::getenv("PERDURA_AUDIT_EXIT");
    std::fprintf(stderr, "perdura: the audit found %lu places of pointers that no record names%s\n",
                 findings(), findings() > kToldMax ? ", of which the first 100 were told" : "");
    if (code == nullptr) return;
    std::fflush(nullptr);
    ::_exit(std::atoi(code));
  }

 private:
  static constexpr size_t kToldMax = 100;

  // With mutex_ held.
  std::string made_at(const TypedPlace& place) const {
    if (std::string exact = exact_place(place); !exact.empty()) return exact;
    const auto all = made_of_type_.find(place.type());  // it has moved
    if (all == made_of_type_.end()) return "an unknown place";
    const size_t others = all->second.size() - 1;
    return *all->second.begin() + (others != 0 ? " or " + std::to_string(others) + " others" : "");
  }

  /// Of an object that has not moved; else "".
  std::string exact_place(const TypedPlace& place) const {
    const auto found = made_.find(place.object);
    return found != made_.end() ? found->second : "";
  }

  static void count(TypedPlace place, u64 bytes, perdura_audit_census& census) {
    ++census.objects;
    for (place.offset = 0; place.offset + sizeof(u64) <= bytes; place.offset += sizeof(u64)) {
      if (!leads_to_object(word_at(place.object + place.offset))) continue;
      const PointerRun* const run = place.run();
      ++(run == nullptr ? census.missed : run->maybe != 0 ? census.maybe : census.named);
    }
  }

  mutable std::mutex mutex_;
  std::map<const std::byte*, std::string> made_;  ///< by the addresses that objects had then
  std::map<std::string, std::set<std::string>> made_of_type_;
  std::set<std::tuple<std::string, u64, std::string>> slots_;  ///< types; slots, or where made
};

/// The words at first, first + 8, … What another object of the type had in the same slot was
/// checked when it was stored there.
void check_words(const std::byte* to, const std::byte* from, size_t bytes, u64 first,
                 const char* where) {
  for (u64 at = first; at + sizeof(u64) <= bytes; at += sizeof(u64)) {
    if (!leads_to_object(word_at(from + at))) continue;
    const std::optional<TypedPlace> target = place_of(to + at);
    const std::optional<TypedPlace> source = place_of(from + at);
    const bool is_same = to != from && target && source && target->layout == source->layout &&
                         target->slot() == source->slot();
    if (!is_same) Audit::instance().check(to + at, where);
  }
}

[[gnu::destructor]] void end_audit() { Audit::instance().end(); }

u64 to_next_word(const void* place) {
  return -reinterpret_cast<std::uintptr_t>(place) % sizeof(u64);
}

}  // namespace

// A check that finds no memory for what it found has found nothing.
extern "C" {

void perdura_audit_pointer(const void* place, const void* value, const char* where) {
  if (value == nullptr) return;
  (void)guarded([&]() -> Status {
    Audit::instance().check(place, where);
    return {};
  });
}

void perdura_audit_integer(const void* place, uint64_t value, const char* where) {
  if (place_of(place) && leads_to_object(value))
    perdura_audit_pointer(place, reinterpret_cast<const void*>(value), where);
}

void perdura_audit_words(const void* to, const void* from, size_t bytes, const char* where) {
  if (bytes < sizeof(u64) || !place_of(to)) return;
  (void)guarded([&]() -> Status {
    const auto* const target = static_cast<const std::byte*>(to);
    const auto* const source = static_cast<const std::byte*>(from);
    check_words(target, source, bytes, to_next_word(to), where);
    if (to_next_word(to) != to_next_word(from))
      check_words(target, source, bytes, to_next_word(from), where);
    return {};
  });
}

void perdura_audit_made(void* object, int fresh, const char* where) {
  const std::optional<TypedPlace> place = place_of(object);
  if (!place) return;
  if (fresh != 0 && !(place->layout != nullptr && place->layout->has_pointers()))
    std::memset(object, 0, perdura_typed_usable_size(object));
  (void)guarded([&]() -> Status {
    Audit::instance().note_made(*place, where);
    return {};
  });
}

unsigned long perdura_audit_findings(void) { return Audit::instance().findings(); }

int perdura_audit_take_census(void (*visit)(const char* made, const char* type,
                                            const perdura_audit_census*, void*),
                              void* argument) {
  VolatileHeap* const objects = VolatileHeap::existing();
  if (objects == nullptr || objects->is_inherited()) return -1;
  const Status done = guarded([&]() -> Status {
    if (objects->mutators().in_operation())
      return Failure{Code::kMisuse, "a census is taken outside of operations"};
    return Audit::instance().take_census(
        *objects, [&](const char* made, const char* type, const perdura_audit_census& census) {
          visit(made, type, &census, argument);
        });
  });
  return done ? 0 : -1;
}

}  // extern "C"

}  // namespace perdura
