// The public headers, with templates in use, under a host's warnings.
#include <perdura/compat/simpo.hpp>
#include <perdura/perdura.hpp>
#include <perdura/structures/bplus_tree.hpp>
#include <perdura/structures/hash_map.hpp>
#include <perdura/structures/hash_set.hpp>
#include <perdura/structures/string.hpp>
#include <perdura/structures/vector.hpp>

long used(perdura::Store& store);

long used(perdura::Store& store) {
  auto& map = store.root<perdura::structures::hash_map<long, long>>("map");
  map[1] = 2;
  auto& texts = store.root<perdura::vector<perdura::string>>("texts");
  texts.emplace_back("text");
  return perdura::atomically(store, [&](perdura::Transaction& tx) {
    auto& number = store.root<long>("number");
    tx.write(number, 7L);
    return tx.read(number);
  });
}
