// What the functions of a program do, as far as it matters for whether a call may be deferred: what
// each pointer may lead to, what is read and written through it, and who is called. Made of one
// translation unit at a time (extract.hpp), so that no syntax tree outlives its unit, and joined to
// a program, of which solve.hpp finds the effects of each function.
//
// It is an inclusion analysis that looks at no order: a function is a set of facts, as in
// Andersen's analysis of pointers (Program Analysis and Specialization for the C Programming
// Language, 1994). Members are not told apart: what one member of a variable may lead to, all may.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace perdura::source {

using Id = std::uint32_t;
inline constexpr Id kNone = ~Id{0};

/// A place in a file, of which `file` is the index in Program::files.
struct Place {
  Id file = kNone;
  unsigned line = 0;
  unsigned column = 0;
  auto operator<=>(const Place&) const = default;
};

/// Why a method is not deferrable. docs/tools.md has a paragraph for each.
enum class Kind : std::uint8_t {
  kReturns,
  kGlobal,
  kThreadLocal,
  kArgument,
  kMember,
  kKeptPointer,
  kKeepsAddress,
  kUnknownPointer,
  kAddressAsNumber,
  kNoSource,
  kMemory,
  kVirtual,
  kIndirect,
  kThrows,
  kAssembler,
  kFence,
  kUnsupported,
};
inline constexpr int kKinds = static_cast<int>(Kind::kUnsupported) + 1;

/// Names of what has none in the source: its sentences do not call it a variable.
inline constexpr const char* kSeveral = "one of several";
inline constexpr const char* kConstantName = "a constant";

/// Memory outside of the object and of the locals of the call, or what leads there.
struct Outside {
  Kind kind;
  std::string name;  ///< of what is there: "counter", or what the pointer is
  Place place;       ///< where that is declared, or was made
  auto operator<=>(const Outside&) const = default;
};

/// What a pointer may lead to, within one function. The index is that of a local or a parameter of
/// the function, or of what the program knows of that kind.
struct Target {
  enum Class : std::uint8_t {
    kLocal,
    kParameter,  ///< what a parameter leads to; 0 is `this` in methods
    kReach,      ///< what pointers there lead to, and theirs: parameter << kDepthBits | depth
    kCaptured,   ///< the same, of a closure that is `depth` pointers behind a parameter, through
                 ///< what it has by reference: variables alone, and what these lead to
    kPoroot,     ///< the memory of the object of a POBase class that is there, as with kReach
    kConstant,
    kFunction,
    kOutside,
    kTold,  ///< what a call answered that is a reason by itself, or memory whose allocation is one
  };
  Class kind;
  Id index;

  static constexpr unsigned kIndexBits = 28;
  /// How many pointers are followed from a parameter: of this many it is as many or more.
  static constexpr unsigned kDepthBits = 3;
  static constexpr unsigned kDepthMax = 4;
  /// The index in kTold of a null pointer.
  static constexpr Id kNull = 1;
  /// The index of a local of another function, that is still there.
  static constexpr Id kElsewhere = (1u << kIndexBits) - 1;
  std::uint32_t code() const { return std::uint32_t{kind} << kIndexBits | index; }
  static Target of(std::uint32_t code) {
    return {static_cast<Class>(code >> kIndexBits), code & ((1u << kIndexBits) - 1)};
  }
  /// What is `depth` pointers behind what the parameter leads to.
  static Target behind(Id parameter, unsigned depth) {
    if (depth == 0) return {kParameter, parameter};
    return {kReach, parameter << kDepthBits | (depth < kDepthMax ? depth : kDepthMax)};
  }
  /// `steps` pointers behind the variables.
  static Target captured(Id parameter, unsigned depth, unsigned steps) {
    return {kCaptured, (parameter << kDepthBits | depth) << kDepthBits |
                           (steps < kDepthMax ? steps : kDepthMax)};
  }
  static Target poroot_behind(Id parameter, unsigned depth) {
    return {kPoroot, parameter << kDepthBits | (depth < kDepthMax ? depth : kDepthMax)};
  }
  Id parameter() const {
    return kind == kParameter  ? index
           : kind == kCaptured ? index >> 2 * kDepthBits
                               : index >> kDepthBits;
  }
  unsigned depth() const {
    return kind == kParameter
               ? 0
               : (kind == kCaptured ? index >> kDepthBits : index) & ((1u << kDepthBits) - 1);
  }
  unsigned steps() const { return kind == kCaptured ? index & ((1u << kDepthBits) - 1) : 0; }
  /// Known only when it is known what the function is called with.
  bool is_symbolic() const {
    return kind == kParameter || kind == kReach || kind == kCaptured || kind == kPoroot;
  }
};

/// Of a kRead: single bytes of something; or what is only put somewhere else, as memcpy does.
inline constexpr char kReadBytes[] = "bytes";
inline constexpr char kReadCopied[] = "copied";

