// Data members of a POBase class lie outside of the object; so do those of its bases.
#include <cstring>

#include <perdura/compat/simpo.hpp>

namespace corpus_members {

struct Options {
  int step = 1;
  int limit = 100;
};
struct Cell {
  unsigned kind : 3;
  unsigned weight : 29;
};
void add_to(int& sum, int value) {
  sum += value;  // because: adds_to_member_by_helper member
}

class Middle : public POBase {
 public:
  explicit Middle(int size, int poid) : POBase(size, poid) {}
  void clears_in_base() {  // expect: deferrable
    std::memset(poroot, 0, 16);
  }

 protected:
  int* ints() { return static_cast<int*>(poroot); }
  const int* ints() const { return static_cast<const int*>(poroot); }
  void remember(int value) {
    last_ = value;  // because: remembers_in_base member
  }
  void store(int value) { ints()[7] = value; }
  int width_ = 8;

 private:
  int last_ = 0;
};

class Members : public Middle {
 public:
  static constexpr int kColumns = 4;
  explicit Members(int poid = 0) : Middle(64 * sizeof(int), poid) {}

  void counts_calls() {  // expect: instant
    ++calls_;  // because: counts_calls member
  }
  void reads_constant_member(int row) {  // expect: deferrable
    ints()[row * kColumns] = kColumns;
  }
  void reads_const_member() {  // expect: instant
    ints()[0] = rows_;  // because: reads_const_member member
  }
  void reads_member_of_base(int row) {  // expect: instant
    const int at = row * width_;  // because: reads_member_of_base member
    ints()[at] = 1;
  }
  void reads_option() {  // expect: instant
    ints()[0] += options_.step;  // because: reads_option member
  }
  void uses_local_options() {  // expect: deferrable
    Options options_;
    ints()[0] += options_.step;
  }
  void writes_member_array(int i) {  // expect: instant
    cache_[i] = 1;  // because: writes_member_array member
  }
  void writes_member_by_reference() {  // expect: instant
    auto& self = *this;
    self.calls_ = 0;  // because: writes_member_by_reference member
  }
  void writes_member_by_pointer_to_member() {  // expect: instant
    int Members::* field = &Members::calls_;
    this->*field = 0;  // because: writes_member_by_pointer_to_member member
  }
  void adds_to_member_by_helper() {  // expect: instant
    add_to(calls_, 3);
  }
  void remembers_in_base() {  // expect: instant
    remember(3);
  }
  void stores_by_base() {  // expect: deferrable
    store(3);
  }
  void stores_by_qualified_base() {  // expect: deferrable
    Middle::clears_in_base();
  }
  void names_member_in_sizeof() {  // expect: deferrable
    ints()[0] = sizeof(cache_) / sizeof(*cache_);
  }
  void hides_member(int calls_) {  // expect: deferrable
    ints()[0] = ++calls_;
  }
  void prefers_member() {  // expect: instant
    {
      int calls_ = 3;
      ints()[1] = calls_;
    }
    ints()[0] = calls_;  // because: prefers_member member
  }
  void writes_bit_field_member() {  // expect: instant
    flags_ = 1;  // because: writes_bit_field_member member
  }
  void writes_bit_field_in_object() {  // expect: deferrable
    auto* cell = static_cast<Cell*>(poroot);
    cell->kind = 2;
    cell->weight += cell->kind;
  }
  void writes_reference_member() {  // expect: deferrable
    Window window{ints()[3]};
    window.top = 4;
  }
  void keeps_number_of_object() {  // expect: instant
    ints()[0] = poid();  // because: keeps_number_of_object member in header
  }
  void waits_for_object() {  // expect: instant
    sync();  // because: waits_for_object no_source
  }
  int size() const {  // expect: read
    return ints()[0];
  }
  int counted_size() const {  // expect: instant; because: counted_size returns
    ++reads_;  // because: counted_size member
    return ints()[0];
  }
  int limit() const {  // expect: instant; because: limit returns
    return options_.limit;  // because: limit member
  }
  int columns() const {  // expect: read
    return kColumns;
  }
  int size_of_mutable() {  // expect: instant; because: size_of_mutable returns
    return ints()[0];
  }
  int taken() const {  // expect: instant; because: taken returns
    return --*static_cast<int*>(poroot);
  }
  bool is_sorted() const {  // expect: read
    for (int i = 1; i < 64; ++i)
      if (ints()[i] < ints()[i - 1]) return false;
    return true;
  }
  void looks_only() const {  // expect: deferrable
    int sum = 0;
    for (int i = 0; i < 64; ++i) sum += ints()[i];
    static_cast<void>(sum);
  }
  void writes_although_const() const {  // expect: deferrable
    static_cast<int*>(poroot)[2] = 1;
  }

 private:
  using Middle::store;
  struct Window {
    int& top;
  };
  int calls_ = 0;
  const int rows_ = 16;
  mutable int reads_ = 0;
  int cache_[8] = {};
  unsigned flags_ : 4 = 0;
  Options options_;
};

}  // namespace corpus_members
