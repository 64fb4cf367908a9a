// States of which Methods is specialised: the object is the bytes of *this.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include <perdura/objects.hpp>

namespace corpus_states {

int changes = 0;

struct Sample {
  int weight;
  int value;
};
struct Link {
  int* at;
  int index;
};
void raise(int& cell) { ++cell; }
void raise_shared(int& cell) {
  cell += changes;  // because: raises_by_shared global
}

struct Meter {
  static constexpr int kRows = 8;
  static int made;
  static inline const int kStep = 2;
  int values[kRows];
  int total;
  const char* label;
  int* kept;

  void adds(int row, int value) noexcept {  // expect: deferrable
    values[row % kRows] += value;
    total += value;
  }
  void clears() noexcept {  // expect: deferrable
    std::memset(values, 0, sizeof values);
  }
  void adds_copied(const Sample& sample) noexcept {  // expect: deferrable
    total += sample.weight * sample.value;
  }
  void adds_moved(Sample&& sample) noexcept {  // expect: deferrable
    sample.weight *= 2;
    total += sample.weight;
  }
  void adds_copied_link(const Link& link) noexcept {  // expect: deferrable
    total += link.index;
  }
  void follows_link(Link link) noexcept {  // expect: instant
    total += *link.at;  // because: follows_link argument
  }
  void follows_kept() noexcept {  // expect: instant
    total += *kept;  // because: follows_kept kept_pointer
  }
  void writes_kept() noexcept {  // expect: instant
    kept[1] = total;  // because: writes_kept kept_pointer
  }
  void tests_kept() noexcept {  // expect: deferrable
    total = kept == nullptr ? 0 : 1;
  }
  void forgets_kept() noexcept {  // expect: deferrable
    kept = nullptr;
  }
  void keeps_own_place() noexcept {  // expect: instant
    kept = &values[2];  // because: keeps_own_place keeps_address
  }
  void keeps_label() noexcept {  // expect: instant
    label = "meter";  // because: keeps_label keeps_address
  }
  void measures_label() noexcept {  // expect: instant
    total = static_cast<int>(std::strlen(label));  // because: measures_label kept_pointer
  }
  void resets() noexcept {  // expect: deferrable
    *this = Meter{};
  }
  void doubles_by_copy() noexcept {  // expect: deferrable
    Meter copy = *this;
    for (int& value : copy.values) value *= 2;
    std::memcpy(values, copy.values, sizeof values);
  }
  void adds_by_this_capture(int value) noexcept {  // expect: deferrable
    const auto add = [this, value](int row) { values[row] += value; };
    add(0);
    add(1);
  }
  void adds_to_captured_copy(int value) noexcept {  // expect: deferrable
    auto add = [*this, value]() mutable {
      total += value;
      return total;
    };
    total = add();
  }
  void counts_in_capture() noexcept {  // expect: instant
    const auto add = [this] {
      total += ++changes;  // because: counts_in_capture global
    };
    add();
  }
  void counts_made() noexcept {  // expect: instant
    ++made;  // because: counts_made global
  }
  void adds_constant_step() noexcept {  // expect: deferrable
    total += kStep;
  }
  void raises_total() noexcept {  // expect: deferrable
    raise(total);
  }
  void raises_by_shared() noexcept {  // expect: instant
    raise_shared(values[1]);
  }
  void sorts() noexcept {  // expect: deferrable
    std::sort(values, values + kRows);
  }
  void adds_from_argument(const int* from) noexcept {  // expect: instant
    total += from[0];  // because: adds_from_argument argument
  }
  int takes(int row) noexcept {  // expect: instant; because: takes returns
    return values[row]--;
  }
  int value(int row) const noexcept {  // expect: read
    return values[row];
  }
  int weighed(const Sample& sample) const noexcept {  // expect: read
    return total * sample.weight;
  }
  int largest() const noexcept {  // expect: read
    return *std::max_element(values, values + kRows);
  }
  bool has_label() const noexcept {  // expect: read
    return label != nullptr;
  }
  Sample sample(int row) const noexcept {  // expect: read
    return {row, values[row]};
  }
  int sorted_middle() const noexcept {  // expect: read
    Meter copy = *this;
    std::sort(copy.values, copy.values + kRows);
    return copy.values[kRows / 2];
  }
  int kept_value() const noexcept {  // expect: instant; because: kept_value returns
    return *kept;  // because: kept_value kept_pointer
  }
  int cast_total() const noexcept {  // expect: instant; because: cast_total returns
    return ++const_cast<Meter*>(this)->total;
  }
  int shared_total() const noexcept {  // expect: instant; because: shared_total returns
    return total + changes;  // because: shared_total global
  }
};
int Meter::made = 0;

struct Grid {
  struct Row {
    std::uint16_t cells[4];
    std::uint16_t used;
  };
  struct Plane {
    Row rows[3];
  };
  Plane planes[2];
  mutable int looks;

