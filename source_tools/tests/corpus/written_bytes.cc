// Addresses that go into the object as bytes, by helpers; numbers that are what is left of pointers,
// in structures and unions; and other ways in which a value comes from somewhere else.
#include <perdura/perdura.hpp>

#include <array>
#include <bit>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

const int kTable[2] = {1, 2};
int counter = 0;

struct Journal {
  unsigned char raw[64];
  unsigned used;
  void write(const void* from, unsigned size) {
    std::memcpy(raw + used, from, size);
    used += size;
  }
};
struct Where {
  int* at;
};
struct Two {
  int* first;
  int* second;
};
struct Mixed {
  long first;
  int* second;
};
struct Inner {
  long n;
  long get() const { return n; }  // because: by_method address_as_number
};
union Either {
  int* pointer;
  Inner inner;
  long n;
  std::array<long, 1> all;
};
inline long& number_of(Either& either) {
  return either.n;  // because: by_function address_as_number
}
struct Throwing {
  int k;
  Throwing(int value) : k(value) {}
  Throwing(const Throwing&) = default;
  ~Throwing() noexcept(false) {
    if (k == 3) throw 1;  // because: ends_parameter throws
  }
};

struct WrittenBytes {
  Journal journal;
  long slot;
  int z;

  void writes_numbers(int value) { journal.write(&value, sizeof value); }  // expect: deferrable
  void writes_own_numbers() { journal.write(&slot, sizeof slot); }         // expect: deferrable
  void writes_text_address() {  // expect: instant
    const char* name = "sold";
    journal.write(&name, sizeof name);  // because: writes_text_address keeps_address
  }
  void writes_table_address() {  // expect: instant
    const int* table = kTable;
    journal.write(&table, sizeof table);  // because: writes_table_address keeps_address
  }
  void writes_method() {  // expect: instant
    void (WrittenBytes::*f)() = &WrittenBytes::writes_own_numbers;
    journal.write(&f, sizeof f);  // because: writes_method keeps_address
  }
  void writes_argument_address(const int& value) {  // expect: instant
    const int* p = &value;
    journal.write(&p, sizeof p);  // because: writes_argument_address keeps_address
  }
  void writes_by_helper() {  // expect: instant
    int x = 0;
    note(&x);
  }
  void writes_in_lambda() {  // expect: instant
    int x = 0;
    int* p = &x;
    const auto write = [&] {
      const void* q = &p;
      std::memcpy(journal.raw, q, sizeof p);
    };
    write();  // because: writes_in_lambda keeps_address
  }

  void keeps_reference_as_number(const int& value) {  // expect: instant
    Inner inner;
    const int* p = &value;
    std::memcpy(&inner, &p, sizeof p);
    slot = inner.n;  // because: keeps_reference_as_number address_as_number
  }
  void compares_reference(const int& value) {  // expect: instant
    const int* p = &value;
    slot = std::memcmp(&p, &slot, sizeof p);  // because: compares_reference address_as_number
  }
  void uses_reference(const int& value) { slot += value; }  // expect: deferrable

  void casts_bits() {  // expect: instant
    int x = 0;
    Two two{&x, &x};
    Mixed mixed = std::bit_cast<Mixed>(two);  // because: casts_bits address_as_number
    slot = mixed.first;
  }
  void copies_bits() {  // expect: instant
    int x = 0;
    Two two{&x, &x};
    Mixed mixed;
    std::memcpy(&mixed, &two, sizeof mixed);
    slot = mixed.first;  // because: copies_bits address_as_number
  }
  void copies_mixed() {  // expect: deferrable
    int x = 0;
    Mixed mixed{slot, &x};
    Mixed other;
    std::memcpy(&other, &mixed, sizeof other);
    slot = other.first + 1;
  }

  void takes_list(int n, va_list list) {  // expect: instant
    slot += n;
    slot += va_arg(list, int);  // because: takes_list argument
  }
  void makes_of_statement() {  // expect: instant
    Where where = ({
      Where made{&counter};
    out:
      made;
    });
    z = ++*where.at;  // because: makes_of_statement global
  }
  void makes_of_likely() {  // expect: instant
    Where where = ({
      Where made{&counter};
      [[likely]] made;
    });
    z = ++*where.at;  // because: makes_of_likely global
  }

  void by_choice(bool choose) {  // expect: instant
    Either either;
    either.pointer = &z;
    long other = 1;
    slot = choose ? either.n : other;  // because: by_choice address_as_number
  }
  void by_comma() {  // expect: instant
    Either either;
    either.pointer = &z;
    slot = (0, either.n);  // because: by_comma address_as_number
  }
  void by_move() {  // expect: instant
    Either either;
    either.pointer = &z;
    slot = std::move(either.n);  // because: by_move address_as_number
  }
  void by_function() {  // expect: instant
    Either either;
    either.pointer = &z;
    slot = number_of(either);  // because: by_function address_as_number
  }
  void by_step() {  // expect: instant
    Either either;
    either.pointer = &z;
    slot = ++either.n;  // because: by_step address_as_number
  }
  void by_array() {  // expect: instant
    Either either;
    either.pointer = &z;
    slot = either.all[0];  // because: by_array address_as_number
  }
  void by_capture() {  // expect: instant
    Either either;
    either.pointer = &z;
    const auto f = [&value = either.n] { return value; };  // because: by_capture address_as_number
    slot = f();
  }
  void by_member() {  // expect: instant
    Either either;
    either.pointer = &z;
    struct Held {
      long& value;
    } held{either.n};    // because: by_member address_as_number
    slot = held.value;  // because: by_member address_as_number
  }
  void by_method() {  // expect: instant
    Either either;
    either.pointer = &z;
    slot = either.inner.get();  // because: by_method address_as_number
  }
  void replaces_number() {  // expect: deferrable
    Either either;
    either.n = 3;
    either.inner.n = 4;
    slot = 5;
  }

  void ends_parameter(Throwing t) noexcept { slot = t.k; }  // expect: instant

 private:
  void note(int* at) {
    journal.write(&at, sizeof at);  // because: writes_by_helper keeps_address
  }
};
template <>
struct perdura::Methods<WrittenBytes> {};
