// For tests of stores on a real cluster, whose ceph.conf the environment names: owners in processes
// of their own, which are killed and stopped, and the cluster's daemons.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include <perdura/perdura.hpp>

#include "support/random_bytes.hpp"

namespace perdura::test {

inline std::string ceph_conf() {
  const char* const path = std::getenv("PERDURA_CEPH_CONF");
  return path != nullptr ? path : "";
}

struct Counter {
  u64 value = 0;
};

inline Store open_store(const std::string& uri) {
  Options options;
  options.engine = Engine::kRemap;
  return Store::open(uri, options);
}

inline void add(Store& store, Counter& counter, u64 value) {
  const auto operation = store.operation();
  counter.value += value;
}

/// Counts, and says each number when it is durable; ends with 0 when the store is no longer its
/// own.
[[noreturn]] inline void count(const std::string& uri, int says) {
  int ends_with = 1;
  try {
    auto store = open_store(uri);
    Counter& counter = store.root<Counter>("counter");
    for (;;) {
      add(store, counter, 1);
      store.checkpoint();
      const u64 value = counter.value;
      if (::write(says, &value, sizeof value) != sizeof value) break;
    }
  } catch (const Error& error) {
    ends_with = error.code() == Code::kLocked ? 0 : 2;
    std::fprintf(stderr, "the owner: %s\n", error.what());
  }
  ::_exit(ends_with);
}

class Owner {
 public:
  explicit Owner(const std::string& uri) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) count(uri, ends[1]);
    ::close(ends[1]);
    said_ = ends[0];
  }
  ~Owner() { ::close(said_); }
  u64 next() {
    u64 value = 0;
    EXPECT_EQ(::read(said_, &value, sizeof value), static_cast<ssize_t>(sizeof value));
    return last_ = value;
  }
  /// What it has said and nobody has read.
  u64 last() {
    u64 value = 0;
    while (::read(said_, &value, sizeof value) == static_cast<ssize_t>(sizeof value)) last_ = value;
    return last_;
  }
  bool says_within_ms(int patience) {
    pollfd waits{said_, POLLIN, 0};
    return ::poll(&waits, 1, patience) == 1;
  }
  void signal(int number) { ::kill(process_, number); }
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    return status;
  }

 private:
  pid_t process_;
  int said_;
  u64 last_ = 0;
};

/// A store whose owner is killed five times has all that was acknowledged.
inline void expect_goes_on_after_kills(const std::string& uri) {
  u64 least = 0;
  for (int round = 0; round < 5; ++round) {
    Owner owner(uri);
    for (int i = 0; i < 3 + round; ++i) {
      const u64 value = owner.next();
      EXPECT_GT(value, least);
    }
    owner.signal(SIGKILL);
    EXPECT_EQ(owner.wait(), SIGKILL);
    least = owner.last();
    auto store = open_store(uri);  // at once: its process is gone
    const u64 found = store.root<Counter>("counter").value;
    EXPECT_GE(found, least);
    EXPECT_LE(found, least + 1);
    least = found;
  }
}

/// Of the cluster's daemons.
inline void ceph(const std::string& what, const std::string& daemon) {
  const std::string folder = ceph_conf().substr(0, ceph_conf().rfind('/'));
  const std::string command = fmt::format("{} {} {} {}", CEPH_SCRIPT, what, daemon, folder);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

}  // namespace perdura::test
