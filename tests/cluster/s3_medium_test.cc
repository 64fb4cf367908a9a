// Goal: a store on an S3 service keeps what it acknowledged, has one owner at a time, and of an
// owner that was taken over from nothing is ever found, whatever it still puts. Method: a real
// cluster with its gateway (ceph.sh), whose address and keys the environment has; owners in
// processes of their own, that are killed and stopped; the gateway killed while it is written to.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <perdura/perdura.hpp>

#include "format/s3_format.hpp"
#include "media/medium.hpp"
#include "media/object_content.hpp"
#include "media/s3_client.hpp"
#include "support/cluster.hpp"
#include "support/expect_failure.hpp"
#include "support/wait_until.hpp"

namespace perdura::test {
namespace {

using media::Medium;
using media::S3Answer;

constexpr u64 kUnit = format::kObjectUnitBytes;
constexpr u64 kChunk = 64 * kKiB;

/// A store of each test's own.
class S3MediumTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(std::getenv("AWS_ENDPOINT_URL"), nullptr)
        << "ceph.sh starts a gateway; FOLDER/s3 is its environment";
    name_ =
        fmt::format("stores/{}_{}", ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                    ::getpid());
    place_ = value_or_throw(media::S3Place::parse("//tests/" + name_, {}));
  }

  std::string uri(const std::string& more = "") const {
    return fmt::format("s3://tests/{}{}{}", name_, more.empty() ? "" : "?", more);
  }
  static std::unique_ptr<Medium> open(const std::string& uri) {
    return value_or_throw(media::open_medium(uri, {})).medium;
  }

  // --- behind the medium's back

  S3Answer ask(media::S3Request request) {
    auto exchange = value_or_throw(media::S3Exchange::create(place_));
    return value_or_throw(exchange->ask(std::move(request)));
  }
  std::vector<std::string> objects() {
    auto exchange = value_or_throw(media::S3Exchange::create(place_));
    std::vector<std::string> names;
    for (const auto& each :
         value_or_throw(media::ask_list(*exchange, place_, "", "", 1000)).objects)
      names.push_back(each.name);
    return names;
  }
  std::string data_at(u64 place) {
    for (const std::string& each : objects())
      if (each.starts_with(".data/") && each.find(fmt::format("/{:016x}.", place)) != each.npos)
        return each;
    ADD_FAILURE() << "there is none at " << place;
    return {};
  }
  void put(const std::string& name, std::string content) {
    EXPECT_TRUE(ask({.method = "PUT", .name = name, .end = std::move(content)}).good());
  }
  void remove(const std::string& name) {
    EXPECT_TRUE(ask({.method = "DELETE", .name = name}).good());
  }

  std::string name_;
  media::S3Place place_;
};

/// unreliable.py, before the cluster's gateway.
class UnreliableService {
 public:
  explicit UnreliableService(int seed) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execlp(UNRELIABLE_SCRIPT, UNRELIABLE_SCRIPT, std::getenv("AWS_ENDPOINT_URL"),
               std::to_string(seed).c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    std::FILE* const said = ::fdopen(ends[0], "r");
    EXPECT_EQ(std::fscanf(said, "%d", &port_), 1);
    std::fclose(said);
  }
  ~UnreliableService() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  UnreliableService(const UnreliableService&) = delete;
  int port() const { return port_; }

 private:
  pid_t process_;
  int port_ = 0;
};

