// Goal: `perdura copy`, `backup` and `restore` do what they say, and say what they did, to people
// and to programs; what cannot be done ends with a sentence and an exit code of its own.
// Method: the built command runs as a process of its own, and its output and exit code are
// compared; what it made is opened through the library.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <perdura/perdura.hpp>

#include "store/backup.hpp"
#include "support/files.hpp"
#include "support/reader_steps.hpp"

namespace perdura::test {
namespace {

using Json = nlohmann::json;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class CliBackup : public testing::Test {
 protected:
  std::string place(const std::string& name) const { return folder_.path(name); }
  Outcome run(const std::string& arguments) const {
    const std::string out = place("out");
    const std::string err = place("err");
    const std::string command = std::string("cd '") + folder_.path("") + "' && '" +
                                PERDURA_COMMAND + "' " + arguments + " >'" + out + "' 2>'" + err +
                                "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  }
  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& name, u64 count, Engine engine = Engine::kRedoLog) const {
    Options options;
    options.region_limit_bytes = 8 * kMiB;
    options.tracking = Tracking::kReported;
    options.engine = engine;
    Store store = Store::open(place(name), options);
    Steps steps(store);
    if (!steps.is_made()) steps.make();
    for (u64 i = 0; i < count; ++i) steps.take();
    store.close();
  }
  u64 step_of(const std::string& name) const {
    Options to_read;
    to_read.read_only = true;
    Store store = Store::open(place(name), to_read);
    EXPECT_EQ(Steps(store).problem(), "");
    return Steps(store).step();
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_F(CliBackup, TheCommandsCopyBackUpAndRestore) {
  write("s", 5);
  const Outcome first = run("backup s b");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("region 'main': version "), std::string::npos) << first.out;
  EXPECT_NE(first.out.find(" is there, as version 1; "), std::string::npos) << first.out;
  const Outcome again = run("backup s b");
  EXPECT_NE(again.out.find(" is there already, as version 1"), std::string::npos) << again.out;
  write("s", 5);
  const Outcome second = run("backup s b --json --limit 200MB");
  ASSERT_EQ(second.exit_code, 0) << second.err;
  const Json json = Json::parse(second.out);
  EXPECT_EQ(json["regions"][0]["name"], "main");
  EXPECT_EQ(json["regions"][0]["version"], 2);
  EXPECT_TRUE(json["regions"][0]["is_new"]);
  EXPECT_LT(json["regions"][0]["sent_bytes"], json["regions"][0]["region_bytes"]);
  EXPECT_EQ(json["regions"][0]["read_bytes"], json["regions"][0]["region_bytes"]);

  const Outcome versions = run("versions b");
  EXPECT_NE(versions.out.find(", is version "), std::string::npos) << versions.out;
  const Json listed = Json::parse(run("versions b --json").out);
  const Json identity = Json::parse(run("identity s --json").out);
  EXPECT_EQ(listed["regions"][0]["versions"][1]["source"]["uuid"], identity["uuid"]);

  EXPECT_EQ(run("restore b r").exit_code, 0);
  EXPECT_EQ(Json::parse(run("identity r --json").out)["uuid"], identity["uuid"]);
  EXPECT_EQ(run("restore b r1 --version 1 --engine copies").exit_code, 0);
  EXPECT_EQ(run("copy s c --engine chunks --region main").exit_code, 0);
  EXPECT_NE(Json::parse(run("identity c --json").out)["uuid"], identity["uuid"]);
  EXPECT_EQ(step_of("r"), 10u);
  EXPECT_EQ(step_of("r1"), 5u);
  EXPECT_EQ(step_of("c"), 10u);
  for (const char* name : {"b", "r", "r1", "c"})
    EXPECT_EQ(run(std::string("check ") + name).exit_code, 0) << name;
}

TEST_F(CliBackup, WhatCannotBeDoneIsSaid) {
  write("s", 5);
  write("other", 5);
  ASSERT_EQ(run("backup s b").exit_code, 0);
  const auto refused = [this](const std::string& arguments, const char* sentence, int code = 2) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments;
    EXPECT_NE(outcome.err.find(sentence), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  };
  refused("backup other b", "holds backups of the store");
  EXPECT_EQ(run("backup other b --adopt").exit_code, 0);
  refused("backup s s", "to itself");
  refused("backup none b", "none");
  refused("copy s b", "is not overwritten");
  refused("restore s r", "is of no backup");
  refused("copy s x --version 0", "--version");
  refused("copy s x --engine none", "--engine");
  refused("backup s x --keep 0", "--keep");
  refused("backup s x --limit much", "--limit");
  refused("backup s x --limit -1", "--limit");
  refused("copy s x --version 3", "keeps its newest version alone");
  refused("backup s x --region none", "has no region 'none'");
  EXPECT_EQ(run("backup --help").exit_code, 0);
  // Damage has a code of its own.
  FileBytes bytes = read_file(place("s"));
  for (size_t at = 192 * 1024; at < bytes.size(); at += 4096) bytes[at + 8] ^= std::byte{1};
  write_file(place("s"), bytes);
  refused("copy s y", "'", 1);
}

TEST_F(CliBackup, ACopyThatWasCutShortIsIncomplete) {
  write("s", 5);
  store::CopyOptions cut;
  cut.progress_bytes = 64 * kKiB;
  cut.progress = [](const char*, u64 done, u64 total) {
    if (done >= total / 2) throw Error(Code::kIo, "cut short");
  };
  ASSERT_FALSE(store::copy(place("s"), place("c"), cut));
  const Outcome outcome = run("check c");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(Json::parse(run("check --json c").out)["incomplete"], true);
  EXPECT_NE(outcome.out.find("is incomplete: the copy to it was not completed"), std::string::npos)
      << outcome.out;
  ASSERT_EQ(run("copy s c").exit_code, 0);
  EXPECT_NE(run("check c").out.find("is good: version"), std::string::npos);
}

}  // namespace
}  // namespace perdura::test
