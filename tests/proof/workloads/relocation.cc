#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_types();
  for (u64 session = 0; session < 6; ++session) {
    run.open();
    // One session ends before a version has the new addresses.
    if (session != 3) {
      for (u64 i = 0; i < 5; ++i)
        run.set_object("object " + std::to_string(i), session, 16 + 8 * i);
      run.checkpoint();
    }
    if (session % 3 == 0) run.kill();
    else if (session % 3 == 1) run.close();
    else run.cut_power();
    if (session != 4) run.move();
  }
}
const Registration kThis({"relocation", "a store of typed objects moves to other addresses", run});

}  // namespace
}  // namespace perdura::proof
