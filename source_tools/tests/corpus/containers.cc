// Containers, texts, trees and tables of handlers within the object, as people write them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <perdura/compat/simpo.hpp>
#include <perdura/objects.hpp>
#include <ranges>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
namespace corpus_containers {
struct Entry {
  std::uint64_t key;
  std::uint32_t next;
  bool used;
};
template <class K, class V, std::size_t N>
class FlatMap {
 public:
  V* find(const K& k) {
    for (auto& [key, value] : items_)
      if (key == k) return &value;
    return nullptr;
  }
  bool insert(const K& k, const V& v) {
    if (n_ == N) return false;
    items_[n_++] = {k, v};
    return true;
  }
  V& operator[](const K& k) {
    if (V* v = find(k)) return *v;
    items_[n_] = {k, V{}};
    return items_[n_++].second;
  }
  void erase(const K& k) {
    auto it = std::find_if(begin(), end(), [&](const auto& e) { return e.first == k; });
    if (it != end()) {
      std::move(std::next(it), end(), it);
      --n_;
    }
  }
  auto begin() { return items_.begin(); }
  auto end() { return items_.begin() + n_; }
  template <class F>
  void for_each(F&& f) {
    for (auto it = begin(); it != end(); ++it) std::invoke(f, it->second);
  }

 private:
  std::array<std::pair<K, V>, N> items_{};
  std::size_t n_ = 0;
};
template <class T, std::size_t N>
class Ring {
 public:
  class iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using reference = T&;
    using pointer = T*;
    using iterator_category = std::forward_iterator_tag;
    iterator() = default;
    iterator(Ring* r, std::size_t i) : r_(r), i_(i) {}
    T& operator*() const { return r_->at(i_); }
    T* operator->() const { return &r_->at(i_); }
    iterator& operator++() {
      ++i_;
      return *this;
    }
    iterator operator++(int) {
      auto c = *this;
      ++i_;
      return c;
    }
    bool operator==(const iterator& o) const { return i_ == o.i_; }

   private:
    Ring* r_ = nullptr;
    std::size_t i_ = 0;
  };
  iterator begin() { return {this, 0}; }
  iterator end() { return {this, n_}; }
  T& at(std::size_t i) { return a_[(h_ + i) % N]; }
  void push(T v) {
    if (n_ < N)
      a_[(h_ + n_++) % N] = std::move(v);
    else {
      a_[h_] = std::move(v);
      h_ = (h_ + 1) % N;
    }
  }
  std::optional<T> pop() {
    if (!n_) return std::nullopt;
    --n_;
    return a_[std::exchange(h_, (h_ + 1) % N)];
  }

 private:
  T a_[N]{};
  std::size_t h_ = 0, n_ = 0;
};
template <std::size_t N>
class Text {
 public:
  void assign(std::string_view s) {
    n_ = std::min(s.size(), N);
    std::memcpy(c_, s.data(), n_);  // because: with_text_arg argument
  }
  void append(std::string_view s) {
    auto k = std::min(s.size(), N - n_);
    std::copy_n(s.data(), k, c_ + n_);
    n_ += k;
  }
  std::string_view view() const { return {c_, n_}; }
  Text& operator+=(char c) {
    if (n_ < N) c_[n_++] = c;
    return *this;
  }
  friend bool operator==(const Text& a, const Text& b) { return a.view() == b.view(); }
  auto operator<=>(const Text& o) const { return view() <=> o.view(); }

 private:
  char c_[N]{};
  std::size_t n_ = 0;
};
template <class D>
struct Crtp {
  void bump() { static_cast<D*>(this)->count_++; }
};
struct Counted : Crtp<Counted> {
  int count_ = 0;
};
struct Base {
  int b = 0;
  void touch() { ++b; }
  virtual ~Base() = default;
};
class Sum {
 public:
  Sum& add(int v) {
    s_ += v;
    return *this;
  }
  Sum& mul(int v) {
    s_ *= v;
    return *this;
  }
  operator int() const { return s_; }

