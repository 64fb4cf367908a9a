// Opens a store, by the tracker that is named, and prints which one finds its changes.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include <perdura/compiled.h>
#include <perdura/perdura.hpp>

int main(int count, char** arguments) {
  const std::string path = "/dev/shm/perdura-parts-" + std::to_string(::getpid());
  perdura::Options options;
  for (int i = 1; i < count; ++i) {
    const char* const value = std::strchr(arguments[i], '=') + 1;
    switch (arguments[i][0]) {
      case 't':
        if (std::strcmp(value, "compiled") == 0) options.tracking = perdura::Tracking::kCompiled;
        break;
      case 'l':
        if (::dlopen(value, RTLD_NOW) == nullptr) return std::puts(::dlerror()), 1;
        break;
      case 'p':
        perdura_trusted_part("plain.c");
        break;
      case 'a':
        options.aliases = 4;
        break;
      default:
        return 2;
    }
  }
  try {
    const auto store = perdura::Store::open("emu:" + path, options);
    std::puts(perdura::name_of(store.statistics().tracking));
  } catch (const perdura::Error& error) {
    std::puts(error.what());
  }
  ::unlink(path.c_str());
}
