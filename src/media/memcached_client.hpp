// A connection to a memcached server, and as much of its meta protocol as a medium needs.
//
// The server answers in the order of the requests. Both sides may be full of what the other one has
// not taken: so whoever waits to send takes in what has been answered meanwhile.
//
// Whatever is at the other end, no call lasts for ever and none takes memory without limit: a
// request must be taken, and an answer be there as a whole, before a deadline, however many bytes
// arrive until then; a value, a list, and what was not asked have a largest length.
#pragma once

#include <sys/uio.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/result.hpp"
#include "media/held_fd.hpp"

namespace perdura::media {

struct MemcachedServer {
  std::string host;
  std::string port;
  int timeout_ms = 0;       ///< for connecting, to take a request, and to answer one
  std::string medium = {};  ///< for messages

  std::string name() const {
    return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + port;
  }
  /// What to do when it does not answer.
  std::string remedy() const {
    return "; see that it runs, and open " + (medium.empty() ? "the store" : "'" + medium + "'") +
           " again";
  }
};

/// An answer, valid until the next call of its connection.
struct MemcachedReply {
  std::string_view line;  ///< without its end
  std::string_view value;

  /// Whether it begins with this code of two letters.
  bool is(std::string_view code) const { return line.starts_with(code); }
  bool is_error() const { return line.find("ERROR") != std::string_view::npos; }
  /// The number that a flag of the line, as "c17", carries.
  std::optional<u64> number(char flag) const;
};

/// Not thread-safe. After a failure it is broken: what the server took is unknown.
class MemcachedConnection {
 public:
  static Result<std::unique_ptr<MemcachedConnection>> open(const MemcachedServer& server);
  /// Ends it towards the server as well, for a child that was forked just now.
  ~MemcachedConnection();

  /// Takes `pieces` apart as they are sent.
  Status send(std::span<iovec> pieces);
  Status send(std::string_view request);
  Result<MemcachedReply> receive() { return receive(deadline()); }
  Result<MemcachedReply> ask(std::string_view request);
  /// An answer that is one of several, all of which are to be there by then, as deadline() says
  /// before the first.
  Result<MemcachedReply> receive(u64 end_ns);
  u64 deadline() const;
  /// Requests were sent to which the server answers only if it refuses.
  void add_quiet(u64 requests) { quiet_ += requests; }
  /// How many such answers may come before that of what is asked next.
  u64 take_quiet() { return std::exchange(quiet_, 0); }
  using TakeListed = std::function<void(std::string_view name, std::string_view value)>;
  /// What the server lists when it is asked `request`: lines "STAT NAME VALUE". What `take` throws,
  /// this throws when the list is over: the connection is as sound as before.
  Status list(std::string_view request, const TakeListed& take);

  /// Of what the server says instead of doing it; `what` could not be done.
  Failure refusal(const MemcachedReply& reply, const std::string& what) const;
  /// The same for an answer that makes no sense, which breaks the connection.
  Failure nonsense(const MemcachedReply& reply);

  /// This end, as the server lists it: "127.0.0.1:40312".
  const std::string& address() const { return address_; }
  bool broken() const { return broken_; }
  /// What was asked and is not answered yet could not be told from what would be asked next.
  void give_up() noexcept { broken_ = true; }
  /// In a child of the process that opened it.
  bool forked() const { return !fd_; }

 private:
  MemcachedConnection(const MemcachedServer& server, UniqueFd fd, std::string address)
      : server_(server.name()),
        remedy_(server.remedy()),
        timeout_ms_(server.timeout_ms),
        fd_(std::move(fd)),
        address_(std::move(address)),
        buffer_(256 * kKiB) {}

  Failure fail(const std::string& what);
  Failure given_up();
  Failure lost();
  Failure too_late();
  Failure left_behind();
  Status wait(short events, u64 end_ns);
  Result<bool> take_in();
  Status fill(u64 end_ns);
  /// `take` does not throw.
  Status list_to_the_end(std::string_view request, const TakeListed& take);
  size_t buffered() const { return end_ - begin_; }

  const std::string server_;
  const std::string remedy_;
  const int timeout_ms_;
  HeldFd fd_;
  const std::string address_;
  bool broken_ = false;
  u64 quiet_ = 0;
  std::vector<char> buffer_;  ///< what was received: [begin_, end_) is still to be looked at
  size_t begin_ = 0;
  size_t end_ = 0;
};

/// An exchange that an exception may leave, for want of memory: then the connection is broken.
class MemcachedExchange {
 public:
  explicit MemcachedExchange(MemcachedConnection& connection)
      : connection_(connection), exceptions_(std::uncaught_exceptions()) {}
  ~MemcachedExchange() {
    if (std::uncaught_exceptions() > exceptions_) connection_.give_up();
  }
  MemcachedExchange(const MemcachedExchange&) = delete;

 private:
  MemcachedConnection& connection_;
  const int exceptions_;
};

/// The addresses of all connections that the server has.
Result<std::vector<std::string>> list_connections(MemcachedConnection& connection);
/// An address as a server lists it, without what it may be written with besides: the brackets and
/// the link of an IPv6 address, the prefix of an IPv4 one.
std::string plain_address(std::string_view address);

}  // namespace perdura::media