TEST_F(S3MediumTest, KeepsWhatIsWritten) {
  const AlignedBuffer data = random_bytes(kChunk, 1);
  for (u64 session = 0; session < 3; ++session) {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    Medium& medium = *opened.medium;
    EXPECT_EQ(opened.created, session == 0);
    EXPECT_TRUE(medium.geometry().objects);
    AlignedBuffer got(kChunk);
    if (session == 0) {
      ASSERT_TRUE(medium.grow(16 * kUnit, true));
      ASSERT_TRUE(medium.grow(kMiB, false));
      ASSERT_TRUE(medium.read(15 * kUnit, got.first(kUnit)));
      EXPECT_EQ(std::memcmp(got.data(), std::vector<char>(kUnit).data(), kUnit), 0);
      ASSERT_TRUE(medium.write(kUnit, data.first(kUnit), PERDURA_SITE("test")));
      const auto queue = medium.queue();
      for (u64 place = 2 * kChunk; place < kMiB; place += kChunk)
        ASSERT_TRUE(queue->submit(place, data.span(), PERDURA_SITE("test")));
      ASSERT_TRUE(queue->drain());
      queue->erase(3 * kChunk, kChunk);
      ASSERT_TRUE(queue->drain());
    } else {
      EXPECT_EQ(medium.geometry().size, kMiB);
      ASSERT_TRUE(medium.read(2 * kUnit, got.first(kUnit)));
      EXPECT_EQ(std::memcmp(got.data(), data.data() + (session - 1) * kUnit, kUnit), 0);
      for (u64 place = 4 * kChunk; place < kMiB; place += kChunk) {
        ASSERT_TRUE(medium.read(place, got.span()));
        EXPECT_EQ(std::memcmp(got.data(), data.data(), kChunk), 0);
      }
      expect_failure(medium.read(3 * kChunk, got.span()), Code::kCorrupt, "has no object of");
      expect_failure(medium.read(kMiB - kUnit, got.span()), Code::kCorrupt, "ends before offset");
    }
    for (u64 i = 0; i < 40; ++i)
      ASSERT_TRUE(medium.write_record(2 * kUnit, data.span().subspan(i % 8 * kUnit, kUnit),
                                      PERDURA_SITE("test")));
    ASSERT_TRUE(medium.write_record(2 * kUnit, data.span().subspan(session * kUnit, kUnit),
                                    PERDURA_SITE("test")));
    ASSERT_TRUE(medium.barrier(PERDURA_SITE("test")));
  }
  // What was superseded does not stay: an opening, a page, the end.
  u64 entries = 0;
  for (const std::string& each : objects()) entries += each.starts_with(".log/") ? 1 : 0;
  EXPECT_LE(entries, 20u);
}

TEST_F(S3MediumTest, ARecordsPlaceMayBecomeAnObjects) {
  const AlignedBuffer data = random_bytes(kChunk, 2);
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(kMiB, true));
    ASSERT_TRUE(medium->write_record(kChunk, data.first(kUnit), PERDURA_SITE("test")));
    ASSERT_TRUE(medium->write_record(kChunk + kUnit, data.first(kUnit), PERDURA_SITE("test")));
    const auto queue = medium->queue();
    ASSERT_TRUE(queue->submit(kChunk, data.span(), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
  }
  const auto medium = open(uri());
  AlignedBuffer got(kChunk);
  ASSERT_TRUE(medium->read(kChunk, got.span()));
  EXPECT_EQ(std::memcmp(got.data(), data.data(), kChunk), 0);
}

TEST_F(S3MediumTest, WhatIsNoObjectIsAnError) {
  const AlignedBuffer data = random_bytes(kChunk, 3);
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, false));
  const auto queue = medium->queue();
  ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(queue->submit(kChunk, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(queue->drain());
  AlignedBuffer got(kChunk);
  const std::string content = ask({.name = data_at(kChunk)}).body;
  ASSERT_EQ(content.size(), kChunk + 8);
  put(data_at(0), content);  // that of another place
  expect_failure(medium->read(0, got.span()), Code::kCorrupt, "at place 0 is damaged");
  put(data_at(kChunk), content.substr(0, 5000));
  expect_failure(medium->read(kChunk, got.span()), Code::kCorrupt, "has 5000 bytes, not");
  remove(data_at(0));
  expect_failure(medium->read(0, got.span()), Code::kCorrupt, "has no object of");
}

TEST_F(S3MediumTest, ALogThatIsNoneIsAnError) {
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(4 * kUnit, true));
    const AlignedBuffer data = random_bytes(kUnit, 4);
    ASSERT_TRUE(medium->write_record(0, data.span(), PERDURA_SITE("test")));
    ASSERT_TRUE(medium->write_record(kUnit, data.span(), PERDURA_SITE("test")));
  }
  std::vector<std::string> log;
  for (const std::string& each : objects())
    if (each.starts_with(".log/")) log.push_back(each);
  for (const std::string& each : log) {
    const std::string good = ask({.name = each}).body;
    std::string bad = good;
    bad[bad.size() / 2] ^= 1;
    put(each, bad);
    expect_failure(media::open_medium(uri(), {}), Code::kCorrupt, "is damaged");
    put(each, "something else");
    expect_failure(media::open_medium(uri(), {}), Code::kForeign, "is not a Perdura store");
    put(each, good);
  }
  // In the place of another one it is none.
  const std::string good = ask({.name = log[1]}).body;
  put(log[1], ask({.name = log[0]}).body);
  expect_failure(media::open_medium(uri(), {}), Code::kCorrupt, "is damaged");
  put(log[1], good);
  open(uri());
}

