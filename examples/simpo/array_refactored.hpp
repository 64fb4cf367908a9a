// SIMPO's third listing: what the refactoring tool makes of the second one (docs/simpo.md). Each
// persistent function takes the object's memory and a context, which is logged; what the program
// calls begins with simpo, and says in a dhint what a call works on.
#pragma once

#include <cstdio>

#include <perdura/compat/simpo.hpp>

class TwoDimIntArray : public POBase {
 public:
  static constexpr int kRows = 10;
  static constexpr int kColumns = 50;

  explicit TwoDimIntArray(int poid = 0) : POBase(sizeof(int) * kRows * kColumns, poid) {}

  void simpo_init(int value, int dhint = ALL) { defer<&init>(InitContext{value}, dhint); }
  void simpo_allInc(int dhint = ALL) { defer<&allInc>(AllIncContext{}, dhint); }
  void simpo_rowInc(int row, int dhint = ALL) { defer<&rowInc>(RowIncContext{row}, dhint); }
  int simpo_rowSum(int row, int dhint = ALL) { return inst<&rowSum>(RowSumContext{row}, dhint); }
  void simpo_printAll(int dhint = ALL) { inst<&printAll>(PrintAllContext{}, dhint); }

 private:
  struct InitContext {
    int value;
  };
  struct AllIncContext {};
  struct RowIncContext {
    int row;
  };
  struct RowSumContext {
    int row;
  };
  struct PrintAllContext {};

  static int* elements(void* poroot) { return static_cast<int*>(poroot); }

  static void init(void* poroot, const InitContext& context) {
    for (int i = 0; i < kRows * kColumns; ++i) elements(poroot)[i] = context.value;
  }
  static void allInc(void* poroot, const AllIncContext&) {
    for (int i = 0; i < kRows * kColumns; ++i) ++elements(poroot)[i];
  }
  static void rowInc(void* poroot, const RowIncContext& context) {
    for (int i = 0; i < kColumns; ++i) ++elements(poroot)[context.row * kColumns + i];
  }
  static int rowSum(void* poroot, const RowSumContext& context) {
    int sum = 0;
    for (int i = 0; i < kColumns; ++i) sum += elements(poroot)[context.row * kColumns + i];
    return sum;
  }
  static void printAll(void* poroot, const PrintAllContext&) {
    for (int row = 0; row < kRows; ++row)
      std::printf("row %d: %d\n", row, rowSum(poroot, RowSumContext{row}));
  }
};
