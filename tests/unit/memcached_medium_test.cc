// Goal: a medium on a memcached server keeps what it acknowledged as long as the server does, and
// says so when the server does not.
// Method: real servers, that are killed, stopped, full, or asked behind the medium's back.
#include <gtest/gtest.h>

#include <sys/time.h>

#include <algorithm>
#include <functional>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "region/volume.hpp"
#include "support/call_faults.hpp"
#include "support/memcached_medium.hpp"

namespace perdura::test {
namespace {

constexpr u64 kChunk = 64 * kKiB;

void expect_holds_objects(Medium& medium, const AlignedBuffer& data) {
  AlignedBuffer got(kChunk);
  for (u64 at = 0; at < data.size(); at += kChunk) {
    ASSERT_TRUE(medium.read(at, got.span()));
    ASSERT_EQ(std::memcmp(got.data(), data.data() + at, kChunk), 0) << at;
  }
}

TEST_F(MemcachedMediumTest, KeepsWhatIsWritten) {
  constexpr u64 kBytes = 3 * kMiB;
  AlignedBuffer expected = random_bytes(kBytes, 1);
  std::mt19937_64 random(2);
  {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    EXPECT_TRUE(opened.created);
    Medium& medium = *opened.medium;
    EXPECT_EQ(medium.name(), uri());
    EXPECT_EQ(medium.geometry().size, 0u);
    EXPECT_EQ(medium.geometry().write_bytes, kUnit);
    EXPECT_EQ(medium.geometry().atomic_bytes, kUnit);
    EXPECT_TRUE(medium.geometry().objects);
    EXPECT_EQ(medium.linear(), nullptr);
    ASSERT_TRUE(medium.grow(kBytes, true));
    ASSERT_TRUE(medium.grow(kMiB, true)) << "smaller than it is: nothing to do";
    EXPECT_EQ(medium.geometry().size, kBytes);
    expect_holds(medium, 0, std::vector<std::byte>(kBytes));
    ASSERT_TRUE(write(medium, 0, expected.span()));
    for (int i = 0; i < 100; ++i) {
      const u64 offset = random() % (kBytes / kUnit) * kUnit;
      const u64 length = std::min(kBytes - offset, (1 + random() % 8) * kUnit);
      const AlignedBuffer data = random_bytes(length, random());
      std::memcpy(expected.data() + offset, data.data(), length);
      ASSERT_TRUE(write(medium, offset, data.span()));
    }
    ASSERT_TRUE(barrier(medium));
    expect_holds(medium, 0, expected.span());
  }
  const auto opened = value_or_throw(media::open_medium(uri(), {}));
  EXPECT_FALSE(opened.created);
  EXPECT_EQ(opened.medium->geometry().size, kBytes);
  expect_holds(*opened.medium, 0, expected.span());
  std::byte some[10];
  expect_failure(opened.medium->read(kBytes - 5, some), Code::kCorrupt,
                 "ends before offset " + std::to_string(kBytes + 5));
}

// In one item up to 256 KiB, in several above.
TEST_F(MemcachedMediumTest, ObjectsOfAnySizeAreWholeOrGone) {
  constexpr u64 kMany = 4 * kMiB;
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(3 * kMany, false));
  const AlignedBuffer data = random_bytes(kMany, 20);
  AlignedBuffer into(2 * kMany);
  const u64 none = server_.items();
  const auto queue = medium->queue();
  for (const auto& [length, items] : std::initializer_list<std::pair<u64, u64>>{
           {kUnit, 1}, {64 * kKiB, 1}, {256 * kKiB, 1}, {260 * kKiB, 2}, {kMany, 16}}) {
    SCOPED_TRACE(length);
    ASSERT_TRUE(queue->submit(kMany, data.first(length), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
    EXPECT_EQ(server_.items(), none + items);
    for (const u64 read : {length, kUnit, u64{10}}) {
      ASSERT_TRUE(medium->read(kMany, into.first(read)));
      EXPECT_EQ(std::memcmp(into.data(), data.data(), read), 0);
    }
    expect_failure(medium->read(kMany, into.first(length + kUnit)), Code::kCorrupt,
                   "the store from a copy");
    // It goes before the next one comes, also where nobody waits in between.
    queue->erase(kMany, length);
    ASSERT_TRUE(queue->submit(kMany, data.span().subspan(kUnit, kUnit), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
    EXPECT_EQ(server_.items(), none + 1);
    expect_holds(*medium, kMany, data.span().subspan(kUnit, kUnit));
    queue->erase(kMany, kUnit);
    ASSERT_TRUE(queue->drain());
    EXPECT_EQ(server_.items(), none);
    expect_failure(medium->read(kMany, into.first(kUnit)), Code::kCorrupt, "has no item of");
  }
  ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
  queue->erase(0, data.size());
  queue->erase(kMany, kUnit);  // of which there is none
  EXPECT_TRUE(queue->drain());
  EXPECT_TRUE(barrier(*medium));
  EXPECT_EQ(server_.items(), none);
}

TEST_F(MemcachedMediumTest, WhatIsLeftToEraseGoesWithTheQueue) {
  const auto medium = open(uri());
  const AlignedBuffer data = random_bytes(kUnit, 21);
  ASSERT_TRUE(medium->grow(kMiB, false));
  const u64 none = server_.items();
  ASSERT_TRUE(write(*medium, 0, data.span()));
  medium->queue()->erase(0, kUnit);
  EXPECT_EQ(server_.items(), none);
}

TEST_F(MemcachedMediumTest, ARecordThatAnotherOneHasWrittenIsNotOverwritten) {
  const AlignedBuffer data = random_bytes(3 * kUnit, 22);
  const auto record = [&](u64 i) { return data.span().subspan(i * kUnit, kUnit); };
  const auto write_record = [](Medium& medium, u64 place, media::Bytes bytes) {
    return medium.write_record(place, bytes, PERDURA_SITE("test"));
  };
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(kMiB, true));
    for (u64 i = 0; i < 3; ++i) {
      ASSERT_TRUE(write_record(*medium, 0, record(i)));
      expect_holds(*medium, 0, record(i));
    }
    const std::string theirs = server_.ask("mg " + object_key(kUnit) + " v\r\n");
    ASSERT_EQ(server_.set(object_key(0), theirs), "HD");
    expect_failure(write_record(*medium, 0, record(0)), Code::kLocked,
                   "another process has written the record of '" + uri() + "' at place 0");
    EXPECT_EQ(server_.ask("mg " + object_key(0) + " v\r\n"), theirs);
    expect_failure(barrier(*medium), Code::kLocked, "is closed to all use since");
  }
  // What this one wrote otherwise is no other's.
  const auto medium = open(uri());
  for (u64 i = 0; i < 2; ++i) {
    ASSERT_TRUE(write(*medium, 0, record(0)));
    ASSERT_TRUE(write_record(*medium, 0, record(1)));
    ASSERT_TRUE(write(*medium, 0, data.first(2 * kUnit)));
    ASSERT_TRUE(write_record(*medium, 0, record(1)));
  }
  server_.forget_object("store", 0);
  expect_failure(write_record(*medium, 0, record(2)), Code::kIo, "has no record of");
}

TEST_F(MemcachedMediumTest, QueuesOfSeveralThreadsWriteEverythingSubmitted) {
  constexpr u64 kBytes = 64 * kMiB;
  constexpr u64 kThreads = 3;
  const AlignedBuffer data = random_bytes(kBytes, 3);
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(kBytes, false));
    const u64 begin_ns = now_ns();
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (u64 thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        const auto queue = medium->queue();
        std::mt19937_64 random(thread);
        std::vector<u64> pieces;
        for (u64 at = thread * kChunk; at < kBytes; at += kThreads * kChunk) pieces.push_back(at);
        std::shuffle(pieces.begin(), pieces.end(), random);
        for (size_t i = 0; i < pieces.size(); ++i) {
          EXPECT_TRUE(queue->submit(pieces[i], data.span().subspan(pieces[i], kChunk),
                                    PERDURA_SITE("test")));
          if (i % 50 == 49) {
            EXPECT_TRUE(queue->drain(3));
          }
        }
        EXPECT_TRUE(queue->drain());
        EXPECT_TRUE(queue->drain()) << "nothing is left to wait for";
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(barrier(*medium));
    const u64 written_ns = now_ns();
    expect_holds_objects(*medium, data);
    RecordProperty("write_mb_s", std::to_string(kBytes * 1000 / (written_ns - begin_ns)));
    RecordProperty("read_mb_s", std::to_string(kBytes * 1000 / (now_ns() - written_ns)));
  }
  expect_holds_objects(*open(uri()), data);
}

TEST_F(MemcachedMediumTest, ReadsManyPlacesAtOnce) {
  const AlignedBuffer data = random_bytes(4 * kMiB, 4);
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(data.size(), true));
  ASSERT_TRUE(write(*medium, 0, data.span()));
  AlignedBuffer into(data.size());
  std::vector<media::ReadRequest> requests;
  requests.reserve(1024);
  for (u64 i = 0; i < 1024; ++i)
    requests.push_back({i * 7 % 1024 * kUnit, into.span().subspan(i * kUnit, kUnit)});
  ASSERT_TRUE(medium->read_all(requests));
  for (const media::ReadRequest& request : requests)
    ASSERT_EQ(std::memcmp(request.into.data(), data.data() + request.offset, kUnit), 0);
}

TEST_F(MemcachedMediumTest, OnlyPrewrittenSpaceReadsAsZeros) {
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  ASSERT_TRUE(medium->grow(2 * kMiB, false));
  std::vector<std::byte> zeros(kMiB);
  expect_holds(*medium, 0, zeros);
  AlignedBuffer into(kMiB);
  const u64 offset = kMiB + 5 * kUnit;
  expect_failure(medium->read(offset, into.first(kUnit)), Code::kCorrupt,
                 "the server has no item of '" + uri() + "' at place " + std::to_string(offset) +
                     ": it was evicted, it expired, or the server was restarted; start memcached "
                     "with -M");
  const AlignedBuffer data = random_bytes(kUnit, 5);
  ASSERT_TRUE(write(*medium, offset, data.span()));
  expect_holds(*medium, offset, data.span());
  expect_failure(medium->read(kMiB, into.span()), Code::kCorrupt,
                 "at place " + std::to_string(kMiB) + ":");
  EXPECT_TRUE(barrier(*medium)) << "a read that fails is no failure of the medium";
}

TEST_F(MemcachedMediumTest, AnItemThatIsNotTheObjectIsAnError) {
  const AlignedBuffer data = random_bytes(4 * kUnit, 6);
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(data.size(), true));
  ASSERT_TRUE(write(*medium, 0, data.span()));
  const std::string key = object_key(kUnit);
  const std::string good = server_.ask("mg " + key + " v\r\n");
  ASSERT_EQ(good.size(), kUnit + sizeof(format::ObjectEnd));
  AlignedBuffer into(data.size());
  const auto expect_refused = [&](const std::string& value, const std::string& sentence) {
    ASSERT_EQ(server_.set(key, value), "HD");
    expect_failure(medium->load_pages(0, into.span()), Code::kCorrupt,
                   "the item of '" + uri() + "' at place 4096 " + sentence);
    expect_holds(*medium, 2 * kUnit, data.span().subspan(2 * kUnit));
  };
  for (const size_t at : {size_t{0}, size_t{kUnit - 1}, size_t{kUnit}, good.size() - 1}) {
    std::string damaged = good;
    damaged[at] ^= 1;
    expect_refused(damaged, "is damaged (its checksum does not fit)");
  }
  expect_refused(server_.ask("mg " + object_key(2 * kUnit) + " v\r\n"), "is damaged");
  expect_refused(good.substr(1), "has 4103 bytes, not 4104");
  expect_refused(good + "x", "has 4105 bytes, not 4104");
  expect_refused("", "has 0 bytes");
  expect_refused(std::string(600'000, 'x'), "has 600000 bytes");
  ASSERT_EQ(server_.set(key, good), "HD");
  expect_holds(*medium, 0, data.span());
}

// --- servers that fail

TEST_F(MemcachedMediumTest, ALostServerIsTheEndOfTheMedium) {
  const AlignedBuffer data = random_bytes(kMiB, 7);
  AlignedBuffer into(kMiB);
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  const auto queue = medium->queue();
  ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(queue->drain());
  server_.kill();
  expect_failure(barrier(*medium), Code::kIo, "the memcached server " + server_.address());
  server_.restart();
  const std::string sticks = "'" + uri() + "' is closed to all use since an earlier failure (";
  for (int i = 0; i < 2; ++i) {
    expect_failure(write(*medium, 0, data.span()), Code::kIo, sticks);
    expect_failure(queue->submit(0, data.span(), PERDURA_SITE("test")), Code::kIo, sticks);
    expect_failure(medium->read(0, into.span()), Code::kIo, sticks);
    expect_failure(medium->grow(2 * kMiB, true), Code::kIo, sticks);
    expect_failure(barrier(*medium), Code::kIo, sticks);
  }
}

TEST_F(MemcachedMediumTest, EachCallNoticesThatTheServerIsGone) {
  const AlignedBuffer data = random_bytes(kMiB, 8);
  AlignedBuffer into(kMiB);
  const std::function<Status(Medium&, media::WriteQueue&)> calls[] = {
      [&](Medium& medium, media::WriteQueue&) {
        return medium.write(0, data.span(), PERDURA_SITE("test"));
      },
      [&](Medium& medium, media::WriteQueue&) { return medium.read(0, into.span()); },
      [&](Medium& medium, media::WriteQueue&) { return medium.grow(2 * kMiB, true); },
      [&](Medium& medium, media::WriteQueue&) { return medium.grow(2 * kMiB, false); },
      [&](Medium&, media::WriteQueue& queue) {
        for (;;)  // until the server's end of the connection is known to be gone
          PERDURA_TRY(queue.submit(0, data.span(), PERDURA_SITE("test")));
      },
      [&](Medium& medium, media::WriteQueue&) {
        const auto another = medium.queue();
        return another->submit(0, data.span(), PERDURA_SITE("test"));
      },
      [&](Medium&, media::WriteQueue& queue) {
        (void)queue.submit(0, data.span().first(kUnit), PERDURA_SITE("test"));
        return queue.drain();
      }};
  for (const auto& call : calls) {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(kMiB, true));
    const auto queue = medium->queue();
    ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
    server_.restart();
    expect_failure(call(*medium, *queue), Code::kIo, server_.address());
    expect_failure(barrier(*medium), Code::kIo, "is closed to all use since");
  }
}

TEST_F(MemcachedMediumTest, AServerThatDoesNotAnswerIsAnError) {
  const AlignedBuffer data = random_bytes(8 * kMiB, 9);
  {
    const auto medium = open(uri("?timeout_ms=200"));
    ASSERT_TRUE(medium->grow(data.size(), true));
    const std::string silent =
        "the memcached server " + server_.address() + " did not answer for 200 ms (timeout_ms)";
    const auto queue = medium->queue();
    ASSERT_TRUE(queue->submit(0, data.first(kUnit), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
    server_.pause();
    Status written;
    for (u64 at = 0; at < data.size() && written; at += kUnit)
      written = queue->submit(at, data.span().subspan(at, kUnit), PERDURA_SITE("test"));
    expect_failure(written ? queue->drain() : std::move(written), Code::kIo, silent);
    expect_failure(media::open_medium(uri("?timeout_ms=200"), {}), Code::kIo, silent);
    expect_failure(barrier(*medium), Code::kIo, "is closed to all use since");
    server_.resume();
  }
  // Closed with the server sound again, the lock is free and the objects are as they were, or new.
  const auto again = open(uri());
  AlignedBuffer into(data.size());
  ASSERT_TRUE(again->load_pages(0, into.span()));
  for (u64 at = 0; at < data.size(); at += kUnit)
    ASSERT_TRUE(is_zero(into.data() + at, kUnit) ||
                std::memcmp(into.data() + at, data.data() + at, kUnit) == 0)
        << at;
}

TEST_F(MemcachedMediumTest, AServerKilledBehindAFullConnectionIsAnError) {
  const AlignedBuffer data = random_bytes(32 * kMiB, 17);
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(data.size(), false));
  server_.pause();
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    server_.kill();
  });
  expect_failure(medium->write(0, data.span(), PERDURA_SITE("test")), Code::kIo, server_.address());
  killer.join();
}