// Of any of its entries, or of objects of other stores beneath it.
TEST_F(S3MediumTest, ALogThatLacksAnEntryIsNoEmptyStore) {
  const AlignedBuffer data = random_bytes(kUnit, 11);
  {
    Owner owner(uri());
    for (int i = 0; i < 4; ++i) owner.next();
    owner.signal(SIGKILL);
    owner.wait();
  }
  std::vector<std::string> log;
  for (const std::string& each : objects())
    if (each.starts_with(".log/")) log.push_back(each);
  ASSERT_GE(log.size(), 5u);
  u64 refused = 0;
  for (const std::string& each : log) {
    const std::string good = ask({.name = each}).body;
    remove(each);
    media::MediumOptions options;
    options.create = true;
    options.lease_s = 0;
    auto opened = media::open_medium(uri(), options);
    if (opened) {  // of what was superseded, or of the newest, before which another one was
      EXPECT_FALSE(opened->created);
      opened->medium.reset();
      break;  // it has another log now
    }
    EXPECT_EQ(opened.failure().code, Code::kCorrupt) << opened.failure().message;
    EXPECT_NE(opened.failure().message.find("lacks entry"), std::string::npos);
    put(each, good);
    ++refused;
  }
  EXPECT_GE(refused, 1u);
}

TEST_F(S3MediumTest, ALogThatIsGoneIsNoNewStore) {
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(kMiB, false));
    const AlignedBuffer data = random_bytes(kChunk, 12);
    const auto queue = medium->queue();
    ASSERT_TRUE(queue->submit(kChunk, data.span(), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
  }
  for (const std::string& each : objects())
    if (each.starts_with(".log/")) remove(each);
  for (const bool create : {true, false}) {
    media::MediumOptions options;
    options.create = create;
    expect_failure(media::open_medium(uri(), options), Code::kCorrupt, "has data, as '.data/");
  }
}

TEST_F(S3MediumTest, StoresBeneathEachOtherAreApart) {
  const AlignedBuffer data = random_bytes(kUnit, 12);
  const auto outer = open(uri());
  ASSERT_TRUE(outer->grow(4 * kUnit, true));
  ASSERT_TRUE(outer->write_record(0, data.span(), PERDURA_SITE("test")));
  for (const char* const beneath : {"/log", "/data", "/beat", "/probe"}) {
    const std::string inner = "s3://tests/" + name_ + beneath;
    {
      const auto medium = open(inner);
      ASSERT_TRUE(medium->grow(4 * kUnit, true));
      ASSERT_TRUE(medium->write_record(0, data.span(), PERDURA_SITE("test")));
      ASSERT_TRUE(medium->barrier(PERDURA_SITE("test")));
    }
    ASSERT_TRUE(outer->barrier(PERDURA_SITE("test")));
  }
  ASSERT_TRUE(media::remove_medium("s3://tests/" + name_ + "/data"));
  AlignedBuffer got(kUnit);
  ASSERT_TRUE(outer->read(0, got.span()));
  ASSERT_TRUE(media::remove_medium(uri("takeover=1")));
  const auto inner = open("s3://tests/" + name_ + "/log");
  ASSERT_TRUE(inner->read(0, got.span()));
  EXPECT_EQ(std::memcmp(got.data(), data.data(), kUnit), 0);
}

