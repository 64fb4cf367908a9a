// Goal: all that a store has comes along to its copies: regions with their names, transactions,
// aliases, containers, types, whatever address it is opened at; what does not is refused, and so is
// a place that has something else. Servers are sources and targets as files are.
// Method: small stores with each of these are backed up, copied and restored, and opened again;
// refusals are compared with their sentences.
#include <gtest/gtest.h>

#include <perdura/perdura.h>
#include <perdura/container.hpp>
#include <perdura/objects.hpp>
#include <perdura/transaction.hpp>

#include "region/volume.hpp"
#include "store/backup.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "store/versions.hpp"
#include "support/chain.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"
#include "support/reader_steps.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using store::back_up;
using store::Copied;
using store::CopyOptions;

Options options(Engine engine = Engine::kRedoLog, const std::string& region = {}) {
  Options options;
  options.region = region;
  options.region_limit_bytes = 8 * kMiB;
  options.tracking = Tracking::kReported;
  options.engine = engine;
  options.log_limit_bytes = 2 * kMiB;
  options.chunk_bytes = 16 * 1024;
  return options;
}

u64 write_steps(const std::string& uri, u64 count, const Options& how) {
  Store store = Store::open(uri, how);
  Steps steps(store);
  if (!steps.is_made()) steps.make();
  for (u64 i = 0; i < count; ++i) {
    steps.take();
    store.checkpoint();
  }
  const u64 step = steps.step();
  store.close();
  return step;
}

std::string problem_at(const std::string& uri, u64 step, const std::string& region = {}) {
  Options to_read;
  to_read.read_only = true;
  to_read.region = region;
  Store store = Store::open(uri, to_read);
  const Steps steps(store);
  if (!steps.is_made()) return "it has no words";
  if (steps.step() != step) return "it is at step " + std::to_string(steps.step());
  return steps.problem();
}

void expect_sound(const std::string& uri) {
  const auto report = value_or_throw(store::check(uri, {}));
  for (const store::Finding& each : report.findings) ADD_FAILURE() << uri << ": " << each.message;
}

class BackupCrossings : public testing::Test {
 protected:
  std::string place(const std::string& name) const { return folder_.path(name); }
  const TempDir folder_{TempDir::kMemory};
};

TEST_F(BackupCrossings, EachRegionComesAlong) {
  write_steps(place("s"), 10, options(Engine::kRedoLog, "first"));
  write_steps(place("s"), 20, options(Engine::kRemap, "second"));
  write_steps(place("s"), 30, options(Engine::kDualCopy, "third"));
  const Copied made = value_or_throw(back_up(place("s"), place("b"), {}));
  EXPECT_EQ(made.regions.size(), 3u);
  value_or_throw(store::restore(place("b"), place("r"), {}));
  value_or_throw(store::copy(place("s"), place("c"), {}));
  for (const char* name : {"b", "r", "c"}) {
    EXPECT_EQ(problem_at(place(name), 10, "first"), "") << name;
    EXPECT_EQ(problem_at(place(name), 20, "second"), "") << name;
    EXPECT_EQ(problem_at(place(name), 30, "third"), "") << name;
    expect_sound(place(name));
  }
  // One that is new in the original is new in the backup.
  write_steps(place("s"), 40, options(Engine::kRedoLog, "fourth"));
  value_or_throw(back_up(place("s"), place("b"), {}));
  EXPECT_EQ(problem_at(place("b"), 40, "fourth"), "");
  CopyOptions one;
  one.region = "second";
  value_or_throw(store::copy(place("s"), place("one"), one));
  EXPECT_EQ(value_or_throw(store::outline(place("one"), {})).regions.size(), 1u);
  one.version = 3;
  expect_failure(store::copy(place("s"), place("x"), one), Code::kNotFound,
                 "does not keep version");
  one.region = "first";
  expect_failure(store::copy(place("s"), place("x"), one), Code::kUnsupported,
                 "keeps its newest version alone");
  one.region = "";
  expect_failure(store::copy(place("s"), place("x"), one), Code::kInvalidArgument, "--region");
}

