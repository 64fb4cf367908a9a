// A server that says what a test wants, where memcached would not.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "support/memcached_server.hpp"

namespace perdura::test {

/// Answers each request by a function of its line. The values of sets ("ms KEY BYTES …") are read
/// and forgotten. An answer "close" ends the connection, "reset" as after a crash. "drip" is an
/// answer of which a byte comes now and then, "flood TEXT" is TEXT again and again, both until the
/// client is gone.
class ScriptedServer {
 public:
  using Answer = std::function<std::string(const std::string& line)>;

  explicit ScriptedServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = bind_port(port_);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::pipe(stop_), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
  }
  ScriptedServer(const ScriptedServer&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string uri() const { return "memcached://" + address() + "/s"; }

 private:
  struct Client {
    UniqueFd fd;
    std::string unread;
  };

  void serve() {
    std::vector<Client> clients;
    for (;;) {
      std::vector<pollfd> waiting = {{stop_[0], POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Client& client : clients) waiting.push_back({client.fd.get(), POLLIN, 0});
      ::poll(waiting.data(), waiting.size(), -1);
      if (waiting[0].revents != 0) return;
      for (size_t i = clients.size(); i-- != 0;)
        if (waiting[i + 2].revents != 0 && !serve(clients[i]))
          clients.erase(clients.begin() + static_cast<long>(i));
      if (waiting[1].revents != 0)
        clients.push_back({UniqueFd(::accept(listener_.get(), nullptr, nullptr)), {}});
    }
  }

  // False when the connection is over.
  bool serve(Client& client) {
    char some[64 * 1024];
    const ssize_t got = ::recv(client.fd.get(), some, sizeof some, 0);
    if (got <= 0) return false;
    client.unread.append(some, static_cast<size_t>(got));
    for (;;) {
      const size_t end = client.unread.find("\r\n");
      if (end == std::string::npos) return true;
      const std::string line = client.unread.substr(0, end);
      size_t request_bytes = end + 2;
      if (line.starts_with("ms "))
        request_bytes += std::stoul(line.substr(line.find(' ', 3) + 1)) + 2;
      if (client.unread.size() < request_bytes) return true;
      client.unread.erase(0, request_bytes);
      const std::string answer = answer_(line);
      if (answer == "close") return false;
      if (answer == "reset") {
        const linger at_once{1, 0};
        ::setsockopt(client.fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        return false;
      }
      if (answer == "drip") return repeat(client, "x", 1);
      if (answer.starts_with("flood ")) return repeat(client, answer.substr(6), 0);
      ::send(client.fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  bool repeat(const Client& client, std::string text, int pause_ms) const {
    while (pause_ms == 0 && text.size() < 64 * 1024) text += text;
    for (;;) {
      pollfd waiting[] = {{stop_[0], POLLIN, 0}, {client.fd.get(), POLLOUT, 0}};
      ::poll(waiting, 1, pause_ms);
      if (waiting[0].revents == 0) ::poll(waiting, 2, -1);
      if (waiting[0].revents != 0) return false;
      if (::send(client.fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return false;
    }
  }

  const Answer answer_;
  in_port_t port_ = 0;
  UniqueFd listener_;
  int stop_[2] = {-1, -1};
  std::thread thread_;
};

/// What is answered to lines by their beginning, and the failure that follows.
struct Script {
  std::map<std::string, std::string> answers;
  Code code;
  std::string sentence;

  /// Short where the server makes its client wait, and no reason for failing where it floods it.
  std::string timeout() const {
    const bool floods = std::any_of(answers.begin(), answers.end(), [](const auto& each) {
      return each.second.starts_with("flood ");
    });
    return floods ? "?timeout_ms=60000" : "?timeout_ms=300";
  }
};

/// Answers by the beginning of the line: of the longest of those given, else as a sound server
/// would to a store named "s".
inline ScriptedServer::Answer scripted(std::map<std::string, std::string> answers) {
  answers.insert({{"mn", "MN\r\n"},
                  {"ms perdura:s:lock", "HD c1\r\n"},
                  {"mg perdura:s:lock c", "HD c1\r\n"},
                  {"md perdura:s:lock", "HD\r\n"},
                  {"stats", "STAT evictions 0\r\nEND\r\n"},
                  {"stats conns", "END\r\n"},
                  {"stats settings", "STAT evictions off\r\nEND\r\n"},
                  {"ms perdura:s ", "HD\r\n"},
                  {"mg perdura:s v", "EN\r\n"}});
  return [answers = std::move(answers)](const std::string& line) -> std::string {
    for (auto each = answers.rbegin(); each != answers.rend(); ++each)
      if (line.starts_with(each->first)) return each->second;
    return "";
  };
}

}  // namespace perdura::test
