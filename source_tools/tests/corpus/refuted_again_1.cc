// What was once called deferrable by other ways, and is not.
#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "library_of_others.hpp"

extern int counted;
int changed = 0;

// --- lambdas as functions in constants

struct Operations {
  void (*run)(int&);
};
constexpr Operations kOperations{[](int& n) { n = ++changed; }};  // because: by_constexpr global; because: read_by_constexpr global
const Operations kConst{[](int& n) { n = ++changed; }};  // because: by_const global
inline constexpr auto kPlus = +[](int& n) { n = ++changed; };  // because: by_plus global
static constexpr std::array<void (*)(int&), 2> kArray{[](int& n) { ++n; }, [](int& n) { n = ++changed; }};  // because: by_array global
constexpr Operations kGeneric{[](auto& n) { n = ++changed; }};  // because: by_generic global
constexpr Operations kHarmless{[](int& n) { ++n; }};
template <auto F>
void call(int& n) {
  F(n);
}

// --- destructors

struct Fault : std::exception {
  int code = 0;
  ~Fault() override;
};
struct Guard {
  constexpr Guard() {}
  ~Guard() { ++changed; }
};
struct Argument {
  int value;
  ~Argument() { ++changed; }  // because: owned_argument global
};

// --- addresses that become numbers by their bytes

template <class T>
T punned(const void* from) {
  T to;
  std::memcpy(&to, from, sizeof to);
  return to;  // because: by_template address_as_number
}
struct Number {
  long value;
};
struct Key {
  const void* at;
  int number;
};
void moved(void* to, const void* from) {
  for (int i = 0; i < 8; ++i)
    static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];  // because: by_loop address_as_number
}

struct Refuted {
  int n;
  long wide;
  char text[64];

  void by_constexpr() { kOperations.run(n); }  // expect: instant
  int read_by_constexpr() const {  // expect: instant; because: read_by_constexpr returns
    int copy = n;
    kOperations.run(copy);
    return copy;
  }
  void by_const() { kConst.run(n); }  // expect: instant
  void by_plus() { kPlus(n); }  // expect: instant
  void by_array() { kArray[n & 1](n); }  // expect: instant
  void by_generic() { kGeneric.run(n); }  // expect: instant
  void by_harmless() { kHarmless.run(n); }  // expect: deferrable
  void by_argument() { call<+[](int& k) { k = ++changed; }>(n); }  // expect: instant; because: by_argument global
  void by_closure() { call<[](int& k) { k = ++changed; }>(n); }  // expect: instant; because: by_closure global

  void logs() { log("sold"); }  // expect: instant
  void floors() { Vector3 v{1.5}; floor(v); n = static_cast<int>(v.x); }  // expect: instant
  void prefetches() { prefetch(1); }  // expect: instant; because: prefetches no_source
  void asks_inf() { n = inf(1); }  // expect: instant; because: asks_inf no_source
  void searches() { n = std::strchr(text, 'a') != nullptr; }  // expect: deferrable

  void ends_fault() { Fault fault; n = fault.code; }  // expect: instant
  void catches_fault() { try { throw Fault(); } catch (...) { n = 1; } }  // expect: instant
  void ends_exception() { std::exception nothing; (void)nothing; }  // expect: deferrable
  void keeps_guard() { static const Guard guard; ++n; }  // expect: instant; because: keeps_guard global
  int reads_with_guard() const { static const Guard guard; return n; }  // expect: instant; because: reads_with_guard global; because: reads_with_guard returns
  void owned_argument(Argument argument) { n = argument.value; }  // expect: instant

  void by_template() { int* p = &n; wide = punned<long>(&p); }  // expect: instant
  void by_structure() { Number to; int* p = &n; std::memcpy(&to, &p, 8); wide = to.value; }  // expect: instant; because: by_structure address_as_number
  void by_loop() { int* p = &n; moved(text, &p); }  // expect: instant
  void by_span() { int* p = &n; for (auto b : std::as_bytes(std::span(&p, 1))) n += static_cast<int>(b); }  // expect: instant; because: by_span address_as_number
  void by_comparison() { const void* p = this; n = std::memcmp(&p, text, 8) < 0; }  // expect: instant; because: by_comparison address_as_number
  void by_key() { Key a{this, 1}, b{this + 1, 2}; n = std::memcmp(&a, &b, sizeof a); }  // expect: instant; because: by_key address_as_number
  void by_copied_string() { int* p = &n; void* v = &p; std::strncpy(text, static_cast<char*>(v), 8); }  // expect: instant; because: by_copied_string address_as_number
  void by_alignment() { char* q = __builtin_align_up(text, 64); n = static_cast<int>(q - text); }  // expect: instant; because: by_alignment address_as_number
  void by_register() { register long sp asm("rsp"); wide = sp; }  // expect: instant; because: by_register assembler
  void copies_pointers() {  // expect: deferrable
    int* from[2] = {&n, nullptr};
    int* to[2];
    std::memcpy(to, from, sizeof to);
    Key key{to[0], 3};
    const Key copy = key;
    *to[0] = copy.number;
  }
  void copies_numbers(int k) {  // expect: deferrable
    const Number from{k};
    wide = punned<long>(&from);
    moved(text, &from);
  }
};
