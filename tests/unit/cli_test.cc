// Goal: `perdura info`, `check` and `versions` say what is in a store, find every kind of damage
// with its place, and change nothing; `perdura rollback` goes back to an older version.
// Method: stores are made through the library, closed in order or left behind by a process that
// dies; bytes of the file are flipped where the format says that something lies; the built command
// runs as a process of its own, and its output and exit code are compared.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <perdura/perdura.hpp>

#include "base/checksum.hpp"
#include "base/mapping.hpp"
#include "format/container_format.hpp"
#include "format/format.hpp"
#include "format/heap_format.hpp"
#include "log/space.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "support/chain.hpp"
#include "support/earlier_version.hpp"
#include "support/files.hpp"
#include "support/version_parts.hpp"

namespace {

namespace fs = std::filesystem;
namespace format = perdura::format;
using perdura::u64;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Cli : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = (fs::temp_directory_path() / "perdura-cli-XXXXXX").string();
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    store_ = folder_ / "state.pd";
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Runs the command with `arguments`, and with the store's path after them.
  Outcome run_on(const std::string& arguments, const std::string& store = {}) const {
    const std::string named = store.empty() ? store_.string() : store;
    return run_plain(arguments + " '" + named + "'");
  }
  Outcome run_plain(const std::string& arguments) const {
    const fs::path out = folder_ / "out";
    const fs::path err = folder_ / "err";
    const std::string command = std::string("'") + PERDURA_COMMAND + "' " + arguments + " >'" +
                                out.string() + "' 2>'" + err.string() + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  }

  static perdura::Options options() {
    perdura::Options options;
    options.tracking = perdura::Tracking::kReported;
    options.region_limit_bytes = u64{256} << 20;
    return options;
  }

  static void write_text(perdura::Store& store, char* text, char with, size_t length) {
    const auto operation = store.operation();
    operation.touch(text, length);
    std::memset(text, with, length);
  }

  /// A page and a half of text as the root "text"; `versions` checkpoints after the first one.
  static void fill(perdura::Store& store, int versions) {
    auto* text = static_cast<char*>(store.allocate(kTextBytes));
    store.set_root("text", text);
    for (int i = 0; i < versions; ++i) {
      write_text(store, text, static_cast<char>('a' + i), kTextBytes);
      store.checkpoint();
    }
  }

  void make_closed(int versions = 2) const {
    auto store = perdura::Store::open(store_.string(), options());
    fill(store, versions);
    store.close();
  }