// A store that goes on writing to a restored one must find none of its new transactions taken for
// those of the original.
TEST_F(BackupCrossings, TransactionsComeAlong) {
  struct Account {
    u64 balance;
  };
  const auto add = [](Store& store, u64 amount) {
    auto& account = store.root<Account>("account");
    atomically(store, [&](Transaction& tx) {
      tx.write(account.balance, tx.read(account.balance) + amount);
    });
  };
  {
    WrappedStore store(place("s"), options());
    // The process dies with them in the log.
    auto* const word = static_cast<u64*>(store.operation().allocate(sizeof(u64)));
    {
      const auto op = store.operation();
      op.touch(word, sizeof *word);
      *word = 0;
      op.set_root("word", word);
    }
    store.checkpoint();
    for (u64 i = 1; i <= 50; ++i)
      store.atomically([&](Transaction& tx) { tx.write(*word, tx.read(*word) + i); });
    store.crash();
  }
  const Copied made = value_or_throw(back_up(place("s"), place("b"), {}));
  EXPECT_TRUE(made.regions[0].is_new);
  value_or_throw(store::restore(place("b"), place("r"), {}));
  for (int session = 0; session < 3; ++session) {
    WrappedStore store(place("r"), options());
    auto* const word = static_cast<u64*>(store.get_root("word"));
    ASSERT_EQ(*word, 50 * 51 / 2 + session * 10u);
    for (u64 i = 0; i < 10; ++i)
      store.atomically([&](Transaction& tx) { tx.write(*word, tx.read(*word) + 1); });
    store.crash();
  }
  {
    Store store = Store::open(place("t"), options());
    for (u64 i = 0; i < 10; ++i) add(store, 1);
    store.backup(place("inside"));
    EXPECT_EQ(store.root<Account>("account").balance, 10u);
    Options to_read;
    to_read.read_only = true;
    Store inside = Store::open(place("inside"), to_read);
    EXPECT_EQ(inside.root<Account>("account").balance, 10u) << "what is acknowledged is there";
  }
}

TEST_F(BackupCrossings, AliasesAndContainersComeAlong) {
  Options aliased = options();
  aliased.tracking = Tracking::kAutomatic;
  aliased.aliases = 4;
  {
    Store store = Store::open(place("s"), aliased);
    auto* const word = static_cast<u64*>(store.allocate(64, 64));
    *word = 17;
    store.set_root("word", word);
    store.checkpoint();
    *word = 18;
    store.checkpoint_root("word");
    store.close();
  }
  value_or_throw(back_up(place("s"), place("b"), {}));
  value_or_throw(store::restore(place("b"), place("r"), {}));
  {
    Store store = Store::open(place("r"), aliased);
    auto* const word = static_cast<u64*>(store.get_root("word"));
    EXPECT_EQ(*word, 18u);
    *word = 19;
    store.checkpoint_root("word");
    store.close();
  }
  Options of_container;
  of_container.region_limit_bytes = 64 * kMiB;
  {
    Container container = Container::open(place("c"), of_container);
    auto& root = container.root<ChainRoot>();
    for (u64 i = 0; i < 200; ++i) push(root, i);
    container.point();
    container.discard();
  }
  value_or_throw(back_up(place("c"), place("cb"), {}));
  value_or_throw(store::restore(place("cb"), place("cr"), {}));
  for (const char* name : {"cb", "cr"}) {
    Container container = Container::open(place(name), of_container);
    auto& root = container.root<ChainRoot>();
    EXPECT_EQ(root.count, 200u) << name;
    EXPECT_EQ(check_chain(root), "") << name;
    pop(root);
    container.point();
    container.discard();
  }
}

TEST_F(BackupCrossings, AStoreIsNotCopiedToItselfByAnotherName) {
  const std::string path = folder_.path("itself.pd");
  {
    Store::open("file:" + path, {}).close();
  }
  const std::string link = folder_.path("link.pd");
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  expect_failure(store::back_up("file:" + path, "file:" + link, {}), Code::kInvalidArgument,
                 "cannot be copied to itself");
  expect_failure(store::copy("file:" + link, "file:" + path, {}), Code::kInvalidArgument,
                 "cannot be copied to itself");
}

// Which may have that name.
TEST_F(BackupCrossings, NoRegionIsMadeBesideOneThatIsStillToCome) {
  const std::string from = "file:" + folder_.path("two.pd");
  for (const char* const region : {"one", "two"}) {
    Options options;
    options.region = region;
    Store store = Store::open(from, options);
    const auto operation = store.operation();
    void* const block = operation.allocate(1 << 20);
    operation.touch(block, 1 << 20);
    std::memset(block, 7, 1 << 20);
  }
  const std::string to = "file:" + folder_.path("half.pd");
  store::CopyOptions options;
  options.progress = [](const char*, u64, u64) { throw std::bad_alloc(); };
  EXPECT_FALSE(store::copy(from, to, options));
  Options second;
  second.region = "two";
  EXPECT_THROW(Store::open(to, second), Error);
  EXPECT_TRUE(store::copy(from, to, {}));
  Store::open(to, second);
}

