// Goal: programs that know nothing of Perdura run under libperdura_malloc.so as they do without it,
// and whatever ends them, their stores are sound and hold what was in memory.
// Method: real programs (sqlite3, python3, sort, bash, redis, Tokyo Cabinet's tests) print the same
// with and without the library, while checkpoints are taken as fast as they go; one of our own is
// killed again and again. Then `perdura check` must find every store that they left clean, and
// their statistics must show that they were on its heap. Skipped where the kernel or a sandbox
// refuses userfaultfd.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

using Words = std::vector<std::string>;
namespace fs = std::filesystem;

/// A program with its output and its messages in one file.
class Process {
 public:
  Process(const Words& command, const Words& environment, std::string output)
      : output_(std::move(output)) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const int error = ::posix_spawnp(&pid_, command.front().c_str(), &actions, nullptr,
                                     pointers(command).data(), pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(error, 0) << "cannot run " << command.front()
                        << "; ./dev test installs what the tests need";
    if (error != 0) pid_ = -1;
  }
  ~Process() {
    if (pid_ <= 0) return;
    kill();
    wait();
  }
  Process(const Process&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }
  /// As waitpid gives it.
  int wait() {
    int status = -1;
    if (pid_ > 0) ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  std::string output() const {
    std::ostringstream text;
    text << std::ifstream(output_).rdbuf();
    return text.str();
  }

 private:
  static std::vector<char*> pointers(const Words& words) {
    std::vector<char*> all;
    for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
    all.push_back(nullptr);
    return all;
  }

  const std::string output_;
  pid_t pid_ = -1;
};

/// Without the lines that say how long it took, what the machine did, and which thread was first.
std::string reproducible(const std::string& text) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t word = line.find_first_not_of(' ');
    const auto begins = [&](const char* with) {
      return word != line.npos && line.compare(word, std::strlen(with), with) == 0;
    };
    if (!begins("time: ") && !begins("sys_") && !begins("cnt_")) kept += line + "\n";
  }
  return kept;
}

class PreloadTest : public testing::Test {
 protected:
  void SetUp() override {
    if (run({"/bin/true"}, preloaded()).find("userfault") != std::string::npos)
      GTEST_SKIP() << "the system refuses userfaultfd";
    remove_files();
  }

  static Words plain() {
    return {"PATH=/usr/bin:/bin", "LC_ALL=C", "PYTHONMALLOC=malloc", "PYTHONHASHSEED=0",
            "TCRNDSEED=5"};
  }
  /// Stores and statistics of all processes are in this test's folder, unless `settings` say
  /// otherwise.
  Words preloaded(const Words& settings = {}) const {
    std::map<std::string, std::string> named;
    const auto set = [&](const std::string& setting) {
      const size_t equals = setting.find('=');
      named[setting.substr(0, equals)] = setting.substr(equals);
    };
    for (const std::string& setting : plain()) set(setting);
    set("LD_PRELOAD=" PERDURA_PRELOAD);
    set("PERDURA_STORE=emu:" + path("%p.pd"));
    set("PERDURA_STATISTICS=" + path("%p.json"));
    set("PERDURA_CHECKPOINT_MS=5");
    for (const std::string& setting : settings) set(setting);
    Words environment;
    for (const auto& [name, value] : named) environment.push_back(name + value);
    return environment;
  }

  std::string path(const std::string& name) const { return folder_.path(name); }
  Words files(const std::string& extension) const {
    Words found;
    for (const auto& entry : fs::directory_iterator(path("")))
      if (entry.path().extension() == extension) found.push_back(entry.path());
    return found;
  }

  /// The stores and statistics so far.
  void remove_files() const {
    for (const char* extension : {".pd", ".json"})
      for (const std::string& file : files(extension)) fs::remove(file);
  }

  /// Run to a successful end; what it printed.
  std::string run(const Words& command, const Words& environment) const {
    Process process(command, environment, path("output"));
    const int status = process.wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status << "\n"
                                                               << process.output();
    return process.output();
  }