  /// Left behind by a process that died with `versions` + 1 versions in the log.
  void make_killed(int versions = 2) const {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        auto store = perdura::Store::open(store_.string(), options());
        fill(store, versions);
        ::_exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  void flip(u64 offset) const { perdura::test::flip_bit(store_, offset, 4); }

  template <class T>
  T read_at(u64 offset) const {
    T value{};
    std::ifstream file(store_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(reinterpret_cast<char*>(&value), sizeof value);
    EXPECT_TRUE(file.good());
    return value;
  }

  perdura::store::Description describe() const {
    auto description = perdura::store::describe(store_.string(), {});
    EXPECT_TRUE(description) << description.failure().message;
    return *description;
  }

  /// Where the page of the home image with a region offset is on the medium.
  static u64 place_of(const perdura::store::Description& description, u64 region_offset) {
    for (const format::Extent& extent : description.regions.at(0).extents)
      if (region_offset - extent.region_offset < extent.length)
        return extent.medium_offset + (region_offset - extent.region_offset);
    ADD_FAILURE() << "region offset " << region_offset << " is not backed";
    return 0;
  }

  /// The first block of a version in the log.
  u64 block_of_version(u64 version) const {
    const u64 size = fs::file_size(store_);
    for (u64 at = format::kDataBegin; at + 4096 <= size; at += 4096) {
      const auto header = read_at<format::LogBlockHeader>(at);
      if (header.magic == format::kLogBlockMagic && header.version == version &&
          header.checksum == perdura::log::header_checksum(header))
        return at;
    }
    ADD_FAILURE() << "version " << version << " is not in the log";
    return 0;
  }

  static constexpr size_t kTextBytes = 6000;
  fs::path folder_;
  fs::path store_;
};

std::string medium_offset_text(u64 offset) {
  return "(medium offset " + std::to_string(offset) + ")";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

/// The value of a JSON key on a line of its own, as it is printed.
std::string json_value(const std::string& json, const std::string& key) {
  const std::string label = "\"" + key + "\": ";
  const size_t at = json.find(label);
  if (at == std::string::npos) return "(none)";
  const size_t begin = at + label.size();
  std::string value = json.substr(begin, json.find('\n', begin) - begin);
  if (value.ends_with(',')) value.pop_back();
  return value;
}

// --- usage ---------------------------------------------------------------------------------------

TEST_F(Cli, HelpAndVersionSucceed) {
  for (const char* arguments :
       {"--help", "info --help", "check --help", "versions --help", "rollback --help",
        "dump --help", "compact --help", "identity --help", "--version"}) {
    const Outcome ran = run_plain(arguments);
    EXPECT_EQ(ran.exit_code, 0) << arguments;
    expect_contains(ran.out, "tore");
    EXPECT_EQ(ran.err, "");
  }
}

TEST_F(Cli, WrongUsageIsTwo) {
  for (const char* arguments : {"", "info", "check", "repair x", "info a b", "check --color x"})
    EXPECT_EQ(run_plain(arguments).exit_code, 2) << arguments;
}

TEST_F(Cli, AnUnknownCommandIsNamedWithThoseThatThereAre) {
  const Outcome ran = run_plain("repair x");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err,
                  "'repair' is no command; there are info, dump, check, versions, rollback");
}

TEST_F(Cli, HelpSaysWhichCommandsWrite) {
  const std::string all = run_plain("--help").out;
  expect_contains(all, "info, check, dump, stats and versions write nothing");
  EXPECT_EQ(all.find("Nothing is written"), std::string::npos) << all;
  for (const std::string command : {"rollback", "remove", "compact", "identity"})
    EXPECT_EQ(run_plain(command + " --help").out.find("Nothing is written"), std::string::npos);
  for (const std::string command : {"info", "check", "dump", "versions"})
    expect_contains(run_plain(command + " --help").out, "Nothing is written");
}

TEST_F(Cli, WhatIsNoStoreIsTwo) {
  for (const char* command : {"info", "check"}) {
    Outcome ran = run_on(command);
    EXPECT_EQ(ran.exit_code, 2);
    expect_contains(ran.err, "No such file");
    EXPECT_FALSE(fs::exists(store_)) << command << " made a file";

    const fs::path empty = folder_ / "empty";
    std::ofstream(empty).close();
    ran = run_on(command, empty);
    EXPECT_EQ(ran.exit_code, 2);
    expect_contains(ran.err, "holds no store");
    EXPECT_EQ(fs::file_size(empty), 0u);

    const fs::path foreign = folder_ / "foreign";
    std::ofstream(foreign) << std::string(100'000, 'x');
    ran = run_on(command, foreign);
    EXPECT_EQ(ran.exit_code, 2);
    expect_contains(ran.err, "is not a Perdura store");
    EXPECT_EQ(contents(foreign), std::string(100'000, 'x'));

    ran = run_on(command, folder_);
    EXPECT_EQ(ran.exit_code, 2);
    ran = run_on(command, "emu:" + foreign.string() + "?speed=1");
    EXPECT_EQ(ran.exit_code, 2);
    expect_contains(ran.err, "unknown URI parameter");
  }
}

TEST_F(Cli, StoreOpenElsewhereIsTwoAndNamesTheOwner) {
  const auto store = perdura::Store::open(store_.string(), options());
  for (const std::string command : {"rollback", "remove"}) {
    const Outcome ran =
        run_plain(command + " '" + store_.string() + "' " + (command == "rollback" ? "1" : "main"));
    EXPECT_EQ(ran.exit_code, 2);
    expect_contains(ran.err, "is open in process " + std::to_string(::getpid()) + " (");
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(Cli, NewerFormatIsTwo) {
  make_closed();
  auto superblock = read_at<format::Superblock>(0);
  std::fstream file(store_, std::ios::in | std::ios::out | std::ios::binary);
  for (const u64 slot : format::kSuperblockOffset) {
    superblock.format_version = format::kFormatVersion + 1;
    superblock.checksum =
        perdura::checksum(&superblock.format_version,
                          sizeof superblock - sizeof superblock.magic - sizeof superblock.checksum);
    file.seekp(static_cast<std::streamoff>(slot));
    file.write(reinterpret_cast<const char*>(&superblock), sizeof superblock);
  }
  file.close();
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "format version " + std::to_string(format::kFormatVersion + 1));
}

// --- info ----------------------------------------------------------------------------------------

TEST_F(Cli, InfoOfAClosedStore) {
  make_closed();
  const auto superblock = read_at<format::Superblock>(0);
  const Outcome ran = run_on("info --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto value = [&](const char* key) { return json_value(ran.out, key); };
  EXPECT_EQ(value("store"), "\"" + store_.string() + "\"");
  EXPECT_EQ(value("format_version"), "4");
  EXPECT_EQ(value("architecture"), "\"x86_64-le-64\"");
  EXPECT_EQ(value("compatible_features"), "\"0x0\"");
  EXPECT_EQ(value("incompatible_features"), "\"0x0\"");
  EXPECT_EQ(value("clean"), "true");
  EXPECT_EQ(value("session"), "1");
  EXPECT_EQ(value("durable_version"), "3");  // the empty heap, and two of the text
  EXPECT_EQ(value("replayed_version"), "3");
  EXPECT_EQ(value("medium_bytes"), std::to_string(fs::file_size(store_)));
  EXPECT_EQ(value("live_versions"), "0");
  EXPECT_EQ(value("live_bytes"), "0");
  EXPECT_EQ(value("live_segments"), "0");
  EXPECT_EQ(value("limit_bytes"), std::to_string(options().region_limit_bytes));
  EXPECT_EQ(value("capacity_bytes"), std::to_string(u64{1} << 20));
  EXPECT_EQ(value("live_blocks"), "2");  // the text and its root's node
  EXPECT_EQ(value("slabs"), "2");
  EXPECT_EQ(value("large_blocks"), "0");
  EXPECT_EQ(value("name"), "\"main\"");
  expect_contains(ran.out, "\"name\": \"text\"");
  EXPECT_EQ(value("fingerprint"), "\"0x0\"");
  char first_byte[8];
  std::snprintf(first_byte, sizeof first_byte, "\"%02x%02x", superblock.uuid[0],
                superblock.uuid[1]);
  EXPECT_EQ(value("uuid").substr(0, 5), first_byte);
}

TEST_F(Cli, InfoNamesAliases) {
  perdura::Options aliased = options();
  aliased.tracking = perdura::Tracking::kAutomatic;
  aliased.aliases = 2;
  perdura::Store::open(store_.string(), aliased).close();
  EXPECT_EQ(json_value(run_on("info --json").out, "aliases"), "2");
  expect_contains(run_on("info").out, ", 2 aliases;");
}

TEST_F(Cli, InfoOfAStoreThatWasNotClosed) {
  make_killed();
  const Outcome json = run_on("info --json");
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(json_value(json.out, "clean"), "false");
  EXPECT_EQ(json_value(json.out, "durable_version"), "3");
  EXPECT_EQ(json_value(json.out, "replayed_version"), "0");
  EXPECT_EQ(json_value(json.out, "live_versions"), "3");
  EXPECT_EQ(json_value(json.out, "live_segments"), "1");
  EXPECT_EQ(json_value(json.out, "live_blocks"), "2");  // seen through the log
  const Outcome text = run_on("info");
  EXPECT_EQ(text.exit_code, 0);
  expect_contains(text.out, "the next opening recovers 3 versions from the log");
  expect_contains(text.out, "text ");
}

TEST_F(Cli, InfoOfAnEmulatedStore) {
  {
    auto store = perdura::Store::open("emu:" + store_.string(), options());
    fill(store, 1);
    store.close();
  }
  for (const std::string& uri : {"emu:" + store_.string(), store_.string()}) {
    const Outcome ran = run_on("info --json", uri);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(json_value(ran.out, "durable_version"), "2");
    EXPECT_EQ(run_on("check", uri).exit_code, 0);
  }
}

TEST_F(Cli, RootNamesCannotReachTheTerminal) {
  {
    auto store = perdura::Store::open(store_.string(), options());
    store.set_root("\x1b[2Jbell\a\xff", store.allocate(8));
    store.close();
  }
  const Outcome text = run_on("info");
  EXPECT_EQ(text.exit_code, 0);
  expect_contains(text.out, "\\x1b[2Jbell\\x07");
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos);
  const Outcome json = run_on("info --json");
  EXPECT_EQ(json.exit_code, 0) << json.err;
  expect_contains(json.out, "\\u001b[2Jbell\\u0007");
}

TEST_F(Cli, LookingChangesNothing) {
  for (const bool killed : {false, true}) {
    fs::remove(store_);
    if (killed) make_killed();
    else make_closed();
    const std::string before = contents(store_);
    for (const char* command : {"info", "check", "info --json", "check --json"})
      EXPECT_EQ(run_on(command).exit_code, 0) << command;
    EXPECT_EQ(contents(store_), before);
  }
}

TEST_F(Cli, OutputThatCannotBeWrittenIsAnError) {
  make_closed();
  for (const char* command : {"info", "info --json", "check", "versions", "--help", "--version"}) {
    const fs::path err = folder_ / "err";
    const std::string line = std::string("'") + PERDURA_COMMAND + "' " + command +
                             (command[0] == '-' ? "" : " '" + store_.string() + "'") +
                             " >/dev/full 2>'" + err.string() + "'";
    const int status = std::system(line.c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 2) << command;
    expect_contains(contents(err), "cannot write");
  }
}

TEST_F(Cli, InspectionNeedsNoParticularAddress) {
  make_killed();
  const auto before = describe();
  const auto& record = before.regions.at(0).record;
  const auto taken = perdura::Mapping::reserve(reinterpret_cast<void*>(record.address), 4096);
  ASSERT_TRUE(taken);
  EXPECT_EQ(describe().regions.at(0).heap->live_blocks, before.regions.at(0).heap->live_blocks);
  const auto report = perdura::store::check(store_.string(), {});
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->damaged());
}

// --- check ---------------------------------------------------------------------------------------

TEST_F(Cli, CheckOfGoodStores) {
  for (const bool killed : {false, true}) {
    fs::remove(store_);
    if (killed) make_killed();
    else make_closed();
    const Outcome text = run_on("check");
    EXPECT_EQ(text.exit_code, 0) << text.out << text.err;
    expect_contains(text.out, "is good: version 3 is whole");
    EXPECT_EQ(text.err, "");
    const Outcome json = run_on("check --json");
    EXPECT_EQ(json_value(json.out, "damaged"), "false");
    EXPECT_EQ(json_value(json.out, "findings"), "[]");
    EXPECT_EQ(json_value(json.out, "notes"), "[]");
    EXPECT_EQ(json_value(json.out, "log_blocks"), killed ? "3" : "0");
    EXPECT_EQ(json_value(json.out, "pending_pages"), "0");
    EXPECT_NE(json_value(json.out, "home_pages"), "0");
  }
}

TEST_F(Cli, CheckFindsABitInAHomePage) {
  make_closed();
  const auto description = describe();
  const u64 region_offset = description.regions.at(0).roots.at(0).offset / 4096 * 4096;
  const u64 place = place_of(description, region_offset);
  flip(place + 4000);
  const Outcome text = run_on("check");
  EXPECT_EQ(text.exit_code, 1);
  expect_contains(text.out, "page at region offset " + std::to_string(region_offset) + " " +
                                medium_offset_text(place) + " does not fit its checksum");
  const Outcome json = run_on("check --json");
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(json_value(json.out, "damaged"), "true");
  EXPECT_EQ(json_value(json.out, "region_offset"), std::to_string(region_offset));
  EXPECT_EQ(json_value(json.out, "medium_offset"), std::to_string(place));
}

TEST_F(Cli, CheckFindsABitInAPageNeverWritten) {
  make_closed();
  const auto description = describe();
  const format::Extent& last = description.regions.at(0).extents.back();
  const u64 place = last.medium_offset + last.length - 4096;
  flip(place);
  const Outcome text = run_on("check");
  EXPECT_EQ(text.exit_code, 1);
  expect_contains(text.out, medium_offset_text(place));
}

TEST_F(Cli, CheckFindsABitInAPageChecksum) {
  make_closed();
  const format::Extent first = describe().regions.at(0).extents.at(0);
  flip(first.medium_offset + first.length);
  const Outcome text = run_on("check");
  EXPECT_EQ(text.exit_code, 1);
  expect_contains(text.out, "page at region offset 0 ");
  expect_contains(text.out,
                  "its checksum " + medium_offset_text(first.medium_offset + first.length));
}

TEST_F(Cli, PagesThatTheLogCoversMayBeHalfReplayed) {
  make_killed();
  const auto description = describe();
  const u64 region_offset = description.regions.at(0).roots.at(0).offset / 4096 * 4096;
  flip(place_of(description, region_offset) + 4000);
  const Outcome json = run_on("check --json");
  EXPECT_EQ(json.exit_code, 0) << json.out;
  EXPECT_EQ(json_value(json.out, "pending_pages"), "1");
  expect_contains(run_on("check").out, "1 page half replayed");
}

// While the program takes checkpoints.
TEST_F(Cli, LooksBesideAProgramThatWrites) {
  auto store = perdura::Store::open(store_.string(), options());
  fill(store, 3);
  std::atomic<bool> ends = false;
  std::thread program([&] {
    auto* const text = static_cast<char*>(store.get_root("text"));
    for (int i = 0; !ends; ++i) {
      write_text(store, text, static_cast<char>('a' + i % 26), kTextBytes);
      store.checkpoint();
    }
  });
  for (int i = 0; i < 5; ++i) {
    Outcome ran = run_on("info");
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    expect_contains(ran.out, "open in a process that writes to it");
    expect_contains(ran.out, "text");
    ran = run_on("info --json");
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(json_value(ran.out, "being_written"), "true");
    ran = run_on("check --json");
    EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
    EXPECT_EQ(json_value(ran.out, "damaged"), "false");
    expect_contains(ran.out, "\"notes\": []");
    ran = run_on("versions");
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
  }
  ends = true;
  program.join();
  store.close();
  EXPECT_EQ(json_value(run_on("info --json").out, "being_written"), "false");
}

TEST_F(Cli, CheckFindsABitInEitherSuperblock) {
  for (const bool killed : {false, true}) {
    for (const u64 slot : format::kSuperblockOffset) {
      fs::remove(store_);
      if (killed) make_killed();
      else make_closed();
      flip(slot + 200);
      const Outcome ran = run_on("check");
      EXPECT_EQ(ran.exit_code, 1);
      expect_contains(ran.out, "damage: superblock: superblock slot " +
                                   std::to_string(slot / 4096) + " does not fit its checksum " +
                                   medium_offset_text(slot));
    }
  }
}

// NVM tears between words of 8 bytes, so a power failure may leave such a slot behind.
TEST_F(Cli, CheckNotesASuperblockThatNvmMayHaveTorn) {
  make_killed();
  const bool first_older =
      read_at<format::Superblock>(0).sequence < read_at<format::Superblock>(4096).sequence;
  flip(first_older ? 200 : 4296);
  const Outcome ran = run_on("check", "emu:" + store_.string());
  EXPECT_EQ(ran.exit_code, 0) << ran.out;
  expect_contains(ran.out, first_older ? "note: superblock: superblock slot 0"
                                       : "note: superblock: superblock slot 1");
}

// The next opening's superblock goes over the older slot word by word, and each mix of the two may
// be left. Nothing else may.
TEST_F(Cli, CheckNotesASuperblockThatNvmMayHaveTornAtOpening) {
  make_closed();
  const bool first_older =
      read_at<format::Superblock>(0).sequence < read_at<format::Superblock>(4096).sequence;
  const u64 older = first_older ? 0 : 4096;
  const std::string before = contents(store_);
  auto opened = *reinterpret_cast<const format::Superblock*>(before.data() + (older ^ 4096));
  ++opened.sequence;
  ++opened.session;
  opened.clean = 0;
  opened.ended_logs_session = opened.ended_logs = 0;
  opened.checksum = perdura::region::superblock_checksum(opened);
  constexpr size_t kWord = sizeof(u64);
  const auto check_with = [&](const std::string& slot) {
    std::string image = before;
    image.replace(older, slot.size(), slot);
    std::ofstream(store_, std::ios::binary) << image;
    return run_on("check", "emu:" + store_.string());
  };
  const std::string then = before.substr(older, 4096);
  const std::string now(reinterpret_cast<const char*>(&opened), sizeof opened);
  size_t torn = 0;
  for (unsigned mix = 0; mix < 64; ++mix) {
    std::string slot = then;
    // Checksum, sequence, session, clean, ended logs and of which session.
    constexpr size_t kChanged[] = {8, 80, 88, 96, 464, 472};
    for (unsigned i = 0; i < 6; ++i)
      if ((mix >> i & 1) != 0) slot.replace(kChanged[i], kWord, now, kChanged[i], kWord);
    const Outcome ran = check_with(slot);
    EXPECT_EQ(ran.exit_code, 0) << "mix " << mix << ": " << ran.out;
    if (ran.out.find("note: superblock: superblock slot") != std::string::npos) ++torn;
  }
  EXPECT_EQ(torn, 62U);  // all but the old one and the new one
  for (const size_t at : {8, 24, 64, 80, 88, 96, 100, 120, 144, 200, 2000}) {
    std::string slot = then;
    slot[at] = static_cast<char>(slot[at] ^ 0x10);
    const Outcome ran = check_with(slot);
    EXPECT_EQ(ran.exit_code, 1) << "byte " << at << ": " << ran.out;
  }
}

// The second write of an orderly end goes over the slot that says the store is in use.
TEST_F(Cli, CheckNotesASuperblockThatNvmMayHaveTornAtTheEnd) {
  make_closed();
  const std::string closed = contents(store_);
  const bool first_older =
      read_at<format::Superblock>(0).sequence < read_at<format::Superblock>(4096).sequence;
  const u64 newer = first_older ? 4096 : 0;
  auto in_use = *reinterpret_cast<const format::Superblock*>(closed.data() + newer);
  in_use.sequence -= 2;
  in_use.clean = 0;
  in_use.ended_logs_session = in_use.ended_logs = 0;
  in_use.checksum = perdura::region::superblock_checksum(in_use);
  for (const size_t at : {8, 80, 96, 464, 472}) {
    std::string image = closed;
    image.replace(newer + at, sizeof(u64), reinterpret_cast<const char*>(&in_use) + at,
                  sizeof(u64));
    std::ofstream(store_, std::ios::binary) << image;
    const Outcome ran = run_on("check", "emu:" + store_.string());
    EXPECT_EQ(ran.exit_code, 0) << "byte " << at << ": " << ran.out;
    expect_contains(ran.out, "note: superblock: superblock slot");
  }
}

TEST_F(Cli, CheckFindsBothSuperblocksDamaged) {
  make_closed();
  flip(500);
  flip(4596);
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "both superblocks");
  expect_contains(ran.out, "(offsets 0 and 4096)");
  EXPECT_EQ(run_on("info").exit_code, 1);
}

TEST_F(Cli, CheckFindsALostSuperblockWrite) {
  make_closed();
  const std::string before = contents(store_);
  {
    auto store = perdura::Store::open(store_.string(), options());
    store.close();
  }
  // Put an old version of the older slot back, as a disk does that confirmed a write and lost it.
  const bool first_older =
      read_at<format::Superblock>(0).sequence < read_at<format::Superblock>(4096).sequence;
  const u64 older = first_older ? 0 : 4096;
  std::fstream file(store_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(older));
  file.write(before.data() + older, 4096);
  file.close();
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1) << ran.out;
  expect_contains(ran.out, "do not follow each other");
}

TEST_F(Cli, CheckFindsABitInTheDirectory) {
  make_closed();
  const auto superblock = read_at<format::Superblock>(0);
  const u64 place = format::kDirectoryOffset[superblock.directory_slot];
  flip(place + 80);
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "directory slot " + std::to_string(superblock.directory_slot));
  expect_contains(ran.out, medium_offset_text(place));
}

TEST_F(Cli, CheckFindsAHoleInTheLog) {
  make_killed(3);
  const u64 place = block_of_version(2);
  flip(place + sizeof(format::LogBlockHeader));
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "version 2 is not whole");
  expect_contains(ran.out, "version 3 was written after it (offset " +
                               std::to_string(block_of_version(3)) + ")");
  EXPECT_EQ(run_on("info").exit_code, 1);
  EXPECT_EQ(run_on("check --json").exit_code, 1);
}

TEST_F(Cli, CheckFindsABitInALogBlocksHeader) {
  make_killed(3);
  const u64 place = block_of_version(2);
  flip(place + offsetof(format::LogBlockHeader, run_count));
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "a block at offset " + std::to_string(place));
}

