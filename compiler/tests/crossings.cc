// What a program stores that reports by itself is in its versions with each engine, on each kind of
// medium, with checkpoints that stop it and such in the background, with several threads, several
// stores, and in forked children.
//
// A ledger in standard containers: its history says what its balances must be, and each step
// changes both. It is compared with its history whenever it is opened, also after a process was
// killed.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "support.hpp"
#include "support/memcached_server.hpp"

namespace {

using perdura::Capture;
using perdura::Engine;
using perdura::test::MemcachedProcess;

template <class T>
using In = perdura::Allocator<T>;

struct Entry {
  int from;
  int to;
  long amount;
};

struct Ledger {
  std::map<int, long, std::less<>, In<std::pair<const int, long>>> balances;
  std::unordered_map<int, perdura::string, std::hash<int>, std::equal_to<>,
                     In<std::pair<const int, perdura::string>>>
      names;
  std::vector<Entry, In<Entry>> history;
  std::deque<long, In<long>> recent;
  std::list<int, In<int>> order;
  unsigned char page[16384] = {};
};

constexpr int kAccounts = 400;
constexpr std::size_t kRecent = 300;

void step(Ledger& ledger, std::mt19937& draw) {
  const Entry entry{static_cast<int>(draw() % kAccounts), static_cast<int>(draw() % kAccounts),
                    static_cast<long>(draw() % 1000)};
  ledger.balances[entry.from] -= entry.amount;
  ledger.balances[entry.to] += entry.amount;
  const perdura::string name(draw() % 50, 'n', ledger.names.get_allocator());
  ledger.names.insert_or_assign(entry.to, name);
  ledger.history.push_back(entry);
  ledger.recent.push_back(entry.amount);
  if (ledger.recent.size() > kRecent) ledger.recent.pop_front();
  if (draw() % 8 == 0) ledger.names.erase(entry.from);
  ledger.order.push_front(entry.from);
  if (ledger.order.size() > 100) ledger.order.pop_back();
  if (draw() % 16 == 0) ledger.order.sort();
  for (std::size_t i = 0; i < sizeof ledger.page; i += 1024)
    ledger.page[i + static_cast<std::size_t>(entry.to)] = static_cast<unsigned char>(entry.amount);
}

void expect_whole(const Ledger& ledger) {
  std::map<int, long> balances;
  for (const Entry& each : ledger.history) {
    balances[each.from] -= each.amount;
    balances[each.to] += each.amount;
  }
  EXPECT(
      std::equal(balances.begin(), balances.end(), ledger.balances.begin(), ledger.balances.end()));
  EXPECT(ledger.recent.size() == std::min(ledger.history.size(), kRecent));
  for (std::size_t i = 1; i <= ledger.recent.size(); ++i)
    EXPECT(ledger.recent[ledger.recent.size() - i] ==
           ledger.history[ledger.history.size() - i].amount);
  if (ledger.history.empty()) return;
  const Entry& last = ledger.history.back();
  for (std::size_t i = 0; i < sizeof ledger.page; i += 1024)
    EXPECT(ledger.page[i + static_cast<std::size_t>(last.to)] ==
           static_cast<unsigned char>(last.amount));
  std::size_t named = 0;
  for (const auto& [account, name] : ledger.names) {
    EXPECT(ledger.names.at(account) == name && ledger.balances.count(account) == 1);
    ++named;
  }
  EXPECT(named == ledger.names.size());
}

constexpr int kThreads = 3;
struct Ledgers {
  Ledger of[kThreads];
};

struct Setting {
  const char* name;
  const char* scheme;
  Engine engine;
  Capture capture;
  std::uint32_t chunk_bytes = 64 << 10;
  std::uint32_t granule_bytes = 64;

