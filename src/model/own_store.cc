#include "model/own_store.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <perdura/error.hpp>

#include "base/checksum.hpp"

namespace perdura::detail {

namespace fs = std::filesystem;

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

namespace {

fs::path state_folder() {
  if (const char* state = environment("XDG_STATE_HOME")) return state;
  if (const char* home = environment("HOME")) return fs::path(home) / ".local/state";
  if (const passwd* user = ::getpwuid(::getuid())) return fs::path(user->pw_dir) / ".local/state";
  throw Error(Code::kNotFound,
              "the user has no home folder for a store; name one by PERDURA_STORE");
}

// As in the paper (§3.1) the path of the program and its user say which heap is its own.
std::string default_uri() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed)
    throw Error(Code::kIo, "cannot find out the program's path: " + failed.message() +
                               "; name a store by PERDURA_STORE");
  const fs::path folder = state_folder() / "perdura";
  fs::create_directories(folder, failed);
  if (failed)
    throw Error(Code::kIo, "cannot create '" + folder.string() + "': " + failed.message() +
                               "; name a store by PERDURA_STORE");
  char id[48];
  std::snprintf(id, sizeof id, "-%016lx-%u.pd",
                checksum(program.native().data(), program.native().size()), ::getuid());
  return "file:" + (folder / (program.filename().string() + id)).string();
}

}  // namespace

std::string own_store_uri() {
  const char* const named = environment("PERDURA_STORE");
  return named != nullptr ? named : default_uri();
}

}  // namespace perdura::detail
