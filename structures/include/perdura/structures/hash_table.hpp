// What hash_map and hash_set have in common: a table of slots with open addressing, after the Swiss
// tables of Abseil.
//
//   slots     [slot][slot] … [slot]            2^n, at least 16
//   controls  [byte][byte] … [byte]            behind them in the same block: kEmpty, kErased, or
//                                              seven bits of the hash of what is in the slot
//
// A search looks at 16 controls at once, from the group that the hash says on, until a group has an
// empty one. What is inserted takes the first place of them that is free. Where seven of eight
// places were used a larger table is made, or one of the same size without the erased ones.
//
// Whatever changes the table reports exactly what it stores to: a control, a slot, and the line of
// the counters. In a transaction all of it is loaded and stored by that.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <perdura/detail/step.hpp>
#include <perdura/structures/common.hpp>
#include <perdura/structures/hash.hpp>
#include <perdura/structures/reference.hpp>

namespace perdura::structures::detail {

template <class Key, class Value>
struct TableSlot {
  Key key;
  Value value;
};
template <class Key>
struct TableSlot<Key, Nothing> {
  Key key;
};

/// What a control says of its slot.
constexpr std::uint8_t kControlEmpty = 0x80;
constexpr bool is_element(std::uint8_t control) { return control < kControlEmpty; }

/// The records of tables of 2^n slots with their controls: one for each n. A block has room for one
/// such table and less than two.
template <class Slot>
class TableTypes {
  using Describe = perdura::detail::Describe;
  using TypeDescription = perdura::detail::TypeDescription;
  using Nominal = typename perdura::detail::Nominal<Slot>::type;
  static constexpr std::size_t kLogMin = 4;

 public:
  static constexpr std::size_t kLogEnd =
      static_cast<std::size_t>(std::bit_width(UINT32_MAX / (sizeof(Slot) + 1)));
  /// nullptr: more than a record can say.
  static const perdura_type* of(std::size_t capacity) {
    const auto log = static_cast<std::size_t>(std::countr_zero(capacity));
    return log < kLogEnd ? &all()[log - kLogMin]->record.type() : nullptr;
  }
  static Describe describe_table(std::size_t log) { return all()[log - kLogMin]->describe; }
  template <class Work>
  static void for_each_log(Work&& work) {
    [&]<std::size_t... kN>(std::index_sequence<kN...>) {
      (work(std::integral_constant<std::size_t, kN + kLogMin>{}), ...);
    }(std::make_index_sequence<kLogEnd - kLogMin>{});
  }

 private:
  static constexpr std::uint32_t kAlignment = std::max<std::uint32_t>(16, alignof(Slot));

  struct One {
    One(std::size_t log, Describe describe_slots, Describe describe_table)
        : name(std::to_string(std::size_t{1} << log) + " slots of " + typeid(Nominal).name()),
          member{"slots", 0, describe_slots},
          slots{"",
                static_cast<std::uint32_t>(sizeof(Slot) << log),
                alignof(Slot),
                1u << log,
                false,
                false,
                {},
                std::span(&kSlot, 1)},
          table{name,
                static_cast<std::uint32_t>((sizeof(Slot) + 1) << log),
                kAlignment,
                0,
                true,
                false,
                std::span(&member, 1),
                {}},
          describe(describe_table),
          record(name.c_str(), table.size, kAlignment, parts(log), describe_table,
                 !std::is_same_v<Nominal, Slot>) {}

    static std::vector<perdura::detail::Part> parts(std::size_t log) {
      perdura::detail::Part part = perdura::detail::part_of<Slot>("slots", 0);
      part.slot.bytes = static_cast<std::uint32_t>(sizeof(Slot) << log);
      return {part};
    }
    static constexpr Describe kSlot = &perdura::detail::describe<Slot>;
    const std::string name;
    const perdura::detail::MemberDescription member;
    const TypeDescription slots;
    const TypeDescription table;
    const Describe describe;
    const perdura::detail::PartsRecord record;
  };
  using All = std::array<std::unique_ptr<One>, kLogEnd - kLogMin>;

