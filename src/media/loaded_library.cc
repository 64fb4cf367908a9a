#include "media/loaded_library.hpp"

#include <dlfcn.h>

namespace perdura::media {
namespace {

std::string last_error() {
  const char* const error = ::dlerror();
  return error != nullptr ? error : "no reason is given";
}

}  // namespace

Result<LoadedLibrary> LoadedLibrary::load(const char* name, const char* package) {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library != nullptr) return LoadedLibrary(library, name);
  return Failure{Code::kUnsupported, "cannot load the library " + std::string(name) + " (" +
                                         last_error() + "); install it: on Debian it is in " +
                                         package};
}

Result<void*> LoadedLibrary::find(const char* name) const {
  void* const symbol = ::dlsym(library_, name);
  if (symbol != nullptr) return symbol;
  return Failure{Code::kUnsupported, "the library " + std::string(name_) +
                                         " is too old: it has no " + name +
                                         "; install a newer one"};
}

}  // namespace perdura::media
