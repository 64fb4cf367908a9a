// Tables of functions that GCC has compiled twice: for calls by pointer in transactions.
#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "abi.hpp"

using namespace perdura;
using namespace perdura::detail;

namespace {

struct Clone {
  void* function;
  void* instrumented;
};

/// Of each module that has some. Modules are initialized before this library's own statics may be.
struct Tables {
  std::shared_mutex mutex;
  std::map<const void*, std::vector<Clone>> sorted;  ///< by where the module has it
};

Tables& tables() {
  static Tables& all = *new Tables;  // modules are taken out after static destruction
  return all;
}

/// nullptr: it has none.
void* instrumented(void* function) {
  Tables& all = tables();
  const std::shared_lock lock(all.mutex);
  for (const auto& [table, clones] : all.sorted) {
    const auto found = std::ranges::lower_bound(clones, function, {}, &Clone::function);
    if (found != clones.end() && found->function == function) return found->instrumented;
  }
  return nullptr;
}

/// The function, so that the sentence names it.
void* required(void* function) {
  if (void* const found = instrumented(function)) return found;
  itm::give_up(
      "it calls by pointer a function that GCC has not instrumented, which could not be "
      "undone; declare the function transaction_safe",
      function);
}

}  // namespace

extern "C" {

void _ITM_registerTMCloneTable(void* table, size_t count) {
  const std::span clones(static_cast<const Clone*>(table), count);
  std::vector<Clone> sorted(clones.begin(), clones.end());
  std::ranges::sort(sorted, {}, &Clone::function);
  Tables& all = tables();
  const std::unique_lock lock(all.mutex);
  all.sorted[table] = std::move(sorted);
}

void _ITM_deregisterTMCloneTable(void* table) {
  Tables& all = tables();
  const std::unique_lock lock(all.mutex);
  all.sorted.erase(table);
}

void* _ITM_getTMCloneOrIrrevocable(void* function) { return required(function); }

void* _ITM_getTMCloneSafe(void* function) { return required(function); }
}
