// Goal: whatever is at a server's address, and whatever it answers, is an error that says so.
// Method: ports on which nobody listens, or accepts; servers of a few lines that say what memcached
// would not.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <functional>
#include <map>
#include <new>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "support/memcached_medium.hpp"
#include "support/process.hpp"
#include "support/scripted_server.hpp"

namespace perdura::test {
namespace {

TEST(MemcachedServer, OneThatIsNotThereIsAnError) {
  in_port_t port = 0;
  const UniqueFd taken = bind_port(port);  // and nobody listens
  const std::string address = "127.0.0.1:" + std::to_string(port);
  expect_failure(media::open_medium("memcached://" + address + "/s", {}), Code::kIo,
                 "cannot connect to the memcached server " + address + ": Connection refused");
  expect_failure(media::open_medium("memcached://no.such.host.invalid/s", {}), Code::kIo,
                 "cannot connect to the memcached server no.such.host.invalid:11211: ");
  expect_failure(media::open_medium("memcached://255.255.255.255/s", {}), Code::kIo,
                 "cannot connect to the memcached server 255.255.255.255:11211: ");
  expect_failure(media::open_medium("memcached://[::1]:1/s", {}), Code::kIo,
                 "cannot connect to the memcached server [::1]:1: ");
  EXPECT_EQ(in_child([&]() -> std::string {
              const rlimit none{0, 0};
              ::setrlimit(RLIMIT_NOFILE, &none);
              const auto opened = media::open_medium("memcached://" + address + "/s", {});
              if (opened) return "was opened";
              const std::string& message = opened.failure().message;
              return message.find("Too many open files") != message.npos ? "" : message;
            }),
            "");
}

TEST(MemcachedServer, OneThatDoesNotAcceptIsAnError) {
  in_port_t port = 0;
  const UniqueFd listener = bind_port(port);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<UniqueFd> waiting;  // as many as the system lets wait
  for (int i = 0; i < 4; ++i) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    address.sin_port = ::htons(port);
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int connected =
        ::connect(waiting.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    EXPECT_TRUE(connected == 0 || errno == EINPROGRESS);
  }
  const std::string uri = fmt::format("memcached://127.0.0.1:{}/s?timeout_ms=100", port);
  expect_failure(media::open_medium(uri, {}), Code::kIo, ": Connection timed out");
}

/// What a server answers that has a store of this size.
std::string head_of_size(u64 size) {
  format::MemcachedHead head{};
  std::memcpy(head.magic, format::kMemcachedMagic, sizeof head.magic);
  head.version = format::kMemcachedVersion;
  head.unit_bytes = kUnit;
  head.size = head.items_end = size;
  return fmt::format("VA {}\r\n{}\r\n", sizeof head, with_checksum(head));
}

TEST(ScriptedServer, OpeningAsksForSense) {
  const std::string dead = "perdura lock 1\npid 1\nstart 1\nboot x\n";
  const std::string value = fmt::format("VA {} c7\r\n{}\r\n", dead.size(), dead);
  const Script scripts[] = {
      {{{"mn", "ERROR\r\n"}}, Code::kUnsupported, "does not know the meta protocol"},
      {{{"mn", "HELLO\r\n"}}, Code::kIo, "answers what was not asked: 'HELLO'"},
      {{{"mn", std::string(9000, 'x')}}, Code::kIo, "answers what was not asked: 'xxx"},
      {{{"mn", "close"}}, Code::kIo, "closed the connection"},
      {{{"mn", "drip"}}, Code::kIo, "did not answer for 300 ms"},
      {{{"stats settings", "STAT evictions on\r\nEND\r\n"}},
       Code::kUnsupported,
       "evicts items when its memory is full (its setting evictions is on)"},
      {{{"stats settings", "END\r\n"}}, Code::kUnsupported, "(its setting evictions is unknown)"},
      {{{"stats settings", "STAT maxbytes 1\r\n"}}, Code::kIo, "did not answer for 300 ms"},
      {{{"stats settings", "drip"}}, Code::kIo, "did not answer for 300 ms"},
      {{{"stats settings", "flood STAT maxbytes 1\r\n"}}, Code::kIo, "lists more than any server"},
      {{{"mg perdura:s v", "VA 4294967295\r\n"}}, Code::kIo, "what was not asked: 'VA 4294967295'"},
      {{{"mn", "reset"}}, Code::kIo, "is lost: Connection reset"},
      {{{"ms perdura:s:lock", "SERVER_ERROR out of memory storing object\r\n"}},
       Code::kNoSpace,
       "cannot lock 'memcached://"},
      {{{"ms perdura:s:lock", "SERVER_ERROR busy\r\n"}}, Code::kIo, "says 'SERVER_ERROR busy'"},
      {{{"ms perdura:s:lock", "HD\r\n"}}, Code::kIo, "what was not asked: 'HD'"},
      {{{"ms perdura:s:lock", "XX\r\n"}}, Code::kIo, "what was not asked: 'XX'"},
      {{{"ms perdura:s:lock", "NS\r\n"}, {"mg perdura:s:lock v c", "VA 1\r\nx\r\n"}},
       Code::kIo,
       "what was not asked: 'VA 1'"},
      {{{"ms perdura:s:lock", "NS\r\n"}, {"mg perdura:s:lock v c", "VA 9 c1\r\nx"}},
       Code::kIo,
       "did not answer for 300 ms"},
      {{{"ms perdura:s:lock", "HD cx\r\n"}}, Code::kIo, "what was not asked: 'HD cx'"},
      {{{"ms perdura:s:lock", "NS\r\n"}, {"mg perdura:s:lock v c", "EN\r\n"}},
       Code::kLocked,
       "is being opened by others again and again"},
      {{{"ms perdura:s:lock", "NS\r\n"}, {"mg perdura:s:lock v c", "HD\r\n"}},
       Code::kIo,
       "what was not asked: 'HD'"},
      {{{"ms perdura:s:lock", "NS\r\n"}, {"mg perdura:s:lock v c", "VA x\r\n"}},
       Code::kIo,
       "what was not asked: 'VA x'"},
      {{{"ms perdura:s:lock", "NS\r\n"}, {"mg perdura:s:lock v c", "VA 1 c1\r\nabcd\r\n"}},
       Code::kIo,
       "what was not asked: 'VA 1 c1'"},
      {{{"ms perdura:s:lock", "NS\r\n"}, {"mg perdura:s:lock v c", value}, {"stats", "STAT\r\n"}},
       Code::kLocked,
       "on another machine"},
      {{{"mg perdura:s v", "HD\r\n"}}, Code::kIo, "what was not asked: 'HD'"},
      {{{"mg perdura:s v", "close"}}, Code::kIo, "closed the connection"},
      {{{"ms perdura:s ", "SERVER_ERROR out of memory storing object\r\n"}},
       Code::kNoSpace,
       "cannot write the head of 'memcached://"},
      {{{"ms perdura:s ", "NS\r\n"}}, Code::kIo, "what was not asked: 'NS'"},
  };
  for (const Script& script : scripts) {
    SCOPED_TRACE(script.sentence);
    ScriptedServer server(scripted(script.answers));
    expect_failure(media::open_medium(server.uri() + script.timeout(), {}), script.code,
                   script.sentence);
  }
}

TEST(MemcachedServer, OneThatEvictsIsRefused) {
  MemcachedProcess server({"-m", "64"});
  expect_failure(media::open_medium(server.uri("s"), {}), Code::kUnsupported,
                 "the memcached server " + server.address() +
                     " evicts items when its memory is full (its setting evictions is on), which "
                     "would lose what it acknowledged; start it with -M (no eviction)");
  EXPECT_EQ(server.items(), 0u) << "the lock is not given back";
}

TEST(ScriptedServer, AnEvictionIsNoticedByTheBarrier) {
  for (const std::string counter :
       {"evictions", "slab_reassign_evictions_nomem", "slab_reassign_busy_deletes"}) {
    SCOPED_TRACE(counter);
    std::atomic<int> evicted = 7;
    const auto others = scripted({});
    ScriptedServer server([&](const std::string& line) -> std::string {
      return line == "stats" ? fmt::format("STAT {} {}\r\nEND\r\n", counter, evicted.load())
                             : others(line);
    });
    const auto medium = open(server.uri());
    EXPECT_TRUE(barrier(*medium));
    evicted = 8;
    expect_failure(barrier(*medium), Code::kIo,
                   "evicted items, perhaps objects of '" + server.uri() + "' (its counters said " +
                       counter + " 7 and say " + counter + " 8)");
    evicted = 7;
    expect_failure(barrier(*medium), Code::kIo, "is closed to all use since");
  }
}

TEST(MemcachedServer, AListForWhichThereIsNoMemoryLeavesTheConnectionSound) {
  MemcachedProcess server({"-M", "-m", "64"});
  const auto connection = server.connect();
  ASSERT_NE(connection, nullptr);
  int taken = 0;
  const auto take = [&](std::string_view, std::string_view) {
    ++taken;
    throw std::bad_alloc();
  };
  EXPECT_THROW((void)connection->list("stats\r\n", take), std::bad_alloc);
  EXPECT_EQ(taken, 1);
  const auto reply = connection->ask("mn\r\n");
  ASSERT_TRUE(reply) << reply.failure().message;
  EXPECT_EQ(reply->line, "MN");
}

TEST(ScriptedServer, ARefusedSecondConnectionIsTheEnd) {
  int hellos = 0;
  const auto others = scripted({});
  ScriptedServer server([&](const std::string& line) -> std::string {
    if (line == "mn" && ++hellos == 2) return "ERROR Too many open connections\r\n";
    return others(line);
  });
  const auto medium = open(server.uri());
  expect_failure(medium->grow(kMiB, true), Code::kIo, "'ERROR Too many open connections'");
}

TEST(ScriptedServer, RemovingAsksForSense) {
  const auto removed = [](const std::map<std::string, std::string>& answers) {
    auto all = answers;
    all.insert({"mg perdura:s v", head_of_size(kMiB)});
    ScriptedServer server(scripted(all));
    return media::remove_medium(server.uri());
  };
  EXPECT_TRUE(removed({{"md perdura:s", "HD\r\n"}, {"md perdura:s:", ""}}));
  EXPECT_TRUE(removed({{"md perdura:s", "NF\r\n"}, {"md perdura:s:", "NF\r\n"}}));
  expect_failure(removed({{"md perdura:s", "XX\r\n"}, {"md perdura:s:", ""}}), Code::kIo, "'XX'");
  expect_failure(removed({{"md perdura:s", "close"}, {"md perdura:s:", ""}}), Code::kIo, "closed");
  expect_failure(removed({{"md perdura:s:", "XX\r\n"}}), Code::kIo, "not asked: 'XX'");
  expect_failure(removed({{"ms perdura:s ", "XX\r\n"}}), Code::kIo, "not asked: 'XX'");
  expect_failure(removed({{"mg perdura:s v", "close"}}), Code::kIo, "closed the connection");
}

TEST(ScriptedServer, EachCallAsksForSense) {
  const AlignedBuffer data = random_bytes(kUnit, 16);
  const auto writes = [&](Medium& medium) { return write(medium, 0, data.span()); };
  const auto reads = [&](Medium& medium) {
    AlignedBuffer into(kUnit);
    return medium.read(0, into.span());
  };
  const auto queues = [&](Medium& medium) -> Status {
    const auto queue = medium.queue();
    PERDURA_TRY(queue->submit(0, data.span(), PERDURA_SITE("test")));
    return queue->drain();
  };
  struct Case {
    Script script;
    std::function<Status(Medium&)> call;
    bool poisons = true;
  };
  const std::string object = "perdura:s:";
  const std::string no_memory = "SERVER_ERROR out of memory storing object\r\n";
  const Case cases[] = {
      {{{{"ms " + object, "CLIENT_ERROR no\r\n"}}, Code::kIo, "not asked: 'CLIENT_ERROR no'"},
       writes},
      {{{{"ms " + object, "SERVER_ERROR no\r\n"}}, Code::kIo, "says 'SERVER_ERROR no'"}, queues},
      {{{{"ms " + object, "close"}}, Code::kIo, "the memcached server"}, writes},
      // It has dropped what was there, and has no memory the second time either.
      {{{{"ms " + object, no_memory}, {"mg " + object, "EN\r\n"}}, Code::kNoSpace, "out of memory"},
       writes},
      {{{{"ms " + object, no_memory}, {"mg " + object, "NO\r\n"}}, Code::kIo, "not asked: 'NO'"},
       writes},
      {{{{"ms " + object, no_memory}, {"mg " + object, "close"}}, Code::kIo, "closed"}, queues},
      {{{{"mg " + object, "SERVER_ERROR no\r\n"}}, Code::kIo, "at place 0: the memcached server"},
       reads,
       false},
      {{{{"mg " + object, "NO\r\n"}}, Code::kIo, "not asked: 'NO'"}, reads},
      {{{{"ms " + object, "NO\r\n"}}, Code::kIo, "not asked: 'NO'"},
       [](Medium& medium) { return medium.grow(2 * kMiB, true); }},
      {{{{"mg perdura:s:lock c", "NO\r\n"}}, Code::kIo, "not asked: 'NO'"}, barrier},
      {{{{"mg perdura:s:lock c", "drip"}}, Code::kIo, "did not answer for 300 ms"}, barrier},
      {{{{"mg " + object, "VA 4104\r\nx"}}, Code::kIo, "did not answer for 300 ms"}, reads},
      // It refuses more than it was asked to do.
      {{{{"ms " + object, "flood NF\r\n"}}, Code::kIo, "not asked: 'NF'"}, queues},
      {{{{"ms " + object, "flood SERVER_ERROR no\r\n"}}, Code::kIo, "answers more than was asked"},
       [](Medium& medium) -> Status {
         PERDURA_TRY(medium.grow(256 * kMiB, false));
         const AlignedBuffer much = random_bytes(256 * kMiB, 17);
         const auto queue = medium.queue();
         return queue->submit(0, much.span(), PERDURA_SITE("test"));
       }},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.script.sentence);
    // The objects are there already, so that they can be lost.
    auto answers = each.script.answers;
    answers["mg perdura:s v"] = head_of_size(kMiB);
    ScriptedServer server(scripted(answers));
    const auto medium = open(server.uri() + each.script.timeout());
    expect_failure(each.call(*medium), each.script.code, each.script.sentence);
    if (each.poisons) expect_failure(barrier(*medium), Code::kIo, "is closed to all use since");
    else EXPECT_TRUE(barrier(*medium));
  }
}

}  // namespace
}  // namespace perdura::test
