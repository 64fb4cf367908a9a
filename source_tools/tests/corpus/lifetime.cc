// Objects that begin and end: constructors, destructors, copies, and memory that is allocated.
#include <alloca.h>

#include <coroutine>
#include <cstdlib>
#include <new>
#include <utility>

#include <perdura/compat/simpo.hpp>

namespace corpus_lifetime {

int alive = 0;
int first_number = 5;
int pool[64];

struct Plain {
  int value = 3;
  int doubled = value * 2;
};
struct Harmless {
  Harmless() : value(1) {}
  explicit Harmless(int value) : value(value) {}
  Harmless(const Harmless& other) : value(other.value + 1) {}
  Harmless& operator=(const Harmless& other) {
    value = other.value;
    return *this;
  }
  ~Harmless() { value = 0; }
  explicit operator bool() const { return value > 0; }
  int value;
};
struct CountsBegin {
  CountsBegin() {
    ++alive;  // because: begins_local global; begins_array global; begins_base global
  }
  int value = 0;
};
struct CountsEnd {
  ~CountsEnd() {
    --alive;  // because: ends_local global; ends_array global; ends_member global
  }
  int value = 0;
};
struct EndsTemporary {
  explicit EndsTemporary(int value) : value(value) {}
  ~EndsTemporary() {
    --alive;  // because: ends_temporary global; ends_in_condition global
  }
  int value;
};
struct EndsReturned {
  explicit EndsReturned(int value) : value(value) {}
  ~EndsReturned() {
    --alive;  // because: ends_returned global; ends_argument global
  }
  int value;
};
struct CountsCopies {
  CountsCopies() = default;
  CountsCopies(const CountsCopies& other) : value(other.value) {
    ++alive;  // because: copies_local global; copies_into_parameter global; captures_copy global
  }
  CountsCopies& operator=(const CountsCopies& other) {
    value = other.value + alive;  // because: assigns_local global
    return *this;
  }
  int value = 0;
};
struct CountsMoves {
  CountsMoves() = default;
  CountsMoves(CountsMoves&& other) noexcept : value(other.value) {
    ++alive;  // because: moves_local global
  }
  int value = 0;
};
struct Numbered {
  int number = first_number;  // because: begins_numbered global; begins_aggregate global
  int other = 0;
};
struct Derived : CountsBegin {
  Derived() { value = 4; }
};
struct DerivedHarmless : Harmless {
  DerivedHarmless() : Harmless(7) {}
};
struct Holder {
  int before = 0;
  CountsEnd member;
};
struct Guard {
  explicit Guard(int* cell) : cell(cell) { ++*cell; }
  ~Guard() { --*cell; }
  Guard(const Guard&) = delete;
  int* cell;
};
struct GuardOfShared {
  GuardOfShared() : cell(&alive) {}
  ~GuardOfShared() {
    --*cell;  // because: guards_shared global
  }
  int* cell;
};
struct Stored {
  Stored(int value) : value(value), sum(value + 1) {}
  ~Stored() { value = -1; }
  int value;
  int sum;
};
struct StoredCounted {
  explicit StoredCounted(int value) : value(value) {}
  ~StoredCounted() {
    --alive;  // because: destroys_counted_in_object global
  }
  int value;
};
struct Pooled {
  static void* operator new(std::size_t) noexcept { return pool; }
  static void operator delete(void*) noexcept {
    pool[1] = 0;  // because: deletes_in_pool global
  }
  void set(int to) {
    value = to;  // because: allocates_in_pool global
  }
  int value;
};
struct Logged {
  explicit Logged(int to) {
    value = to;  // because: begins_in_global global
  }
  int value;
};
struct Level {
  constexpr explicit Level(int value) : value(value) {}
  int value;
};
struct Chain {
  Chain& add(int by) {
    value += by;
    return *this;
  }
  int value = 0;
};
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

Harmless make_harmless(int value) { return Harmless(value); }
EndsReturned make_counted(int value) { return EndsReturned(value); }
int value_of(Harmless harmless) { return harmless.value; }
int value_of_counted(CountsCopies counted) { return counted.value; }
int value_of_ended(const EndsReturned& ended) { return ended.value; }
void clean_local(int* value) { *value = 0; }
void clean_counted(int* value) {
  alive -= *value;  // because: cleans_by_attribute_in_global global
}

class Lifetime : public POBase {
 public:
  explicit Lifetime(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  void begins_plain() {  // expect: deferrable
    const Plain plain;
    ints()[0] = plain.doubled;
  }
  void begins_harmless() {  // expect: deferrable
    const Harmless harmless;
    ints()[0] = harmless.value;
  }
  void begins_local() {  // expect: instant
    const CountsBegin counted;
    ints()[0] = counted.value;
  }
  void ends_local() {  // expect: instant
    const CountsEnd counted;
    ints()[0] = counted.value;
  }
  void ends_temporary() {  // expect: instant
    ints()[0] = EndsTemporary(3).value;
  }
  void ends_in_condition() {  // expect: instant
    if (EndsTemporary(ints()[1]).value > 2) ints()[0] = 1;
  }
  void tests_temporary() {  // expect: deferrable
    if (Harmless(ints()[1])) ints()[0] = 1;
    while (const Harmless left{ints()[2]}) --ints()[2];
  }
  void begins_array() {  // expect: instant
    const CountsBegin counted[3];
    ints()[0] = counted[1].value;
  }
  void ends_array() {  // expect: instant
    CountsEnd counted[2][2];
    ints()[0] = counted[1][1].value;
  }
  void begins_harmless_array() {  // expect: deferrable
    const Harmless harmless[4];
    for (const Harmless& each : harmless) ints()[0] += each.value;
  }
  void ends_member() {  // expect: instant
    const Holder holder;
    ints()[0] = holder.before;
  }
  void ends_returned() {  // expect: instant
    ints()[0] = make_counted(3).value;
  }
  void ends_argument() {  // expect: instant
    ints()[0] = value_of_ended(EndsReturned(4));
  }
  void takes_harmless_returned() {  // expect: deferrable
    const Harmless& kept = make_harmless(4);
    ints()[0] = kept.value;
  }
  void passes_harmless_by_value() {  // expect: deferrable
    const Harmless harmless(3);
    ints()[0] = value_of(harmless);
  }
  void copies_local() {  // expect: instant
    const CountsCopies first;
    const CountsCopies second(first);
    ints()[0] = second.value;
  }
  void copies_into_parameter() {  // expect: instant
    const CountsCopies first;
    ints()[0] = value_of_counted(first);
  }
  void passes_what_is_never_copied() {  // expect: deferrable
    ints()[0] = value_of_counted(CountsCopies());
  }
  void captures_copy() {  // expect: instant
    const CountsCopies first;
    const auto read = [first] { return first.value; };
    ints()[0] = read();
  }
  void captures_without_copy() {  // expect: deferrable
    const CountsCopies first;
    const auto read = [&first] { return first.value; };
    ints()[0] = read();
  }
  void assigns_local() {  // expect: instant
    CountsCopies first;
    const CountsCopies second;
    first = second;
    ints()[0] = first.value;
  }
  void assigns_harmless() {  // expect: deferrable
    Harmless first;
    const Harmless second(4);
    first = second;
    ints()[0] = first.value;
  }
  void moves_local() {  // expect: instant
    CountsMoves first;
    const CountsMoves second(std::move(first));
    ints()[0] = second.value;
  }
  void begins_numbered() {  // expect: instant
    const Numbered numbered;
    ints()[0] = numbered.number;
  }
  void begins_aggregate() {  // expect: instant
    const Numbered numbered{.other = 2};
    ints()[0] = numbered.number;
  }
  void begins_whole_aggregate() {  // expect: deferrable
    const Numbered numbered{.number = 1, .other = 2};
    ints()[0] = numbered.number;
  }
  void begins_base() {  // expect: instant
    const Derived derived;
    ints()[0] = derived.value;
  }
  void begins_harmless_base() {  // expect: deferrable
    const DerivedHarmless derived;
    ints()[0] = derived.value;
  }
  void guards_object(int value) {  // expect: deferrable
    const Guard guard(ints());
    if (value < 0) return;
    ints()[1] = value;
  }
  void guards_shared() {  // expect: instant
    const GuardOfShared guard;
    ints()[0] = 1;
  }
  void guards_in_loop() {  // expect: deferrable
    for (int i = 1; i < 4; ++i) {
      const Guard guard(ints() + i);
      if (ints()[i] > 8) break;
    }
  }
  void begins_in_object(int value) {  // expect: deferrable
    new (poroot) Stored(value);
  }
  void begins_array_in_object() {  // expect: deferrable
    for (int i = 0; i < 4; ++i) new (ints() + 2 * i) Stored{i};
  }
  void begins_in_local_bytes(int value) {  // expect: deferrable
    alignas(Stored) unsigned char bytes[sizeof(Stored)];
    auto* stored = new (bytes) Stored(value);
    ints()[0] = stored->sum;
    stored->~Stored();
  }
  void begins_in_global() {  // expect: instant
    new (&pool[2]) Logged(3);
  }
  void destroys_in_object() {  // expect: deferrable
    static_cast<Stored*>(poroot)->~Stored();
  }
  void destroys_counted_in_object() {  // expect: instant
    static_cast<StoredCounted*>(poroot)->~StoredCounted();
  }
  void replaces_in_object(int value) {  // expect: deferrable
    auto* stored = static_cast<Stored*>(poroot);
    stored->~Stored();
    new (stored) Stored(value);
  }
  void assigns_temporary_to_object(int value) {  // expect: deferrable
    *static_cast<Plain*>(poroot) = Plain{value};
  }
  void allocates_number() {  // expect: instant
    int* number = new int(3);  // because: allocates_number memory
    delete number;  // because: allocates_number memory
  }
  void frees_array() {  // expect: instant
    int* numbers = nullptr;
    delete[] numbers;  // because: frees_array memory
  }
  void allocates_by_malloc() {  // expect: instant
    void* bytes = std::malloc(16);  // because: allocates_by_malloc memory
    ints()[0] = bytes == nullptr;
  }
  void allocates_by_calloc() {  // expect: instant
    void* bytes = std::calloc(4, 4);  // because: allocates_by_calloc memory
    bytes = std::realloc(bytes, 32);  // because: allocates_by_calloc memory
    std::free(bytes);  // because: allocates_by_calloc memory
  }
  void allocates_raw() {  // expect: instant
    void* bytes = ::operator new(16);  // because: allocates_raw memory
    ::operator delete(bytes);  // because: allocates_raw memory
  }
  void allocates_in_pool() {  // expect: instant
    auto* pooled = new Pooled;
    pooled->set(3);
  }
  void deletes_in_pool() {  // expect: instant
    Pooled* pooled = nullptr;
    delete pooled;
  }
  void allocates_on_stack(int count) {  // expect: deferrable
    auto* cells = static_cast<int*>(alloca(sizeof(int) * (count + 1)));
    for (int i = 0; i <= count; ++i) cells[i] = i;
    ints()[0] = cells[count];
  }
  void reverses_in_variable_array(int count) {  // expect: deferrable
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wvla-cxx-extension"
    int cells[count];
#pragma clang diagnostic pop
    for (int i = 0; i < count; ++i) cells[i] = ints()[count - 1 - i];
    for (int i = 0; i < count; ++i) ints()[i] = cells[i];
  }
  void begins_static_harmless() {  // expect: instant
    static Level level(4);
    ints()[0] = level.value;  // because: begins_static_harmless global
  }
  void begins_static_late() {  // expect: instant
    static const int kept = ints()[1];  // because: begins_static_late global
    ints()[0] = kept;  // because: begins_static_late global
  }
  void begins_static_constant() {  // expect: deferrable
    static constexpr Plain kPlain{4, 8};
    ints()[0] = kPlain.doubled;
  }
  void cleans_by_attribute() {  // expect: deferrable
    [[gnu::cleanup(clean_local)]] int value = 3;
    ints()[0] = value;
  }
  void cleans_by_attribute_in_global() {  // expect: instant
    [[gnu::cleanup(clean_counted)]] int value = 3;
    ints()[0] = value;
  }
  void chains_temporary() {  // expect: deferrable
    ints()[0] = Chain().add(1).add(2).value;
  }
  void initialises_compound() {  // expect: deferrable
    const Holder* none = nullptr;
    const Plain plains[] = {{1, 2}, {.value = 3}, {}};
    ints()[0] = plains[1].doubled + (none == nullptr);
  }
  int value_in_stored() const {  // expect: read
    const Stored copy(*static_cast<const Stored*>(poroot));
    return copy.sum;
  }
  int guarded_value() const {  // expect: instant; because: guarded_value returns
    const Guard guard(static_cast<int*>(poroot));
    return *guard.cell;
  }
  int allocated_value() const {  // expect: instant; because: allocated_value returns
    delete new int(3);  // because: allocated_value memory
    return *static_cast<const int*>(poroot);
  }
  Harmless harmless_value() const {  // expect: read
    return make_harmless(*static_cast<const int*>(poroot));
  }
  Task resumes();

 private:
  int* ints() { return static_cast<int*>(poroot); }
};

Task Lifetime::resumes() {  // expect: instant; because: resumes returns; resumes unsupported
  ints()[0] = 1;
  co_return;
}

}  // namespace corpus_lifetime