  void marks(int plane, int row, int column) noexcept {  // expect: deferrable
    Row& at = planes[plane].rows[row];
    at.cells[column] = 1;
    ++at.used;
  }
  void copies_plane(int from, int to) noexcept {  // expect: deferrable
    planes[to] = planes[from];
  }
  void fills_plane(Plane plane) noexcept {  // expect: deferrable
    for (Row& row : plane.rows) row.used = 4;
    planes[0] = plane;
  }
  void marks_all() noexcept {  // expect: deferrable
    for (auto& plane : planes)
      for (auto& row : plane.rows)
        for (auto& cell : row.cells) cell = 1;
  }
  void marks_outside(Grid* other) noexcept {  // expect: instant
    other->planes[0].rows[0].used = 1;  // because: marks_outside argument
  }
  int marked() const noexcept {  // expect: read
    int result = 0;
    for (const Plane& plane : planes)
      for (const Row& row : plane.rows) result += row.used;
    return result;
  }
  Row row(int plane, int row) const noexcept {  // expect: read
    return planes[plane].rows[row];
  }
  int counted_looks() const noexcept {  // expect: instant; because: counted_looks returns
    return ++looks;
  }
};

struct Header {
  std::uint32_t version;
  void advances() noexcept {  // expect: deferrable
    ++version;
  }

 protected:
  void mark() noexcept { version |= 0x80000000u; }
  void mark_and_count() noexcept {
    mark();
    ++changes;  // because: marks_base_and_counts global
  }
};
struct Flags {
  unsigned open : 1;
  unsigned kind : 7;
  unsigned count : 24;
};
struct Packet : Header, Flags {
  union {
    float number;
    std::uint32_t bits;
    std::uint8_t bytes[4];
  };
  std::int64_t stamp;

  void opens(unsigned with) noexcept {  // expect: deferrable
    open = 1;
    kind = with & 0x7f;
    count += open;
  }
  void marks_base() noexcept {  // expect: deferrable
    mark();
  }
  void marks_base_and_counts() noexcept {  // expect: instant
    mark_and_count();
  }
  void sets_number(float value) noexcept {  // expect: deferrable
    number = value;
    bits &= 0x7fffffffu;
  }
  void flips_byte(int i) noexcept {  // expect: deferrable
    bytes[i & 3] ^= 0xff;
  }
  void replaces_base(Header header) noexcept {  // expect: deferrable
    static_cast<Header&>(*this) = header;
  }
  void replaces_flags(const Flags& flags) noexcept {  // expect: deferrable
    Flags::operator=(flags);
  }
  void stamps_address() noexcept {  // expect: instant
    stamp = reinterpret_cast<std::intptr_t>(this);  // because: stamps_address address_as_number
  }
  void follows_stamp() noexcept {  // expect: instant
    *reinterpret_cast<int*>(stamp) = 1;  // because: follows_stamp unknown_pointer
  }
  void increases_by_base_pointer() noexcept {  // expect: deferrable
    Header* base = this;
    ++base->version;
    static_cast<Packet*>(base)->stamp = 0;
  }
  unsigned kind_of() const noexcept {  // expect: read
    return open != 0 ? kind : 0;
  }
  std::uint32_t exponent() const noexcept {  // expect: read
    return (bits >> 23) & 0xff;
  }
  Flags flags() const noexcept {  // expect: read
    return *this;
  }
  unsigned closed() const noexcept {  // expect: instant; because: closed returns
    auto* self = const_cast<Packet*>(this);
    self->open = 0;
    return count;
  }
};

}  // namespace corpus_states

template <>
struct perdura::Methods<corpus_states::Meter>
    : perdura::MethodList<perdura::Deferrable<&corpus_states::Meter::adds>,
                          perdura::Deferrable<&corpus_states::Meter::clears>,
                          perdura::Deferrable<&corpus_states::Meter::adds_copied>,
                          perdura::Deferrable<&corpus_states::Meter::resets>,
                          perdura::Deferrable<&corpus_states::Meter::sorts>,
                          perdura::Instant<&corpus_states::Meter::counts_made>,
                          perdura::Instant<&corpus_states::Meter::takes>> {};
template <>
struct perdura::Methods<corpus_states::Grid>
    : perdura::MethodList<perdura::Deferrable<&corpus_states::Grid::marks>,
                          perdura::Deferrable<&corpus_states::Grid::marks_all>,
                          perdura::Instant<&corpus_states::Grid::marks_outside>> {};
template <>
struct perdura::Methods<corpus_states::Packet>
    : perdura::MethodList<perdura::Deferrable<&corpus_states::Header::advances>,
                          perdura::Deferrable<&corpus_states::Packet::opens>,
                          perdura::Deferrable<&corpus_states::Packet::sets_number>,
                          perdura::Instant<&corpus_states::Packet::stamps_address>> {};
