#include "media/held_fd.hpp"

#include <mutex>
#include <set>

#include "base/process.hpp"

namespace perdura::media {
namespace {

// Under the mutex. Never destroyed: stores may be closed during static destruction.
constinit std::set<UniqueFd*>* held = nullptr;

std::mutex& mutex() { return process_mutex(ProcessMutex::kHeldFds); }

void drop_all() noexcept {
  if (held == nullptr) return;
  for (UniqueFd* fd : *held) fd->reset();
  held->clear();
}

}  // namespace

HeldFd::HeldFd(UniqueFd fd) : fd_(std::make_unique<UniqueFd>(std::move(fd))) {
  at_fork_in_child(drop_all);
  std::lock_guard lock(mutex());
  if (held == nullptr) held = new std::set<UniqueFd*>;
  held->insert(fd_.get());
}

HeldFd& HeldFd::operator=(HeldFd&& other) noexcept {
  HeldFd dropped(std::move(*this));
  fd_ = std::move(other.fd_);
  return *this;
}

HeldFd::~HeldFd() {
  if (!fd_) return;
  std::lock_guard lock(mutex());
  held->erase(fd_.get());
  fd_->reset();
}

}  // namespace perdura::media
