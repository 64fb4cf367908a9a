// What was once called deferrable, and is not.
#include <algorithm>
#include <cstring>
#include <new>
int counter; int table[8];
struct Stats { int n; void add(int v) { n += v; } } stats;  // because: B1 global; because: B4 global
static void bump(int* p) { ++*p; }  // because: B3 global; because: I1 unknown_pointer; because: I2 unknown_pointer; because: I3 unknown_pointer; because: J1 global; because: J3 unknown_pointer; because: J5 global; because: J6 global; because: J7 unknown_pointer
static void evil(int* p) { ++*p; ++counter; }  // because: B5 global; because: J2 global
void log(const char*); void rotate(int); void reduce_all(int*); void terminate(int);
void hook(int*);
__attribute__((target("default"))) void mv(int* p) { ++*p; }
__attribute__((target("avx2"))) void mv(int* p) { ++*p; ++counter; }
struct St { static void st(int* p) { ++*p; } }; static St* next_st() { ++counter; return nullptr; }  // because: F1 global
struct E { E() {} E(const E&) { ++counter; } ~E() { ++counter; } };  // because: G1 global; because: G2 global
struct T { T() try { throw 1; } catch (...) {} };  // because: G3 throws
struct V { virtual void f(int* p) { ++*p; } }; struct W : V { void f(int* p) override { evil(p); } };
constexpr void (V::*kM)(int*) = &V::f;
struct C { int* p; void (*f)(int*); };
static void run(void (*f)(int*), int* p) { f(p); }
template <C c> void t1() { bump(c.p); }
template <C c> void t2(int* p) { run(c.f, p); }
struct R { alignas(8) unsigned char b[8]; };
static int next() { return ++counter; }  // because: F2 global; because: F3 global; because: F4 global; because: F5 global; because: F6 global
int&& gtemp = 5;
struct B { int a; }; struct D : B { int extra; };
struct Refuted {
  int x; unsigned long n; int a[4]; unsigned char raw[8];
  void A1() { int* p = &counter; std::for_each(a, a + 4, [&](int v) { *p += v; }); }  // expect: instant; because: A1 global
  void A2(int* arg) { std::for_each(a, a + 4, [&](int v) { *arg += v; }); }  // expect: instant; because: A2 argument
  void B1() { auto& s = stats; auto f = [&](int v) { s.add(v); }; f(1); }  // expect: instant
  void B2() { auto& t = table; [&] { t[1] = 1; }(); }  // expect: instant; because: B2 global
  void B3() { constexpr int* p = &counter; [&] { bump(p); }(); }  // expect: instant
  void B4() { auto& s = stats; struct L { static void go(int v) { s.add(v); } }; L::go(1); }  // expect: instant
  void B5() { constexpr auto f = &evil; struct L { static void go(int* q) { run(f, q); } }; L::go(&x); }  // expect: instant
  void C1() { log("a"); }  // expect: instant; because: C1 no_source
  void C2() { rotate(1); }  // expect: instant; because: C2 no_source
  void C3() { reduce_all(&x); }  // expect: instant; because: C3 no_source
  void C4() { terminate(x); }  // expect: instant; because: C4 no_source
  void D2() { hook(&x); }  // expect: instant; because: D2 no_source
  void D3() { void (*f)(int*) = hook; f(&x); }  // expect: instant; because: D3 indirect
  void D4() { mv(&x); }  // expect: instant; because: D4 no_source
  void E1() { ++gtemp; }  // expect: instant; because: E1 global
  void E2() { static int&& s = 7; x = ++s; }  // expect: instant; because: E2 global
  void F1() { next_st()->st(&x); }  // expect: instant
  void F2() { int q[2][next()]; }  // expect: instant
  void F3() { typedef int Q[next()]; }  // expect: instant
  void F4() { x = sizeof(int[next()]); }  // expect: instant
  void F5() { x = __atomic_load_n(&x, (next(), __ATOMIC_RELAXED)); }  // expect: instant
  void F6() { _Atomic(int) q; __c11_atomic_init(&q, next()); }  // expect: instant
  void F7() { (void)__builtin_addc(1u, 1u, 0u, reinterpret_cast<unsigned*>(&counter)); }  // expect: instant; because: F7 global
  void G1() { try { throw E(); } catch (...) {} }  // expect: instant
  void G2() { try { throw 1; } catch (E e) {} catch (...) {} }  // expect: instant
  void G3() { T t; }  // expect: instant
  void H1() { W w; V& v = w; (v.*kM)(&x); }  // expect: instant; because: H1 virtual
  void I1() { unsigned long m = n; bump(reinterpret_cast<int*&>(m)); }  // expect: instant
  void I2() { R r; new (r.b) int*(&counter); R q = r; bump(*reinterpret_cast<int**>(q.b)); }  // expect: instant; because: I2 address_as_number
  void I3() { char b[8]; memcpy(b, &n, 8); bump(*reinterpret_cast<int**>(b)); }  // expect: instant
  void J1() { t1<C{&counter, nullptr}>(); }  // expect: instant
  void J2() { t2<C{nullptr, evil}>(&x); }  // expect: instant
  void J3() { bump(__builtin_align_up(&counter, 4)); }  // expect: instant; because: J3 address_as_number
  void J4() { bump(static_cast<int*>(__builtin_thread_pointer())); }  // expect: instant; because: J4 no_source
  void J5() { bump(({ l: &counter; })); }  // expect: instant
  void J6() { _Atomic(int*) q; __c11_atomic_init(&q, &counter); bump(__c11_atomic_load(&q, 5)); }  // expect: instant
  void J7() { register int* r asm("rbx"); bump(r); }  // expect: instant; because: J7 assembler
  void K1() { int l; int* p = &l; memcpy(&n, (char*)&p, 8); }  // expect: instant; because: K1 keeps_address; because: K1 address_as_number
  void K2() { int l; int* p = &l; n = *reinterpret_cast<unsigned long*>(&p); }  // expect: instant; because: K2 address_as_number
  void K3() { int l; union { int* p; unsigned long m; } u; u.p = &l; n = u.m; }  // expect: instant; because: K3 address_as_number
  void K4() { n = reinterpret_cast<char*>(this) - static_cast<char*>(nullptr); }  // expect: instant; because: K4 address_as_number
  void K5() { int l; int* p = &l; for (unsigned i = 0; i < 8; ++i) raw[i] = reinterpret_cast<unsigned char*>(&p)[i]; }  // expect: instant; because: K5 address_as_number
  void K6() { int* p = &counter; void* s = &p; memcpy(raw, s, 8); }  // expect: instant; because: K6 keeps_address
  void K8() { x = __builtin_is_aligned(this, 4096); }  // expect: instant; because: K8 no_source
  void L1(int k, ...) { __builtin_va_list v; __builtin_va_start(v, k); x = __builtin_va_arg(v, int); __builtin_va_end(v); }  // expect: instant; because: L1 unsupported
};
__attribute__((weak)) void hook(int* p) { ++*p; }
