// A descriptor that belongs to this process alone.
#pragma once

#include <memory>

#include "base/unique_fd.hpp"

namespace perdura::media {

/// A forked child drops it at once: it would keep alive a lock or a connection of its parent.
class HeldFd {
 public:
  HeldFd() = default;
  explicit HeldFd(UniqueFd fd);
  HeldFd(HeldFd&&) noexcept = default;
  HeldFd& operator=(HeldFd&& other) noexcept;
  ~HeldFd();

  /// -1 in a forked child.
  int get() const { return fd_ ? fd_->get() : -1; }
  explicit operator bool() const { return get() >= 0; }

 private:
  std::unique_ptr<UniqueFd> fd_;  ///< at a place of its own, where the child finds it
};

}  // namespace perdura::media