class CliOfEarlierVersion : public Cli, public testing::WithParamInterface<perdura::u32> {};

// The first opening of a store of an earlier version writes a directory as well, and the superblock
// that names it. Of that each word may be there or not, in either slot.
TEST_P(CliOfEarlierVersion, CheckNotesASuperblockThatNvmMayHaveTornAtTakingOver) {
  make_closed();
  const std::string uri = "emu:" + store_.string();
  const auto medium = [&] {
    return value_or_throw(perdura::media::open_medium(uri, {.create = false})).medium;
  };
  perdura::test::make_earlier_version(*medium(), GetParam());
  const std::string before = contents(store_);
  value_or_throw(perdura::store::open_volume(medium(), false, 0));
  const std::string after = contents(store_);
  const bool first_older =
      read_at<format::Superblock>(0).sequence < read_at<format::Superblock>(4096).sequence;
  const size_t slots[2] = {first_older ? 0U : 4096U, first_older ? 4096U : 0U};
  constexpr size_t kWord = sizeof(u64);
  size_t torn = 0;
  for (const size_t slot : slots) {
    // When the second one is written, all that the first barrier covered is there.
    std::string image = before;
    if (slot == slots[1]) image = std::string(after).replace(slot, 4096, before, slot, 4096);
    for (size_t word = 0; word < 4096; word += kWord) {
      if (before.compare(slot + word, kWord, after, slot + word, kWord) == 0) continue;
      for (const bool alone : {true, false}) {
        std::string mixed = image;
        if (!alone) mixed.replace(slot, 4096, after, slot, 4096);
        mixed.replace(slot + word, kWord, alone ? after : before, slot + word, kWord);
        std::ofstream(store_, std::ios::binary) << mixed;
        const Outcome ran = run_on("check", uri);
        EXPECT_EQ(ran.exit_code, 0) << slot + word << alone << ": " << ran.out;
        if (ran.out.find("note: superblock: superblock slot") != std::string::npos) ++torn;
      }
    }
  }
  EXPECT_GT(torn, 20U);
}
INSTANTIATE_TEST_SUITE_P(Versions, CliOfEarlierVersion,
                         testing::Range(format::kFormatVersionMin, format::kFormatVersion));

