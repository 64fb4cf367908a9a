// Functions of the C library that store through pointers which they are given. A call of one in
// code that is compiled to report becomes one of __perdura_NAME (compiler/runtime/libc.cc), which
// reports and calls it: so that code of others that calls it is left as it is.
//
// The list has their types, result first: v nothing, p a pointer, i and l integers of 32 and 64
// bits, d a double, a dot for more of any type; * is not compared. A function of such a name and of
// another type is the program's own, as many a getline().
#pragma once

#include <string>

#include <llvm/ADT/StringSwitch.h>
#include <llvm/IR/Function.h>

namespace perdura::compiler {

inline char letter_of(const llvm::Type& type) {
  if (type.isVoidTy()) return 'v';
  if (type.isPointerTy()) return 'p';
  if (type.isIntegerTy(32)) return 'i';
  if (type.isIntegerTy(64)) return 'l';
  return type.isDoubleTy() ? 'd' : '?';
}

inline bool stores_for_others(const llvm::Function& function) {
#define PERDURA_LIBRARY_CALL(name, type) .Case(#name, type)
  const llvm::StringRef known = llvm::StringSwitch<llvm::StringRef>(function.getName())
#include "library_calls.inc"
                                    .Default("");
#undef PERDURA_LIBRARY_CALL
  if (known.empty() || known == "*") return !known.empty();
  const llvm::FunctionType& type = *function.getFunctionType();
  std::string letters(1, letter_of(*type.getReturnType()));
  for (const llvm::Type* each : type.params()) letters += letter_of(*each);
  if (type.isVarArg()) letters += '.';
  return known == letters;
}

}  // namespace perdura::compiler
