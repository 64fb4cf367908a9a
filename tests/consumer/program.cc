// A number survives closing and opening its store. Built by each of the C++ consumers.
#include <perdura/perdura.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  {
    auto store = perdura::Store::open(argv[1]);
    int& n = store.root<int>("n");
    {
      auto op = store.operation();
      n += 1;
    }
    store.checkpoint();
    store.close();
  }
  auto store = perdura::Store::open(argv[1]);
  const int n = store.root<int>("n");
  store.close();
  if (n != 1) std::fprintf(stderr, "n is %d after opening again, not 1\n", n);
  return n == 1 ? 0 : 1;
}
