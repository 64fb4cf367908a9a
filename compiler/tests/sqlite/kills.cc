// SQLite, unmodified, with its whole heap in a store: a database in memory that survives kills.
//
// KILLS: so many processes, one after another, open the store and go on with the database,
// connection and prepared statements and all, and are killed in the midst of it. Each looks at what
// it finds before it goes on: the database is whole, its balances are what its history says, and it
// has all steps that a process before was told to be durable. Kills fall between statements of a
// transaction as well, which then is open when the next process comes.
//
// What is in the heap points to functions and constants of SQLite, so the program is linked at a
// fixed place (-no-pie).
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include <sqlite3.h>

#include "support.hpp"

namespace {

constexpr int kAccounts = 200;
constexpr long kHistoryMax = 2000;

/// The store's root.
struct State {
  sqlite3* database;
  sqlite3_stmt* take;
  sqlite3_stmt* give;
  sqlite3_stmt* note;
  sqlite3_stmt* name;
  long steps;
};

// --- SQLite's allocator, whose blocks tell how long they are

perdura::Store* heap;
constexpr int kHeaderBytes = 16;

void* allocate(int bytes) {
  auto* const block =
      static_cast<int*>(heap->allocate(static_cast<std::size_t>(bytes) + kHeaderBytes));
  *block = bytes;
  return block + kHeaderBytes / sizeof(int);
}
int* block_of(void* given) { return static_cast<int*>(given) - kHeaderBytes / sizeof(int); }
int size_of(void* given) { return given == nullptr ? 0 : *block_of(given); }
void release(void* given) { heap->deallocate(block_of(given)); }
void* reallocate(void* given, int bytes) {
  void* const grown = allocate(bytes);
  std::memcpy(grown, given, static_cast<std::size_t>(std::min(bytes, size_of(given))));
  release(given);
  return grown;
}
int round_up(int bytes) { return (bytes + 7) & ~7; }
int begin(void*) { return SQLITE_OK; }
void end(void*) {}

void use_heap(perdura::Store& store) {
  heap = &store;
  static sqlite3_mem_methods methods{allocate, release, reallocate, size_of,
                                     round_up, begin,   end,        nullptr};
  EXPECT(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK);
  EXPECT(sqlite3_initialize() == SQLITE_OK);
}

// --- the database

void run(sqlite3* database, const char* statement) {
  if (sqlite3_exec(database, statement, nullptr, nullptr, nullptr) == SQLITE_OK) return;
  std::fprintf(stderr, "%s: %s\n", statement, sqlite3_errmsg(database));
  std::exit(1);
}

std::string ask(sqlite3* database, const char* query) {
  std::string answer;
  const auto keep = [](void* to, int, char** columns, char**) {
    if (columns[0] != nullptr) *static_cast<std::string*>(to) += columns[0];
    return 0;
  };
  if (sqlite3_exec(database, query, keep, &answer, nullptr) != SQLITE_OK) {
    std::fprintf(stderr, "%s: %s\n", query, sqlite3_errmsg(database));
    std::exit(1);
  }
  return answer;
}

sqlite3_stmt* prepare(sqlite3* database, const char* statement) {
  sqlite3_stmt* prepared = nullptr;
  EXPECT(sqlite3_prepare_v2(database, statement, -1, &prepared, nullptr) == SQLITE_OK);
  return prepared;
}

void make(State& state) {
  EXPECT(sqlite3_open(":memory:", &state.database) == SQLITE_OK);
  run(state.database,
      "CREATE TABLE accounts(id INTEGER PRIMARY KEY, balance INTEGER, earlier INTEGER);"
      "CREATE TABLE history(step INTEGER PRIMARY KEY, source INTEGER, target INTEGER, "
      "amount INTEGER);"
      "CREATE INDEX sources ON history(source);"
      "CREATE INDEX targets ON history(target);"
      "CREATE TABLE names(account INTEGER PRIMARY KEY, name TEXT UNIQUE)");
  for (int i = 0; i < kAccounts; ++i)
    run(state.database, ("INSERT INTO accounts VALUES(" + std::to_string(i) + ", 0, 0)").c_str());
  state.take = prepare(state.database, "UPDATE accounts SET balance = balance - ?2 WHERE id = ?1");
  state.give = prepare(state.database, "UPDATE accounts SET balance = balance + ?2 WHERE id = ?1");
  state.note = prepare(state.database, "INSERT INTO history VALUES(?1, ?2, ?3, ?4)");
  state.name =
      prepare(state.database, "INSERT OR REPLACE INTO names VALUES(?1, hex(randomblob(?2)))");
}

constexpr const char* kWrongBalances =
    "SELECT count(*) FROM accounts WHERE balance != earlier"
    " + (SELECT ifnull(sum(amount), 0) FROM history WHERE target = id)"
    " - (SELECT ifnull(sum(amount), 0) FROM history WHERE source = id)";

void expect_whole(const State& state) {
  EXPECT(ask(state.database, "PRAGMA integrity_check") == "ok");
  EXPECT(ask(state.database, kWrongBalances) == "0");
  EXPECT(ask(state.database, "SELECT sum(balance) FROM accounts") == "0");
  const std::string last = ask(state.database, "SELECT max(step) FROM history");
  EXPECT(last.empty() || last == std::to_string(state.steps));
}

void execute(sqlite3_stmt* statement, std::initializer_list<sqlite3_int64> values) {
  int number = 0;
  for (const sqlite3_int64 each : values) sqlite3_bind_int64(statement, ++number, each);
  EXPECT(sqlite3_step(statement) == SQLITE_DONE);
  sqlite3_reset(statement);
}

/// What is old is in the accounts' earlier balances from then on.
void forget_history(State& state) {
  run(state.database,
      "UPDATE accounts SET earlier = balance;"
      "DELETE FROM history");
}

void step(State& state, std::mt19937& draw) {
  const int source = static_cast<int>(draw() % kAccounts);
  const int target = static_cast<int>(draw() % kAccounts);
  const int amount = static_cast<int>(draw() % 1000);
  run(state.database, "BEGIN");
  execute(state.take, {source, amount});
  if (draw() % 4 == 0) perdura_poll();
  execute(state.give, {target, amount});
  execute(state.note, {state.steps + 1, source, target, amount});
  if (draw() % 4 == 0) execute(state.name, {source, static_cast<int>(draw() % 300) + 4});
  if (draw() % 4 == 0) perdura_poll();
  if (state.steps % kHistoryMax == 0) forget_history(state);
  run(state.database, "COMMIT");
  ++state.steps;
  perdura_poll();
}

// --- processes

perdura::Options options() {
  perdura::Options chosen;
  chosen.tracking = perdura::Tracking::kCompiled;
  chosen.region_limit_bytes = std::uint64_t{1} << 30;
  return chosen;
}

State& open_state(perdura::Store& store) {
  auto& state = store.root<State>("state");
  use_heap(store);
  if (state.database == nullptr) make(state);
  if (sqlite3_get_autocommit(state.database) == 0) run(state.database, "ROLLBACK");
  expect_whole(state);
  perdura_poll();
  return state;
}

/// Goes on until it is killed; says what is durable.
[[noreturn]] void work(const char* uri) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  perdura::Store store = perdura::Store::open(uri, options());
  State& state = open_state(store);
  std::mt19937 draw(std::random_device{}());
  store.checkpoint_every(std::chrono::milliseconds(2));
  for (long durable = state.steps;; step(state, draw)) {
    if (state.steps % 20 != 0 && durable != state.steps) continue;
    store.checkpoint();
    durable = state.steps;
    EXPECT(::write(STDOUT_FILENO, &durable, sizeof durable) == sizeof durable);
  }
}