// In the last version damage and a torn checkpoint look the same: the place is named, as a note.
TEST_F(Cli, CheckNotesABlockOfTheLastVersion) {
  make_killed(2);
  const u64 place = block_of_version(3);
  const auto header = read_at<format::LogBlockHeader>(place);
  flip(place + sizeof header + header.data_bytes - 1);
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 0) << ran.out;
  expect_contains(ran.out, "note: log: a block of version 3");
  expect_contains(ran.out, medium_offset_text(place));
  expect_contains(ran.out, "version 2 is whole");
}

TEST_F(Cli, CheckFindsDamagedHeapMetadata) {
  make_closed();
  const auto description = describe();
  // The first slab's magic: its page is damaged, and so is the heap.
  const u64 place = place_of(description, format::kUnitTableOffset);
  const auto entry = read_at<format::UnitEntry>(place);
  ASSERT_EQ(entry.kind, format::UnitKind::kSlab);
  const auto header = read_at<format::HeapHeader>(place_of(description, 0));
  flip(place_of(description, header.data_begin));
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "damage: heap: the heap's metadata is damaged: unit 0:");
  expect_contains(ran.out,
                  "damage: home: the page at region offset " + std::to_string(header.data_begin));
  EXPECT_EQ(run_on("info").exit_code, 1);
}

