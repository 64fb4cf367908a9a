// What people write in classes that hold things: the library, constants, tables of functions.
#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cctype>
#include <charconv>
#include <chrono>
#include <climits>
#include <cmath>
#include <compare>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <perdura/objects.hpp>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace corpus_idioms {
enum class Color : std::uint8_t { kRed, kGreen, kBlue };
constexpr int kPrimes[] = {2, 3, 5, 7, 11};
constexpr std::array<std::pair<int, int>, 3> kPairs{{{1, 2}, {3, 4}, {5, 6}}};
constexpr std::string_view kNames[] = {"red", "green", "blue"};
struct Op {
  const char* name;
  int (*run)(int);
};
int neg(int x) { return -x; }
int dbl(int x) { return 2 * x; }
constexpr Op kOps[] = {{"neg", &neg}, {"dbl", &dbl}};
struct Point {
  int x = 0, y = 0;
  auto operator<=>(const Point&) const = default;
  Point& operator+=(const Point& o) {
    x += o.x;
    y += o.y;
    return *this;
  }
  friend Point operator+(Point a, const Point& b) { return a += b; }
};
struct Guard {
  int& depth;
  explicit Guard(int& d) : depth(d) { ++depth; }
  ~Guard() { --depth; }
};
template <class F>
struct OnExit {
  F f;
  explicit OnExit(F g) : f(g) {}
  ~OnExit() { f(); }
};
template <class T, int N>
class Fixed {
 public:
  void push_back(const T& v) {
    if (n_ < N) a_[n_++] = v;
  }
  template <class... A>
  void emplace_back(A&&... a) {
    if (n_ < N) a_[n_++] = T{std::forward<A>(a)...};
  }
  void pop_back() { --n_; }
  T* begin() { return a_; }
  T* end() { return a_ + n_; }
  const T* begin() const { return a_; }
  const T* end() const { return a_ + n_; }
  T& operator[](int i) { return a_[i]; }
  int size() const { return n_; }
  void erase(T* at) {
    std::move(at + 1, end(), at);
    --n_;
  }

 private:
  T a_[N]{};
  int n_ = 0;
};
struct Node {
  int key, next;
};

struct Idioms {
  int a[64];
  int n;
  char text[64];
  double d[8];
  Point pts[8];
  std::array<int, 16> arr;
  std::bitset<64> bits;
  Fixed<int, 8> fixed;
  std::optional<int> opt;
  std::variant<int, double> var;
  std::pair<int, int> pr;
  std::tuple<int, long, char> tup;
  std::chrono::milliseconds ms;
  Color color;
  std::uint64_t h;
  std::complex<double> z;
  Node nodes[16];
  int head;
  std::byte raw[32];
  std::unique_ptr<int> up;
  std::vector<int> vec;
  std::string str;
  static constexpr std::initializer_list<int> kSteps = {1, 2, 3};
  struct Row {
    std::initializer_list<const char*> names;
    int weight;
  };
  static constexpr Row kRows[] = {{{"a", "bb"}, 1}, {{"c"}, 2}};

