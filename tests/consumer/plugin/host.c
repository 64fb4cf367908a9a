/* Counts twice with the plugin, to which it is linked or which it loads now. */
#include <stdio.h>

#ifdef PLUGIN
#include <dlfcn.h>
#else
int count(const char* path);
#endif

int main(int argc, char** argv) {
  if (argc != 2) return 2;
#ifdef PLUGIN
  void* plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*count)(const char*) = (int (*)(const char*))dlsym(plugin, "count");
  if (count == NULL) return 1;
#endif
  for (int i = 1; i <= 2; ++i) {
    const int counted = count(argv[1]);
    if (counted != i) {
      fprintf(stderr, "counted %d, not %d\n", counted, i);
      return 1;
    }
  }
  return 0;
}
