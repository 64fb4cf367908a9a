#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_container();
  u64 number = 0;
  for (u64 session = 0; session < 5; ++session) {
    run.open();
    // One session ends before a version has the new addresses.
    if (session != 3) {
      for (u64 i = 0; i < 3; ++i) run.push_link(number++);
      run.pop_link();
      run.checkpoint();
      run.push_link(number++);
    }
    if (session % 3 == 0) run.kill();
    else if (session % 3 == 1) run.close();
    else run.cut_power();
    if (session != 4) run.move();
  }
}
const Registration kThis({"container-moved",
                          "a container comes back at other addresses, and goes on", run});

}  // namespace
}  // namespace perdura::proof
