// Goal: opening a region that was closed in order reads nothing of its log, however large that is;
// after anything else it is read. Method: a medium that refuses to read logs.
#include <gtest/gtest.h>

#include <memory>

#include "media/decorator.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/scheme_names.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

constexpr u64 kWords = 1000;

/// Where logs are, and whether they may be read.
struct Logs {
  std::vector<format::Extent> extents;
  u64 refused = 0;

  bool refuses(u64 offset, u64 length) {
    const bool in_log = std::ranges::any_of(extents, [&](const format::Extent& each) {
      return offset < each.medium_offset + each.length && each.medium_offset < offset + length;
    });
    refused += in_log;
    return in_log;
  }
};

class NoLogs final : public media::Decorator {
 public:
  NoLogs(std::unique_ptr<media::Medium> inner, Logs& logs)
      : Decorator(std::move(inner)), logs_(logs) {}
  Status read(u64 offset, media::MutableBytes into) override {
    if (logs_.refuses(offset, into.size())) return Failure{Code::kIo, "the log is not read"};
    return inner().read(offset, into);
  }
  Status load(std::span<const media::ReadRequest> requests) override {
    for (const media::ReadRequest& each : requests)
      if (logs_.refuses(each.offset, each.into.size()))
        return Failure{Code::kIo, "the log is not read"};
    return inner().load(requests);
  }
  Status read_all(std::span<const media::ReadRequest> requests) override { return load(requests); }
  const std::byte* direct(u64 offset, u64 length) override {
    (void)logs_.refuses(offset, length);
    return linear_inner().direct(offset, length);
  }
  const std::byte* view(u64 offset) override {
    (void)logs_.refuses(offset, 1);
    return linear_inner().view(offset);
  }

 private:
  Logs& logs_;
};

class EndedLog : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<WrappedStore> open(const char* region = "") {
    return std::make_unique<WrappedStore>(
        GetParam() + folder_.path("store.pd"), Options{.region = region},
        [this](std::unique_ptr<media::Medium> medium) -> std::unique_ptr<media::Medium> {
          return std::make_unique<NoLogs>(std::move(medium), logs_);
        });
  }
  /// From now on no log is read.
  void refuse_logs() {
    auto opened = value_or_throw(
        media::open_medium(GetParam() + folder_.path("store.pd"), {.read_only = true}));
    const auto volume = value_or_throw(region::Volume::open_to_read(std::move(opened.medium)));
    logs_.extents = volume->extents(format::ExtentKind::kLog);
    ASSERT_FALSE(logs_.extents.empty());
    logs_.refused = 0;
  }
  static void change(WrappedStore& store, u64 value) {
    {
      const auto operation = store.operation();
      auto* words = static_cast<u64*>(store.get_root("words"));
      if (words == nullptr) {
        words = static_cast<u64*>(operation.allocate(kWords * sizeof(u64)));
        operation.set_root("words", words);
      }
      operation.touch(words, kWords * sizeof(u64));
      for (u64 i = 0; i < kWords; ++i) words[i] = value + i;
    }
    store.checkpoint();
  }
  static void expect(WrappedStore& store, u64 value) {
    const auto* const words = static_cast<const u64*>(store.get_root("words"));
    ASSERT_NE(words, nullptr);
    for (u64 i = 0; i < kWords; ++i) ASSERT_EQ(words[i], value + i);
  }

  const TempDir folder_{TempDir::kMemory};
  Logs logs_;
};

TEST_P(EndedLog, OfARegionThatWasClosedIsNotRead) {
  for (u64 session = 0; session < 4; ++session) {
    const auto store = open();
    if (session != 0) expect(*store, session - 1);
    EXPECT_EQ(logs_.refused, 0u) << session;
    logs_.extents.clear();
    change(*store, session);
    store->close();
    refuse_logs();
  }
}

// Whoever is refused has changed nothing: beside somebody who has the region open, and alone.
TEST_P(EndedLog, IsEndedAlsoWhereOthersWereRefused) {
  const auto refuse = [&](const char* region, Code code) {
    Options other{.region = region};
    other.create = false;
    expect_error([&] { Store::open(GetParam() + folder_.path("store.pd"), other); }, code, "");
  };
  for (u64 session = 0; session < 3; ++session) {
    {
      const auto store = open();
      if (session != 0) expect(*store, session - 1);
      EXPECT_EQ(logs_.refused, 0u) << session;
      logs_.extents.clear();
      change(*store, session);
      refuse("", Code::kLocked);
      refuse("another", Code::kNotFound);
      store->close();
    }
    refuse("another", Code::kNotFound);
    refuse_logs();
  }
}

TEST_P(EndedLog, AfterACrashIsRead) {
  {
    const auto store = open();
    change(*store, 1);
    store->close();
  }
  {
    const auto store = open();
    change(*store, 2);
    store->crash();
  }
  refuse_logs();
  EXPECT_TRUE([&] {
    try {
      (void)open();
      return logs_.refused != 0;
    } catch (const Error& error) {
      return error.code() == Code::kIo;
    }
  }());
  logs_.extents.clear();
  const auto store = open();
  expect(*store, 2);
}

// What another region does, or a session that opens this one no more, changes nothing of it.
TEST_P(EndedLog, IsKnownOfEachRegion) {
  for (const char* const region : {"first", "second"}) {
    const auto store = open(region);
    change(*store, 1);
    store->close();
  }
  for (u64 session = 2; session < 5; ++session) {
    const auto store = open("first");
    change(*store, session);
    store->close();
  }
  refuse_logs();
  {
    const auto store = open("second");
    expect(*store, 1);
    EXPECT_EQ(logs_.refused, 0u);
    logs_.extents.clear();
    change(*store, 2);
    store->crash();
  }
  const auto first = open("first");
  expect(*first, 4);
  first->close();
  const auto second = open("second");
  expect(*second, 2);
}

INSTANTIATE_TEST_SUITE_P(Media, EndedLog, testing::Values("file:", "emu:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
