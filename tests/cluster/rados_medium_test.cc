// Goal: a store on a RADOS cluster keeps what it acknowledged, has one owner at a time, and an
// owner that was taken over from can write no more, however long it slept. Method: a real cluster
// (ceph.sh), whose ceph.conf the environment names; owners in processes of their own, that are
// killed and stopped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <perdura/perdura.hpp>

#include "base/aligned_buffer.hpp"
#include "format/rados_format.hpp"
#include "media/medium.hpp"
#include "media/rados_api.hpp"
#include "support/cluster.hpp"
#include "support/expect_failure.hpp"

namespace perdura::test {
namespace {

using media::Medium;

constexpr u64 kUnit = format::kObjectUnitBytes;
constexpr u64 kChunk = 64 * kKiB;

/// A store of each test's own.
class RadosMediumTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(ceph_conf().empty())
        << "ceph.sh starts a cluster; PERDURA_CEPH_CONF names its ceph.conf";
    name_ = fmt::format("{}_{}", ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                        ::getpid());
  }

  std::string uri(const std::string& more = "") const {
    return fmt::format("rados://tests/{}?conf={}{}", name_, ceph_conf(), more);
  }
  static std::unique_ptr<Medium> open(const std::string& uri) {
    return value_or_throw(media::open_medium(uri, {})).medium;
  }
  /// Behind the medium's back.
  const media::RadosClient& client() {
    if (client_ == nullptr)
      client_ = value_or_throw(media::RadosClient::connect({.medium = name_,
                                                            .pool = "tests",
                                                            .name = name_,
                                                            .conf = ceph_conf(),
                                                            .user = "",
                                                            .timeout_ms = 10'000}));
    return *client_;
  }
  std::vector<std::string> objects() {
    const media::RadosApi& api = client().api();
    rados_list_ctx_t listing = nullptr;
    EXPECT_EQ(api.nobjects_list_open(client().pool(), &listing), 0);
    std::vector<std::string> names;
    for (const char* name = nullptr; api.nobjects_list_next(listing, &name, nullptr, nullptr) >= 0;)
      names.emplace_back(name);
    api.nobjects_list_close(listing);
    return names;
  }
  /// Whose place is this, in hex.
  std::string object_at(const std::string& place) {
    for (const std::string& each : objects())
      if (each.ends_with("." + place)) return each;
    ADD_FAILURE() << "there is none at " << place;
    return {};
  }
  void overwrite(const std::string& object, std::string_view content) {
    ASSERT_EQ(
        client().api().write_full(client().pool(), object.c_str(), content.data(), content.size()),
        0);
  }

  std::string name_;
  std::unique_ptr<media::RadosClient> client_;
};

TEST_F(RadosMediumTest, KeepsWhatIsWritten) {
  const AlignedBuffer data = random_bytes(kChunk, 1);
  {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    EXPECT_TRUE(opened.created);
    Medium& medium = *opened.medium;
    EXPECT_TRUE(medium.geometry().objects);
    ASSERT_TRUE(medium.grow(16 * kUnit, true));
    ASSERT_TRUE(medium.grow(kMiB, false));
    AlignedBuffer got(kUnit);
    ASSERT_TRUE(medium.read(15 * kUnit, got.span()));
    EXPECT_EQ(std::memcmp(got.data(), std::vector<char>(kUnit).data(), kUnit), 0);
    ASSERT_TRUE(medium.write(kUnit, data.first(kUnit), PERDURA_SITE("test")));
    const auto queue = medium.queue();
    for (u64 place = 2 * kChunk; place < kMiB; place += kChunk)
      ASSERT_TRUE(queue->submit(place, data.span(), PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain());
    queue->erase(3 * kChunk, kChunk);
    ASSERT_TRUE(queue->drain());
    ASSERT_TRUE(medium.write_record(2 * kUnit, data.first(kUnit), PERDURA_SITE("test")));
    ASSERT_TRUE(
        medium.write_record(2 * kUnit, data.span().subspan(kUnit, kUnit), PERDURA_SITE("test")));
    ASSERT_TRUE(medium.barrier(PERDURA_SITE("test")));
  }
  const auto opened = value_or_throw(media::open_medium(uri(), {}));
  EXPECT_FALSE(opened.created);
  Medium& medium = *opened.medium;
  EXPECT_EQ(medium.geometry().size, kMiB);
  AlignedBuffer got(kChunk);
  ASSERT_TRUE(medium.read(2 * kUnit, got.first(kUnit)));
  EXPECT_EQ(std::memcmp(got.data(), data.data() + kUnit, kUnit), 0);
  ASSERT_TRUE(medium.write_record(2 * kUnit, data.first(kUnit), PERDURA_SITE("test")));
  for (u64 place = 4 * kChunk; place < kMiB; place += kChunk) {
    ASSERT_TRUE(medium.read(place, got.span()));
    EXPECT_EQ(std::memcmp(got.data(), data.data(), kChunk), 0);
  }
  expect_failure(medium.read(3 * kChunk, got.span()), Code::kCorrupt, "has no object of");
  expect_failure(medium.read(kMiB - kUnit, got.span()), Code::kCorrupt, "ends before offset");
}

TEST_F(RadosMediumTest, WhatIsNoObjectIsAnError) {
  const AlignedBuffer data = random_bytes(kChunk, 2);
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kMiB, false));
  const auto queue = medium->queue();
  ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(queue->submit(kChunk, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(queue->drain());
  const std::string at_0 = object_at("0");
  const std::string at_chunk = object_at("10000");
  AlignedBuffer got(kChunk);
  std::string content(2 * kChunk, 0);
  const int length =
      client().api().read(client().pool(), at_chunk.c_str(), content.data(), content.size(), 0);
  ASSERT_EQ(length, static_cast<int>(kChunk + 8));
  content.resize(kChunk + 8);
  overwrite(at_0, content);  // that of another place
  expect_failure(medium->read(0, got.span()), Code::kCorrupt, "is damaged");
  expect_failure(medium->read(0, got.first(kUnit)), Code::kCorrupt, "is damaged");
  overwrite(at_chunk, content.substr(0, 5000));
  expect_failure(medium->read(kChunk, got.span()), Code::kCorrupt, "has 5000 bytes, not");
  ASSERT_EQ(client().api().remove(client().pool(), at_0.c_str()), 0);
  expect_failure(medium->read(0, got.span()), Code::kCorrupt, "has no object of");
}

TEST_F(RadosMediumTest, AStoreThatLostItsHeadIsNoNewOne) {
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(4 * kUnit, true));
  }
  ASSERT_EQ(client().api().remove(client().pool(), "head"), 0);
  expect_failure(media::open_medium(uri(), {}), Code::kCorrupt, "has lost its object 'head'");
  media::MediumOptions options;
  options.create = false;
  expect_failure(media::open_medium(uri(), options), Code::kCorrupt, "to begin anew");
}

TEST_F(RadosMediumTest, ARecordThatAnotherOneHasWrittenIsNotOverwritten) {
  const AlignedBuffer data = random_bytes(kUnit, 3);
  const auto medium = open(uri());
  ASSERT_TRUE(medium->grow(kUnit, true));
  ASSERT_TRUE(medium->write_record(0, data.span(), PERDURA_SITE("test")));
  ASSERT_EQ(client().api().setxattr(client().pool(), object_at("0").c_str(), "sum", "12345678", 8),
            0);
  expect_failure(medium->write_record(0, data.span(), PERDURA_SITE("test")), Code::kLocked,
                 "another process has written the record of");
  expect_failure(medium->barrier(PERDURA_SITE("test")), Code::kLocked, "closed to all use");
}

TEST_F(RadosMediumTest, HasOneOwner) {
  const AlignedBuffer data = random_bytes(kUnit, 4);
  auto first = open(uri());
  ASSERT_TRUE(first->grow(kUnit, true));
  expect_failure(media::open_medium(uri(), {}), Code::kLocked, "which is this process");
  const auto second = open(uri("&takeover=1"));
  expect_failure(first->write(0, data.span(), PERDURA_SITE("test")), Code::kLocked,
                 "was taken over by another opening: process ");
  expect_failure(first->barrier(PERDURA_SITE("test")), Code::kLocked, "closed to all use");
  first.reset();
  ASSERT_TRUE(second->write(0, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(second->barrier(PERDURA_SITE("test")));
}

TEST_F(RadosMediumTest, WrongPlacesAreToldApart) {
  expect_failure(media::open_medium("rados://tests", {}), Code::kInvalidArgument,
                 "name is missing");
  expect_failure(media::open_medium("rados:tests/x", {}), Code::kInvalidArgument,
                 "pool is missing");
  expect_failure(media::open_medium(fmt::format("rados://nowhere/x?conf={}", ceph_conf()), {}),
                 Code::kNotFound, "the cluster has no pool 'nowhere'");
  expect_failure(media::open_medium("rados://tests/x?conf=/none/ceph.conf", {}), Code::kNotFound,
                 "cannot read the configuration of Ceph '/none/ceph.conf'");
  media::MediumOptions options;
  options.create = false;
  expect_failure(media::open_medium(uri(), options), Code::kNotFound, "has none of this name");
  expect_failure(media::remove_medium(uri()), Code::kNotFound, "has none of this name");
}

TEST_F(RadosMediumTest, RemovingLeavesNothing) {
  {
    const auto medium = open(uri());
    ASSERT_TRUE(medium->grow(8 * kUnit, true));
  }
  ASSERT_TRUE(media::remove_medium(uri()));
  for (const std::string& each : objects()) EXPECT_EQ(each, "lock");
}

// --- stores

TEST_F(RadosMediumTest, AStoreGoesOnAfterItsOwnerWasKilled) { expect_goes_on_after_kills(uri()); }

// All of them draw the same addresses as clients, which are refused once their owners were killed.
TEST_F(RadosMediumTest, KilledWorkersOfOneParentComeAfterEachOther) {
  {
    auto store = open_store(uri());
    store.root<Counter>("counter");
    store.checkpoint();
  }
  u64 least = 0;
  for (int round = 0; round < 5; ++round) {
    Owner owner(uri());
    EXPECT_GT(owner.next(), least);
    owner.signal(SIGKILL);
    owner.wait();
    least = owner.last();
  }
}

TEST_F(RadosMediumTest, AnOwnerThatSleptForLongerThanItsLeaseWritesNoMore) {
  Owner owner(uri("&lease_s=2"));
  owner.next();
  owner.signal(SIGSTOP);
  expect_failure(media::open_medium(uri("&lease_s=2"), {}), Code::kLocked, "is open in");
  std::this_thread::sleep_for(std::chrono::seconds(4));
  u64 value = 0;
  {
    auto store = open_store(uri("&lease_s=2"));
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

TEST_F(RadosMediumTest, AStoreWaitsForOsdsAndGoesOn) {
  u64 last = 0;
  {
    Owner owner(uri());
    owner.next();
    ceph("kill", "osd.0");
    for (int i = 0; i < 3; ++i) last = owner.next();  // two are enough
    ceph("kill", "osd.1");
    while (owner.says_within_ms(3000)) last = owner.next();
    ceph("begin", "osd.0");
    ceph("begin", "osd.1");
    for (int i = 0; i < 5; ++i) EXPECT_EQ(owner.next(), ++last);
    ceph("kill", "mon.a");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(owner.next(), ++last);
    ceph("begin", "mon.a");
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