  /// The same output with and without the library; sound stores; and statistics of the process that
  /// changed most memory.
  nlohmann::json expect_same(const Words& command, const Words& settings = {}) const {
    const std::string expected = reproducible(run(command, plain()));
    EXPECT_NE(expected, "");
    EXPECT_EQ(reproducible(run(command, preloaded(settings))), expected);
    expect_sound();
    return most_statistics();
  }

  void expect_sound(const std::string& uri) const {
    const std::string found = run({PERDURA_COMMAND, "check", uri}, plain());
    EXPECT_NE(found.find("the heap is sound"), found.npos) << found;
    EXPECT_NE(found.find(" is good: "), found.npos) << found;
  }
  /// Every store that was left in the folder, and there is one.
  void expect_sound() const {
    const Words stores = files(".pd");
    EXPECT_FALSE(stores.empty());
    for (const std::string& store : stores) expect_sound("emu:" + store);
  }

  nlohmann::json most_statistics() const {
    nlohmann::json most;
    for (const std::string& file : files(".json")) {
      const nlohmann::json each = nlohmann::json::parse(std::ifstream(file));
      EXPECT_EQ(each["failed_checkpoints"], 0) << file;
      EXPECT_EQ(each["refused_blocks"], 0) << file;
      if (most.is_null() || each["changed_bytes"] > most["changed_bytes"]) most = each;
    }
    EXPECT_FALSE(most.is_null());
    return most;
  }

  /// On the heap, which was checkpointed while it changed.
  static void expect_used(const nlohmann::json& statistics, u64 bytes) {
    EXPECT_GT(statistics.value("checkpoints", 0), 3) << statistics.dump(2);
    EXPECT_GT(statistics.value("changed_bytes", u64{0}), bytes) << statistics.dump(2);
  }

  const TempDir folder_{TempDir::kMemory};
};

// --- programs ------------------------------------------------------------------------------------

TEST_F(PreloadTest, SqliteInMemoryAndOnDisk) {
  std::ofstream(path("script.sql")) << R"(
    CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, age INT);
    CREATE INDEX by_name ON person(name);
    WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000)
      INSERT INTO person SELECT x, printf('%08x', x * 2654435761 & 0xffffffff), x % 90 FROM n;
    UPDATE person SET name = name || '-' || age WHERE id % 3 = 0;
    DELETE FROM person WHERE id % 7 = 0;
    SELECT count(*), sum(age), min(name), max(name) FROM person;
    SELECT age, group_concat(name) FROM (SELECT * FROM person ORDER BY name) GROUP BY age LIMIT 9;
    PRAGMA integrity_check;
  )";
  const Words in_memory = {"sqlite3", ":memory:", ".read " + path("script.sql")};
  expect_used(expect_same(in_memory), 4 * kMiB);

  const Words on_disk = {"bash", "-c", "sqlite3 $0 \".read $1\"; rm $0", path("people.db"),
                         path("script.sql")};
  expect_same(on_disk);
}

TEST_F(PreloadTest, AStoreOnADisk) {
  const TempDir disk;
  const Words command = {PERDURA_ALLOCATIONS, "threads", "3"};
  EXPECT_EQ(run(command, preloaded({"PERDURA_STORE=" + disk.path("state.pd")})), "good\n");
  expect_used(most_statistics(), 4 * kMiB);
  expect_sound(disk.path("state.pd"));
}

TEST_F(PreloadTest, PythonWithThreadsProcessesAndChildren) {
  expect_used(expect_same({"/usr/bin/python3", PERDURA_SCRIPTS "/objects.py"}), 20 * kMiB);
}

TEST_F(PreloadTest, SortWithTwoThreads) {
  std::mt19937_64 random(1);
  {
    std::ofstream file(path("lines"));
    for (int i = 0; i < 400000; ++i)
      file << random() % 1000000000000 << " " << random() % 7 << "\n";
  }
  const Words sort = {"sort", "--parallel=2", "--buffer-size=32M", "--output=/dev/stdout",
                      path("lines")};
  expect_used(expect_same(sort), 10 * kMiB);
}

