// Shapes in which an effect outside of the object hides, and some that only look so.
#include <algorithm>
#include <any>
#include <atomic>
#include <coroutine>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

int counter;
int cells[8];
thread_local int per_thread;
volatile int device;
std::jmp_buf here;
struct Noisy {
  Noisy() {}
  ~Noisy() { ++counter; }  // because: via_temp_dtor global
  int v = 1;
};
struct NoisyConv {
  int v;
  operator int() const {
    ++counter;  // because: via_conv global
    return v;
  }
};
struct NoisyBool {
  explicit operator bool() const {
    ++counter;  // because: via_convbool global
    return true;
  }
};
struct Gen {
  struct promise_type {
    int v = 0;
    Gen get_return_object() { return {}; }
    std::suspend_never initial_suspend() {
      ++counter;
      return {};
    }
    std::suspend_never final_suspend() noexcept { return {}; }
    void unhandled_exception() {}
    void return_void() {}
    std::suspend_never yield_value(int) {
      ++counter;
      return {};
    }
  };
};
struct VBase {
  int* p;
};
struct VMid : virtual VBase {};
struct VEnd : VMid {
  int own;
};
struct Poly {
  virtual ~Poly() {}
  int q = 0;
};
struct PolyD : Poly {
  int r = 0;
};
template <class T>
int tstatic(T v) {
  static T sum = v;  // because: via_tstatic global
  sum += v;  // because: via_tstatic global
  return sum;  // because: via_tstatic global
}
template <class T>
T& tslot() {
  static T slot;
  return slot;
}
inline int helper_tl() { return ++per_thread; }  // because: via_thread thread_local
struct RefM {
  int& r;
  void inc() { ++r; }  // because: via_refm global; because: via_refm_agg global
};
struct Mut {
  mutable int m;
};
const Mut kMut{1};
struct Cmp {
  int* calls;
  bool operator()(int a, int b) const {
    ++*calls;  // because: via_cmp_state global
    return a < b;
  }
};
struct CmpG {
  bool operator()(int a, int b) const {
    ++counter;  // because: via_cmp_glob global
    return a < b;
  }
};
struct Del {
  void operator()(int*) const { ++counter; }  // because: via_deleter global
};
struct Hooked {
  static void* operator new(std::size_t) {
    ++counter;  // because: via_hooked global
    return cells;
  }
  static void operator delete(void*) { ++counter; }  // because: via_hooked global
  int v;
};
struct Placed {
  static void* operator new(std::size_t, void* p) {
    ++counter;  // because: via_placed_own global
    return p;
  }
  int v;
};
namespace adl {
struct A {
  int v;
};
A operator+(A a, A b) {
  ++counter;  // because: via_adl_plus global
  return {a.v + b.v};
}
void swap(A& a, A& b) {
  ++counter;  // because: via_adl_swap global; because: via_adl_rswap global
  int t = a.v;
  a.v = b.v;
  b.v = t;
}
bool operator==(A a, A b) {
  ++counter;  // because: via_adl_find global
  return a.v == b.v;
}
A* begin(A& a) { return &a; }
struct R {
  int n;
};
int* begin(R&) { return cells; }
int* end(R&) { return cells + 8; }
template <std::size_t I>
int get(const R& r) {
  ++counter;  // because: via_adl_get global
  return r.n;
}
struct W {
  int n;
};
A& operator,(A& a, W) {
  ++counter;  // because: via_adl_comma global
  return a;
}
A operator""_a(unsigned long long v) {
  ++counter;  // because: via_adl_udl global
  return {int(v)};
}
struct Addr {
  int v;
  int* operator&() { return &counter; }
  int* operator->() { return cells; }
};
}  // namespace adl
using adl::operator""_a;
namespace std {
template <>
struct tuple_size<adl::R> : integral_constant<size_t, 1> {};
template <>
struct tuple_element<0, adl::R> {
  using type = int;
};
template <>
struct hash<adl::A> {
  size_t operator()(adl::A a) const {
    ++counter;  // because: via_hash global
    return a.v;
  }
};
}  // namespace std
template <class T>
struct Alloc {
  using value_type = T;
  Alloc() = default;
  template <class U>
  Alloc(const Alloc<U>&) {}
  T* allocate(std::size_t) {
    ++counter;  // because: via_alloc global
    return reinterpret_cast<T*>(cells);
  }
  void deallocate(T*, std::size_t) { ++counter; }  // because: via_alloc global
  bool operator==(const Alloc&) const { return true; }
};
__attribute__((weak)) void weakling(int* p) { ++*p; }
__attribute__((noinline)) static int va_sum(int k, ...) {
  va_list v;
  va_start(v, k);
  int s = 0;
  while (k--) s += *va_arg(v, int*);  // because: via_va unknown_pointer
  va_end(v);
  return s;
}
static int va_ints(int k, ...) {
  va_list v;
  va_start(v, k);
  int s = 0;
  while (k--) s += va_arg(v, int);
  va_end(v);
  return s;
}
struct Iter {
  int* at;
  int& operator*() { return *at; }
  Iter& operator++() {
    ++at;
    ++counter;  // because: via_iter global
    return *this;
  }
  bool operator!=(const Iter& o) const { return at != o.at; }
};
struct Range {
  int* b;
  Iter begin() { return {b}; }
  Iter end() { return {b + 4}; }
};
struct Init {
  int v = ++counter;  // because: via_placed_over global; because: via_dminit global; because: via_dminit_agg global
};
struct Ctx {
  int x = counter;  // because: via_ctxread global
};
struct BaseEff {
  BaseEff() { ++counter; }  // because: via_inh global
};
struct DerivedEff : BaseEff {
  int v;
  using BaseEff::BaseEff;
};
struct Assign {
  int v;
  Assign& operator=(int w) {
    v = w;
    ++counter;  // because: via_assign_op global
    return *this;
  }
};
struct Sub {
  int* operator[](int) { return cells; }
  int operator()(int) { return ++counter; }  // because: via_call_op global
};
int def_arg(int v = ++counter) { return v; }  // because: via_def_arg global
int* global_ptr = &counter;
int* const kGlobalPtr = &counter;
int& global_ref = counter;
struct Copy {
  int v;
  Copy(int w) : v(w) {}
  Copy(const Copy& o) : v(o.v) { ++counter; }  // because: via_copy_arg global; because: via_copy_lambda global; because: via_copy_ret global
};
int by_copy(Copy c) { return c.v; }
struct Cleanup {};
void clean(int*) { ++counter; }  // because: via_cleanup global
union Un {
  int* p;
  long n;
};
struct Lazy {
  int (*get)() = [] { return ++counter; };  // because: via_lazy global
};
template <auto F>
int call_nttp() {
  return F();
}
int bump_counter() { return ++counter; }  // because: via_nttp global
template <int& R>
void bump_ref() {
  ++R;  // because: via_nttp_ref global
}
template <int* P>
void bump_ptr() {
  ++*P;  // because: via_nttp_ref unknown_pointer
}
struct Stat {
  static int s;
  static inline std::atomic<int> a;
  int v;
};
int Stat::s;
enum class E { a, b };
E& operator++(E& e) {
  ++counter;  // because: via_enum_op global
  return e = E::b;
}
struct Mix {
  int (*f)(int*);
  int* d;
};
int f_inc(int* p) { return ++*p; }  // because: via_ptrmix global; because: via_mix_local global; because: via_mix_invoke2 global; because: via_bind_ptr global
int f_glob(int*) { return ++counter; }  // because: via_mixes global; because: via_mix_local2 global; because: via_mix_invoke global; because: via_bind_glob global
struct Fn {
  int (*f)(int*) = f_inc;
};
constexpr Mix kMixes[] = {{f_inc, nullptr}, {f_glob, nullptr}};
constexpr Mix kPtrMix[] = {{f_inc, &counter}, {f_inc, nullptr}};
struct Comp {
  int v;
  friend bool operator<(const Comp& a, const Comp& b) {
    ++counter;  // because: via_comps global
    return a.v < b.v;
  }
};
struct Outer {
  struct Inner {
    Outer* o;
    void go() {
      o->t = 1;
      ++counter;  // because: via_inner global
    }
  };
  int t;
};
struct Prox {
  int* p;
  Prox& operator=(int v) {
    *p = v;  // because: via_prox kept_pointer
    return *this;
  }
};
struct Eraser {
  void* obj;
  void (*f)(void*);
  template <class T>
  Eraser(T* t) : obj(t), f([](void* o) { (*static_cast<T*>(o))(); }) {}
  void operator()() { f(obj); }
};

