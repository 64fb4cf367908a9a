// Keys and values, found by a hash, in a store or elsewhere: with the standard's interface, each
// call an operation by itself or a part of what the thread is in, reporting what it stores to, and
// in transactions a part of them.
//
//   auto& visits = store.root<hash_map<string, long>>("visits");
//   ++visits["Ada"];
//
// What differs from the standard's:
//  - values that are copied as bytes are got and changed through a Reference (reference.hpp), as
//    those of vector<bool>: `auto& value = map[key]` does not compile, `value = map[key]`,
//    `map[key] = value`, `map[key] += 1`, `map[key]->member` and `map[key].modify(…)` do. Values
//    that report themselves are got by reference;
//  - what inserts may move elements: it invalidates iterators, references and pointers, as it does
//    in Abseil's flat_hash_map. `map[a] = map[b].get()`, and of values that are got by reference
//    `map.insert_or_assign(a, map.at(b))`;
//  - the default hash is the same in every run, and finds strings by whatever converts to a
//    string_view.
// Readers may run at the same time as each other, not as a writer; in transactions all may.
#pragma once

#include <functional>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <perdura/detail/conversion.hpp>
#include <perdura/structures/hash_table.hpp>

namespace perdura::structures {

template <class Key, class Value, class Hash = hash<Key>, class Equal = std::equal_to<>>
class hash_map {
  using Table = detail::HashTable<Key, Value, Hash, Equal>;
  using Slot = typename Table::Slot;
  using Look = perdura::detail::Look;
  using Step = perdura::detail::Step;
  using References = detail::MapReferences<Key, Value>;
  template <class K>
  using Argument = typename Table::template Argument<K>;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using value_type = std::pair<const Key, Value>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using hasher = Hash;
  using key_equal = Equal;
  /// Of a value.
  using mapped_reference = typename References::template Mapped<false>;
  using const_mapped_reference = typename References::template Mapped<true>;

  template <bool kConst>
  class Iterator {
    using Mapped = typename References::template Mapped<kConst>;

   public:
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::forward_iterator_tag;
    using value_type = hash_map::value_type;
    using difference_type = std::ptrdiff_t;
    using reference = typename References::template Element<kConst>;
    using pointer = detail::Arrow<reference>;

    Iterator() = default;
    template <bool kOther>
      requires(kConst && !kOther)
    Iterator(const Iterator<kOther>& other)  // NOLINT: as the standard's
        : table_(other.table_), at_(other.at_) {}

    reference operator*() const {
      const Look look(table_);
      Slot& slot = table_->slots(look)[at_];
      if constexpr (Plain<Key>) return reference(look.load(slot.key), Mapped(slot.value));
      else return reference(slot.key, Mapped(slot.value));
    }
    pointer operator->() const { return pointer(**this); }
    Iterator& operator++() {
      at_ = table_->next(at_ + 1);
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_ == b.at_; }

   private:
    friend class hash_map;
    friend class Iterator<true>;
    Iterator(const Table* table, std::size_t at) : table_(table), at_(at) {}
    const Table* table_ = nullptr;
    std::size_t at_ = 0;
  };
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;

  hash_map() {}  // NOLINT: where it is defaulted, hash_map() stores zeros first, past a transaction
  hash_map(std::initializer_list<std::pair<Key, Value>> values) {
    for (const auto& [key, value] : values) try_emplace(key, value);
  }
  hash_map(const hash_map& other) { copy(other); }
  /// Takes the table over where both lie in the same memory. Else it copies, and empties `other`.
  hash_map(hash_map&& other) { take(other); }  // NOLINT: memory may be wanted
  hash_map& operator=(const hash_map& other) {
    if (this != &other) {
      const Step step(this);
      table_.replace(step, [&] { copy(other); });
    }
    return *this;
  }
  hash_map& operator=(hash_map&& other) {  // NOLINT: as above
    if (this != &other) take(other);
    return *this;
  }

  size_type size() const { return table_.size(); }
  bool empty() const { return size() == 0; }
  size_type capacity() const { return table_.capacity(); }

  iterator begin() { return {&table_, table_.next(0)}; }
  iterator end() { return {&table_, table_.capacity()}; }
  const_iterator begin() const { return {&table_, table_.next(0)}; }
  const_iterator end() const { return {&table_, table_.capacity()}; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }

  // Where the hash is transparent, by whatever it takes.
  template <class K = Key>
  iterator find(const Argument<K>& key) {
    const std::size_t at = table_.find(key);
    return at == Table::kNone ? end() : iterator{&table_, at};
  }
  template <class K = Key>
  const_iterator find(const Argument<K>& key) const {
    const std::size_t at = table_.find(key);
    return at == Table::kNone ? end() : const_iterator{&table_, at};
  }
  template <class K = Key>
  bool contains(const Argument<K>& key) const {
    return table_.find(key) != Table::kNone;
  }
  template <class K = Key>
  size_type count(const Argument<K>& key) const {
    return contains(key) ? 1 : 0;
  }
  /// Throw std::out_of_range.
  template <class K = Key>
  mapped_reference at(const Argument<K>& key) {
    return mapped_reference(slot_of(key).value);
  }
  template <class K = Key>
  const_mapped_reference at(const Argument<K>& key) const {
    return const_mapped_reference(slot_of(key).value);
  }

  template <class K = Key>
  mapped_reference operator[](const Argument<K>& key) {
    const Step step(this);
    const auto place =
        table_.find_or_insert(step, key, [&](Slot& slot) { construct(step, slot, key); });
    return mapped_reference(table_.slots(step)[place.at].value);
  }

  template <class K = Key, class... Args>
  std::pair<iterator, bool> try_emplace(const Argument<K>& key, Args&&... args) {
    const Step step(this);
    const auto place = table_.find_or_insert(
        step, key, [&](Slot& slot) { construct(step, slot, key, std::forward<Args>(args)...); });
    return {iterator(&table_, place.at), place.is_new};
  }
  template <class K = Key, class V = Value>
  std::pair<iterator, bool> insert_or_assign(const Argument<K>& key, V&& value) {
    const Step step(this);
    const auto place = table_.find_or_insert(
        step, key, [&](Slot& slot) { construct(step, slot, key, std::forward<V>(value)); });
    if (!place.is_new) {
      Slot& slot = table_.slots(step)[place.at];
      if constexpr (Plain<Value>) step.store(slot.value, Value(std::forward<V>(value)));
      else slot.value = std::forward<V>(value);
    }
    return {iterator(&table_, place.at), place.is_new};
  }
  template <class K = Key, class V = Value>
  std::pair<iterator, bool> emplace(const Argument<K>& key, V&& value) {
    return try_emplace(key, std::forward<V>(value));
  }
  template <class K, class V>
  std::pair<iterator, bool> insert(const std::pair<K, V>& value) {
    return try_emplace(value.first, value.second);
  }
  template <class First, class Last>
  void insert(First first, Last last) {
    const Step step(this);
    for (; first != last; ++first) try_emplace(first->first, first->second);
  }

  template <class K = Key>
  size_type erase(const Argument<K>& key) {
    const Step step(this);
    const std::size_t at = table_.find(key);
    if (at == Table::kNone) return 0;
    table_.erase(step, at);
    return 1;
  }
  /// The one behind it.
  iterator erase(const_iterator position) {
    const Step step(this);
    table_.erase(step, position.at_);
    return {&table_, table_.next(position.at_)};
  }
  iterator erase(iterator position) { return erase(const_iterator(position)); }
  void clear() { table_.clear(Step(this)); }
  void reserve(size_type count) { table_.reserve(Step(this), count); }
  void swap(hash_map& other) {  // NOLINT: memory may be wanted where they lie in different ones
    const Step step(this);
    if (step.shares_memory(&other)) return table_.exchange(step, other.table_);
    perdura::detail::exchange_by_copies(*this, other);
  }
  friend void swap(hash_map& a, hash_map& b) { a.swap(b); }  // NOLINT: as above