TEST_F(BackupCrossings, ObjectsAreRefused) {
  {
    Objects objects = Objects::open(place("o"));
  }
  expect_failure(back_up(place("o"), place("b"), {}), Code::kUnsupported, "holds objects");
  write_steps(place("o"), 5, options(Engine::kRedoLog, "heap"));
  CopyOptions heap;
  heap.region = "heap";
  value_or_throw(back_up(place("o"), place("b2"), heap));
  EXPECT_EQ(problem_at(place("b2"), 5, "heap"), "");
}

TEST_F(BackupCrossings, OtherStoresAreNotGoneOnWith) {
  write_steps(place("s"), 5, options());
  write_steps(place("other"), 5, options());
  value_or_throw(back_up(place("s"), place("b"), {}));
  expect_failure(back_up(place("other"), place("b"), {}), Code::kMisuse,
                 "holds backups of the store");
  expect_failure(back_up(place("s"), place("s"), {}), Code::kInvalidArgument, "to itself");
  expect_failure(back_up(place("s"), place("other"), {}), Code::kMisuse, "kept in another way");
  expect_failure(back_up(place("none"), place("b"), {}), Code::kNotFound, "none");
  expect_failure(store::copy(place("s"), place("b"), {}), Code::kMisuse, "already");
  expect_failure(store::restore(place("s"), place("r"), {}), Code::kMisuse, "is of no backup");
  EXPECT_EQ(problem_at(place("b"), 5), "");
  CopyOptions adopts;
  adopts.adopts = true;
  write_steps(place("other"), 5, options());
  value_or_throw(back_up(place("other"), place("b"), adopts));
  EXPECT_EQ(problem_at(place("b"), 10), "");

  // A backup that a program has written to is a store of its own.
  write_steps(place("b"), 1, options(Engine::kRemap));
  expect_failure(back_up(place("other"), place("b"), {}), Code::kMisuse, "of its own");
  EXPECT_EQ(problem_at(place("b"), 11), "");
  {
    Store open = Store::open(place("c"), options());
    expect_failure(back_up(place("other"), place("c"), {}), Code::kLocked, "");
  }
  std::ofstream(place("text")) << std::string(10'000, 'x');
  expect_failure(back_up(place("s"), place("text"), {}), Code::kForeign, "not a Perdura store");
}

TEST_F(BackupCrossings, DamageIsNotCopied) {
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap, Engine::kDualCopy}) {
    const std::string name = "s" + std::to_string(static_cast<int>(engine));
    const u64 step = write_steps(place(name), 5, options(engine));
    value_or_throw(back_up(place(name), place(name + "b"), {}));
    write_steps(place(name), 5, options(engine));
    // A word of the last step, wherever its page or chunk lies: each place that holds it.
    FileBytes bytes = read_file(place(name));
    for (size_t at = 192 * 1024; at + 8 <= bytes.size(); at += 8) {
      u64 word = 0;
      std::memcpy(&word, &bytes[at], sizeof word);
      if (word != 10) continue;
      word = 11;
      std::memcpy(&bytes[at], &word, sizeof word);
    }
    write_file(place(name), bytes);
    const auto damaged = back_up(place(name), place(name + "b"), {});
    expect_failure(damaged, Code::kCorrupt, "does not fit its checksum");
    EXPECT_EQ(problem_at(place(name + "b"), step), "") << name;
    expect_failure(store::copy(place(name), place(name + "c"), {}), Code::kCorrupt, "checksum");
    expect_error([&] { problem_at(place(name + "c"), 10); }, Code::kNotFound, "not completed");
  }
}

