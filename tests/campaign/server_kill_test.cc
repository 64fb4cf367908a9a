// Goal: what a server has acknowledged is there after it was killed at any moment, and nothing that
// nobody sent: perdura-kv (apps/kv), with each of its maps.
// Method: the server itself, asked by several connections with several requests in flight each. It
// is killed with SIGKILL while they are at work, started again on the same store, and each key is
// compared with what was acknowledged for it and what was sent.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

sockaddr_in loopback(u16 port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

u16 free_port() {
  in_port_t port = 0;
  bind_port(port);
  return port;
}

/// It answers from its constructor on, until it is killed.
class ServerProcess {
 public:
  ServerProcess(const std::string& store, const std::string& map) : port_(free_port()) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    const std::string port = std::to_string(port_);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl(PERDURA_KV, PERDURA_KV, "--port", port.c_str(), "--store", store.c_str(), "--map",
              map.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    const UniqueFd from(ends[0]);
    std::array<char, 6> ready{};
    EXPECT_EQ(::read(from.get(), ready.data(), ready.size()), 6);
    EXPECT_EQ(std::string_view(ready.data(), ready.size()), "ready\n");
  }
  ~ServerProcess() { kill(); }
  ServerProcess(const ServerProcess&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  u16 port() const { return port_; }

 private:
  const u16 port_;
  pid_t pid_ = 0;
};

class Client {
 public:
  explicit Client(u16 port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = loopback(port);
    const int yes = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
  }
  /// False: the server is gone. So is what answer() gives when it is "".
  bool send(const std::vector<std::string>& words) {
    std::string text = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words)
      text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  /// Whatever the server makes of it.
  void send_text(std::string_view text) {
    EXPECT_EQ(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void send_no_more() { ::shutdown(socket_.get(), SHUT_WR); }
  /// As much of it as the system keeps for the server.
  void stuff(std::string_view text) {
    while (::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
    }
  }
  std::string answer() {
    std::string line = read_line();
    if (!line.starts_with('$') || line == "$-1") return line;
    const std::string text = read_line();
    return std::to_string(text.size()) == line.substr(1) ? text : "";
  }

 private:
  std::string read_line() {
    for (;;) {
      if (const size_t end = pending_.find("\r\n"); end != pending_.npos) {
        const std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 2);
        return line;
      }
      char bytes[4096];
      const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (got <= 0) return "";
      pending_.append(bytes, static_cast<size_t>(got));
    }
  }

  UniqueFd socket_;
  std::string pending_;
};

constexpr u64 kConnections = 4;
constexpr u64 kInFlight = 8;
constexpr u64 kKeys = 60;

/// Of a connection's keys, which are its own: steps that were sent, and acknowledged.
struct Progress {
  u64 sent = 0;
  std::array<u64, kKeys> acknowledged{};
  u64 counted = 0;  ///< acknowledged increments of its counter
  u64 counts_sent = 0;
};

std::string key_of(u64 connection, u64 step) {
  return "key:" + std::to_string(connection) + ":" + std::to_string(step % kKeys);
}
/// Of several sizes, in the string and out of it.
std::string value_of(u64 step) {
  return std::to_string(step) + ":" +
         std::string(step % 7 * 20, static_cast<char>('a' + step % 26));
}

/// Until the server is gone. Each eighth step increments the counter.
void work(Client& client, u64 connection, Progress& progress, std::atomic<u64>& answered) {
  for (;;) {
    const u64 first = progress.sent + 1;
    for (u64 i = 0; i < kInFlight; ++i) {
      const u64 step = ++progress.sent;
      const bool counts = step % 8 == 0;
      if (counts) ++progress.counts_sent;
      if (!(counts ? client.send({"INCR", "count:" + std::to_string(connection)})
                   : client.send({"SET", key_of(connection, step), value_of(step)})))
        return;
    }
    for (u64 step = first; step < first + kInFlight; ++step) {
      const std::string answer = client.answer();
      if (answer.empty()) return;
      if (step % 8 != 0) {
        ASSERT_EQ(answer, "+OK");
        progress.acknowledged[step % kKeys] = step;
      } else {
        ASSERT_TRUE(answer.starts_with(':')) << answer;
        progress.counted = std::stoull(answer.substr(1));
      }
      ++answered;
    }
  }
}

void expect_kept(Client& client, u64 connection, const Progress& progress) {
  for (u64 key = 0; key < kKeys; ++key) {
    ASSERT_TRUE(client.send({"GET", key_of(connection, key)}));
    const std::string answer = client.answer();
    const u64 step = answer == "$-1" ? 0 : std::stoull(answer);
    ASSERT_GE(step, progress.acknowledged[key]) << key_of(connection, key);
    ASSERT_LE(step, progress.sent);
    ASSERT_EQ(answer, step != 0 ? value_of(step) : "$-1");
  }
  ASSERT_TRUE(client.send({"GET", "count:" + std::to_string(connection)}));
  const std::string answer = client.answer();
  const u64 counted = answer == "$-1" ? 0 : std::stoull(answer);
  ASSERT_GE(counted, progress.counted);
  ASSERT_LE(counted, progress.counts_sent);
}

class ServerKillTest : public testing::TestWithParam<const char*> {};

TEST_P(ServerKillTest, WhatWasAcknowledgedIsThere) {
  const TempDir folder(TempDir::kDisk);
  std::mt19937_64 random(7);
  std::array<Progress, kConnections> progress;
  std::atomic<u64> answered{0};
  for (u64 life = 0, lives = slice_or_whole(15, 150); life < lives; ++life) {
    SCOPED_TRACE("life " + std::to_string(life));
    ServerProcess server(folder.path("kv.pd"), GetParam());
    {
      Client client(server.port());
      for (u64 i = 0; i < kConnections; ++i) expect_kept(client, i, progress[i]);
      if (HasFatalFailure()) return;
    }
    const u64 until = answered + random() % 3000;
    // All are connected before one of them works: the server may be killed as soon as one does.
    std::deque<Client> clients;
    for (u64 i = 0; i < kConnections; ++i) clients.emplace_back(server.port());
    std::vector<std::thread> connections;
    connections.reserve(kConnections);
    for (u64 i = 0; i < kConnections; ++i)
      connections.emplace_back([&, i] { work(clients[i], i, progress[i], answered); });
    while (answered < until) std::this_thread::yield();
    server.kill();
    for (std::thread& connection : connections) connection.join();
  }
  EXPECT_GT(answered, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Maps, ServerKillTest, testing::Values("hash_map", "unordered_map"),
                         [](const auto& info) { return std::string(info.param); });

constexpr std::string_view kSet = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

// Whatever else the others do: each of them is in the checkpoint for which the server waits.
TEST_P(ServerKillTest, WhoEndsIsAnsweredFirst) {
  const TempDir folder(TempDir::kMemory);
  ServerProcess server(folder.path("kv.pd"), GetParam());
  std::atomic<bool> over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&] {
      Client client(server.port());
      while (!over && client.send({"SET", "other", "value"})) ASSERT_EQ(client.answer(), "+OK");
    });
  for (int i = 0; i < 200; ++i) {
    Client client(server.port());
    client.send_text(kSet);
    client.send_no_more();
    EXPECT_EQ(client.answer(), "+OK");
    EXPECT_EQ(client.answer(), "");
    Client wrong(server.port());
    wrong.send_text(std::string(kSet) + std::string(kSet) + "junk\r\n");
    EXPECT_EQ(wrong.answer(), "+OK");
    EXPECT_EQ(wrong.answer(), "+OK");
    EXPECT_EQ(wrong.answer(), "");
  }
  over = true;
  for (std::thread& other : others) other.join();
}

TEST_P(ServerKillTest, WhoDoesNotReadOrNeverStopsSendingHoldsNobodyUp) {
  const TempDir folder(TempDir::kMemory);
  ServerProcess server(folder.path("kv.pd"), GetParam());
  Client quiet(server.port()), client(server.port());
  for (Client* each : {&quiet, &client}) {
    ASSERT_TRUE(each->send({"SET", "large", std::string(100'000, 'x')}));
    EXPECT_EQ(each->answer(), "+OK");
  }
  // Its answers fill what the system keeps for it.
  Client deaf(server.port());
  std::string gets;
  for (int i = 0; i < 1000; ++i) gets += "*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n";
  deaf.send_text(gets);
  std::atomic<bool> over{false};
  Client stream(server.port());
  std::string sets;
  for (int i = 0; i < 4000; ++i) sets += kSet;
  std::thread streams([&] {
    while (!over) stream.stuff(sets);
  });
  std::thread reads([&] {
    for (int i = 0; i < 10'000; ++i) EXPECT_EQ(stream.answer(), "+OK");
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client.send({"SET", "mine", std::to_string(i)}));
    ASSERT_EQ(client.answer(), "+OK");
  }
  reads.join();
  over = true;
  streams.join();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(deaf.answer(), std::string(100'000, 'x'));
}

}  // namespace
}  // namespace perdura::test
