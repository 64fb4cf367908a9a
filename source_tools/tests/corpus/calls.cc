// Functions that are called: with and without source, by pointers, recursively, and by operators.
#include <cassert>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <perdura/compat/simpo.hpp>

namespace corpus_calls {

int budget = 3;
int outside(int value);

using Operation = int (*)(int);
int twice(int x) { return 2 * x; }
int square(int x) { return x * x; }
int spend(int x) {
  return budget -= x;  // because: calls_spending_function global; picks_from_mixed_table global
}
constexpr Operation kOperations[] = {&twice, &square};
const Operation kMixed[] = {&twice, &spend};
Operation current = &twice;
Operation installed[] = {&twice, &square};

int apply(Operation f, int x) { return f(x); }
int apply_given(Operation f, int x) {
  return f(x);  // because: passes_argument_on indirect
}
Operation pick(int i) { return i == 0 ? &twice : &square; }
bool is_even(int n);
bool is_odd(int n) { return n != 0 && is_even(n - 1); }
bool is_even(int n) { return n == 0 || is_odd(n - 1); }
void descend(int* cells, int n);
void descend_again(int* cells, int n) {
  budget -= n;  // because: recurses_mutually_to_global global
  descend(cells, n - 1);
}
void descend(int* cells, int n) {
  cells[n] = n;
  if (n > 0) descend_again(cells, n);
}
int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
constexpr int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
int default_step() {
  return budget;  // because: takes_default_argument global
}
void advance(int* cell, int step = default_step()) { *cell += step; }
void move_by(int* cell, int step = factorial(3)) { *cell += step; }

namespace tools {
struct Money {
  int cents;
  Money& operator+=(const Money& other) {
    cents += other.cents;
    return *this;
  }
  Money operator-() const { return {-cents}; }
  explicit operator bool() const { return cents != 0; }
  int operator()(int count) const { return cents * count; }
  int operator[](int shift) const { return cents >> shift; }
};
Money operator+(Money a, const Money& b) { return a += b; }
bool operator<(const Money& a, const Money& b) { return a.cents < b.cents; }
Money operator""_cents(unsigned long long n) { return {static_cast<int>(n)}; }
void settle(Money* money) { money->cents = 0; }
struct Audited {
  int value;
  Audited& operator=(int other) {
    value = other + budget;  // because: assigns_by_operator global
    return *this;
  }
  operator int() const {
    return value + budget;  // because: converts_implicitly global
  }
  Audited& operator++() {
    --budget;  // because: increments_by_operator global
    return *this;
  }
  int operator,(int other) const {
    return other + budget;  // because: separates_by_comma global
  }
  int* operator&() const { return &budget; }  // NOLINT
};
struct Digits {
  int first;
  struct Iterator {
    int at;
    int operator*() const { return at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at != other.at; }
  };
  Iterator begin() const { return {first}; }
  Iterator end() const { return {first + 3}; }
};
struct Counted {
  int last;
  const int* begin() const {
    --budget;  // because: loops_over_counted global
    return &last;
  }
  const int* end() const { return &last + 1; }
};
}  // namespace tools
int operator+(const tools::Audited& a, const tools::Money& b) { return a.value + b.cents; }

class Vault : public POBase {
 public:
  explicit Vault(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  void calls_by_constant_pointer() {  // expect: deferrable
    const Operation f = &twice;
    ints()[0] = f(3);
  }
  void calls_spending_function() {  // expect: instant
    const Operation f = &spend;
    ints()[0] = f(3);
  }
  void picks_from_constant_table(int i) {  // expect: deferrable
    ints()[0] = kOperations[i % 2](3);
  }
  void picks_from_mixed_table(int i) {  // expect: instant
    ints()[0] = kMixed[i % 2](3);
  }
  void calls_current(int x) {  // expect: instant
    ints()[0] = current(x);  // because: calls_current global; calls_current indirect
  }
  void calls_installed(int x) {  // expect: instant
    const Operation f = installed[x % 2];  // because: calls_installed global
    ints()[0] = f(x);  // because: calls_installed indirect
  }
  void passes_function_to_helper() {  // expect: deferrable
    ints()[0] = apply(&square, ints()[1]);
  }
  void calls_picked_function(int i) {  // expect: deferrable
    ints()[0] = pick(i)(ints()[0]);
  }
  void calls_argument(Operation f) {  // expect: instant
    ints()[0] = f(3);  // because: calls_argument indirect
  }
  void passes_argument_on(Operation f) {  // expect: instant
    ints()[0] = apply_given(f, 3);
  }
  void calls_object_function() {  // expect: instant
    auto* table = static_cast<Operation*>(poroot);
    table[0](3);  // because: calls_object_function indirect
  }
  void calls_local_table(int i) {  // expect: deferrable
    Operation table[2];
    table[0] = &twice;
    table[1] = pick(1);
    ints()[0] = (*table[i % 2])(4);
  }
  void calls_member_by_pointer() {  // expect: deferrable
    void (Vault::*p)() = &Vault::reset;
    (this->*p)();
  }
  void calls_member_of_two(bool all) {  // expect: deferrable
    void (Vault::*const p)() = all ? &Vault::reset : &Vault::reset_first;
    (this->*p)();
  }
  void calls_member_argument(void (Vault::*p)()) {  // expect: instant
    (this->*p)();  // because: calls_member_argument indirect
  }
  void calls_reference_to_function() {  // expect: deferrable
    int (&f)(int) = twice;
    ints()[0] = f(1);
  }
  void recurses(int n) {  // expect: deferrable
    ints()[n] = n;
    if (n > 0) recurses(n - 1);
  }
  void recurses_mutually(int n) {  // expect: deferrable
    ints()[0] = is_even(n);
  }
  void recurses_mutually_to_global(int n) {  // expect: instant
    descend(ints(), n);
  }
  void computes_ackermann() {  // expect: deferrable
    ints()[0] = ackermann(2, 2);
  }
  void computes_at_compile_time() {  // expect: deferrable
    constexpr int kValue = factorial(5);
    ints()[0] = kValue;
  }
  void takes_default_argument() {  // expect: instant
    advance(ints());
  }
  void replaces_default_argument() {  // expect: deferrable
    advance(ints(), 2);
  }
  void takes_constant_default_argument() {  // expect: deferrable
    move_by(ints());
  }
  void adds_by_operators() {  // expect: deferrable
    auto* money = static_cast<tools::Money*>(poroot);
    money[0] = money[1] + -money[2];
    if (money[0] < money[1] && money[2]) money[0] += tools::Money{5};
  }
  void adds_by_literal_operator() {  // expect: deferrable
    using namespace tools;
    ints()[0] = (15_cents)[1] + (10_cents)(2);
  }
  void finds_function_by_argument() {  // expect: deferrable
    settle(static_cast<tools::Money*>(poroot));
  }
  void finds_operator_by_argument() {  // expect: deferrable
    const tools::Audited audited{ints()[0]};
    ints()[0] = audited + tools::Money{3};
  }
  void assigns_by_operator() {  // expect: instant
    *static_cast<tools::Audited*>(poroot) = 3;
  }
  void converts_implicitly() {  // expect: instant
    const tools::Audited audited{3};
    ints()[0] = audited;
  }
  void increments_by_operator() {  // expect: instant
    ++*static_cast<tools::Audited*>(poroot);
  }
  void separates_by_comma() {  // expect: instant
    const tools::Audited audited{3};
    ints()[0] = (audited, 4);
  }
  void takes_address_by_operator() {  // expect: instant
    tools::Audited audited{3};
    *&audited = 4;  // because: takes_address_by_operator global
  }
  void loops_over_digits() {  // expect: deferrable
    for (const int digit : tools::Digits{4}) ints()[digit] = digit;
  }
  void loops_over_counted() {  // expect: instant
    for (const int each : tools::Counted{4}) ints()[0] += each;
  }
  void asks_time() {  // expect: instant
    ints()[0] = static_cast<int>(std::time(nullptr));  // because: asks_time no_source
  }
  void draws_number() {  // expect: instant
    ints()[0] = std::rand();  // because: draws_number no_source
  }
  void prints_nothing_of_value() {  // expect: instant
    std::puts("done");  // because: prints_nothing_of_value no_source
  }
  void formats_into_object(int value) {  // expect: instant
    std::snprintf(text(), 16, "%d", value);  // because: formats_into_object no_source
  }
  void calls_outside(int value) {  // expect: instant
    ints()[0] = outside(value);  // because: calls_outside no_source
  }
  void names_outside_in_sizeof() {  // expect: deferrable
    ints()[0] = sizeof(outside(3));
  }
  void calls_outside_by_pointer() {  // expect: instant
    const Operation f = &outside;
    ints()[0] = f(3);  // because: calls_outside_by_pointer no_source
  }
  void locks_in_object() {  // expect: instant
    auto* mutex = static_cast<pthread_mutex_t*>(poroot);
    pthread_mutex_lock(mutex);  // because: locks_in_object no_source
  }
  void sorts_by_c_library() {  // expect: instant
    std::qsort(poroot, 4, sizeof(int), &compare);  // because: sorts_by_c_library no_source
  }
  void jumps_far() {  // expect: instant
    std::jmp_buf place;
    if (setjmp(place) == 0) ints()[0] = 1;  // because: jumps_far no_source
  }
  void exits_when_full() {  // expect: instant
    if (ints()[0] > 63) std::exit(1);  // because: exits_when_full no_source
  }
  void aborts_when_full() {  // expect: deferrable
    if (ints()[0] > 63) std::abort();
    ++ints()[0];
  }
  void asserts_room() {  // expect: deferrable
    assert(ints()[0] < 63 && "no room");
    ++ints()[0];
  }
  void computes_mathematics(double angle) {  // expect: deferrable
    auto* numbers = static_cast<double*>(poroot);
    numbers[0] = std::sin(angle) + std::pow(numbers[1], 2.5) + std::fabs(angle);
  }
  void writes_sign_by_pointer(double value) {  // expect: deferrable
    double whole = 0;
    static_cast<double*>(poroot)[1] = std::modf(value, &whole);
    static_cast<double*>(poroot)[2] = whole;
  }
  void takes_absolute_value() {  // expect: deferrable
    ints()[0] = std::abs(ints()[0]);
  }
  void moves_text() {  // expect: deferrable
    std::memmove(text() + 8, text(), 8);
    std::strncat(text(), "xy", 3);
    text()[63] = std::strcmp(text(), "abc") < 0 ? 'a' : 'b';
  }
  void counts_bits() {  // expect: deferrable
    ints()[0] = __builtin_popcount(ints()[1]) + __builtin_clz(ints()[2] | 1);
  }
  void adds_checked(int value) {  // expect: deferrable
    if (__builtin_add_overflow(ints()[0], value, &ints()[0])) ints()[0] = 0;
  }
  void expects_small_index(int i) {  // expect: deferrable
    if (__builtin_expect(i > 3, 0)) return;
    ints()[i] = 1;
  }
  void pauses() {  // expect: instant
    asm volatile("nop");  // because: pauses assembler
  }
  void bars_reordering() {  // expect: instant
    asm volatile("" ::: "memory");  // because: bars_reordering assembler
    ints()[0] = 1;
  }
  void orders_stores() {  // expect: instant
    ints()[0] = 1;
    __sync_synchronize();  // because: orders_stores fence
  }
  void adds_atomically() {  // expect: deferrable
    __atomic_fetch_add(&ints()[0], 1, __ATOMIC_SEQ_CST);
  }
  void adds_atomically_to_global() {  // expect: instant
    __atomic_fetch_add(&budget, 1, __ATOMIC_SEQ_CST);  // because: adds_atomically_to_global global
  }
  void swaps_atomically() {  // expect: deferrable
    if (!__sync_bool_compare_and_swap(&ints()[0], 0, 1)) ints()[1] = 2;
  }
  void jumps_by_goto(int n) {  // expect: deferrable
  again:
    ints()[n] = n;
    if (--n > 0) goto again;
  }
  void switches(int kind) {  // expect: instant
    switch (kind) {
      case 0:
        ints()[0] = 1;
        break;
      case 1:
        ints()[0] = budget;  // because: switches global
        break;
      default:
        ints()[0] = 3;
    }
  }

 private:
  static int compare(const void* a, const void* b) {
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  }
  void reset() { std::memset(poroot, 0, 64 * sizeof(int)); }
  void reset_first() { ints()[0] = 0; }
  int* ints() { return static_cast<int*>(poroot); }
  char* text() { return static_cast<char*>(poroot); }
};

}  // namespace corpus_calls
