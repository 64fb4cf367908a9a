// PLUGIN: a program whose shared libraries store into its store: the one that it is linked to keeps
// its registers from the first report on, and the one that it loads finds what it needs, though the
// program itself has no use for that.
#include <dlfcn.h>

#include "../support.hpp"

extern "C" void work(unsigned long* stored, const unsigned long* given, unsigned long* result);

struct Stored {
  unsigned long words[8];
  char text[64];
};

int main(int, char** argv) {
  const OwnStore own;
  perdura::Store store = own.open_verified();
  auto& stored = store.root<Stored>("stored");
  store.checkpoint();
  const unsigned long given[] = {11, 22, 33, 44, 55};
  unsigned long first = 0, second = 0;
  work(stored.words, given, &first);
  work(stored.words, given, &second);
  EXPECT(first == 5985);
  EXPECT(second == 5985);
  void* const plugin = ::dlopen(argv[1], RTLD_NOW);
  if (plugin == nullptr) std::fprintf(stderr, "%s\n", ::dlerror());
  EXPECT(plugin != nullptr);
  const auto fill = reinterpret_cast<void (*)(char*, const char*)>(::dlsym(plugin, "fill"));
  fill(stored.text, "stored by a plugin");
  store.checkpoint();
  expect_reported(store);
  store.close();
  return 0;
}