// A damaged chunk of the backup is not taken for what was sent before.
TEST_F(BackupCrossings, DamageThereIsSentAnew) {
  write_steps(place("s"), 5, options(Engine::kRedoLog));
  value_or_throw(back_up(place("s"), place("b"), {}));
  FileBytes bytes = read_file(place("b"));
  u64 flipped = 0;
  for (size_t at = 192 * 1024; at + 8 <= bytes.size(); at += 8) {
    u64 word = 0;
    std::memcpy(&word, &bytes[at], sizeof word);
    if (word != 5) continue;
    word = 4;
    std::memcpy(&bytes[at], &word, sizeof word);
    ++flipped;
  }
  ASSERT_NE(flipped, 0u);
  write_file(place("b"), bytes);
  EXPECT_FALSE(value_or_throw(store::check(place("b"), {})).findings.empty());
  EXPECT_TRUE(value_or_throw(back_up(place("s"), place("b"), {})).regions[0].is_new);
  EXPECT_EQ(problem_at(place("b"), 5), "");
}

// What was sent before an attempt was cut short is compared, and not sent again.
TEST_F(BackupCrossings, NoCopyGoesOnWithARestore) {
  write_steps(place("s"), 5, options());
  write_steps(place("other"), 3, options());
  value_or_throw(back_up(place("s"), place("b"), {}));
  const auto uuid_of = [&](const std::string& name) {
    const auto outline = value_or_throw(store::outline(place(name), {}));
    return std::string(reinterpret_cast<const char*>(outline.superblock.uuid), 16);
  };
  CopyOptions cut;
  cut.progress_bytes = 64 * kKiB;
  cut.progress = [](const char*, u64 done, u64 total) {
    if (done >= total / 2) throw Error(Code::kIo, "cut short");
  };
  ASSERT_FALSE(store::restore(place("b"), place("r"), cut));
  EXPECT_EQ(uuid_of("r"), uuid_of("s"));
  expect_failure(store::copy(place("other"), place("r"), {}), Code::kMisuse,
                 "a restore to '" + place("r") + "' was begun and not completed");
  expect_failure(back_up(place("other"), place("r"), {}), Code::kMisuse,
                 "a restore to '" + place("r") + "' was begun and not completed");
  value_or_throw(store::restore(place("b"), place("r"), {}));
  EXPECT_EQ(problem_at(place("r"), 5), "");
  EXPECT_EQ(uuid_of("r"), uuid_of("s"));
  // Where it is given up, the place is anybody's.
  ASSERT_FALSE(store::restore(place("b"), place("x"), cut));
  value_or_throw(store::remove_region(place("x"), "main", {}));
  value_or_throw(store::copy(place("other"), place("x"), {}));
  EXPECT_EQ(problem_at(place("x"), 3), "");
  EXPECT_NE(uuid_of("x"), uuid_of("s"));
  EXPECT_NE(uuid_of("x"), uuid_of("other"));
  ASSERT_FALSE(store::restore(place("b"), place("y"), cut));
  value_or_throw(store::remove_region(place("y"), "main", {}));
  EXPECT_EQ(uuid_of("y"), uuid_of("s"));
  write_steps(place("y"), 3, options());
  EXPECT_NE(uuid_of("y"), uuid_of("s")) << "a program's own store is no other one";
  for (const bool shared : {false, true}) {
    const std::string objects = shared ? "shared" : "objects";
    ASSERT_FALSE(store::restore(place("b"), place(objects), cut));
    value_or_throw(store::remove_region(place(objects), "main", {}));
    EXPECT_EQ(uuid_of(objects), uuid_of("s"));
    Objects::open(place(objects), {.shared = shared});
    EXPECT_NE(uuid_of(objects), uuid_of("s")) << objects;
    const std::string once = uuid_of(objects);
    Objects::open(place(objects), {.shared = shared});
    EXPECT_EQ(uuid_of(objects), once) << objects;
  }
  ASSERT_FALSE(store::restore(place("b"), place("backup"), cut));
  value_or_throw(store::remove_region(place("backup"), "main", {}));
  value_or_throw(back_up(place("other"), place("backup"), {}));
  EXPECT_NE(uuid_of("backup"), uuid_of("s"));
}

TEST_F(BackupCrossings, WhatIsRefusedLeavesAStoreClosedInOrder) {
  write_steps(place("s"), 5, options());
  write_steps(place("other"), 3, options());
  value_or_throw(back_up(place("other"), place("b"), {}));
  const auto is_closed = [&](const char* name) {
    return value_or_throw(store::outline(place(name), {})).superblock.clean == 1;
  };
  ASSERT_TRUE(is_closed("other") && is_closed("b"));
  EXPECT_FALSE(store::copy(place("s"), place("other"), {}));
  EXPECT_FALSE(back_up(place("s"), place("other"), {}));
  EXPECT_FALSE(back_up(place("s"), place("b"), {}));
  EXPECT_FALSE(store::restore(place("b"), place("s"), {}));
  EXPECT_TRUE(is_closed("other"));
  EXPECT_TRUE(is_closed("b"));
  EXPECT_TRUE(is_closed("s"));
  EXPECT_EQ(problem_at(place("other"), 3), "");
}

