#include "media/held_fd.hpp"

#include <pthread.h>

#include <mutex>
#include <set>

namespace perdura::media {
namespace {

struct HeldFds {
  std::mutex mutex;
  std::set<UniqueFd*> fds;
};

// Never destroyed: stores may be closed during static destruction.
HeldFds& held_fds() {
  static auto* held = [] {
    ::pthread_atfork([] { held_fds().mutex.lock(); }, [] { held_fds().mutex.unlock(); },
                     [] {
                       HeldFds& mine = held_fds();
                       for (UniqueFd* fd : mine.fds) fd->reset();
                       mine.fds.clear();
                       mine.mutex.unlock();
                     });
    return new HeldFds;
  }();
  return *held;
}

}  // namespace

HeldFd::HeldFd(UniqueFd fd) : fd_(std::make_unique<UniqueFd>(std::move(fd))) {
  HeldFds& held = held_fds();
  std::lock_guard lock(held.mutex);
  held.fds.insert(fd_.get());
}

HeldFd& HeldFd::operator=(HeldFd&& other) noexcept {
  HeldFd dropped(std::move(*this));
  fd_ = std::move(other.fd_);
  return *this;
}

HeldFd::~HeldFd() {
  if (!fd_) return;
  HeldFds& held = held_fds();
  std::lock_guard lock(held.mutex);
  held.fds.erase(fd_.get());
  fd_->reset();
}

}  // namespace perdura::media
