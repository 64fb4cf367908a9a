// Type records as the plugin makes them of types in the program (perdura/type.h), and what the
// plugin's two halves hand over: the front end marks calls, the pass replaces what is marked.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <clang/AST/ASTContext.h>
#include <clang/AST/Type.h>

namespace perdura::types {

inline constexpr uint64_t kWord = 8;  ///< bytes of a pointer

struct Record;

/// Whether a type is written as one of the integers that are there to hold pointers. Of a canonical
/// type nobody knows that any more.
bool is_integer_for_pointers(clang::QualType type);
/// Characters, or std::byte: what buffers are made of.
bool is_byte(clang::QualType type);
/// Whether it is annotated with this text, as by the macros of perdura/typed.h.
bool has_annotation(const clang::Decl* decl, llvm::StringRef text);

struct Slot {
  std::string member;
  uint32_t kind = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;  ///< 0: a flexible array
  std::shared_ptr<const Record> value;
  uint64_t tag_offset = 0;
  uint32_t tag_bytes = 0;
  uint64_t tag_value = 0;
};

struct Record {
  std::string name;
  uint64_t size = 0;
  uint64_t alignment = 1;
  std::vector<Slot> slots;
  std::string refused;  ///< why objects of it can have no record, or ""

  bool has_pointers() const { return !slots.empty(); }
  bool has_tail() const { return !slots.empty() && slots.back().bytes == 0; }
  /// Of all that it says: the symbol's name, so that the linker keeps one of each.
  std::string key() const;
};
using RecordPtr = std::shared_ptr<const Record>;

/// Makes records of types, each once.
class Records {
 public:
  explicit Records(clang::ASTContext& context) : context_(context) {}

  /// Of a complete type that depends on nothing.
  RecordPtr of(clang::QualType type);
  /// One object, behind which are words that may be pointers.
  RecordPtr with_more(const RecordPtr& record);
  /// Words that may be pointers.
  RecordPtr words();
  /// What `new T[n]` makes that keeps n in front.
  RecordPtr behind_cookie(const RecordPtr& record, uint64_t cookie);

 private:
  class Builder;
  std::string name_of(clang::QualType type) const;

  clang::ASTContext& context_;
  std::map<const void*, RecordPtr> known_;  ///< by canonical types
};

constexpr unsigned kNoShape = ~0u;

/// What the pass makes of calls of a function that the front end has put in a call's place.
struct Marked {
  std::string callee;  ///< what is called instead
  RecordPtr record;    ///< handed over besides, with the shape
  unsigned shape = 0;  ///< kNoShape: none
  enum class Kind { kTyped, kUntyped, kTag, kRecord } kind = Kind::kTyped;
  std::string place;       ///< of an untyped one
  std::string called;      ///< and what is called there
  int size = -1;           ///< the argument that is the size, of what is tagged
  unsigned arguments = 0;  ///< of how many
  unsigned taker = 0;      ///< of marks that differ in it alone, the one that takes the memory
  bool is_buffer = false;  ///< words, where by itself it would be characters or numbers
  bool has_end = false;    ///< a byte more, so that a pointer to its end leads to it
};
/// By the names of these functions. One in a process: a compilation.
std::map<std::string, Marked>& marked();
/// Whether stores of pointers are checked (audit.hpp).
bool& audits();

}  // namespace perdura::types