TEST_F(BackupCrossings, AnAttemptIsGoneOnWith) {
  struct Stop {};
  write_steps(place("s"), 5, options());
  {
    Store store = Store::open(place("s"), options());
    const auto op = store.operation();
    auto* const bytes = static_cast<u64*>(store.allocate(4 * kMiB));
    store.touch(bytes, 4 * kMiB);
    for (u64 i = 0; i < 4 * kMiB / 8; ++i) bytes[i] = i + 1;
    store.set_root("bytes", bytes);
  }
  for (const bool to_home : {false, true}) {
    const std::string there = place(to_home ? "c" : "b");
    CopyOptions cut;
    cut.progress_bytes = kMiB;
    cut.progress = [](const char*, u64 done, u64 total) {
      if (done >= total / 2 && done != total) throw Error(Code::kIo, "cut short");
    };
    const auto call = to_home ? store::copy : back_up;
    ASSERT_FALSE(call(place("s"), there, cut));
    expect_error([&] { problem_at(there, 5); }, Code::kNotFound, "not completed");
    const auto outline = value_or_throw(store::outline(there, {}));
    EXPECT_TRUE(outline.regions[0].is_unfinished);
    expect_failure(store::roll_back(there, "", 1, {}), Code::kNotFound, "not completed");
    const Copied done = value_or_throw(call(place("s"), there, {}));
    EXPECT_LT(done.regions[0].changed_bytes, 4 * kMiB);
    EXPECT_GT(done.regions[0].changed_bytes, kMiB);
    EXPECT_EQ(problem_at(there, 5), "");
    expect_sound(there);
  }
  // The same of a version of a backup that has one: that one stays meanwhile.
  {
    Store store = Store::open(place("s"), options());
    const auto op = store.operation();
    auto* const bytes = static_cast<u64*>(store.get_root("bytes"));
    store.touch(bytes, 4 * kMiB);
    for (u64 i = 0; i < 4 * kMiB / 8; ++i) bytes[i] = i + 2;
  }
  CopyOptions cut;
  cut.progress_bytes = kMiB;
  cut.progress = [](const char*, u64 done, u64 total) {
    if (done >= total / 2 && done != total) throw Error(Code::kIo, "cut short");
  };
  ASSERT_FALSE(back_up(place("s"), place("b"), cut));
  EXPECT_EQ(problem_at(place("b"), 5), "");
  expect_sound(place("b"));
  const Copied done = value_or_throw(back_up(place("s"), place("b"), {}));
  EXPECT_LT(done.regions[0].changed_bytes, 4 * kMiB);
  EXPECT_EQ(done.regions[0].version, 2u);
  expect_sound(place("b"));
  // A region that was not finished can be removed.
  ASSERT_FALSE(store::copy(place("s"), place("d"), cut));
  value_or_throw(store::remove_region(place("d"), "main", {}));
  value_or_throw(store::copy(place("s"), place("d"), {}));
  expect_sound(place("d"));
}

TEST_F(BackupCrossings, EnginesCanBeChosen) {
  write_steps(place("s"), 7, options());
  value_or_throw(back_up(place("s"), place("b"), {}));
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap, Engine::kDualCopy}) {
    const std::string name = std::to_string(static_cast<int>(engine));
    CopyOptions chosen;
    chosen.engine = engine;
    value_or_throw(store::restore(place("b"), place("r" + name), chosen));
    value_or_throw(store::copy(place("s"), place("c" + name), chosen));
    for (const std::string& each : {"r" + name, "c" + name}) {
      expect_sound(place(each));
      EXPECT_EQ(write_steps(place(each), 3, options(engine)), 10u);
      EXPECT_EQ(problem_at(place(each), 10), "");
    }
  }
}

