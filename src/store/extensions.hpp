// What programming models keep with a store, one of each type.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/result.hpp"

namespace perdura::store {

/// A programming model's state of one store. It is made when the program first uses the model on
/// the store, and ends when there are no more checkpoints, before all else of the store.
class Extension {
 public:
  virtual ~Extension() = default;
  /// No checkpoint is taken for it from now on.
  virtual void end_threads() noexcept {}
};

/// Found by their types, so that several models can be used on one store. Thread-safe, but for the
/// end: nobody finds or makes one then.
class Extensions {
 public:
  Extensions() = default;
  Extensions(const Extensions&) = delete;
  Extensions& operator=(const Extensions&) = delete;
  ~Extensions() { clear(); }

  /// nullptr: there is none of the type yet. Every transaction asks.
  template <class Type>
  Type* find() const noexcept {
    for (const Entry& entry : entries_) {
      // Acquire: what made it is there, and so is its type. There is none behind the first gap.
      Extension* const made = entry.made.load(std::memory_order_acquire);
      if (made == nullptr) return nullptr;
      if (entry.type == &kTypeOf<Type>) return static_cast<Type*>(made);
    }
    return nullptr;
  }

  /// The one of the type; `make` returns a Result<std::unique_ptr<Type>>, and is called when there
  /// is none. Others wait meanwhile, whatever they want to make.
  template <class Type, class Make>
  Result<Type*> find_or_make(Make&& make) {
    std::lock_guard lock(mutex_);
    if (Type* const found = find<Type>()) return found;
    PERDURA_ASSIGN(std::unique_ptr<Type> made, std::forward<Make>(make)());
    Type* const there = made.get();
    add(&kTypeOf<Type>, std::move(made));
    return there;
  }

  /// The last one that was made first, as it may use those before it.
  void end_threads() noexcept {
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
      if (Extension* const made = entry->made.load(std::memory_order_relaxed)) made->end_threads();
  }
  void clear() noexcept {
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
      delete entry->made.exchange(nullptr);
  }

 private:
  static constexpr size_t kTypesMax = 4;  // one of each model

  struct Entry {
    const char* type = nullptr;  // &kTypeOf<its type>
    std::atomic<Extension*> made{nullptr};
  };

  /// Its address stands for the type.
  template <class Type>
  static constexpr char kTypeOf = 0;

  void add(const char* type, std::unique_ptr<Extension> made) {
    for (Entry& entry : entries_) {
      if (entry.made.load(std::memory_order_relaxed) != nullptr) continue;
      entry.type = type;
      entry.made.store(made.release(), std::memory_order_release);
      return;
    }
    PERDURA_ASSERT(false);  // kTypesMax is too small for the models that there are
  }

  std::mutex mutex_;
  std::array<Entry, kTypesMax> entries_;
};

}  // namespace perdura::store
