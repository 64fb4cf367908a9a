// Pointers kept in the object, arguments, pointers made of numbers, and numbers made of pointers.
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <perdura/compat/simpo.hpp>

namespace corpus_pointers {

int spare = 0;
void notify(int) {}

struct Node {
  int value;
  int next_index;
  Node* next;
  const char* name;
  void (*hook)(int);
};
struct View {
  const int* data;
  int count;
};
struct Range {
  int first;
  int last;
};
struct Slot {
  int* at;
};

void link(Node& from, Node* to) {
  from.next = to;  // because: links_neighbours keeps_address
}
int value_of(const Node* node) { return node->value; }
int first_of(const View& view) {
  return view.data[0];  // because: adds_first_of_view argument
}
int sum_of_ints(int count, ...) {
  va_list arguments;
  va_start(arguments, count);
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += va_arg(arguments, int);
  va_end(arguments);
  return sum;
}
void store_in_all(int value, int count, ...) {
  va_list arguments;
  va_start(arguments, count);
  for (int i = 0; i < count; ++i) {
    int* at = va_arg(arguments, int*);
    *at = value;  // because: stores_by_variable_arguments unknown_pointer
  }
  va_end(arguments);
}

class Pointers : public POBase {
 public:
  explicit Pointers(int poid = 0) : POBase(16 * sizeof(Node), poid) {}

