// What nobody writes down: destructors of what was made before a constructor throws, the sizes in a
// cast, where an object says that its bases and virtual functions are, and constants that are none.
#include <cstring>
#include <memory>
#include <new>

int counter = 0;

struct Noisy {
  explicit Noisy(int value) : value(value) {}
  ~Noisy() { ++counter; }  // because: member global; because: base global; because: aggregate global
  int value;
};
struct Quiet {
  explicit Quiet(int value) noexcept : value(value) {}
  ~Quiet() { value = 0; }
  int value;
};
int refuse(int value) {
  if (value != 0) throw value;
  return value;
}
struct NoisyMember {
  NoisyMember(int value) : member(1) { refuse(value); }
  ~NoisyMember() {}
  Noisy member;
};
struct NoisyBase : Noisy {
  NoisyBase(int value) : Noisy(1) { refuse(value); }
};
struct QuietMember {
  QuietMember(int value) : member(1) { refuse(value); }
  Quiet member;
};
struct NeverThrows {
  NeverThrows(int value) noexcept : member(value) {}
  Noisy member;
};
struct Delegates {
  Delegates() {}
  Delegates(int value) : Delegates() { refuse(value); }
  ~Delegates() { ++counter; }  // because: delegated global
};
struct Element {
  Element(int value) { refuse(value); }
  ~Element() { ++counter; }  // because: array global
};
struct Aggregate {
  Noisy first;
  int second;
};
struct Placed {
  Placed(int value) { refuse(value); }
  static void* operator new(std::size_t, void* place) { return place; }
  static void operator delete(void*, void*) { ++counter; }  // because: placed global
};
struct Virtual {  // because: keeps_functions keeps_address
  virtual ~Virtual() = default;
  int value = 0;
};
struct Final final : Virtual {  // because: keeps_functions keeps_address
  int more = 0;
};
struct Base {
  int value = 0;
};
struct Shares : virtual Base {
  int more = 0;
};
struct Volatile {
  volatile int value;
};
struct HasVolatile {
  int before;
  Volatile inside[2];
};
const Volatile kVolatile{1};
const HasVolatile kInside{1, {{2}, {3}}};
__attribute__((weak)) extern const int kWeak = 1;

struct Refuted {
  void member(int value) noexcept {  // expect: instant
    try {
      new (bytes) NoisyMember(value);
    } catch (...) {
      number = 1;
    }
  }
  void base(int value) noexcept {  // expect: instant
    try {
      new (bytes) NoisyBase(value);
    } catch (...) {
      number = 1;
    }
  }
  void quiet(int value) noexcept {  // expect: deferrable
    try {
      new (bytes) QuietMember(value);
    } catch (...) {
      number = 1;
    }
  }
  void never(int value) { new (bytes) NeverThrows(value); }  // expect: deferrable
  void delegated(int value) noexcept {  // expect: instant
    try {
      new (bytes) Delegates(value);
    } catch (...) {
      number = 1;
    }
  }
  void array() noexcept {  // expect: instant
    try {
      new (bytes) Element[2]{0, 1};
    } catch (...) {
      number = 1;
    }
  }
  void aggregate(int value) noexcept {  // expect: instant
    try {
      new (bytes) Aggregate{Noisy(1), refuse(value)};
    } catch (...) {
      number = 1;
    }
  }
  void placed(int value) noexcept {  // expect: instant
    try {
      new (bytes) Placed(value);
    } catch (...) {
      number = 1;
    }
  }
  void sized_cast() { number = ((int(*)[counter])numbers)[1][0]; }  // expect: instant; because: sized_cast global
  void sized_for_nothing() {  // expect: instant
    (void)(int(*)[({
      ++counter;  // because: sized_for_nothing global
      4;
    })])numbers;
  }
  void sized_by_argument(int size) { number = ((int(*)[size])numbers)[0][1]; }  // expect: deferrable
  void to_virtual_base() { reinterpret_cast<Shares*>(bytes)->value = 4; }  // expect: instant; because: to_virtual_base kept_pointer
  void by_dynamic_cast() {  // expect: instant
    if (auto* const final = dynamic_cast<Final*>(reinterpret_cast<Virtual*>(bytes)))  // because: by_dynamic_cast kept_pointer
      final->more = 1;
  }
  void of_local() {  // expect: deferrable
    Shares shares;
    Base& base = shares;
    base.value = number;
    number = base.value;
  }
  void keeps_functions() { new (bytes) Final; }  // expect: instant
  void functions_as_number() {  // expect: instant
    Final local;
    wide = *reinterpret_cast<long*>(&local);  // because: functions_as_number address_as_number
  }
  void functions_as_bytes() {  // expect: instant
    Final local;
    std::memcpy(bytes, static_cast<void*>(&local), sizeof local);  // because: functions_as_bytes keeps_address; because: functions_as_bytes address_as_number
  }
  void reads_volatile() { number = kVolatile.value; }  // expect: instant; because: reads_volatile global
  void reads_volatile_inside() { number = kInside.before; }  // expect: instant; because: reads_volatile_inside global
  void reads_weak() { number = kWeak; }  // expect: instant; because: reads_weak global

  int number = 0;
  int numbers[8] = {};
  long wide = 0;
  alignas(16) unsigned char bytes[64] = {};
};
