#include "base/memory_limit.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace perdura {
namespace {

// A group's and those of all above it. What says "max", or is not there, limits nothing.
u64 limit_of_group(const std::string& groups, std::string path, const char* file) {
  u64 limit = ~u64{0};
  for (;;) {
    u64 bytes = 0;
    if (std::ifstream(groups + path + "/" + file) >> bytes) limit = std::min(limit, bytes);
    const size_t end = path.rfind('/');
    if (end == path.npos) return limit;
    path.resize(end);
  }
}

bool has_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const size_t end = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, end) == "memory") return true;
    controllers.remove_prefix(std::min(end + 1, controllers.size()));
  }
  return false;
}

}  // namespace

// A line for each hierarchy: its number, 0 for the one of cgroup v2, its controllers, the path.
u64 memory_limit(const std::string& root) {
  u64 limit = static_cast<u64>(std::max(0L, ::sysconf(_SC_PHYS_PAGES))) * kPageBytes;
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t number_end = line.find(':');
    const size_t path_at = number_end == line.npos ? line.npos : line.find(':', number_end + 1);
    if (path_at == line.npos) continue;
    std::string path = line.substr(path_at + 1);
    if (path == "/") path.clear();
    const std::string controllers = line.substr(number_end + 1, path_at - number_end - 1);
    if (line.starts_with("0::")) {
      limit = std::min(limit, limit_of_group(root + "/sys/fs/cgroup", path, "memory.max"));
    } else if (has_memory(controllers)) {
      limit = std::min(
          limit, limit_of_group(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
    }
  }
  return limit;
}

}  // namespace perdura