 private:
  int s_ = 0;
};
template <class T>
class Ptr {
 public:
  explicit Ptr(T* p) : p_(p) {}
  T& operator*() const { return *p_; }
  T* operator->() const { return p_; }
  explicit operator bool() const { return p_; }

 private:
  T* p_;
};
class Scoped {
 public:
  Scoped(bool& b) : b_(b), old_(std::exchange(b, true)) {}
  ~Scoped() { b_ = old_; }
  Scoped(const Scoped&) = delete;

 private:
  bool& b_;
  bool old_;
};
template <class... Ts>
struct Overload : Ts... {
  using Ts::operator()...;
};
enum Ev { kA, kB, kEvents };
struct State;
using Handler = void (*)(State&, int);
struct State {
  int v;
  int hist[4];
};
void on_a(State& s, int v) { s.v += v; }
void on_b(State& s, int v) {
  std::rotate(s.hist, s.hist + 1, s.hist + 4);
  s.hist[3] = v;
}
constexpr Handler kHandlers[kEvents] = {on_a, on_b};
struct Cmd {
  std::string_view name;
  void (*run)(State&, int);
  int min;
};
constexpr Cmd kCmds[] = {{"a", on_a, 1}, {"b", on_b, 2}};
constexpr std::array kLut = [] {
  std::array<std::uint8_t, 256> t{};
  for (int i = 0; i < 256; ++i) t[i] = static_cast<std::uint8_t>(i * 7);
  return t;
}();
struct Matrix {
  double m[3][3];
  double* operator[](int i) { return m[i]; }
  const double* operator[](int i) const { return m[i]; }
  double& operator()(int i, int j) { return m[i][j]; }
  friend Matrix operator*(const Matrix& a, const Matrix& b) {
    Matrix c{};
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 3; ++k) c.m[i][j] += a[i][k] * b[k][j];
    return c;
  }
};
struct Visitor {
  int total = 0;
  void operator()(int v) { total += v; }
  void operator()(double d) { total += static_cast<int>(d); }
};
struct Tree {
  struct N {
    int k, l, r;
  } n[32];
  int root, used;
  int* slot(int k) {
    int* at = &root;
    while (*at >= 0 && n[*at].k != k) at = k < n[*at].k ? &n[*at].l : &n[*at].r;
    return at;
  }
  void insert(int k) {
    int* s = slot(k);
    if (*s < 0) {
      n[used] = {k, -1, -1};
      *s = used++;
    }
  }
  template <class F>
  void walk(int at, F&& f) {
    if (at < 0) return;
    walk(n[at].l, f);
    f(n[at]);
    walk(n[at].r, f);
  }
};
struct Holder {  // because: with_assign_self keeps_address
  int n;
  FlatMap<int, int, 8> map;
  Ring<int, 8> ring;
  Text<32> text;
  Counted counted;
  bool busy;
  State state;
  Matrix mat;
  Tree tree;
  Entry entries[16];
  std::uint32_t buckets[8];
  std::uint8_t bytes[64];
  std::optional<int> o;
  std::variant<int, double> v;
  int grid[4][4];
  struct {
    int a, b;
  } anon;
  union {
    std::uint32_t u32;
    float f32;
  };
  unsigned flag : 3;
  std::array<std::array<int, 3>, 3> aa;
  int* np;
  long long stamp;
  void with_map(int k) noexcept {  // expect: deferrable
    map[k] = 3;
    map.erase(k);
    map.insert(k, 2);
    if (auto* p = map.find(k)) ++*p;
  }
  void with_map_each() noexcept {  // expect: deferrable
    map.for_each([](int& v) { v = 0; });
    map.for_each([this](int& v) { n += v; });
  }
  void with_map_sb() noexcept {  // expect: deferrable
    for (auto& [k, v] : map) v += k;
  }
  void with_ring(int k) noexcept {  // expect: deferrable
    ring.push(k);
    if (auto p = ring.pop()) n = *p;
  }
  void with_ring_iter() noexcept {  // expect: deferrable
    for (int& r : ring) ++r;
    n = *std::max_element(ring.begin(), ring.end());
  }
  void with_ring_algo() noexcept {  // expect: deferrable
    std::replace(ring.begin(), ring.end(), 1, 2);
    n = (int)std::count(ring.begin(), ring.end(), 2);
    n = std::accumulate(ring.begin(), ring.end(), 0);
  }
  void with_text() noexcept {  // expect: deferrable
    text.assign("hello");
    text.append("x");
    text += 'c';
    Text<32> t2;
    t2.assign("y");
    n = text == t2;
    n = text < t2;
    std::swap(text, t2);
  }
  void with_text_arg(std::string_view s) noexcept { text.assign(s); }  // expect: instant
  void with_crtp() noexcept { counted.bump(); }  // expect: deferrable
  void with_scoped() noexcept {  // expect: deferrable
    Scoped s(busy);
    ++n;
  }
  void with_sum() noexcept { n = Sum().add(2).mul(n); }  // expect: deferrable
  void with_ptr() noexcept {  // expect: deferrable
    Ptr<State> p(&state);
    if (p) p->v = 3;
    (*p).v = 4;
  }
  void with_handlers(int e, int v) noexcept { kHandlers[e % kEvents](state, v); }  // expect: deferrable
  void with_cmds(int v) noexcept {  // expect: deferrable
    for (const Cmd& c : kCmds)
      if (c.name == text.view() && v >= c.min) c.run(state, v);
  }
  void with_cmds_find(int v) noexcept {  // expect: deferrable
    auto it = std::ranges::find(kCmds, text.view(), &Cmd::name);
    if (it != std::end(kCmds)) it->run(state, v);
  }
  void with_lut(int i) noexcept { bytes[0] = kLut[bytes[i & 63]]; }  // expect: deferrable
  void with_matrix() noexcept {  // expect: deferrable
    mat = mat * mat;
    mat(1, 1) = mat[0][2];
  }
  void with_visitor() noexcept {  // expect: deferrable
    Visitor w;
    std::visit(w, v);
    n = w.total;
  }
  void with_visit_this() noexcept {  // expect: deferrable
    std::visit([this](auto x) { n = (int)x; }, v);
  }
  void with_overload() noexcept {  // expect: deferrable
    std::visit(Overload{[&](int i) { n = i; }, [&](double d) { n = (int)d; }}, v);
  }
  void with_tree(int k) noexcept {  // expect: deferrable
    tree.insert(k);
    tree.walk(tree.root, [&](auto& x) { n += x.k; });
  }
  void with_hash(std::uint64_t k) noexcept {  // expect: deferrable
    std::uint32_t* p = &buckets[k % 8];
    while (*p) {
      Entry& e = entries[*p];
      if (e.key == k) {
        *p = e.next;
        e.used = false;
        return;
      }
      p = &e.next;
    }
  }
  void with_serialize() noexcept {  // expect: deferrable
    std::uint8_t* p = bytes;
    auto put = [&p](auto x) {
      std::memcpy(p, &x, sizeof x);
      p += sizeof x;
    };
    put(n);
    put(stamp);
  }
  void with_deser() noexcept {  // expect: deferrable
    const std::uint8_t* p = bytes;
    auto get = [&p](auto& x) {
      std::memcpy(&x, p, sizeof x);
      p += sizeof x;
    };
    get(n);
    get(stamp);
  }
  void with_grid() noexcept {  // expect: deferrable
    for (auto& row : grid)
      for (int& c : row) c = 0;
    std::fill(&grid[0][0], &grid[0][0] + 16, 1);
    for (auto& [a, b, c] : aa) std::swap(a, c);
  }
  void with_grid_ptr(int r) noexcept {  // expect: deferrable
    int(*p)[4] = grid;
    (*(p + r))[1] = 2;
    int* q = *p;
    q[3] = 1;
  }
  void with_anon() noexcept {  // expect: deferrable
    anon.a = anon.b;
    u32 = 0x3f800000;
    n = (int)u32;
    flag = flag + 1;
    auto& [x, y] = anon;
    x = y;
  }
  void with_views() noexcept {  // expect: deferrable
    for (auto x : grid[0] | std::views::transform([](int v) { return v * 2; })) n += x;
    for (int& x : std::views::reverse(grid[1])) ++x;
  }
  void with_views_n(int lim) noexcept {  // expect: deferrable
    for (int& x : grid[0] | std::views::filter([lim](int v) { return v > lim; })) x = lim;
  }
  void with_views_keys() noexcept {  // expect: deferrable
    for (int k : map | std::views::keys) n += k;
    for (int& k : map | std::views::values) k = 1;
  }
  void with_views_enum() noexcept {  // expect: deferrable
    for (int i : std::views::iota(0) | std::views::take(4)) grid[0][i] = i;
    auto s = std::span(grid[0]) | std::views::drop_while([](int v) { return v < 3; });
    for (int& x : s) ++x;
  }
  void with_proj() noexcept {  // expect: deferrable
    std::ranges::sort(tree.n, {}, &Tree::N::k);
    n = std::ranges::max_element(tree.n, {}, [](const Tree::N& x) { return x.l; })->k;
    std::ranges::for_each(tree.n, [](int& k) { ++k; }, &Tree::N::k);
  }
  void with_remove_if(int lim) noexcept {  // expect: deferrable
    auto e = std::remove_if(std::begin(bytes), std::end(bytes), [=](int b) { return b > lim; });
    std::fill(e, std::end(bytes), 0);
  }
  void with_part() noexcept {  // expect: deferrable
    auto m = std::partition(bytes, bytes + 64, [](auto b) { return b & 1; });
    n = (int)(m - bytes);
    std::nth_element(bytes, bytes + 3, bytes + 9);
    std::partial_sort(bytes, bytes + 3, bytes + 9);
  }
  void with_search() noexcept {  // expect: deferrable
    n = std::binary_search(bytes, bytes + 64, 3);
    n = std::search(bytes, bytes + 64, bytes, bytes + 2) != bytes + 64;
    n = std::equal(bytes, bytes + 4, bytes + 4);
    n = std::lexicographical_compare(bytes, bytes + 4, bytes + 4, bytes + 8);
    n = std::mismatch(bytes, bytes + 4, bytes + 4).first - bytes;
    n = std::adjacent_find(bytes, bytes + 4) - bytes;
    n = std::is_sorted(bytes, bytes + 64);
    n = std::next_permutation(bytes, bytes + 4);
  }
  void with_fold(int a, int b, int c) noexcept {  // expect: deferrable
    n = sum(a, b, c);
    [&]<class... T>(T... t) { ((n += t), ...); }(a, b, c);
  }

