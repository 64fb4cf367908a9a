// Lambdas: what they capture, where they are called, and what they become.
#include <algorithm>

#include <perdura/compat/simpo.hpp>

namespace corpus_lambdas {

int quota = 10;

template <class F>
void each(int* cells, int count, F f) {
  for (int i = 0; i < count; ++i) f(cells[i]);
}
template <class F>
int evaluate(F&& f) {
  return f();
}
void call_twice(void (*f)(int*), int* cell) {
  f(cell);
  f(cell);
}
inline constexpr auto kIncrease = [](int& cell) { ++cell; };
inline constexpr auto kSpend = [](int& cell) {
  cell = --quota;  // because: applies_spending_constant global
};

class Lambdas : public POBase {
 public:
  explicit Lambdas(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  void captures_this() {  // expect: deferrable
    const auto increase = [this](int i) { ++ints()[i]; };
    for (int i = 0; i < 4; ++i) increase(i);
  }
  void captures_this_and_member() {  // expect: instant
    const auto increase = [this] {
      ++calls_;  // because: captures_this_and_member member
    };
    increase();
  }
  void captures_local_by_reference() {  // expect: deferrable
    int sum = 0;
    each(ints(), 8, [&](int cell) { sum += cell; });
    ints()[8] = sum;
  }
  void captures_object_pointer() {  // expect: deferrable
    auto store = [p = ints()](int i) { p[i] = i; };
    store(3);
  }
  void captures_address_of_global() {  // expect: instant
    auto store = [p = &quota](int value) {
      *p = value;  // because: captures_address_of_global global
    };
    store(3);
  }
  void captures_reference_to_global() {  // expect: instant
    auto store = [&r = quota](int value) {
      r = value;  // because: captures_reference_to_global global
    };
    store(3);
  }
  void takes_copy() {  // expect: instant
    auto add = [copy = quota](int value) { return copy + value; };  // because: takes_copy global
    ints()[0] = add(3);
  }
  void captures_pointer_argument(const int* from) {  // expect: instant
    auto read = [from](int i) {
      return from[i];  // because: captures_pointer_argument argument
    };
    ints()[0] = read(2);
  }
  void captures_value_argument(int value) {  // expect: deferrable
    auto next = [value]() mutable { return value++; };
    ints()[0] = next() + next();
  }
  void names_global_without_capture() {  // expect: instant
    auto next = [](int value) {
      return value + quota;  // because: names_global_without_capture global
    };
    ints()[0] = next(3);
  }
  void defines_and_never_calls() {  // expect: deferrable
    [[maybe_unused]] auto spend = [] { return --quota; };
    ints()[0] = 1;
  }
  void calls_at_once(int kind) {  // expect: deferrable
    const int value = [&] {
      if (kind == 0) return 7;
      return kind * 2;
    }();
    ints()[0] = value;
  }
  void returns_reference_to_global() {  // expect: instant
    auto where = []() -> int& { return quota; };
    where() = 3;  // because: returns_reference_to_global global
  }
  void returns_lambda_from_lambda() {  // expect: deferrable
    auto adder = [](int a) { return [a](int b) { return a + b; }; };
    ints()[0] = adder(1)(2);
  }
  void nests_captures() {  // expect: instant
    int local = 0;
    auto outer = [&] {
      auto inner = [&] {
        local = quota;  // because: nests_captures global
      };
      inner();
    };
    outer();
    ints()[0] = local;
  }
  void converts_to_function_pointer() {  // expect: deferrable
    call_twice([](int* cell) { ++*cell; }, ints());
  }
  void converts_spending_to_function_pointer() {  // expect: instant
    void (*f)(int*) = [](int* cell) {
      *cell = --quota;  // because: converts_spending_to_function_pointer global
    };
    f(ints());
  }
  void passes_generic_lambda() {  // expect: deferrable
    each(ints(), 8, [](auto& cell) { cell *= 2; });
  }
  void passes_evaluated_lambda() {  // expect: deferrable
    ints()[0] = evaluate([this] { return ints()[1]; });
  }
  void recurses_by_itself(int n) {  // expect: deferrable
    auto count = [this](auto& self, int left) -> void {
      ints()[left] = left;
      if (left > 0) self(self, left - 1);
    };
    count(count, n);
  }
  void applies_constant_lambda() {  // expect: deferrable
    each(ints(), 8, kIncrease);
  }
  void applies_spending_constant() {  // expect: instant
    each(ints(), 8, kSpend);
  }
  void keeps_state_in_static_lambda_local() {  // expect: instant
    auto next = [] {
      static int number = 0;
      return ++number;  // because: keeps_state_in_static_lambda_local global
    };
    ints()[0] = next();
  }
  void sorts_by_lambda() {  // expect: deferrable
    std::sort(ints(), ints() + 64, [](int a, int b) { return a > b; });
  }
  void sorts_by_shared_key() {  // expect: instant
    std::sort(ints(), ints() + 64, [](int a, int b) {
      return a % quota < b % quota;  // because: sorts_by_shared_key global
    });
  }
  void counts_comparisons() {  // expect: deferrable
    int comparisons = 0;
    std::sort(ints(), ints() + 32, [&comparisons](int a, int b) {
      ++comparisons;
      return a < b;
    });
    ints()[63] = comparisons;
  }
  int largest() const {  // expect: read
    int best = 0;
    const auto look = [&best](int cell) { best = cell > best ? cell : best; };
    for (int i = 0; i < 64; ++i) look(static_cast<const int*>(poroot)[i]);
    return best;
  }
  void keeps_lambda_with_reference() {  // expect: instant
    int local = 0;
    auto add = [&local] { ++local; };
    using Add = decltype(add);
    new (poroot) Add(add);  // because: keeps_lambda_with_reference keeps_address
  }
  void keeps_lambda_with_values(int value) {  // expect: deferrable
    auto add = [value](int x) { return x + value; };
    using Add = decltype(add);
    new (poroot) Add(add);
    ints()[8] = (*static_cast<Add*>(poroot))(4);
  }

 private:
  int* ints() { return static_cast<int*>(poroot); }
  int calls_ = 0;
};

}  // namespace corpus_lambdas
