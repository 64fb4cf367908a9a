// Who has a medium on a server open: what the medium's lock says of it, to whoever comes next.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::media {

struct ServerOwner {
  u64 pid = 0;
  u64 start_time = 0;
  u64 opening = 0;  ///< drawn for each opening, which a process may do several times
  std::string boot_id;
  std::string pid_namespace;  ///< process ids mean something in it only
  std::string host;
  std::string program;
  std::vector<std::string> addresses;  ///< its ends of its connections, as the server has them

  /// This process, with a new opening.
  static Result<ServerOwner> describe();
  /// Lines of text: docs/format/memcached.md, "The lock".
  std::string text() const;
  static std::optional<ServerOwner> parse(std::string_view text);
  /// For messages; `self`: who asks.
  std::string who(const ServerOwner& self) const;
};

enum class OwnerState { kGone, kRunning, kElsewhere };
OwnerState state_of(const ServerOwner& owner, const ServerOwner& self);

/// An opening of this process that is not over, as long as this lives: one that is, and left its
/// lock, is as dead as one of a process that died.
class Opening {
 public:
  explicit Opening(u64 id);
  ~Opening();
  Opening(const Opening&) = delete;

 private:
  const u64 id_;
};

constexpr char kTakeoverRemedy[] = "if it is dead for sure, open with the URI parameter takeover=1";

}  // namespace perdura::media
