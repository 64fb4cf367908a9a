#include <string.h>

void fill(char* to, const char* text) { strcpy(to, text); }
