// Goal: whatever an owner of a store on a service of objects has under way when it dies, or when it
// falls asleep and another takes the store over, nobody loses what was acknowledged, and nothing of
// the former one is found that came after the next one had the store. Method: a store in chunks
// over a model of the service's promises; its owner stops before each of its requests in turn, and
// dies there, its requests done late or never, or goes on at several moments of the next one's
// work.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <perdura/perdura.hpp>
#include <perdura/type.hpp>

#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/paused_client.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"
#ifdef PERDURA_S3
#include "media/s3_service.hpp"
#include "support/model_s3.hpp"
#endif
#ifdef PERDURA_RADOS
#include "media/rados_service.hpp"
#include "support/model_rados.hpp"
#endif

namespace {
struct Numbers {
  std::uint64_t of[3000];
};
}  // namespace
PERDURA_TYPE(Numbers)

namespace perdura::test {
namespace {

using OpenMedium =
    std::function<std::unique_ptr<media::Medium>(PausedClient&, const media::MediumOptions&)>;

/// A program that opens the store, and makes versions of which each has one number everywhere.
class Owner {
 public:
  Owner(const OpenMedium& open, PausedClient& client, const std::string& folder,
        bool takes_over = true)
      : open_(open),
        takes_over_(takes_over),
        client_(client),
        place_(fmt::format("{}.{}", folder, next_++)) {}

  /// What it found; throws Error.
  u64 begin() {
    Options options;
    options.engine = Engine::kRemap;
    options.chunk_bytes = 4096;
    options.tracking = Tracking::kReported;
    store_ = std::make_unique<WrappedStore>(
        "emu:" + place_, options, [this](std::unique_ptr<media::Medium>) { return open_medium(); });
    numbers_ = static_cast<Numbers*>(store_->get_root("numbers"));
    if (numbers_ == nullptr) {
      const auto operation = store_->operation();
      numbers_ = static_cast<Numbers*>(
          operation.allocate_flexible(TypeRecord<Numbers>::value, sizeof(Numbers)));
      operation.set_root("numbers", numbers_);
    }
    for (const u64 each : numbers_->of) EXPECT_EQ(each, numbers_->of[0]);
    acknowledged = numbers_->of[0];
    return numbers_->of[0];
  }
  void make(u64 number) {
    attempted = number;
    {
      const auto operation = store_->operation();
      operation.touch(numbers_, sizeof(Numbers));
      for (u64& each : numbers_->of) each = number;
    }
    store_->checkpoint();
    acknowledged = number;
  }
  void close() {
    store_->close();
    store_.reset();
  }
  void crash() { store_.reset(); }

  std::atomic<bool> is_owner{false};
  std::atomic<u64> attempted{0};
  std::atomic<u64> acknowledged{0};

 private:
  static inline std::atomic<int> next_{0};
  std::unique_ptr<media::Medium> open_medium() {
    media::MediumOptions options;
    options.takeover = takes_over_;
    options.lease_s = 0;
    auto medium = open_(client_, options);
    is_owner = true;
    return medium;
  }

