// Pointers out of a container, when it is opened: they are as in the process that stored them.
//
//   restore    each word of a marked page, once:
//                into a module ─▶ where the module is now
//                to an object of another container ─▶ its shadow; to anything else ─▶ null
//   (pointers into the region are moved, if it is at another address)
//   finish     words that lead to where a module is now, and would have been moved with those
//
// A program may be loaded where the region was: then what is restored looks like a pointer into the
// region as long as pointers hold at the old address, and is put into its word when they do not.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heap/container_view.hpp"
#include "model/container/modules.hpp"
#include "model/container/shadows.hpp"
#include "store/runtime.hpp"

namespace perdura::detail {

/// How much of a list is kept for people.
constexpr size_t kListedMax = 1000;
std::string hex(u64 value);

class Homecoming {
 public:
  /// Before pointers into the region are moved: they still tell what led out of it. kNotFound names
  /// a symbol that is missing; then words were changed, and the store must not be used.
  Status restore(Runtime& runtime, Mutator& mutator);
  /// When they hold.
  void finish() noexcept;

  u64 restored() const { return restored_; }
  u64 nulled() const { return nulled_; }
  std::vector<std::string> take_list() { return std::move(list_); }

 private:
  class Places;

  Status bring_home(const Places& places, u64* word, bool maybe, u64 offset);
  void make_null(u64* word, u64 offset);

  u64 restored_ = 0;
  u64 nulled_ = 0;
  std::vector<std::string> list_;
  std::vector<std::pair<u64*, u64>> late_;
};

}  // namespace perdura::detail
