// Stores to a line of a store's memory without a report, and prints what is found.
#include "support.hpp"

PERDURA_NO_REPORTS void forget(long* to) {
  ++*to;  // the line that is named
}

int main() {
  const OwnStore own;
  auto store = own.open_verified();
  auto* const value = static_cast<long*>(store.allocate(sizeof(long)));
  for (int i = 0; i < 3; ++i) {
    {
      const auto op = store.operation();
      forget(value);
    }
    store.checkpoint();
  }
  for (const std::string& each : store.unreported_stores()) std::puts(each.c_str());
}
