// Functions that are kept beside data, called back, wrapped and registered; variables of a thread.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
int counter;
int cells[8];
int f_inc(int* p) { return ++*p; }  // because: via_slot_run global; because: via_slot_via global; because: via_dtor_data global; because: via_rows global; because: via_opt_slot_data global; because: via_arr_slots global
int f_glob(int*) { return ++counter; }  // because: via_slot_set global; because: via_two_glob global; because: via_wrap_glob global; because: via_wrap_wrap global; because: via_compose_glob global; because: via_compose2 global; because: via_store_fn global; because: via_store_fn_invoke global; because: via_reg_glob global; because: via_base global; because: via_dtor_glob global; because: via_conv_glob global; because: via_swap_slots global; because: via_pair_fn global; because: via_opt_slot global
namespace mine {
int isdigit(int c) { return c + counter; }  // because: via_mine_isdigit global
double sqrt(double d) {
  ++counter;  // because: via_mine_sqrt global
  return d;
}
unsigned long _Hash_bytes(const void*, unsigned long, unsigned long);
struct H {
  int v;
};
int abs(H h) { return h.v + counter; }  // because: via_mine_abs global
}  // namespace mine
struct CtorOfTls {
  CtorOfTls() { ++counter; }
  int v = 0;
};
struct WithTls {
  static thread_local CtorOfTls t;
  static thread_local int plain;
};
thread_local CtorOfTls WithTls::t;
thread_local int WithTls::plain = 3;
extern thread_local int elsewhere;
inline thread_local std::array<CtorOfTls, 1> arr_tls;
thread_local int& tref = counter;
using Fn = int (*)(int*);
struct Slot {
  Fn f;
  int* d;
  void set(Fn g) { f = g; }
  void run() { f(d); }  // because: via_slot_run indirect; because: via_slot_via indirect; because: via_opt_slot_data indirect; because: via_arr_slots indirect
  void run_on(int* p) const { f(p); }  // because: via_slot_member indirect; because: via_chain indirect; because: via_chain_member indirect; because: via_two_member indirect
};
struct Chain {
  Slot* next;
  void go(int* p) { next->run_on(p); }
};
struct Two {
  Slot a, b;
  void go(int* p) {
    a.run_on(p);
    b.run_on(p);
  }
};
template <class F>
struct Wrap {
  F f;
  template <class... A>
  auto operator()(A&&... a) {
    return std::invoke(f, std::forward<A>(a)...);
  }
};
template <class F>
Wrap(F) -> Wrap<F>;
template <class F>
auto compose(F&& f) {
  return [g = std::forward<F>(f)](int* p) { return g(p); };  // because: via_compose_member indirect
}
template <class F>
void through(F& f, int* p) {
  [&] { f(p); }();  // because: via_through_glob indirect; because: via_through_member *
}
void store_fn(Fn& to, Fn from) { to = from; }
void store_via(Slot& s, int* d) { s.d = d; }
struct Reg {
  Fn fs[3]{};
  int n = 0;
  void add(Fn f) { fs[n++] = f; }
  void all(int* p) {
    for (int i = 0; i < n; ++i) fs[i](p);  // because: via_reg_member indirect
  }
};
struct Base {
  Fn f = f_inc;
};
struct Derived : Base {
  int go(int* p) { return f(p); }  // because: via_base_member indirect
};
struct Dtor {
  Fn f;
  int* p;
  ~Dtor() { f(p); }  // because: via_dtor_data indirect
};
struct Conv {
  Fn f;
  operator Fn() const { return f; }
};
void c_style(void (*cb)(void*), void* arg) { cb(arg); }  // because: via_cstyle_fn_as_data indirect
void cb_inc(void* p) { ++*static_cast<int*>(p); }  // because: via_cstyle_data global; because: via_cb_data global
void cb_glob(void*) { ++counter; }  // because: via_cstyle_glob global; because: via_cb_glob global
struct Cb {
  void (*cb)(void*);
  void* arg;
  void fire() { cb(arg); }  // because: via_cb_data indirect; because: via_cb_member indirect
};
const struct {
  const char* n;
  int* where;
  Fn f;
} kRows[] = {{"a", &counter, f_inc}, {"b", nullptr, f_inc}};
struct MemFn {
  void (MemFn::*m)(int*);
  void a(int* p) { ++*p; }
  void b(int*) { ++counter; }  // because: via_memfn_glob global
  void go(int* p) { (this->*m)(p); }  // because: via_memfn_member indirect
};
struct Refuted {
  int x;
  int a[8];
  char text[8];
  Slot slot;
  Two two;
  Fn fn;
  Cb cb;
  MemFn mf;
  Reg reg;
  Derived der;
  void via_mine_isdigit() { x = mine::isdigit(x); }  // expect: instant
  void via_mine_sqrt() { x = (int)mine::sqrt(2); }  // expect: instant
  void via_mine_hash() { x = (int)mine::_Hash_bytes(text, 3, 1); }  // expect: instant; because: via_mine_hash no_source
  void via_mine_abs() {  // expect: instant
    using namespace mine;
    x = abs(H{x});
  }
  void via_tls_static() {  // expect: instant
    x = sizeof(WithTls::t);
    WithTls::t.v;  // because: via_tls_static thread_local
  }
  void via_tls_addr() {  // expect: instant
    auto* p = &WithTls::t;  // because: via_tls_addr thread_local
    x = p != nullptr;
  }
  void via_tls_plain_addr() {  // expect: deferrable
    auto* p = &WithTls::plain;
    x = p != nullptr;
  }
  void via_tls_arr() {  // expect: instant
    auto& r = arr_tls;  // because: via_tls_arr thread_local
    x = r.size();
  }
  void via_tls_extern() {  // expect: instant
    int* p = &elsewhere;  // because: via_tls_extern thread_local
    x = p != nullptr;
  }
  void via_tls_ref() {  // expect: deferrable
    int* p = &tref;
    x = p != nullptr;
  }
  void via_tls_member() {  // expect: instant
    auto* p = &WithTls().t;  // because: via_tls_member thread_local
    x = p != nullptr;
  }
  void via_slot_run() {  // expect: instant
    Slot s{f_inc, &counter};
    s.run();
  }
  void via_slot_set() {  // expect: instant
    Slot s{f_inc, &x};
    s.set(f_glob);
    s.run();
  }
  void via_slot_own() {  // expect: deferrable
    Slot s{f_inc, &x};
    s.run();
    s.run_on(&a[0]);
  }
  void via_slot_via() {  // expect: instant
    Slot s{f_inc, &x};
    store_via(s, &counter);
    s.run();
  }
  void via_slot_member() { slot.run_on(&x); }  // expect: instant
  void via_chain() {  // expect: instant
    Slot s{f_glob, nullptr};
    Chain c{&s};
    c.go(&x);
  }
  void via_chain_member() {  // expect: instant
    Chain c{&slot};
    c.go(&x);
  }
  void via_two_glob() {  // expect: instant
    Two t{{f_inc, &x}, {f_glob, &x}};
    t.go(&x);
  }
  void via_two_member() { two.go(&x); }  // expect: instant
  void via_wrap_glob() {  // expect: instant
    Wrap w{f_glob};
    x = w(&x);
  }
  void via_wrap_own() {  // expect: deferrable
    Wrap w{f_inc};
    x = w(&x);
  }
  void via_wrap_member() {  // expect: instant
    Wrap w{fn};
    x = w(&x);  // because: via_wrap_member indirect
  }
  void via_wrap_wrap() {  // expect: instant
    Wrap w{Wrap{f_glob}};
    x = w(&x);
  }
  void via_wrap_memfn() {  // expect: instant
    Wrap w{&Refuted::hit};
    w(*this);
  }
  void hit() { ++counter; }  // expect: instant; because: via_wrap_memfn global; because: hit global
  void via_compose_glob() { x = compose(f_glob)(&x); }  // expect: instant
  void via_compose_member() { x = compose(fn)(&x); }  // expect: instant
  void via_compose2() { x = compose(compose(f_glob))(&x); }  // expect: instant
  void via_through_glob() {  // expect: instant
    Fn f = f_glob;
    through(f, &x);
  }
  void via_through_member() { through(fn, &x); }  // expect: instant
  void via_store_fn() {  // expect: instant
    Fn f = f_inc;
    store_fn(f, f_glob);
    f(&x);
  }
  void via_store_fn_invoke() {  // expect: instant
    Fn f = f_inc;
    store_fn(f, f_glob);
    std::invoke(f, &x);
  }
  void via_store_fn_member() {  // expect: instant
    Fn f = f_inc;
    store_fn(f, fn);
    std::invoke(f, &x);  // because: via_store_fn_member indirect
  }
  void via_reg_glob() {  // expect: instant
    Reg r;
    r.add(f_inc);
    r.add(f_glob);
    r.all(&x);
  }
  void via_reg_member() { reg.all(&x); }  // expect: instant
  void via_reg_own() {  // expect: deferrable
    Reg r;
    r.add(f_inc);
    r.all(&x);
  }
  void via_base() {  // expect: instant
    Derived d;
    d.f = f_glob;
    x = d.go(&x);
  }
  void via_base_member() { x = der.go(&x); }  // expect: instant
  void via_dtor_glob() { Dtor d{f_glob, &x}; }  // expect: instant
  void via_dtor_data() { Dtor d{f_inc, &counter}; }  // expect: instant
  void via_dtor_own() { Dtor d{f_inc, &x}; }  // expect: deferrable
  void via_conv_glob() {  // expect: instant
    Conv c{f_glob};
    x = c(&x);
  }
  void via_cstyle_glob() { c_style(cb_glob, &x); }  // expect: instant
  void via_cstyle_data() { c_style(cb_inc, &counter); }  // expect: instant
  void via_cstyle_own() { c_style(cb_inc, &x); }  // expect: deferrable
  void via_cstyle_fn_as_data() { c_style(reinterpret_cast<void (*)(void*)>(fn), &x); }  // expect: instant
  void via_cb_glob() {  // expect: instant
    Cb c{cb_glob, &x};
    c.fire();
  }
  void via_cb_data() {  // expect: instant
    Cb c{cb_inc, &counter};
    c.fire();
  }
  void via_cb_own() {  // expect: deferrable
    Cb c{cb_inc, &x};
    c.fire();
  }
  void via_cb_member() { cb.fire(); }  // expect: instant
  void via_cb_arg_fn() {  // expect: instant
    Cb c{cb_inc, reinterpret_cast<void*>(f_glob)};
    reinterpret_cast<Fn>(c.arg)(&x);  // because: via_cb_arg_fn indirect
  }
  void via_rows(int i) { kRows[i].f(kRows[i].where); }  // expect: instant; because: via_rows indirect
  void via_rows_write(int i) { *kRows[i].where = 1; }  // expect: instant; because: via_rows_write global
  void via_memfn_glob() {  // expect: instant
    MemFn m{&MemFn::b};
    m.go(&x);
  }
  void via_memfn_own() {  // expect: deferrable
    MemFn m{&MemFn::a};
    m.go(&x);
  }
  void via_memfn_member() { mf.go(&x); }  // expect: instant
  void via_swap_slots() {  // expect: instant
    Slot s{f_inc, &x}, t{f_glob, &x};
    std::swap(s, t);
    s.run();
  }
  void via_pair_fn() {  // expect: instant
    std::pair<Fn, int*> p{f_glob, &x};
    std::invoke(p.first, p.second);
  }
  void via_opt_slot() {  // expect: instant
    std::optional<Slot> s;
    s.emplace(Slot{f_glob, &x});
    s->run();
  }
  void via_opt_slot_data() {  // expect: instant
    std::optional<Slot> s;
    s.emplace(Slot{f_inc, &counter});
    s->run();
  }
  void via_arr_slots() {  // expect: instant
    std::array<Slot, 2> s{Slot{f_inc, &x}, Slot{f_inc, &counter}};
    std::ranges::for_each(s, &Slot::run);
  }
  void via_arr_slots_own() {  // expect: deferrable
    std::array<Slot, 2> s{Slot{f_inc, &x}, Slot{f_inc, &a[1]}};
    std::ranges::for_each(s, &Slot::run);
  }
};
