// Templates: what is chosen by types and constants when the compiler makes functions of them.
#include <concepts>
#include <cstdio>
#include <type_traits>

#include <perdura/compat/simpo.hpp>

namespace corpus_templates {

int registrations = 0;

template <class T>
struct Policy {
  static void before(int* cells) { cells[0] = 0; }
};
struct Loud {};
template <>
struct Policy<Loud> {
  static void before(int*) {
    ++registrations;  // because: uses_specialised_policy global
  }
};
template <class T, class P = Policy<T>>
void run(int* cells) {
  P::before(cells);
}
template <class T>
T total_of(T value) {
  return value;
}
template <class T, class... More>
T total_of(T value, More... more) {
  return value + total_of(more...);
}
template <auto F>
void apply(int* cell) {
  *cell = F(*cell);
}
constexpr int half(int x) { return x / 2; }
int count_up(int x) {
  return x + ++registrations;  // because: applies_counting_parameter global
}
template <int* kTarget>
void write_to() {
  *kTarget = 1;  // because: writes_to_parameter_address global
}
template <class T>
  requires std::integral<T>
void store(T* at, T value) {
  *at = value;
}
template <class T>
  requires std::floating_point<T>
void store(T* at, T value) {
  *at = value + registrations;  // because: stores_floating global
}
template <class T>
void trace(const T& value) {
  if constexpr (std::is_pointer_v<T>) {
    std::printf("%p", static_cast<const void*>(value));  // because: traces_pointer no_source
  } else {
    static_cast<void>(value);
  }
}
template <int kN>
struct Fibonacci {
  static constexpr int kValue = Fibonacci<kN - 1>::kValue + Fibonacci<kN - 2>::kValue;
};
template <>
struct Fibonacci<1> {
  static constexpr int kValue = 1;
};
template <>
struct Fibonacci<0> {
  static constexpr int kValue = 0;
};
template <class T>
struct Counter {
  static inline int made = 0;
  Counter() {
    ++made;  // because: makes_counted_local global
  }
};
template <int kDepth>
void unroll(int* cells) {
  cells[kDepth] = kDepth;
  if constexpr (kDepth > 0) unroll<kDepth - 1>(cells);
}
template <class T>
void overloaded(T, int* cell) {
  *cell = 1;
}
void overloaded(long, int* cell) {
  *cell = ++registrations;  // because: chooses_overload_by_long global
}
template <class T>
struct Base {
  void touch(int* cells) { cells[1] = sizeof(T); }
};
template <class T>
struct Layer : Base<T> {
  void go(int* cells) { this->touch(cells); }
};

class Templates : public POBase {
 public:
  explicit Templates(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  void uses_policy() {  // expect: deferrable
    run<int>(ints());
  }
  void uses_specialised_policy() {  // expect: instant
    run<Loud>(ints());
  }
  void adds_pack() {  // expect: deferrable
    ints()[0] = total_of(1, 2, ints()[3], 4L);
  }
  void folds_pack() {  // expect: deferrable
    add_all(1, 2, 3);
  }
  void applies_parameter() {  // expect: deferrable
    apply<&half>(ints());
  }
  void applies_counting_parameter() {  // expect: instant
    apply<&count_up>(ints());
  }
  void writes_to_parameter_address() {  // expect: instant
    write_to<&registrations>();
  }
  void stores_integral() {  // expect: deferrable
    store(ints(), 3);
  }
  void stores_floating() {  // expect: instant
    store(static_cast<double*>(poroot), 3.0);
  }
  void traces_number() {  // expect: deferrable
    trace(ints()[0]);
  }
  void traces_pointer() {  // expect: instant
    trace(static_cast<const char*>("x"));
  }
  void stores_fibonacci() {  // expect: deferrable
    ints()[0] = Fibonacci<12>::kValue;
  }
  void makes_counted_local() {  // expect: instant
    Counter<char> counter;
    ints()[0] = sizeof counter;
  }
  void unrolls() {  // expect: deferrable
    unroll<8>(ints());
  }
  void chooses_overload_by_int() {  // expect: deferrable
    overloaded(1, ints());
  }
  void chooses_overload_by_long() {  // expect: instant
    overloaded(1L, ints());
  }
  void touches_by_dependent_base() {  // expect: deferrable
    Layer<long>().go(ints());
  }
  void asks_requirement() {  // expect: deferrable
    ints()[0] = requires { count_up(1); };
  }

 private:
  template <class... Values>
  void add_all(Values... values) {
    ((ints()[0] += values), ...);
  }
  int* ints() { return static_cast<int*>(poroot); }
};

template <class T, bool kIsAudited>
class Column : public POBase {
 public:
  explicit Column(int poid = 0) : POBase(64 * sizeof(T), poid) {}

  void fills_column(T value) {  // expect: deferrable
    for (int i = 0; i < 64; ++i) cells()[i] = value;
  }
  void audits_column() {  // expect: instant
    if constexpr (kIsAudited) ++registrations;  // because: audits_column global
  }
  T first_in_column() const {  // expect: read
    return *static_cast<const T*>(poroot);
  }
  T last_in_column() {  // expect: instant; because: last_in_column returns
    return cells()[63];
  }

 private:
  T* cells() { return static_cast<T*>(poroot); }
};
template class Column<short, true>;

}  // namespace corpus_templates