  void uses_invoke(int v) noexcept { std::invoke(&Idioms::add, this, v); }  // expect: deferrable
  void uses_invoke_lambda(int v) noexcept {  // expect: deferrable
    std::invoke([&](int w) { n += w; }, v);
  }
  void uses_invoke_fn(int v) noexcept { n = std::invoke(neg, v); }  // expect: deferrable
  void uses_invoke_field() noexcept { std::invoke(&Idioms::n, this) += 3; }  // expect: deferrable
  void uses_bind_front(int v) noexcept {  // expect: deferrable
    auto f = std::bind_front(&Idioms::add, this);
    f(v);
  }
  void uses_bind_front_fn(int v) noexcept {  // expect: deferrable
    auto f = std::bind_front(neg, v);
    n = f();
  }
  void uses_bind_front_lambda(int v) noexcept {  // expect: deferrable
    auto f = std::bind_front([](int a, int b) { return a + b; }, v);
    n = f(3);
  }
  void uses_optptr(int v) noexcept {  // expect: deferrable
    std::optional<int*> p;
    if (v > 3) p = &a[v % 64];
    if (p) **p = 4;
  }
  void uses_optptr2(int v) noexcept {  // expect: deferrable
    if (std::optional<int*> p = find(v)) ++**p;
  }
  void uses_viewstake() noexcept {  // expect: deferrable
    for (int& x : a | std::views::take(5)) ++x;
    for (int& x : a | std::views::drop(5) | std::views::reverse) --x;
  }
  void uses_viewsiota() noexcept {  // expect: deferrable
    for (int i : std::views::iota(0, 8)) a[i] = i;
  }
  void uses_initlist() noexcept {  // expect: deferrable
    for (int v : {1, 2, 3}) n += v;
  }
  void uses_initlist2() noexcept { n = std::max({1, 2, n}); }  // expect: deferrable
  void uses_initlist3() noexcept {  // expect: deferrable
    for (const char* s : {"a", "bb"}) n += static_cast<int>(std::strlen(s));
  }
  void uses_initlist4() noexcept {  // expect: deferrable
    std::initializer_list<int> l = {1, 2, 3};
    n = std::accumulate(l.begin(), l.end(), 0);
  }
  void uses_initlist5(int v) noexcept {  // expect: deferrable
    for (int* p : {&a[0], &a[1], &n}) *p += v;
  }
  void uses_isdigit() noexcept { n = std::isdigit(static_cast<unsigned char>(text[0])) != 0; }  // expect: deferrable
  void uses_isxdigit() noexcept { n = std::isxdigit(static_cast<unsigned char>(text[0])) != 0; }  // expect: deferrable
  void uses_isalpha() noexcept { n = std::isalpha(text[0]); }  // expect: instant; because: uses_isalpha global
  void uses_toupper() noexcept {  // expect: instant
    for (char& c : text) c = static_cast<char>(std::toupper(c));  // because: uses_toupper global
  }
  void uses_atoi() noexcept { n = std::atoi(text); }  // expect: instant; because: uses_atoi global
  void uses_strtol() noexcept { n = static_cast<int>(std::strtol(text, nullptr, 10)); }  // expect: instant; because: uses_strtol global
  void uses_strtol_end() noexcept {  // expect: instant
    char* e;
    n = static_cast<int>(std::strtol(text, &e, 10));  // because: uses_strtol_end global
    if (*e) n = 0;
  }
  void uses_abs() noexcept {  // expect: deferrable
    n = std::abs(n);
    d[0] = std::abs(d[1]);
    d[2] = std::fabs(d[3]);
    n = static_cast<int>(std::labs(n));
  }
  void uses_math() noexcept {  // expect: instant
    d[0] = std::sqrt(d[1]) + std::pow(d[2], 2.0) + std::floor(d[3]) + std::hypot(d[0], d[1]) +
           std::round(d[4]);
    n = std::isnan(d[0]) || std::signbit(d[1]);
    d[1] = std::lerp(d[0], d[1], 0.5);
    n = (int)std::lround(d[1]);
    d[3] = std::lgamma(d[2]);  // because: uses_math global
  }
  void uses_rand() noexcept { n = std::rand(); }  // expect: instant; because: uses_rand no_source
  void uses_div() noexcept { n = std::div(n, 3).quot; }  // expect: deferrable
  void uses_ops(int i, int v) noexcept { n = kOps[i % 2].run(v); }  // expect: deferrable
  void uses_opsname(int i) noexcept { n = static_cast<int>(std::strlen(kOps[i % 2].name)); }  // expect: deferrable
  void uses_opslocal(int i, int v) noexcept {  // expect: deferrable
    struct L {
      int* at;
      int (*f)(int);
    } l[2] = {{&a[0], neg}, {&a[1], dbl}};
    *l[i % 2].at = l[i % 2].f(v);
  }
  void uses_writes_constant() noexcept { *const_cast<int*>(&kPrimes[1]) = 3; }  // expect: instant; because: uses_writes_constant global

