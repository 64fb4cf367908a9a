// Which type an allocation makes objects of: what the compiler sees of it where it is called.
#pragma once

#include <string>
#include <vector>

#include <clang/AST/Expr.h>

#include "records.hpp"

namespace perdura::types {

/// Whether it has a layout here: it is complete, and no function.
bool is_known(clang::QualType type);

/// What the size says.
struct Size {
  enum class Form {
    kUnknown,  ///< nothing
    kOne,      ///< sizeof(T)
    kArray,    ///< n * sizeof(T)
    kMore,     ///< sizeof(T) + …
  };
  Form form = Form::kUnknown;
  std::vector<clang::QualType> types;  ///< of all sizeofs, each once
  uint64_t constant = 0;               ///< its value, 0: not known here
  bool is_elsewhere = false;  ///< the first type need not be at the beginning: as of MAX(…), 8 + …
  bool has_integers_for_pointers = false;  ///< among the sizeofs
};
Size size_of(const clang::ASTContext& context, const clang::Expr* size);
/// Of calloc.
Size product(Size a, Size b);

struct Deduced {
  RecordPtr record;  ///< nullptr: none
  unsigned shape = 0;
  std::string doubt;  ///< what is to be said of it, or ""
};
/// `pointee` is what the result is a pointer to where it is used; null, or void: nothing is known.
Deduced deduce(Records& records, const clang::ASTContext& context, clang::QualType pointee,
               const Size& size);

}  // namespace perdura::types
