// Goal: a move of an object, out to an overflow store or home from there, that fails is none: the
// object stays where it was, with all that was called, and goes on; who calls meanwhile has claimed
// nothing that others would wait for; and where nothing can move the failure says why. Method:
// media on which a chosen write or barrier fails, or waits for the test.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include <perdura/objects.hpp>

#include "media/decorator.hpp"
#include "model/object/objects_runtime.hpp"
#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/filtered_queue.hpp"
#include "support/scheme_names.hpp"
#include "support/threads.hpp"

namespace perdura::test {

/// Two pages.
struct Coin {
  static constexpr std::uint64_t kWords = 1024;
  std::uint64_t words[kWords];
  std::uint64_t toss(std::uint64_t value) noexcept {
    words[1 + words[0] % (kWords - 1)] = value;
    return ++words[0];
  }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Coin>
    : perdura::MethodList<perdura::Instant<&perdura::test::Coin::toss>> {};

namespace perdura::test {
namespace {

/// What becomes of what is written at a site.
class Plan {
 public:
  /// The next `count` writes or barriers there fail, after so many.
  void refuse(std::string_view site, u64 after = 0, u64 count = 1) {
    std::lock_guard lock(mutex_);
    site_ = site;
    after_ = after;
    count_ = count;
  }
  /// Called before each write there, once.
  void before(std::string_view site, std::function<void()> then) {
    std::lock_guard lock(mutex_);
    waits_at_ = site;
    then_ = std::move(then);
  }
  bool has_refused() const { return count_ == 0; }

  Status decide(const media::Site& site) {
    std::function<void()> then;
    {
      std::lock_guard lock(mutex_);
      if (then_ && site.what == waits_at_) then = std::exchange(then_, nullptr);
    }
    if (then) then();
    std::lock_guard lock(mutex_);
    if (count_ == 0 || site.what != site_) return {};
    if (after_ != 0) return --after_, Status{};
    --count_;
    return Failure{Code::kIo, "refused at " + std::string(site_)};
  }

 private:
  std::mutex mutex_;
  std::string_view site_, waits_at_;
  u64 after_ = 0;
  std::atomic<u64> count_{0};
  std::function<void()> then_;
};

class Planned final : public media::Decorator {
 public:
  Planned(std::unique_ptr<media::Medium> inner, Plan& plan)
      : Decorator(std::move(inner)), plan_(plan) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    PERDURA_TRY(plan_.decide(site));
    return Decorator::write(offset, data, site);
  }
  Status barrier(const media::Site& site) override {
    PERDURA_TRY(plan_.decide(site));
    return Decorator::barrier(site);
  }
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<FilteredQueue>(
        Decorator::queue(), [this](u64, const media::Site& site, const auto& submit) -> Status {
          PERDURA_TRY(plan_.decide(site));
          return submit();
        });
  }

 private:
  Plan& plan_;
};

constexpr u64 kLogBytes = 4096;
constexpr u64 kEachBytes = 2 * sizeof(Coin) + kLogBytes;
constexpr const char* kNames[] = {"a", "b", "c"};

class ObjectsMoves : public testing::TestWithParam<const char*> {
 protected:
  ~ObjectsMoves() override { close(); }

  std::string uri() const { return GetParam() + folder_.path("store.pd"); }
  std::string overflow() const { return "file:" + folder_.path("overflow.pd"); }
  ObjectsOptions options() const {
    return {.bytes_max = 2 * kEachBytes + 3 * kPageBytes, .overflow = overflow()};
  }
  /// Three objects, of which two have space, and each has one call. "a" is away.
  void open(std::optional<u64> bytes_max = {}) {
    const auto planned = [this](std::string uri) {
      return [this, uri = std::move(uri)]() -> Result<std::unique_ptr<media::Medium>> {
        PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, {}));
        std::unique_ptr<media::Medium> medium =
            std::make_unique<Planned>(std::move(opened.medium), plan_);
        return medium;
      };
    };
    ObjectsOptions how = options();
    how.bytes_max = bytes_max.value_or(how.bytes_max);
    runtime_ = value_or_throw(
        detail::ObjectsRuntime::open(uri(), how, planned(uri()), planned(overflow())));
    for (const char* name : kNames) {
      objects_.push_back(add(name));
      calls_.push_back(0);
      expect_call(objects_.size() - 1);
    }
    ASSERT_TRUE(is_away(0));
  }
  std::shared_ptr<detail::OpenObject> add(const std::string& name) {
    return value_or_throw(try_add(name));
  }
  Result<std::shared_ptr<detail::OpenObject>> try_add(const std::string& name) {
    return runtime_->object(name, {typeid(Coin).name(), sizeof(Coin), methods_, &initial_},
                            {.log_bytes = kLogBytes, .checkpoint_calls = 1000});
  }
  Status try_call(size_t at) {
    const std::uint64_t value = calls_[at] * 31;
    std::uint64_t answer = 0;
    detail::OpenObject& object = *objects_[at];
    PERDURA_TRY(object.core().call(
        object.call_of(0, 0, Domain::kAll, std::as_bytes(std::span(&value, 1))), &answer));
    EXPECT_EQ(answer, ++calls_[at]);
    return {};
  }
  void expect_call(size_t at) {
    const Status called = try_call(at);
    EXPECT_TRUE(called) << kNames[at] << ": " << called.failure().message;
  }
  bool is_away(size_t at) const { return objects_[at]->core().is_away(); }
  void close() {
    objects_.clear();
    if (runtime_) {
      EXPECT_TRUE(runtime_->close());
    }
    runtime_.reset();
  }
  /// Each has the calls that it answered, and is called again.
  void expect_all() {
    for (size_t i = 0; i < objects_.size(); ++i) expect_call(i);
    close();
    const store::CheckReport report =
        value_or_throw(store::check(uri(), {}, store::no_progress, overflow()));
    EXPECT_FALSE(report.damaged()) << report.findings.front().message;
    Objects objects = Objects::open(uri(), options());
    for (size_t i = 0; i < calls_.size(); ++i)
      EXPECT_EQ(objects.object<Coin>(kNames[i]).call<&Coin::toss>(1), calls_[i] + 1) << kNames[i];
  }