// Whatever bytes the heap's tables hold, they are a finding and not the end of the tool.
TEST_F(Cli, CheckSurvivesGarbageInTheHeap) {
  make_closed();
  const auto description = describe();
  const std::string before = contents(store_);
  const u64 header = place_of(description, 0);
  const u64 node = place_of(description, read_at<format::HeapHeader>(header).roots);
  const u64 places[] = {header + offsetof(format::HeapHeader, magic),
                        header + offsetof(format::HeapHeader, data_begin),
                        header + offsetof(format::HeapHeader, units_end),
                        header + offsetof(format::HeapHeader, roots),
                        header + offsetof(format::HeapHeader, root_count),
                        place_of(description, format::kUnitTableOffset),
                        place_of(description, format::kUnitTableOffset) + 8,
                        node + offsetof(format::RootNode, next),
                        node + offsetof(format::RootNode, object),
                        node + offsetof(format::RootNode, name_length)};
  for (const u64 place : places) {
    for (const char garbage : {'\xff', '\x40', '\x01'}) {
      std::string damaged = before;
      for (size_t i = 0; i < 8; ++i) damaged[place + i] = garbage;
      std::ofstream(store_, std::ios::binary) << damaged;
      EXPECT_EQ(run_on("check").exit_code, 1) << place << " " << int{garbage};
      const int info = run_on("info").exit_code;
      EXPECT_TRUE(info == 0 || info == 1) << place << " " << int{garbage};
    }
  }
}

