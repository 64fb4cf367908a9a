// Goal: a store on a memcached server has one writer at a time, who may die at any moment, or turn
// out to be on another machine.
// Method: owners that are killed, or forked; lock items written behind the medium's back; servers
// of a few lines where memcached never gives such an answer.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <functional>
#include <thread>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "format/format.hpp"
#include "media/lock.hpp"
#include "support/memcached_medium.hpp"
#include "support/process.hpp"
#include "support/scripted_server.hpp"

namespace perdura::test {
namespace {

std::string boot_id() {
  format::OwnerRecord owner;
  std::memcpy(&owner, media::describe_owner().bytes, sizeof owner);
  return owner.boot_id;
}

std::string pid_namespace() {
  char name[100] = "";
  EXPECT_GT(::readlink("/proc/self/ns/pid", name, sizeof name - 1), 0);
  return name;
}

/// An item of another owner than this process.
std::string lock_text(u64 pid, const std::string& boot, const std::string& address) {
  return fmt::format(
      "perdura lock 1\npid {}\nstart 1\nopening 5\nboot {}\npids {}\nhost far\nprogram other\n"
      "at {}\n",
      pid, boot, pid_namespace(), address);
}

TEST_F(MemcachedMediumTest, ASecondOpenerIsRefused) {
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  for (const char* takeover : {"", "?takeover=1"})
    expect_failure(media::open_medium(uri(takeover), {}), Code::kLocked,
                   "'" + uri() + "' is open in process " + std::to_string(::getpid()) +
                       " (memcached_lock_), which is this process; a store has one opener at a "
                       "time");
  const pid_t owner = ::getpid();
  EXPECT_EQ(in_child([&]() -> std::string {
              const auto opened = media::open_medium(uri("?takeover=1"), {});
              if (opened) return "was opened";
              const std::string& message = opened.failure().message;
              const bool named = message.find("is open in process " + std::to_string(owner) +
                                              " (") != std::string::npos;
              return opened.failure().code == Code::kLocked && named ? "" : message;
            }),
            "");
  EXPECT_TRUE(barrier(*medium));
  EXPECT_TRUE(media::open_medium(server_.uri("another"), {}));
}

// Who only looks has the lock as well: the server keeps who writes from nobody else.
TEST_F(MemcachedMediumTest, OneLooksAtATime) {
  ASSERT_TRUE(open(uri())->grow(kMiB, true));
  auto looks = media::open_medium(uri(), {.create = false, .read_only = true});
  ASSERT_TRUE(looks);
  for (const bool read_only : {true, false})
    expect_failure(media::open_medium(uri(), {.create = false, .read_only = read_only}),
                   Code::kLocked, "a store has one opener at a time");
  looks->medium.reset();
  EXPECT_TRUE(media::open_medium(uri(), {.create = false, .read_only = true}));
}

TEST_F(MemcachedMediumTest, AKilledOwnerIsTakenOverFrom) {
  const AlignedBuffer data = random_bytes(8 * kMiB, 12);
  for (int round = 0; round < 3; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    Child owner([&]() -> std::string {
      const auto medium = open(uri());
      if (!medium->grow(data.size(), true)) return "cannot grow";
      for (;;) {
        if (!write(*medium, 0, data.span()) || !barrier(*medium)) return "cannot write";
        if (::write(ready[1], "x", 1) != 1) return "cannot say so";
      }
    });
    char any = 0;
    ASSERT_EQ(::read(ready[0], &any, 1), 1);
    owner.kill();
    EXPECT_EQ(owner.wait(), "");
    EXPECT_TRUE(owner.killed());
    const auto medium = open(uri());
    expect_holds(*medium, 0, data.span());
    ASSERT_TRUE(write(*medium, 0, std::vector<std::byte>(data.size())));
    expect_holds(*medium, 0, std::vector<std::byte>(data.size()));
    ::close(ready[0]);
    ::close(ready[1]);
  }
}

TEST_F(MemcachedMediumTest, WhoTakesOverWaitsForTheConnectionsOfTheDead) {
  auto left = server_.connect();
  const pid_t dead = [] {
    Child child([] { return ""; });
    const pid_t pid = child.pid();
    child.wait();
    return pid;
  }();
  const std::string lock = lock_text(static_cast<u64>(dead), boot_id(), left->address());
  ASSERT_EQ(server_.set("perdura:store:lock", lock), "HD");
  expect_failure(media::open_medium(uri(), {}), Code::kLocked,
                 "was open in process " + std::to_string(dead) +
                     " (other), which is gone, but the server still has connections of it");
  const u64 begin_ns = now_ns();
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    left.reset();
  });
  EXPECT_TRUE(media::open_medium(uri(), {}));
  EXPECT_GE(now_ns() - begin_ns, 250'000'000u);
  closer.join();
}

