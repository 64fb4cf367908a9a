#pragma once

struct Counts {
  unsigned long each[1000];
  unsigned long all;
};
void step(Counts& counts, unsigned long i);