TEST_F(S3MediumTest, HasOneOwner) {
  const AlignedBuffer data = random_bytes(kUnit, 5);
  auto first = open(uri());
  ASSERT_TRUE(first->grow(4 * kUnit, true));
  ASSERT_TRUE(first->write(kUnit, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(first->write_record(0, data.span(), PERDURA_SITE("test")));
  expect_failure(media::open_medium(uri(), {}), Code::kLocked, "which is this process");
  {
    const auto second = open(uri("takeover=1"));
    // Its objects land, at their names, and nobody finds them; its records do not.
    const AlignedBuffer other = random_bytes(kUnit, 6);
    ASSERT_TRUE(second->write_pages(2 * kUnit, data.span(), PERDURA_SITE("test")));
    ASSERT_TRUE(first->write_pages(2 * kUnit, other.span(), PERDURA_SITE("test")));
    expect_failure(first->write_record(0, other.span(), PERDURA_SITE("test")), Code::kLocked,
                   "was taken over by another opening: process ");
    expect_failure(first->barrier(PERDURA_SITE("test")), Code::kLocked, "closed to all use");
    first.reset();
    ASSERT_TRUE(second->barrier(PERDURA_SITE("test")));
  }
  const auto third = open(uri());
  AlignedBuffer got(kUnit);
  for (const u64 place : {u64{0}, kUnit, 2 * kUnit}) {
    ASSERT_TRUE(third->read(place, got.span()));
    EXPECT_EQ(std::memcmp(got.data(), data.data(), kUnit), 0) << place;
  }
}

// The name of its next entry is free again when two others have opened the store since.
TEST_F(S3MediumTest, AnOwnerWhoseNextNameIsFreeAgainFindsOut) {
  const AlignedBuffer data = random_bytes(kUnit, 7);
  const AlignedBuffer other = random_bytes(kUnit, 8);
  auto first = open(uri());
  ASSERT_TRUE(first->grow(4 * kUnit, true));
  ASSERT_TRUE(first->write_record(0, data.span(), PERDURA_SITE("test")));
  for (int i = 0; i < 3; ++i) {
    const auto later = open(uri("takeover=1"));
    ASSERT_TRUE(later->write_record(kUnit, data.span(), PERDURA_SITE("test")));
  }
  (void)first->write_record(0, other.span(), PERDURA_SITE("test"));
  expect_failure(first->barrier(PERDURA_SITE("test")), Code::kLocked, "another opening");
  const auto medium = open(uri());
  AlignedBuffer got(kUnit);
  ASSERT_TRUE(medium->read(0, got.span()));
  EXPECT_EQ(std::memcmp(got.data(), data.data(), kUnit), 0);
}

// Of a machine that nobody hears of any more; what its owner wrote last is changed to say so.
TEST_F(S3MediumTest, AnOwnerOnAnotherMachineHasItsLease) {
  for (const bool is_dead : {false, true}) {
    const std::string store = uri(is_dead ? "lease_s=1" : "lease_s=1000");
    {
      Owner owner(store + (is_dead ? "&takeover=1" : ""));
      owner.next();
      owner.signal(SIGKILL);
      owner.wait();
    }
    std::string opening;  // the newest entry that says who it is
    for (const std::string& each : objects())
      if (each.starts_with(".log/") && ask({.name = each}).body.find("\nhost ") != each.npos)
        opening = each;
    std::string text = ask({.name = opening}).body;
    const size_t boot = text.find("\nboot ") + 6;
    text[boot] = text[boot] == 'f' ? '0' : 'f';
    const u64 sum = media::object_head_checksum(std::as_bytes(std::span(text)));
    std::memcpy(text.data() + offsetof(format::MediumHead, checksum), &sum, sizeof sum);
    put(opening, text);
    if (!is_dead) expect_failure(media::open_medium(store, {}), Code::kLocked, "takeover=1");
    else EXPECT_TRUE(wait_until([&] { return static_cast<bool>(media::open_medium(store, {})); }));
  }
}

TEST_F(S3MediumTest, WrongPlacesAreToldApart) {
  expect_failure(media::open_medium("s3://tests", {}), Code::kInvalidArgument, "name is missing");
  expect_failure(media::open_medium("s3:tests/x", {}), Code::kInvalidArgument, "bucket is missing");
  expect_failure(media::open_medium("s3://tests/a b", {}), Code::kInvalidArgument,
                 "letters, digits");
  expect_failure(media::open_medium("s3://tests/a/../b", {}), Code::kInvalidArgument, "a dot");
  expect_failure(media::open_medium("s3://tests/a?endpoint=ftp:x", {}), Code::kInvalidArgument,
                 "begins neither with http");
  expect_failure(media::open_medium("s3://nowhere/x", {}), Code::kNotFound,
                 "there is no bucket 'nowhere'");
  expect_failure(media::open_medium(uri("timeout_ms=500&endpoint=http://127.0.0.1:1"), {}),
                 Code::kIo, "did not answer within 500 ms");
  media::MediumOptions options;
  options.create = false;
  expect_failure(media::open_medium(uri(), options), Code::kNotFound, "has none of this name");
  expect_failure(media::remove_medium(uri()), Code::kNotFound, "has none of this name");
  const std::string key = std::getenv("AWS_SECRET_ACCESS_KEY");
  ::setenv("AWS_SECRET_ACCESS_KEY", "wrong", 1);
  expect_failure(media::open_medium(uri(), {}), Code::kIo, "see whether the key 'tests' is right");
  ::setenv("AWS_SECRET_ACCESS_KEY", key.c_str(), 1);
}

TEST_F(S3MediumTest, CredentialsAreThoseOfAwsFiles) {
  const std::string key = std::getenv("AWS_ACCESS_KEY_ID");
  const std::string secret = std::getenv("AWS_SECRET_ACCESS_KEY");
  const std::string path = fmt::format("/tmp/perdura-credentials-{}", ::getpid());
  std::FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fprintf(file,
               "[default]\naws_access_key_id = nobody\n\n[ours]\n aws_access_key_id=%s \n"
               "aws_secret_access_key = %s\n",
               key.c_str(), secret.c_str());
  ASSERT_EQ(std::fclose(file), 0);
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", path.c_str(), 1);
  expect_failure(media::open_medium(uri(), {}), Code::kIo, "'nobody'");
  ::setenv("AWS_PROFILE", "ours", 1);
  open(uri());
  ::unsetenv("AWS_PROFILE");
  ::unsetenv("AWS_SHARED_CREDENTIALS_FILE");
  ::setenv("AWS_ACCESS_KEY_ID", key.c_str(), 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", secret.c_str(), 1);
  ::unlink(path.c_str());
}

TEST_F(S3MediumTest, RemovingLeavesWhatNumbersGoOnFrom) {
  const AlignedBuffer data = random_bytes(kUnit, 9);
  auto former = open(uri());
  ASSERT_TRUE(former->grow(8 * kUnit, true));
  ASSERT_TRUE(former->write_record(0, data.span(), PERDURA_SITE("test")));
  expect_failure(media::remove_medium(uri()), Code::kLocked, "which is this process");
  ASSERT_TRUE(media::remove_medium(uri("takeover=1")));
  const std::vector<std::string> left = objects();
  // Who removed it, and that it is removed.
  ASSERT_EQ(left.size(), 3u) << ::testing::PrintToString(left);
  EXPECT_TRUE(left[0].starts_with(".log/"));
  EXPECT_TRUE(left[1].starts_with(".log/"));
  EXPECT_EQ(left[2], ".probe");
  media::MediumOptions options;
  options.create = false;
  expect_failure(media::open_medium(uri(), options), Code::kNotFound, "has none of this name");
  // Another store of this name is none of the one before.
  auto opened = value_or_throw(media::open_medium(uri(), {}));
  EXPECT_TRUE(opened.created);
  expect_failure(former->barrier(PERDURA_SITE("test")), Code::kLocked, "another opening");
  ASSERT_TRUE(opened.medium->barrier(PERDURA_SITE("test")));
}

// --- stores

TEST_F(S3MediumTest, AStoreGoesOnAfterItsOwnerWasKilled) { expect_goes_on_after_kills(uri()); }

TEST_F(S3MediumTest, OfAnOwnerThatSleptWhileAnotherWroteNothingIsFound) {
  Owner owner(uri("lease_s=2"));
  owner.next();
  owner.signal(SIGSTOP);
  u64 value = 0;
  {
    auto store = open_store(uri("lease_s=2&takeover=1"));
    Counter& counter = store.root<Counter>("counter");
    for (int i = 0; i < 20; ++i) {
      add(store, counter, 1000);
      store.checkpoint();
    }
    value = counter.value;
    owner.signal(SIGCONT);
    EXPECT_EQ(owner.wait(), 0) << "it finds out that the store is not its own";
    add(store, counter, 1000);
    store.checkpoint();
  }
  auto store = open_store(uri());
  EXPECT_EQ(store.root<Counter>("counter").value, value + 1000);
}

// Refuses and does, does and says nothing, does twice, does again much later (unreliable.py).
TEST_F(S3MediumTest, AnUnreliableServiceLosesNothing) {
  u64 least = 0;
  for (int round = 0; round < 6; ++round) {
    const UnreliableService service(round);
    Owner owner(uri(fmt::format("timeout_ms=60000&endpoint=http://127.0.0.1:{}", service.port())));
    for (int i = 0; i < 8; ++i) EXPECT_GT(owner.next(), least);
    owner.signal(SIGKILL);
    owner.wait();
    least = owner.last();
    auto store = open_store(uri());  // while the service does again what the owner asked
    const u64 found = store.root<Counter>("counter").value;
    EXPECT_GE(found, least);
    EXPECT_LE(found, least + 1);
    least = found;
  }
}

TEST_F(S3MediumTest, AStoreWaitsForItsGatewayAndGoesOn) {
  u64 last = 0;
  {
    Owner owner(uri("timeout_ms=60000"));
    owner.next();
    for (int round = 0; round < 3; ++round) {
      ceph("kill", "rgw.x");  // in the middle of whatever it is taking
      while (owner.says_within_ms(500)) last = owner.next();
      ceph("begin", "rgw.x");
      for (int i = 0; i < 5; ++i) {
        const u64 value = owner.next();
        EXPECT_GE(value, last);
        last = value;
      }
    }
    owner.signal(SIGKILL);
    owner.wait();
    last = owner.last();
  }
  auto store = open_store(uri());
  const u64 found = store.root<Counter>("counter").value;
  EXPECT_GE(found, last);
  EXPECT_LE(found, last + 1);
}

}  // namespace
}  // namespace perdura::test
