// The class before it is refactored: its methods change the memory at poroot, and nothing else
// makes that durable.
#include "array_written.hpp"

int main() {
  TwoDimIntArray array;
  array.init(0);
  array.allInc();
  array.rowInc(3);
  array.printAll();
}
