// Runs drawn programs on memory of a store, or on plain memory, and prints what became of it.
#include <cstring>
#include <memory>
#include <thread>

#include "drawn/memory.h"
#include "support.hpp"

namespace {

constexpr int kRounds = 16;
constexpr u64 kSteps = 20;
constexpr int kPausesAVersion = 5;

perdura::Store* open_store = nullptr;
u64 unreported = 0;
int pauses = 0;
const std::thread::id main_thread = std::this_thread::get_id();

struct Memory {
  alignas(64) u8 records[kRecordBytes];
  Arrays arrays;
};

/// Of what is the same in each run.
u64 sum(const Memory& memory) {
  u64 all = 0;
  const auto add = [&](const void* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes / 8; ++i) all = all * 31 + static_cast<const u64*>(from)[i];
  };
  add(memory.records, sizeof memory.records);
  add(&memory.arrays, offsetof(Arrays, scratch));
  return all;
}

/// Whether all lines were reported that the program has stored to.
bool run(const DrawnProgram& program, Memory& memory) {
  std::printf("seed %lu\n", program.seed);
  std::fflush(stdout);
  std::memset(&memory, 0, sizeof memory);
  for (int round = 0; round < kRounds; ++round) {
    program.run(memory.records, &memory.arrays, kSteps, static_cast<u64>(round));
    std::printf("%016lx\n", sum(memory));
    if (open_store == nullptr) continue;
    open_store->checkpoint();
    if (open_store->statistics().unreported == unreported) continue;
    unreported = open_store->statistics().unreported;
    for (const std::string& each : open_store->unreported_stores())
      std::fprintf(stderr, "seed %lu: %s\n", program.seed, each.c_str());
    return false;
  }
  return true;
}

int run_all(Memory& memory) {
  int failed = 0;
  for (std::size_t i = 0; i < drawn_programs_count; ++i)
    if (!run(drawn_programs[i], memory)) ++failed;
  return failed == 0 ? 0 : 1;
}

int run_inside() {
  const OwnStore own;
  perdura::Store store = own.open_verified();
  open_store = &store;
  auto* const memory = static_cast<Memory*>(store.allocate(sizeof(Memory), 4096));
  store.checkpoint();
  const int status = run_all(*memory);
  store.close();
  return status;
}

int run_outside() {
  const auto memory = std::make_unique<Memory>();
  return run_all(*memory);
}

}  // namespace

// Threads of programs poll: a checkpoint of theirs would wait for the one that waits for them.
extern "C" void drawn_pause() {
  if (open_store == nullptr) return;
  if (std::this_thread::get_id() == main_thread && ++pauses % kPausesAVersion == 0)
    open_store->checkpoint();
  else perdura_poll();
}

int main(int, char** arguments) {
  return std::strcmp(arguments[1], "inside") == 0 ? run_inside() : run_outside();
}
