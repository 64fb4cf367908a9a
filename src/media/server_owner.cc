#include "media/server_owner.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <set>

#include <fmt/format.h>

#include "base/process.hpp"
#include "format/format.hpp"
#include "media/lock.hpp"

namespace perdura::media {
namespace {

constexpr std::string_view kTitle = "perdura lock 1";

// Openings of this process that are not over. One that is, and left its item, is as dead as one of
// a process that died.
struct Openings {
  std::mutex& mutex = process_mutex(ProcessMutex::kLocks);
  std::set<u64>& ids;
};

// Takes no memory: a lock that could not be taken for want of it looks in here when it goes.
Openings openings() {
  alignas(std::set<u64>) static constinit std::byte place[sizeof(std::set<u64>)]{};
  static constinit std::set<u64>* never_destroyed = nullptr;
  std::lock_guard lock(process_mutex(ProcessMutex::kLocks));
  if (never_destroyed == nullptr) never_destroyed = new (place) std::set<u64>;
  return {.ids = *never_destroyed};
}

bool is_open_here(u64 opening) {
  const Openings mine = openings();
  std::lock_guard lock(mine.mutex);
  return mine.ids.contains(opening);
}

std::string first_line(const char* text, size_t size) {
  std::string line(text, ::strnlen(text, size));
  return line.substr(0, line.find('\n'));
}

}  // namespace

Result<ServerOwner> ServerOwner::describe() {
  format::OwnerRecord record;
  std::memcpy(&record, describe_owner().bytes, sizeof record);
  ServerOwner owner;
  owner.pid = record.pid;
  owner.start_time = record.start_time;
  owner.boot_id = first_line(record.boot_id, sizeof record.boot_id);
  owner.program = first_line(record.program, sizeof record.program);
  char name[256] = "";
  (void)!::readlink("/proc/self/ns/pid", name, sizeof name - 1);
  owner.pid_namespace = name;
  std::memset(name, 0, sizeof name);
  (void)!::gethostname(name, sizeof name - 1);
  owner.host = first_line(name, sizeof name);
  if (::getrandom(&owner.opening, sizeof owner.opening, 0) != sizeof owner.opening)
    return system_failure(errno, "cannot draw a number for the lock");
  return owner;
}

std::string ServerOwner::text() const {
  std::string text =
      fmt::format("{}\npid {}\nstart {}\nopening {}\nboot {}\npids {}\nhost {}\nprogram {}\n",
                  kTitle, pid, start_time, opening, boot_id, pid_namespace, host, program);
  for (const std::string& address : addresses) text += fmt::format("at {}\n", address);
  return text;
}

std::optional<ServerOwner> ServerOwner::parse(std::string_view text) {
  ServerOwner owner;
  const auto next_line = [&] {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
  };
  if (next_line() != kTitle) return std::nullopt;
  while (!text.empty()) {
    const std::string_view line = next_line();
    const std::string_view word = line.substr(0, line.find(' '));
    const std::string_view rest = line.substr(std::min(word.size() + 1, line.size()));
    const auto number = [&](u64& into) {
      std::from_chars(rest.data(), rest.data() + rest.size(), into);
    };
    if (word == "pid") number(owner.pid);
    else if (word == "start") number(owner.start_time);
    else if (word == "opening") number(owner.opening);
    else if (word == "boot") owner.boot_id = rest;
    else if (word == "pids") owner.pid_namespace = rest;
    else if (word == "host") owner.host = rest;
    else if (word == "program") owner.program = rest;
    else if (word == "at") owner.addresses.push_back(std::string(rest));
  }
  return owner;
}

std::string ServerOwner::who(const ServerOwner& self) const {
  return "process " + std::to_string(pid) + " (" + program + ")" +
         (pid == self.pid && start_time == self.start_time ? ", which is this process" : "");
}

OwnerState state_of(const ServerOwner& owner, const ServerOwner& self) {
  if (owner.boot_id != self.boot_id || owner.pid_namespace != self.pid_namespace)
    return OwnerState::kElsewhere;
  const bool same_process = owner.pid == self.pid && owner.start_time == self.start_time;
  const bool running =
      same_process ? is_open_here(owner.opening) : is_running(owner.pid, owner.start_time);
  return running ? OwnerState::kRunning : OwnerState::kGone;
}

Opening::Opening(u64 id) : id_(id) {
  const Openings mine = openings();
  std::lock_guard guard(mine.mutex);
  mine.ids.insert(id_);
}

Opening::~Opening() {
  const Openings mine = openings();
  std::lock_guard guard(mine.mutex);
  mine.ids.erase(id_);
}

}  // namespace perdura::media