// As a profiler's timer does.
TEST_F(MemcachedMediumTest, SignalsDoNotPutOffTheEnd) {
  const auto medium = open(uri("?timeout_ms=300"));
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 20'000}, {0, 20'000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(barrier(*medium));
  server_.pause();
  const u64 begin_ns = now_ns();
  expect_failure(barrier(*medium), Code::kIo, "did not answer for 300 ms");
  EXPECT_LT(now_ns() - begin_ns, 5'000'000'000u);
  const itimerval never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
}

TEST_F(MemcachedMediumTest, RandomNumbersThatTheSystemRefusesAreAnError) {
  const std::pair<u64, const char*> calls[] = {{1, "cannot draw a number for the lock"},
                                               {2, "cannot draw a number for the names"}};
  for (const auto& [nth, sentence] : calls) {
    const CallFault fault{.call = Call::kInspect, .nth = nth, .error = EIO};
    arm_calls(&fault);
    expect_failure(media::open_medium(uri(), {}), Code::kIo, sentence);
    disarm_calls();
    EXPECT_EQ(server_.items(), 0u);
  }
}

TEST_F(MemcachedMediumTest, AMediumThatFailedCanBeOpenedAgainInTheSameProcess) {
  auto failed = open(uri("?timeout_ms=200"));
  ASSERT_TRUE(failed->grow(kMiB, true));
  server_.pause();
  expect_failure(barrier(*failed), Code::kIo, "did not answer");
  failed.reset();  // cannot give the lock back
  server_.resume();
  expect_holds(*open(uri()), 0, std::vector<std::byte>(kMiB));
}

TEST_F(MemcachedMediumTest, ItemsThatVanishAreNoticedByTheBarrier) {
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  ASSERT_TRUE(barrier(*medium));
  ASSERT_EQ(server_.ask("flush_all\r\n"), "OK");
  expect_failure(barrier(*medium), Code::kIo, "the lock of '" + uri() + "' is gone");
  expect_failure(barrier(*medium), Code::kIo, "is closed to all use since");
}

TEST(MemcachedServer, AFullServerRefusesToGrowAndKeepsWhatItHas) {
  MemcachedProcess server({"-M", "-m", "8"});
  const AlignedBuffer data = random_bytes(2 * kMiB, 10);
  const auto medium = open(server.uri("full"));
  ASSERT_TRUE(medium->grow(data.size(), true));
  ASSERT_TRUE(write(*medium, 0, data.span()));
  expect_failure(medium->grow(64 * kMiB, true), Code::kNoSpace,
                 "cannot write objects of '" + server.uri("full") + "': the memcached server " +
                     server.address() + " says 'SERVER_ERROR out of memory storing object'");
  EXPECT_EQ(medium->geometry().size, data.size());
  ASSERT_TRUE(write(*medium, 0, data.span()));
  // Space that was not written with zeros turns out to be missing when it is used. The medium has
  // lost nothing.
  ASSERT_TRUE(medium->grow(64 * kMiB, false));
  const auto queue = medium->queue();
  const AlignedBuffer more = random_bytes(16 * kMiB, 11);
  for (const u64 each : {kUnit, kChunk}) {
    for (u64 at = 0; at < more.size(); at += each)
      ASSERT_TRUE(
          queue->submit(16 * kMiB + at, more.span().subspan(at, each), PERDURA_SITE("test")));
    expect_failure(queue->drain(), Code::kNoSpace, "SERVER_ERROR out of memory");
  }
  EXPECT_TRUE(queue->drain());
  EXPECT_TRUE(barrier(*medium));
  // Full to the last item, it drops the value that is to be replaced, and takes the new one then.
  for (int i = 0; i < 3; ++i) {
    for (u64 at = 0; at < data.size(); at += 64 * kKiB)
      ASSERT_TRUE(write(*medium, at, data.span().subspan(at, 64 * kKiB)));
    for (u64 at = 0; at < data.size(); at += kUnit)
      ASSERT_TRUE(queue->submit(at, data.span().subspan(at, kUnit), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
    ASSERT_TRUE(medium->write_record(0, data.first(kUnit), PERDURA_SITE("test")));
  }
  ASSERT_TRUE(barrier(*medium));
  expect_holds(*medium, 0, data.span());
}

TEST(MemcachedServer, ItemsThatAreTooLargeForItAreAnError) {
  MemcachedProcess server({"-M", "-m", "64", "-I", "4k", "-o", "slab_chunk_max=2048"});
  const auto medium = open(server.uri("small"));
  expect_failure(medium->grow(kMiB, true), Code::kUnsupported,
                 "says 'SERVER_ERROR object too large for cache'; start it with -I");
}

/// Has the server give a page of the size of which it holds most items to another size. Those for
/// which there is no other place go.
void make_evict(const MemcachedProcess& server) {
  const auto connection = server.connect();
  ASSERT_NE(connection, nullptr);
  u64 most = 0;
  std::string size;
  ASSERT_TRUE(connection->list("stats slabs\r\n", [&](std::string_view name, auto value) {
    if (!name.ends_with(":used_chunks")) return;
    const u64 items = std::stoull(std::string(value));
    if (items > most) size = name.substr(0, name.find(':'));
    most = std::max(most, items);
  }));
  ASSERT_EQ(server.ask("slabs reassign " + size + " 1\r\n"), "OK");
  // It counts them when the page is free.
  bool evicted = false;
  for (const u64 end_ns = now_ns() + 5'000'000'000; !evicted;) {
    ASSERT_LT(now_ns(), end_ns) << "nothing was evicted";
    ASSERT_TRUE(connection->list("stats\r\n", [&](auto name, auto value) {
      evicted |= name == "slab_reassign_evictions_nomem" && value != "0";
    }));
  }
}

// Also without eviction a server loses items when somebody moves its memory. It says that it did,
// and not whose they were.
TEST(MemcachedServer, AnEvictionIsNoticedByAllThatAreOpen) {
  MemcachedProcess server({"-M", "-m", "64"});
  const AlignedBuffer data = random_bytes(4 * kMiB, 12);
  const auto first = open(server.uri("first"));
  const auto second = open(server.uri("second"));
  for (Medium* const each : {first.get(), second.get()}) {
    ASSERT_TRUE(each->grow(data.size(), true));
    ASSERT_TRUE(write(*each, 0, data.span()));
    ASSERT_TRUE(barrier(*each));
  }
  make_evict(server);
  for (const auto& [medium, name] : {std::pair{first.get(), "first"}, {second.get(), "second"}})
    expect_failure(barrier(*medium), Code::kIo,
                   "evicted items, perhaps objects of '" + server.uri(name) + "'");
}

// --- the head, names, and the end

TEST_F(MemcachedMediumTest, AStoreWhoseCreationWasCutShortIsMadeAgain) {
  expect_failure(media::open_medium(uri(), {.create = false}), Code::kNotFound,
                 "cannot open the store '" + uri() + "': the server has none of this name");
  EXPECT_EQ(server_.items(), 0u) << "the lock is left";
  for (int i = 0; i < 2; ++i) {
    const auto opened = value_or_throw(media::open_medium(uri(), {}));
    EXPECT_TRUE(opened.created);
    EXPECT_EQ(opened.medium->geometry().size, 0u);
  }
  EXPECT_EQ(server_.items(), 1u);
}

TEST_F(MemcachedMediumTest, WhatAnEarlierStoreLeftIsNotMistakenForItsOwn) {
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(kMiB, true));
  }
  ASSERT_EQ(server_.ask("md perdura:store\r\n"), "HD");
  const auto opened = value_or_throw(media::open_medium(uri(), {}));
  EXPECT_TRUE(opened.created);
  ASSERT_TRUE(opened.medium->grow(kMiB, false));
  AlignedBuffer into(kUnit);
  expect_failure(opened.medium->read(0, into.span()), Code::kCorrupt, "has no item of");
}

TEST_F(MemcachedMediumTest, AHeadThatIsNoneIsAnError) {
  ASSERT_TRUE(open(uri())->grow(kMiB, true));
  const std::string good = server_.ask("mg perdura:store v\r\n");
  const auto expect_refused = [&](const std::string& head, Code code, const std::string& sentence) {
    ASSERT_EQ(server_.set("perdura:store", head), "HD");
    expect_failure(media::open_medium(uri(), {}), code, sentence);
  };
  expect_refused("x", Code::kForeign, "'" + uri() + "' is not a Perdura store");
  expect_refused(good.substr(0, 40), Code::kCorrupt, "the head item of '" + uri() + "' is damaged");
  for (size_t at = sizeof format::kMemcachedMagic; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] ^= 1;
    expect_refused(damaged, Code::kCorrupt, "is damaged");
  }
  format::MemcachedHead head;
  std::memcpy(&head, good.data(), sizeof head);
  EXPECT_EQ(with_checksum(head), good);
  head.version = 3;
  expect_refused(with_checksum(head), Code::kIncompatible,
                 "has version 3, this Perdura reads version 2; use a newer Perdura");
  head.version = 1;
  expect_refused(with_checksum(head), Code::kIncompatible,
                 "has version 1, this Perdura reads version 2; use the older Perdura");
  std::memcpy(&head, good.data(), sizeof head);
  head.unit_bytes = 8192;
  expect_refused(with_checksum(head), Code::kIncompatible, "has version 2");
  for (const u64 more : {u64{1}, kUnit}) {
    std::memcpy(&head, good.data(), sizeof head);
    head.size += more;
    expect_refused(with_checksum(head), Code::kCorrupt, "is damaged");
  }
  ASSERT_EQ(server_.set("perdura:store", good), "HD");
  EXPECT_TRUE(media::open_medium(uri(), {}));
}

