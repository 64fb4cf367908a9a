// Goal: where the system refuses memory while a store in chunks is opened, or while a part of it is
// touched first, the opening fails with an Error or the store is whole; no program is ended.
// Method: the mapping of memory fails from some call on, in the thread that opens and in all
// others.
#include <gtest/gtest.h>

#include <cerrno>

#include <perdura/perdura.hpp>

#include "support/call_faults.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"

namespace perdura::test {
namespace {

constexpr u64 kWords = 200'000;
struct Words {
  u64 words[kWords];
};

struct Way {
  const char* name;
  bool is_server;
  Tracking tracking;
};

class ChunksWithoutMemory : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam().is_server) server_ = std::make_unique<MemcachedProcess>();
    Store store = open();
    {
      const auto operation = store.operation();
      Words& words = store.root<Words>("words");
      store.touch(&words, sizeof words);
      for (u64 i = 0; i < kWords; ++i) words.words[i] = i;
    }
    store.close();
  }
  Store open() const {
    return Store::open(
        GetParam().is_server ? server_->uri("store") : "file:" + folder_.path("store.pd"),
        {.tracking = GetParam().tracking, .chunk_bytes = 32768, .engine = Engine::kRemap});
  }

  const TestThread test_thread_;
  const TempDir folder_{TempDir::kMemory};
  std::unique_ptr<MemcachedProcess> server_;
};

TEST_P(ChunksWithoutMemory, AreThereOrAnErrorSaysThatTheyAreNot) {
  u64 opened = 0;
  u64 refused = 0;
  for (u64 nth = 1; nth < 60; ++nth) {
    const CallFault fault{.call = Call::kMap, .nth = nth, .error = ENOMEM, .for_ever = true};
    arm_calls(&fault);
    try {
      Store store = in_library([&] { return open(); });
      const Words& words = store.root<Words>("words");
      for (u64 i = 0; i < kWords; ++i) ASSERT_EQ(words.words[i], i) << nth;
      ++opened;
    } catch (const Error& error) {
      ++refused;
    }
    disarm_calls();
    if (calls_failed() == 0) break;
  }
  EXPECT_GT(opened, 0u);
  EXPECT_GT(refused, 0u);
}

INSTANTIATE_TEST_SUITE_P(Ways, ChunksWithoutMemory,
                         testing::Values(Way{"file_sigbus", false, Tracking::kSigbus},
                                         Way{"file_reported", false, Tracking::kReported},
                                         Way{"server_bitmap", true, Tracking::kBitmap}),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace perdura::test
