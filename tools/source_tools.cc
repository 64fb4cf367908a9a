// perdura classify and perdura refactor are programs of their own, since Clang's libraries are in
// them: perdura-source, where it was built (docs/tools.md).
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "commands.hpp"

#ifndef PERDURA_SOURCE_TOOLS
#error "tools/CMakeLists.txt defines PERDURA_SOURCE_TOOLS"
#endif

namespace perdura::tools {

int source_tools(char** argv) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = own.parent_path();
  // As it is installed, and as it is built.
  const std::array places = {folder / PERDURA_SOURCE_TOOLS / "perdura-source",
                             folder / "../source_tools/perdura-source"};
  for (const std::filesystem::path& place : places) {
    if (access(place.c_str(), X_OK) != 0) continue;
    execv(place.c_str(), argv);
    fmt::print(stderr, "perdura: cannot run '{}': {}\n", place.string(),
               std::system_category().message(errno));
    return kFailed;
  }
  fmt::print(stderr,
             "perdura: {} needs the source tools, and this Perdura was built without them: "
             "configure it with -DPERDURA_BUILD_CLANG_TOOLS=ON, which needs Clang 19's libraries "
             "(Debian: libclang-19-dev)\n",
             argv[1]);
  return kFailed;
}

}  // namespace perdura::tools