  template <std::size_t kLog>
  static const TypeDescription& slots() {
    return all()[kLog - kLogMin]->slots;
  }
  template <std::size_t kLog>
  static const TypeDescription& table() {
    return all()[kLog - kLogMin]->table;
  }
  static const All& all() {
    static const All made = [] {
      All all;
      for_each_log([&]<std::size_t kLog>(std::integral_constant<std::size_t, kLog>) {
        all[kLog - kLogMin] = std::make_unique<One>(kLog, &slots<kLog>, &table<kLog>);
      });
      return all;
    }();
    return made;
  }
};

template <class Key, class Value, class Hash, class Equal>
class HashTable {
  static_assert(Storable<Key> && Storable<Value>, PERDURA_STORABLE_SENTENCE);
  static_assert(kMayHold<Key> && kMayHold<Value>);

 public:
  using Slot = TableSlot<Key, Value>;
  template <class K>
  using Argument = typename KeyArgument<Transparent<Hash>>::template type<K, Key>;
  static constexpr std::size_t kGroup = 16;
  static constexpr std::size_t kNone = ~std::size_t{0};

  HashTable() {
    const Step step(this);
    set(step, {});
  }
  HashTable(const HashTable&) = delete;
  HashTable& operator=(const HashTable&) = delete;
  ~HashTable() noexcept(false) {
    const Step step(this);
    perdura::detail::destroy_by([&] { release(step); });
  }

  std::size_t size() const { return Look(this).load(size_); }
  std::size_t capacity() const { return Look(this).load(capacity_); }
  /// The slots, and whether there is something in one.
  Slot* slots(const Look& look) const { return look.load(slots_); }
  bool is_full(const Look& look, std::size_t at) const {
    const std::uint8_t control = look.load(controls(slots(look), look.load(capacity_))[at]);
    return control < kEmpty;
  }
  /// The first full one from `at` on; the capacity: there is none.
  std::size_t next(std::size_t at) const {
    const Look look(this);
    const std::size_t capacity = look.load(capacity_);
    while (at < capacity && !is_full(look, at)) ++at;
    return std::min(at, capacity);
  }

  /// The place of a key; kNone.
  template <class K>
  std::size_t find(const K& key) const {
    const Look look(this);
    return find(look, key, hash_of(key));
  }

  struct Place {
    std::size_t at;
    bool is_new;
  };
  /// The place of a key; where there is none, what `construct(slot)` puts into a new one. Where
  /// that throws, the table is as it was, but for its size.
  template <class K, class Construct>
  Place find_or_insert(const Step& step, const K& key, Construct&& construct) {
    const std::uint64_t hash = hash_of(key);
    if (const std::size_t found = find(step, key, hash); found != kNone) return {found, false};
    const std::size_t at = free_place(step, hash);
    if (at == kNone) return {insert_into_larger(step, hash, construct), true};
    Slot* const slot = slots(step) + at;
    if (!step.in_transaction()) step.touch(slot, sizeof *slot);
    construct(*slot);
    std::uint8_t& control = controls(slots(step), step.load(capacity_))[at];
    if (step.load(control) == kEmpty) step.store(left_, step.load(left_) - 1);
    step.store(control, control_of(hash));
    step.store(size_, step.load(size_) + 1);
    return {at, true};
  }

  void erase(const Step& step, std::size_t at) {
    Slot* const table = slots(step);
    std::uint8_t* const control = controls(table, step.load(capacity_));
    destroy(table[at]);
    step.forget(table[at]);
    // A search goes on behind a group without an empty place: in one with an empty place nobody
    // goes on behind this one.
    const bool ends_here = matches(group_at(step, control, at / kGroup), kEmpty) != 0;
    step.store(control[at], ends_here ? kEmpty : kErased);
    if (ends_here) step.store(left_, step.load(left_) + 1);
    step.store(size_, step.load(size_) - 1);
  }

  void clear(const Step& step) {
    release(step);
    set(step, {});
  }

  void reserve(const Step& step, std::size_t count) {
    const std::size_t wanted = capacity_for(count);
    if (wanted > step.load(capacity_))
      move_to(step, make_table(step, wanted), wanted, step.load(size_));
  }