struct Refuted {
  int x;
  int a[8];
  long n;
  int (*fns[4])(int*);
  int (Refuted::*mfn)();
  std::function<void()> fun;
  Mut mu;
  volatile int vol;
  std::atomic<int> at;
  std::any any;
  std::reference_wrapper<int> rw;
  int& ref;
  int* ptr;
  std::shared_ptr<int> sp;
  std::unique_ptr<int, Del> ud;
  std::optional<int*> op;
  std::variant<int, int*> var;
  Un un;
  unsigned char raw[64];
  adl::A aa[4];
  Comp comps[4];
  std::string_view sv;
  std::span<int> spn;
  Prox prox;
  Stat st;
  E e;
  Fn fn;
  int Refuted::* mem;
  Hooked hk;
  Poly* poly;
  std::pair<int*, int> pr;
  Outer out;
  Assign as;
  std::exception_ptr ep;
  VEnd* ve;
  std::initializer_list<int> il;
  Mix mix;

  Gen via_coro() { co_yield x; }  // expect: instant; because: via_coro *
  void via_temp_dtor() { x = Noisy().v; }  // expect: instant
  void via_conv() {  // expect: instant
    NoisyConv c{x};
    x = c;
  }
  void via_convbool() {  // expect: instant
    if (NoisyBool{}) x = 1;
  }
  void via_placed_over() { new (&x) Init; }  // expect: instant
  void via_placed_own() { new (&x) Placed; }  // expect: instant
  void via_memfn_member() { x = (this->*mfn)(); }  // expect: instant; because: via_memfn_member indirect
  void via_fn_array(int i) { x = fns[i](&x); }  // expect: instant; because: via_fn_array indirect
  void via_stdfunction() { fun(); }  // expect: instant; because: via_stdfunction *
  void via_virtbase() { x = *ve->p; }  // expect: instant; because: via_virtbase kept_pointer
  void via_virtbase_local() {  // expect: instant
    VEnd l;
    l.p = &counter;
    VMid& m = l;
    ++*m.p;  // because: via_virtbase_local global
  }
  void via_dyncast() {  // expect: instant
    if (auto* d = dynamic_cast<PolyD*>(poly)) ++d->r;  // because: via_dyncast kept_pointer
  }
  void via_typeid() { x = typeid(*poly) == typeid(PolyD); }  // expect: instant; because: via_typeid *
  void via_throw_ref() {  // expect: instant
    try {
      throw &counter;
    } catch (int* p) {
      ++*p;  // because: via_throw_ref unknown_pointer
    } catch (...) {
    }
  }
  void via_throw_ref2() {  // expect: instant
    try {
      throw std::ref(counter);
    } catch (std::reference_wrapper<int>& p) {
      ++p.get();  // because: via_throw_ref2 unknown_pointer
    } catch (...) {
    }
  }
  void via_throw_own() {  // expect: instant
    try {
      throw &x;
    } catch (int* p) {
      ++*p;  // because: via_throw_own unknown_pointer
    } catch (...) {
    }
  }
  void via_thread() { x = helper_tl(); }  // expect: instant
  void via_tstatic() { x = tstatic(3L); }  // expect: instant
  void via_tslot() { tslot<int>() = x; }  // expect: instant; because: via_tslot global
  void via_refm() {  // expect: instant
    RefM m{counter};
    m.inc();
  }
  void via_refm_agg() {  // expect: instant
    RefM m{x};
    RefM k{m.r};
    k.inc();
    RefM z = cells[0] ? RefM{cells[1]} : k;  // because: via_refm_agg global
    z.inc();
  }
  void via_ref_member() { ++ref; }  // expect: instant; because: via_ref_member kept_pointer
  void via_mutable() { kMut.m = x; }  // expect: instant; because: via_mutable global
  void via_union() {  // expect: instant
    un.p = nullptr;
    x = *un.p;  // because: via_union kept_pointer
  }
  void via_union2() {  // expect: instant
    Un u;
    u.n = n;
    ++*u.p;  // because: via_union2 unknown_pointer
  }
  void via_volatile() { x = device; }  // expect: instant; because: via_volatile global
  void via_asm() { asm volatile("" : "+r"(x)); }  // expect: instant; because: via_asm assembler
  void via_setjmp() {  // expect: instant
    if (setjmp(here)) x = 1;  // because: via_setjmp no_source
  }
  void via_longjmp() { std::longjmp(here, 1); }  // expect: instant; because: via_longjmp no_source
  void via_va() { x = va_sum(1, &counter); }  // expect: instant
  void via_va_ints() { x = va_ints(2, 1, x); }  // expect: deferrable
  void via_any() { any = 3; }  // expect: instant; because: via_any *
  void via_refw() { ++rw.get(); }  // expect: instant; because: via_refw kept_pointer
  void via_refw_local() {  // expect: instant
    std::reference_wrapper<int> r(x);
    r = std::ref(counter);
    ++r.get();  // because: via_refw_local global
  }
  void via_cmp_state() { std::sort(a, a + 8, Cmp{&counter}); }  // expect: instant
  void via_cmp_own() { std::sort(a, a + 8, Cmp{&x}); }  // expect: deferrable
  void via_cmp_glob() { std::sort(a, a + 8, CmpG{}); }  // expect: instant
  void via_deleter() { std::unique_ptr<int, Del> p(&x); }  // expect: instant
  void via_hooked() { delete new Hooked; }  // expect: instant
  void via_adl_plus() { aa[0] = aa[1] + aa[2]; }  // expect: instant
  void via_adl_swap() {  // expect: instant
    using std::swap;
    swap(aa[0], aa[1]);
  }
  void via_adl_rswap() { std::ranges::swap(aa[0], aa[1]); }  // expect: instant
  void via_adl_find() { x = int(std::find(aa, aa + 4, adl::A{3}) - aa); }  // expect: instant
  void via_adl_range() {  // expect: instant
    adl::R r{};
    for (int& c : r) ++c;  // because: via_adl_range global
  }
  void via_adl_get() {  // expect: instant
    auto [v] = adl::R{x};
    x = v;
  }
  void via_adl_comma() { (aa[0], adl::W{}).v = 1; }  // expect: instant
  void via_adl_udl() { aa[0] = 3_a; }  // expect: instant
  void via_addr_op() {  // expect: instant
    adl::Addr d;
    ++*&d;  // because: via_addr_op global
  }
  void via_arrow_op() {  // expect: instant
    adl::Addr d;
    *d.operator->() = 1;  // because: via_arrow_op global
  }
  void via_hash() { n = long(std::hash<adl::A>{}(aa[0])); }  // expect: instant
  void via_alloc() {  // expect: instant
    std::vector<int, Alloc<int>> v(3);  // because: via_alloc throws
    x = v[0];  // because: via_alloc global
  }
  void via_shared_alias() { x = *sp; }  // expect: instant; because: via_shared_alias kept_pointer
  void via_weak() { weakling(&x); }  // expect: instant; because: via_weak no_source
  void via_iter() {  // expect: instant
    Range r{a};
    for (int& v : r) v = 0;
  }
  void via_dminit() {  // expect: instant
    Init i;
    x = i.v;
  }
  void via_dminit_agg() {  // expect: instant
    Init i{};
    x = i.v;
  }
  void via_ctxread() {  // expect: instant
    Ctx c{};
    x = c.x;
  }
  void via_inh() {  // expect: instant
    DerivedEff d;
    x = d.v;
  }
  void via_assign_op() { as = 3; }  // expect: instant
  void via_subscript() { *Sub{}[2] = x; }  // expect: instant; because: via_subscript global
  void via_call_op() { x = Sub{}(1); }  // expect: instant
  void via_def_arg() { x = def_arg(); }  // expect: instant
  void via_gptr() { ++*global_ptr; }  // expect: instant; because: via_gptr global
  void via_gptr_const() { ++*kGlobalPtr; }  // expect: instant; because: via_gptr_const global
  void via_gref() { ++global_ref; }  // expect: instant; because: via_gref global
  void via_copy_arg() {  // expect: instant
    Copy c(1);
    x = by_copy(c);
  }
  void via_copy_lambda() {  // expect: instant
    Copy c(1);
    auto l = [c] { return c.v; };
    x = l();
  }
  void via_copy_ret() {  // expect: instant
    Copy c(1);
    auto f = [&]() -> Copy { return c; };
    x = f().v;
  }
  void via_cleanup() {  // expect: instant
    __attribute__((cleanup(clean))) int l = 0;
    x = l;
  }
  void via_lazy() {  // expect: instant
    Lazy l;
    x = l.get();
  }
  void via_nttp() { x = call_nttp<bump_counter>(); }  // expect: instant
  void via_nttp_lambda() {  // expect: instant
    x = call_nttp<[] { return ++counter; }>();  // because: via_nttp_lambda global
  }
  void via_nttp_ref() {  // expect: instant
    bump_ref<counter>();
    bump_ptr<&cells[2]>();
  }
  void via_static_via_obj() { st.s = 3; }  // expect: instant; because: via_static_via_obj global
  void via_static_atomic() { st.a++; }  // expect: instant; because: via_static_atomic global
  void via_enum_op() { ++e; }  // expect: instant
  void via_fn_default() { x = fn.f(&x); }  // expect: instant; because: via_fn_default indirect
  void via_mixes(int i) { x = kMixes[i].f(&x); }  // expect: instant
  void via_ptrmix(int i) { x = kPtrMix[i].f(kPtrMix[i].d); }  // expect: instant; because: via_ptrmix indirect
  void via_mix_local() {  // expect: instant
    Mix m{f_inc, &counter};
    x = m.f(m.d);  // because: via_mix_local indirect
  }
  void via_mix_local2(bool b) {  // expect: instant
    Mix m[2] = {{f_inc, &x}, {f_glob, &x}};
    x = m[b].f(m[b].d);
  }
  void via_mix_invoke() {  // expect: instant
    Mix m{f_glob, &x};
    x = std::invoke(m.f, m.d);
  }
  void via_mix_invoke2() {  // expect: instant
    Mix m{f_inc, &counter};
    x = std::invoke(m.f, m.d);  // because: via_mix_invoke2 indirect
  }
  void via_mix_member() { x = std::invoke(mix.f, &x); }  // expect: instant; because: via_mix_member indirect
  void via_mem_invoke() { x = std::invoke(fns[0], &x); }  // expect: instant; because: via_mem_invoke indirect
  void via_bind_member() {  // expect: instant
    auto f = std::bind_front(fns[0], &x);
    x = f();  // because: via_bind_member indirect
  }
  void via_bind_glob() {  // expect: instant
    auto f = std::bind_front(f_glob, &x);
    x = f();
  }
  void via_bind_ptr() {  // expect: instant
    auto f = std::bind_front(f_inc, &counter);
    x = f();  // because: via_bind_ptr indirect
  }
  void via_memptr_invoke() { x = std::invoke(mfn, this); }  // expect: instant; because: via_memptr_invoke indirect
  void via_memptr_data() { this->*mem = 3; }  // expect: deferrable
  void via_param_fn(int (*f)(int*)) { x = std::invoke(f, &x); }  // expect: instant; because: via_param_fn indirect
  void via_param_ref(int (*&f)(int*)) { x = f(&x); }  // expect: instant; because: via_param_ref *
  void via_param_struct(Mix m) { x = m.f(&x); }  // expect: instant; because: via_param_struct indirect
  void via_param_structref(const Mix& m) { x = m.f(&x); }  // expect: instant; because: via_param_structref indirect
  void via_param_voidfn(void* f) { x = reinterpret_cast<int (*)(int*)>(f)(&x); }  // expect: instant; because: via_param_voidfn indirect
  void via_fn_of_data(int* q, bool b) {  // expect: instant
    auto f = b ? f_inc : reinterpret_cast<int (*)(int*)>(q);
    x = f(&x);  // because: via_fn_of_data indirect
  }
  void via_comps() { std::sort(comps, comps + 4); }  // expect: instant
  void via_rcomps() {  // expect: instant
    std::ranges::sort(comps, std::less{}, [](const Comp& c) {
      ++counter;  // because: via_rcomps global
      return c.v;
    });
  }
  void via_sv() { x = sv[0]; }  // expect: instant; because: via_sv kept_pointer
  void via_sv_kept() { sv = "abc"; }  // expect: instant; because: via_sv_kept keeps_address
  void via_span() { spn[0] = 1; }  // expect: instant; because: via_span kept_pointer
  void via_prox() { prox = 3; }  // expect: instant
  void via_opt_kept() {  // expect: instant
    if (op) ++**op;  // because: via_opt_kept kept_pointer
  }
  void via_opt_glob() {  // expect: instant
    std::optional<int*> o;
    if (x) o = &counter;
    if (o) ++**o;  // because: via_opt_glob global
  }
  void via_opt_number() {  // expect: instant
    std::optional<int*> o(&x);
    std::memcpy(&n, &o, 8);  // because: via_opt_number *
  }
  void via_var_kept() {  // expect: instant
    if (auto* p = std::get_if<int*>(&var)) ++**p;  // because: via_var_kept kept_pointer
  }
  void via_var_glob() {  // expect: instant
    std::variant<int, int*> v = &counter;
    ++*std::get<1>(v);  // because: via_var_glob *
  }
  void via_inner() {  // expect: instant
    Outer::Inner i{&out};
    i.go();
  }
  void via_eraser() {  // expect: instant
    auto l = [] { ++counter; };  // because: via_eraser global
    Eraser e(&l);
    e();
  }
  void via_eraser_own() {  // expect: deferrable
    auto l = [this] { ++x; };
    Eraser e(&l);
    e();
  }
  void via_ep() {  // expect: instant
    if (ep) std::rethrow_exception(ep);  // because: via_ep no_source
  }
  void via_cur_ex() { ep = std::current_exception(); }  // expect: instant; because: via_cur_ex *
  void via_pair() { *pr.first = 3; }  // expect: instant; because: via_pair kept_pointer
  void via_const_write() { const_cast<int&>(reinterpret_cast<const int&>("abcd")) = 1; }  // expect: instant; because: via_const_write global
  void via_const_or_own(bool b) {  // expect: deferrable
    const char* p = b ? "abc" : reinterpret_cast<const char*>(raw);
    x = *p;
  }
  void via_il() { x = *il.begin(); }  // expect: instant; because: via_il kept_pointer
  void via_il_glob() {  // expect: instant
    for (int* p : {&x, &counter}) ++*p;  // because: via_il_glob global
  }
  void via_view_glob() {  // expect: instant
    int lim = 3;
    for (int& v : a | std::views::filter([lim](int y) { return y > lim + counter; })) v = 0;  // because: via_view_glob global
  }
  void via_view_cells() {  // expect: instant
    for (int& v : cells | std::views::take(2)) v = 0;  // because: via_view_cells global
  }
  void via_gen_lambda() {  // expect: instant
    std::generate(a, a + 8, [] { return counter++; });  // because: via_gen_lambda global
  }
  void via_static_lambda() {  // expect: instant
    auto f = [](int* p) {
      static int calls;
      ++calls;  // because: via_static_lambda global
      return *p;
    };
    int (*g)(int*) = f;
    x = g(&x);
  }
  void via_notnull_glob() {  // expect: instant
    int* p = x ? &counter : nullptr;
    if (p) *p = 1;  // because: via_notnull_glob global
  }
  void via_loop_ptr() {  // expect: instant
    int* p = a;
    int** pp = &p;
    *pp = cells;
    *p = 2;  // because: via_loop_ptr global
  }
  void via_swap_ptr() {  // expect: instant
    int* p = a;
    int* q = cells;
    std::swap(p, q);
    *p = 1;  // because: via_swap_ptr global
  }
  void via_exch_ptr() {  // expect: instant
    int* p = a;
    std::exchange(p, cells);
    *p = 1;  // because: via_exch_ptr global
  }
  void via_tuple_ptr() {  // expect: instant
    auto t = std::make_tuple(&x, &counter);
    *std::get<1>(t) = 2;  // because: via_tuple_ptr global
  }
  void via_tie_ptr() {  // expect: instant
    int* p;
    int* q;
    std::tie(p, q) = std::make_pair(&x, &counter);
    *q = 2;  // because: via_tie_ptr global
  }
  void via_apply_ptr() {  // expect: instant
    std::apply(
        [](int* p, int* q) {
          *p = 1;  // because: via_apply_ptr global
          *q = 2;  // because: via_apply_ptr global
        },
        std::make_tuple(&x, &counter));
  }
  void via_bitcast_ptr() { *std::bit_cast<int*>(n) = 1; }  // expect: instant; because: via_bitcast_ptr unknown_pointer
  void via_arr_ptr() {  // expect: instant
    std::array<int*, 2> t{&x, &counter};
    for (int* p : t) ++*p;  // because: via_arr_ptr global
  }
  void via_rec(int d) {  // expect: instant
    if (d) via_rec2(d - 1);
  }
  void via_rec2(int d) {  // expect: instant
    if (d)
      via_rec(d - 1);
    else
      ++counter;  // because: via_rec global; because: via_rec2 global
  }
  void via_new_array() {  // expect: instant
    int* p = new int[3];  // because: via_new_array memory
    x = p[0];
    delete[] p;  // because: via_new_array memory
  }
  void via_newnothrow() { x = new (std::nothrow) int != nullptr; }  // expect: instant; because: via_newnothrow memory
  void via_spaceship_glob() {  // expect: instant
    struct S {
      int v;
      auto operator<=>(const S& o) const {
        ++counter;  // because: via_spaceship_glob global
        return v <=> o.v;
      }
    };
    x = S{1} < S{2};
  }
  void via_ifinit() {  // expect: instant
    if (int* p = &counter; x) *p = 1;  // because: via_ifinit global
  }
  void via_swinit() {  // expect: instant
    switch (int v = ++counter; v) {  // because: via_swinit global
      default:
        x = v;
    }
  }
  void via_vla(int k) {  // expect: instant
    int l[k];
    l[0] = ++counter;  // because: via_vla global
    x = l[0];
  }
  void via_stmtexpr() {  // expect: instant
    x = ({
      int l = ++counter;  // because: via_stmtexpr global
      l;
    });
  }
  void via_computed_goto(int i) {  // expect: instant
    static void* const kT[] = {&&p, &&q};
    goto* kT[i];
  p:
    ++counter;  // because: via_computed_goto global
  q:
    x = 1;
  }
  void via_noexcept_glob() noexcept(noexcept(++counter)) { x = 1; }  // expect: deferrable
  void via_sizeof_glob() { x = sizeof(++counter); }  // expect: deferrable
  void via_typeid_eval() { x = typeid(*(++counter, poly)) == typeid(Poly); }  // expect: instant; because: via_typeid_eval *
  void via_cond_lv(bool b) { (b ? x : counter) = 1; }  // expect: instant; because: via_cond_lv global
  void via_comma_lv() { (x, counter) = 1; }  // expect: instant; because: via_comma_lv global
  void via_builtin_str() { x = (int)__builtin_strlen(reinterpret_cast<char*>(cells)); }  // expect: instant; because: via_builtin_str global
  void via_errno() { x = *__errno_location(); }  // expect: instant; because: via_errno no_source
  void via_ternary_throw() { x = x ? 1 : throw 1; }  // expect: instant; because: via_ternary_throw throws
};
