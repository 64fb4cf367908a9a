// Closures that are handed on, with what they have.
#include <algorithm>
#include <array>
#include <numeric>
int counter;
template <class F> void each(F f) { f(1); }
template <class F> void each2(F&& f) { f(1); }
template <class F> void each3(const F& f) { f(1); }
template <class F> void each4(F f) { each2(f); }
template <class F> void each5(F f) { auto g = f; g(1); }
template <class F> struct Hold { F f; void go() { f(1); } };
struct Refuted { int x; std::array<int, 4> a; int* kept;
  void c1() { int* p = &counter; each([&](int v) { *p += v; }); }  // expect: instant; because: c1 global
  void c2() { int* p = &counter; each2([&](int v) { *p += v; }); }  // expect: instant; because: c2 global
  void c3() { int* p = &counter; each3([&](int v) { *p += v; }); }  // expect: instant; because: c3 global
  void c4() { int* p = &counter; each4([&](int v) { *p += v; }); }  // expect: instant; because: c4 global
  void c5() { int* p = &counter; each5([&](int v) { *p += v; }); }  // expect: instant; because: c5 global
  void c6() { int* p = &counter; each([&p](int v) { *p += v; }); }  // expect: instant; because: c6 global
  void c7() { int* p = &counter; each([p](int v) { *p += v; }); }  // expect: instant; because: c7 global
  void c8() { int* p = &counter; each([=](int v) { *p += v; }); }  // expect: instant; because: c8 global
  void c9() { int* p = &counter; std::for_each(a.begin(), a.end(), [&](int v) { *p += v; }); }  // expect: instant; because: c9 global
  void c10() { int* p = &counter; x = std::count_if(a.begin(), a.end(), [&](int v) { return *p == v; }); }  // expect: instant; because: c10 global
  void c11() { int* p = &counter; std::sort(a.begin(), a.end(), [&](int l, int r) { return l + *p < r; }); }  // expect: instant; because: c11 global
  void c12() { int* p = kept; std::for_each(a.begin(), a.end(), [&](int v) { *p += v; }); }  // expect: instant; because: c12 kept_pointer
  void c13(int* arg) { std::for_each(a.begin(), a.end(), [&](int v) { *arg += v; }); }  // expect: instant; because: c13 argument
  void c14(int* arg) { each([&](int v) { arg[0] += v; }); }  // expect: instant; because: c14 argument
  void c15(int& arg) { each([&](int v) { arg += v; }); }  // expect: instant; because: c15 argument
  void c16(int* arg) { each([arg](int v) { arg[0] += v; }); }  // expect: instant; because: c16 argument
  void c17() { int* p = &counter; x = std::accumulate(a.begin(), a.end(), 0, [&](int l, int r) { return l + r + *p; }); }  // expect: instant; because: c17 global
  void c18() { int* p = &counter; auto f = [&](int v) { *p += v; }; f(1); }  // expect: instant; because: c18 global
  void c19() { int* p = &counter; auto f = [&](int v) { *p += v; }; auto g = f; g(1); }  // expect: instant; because: c19 global
  void c20() { int* p = &counter; auto f = [&](int v) { *p += v; }; Hold<decltype(f)> h{f}; h.go(); }  // expect: instant; because: c20 global
  void c21() { int* p = &counter; each([&](int v) { each([&](int w) { *p += w; }); }); }  // expect: instant; because: c21 global
  void c22() { struct { int* q; } s{&counter}; each([&](int v) { *s.q += v; }); }  // expect: instant; because: c22 global
  void c23(int* arg) { std::ranges::for_each(a, [&](int v) { *arg += v; }); }  // expect: instant; because: c23 argument
  void c24() { int* p = &counter; std::transform(a.begin(), a.end(), a.begin(), [&](int v) { return v + *p; }); }  // expect: instant; because: c24 global
};
