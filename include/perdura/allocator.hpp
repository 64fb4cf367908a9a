// A standard allocator whose memory is a store's heap, and the containers that use it.
//
// It holds the address of the heap in the region. That address is the same in every run, so a
// container with this allocator can itself live in the heap and survive restarts.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <perdura/durable.hpp>

namespace perdura {

class Store;

namespace detail {
class Runtime;
/// The region address that names a store's heap, and back.
void* heap_of(Runtime& runtime) noexcept;
/// The same for standard containers. Throws kUnsupported where the store's tracker needs reports:
/// a standard container reports none of its stores, and they would not become durable.
void* container_heap(Runtime& runtime);
/// The one of the store that this thread has an operation on, else of the only open store; throws
/// kMisuse when that is not exactly one.
void* current_heap();
void* heap_allocate(void* heap, std::size_t size, std::size_t alignment);
void heap_deallocate(void* heap, void* block);
}  // namespace detail

template <class T>
class Allocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  /// The heap of the thread's current operation, or of the only open store. Throws kUnsupported for
  /// a store with a tracker of reported stores, as everything that allocates does.
  Allocator() : heap_(detail::current_heap()) {}
  explicit Allocator(Store& store);
  template <class U>
  Allocator(const Allocator<U>& other) noexcept : heap_(other.heap()) {}  // NOLINT: as std's

  T* allocate(std::size_t count) {
    detail::require_durable<T>();
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(detail::heap_allocate(heap_, count * sizeof(T), alignof(T)));
  }
  // Misuse ends the program.
  void deallocate(T* block, std::size_t) noexcept {  // NOLINT(bugprone-exception-escape)
    detail::heap_deallocate(heap_, block);
  }

  void* heap() const noexcept { return heap_; }
  template <class U>
  bool operator==(const Allocator<U>& other) const noexcept {
    return heap_ == other.heap();
  }

 private:
  void* heap_;
};

namespace detail {
template <class T, class... Args>
concept TakesAllocator = std::uses_allocator_v<T, Allocator<std::byte>> &&
                         std::is_constructible_v<T, Args..., Allocator<std::byte>>;
}

// The standard containers on a store's heap. Libstdc++'s hash is not seeded, so unordered
// containers find their elements again after a restart. Those whose keys are strings are searched
// by a std::string_view as well, without an allocation.
using string = std::basic_string<char, std::char_traits<char>, Allocator<char>>;
template <class T>
using vector = std::vector<T, Allocator<T>>;
template <class T>
using deque = std::deque<T, Allocator<T>>;
template <class T>
using list = std::list<T, Allocator<T>>;
template <class K, class V, class Less = std::less<>>
using map = std::map<K, V, Less, Allocator<std::pair<const K, V>>>;
template <class K, class V, class Less = std::less<>>
using multimap = std::multimap<K, V, Less, Allocator<std::pair<const K, V>>>;
template <class K, class Less = std::less<>>
using set = std::set<K, Less, Allocator<K>>;
template <class K, class Less = std::less<>>
using multiset = std::multiset<K, Less, Allocator<K>>;
template <class K, class V, class Hash = std::hash<K>, class Equal = std::equal_to<>>
using unordered_map = std::unordered_map<K, V, Hash, Equal, Allocator<std::pair<const K, V>>>;
template <class K, class Hash = std::hash<K>, class Equal = std::equal_to<>>
using unordered_set = std::unordered_set<K, Hash, Equal, Allocator<K>>;

}  // namespace perdura

/// perdura::string hashes as its characters do, so that it is found by a string_view.
template <>
struct std::hash<perdura::string> {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};
