#include "step.hpp"

void step(Counts& counts, unsigned long i) {
  ++counts.each[i % 1000];
  ++counts.all;
}