  void walks_by_index(int i) {  // expect: deferrable
    for (; i > 0; i = nodes()[i].next_index) ++nodes()[i].value;
  }
  void follows_next() {  // expect: instant
    nodes()->next->value = 1;  // because: follows_next kept_pointer
  }
  void follows_copied_node() {  // expect: instant
    Node copy = *nodes();
    copy.next->value = 1;  // because: follows_copied_node kept_pointer
  }
  void follows_node_copied_as_bytes() {  // expect: instant
    Node copy;
    std::memcpy(&copy, poroot, sizeof copy);
    copy.next->value = 1;  // because: follows_node_copied_as_bytes kept_pointer
  }
  void changes_copied_node() {  // expect: deferrable
    Node copy = *nodes();
    ++copy.value;
    nodes()->value = copy.value;
  }
  void follows_by_helper() {  // expect: instant
    nodes()->value = value_of_next(nodes()->next);
  }
  void reads_first_by_helper() {  // expect: deferrable
    nodes()[1].value = value_of(nodes());
  }
  void reads_kept_name() {  // expect: instant
    nodes()->value = nodes()->name[0];  // because: reads_kept_name kept_pointer
  }
  void measures_kept_name() {  // expect: instant
    const char* name = nodes()->name;
    nodes()->value = int(std::strlen(name));  // because: measures_kept_name kept_pointer
  }
  void tests_kept_pointer() {  // expect: deferrable
    nodes()->value = nodes()->next != nullptr;
  }
  void clears_kept_pointer() {  // expect: deferrable
    nodes()->next = nullptr;
  }
  void calls_kept_function() {  // expect: instant
    nodes()->hook(3);  // because: calls_kept_function indirect
  }
  void keeps_function() {  // expect: instant
    nodes()->hook = &notify;  // because: keeps_function keeps_address
  }
  void keeps_literal() {  // expect: instant
    nodes()->name = "first";  // because: keeps_literal keeps_address
  }
  void copies_literal() {  // expect: deferrable
    std::strcpy(static_cast<char*>(poroot), "first");
  }
  void keeps_own_element() {  // expect: instant
    nodes()->next = nodes() + 1;  // because: keeps_own_element keeps_address
  }
  void links_neighbours(int i) {  // expect: instant
    link(nodes()[i], &nodes()[i + 1]);
  }
  void links_local() {  // expect: deferrable
    Node local{};
    Node other{};
    link(local, &other);
    nodes()->value = local.next == &other;
  }
  void keeps_address_of_global() {  // expect: instant
    *static_cast<int**>(poroot) = &spare;  // because: keeps_address_of_global keeps_address
  }
  void keeps_address_of_object() {  // expect: instant
    *static_cast<void**>(poroot) = this;  // because: keeps_address_of_object keeps_address
  }
  void keeps_root() {  // expect: instant
    *static_cast<void**>(poroot) = poroot;  // because: keeps_root keeps_address
  }
  void keeps_argument(Node* next) {  // expect: instant
    nodes()->next = next;  // because: keeps_argument keeps_address
  }
  void keeps_struct_with_argument(View view) {  // expect: instant
    *static_cast<View*>(poroot) = view;  // because: keeps_struct_with_argument keeps_address
  }
  void keeps_address_as_bytes() {  // expect: instant
    Node* next = nodes() + 2;
    std::memcpy(poroot, &next, sizeof next);  // because: keeps_address_as_bytes keeps_address
  }
  void keeps_address_in_aggregate() {  // expect: instant
    const Slot slot{&spare};
    *static_cast<Slot*>(poroot) = slot;  // because: keeps_address_in_aggregate keeps_address
  }
  void keeps_address_by_new() {  // expect: instant
    new (poroot) Slot{&spare};  // because: keeps_address_by_new keeps_address
  }
  void keeps_found_place(char c) {  // expect: instant
    const char* found = std::strchr(static_cast<char*>(poroot), c);
    nodes()[9].name = found;  // because: keeps_found_place keeps_address
  }
  void keeps_index_of_found_place(char c) {  // expect: deferrable
    const char* text = static_cast<const char*>(poroot);
    const char* found = std::strchr(text, c);
    nodes()[9].value = found == nullptr ? -1 : static_cast<int>(found - text);
  }
  void copies_range(Range range) {  // expect: deferrable
    for (int i = range.first; i < range.last; ++i) nodes()[i].value = i;
  }
  void adds_const_reference(const int& value) {  // expect: instant
    nodes()->value += value;  // because: adds_const_reference argument
  }
  void adds_rvalue(int&& value) {  // expect: instant
    nodes()->value += value;  // because: adds_rvalue argument
  }
  void adds_struct_by_reference(const Range& range) {  // expect: instant
    nodes()->value = range.last;  // because: adds_struct_by_reference argument
  }
  void copies_text(const char* text) {  // expect: instant
    std::strncpy(static_cast<char*>(poroot), text, 16);  // because: copies_text argument
  }
  void copies_bytes(const void* from, int bytes) {  // expect: instant
    std::memcpy(poroot, from, bytes);  // because: copies_bytes argument
  }
  void answers_by_pointer(int* result) {  // expect: instant
    *result = nodes()->value;  // because: answers_by_pointer argument
  }
  void sums_array_parameter(int values[4]) {  // expect: instant
    for (int i = 0; i < 4; ++i)
      nodes()->value += values[i];  // because: sums_array_parameter argument
  }
  void sums_view(View view) {  // expect: instant
    const int* last = view.data + view.count;
    for (const int* p = view.data; p != last; ++p)
      nodes()->value += *p;  // because: sums_view argument
  }
  void counts_view(View view) {  // expect: deferrable
    nodes()->value += view.count;
  }
  void adds_first_of_view(View view) {  // expect: instant
    nodes()->value += first_of(view);
  }
  void counts_text(std::string_view text) {  // expect: deferrable
    nodes()->value += static_cast<int>(text.size());
  }
  void adds_first_character(std::string_view text) {  // expect: instant
    nodes()->value += text[0];  // because: adds_first_character argument
  }
  void tests_pointer_argument(const int* values) {  // expect: deferrable
    if (values == nullptr) nodes()->value = 0;
  }
  void changes_pointer_parameter(const int* values) {  // expect: deferrable
    values = &nodes()->value;
    nodes()[1].next_index = values != nullptr;
  }
  void sums_variable_arguments(int a, int b) {  // expect: deferrable
    nodes()->value = sum_of_ints(3, a, b, nodes()->value);
  }
  void stores_by_variable_arguments() {  // expect: instant
    int local = 0;
    store_in_all(3, 2, &local, &nodes()->value);
  }
  void follows_number(std::uintptr_t number) {  // expect: instant
    int* p = reinterpret_cast<int*>(number);
    *p = 1;  // because: follows_number unknown_pointer
  }
  void follows_constant_address() {  // expect: instant
    auto* device = reinterpret_cast<volatile int*>(0xb8000);
    *device = 1;  // because: follows_constant_address unknown_pointer
  }
  void follows_kept_number() {  // expect: instant
    const auto number = *static_cast<std::uintptr_t*>(poroot);
    *reinterpret_cast<int*>(number) = 1;  // because: follows_kept_number unknown_pointer
  }
  void follows_punned_number(std::uintptr_t number) {  // expect: instant
    union {
      std::uintptr_t bits;
      int* at;
    } pun;
    pun.bits = number;
    *pun.at = 1;  // because: follows_punned_number unknown_pointer
  }
  void follows_copied_number(std::uintptr_t number) {  // expect: instant
    int* p = nullptr;
    std::memcpy(&p, &number, sizeof p);
    *p = 1;  // because: follows_copied_number unknown_pointer
  }
  void follows_pieced_bytes(int offset) {  // expect: instant
    int* p = &nodes()->value;
    reinterpret_cast<unsigned char*>(&p)[0] = static_cast<unsigned char>(offset);  // because: follows_pieced_bytes address_as_number
    *p = 1;  // because: follows_pieced_bytes unknown_pointer
  }
  void hashes() {  // expect: instant
    const int local = 3;
    auto bits = reinterpret_cast<std::uintptr_t>(&local);  // because: hashes address_as_number
    nodes()->value = bits % 16;
  }
  void ranks(int i) {  // expect: instant
    auto a = reinterpret_cast<std::intptr_t>(nodes() + i);  // because: ranks address_as_number
    nodes()->value = a % 64 == 0;
  }
  void aligns() {  // expect: instant
    auto bits = reinterpret_cast<std::uintptr_t>(poroot);  // because: aligns address_as_number
    auto* p = reinterpret_cast<int*>((bits + 63) & ~std::uintptr_t{63});
    *p = 1;  // because: aligns unknown_pointer
  }
  void casts_number_to_number(long bits) {  // expect: deferrable
    nodes()->value = static_cast<int>(static_cast<std::uintptr_t>(bits) >> 3);
  }
  void puns_float(float value) {  // expect: deferrable
    union {
      float number;
      std::uint32_t bits;
    } pun;
    pun.number = value;
    nodes()->value = static_cast<int>(pun.bits >> 23);
  }
  void copies_bits_of_double(double value) {  // expect: deferrable
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    nodes()->value = static_cast<int>(bits >> 52);
  }
  void writes_by_pointer_to_data_member(int i) {  // expect: deferrable
    int Node::* field = i == 0 ? &Node::value : &Node::next_index;
    nodes()[i].*field = 5;
  }
  void writes_bytes_of_object(int i) {  // expect: deferrable
    reinterpret_cast<unsigned char*>(nodes())[i] ^= 0x55;
  }
  void measures_distance() {  // expect: deferrable
    const char* base = static_cast<const char*>(poroot);
    nodes()->value = static_cast<int>(reinterpret_cast<const char*>(nodes() + 3) - base);
  }

 private:
  static int value_of_next(const Node* node) {
    return node->value;  // because: follows_by_helper kept_pointer
  }
  Node* nodes() { return static_cast<Node*>(poroot); }
};

}  // namespace corpus_pointers
