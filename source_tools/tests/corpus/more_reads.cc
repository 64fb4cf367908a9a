// Reads that look like writers, and writers that look like reads.
#include <algorithm>
#include <cstring>
#include <utility>

#include <perdura/compat/simpo.hpp>

namespace corpus_more_reads {

int lookups = 0;

struct Entry {
  int key;
  int value;
  mutable int hits;
};
struct Cursor {
  const int* at;
  int next() { return *at++; }
};
struct Accumulator {
  void add(int value) { sum += value; }
  int sum = 0;
};
int drain(int* cells) {
  const int value = cells[0];
  cells[0] = 0;
  return value;
}
void sort_cells(int* cells, int count) {
  for (int i = 1; i < count; ++i)
    for (int j = i; j > 0 && cells[j] < cells[j - 1]; --j) std::swap(cells[j], cells[j - 1]);
}

class Records : public POBase {
 public:
  explicit Records(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  int sorts_a_copy() const {  // expect: read
    int copy[16];
    std::memcpy(copy, cells(), sizeof copy);
    sort_cells(copy, 16);
    return copy[8];
  }
  int drains_a_copy() const {  // expect: read
    int copy[1] = {cells()[0]};
    return drain(copy);
  }
  int writes_to_copied_entry() const {  // expect: read
    Entry entry = *entries();
    entry.value = 5;
    ++entry.hits;
    return entry.key + entry.value;
  }
  int moves_a_cursor() const {  // expect: read
    Cursor cursor{cells()};
    return cursor.next() + cursor.next();
  }
  int adds_in_accumulator() const {  // expect: read
    Accumulator sum;
    for (int i = 0; i < 8; ++i) sum.add(cells()[i]);
    return sum.sum;
  }
  int increments_parameter(int by) const {  // expect: read
    by += cells()[0];
    return ++by;
  }
  int casts_and_only_looks() const {  // expect: read
    int* const writable = const_cast<int*>(cells());
    return writable[3];
  }
  int assigns_pointer_only() const {  // expect: read
    const int* at = cells();
    at = at + 3;
    return *at;
  }
  int fills_by_lambda() const {  // expect: read
    int sums[4] = {};
    const auto fill = [&](int i) { sums[i % 4] += cells()[i]; };
    for (int i = 0; i < 16; ++i) fill(i);
    return *std::max_element(sums, sums + 4);
  }
  Entry clears_what_it_returns() const {  // expect: read
    Entry result = *entries();
    std::memset(&result.value, 0, sizeof result.value);
    return result;
  }
  int answers_constant() const {  // expect: read
    return 12;
  }
  int writes_one_of_two_copies(bool second) const {  // expect: read
    int a = cells()[0];
    int b = cells()[1];
    int& target = second ? b : a;
    target = 0;
    return a + b;
  }

  int hits_entry() const {  // expect: instant; because: hits_entry returns
    const Entry* const entry = entries();
    ++entry->hits;
    return entry->value;
  }
  int drains() const {  // expect: instant; because: drains returns
    return drain(static_cast<int*>(poroot));
  }
  int sorts_object() const {  // expect: instant; because: sorts_object returns
    sort_cells(static_cast<int*>(poroot), 16);
    return cells()[8];
  }
  int halves_on_the_way() const {  // expect: instant; because: halves_on_the_way returns
    for (int* at = writable(); at != writable() + 8; ++at) {
      if (*at > 100) *at /= 2;
    }
    return cells()[0];
  }
  int writes_either(bool copied) const {  // expect: instant; because: writes_either returns
    int local = cells()[0];
    int* const target = copied ? &local : writable();
    *target = 0;
    return local;
  }
  int swaps_ends() const {  // expect: instant; because: swaps_ends returns
    std::swap(writable()[0], writable()[63]);
    return cells()[0];
  }
  int never_writes(int value) const {  // expect: instant; because: never_writes returns
    if (false) writable()[0] = value;
    return cells()[0];
  }
  int counts_lookups() const {  // expect: instant; because: counts_lookups returns
    ++lookups;  // because: counts_lookups global
    return cells()[0];
  }
  int only_looks_without_const() {  // expect: instant; because: only_looks_without_const returns
    return cells()[0];
  }
  int fills_argument(int* to) const {  // expect: instant; because: fills_argument returns
    *to = cells()[0];  // because: fills_argument argument
    return 1;
  }
  void looks_and_discards() {  // expect: deferrable
    static_cast<void>(cells()[0] + cells()[1]);
  }
  void compares_only() const {  // expect: deferrable
    bool is_sorted = true;
    for (int i = 1; i < 64; ++i) is_sorted = is_sorted && cells()[i - 1] <= cells()[i];
  }
  void sorts_although_const() const {  // expect: deferrable
    sort_cells(writable(), 64);
  }

 private:
  const int* cells() const { return static_cast<const int*>(poroot); }
  int* writable() const { return static_cast<int*>(poroot); }
  const Entry* entries() const { return static_cast<const Entry*>(poroot); }
};

}  // namespace corpus_more_reads
