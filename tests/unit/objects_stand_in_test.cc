// Goal: an object that comes home from an overflow store gets one copy, and until its next
// checkpoint the copy there stands in for the other one: whichever page is damaged meanwhile, in
// the store or in the overflow store, no call that returned is lost, and the space there is nobody
// else's. Method: objects are called by a process that is killed; each page that counts is damaged
// in turn; stores are filled until what stands in must go.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include <perdura/objects.hpp>

#include "media/fault.hpp"
#include "model/object/objects_runtime.hpp"
#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {

/// 32 KiB and a word.
struct Cells {
  static constexpr std::uint64_t kWords = 4096;
  std::uint64_t calls;
  std::uint64_t words[kWords];

  std::uint64_t add(std::uint64_t value) noexcept {
    words[calls % kWords] = value;
    return ++calls;
  }
  std::uint64_t count() const noexcept { return calls; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Cells>
    : perdura::MethodList<perdura::Instant<&perdura::test::Cells::add>> {};

namespace perdura::test {
namespace {

constexpr u64 kLogBytes = 8192;
constexpr u64 kImageBytes = (sizeof(Cells) + kPageBytes - 1) / kPageBytes * kPageBytes;
constexpr u64 kEachBytes = 2 * kImageBytes + kLogBytes;

class ObjectsStandIn : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam() + path(); }
  std::string overflow_path() const { return folder_.path("overflow.pd"); }
  /// Two of three objects have space.
  ObjectsOptions options() const {
    return {.bytes_max = 2 * kEachBytes + 3 * kPageBytes, .overflow = "file:" + overflow_path()};
  }
  static Object<Cells> open(Objects& objects, const char* name) {
    return objects.object<Cells>(name, {.log_bytes = kLogBytes, .checkpoint_calls = 1000});
  }
  static u64 calls_of(Objects& objects, const char* name) {
    return open(objects, name).read<&Cells::count>();
  }
  /// "a" was away and has come home for its second call. The process has died since.
  void leave_one_that_came_home() const {
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = Objects::open(uri(), options());
      std::vector<Object<Cells>> all;
      for (const char* name : {"a", "b", "c"}) {
        all.push_back(open(objects, name));
        all.back().call<&Cells::add>(1u);
      }
      const bool was_away = objects.list().front().in_overflow;
      all.front().call<&Cells::add>(2u);
      ::_exit(was_away && !objects.list().front().in_overflow ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  store::ObjectDescription describe(const char* name) const {
    const store::Description description = value_or_throw(store::describe(uri(), {}));
    for (const store::ObjectDescription& each : *description.regions.at(0).objects)
      if (each.name == name) return each;
    return {};
  }
  void expect_calls(u64 a, u64 b, u64 c) const {
    Objects objects = Objects::open(uri(), options());
    EXPECT_EQ(calls_of(objects, "a"), a);
    EXPECT_EQ(calls_of(objects, "b"), b);
    EXPECT_EQ(calls_of(objects, "c"), c);
    objects.close();
  }

  const TempDir folder_{TempDir::kMemory};
};

/// The same objects as the library has them.
class OpenCells {
 public:
  OpenCells(std::unique_ptr<detail::ObjectsRuntime> runtime,
            std::initializer_list<const char*> names)
      : runtime_(std::move(runtime)) {
    for (const char* name : names) all_.push_back(value_or_throw(try_open(name)));
  }
  Result<std::shared_ptr<detail::OpenObject>> try_open(const std::string& name) {
    return runtime_->object(
        name,
        {typeid(Cells).name(), sizeof(Cells), detail::methods_of<Cells>(Methods<Cells>{}), &kZeros},
        {.log_bytes = kLogBytes});
  }
  detail::ObjectsRuntime& runtime() { return *runtime_; }
  object::ObjectCore& core(size_t index) { return all_[index]->core(); }
  std::uint64_t add(size_t index, std::uint64_t value) {
    std::uint64_t answer = 0;
    value_or_throw(core(index).call(
        all_[index]->call_of(0, 0, Domain::kAll, std::as_bytes(std::span(&value, 1))), &answer));
    return answer;
  }
  void close() {
    all_.clear();
    value_or_throw(runtime_->close());
  }

 private:
  static constexpr Cells kZeros{};

  const std::unique_ptr<detail::ObjectsRuntime> runtime_;
  std::vector<std::shared_ptr<detail::OpenObject>> all_;
};

// What is damaged is found by its content: the places are the library's matter.
std::vector<u64> pages_with(const FileBytes& bytes, const Cells& state) {
  std::vector<u64> found;
  for (u64 at = 0; at + sizeof state <= bytes.size(); at += kPageBytes)
    if (std::memcmp(bytes.data() + at, &state, sizeof state) == 0) found.push_back(at);
  return found;
}

TEST_P(ObjectsStandIn, IsTheOtherCopyUntilTheNextCheckpoint) {
  leave_one_that_came_home();
  Cells state{};
  state.add(1);
  const FileBytes store = read_file(path());
  const FileBytes overflow = read_file(overflow_path());
  const store::ObjectDescription a = describe("a");
  ASSERT_EQ(a.overflow_store, 0u);
  // The object that is away as well has one call, and the same state.
  ASSERT_EQ(pages_with(overflow, state).size(), 2u);
  const std::vector<u64> home = pages_with(store, state);
  for (const u64 place : home) {
    write_file(path(), store);
    write_file(overflow_path(), overflow);
    flip_bit(path(), place + 5000, 3);
    expect_calls(2, 1, 1);
    expect_calls(2, 1, 1);
  }
}

TEST_P(ObjectsStandIn, MayBeDamagedItself) {
  leave_one_that_came_home();
  ASSERT_NE(describe("a").stand_in_place, 0u);
  flip_bit(overflow_path(), describe("a").stand_in_place + 5000, 3);
  expect_calls(2, 1, 1);
  expect_calls(2, 1, 1);
}

TEST_P(ObjectsStandIn, WhereBothAreDamagedThatIsSaid) {
  leave_one_that_came_home();
  const store::ObjectDescription a = describe("a");
  flip_bit(overflow_path(), a.stand_in_place + 5000, 3);
  flip_bit(path(), a.copy_place + 5000, 3);
  Objects objects = Objects::open(uri(), options());
  expect_error([&] { open(objects, "a"); }, Code::kCorrupt, "does not fit its checksum");
  EXPECT_EQ(calls_of(objects, "b"), 1u);
}

// A head that is torn off leads to the same object by the other slot.
TEST_P(ObjectsStandIn, EitherHeadMayBeDamaged) {
  leave_one_that_came_home();
  const FileBytes store = read_file(path());
  const FileBytes overflow = read_file(overflow_path());
  for (const u64 slot : {0, 1}) {
    write_file(path(), store);
    write_file(overflow_path(), overflow);
    flip_bit(path(), describe("a").head_place + slot * format::kObjectHeadBytes + 100, 3);
    expect_calls(2, 1, 1);
    expect_calls(2, 1, 1);
  }
}

// The store is whole without the other one while no object is away; then nothing stands in any
// more.
TEST_P(ObjectsStandIn, IsNotNeededToOpenTheStore) {
  leave_one_that_came_home();
  {
    ObjectsOptions more = options();
    more.bytes_max = 0;
    Objects objects = Objects::open(uri(), more);
    for (const char* name : {"a", "b", "c"}) open(objects, name).call<&Cells::add>(3u);
    objects.close();
  }
  std::filesystem::remove(overflow_path());
  Objects objects = Objects::open(uri());
  EXPECT_EQ(calls_of(objects, "a"), 3u);
  EXPECT_EQ(calls_of(objects, "b"), 2u);
  EXPECT_EQ(calls_of(objects, "c"), 2u);
}

TEST_P(ObjectsStandIn, OneCopyIsWrittenAndThatAnotherTimeTheOther) {
  OpenCells all(value_or_throw(detail::ObjectsRuntime::open(uri(), options())), {"a", "b", "c"});
  object::ObjectCore& core = all.core(0);
  ASSERT_TRUE(core.is_away());
  const u64 before = core.counts().copied_bytes;
  EXPECT_EQ(all.add(0, 7), 1u);
  EXPECT_LE(core.counts().copied_bytes - before, kImageBytes);
  EXPECT_NE(format::stand_in_place(core.head()), 0u);
  value_or_throw(core.checkpoint());
  EXPECT_EQ(format::stand_in_place(core.head()), 0u);
  EXPECT_LE(core.counts().copied_bytes - before, 2 * kImageBytes);
  all.close();
}

// Its space is another one's after the next checkpoint, and not before: the overflow store comes to
// have so many copies and no more, and each object is whole after each kill.
TEST_P(ObjectsStandIn, ItsSpaceIsUsedAgain) {
  u64 calls = 0;
  std::uintmax_t bytes = 0;
  for (int session = 0; session < 3; ++session) {
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = Objects::open(uri(), options());
      std::vector<Object<Cells>> all;
      for (const char* name : {"a", "b", "c"}) all.push_back(open(objects, name));
      for (u64 i = 0; i < 60; ++i) all[i % 3].call<&Cells::add>(i);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    calls += 20;
    expect_calls(calls, calls, calls);
    const auto now = std::filesystem::file_size(overflow_path());
    if (session == 0) bytes = now;
    EXPECT_EQ(now, bytes) << "space in the overflow store is lost";
  }
}

// Where there is no room in the overflow store what stands in goes.
TEST_P(ObjectsStandIn, GivesWayWhereTheOverflowStoreIsFull) {
  media::FaultPlan plan;
  const auto open_overflow = [&]() -> Result<std::unique_ptr<media::Medium>> {
    PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium("file:" + overflow_path(), {}));
    return plan.wrap(std::move(opened.medium));
  };
  leave_one_that_came_home();
  plan.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  OpenCells all(value_or_throw(detail::ObjectsRuntime::open(uri(), options(), {}, open_overflow)),
                {"a", "b", "c"});
  // Large ones that never come back take what is left there, until there is room for three.
  for (int i = 0; all.try_open("filler " + std::to_string(i)); ++i) {
  }
  for (u64 i = 0; i < 60; ++i) all.add(i % 3, i);
  all.close();
  plan.disarm();
  expect_calls(22, 21, 21);
}

// Both new copies of a size that the store has hardly room for: the object itself is none of those
// that can move out for them.
TEST_P(ObjectsStandIn, OneThatIsResizedStaysMeanwhile) {
  OpenCells all(value_or_throw(detail::ObjectsRuntime::open(uri(), options())), {"a", "b"});
  EXPECT_EQ(all.add(0, 1), 1u);
  expect_failure(Result<int>(all.runtime().resize("a", 2 * sizeof(Cells)).failure()),
                 Code::kNoSpace, "bytes left in one piece");
  EXPECT_FALSE(all.core(0).is_away());
  EXPECT_EQ(all.add(0, 1), 2u);
  all.close();
  expect_calls(2, 0, 0);
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectsStandIn, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
