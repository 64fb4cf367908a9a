// perdura-kv: a key-value server that redis' clients speak to: GET, SET, DEL, INCR and PING on the
// loopback interface. Its data are an ordinary map in its own memory, which a store makes durable:
// what was acknowledged is there after a crash.
//
// The lines that do that are marked with a D at their end, with the headers that they need. One
// thread does everything. What has come from all connections meanwhile is executed together, made
// durable by one checkpoint, and then acknowledged.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <perdura/perdura.hpp>              // D
#include <perdura/structures/hash_map.hpp>  // D
#include <perdura/structures/string.hpp>    // D

#include "protocol.hpp"

namespace kv {
namespace {

struct Settings {
  std::uint16_t port = 7379;
  std::string store = "kv.pd";
  std::string map = "hash_map";
  int every_ms = 0;
};

struct Connection {
  std::string in, out;
  std::uint64_t round = 0;    ///< in which something came last
  bool ends = false;          ///< when it has its answers
  bool takes_answers = true;  ///< else nothing more is taken from it before it has those
};

template <class Map>
void set(Map& map, std::string_view key, std::string_view value) {
  const auto found = map.find(key);
  if (found != map.end()) found->second = value;
  else map.try_emplace(typename Map::key_type(key), value);
}

/// Executes a command; whether it may have changed something.
template <class Map>
bool execute(Map& map, const std::vector<std::string_view>& words, std::string& out) {
  const auto is = [&](const char* name, std::size_t count) {
    return words.size() == count && words[0].size() == std::strlen(name) &&
           ::strncasecmp(words[0].data(), name, words[0].size()) == 0;
  };
  if (is("GET", 2)) {
    const auto found = map.find(words[1]);
    if (found == map.end()) out += "$-1\r\n";
    else answer_text(out, found->second);
    return false;
  }
  if (is("SET", 3)) {
    set(map, words[1], words[2]);
    out += "+OK\r\n";
    return true;
  }
  if (is("DEL", 2)) {
    const auto found = map.find(words[1]);
    const bool there = found != map.end();
    if (there) map.erase(found);
    answer_number(out, there ? 1 : 0);
    return there;
  }
  if (is("INCR", 2)) {
    const auto found = map.find(words[1]);
    const std::string_view text = found != map.end() ? std::string_view(found->second) : "0";
    long long number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number == LLONG_MAX) {
      out += "-ERR value is not an integer or out of range\r\n";
      return false;
    }
    set(map, words[1], std::to_string(number + 1));
    answer_number(out, number + 1);
    return true;
  }
  out += is("PING", 1) ? "+PONG\r\n" : "-ERR unknown command\r\n";
  return false;
}

int listen_on(std::uint16_t port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener >= 0 &&
      ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(listener, 128) == 0)
    return listener;
  throw std::runtime_error("cannot listen on port " + std::to_string(port) + ": " +
                           std::strerror(errno) + "; choose another one with --port");
}

/// Takes what has come; whether the connection goes on.
bool receive(int socket, std::string& in) {
  char bytes[64 * 1024];
  const ssize_t got = ::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  in.append(bytes, static_cast<std::size_t>(got));
  return true;
}

/// As much as the other side takes now; whether the connection goes on.
bool send_some(int socket, std::string& out) {
  std::size_t sent = 0;
  ssize_t done = 0;
  while (sent < out.size() && done >= 0) {
    done = ::send(socket, out.data() + sent, out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0) sent += static_cast<std::size_t>(done);
    else if (done < 0 && errno == EINTR) done = 0;
  }
  const bool goes_on = done >= 0 || errno == EAGAIN;
  out.erase(0, sent);
  return goes_on;
}

template <class Map>
class Server {
 public:
  /// Without a store the map is in ordinary memory, for comparison.
  Server(Map& map, perdura::Store* store, const Settings& settings)
      : map_(map), store_(store), settings_(settings), listener_(listen_on(settings.port)) {
    watch(EPOLL_CTL_ADD, listener_, EPOLLIN);
  }

  [[noreturn]] void run() {
    const bool waits = store_ != nullptr && settings_.every_ms == 0;
    for (;;) {
      active_.clear();
      ++round_;
      bool changed = false;
      std::size_t before = 0;
      do {
        before = active_.size();
        epoll_event ready[64];
        const int count = ::epoll_wait(events_, ready, 64, -1);
        if (store_ != nullptr) {
          const auto operation = store_->operation();  // D
          changed |= take(ready, count);
        } else {
          changed |= take(ready, count);
        }
        // Each turn has brought somebody else, so who never stops sending holds nobody up.
      } while (changed && waits && active_.size() > before && others_come());
      if (changed && waits) store_->checkpoint();  // D
      for (const int socket : active_) answer(socket, connections_[socket]);
    }
  }

 private:
  void watch(int operation, int socket, std::uint32_t what) const {
    epoll_event event{what, {.fd = socket}};
    ::epoll_ctl(events_, operation, socket, &event);
  }

