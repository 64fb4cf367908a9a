// Pointers and references of which it must be known where they lead.
#include <perdura/compat/simpo.hpp>

namespace corpus_aliases {

int shared = 0;
int board[16];

struct Handle {
  int* at;
  int index;
};
struct Nested {
  Handle handles[2];
};

int* address_of_shared() { return &shared; }
int& reference_to_shared() { return shared; }
int* same(int* p) { return p; }
int& same_reference(int& r) { return r; }
void find_shared(int** out) { *out = &shared; }
void find_shared_by_reference(int*& out) { out = &shared; }
void find_second(int* cells, int** out) { *out = cells + 1; }
void assign(int* to, int value) {
  *to = value;  // because: assigns_by_helper global; assigns_default_target global
}
void assign_default(int value, int* to = &shared) { assign(to, value); }
void assign_or_shared(int value, int& to = reference_to_shared()) {
  to = value;  // because: assigns_by_default_reference global
}
Handle handle_of(int* p) { return Handle{p, 0}; }
void fill_handle(Handle& handle) { handle.at = board; }
void fill_row(int* row, int count) {
  for (int i = 0; i < count; ++i) row[i] = i;
}
int sum(const int* first, const int* last) {
  return first == last ? 0 : *first + sum(first + 1, last);
}
void exchange(int& a, int& b) {
  const int old = a;
  a = b;
  b = old;
}
int* larger(int* a, int* b) { return *a < *b ? b : a; }
template <class T>
struct Ref {
  T& target;
  void set(T value) {
    target = value;  // because: sets_by_wrapper_of_global global
  }
  T get() const { return target; }
};

class Aliases : public POBase {
 public:
  explicit Aliases(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  void increments_through_alias() {  // expect: instant
    int* p = &shared;
    ++*p;  // because: increments_through_alias global
  }
  void increments_object_through_alias() {  // expect: deferrable
    int* p = ints() + 2;
    int*& q = p;
    ++*q;
  }
  void increments_local_through_alias() {  // expect: deferrable
    int shared_copy = 4;
    int* p = &shared_copy;
    ++*p;
    ints()[0] = shared_copy;
  }
  void writes_by_local_reference() {  // expect: instant
    int& r = shared;
    r = 2;  // because: writes_by_local_reference global
  }
  void writes_by_auto_reference() {  // expect: instant
    auto& row = board;
    row[2] = 2;  // because: writes_by_auto_reference global
  }
  void copies_global_by_auto() {  // expect: instant
    auto copy = shared;  // because: copies_global_by_auto global
    ++copy;
    ints()[0] = copy;
  }
  void writes_by_returned_pointer() {  // expect: instant
    *address_of_shared() = 1;  // because: writes_by_returned_pointer global
  }
  void writes_by_returned_reference() {  // expect: instant
    reference_to_shared() = 1;  // because: writes_by_returned_reference global
  }
  void writes_by_same_pointer() {  // expect: deferrable
    *same(ints()) = 1;
  }
  void writes_global_by_same_pointer() {  // expect: instant
    *same(&shared) = 1;  // because: writes_global_by_same_pointer global
  }
  void writes_local_by_same_reference() {  // expect: deferrable
    int local = 1;
    same_reference(local) += 3;
    ints()[0] = local;
  }
  void writes_by_out_parameter() {  // expect: instant
    int* p = nullptr;
    find_shared(&p);
    *p = 1;  // because: writes_by_out_parameter global
  }
  void writes_by_reference_to_pointer() {  // expect: instant
    int* p = nullptr;
    find_shared_by_reference(p);
    *p = 1;  // because: writes_by_reference_to_pointer global
  }
  void writes_object_by_out_parameter() {  // expect: deferrable
    int* p = nullptr;
    find_second(ints(), &p);
    *p = 1;
  }
  void finds_global_and_leaves_it() {  // expect: deferrable
    int* p = nullptr;
    find_shared(&p);
    ints()[0] = p != nullptr;
  }
  void assigns_by_helper() {  // expect: instant
    assign(board + 3, 5);
  }
  void assigns_object_by_helper() {  // expect: deferrable
    assign(ints() + 3, 5);
  }
  void assigns_default_target() {  // expect: instant
    assign_default(5);
  }
  void assigns_given_target() {  // expect: deferrable
    assign_default(5, ints());
  }
  void assigns_by_default_reference() {  // expect: instant
    assign_or_shared(5);
  }
  void chooses_global_or_local(bool local) {  // expect: instant
    int value = 0;
    int* p = local ? &value : &shared;
    *p = 5;  // because: chooses_global_or_local global
    ints()[0] = value;
  }
  void chooses_object_or_local(bool local) {  // expect: deferrable
    int value = 0;
    int& r = local ? value : ints()[3];
    r = 5;
    ints()[0] = value;
  }
  void chooses_lvalue_in_ternary(bool outside) {  // expect: instant
    (outside ? shared : ints()[0]) = 5;  // because: chooses_lvalue_in_ternary global
  }
  void takes_last_of_comma() {  // expect: instant
    int* p = (ints(), &shared);
    *p = 5;  // because: takes_last_of_comma global
  }
  void hides_in_struct() {  // expect: instant
    Handle handle{&shared, 0};
    *handle.at = 5;  // because: hides_in_struct global
  }
  void hides_object_in_struct() {  // expect: deferrable
    Handle handle = handle_of(ints());
    handle.at[handle.index] = 5;
  }
  void hides_in_returned_struct() {  // expect: instant
    const Handle handle = handle_of(&shared);
    *handle.at = 5;  // because: hides_in_returned_struct global
  }
  void hides_in_filled_struct() {  // expect: instant
    Handle handle{};
    fill_handle(handle);
    handle.at[1] = 5;  // because: hides_in_filled_struct global
  }
  void hides_in_copied_struct() {  // expect: instant
    Handle first{board, 3};
    Handle second = first;
    second.at[2] = 1;  // because: hides_in_copied_struct global
  }
  void hides_in_nested_array() {  // expect: instant
    Nested nested{{{nullptr, 0}, {&shared, 1}}};
    *nested.handles[1].at = 5;  // because: hides_in_nested_array global
  }
  void hides_in_array_of_pointers(int i) {  // expect: instant
    int* all[] = {ints(), ints() + 1, board};
    *all[i % 3] = 5;  // because: hides_in_array_of_pointers global
  }
  void walks_array_of_own_pointers() {  // expect: deferrable
    int first = 1;
    int* all[] = {ints(), ints() + 1, &first};
    for (int* each : all) ++*each;
  }
  void follows_pointer_to_pointer() {  // expect: instant
    int* p = &shared;
    int** pp = &p;
    int*** ppp = &pp;
    ***ppp = 5;  // because: follows_pointer_to_pointer global
  }
  void follows_own_pointer_to_pointer() {  // expect: deferrable
    int* p = ints();
    int** pp = &p;
    ++*pp;
    **pp = 5;
  }
  void reverses_row() {  // expect: deferrable
    int* first = ints();
    int* last = first + 15;
    while (first < last) exchange(*first++, *last--);
  }
  void fills_local_row() {  // expect: deferrable
    int row[16];
    fill_row(row, 16);
    ints()[0] = sum(row, row + 16);
  }
  void raises_larger_of_two() {  // expect: deferrable
    int bound = 10;
    *larger(ints(), &bound) = 0;
  }
  void sets_by_wrapper() {  // expect: deferrable
    Ref<int> ref{ints()[4]};
    ref.set(ref.get() + 1);
  }
  void sets_by_wrapper_of_global() {  // expect: instant
    Ref<int> ref{shared};
    ref.set(4);
  }
  void walks_backwards_from_end() {  // expect: deferrable
    for (int* p = ints() + 64; p != ints();) *--p = 0;
  }
  void binds_reference_member_to_object() {  // expect: deferrable
    struct Cursor {
      int& at;
      int step;
    } cursor{ints()[0], 2};
    cursor.at += cursor.step;
  }
  void casts_to_other_type_of_object(float value) {  // expect: deferrable
    static_cast<float*>(poroot)[3] = value;
  }
  void casts_through_void() {  // expect: instant
    void* p = board;
    static_cast<int*>(p)[0] = 2;  // because: casts_through_void global
  }
  void casts_away_const() {  // expect: instant
    const int* p = &shared;
    *const_cast<int*>(p) = 2;  // because: casts_away_const global
  }
  void reads_bytes_of_global() {  // expect: instant
    const auto* bytes = reinterpret_cast<const char*>(board);
    ints()[0] = bytes[3];  // because: reads_bytes_of_global global
  }
  void compares_positions_in_object(int i) {  // expect: deferrable
    int* p = ints() + i;
    if (p < ints() + 8 && p >= ints()) *p = static_cast<int>(p - ints());
  }

 private:
  int* ints() { return static_cast<int*>(poroot); }
};

}  // namespace corpus_aliases
