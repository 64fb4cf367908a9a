// A small inventory that survives the process: run it again and it goes on counting.
//
//   inventory [STORE]

#include <cstdio>
#include <exception>

#include <perdura/perdura.hpp>

/// Kept in the store as it is, pointers and all. It needs no serialization and no registration.
struct Item {
  int in_stock = 0;
  const Item* replacement = nullptr;  // stays valid: the store is mapped at the same address
  perdura::vector<int> deliveries;
};

using Inventory = perdura::map<perdura::string, Item>;

int main(int argc, char** argv) try {
  // Opening recovers the last durable version, whatever ended the previous run.
  perdura::Store store = perdura::Store::open(argc > 1 ? argv[1] : "inventory.pd");

  // A root is found again by its name. It is constructed the first time.
  auto& inventory = store.root<Inventory>("inventory");

  {
    // One consistent step: no checkpoint falls inside, so both items change or neither does.
    auto operation = store.operation();
    Item& bolt = inventory["bolt"];
    Item& screw = inventory["screw"];
    bolt.deliveries.push_back(10);
    bolt.in_stock += 10;
    screw.in_stock += 5;
    screw.replacement = &bolt;
  }
  store.checkpoint();  // durable when it returns; see also Store::checkpoint_every

  for (const auto& [name, item] : inventory)
    std::printf("%-6s %3d in stock, %zu deliveries%s\n", name.c_str(), item.in_stock,
                item.deliveries.size(), item.replacement != nullptr ? ", replaceable" : "");
  std::printf("version %llu\n", static_cast<unsigned long long>(store.durable_version()));
  store.close();
  return 0;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "inventory: %s\n", failure.what());
  return 1;
}
