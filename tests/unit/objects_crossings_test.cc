// Goal: an object whose copy in the overflow store stands in for one at home may be resized, moved
// to places that are less worn, or removed: the copy there is free then, once, whether a checkpoint
// came before that or not, and also where it gives way while space is made for that. Its heads at
// home say which process and which build have it; away they say whose entries its log there has.
// Method: objects so large that each copy which is not given back makes the overflow store grow; an
// overflow store that cannot grow; processes that are killed; builds that are forged.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "base/checksum.hpp"
#include "media/fault.hpp"
#include "model/object/objects_runtime.hpp"
#include "object/object_build.hpp"
#include "object/object_owner.hpp"
#include "object/place_wear.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {

/// What is behind it is never looked at.
struct Heavy {
  static constexpr bool kIsFlexible = true;
  std::uint64_t calls;
  std::uint64_t next() noexcept { return ++calls; }
  std::uint64_t count() const noexcept { return calls; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Heavy>
    : perdura::MethodList<perdura::Instant<&perdura::test::Heavy::next>> {};

namespace perdura::test {
namespace {

using format::ObjectBuild;
using format::ObjectHead;
using format::ObjectSlot;

// A store grows by four MiB at least, which have room for one copy.
constexpr u64 kStateBytes = 3 * kMiB;
constexpr u64 kStoreBytes = 16 * kMiB;  // of two objects and not three
constexpr u64 kForgedBuild = 77;

class StandInCrossings : public testing::TestWithParam<const char*> {
 protected:
  ~StandInCrossings() override {
    objects_.clear();
    if (runtime_) (void)runtime_->close();
  }

  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam() + path(); }
  std::string overflow_path() const { return folder_.path("overflow.pd"); }
  ObjectsOptions options() const {
    return {.bytes_max = kStoreBytes, .overflow = "file:" + overflow_path()};
  }
  static ObjectOptions of_object(u64 bytes = kStateBytes) {
    return {.log_bytes = 8192, .checkpoint_calls = 1000, .bytes = bytes};
  }

  void open(u64 wear_moves = 0) {
    ObjectsOptions how = options();
    how.wear_moves = wear_moves;
    runtime_ = value_or_throw(detail::ObjectsRuntime::open(
        uri(), how, {}, [this]() -> Result<std::unique_ptr<media::Medium>> {
          PERDURA_ASSIGN(media::OpenedMedium opened,
                         media::open_medium("file:" + overflow_path(), {}));
          return plan_.wrap(std::move(opened.medium));
        }));
  }
  Status try_add(const std::string& name, u64 bytes = kStateBytes) {
    const auto methods = detail::methods_of<Heavy>(Methods<Heavy>{});
    PERDURA_ASSIGN(
        objects_[name],
        runtime_->object(name, {typeid(Heavy).name(), sizeof(Heavy), methods, &initial_, true},
                         of_object(bytes)));
    return {};
  }
  void call(const std::string& name) {
    detail::OpenObject& object = *objects_.at(name);
    u64 answer = 0;
    value_or_throw(object.core().call(object.call_of(0, 0, Domain::kAll, {}), &answer));
    EXPECT_EQ(answer, ++calls_[name]) << name;
  }
  void add(const std::string& name, u64 bytes = kStateBytes) {
    value_or_throw(try_add(name, bytes));
    call(name);
  }
  void remove(const std::string& name) {
    objects_.erase(name);
    calls_.erase(name);
    value_or_throw(runtime_->remove(name));
  }
  object::ObjectCore& core(const std::string& name) { return objects_.at(name)->core(); }
  u64 stand_in_of(const std::string& name) {
    return format::stand_in_place(core(name).newest().head);
  }
  u64 moved_out() const { return value_or_throw(runtime_->moves()).out; }
  u64 overflow_bytes() const { return std::filesystem::file_size(overflow_path()); }

  /// "a" has moved out for "c", and has come home to where "b" was, which has worn that.
  void let_one_come_home() {
    add("a");
    add("b");
    for (int i = 0; i < 10; ++i) value_or_throw(core("b").checkpoint());
    add("c");
    ASSERT_TRUE(core("a").is_away());
    remove("b");
    call("a");
    ASSERT_FALSE(core("a").is_away());
    ASSERT_NE(stand_in_of("a"), 0u);
    overflow_bytes_ = overflow_bytes();
  }
  /// Nothing has room there any more.
  void expect_full_there() {
    const u64 before = moved_out();
    for (int i = 0; i < 8; ++i) {
      const std::string name = "filler " + std::to_string(i);
      if (!try_add(name)) break;
      call(name);
    }
    EXPECT_EQ(moved_out(), before) << "one has gone to where another one is";
  }
  /// Another copy fits there in place of that one.
  void expect_free_there() {
    const u64 before = moved_out();
    for (int i = 0; moved_out() == before; ++i) {
      ASSERT_LT(i, 8);
      add("filler " + std::to_string(i));
    }
    EXPECT_EQ(moved_out(), before + 1);
    EXPECT_EQ(overflow_bytes(), overflow_bytes_) << "space in the overflow store is lost";
  }
  void expect_whole() {
    plan_.disarm();
    objects_.clear();
    value_or_throw(runtime_->close());
    runtime_.reset();
    const store::CheckReport report =
        value_or_throw(store::check(uri(), {}, store::no_progress, "file:" + overflow_path()));
    EXPECT_FALSE(report.damaged()) << report.findings.front().message;
    Objects objects = Objects::open(uri(), options());
    for (const auto& [name, calls] : calls_)
      EXPECT_EQ(objects.object<Heavy>(name).read<&Heavy::count>(), calls) << name;
    objects.close();
  }
  void start_again() {
    std::filesystem::remove(path());
    std::filesystem::remove(overflow_path());
    calls_.clear();
  }

  /// What a process that was killed has left of an object: both slots, the newest head first.
  std::vector<ObjectSlot> slots_of(const std::string& name) const {
    auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    const auto volume = value_or_throw(store::open_volume_to_read(std::move(opened.medium)));
    object::ObjectTable table(*volume, volume->regions().at(0).region);
    value_or_throw(table.read());
    place_ = table.find(name)->place;
    const FileBytes bytes = read_file(path());
    std::vector<ObjectSlot> slots(2);
    for (u64 i = 0; i < 2; ++i)
      std::memcpy(&slots[i], bytes.data() + place_ + i * format::kObjectHeadBytes, sizeof slots[i]);
    if (slots[0].head.sequence < slots[1].head.sequence) std::swap(slots[0], slots[1]);
    return slots;
  }
  /// As another build of the program would have written both heads.
  void forge_build(const std::string& name) const {
    FileBytes bytes;
    for (const ObjectSlot& slot : slots_of(name)) {
      ObjectBuild build = object::build_named(kForgedBuild, "0123 of another program");
      build.sequence = slot.head.sequence;
      build.checksum = checksum(&build.sequence, sizeof build - sizeof build.checksum);
      if (bytes.empty()) bytes = read_file(path());
      std::memcpy(bytes.data() + place_ + slot.head.sequence % 2 * format::kObjectHeadBytes +
                      format::kObjectBuildOffset,
                  &build, sizeof build);
    }
    write_file(path(), bytes);
  }
  /// A process that does this with the objects, and is killed.
  template <class Body>
  pid_t run_and_kill(Body&& body) const {
    Child child([&]() -> std::string {
      Objects objects = Objects::open(uri(), options());
      body(objects);
      ::kill(::getpid(), SIGKILL);
      return "it lives";
    });
    const pid_t pid = child.pid();
    EXPECT_EQ(child.wait(), "");
    return pid;
  }
  /// "a", whose three calls its copy lacks; nobody had it open when it moved.
  void leave_one_there_with_its_log() const {
    run_and_kill([](Objects& objects) {
      auto a = objects.object<Heavy>("a", of_object());
      for (int i = 0; i < 3; ++i) a.call<&Heavy::next>();
    });
    run_and_kill([](Objects& objects) {
      auto b = objects.object<Heavy>("b", of_object());
      auto c = objects.object<Heavy>("c", of_object());
    });
  }

  const Heavy initial_{};
  const TempDir folder_{TempDir::kMemory};
  media::FaultPlan plan_;
  std::unique_ptr<detail::ObjectsRuntime> runtime_;
  std::map<std::string, std::shared_ptr<detail::OpenObject>> objects_;
  std::map<std::string, u64> calls_;
  u64 overflow_bytes_ = 0;
  mutable u64 place_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Media, StandInCrossings, testing::Values("emu:", "file:"), name_of_scheme);

// Also where a checkpoint has made the copy there needless before, and nobody has noted that yet.
TEST_P(StandInCrossings, OneThatIsResizedGivesItsCopyThereBack) {
  for (const bool has_checkpoint : {false, true}) {
    open();
    let_one_come_home();
    remove("c");
    if (has_checkpoint) value_or_throw(core("a").checkpoint());
    value_or_throw(runtime_->resize("a", kStateBytes - sizeof(u64)));
    EXPECT_EQ(stand_in_of("a"), 0u);
    EXPECT_EQ(value_or_throw(core("a").bytes()), kStateBytes - sizeof(u64));
    call("a");
    expect_free_there();
    expect_whole();
    start_again();
  }
}

TEST_P(StandInCrossings, OneThatMovesForWearGivesItsCopyThereBack) {
  for (const bool has_checkpoint : {false, true}) {
    open(3);
    let_one_come_home();
    remove("c");
    if (has_checkpoint) value_or_throw(core("a").checkpoint());
    const u64 before = object::most_writes(core("a").newest().head, core("a").newest().wear);
    EXPECT_GE(before, 5u) << "it is not said how often its places were written";
    core("a").say_when_worn(0);
    runtime_->level(*objects_.at("a"));
    EXPECT_EQ(value_or_throw(runtime_->moves()).worn, 1u);
    EXPECT_LT(object::most_writes(core("a").newest().head, core("a").newest().wear), before);
    EXPECT_EQ(stand_in_of("a"), 0u);
    call("a");
    expect_free_there();
    expect_whole();
    start_again();
  }
}

TEST_P(StandInCrossings, OneThatIsRemovedGivesItsCopyThereBack) {
  for (const bool has_checkpoint : {false, true}) {
    open();
    let_one_come_home();
    remove("c");
    if (has_checkpoint) value_or_throw(core("a").checkpoint());
    remove("a");
    expect_free_there();
    expect_whole();
    start_again();
  }
}

// "c" can move out for the new copies only to where the copy of "a" was, which has it no more then,
// and does not give it back another time.
TEST_P(StandInCrossings, ACopyThatGivesWayForItsOwnObjectIsGivenBackOnce) {
  open();
  let_one_come_home();
  plan_.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  value_or_throw(runtime_->resize("a", kStateBytes - sizeof(u64)));
  EXPECT_TRUE(core("c").is_away());
  EXPECT_EQ(stand_in_of("a"), 0u);
  expect_full_there();
  expect_whole();
}

// It goes to a place that overlaps the one that it had, of which nothing is free then.
TEST_P(StandInCrossings, ACopyThatGivesWayForOneThatMovesOutIsGivenBackOnce) {
  open();
  add("a", kMiB);
  add("m");
  add("n");
  add("y");
  ASSERT_TRUE(core("a").is_away());
  ASSERT_TRUE(core("m").is_away());
  ASSERT_FALSE(core("n").is_away());
  remove("a");
  remove("y");
  call("m");
  ASSERT_NE(stand_in_of("m"), 0u);
  const u64 before = stand_in_of("m");
  call("n");  // so that it was called no earlier than that
  plan_.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  add("y");
  ASSERT_TRUE(core("m").is_away());
  EXPECT_LT(core("m").newest().head.copy_place[0], before);
  expect_full_there();
  expect_whole();
}

// Both slots, which name the one copy.
TEST_P(StandInCrossings, HeadsAtHomeSayWhoHasItAndHowOftenItsPlacesWereWritten) {
  const pid_t pid = run_and_kill([](Objects& objects) {
    std::vector<Object<Heavy>> all;
    for (const char* name : {"a", "b", "c", "a"}) {
      all.push_back(objects.object<Heavy>(name, of_object()));
      all.back().call<&Heavy::next>();
    }
  });
  const std::vector<ObjectSlot> slots = slots_of("a");
  EXPECT_EQ(slots[0].head.sequence, slots[1].head.sequence + 1);
  for (const ObjectSlot& slot : slots) {
    EXPECT_FALSE(is_in_overflow(slot.head));
    EXPECT_NE(format::stand_in_place(slot.head), 0u);
    EXPECT_EQ(object::owner_found(slot.head, slot.owner).pid, static_cast<u64>(pid));
    EXPECT_GE(object::wear_found(slot.head, slot.wear).copy_writes[0], 1u);
    EXPECT_EQ(slot.build.sequence, slot.head.sequence);
    EXPECT_TRUE(object::is_known(slot.build));
  }
  EXPECT_EQ(slots[0].build.sum, slots[1].build.sum);
  Objects objects = Objects::open(uri(), options());
  ObjectOptions same = of_object();
  same.same_build = true;
  EXPECT_EQ(objects.object<Heavy>("a", same).read<&Heavy::count>(), 2u);
}

// As long as it is away its log there has entries of the build that wrote them, whoever opens it.
TEST_P(StandInCrossings, HeadsSayTheBuildOfTheEntriesThereUntilItComesHome) {
  run_and_kill([](Objects& objects) {
    auto a = objects.object<Heavy>("a", of_object());
    auto b = objects.object<Heavy>("b", of_object());
    for (int i = 0; i < 3; ++i) a.call<&Heavy::next>();
  });
  forge_build("a");
  const auto expect_away_of_another_build = [&] {
    for (const ObjectSlot& slot : slots_of("a")) {
      EXPECT_TRUE(is_in_overflow(slot.head));
      EXPECT_NE(slot.head.log_place, 0u);
      EXPECT_EQ(slot.build.sum, kForgedBuild);
      EXPECT_EQ(slot.build.sequence, slot.head.sequence);
    }
  };
  run_and_kill([](Objects& objects) {  // nobody has "a" open when it moves out
    auto b = objects.object<Heavy>("b", of_object());
    auto c = objects.object<Heavy>("c", of_object());
  });
  expect_away_of_another_build();
  ObjectOptions same = of_object();
  same.same_build = true;
  {
    Objects objects = Objects::open(uri(), options());
    expect_error([&] { objects.object<Heavy>("a", same); }, Code::kIncompatible,
                 "has 3 entries of build 0123 of another program");
  }
  run_and_kill([](Objects& objects) {
    if (objects.object<Heavy>("a", of_object()).read<&Heavy::count>() != 3) ::_exit(1);
  });
  expect_away_of_another_build();
  run_and_kill([](Objects& objects) {
    if (objects.object<Heavy>("a", of_object()).call<&Heavy::next>() != 4) ::_exit(1);
  });
  for (const ObjectSlot& slot : slots_of("a")) {
    EXPECT_FALSE(is_in_overflow(slot.head));
    EXPECT_EQ(format::stand_in_place(slot.head), 0u) << "what is there lacks what its log had";
    EXPECT_NE(slot.build.sum, kForgedBuild);
    EXPECT_TRUE(object::is_known(slot.build));
  }
  Objects objects = Objects::open(uri(), options());
  EXPECT_EQ(objects.object<Heavy>("a", same).read<&Heavy::count>(), 4u);
}

// A log that grows may have lost what a crash cut short; one that moved out has all of its entries.
TEST_P(StandInCrossings, ALogThatMovedOutEndsWhereItsHeadSays) {
  leave_one_there_with_its_log();
  const ObjectHead head = slots_of("a").front().head;
  ASSERT_TRUE(is_in_overflow(head) && head.log_place != 0);
  EXPECT_EQ(format::overflow_log_end(head), head.checkpoint + 3);
  const FileBytes whole = read_file(overflow_path());
  for (u64 entry = 0; entry < 3; ++entry) {
    FileBytes bytes = whole;
    bytes.at(head.log_place + (head.checkpoint + entry) % head.log_lines * kLineBytes + 9) ^=
        std::byte{1};
    write_file(overflow_path(), bytes);
    const store::CheckReport report =
        value_or_throw(store::check(uri(), {}, store::no_progress, "file:" + overflow_path()));
    ASSERT_TRUE(report.damaged()) << "entry " << entry;
    EXPECT_NE(report.findings.front().message.find("object 'a'"), std::string::npos)
        << report.findings.front().message;
    Objects objects = Objects::open(uri(), options());
    expect_error([&] { objects.object<Heavy>("a", of_object()); }, Code::kCorrupt,
                 "the log of an object of");
  }
  write_file(overflow_path(), whole);
  Objects objects = Objects::open(uri(), options());
  EXPECT_EQ(objects.object<Heavy>("a", of_object()).read<&Heavy::count>(), 3u);
}

// Nobody knows then where the log ends, and it is recovered as one that a crash may have cut short.
TEST_P(StandInCrossings, ALogThatAnEarlierLibraryMovedOutIsRecovered) {
  leave_one_there_with_its_log();
  for (const ObjectSlot& slot : slots_of("a")) {
    FileBytes bytes = read_file(path());
    ObjectHead head = slot.head;
    head.archive_sum = head.identity;
    head.checksum = object::head_checksum(head);
    std::memcpy(bytes.data() + place_ + head.sequence % 2 * format::kObjectHeadBytes, &head,
                sizeof head);
    write_file(path(), bytes);
  }
  EXPECT_EQ(format::overflow_log_end(slots_of("a").front().head), 0u);
  run_and_kill([](Objects& objects) {
    auto a = objects.object<Heavy>("a", of_object());
    if (a.read<&Heavy::count>() != 3 || a.call<&Heavy::next>() != 4) ::_exit(1);
  });
  EXPECT_FALSE(is_in_overflow(slots_of("a").front().head));
  Objects objects = Objects::open(uri(), options());
  EXPECT_EQ(objects.object<Heavy>("a", of_object()).read<&Heavy::count>(), 4u);
}

}  // namespace
}  // namespace perdura::test