TEST_F(Cli, CheckFindsATruncatedStore) {
  make_closed();
  const u64 size = fs::file_size(store_);
  for (const u64 left : {size - 4096, u64{65536}, u64{4096}}) {
    fs::resize_file(store_, left);
    const Outcome ran = run_on("check");
    EXPECT_EQ(ran.exit_code, 1) << left;
    expect_contains(ran.out, "truncated");
  }
}

// --- containers ----------------------------------------------------------------------------------

TEST_F(Cli, ContainersAreDescribedAndChecked) {
  {
    auto container = perdura::Container::open(store_.string());
    for (u64 i = 0; i < 10; ++i) perdura::test::push(container.root<perdura::test::ChainRoot>(), i);
    container.close();
  }
  Outcome ran = run_on("info");
  EXPECT_EQ(ran.exit_code, 0);
  expect_contains(ran.out, "pointers lead out of it in 1 page, to 1 module");
  expect_contains(ran.out, "cli_test");
  ran = run_on("info --json");
  EXPECT_EQ(json_value(ran.out, "marked_pages"), "1");
  EXPECT_EQ(run_on("check").exit_code, 0);
  {
    // As a program that writes where it should not.
    auto store = perdura::Store::open(store_.string(), options());
    auto* const state =
        static_cast<format::ContainerState*>(store.get_root(format::kContainerRoot));
    store.touch(state, sizeof *state);
    state->modules = reinterpret_cast<format::ContainerModule*>(state);
    store.close();
  }
  ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "what the container keeps of pointers is damaged");
}

