// Functions as values: handed on, kept in objects, beside data, in tables. Variables of empty
// classes.
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <variant>
int counter;
int cells[8];
int f_inc(int* p) { return ++*p; }  // because: via_call_inc_glob global; because: via_helper3 global
int f_glob(int*) { return ++counter; }  // because: via_fns global; because: via_call_glob global; because: via_call2_glob global; because: via_keep_local_glob global; because: via_nest_local_glob global; because: via_kkeep global; because: via_helper global; because: via_helper3_glob global; because: via_pick global; because: via_swap_fn global; because: via_set global; because: via_recurse global; because: via_rec_change global; because: via_opt_local global; because: via_arr_local global; because: via_tuple global; because: via_apply global; because: via_ref_fn global; because: via_fnref_struct global; because: via_cref global; because: via_notfn global; because: via_visit global; because: via_lambda_fn_val global; because: via_static_const_fn global
struct EmptyNoisy {
  EmptyNoisy() { ++counter; }
  void hit() const { ++counter; }  // because: via_empty_hit global; because: via_memfn_sel global; because: via_memfn_bind global
  void calm() const {}
};
thread_local EmptyNoisy noisy;
static EmptyNoisy plain;
EmptyNoisy many[2];
struct EmptyV {
  virtual void v() const { ++counter; }  // because: via_poly global
};
EmptyV poly;
struct Big : EmptyNoisy {
  int v;
};
Big big;
struct Mix {
  int (*f)(int*);
  int* d;
};
struct Tm {
  const int* p;
};
struct TmM {
  int* p;
};
struct Mu {
  mutable int m;
};
constexpr std::initializer_list<Mu> kMus = {{1}, {2}};
constexpr std::initializer_list<int* const> kPtrs = {&counter, &cells[1]};
constexpr std::initializer_list<int (*)(int*)> kFns = {f_inc, f_glob};
const TmM kTm{&counter};
template <class F>
int call(F&& f, int* p) {
  return f(p);  // because: via_callc_member indirect; because: via_call_member indirect; because: via_keep2 indirect; because: via_gfn_call *
}
template <class F>
int call2(F&& f, int* p) {
  return call(std::forward<F>(f), p);
}
template <class F>
int callc(const F& f, int* p) {
  return call2(f, p);
}
struct Keep {
  int (*f)(int*);
  int go(int* p) { return f(p); }  // because: via_keep indirect; because: via_nest indirect; because: via_gkeep *
  int go2(int* p) const { return callc(f, p); }
};
struct Nest {
  Keep k;
  int go(int* p) { return k.go(p); }
};
int (*gfn)(int*) = f_inc;
Keep gkeep{f_inc};
const Keep kkeep{f_glob};
const Keep kkeep2{f_inc};
int helper(int* q, int (*&f)(int*)) { return f(q); }  // because: via_helper_member indirect
int helper3(Mix& m) { return m.f(m.d); }  // because: via_helper3 indirect; because: via_helper3_member indirect
int helper4(Mix*& m) { return m->f(m->d); }  // because: via_helper4 indirect; because: via_helper4_member *
int (*pick(Mix& m))(int*) { return m.f; }
union FU {
  int (*f)(int*);
  int* d;
};
struct Erased {
  alignas(8) unsigned char b[16];
  int (*call)(Erased&, int*);
};
template <class F>
int thunk(Erased& e, int* p) {
  return (*reinterpret_cast<F*>(e.b))(p);
}
struct EB {
  virtual int go(int*) = 0;
};
struct ED : EB {
  int go(int*) override { return ++counter; }
};
void many_calls(int (*&a)(int*), int (*&b)(int*), int (*&c)(int*), int (*&d)(int*), int (*&e)(int*),
                int (*&g)(int*), int* p) {
  a(p);
  b(p);
  c(p);
  d(p);
  e(p);
  g(p);
}
void swap_fn(int (*&a)(int*), int (*&b)(int*)) {
  auto t = a;
  a = b;
  b = t;
}
struct Set {
  int (*f)(int*) = f_inc;
  void set(int (*g)(int*)) { f = g; }
};
int recurse(int (*&f)(int*), int* p, int d) {
  if (d) return recurse(f, p, d - 1);
  return f(p);
}
int rec_change(int (*&f)(int*), int* p, int d) {
  if (d) {
    f = f_glob;
    return rec_change(f, p, d - 1);
  }
  return f(p);
}
struct Opt {
  std::optional<int (*)(int*)> f;
};
struct Refuted {
  int x;
  int a[8];
  int (*fn)(int*);
  Mix mix;
  Keep keep;
  Nest nest;
  FU fu;
  std::optional<int (*)(int*)> of;
  std::array<int (*)(int*), 2> arr;
  Erased er;
  Mix* pm;
  EB* eb;
  void* vp;
  std::tuple<int (*)(int*), int*> tp;
  void via_tls_empty() { noisy.calm(); }  // expect: instant; because: via_tls_empty thread_local
  void via_empty() { plain.calm(); }  // expect: deferrable
  void via_empty_hit() { plain.hit(); }  // expect: instant
  void via_empty_arr() { many[1].calm(); }  // expect: deferrable
  void via_poly() { poly.v(); }  // expect: instant
  void via_big() { big.v = 1; }  // expect: instant; because: via_big global
  void via_big_base() {  // expect: instant
    EmptyNoisy& b = big;
    static_cast<Big&>(b).v = 1;  // because: via_big_base global
  }
  void via_mus() { kMus.begin()->m = 3; }  // expect: instant; because: via_mus unknown_pointer
  void via_ptrs() {  // expect: instant
    for (int* p : kPtrs) ++*p;  // because: via_ptrs global
  }
  void via_fns() {  // expect: instant
    for (auto f : kFns) f(&x);
  }
  void via_tm() { ++*kTm.p; }  // expect: instant; because: via_tm global
  void via_call_glob() { x = call(f_glob, &x); }  // expect: instant
  void via_call_inc() { x = call(f_inc, &x); }  // expect: deferrable
  void via_call_inc_glob() { x = call(f_inc, &counter); }  // expect: instant
  void via_call2_glob() {  // expect: instant
    auto f = f_glob;
    x = call2(f, &x);
  }
  void via_callc_inc() {  // expect: deferrable
    auto f = f_inc;
    x = callc(f, &x);
  }
  void via_callc_member() { x = callc(fn, &x); }  // expect: instant
  void via_call_member() { x = call(fn, &x); }  // expect: instant
  void via_keep() { x = keep.go(&x); }  // expect: instant
  void via_keep2() { x = keep.go2(&x); }  // expect: instant
  void via_nest() { x = nest.go(&x); }  // expect: instant
  void via_keep_local() {  // expect: deferrable
    Keep k{f_inc};
    x = k.go(&x) + k.go2(&x);
  }
  void via_keep_local_glob() {  // expect: instant
    Keep k{f_glob};
    x = k.go2(&x);
  }
  void via_nest_local() {  // expect: deferrable
    Nest k{{f_inc}};
    x = k.go(&x);
  }
  void via_nest_local_glob() {  // expect: instant
    Nest k{{f_glob}};
    x = k.go(&x);
  }
  void via_gfn() { x = gfn(&x); }  // expect: instant; because: via_gfn *
  void via_gfn_call() { x = call(gfn, &x); }  // expect: instant
  void via_gkeep() { x = gkeep.go(&x); }  // expect: instant
  void via_kkeep() { x = kkeep.go2(&x); }  // expect: instant
  void via_kkeep2() { x = kkeep2.go2(&x); }  // expect: deferrable
  void via_helper() {  // expect: instant
    auto f = f_glob;
    x = helper(&x, f);
  }
  void via_helper_member() { x = helper(&x, fn); }  // expect: instant
  void via_helper3() {  // expect: instant
    Mix m{f_inc, &counter};
    x = helper3(m);
  }
  void via_helper3_own() {  // expect: deferrable
    Mix m{f_inc, &x};
    x = helper3(m);
  }
  void via_helper3_glob() {  // expect: instant
    Mix m{f_glob, &x};
    x = helper3(m);
  }
  void via_helper3_member() { x = helper3(mix); }  // expect: instant
  void via_helper4() {  // expect: instant
    Mix m{f_glob, &x};
    Mix* p = &m;
    x = helper4(p);
  }
  void via_helper4_member() { x = helper4(pm); }  // expect: instant
  void via_pick() {  // expect: instant
    Mix m{f_glob, &x};
    x = pick(m)(&x);
  }
  void via_pick_member() { x = pick(mix)(&x); }  // expect: instant; because: via_pick_member indirect
  void via_union_fn(int* q) {  // expect: instant
    FU u;
    u.d = q;
    x = u.f(&x);  // because: via_union_fn indirect
  }
  void via_union_local() {  // expect: instant
    FU u;
    int l = 0;
    u.d = &l;
    x = u.f(&x);  // because: via_union_local indirect
  }
  void via_union_member() { x = fu.f(&x); }  // expect: instant; because: via_union_member indirect
  void via_erased() {  // expect: instant
    Erased e;
    auto l = [](int*) { return ++counter; };  // because: via_erased global
    new (e.b) auto(l);
    e.call = &thunk<decltype(l)>;
    x = e.call(e, &x);  // because: via_erased indirect
  }
  void via_erased_cap() {  // expect: instant
    int* q = &counter;
    Erased e;
    auto l = [q](int*) { return ++*q; };  // because: via_erased_cap *
    new (e.b) auto(l);
    e.call = &thunk<decltype(l)>;
    x = e.call(e, &x);  // because: via_erased_cap indirect
  }
  void via_erased_own() {  // expect: instant
    Erased e;
    auto l = [](int* p) { return ++*p; };
    new (e.b) auto(l);
    e.call = &thunk<decltype(l)>;
    x = e.call(e, &x);  // because: via_erased_own indirect
  }
  void via_virt() {  // expect: instant
    ED d;
    EB& b = d;
    x = b.go(&x);  // because: via_virt virtual
  }
  void via_many() {  // expect: instant
    auto a = f_inc, b = f_inc, c = f_inc, d = f_inc, e = f_inc, g = f_glob;
    many_calls(a, b, c, d, e, g, &x);  // because: via_many indirect
  }
  void via_swap_fn() {  // expect: instant
    auto a1 = f_inc, b = f_glob;
    swap_fn(a1, b);
    x = a1(&x);
  }
  void via_set() {  // expect: instant
    Set s;
    s.set(f_glob);
    x = s.f(&x);
  }
  void via_recurse() {  // expect: instant
    auto f = f_glob;
    x = recurse(f, &x, 3);
  }
  void via_recurse_inc() {  // expect: deferrable
    auto f = f_inc;
    x = recurse(f, &x, 3);
  }
  void via_rec_change() {  // expect: instant
    auto f = f_inc;
    x = rec_change(f, &x, 3);
  }
  void via_opt_member() { x = (*of)(&x); }  // expect: instant; because: via_opt_member indirect
  void via_opt_local() {  // expect: instant
    std::optional<int (*)(int*)> f = f_glob;
    x = (*f)(&x);
  }
  void via_opt_inc() {  // expect: deferrable
    std::optional<int (*)(int*)> f = f_inc;
    x = (*f)(&x);
  }
  void via_arr(int i) { x = arr[i](&x); }  // expect: instant; because: via_arr indirect
  void via_arr_local(int i) {  // expect: instant
    std::array<int (*)(int*), 2> t{f_inc, f_glob};
    x = t[i](&x);
  }
  void via_memcpy_fn() {  // expect: instant
    int (*f)(int*);
    std::memcpy(&f, a, sizeof f);
    x = f(&x);  // because: via_memcpy_fn indirect
  }
  void via_memcpy_fn2() {  // expect: instant
    int (*f)(int*) = f_inc;
    std::memcpy(&f, a, sizeof f);
    x = f(&x);  // because: via_memcpy_fn2 indirect
  }
  void via_memcpy_fn3() {  // expect: deferrable
    int (*f)(int*) = f_inc;
    int (*g)(int*);
    std::memcpy(&g, &f, sizeof f);
    x = g(&x);
  }
  void via_void_member() { x = reinterpret_cast<int (*)(int*)>(vp)(&x); }  // expect: instant; because: via_void_member indirect
  void via_void_this() {  // expect: instant
    void* t = this;
    void* f = x ? t : reinterpret_cast<void*>(&f_glob);
    x = reinterpret_cast<int (*)(int*)>(f)(&x);  // because: via_void_this indirect
  }
  void via_tuple() {  // expect: instant
    auto t = std::make_tuple(f_glob, &x);
    x = std::get<0>(t)(std::get<1>(t));
  }
  void via_tuple_inc() {  // expect: deferrable
    auto t = std::make_tuple(f_inc, &x);
    x = std::get<0>(t)(std::get<1>(t));
  }
  void via_tuple_member() { x = std::get<0>(tp)(&x); }  // expect: instant; because: via_tuple_member indirect
  void via_apply() { x = std::apply(f_glob, std::make_tuple(&x)); }  // expect: instant
  void via_bind_bind() { auto f = std::bind(f_glob, std::bind(std::plus<int*>(), &x, 0)); }  // expect: deferrable
  void via_ref_fn() {  // expect: instant
    int (&f)(int*) = f_glob;
    x = call(f, &x);
  }
  void via_fnref_struct() {  // expect: instant
    struct S {
      int (&f)(int*);
    } s{f_glob};
    x = s.f(&x);
    x = call(s.f, &x);
  }
  void via_cref() {  // expect: instant
    auto r = std::cref(f_glob);
    x = r(&x);
  }
  void via_refw_fn() {  // expect: instant
    auto f = f_glob;
    auto r = std::ref(f);
    x = std::invoke(r, &x);  // because: via_refw_fn indirect
  }
  void via_refw_member() {  // expect: instant
    auto r = std::ref(fn);
    x = std::invoke(r, &x);  // because: via_refw_member indirect
  }
  void via_notfn() {  // expect: instant
    auto f = std::not_fn(f_glob);
    x = f(&x);
  }
  void via_visit() {  // expect: instant
    std::variant<int (*)(int*), int> v = f_glob;
    std::visit(  // because: via_visit throws  // because: via_visit address_as_number
        [&](auto w) {
          if constexpr (!std::is_same_v<decltype(w), int>) x = w(&x);  // because: via_visit indirect
        },
        v);
  }
  void via_lambda_fn() {  // expect: instant
    auto f = f_glob;
    auto l = [&f](int* p) { return f(p); };  // because: via_lambda_fn indirect
    x = l(&x);
    x = call(l, &x);
  }
  void via_lambda_fn_val() {  // expect: instant
    auto f = f_glob;
    auto l = [f](int* p) { return f(p); };
    x = call2(l, &x);
  }
  void via_lambda_member() {  // expect: instant
    auto l = [this](int* p) { return fn(p); };  // because: via_lambda_member indirect
    x = call(l, &x);
  }
  void via_lambda_member_val() {  // expect: instant
    auto l = [f = fn](int* p) { return f(p); };  // because: via_lambda_member_val indirect
    x = call(l, &x);
  }
  void via_lambda_param(int (*f)(int*)) {  // expect: instant
    auto l = [&](int* p) { return f(p); };  // because: via_lambda_param indirect
    x = call(l, &x);
  }
  void via_lambda_lambda() {  // expect: instant
    auto f = f_glob;
    auto l = [&] { return [&] { return f(&x); }; };  // because: via_lambda_lambda indirect
    x = l()();
  }
  void via_static_fn() {  // expect: instant
    static int (*f)(int*) = f_inc;
    x = f(&x);  // because: via_static_fn *
  }
  void via_static_const_fn() {  // expect: instant
    static int (*const f)(int*) = f_glob;
    x = f(&x);
  }
  void via_static_const_inc() {  // expect: deferrable
    static int (*const f)(int*) = f_inc;
    x = call(f, &x);
  }
  void via_memfn_sel(bool b) {  // expect: instant
    void (Refuted::*m)() = b ? &Refuted::via_empty : &Refuted::via_empty_hit;
    std::invoke(m, this);
  }
  void via_memfn_bind() {  // expect: instant
    auto f = std::bind_front(&Refuted::via_empty_hit, this);
    f();
  }
};
