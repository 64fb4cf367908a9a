// What a name means where it is written: bindings that lambdas have, objects that are templates'
// arguments, entries of tables; and numbers that are addresses by another way than a cast.
#include <perdura/compat/simpo.hpp>
#include <perdura/perdura.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <tuple>
#include <typeinfo>
#include <utility>

int counter = 0;
inline void increase(int& value) { ++value; }
inline void take_counter(int& value) { value = counter; }  // because: calls_object_of_template global

struct Place {
  int* at;
};
struct Act {
  void (*act)(int&);
};
struct Pair {
  Place places[2];
};
template <Place place>
void add(int* other, bool choose) {
  int* p = choose ? place.at : other;
  ++*p;  // because: adds_to_object_of_template global
}
template <Act act>
void call(int& value, bool choose) {
  const auto f = choose ? act.act : &increase;
  f(value);
}
template <Pair pair>
void add_second(int* other, bool choose) {
  int* all[2] = {other, pair.places[1].at};
  ++*all[choose];  // because: adds_to_part_of_object global
}
struct Shape {
  virtual ~Shape() = default;
  int n;
};
struct Circle final : Shape {
  int r;
};
struct Cell {
  static void* operator new[](std::size_t, void* at) noexcept { return at; }
  static void operator delete[](void*) noexcept {}
  ~Cell() { ++counter; }  // because: ends_pairs global; because: ends_cells global
};
using Cells = Cell[2];
struct Number {
  std::uint64_t n;
};
struct Letters {
  char letters[8];
};
union Either {
  const void* pointer;
  std::uint64_t words[1];
};
using Word [[gnu::may_alias]] = std::uint64_t;

__attribute__((weak)) int width() { return 1; }
inline int height() { return 2; }
inline constexpr int (*kSizes[])() = {&width};
inline constexpr int (*kHeights[])() = {&height};

const int kTable0[] = {1}, kTable1[] = {2}, kTable2[] = {3}, kTable3[] = {4};
const int kTable4[] = {5}, kTable5[] = {6}, kTable6[] = {7}, kTable7[] = {8};
inline const int* table_of(int k) {
  switch (k & 7) {
    case 0: return kTable0;
    case 1: return kTable1;
    case 2: return kTable2;
    case 3: return kTable3;
    case 4: return kTable4;
    case 5: return kTable5;
    case 6: return kTable6;
    default: return kTable7;
  }
}

struct NamedElsewhere {
  int x;
  std::uint64_t u;
  alignas(16) unsigned char memory[64];

  void adds_by_captured_binding() noexcept {  // expect: instant
    std::tuple<int*> all{&x};
    auto& [p] = all;
    p = &counter;
    const auto f = [&] { ++*p; };  // because: adds_by_captured_binding global
    f();
  }
  void changes_binding_in_lambda() noexcept {  // expect: instant
    auto [p, n] = std::pair(&x, 1);
    [&] { p = &counter; }();
    ++*p;  // because: changes_binding_in_lambda global
  }
  void adds_by_named_capture() noexcept {  // expect: instant
    std::array<int*, 2> all{&x, &x};
    auto& [p, q] = all;
    p = &counter;
    [&p] { ++*p; }();  // because: adds_by_named_capture global
    ++*q;  // because: adds_by_named_capture global
  }
  void calls_captured_binding() noexcept {  // expect: instant
    std::tuple<void (*)(int&)> all{&increase};
    auto& [act] = all;
    act = &take_counter;
    [&] { act(x); }();  // because: calls_captured_binding indirect
  }
  void adds_by_copied_binding() noexcept {  // expect: deferrable
    auto [p, n] = std::pair(&x, 1);
    [=] { *p += n; }();
  }
  void keeps_binding_to_itself() noexcept {  // expect: deferrable
    std::tuple<int*> all{&x};
    auto& [p] = all;
    [&] { ++*p; }();
  }
  void uses_constant_in_lambda() noexcept {  // expect: deferrable
    const int step = 3;
    [&] { x += step; }();
  }

