// Goal: a medium on a memcached server keeps what it acknowledged as long as the server does, and
// says so when the server does not; it has one writer at a time, who may die at any moment.
// Method: real servers, that are killed, stopped, full, or asked behind the medium's back; owners
// that are killed; and servers of a few lines where memcached never gives such an answer.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "base/clock.hpp"
#include "format/format.hpp"
#include "format/memcached_format.hpp"
#include "media/lock.hpp"
#include "media/medium.hpp"
#include "region/volume.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/memcached_server.hpp"
#include "support/process.hpp"
#include "support/scripted_server.hpp"

namespace perdura::test {
namespace {

using media::Medium;

constexpr u64 kBlock = format::kMemcachedBlockBytes;

std::unique_ptr<Medium> open(const std::string& uri) {
  return value_or_throw(media::open_medium(uri, {})).medium;
}

AlignedBuffer random_bytes(u64 length, u64 seed) {
  AlignedBuffer bytes(length);
  std::mt19937_64 random(seed);
  for (u64 at = 0; at < length; at += sizeof(u64)) {
    const u64 word = random();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  return bytes;
}

Status write(Medium& medium, u64 offset, media::Bytes data) {
  return medium.write(offset, data, PERDURA_SITE("test"));
}
Status barrier(Medium& medium) { return medium.barrier(PERDURA_SITE("test")); }

void expect_holds(Medium& medium, u64 offset, media::Bytes expected) {
  AlignedBuffer got(expected.size());
  const Status read = medium.read(offset, got.first(expected.size()));
  ASSERT_TRUE(read) << read.failure().message;
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size()), 0) << offset;
}

std::string with_checksum(format::MemcachedHead head) {
  constexpr size_t kFrom = offsetof(format::MemcachedHead, version);
  const char* const bytes = reinterpret_cast<const char*>(&head);
  head.checksum = checksum(bytes + kFrom, sizeof head - kFrom);
  return std::string(bytes, sizeof head);
}

/// What a server answers that has a store of this size.
std::string head_of_size(u64 size) {
  format::MemcachedHead head{};
  std::memcpy(head.magic, format::kMemcachedMagic, sizeof head.magic);
  head.version = format::kMemcachedVersion;
  head.block_bytes = kBlock;
  head.size = head.items_end = size;
  return fmt::format("VA {}\r\n{}\r\n", sizeof head, with_checksum(head));
}

class MemcachedMediumTest : public testing::Test {
 protected:
  std::string uri(const std::string& parameters = "") const {
    return server_.uri("store") + parameters;
  }
  /// The key of a block of the store, as the head item says it.
  std::string block_key(u64 block) const { return server_.block_key("store", block); }
  /// An item of another owner than this process.
  static std::string lock_text(u64 pid, const std::string& boot, const std::string& address) {
    return fmt::format(
        "perdura lock 1\npid {}\nstart 1\nopening 5\nboot {}\npids {}\nhost far\nprogram other\n"
        "at {}\n",
        pid, boot, pid_namespace(), address);
  }
  static std::string boot_id() {
    format::OwnerRecord owner;
    std::memcpy(&owner, media::describe_owner().bytes, sizeof owner);
    return owner.boot_id;
  }
  static std::string pid_namespace() {
    char name[100] = "";
    EXPECT_GT(::readlink("/proc/self/ns/pid", name, sizeof name - 1), 0);
    return name;
  }

