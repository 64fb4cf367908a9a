#include <stdio.h>

int getline(char* line, int room) {
  int c = 0, length = 0;
  while (--room > 0 && (c = getchar()) != EOF && c != '\n') line[length++] = c;
  if (c == '\n') line[length++] = c;
  line[length] = 0;
  return length;
}