TEST_F(PreloadTest, ShellsWithSubshellsAndLowDescriptors) {
  expect_used(expect_same({"bash", PERDURA_SCRIPTS "/shell.sh", path("")}), kMiB);
}

TEST_F(PreloadTest, TokyoCabinetInMemory) {
  const std::string records = whole_campaigns() ? "60000" : "30000";
  expect_used(expect_same({"tcumttest", "combo", "4", records}), 10 * kMiB);
  expect_used(expect_same({"tcutest", "wicked", records}), 4 * kMiB);
}

TEST_F(PreloadTest, TokyoCabinetOnDisk) {
  const std::string write_and_read =
      "rm -f $0; tcbmttest write $0 1 60000 && tcbmttest read $0 4 && tcbmttest remove $0 1";
  expect_used(expect_same({"bash", "-c", write_and_read, path("tree.tcb")}), 4 * kMiB);
}

// The command is a program that has a copy of Perdura of its own.
TEST_F(PreloadTest, AProgramThatUsesPerdura) {
  {
    Store store = Store::open("emu:" + path("own.pd"));
    store.set_root("block", store.allocate(100));
    store.close();
  }
  expect_same({PERDURA_COMMAND, "check", "emu:" + path("own.pd")});
}

// Debian's redis is linked to jemalloc, which has all of malloc and of C++'s operators.
TEST_F(PreloadTest, AServerThatIsLinkedToAnotherAllocator) {
  const char* const script = R"(
    env LD_PRELOAD="$2" redis-server --port 0 --unixsocket $0/socket --save '' --dir $0 > $0/log &
    until redis-cli -s $0/socket ping > $0/ping 2>&1; do kill -0 $! || exit 1; done
    seq $3 | sed 's/.*/SET key& value-&-&-&-&-&-&-&-&-&-&-&-&/' | redis-cli -s $0/socket | sort -u
    seq 1 3 $3 | sed 's/.*/DEL key&/' | redis-cli -s $0/socket | sort -u
    redis-cli -s $0/socket dbsize
    redis-cli -s $0/socket debug digest
    redis-cli -s $0/socket shutdown nosave
    wait $!
    echo "ended with $?"
  )";
  const u64 records = slice_or_whole(15'000, 60'000);
  const auto with = [&](const char* preload) {
    return Words{"bash", "-c", script, path(""), "", preload, std::to_string(records)};
  };
  Words environment = preloaded();
  std::erase_if(environment,
                [](const std::string& each) { return each.starts_with("LD_PRELOAD"); });
  const std::string expected = run(with(""), plain());
  EXPECT_NE(expected.find(std::to_string(records / 3 * 2) + "\n"), expected.npos) << expected;
  EXPECT_EQ(run(with(PERDURA_PRELOAD), environment), expected);
  expect_used(most_statistics(), 4 * kMiB);
  expect_sound();
}

TEST_F(PreloadTest, AnotherAllocatorBehindThisOne) {
  EXPECT_EQ(
      run({"/bin/echo", "hello"}, preloaded({"LD_PRELOAD=" PERDURA_PRELOAD " libjemalloc.so.2"})),
      "hello\n");
  expect_sound();
}

TEST_F(PreloadTest, AProgramWithOperatorsOfItsOwn) {
  expect_used(expect_same({PERDURA_OPERATORS}), kMiB);
}

// There is nothing to measure, which must not look like a program that does not use its heap.
TEST_F(PreloadTest, AProgramWithAMallocOfItsOwn) {
  for (const Words& environment :
       {preloaded(), preloaded({"LD_PRELOAD=libjemalloc.so.2 " PERDURA_PRELOAD})}) {
    const bool own = environment == preloaded();
    const std::string output =
        run(own ? Words{PERDURA_OWN_MALLOC} : Words{"/bin/echo", "own"}, environment);
    EXPECT_TRUE(output.starts_with("libperdura_malloc: malloc is another one's")) << output;
    EXPECT_TRUE(output.ends_with("there is no store\nown\n")) << output;
    EXPECT_TRUE(files(".pd").empty());
    EXPECT_TRUE(files(".json").empty());
  }
}

