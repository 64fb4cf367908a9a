#!/usr/bin/env python3
"""Draws sources with all that C++ and C have, in all nestings, and lets the tools look at them: they
may not crash, and each source that the compiler takes is judged. To half of the sources a token is
added or taken away, so that most of these do not compile: that is said.

  drawn_sources.py PERDURA-SOURCE [--seconds N] [--seed S] [--work FOLDER]
"""
import argparse
import pathlib
import random
import re
import subprocess
import sys
import time

HEAD = r"""
#include <atomic>
#include <compare>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
class POBase {
 public:
  explicit POBase(int, int = 0);
 protected:
  void* poroot;
};
enum Color { kRed, kGreen };
enum class Mode : char { kOn, kOff };
struct Point { int x, y; auto operator<=>(const Point&) const = default; };
struct Bits { unsigned a : 3, b : 5; int* at; };
union Word { int number; float real; int* at; struct { short low, high; }; };
struct Animal { virtual ~Animal(); virtual int sound() const { return 1; } int legs = 4; };
struct Left : virtual Animal { int sound() const override { return 2; } };
struct Right : virtual Animal {};
struct Both final : Left, Right { int sound() const override { return Left::sound() + legs; } };
struct Counter {
  int* at;
  explicit Counter(int* p = nullptr) : at(p) { if (at) ++*at; }
  Counter(const Counter& other) : at(other.at) {}
  Counter(Counter&& other) noexcept : at(std::exchange(other.at, nullptr)) {}
  Counter& operator=(Counter other) { std::swap(at, other.at); return *this; }
  ~Counter() { if (at) --*at; }
  operator int() const { return at ? *at : 0; }
  int operator()(int i) const { return i + 1; }
  int& operator[](int i) { return at[i]; }
  Counter& operator++() { ++*at; return *this; }
  static void* operator new(std::size_t size) { return std::malloc(size); }
  static void operator delete(void* p) { std::free(p); }
};
template <class T, int N = 4>
struct Row {
  T values[N] = {};
  T* begin() { return values; }
  T* end() { return values + N; }
  template <class F> auto each(F f) { for (T& value : values) f(value); return *this; }
  friend bool operator==(const Row& a, const Row& b) { return a.values[0] == b.values[0]; }
};
template <class Derived>
struct Crtp { int run() { return static_cast<Derived*>(this)->step(); } };
struct Stepping : Crtp<Stepping> { int value = 1; int step() { return ++value; } };
template <class... A> int sum(A... all) { return (0 + ... + static_cast<int>(all)); }
template <class T> concept Number = requires(T t) { t + t; };
template <Number T> T twice(T t) { return t + t; }
template <auto V> int constant() { return V; }
template <class T> constexpr int kSizeOf = sizeof(T);
int any(int count, ...) {
  va_list list, copy;
  va_start(list, count);
  va_copy(copy, list);
  int all = 0;
  while (count-- > 0) all += va_arg(list, int);
  va_end(copy);
  va_end(list);
  return all;
}
int mixed(const char*, ...);
int table[8] = {1, 2, [](int i) { return i; }(3)};
const char* const kNames[] = {"a", "b"};
constexpr Point kPoint{1, 2};
thread_local int of_thread;
int (*by_pointer)(int) = [](int i) { return i; };
int twice_of(int i) try { return i * 2; } catch (...) { return 0; }
void clean(int* p) { *p = 0; }
long operator""_km(unsigned long long n) { return static_cast<long>(n) * 1000; }
namespace inner { inline namespace v1 { int hidden = 3; int look(Point p) { return p.x; } } }
typedef int Vector __attribute__((vector_size(16)));
typedef int Function(int);
"""

