#include "store/noted_stores.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/unique_fd.hpp"

extern char** environ;

namespace perdura::store {
namespace {

/// What a program says to its output; empty where it cannot be run, or fails.
std::string output_of(std::vector<std::string> arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::vector<char*> words;
  for (std::string& each : arguments) words.push_back(each.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int refused = ::posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (refused != 0) return {};
  write_end.reset();
  std::string text;
  char part[512];
  for (;;) {
    const ssize_t got = ::read(read_end.get(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part, static_cast<size_t>(got));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0 ? text : std::string();
}

struct Frame {
  std::string text;
  bool is_of_the_system = false;
};

/// The caller's is where it goes on behind the call: the one before is still in the call.
Frame frame_of(const void* address, bool is_caller) {
  Dl_info info{};
  link_map* module = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) == 0)
    return {fmt::format("{}", address)};
  std::error_code ignored;
  std::string file = module->l_name;
  if (file.empty()) file = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  const u64 offset = reinterpret_cast<std::uintptr_t>(address) - module->l_addr;
  const bool is_of_the_system = file.starts_with("/lib") || file.starts_with("/usr/lib");
  // Two lines: the function, and where it is; of functions that are part of others the innermost.
  const std::string told = output_of({"addr2line", "--demangle", "--functions", "--basenames",
                                      "--exe", file, fmt::format("{:#x}", offset - is_caller)});
  const size_t end = std::min(told.find('\n'), told.size());
  std::string function = told.substr(0, end);
  if (function.empty() || function == "??")
    function = info.dli_sname != nullptr ? info.dli_sname : "a function";
  std::string where =
      told.substr(std::min(end + 1, told.size()), told.find_first_of(" \n", end + 1) - end - 1);
  if (where.empty() || where.starts_with("??"))
    where = fmt::format("{} + {:#x}", std::filesystem::path(file).filename().string(), offset);
  return {function + " (" + where + ")", is_of_the_system};
}

/// Of the thread that faulted, in its handler.
Place place_of(const region::Fault& fault) noexcept {
  Place place = {fault.instruction};
  // Ours, and the kernel's, come first.
  void* frames[std::tuple_size_v<Place> + 8];
  const int depth = ::backtrace(frames, static_cast<int>(std::size(frames)));
  void** const end = frames + std::max(depth, 0);
  void** const at = std::find(frames, end, fault.instruction);
  std::copy_n(at, std::min<std::ptrdiff_t>(end - at, std::ssize(place)), place.begin());
  return place;
}

}  // namespace

std::string describe(const Place& place) {
  constexpr size_t kShown = 3;
  std::vector<Frame> frames;
  for (const void* const each : place) {
    if (each == nullptr || frames.size() == kShown) break;
    Frame frame = frame_of(each, !frames.empty());
    // What the system's library calls inside itself says nothing.
    if (!frames.empty() && frames.back().is_of_the_system && frame.is_of_the_system) continue;
    frames.push_back(std::move(frame));
  }
  std::string text;
  for (const Frame& each : frames) text += (text.empty() ? "" : ", called by ") + each.text;
  return text;
}

NotedStores::NotedStores() : noted_(std::make_unique<Noted[]>(kStoresMax)) {
  void* unused[1];
  ::backtrace(unused, 1);
}

// Of a loop, which stores there many times, the first is as good as all.
void NotedStores::note(const region::Fault& fault) noexcept {
  bool known = false;
  for_each([&](const std::byte* address, const Place& place) {
    return known = address == fault.address && place[0] == fault.instruction;
  });
  if (!known) add(fault, place_of(fault));
}

// Not by the instruction alone: a copying function's is the same for all who call it.
void NotedStores::note_place(const region::Fault& fault) noexcept {
  const Place here = place_of(fault);
  bool known = false;
  for_each([&](const std::byte*, const Place& place) { return known = place == here; });
  if (!known) add(fault, here);
}

void NotedStores::add(const region::Fault& fault, const Place& place) noexcept {
  const u64 number = count_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number - begin_.load(std::memory_order_relaxed) > kStoresMax) return;
  Noted& noted = noted_[number % kStoresMax];
  noted.number.store(0, std::memory_order_relaxed);
  noted.address.store(fault.address, std::memory_order_release);
  for (size_t i = 0; i < place.size(); ++i)
    noted.place[i].store(place[i], std::memory_order_release);
  noted.number.store(number, std::memory_order_release);
}

}  // namespace perdura::store