TEST_F(PreloadTest, ChildrenGoOnWithTheHeapTheyInherit) {
  const Words counts = whole_campaigns() ? Words{"0", "2"} : Words{"2"};
  for (const std::string& aliases : counts) {
    SCOPED_TRACE(aliases);
    const std::string setting = "PERDURA_ALIASES=" + aliases;
    expect_same({PERDURA_ALLOCATIONS, "fork", std::to_string(slice_or_whole(12, 50)),
                 std::to_string(slice_or_whole(1000, 5000))},
                {setting, "PERDURA_REGION_LIMIT=1G"});
  }
}

// What a subshell prints was made by a child from what it inherited.
TEST_F(PreloadTest, ChildrenOfRealProgramsWithAliases) {
  const Words settings = {"PERDURA_ALIASES=2", "PERDURA_REGION_LIMIT=1G"};
  const Words substitute = {"bash", "-c", "x=$(echo 5); y=$(z=$(echo $x); echo $z$z); echo [$x$y]"};
  for (const char* aliases : {"1", "2", "256"})
    EXPECT_EQ(run(substitute, preloaded({std::string("PERDURA_ALIASES=") + aliases,
                                         "PERDURA_REGION_LIMIT=1G"})),
              "[555]\n");
  expect_same({"bash", PERDURA_SCRIPTS "/shell.sh", path("")}, settings);
  expect_same({"/usr/bin/python3", PERDURA_SCRIPTS "/objects.py"}, settings);
}

// Nobody is asked before a system call makes a child. With aliases it has no heap, and says so.
TEST_F(PreloadTest, ChildrenOfTheSystemCall) {
  EXPECT_EQ(run({PERDURA_ALLOCATIONS, "clone"}, preloaded()), "a child of clone saw 5\ngood\n");
  const std::string output = run({PERDURA_ALLOCATIONS, "clone"}, preloaded({"PERDURA_ALIASES=2"}));
  EXPECT_TRUE(
      output.starts_with("libperdura_malloc: a child that was not made by fork() has no heap with "
                         "PERDURA_ALIASES; leave that out\n"))
      << output;
  EXPECT_TRUE(output.ends_with("a child of clone died of signal 11\ngood\n")) << output;
}

TEST_F(PreloadTest, ChangesAreToldApartWithinPages) {
  const Words counts = whole_campaigns() ? Words{"1", "2", "256"} : Words{"2"};
  for (const std::string& aliases : counts) {
    SCOPED_TRACE(aliases);
    const nlohmann::json statistics = expect_same(
        {"tcutest", "wicked", "60000"}, {"PERDURA_ALIASES=" + aliases, "PERDURA_REGION_LIMIT=1G"});
    expect_used(statistics, kMiB);
    EXPECT_EQ(statistics["aliases"], std::stoi(aliases));
    for (const std::string& file : files(".json")) fs::remove(file);
  }
}

// What the program stores after its last poll is in no checkpoint.
TEST_F(PreloadTest, CheckpointsWhereTheProgramPolls) {
  const std::string output = run({PERDURA_POLLS}, preloaded());
  const nlohmann::json statistics = most_statistics();
  long* numbers = nullptr;
  long taken = 0;
  ASSERT_EQ(std::sscanf(output.c_str(), "%p %ld", reinterpret_cast<void**>(&numbers), &taken), 2)
      << output;
  EXPECT_GT(taken, 10);
  EXPECT_GT(statistics.value("checkpoint_ns", u64{0}), 0u);
  Store store = Store::open("emu:" + files(".pd").at(0));
  ASSERT_TRUE(store.contains(numbers));
  EXPECT_GT(numbers[0], 0);
  EXPECT_EQ(numbers[1], 2 * numbers[0]);
  EXPECT_GE(statistics["checkpoints"], taken + 1);  // and that of the empty heap
}