  const std::vector<detail::ObjectMethod> methods_ = [] {
    const auto all = detail::methods_of<Coin>(Methods<Coin>{});
    return std::vector<detail::ObjectMethod>(all.begin(), all.end());
  }();
  const Coin initial_{};
  const TempDir folder_{TempDir::kMemory};
  Plan plan_;
  std::unique_ptr<detail::ObjectsRuntime> runtime_;
  std::vector<std::shared_ptr<detail::OpenObject>> objects_;
  std::vector<u64> calls_;
};

// The call of "a" moves "b" out: its copy, or the barrier behind it, or the head that names it.
TEST_P(ObjectsMoves, OneThatDoesNotGetOutStays) {
  for (const auto& [site, after] : {std::pair("overflow copy", 0), std::pair("overflow copy", 1),
                                    std::pair("object head", 0), std::pair("object head", 1)}) {
    open();
    plan_.refuse(site, static_cast<u64>(after));
    expect_failure(Result<int>(try_call(0).failure()), Code::kIo, "refused at");
    EXPECT_TRUE(plan_.has_refused());
    EXPECT_TRUE(is_away(0));
    EXPECT_FALSE(is_away(1));
    EXPECT_EQ(objects_[1]->core().unclear_heads(), 0);
    expect_all();
    for (const char* each : {"store.pd", "overflow.pd"})
      std::filesystem::remove(folder_.path(each));
    calls_.clear();
  }
}

// It has been made room for already. The first two heads are those of "b".
TEST_P(ObjectsMoves, OneThatDoesNotComeHomeStaysAway) {
  for (const auto& [site, after] : {std::pair("object copy", 0), std::pair("object copy", 1),
                                    std::pair("object head", 4), std::pair("object head", 5)}) {
    open();
    plan_.refuse(site, static_cast<u64>(after));
    expect_failure(Result<int>(try_call(0).failure()), Code::kIo, "refused at");
    EXPECT_TRUE(plan_.has_refused());
    EXPECT_TRUE(is_away(0));
    expect_call(0);
    EXPECT_FALSE(is_away(0));
    expect_all();
    for (const char* each : {"store.pd", "overflow.pd"})
      std::filesystem::remove(folder_.path(each));
    calls_.clear();
  }
}

// While "b" moves out another thread calls it. Nothing can move for it to come home then: that call
// fails, and "b" is as it was.
TEST_P(ObjectsMoves, WhoCallsOneThatMovesOutHasClaimedNothing) {
  open();
  std::thread caller;
  std::atomic<pid_t> caller_id{0};
  Status called;
  plan_.before("overflow copy", [&] {
    caller = std::thread([&] {
      caller_id = ::gettid();
      called = try_call(1);
    });
    while (caller_id == 0) std::this_thread::yield();
    await_rounds(caller_id, 10);  // it looks whether it can have "b" home
  });
  // "a" comes home for good: its call, which moves "b" out, is followed by no other move.
  plan_.refuse("overflow copy", 2, ~u64{0} >> 1);
  expect_call(0);
  caller.join();
  expect_failure(Result<int>(called.failure()), Code::kIo, "refused at overflow copy");
  EXPECT_TRUE(is_away(1));
  plan_.refuse("", 0, 0);
  expect_all();
}

TEST_P(ObjectsMoves, WhereWhatFailedCannotMoveThatIsSaid) {
  open();
  plan_.refuse("object entries", 0, 1);
  expect_failure(Result<int>(try_call(1).failure()), Code::kIo, "refused at object entries");
  plan_.refuse("object entries", 0, 1);
  expect_failure(Result<int>(try_call(2).failure()), Code::kIo, "refused at object entries");
  expect_failure(Result<int>(try_call(0).failure()), Code::kNoSpace,
                 "object 'b' has failed, and stays where it is: refused at object entries");
  runtime_->abandon();
  runtime_.reset();
  objects_.clear();
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectsMoves, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
