// SIMPO's first listing: a class as its programmer writes it (docs/simpo.md). All that it keeps is
// in the memory at poroot.
#pragma once

#include <cstdio>

#include <perdura/compat/simpo.hpp>

class TwoDimIntArray : public POBase {
 public:
  static constexpr int kRows = 10;
  static constexpr int kColumns = 50;

  explicit TwoDimIntArray(int poid = 0) : POBase(sizeof(int) * kRows * kColumns, poid) {}

  void init(int value) {
    for (int i = 0; i < kRows * kColumns; ++i) elements()[i] = value;
  }
  void allInc() {
    for (int i = 0; i < kRows * kColumns; ++i) ++elements()[i];
  }
  void rowInc(int row) {
    for (int i = 0; i < kColumns; ++i) ++elements()[row * kColumns + i];
  }
  int rowSum(int row) {
    int sum = 0;
    for (int i = 0; i < kColumns; ++i) sum += elements()[row * kColumns + i];
    return sum;
  }
  void printAll() {
    for (int row = 0; row < kRows; ++row) std::printf("row %d: %d\n", row, rowSum(row));
  }

 private:
  int* elements() { return static_cast<int*>(poroot); }
};