TEST_F(PreloadTest, SignalsAreForTheProgramsThreads) {
  expect_same({PERDURA_ALLOCATIONS, "signals"});
}

// --- kills ---------------------------------------------------------------------------------------

TEST_F(PreloadTest, AKilledProgramLeavesASoundStore) {
  const char* seed = std::getenv("PERDURA_SEED");
  std::mt19937 random(seed != nullptr ? static_cast<unsigned>(std::atol(seed))
                                      : std::random_device{}());
  for (u64 kill = 0; kill < slice_or_whole(5, 20); ++kill) {
    Process program({PERDURA_ALLOCATIONS, "threads", "0"}, preloaded(), path("output"));
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + random() % 600));
    program.kill();
    EXPECT_TRUE(WIFSIGNALED(program.wait())) << program.output();
    EXPECT_EQ(program.output(), "");
    expect_sound();
    for (const std::string& store : files(".pd")) fs::remove(store);
  }
}

// The blocks of a program that has come to rest are in its store as they were.
TEST_F(PreloadTest, AStoreHoldsWhatWasInMemory) {
  Process program({PERDURA_ALLOCATIONS, "rest"}, preloaded(), path("output"));
  while (program.output().find("end\n") == std::string::npos) ::usleep(10000);
  ::usleep(1000000);  // some checkpoints
  program.kill();
  program.wait();
  std::istringstream lines(program.output());
  Store store = Store::open("emu:" + files(".pd").at(0));
  EXPECT_TRUE(store.audit().clean);
  u64 blocks = 0;
  for (std::string line; std::getline(lines, line) && line != "end"; ++blocks) {
    void* block = nullptr;
    unsigned long size = 0;
    unsigned long value = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%p %lu %lu", &block, &size, &value), 3) << line;
    ASSERT_TRUE(store.contains(block)) << line;
    ASSERT_GE(store.usable_size(block), size);
    const u64 head[2] = {size, value};
    ASSERT_EQ(std::memcmp(block, head, sizeof head), 0) << line;
    for (u64 i = sizeof head; i < size; ++i)
      ASSERT_EQ(static_cast<u8*>(block)[i], static_cast<u8>(value + i * 7)) << line << " at " << i;
  }
  EXPECT_EQ(blocks, 3000u);
}

// --- settings ------------------------------------------------------------------------------------

TEST_F(PreloadTest, WhatCannotBeUsedIsSaidInASentence) {
  const Words echo = {"/bin/echo", "hello"};
  const std::pair<const char*, const char*> wrong[] = {
      {"PERDURA_CHECKPOINT_MS=soon", "PERDURA_CHECKPOINT_MS is a number of milliseconds"},
      {"PERDURA_CHECKPOINT_MS=-1", "PERDURA_CHECKPOINT_MS is a number of milliseconds"},
      {"PERDURA_TRACKING=magic", "PERDURA_TRACKING is automatic, userfault or compiled"},
      {"PERDURA_TRACKING=sigbus", "makes system calls fail that store into the heap"},
      {"PERDURA_TRACKING=protect", "makes system calls fail that store into the heap"},
      {"PERDURA_ALIASES=3", "PERDURA_ALIASES is 0 (none) or a power of two up to 256"},
      {"PERDURA_ALIASES=512", "PERDURA_ALIASES is 0 (none) or a power of two up to 256"},
      {"PERDURA_COMPARE=yes", "PERDURA_COMPARE is 0 or 1"},
      {"PERDURA_REGION_LIMIT=8Q", "PERDURA_REGION_LIMIT is a number of bytes"},
      {"PERDURA_REGION_LIMIT=99999999999T", "PERDURA_REGION_LIMIT is a number of bytes"},
      {"PERDURA_STORE=emu:/nowhere/state.pd", "/nowhere/state.pd"},
      {"PERDURA_STORE=emu:/tmp/x?speed=9", "unknown URI parameter"},
  };
  for (const auto& [setting, sentence] : wrong) {
    Words environment = plain();
    environment.insert(environment.end(), {"LD_PRELOAD=" PERDURA_PRELOAD, setting});
    const std::string output = run(echo, environment);
    EXPECT_NE(output.find(std::string("libperdura_malloc: ")), output.npos) << output;
    EXPECT_NE(output.find(sentence), output.npos) << output;
    EXPECT_TRUE(output.ends_with("; the program runs on libc's malloc\nhello\n")) << output;
    EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 2) << output;
  }
}

