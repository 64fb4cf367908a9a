// Counts in a store, for a program that is not linked to Perdura.
#include <perdura/perdura.hpp>

#include <cstdio>

extern "C" int count(const char* path) {
  try {
    auto store = perdura::Store::open(path);
    int& n = store.root<int>("n");
    {
      auto operation = store.operation();
      ++n;
    }
    store.checkpoint();
    const int counted = n;
    store.close();
    return counted;
  } catch (const perdura::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return -1;
  }
}
