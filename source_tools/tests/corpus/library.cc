// The standard library on the object, on locals and on variables of others.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <bitset>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <perdura/compat/simpo.hpp>

namespace corpus_library {

int shared = 0;
int shared_cells[8];
int twice(int x) { return 2 * x; }

int compare_ints(const void* a, const void* b) {
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

class Library : public POBase {
 public:
  explicit Library(int poid = 0) : POBase(256 * sizeof(int), poid) {}

  void sorts() {  // expect: deferrable
    std::sort(ints(), ints() + 64);
  }
  void sorts_descending() {  // expect: deferrable
    std::sort(ints(), ints() + 64, std::greater<int>());
  }
  void sorts_heap() {  // expect: deferrable
    std::make_heap(ints(), ints() + 64);
    std::sort_heap(ints(), ints() + 64);
  }
  void selects_middle() {  // expect: deferrable
    std::nth_element(ints(), ints() + 32, ints() + 64);
  }
  void fills() {  // expect: deferrable
    std::fill(ints(), ints() + 64, 7);
    std::fill_n(ints(), 4, 0);
  }
  void counts_up() {  // expect: deferrable
    std::iota(ints(), ints() + 64, 1);
  }
  void copies_within() {  // expect: deferrable
    std::copy(ints(), ints() + 8, ints() + 16);
    std::copy_backward(ints(), ints() + 8, ints() + 12);
  }
  void copies_shared() {  // expect: instant
    std::copy_n(shared_cells, 8, ints());  // because: copies_shared global in header
  }
  void fills_shared() {  // expect: instant
    std::fill_n(&shared, 1, 3);  // because: fills_shared global in header
  }
  void swaps_two() {  // expect: deferrable
    std::swap(ints()[0], ints()[1]);
  }
  void swaps_with_shared() {  // expect: instant
    std::swap(ints()[0], shared);  // because: swaps_with_shared global in header
  }
  void clamps() {  // expect: deferrable
    ints()[0] = std::clamp(ints()[0], 1, 9);
    ints()[1] = std::min(ints()[2], std::max(ints()[3], 4));
  }
  void takes_larger_of_shared() {  // expect: instant
    ints()[0] = std::max({ints()[0], shared, 4});  // because: takes_larger_of_shared global
  }
  void sums_up() {  // expect: deferrable
    ints()[0] = std::accumulate(ints() + 1, ints() + 9, 0);
    ints()[1] = std::inner_product(ints() + 1, ints() + 9, ints() + 9, 0);
  }
  void rotates() {  // expect: deferrable
    std::rotate(ints(), ints() + 3, ints() + 10);
  }
  void reverses() {  // expect: deferrable
    std::reverse(ints(), ints() + 10);
  }
  void removes_repeated() {  // expect: deferrable
    int* last = std::unique(ints() + 1, ints() + 64);
    ints()[0] = static_cast<int>(last - ints());
  }
  void inserts_in_order(int value) {  // expect: deferrable
    int* at = std::lower_bound(ints(), ints() + 63, value);
    std::move_backward(at, ints() + 63, ints() + 64);
    *at = value;
  }
  void transforms() {  // expect: deferrable
    std::transform(ints(), ints() + 8, ints(), [](int cell) { return 2 * cell; });
  }
  void transforms_by_shared() {  // expect: instant
    std::for_each(ints(), ints() + 8, [](int& cell) {
      cell += shared;  // because: transforms_by_shared global
    });
  }
  void uses_local_array() {  // expect: deferrable
    std::array<int, 4> cells{4, 3, 2, 1};
    std::sort(cells.begin(), cells.end());
    for (std::size_t i = 0; i < cells.size(); ++i) ints()[i] = cells[i];
  }
  void uses_array_in_object(int i) {  // expect: deferrable
    auto& cells = *static_cast<std::array<int, 8>*>(poroot);
    cells[i] = 3;
    cells.back() = cells.front();
  }
  void uses_span() {  // expect: deferrable
    const std::span<int> cells(ints(), 16);
    for (int& cell : cells.subspan(2, 4)) ++cell;
  }
  void uses_span_of_shared() {  // expect: instant
    const std::span<int> cells(shared_cells);
    for (int& cell : cells) ++cell;  // because: uses_span_of_shared global
  }
  void finds_in_text(char c) {  // expect: deferrable
    const std::string_view text(static_cast<const char*>(poroot), 32);
    ints()[16] = static_cast<int>(text.find(c));
  }
  void takes_pair() {  // expect: deferrable
    const std::pair<int, int> ends(ints()[0], ints()[63]);
    const auto [low, high] = std::minmax(ends.first, ends.second);
    ints()[0] = high - low;
  }
  void takes_tuple() {  // expect: deferrable
    auto parts = std::make_tuple(1, 2L, 'c');
    std::get<0>(parts) += 4;
    ints()[0] = std::get<0>(parts) + static_cast<int>(std::get<1>(parts));
  }
  void ties_shared() {  // expect: instant
    std::tie(ints()[0], shared) = std::make_tuple(1, 2);  // because: ties_shared global in header
  }
  void keeps_optional(int value) {  // expect: deferrable
    auto& kept = *static_cast<std::optional<int>*>(poroot);
    if (kept.has_value()) kept.reset();
    kept = value;
  }
  void takes_default_of_optional() {  // expect: deferrable
    std::optional<int> none;
    if (ints()[0] > 3) none = 4;
    ints()[0] = none.value_or(9);
  }
  void takes_value_of_optional() {  // expect: instant
    std::optional<int> maybe;
    if (ints()[0] > 3) maybe = 4;
    ints()[0] = maybe.value();  // because: takes_value_of_optional throws in header
  }
  void flips_bitset(int i) {  // expect: deferrable
    std::bitset<64> bits(static_cast<unsigned>(ints()[0]));
    bits[i % 64] = true;
    ints()[0] = static_cast<int>(bits.count());
  }
  void takes_limits() {  // expect: deferrable
    ints()[0] = std::numeric_limits<int>::max();
  }
  void exchanges() {  // expect: deferrable
    ints()[1] = std::exchange(ints()[0], 0);
  }
  void exchanges_shared() {  // expect: instant
    ints()[1] = std::exchange(shared, 0);  // because: exchanges_shared global in header
  }
  void moves_value() {  // expect: deferrable
    ints()[1] = std::move(ints()[0]);
  }
  void casts_bits(float value) {  // expect: deferrable
    ints()[0] = std::bit_cast<int>(value);
  }
  void counts_bits() {  // expect: deferrable
    const auto bits = static_cast<unsigned>(ints()[0]);
    ints()[0] = std::popcount(bits) + std::countl_zero(bits) + std::has_single_bit(bits);
  }
  void counts_by_atomic() {  // expect: deferrable
    auto& count = *static_cast<std::atomic<int>*>(poroot);
    count.fetch_add(1, std::memory_order_relaxed);
    ++count;
  }
  void exchanges_atomic(int expected) {  // expect: deferrable
    auto& count = *static_cast<std::atomic<int>*>(poroot);
    count.compare_exchange_strong(expected, 7);
  }
  void counts_by_shared_atomic() {  // expect: instant
    events_.fetch_add(1);  // because: counts_by_shared_atomic global in header
  }
  void fences() {  // expect: instant
    std::atomic_thread_fence(std::memory_order_seq_cst);  // because: fences fence in header
  }
  void asks_clock() {  // expect: instant
    const auto now = std::chrono::steady_clock::now();  // because: asks_clock no_source
    ints()[0] = static_cast<int>(now.time_since_epoch().count());
  }
  void converts_durations(int seconds) {  // expect: deferrable
    const std::chrono::milliseconds time = std::chrono::seconds(seconds);
    ints()[0] = static_cast<int>(time.count());
  }
  void draws_from_seeded() {  // expect: deferrable
    std::minstd_rand engine(42);
    ints()[0] = static_cast<int>(engine() % 6);
  }
  void draws_by_device() {  // expect: instant
    ints()[0] = static_cast<int>(std::random_device()());  // because: draws_by_device * in header
  }
  void shuffles_by_engine_in_object() {  // expect: deferrable
    auto& engine = *static_cast<std::minstd_rand*>(poroot);
    for (int i = 9; i > 2; --i) std::swap(ints()[i], ints()[2 + engine() % (i - 1)]);
  }
  void collects_in_vector(int value) {  // expect: instant
    std::vector<int> values(4);  // because: collects_in_vector * in header
    values.push_back(value);  // because: collects_in_vector * in header
    ints()[0] = static_cast<int>(values.size());
  }
  void fills_vector(int value) {  // expect: instant
    ints()[0] = std::vector<int>(3, value).empty();  // because: fills_vector * in header
  }
  void names_in_string() {  // expect: instant
    ints()[0] = std::string(3, 'a').empty();  // because: names_in_string * in header
  }
  void maps(int key) {  // expect: instant
    ints()[0] = std::map<int, int>{{key, 1}}.empty();  // because: maps * in header
  }
  void prints() {  // expect: instant
    std::printf("%d\n", ints()[0]);  // because: prints no_source
  }
  void streams() {  // expect: instant
    std::cout << 3;  // because: streams * in header
  }
  void composes() {  // expect: instant
    std::ostringstream out;  // because: composes * in header
    static_cast<void>(out);
  }
  void calls_by_function() {  // expect: instant
    ints()[0] = std::function<int(int)>(&twice)(3);  // because: calls_by_function * in header
  }
  void sorts_by_c_library() {  // expect: instant
    std::qsort(poroot, 8, sizeof(int), &compare_ints);  // because: sorts_by_c_library no_source
  }
  int sum() const {  // expect: read
    return std::accumulate(view().begin(), view().end(), 0);
  }
  bool contains(int value) const {  // expect: read
    return std::binary_search(view().begin(), view().end(), value);
  }
  std::pair<int, int> extremes() const {  // expect: read
    const auto [low, high] = std::minmax_element(view().begin(), view().end());
    return {*low, *high};
  }
  std::optional<int> found(int value) const {  // expect: read
    const auto cells = view();
    const auto at = std::find(cells.begin(), cells.end(), value);
    if (at == cells.end()) return std::nullopt;
    return static_cast<int>(at - cells.begin());
  }
  int loaded() const {  // expect: read
    return static_cast<const std::atomic<int>*>(poroot)->load(std::memory_order_acquire);
  }
  int fetched() const {  // expect: instant; because: fetched returns
    return static_cast<std::atomic<int>*>(poroot)->fetch_add(1);
  }
  int exchanged() const {  // expect: instant; because: exchanged returns
    return std::exchange(*static_cast<int*>(poroot), 0);
  }

 private:
  std::span<const int> view() const { return {static_cast<const int*>(poroot), 64}; }
  int* ints() { return static_cast<int*>(poroot); }
  static inline std::atomic<int> events_{0};
};

}  // namespace corpus_library