TEST_F(BackupCrossings, ServersAreReadAndWrittenAsFilesAre) {
  const MemcachedProcess server;
  write_steps(place("s"), 7, options());
  value_or_throw(back_up(place("s"), server.uri("b"), {}));
  write_steps(place("s"), 3, options());
  const Copied second = value_or_throw(back_up(place("s"), server.uri("b"), {}));
  EXPECT_LT(second.regions[0].sent_bytes, second.regions[0].region_bytes);
  EXPECT_EQ(problem_at(server.uri("b"), 10), "");
  value_or_throw(store::restore(server.uri("b"), place("r"), {}));
  EXPECT_EQ(problem_at(place("r"), 10), "");
  expect_failure(store::copy(place("s"), server.uri("c"), {}), Code::kUnsupported,
                 "--engine chunks");
  CopyOptions chunks;
  chunks.engine = Engine::kRemap;
  value_or_throw(store::copy(place("s"), server.uri("d"), chunks));
  value_or_throw(store::copy(server.uri("d"), server.uri("e"), {}));
  EXPECT_EQ(problem_at(server.uri("e"), 10), "");
  // A store that only its own process can read is backed up from inside.
  Store store = Store::open(server.uri("d"), options(Engine::kRemap));
  Steps steps(store);
  steps.take();
  const u64 version = store.checkpoint();
  EXPECT_EQ(store.backup(place("inside")), version);
  EXPECT_EQ(in_child([&] { return problem_at(place("inside"), 11); }), "");
}

TEST_F(BackupCrossings, ProgramsMakeThemFromInside) {
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap, Engine::kDualCopy}) {
    const std::string name = std::to_string(static_cast<int>(engine));
    Store store = Store::open(place("s" + name), options(engine));
    expect_error(
        [&] {
          const auto op = store.operation();
          store.backup(place("b" + name));
        },
        Code::kMisuse, "inside an operation");
    Steps steps(store);
    steps.make();
    for (int round = 1; round <= 3; ++round) {
      steps.take();
      const u64 version = store.checkpoint();
      EXPECT_EQ(store.backup(place("b" + name)), version);
      EXPECT_EQ(in_child([&] { return problem_at(place("b" + name), static_cast<u64>(round)); }),
                "");
    }
    expect_error([&] { store.backup(place("s" + name)); }, Code::kInvalidArgument, "to itself");
    store.close();
    // And the command goes on with them.
    EXPECT_FALSE(
        value_or_throw(back_up(place("s" + name), place("b" + name), {})).regions[0].changed_bytes);
    Options to_read;
    to_read.read_only = true;
    Store reader = Store::open(place("s" + name), to_read);
    expect_error([&] { reader.backup(place("x")); }, Code::kUnsupported, "open to be read");
  }
  perdura_options in_c{};
  in_c.region_limit_bytes = kMiB;
  perdura_store* store = nullptr;
  ASSERT_EQ(perdura_open(place("c").c_str(), &in_c, &store), PERDURA_OK);
  uint64_t version = 0;
  EXPECT_EQ(perdura_backup(store, place("cb").c_str(), 0, &version), PERDURA_OK);
  EXPECT_EQ(version, perdura_durable_version(store));
  EXPECT_EQ(perdura_backup(store, nullptr, 0, nullptr), -PERDURA_INVALID_ARGUMENT);
  EXPECT_EQ(perdura_drained_version(store), 0u);
  EXPECT_EQ(perdura_close(store), PERDURA_OK);
}

// Typed blocks move where their place is taken, and backups go on with the region where it is.
TEST_F(BackupCrossings, AStoreThatMovedIsCopiedWhereItIs) {
  Options typed;
  typed.region_limit_bytes = kMiB;
  typed.tracking = Tracking::kReported;
  {
    Store store = Store::open(place("s"), typed);
    auto& root = store.root<ChainRoot>("chain");
    store.touch(&root, sizeof root);
    root.count = 3;
    store.checkpoint();
    store.backup(place("b"));
    Store backup = Store::open(place("b"), {.tracking = Tracking::kReported});
    EXPECT_NE(&backup.root<ChainRoot>("chain"), &root);
    EXPECT_EQ(backup.root<ChainRoot>("chain").count, 3u);
    backup.close();
  }
  CopyOptions adopts;
  adopts.adopts = true;
  value_or_throw(back_up(place("s"), place("b"), adopts));
  Store backup = Store::open(place("b"), {.tracking = Tracking::kReported});
  EXPECT_EQ(backup.root<ChainRoot>("chain").count, 3u);
}

}  // namespace
}  // namespace perdura::test
