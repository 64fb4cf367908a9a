// Faults that sanitizers find beside the pass: a store that races with another thread's, to memory
// of a store, and one behind the end of an array that may be in a store.
#include <cstring>
#include <memory>
#include <thread>

#include "support.hpp"

namespace {

// Two threads, each in operations of its own, which keep checkpoints out and not each other.
void race() {
  const OwnStore own;
  perdura::Store store = own.open();
  auto* const word = static_cast<long*>(store.allocate(sizeof(long)));
  const auto add = [&] {
    for (int i = 0; i < 1000; ++i) {
      const auto operation = store.operation();
      ++*word;
    }
  };
  std::thread other(add);
  add();
  other.join();
}

__attribute__((noinline)) void fill(char* to, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(i);
}

void overflow() {
  const auto array = std::make_unique<char[]>(100);
  fill(array.get(), 101);
}

}  // namespace

int main(int, char** arguments) {
  if (std::strcmp(arguments[1], "race") == 0) race();
  else overflow();
  return 0;
}