  MemcachedProcess server_;
};

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
    EXPECT_EQ(medium.geometry().write_bytes, kBlock);
    EXPECT_EQ(medium.geometry().atomic_bytes, kBlock);
    EXPECT_FALSE(medium.geometry().reads_unwritten);
    EXPECT_EQ(medium.direct(0, kBlock), nullptr);
    ASSERT_TRUE(medium.grow(kBytes, true));
    ASSERT_TRUE(medium.grow(kMiB, true)) << "smaller than it is: nothing to do";
    EXPECT_EQ(medium.geometry().size, kBytes);
    expect_holds(medium, 0, std::vector<std::byte>(kBytes));
    ASSERT_TRUE(write(medium, 0, expected.span()));
    for (int i = 0; i < 100; ++i) {
      const u64 offset = random() % (kBytes / kBlock) * kBlock;
      const u64 length = std::min(kBytes - offset, (1 + random() % 8) * kBlock);
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
  for (int i = 0; i < 200; ++i) {
    const u64 offset = random() % (kBytes - 1);
    const u64 length = 1 + random() % std::min<u64>(kBytes - offset, 20'000);
    expect_holds(*opened.medium, offset, expected.span().subspan(offset, length));
  }
  std::byte some[10];
  expect_failure(opened.medium->read(kBytes - 5, some), Code::kCorrupt,
                 "ends before offset " + std::to_string(kBytes + 5));
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
        for (u64 at = thread * 64 * kKiB; at < kBytes; at += kThreads * 64 * kKiB)
          pieces.push_back(at);
        std::shuffle(pieces.begin(), pieces.end(), random);
        for (size_t i = 0; i < pieces.size(); ++i) {
          EXPECT_TRUE(queue->submit(pieces[i], data.span().subspan(pieces[i], 64 * kKiB),
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
    expect_holds(*medium, 0, data.span());
    RecordProperty("write_mb_s", std::to_string(kBytes * 1000 / (written_ns - begin_ns)));
    RecordProperty("read_mb_s", std::to_string(kBytes * 1000 / (now_ns() - written_ns)));
  }
  expect_holds(*open(uri()), 0, data.span());
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
    requests.push_back({i * 7 % 1024 * kBlock, into.span().subspan(i * kBlock, kBlock)});
  ASSERT_TRUE(medium->read_all(requests));
  for (const media::ReadRequest& request : requests)
    ASSERT_EQ(std::memcmp(request.into.data(), data.data() + request.offset, kBlock), 0);
}

TEST_F(MemcachedMediumTest, OnlyPrewrittenSpaceReadsAsZeros) {
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  ASSERT_TRUE(medium->grow(2 * kMiB, false));
  std::vector<std::byte> zeros(kMiB);
  expect_holds(*medium, 0, zeros);
  AlignedBuffer into(kMiB);
  const u64 offset = kMiB + 5 * kBlock;
  expect_failure(medium->read(offset, into.first(kBlock)), Code::kCorrupt,
                 "the server has no item of '" + uri() + "' at offset " + std::to_string(offset) +
                     ": it was evicted, it expired, or the server was restarted; start memcached "
                     "with -M");
  const AlignedBuffer data = random_bytes(kBlock, 5);
  ASSERT_TRUE(write(*medium, offset, data.span()));
  expect_holds(*medium, offset, data.span());
  expect_failure(medium->read(kMiB, into.span()), Code::kCorrupt,
                 "at offset " + std::to_string(kMiB) + ":");
  EXPECT_TRUE(barrier(*medium)) << "a read that fails is no failure of the medium";
}

TEST_F(MemcachedMediumTest, AnItemThatIsNotTheBlockIsAnError) {
  const AlignedBuffer data = random_bytes(4 * kBlock, 6);
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(data.size(), true));
  ASSERT_TRUE(write(*medium, 0, data.span()));
  const std::string key = block_key(1);
  const std::string good = server_.ask("mg " + key + " v\r\n");
  ASSERT_EQ(good.size(), format::kMemcachedItemBytes);
  AlignedBuffer into(data.size());
  const auto expect_refused = [&](const std::string& value, const std::string& sentence) {
    ASSERT_EQ(server_.set(key, value), "HD");
    expect_failure(medium->read(0, into.span()), Code::kCorrupt,
                   "the item of '" + uri() + "' at offset 4096 " + sentence);
    expect_holds(*medium, 2 * kBlock, data.span().subspan(2 * kBlock));
  };
  for (const size_t at : {size_t{0}, size_t{kBlock - 1}, size_t{kBlock}, good.size() - 1}) {
    std::string damaged = good;
    damaged[at] ^= 1;
    expect_refused(damaged, "is damaged (its checksum does not fit)");
  }
  expect_refused(server_.ask("mg " + block_key(2) + " v\r\n"), "is damaged");
  expect_refused(good.substr(1), "has 4103 bytes, which no block has");
  expect_refused(good + "x", "has 4105 bytes, which no block has");
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
      [&](Medium& medium, media::WriteQueue&) { return write(medium, 0, data.span()); },
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
        (void)queue.submit(0, data.span().first(kBlock), PERDURA_SITE("test"));
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
    server_.pause();
    const std::string silent =
        "the memcached server " + server_.address() + " did not answer for 200 ms (timeout_ms)";
    expect_failure(write(*medium, 0, data.span()), Code::kIo, silent);
    expect_failure(media::open_medium(uri("?timeout_ms=200"), {}), Code::kIo, silent);
    expect_failure(barrier(*medium), Code::kIo, "is closed to all use since");
    server_.resume();
  }
  // Closed with the server sound again, the lock is free and the blocks are as they were, or new.
  const auto again = open(uri());
  AlignedBuffer into(data.size());
  ASSERT_TRUE(again->read(0, into.span()));
  for (u64 at = 0; at < data.size(); at += kBlock)
    ASSERT_TRUE(is_zero(into.data() + at, kBlock) ||
                std::memcmp(into.data() + at, data.data() + at, kBlock) == 0)
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
  expect_failure(write(*medium, 0, data.span()), Code::kIo, server_.address());
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
                                               {2, "cannot draw a number for the keys"}};
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
                 "cannot write blocks of '" + server.uri("full") + "': the memcached server " +
                     server.address() + " says 'SERVER_ERROR out of memory storing object'");
  EXPECT_EQ(medium->geometry().size, data.size());
  ASSERT_TRUE(write(*medium, 0, data.span()));
  // Space that was not written with zeros turns out to be missing when it is used. The medium has
  // lost nothing.
  ASSERT_TRUE(medium->grow(64 * kMiB, false));
  const auto queue = medium->queue();
  const AlignedBuffer more = random_bytes(16 * kMiB, 11);
  ASSERT_TRUE(queue->submit(16 * kMiB, more.span(), PERDURA_SITE("test")));
  expect_failure(queue->drain(), Code::kNoSpace, "SERVER_ERROR out of memory");
  EXPECT_TRUE(queue->drain());
  EXPECT_TRUE(barrier(*medium));
  // Full to the last item, it drops the value that is to be replaced, and takes the new one then.
  for (int i = 0; i < 3; ++i) {
    for (u64 at = 0; at < data.size(); at += 64 * kKiB)
      ASSERT_TRUE(write(*medium, at, data.span().subspan(at, 64 * kKiB)));
    ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
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

// --- one writer

TEST_F(MemcachedMediumTest, ASecondOpenerIsRefused) {
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, true));
  for (const char* takeover : {"", "?takeover=1"})
    expect_failure(media::open_medium(uri(takeover), {}), Code::kLocked,
                   "'" + uri() + "' is open in process " + std::to_string(::getpid()) +
                       " (memcached_mediu), which is this process; a store has one opener at a "
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

TEST_F(MemcachedMediumTest, AKilledOwnerIsTakenOverFrom) {
  const AlignedBuffer data = random_bytes(8 * kMiB, 12);
  for (int round = 0; round < 3; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    Child owner([&]() -> std::string {
      const auto medium = open(uri());
      if (!medium->grow(data.size(), true)) return "cannot grow";
      for (;;) {
        const auto queue = medium->queue();
        if (!queue->submit(0, data.span(), PERDURA_SITE("test"))) return "cannot write";
        if (!queue->drain() || !barrier(*medium)) return "cannot drain";
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
  const AlignedBuffer data = random_bytes(kBlock, 13);
  expect_failure(medium->queue()->submit(0, data.span(), PERDURA_SITE("test")), Code::kIo,
                 "was taken over");
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
  expect_holds(*medium, 0, data.span());
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
  AlignedBuffer into(kBlock);
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
  head.version = 2;
  expect_refused(with_checksum(head), Code::kIncompatible,
                 "has version 2, this Perdura reads version 1");
  std::memcpy(&head, good.data(), sizeof head);
  head.block_bytes = 8192;
  expect_refused(with_checksum(head), Code::kIncompatible, "use a newer Perdura");
  for (const u64 more : {u64{1}, kBlock}) {
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
  EXPECT_GT(server_.items(), 20 * kMiB / kBlock);
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
  expect_invalid(server + "s?other=1", "known are write_ns");

  const auto longest = open(server + std::string(200, 'x'));
  ASSERT_TRUE(longest->grow(kMiB, true));
  EXPECT_TRUE(
      media::open_medium("memcached://localhost:" + server_.port() + "/a/b?timeout_ms=999", {}));
  EXPECT_EQ(media::uri_beside(server + "s?timeout_ms=1", ".x"), server + "s.x?timeout_ms=1");
}

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

// --- servers that say what memcached would not

struct Script {
  std::map<std::string, std::string> answers;
  Code code;
  std::string sentence;
};

TEST(ScriptedServer, OpeningAsksForSense) {
  const std::string dead = "perdura lock 1\npid 1\nstart 1\nboot x\n";
  const std::string value = fmt::format("VA {} c7\r\n{}\r\n", dead.size(), dead);
  const Script scripts[] = {
      {{{"mn", "ERROR\r\n"}}, Code::kUnsupported, "does not know the meta protocol"},
      {{{"mn", "HELLO\r\n"}}, Code::kIo, "answers what was not asked: 'HELLO'"},
      {{{"mn", std::string(9000, 'x')}}, Code::kIo, "answers what was not asked: 'xxx"},
      {{{"mn", "close"}}, Code::kIo, "closed the connection"},
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
    expect_failure(media::open_medium(server.uri() + "?timeout_ms=300", {}), script.code,
                   script.sentence);
  }
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
  const AlignedBuffer data = random_bytes(kBlock, 16);
  const auto writes = [&](Medium& medium) { return write(medium, 0, data.span()); };
  const auto reads = [&](Medium& medium) {
    AlignedBuffer into(kBlock);
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
  const std::string block = "perdura:s:";
  const std::string no_memory = "SERVER_ERROR out of memory storing object\r\n";
  const Case cases[] = {
      {{{{"ms " + block, "CLIENT_ERROR no\r\n"}}, Code::kIo, "not asked: 'CLIENT_ERROR no'"},
       writes},
      {{{{"ms " + block, "SERVER_ERROR no\r\n"}}, Code::kIo, "says 'SERVER_ERROR no'"}, queues},
      {{{{"ms " + block, "close"}}, Code::kIo, "the memcached server"}, writes},
      // It has dropped what was there, and has no memory the second time either.
      {{{{"ms " + block, no_memory}, {"mg " + block, "EN\r\n"}}, Code::kNoSpace, "out of memory"},
       writes},
      {{{{"ms " + block, no_memory}, {"mg " + block, "NO\r\n"}}, Code::kIo, "not asked: 'NO'"},
       writes},
      {{{{"ms " + block, no_memory}, {"mg " + block, "close"}}, Code::kIo, "closed"}, queues},
      {{{{"mg " + block, "SERVER_ERROR no\r\n"}}, Code::kIo, "at offset 0: the memcached server"},
       reads,
       false},
      {{{{"mg " + block, "NO\r\n"}}, Code::kIo, "not asked: 'NO'"}, reads},
      {{{{"ms " + block, "NO\r\n"}}, Code::kIo, "not asked: 'NO'"},
       [](Medium& medium) { return medium.grow(2 * kMiB, true); }},
      {{{{"mg perdura:s:lock c", "NO\r\n"}}, Code::kIo, "not asked: 'NO'"}, barrier},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.script.sentence);
    // The blocks are there already, so that they can be lost.
    auto answers = each.script.answers;
    answers["mg perdura:s v"] = head_of_size(kMiB);
    ScriptedServer server(scripted(answers));
    const auto medium = open(server.uri());
    expect_failure(each.call(*medium), each.script.code, each.script.sentence);
    if (each.poisons) expect_failure(barrier(*medium), Code::kIo, "is closed to all use since");
    else EXPECT_TRUE(barrier(*medium));
  }
}

TEST_F(MemcachedMediumTest, AVolumeIsCreatedAndOpened) {
  using region::Volume;
  {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    EXPECT_TRUE(value_or_throw(Volume::is_blank(*opened.medium)));
    const auto volume = value_or_throw(Volume::create(std::move(opened.medium), kMiB));
    ASSERT_TRUE(volume->begin_session());
    ASSERT_TRUE(volume->mark_clean());
  }
  {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    EXPECT_FALSE(opened.created);
    EXPECT_FALSE(value_or_throw(Volume::is_blank(*opened.medium)));
    const auto volume = value_or_throw(Volume::open(std::move(opened.medium)));
    EXPECT_EQ(volume->superblock().session, 1u);
    expect_failure(volume->medium().map_home(nullptr, 0, kBlock), Code::kUnsupported,
                   "a store on memcached needs the engine of remapped chunks");
  }
  // A block that is missing is never taken for one that was not written yet.
  ASSERT_EQ(server_.ask("md " + block_key(0) + "\r\n"), "HD");
  auto opened = value_or_throw(media::open_medium(uri(), {}));
  expect_failure(Volume::is_blank(*opened.medium), Code::kCorrupt, "at offset 0: it was evicted");
  expect_failure(Volume::open(std::move(opened.medium)), Code::kCorrupt, "at offset 0: it was");
}

}  // namespace
}  // namespace perdura::test