NUMBERS = [
    "n", "42", "p[1]", "*p", "s.x", "kPoint.y", "table[n & 7]", "of_thread", "inner::hidden",
    "sum(n, 2, 3L)", "twice(n)", "constant<7>()", "any(2, n, 3)", "static_cast<int>(7_km)",
    "sizeof(Point)", "kSizeOf<Bits>", "alignof(Both)", "by_pointer(n)", "twice_of(n)",
    "static_cast<int>(d)", "int(kGreen)", "static_cast<int>(Mode::kOff)", "b.a", "w.number",
    "(n > 2 ? n : *p)", "(n ?: 3)", "(n, *p)", "-n", "~n", "!n", "n++", "--n", "(n += 2)",
    "n << (n & 3)", "animal.sound()", "both.sound()", "both.Left::sound()",
    "static_cast<Animal&>(both).sound()", "stepping.run()", "row.values[n & 3]", "counter",
    "counter(n)", "counter[0]", "(s.*member)", "((&s)->*member)", "(*method)(n)",
    "[&] { return n + s.y; }()", "[=, k = n]() mutable { return k++; }()",
    "[](auto... a) { return (a + ... + 0); }(n, 2)", "std::get<0>(std::tuple(n, d))",
    "__builtin_popcount(static_cast<unsigned>(n))", "__builtin_expect(n, 1)",
    "__atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST)", "__sync_fetch_and_add(p, 2)", "atom.load()",
    "atom.fetch_add(2)", "__builtin_constant_p(n)", "__builtin_bit_cast(int, f)",
    "static_cast<int>(reinterpret_cast<std::uintptr_t>(p))", "static_cast<int>(strlen(kNames[0]))",
    "memcmp(p, p, 4)", "noexcept(n + 1)", "static_cast<int>(typeid(both) == typeid(animal))",
    "({ int inside = n; inside + 1; })", "(Point{n, 2} < s)", "Point{.x = n, .y = 1}.y",
    "vector[n & 3]", "__real__ complex", "static_cast<int>(offsetof(Point, y))", "inner::look(s)",
    "(dynamic_cast<Both*>(&animal) != nullptr)", "std::atomic_ref<int>(*p).load()",
    "requires { n + 1; }", "__LINE__", "(throw n, 1)", "(delete pn(), 1)", "*new int(3)",
    "std::as_const(s).x", "std::move(s).y", "std::addressof(n)[0]", "(&table[3] - &table[1])",
    "reinterpret_cast<char&>(n)", "const_cast<const int&>(n)", "mixed(\"%d\", n)",
    "[this] { return *static_cast<int*>(poroot); }()", "[*this] { return 1; }()",
    "static_cast<int*>(poroot)[n & 7]", "static_cast<Point*>(this->poroot)->x", "helper(n)",
    "generic(n)", "this->template generic<int>(n)"]
POINTERS = [
    "p", "&n", "&s.x", "table", "row.begin()", "static_cast<int*>(poroot)", "p + (n & 1)",
    "nullptr", "(n ? p : &n)", "&table[n & 7]", "b.at", "w.at", "counter.at", "*slot",
    "static_cast<int*>(__builtin_alloca(16))", "new int[4]{1, 2}", "(p = &n)", "&*p", "p++",
    "reinterpret_cast<int*>(&d)", "static_cast<int*>(static_cast<void*>(&s))", "std::launder(p)",
    "reinterpret_cast<int*>(static_cast<std::uintptr_t>(n))", "const_cast<int*>(&kPoint.x)",
    "[&]() -> int* { return &n; }()", "&reinterpret_cast<int&>(f)", "::new (poroot) int(4)",
    "static_cast<int*>(std::memcpy(poroot, &s, sizeof s))", "&std::get<0>(pair_of)",
    "__builtin_assume_aligned_int(p)", "&(n = 4)", "&++n", "(int[]){1, 2, 3}", "pick(p, &n)"]