  void adds_to_object_of_template(bool choose) noexcept {  // expect: instant
    add<Place{&counter}>(&x, choose);
  }
  void adds_to_part_of_object(bool choose) noexcept {  // expect: instant
    add_second<Pair{{{nullptr}, {&counter}}}>(&x, choose);
  }
  void calls_object_of_template(bool choose) noexcept {  // expect: instant
    call<Act{&take_counter}>(x, choose);
  }
  void calls_harmless_object_of_template(bool choose) noexcept {  // expect: deferrable
    call<Act{&increase}>(x, choose);
  }
  void calls_replaceable_of_table() noexcept {  // expect: instant
    x = kSizes[0]();  // because: calls_replaceable_of_table indirect
  }
  void takes_of_one_of_tables(int k) noexcept {  // expect: deferrable
    x = table_of(k)[0];
  }
  void calls_of_table() noexcept {  // expect: deferrable
    x = kHeights[0]();
  }

  void asks_what_it_is() noexcept {  // expect: instant
    x = &typeid(*shape()) == &typeid(Circle);  // because: asks_what_it_is kept_pointer
  }
  void asks_what_local_is() noexcept {  // expect: deferrable
    Circle circle;
    const Shape& shape = circle;
    x = &typeid(shape) == &typeid(Circle);
  }
  void asks_for_names() noexcept {  // expect: deferrable
    x = typeid(Circle) == typeid(Shape);
    x += typeid(Circle).name()[0];
  }
  void ends_pairs() noexcept {  // expect: instant
    Cells* const all = new (memory) Cells[1];
    delete[] all;
  }
  void ends_cells() noexcept {  // expect: instant
    Cell* const all = new (memory) Cell[2];
    delete[] all;
  }

  void keeps_address_by_number() noexcept {  // expect: instant
    const void* const p = this;
    Number a;
    std::memcpy(&a, &p, sizeof a);
    std::memcpy(&u, &a, sizeof u);  // because: keeps_address_by_number address_as_number
  }
  std::uint64_t reads_address_by_number() const noexcept {  // expect: instant; because: reads_address_by_number returns
    const void* const p = this;
    Number a, b;
    std::memcpy(&a, &p, sizeof a);
    std::memcpy(&b, &a, sizeof b);  // because: reads_address_by_number address_as_number
    return b.n;
  }
  void keeps_address_by_letters() noexcept {  // expect: instant
    const void* const p = this;
    Letters a;
    std::memcpy(&a, &p, sizeof a);
    std::memcpy(&u, &a, sizeof u);  // because: keeps_address_by_letters address_as_number
  }
  void copies_numbers() noexcept {  // expect: deferrable
    Number a{u};
    Number b;
    std::memcpy(&b, &a, sizeof b);
    std::memcpy(&u, &b, sizeof u);
  }
  void keeps_address_by_union() noexcept {  // expect: instant
    Either either;
    either.pointer = this;
    const std::uint64_t* const words = either.words;  // because: keeps_address_by_union address_as_number
    u = *words;  // because: keeps_address_by_union address_as_number
  }
  void keeps_address_by_reference() noexcept {  // expect: instant
    const void* p = this;
    u = reinterpret_cast<Word&>(p);  // because: keeps_address_by_reference address_as_number
  }
  void keeps_address_by_untyped() noexcept {  // expect: instant
    const void* p = this;
    const void* const untyped = &p;
    u = *static_cast<const Word*>(untyped);  // because: keeps_address_by_untyped address_as_number
  }
  void keeps_address_by_difference() noexcept {  // expect: instant
    u = static_cast<std::uint64_t>(reinterpret_cast<const char*>(this) - reinterpret_cast<const char*>(16));  // because: keeps_address_by_difference address_as_number
  }
  void steps_pointers() noexcept {  // expect: deferrable
    unsigned char* p = memory;
    ++p;
    p += 2;
    *p = 1;
  }
#ifdef __clang__
  void reads_thread_block() noexcept {  // expect: instant
    u = static_cast<std::uint64_t __seg_fs*>(nullptr)[5];  // because: reads_thread_block unknown_pointer
  }
#endif
  void adds_to_nothing(long n) noexcept {  // expect: instant
    x = *(static_cast<int*>(nullptr) + n);  // because: adds_to_nothing unknown_pointer
  }

 private:
  Shape* shape() { return std::launder(reinterpret_cast<Shape*>(memory)); }
};
template <>
struct perdura::Methods<NamedElsewhere> {};
