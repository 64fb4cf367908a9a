// object_worker URI DURABILITY
//
// Draws tickets of an object in eight threads, each a caller with a history, and notes them in
// another object, of which it asks now and then; makes and removes a third one meanwhile, until it
// is killed. With the durability "overflow" the store has space for some of them and of five more,
// which one more thread calls: they move out to an overflow store all the time, and come home.
// Prints what it finds: "found THREAD TICKETS LAST NOTES", "drawn TICKETS", "visit
// NUMBER CALLS" or "none", "roams OBJECT CALLS"; or a sentence that says what is wrong. Then
// "ticket THREAD TICKET", "notes THREAD NOTES", "made NUMBER", "gone NUMBER" and "roamed OBJECT
// CALLS" for what is durable.
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

constexpr uint32_t kThreads = kCallers;  // each of them a caller

struct Tickets {
  std::uint64_t next;
  std::uint64_t of_thread[kThreads];
  std::uint64_t draw(std::uint32_t thread) noexcept {
    ++of_thread[thread];
    return next++;
  }
  Tickets all() const noexcept { return *this; }
};

struct Visit {
  std::uint64_t number;
  std::uint64_t calls;
  char more[9000];
  std::uint64_t come(std::uint64_t as) noexcept {
    number = as;
    return ++calls;
  }
  std::uint64_t who() const noexcept { return number; }
  std::uint64_t count() const noexcept { return calls; }
};

struct Roaming {
  static constexpr std::uint64_t kWords = 800;
  std::uint64_t calls;
  std::uint64_t words[kWords];
  std::uint64_t call() noexcept {
    words[calls % kWords] = calls;
    return ++calls;
  }
  std::uint64_t count() const noexcept {
    for (std::uint64_t i = 0; i < kWords; ++i) {
      const std::uint64_t back = (calls + kWords - 1 - i) % kWords;  // of the last call there
      if (words[i] != (back < calls ? calls - 1 - back : 0)) return ~std::uint64_t{0};
    }
    return calls;
  }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Roaming>
    : perdura::MethodList<perdura::Instant<&perdura::test::Roaming::call>> {};
template <>
struct perdura::Methods<perdura::test::Tickets>
    : perdura::MethodList<perdura::Instant<&perdura::test::Tickets::draw>> {};
template <>
struct perdura::Methods<perdura::test::Visit>
    : perdura::MethodList<perdura::Instant<&perdura::test::Visit::come>> {};

namespace perdura::test {
namespace {

constexpr uint32_t kRoaming = 5;
constexpr uint64_t kOverflowingBytes = 300 << 10;  // the two logs of 64 KiB, and some others

struct Opened {
  Objects objects;
  Object<Tickets> tickets;
  Object<Notes> notes;
  std::vector<Object<Roaming>> roaming{};
};

Opened open(const std::string& uri, const std::string& way) {
  const bool overflows = way == "overflow";
  ObjectsOptions where;
  if (overflows) {
    where.bytes_max = kOverflowingBytes;
    where.overflow = "file:" + uri.substr(uri.find(':') + 1) + ".overflow";
  }
  Objects objects = Objects::open(uri, where);
  ObjectOptions options;
  options.log_bytes = 64 << 10;
  options.checkpoint_calls = 200;
  options.durability = durability_of(overflows ? "instants" : way);
  if (way == "apart") options.servers = 0;
  Object<Notes> notes = objects.object<Notes>("notes", options);
  options.history = ObjectHistory::kLast;
  options.callers = 16;
  Object<Tickets> tickets = objects.object<Tickets>("tickets", options);
  std::vector<Object<Roaming>> roaming;
  for (uint32_t i = 0; overflows && i < kRoaming; ++i)
    roaming.push_back(objects.object<Roaming>("roaming " + std::to_string(i),
                                              {.log_bytes = 4096, .checkpoint_calls = 5}));
  return {std::move(objects), tickets, notes, std::move(roaming)};
}

// What was there of the one that comes and goes is told, and goes.
uint64_t find_visit(Objects& objects) {
  for (const ObjectDescription& each : objects.list()) {
    if (each.name != "visit") continue;
    const uint64_t number = [&] {
      const Object<Visit> visit = objects.object<Visit>("visit");
      say("visit %lu %lu\n", visit.read<&Visit::who>(), visit.read<&Visit::count>());
      return visit.read<&Visit::who>();
    }();
    objects.remove("visit");
    say("gone %lu\n", number);
    return number;
  }
  say("none\n");
  return 0;
}

void find(Opened& opened) {
  const Tickets tickets = opened.tickets.read<&Tickets::all>();
  const Notes notes = opened.notes.read<&Notes::all>();
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    const Caller caller(opened.objects, thread);
    const uint64_t recorded = caller.recorded(opened.tickets);
    if (recorded != tickets.of_thread[thread]) {
      say("thread %lu has %lu tickets and %lu calls\n", uint64_t{thread}, tickets.of_thread[thread],
          recorded);
      std::_Exit(1);
    }
    say("found %lu %lu %lu %lu\n", uint64_t{thread}, recorded,
        caller.last_answer<uint64_t>(opened.tickets).value_or(0), notes.callers[thread].notes);
  }
  say("drawn %lu\n", tickets.next);
  for (uint64_t i = 0; i < opened.roaming.size(); ++i)
    say("roams %lu %lu\n", i, opened.roaming[i].read<&Roaming::count>());
}

void roam(Opened& opened) {
  std::mt19937_64 random(static_cast<uint64_t>(::getpid()));
  for (;;) {
    const uint64_t object = random() % opened.roaming.size();
    say("roamed %lu %lu\n", object, opened.roaming[object].call<&Roaming::call>());
  }
}

void draw(Opened& opened, uint32_t thread) {
  const Caller caller(opened.objects, thread);
  std::mt19937_64 random(static_cast<uint64_t>(::getpid()) * kThreads + thread);
  for (;;) {
    const uint64_t ticket = opened.tickets.call<&Tickets::draw>(thread);
    say("ticket %lu %lu\n", uint64_t{thread}, ticket);
    for (uint64_t i = random() % 4; i != 0; --i)
      opened.notes.defer<&Notes::count>(thread, uint64_t{1});
    opened.notes.defer<&Notes::note>(thread, ticket);
    if (random() % 3 == 0)
      say("notes %lu %lu\n", uint64_t{thread}, opened.notes.call<&Notes::ask>(thread));
  }
}

int work(const std::string& uri, const std::string& way) {
  Opened opened = open(uri, way);
  uint64_t number = find_visit(opened.objects);
  find(opened);
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&opened, thread] { draw(opened, thread); });
  if (!opened.roaming.empty()) threads.emplace_back([&opened] { roam(opened); });
  for (;;) {
    ++number;
    {
      ObjectOptions options;
      options.log_bytes = 4096 << number % 3;
      Object<Visit> visit = opened.objects.object<Visit>("visit", options);
      if (visit.call<&Visit::come>(number) != 1) {
        say("a visit that is new had calls\n");
        return 1;
      }
      say("made %lu\n", number);
    }
    opened.objects.remove("visit");
    say("gone %lu\n", number);
  }
}

}  // namespace
}  // namespace perdura::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return perdura::test::work(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
}
