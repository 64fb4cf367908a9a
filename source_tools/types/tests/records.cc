// The records that the plugin makes of classes, with slots written by hand: bases, virtual
// functions, templates, the standard's containers.
#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <perdura/typed.h>

#include "same_record.h"

namespace {
struct Hand {
  std::vector<perdura_slot> slots;
  perdura_type type{};
};
template <class T>
void compare(const char* name, std::vector<std::pair<uint32_t, uint32_t>> words) {
  static Hand hand;
  for (const auto& [offset, kind] : words)
    hand.slots.push_back({"", kind, offset, 8, nullptr, 0, 0, 0});
  hand.type = {name, sizeof(T), alignof(T), static_cast<uint32_t>(hand.slots.size()),
               hand.slots.data()};
  compare_records(name, &hand.type, PERDURA_RECORD(T));
}
constexpr uint32_t P = PERDURA_SLOT_POINTER;
constexpr uint32_t M = PERDURA_SLOT_MAYBE;
}  // namespace

namespace bank {
struct account {
  account* next;
  long cents;
};
namespace inside {
struct deep {
  void* p;
};
}  // namespace inside
}  // namespace bank
struct account {
  void* owner;
  int number;
};
struct base {
  void* b;
};
struct derived : base {
  int n;
  void* d;
};
struct empty {};
struct of_empty : empty {
  void* p;
};
struct two_bases : base, bank::account {
  void* own;
};
struct has_virtual {
  virtual ~has_virtual() = default;
  void* p;
  int n;
};
struct overrides : has_virtual {
  void* more;
};
struct late_virtual : base {
  virtual void f() {}
  void* q;
};
struct virtual_base : virtual base {
  void* v;
};
struct reference {
  int& r;
  const base& b;
};
struct member_pointers {
  int base::* data;
  void (has_virtual::*function)();
  void* p;
};
struct of_null {
  decltype(nullptr) n;
  void* p;
};
template <class T, int N>
struct holder {
  T values[N];
  void* p;
};
struct smart {
  std::unique_ptr<base> u;
  std::shared_ptr<base> s;
  int n;
};
struct private_members {
 public:
  explicit private_members(void* p) : p_(p) {}
  void* get() const { return p_; }

 private:
  [[maybe_unused]] int n_ = 0;
  void* p_;
};
struct of_vector {
  int n;
  std::vector<void*> v;
};
struct of_array {
  std::array<base*, 3> a;
  std::array<int, 3> n;
};
struct of_atomic {
  std::atomic<base*> p;
  std::atomic<int> n;
};
class abstract {
 public:
  virtual void f() = 0;

 protected:
  void* p = nullptr;
};
struct no_unique {
  [[no_unique_address]] empty e;
  void* p;
};
struct statics {
  static void* s;
  void* p;
  static constexpr int n = 3;
};
struct of_function {
  std::function<void()> f;
};
struct of_string {
  std::string s;
  void* p;
};
struct of_storage {
  std::aligned_storage_t<sizeof(base) * 2, alignof(base)> s;
};

int main() {
  compare<bank::account>("bank::account", {{0, P}});
  compare<bank::inside::deep>("bank::inside::deep", {{0, P}});
  compare<account>("account", {{0, P}});
  compare<base>("base", {{0, P}});
  compare<derived>("derived", {{0, P}, {16, P}});
  compare<of_empty>("of_empty", {{0, P}});
  compare<two_bases>("two_bases", {{0, P}, {8, P}, {24, P}});
  compare<has_virtual>("has_virtual", {{0, P}, {8, P}});
  compare<overrides>("overrides", {{0, P}, {8, P}, {24, P}});
  compare<late_virtual>("late_virtual", {{0, P}, {8, P}, {16, P}});
  compare<virtual_base>("virtual_base", {{0, P}, {8, P}, {16, P}});
  compare<reference>("reference", {{0, P}, {8, P}});
  compare<member_pointers>("member_pointers", {{8, M}, {24, P}});
  compare<of_null>("of_null", {{8, P}});
  compare<holder<int, 3>>("holder<int, 3>", {{16, P}});
  compare<holder<bank::account*, 2>>("holder<bank::account *, 2>", {{0, P}, {8, P}, {16, P}});
  compare<holder<base, 2>>("holder<base, 2>", {{0, P}, {8, P}, {16, P}});
  compare<smart>("smart", {{0, P}, {8, P}, {16, P}});
  compare<private_members>("private_members", {{8, P}});
  compare<of_vector>("of_vector", {{8, P}, {16, P}, {24, P}});
  compare<of_array>("of_array", {{0, P}, {8, P}, {16, P}});
  compare<of_atomic>("of_atomic", {{0, P}});
  compare<abstract>("abstract", {{0, P}, {8, P}});
  compare<no_unique>("no_unique", {{0, P}});
  compare<statics>("statics", {{0, P}});
  compare<of_function>("of_function", {{0, M}, {8, M}, {16, P}, {24, P}});
  compare<of_string>("of_string", {{0, P}, {32, P}});
  compare<of_storage>("of_storage", {{0, M}, {8, M}});
  return records_result(28);
}