  perdura::Options options(bool verified) const {
    perdura::Options chosen;
    chosen.tracking = perdura::Tracking::kCompiled;
    chosen.engine = engine;
    chosen.capture = capture;
    chosen.chunk_bytes = chunk_bytes;
    chosen.granule_bytes = granule_bytes;
    chosen.region_limit_bytes = std::uint64_t{1} << 30;
    chosen.verify_reports = verified;
    return chosen;
  }
};

constexpr Setting kSettings[] = {
    {"log", "emu", Engine::kRedoLog, Capture::kStopped},
    {"log, in the background", "emu", Engine::kRedoLog, Capture::kBackground},
    {"log, granules", "emu", Engine::kRedoLog, Capture::kBackground, 64 << 10, 512},
    {"log, on a disk", "file", Engine::kRedoLog, Capture::kBackground},
    {"chunks", "emu", Engine::kRemap, Capture::kStopped},
    {"small chunks, in the background", "emu", Engine::kRemap, Capture::kBackground, 4096},
    {"chunks, on a disk", "file", Engine::kRemap, Capture::kBackground},
    {"two copies", "emu", Engine::kDualCopy, Capture::kStopped},
    {"two copies, in the background", "emu", Engine::kDualCopy, Capture::kBackground},
    {"two copies, on a disk", "file", Engine::kDualCopy, Capture::kStopped},
    {"chunks, on memcached", "memcached", Engine::kRemap, Capture::kAutomatic, 16 << 10},
};

/// Where a setting's store is, gone when this is.
class Place {
 public:
  Place(const Setting& setting, const MemcachedProcess& server) {
    static int number = 0;
    const std::string name =
        "perdura-crossing-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
    if (std::string(setting.scheme) == "memcached") {
      uri_ = server.uri(name);
    } else {
      path_ = (std::string(setting.scheme) == "emu" ? "/dev/shm/" : "/var/tmp/") + name;
      uri_ = setting.scheme + (":" + path_);
    }
  }
  ~Place() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Place(const Place&) = delete;
  const std::string& uri() const { return uri_; }