/// Gives this process a network of its own, in which "lo" has the address fe80::1. What is refused,
/// or "".
std::string make_network() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
    return "no network of its own";
  const UniqueFd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq link{};
  std::strcpy(link.ifr_name, "lo");
  link.ifr_flags = IFF_UP;
  struct {  // in6_ifreq of linux/ipv6.h, which cannot be included beside netinet/in.h
    in6_addr address;
    u32 prefix_length;
    int index;
  } request{{}, 64, static_cast<int>(::if_nametoindex("lo"))};
  ::inet_pton(AF_INET6, "fe80::1", &request.address);
  if (::ioctl(fd.get(), SIOCSIFFLAGS, &link) != 0 || ::ioctl(fd.get(), SIOCSIFADDR, &request) != 0)
    return "no address of a link";
  return {};
}

// A server lists such an address without the link, which it has here.
TEST(MemcachedServer, ADeadOwnerOnALinkLocalAddressIsTakenOverFrom) {
  const std::string no_network = in_child(make_network);
  if (!no_network.empty()) GTEST_SKIP() << no_network;
  EXPECT_EQ(in_child([&]() -> std::string {
              if (std::string refused = make_network(); !refused.empty()) return refused;
              const MemcachedProcess server({"-M", "-m", "64", "-l", "fe80::1%lo"});
              const std::string uri =
                  fmt::format("memcached://[fe80::1%lo]:{}/s?timeout_ms=5000", server.port());
              const std::string died = in_child([&]() -> std::string {
                auto opened = media::open_medium(uri, {});
                if (!opened) return opened.failure().message;
                if (!opened->medium->grow(kMiB, true)) return "cannot grow";
                ::raise(SIGKILL);
                return "lives";
              });
              if (!died.empty()) return died;
              const auto opened = media::open_medium(uri, {});
              return opened ? "" : opened.failure().message;
            }),
            "");
}

TEST_F(MemcachedMediumTest, AnOwnerElsewhereIsTakenOverFromOnRequestOnly) {
  std::string contained = lock_text(1, boot_id(), "10.0.0.7:4711") + "later words\n";
  contained.replace(contained.find("pids "), 5, "pids not-");
  const std::string locks[] = {lock_text(1, "another boot", "10.0.0.7:4711"), contained,
                               "what is this"};
  const std::string sentences[] = {
      "is open in process 1 (other) on another machine or in another container (far); close it "
      "there first, or if it is dead for sure, open with the URI parameter takeover=1",
      "is open in process 1 (other) on another machine or in another container (far); close it "
      "there first, or if it is dead for sure, open with the URI parameter takeover=1",
      "is locked by an owner of whom nothing is known; if it is dead for sure, open with the URI "
      "parameter takeover=1"};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(server_.set("perdura:store:lock", locks[i]), "HD");
    expect_failure(media::open_medium(uri(), {}), Code::kLocked, sentences[i]);
    expect_failure(media::remove_medium(uri()), Code::kLocked, sentences[i]);
    EXPECT_TRUE(media::open_medium(uri("?takeover=1"), {}));
    EXPECT_TRUE(media::open_medium(uri(), {})) << "the lock is not given back";
  }
}

TEST_F(MemcachedMediumTest, AnotherProcessOfTheSameNumberIsNotTheOwner) {
  const auto self = static_cast<u64>(::getpid());
  ASSERT_EQ(server_.set("perdura:store:lock", lock_text(self, boot_id(), "127.0.0.1:1")), "HD");
  EXPECT_TRUE(media::open_medium(uri(), {}));
}

TEST_F(MemcachedMediumTest, WhoWasTakenOverFromNoticesAtTheNextBarrier) {
  const std::string other = lock_text(1, "another boot", "10.0.0.7:4711");
  auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  ASSERT_EQ(server_.set("perdura:store:lock", other), "HD");
  expect_failure(barrier(*medium), Code::kIo, "'" + uri() + "' was taken over by another opener");
  medium.reset();
  EXPECT_EQ(server_.ask("mg perdura:store:lock v\r\n"), other) << "the lock is not ours";

  ASSERT_EQ(server_.ask("md perdura:store:lock\r\n"), "HD");
  medium = open(uri());
  ASSERT_EQ(server_.set("perdura:store:lock", other), "HD");
  const AlignedBuffer data = random_bytes(kUnit, 13);
  const auto submit = [&] {
    const auto queue = medium->queue();
    EXPECT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
    return queue->drain();
  };
  expect_failure(submit(), Code::kIo, "was taken over");
  expect_failure(barrier(*medium), Code::kIo, "is closed to all use since");

  ASSERT_EQ(server_.ask("md perdura:store:lock\r\n"), "HD");
  medium = open(uri());
  ASSERT_EQ(server_.set("perdura:store:lock", other), "HD");
  expect_failure(medium->grow(2 * kMiB, true), Code::kIo, "was taken over");
}

