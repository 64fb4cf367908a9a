/* The C API through pkg-config: a store opens and closes. */
#include <perdura/perdura.h>

#include <stdio.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  perdura_store* store = NULL;
  if (perdura_open(argv[1], NULL, &store) != 0 || perdura_close(store) != 0) {
    fprintf(stderr, "%s\n", perdura_last_error());
    return 1;
  }
  return 0;
}