TEST_F(MemcachedMediumTest, RemovingLeavesNothing) {
  const AlignedBuffer data = random_bytes(kMiB, 15);
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(20 * kMiB, true));
    ASSERT_TRUE(medium->grow(40 * kMiB, false));
    ASSERT_TRUE(write(*medium, 30 * kMiB, data.span()));
    expect_failure(media::remove_medium(uri()), Code::kLocked, "is open in process");
  }
  EXPECT_GT(server_.items(), 20 * kMiB / kUnit);
  ASSERT_TRUE(media::remove_medium(uri("?timeout_ms=5000")));
  EXPECT_EQ(server_.items(), 0u);
  expect_failure(media::remove_medium(uri()), Code::kNotFound, "none of this name");
  EXPECT_EQ(server_.items(), 0u);
  ASSERT_EQ(server_.set("perdura:store", "x"), "HD");
  EXPECT_TRUE(media::remove_medium(uri()));
  EXPECT_EQ(server_.items(), 0u);
}

TEST_F(MemcachedMediumTest, AddressesThatAreNoneAreRefused) {
  const auto expect_invalid = [](const std::string& uri, const std::string& sentence) {
    SCOPED_TRACE(uri);
    expect_failure(media::open_medium(uri, {}), Code::kInvalidArgument, sentence);
    expect_failure(media::remove_medium(uri), Code::kInvalidArgument, sentence);
  };
  const std::string server = "memcached://" + server_.address() + "/";
  expect_invalid("memcached:store", "the server's address is missing; as in memcached://127.0.0.1");
  expect_invalid("memcached:///store", "the server's address is missing");
  expect_invalid("memcached://:11211/store", "the server's address is missing");
  for (const char* port : {"", "0", "65536", "-1", "12x", "x"})
    expect_invalid(fmt::format("memcached://localhost:{}/store", port),
                   fmt::format("'{}' is no port", port));
  expect_invalid("memcached://localhost", "the store's name is missing");
  expect_invalid("memcached://[::1]:11211/", "the store's name is missing");
  expect_invalid("memcached://[::1/s", "is no port");
  expect_invalid("memcached://[::1]11211/s", "is no port");
  expect_invalid(server, "the store's name is missing");
  for (const char* name : {"a b", "a\tb", "a\nb", "a\x7f", "\xc3\xa4", "a:lock"})
    expect_invalid(server + name, "a store's name here has no colons, spaces");
  expect_invalid(server + std::string(201, 'x'), "the store's name has 201 bytes, more than 200");
  expect_invalid(server + "s?timeout_ms=0", "timeout_ms is 1 to 2147483647");
  expect_invalid(server + "s?timeout_ms=2147483648", "timeout_ms is 1 to 2147483647");
  expect_invalid(server + "s?timeout_ms=soon", "timeout_ms needs a number, not 'soon'");
  expect_invalid(server + "s?other=1", "of memcached:; it has timeout_ms, takeover");

  const auto longest = open(server + std::string(200, 'x'));
  ASSERT_TRUE(longest->grow(kMiB, true));
  EXPECT_TRUE(
      media::open_medium("memcached://localhost:" + server_.port() + "/a/b?timeout_ms=999", {}));
  EXPECT_EQ(media::uri_beside(server + "s?timeout_ms=1", ".x"), server + "s.x?timeout_ms=1");
}

TEST_F(MemcachedMediumTest, AVolumeIsCreatedAndOpened) {
  using region::Volume;
  {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    EXPECT_TRUE(value_or_throw(Volume::is_blank(*opened.medium)));
    const auto volume = value_or_throw(Volume::create(std::move(opened.medium), kMiB));
    ASSERT_TRUE(volume->begin_session());
    ASSERT_TRUE(volume->end_session());
  }
  {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    EXPECT_FALSE(opened.created);
    EXPECT_FALSE(value_or_throw(Volume::is_blank(*opened.medium)));
    const auto volume = value_or_throw(Volume::open(std::move(opened.medium)));
    EXPECT_EQ(volume->superblock().session, 1u);
  }
  // An object that is missing is never taken for one that was not written yet.
  ASSERT_EQ(server_.ask("md " + object_key(0) + "\r\n"), "HD");
  auto opened = value_or_throw(media::open_medium(uri(), {}));
  expect_failure(Volume::is_blank(*opened.medium), Code::kCorrupt, "at place 0: it was evicted");
  expect_failure(Volume::open(std::move(opened.medium)), Code::kCorrupt, "at place 0: it was");
}

}  // namespace
}  // namespace perdura::test
