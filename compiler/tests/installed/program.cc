// Counts in a store without a word about its stores, and finds that none of them went unreported.
#include <unistd.h>

#include <cstdio>
#include <string>

#include <perdura/compiled.h>
#include <perdura/perdura.hpp>

#include "step.hpp"
#ifndef STEP_ELSEWHERE
#include "step.cc"
#endif

int main() {
  const std::string path = "/dev/shm/perdura-installed-" + std::to_string(::getpid());
  perdura::Options options;
  options.tracking = perdura::Tracking::kCompiled;
  options.verify_reports = true;
  unsigned long unreported = 0, all = 0;
  {
    perdura::Store store = perdura::Store::open("emu:" + path, options);
    auto& counts = store.root<Counts>("counts");
    store.checkpoint();
    for (unsigned long i = 0; i < 5000; ++i) {
      step(counts, i);
      perdura_poll();
    }
    store.checkpoint();
    unreported = store.statistics().unreported;
    store.close();
  }
  {
    perdura::Store store = perdura::Store::open("emu:" + path, options);
    all = store.root<Counts>("counts").all;
    store.close();
  }
  ::unlink(path.c_str());
  std::printf("%lu counted, %lu lines not reported\n", all, unreported);
  return all == 5000 && unreported == 0 ? 0 : 1;
}