 private:
  std::string path_;
  std::string uri_;
};

perdura::Store open(const Place& place, const Setting& setting, bool verified = true) {
  return perdura::Store::open(place.uri(), setting.options(verified));
}

// Each version is compared with what was reported, and each session with the one before.
void sessions(const Setting& setting, const MemcachedProcess& server) {
  const Place place(setting, server);
  std::mt19937 draw(1);
  std::size_t steps = 0;
  for (int session = 0; session < 3; ++session) {
    perdura::Store store = open(place, setting);
    auto& ledger = store.root<Ledger>("ledger");
    expect_whole(ledger);
    EXPECT(ledger.history.size() == steps);
    for (int i = 0; i < 1500; ++i, ++steps) {
      step(ledger, draw);
      if (i % 100 == 0) store.checkpoint();
    }
    store.checkpoint();
    expect_reported(store);
    store.close();
  }
  perdura::Store store = open(place, setting, false);
  expect_whole(store.root<Ledger>("ledger"));
}

[[noreturn]] void work_until_killed(const Place& place, const Setting& setting, unsigned seed) {
  std::mt19937 draw(seed);
  perdura::Store store = open(place, setting, false);
  auto& ledger = store.root<Ledger>("ledger");
  expect_whole(ledger);
  store.checkpoint_every(std::chrono::milliseconds(1));
  const auto versions = store.durable_version() + 6;
  while (store.durable_version() < versions) {
    step(ledger, draw);
    perdura_poll();
  }
  for (int i = 0; i < static_cast<int>(draw() % 200); ++i) {
    step(ledger, draw);
    perdura_poll();
  }
  step(ledger, draw);
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

// A killed process leaves a whole version.
void kills(const Setting& setting, const MemcachedProcess& server) {
  const Place place(setting, server);
  for (unsigned round = 0; round < 4; ++round) {
    const pid_t child = ::fork();
    if (child == 0) work_until_killed(place, setting, round);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    perdura::Store store = open(place, setting);
    const auto& ledger = store.root<Ledger>("ledger");
    expect_whole(ledger);
    EXPECT(!ledger.history.empty());
    store.checkpoint();
    expect_reported(store);
    store.close();
  }
}

// Each thread has its steps in operations, or polls; checkpoints are made beside them.
void threads(const Setting& setting, const MemcachedProcess& server) {
  const Place place(setting, server);
  {
    perdura::Store store = open(place, setting);
    auto& ledgers = store.root<Ledgers>("ledgers").of;
    store.checkpoint();
    std::atomic<int> running{kThreads};
    std::vector<std::thread> all;
    for (int number = 0; number < kThreads; ++number)
      all.emplace_back([&, number] {
        std::mt19937 draw(static_cast<unsigned>(number));
        for (int i = 0; i < 1200; ++i) {
          if (number == 0) {
            step(ledgers[number], draw);
            perdura_poll();
          } else {
            const auto operation = store.operation();
            step(ledgers[number], draw);
          }
        }
        --running;
      });
    while (running != 0) store.checkpoint();
    for (std::thread& each : all) each.join();
    store.checkpoint();
    expect_reported(store);
    store.close();
  }
  perdura::Store store = open(place, setting, false);
  for (const Ledger& each : store.root<Ledgers>("ledgers").of) {
    expect_whole(each);
    EXPECT(each.history.size() == 1200);
  }
}

/// A store of each setting, all of them open, and all changed by each step.
class AllOfThem {
 public:
  explicit AllOfThem(const MemcachedProcess& server) {
    for (const Setting& each : kSettings) {
      places_.push_back(std::make_unique<Place>(each, server));
      stores_.push_back(open(*places_.back(), each));
      ledgers_.push_back(&stores_.back().root<Ledger>("ledger"));
      stores_.back().checkpoint();
    }
  }
  void work(unsigned seed, std::size_t steps) {
    std::mt19937 draw(seed);
    for (std::size_t i = 0; i < steps; ++i) {
      for (Ledger* const each : ledgers_) step(*each, draw);
      if (i % 2 != 0) perdura_poll();
      if (i % 16 == 0) stores_[draw() % stores_.size()].checkpoint();
    }
  }
  void expect_and_close(std::size_t steps) {
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      stores_[i].checkpoint();
      expect_reported(stores_[i]);
      stores_[i].close();
      perdura::Store again = open(*places_[i], kSettings[i], false);
      const auto& ledger = again.root<Ledger>("ledger");
      expect_whole(ledger);
      EXPECT(ledger.history.size() == steps);
    }
  }

 private:
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<perdura::Store> stores_;
  std::vector<Ledger*> ledgers_;
};

// A child has none of its parent's stores, also where these make checkpoints in the background as
// it is made, and has its own at the same addresses. The parent's go on.
void several_stores_and_children(const MemcachedProcess& server) {
  AllOfThem parents(server);
  parents.work(1, 200);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      {
        AllOfThem own(server);
        own.work(3, 100);
        own.expect_and_close(100);
      }
      std::_Exit(0);  // the parent's are not closed here
    }
    parents.work(2, 100);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT(status == 0);
  }
  parents.expect_and_close(500);
}

template <class Call>
void expect_refused(const char* why, Call&& call) {
  try {
    call();
  } catch (const perdura::Error& error) {
    if (std::string(error.what()).find(why) != std::string::npos) return;
    std::fprintf(stderr, "refused with '%s', not with '%s'\n", error.what(), why);
  }
  EXPECT(!"refused");
}

// Aliases tell objects of one page apart, which reports do by themselves.
void aliases_are_refused(const MemcachedProcess& server) {
  const Setting& setting = kSettings[0];
  const Place place(setting, server);
  perdura::Options aliased = setting.options(false);
  aliased.aliases = 4;
  expect_refused("reported stores need none", [&] { perdura::Store::open(place.uri(), aliased); });
  aliased.tracking = perdura::Tracking::kAutomatic;
  perdura::Store::open(place.uri(), aliased).close();
  expect_refused("aliases", [&] { open(place, setting); });
}

}  // namespace

int main() {
  const MemcachedProcess server;
  aliases_are_refused(server);
  for (const Setting& each : kSettings) {
    std::printf("%s\n", each.name);
    std::fflush(stdout);
    sessions(each, server);
    kills(each, server);
    threads(each, server);
  }
  several_stores_and_children(server);
  return 0;
}
