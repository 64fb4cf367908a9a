// A function of its own that has a name of the C library's.
#include <stdio.h>

int getline(char* line, int room);

int main(void) {
  char line[100];
  const int length = getline(line, sizeof line);
  printf("%d %s", length, line);
  return 0;
}