TEST_F(Cli, ShadowsAreDescribedAndChecked) {
  {
    auto other = perdura::Container::open((folder_ / "other").string());
    auto& root = other.root<perdura::test::ChainRoot>();
    for (u64 i = 0; i < 10; ++i) perdura::test::push(root, i);
    other.point();
    auto container = perdura::Container::open(store_.string());
    container.root<perdura::test::ChainRoot>() = root;
    container.close();
    other.discard();
  }
  Outcome ran = run_on("info");
  expect_contains(ran.out, "11 objects of other containers");  // with the root that a link leads to
  ran = run_on("info --json");
  EXPECT_EQ(json_value(ran.out, "shadows"), "11");
  EXPECT_EQ(run_on("check").exit_code, 0);
  const auto sound = contents(store_);
  using Damage = void (*)(format::ContainerState& state);
  for (const Damage damage : std::initializer_list<Damage>{
           [](auto& state) { state.shadow_count = 10'000; },
           [](auto& state) { state.shadow_count = 0; }, [](auto& state) { ++state.shadows; },
           [](auto& state) { state.shadows[3].bytes = 1 << 20; },
           [](auto& state) { state.shadows[3].bytes = 0; },
           [](auto& state) { state.shadows[3].original = ~u64{0}; },
           [](auto& state) { state.shadows[3].copy = nullptr; },
           [](auto& state) { state.shadows[3].copy = static_cast<char*>(state.root) + 8; }}) {
    std::ofstream(store_, std::ios::binary) << sound;
    {
      auto store = perdura::Store::open(store_.string(), options());
      auto* const state =
          static_cast<format::ContainerState*>(store.get_root(format::kContainerRoot));
      store.touch(state, sizeof *state);
      store.touch(state->shadows, state->shadow_count * sizeof *state->shadows);
      damage(*state);
      store.close();
    }
    ran = run_on("check");
    EXPECT_EQ(ran.exit_code, 1);
    expect_contains(ran.out, "what the container keeps of pointers is damaged");
    EXPECT_THROW(perdura::Container::open(store_.string()), perdura::Error);
  }
}

// --- versions ------------------------------------------------------------------------------------

class CliVersions : public Cli {
 protected:
  /// Version 1 made the heap, 2 to 6 have a text of one letter each; 4 to 6 are kept.
  void make() const {
    auto store = perdura::Store::open(store_.string(), in_chunks());
    fill(store, 5);
    store.close();
  }
  static perdura::Options in_chunks() {
    perdura::Options chosen = options();
    chosen.engine = perdura::Engine::kRemap;
    chosen.versions_kept = 3;
    return chosen;
  }
  char letter(u64 version = 0) const {
    perdura::Options chosen = in_chunks();
    chosen.version = version;
    auto store = perdura::Store::open(store_.string(), chosen);
    return *static_cast<char*>(store.get_root("text"));
  }
};

TEST_F(CliVersions, AreListed) {
  make();
  Outcome ran = run_on("versions");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* line : {"4: ", "5: ", "6: "}) expect_contains(ran.out, line);
  EXPECT_EQ(ran.out.find("3: "), std::string::npos) << ran.out;
  expect_contains(ran.out, "1 changed chunk of 64 KiB");
  ran = run_on("versions --json");
  EXPECT_EQ(json_value(ran.out, "durable_version"), "6");
  EXPECT_EQ(json_value(ran.out, "version"), "4");
  EXPECT_EQ(json_value(ran.out, "origin"), "null");
  EXPECT_EQ(letter(), 'e');
  EXPECT_EQ(letter(5), 'd');
}

TEST_F(CliVersions, AreGoneBackTo) {
  make();
  Outcome ran = run_on("rollback --json", store_.string() + "' '4");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(json_value(ran.out, "version"), "7");
  EXPECT_EQ(letter(), 'c');
  ran = run_on("versions");
  expect_contains(ran.out, "goes back to 4");
  EXPECT_EQ(run_on("check").exit_code, 0);
  // What it went back from is a version like others.
  ran = run_on("rollback", store_.string() + "' '6");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  expect_contains(ran.out, "has the content of version 6");
  EXPECT_EQ(letter(), 'e');
  ran = run_on("rollback", store_.string() + "' '2");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "does not keep version 2");
}

