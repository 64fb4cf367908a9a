// Variables outside of the object, by many names, and constants that only look like them.
#include <cstring>

#include <perdura/compat/simpo.hpp>

namespace corpus_globals {

int started_at();

int total = 0;
int scores[8];
static bool is_verbose = false;
thread_local int depth = 0;
constexpr int kPrimes[] = {2, 3, 5, 7};
const int kOffset = 40 + 2;
const int kStart = started_at();
extern const int kElsewhere;
extern const int kHere;
const int kHere = 12;
const char* const kNames[] = {"zero", "one", "two"};
const char* mutable_names[] = {"zero", "one", "two"};
int* const kTotalAlias = &total;
int& total_reference = total;
const int& kTotalView = total;
template <int kIndex>
int slot = kIndex;
template <int kIndex>
constexpr int kSquare = kIndex * kIndex;
enum Level { kLow = 1, kHigh = 9 };
enum class Mode : int { kIdle = 3 };
struct Tally {
  mutable int hits;
  int limit;
};
constexpr Tally kTally{0, 5};
struct Registry {
  static int entries;
  static constexpr int kMaximum = 64;
  static inline int peak = 0;
  static const int kSteps[3];
};
int Registry::entries = 0;
const int Registry::kSteps[3] = {1, 10, 100};
union Word {
  int number;
  char bytes[4];
};
Word shared_word;
struct Point {
  int x;
  int y;
};
Point origin;

#define LIMIT total
#define BUMP(value) (++(value))
#define SPEED 88

class Globals : public POBase {
 public:
  explicit Globals(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  void adds_constant_table(int i) {  // expect: deferrable
    ints()[i] += kPrimes[i % 4];
  }
  void adds_namespace_const() {  // expect: deferrable
    ints()[0] += kOffset;
  }
  void adds_const_declared_extern_before() {  // expect: deferrable
    ints()[0] += kHere;
  }
  void measures_name_in_table(int i) {  // expect: deferrable
    ints()[0] = static_cast<int>(std::strlen(kNames[i]));
  }
  void measures_name_in_mutable_table(int i) {  // expect: instant
    const char* name = mutable_names[i];  // because: measures_name_in_mutable_table global
    ints()[0] = name == nullptr;
  }
  void adds_enumerators() {  // expect: deferrable
    ints()[0] += kHigh + static_cast<int>(Mode::kIdle);
  }
  void adds_macro_constant() {  // expect: deferrable
    ints()[0] += SPEED;
  }
  void adds_macro_variable() {  // expect: instant
    ints()[0] += LIMIT;  // because: adds_macro_variable global
  }
  void bumps_by_macro() {  // expect: deferrable
    BUMP(ints()[1]);
  }
  void bumps_global_by_macro() {  // expect: instant
    BUMP(scores[1]);  // because: bumps_global_by_macro global
  }
  void reads_flag_in_condition(int value) {  // expect: instant
    if (is_verbose) ints()[0] = value;  // because: reads_flag_in_condition global
  }
  void writes_in_unreachable_code() {  // expect: instant
    if (false) total = 1;  // because: writes_in_unreachable_code global
  }
  void names_global_in_sizeof() {  // expect: deferrable
    ints()[0] = sizeof(scores) / sizeof(scores[0]);
  }
  void names_global_in_decltype() {  // expect: deferrable
    decltype(total) copy = 3;
    ints()[0] = copy;
  }
  void names_global_in_noexcept() {  // expect: deferrable
    ints()[0] = noexcept(scores[started_at()]);
  }
  void names_global_in_typeid() {  // expect: deferrable
    static_cast<void>(typeid(shared_word.number));
    ints()[0] = alignof(decltype(shared_word));
  }
  void adds_const_initialised_late() {  // expect: instant
    ints()[0] += kStart;  // because: adds_const_initialised_late global
  }
  void adds_const_from_elsewhere() {  // expect: instant
    ints()[0] += kElsewhere;  // because: adds_const_from_elsewhere global
  }
  void writes_by_constant_pointer() {  // expect: instant
    *kTotalAlias = 4;  // because: writes_by_constant_pointer global
  }
  void writes_by_namespace_reference() {  // expect: instant
    total_reference = 4;  // because: writes_by_namespace_reference global
  }
  void reads_by_const_reference() {  // expect: instant
    ints()[0] = kTotalView;  // because: reads_by_const_reference global
  }
  void writes_variable_template() {  // expect: instant
    slot<3> = ints()[0];  // because: writes_variable_template global
  }
  void reads_constant_template() {  // expect: deferrable
    ints()[0] = kSquare<12>;
  }
  void writes_mutable_of_constant() {  // expect: instant
    ++kTally.hits;  // because: writes_mutable_of_constant global
  }
  void reads_constant_static_member() {  // expect: deferrable
    ints()[0] = Registry::kMaximum + Registry::kSteps[2];
  }
  void counts_in_static_member() {  // expect: instant
    ++Registry::entries;  // because: counts_in_static_member global
  }
  void reads_inline_static_member_by_object() {  // expect: instant
    Registry registry;
    ints()[0] = registry.peak;  // because: reads_inline_static_member_by_object global
  }
  void counts_in_own_static_member() {  // expect: instant
    ++made_;  // because: counts_in_own_static_member global
  }
  void counts_in_static_local() {  // expect: instant
    static int calls = 0;
    ints()[0] = ++calls;  // because: counts_in_static_local global
  }
  void reads_static_constexpr_local(int i) {  // expect: deferrable
    static constexpr int kWeights[] = {3, 1, 4};
    ints()[i] = kWeights[i % 3];
  }
  void reads_static_const_local(int i) {  // expect: deferrable
    static const char* const kUnits[] = {"ms", "s"};
    ints()[i] = kUnits[i % 2][0];
  }
  void takes_number_from_helper() {  // expect: instant
    ints()[0] = next_number();
  }
  void recurses_by_thread_depth(int n) {  // expect: instant
    ++depth;  // because: recurses_by_thread_depth thread_local
    if (n > 0) recurses_by_thread_depth(n - 1);
  }
  void caches_in_thread_local_static(int value) {  // expect: instant
    static thread_local int last;
    ints()[0] = (last = value);  // because: caches_in_thread_local_static thread_local
  }
  void writes_member_of_global_union() {  // expect: instant
    shared_word.bytes[0] = 'a';  // because: writes_member_of_global_union global
  }
  void binds_parts_of_global() {  // expect: instant
    auto& [x, y] = origin;
    ints()[0] = x;  // because: binds_parts_of_global global
    ints()[1] = y;  // because: binds_parts_of_global global
  }
  void copies_parts_of_global() {  // expect: instant
    const auto [x, y] = origin;  // because: copies_parts_of_global global
    ints()[0] = x + y;
  }
  void hides_global_by_local() {  // expect: deferrable
    int total = 0;
    for (int i = 0; i < 8; ++i) total += ints()[i];
    ints()[8] = total;
  }
  void hides_global_by_parameter(int total) {  // expect: deferrable
    ints()[0] = ++total;
  }
  void sees_global_behind_inner_scope() {  // expect: instant
    {
      int total = 3;
      ints()[0] = total;
    }
    ints()[1] = total;  // because: sees_global_behind_inner_scope global
  }
  void qualifies_hidden_global(int total) {  // expect: instant
    corpus_globals::total = total;  // because: qualifies_hidden_global global
  }
  void takes_address_of_global_only() {  // expect: deferrable
    ints()[0] = &scores[3] - &scores[0];
  }
  void reads_volatile_local() {  // expect: deferrable
    volatile int twice = ints()[0];
    ints()[0] = twice + twice;
  }
  void uses_global_in_comma() {  // expect: instant
    ints()[0] = (total++, 5);  // because: uses_global_in_comma global
  }
  void discards_branch_of_template() {  // expect: deferrable
    choose<false>(ints());
  }
  void keeps_branch_of_template() {  // expect: instant
    choose<true>(ints());
  }

 private:
  template <bool kShared>
  static void choose(int* cells) {
    if constexpr (kShared) {
      total += cells[0];  // because: keeps_branch_of_template global
    } else {
      cells[0] = 0;
    }
  }
  static int next_number() {
    static int number = 100;
    return number++;  // because: takes_number_from_helper global
  }
  int* ints() { return static_cast<int*>(poroot); }
  static int made_;
};
int Globals::made_ = 0;

}  // namespace corpus_globals