  const OpenMedium& open_;
  const bool takes_over_;
  PausedClient& client_;
  const std::string place_;
  std::unique_ptr<WrappedStore> store_;
  Numbers* numbers_ = nullptr;
};

enum class Fate {
  kDies,               ///< what it had under way is done, or not, before the next one comes
  kDiesLateAtOpening,  ///< … when the next one has the store
  kDiesLate,           ///< … when the next one has made a version
  kSleeps,             ///< and goes on when the next one has the store
  kSleepsLong,         ///< … when the next one has made a version
  kSleepsThroughAll,   ///< … when the one after that has
  kGoesOnMeanwhile,    ///< in the middle of the next one's opening
};

struct Case {
  size_t pauses_at;
  Fate fate;
  size_t next_pauses_at = PausedClient::kNever;
};

/// Of one service; `late`: done late or never, by a coin.
struct Service {
  OpenMedium open;
  std::function<void(const std::function<bool()>& keep)> deliver_late;
};

/// False where the owner ended before it came to its pause.
bool run(const Case& which, const Service& service, const std::string& folder, u64 seed) {
  std::mt19937_64 random(seed);
  const auto coin = [&] { return random() % 2 == 0; };
  PausedClient first_client(which.pauses_at);
  Owner first(service.open, first_client, folder, false);
  std::thread program([&] {
    try {
      u64 number = first.begin();
      // Some have superseded more than others, and have more to delete.
      for (int i = 0; i < (seed % 3 == 0 ? 12 : 4); ++i) first.make(++number);
      if (seed % 2 == 0) first.close();
      else first.crash();
    } catch (const Error&) {
      first.crash();
    }
    first_client.ends();
  });
  const bool paused = first_client.wait_until_paused();
  const auto first_ends = [&] {
    first_client.resume();
    if (program.joinable()) program.join();
  };
  if (!paused) {
    first_ends();
    return false;
  }
  const bool dies = which.fate <= Fate::kDiesLate;
  if (!dies && !first.is_owner) {  // it would be one that comes later
    first_ends();
    return true;
  }
  if (dies) {
    first_client.die();
    first_ends();
    if (which.fate == Fate::kDies) service.deliver_late(coin);
  }

  PausedClient second_client(which.next_pauses_at);
  Owner second(service.open, second_client, folder);
  u64 found = 0;
  std::thread opening([&] {
    try {
      found = second.begin();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    second_client.ends();
  });
  if (which.fate == Fate::kGoesOnMeanwhile) {
    const bool met = second_client.wait_until_paused();
    first_ends();
    second_client.resume();
    opening.join();
    if (!met) return false;
  } else {
    opening.join();
  }
  const u64 acknowledged = first.acknowledged;
  if (::testing::Test::HasFailure()) return true;
  EXPECT_GE(found, acknowledged) << "what the first one had acknowledged is lost";
  EXPECT_LE(found, first.attempted);

  if (which.fate == Fate::kDiesLateAtOpening) service.deliver_late(coin);
  if (which.fate == Fate::kSleeps) first_ends();
  second.make(1000);
  if (which.fate == Fate::kDiesLate) service.deliver_late(coin);
  if (which.fate == Fate::kSleepsLong) first_ends();
  second.make(1001);
  if (coin()) second.close();
  else second.crash();

  PausedClient third_client;
  {
    Owner third(service.open, third_client, folder);
    EXPECT_EQ(third.begin(), 1001u);
    third.make(2000);
    if (which.fate == Fate::kSleepsThroughAll) first_ends();
    third.make(2001);
    third.crash();
  }
  {
    Owner fourth(service.open, third_client, folder);
    EXPECT_EQ(fourth.begin(), 2001u);
    fourth.close();
  }
  EXPECT_LE(first.acknowledged, found) << "after another one had the store";
  return true;
}

/// Every request of the first owner, or, unless the environment asks for all, every so many of
/// them.
size_t stride() { return slice_or_whole(kSanitized ? 23 : 5, 1); }

void explore(Fate fate, const std::function<Service(u64 seed)>& service_of) {
  const TempDir folder(TempDir::kMemory);
  size_t cases = 0;
  for (size_t at = static_cast<size_t>(fate);; at += stride()) {
    bool any = false;
    const size_t others = fate == Fate::kGoesOnMeanwhile ? 4 : 1;
    for (size_t other = 0; other < others; ++other) {
      const u64 seed = at * 7 + other;
      const Service service = service_of(seed);
      const Case which{
          at, fate,
          fate == Fate::kGoesOnMeanwhile ? (at * 5 + other * 11) % 60 : PausedClient::kNever};
      SCOPED_TRACE(fmt::format("request {}, the other one's {}", at, which.next_pauses_at));
      const bool met = run(which, service, folder.path("stores"), seed);
      any = any || met;
      cases += met ? 1 : 0;
      if (::testing::Test::HasFailure()) {  // also of other threads, which have no trace
        std::printf("request %zu, the other one's %zu\n", at, which.next_pauses_at);
        return;
      }
    }
    if (!any && (fate != Fate::kGoesOnMeanwhile || at > 250)) break;
  }
  EXPECT_GE(cases, 5u);
  std::printf("%zu cases\n", cases);
}

// A few buffers in turn, each written anew when drain() says that only younger writes are under
// way: whatever the order is in which a service ends them.
void expect_buffers_are_sent_before_they_are_used_again(media::Medium& medium) {
  constexpr u64 kWrites = 60, kBuffers = 3;
  ASSERT_TRUE(medium.grow(kWrites * kPageBytes, false));
  AlignedBuffer buffers(kBuffers * kPageBytes);
  const auto queue = medium.queue();
  for (u64 i = 0; i < kWrites; ++i) {
    const auto page = buffers.span().subspan(i % kBuffers * kPageBytes, kPageBytes);
    std::memset(page.data(), static_cast<int>(i + 1), kPageBytes);
    ASSERT_TRUE(queue->submit(i * kPageBytes, page, PERDURA_SITE("test")));
    ASSERT_TRUE(queue->drain(kBuffers - 1));
  }
  ASSERT_TRUE(queue->drain());
  AlignedBuffer got(kPageBytes);
  for (u64 i = 0; i < kWrites; ++i) {
    ASSERT_TRUE(medium.read(i * kPageBytes, got.span()));
    EXPECT_EQ(got.data()[9], static_cast<std::byte>(i + 1)) << i;
  }
}

#ifdef PERDURA_RADOS
TEST(RadosChannel, SendsBuffersBeforeTheyAreUsedAgain) {
  for (u64 seed = 0; seed < 20; ++seed) {
    ModelRados model(seed);
    PausedClient client;
    media::MediumOptions options;
    options.lease_s = 0;
    expect_buffers_are_sent_before_they_are_used_again(
        *value_or_throw(media::open_rados(model.wanted(client), options)).medium);
  }
}

class RadosCrash : public ::testing::TestWithParam<Fate> {};

TEST_P(RadosCrash, LosesNothing) {
  explore(GetParam(), [](u64 seed) {
    const auto model = std::make_shared<ModelRados>(seed);
    return Service{
        .open =
            [model](PausedClient& client, const media::MediumOptions& options) {
              return value_or_throw(media::open_rados(model->wanted(client), options)).medium;
            },
        .deliver_late = [model](const std::function<bool()>& keep) { model->deliver_late(keep); }};
  });
}
#endif

#ifdef PERDURA_S3
class S3Crash : public ::testing::TestWithParam<Fate> {};

TEST_P(S3Crash, LosesNothing) {
  explore(GetParam(), [](u64 seed) {
    const auto model = std::make_shared<ModelS3>(seed);
    return Service{
        .open =
            [model](PausedClient& client, const media::MediumOptions& options) {
              return value_or_throw(media::open_s3(model->place(client), options)).medium;
            },
        .deliver_late = [model](const std::function<bool()>& keep) { model->deliver_late(keep); }};
  });
}

TEST(S3Channel, SendsBuffersBeforeTheyAreUsedAgain) {
  for (u64 seed = 0; seed < 20; ++seed) {
    ModelS3 model(seed);
    PausedClient client;
    const media::S3Place place = model.place(client);
    media::MediumOptions options;
    options.lease_s = 0;
    expect_buffers_are_sent_before_they_are_used_again(
        *value_or_throw(media::open_s3(place, options)).medium);
  }
}

TEST(S3Channel, AsksForOneObjectInOrder) {
  for (u64 seed = 0; seed < 100; ++seed) {
    ModelS3 model(seed);
    PausedClient client;
    const media::S3Place place = model.place(client);
    media::MediumOptions options;
    options.lease_s = 0;
    const auto medium = value_or_throw(media::open_s3(place, options)).medium;
    ASSERT_TRUE(medium->grow(kMiB, false));
    std::vector<AlignedBuffer> pages;
    for (int i = 0; i < 3; ++i) {
      pages.emplace_back(kPageBytes);
      std::memset(pages.back().data(), i + 1, kPageBytes);
    }
    const auto queue = medium->queue();
    for (u64 at = 0; at < 8 * kPageBytes; at += kPageBytes) {
      ASSERT_TRUE(queue->submit(at, pages[0].span(), PERDURA_SITE("test")));
      ASSERT_TRUE(queue->submit(at, pages[1].span(), PERDURA_SITE("test")));
      queue->erase(at, kPageBytes);
      if (at % (2 * kPageBytes) == 0) {
        ASSERT_TRUE(queue->submit(at, pages[2].span(), PERDURA_SITE("test")));
      }
    }
    ASSERT_TRUE(queue->drain());
    AlignedBuffer got(kPageBytes);
    for (u64 at = 0; at < 8 * kPageBytes; at += kPageBytes) {
      if (at % (2 * kPageBytes) == 0) {
        ASSERT_TRUE(medium->read(at, got.span()));
        EXPECT_EQ(got.data()[7], std::byte{3});
      } else {
        expect_failure(medium->read(at, got.span()), Code::kCorrupt, "has no object of");
      }
    }
  }
}
#endif

std::string name_of_fate(const ::testing::TestParamInfo<Fate>& info) {
  constexpr const char* kNames[] = {"dies",       "diesLateAtOpening", "diesLate",       "sleeps",
                                    "sleepsLong", "sleepsThroughAll",  "goesOnMeanwhile"};
  return kNames[static_cast<int>(info.param)];
}
constexpr Fate kFates[] = {Fate::kDies,           Fate::kDiesLateAtOpening, Fate::kDiesLate,
                           Fate::kSleeps,         Fate::kSleepsLong,        Fate::kSleepsThroughAll,
                           Fate::kGoesOnMeanwhile};
#ifdef PERDURA_S3
INSTANTIATE_TEST_SUITE_P(Fates, S3Crash, ::testing::ValuesIn(kFates), name_of_fate);
#endif
#ifdef PERDURA_RADOS
INSTANTIATE_TEST_SUITE_P(Fates, RadosCrash, ::testing::ValuesIn(kFates), name_of_fate);
#endif

}  // namespace
}  // namespace perdura::test
