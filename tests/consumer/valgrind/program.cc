// Containers, transactions and a thread on stores of each engine, opened again, for Valgrind to
// watch. With a third argument the program makes an error of its own, which must be found.
#include <perdura/perdura.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

constexpr int kTexts = 200;
using Texts = perdura::map<int, perdura::string>;

int use(const std::string& uri, perdura::Engine engine) {
  for (int round = 1; round <= 2; ++round) {
    perdura::Options options;
    options.region_limit_bytes = 16 << 20;
    options.engine = engine;
    auto store = perdura::Store::open(uri, options);
    auto& texts = store.root<Texts>("texts");
    auto& counter = store.root<long>("counter");
    if (counter != round - 1) return 1;
    if (engine != perdura::Engine::kRedoLog) {  // which alone has transactions
      auto operation = store.operation();
      ++counter;
    } else {
      perdura::atomically(store, [&](perdura::Transaction& tx) { tx.write(counter, long{round}); });
    }
    std::thread([&] {
      auto operation = store.operation();
      for (int i = 0; i < kTexts; ++i)
        texts[i].append("a text that no string keeps without a block of its own");
    }).join();
    store.checkpoint();
    for (const auto& [number, text] : texts)
      if (text.size() % round != 0 || text[0] != 'a') return 1;
    store.close();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string path = argv[1];
  if (use("file:" + path + ".log?io_uring=0", perdura::Engine::kRedoLog) != 0 ||
      use("file:" + path + ".chunks?io_uring=0", perdura::Engine::kRemap) != 0 ||
      use("emu:" + path + ".copies", perdura::Engine::kDualCopy) != 0)
    return 1;
  if (argc == 3) {
    auto* const numbers = static_cast<int*>(std::malloc(2 * sizeof(int)));
    if (numbers[1] == 5) std::puts("five");
    std::free(numbers);
  }
  return 0;
}
