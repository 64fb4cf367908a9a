// Addresses that become numbers: they are other ones in each run, also of what has static storage.
#include <array>
#include <cstring>

int counter = 0;
void helper() { ++counter; }

struct Number {
  long value;
};
enum class Wide : long {};
union Bytes {
  int* pointer;
  unsigned char bytes[8];
};
union Nested {
  struct {
    int* pointer;
  } one;
  struct {
    long value;
  } other;
};
union Plain {
  int* pointer;
  long value;
};
union Numbers {
  int narrow;
  long wide;
};
template <class T>
T punned(const void* from) {
  T to;
  std::memcpy(&to, from, sizeof to);
  return to;  // because: of_template address_as_number
}
struct ThrowsAtTheEnd {
  explicit ThrowsAtTheEnd(int value) : value(value) {}
  ~ThrowsAtTheEnd() noexcept(false) {
    if (value != 0) throw 5;  // because: at_the_end_of_a_handler throws
  }
  int value;
};

struct Refuted {
  void of_global() {  // expect: instant
    int* from = &counter;
    Number to;
    std::memcpy(&to, &from, 8);
    wide = to.value;  // because: of_global address_as_number
  }
  void of_function() {  // expect: instant
    auto from = &helper;
    Number to;
    std::memcpy(&to, &from, 8);
    wide = to.value;  // because: of_function address_as_number
  }
  void of_literal() {  // expect: instant
    const char* from = "text";
    Number to;
    std::memcpy(&to, &from, 8);
    wide = to.value;  // because: of_literal address_as_number
  }
  void of_enumeration() {  // expect: instant
    int* from = &counter;
    Wide to;
    std::memcpy(&to, &from, 8);
    wide = static_cast<long>(to);  // because: of_enumeration address_as_number
  }
  void of_template() {  // expect: instant
    int* from = &counter;
    wide = punned<long>(&from);
  }
  void of_bytes() {  // expect: instant
    int* from = &counter;
    unsigned char bytes[8];
    std::memcpy(bytes, &from, 8);  // because: of_bytes address_as_number
    number = bytes[2];  // because: of_bytes address_as_number
  }
  void element_of_union() {  // expect: instant
    Bytes both;
    both.pointer = &number;
    number = both.bytes[3];  // because: element_of_union address_as_number
  }
  void nested_in_union() {  // expect: instant
    Nested both;
    both.one.pointer = &number;
    wide = both.other.value;  // because: nested_in_union address_as_number
  }
  void by_reference() {  // expect: instant
    Plain both;
    both.pointer = &number;
    long& value = both.value;  // because: by_reference address_as_number
    wide = value;              // because: by_reference address_as_number
  }
  void by_pointer() {  // expect: instant
    Plain both;
    both.pointer = &number;
    long* value = &both.value;  // because: by_pointer address_as_number
    wide = *value;              // because: by_pointer address_as_number
  }
  void of_argument() {  // expect: instant
    Plain both;
    both.pointer = &number;
    wide = taken(both);
  }
  void numbers_alone() {  // expect: deferrable
    Numbers both;
    both.wide = 0;
    both.narrow = number;
    long& value = both.wide;
    wide = value;
  }
  void set_alone(long value) {  // expect: deferrable
    Plain both;
    both.value = value;
    wide = value;
  }
  void at_the_end_of_a_handler(int value) {  // expect: instant
    try {
      throw ThrowsAtTheEnd(value);
    } catch (...) {
      number = 1;
    }
  }

  int number = 0;
  long wide = 0;

 private:
  static long taken(const Plain& both) {
    const long& value = both.value;  // because: of_argument address_as_number
    return value;                    // because: of_argument address_as_number
  }
};
