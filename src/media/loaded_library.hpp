// Libraries that only some media need, loaded when the first of these is opened: who uses files
// alone needs none of them, and starts without them.
#pragma once

#include <mutex>
#include <string>

#include "base/result.hpp"

namespace perdura::media {

/// A library that stays loaded for the process's life. Thread-safe.
class LoadedLibrary {
 public:
  /// kUnsupported names the package that has it.
  static Result<LoadedLibrary> load(const char* name, const char* package);

  /// Set `function` to what the library calls `name`.
  template <class Function>
  Status find(const char* name, Function*& function) const {
    PERDURA_ASSIGN(void* const symbol, find(name));
    function = reinterpret_cast<Function*>(symbol);
    return {};
  }

 private:
  LoadedLibrary(void* library, const char* name) : library_(library), name_(name) {}
  Result<void*> find(const char* name) const;

  void* library_;
  const char* name_;
};

/// Functions of a library, an `Api`, which `load(Api&)` finds when the first one asks; where that
/// fails the next one tries again. Thread-safe. One for each `load`.
template <auto load, class Api>
Result<const Api*> loaded_once() {
  static std::mutex mutex;
  static Api api;
  static bool is_loaded = false;
  std::lock_guard lock(mutex);
  if (!is_loaded) PERDURA_TRY(load(api));
  is_loaded = true;
  return &api;
}

}  // namespace perdura::media