  /// What the other one has, which is empty then; both in the same memory.
  void take(const Step& step, HashTable& other) {
    clear(step);
    exchange(step, other);
  }
  void exchange(const Step& step, HashTable& other) {
    const Fields mine = fields(step);
    set(step, other.fields(step));
    other.set(step, mine);
  }
  /// What `fill()` puts into it, which is empty then. Where that throws it is as it was.
  template <class Fill>
  void replace(const Step& step, Fill&& fill) {
    const Fields before = fields(step);
    set(step, {});
    perdura::detail::undone_by(fill, [&] {
      release(step);
      set(step, before);
    });
    const Fields after = fields(step);
    set(step, before);
    release(step);
    set(step, after);
  }

 private:
  struct Fields {
    Slot* slots = nullptr;
    std::size_t capacity = 0;
    std::size_t size = 0;
    std::size_t left = 0;
  };
  Fields fields(const Look& look) const {
    return {look.load(slots_), look.load(capacity_), look.load(size_), look.load(left_)};
  }
  void set(const Step& step, const Fields& fields) {
    step.store(slots_, fields.slots);
    step.store(capacity_, fields.capacity);
    step.store(size_, fields.size);
    step.store(left_, fields.left);
  }

  /// A key that lies in a store is not looked at in a transaction, but copied.
  template <class K>
  static std::uint64_t hash_of(const K& key) {
    if constexpr (requires { key.str(); })
      if (Look(&key).in_transaction()) return Hash{}(key.str());
    return Hash{}(key);
  }

  static constexpr std::uint8_t kEmpty = kControlEmpty;
  static constexpr std::uint8_t kErased = 0xfe;
  static constexpr std::size_t kAlignment = std::max<std::size_t>(kGroup, alignof(Slot));

  static std::uint8_t control_of(std::uint64_t hash) {
    return static_cast<std::uint8_t>(hash & 0x7f);
  }
  static std::size_t group_of(std::uint64_t hash, std::size_t capacity) {
    return (hash >> 7) & (capacity / kGroup - 1);
  }
  static std::uint8_t* controls(Slot* slots, std::size_t capacity) {
    return reinterpret_cast<std::uint8_t*>(slots + capacity);
  }
  static std::size_t usable(std::size_t capacity) { return capacity / 8 * 7; }
  static std::size_t capacity_for(std::size_t count) {
    if (count > ~std::size_t{0} / 8 / (sizeof(Slot) + 1))
      throw std::length_error("a hash table of more elements than there are addresses");
    std::size_t capacity = kGroup;
    while (usable(capacity) < count) capacity *= 2;
    return capacity;
  }

  /// The controls of a group.
  template <bool kInTransaction>
  static __m128i group_at(const Look& look, const std::uint8_t* control, std::size_t group) {
    const std::uint8_t* const place = control + group * kGroup;
    if constexpr (kInTransaction) {
      std::uint64_t words[2];
      for (std::size_t i = 0; i < 2; ++i)
        words[i] = look.load(*reinterpret_cast<const std::uint64_t*>(place + i * 8));
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
    } else {
      return _mm_load_si128(reinterpret_cast<const __m128i*>(place));
    }
  }
  static unsigned matches(__m128i group, std::uint8_t control) {
    return static_cast<unsigned>(
        _mm_movemask_epi8(_mm_cmpeq_epi8(group, _mm_set1_epi8(static_cast<char>(control)))));
  }
  /// Empty or erased.
  static unsigned free_ones(__m128i group) {
    return static_cast<unsigned>(_mm_movemask_epi8(group));
  }
  static __m128i group_at(const Look& look, const std::uint8_t* control, std::size_t group) {
    return look.in_transaction() ? group_at<true>(look, control, group)
                                 : group_at<false>(look, control, group);
  }

  template <bool kInTransaction, class T>
  static T load(const Look& look, const T& field) {
    if constexpr (kInTransaction) return look.load(field);
    else return field;
  }

  template <bool kInTransaction, class K>
  static bool has_key(const Look& look, const Slot& slot, const K& key) {
    if constexpr (Plain<Key>) return Equal{}(load<kInTransaction>(look, slot.key), key);
    else return Equal{}(slot.key, key);
  }