// Not for another number that it could be taken for: the largest one, or an octal one.
TEST_F(CliVersions, AreGoneBackToByNumbersThatTheyHave) {
  make();
  for (const char* version : {"99999999999999999999999", "18446744073709551616", "06x", "0x5",
                              "5.0", "+5", "0", "-1", "five"}) {
    const Outcome ran = run_on("rollback", store_.string() + "' -- '" + version);
    EXPECT_EQ(ran.exit_code, 2) << version;
    expect_contains(ran.err + ran.out, "'" + std::string(version) + "' is no number of a version");
  }
  EXPECT_EQ(letter(), 'e');
  const Outcome ran = run_on("rollback", store_.string() + "' '005");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  expect_contains(ran.out, "has the content of version 5");
}

// The first one has a log, the second one is in chunks.
TEST_F(CliVersions, AreThoseOfARegion) {
  make_closed();
  {
    perdura::Options chosen = in_chunks();
    chosen.region = "second";
    auto store = perdura::Store::open(store_.string(), chosen);
    fill(store, 5);
    store.close();
  }
  const auto letter_of_second = [&] {
    perdura::Options chosen = in_chunks();
    chosen.region = "second";
    auto store = perdura::Store::open(store_.string(), chosen);
    return *static_cast<char*>(store.get_root("text"));
  };
  Outcome ran = run_on("info");
  expect_contains(ran.out, "1 'main' at ");
  expect_contains(ran.out, "2 'second' at ");
  expect_contains(ran.out, "6 durable, 3 of 3 kept");
  ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 0) << ran.out;
  expect_contains(ran.out, "the heap of region 'second' is sound");
  expect_contains(ran.out, "version 3 of region 'main' is whole, version 6 of region 'second'");
  ran = run_on("versions");
  expect_contains(ran.out, "region 'main'\n3: a redo log keeps");
  expect_contains(ran.out, "region 'second'\n4: ");
  ran = run_on("versions --json --region second");
  EXPECT_EQ(json_value(ran.out, "durable_version"), "6");
  EXPECT_EQ(json_value(ran.out, "version"), "4");
  ran = run_on("versions --region third");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "has no region 'third'");

  ran = run_on("rollback", store_.string() + "' '2");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "region 'main' of");
  ran = run_on("rollback --region second", store_.string() + "' '4");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(letter_of_second(), 'c');

  flip(place_of(describe(), format::kUnitTableOffset));
  ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "damage: home of region 'main': the page at region offset");
}

TEST_F(CliVersions, GoWithTheirRegion) {
  make_closed();
  {
    perdura::Options chosen = in_chunks();
    chosen.region = "second";
    perdura::Store::open(store_.string(), chosen).close();
  }
  Outcome ran = run_on("remove", store_.string() + "' 'third");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "it has 'main', 'second'");
  ran = run_on("remove", store_.string() + "' 'second");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  expect_contains(ran.out, "region 'second' is removed");
  EXPECT_EQ(describe().regions.size(), 1u);
  EXPECT_EQ(run_on("check").exit_code, 0);
}

TEST_F(CliVersions, OfADamagedChunkAreNotGoneBackTo) {
  make();
  const auto versions = describe().regions.at(0).versions;
  ASSERT_EQ(versions.size(), 3u);
  // The chunk that holds the text of version 5, found by its letter.
  const std::string bytes = contents(store_);
  const size_t at = bytes.find(std::string(kTextBytes, 'd'));
  ASSERT_NE(at, std::string::npos);
  flip(at + 100);
  Outcome ran = run_on("rollback", store_.string() + "' '5");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.err, "does not fit its checksum");
  EXPECT_EQ(letter(), 'e') << "nothing has changed";
  ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "damage: chunks: version 5: the chunk at region offset");
}

TEST_F(CliVersions, OfALostNewestOneGoBackToTheOneBefore) {
  make();
  const auto records = [&] {
    auto opened = perdura::value_or_throw(perdura::media::open_medium(store_.string(), {}));
    auto volume = perdura::value_or_throw(perdura::region::Volume::open(std::move(opened.medium)));
    EXPECT_EQ(volume->extents(format::ExtentKind::kVersions).size(), 1u);
    return perdura::test::find_parts(*volume).at(6).records;
  }();
  for (u64 copy = 0; copy < 2; ++copy) {
    flip(records[copy] + 300);
    const Outcome ran = run_on("check");
    EXPECT_EQ(ran.exit_code, copy == 0 ? 0 : 1);
    expect_contains(ran.out, copy == 0 ? "copy 1 of the record of version 6"
                                       : "are damaged; the newest one left is 5");
  }
  EXPECT_THROW(letter(), perdura::Error);
  const Outcome ran = run_on("rollback", store_.string() + "' '5");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(letter(), 'd');
}

TEST_F(CliVersions, OfAStoreWithALogAreOne) {
  make_closed();
  Outcome ran = run_on("versions");
  EXPECT_EQ(ran.exit_code, 0);
  expect_contains(ran.out, "keeps the newest version alone");
  ran = run_on("rollback", store_.string() + "' '1");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "has a redo log");
}

TEST_F(CliVersions, InfoKnowsChunks) {
  make();
  const Outcome ran = run_on("info");
  EXPECT_EQ(ran.exit_code, 0);
  expect_contains(ran.out, "6 durable, 3 of 3 kept");
  expect_contains(ran.out, "of 64 KiB;");
}

}  // namespace
