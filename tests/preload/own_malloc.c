/* A program with a malloc of its own: blocks come from an array and never go back. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Alignas(16) char array[1 << 20];
static size_t used;

void* malloc(size_t size) {
  const size_t rounded = (size + 15) & ~(size_t)15;
  if (rounded > sizeof array - used) return NULL;
  used += rounded;
  return array + used - rounded;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) { return malloc(count * size); }
void* realloc(void* block, size_t size) {
  void* moved = malloc(size);
  if (block != NULL && moved != NULL) memmove(moved, block, size);
  return moved;
}

int main(void) {
  char* text = malloc(10);
  strcpy(text, "own");
  puts(text);
}
