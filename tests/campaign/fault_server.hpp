// A memcached server for one run of fault_test.cc, which may have it killed.
//
//   process with the server ──fork──▶ the run: a Session
//        ServerDesk::run    ◀── socket pair ──  ServerDesk::lose
//
// Two processes, since the library may end the run's, and the server is to outlive it: what it was
// told is looked at afterwards.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"
#include "support/memcached_server.hpp"
#include "support/process.hpp"

namespace perdura::test {

/// What becomes of the server: it is killed, and either that is all, or another one starts at its
/// port, which knows nothing.
enum class Loss { kNone, kStaysAway, kComesBackEmpty };

class ServerDesk {
 public:
  /// `body` in a child, which may lose the server. As in_child.
  template <class Body>
  std::string run(Body&& body) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    UniqueFd desk(ends[0]);
    run_ = UniqueFd(ends[1]);
    Child child([&] {
      desk.reset();  // so that this side notices the other one's end
      return body();
    });
    run_.reset();
    serve(desk.get());
    return child.wait();
  }

  /// In the child. Returns when it has happened.
  void lose(Loss loss) const {
    if (::write(run_.get(), &loss, sizeof loss) != sizeof loss ||
        ::read(run_.get(), &loss, sizeof loss) != sizeof loss)
      std::abort();
  }

  const MemcachedProcess& server() const { return server_; }

 private:
  void serve(int desk) {
    for (Loss wanted; ::read(desk, &wanted, sizeof wanted) == sizeof wanted;) {
      if (wanted == Loss::kStaysAway) server_.kill();
      else server_.restart();
      if (::write(desk, &wanted, sizeof wanted) != sizeof wanted) std::abort();
    }
  }

  MemcachedProcess server_{{"-M", "-m", "64", "-t", "1"}};
  UniqueFd run_;
};

}  // namespace perdura::test
