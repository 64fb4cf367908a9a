#include "models.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace perdura::source {
namespace {

const std::map<std::string_view, FunctionModel>& models() {
  static const std::map<std::string_view, FunctionModel> kModels = {
      {"memcpy", {"cs.", 0}},        {"memmove", {"cs.", 0}},
      {"mempcpy", {"cs.", 0}},       {"memcpy_inline", {"cs.", -1}},
      {"memset", {"w..", 0}},        {"memset_inline", {"w..", -1}},
      {"bzero", {"w.", -1}},         {"memcmp", {"rr.", -1}},
      {"bcmp", {"rr.", -1}},         {"memchr", {"r..", 0}},
      {"memrchr", {"r..", 0}},       {"char_memchr", {"r..", 0}},
      {"strlen", {"r", -1}},         {"strnlen", {"r.", -1}},
      {"strcpy", {"wr", 0}},         {"stpcpy", {"wr", 0}},
      {"strncpy", {"wr.", 0}},       {"stpncpy", {"wr.", 0}},
      {"strcat", {"br", 0}},         {"strncat", {"br.", 0}},
      {"strcmp", {"rr", -1}},        {"strncmp", {"rr.", -1}},
      {"strchr", {"r.", 0}},         {"strrchr", {"r.", 0}},
      {"strchrnul", {"r.", 0}},      {"strstr", {"rr", 0}},
      {"strspn", {"rr", -1}},        {"strcspn", {"rr", -1}},
      {"strpbrk", {"rr", 0}},        {"wcslen", {"r", -1}},
      {"wmemcpy", {"wr.", 0}},       {"wmemmove", {"wr.", 0}},
      {"wmemset", {"w..", 0}},       {"wmemcmp", {"rr.", -1}},
      {"wmemchr", {"r..", 0}},       {"wcscmp", {"rr", -1}},
      {"frexp", {".w", -1}},         {"frexpf", {".w", -1}},
      {"frexpl", {".w", -1}},        {"modf", {".w", -1}},
      {"modff", {".w", -1}},         {"modfl", {".w", -1}},
      {"remquo", {"..w", -1}},       {"remquof", {"..w", -1}},
      {"remquol", {"..w", -1}},      {"nan", {"r", -1}},
      {"nanf", {"r", -1}},           {"nans", {"r", -1}},
      {"va_start", {"w", -1}},       {"va_end", {"w", -1}},
      {"va_copy", {"cs", -1}},       {"launder", {".", 0}},
      {"_Hash_bytes", {"r..", -1}},  {"_Fnv_hash_bytes", {"r..", -1}},
      {"assume_aligned", {"..", 0}}, {"prefetch", {".", -1}},
  };
  return kModels;
}

/// Of numbers alone. For those of <cmath> also with f and l behind the name.
const std::set<std::string_view>& math() {
  static const std::set<std::string_view> kNames = {
      "acos",  "acosh",    "asin",      "asinh",  "atan",   "atan2",     "atanh",     "cbrt",
      "ceil",  "copysign", "cos",       "cosh",   "erf",    "erfc",      "exp",       "exp2",
      "exp10", "expm1",    "fabs",      "fdim",   "floor",  "fma",       "fmax",      "fmin",
      "fmod",  "hypot",    "ilogb",     "ldexp",  "llrint", "llround",   "log",       "log10",
      "log1p", "log2",     "logb",      "lrint",  "lround", "nearbyint", "nextafter", "nexttoward",
      "pow",   "powi",     "remainder", "rint",   "round",  "roundeven", "scalbln",   "scalbn",
      "sin",   "sinh",     "sqrt",      "tan",    "tanh",   "tgamma",    "trunc",     "huge_val",
      "inf",   "nans",     "cabs",      "carg",   "cexp",   "clog",      "cpow",      "csqrt",
      "csin",  "ccos",     "ctan",      "csinh",  "ccosh",  "ctanh",     "casin",     "cacos",
      "catan", "casinh",   "cacosh",    "catanh", "conj",   "cproj",     "creal",     "cimag"};
  return kNames;
}
const std::set<std::string_view>& numbers() {
  static const std::set<std::string_view> kNames = {
      "abs",        "labs",         "llabs",         "imaxabs",       "div",       "ldiv",
      "lldiv",      "ffs",          "ffsl",          "ffsll",         "isnan",     "isinf",
      "isdigit",    "isxdigit",     "isascii",       "toascii",       "finite",    "signbit",
      "htons",      "htonl",        "ntohs",         "ntohl",         "__signbit", "__signbitf",
      "__signbitl", "__fpclassify", "__fpclassifyf", "__fpclassifyl", "__isnan",   "__isnanf",
      "__isinf",    "__isinff",     "__finite",      "__finitef"};
  return kNames;
}
const std::set<std::string_view>& builtins() {
  static const std::set<std::string_view> kNames = {
      "expect",
      "expect_with_probability",
      "unreachable",
      "trap",
      "assume",
      "constant_p",
      "is_constant_evaluated",
      "object_size",
      "dynamic_object_size",
      "isnan",
      "isinf",
      "isinf_sign",
      "isfinite",
      "isnormal",
      "issignaling",
      "isgreater",
      "isgreaterequal",
      "isless",
      "islessequal",
      "islessgreater",
      "isunordered",
      "signbit",
      "signbitf",
      "signbitl",
      "fpclassify",
      "classify_type",
      "types_compatible_p",
      "bitreverse8",
      "bitreverse16",
      "bitreverse32",
      "bitreverse64",
      "align_up",
      "align_down",
      "ia32_pause",
      "debugtrap",
      "verbose_trap",
      "unpredictable",
      "is_fpclass",
      "complex",
      "subcb",
      "subc",
      "addcb",
      "addc",
      "subcl",
  };
  return kNames;
}

}  // namespace

