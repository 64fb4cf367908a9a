// The headers in the dialect that GCC takes by itself, where integers of 128 bits are numbers as
// others are.
#include <perdura/perdura.hpp>

namespace before {
struct Account {
  __int128 units;
};
}  // namespace before
struct Account {
  __int128 units;
  unsigned __int128 limit;
};
template <>
struct perdura::FormerOf<before::Account> {
  using now = Account;
};

std::uint64_t evolve(perdura::Store& store) { return store.evolve<before::Account, Account>(); }
