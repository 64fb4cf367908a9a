// A program with persistent objects whose numbers it does not choose, for simpo_kill_test. It is
// built a second time without a function that the first one has.
//
//   simpo_worker numbers      objects and threads at several places; what each is and has, then
//                             SIGKILL
//   simpo_worker log          calls of object 3, then SIGKILL
//   simpo_worker look         what object 3 has, or why it cannot be opened
//   simpo_worker again CALLS  the same calls in each run, and at its end what all answers come to
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <perdura/compat/simpo.hpp>
#include <perdura/error.hpp>

namespace worker {

struct Added {
  int value;
};
inline void add(void* poroot, const Added& added) { *static_cast<int*>(poroot) += added.value; }
#ifndef PERDURA_WITHOUT_TWICE
inline void add_twice(void* poroot, const Added& added) {
  *static_cast<int*>(poroot) += 2 * added.value;
}
#endif

class Count : public POBase {
 public:
  explicit Count(int poid = 0) : POBase(sizeof(int), poid) {}
  /// Says what it is and has, and has one more when it returns.
  void tell(const char* where) {
    sync();
    std::printf("%s: object %d of thread %d has %d\n", where, poid(), potid_self(), value());
    defer<&add>(Added{1});
    sync();
  }
  void log() {
#ifndef PERDURA_WITHOUT_TWICE
    defer<&add_twice>(Added{5});
#endif
    sync();
  }
  int value() const { return *static_cast<const int*>(poroot); }
};

std::vector<std::unique_ptr<Count>> all;

[[gnu::noinline]] void make(const char* where) {
  all.push_back(std::make_unique<Count>());
  all.back()->tell(where);
}
[[gnu::noinline]] void make_deeper(int depth) {
  if (depth != 0) make_deeper(depth - 1);
  else make("deeper");
  std::printf("depth %d\n", depth);  // no tail call
}
void* make_in_thread(void* where) {
  make(static_cast<const char*>(where));
  return nullptr;
}

int numbers() {
  make("first");
  make("second");
  for (int i = 0; i < 3; ++i) make("in a loop");
  make_deeper(3);
  for (int i = 0; i < 2; ++i) {
    char where[] = "in a thread";
    pthread_t thread;
    if (pthread_create_simpo(&thread, nullptr, &make_in_thread, where, 0) != 0) return 1;
    pthread_join(thread, nullptr);
  }
  std::thread([] { make("in a thread of C++"); }).join();
  int local = 0;
  std::printf("addresses %p %p %p\n", reinterpret_cast<void*>(&numbers), static_cast<void*>(&local),
              reinterpret_cast<void*>(&std::printf));
  std::fflush(stdout);
  return ::kill(::getpid(), SIGKILL);
}

// --- a deterministic program

struct Cell {
  int at;
  int value;
};
inline void add_at(void* poroot, const Cell& cell) {
  static_cast<int*>(poroot)[cell.at] += cell.value;
}
inline int add_and_get(void* poroot, const Cell& cell) {
  add_at(poroot, cell);
  return static_cast<int*>(poroot)[cell.at];
}
constexpr int kThreads = 3;
constexpr int kCells = 64;
constexpr int kCellsBytes = kCells * static_cast<int>(sizeof(int));

class Cells : public POBase {
 public:
  Cells() : POBase(kCellsBytes) {}
  using POBase::poid;
  void add(int at, int value) { defer<&worker::add_at>(Cell{at, value}); }
  int add_and_get(int at, int value) { return inst<&worker::add_and_get>(Cell{at, value}); }
};

struct Part {
  Cells* cells;
  int calls;
  unsigned answers;
};

// Cells of its own, so that what is answered does not depend on other threads.
void* call_cells(void* with) {
  Part& part = *static_cast<Part*>(with);
  const int cell = potid_self();
  for (int i = 0; i < part.calls; ++i) {
    if (i % 4 != 0) part.cells->add(cell, i);
    else part.answers = 31 * part.answers + static_cast<unsigned>(part.cells->add_and_get(cell, i));
  }
  return nullptr;
}

unsigned call_in_threads(Cells& cells, int calls) {
  Part parts[kThreads];
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    parts[i] = {&cells, calls, 0};
    if (pthread_create_simpo(&threads[i], nullptr, &call_cells, &parts[i], 1 + i) != 0)
      std::abort();
  }
  unsigned answers = 0;
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(threads[i], nullptr);
    answers = 31 * answers + parts[i].answers;
  }
  return answers;
}

// What is cut off of the object and comes back is zeros: also where it is run again.
int again(int calls) {
  Cells cells;
  std::printf("recorded %lld\n", porecorded(cells.poid(), 1));
  std::fflush(stdout);
  unsigned answers = call_in_threads(cells, calls);
  if (porealloc(cells.poid(), 2 * kCellsBytes) == nullptr) return 1;
  for (int at = 0; at < 2 * kCells; ++at)
    answers = 31 * answers + static_cast<unsigned>(cells.add_and_get(at, at));
  if (porealloc(cells.poid(), kCellsBytes / 2) == nullptr) return 1;
  if (porealloc(cells.poid(), kCellsBytes) == nullptr) return 1;
  answers = 31 * answers + call_in_threads(cells, calls);
  for (int at = 0; at < kCells; ++at)
    answers = 31 * answers + static_cast<unsigned>(cells.add_and_get(at, 0));
  std::printf("answers %u\n", answers);
  std::fflush(stdout);  // it is freed after that
  return 0;
}

int run(const char* what, const char* calls) {
  if (std::strcmp(what, "again") == 0) return again(std::atoi(calls));
  if (std::strcmp(what, "numbers") == 0) return numbers();
  Count count(3);
  if (std::strcmp(what, "log") == 0) {
    count.log();
    return ::kill(::getpid(), SIGKILL);
  }
  count.sync();
  std::printf("has %d\n", count.value());
  return 0;
}

}  // namespace worker

int main(int count, char** arguments) {
  try {
    return worker::run(arguments[1], count > 2 ? arguments[2] : "");
  } catch (const perdura::Error& error) {
    std::printf("code %d: %s\n", static_cast<int>(error.code()), error.what());
    return 0;
  }
}