  template <class K>
  std::size_t find(const Look& look, const K& key, std::uint64_t hash) const {
    return look.in_transaction() ? find_by<true>(look, key, hash) : find_by<false>(look, key, hash);
  }
  template <bool kInTransaction, class K>
  std::size_t find_by(const Look& look, const K& key, std::uint64_t hash) const {
    const std::size_t capacity = load<kInTransaction>(look, capacity_);
    if (capacity == 0) return kNone;
    Slot* const table = load<kInTransaction>(look, slots_);
    const std::uint8_t* const control = controls(table, capacity);
    const std::size_t groups = capacity / kGroup;
    for (std::size_t group = group_of(hash, capacity), step = 1;; ++step) {
      const __m128i found = group_at<kInTransaction>(look, control, group);
      for (unsigned bits = matches(found, control_of(hash)); bits != 0; bits &= bits - 1) {
        const std::size_t at = group * kGroup + static_cast<unsigned>(std::countr_zero(bits));
        if (has_key<kInTransaction>(look, table[at], key)) [[likely]]
          return at;
      }
      // Each group comes once in so many steps: their distances grow by one.
      if (matches(found, kEmpty) != 0 || step > groups) [[likely]]
        return kNone;
      group = (group + step) & (groups - 1);
    }
  }

  /// For a key that is not there; kNone: the table is to be rebuilt first.
  std::size_t free_place(const Look& look, std::uint64_t hash) const {
    const std::size_t capacity = look.load(capacity_);
    if (capacity == 0) return kNone;
    const std::uint8_t* const control = controls(look.load(slots_), capacity);
    for (std::size_t group = group_of(hash, capacity), step = 1;; ++step) {
      if (const unsigned bits = free_ones(group_at(look, control, group)); bits != 0) {
        const std::size_t at = group * kGroup + static_cast<unsigned>(std::countr_zero(bits));
        // An erased place may always be used again.
        if (look.load(left_) != 0 || look.load(control[at]) == kErased) return at;
        return kNone;
      }
      group = (group + step) & (capacity / kGroup - 1);
    }
  }

  /// Twice as large; or as large as it was where a half of it was erased.
  std::size_t larger_capacity(const Look& look) const {
    const std::size_t capacity = look.load(capacity_);
    if (capacity == 0) return kGroup;
    return look.load(size_) > usable(capacity) / 2 ? 2 * capacity : capacity;
  }
  /// Where slots hold pointers they are zero.
  static Slot* allocate_table(const Step& step, std::size_t capacity) {
    if constexpr (perdura::detail::RecordedElement<Slot>)
      if (step.is_in_store())
        if (const perdura_type* const type = TableTypes<Slot>::of(capacity))
          return static_cast<Slot*>(step.allocate_block(*type, type->slot_count != 0));
    return static_cast<Slot*>(step.allocate(capacity * (sizeof(Slot) + 1), kAlignment));
  }
  static Slot* make_table(const Step& step, std::size_t capacity) {
    Slot* const table = allocate_table(step, capacity);
    std::uint8_t* const control = controls(table, capacity);
    if (!step.in_transaction()) {
      std::memset(control, kEmpty, capacity);
    } else {
      constexpr std::uint64_t kEight = std::uint64_t{kEmpty} * 0x0101010101010101;
      for (std::size_t at = 0; at < capacity; at += sizeof kEight)
        step.initialize_bytes(control + at, &kEight, sizeof kEight);
    }
    return table;
  }
  /// What is there moves to a new table, which holds the rest of `size` already.
  void move_to(const Step& step, Slot* table, std::size_t capacity, std::size_t size) {
    const Fields before = fields(step);
    if (before.size != 0) {
      const std::uint8_t* const control = controls(before.slots, before.capacity);
      for (std::size_t at = 0; at < before.capacity; ++at)
        if (step.load(control[at]) < kEmpty)
          move_slot(step, before.slots[at], table, controls(table, capacity), capacity);
    }
    set(step, {table, capacity, size, usable(capacity) - size});
    if (before.slots != nullptr) step.deallocate(before.slots, kAlignment);
  }
  /// First, before the others move: what it is constructed of may lie in them, and be moved out.
  template <class Construct>
  std::size_t insert_into_larger(const Step& step, std::uint64_t hash, Construct&& construct) {
    const std::size_t capacity = larger_capacity(step);
    Slot* const table = make_table(step, capacity);
    const std::size_t at = group_of(hash, capacity) * kGroup;
    try {
      construct(table[at]);
    } catch (...) {
      if (!step.in_transaction()) step.deallocate(table, kAlignment);
      throw;
    }
    step.initialize(controls(table, capacity)[at], control_of(hash));
    move_to(step, table, capacity, step.load(size_) + 1);
    return at;
  }

