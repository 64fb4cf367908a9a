// The memories the index is built in. The indexing code is written once, over one of these.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/structures/hash_map.hpp>
#include <perdura/structures/list.hpp>
#include <perdura/structures/ordered_map.hpp>
#include <perdura/structures/string.hpp>
#include <perdura/structures/vector.hpp>

namespace demo {

/// Finds words by string_view, whatever string they are kept as.
struct WordHash {
  using is_transparent = void;
  // Not noexcept: libstdc++ then keeps each word's hash beside it, which spares it most of the
  // comparisons, and hashing every word again when the table grows.
  std::size_t operator()(std::string_view word) const {
    return std::hash<std::string_view>{}(word);
  }
};

/// Ordinary memory: gone when the process is.
struct PlainMemory {
  using string = std::string;
  template <class T>
  using vector = std::vector<T>;
  template <class T>
  using list = std::list<T>;
  template <class K, class V>
  using map = std::map<K, V, std::less<>>;
  template <class V>
  using word_map = std::unordered_map<string, V, WordHash, std::equal_to<>>;
  template <class T>
  using field = T;
};

/// A Perdura store, with containers that report what they store to.
struct ReportingMemory {
  using string = perdura::structures::string;
  template <class T>
  using vector = perdura::structures::vector<T>;
  template <class T>
  using list = perdura::structures::list<T>;
  template <class K, class V>
  using map = perdura::structures::ordered_map<K, V>;
  template <class V>
  using word_map = perdura::structures::hash_map<string, V>;
  template <class T>
  using field = perdura::Field<T>;
};

/// The heap of a Perdura store: the standard's containers with another allocator.
struct DurableMemory {
  using string = perdura::string;
  template <class T>
  using vector = perdura::vector<T>;
  template <class T>
  using list = perdura::list<T>;
  template <class K, class V>
  using map = perdura::map<K, V>;
  template <class V>
  using word_map = perdura::unordered_map<string, V, WordHash>;
  template <class T>
  using field = T;
};

}  // namespace demo