TEST_F(MemcachedMediumTest, AForkedChildLeavesTheConnectionsAlone) {
  const AlignedBuffer data = random_bytes(kMiB, 14);
  auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  const auto queue = medium->queue();
  ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(queue->drain());
  AlignedBuffer into(kMiB);
  ASSERT_TRUE(medium->read(0, into.span()));
  const std::function<Status()> calls[] = {
      [&] { return medium->read(0, into.span()); },
      [&] { return write(*medium, 0, data.span()); },
      [&] { return barrier(*medium); },
      [&] { return medium->grow(2 * kMiB, false); },
      [&] { return queue->submit(0, data.span(), PERDURA_SITE("test")); },
      [&] {
        const auto first = medium->queue();  // has the connection that was left
        (void)first->submit(0, data.span(), PERDURA_SITE("test"));
        return medium->read(0, into.span());
      }};
  for (const auto& call : calls)
    EXPECT_EQ(in_child([&]() -> std::string {
                const Status status = call();
                medium.reset();
                if (status) return "can use it";
                return status.failure().code == Code::kForked ? "" : status.failure().message;
              }),
              "");
  EXPECT_TRUE(barrier(*medium)) << "the child gave the lock back";
  ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(queue->drain());
  ASSERT_TRUE(medium->read(0, into.span()));
  EXPECT_EQ(std::memcmp(into.data(), data.data(), data.size()), 0);
}

TEST_F(MemcachedMediumTest, AForkedChildKeepsNoConnectionOpen) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Child owner([&]() -> std::string {
    const auto medium = open(uri());
    if (!medium->grow(kMiB, true)) return "cannot grow";
    // Outlives the owner, until the test has closed its end of the pipe.
    if (::fork() == 0) {
      ::close(ends[1]);
      char any = 0;
      (void)!::read(ends[0], &any, 1);
      ::_exit(0);
    }
    ::kill(::getpid(), SIGKILL);
    return "";
  });
  ::close(ends[0]);
  // Not owner.wait(): its pipe is open in the survivor as well.
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(owner.pid()), &ended, WEXITED), 0);
  const u64 begin_ns = now_ns();
  expect_holds(*open(uri()), 0, std::vector<std::byte>(kMiB));
  EXPECT_LT(now_ns() - begin_ns, 4'000'000'000u);
  ::close(ends[1]);
}

TEST_F(MemcachedMediumTest, AProxyHidesWhoseConnectionsTheServerHas) {
  const std::string dead = lock_text(0x7fffffff, boot_id(), "127.0.0.1:1");
  const std::string value = fmt::format("VA {} c7\r\n{}\r\n", dead.size(), dead);
  const Script scripts[] = {
      {{{"stats conns",
         "STAT 7:addr tcp:10.1.1.1:5\r\nSTAT 8:addr tcp6:[::ffff:10.1.1.1]:6\r\n"
         "STAT 8:secs 0\r\nSTAT 9:addr tcp\r\nEND\r\n"}},
       Code::kLocked,
       "does not show whose connections it has (a proxy is between); if it is dead for sure"},
      {{{"stats conns", "HD\r\n"}}, Code::kIo, "what was not asked: 'HD'"},
      {{{"stats conns", "close"}}, Code::kIo, "closed the connection"}};
  for (Script script : scripts) {
    SCOPED_TRACE(script.sentence);
    script.answers.insert({{"ms perdura:s:lock", "NS\r\n"}, {"mg perdura:s:lock v c", value}});
    ScriptedServer server(scripted(script.answers));
    expect_failure(media::open_medium(server.uri(), {}), script.code, script.sentence);
  }
}

TEST_F(MemcachedMediumTest, OfTwoWhoTakeOverOneSucceeds) {
  const std::string dead = lock_text(1, "another boot", "127.0.0.1:1");
  const std::string value = fmt::format("VA {} c7\r\n{}\r\n", dead.size(), dead);
  const std::pair<std::string, std::string> cases[] = {
      {"EX\r\n", "is being opened by others again and again"},
      {"SERVER_ERROR no\r\n", "says 'SERVER_ERROR no'"},
      {"HD c8\r\n", ""}};
  for (const auto& [answer, sentence] : cases) {
    const auto others = scripted({{"mg perdura:s:lock v c", value}});
    ScriptedServer server([&, answer = answer](const std::string& line) -> std::string {
      if (!line.starts_with("ms perdura:s:lock")) return others(line);
      return line.ends_with(" C7") ? answer : "NS\r\n";
    });
    const auto opened = media::open_medium(server.uri() + "?takeover=1", {});
    if (sentence.empty()) EXPECT_TRUE(opened);
    else expect_failure(opened, answer == "EX\r\n" ? Code::kLocked : Code::kIo, sentence);
  }
}

}  // namespace
}  // namespace perdura::test
