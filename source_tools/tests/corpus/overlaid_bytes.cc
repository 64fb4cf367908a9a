// Values of other types in the bytes of pointers, and what only looks like it.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <variant>
int counter;
int cells[8];
struct LP {
  long n;
  int* p;
};
struct PP {
  int* p;
  int* q;
};
struct AL {
  long a[4];
  int* p;
};
struct LL {
  long a, b;
};
void put_long(long* at, long v) { new (at) long(v); }
void put_ptr(int** at, int* v) { std::construct_at(at, v); }
struct MB {
  std::monostate m;
};
union UE {
  MB m;
  int* p;
};
union UL {
  long l;
  int* p;
};
union UN {
  struct {
  } e;
  struct {
    long l;
  } w;
  int* p;
};
struct Refuted {
  int x;
  long n;
  LP kept;
  int a[8];
  unsigned char raw[16];
  void via_memcpy_first() {  // expect: instant
    LP s{0, &x}, t{1, &counter};
    std::memcpy(&s.n, &t.n, sizeof s);
    ++*s.p;  // because: via_memcpy_first unknown_pointer
  }
  void via_memcpy_overlay() {  // expect: instant
    LP s{n, &x};
    PP t{&x, &x};
    std::memcpy(&t.q, &s.n, 8);
    ++*t.q;  // because: via_memcpy_overlay unknown_pointer
  }
  void via_memcpy_overlay2() {  // expect: instant
    struct {
      int* p;
      long n;
    } s{&x, n};
    PP t{&x, &x};
    std::memcpy(&t.p, &s.p, 16);
    ++*t.q;  // because: via_memcpy_overlay2 unknown_pointer
  }
  void via_memcpy_pp() {  // expect: deferrable
    PP s{&x, &x}, t{&x, &x};
    std::memcpy(&t, &s, sizeof s);
    ++*t.q;
  }
  void via_memcpy_pp_glob() {  // expect: instant
    PP s{&x, &counter}, t{&x, &x};
    std::memcpy(&t, &s, sizeof s);
    ++*t.q;  // because: via_memcpy_pp_glob global
  }
  void via_copy_pp() {  // expect: deferrable
    int* s[2] = {&x, &a[0]};
    int* t[2];
    std::copy(s, s + 2, t);
    ++*t[0];
  }
  void via_copy_pp_glob() {  // expect: instant
    int* s[2] = {&x, &counter};
    int* t[2];
    std::copy(s, s + 2, t);
    ++*t[0];  // because: via_copy_pp_glob global
  }
  void via_copy_al() {  // expect: deferrable
    AL l{{1, 2}, &x};
    std::copy(a, a + 4, l.a);
    ++*l.p;
  }
  void via_copy_al_same() {  // expect: deferrable
    AL l{{1, 2}, &x};
    long s[4]{};
    std::copy(s, s + 4, l.a);
    ++*l.p;
  }
  void via_copy_cast() {  // expect: instant
    int* p = &x;
    std::copy_n(&n, 1, reinterpret_cast<long*>(&p));  // because: via_copy_cast address_as_number
    ++*p;  // because: via_copy_cast unknown_pointer
  }
  void via_new_cast() {  // expect: instant
    int* p = &x;
    put_long(reinterpret_cast<long*>(&p), n);  // because: via_new_cast address_as_number
    ++*p;  // because: via_new_cast unknown_pointer
  }
  void via_new_voidcast() {  // expect: instant
    int* p = &x;
    new (static_cast<void*>(&p)) long(n);
    ++*p;  // because: via_new_voidcast unknown_pointer
  }
  void via_new_struct() {  // expect: instant
    LP l{0, &x};
    new (&l) LL{n, n};
    ++*l.p;  // because: via_new_struct unknown_pointer
  }
  void via_new_same() {  // expect: deferrable
    LP l{0, &x};
    new (&l) LP{n, &x};
    ++*l.p;
  }
  void via_new_same_glob() {  // expect: instant
    LP l{0, &x};
    new (&l) LP{n, &counter};
    ++*l.p;  // because: via_new_same_glob global
  }
  void via_put_ptr() {  // expect: instant
    int* p = &x;
    put_ptr(&p, &counter);
    ++*p;  // because: via_put_ptr global
  }
  void via_put_ptr_own() {  // expect: deferrable
    int* p;
    put_ptr(&p, &x);
    ++*p;
  }
  void via_new_base() {  // expect: instant
    struct B {
      long n;
    };
    struct D : B {
      int* p;
    };
    D d{{1}, &x};
    new (static_cast<B*>(&d)) D{{n}, &counter};
    ++*d.p;  // because: via_new_base global
  }
  void via_union_empty() {  // expect: deferrable
    UE u{.p = &x};
    ++*u.p;
  }
  void via_union_empty_glob() {  // expect: instant
    UE u{.p = &counter};
    ++*u.p;  // because: via_union_empty_glob global
  }
  void via_union_long() {  // expect: instant
    UL u{.p = &x};
    u.l = n;
    ++*u.p;  // because: via_union_long unknown_pointer
  }
  void via_union_nested() {  // expect: instant
    UN u;
    u.w.l = n;
    ++*u.p;  // because: via_union_nested unknown_pointer
  }
  void via_opt_emplace_glob() {  // expect: instant
    std::optional<int*> p;
    p.emplace(&counter);
    ++**p;  // because: via_opt_emplace_glob global
  }
  void via_opt_struct_glob() {  // expect: instant
    std::optional<LP> p;
    p = LP{1, &counter};
    ++*p->p;  // because: via_opt_struct_glob global
  }
  void via_opt_number() {  // expect: instant
    std::optional<long> p = n;
    ++**reinterpret_cast<int**>(&p);  // because: via_opt_number unknown_pointer
  }
  void via_opt_number_to_ptr() {  // expect: instant
    std::optional<LP> p;
    p = *reinterpret_cast<LP*>(raw);
    ++*p->p;  // because: via_opt_number_to_ptr kept_pointer
  }
  void via_opt_kept() {  // expect: instant
    std::optional<LP> p = kept;
    ++*p->p;  // because: via_opt_kept kept_pointer
  }
  void via_var_glob() {  // expect: instant
    std::variant<std::monostate, int*> p = &counter;
    ++*std::get<1>(p);  // because: via_var_glob *
  }
  void via_var_own() {  // expect: deferrable
    std::variant<std::monostate, int*> p = &x;
    if (auto* q = std::get_if<1>(&p)) ++**q;
  }
  void via_var_number() {  // expect: instant
    std::variant<long, int*> p = n;
    ++**reinterpret_cast<int**>(&p);  // because: via_var_number unknown_pointer
  }
  void via_il_mut(std::initializer_list<int> l) { x = *l.begin(); }  // expect: instant; because: via_il_mut argument
  void via_const_struct_ptr() {  // expect: instant
    static const struct {
      int* const* pp;
    } s{[] {  // because: via_const_struct_ptr global
      static int* const p = &counter;
      return &p;
    }()};
    ++**s.pp;  // because: via_const_struct_ptr global
  }
  void via_const_ref_temp() {  // expect: instant
    static constexpr std::initializer_list<int*> l = {&counter};
    ++**l.begin();  // because: via_const_ref_temp global
  }
  void via_array_sort_glob() {  // expect: instant
    std::array<int*, 2> p{&x, &counter};
    std::ranges::sort(p);  // because: via_array_sort_glob address_as_number
    ++*p[0];  // because: via_array_sort_glob global
  }
  void via_array_rotate() {  // expect: deferrable
    std::array<int*, 3> p{&x, &a[0], &a[1]};
    std::rotate(p.begin(), p.begin() + 1, p.end());
    ++*p[0];
  }
  void via_bytes_rotate() {  // expect: instant
    int* p[2] = {&x, &a[1]};
    auto* b = reinterpret_cast<unsigned char*>(p);  // because: via_bytes_rotate address_as_number
    std::rotate(b, b + 1, b + 16);  // because: via_bytes_rotate address_as_number
    ++*p[0];  // because: via_bytes_rotate unknown_pointer
  }
  void via_bytes_copy() {  // expect: instant
    int* p[2] = {&x, &a[1]};
    std::copy(raw, raw + 16, reinterpret_cast<unsigned char*>(p));  // because: via_bytes_copy address_as_number
    ++*p[0];  // because: via_bytes_copy unknown_pointer
  }
};