  friend bool operator==(const hash_map& a, const hash_map& b) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a) {
      const auto found = b.find(key);
      if (found == b.end() || !(same(found->second, value))) return false;
    }
    return true;
  }

 private:
  static bool same(const const_mapped_reference& a, const const_mapped_reference& b) {
    return a == b;
  }

  template <class K>
  Slot& slot_of(const K& key) const {
    const std::size_t at = table_.find(key);
    if (at == Table::kNone) throw std::out_of_range("perdura::structures::hash_map::at");
    return table_.slots(Look(this))[at];
  }

  template <class K, class... Args>
  static void construct(const Step& step, Slot& slot, const K& key, Args&&... args) {
    detail::construct_member(step, slot.key, key);
    try {
      detail::construct_member(step, slot.value, std::forward<Args>(args)...);
    } catch (...) {
      detail::destroy_member(slot.key);
      throw;
    }
  }

  void copy(const hash_map& other) {
    const Step step(this);
    reserve(other.size());
    for (const auto& [key, value] : other) {
      if constexpr (Plain<Value>) try_emplace(key, value.get());
      else try_emplace(key, value);
    }
  }
  void take(hash_map& other) {
    const Step step(this);
    if (step.shares_memory(&other)) return table_.take(step, other.table_);
    table_.replace(step, [&] { copy(other); });
    other.clear();
  }

  Table table_;
};

}  // namespace perdura::structures

/// A root knows them.
template <class Key, class Value, class Hash, class Equal>
struct perdura::detail::ContentsOf<perdura::structures::hash_map<Key, Value, Hash, Equal>> {
  using type = ContainedElsewhere<std::pair<Key, Value>>;
};
template <class Key, class Value, class Hash, class Equal>
struct perdura::detail::OwnParts<perdura::structures::hash_map<Key, Value, Hash, Equal>>
    : OwnParts<perdura::structures::detail::HashTable<Key, Value, Hash, Equal>> {
  static_assert(sizeof(structures::hash_map<Key, Value, Hash, Equal>) ==
                sizeof(structures::detail::HashTable<Key, Value, Hash, Equal>));
};
template <class Key, class Value, class Hash, class Equal>
struct perdura::FormerOf<perdura::structures::hash_map<Key, Value, Hash, Equal>> {
  using now = structures::hash_map<Key, typename FormerOf<Value>::now, Hash, Equal>;
};
template <class Key, class Old, class New, class Hash, class Equal>
  requires(!std::is_same_v<Old, New>)
struct perdura::detail::ElementConversions<perdura::structures::hash_map<Key, Old, Hash, Equal>,
                                           perdura::structures::hash_map<Key, New, Hash, Equal>> {
  using OldElement = Old;
  using NewElement = New;
  using OldSlot = structures::detail::TableSlot<Key, Old>;
  using NewSlot = structures::detail::TableSlot<Key, New>;
  using OldTypes = structures::detail::TableTypes<OldSlot>;
  using NewTypes = structures::detail::TableTypes<NewSlot>;

  template <class Function, class Add>
  static void for_each_block(Function& function, Add&& add) {
    if constexpr (HasOwnParts<New>) add(conversion_of<Old, New>(function));
    else
      OldTypes::for_each_log([&]<std::size_t kLog>(std::integral_constant<std::size_t, kLog>) {
        if (kLog < NewTypes::kLogEnd)
          add(Conversion{OldTypes::of(std::size_t{1} << kLog), NewTypes::of(std::size_t{1} << kLog),
                         &OldTypes::describe_table(kLog)(), &NewTypes::describe_table(kLog)(), 0,
                         &convert<std::size_t{1} << kLog, Function>, &function, nullptr});
      });
  }
  template <std::size_t kCapacity, class Function>
  static void convert(void* function, const void* was, void* place) {
    convert_table<Function>(kCapacity, function, was, place);
  }
  /// Each element stays in its place: the keys are as they were.
  template <class Function>
  static void convert_table(std::size_t capacity, void* function, const void* was, void* place) {
    const auto* const from = static_cast<const OldSlot*>(was);
    auto* const to = static_cast<NewSlot*>(place);
    const auto* const controls = reinterpret_cast<const std::uint8_t*>(from + capacity);
    std::memcpy(static_cast<void*>(to + capacity), controls, capacity);
    for (std::size_t at = 0; at < capacity; ++at) {
      if (!structures::detail::is_element(controls[at])) continue;
      std::memcpy(static_cast<void*>(&to[at].key), static_cast<const void*>(&from[at].key),
                  sizeof(Key));
      convert_object<Old, New, Function>(function, &from[at].value, &to[at].value);
    }
  }
};
template <class Key, class Value, class Hash, class Equal>
inline constexpr bool
    perdura::kReportsItself<perdura::structures::hash_map<Key, Value, Hash, Equal>> = true;