STATEMENTS = [
    "N;", "*P_ = N;", "p = P;", "n = N;", "s = Point{N, N};", "s = {.x = N};", "d = N;", "f = N;",
    "{ B }", "if (N) { B } else { B }", "if (int k = N; k > 2) { n = k; B }",
    "if constexpr (sizeof(int) == 4) { B } else { B }", "while (n-- > 0) { B if (n == 3) break; }",
    "do { B } while (N);", "for (int i = 0; i < 3; ++i) { B }", "for (auto& each : row) each = N;",
    "for (int each : {1, 2, N}) n += each;", "switch (N) { case 1: n = 2; break; case 3 ... 5: "
    "[[fallthrough]]; default: B }", "try { B } catch (const Point& e) { n = e.x; } catch (...) { }",
    "try { B throw N; } catch (int e) { n = e; throw; }", "auto [x_, y_] = s; x_ += y_;",
    "auto& [x_, y_] = s; x_ = N;", "const auto f_ = [&](auto k) { n += k; return k; }; f_(N);",
    "struct Inside { int v; int get() const { return v; } } in{N}; n = in.get();",
    "static int calls = 0; ++calls;", "static const int kOnce = N; n += kOnce;",
    "thread_local int own = 1; own += N;", "volatile int hot = N; n = hot;",
    "int many[n & 7 ? 4 : 2]; many[0] = N;", "__attribute__((cleanup(clean))) int c_ = N; (void)c_;",
    "Counter c_(P); n = c_;", "Counter c_ = Counter(&n); c_ = Counter(&n);", "delete new Counter(&n);",
    "Animal* a_ = n ? static_cast<Animal*>(&both) : &animal; n = a_->sound();",
    "Word w_; w_.at = P; n = w_.number;", "b.a = N & 7; b.at = P;", "asm(\"\" : \"+r\"(n));",
    "asm volatile(\"\" ::: \"memory\");", "goto out_; out_: n = N;",
    "void* label_ = &&there_; goto *label_; there_: ;", "int* l_ = P; int*& r_ = l_; r_ = P; *l_ = N;",
    "int** m_ = &p; *m_ = P;", "Row<Point, 2> r_; for (Point& q : r_) q.x = N;",
    "row.each([&](int& v) { v += n; }).each([](int&) {});", "std::atomic_thread_fence(std::memory_order_seq_cst);",
    "Vector v_ = vector + vector; vector = v_ * 2;", "complex *= 2;", "int Point::* q_ = &Point::y; s.*q_ = N;",
    "Function* g_ = n ? &twice_of : by_pointer; n = g_(N);", "using T_ = decltype(n); T_ t_ = N; n = t_;",
    "static_cast<int*>(poroot)[n & 3] = N;", "std::memset(poroot, N, 4);", "s.~Point(); new (&s) Point{1, 2};",
    "typedef Row<int, 3> R_; R_ r_{{1, 2, 3}}; n = r_ == r_;", "(void)std::swap<int>;",
    "std::initializer_list<int> i_{1, 2, N}; n = *i_.begin();", "int a_[2][2] = {{1}, {N, 2}}; n = a_[1][0];",
    "const char* t_ = n ? \"x\" : kNames[1]; n = t_[0];", "const auto c_ = n <=> 2; n = c_ < 0;",
    "enum { kLocal = 3 }; n = kLocal;", "extern int elsewhere(int); n = elsewhere(N);", "return;",
    "[] [[noreturn]] { std::abort(); };", "std::tuple<int&, int> t_(n, N); std::get<0>(t_) = 3;",
    "[&, this](auto&&... a) { (static_cast<void>(a), ...); static_cast<int*>(poroot)[0] = n; }(N, P);"]

