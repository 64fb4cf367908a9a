// A memcached server of a test's own, on a free port of this machine.
#pragma once

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/unique_fd.hpp"
#include "format/memcached_format.hpp"
#include "media/memcached_client.hpp"

namespace perdura::test {

/// A socket on a port of this machine that nobody used; `port` 0 chooses one and says which.
inline UniqueFd bind_port(in_port_t& port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  address.sin_port = ::htons(port);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!fd || ::bind(fd.get(), any, length) != 0 || ::getsockname(fd.get(), any, &length) != 0)
    std::abort();
  port = ::ntohs(address.sin_port);
  return fd;
}

class MemcachedProcess {
 public:
  explicit MemcachedProcess(std::vector<std::string> options = {"-M", "-m", "256"})
      : options_(std::move(options)) {
    for (int attempt = 0; attempt < 5 && pid_ < 0; ++attempt) {
      reserve_port();
      start();
    }
    EXPECT_GT(pid_, 0) << "memcached does not start; install the Debian package memcached";
  }
  ~MemcachedProcess() { kill(); }
  MemcachedProcess(const MemcachedProcess&) = delete;

  std::string port() const { return std::to_string(port_); }
  std::string address() const { return "127.0.0.1:" + port(); }
  std::string uri(const std::string& name) const { return "memcached://" + address() + "/" + name; }

  std::unique_ptr<media::MemcachedConnection> connect() const {
    auto opened = media::MemcachedConnection::open({"127.0.0.1", port(), 5000});
    return opened ? std::move(*opened) : nullptr;
  }
  /// What it answers to a request.
  std::string ask(const std::string& request) const {
    const auto connection = connect();
    if (connection == nullptr) return "no connection";
    const auto reply = connection->ask(request);
    if (!reply) return reply.failure().message;
    return std::string(reply->is("VA ") ? reply->value : reply->line);
  }
  std::string set(const std::string& key, const std::string& value) const {
    return ask("ms " + key + " " + std::to_string(value.size()) + "\r\n" + value + "\r\n");
  }
  /// The key of the object at a place of the medium `name`.
  std::string object_key(const std::string& name, u64 place) const {
    format::MemcachedHead head{};
    const std::string value = ask("mg perdura:" + name + " v\r\n");
    EXPECT_EQ(value.size(), sizeof head);
    std::memcpy(&head, value.data(), std::min(value.size(), sizeof head));
    return fmt::format("perdura:{}:{:016x}:{:x}", name, head.nonce, place);
  }
  void forget_object(const std::string& name, u64 place) const {
    EXPECT_EQ(ask("md " + object_key(name, place) + "\r\n"), "HD");
  }
  /// How many items it holds.
  u64 items() const {
    const auto connection = connect();
    if (connection == nullptr || !connection->send("stats\r\n")) return ~u64{0};
    u64 items = ~u64{0};
    for (;;) {
      const auto reply = connection->receive();
      if (!reply || reply->line == "END") return items;
      constexpr std::string_view kItems = "STAT curr_items ";
      if (reply->is(kItems)) items = std::stoull(std::string(reply->line.substr(kItems.size())));
    }
  }

  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  /// Another server at the same port, which knows nothing.
  void restart() {
    kill();
    start();
    EXPECT_GT(pid_, 0);
  }
  /// It accepts connections, and answers nothing.
  void pause() {
    ::kill(pid_, SIGSTOP);
    pid_t stopped;
    while ((stopped = ::waitpid(pid_, nullptr, WUNTRACED)) < 0 && errno == EINTR) {
    }
    EXPECT_EQ(stopped, pid_);
  }
  void resume() { ::kill(pid_, SIGCONT); }

 private:
  // A socket that is bound and listens to nothing keeps others from a port that is free to choose,
  // also while no server runs there. It lets in whoever wants this port, as the server does.
  void reserve_port() {
    port_ = 0;
    reserved_ = bind_port(port_);
    const int on = 1;
    if (::setsockopt(reserved_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) std::abort();
  }

  void start() {
    std::vector<std::string> words = {"memcached", "-l", "127.0.0.1", "-p", port(), "-U", "0"};
    if (::geteuid() == 0) words.insert(words.end(), {"-u", "root"});
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    for (int i = 0; i < 1000; ++i) {
      if (connect() != nullptr) return;
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) break;  // the port was taken meanwhile
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pid_ = -1;
  }

  const std::vector<std::string> options_;
  in_port_t port_ = 0;
  UniqueFd reserved_;
  pid_t pid_ = -1;
};

}  // namespace perdura::test
