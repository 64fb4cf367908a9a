// shared_worker URI PROCESS WAY
//
// One of several processes that have the same objects open. Draws tickets of one object in two
// threads, each a caller with a history, and notes them in another one, of which it asks now and
// then; makes and removes objects meanwhile, one that has its number and one that all processes
// make, until it is killed. Prints what it finds when it comes: "found CALLER TICKETS LAST NOTES";
// or a sentence that says what is wrong. Then "ticket CALLER TICKET" and "notes CALLER NOTES".
//
// shared_worker URI all WAY: alone, prints "found" of all callers, then "drawn TICKETS", and ends.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "campaign/worker_notes.hpp"

namespace perdura::test {

constexpr uint32_t kThreads = 2;  // of a process

struct Tickets {
  uint64_t next;
  uint64_t of_caller[kCallers];
  uint64_t filler[500];  // that each ticket passes through, so that a state is torn for a while
  uint64_t draw(uint32_t caller) noexcept {
    ++of_caller[caller];
    for (uint64_t& each : filler) ++each;
    return next++;
  }
  bool is_whole() const noexcept {
    uint64_t sum = 0;
    for (const uint64_t each : of_caller) sum += each;
    for (const uint64_t each : filler)
      if (each != next) return false;
    return sum == next;
  }
  Tickets all() const noexcept { return *this; }
};

struct Visit {
  uint64_t calls;
  char more[9000];
  uint64_t come() noexcept { return ++calls; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Tickets>
    : perdura::MethodList<perdura::Instant<&perdura::test::Tickets::draw>> {};
template <>
struct perdura::Methods<perdura::test::Visit>
    : perdura::MethodList<perdura::Instant<&perdura::test::Visit::come>> {};

namespace perdura::test {
namespace {

// The other threads go on until it has ended.
[[noreturn]] void fail(const std::exception& error) {
  std::fprintf(stdout, "%s\n", error.what());
  std::fflush(stdout);
  std::_Exit(1);
}

struct Opened {
  Objects objects;
  Object<Tickets> tickets;
  Object<Notes> notes;
};

Opened open(const std::string& uri, const std::string& way, bool shared) {
  ObjectsOptions how;
  how.shared = shared;
  Objects objects = Objects::open(uri, how);
  ObjectOptions options;
  options.log_bytes = 64 << 10;
  options.checkpoint_calls = 200;
  options.durability = durability_of(way);
  if (way == "apart") options.servers = 0;
  Object<Notes> notes = objects.object<Notes>("notes", options);
  options.history = ObjectHistory::kLast;
  options.callers = 16;
  Object<Tickets> tickets = objects.object<Tickets>("tickets", options);
  return {std::move(objects), tickets, notes};
}

void find(Opened& opened, uint32_t caller) {
  const Tickets tickets = opened.tickets.read<&Tickets::all>();
  if (!tickets.is_whole()) throw Error(Code::kCorrupt, "the object is torn");
  const Notes notes = opened.notes.read<&Notes::all>();
  const Caller as(opened.objects, caller);
  const uint64_t recorded = as.recorded(opened.tickets);
  say("found %lu %lu %lu %lu\n", uint64_t{caller}, recorded,
      as.last_answer<uint64_t>(opened.tickets).value_or(0), notes.callers[caller].notes);
}

void draw(Opened& opened, uint32_t caller) {
  const Caller as(opened.objects, caller);
  std::mt19937_64 random(static_cast<uint64_t>(::getpid()) * kCallers + caller);
  for (;;) {
    const uint64_t ticket = opened.tickets.call<&Tickets::draw>(caller);
    say("ticket %lu %lu\n", uint64_t{caller}, ticket);
    for (uint64_t i = random() % 4; i != 0; --i)
      opened.notes.defer<&Notes::count>(caller, uint64_t{1});
    opened.notes.defer<&Notes::note>(caller, ticket);
    ::usleep(static_cast<useconds_t>(random() % 300));  // few lines a life
    if (random() % 3 == 0)
      say("notes %lu %lu\n", uint64_t{caller}, opened.notes.call<&Notes::ask>(caller));
  }
}

// Of its own it is the only caller; that of all may be another one's at any time.
void come_and_go(Opened& opened, const std::string& name, bool own) {
  {
    ObjectOptions options;
    options.log_bytes = 4096;
    Object<Visit> visit = opened.objects.object<Visit>(name, options);
    visit.call<&Visit::come>();
  }
  try {
    opened.objects.remove(name);
  } catch (const Error& error) {
    const bool expected = error.code() == Code::kMisuse || error.code() == Code::kNotFound;
    if (own || !expected) throw;
  }
}

int work(const std::string& uri, uint32_t process, const std::string& way) {
  Opened opened = open(uri, way, true);
  for (uint32_t i = 0; i < kThreads; ++i) find(opened, process * kThreads + i);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&opened, caller = process * kThreads + i] {
      try {
        draw(opened, caller);
      } catch (const std::exception& error) {
        fail(error);
      }
    });
  try {
    for (;;) {
      come_and_go(opened, "visit" + std::to_string(process), true);
      come_and_go(opened, "visit", false);
    }
  } catch (const std::exception& error) {
    fail(error);
  }
}

int look(const std::string& uri, const std::string& way) {
  Opened opened = open(uri, way, false);
  for (uint32_t caller = 0; caller < kCallers; ++caller) find(opened, caller);
  say("drawn %lu\n", opened.tickets.read<&Tickets::all>().next);
  return 0;
}

}  // namespace
}  // namespace perdura::test

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    if (std::string(argv[2]) == "all") return perdura::test::look(argv[1], argv[3]);
    return perdura::test::work(argv[1], static_cast<std::uint32_t>(std::atoi(argv[2])), argv[3]);
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
}
