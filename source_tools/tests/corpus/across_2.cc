// What across_1.cc calls; and a class whose methods are defined outside of it.
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
extern int (*const kDoubler)(int);
const int kLimit = 12;
const int kRates[4] = {1, 2, 4, 8};
int opened = 0;
int board[16];
int tickets = 0;
int charged = 0;

inline int doubled(int value) { return 2 * value; }
static int weigh(int value) {
  return value + opened;  // because: weighs_by_static_of_other_file global
}
static int clamp_low(int value) { return value < 0 ? 0 : value; }
int (*const kDoubler)(int) = &clamp_low;
int (*current_operation)(int) = &clamp_low;

void descend_plain(int* cells, int n);
void descend_counted(int* cells, int n);

void fill_cells(int* cells, int count) {
  for (int i = 0; i < count; ++i) cells[i] = doubled(i);
}
void count_opening() {
  ++opened;  // because: counts_in_other_file global
}
void find_board(int** out) { *out = board; }
void find_cell(int* cells, int row, int*& out) { out = cells + row; }
void describe(int* cells, Place& place) {
  place.at = cells + 2;
  place.index = 2;
}
void describe_shared(Place& place) {
  place.at = &board[2];
  place.index = 2;
}
int* pick_cell(int* cells, int row) { return row < 0 ? cells : &cells[row]; }
int* pick_counter() { return &opened; }
void climb(int* cells, int n) {
  cells[n] = -n;
  if (n > 0) descend_plain(cells, n - 1);
}
void climb_counted(int* cells, int n) {
  --opened;  // because: climbs_and_counts_over_files global
  if (n > 0) descend_counted(cells, n - 1);
}
void add_clamped(int* cells, int value) { cells[0] += clamp_low(value); }
void add_counted(int* cells, int value) { cells[0] += weigh(value); }
int checked_row(int row) {
  if (row < 0) throw row;  // because: throws_in_other_file throws
  return row;
}
static int checked_digit(int digit) {
  if (digit > 9) throw digit;
  return digit;
}
int parse(int digit) noexcept {
  try {
    return checked_digit(digit);
  } catch (...) {
    return 0;
  }
}
int apply_to(int (*f)(int), int value) { return f(value); }

void Ledger::enter(int row, int value) { cells_[row] += value; }
void Ledger::enter_audited(int row, int value) {
  enter(row, value);
  board[row] = value;  // because: enters_audited_in_ledger global
}
int Ledger::sum(int rows) const {
  int result = 0;
  for (int i = 0; i < rows; ++i) result += cells_[i];
  return result;
}
int Ledger::scale(int value) {
  return value * board[0];  // because: enters_scaled global; scaled_total global
}
Ticket::Ticket() {
  number = ++tickets;  // because: takes_ticket global
}
Ticket::~Ticket() { number = 0; }
Lease::Lease(int* cell) : cell_(cell) { ++*cell_; }
Lease::~Lease() { --*cell_; }
void Account::charge(int* cell) const { ++*cell; }
void Premium::charge(int* cell) const {
  *cell += ++charged;  // because: charges_premium global
}

class Outlined : public POBase {
 public:
  explicit Outlined(int poid = 0) : POBase(64 * sizeof(int), poid) {}
  void stores_outlined(int value);
  void opens_outlined();
  int first_outlined() const;

 private:
  int* cells() const { return static_cast<int*>(poroot); }
};

void Outlined::stores_outlined(int value) {  // expect: deferrable
  cells()[0] = clamp_low(value);
}
void Outlined::opens_outlined() {  // expect: instant
  ++opened;  // because: opens_outlined global
}
int Outlined::first_outlined() const {  // expect: read
  return cells()[0];
}

}  // namespace corpus_across

// A program may bring functions of the library's names, which the others then call.
extern "C" {
int ffsl(long value) noexcept {
  ++corpus_across::opened;  // because: calls_own_function_of_library global
  return value != 0;
}
double hypot(double a, double b) noexcept {
  corpus_across::opened += 2;  // because: calls_own_by_builtin global
  return a + b;
}
int ffsll(long long value) noexcept { return value != 0; }
}
