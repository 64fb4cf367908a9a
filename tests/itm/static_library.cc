// Goal: in a program that has libstdc++ linked in, `new` is of the store as ever, and what an
// exception says is not. Method: both in one transaction; the exception is read where no store is
// open any more.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include <perdura/perdura.hpp>

namespace {

constexpr const char* kSentence = "a sentence that is too long to be kept in a small string";

void make_and_throw(long** made, long* count) {
  __transaction_atomic {
    *count += 1;
    *made = new long[4];
    throw std::runtime_error(kSentence);
  }
}

}  // namespace

int main() {
  const std::string path = "/dev/shm/perdura-static-library-" + std::to_string(::getpid());
  struct Root {
    long* made;
    long count;
  };
  bool in_store = false;
  std::string said;
  try {
    perdura::Options options;
    options.region_limit_bytes = 64 << 20;
    auto store = perdura::Store::open("emu:" + path, options);
    auto* const root = static_cast<Root*>(store.allocate(sizeof(Root)));
    std::memset(root, 0, sizeof *root);
    store.set_root("root", root);
    try {
      make_and_throw(&root->made, &root->count);
    } catch (...) {
      in_store = store.contains(root->made) && root->count == 1;
      throw;
    }
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  ::unlink(path.c_str());
  if (!in_store) std::puts("the block is not in the store");
  if (said != kSentence) std::printf("the exception says '%s'\n", said.c_str());
  return in_store && said == kSentence ? 0 : 1;
}