TEST_F(PreloadTest, TheDefaultStoreLeavesNoFile) {
  const auto left = [] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/dev/shm"))
      count += entry.path().filename().string().starts_with("perdura-malloc-");
    return count;
  };
  Words environment = plain();
  environment.insert(environment.end(), {"LD_PRELOAD=" PERDURA_PRELOAD,
                                         "PERDURA_STATISTICS=" + path("statistics.json")});
  const int before = left();
  EXPECT_EQ(run({PERDURA_ALLOCATIONS, "threads", "2"}, environment), "good\n");
  expect_used(most_statistics(), kMiB);
  Process killed({PERDURA_ALLOCATIONS, "threads", "0"}, environment, path("output"));
  ::usleep(200000);
  killed.kill();
  killed.wait();
  EXPECT_LE(left(), before);
  const int status = Process({PERDURA_ALLOCATIONS, "abort"}, environment, path("output")).wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  EXPECT_LE(left(), before);
  // The largest heap finds no room for its addresses, when the store's file is there already.
  environment.push_back("PERDURA_REGION_LIMIT=15T");
  const std::string output = run({"/bin/echo", "hello"}, environment);
  EXPECT_NE(output.find("no free address range"), output.npos) << output;
  EXPECT_LE(left(), before);
}

TEST_F(PreloadTest, AStoreInUseIsLeftAlone) {
  const Words environment = preloaded({"PERDURA_STORE=emu:" + path("state.pd")});
  Process first({PERDURA_ALLOCATIONS, "threads", "0"}, environment, path("first"));
  while (!fs::exists(path("state.pd"))) ::usleep(1000);
  ::usleep(200000);
  const std::string output = run({"/bin/echo", "hello"}, environment);
  EXPECT_NE(output.find("is open in process "), output.npos) << output;
  EXPECT_TRUE(output.ends_with("; the program runs on libc's malloc\nhello\n")) << output;
  first.kill();
  first.wait();
  expect_sound();
}

TEST_F(PreloadTest, OnlyItsOwnOldStoresAreReplaced) {
  const Words environment = preloaded({"PERDURA_STORE=emu:" + path("state.pd")});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run({"/bin/echo", "hello"}, environment), "hello\n");
  // A program that becomes another one has the same process id, and the same store.
  EXPECT_EQ(run({"bash", "-c", "exec bash -c 'exec echo hello'"}, environment), "hello\n");
  expect_sound();

  fs::remove(path("state.pd"));
  {
    Store store = Store::open("emu:" + path("state.pd"));
    store.set_root("precious", store.allocate(100));
    store.close();
  }
  const std::string output = run({"/bin/echo", "hello"}, environment);
  EXPECT_NE(output.find("is the store of a program that uses Perdura itself"), output.npos)
      << output;
  Store store = Store::open("emu:" + path("state.pd"));
  EXPECT_NE(store.get_root("precious"), nullptr);
}

// Where the heap ends, libc goes on; what is too large for anybody is refused quietly.
TEST_F(PreloadTest, AFullStoreIsSaidOnce) {
  const Words environment = preloaded({"PERDURA_REGION_LIMIT=8M"});
  const std::string output = run({"/usr/bin/python3", "-c",
                                  "x = [bytearray(100000) for i in range(200)]\n"
                                  "try: bytearray(1 << 60)\n"
                                  "except MemoryError: print(len(x), sum(map(sum, x)))"},
                                 environment);
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 2) << output;
  EXPECT_NE(output.find("blocks that the store cannot take come from libc\n200 0\n"), output.npos)
      << output;
  expect_sound();
}

}  // namespace
}  // namespace perdura::test
