// object_worker URI DURABILITY
//
// Draws tickets of an object in eight threads, each a caller with a history, and notes them in
// another object, of which it asks now and then; makes and removes a third one meanwhile, until it
// is killed. Prints what it finds: "found THREAD TICKETS LAST NOTES", "drawn TICKETS", "visit
// NUMBER CALLS" or "none"; or a sentence that says what is wrong. Then "ticket THREAD TICKET",
// "notes THREAD NOTES", "made NUMBER" and "gone NUMBER" for what is durable.
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

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Tickets>
    : perdura::MethodList<perdura::Instant<&perdura::test::Tickets::draw>> {};
template <>
struct perdura::Methods<perdura::test::Visit>
    : perdura::MethodList<perdura::Instant<&perdura::test::Visit::come>> {};

namespace perdura::test {
namespace {

struct Opened {
  Objects objects;
  Object<Tickets> tickets;
  Object<Notes> notes;
};

Opened open(const std::string& uri, const std::string& way) {
  Objects objects = Objects::open(uri);
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
