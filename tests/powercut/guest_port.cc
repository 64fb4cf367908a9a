// What the host is told, and what proves that the medium is used as in production.
#include "guest.hpp"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace perdura::test {
namespace {

constexpr const char* kPort = "/dev/ttyS1";

std::uint32_t fnv1a(const std::string& text) {
  std::uint32_t sum = 0x811c9dc5;
  for (char each : text) sum = (sum ^ static_cast<unsigned char>(each)) * 0x01000193;
  return sum;
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Every shared mapping of the store has the flag "sf": page faults are synchronous (MAP_SYNC).
bool mapped_synchronously() {
  std::ifstream in("/proc/self/smaps");
  size_t shared = 0;
  size_t synchronous = 0;
  bool of_store = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find('-') < line.find(' ') && line.find(':') > line.find(' ')) {
      std::istringstream fields(line);
      std::string range, permissions;
      fields >> range >> permissions;
      of_store = line.ends_with(kStore) && permissions.ends_with('s');
      shared += of_store;
    } else if (of_store && line.starts_with("VmFlags:")) {
      synchronous += (line + " ").find(" sf ") != std::string::npos;
    }
  }
  return shared != 0 && synchronous == shared;
}

/// Whether a descriptor of this process leads to `target` and is open with `flags`.
bool has_descriptor(const std::string& target, int flags) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != target) continue;
    const int fd = std::stoi(entry.path().filename());
    if (flags == 0 || (::fcntl(fd, F_GETFL) & flags) == flags) return true;
  }
  return false;
}

}  // namespace

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
u64 number_of(const char* name) { return std::strtoull(setting(name).c_str(), nullptr, 10); }

Port::Port() : fd_(::open(kPort, O_WRONLY | O_NOCTTY | O_CLOEXEC)) {
  termios mode{};
  if (fd_ < 0 || ::tcgetattr(fd_, &mode) != 0) std::abort();
  ::cfmakeraw(&mode);
  if (::tcsetattr(fd_, TCSANOW, &mode) != 0) std::abort();
}

void Port::say(std::string words) {
  for (char& each : words)
    if (each == '\n') each = ' ';
  const std::lock_guard lock(mutex_);
  std::string line = std::to_string(++lines_) + " " + words + " ";
  line += std::to_string(fnv1a(line)) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t done = ::write(fd_, line.data() + sent, line.size() - sent);
    if (done < 0 && errno != EINTR) std::abort();
    if (done > 0) sent += static_cast<size_t>(done);
  }
}

void Port::drain() { ::tcdrain(fd_); }

Prover::Prover(Port& port) : port_(port) {
  if (setting("MEDIUM") == "dax") open_ = {{"map_sync", mapped_synchronously}};
  else
    open_ = {{"write_cache",
              [] {
                return first_line("/sys/block/" + setting("DEVICE") + "/queue/write_cache") ==
                       "write back";
              }},
             {"direct_io", [] { return has_descriptor(kStore, O_DIRECT); }},
             {"io_uring", [] { return has_descriptor("anon_inode:[io_uring]", 0); }}};
}

void Prover::look() {
  std::erase_if(open_, [&](const Fact& fact) {
    if (!fact.holds()) return false;
    port_.say(std::string("proof ") + fact.name);
    return true;
  });
}

}  // namespace perdura::test
