// Libraries that only some media need, loaded when the first of these is opened: who uses files
// alone needs none of them, and starts without them.
#pragma once

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

}  // namespace perdura::media