  void answer(int socket, Connection& connection) {
    const bool goes_on = send_some(socket, connection.out);
    const bool all = connection.out.empty();
    if (!goes_on || (all && connection.ends)) {
      connections_.erase(socket);
      ::close(socket);
      // There is room for another one.
      if (!std::exchange(accepts_, true)) watch(EPOLL_CTL_ADD, listener_, EPOLLIN);
    } else if (all != connection.takes_answers) {
      connection.takes_answers = all;
      watch(EPOLL_CTL_MOD, socket, all ? EPOLLIN : EPOLLOUT);
    }
  }

  /// As databases group their commits: those who asked in the last rounds ask again soon, and one
  /// checkpoint is for all of them. Waits for a moment.
  bool others_come() const {
    const auto expected =
        std::count_if(connections_.begin(), connections_.end(), [&](const auto& each) {
          return each.second.round != 0 && each.second.round + 2 >= round_;
        });
    if (active_.size() >= static_cast<std::size_t>(expected)) return false;
    pollfd events{events_, POLLIN, 0};
    const timespec moment{0, 50'000};
    return ::ppoll(&events, 1, &moment, nullptr) > 0;
  }

  /// Executes what has come whole.
  bool take(const epoll_event* ready, int count) {
    bool changed = false;
    for (int i = 0; i < count; ++i) {
      const int socket = ready[i].data.fd;
      if (socket == listener_) {
        const int accepted = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (accepted >= 0) watch(EPOLL_CTL_ADD, accepted, EPOLLIN);
        else if (errno == EMFILE || errno == ENFILE) {
          accepts_ = false;
          watch(EPOLL_CTL_DEL, listener_, 0);
        }
        continue;
      }
      Connection& connection = connections_[socket];
      if (connection.round != round_) active_.push_back(socket);
      connection.round = round_;
      if (!connection.takes_answers) continue;
      connection.ends |= !receive(socket, connection.in);
      std::string_view input = connection.in;
      Parsed parsed = Parsed::kCommand;
      while ((parsed = parse(input, words_)) == Parsed::kCommand)
        if (!words_.empty()) changed |= execute(map_, words_, connection.out);
      connection.in.erase(0, connection.in.size() - input.size());
      connection.ends |= parsed == Parsed::kWrong;
    }
    return changed;
  }

  Map& map_;
  perdura::Store* const store_;
  const Settings settings_;
  const int events_ = ::epoll_create1(EPOLL_CLOEXEC);
  const int listener_;
  bool accepts_ = true;  ///< false while there are no descriptors for more connections
  std::unordered_map<int, Connection> connections_;
  std::vector<int> active_;  ///< in this round
  std::uint64_t round_ = 0;
  std::vector<std::string_view> words_;
};

template <class Map>
[[noreturn]] void serve(const Settings& settings, perdura::Tracking tracking) {
  auto store = perdura::Store::open(settings.store, {.tracking = tracking});  // D
  auto& map = store.root<Map>("map");                                         // D
  store.checkpoint_every(std::chrono::milliseconds(settings.every_ms));       // D
  Server<Map> server(map, &store, settings);
  std::puts("ready");
  std::fflush(stdout);
  server.run();
}

/// Found by whatever a string_view is made of, as in the others.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
using OrdinaryMap = std::unordered_map<std::string, std::string, TextHash, std::equal_to<>>;

[[noreturn]] void serve_from_memory(const Settings& settings) {
  OrdinaryMap map;
  Server<OrdinaryMap> server(map, nullptr, settings);
  std::puts("ready");
  std::fflush(stdout);
  server.run();
}

[[noreturn]] void run(const Settings& settings) {
  if (settings.map == "memory") serve_from_memory(settings);
  using Standard = perdura::unordered_map<perdura::string, perdura::string>;
  if (settings.map == "unordered_map") serve<Standard>(settings, perdura::Tracking::kAutomatic);
  using perdura::structures::hash_map, perdura::structures::string;
  serve<hash_map<string, string>>(settings, perdura::Tracking::kReported);
}

}  // namespace
}  // namespace kv

int main(int argc, char** argv) try {
  kv::Settings settings;
  CLI::App app("A durable key-value server for redis' clients: GET, SET, DEL, INCR, PING");
  app.add_option("--port", settings.port, "on the loopback interface")->capture_default_str();
  app.add_option("--store", settings.store, "file, or URI, of the store")->capture_default_str();
  app.add_option("--map", settings.map,
                 "hash_map (perdura::structures), unordered_map (the standard's, found by page), "
                 "memory (no store)")
      ->check(CLI::IsMember({"hash_map", "unordered_map", "memory"}))
      ->capture_default_str();
  app.add_option("--every", settings.every_ms,
                 "make all durable every so many ms; 0: before each answer")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  kv::run(settings);
} catch (const std::exception& error) {
  std::fprintf(stderr, "perdura-kv: %s\n", error.what());
  return 1;
}