const FunctionModel* model_of(std::string_view name, bool is_builtin) {
  static constexpr FunctionModel kNumbersAlone{"", -1};
  const auto at = models().find(name);
  if (at != models().end()) return &at->second;
  if (math().contains(name) || numbers().contains(name)) return &kNumbersAlone;
  if (name.size() > 1 && (name.back() == 'f' || name.back() == 'l') &&
      math().contains(name.substr(0, name.size() - 1)))
    return &kNumbersAlone;
  if (!is_builtin) return nullptr;
  // Vectors and overloads of the compiler's.
  if (builtins().contains(name) || name.starts_with("elementwise_") ||
      name.starts_with("reduce_") || name.starts_with("rotate") || name.starts_with("bswap") ||
      name.starts_with("clz") || name.starts_with("ctz") || name.starts_with("clrsb") ||
      name.starts_with("popcount") || name.starts_with("parity"))
    return &kNumbersAlone;
  return nullptr;
}

bool is_allocator(std::string_view name) {
  static const std::set<std::string_view> kNames = {
      "malloc",        "calloc",   "realloc",        "reallocarray", "free",
      "aligned_alloc", "memalign", "posix_memalign", "valloc",       "pvalloc",
      "strdup",        "strndup",  "cfree",          "free_sized",   "free_aligned_sized",
      "mmap",          "munmap",   "sbrk",           "operator_new", "operator_delete"};
  return kNames.contains(name);
}

std::string_view variable_behind(std::string_view name) {
  // Which bytes are letters or white space, and what a decimal point is, setlocale() changes: a
  // call that runs again after a restart may find other ones. atoi() and strtol() skip white space
  // and may take other numbers than those of C (C17 7.22.1.4). isdigit() and isxdigit() are not
  // here: of them C says which characters they are (7.4.1.5, 7.4.1.12).
  static constexpr std::string_view kLocale = "the locale";
  static const std::set<std::string_view> kReadersOfLocale = {"isalnum",
                                                              "isalpha",
                                                              "isblank",
                                                              "iscntrl",
                                                              "isgraph",
                                                              "islower",
                                                              "isprint",
                                                              "ispunct",
                                                              "isspace",
                                                              "isupper",
                                                              "tolower",
                                                              "toupper",
                                                              "iswalnum",
                                                              "iswalpha",
                                                              "iswblank",
                                                              "iswcntrl",
                                                              "iswgraph",
                                                              "iswlower",
                                                              "iswprint",
                                                              "iswpunct",
                                                              "iswspace",
                                                              "iswupper",
                                                              "towlower",
                                                              "towupper",
                                                              "atoi",
                                                              "atol",
                                                              "atoll",
                                                              "atof",
                                                              "strtol",
                                                              "strtoll",
                                                              "strtoul",
                                                              "strtoull",
                                                              "strtof",
                                                              "strtod",
                                                              "strtold",
                                                              "strtoimax",
                                                              "mblen",
                                                              "mbtowc",
                                                              "wctomb",
                                                              "mbstowcs",
                                                              "wcstombs",
                                                              "strtoumax",
                                                              "strcoll",
                                                              "strxfrm",
                                                              "setlocale",
                                                              "strcasecmp",
                                                              "strncasecmp",
                                                              "localeconv",
                                                              "__ctype_b_loc",
                                                              "__ctype_tolower_loc",
                                                              "__ctype_toupper_loc"};
  if (kReadersOfLocale.contains(name)) return kLocale;
  // The sign of what it answers is left there (POSIX).
  static const std::set<std::string_view> kWritersOfSign = {"lgamma", "lgammaf", "lgammal",
                                                            "gamma"};
  return kWritersOfSign.contains(name) ? "signgam" : "";
}

bool ends_program(std::string_view name) {
  static const std::set<std::string_view> kNames = {
      "abort",       "__assert_fail", "__assert_perror_fail",  "__assert",          "terminate",
      "unreachable", "trap",          "__glibcxx_assert_fail", "__cxa_pure_virtual"};
  return kNames.contains(name);
}

}  // namespace perdura::source