struct Fact {
  enum What : std::uint8_t {
    kCopy,         ///< `to` leads where `from` does
    kAddress,      ///< `to` leads to `target`
    kLoad,         ///< `to` leads where what is at `from` does, and that is read
    kContent,      ///< the same, and nothing is read that counts: a reference, a temporary
    kStore,        ///< what is at `to` leads where `from` does, and is written
    kRead,         ///< what is at `from`, numbers
    kWrite,        ///< what is at `to`, numbers
    kLoadPoroot,   ///< `to` leads to the memory of the object at `from`
    kReinterpret,  ///< what is at `to` is seen as type `name`, or has bytes of `from`
    kReturn,       ///< `from` is returned
    kCall,         ///< calls[call]
    kReason,       ///< `kind` at `place`, whoever calls
  };
  What what;
  Kind kind = Kind::kUnsupported;
  Id to = kNone;
  Id from = kNone;
  Target target{};
  Id call = kNone;
  Place place{};
  std::string name{};  ///< of a reason: what is meant; of kRead: kReadBytes, kReadCopied, or ""
};

struct Call {
  std::string callee{};       ///< the key of a function; "": by a pointer
  std::string name{};         ///< as people write it
  Id pointer = kNone;         ///< the value called, where it is by a pointer
  std::vector<Id> arguments;  ///< values; kNone: one that leads nowhere
  Id result = kNone;
  bool guarded = false;  ///< what it throws is caught here
  /// The facts beside it say what the library's function of this name does. It counts where a unit
  /// defines one, which is then called instead.
  bool has_model = false;
};

/// A variable or a temporary.
struct Local {
  std::string type{};  ///< "" where nobody may see it as another type
  bool has_pointers = false;
  bool has_bytes = false;   ///< characters, in which anything may lie
  bool is_pointer = false;  ///< or several, and nothing else
  bool is_object = false;   ///< of a class that derives from POBase
};

/// What a parameter's type says of where it leads.
enum class Leads : std::uint8_t {
  kAnywhere,
  kToObject,     ///< by a pointer, so that no function is there
  kByReference,  ///< the same; what is there is handed on, a function's address among it
};

struct Function {
  std::string key;   ///< the same in all translation units
  std::string name;  ///< as people write it
  Place place;
  bool has_this = false;
  bool is_of_closure = false;  ///< the operator of a lambda
  std::vector<Leads> leads{};  ///< by parameter
  Id parameters = 0;           ///< with `this`
  Id values = 0;               ///< how many there are; the first ones are the parameters'
  std::vector<Local> locals;
  std::vector<Fact> facts;
  std::vector<Call> calls;
};

/// A constant with static storage: what its pointers lead to.
struct Constant {
  std::string key;
  std::vector<Target> content{};  ///< of constants, functions and outside
  bool is_defined = false;        ///< in a unit that was looked at
  Id otherwise = kNone;           ///< what it is outside, where it is not
};

/// How a method is told to be by its programmer, or found by the tool.
enum class Verdict : std::uint8_t { kNothing, kDeferrable, kInstant, kRead };

struct Parameter {
  std::string type;
  std::string name;
  bool is_reference = false;
  bool is_owned = false;   ///< and may change it, T&&
  bool is_copied = false;  ///< a call that is logged has what it leads to, not where that is
};

/// A method to be judged.
struct Method {
  std::string key;
  std::string owner;  ///< the class
  std::string name;   ///< without the class
  std::string signature;
  Place place;
  /// Its declarations elsewhere; also in units that see other lines of a file, or another file.
  std::vector<Place> other_places;
  bool is_const = false;
  bool returns = false;
  bool has_body = true;
  bool is_variadic = false;
  bool answers_address = false;
  bool of_memory = false;  ///< its class derives from POBase: the object is the memory at poroot
  std::vector<Parameter> parameters;  ///< without `this`
  Verdict said = Verdict::kNothing;   ///< by a directive, an attribute or Methods<>
  Place said_at;
};

struct Program {
  std::vector<std::string> files;
  std::vector<bool> is_system;  ///< of files: a header of the system
  std::vector<Outside> outsides;
  std::vector<Constant> constants;
  std::vector<std::string> function_keys;                               ///< of Target::kFunction
  std::map<std::string, std::vector<Function>, std::less<>> functions;  ///< by key; mostly one
  std::map<std::string, Method, std::less<>> methods;                   ///< by key

  Id file(const std::string& path, bool system);
  Id outside(const Outside& outside);
  Id constant(const std::string& key);  ///< made where there is none
  Id function(const std::string& key);
  /// Takes over what another unit has; functions that it has otherwise are both kept.
  void join(Program&& unit);
  /// When all units are there: what none of them defines as a constant is outside.
  void settle_constants();

 private:
  std::map<std::string, Id, std::less<>> file_ids_;
  std::map<Outside, Id> outside_ids_;
  std::map<std::string, Id, std::less<>> constant_ids_;
  std::map<std::string, Id, std::less<>> function_ids_;
};

const char* name_of(Kind kind);

}  // namespace perdura::source