C_HEAD = r"""
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
struct node { struct node* next; int value; union { int number; int* at; } u; char rest[]; };
static int counter; extern int elsewhere(int); int old();
static inline int add(int a, int b) { return a + b; }
static int any(int n, ...) { va_list l; va_start(l, n); int r = va_arg(l, int); va_end(l); return r; }
static int (*const kFunctions[2])(int, int) = {add, add};
"""
C_STATEMENTS = [
    "o->value = N;", "n = N;", "p = P;", "*P_ = N;", "if (N) { B } else { B }", "while (n-- > 0) { B }",
    "for (int i = 0; i < 3; ++i) { B }", "switch (N) { case 1: n = 3; default: B }", "goto a_; a_: n = N;",
    "struct node l_ = {.value = N, .next = o}; l_.next->value = N;", "o->u.at = P; n = o->u.number;",
    "static int s_; s_ = N;", "int v_[n & 7 ? 3 : 2]; v_[0] = N;", "memcpy(o, p, 4);", "free(malloc(N));",
    "n = ({ int i_ = N; i_; });", "__asm__(\"\" : \"+r\"(n));", "struct node c_ = *o; *o = c_;",
    "void* l_ = &&b_; goto *l_; b_: ;", "int a_[] = {[1] = N, 2}; n = a_[0];"]
C_NUMBERS = [
    "n", "3", "*p", "o->value", "o->next->value", "counter", "add(n, 2)", "any(1, n)", "old(n, 2)",
    "elsewhere(n)", "kFunctions[n & 1](n, 2)", "_Generic(n, int: 1, default: 2)", "(int)(intptr_t)p",
    "(int)sizeof(struct node)", "((struct node){.value = n}).value", "n ? n : *p", "(n, 2)", "o->u.number",
    "(int)offsetof(struct node, u)", "__builtin_choose_expr(1, n, p)", "implicit_of(n)", "o->rest[n & 3]",
    "__atomic_load_n(p, __ATOMIC_ACQUIRE)", "(int)strlen((char*)o)", "_Alignof(struct node)", "n++"]
C_POINTERS = ["p", "&n", "&o->value", "(int*)o", "(int*)(intptr_t)n", "o->u.at", "(int[]){1, 2}", "NULL",
              "n ? p : &n", "(int*)memchr(o, 1, 2)", "&(struct node){0}.value", "(int*)alloca_of(8)"]


class Drawn:
    def __init__(self, draw, cpp):
        self.draw, self.cpp, self.names = draw, cpp, 0
        self.statements = STATEMENTS if cpp else C_STATEMENTS
        self.numbers = NUMBERS if cpp else C_NUMBERS
        self.pointers = POINTERS if cpp else C_POINTERS

    def expression(self, kind, depth):
        text = self.draw.choice(self.numbers if kind == "N" else self.pointers)
        if depth > 0 and self.draw.random() < 0.6:  # another one in place of the variable
            text = re.sub(r"(?<![\w.>])n(?![\w+\-*(\[.]|\s*[+\-]?=[^=]|\s*\+\+)",
                          lambda _: f"({self.expression('N', depth - 1)})"
                          if self.draw.random() < 0.4 and not re.search(r"&n|\+\+|--|\[&|\[=|n =|n \+=",
                                                                        text) else "n", text)
        return text

    def statement(self, depth):
        choice = self.draw.choice(self.statements)
        while depth == 0 and "B" in re.findall(r"\bB\b", choice):
            choice = self.draw.choice(self.statements)
        self.names += 1
        choice = re.sub(r"\b([a-z]+)_\b", lambda found: f"{found[1]}_{self.names}", choice)

        def filled(found):
            if found[0] == "B":
                return " ".join(self.statement(depth - 1)
                                for _ in range(self.draw.randrange(1, 3)))
            if found[0] == "P_":
                return "(" + self.draw.choice(["p", "&n", "&s.x" if self.cpp else "&o->value"]) + ")"
            return "(" + self.expression(found[0], 2) + ")"
        text = re.sub(r"\b(N|P_|P|B)\b", filled, choice)
        # Labels are of a function, others of a block.
        return text if re.search(r"\w+_\d+:", text) else "{ " + text + " }"

    def body(self):
        return "\n    ".join(self.statement(2) for _ in range(self.draw.randrange(2, 6)))


