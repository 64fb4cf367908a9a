// Goal: the examples that were made durable with a few lines (examples/) keep what they have
// answered, whenever they are killed, and never a part of a command; and answer as they did in
// memory alone.
// Method: each example, and the program that it was before, which is never killed, are given the
// same random commands, several in flight. The example is killed with SIGKILL at a random moment
// and started again, at times twice; what it shows then must be what the other one shows after all
// commands that were answered, and perhaps some that were sent.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/unique_fd.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

/// A program that answers each line with some, the last of which is "ok" or "error: …".
class Program {
 public:
  Program(const char* path, const std::string& folder) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      if (::chdir(folder.c_str()) == 0) ::execl(path, path, nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = UniqueFd(in[1]);
    from_ = UniqueFd(out[0]);
  }
  ~Program() {
    kill();
    wait();
  }
  Program(const Program&) = delete;

  void kill() const {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }
  /// What waitpid says of its end.
  int wait() {
    int status = 0;
    if (pid_ > 0) ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }
  /// Its input ends: it does as well.
  int finish() {
    to_ = UniqueFd();
    return wait();
  }
  bool send(const std::string& line) const {
    const std::string text = line + "\n";
    return ::write(to_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  /// All lines of it, or nothing where the program ended before the last one.
  std::optional<std::string> answer() {
    std::string lines;
    for (;;) {
      const std::optional<std::string> line = read_line();
      if (!line) return std::nullopt;
      lines += *line + "\n";
      if (*line == "ok" || line->starts_with("error: ")) return lines;
    }
  }
  std::string ask(const std::string& line) {
    if (!send(line)) return "it is gone";
    return answer().value_or("it is gone");
  }

 private:
  std::optional<std::string> read_line() {
    for (;;) {
      if (const size_t end = pending_.find('\n'); end != pending_.npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return line;
      }
      char bytes[4096];
      const ssize_t got = ::read(from_.get(), bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      pending_.append(bytes, static_cast<size_t>(got));
    }
  }

  pid_t pid_ = 0;
  UniqueFd to_, from_;
  std::string pending_;
};

struct Example {
  const char* name;
  const char* durable;
  const char* in_memory;
  const char* show;  ///< the command that shows all that it keeps
  std::string (*draw)(std::mt19937_64&);
};

std::string node(std::mt19937_64& random) { return "node-" + std::to_string(random() % 60); }

std::string draw_graph(std::mt19937_64& random) {
  const u64 kind = random() % 100;
  const std::string from = node(random), to = node(random);
  if (kind < 55) return "link " + from + " " + to;
  if (kind < 75) return "unlink " + from + " " + to;
  if (kind < 82) return "drop " + from;
  if (kind < 98) return "path " + from + " " + to;
  return kind < 99 ? "list" : "link " + from + " " + std::string(40, 'x');
}

std::string draw_orders(std::mt19937_64& random) {
  const u64 kind = random() % 100;
  const std::string price = std::to_string(900 + random() % 200);
  const std::string quantity = std::to_string(1 + random() % 500);
  if (kind < 44) return "buy " + price + " " + quantity;
  if (kind < 88) return "sell " + price + " " + quantity;
  if (kind < 97) return "cancel " + price;
  return kind < 99 ? "show" : "buy " + price;
}

constexpr Example kExamples[] = {
    {"graph", EXAMPLE_GRAPH, EXAMPLE_GRAPH_IN_MEMORY, "list", draw_graph},
    {"orders", EXAMPLE_ORDERS, EXAMPLE_ORDERS_IN_MEMORY, "show", draw_orders}};

constexpr size_t kInFlight = 8;

class ExampleKillTest : public testing::TestWithParam<Example> {};

TEST_P(ExampleKillTest, WhatWasAnsweredIsThere) {
  const Example& example = GetParam();
  ::signal(SIGPIPE, SIG_IGN);
  const TempDir folder(TempDir::kDisk);
  std::mt19937_64 random(11);
  Program reference(example.in_memory, folder.path("."));
  std::deque<std::string> sent;  // and not answered
  u64 answered = 0, kills = 0;
  for (u64 life = 0, lives = slice_or_whole(40, 400); life < lives; ++life) {
    SCOPED_TRACE("life " + std::to_string(life));
    if (life % 4 == 3) {  // while it opens what the last one has left
      const Program killed(example.durable, folder.path("."));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 10'000));
    }
    Program durable(example.durable, folder.path("."));
    const std::string found = durable.ask(example.show);
    for (; reference.ask(example.show) != found && !sent.empty(); sent.pop_front())
      reference.ask(sent.front());
    ASSERT_EQ(found, reference.ask(example.show));
    sent.clear();

    // It dies at some moment after some answers, however fast it gives them.
    const u64 answers_until = random() % 40;
    const std::chrono::microseconds until(random() % 2'000);
    std::atomic<u64> answers{0};
    std::thread killer([&] {
      for (u64 now = 0; now < answers_until; now = answers) answers.wait(now);
      std::this_thread::sleep_for(until);
      durable.kill();
    });
    for (bool is_there = true; is_there;) {
      while (is_there && sent.size() < kInFlight) {
        sent.push_back(example.draw(random));
        is_there = durable.send(sent.back());
      }
      const std::optional<std::string> answer = durable.answer();
      is_there = answer.has_value();
      if (!is_there) break;
      EXPECT_EQ(*answer, reference.ask(sent.front())) << sent.front();
      sent.pop_front();
      ++answered;
      ++answers;
      answers.notify_one();
    }
    answers = ~u64{0};  // also where it ended by itself
    answers.notify_one();
    killer.join();
    const int status = durable.wait();
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    ++kills;
  }
  EXPECT_GT(answered, 10 * kills);
}

// Nobody kills it: all is there as well.
TEST_P(ExampleKillTest, WhatItEndedWithIsThere) {
  const Example& example = GetParam();
  const TempDir folder(TempDir::kDisk);
  std::mt19937_64 random(12);
  Program reference(example.in_memory, folder.path("."));
  for (int run = 0; run < 3; ++run) {
    Program durable(example.durable, folder.path("."));
    ASSERT_EQ(durable.ask(example.show), reference.ask(example.show));
    for (int i = 0; i < 100; ++i) {
      const std::string command = example.draw(random);
      ASSERT_EQ(durable.ask(command), reference.ask(command)) << command;
    }
    ASSERT_EQ(durable.finish(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, ExampleKillTest, testing::ValuesIn(kExamples),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