/// What is durable by its own account, of a process that is killed after some time.
long kill_one(const char* program, const std::string& uri, unsigned microseconds) {
  int ends[2];
  EXPECT(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl(program, program, "work", uri.c_str(), nullptr);
    std::abort();
  }
  ::close(ends[1]);
  long durable = 0;
  EXPECT(::read(ends[0], &durable, sizeof durable) == sizeof durable);  // it is at work
  ::usleep(microseconds);
  ::kill(child, SIGKILL);
  while (::read(ends[0], &durable, sizeof durable) == sizeof durable) {
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  return durable;
}

/// In this process: whole, with all that was durable, and every store of SQLite's reported.
void look(const std::string& uri, long durable) {
  perdura::Options verified = options();
  verified.verify_reports = true;
  perdura::Store store = perdura::Store::open(uri, verified);
  State& state = open_state(store);
  EXPECT(state.steps >= durable);
  std::mt19937 draw(1);
  for (int i = 0; i < 300; ++i) {
    step(state, draw);
    if (i % 25 == 0) store.checkpoint();
  }
  expect_whole(state);
  store.checkpoint();
  expect_reported(store);
  std::printf("%ld steps, at least %ld of them durable\n", state.steps, durable);
  store.close();
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 3) work(arguments[2]);
  EXPECT(count == 2);
  const OwnStore own;
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 draw(seed);
  long durable = 0;
  for (int kills = std::atoi(arguments[1]); kills > 0; --kills) {
    const long now = kill_one("/proc/self/exe", own.uri(), draw() % 20'000);
    EXPECT(now >= durable);
    durable = now;
  }
  look(own.uri(), durable);
  return 0;
}
