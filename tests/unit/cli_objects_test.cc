// Goal: `perdura info` says what a store's objects are: sizes, copies, log, callers, functions and
// archive; `check` finds damage in any part of them; `remove --object` removes one and nothing
// else. Method: objects are made through the library by a process that closes them, or dies; bytes
// of the file are changed; the built command runs as a process of its own.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <perdura/objects.hpp>

#include "store/inspect.hpp"
#include "support/files.hpp"

namespace perdura::test {

struct Tally {
  std::uint64_t value;
  void add(std::uint64_t by) noexcept { value += by; }
  std::uint64_t next() noexcept { return ++value; }
  std::uint64_t now() const noexcept { return value; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Tally>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Tally::add>,
                          perdura::Instant<&perdura::test::Tally::next>> {};

namespace perdura::test {
namespace {

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

class CliObjects : public testing::Test {
 protected:
  std::string store() const { return folder_.path("objects.pd"); }

  Outcome run(const std::string& arguments) const {
    const std::string out = folder_.path("out");
    const std::string err = folder_.path("err");
    const std::string command =
        std::string("'") + PERDURA_COMMAND + "' " + arguments + " >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    const auto contents = [](const std::string& path) {
      std::ifstream file(path, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  }
  Outcome run_on(const std::string& arguments) const { return run(arguments + " " + store()); }

  /// Of an object without a history 5 calls, of callers 3 and 7 of another one 30 each; what the
  /// last checkpoints lack is in the logs.
  void make() const {
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = Objects::open(store());
      Object<Tally> plain = objects.object<Tally>("plain", {.log_bytes = 8192});
      for (int i = 0; i < 5; ++i) plain.call<&Tally::next>();
      Object<Tally> all = objects.object<Tally>("all", {.log_bytes = 8192,
                                                        .checkpoint_calls = 25,
                                                        .history = ObjectHistory::kAll,
                                                        .callers = 4,
                                                        .archive_bytes = 65536});
      for (const std::uint32_t potid : {3u, 7u}) {
        const Caller caller(objects, potid);
        for (int i = 0; i < 15; ++i) {
          all.defer<&Tally::add>(2u);
          all.call<&Tally::next>();
        }
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  store::ObjectDescription describe(const std::string& name) const {
    const store::Description description = value_or_throw(store::describe(store(), {}));
    for (const store::ObjectDescription& each : *description.regions.at(0).objects)
      if (each.name == name) return each;
    return {};
  }

  const TempDir folder_{TempDir::kMemory};
};

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

TEST_F(CliObjects, InfoSaysWhatTheyAre) {
  make();
  const Outcome ran = run_on("info");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  expect_contains(ran.out, "objects      2\n");
  expect_contains(ran.out, "  8 B of perdura::test::Tally, log of 8 KiB; copy ");
  expect_contains(ran.out, "entries: 5 new, 0 resilient\n");
  expect_contains(ran.out, "    owner: process ");
  expect_contains(ran.out, ", which has ended\n");
  expect_contains(ran.out, "    caller 3: ");
  expect_contains(ran.out, "    caller 7: ");
  expect_contains(ran.out, "    archive: ");
  expect_contains(ran.out, " of 64 KiB\n");
  expect_contains(ran.out, "    function perdura::test::Tally::");
  const Outcome json = run_on("info --json");
  expect_contains(json.out, "\"history\": \"none\"");
  expect_contains(json.out, "\"history\": \"all\"");
  expect_contains(json.out, "\"new_entries\": 5");
  expect_contains(json.out, "\"owner_lives\": false");
  expect_contains(json.out, "\"archive_bytes\": 65536");
  expect_contains(json.out, "\"potid\": 7");

  const store::ObjectDescription all = describe("all");
  ASSERT_TRUE(all.content);
  EXPECT_EQ(all.content->archived_calls + all.content->new_entries, 60u);
  EXPECT_GT(all.content->archived_calls, 24u);
  EXPECT_GT(all.content->resilient_entries, 0u);
  EXPECT_GT(all.archive_used_bytes, 0u);
  EXPECT_EQ(all.callers_max, 4u);
  EXPECT_EQ(all.content->functions.size(), 2u);
  u64 calls = 0;
  for (const auto& caller : all.content->callers) calls += caller.calls;
  EXPECT_EQ(calls, all.content->archived_calls);
}

TEST_F(CliObjects, InfoBesideAProgramSaysWhatIsSure) {
  make();
  Objects objects = Objects::open(store());
  (void)objects.object<Tally>("plain");
  const Outcome ran = run_on("info");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  expect_contains(ran.out, "log of 8 KiB; copy ");
  EXPECT_EQ(ran.out.find("entries:"), std::string::npos) << ran.out;
  const std::string self = std::to_string(::getpid());
  expect_contains(ran.out, "    owner: process " + self + ", which is running\n");
  const Outcome json = run_on("info --json");
  expect_contains(json.out, "\"content\": null");
  expect_contains(json.out, "\"owner_pid\": " + self + ",");
  expect_contains(json.out, "\"owner_lives\": true");
}

TEST_F(CliObjects, CheckFindsABitAnywhereInAnArchive) {
  make();
  EXPECT_EQ(run_on("check").exit_code, 0);
  const u64 bytes = describe("all").archive_used_bytes;
  const FileBytes whole = read_file(store());
  // Where it lies says its first block, which begins with its object's identity, and line 64.
  u64 place = 0;
  for (u64 at = 0; at + 64 <= whole.size() && place == 0; at += 4096) {
    const auto& block = *reinterpret_cast<const format::ObjectArchiveBlock*>(whole.data() + at);
    if (block.begin == 64 && block.previous == 2 && block.lines != 0 && block.lines < 1024)
      place = at;
  }
  ASSERT_NE(place, 0u);
  for (u64 byte = 0; byte < bytes; byte += 61) {
    FileBytes damaged = whole;
    damaged[place + byte] ^= std::byte{4};
    write_file(store(), damaged);
    const Outcome ran = run_on("check");
    EXPECT_EQ(ran.exit_code, 1) << byte;
    expect_contains(ran.out, "damage: objects: object 'all': the archive of an object of");
  }
}

TEST_F(CliObjects, CheckFindsABitInTheNamesOfFunctions) {
  make();
  FileBytes bytes = read_file(store());
  const std::string name = "N7perdura6detail9MethodTag";
  const auto found = std::search(bytes.begin(), bytes.end(), name.begin(), name.end(),
                                 [](std::byte a, char b) { return char(a) == b; });
  ASSERT_NE(found, bytes.end());
  *found ^= std::byte{1};
  write_file(store(), bytes);
  const Outcome ran = run_on("check");
  EXPECT_EQ(ran.exit_code, 1);
  expect_contains(ran.out, "do not fit their checksum");
}

// --- remove --------------------------------------------------------------------------------------

TEST_F(CliObjects, RemoveTakesOneAndItsSpace) {
  make();
  Outcome ran = run("remove " + store() + " --object all");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "object 'all' is removed\n");
  ran = run("remove " + store() + " --object all");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "has no object 'all'; `perdura info` names those that it has");
  const auto bytes = std::filesystem::file_size(store());
  {
    Objects objects = Objects::open(store());
    EXPECT_EQ(objects.list().size(), 1u);
    EXPECT_EQ(objects.object<Tally>("plain").read<&Tally::now>(), 5u);
    Object<Tally> again = objects.object<Tally>(
        "all", {.log_bytes = 8192, .history = ObjectHistory::kAll, .archive_bytes = 65536});
    EXPECT_EQ(again.read<&Tally::now>(), 0u);
  }
  EXPECT_EQ(std::filesystem::file_size(store()), bytes);
  ran = run("remove --json " + store() + " objects --object plain");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  expect_contains(ran.out, "\"removed_object\": \"plain\"");
  EXPECT_EQ(run_on("check").exit_code, 0);
}

TEST_F(CliObjects, RemoveIsRefusedWhereItIsNotClear) {
  make();
  {
    const Objects objects = Objects::open(store());
    const Outcome ran = run("remove " + store() + " --object all");
    EXPECT_EQ(ran.exit_code, 2);
    expect_contains(ran.err, "is open in process " + std::to_string(::getpid()) + " (");
    EXPECT_EQ(ran.out, "");
  }
  {
    Objects others = Objects::open(store(), {.region = "others"});
    (void)others.object<Tally>("all");
  }
  Outcome ran = run("remove " + store() + " --object all");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "in several regions, one of them 'objects'; say in which");
  ran = run("remove " + store() + " third --object all");
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "has no object 'all' in region 'third'");
  EXPECT_EQ(run("remove " + store() + " others --object all").exit_code, 0);
  EXPECT_EQ(Objects::open(store()).list().size(), 2u);
  ran = run("remove " + store());
  EXPECT_EQ(ran.exit_code, 2);
  expect_contains(ran.err, "say which REGION, or which --object");
  expect_contains(run("remove --help").out, "--object");
}

}  // namespace
}  // namespace perdura::test
