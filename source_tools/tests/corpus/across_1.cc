// Helpers that are defined in another file (across_2.cc) decide what methods are.
#include <math.h>
#include <strings.h>

#include <perdura/compat/simpo.hpp>

namespace corpus_across {

struct Place {
  int* at;
  int index;
};
class Ledger {
 public:
  explicit Ledger(int* cells) : cells_(cells) {}
  void enter(int row, int value);
  void enter_audited(int row, int value);
  int sum(int rows) const;
  static int scale(int value);

 private:
  int* cells_;
};
class Ticket {
 public:
  Ticket();
  ~Ticket();
  int number = 0;
};
class Lease {
 public:
  explicit Lease(int* cell);
  ~Lease();

 private:
  int* cell_;
};
struct Account {
  virtual ~Account() = default;
  virtual void charge(int* cell) const;
};
struct Premium final : Account {
  void charge(int* cell) const override;
};

extern const int kLimit;
extern const int kRates[4];
extern int opened;
void fill_cells(int* cells, int count);
void count_opening();
void find_board(int** out);
void find_cell(int* cells, int row, int*& out);
void describe(int* cells, Place& place);
void describe_shared(Place& place);
int* pick_cell(int* cells, int row);
int* pick_counter();
void climb(int* cells, int n);
void climb_counted(int* cells, int n);
void add_clamped(int* cells, int value);
void add_counted(int* cells, int value);
int checked_row(int row);
int parse(int digit) noexcept;
extern int (*const kDoubler)(int);
extern int (*current_operation)(int);
int apply_to(int (*f)(int), int value);

inline int doubled(int value) { return 2 * value; }
inline int numbered(int value) {
  return value + opened++;  // because: adds_numbered global
}
static int weigh(int value) { return 3 * value; }

void descend_plain(int* cells, int n) {
  cells[n] = n;
  if (n > 0) climb(cells, n - 1);
}
void descend_counted(int* cells, int n) {
  cells[n] = n;
  if (n > 0) climb_counted(cells, n - 1);
}

class Across : public POBase {
 public:
  explicit Across(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  void fills_by_other_file() {  // expect: deferrable
    fill_cells(ints(), 8);
  }
  void counts_in_other_file() {  // expect: instant
    count_opening();
  }
  void writes_found_board() {  // expect: instant
    int* found = nullptr;
    find_board(&found);
    found[3] = 1;  // because: writes_found_board global
  }
  void finds_board_and_leaves_it() {  // expect: deferrable
    int* found = nullptr;
    find_board(&found);
    ints()[0] = found != nullptr;
  }
  void writes_found_cell(int row) {  // expect: deferrable
    int* found = nullptr;
    find_cell(ints(), row, found);
    *found = 1;
  }
  void writes_described_place() {  // expect: deferrable
    Place place{nullptr, 0};
    describe(ints(), place);
    *place.at = place.index;
  }
  void writes_described_shared_place() {  // expect: instant
    Place place{nullptr, 0};
    describe_shared(place);
    *place.at = place.index;  // because: writes_described_shared_place global
  }
  void reads_index_of_shared_place() {  // expect: deferrable
    Place place{nullptr, 0};
    describe_shared(place);
    ints()[0] = place.index;
  }
  void writes_picked_cell(int row) {  // expect: deferrable
    *pick_cell(ints(), row) = 5;
  }
  void writes_picked_counter() {  // expect: instant
    *pick_counter() = 5;  // because: writes_picked_counter global
  }
  void climbs_over_files(int n) {  // expect: deferrable
    descend_plain(ints(), n);
  }
  void climbs_and_counts_over_files(int n) {  // expect: instant
    descend_counted(ints(), n);
  }
  void weighs_by_own_static(int value) {  // expect: deferrable
    ints()[0] = weigh(value);
  }
  void weighs_by_static_of_other_file(int value) {  // expect: instant
    add_counted(ints(), value);
  }
  void clamps_in_other_file(int value) {  // expect: deferrable
    add_clamped(ints(), value);
  }
  void adds_doubled(int value) {  // expect: deferrable
    ints()[0] += doubled(value);
  }
  void adds_numbered(int value) {  // expect: instant
    ints()[0] += numbered(value);
  }
  void adds_limit_of_other_file() {  // expect: deferrable
    ints()[0] += kLimit;
  }
  void adds_rate_of_other_file(int i) {  // expect: deferrable
    ints()[0] += kRates[i % 4];
  }
  void enters_in_ledger(int row) {  // expect: deferrable
    Ledger(ints()).enter(row, 3);
  }
  void enters_audited_in_ledger(int row) {  // expect: instant
    Ledger(ints()).enter_audited(row, 3);
  }
  void enters_sum() {  // expect: deferrable
    const Ledger ledger(ints());
    ints()[0] = ledger.sum(4);
  }
  void enters_scaled(int value) {  // expect: instant
    ints()[0] = Ledger::scale(value);
  }
  void takes_ticket() {  // expect: instant
    const Ticket ticket;
    ints()[0] = ticket.number;
  }
  void holds_lease() {  // expect: deferrable
    const Lease lease(ints());
    ints()[1] = ints()[0];
  }
  void charges_premium() {  // expect: instant
    const Premium premium;
    premium.charge(ints());
  }
  void charges_standard() {  // expect: deferrable
    const Account account;
    account.Account::charge(ints());
  }
  void throws_in_other_file(int row) {  // expect: instant
    ints()[checked_row(row)] = 1;
  }
  void catches_what_other_file_throws(int digit) {  // expect: deferrable
    ints()[0] = parse(digit);
  }
  void calls_by_current_operation() {  // expect: instant
    const auto f = current_operation;  // because: calls_by_current_operation global
    ints()[0] = f(3);  // because: calls_by_current_operation indirect
  }
  void calls_by_constant_of_other_file() {  // expect: deferrable
    ints()[0] = kDoubler(3);
  }
  void passes_function_to_other_file() {  // expect: deferrable
    ints()[0] = apply_to(&doubled, 3);
  }
  void passes_counting_function() {  // expect: instant
    const auto add = [](int value) {
      return value + opened;  // because: passes_counting_function global
    };
    ints()[0] = apply_to(add, 3);
  }
  void calls_functions_of_library() {  // expect: deferrable
    ints()[0] = ffs(ints()[1]) + static_cast<int>(cbrt(8.0));
  }
  void calls_own_function_of_library() {  // expect: instant
    ints()[0] = ffsl(ints()[1]);
  }
  void calls_own_by_builtin() {  // expect: instant
    ints()[0] = static_cast<int>(__builtin_hypot(3.0, 4.0));
  }
  void calls_own_that_is_harmless() {  // expect: deferrable
    ints()[0] = ffsll(ints()[1]);
  }
  int first_total() const {  // expect: read
    return Ledger(static_cast<int*>(poroot)).sum(3);
  }
  int scaled_total() const {  // expect: instant; because: scaled_total returns
    return Ledger::scale(*static_cast<int*>(poroot));
  }
  int entered_total() const {  // expect: instant; because: entered_total returns
    Ledger(static_cast<int*>(poroot)).enter(0, 1);
    return *static_cast<int*>(poroot);
  }

 private:
  int* ints() { return static_cast<int*>(poroot); }
};

}  // namespace corpus_across