LOCALS = """    double d = 2.5; float f = 1.5f; int* p = &n; Point s{1, 2}; Bits b{1, 2, p}; Word w{3};
    Animal animal; Both both; Stepping stepping; Row<int> row; Counter counter(&n);
    int Point::* member = &Point::x; int (*method)(int) = &twice_of; std::atomic<int> atom{1};
    Vector vector = {1, 2, 3, 4}; _Complex double complex = 1.0; int** slot = &p;
    std::pair<int, int> pair_of{1, 2};
"""


def text_of(draw):
    cpp = draw.random() < 0.8
    drawn = Drawn(draw, cpp)
    if not cpp:
        parts = [C_HEAD, "static void* alloca_of(int n) { return __builtin_alloca((size_t)n); }"]
        for i in range(8):
            parts.append(f"void method{i}(struct node* o, int n, int* p) {{\n    {drawn.body()}\n}}")
        return ".c", "\n".join(parts)
    parts = [HEAD, "inline int* __builtin_assume_aligned_int(int* p) "
             "{ return static_cast<int*>(__builtin_assume_aligned(p, 4)); }",
             "int* pn() { return nullptr; } int* pick(int* a, int* b) { return *a ? a : b; }",
             "class Drawn : public POBase {", " public:", "  Drawn() : POBase(64) {}"]
    for i in range(6):
        head = draw.choice(["void method{}(int n)", "void method{}(int n) noexcept",
                            "template <class T> void method{}(T n)", "virtual void method{}(int n)",
                            "void method{}(int n) const", "[[perdura::instant]] void method{}(int n)"])
        parts.append(f"  {head.format(i)} {{\n{LOCALS}    {drawn.body()}\n  }}")
    parts.append(" private:\n  int helper(int n) const { return n ? helper(n - 1) : 0; }\n"
                 "  template <class T> T generic(T n) const { return n; }\n};\n"
                 "void use(Drawn& o) { o.method0(1); o.method1(2); o.method2(3); o.method3(4); "
                 "o.method4(5); o.method5(6); }")
    return ".cc", "\n".join(parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("drawn_sources"))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    start, number = time.monotonic(), arguments.seed
    count = whole = compiled = failed = 0
    while time.monotonic() - start < arguments.seconds:
        draw = random.Random(number)
        suffix, text = text_of(draw)
        number += 1
        is_whole = draw.random() < 0.5
        if not is_whole:
            tokens = re.findall(r"\s+|\w+|[^\w\s]", text)
            at = draw.randrange(len(tokens) // 2, len(tokens))
            tokens[at] = draw.choice(["", "*", "&", "(", ")", ";", "auto", "const", "{", "}", "..."])
            text = "".join(tokens)
        source = arguments.work / f"drawn_{number - 1}{suffix}"
        source.write_text(text)
        count += 1
        whole += is_whole
        flags = ["-std=gnu++20"] if suffix == ".cc" else ["-std=gnu89" if number % 2 else "-std=gnu17"]
        command = [arguments.tool, "classify", str(source), "--private", "--json", "-"]
        if suffix == ".c":
            command.append("--functions")
        try:
            done = subprocess.run([*command, "--", *flags], capture_output=True, text=True,
                                  timeout=60)
        except subprocess.TimeoutExpired:
            failed += 1
            print(f"{source}: takes longer than a minute")
            continue
        compiled += is_whole and done.returncode != 2
        if done.returncode not in (0, 1, 2):
            failed += 1
            print(f"{source}: ends with {done.returncode}: {done.stderr[-1500:]}")
            continue
        source.unlink()
    print(f"{count} sources; of {whole} that were left whole {compiled} compile; {failed} fail")
    return 1 if failed or compiled * 4 < whole else 0


if __name__ == "__main__":
    sys.exit(main())
