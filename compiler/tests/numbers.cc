// Where address zero is one as any other (-fno-delete-null-pointer-checks), what is stored to at a
// distance from it may be in a store.
#include "support.hpp"

namespace {

__attribute__((noinline)) void store_at(std::uintptr_t address, char value) {
  static_cast<char*>(nullptr)[address] = value;
}

}  // namespace

int main() {
  const OwnStore own;
  perdura::Store store = own.open_verified();
  auto* const memory = static_cast<char*>(store.allocate(4096, 4096));
  store.checkpoint();
  for (std::uintptr_t i = 0; i < 4096; i += 64)
    store_at(reinterpret_cast<std::uintptr_t>(memory) + i, 1);
  store.checkpoint();
  expect_reported(store);
  for (std::uintptr_t i = 0; i < 4096; i += 64) EXPECT(memory[i] == 1);
  return 0;
}
