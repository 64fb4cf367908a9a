// Opens a store for compiled reports where these cannot be, and prints why it is refused.
#include <unistd.h>

#include <cstdio>
#include <string>

#include <perdura/perdura.hpp>

int main() {
  const std::string path = "/dev/shm/perdura-refused-" + std::to_string(::getpid());
  perdura::Options options;
  options.tracking = perdura::Tracking::kCompiled;
  options.region_address = 0x300000000000;
  try {
    perdura::Store::open("emu:" + path, options);
  } catch (const perdura::Error& error) {
    std::puts(error.what());
  }
  ::unlink(path.c_str());
}