  void uses_initlist_constant() noexcept {  // expect: deferrable
    for (int step : kSteps) n += step;
  }
  void uses_initlist_in_constant(int i) noexcept {  // expect: deferrable
    for (const char* name : kRows[i & 1].names) n += static_cast<int>(std::strlen(name));
  }

  void add(int v) noexcept { n += v; }  // expect: deferrable
  std::optional<int*> find(int v) noexcept {  // expect: instant; because: find returns
    for (int& x : a)
      if (x == v) return &x;
    return std::nullopt;
  }

  void uses_sort() noexcept {  // expect: instant
    std::sort(a, a + n);
    std::ranges::sort(a);
    std::stable_partition(a, a + n, [](int x) { return x > 0; });  // because: uses_sort memory
  }
  void uses_sort_pts() noexcept { std::sort(std::begin(pts), std::end(pts)); }  // expect: deferrable
  void uses_rsort_proj() noexcept { std::ranges::sort(pts, {}, &Point::x); }  // expect: deferrable
  void uses_rsort_greater() noexcept { std::ranges::sort(pts, std::greater{}, &Point::y); }  // expect: deferrable
  void uses_stable_sort() noexcept { std::stable_sort(a, a + n); }  // expect: instant; because: uses_stable_sort memory
  void uses_find(int v) noexcept {  // expect: deferrable
    auto it = std::find(std::begin(a), std::end(a), v);
    if (it != std::end(a)) *it = 0;
  }
  void uses_rfind(int v) noexcept {  // expect: deferrable
    auto it = std::ranges::find(a, v);
    if (it != std::end(a)) *it = 0;
  }
  void uses_find_if(int v) noexcept {  // expect: deferrable
    if (auto it = std::ranges::find_if(pts, [&](const Point& p) { return p.x == v; });
        it != std::end(pts))
      it->y = 0;
  }
  void uses_remove(int v) noexcept { n = static_cast<int>(std::remove(a, a + n, v) - a); }  // expect: deferrable
  void uses_accum() noexcept {  // expect: deferrable
    n = std::accumulate(arr.begin(), arr.end(), 0, std::plus<>());
    n = std::reduce(arr.begin(), arr.end());
  }
  void uses_transform() noexcept {  // expect: deferrable
    std::transform(arr.begin(), arr.end(), a, std::negate<>());
    std::partial_sum(a, a + 8, a);
    std::adjacent_difference(a, a + 8, a);
  }
  void uses_any() noexcept {  // expect: deferrable
    n = std::any_of(arr.begin(), arr.end(), [this](int x) { return x == n; }) +
        std::ranges::count_if(a, [](int x) { return x & 1; });
  }
  void uses_rangefor() noexcept {  // expect: deferrable
    for (auto& p : pts) p += Point{1, 2};
    for (auto& [x, y] : pts) std::swap(x, y);
  }
  void uses_sb() noexcept {  // expect: deferrable
    auto [q, r] = pr;
    n = q + r;
    auto& [t, l, c] = tup;
    t += static_cast<int>(l) + c;
  }
  void uses_op() noexcept {  // expect: deferrable
    pts[0] = pts[1] + pts[2];
    n = pts[0] < pts[1];
    n += pts[0] == pts[2];
  }
  void uses_swap() noexcept {  // expect: deferrable
    std::swap(pts[0], pts[1]);
    using std::swap;
    swap(arr[0], arr[1]);
    std::swap(arr, arr);
    std::iter_swap(a, a + 1);
    std::swap_ranges(a, a + 4, a + 4);
  }
  void uses_exch() noexcept {  // expect: deferrable
    n = std::exchange(a[0], 3);
    a[1] = std::move(a[2]);
  }
  void uses_fixed(int v) noexcept {  // expect: deferrable
    fixed.push_back(v);
    fixed.emplace_back(v);
    for (int& x : fixed) ++x;
    fixed.erase(fixed.begin());
    fixed.pop_back();
    n = fixed.size();
  }
  void uses_memcpy() noexcept {  // expect: deferrable
    std::memcpy(a, a + 8, 8 * sizeof(int));
    std::memmove(text, text + 1, std::strlen(text));
    std::strncpy(text, "abc", sizeof text);
    std::memset(d, 0, sizeof d);
  }
  void uses_memcpy_u(double v) noexcept {  // expect: deferrable
    std::memcpy(&h, &v, sizeof h);
    std::memcpy(raw, &v, sizeof v);
  }
  void uses_switch(int v) noexcept {  // expect: deferrable
    switch (color) {
      case Color::kRed:
        n = 1;
        break;
      case Color::kGreen:
        n = v;
        [[fallthrough]];
      default:
        n = 0;
    }
    color = static_cast<Color>((static_cast<int>(color) + 1) % 3);
  }
  void uses_goto(int v) noexcept {  // expect: deferrable
    int i = 0;
  again:
    a[i] = v;
    if (++i < 8) goto again;
  }
  void uses_consts(int i) noexcept {  // expect: deferrable
    n = kPrimes[i % 5] + kPairs[i % 3].second + static_cast<int>(kNames[i % 3].size()) +
        kNames[i % 3][0];
  }
  void uses_copyname(int i) noexcept {  // expect: deferrable
    const std::string_view s = kNames[i % 3];
    text[s.copy(text, sizeof text - 1)] = 0;
  }
  void uses_copyname2(int i) noexcept {  // expect: deferrable
    const auto s = kNames[i % 3];
    std::copy(s.begin(), s.end(), text);
    std::ranges::copy(s, text);
  }
  void uses_nameof(int i) noexcept {  // expect: deferrable
    switch (i) {
      case 0:
        n = kNames[0] == "red";
        break;
    }
    n = std::strcmp(text, "abc") == 0;
  }
  void uses_guard() noexcept {  // expect: deferrable
    Guard g(n);
    a[n] = 1;
  }
  void uses_onexit() noexcept {  // expect: deferrable
    OnExit g([&] { --n; });
    ++n;
  }
  void uses_chrono(int v) noexcept {  // expect: deferrable
    ms += std::chrono::seconds(v);
    if (ms > std::chrono::minutes(1)) ms = std::chrono::milliseconds::zero();
    n = static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(ms).count());
  }
  void uses_snprintf(int v) noexcept { std::snprintf(text, sizeof text, "%d", v); }  // expect: instant; because: uses_snprintf no_source
  void uses_tochars(int v) noexcept {  // expect: deferrable
    auto r = std::to_chars(text, text + sizeof text, v);
    *r.ptr = 0;
  }
  void uses_fromchars() noexcept { std::from_chars(text, text + sizeof text, n); }  // expect: deferrable
  void uses_bits(unsigned v) noexcept {  // expect: deferrable
    n = std::popcount(v) + std::countr_zero(v) + std::bit_width(v) + (int)std::rotl(v, 3) +
        (int)std::bit_ceil(v);
    h ^= h << 13;
    h ^= h >> 7;
  }
  void uses_bitset(int i) noexcept {  // expect: deferrable
    bits.flip(i % 64);
    n = static_cast<int>(bits.count());
    bits ^= std::bitset<64>(5);
    bits <<= 2;
    bits[2] = !bits[3];
    n = bits.any();
  }
  void uses_bitset_set(int i) noexcept { bits.set(i % 64); }  // expect: deferrable
  void uses_bitcast(float f) noexcept { n = std::bit_cast<int>(f); }  // expect: deferrable
  void uses_minmax(int v) noexcept {  // expect: deferrable
    n = std::clamp(v, 0, 63);
    n = std::min(v, n);
    n = std::max({v, n, 3});
    auto [l, u] = std::minmax(v, n);
    n = l + u;
    auto m = std::ranges::minmax(a);
    n = m.min;
    n = *std::ranges::max_element(a);
  }
  void uses_hash(int v) noexcept { h = std::hash<int>{}(v) ^ (std::hash<std::uint64_t>()(h) << 1); }  // expect: deferrable
  void uses_hash_sv() noexcept { h = std::hash<std::string_view>{}(std::string_view(text, 8)); }  // expect: deferrable
  void uses_hash_d(double v) noexcept { h = std::hash<double>{}(v); }  // expect: deferrable
  void uses_opt(int v) noexcept {  // expect: deferrable
    opt = v;
    if (opt) n = *opt;
    opt.reset();
    opt.emplace(3);
    n = opt.value_or(4);
    opt = std::nullopt;
    std::swap(opt, opt);
  }
  void uses_optval() noexcept {  // expect: deferrable
    if (opt.has_value()) n = opt.value();
  }
  void uses_optif() noexcept {  // expect: deferrable
    if (opt) opt = *opt + 1;
    else opt = 3;
  }
  void uses_var(int v) noexcept {  // expect: deferrable
    var = v;
    var = 2.0;
    if (auto* p = std::get_if<int>(&var)) n = *p;
    n = std::holds_alternative<double>(var);
    n = (int)var.index();
  }
  void uses_varvisit() noexcept {  // expect: deferrable
    std::visit([this](auto x) { n = static_cast<int>(x); }, var);
  }
  void uses_varget() noexcept { n = std::get<int>(var); }  // expect: deferrable
  void uses_tuple() noexcept {  // expect: deferrable
    std::get<0>(tup) = 4;
    tup = std::make_tuple(1, 2L, 'a');
    n = std::apply([](int x, long y, char c) { return static_cast<int>(x + y + c); }, tup);
    std::tie(n, std::ignore) = pr;
  }
  void uses_pair() noexcept {  // expect: deferrable
    pr = {1, 2};
    pr = std::make_pair(n, 3);
    n = pr < std::pair(2, 3);
    pr.swap(pr);
  }
  void uses_complex() noexcept {  // expect: deferrable
    z *= std::complex<double>(0, 1);
    d[0] = std::abs(z);
    z += 1.0;
    d[1] = std::norm(z);
  }
  void uses_span() noexcept {  // expect: deferrable
    std::span<int> s(a);
    for (auto& x : s.first(3)) x = 0;
    s[4] = 2;
    s.subspan(1, 2).back() = 1;
    std::ranges::fill(s, 3);
  }
  void uses_list(int k) noexcept {  // expect: deferrable
    for (int* at = &head; *at != -1; at = &nodes[*at].next)
      if (nodes[*at].key == k) {
        *at = nodes[*at].next;
        break;
      }
  }
  void uses_swl() noexcept {  // expect: deferrable
    for (Node *p = nodes, *e = nodes + 16; p != e; ++p)
      if (p->key > n) {
        std::swap(*p, nodes[0]);
        break;
      }
  }
  void uses_lambda_rec(int k) noexcept {  // expect: deferrable
    auto f = [&](auto&& self, int i) -> void {
      if (i < 0) return;
      a[i] = i;
      self(self, i - 1);
    };
    f(f, k);
  }
  void uses_ternref(bool b) noexcept {  // expect: deferrable
    (b ? n : a[0]) = 3;
    int& r = b ? n : a[1];
    r = 2;
  }
  void uses_ptrarr() noexcept {  // expect: deferrable
    int* ps[] = {&n, &a[0], &a[1]};
    for (int* p : ps) ++*p;
  }
  void uses_memptr(bool b) noexcept {  // expect: deferrable
    int Point::* m = b ? &Point::x : &Point::y;
    pts[0].*m = 3;
  }
  void uses_memfn(bool b) noexcept {  // expect: deferrable
    void (Idioms::*m)(int) noexcept = &Idioms::add;
    (this->*m)(b);
  }
  void uses_heap() noexcept {  // expect: deferrable
    std::push_heap(a, a + n);
    std::pop_heap(a, a + n);
    std::make_heap(a, a + n, std::greater<>{});
  }
  void uses_lb(int v) noexcept {  // expect: deferrable
    auto it = std::lower_bound(a, a + n, v);
    std::rotate(it, a + n, a + n + 1);
    *it = v;
    auto [lo, hi] = std::equal_range(a, a + n, v);
    n = hi - lo;
  }
  void uses_rlb(int v) noexcept {  // expect: deferrable
    auto it = std::ranges::lower_bound(pts, v, {}, &Point::x);
    it->y = 3;
  }
  void uses_unique() noexcept {  // expect: deferrable
    n = static_cast<int>(std::unique(a, a + n) - a);
    auto r = std::ranges::unique(a);
    n = r.begin() - a;
    auto q = std::ranges::remove_if(a, [](int x) { return x < 0; });
    n = q.begin() - a;
  }
  void uses_setops() noexcept {  // expect: instant
    int out[16];
    auto e = std::set_union(a, a + 4, a + 4, a + 8, out);
    std::copy(out, e, a);
    std::merge(a, a + 4, a + 4, a + 8, out);
    std::inplace_merge(a, a + 4, a + 8);  // because: uses_setops memory
  }
  void uses_arr() noexcept {  // expect: deferrable
    arr.fill(3);
    arr[1] = arr.front();
    arr.back() = 2;
    std::array<int, 3> l{1, 2, 3};
    for (auto it = l.rbegin(); it != l.rend(); ++it) n += *it;
  }
  void uses_arrat(int i) noexcept { arr.at(i) = 3; }  // expect: deferrable
  void uses_lambdastate() noexcept {  // expect: deferrable
    std::generate(a, a + 8, [i = 0]() mutable { return i++; });
    std::iota(a, a + 3, 2);
  }
  void uses_byte() noexcept {  // expect: deferrable
    raw[0] = std::byte{3} | raw[1];
    n = std::to_integer<int>(raw[0] << 1);
  }
  void uses_numeric() noexcept {  // expect: deferrable
    n = std::gcd(n, 12) + std::lcm(3, n) + std::midpoint(n, 4);
    n = std::ssize(a);
    n = (int)std::size(text);
    n = std::in_range<short>(n);
    n = std::cmp_less(n, 3u);
  }
  void uses_sv(int i) noexcept {  // expect: deferrable
    std::string_view s(text, 10);
    if (s.starts_with("ab")) n = (int)s.find("x");
    s.remove_prefix(1);
    n = s == "abc";
    n = s.compare("b");
    n = s.empty();
    n = (int)s.find_first_of("xyz");
    n = s.back();
    n = (int)s.rfind('a');
  }
  void uses_svsub(int i) noexcept {  // expect: deferrable
    std::string_view s(text, 10);
    n = (int)s.substr(1).size();
  }
  void uses_unp() noexcept { n = up != nullptr; }  // expect: deferrable
  void uses_vec() noexcept {  // expect: deferrable
    n = (int)vec.size();
    n = vec.empty();
  }
  void uses_vecat(int v) noexcept { vec[0] = v; }  // expect: instant; because: uses_vecat kept_pointer
  void uses_str() noexcept { n = (int)str.size(); }  // expect: deferrable
  void uses_staticconstexpr(int i) noexcept {  // expect: deferrable
    static constexpr int kT[] = {1, 2, 3};
    n = kT[i % 3];
    static const int kU[] = {4, 5};
    n += kU[i & 1];
  }
  void uses_staticconststr(int i) noexcept {  // expect: deferrable
    static const char* const kT[] = {"a", "bb"};
    n = kT[i & 1][0];
  }
  void uses_staticmap(int i) noexcept {  // expect: deferrable
    static constexpr std::array<std::pair<std::string_view, int>, 2> kM{{{"a", 1}, {"b", 2}}};
    for (auto& [k, v] : kM)
      if (k == std::string_view(text, 1)) n = v;
  }
  void uses_zip() noexcept {  // expect: deferrable
    for (auto i = 0; auto& x : a) x = i++;
  }
  void uses_fnptr_table(int op, int v) noexcept {  // expect: deferrable
    using F = int (*)(int);
    static constexpr F kF[] = {neg, dbl};
    n = kF[op & 1](v);
  }
  void uses_fnptr_local(bool b, int v) noexcept {  // expect: deferrable
    auto f = b ? neg : dbl;
    n = f(v);
  }
  void uses_lambda_to_ptr(int v) noexcept {  // expect: deferrable
    int (*f)(int) = [](int x) { return x + 1; };
    n = f(v);
  }
  void uses_lambda_table(int i) noexcept {  // expect: deferrable
    static constexpr int (*kF[])(int) = {[](int x) { return x; }, [](int x) { return -x; }};
    n = kF[i & 1](n);
  }
  void uses_refw() noexcept {  // expect: deferrable
    std::reference_wrapper<int> r(n);
    r.get() = 3;
    ++r;
  }
  void uses_revit() noexcept {  // expect: deferrable
    std::reverse(a, a + 4);
    std::copy(std::rbegin(a), std::rend(a), std::begin(a));
    std::copy_if(a, a + 4, a + 8, [](int x) { return x > 0; });
  }
  void uses_bindexpr(int v) noexcept {  // expect: deferrable
    auto f = std::bind(&Idioms::add, this, std::placeholders::_1);
    f(v);
  }
  void uses_memfn2(int v) noexcept { std::mem_fn (&Idioms::add)(*this, v); }  // expect: deferrable
  void uses_foreachmem() noexcept {  // expect: deferrable
    std::ranges::for_each(pts, [&](Point& p) { p.x += n; });
    std::for_each_n(a, 3, [](int& x) { x = 0; });
  }
  void uses_addr() noexcept {  // expect: deferrable
    int* p = std::addressof(n);
    *p = 1;
    p = std::to_address(p);
    *p = 2;
    p = std::next(p);
    p = std::prev(p);
    n = (int)std::distance(a, a + 3);
    std::advance(p, 1);
  }
  void uses_newplace() noexcept {  // expect: deferrable
    ::new (static_cast<void*>(&pts[0])) Point{1, 2};
    std::construct_at(&pts[1], Point{3, 4});
    std::destroy_at(&pts[1]);
  }
  void uses_try() noexcept {  // expect: deferrable
    try {
      if (n > 3) throw 1;
    } catch (...) {
      n = 0;
    }
  }
  void uses_assert(int v) noexcept {  // expect: deferrable
    if (v < 0) std::abort();
    n = v;
  }
  void uses_clampd() noexcept {  // expect: deferrable
    d[0] = std::clamp(d[0], 0.0, 1.0);
    d[1] = std::fmod(d[0], 2.0);
    d[2] = std::numeric_limits<double>::infinity();
    n = INT_MAX;
    d[3] = std::exp(d[1]) * std::log2(d[2]) + std::cbrt(d[1]) + std::trunc(d[0]) +
           std::copysign(d[1], d[2]) + std::atan2(d[0], d[1]);
    float f = std::sqrt(2.0f) + sqrtf(1.f) + fabsf(f);
    d[1] = std::fmin(d[0], d[1]);
    int e;
    d[0] = std::frexp(d[0], &e);
    n = e;
    n = std::fpclassify(d[1]);
    n = std::isinf(d[0]) + std::isfinite(d[0]);
    d[1] = std::remainder(d[0], 1.0);
    n = std::ilogb(d[0]);
  }
};
}  // namespace corpus_idioms
template <>
struct perdura::Methods<corpus_idioms::Idioms>
    : perdura::MethodList<perdura::Deferrable<&corpus_idioms::Idioms::add>> {};