 private:
  template <class... T>
  static int sum(T... t) {
    return (t + ... + 0);
  }

 public:
  void with_index_seq() noexcept {  // expect: deferrable
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((grid[0][I] = (int)I), ...);
    }(std::make_index_sequence<4>());
  }
  void with_tuple_for() noexcept {  // expect: deferrable
    auto t = std::tie(n, grid[0][0]);
    std::get<0>(t) = 3;
    std::apply([](auto&... x) { ((x = 1), ...); }, t);
    auto [a, b] = t;
    a = b;
    auto u = std::tuple_cat(t, std::make_tuple(3));
    std::get<1>(u) = 2;
  }
  void with_fwd_tuple() noexcept {  // expect: deferrable
    auto f = std::forward_as_tuple(n, 3);
    std::get<0>(f) = std::get<1>(f);
  }
  void with_pair_ref() noexcept {  // expect: deferrable
    std::pair<int&, int&> p(n, grid[0][0]);
    p.first = p.second;
    auto q = std::minmax(grid[0][0], grid[0][1]);
    n = q.second;
  }
  void with_deduct() noexcept {  // expect: deferrable
    auto [it, ok] = try_put(3);
    if (ok) *it = 2;
  }

 private:
  std::pair<int*, bool> try_put(int v) noexcept {
    grid[0][0] = v;
    return {&grid[0][0], true};
  }

 public:
  void with_outparam() noexcept {  // expect: deferrable
    int r;
    if (parse(&r)) n = r;
    int a, b;
    split(a, b);
    n = a + b;
  }

 private:
  bool parse(int* out) const noexcept {
    *out = n;
    return true;
  }
  void split(int& a, int& b) const noexcept {
    a = n;
    b = n;
  }

 public:
  void with_this_chain() noexcept {  // expect: deferrable
    self().self().n = 3;
    (*this).n = 4;
    auto* t = this;
    t->n = 5;
    auto& r = *this;
    r.n = 6;
  }

 private:
  Holder& self() noexcept { return *this; }

 public:
  void with_uptr() noexcept {  // expect: deferrable
    struct No {
      void operator()(int*) const {}
    };
    std::unique_ptr<int, No> p(&n);
    *p = 3;
  }
  void with_local_class() noexcept {  // expect: deferrable
    struct L {
      int& r;
      int k;
      void go() { r += k; }
    } l{n, 3};
    l.go();
    auto m = l;
    m.go();
  }
  void with_const_ref() noexcept {  // expect: deferrable
    const int& m = std::max(n, 3);
    n = m + 1;
    const auto& g = grid[0];
    n = g[1];
  }
  void with_func_ref() noexcept {  // expect: deferrable
    auto f = [&](auto& self, int d) -> int { return d ? self(self, d - 1) + n : 0; };
    n = f(f, 3);
  }
  void with_generic_pass() noexcept {  // expect: deferrable
    apply_all([](int& c) { c = 1; });
    apply_all([&](int& c) { c = n; });
    apply_all(std::bind_front(&Holder::set_to, this, 4));
    apply_fn(+[](int& c) { c = 2; });
  }

 private:
  template <class F>
  void apply_all(F f) {
    for (auto& r : grid) std::for_each(r, r + 4, f);
  }
  void apply_fn(void (*f)(int&)) {
    for (auto& r : grid)
      for (int& c : r) f(c);
  }
  void set_to(int v, int& c) { c = v + n; }

 public:
  void with_invoke_mem() noexcept {  // expect: deferrable
    std::ranges::for_each(tree.n, [this](auto& x) { std::invoke(&Holder::bump, this, x.k); });
    std::invoke(&Tree::insert, tree, 3);
    auto mf = std::mem_fn(&Tree::insert);
    mf(tree, 4);
  }
  void bump(int k) { n += k; }  // expect: deferrable
  void with_null() noexcept {  // expect: deferrable
    np = nullptr;
    if (np == nullptr) n = 1;
    n = np != nullptr;
  }
  void with_assign_self(const Holder& o) noexcept {  // expect: instant
    if (this != &o) *this = o;
  }
  void with_eq(const State& s) noexcept {  // expect: deferrable
    if (std::memcmp(&s, &state, sizeof s) != 0) state = s;
  }
  void with_swap_states(State s) noexcept {  // expect: deferrable
    std::swap(state, s);
    state = std::exchange(s, State{});
  }
  void with_bits() noexcept {  // expect: deferrable
    for (unsigned b = bytes[0]; b; b &= b - 1) n += __builtin_ctz(b);
    n = std::popcount(bytes[0]);
    n ^= n >> 3;
    stamp = (stamp << 7) | (stamp >> 57);
  }
  void with_crc() noexcept {  // expect: deferrable
    std::uint32_t c = ~0u;
    for (auto b : bytes) {
      c ^= b;
      for (int i = 0; i < 8; ++i) c = (c >> 1) ^ (0xEDB88320u & -(c & 1));
    }
    u32 = ~c;
  }
  void with_strings() noexcept {  // expect: deferrable
    static constexpr std::string_view kN[] = {"x", "yy"};
    for (auto s : kN) text.append(s);
    const char* p = "lit";
    while (*p) text += *p++;
    char buf[16];
    std::strcpy(buf, "ab");
    std::strncat(buf, "cd", 4);
    n = (int)std::strlen(buf);
    n = std::strchr(buf, 'b') != nullptr;
    n = std::char_traits<char>::length(buf);
  }
  void with_itoa(int v) noexcept {  // expect: deferrable
    char b[12];
    char* p = b + 12;
    do *--p = char('0' + v % 10);
    while (v /= 10);
    text.assign({p, size_t(b + 12 - p)});
  }
  void with_backins() noexcept {  // expect: deferrable
    struct Out {
      using value_type = int;
      int* a;
      int& k;
      void push_back(int v) { a[k++] = v; }
    } out{grid[0], n};
    std::copy_n(grid[1], 2, std::back_inserter(out));
  }
  void with_optional_ref() noexcept {  // expect: deferrable
    std::optional<std::reference_wrapper<int>> r;
    if (n) r = n;
    if (r) r->get() = 3;
  }
  void with_opt_struct() noexcept {  // expect: deferrable
    struct P {
      int* a;
      int k;
    };
    std::optional<P> p;
    if (n) p = P{&n, 2};
    if (p) *p->a = p->k;
  }
  void with_variant_ptr() noexcept {  // expect: deferrable
    std::variant<int*, std::monostate> p = &n;
    if (auto* q = std::get_if<0>(&p)) **q = 2;
  }
  void with_array_ptr() noexcept {  // expect: deferrable
    std::array<int*, 2> p{&n, &grid[0][0]};
    std::ranges::sort(p, {}, [](int* q) { return *q; });
    *p[0] = 1;
  }
  void with_list_lambda() noexcept {  // expect: deferrable
    auto fs = std::array{+[](int x) { return x; }, +[](int x) { return 2 * x; }};
    for (auto f : fs) n = f(n);
  }
};
class Mem : public POBase {
 public:
  explicit Mem(int poid = 0) : POBase(4096, poid) {}
  struct Head {
    int count;
    FlatMap<int, int, 8> map;
    Ring<int, 8> ring;
    Text<16> text;
    std::optional<int> o;
    int cells[16];
  };
  void with_head() noexcept {  // expect: deferrable
    head().count++;
    head().map[3] = 4;
    head().ring.push(3);
    head().text.assign("abc");
  }
  void with_invoke() noexcept {  // expect: deferrable
    std::invoke([](Head& h) { ++h.count; }, head());
    std::invoke(&Head::count, head()) = 2;
  }
  void with_views() noexcept {  // expect: deferrable
    for (int& c : head().cells | std::views::filter([](int v) { return v & 1; })) ++c;
  }
  void with_span() noexcept {  // expect: deferrable
    std::span s(head().cells);
    std::ranges::sort(s);
    s.front() = 1;
  }
  void with_opt() noexcept {  // expect: deferrable
    head().o = 3;
    if (head().o) head().count = *head().o;
  }
  void with_optptr(int k) noexcept {  // expect: deferrable
    if (std::optional<int*> p = find(k)) **p = 3;
  }
  void with_bind(int k) noexcept {  // expect: deferrable
    auto f = std::bind_front(&Mem::put, this);
    f(k);
  }
  void with_new() noexcept {  // expect: deferrable
    new (poroot) Head{};
    std::construct_at(static_cast<Head*>(poroot));
  }

 private:
  void put(int k) { head().cells[k] = k; }
  std::optional<int*> find(int k) {
    for (int& c : head().cells)
      if (c == k) return &c;
    return {};
  }
  Head& head() { return *static_cast<Head*>(poroot); }
};
}  // namespace corpus_containers
template <>
struct perdura::Methods<corpus_containers::Holder>
    : perdura::MethodList<perdura::Deferrable<&corpus_containers::Holder::bump>> {};