  /// To a new table.
  static void move_slot(const Step& step, const Slot& from, Slot* table, std::uint8_t* control,
                        std::size_t capacity) {
    alignas(Slot) std::byte bytes[sizeof(Slot)];
    if (step.in_transaction()) step.load_bytes(&from, bytes, sizeof bytes);
    else std::memcpy(bytes, static_cast<const void*>(&from), sizeof bytes);
    // A copy of the bytes, which nobody else sees.
    const auto& slot = *std::launder(reinterpret_cast<const Slot*>(bytes));
    std::uint64_t hash = 0;
    if constexpr (Plain<Key>) hash = Hash{}(slot.key);
    else hash = hash_of(from.key);
    for (std::size_t group = group_of(hash, capacity), distance = 1;; ++distance) {
      const __m128i found =
          _mm_load_si128(reinterpret_cast<const __m128i*>(control + group * kGroup));
      if (const unsigned bits = free_ones(found); bits != 0) {
        const std::size_t at = group * kGroup + static_cast<unsigned>(std::countr_zero(bits));
        step.initialize_bytes(table + at, bytes, sizeof bytes);
        step.initialize(control[at], control_of(hash));
        return;
      }
      group = (group + distance) & (capacity / kGroup - 1);
    }
  }
  static void destroy(Slot& slot) {
    destroy_member(slot.key);
    if constexpr (requires { slot.value; }) destroy_member(slot.value);
  }

  void release(const Step& step) {
    Slot* const table = step.load(slots_);
    if (table == nullptr) return;
    if constexpr (!Plain<Key> || !Plain<Value>) {
      const std::size_t capacity = step.load(capacity_);
      const std::uint8_t* const control = controls(table, capacity);
      for (std::size_t at = 0; at < capacity; ++at)
        if (step.load(control[at]) < kEmpty) destroy(table[at]);
    }
    step.deallocate(table, kAlignment);
  }

  friend struct perdura::detail::OwnParts<HashTable>;
  Slot* slots_;
  std::size_t capacity_;
  std::size_t size_;
  std::size_t left_;  ///< empty places that may be taken before the table is rebuilt
};

}  // namespace perdura::structures::detail

template <class Key, class Value>
struct perdura::FormerOf<perdura::structures::detail::TableSlot<Key, Value>> {
  using now = structures::detail::TableSlot<Key, typename FormerOf<Value>::now>;
};
template <class Key, class Value>
struct perdura::detail::OwnParts<perdura::structures::detail::TableSlot<Key, Value>> {
  using Slot = structures::detail::TableSlot<Key, Value>;
  static constexpr bool kKnown = find_pointers<Key>() && find_pointers<Value>();
  static constexpr bool kHasMembers = true;
  static std::vector<Part> parts() {
    std::vector<Part> all{part_of<Key>("key", offsetof(Slot, key))};
    if constexpr (!std::is_same_v<Value, structures::detail::Nothing>)
      all.push_back(part_of<Value>("value", offsetof(Slot, value)));
    return all;
  }
};
template <class Key, class Value, class Hash, class Equal>
struct perdura::detail::OwnParts<perdura::structures::detail::HashTable<Key, Value, Hash, Equal>> {
  using Table = structures::detail::HashTable<Key, Value, Hash, Equal>;
  static constexpr bool kKnown = true;
  static constexpr bool kHasMembers = false;
  static std::vector<Part> parts() { return {part_of<void*>("slots", offsetof(Table, slots_))}; }
};
