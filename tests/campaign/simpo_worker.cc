// A program with persistent objects whose numbers it does not choose, for simpo_kill_test. It is
// built a second time without a function that the first one has.
//
//   simpo_worker numbers   objects and threads at several places; what each is and has, then
//   SIGKILL simpo_worker log       calls of object 3, then SIGKILL simpo_worker look      what
//   object 3 has, or why it cannot be opened
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
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

int run(const char* what) {
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

int main(int, char** arguments) {
  try {
    return worker::run(arguments[1]);
  } catch (const perdura::Error& error) {
    std::printf("code %d: %s\n", static_cast<int>(error.code()), error.what());
    return 0;
  }
}
