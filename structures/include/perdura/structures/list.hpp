// Elements linked both ways, which report what is stored to them: with std::list's interface, in a
// store or elsewhere, each call an operation by itself or a part of what the thread is in, also a
// transaction.
//
//   auto& jobs = store.root<perdura::structures::list<string>>("jobs");
//   jobs.push_back("first");
//   jobs.splice(jobs.end(), other);
//
//   list { first, last, size }
//   node { next, prev, value }      the last one's next and the first one's prev are null
//
// What differs from the standard's:
//  - elements that are copied as bytes are got and changed through a Reference (reference.hpp).
//    Those that report themselves are got by reference;
//  - iterators and references stay valid until their element is erased, and so they do when it is
//    spliced to another list in the same memory. Between two memories splice and merge copy;
//  - an end belongs to the list that an iterator was got from: one that has been spliced elsewhere
//    does not step back from the end that it comes to.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include <perdura/detail/conversion.hpp>
#include <perdura/detail/step.hpp>
#include <perdura/structures/common.hpp>
#include <perdura/structures/reference.hpp>

namespace perdura::structures {

namespace detail {
template <class T>
struct ListNode {
  ListNode() = delete;
  ListNode* next;
  ListNode* prev;
  T value;
};
}  // namespace detail

template <class T>
class list {
  static_assert(Storable<T>, PERDURA_STORABLE_SENTENCE);
  static_assert(detail::kMayHold<T>);
  using Look = perdura::detail::Look;
  using Step = perdura::detail::Step;

  using Node = detail::ListNode<T>;

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = detail::ReferenceTo<T>;
  using const_reference = detail::ConstReferenceTo<T>;

  template <bool kConst>
  class Iterator {
   public:
    // What they give may be no reference, as vector<bool>'s is none; std::prev asks for this.
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using reference = std::conditional_t<kConst, const_reference, list::reference>;
    using pointer = detail::ElementPointer<T, kConst>;

    Iterator() = default;
    template <bool kOther>
      requires(kConst && !kOther)
    Iterator(const Iterator<kOther>& other)  // NOLINT: as the standard's
        : list_(other.list_), node_(other.node_) {}

    reference operator*() const { return reference(node_->value); }
    pointer operator->() const { return pointer(node_->value); }
    Iterator& operator++() {
      node_ = Look(node_).load(node_->next);
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    Iterator& operator--() {
      if (node_ == nullptr) node_ = Look(list_).load(list_->head_.last);
      else node_ = Look(node_).load(node_->prev);
      return *this;
    }
    Iterator operator--(int) {
      Iterator before = *this;
      --*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.node_ == b.node_; }

   private:
    friend class list;
    friend class Iterator<true>;
    Iterator(const list* of, Node* node) : list_(of), node_(node) {}
    const list* list_ = nullptr;
    Node* node_ = nullptr;
  };
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  list() {
    const Step step(this);
    step.store(head_, Head{});
  }
  // Where these throw, the one that they delegate to is destroyed.
  list(size_type count, const T& value) : list() {
    for (size_type i = 0; i < count; ++i) push_back(value);
  }
  explicit list(size_type count) : list() { resize(count); }
  list(std::initializer_list<T> values) : list() { insert(end(), values.begin(), values.end()); }
  template <std::input_iterator First>
  list(First first, First last) : list() {
    insert(end(), first, last);
  }
  list(const list& other) : list() { copy(other); }
  /// Takes the nodes over where both lie in the same memory. Else it copies, and empties `other`.
  list(list&& other) : list() { take(other); }  // NOLINT: memory may be wanted
  ~list() noexcept(false) {
    const Step step(this);
    perdura::detail::destroy_by([&] { release(step); });
  }
  list& operator=(const list& other) {
    if (this != &other) replace([&] { copy(other); });
    return *this;
  }
  list& operator=(list&& other) {  // NOLINT: as above
    if (this != &other) take(other);
    return *this;
  }
  list& operator=(std::initializer_list<T> values) {
    replace([&] { insert(end(), values.begin(), values.end()); });
    return *this;
  }

  void assign(size_type count, const T& value) {
    replace([&, copy = T(value)] { insert(end(), count, copy); });  // it may lie here
  }
  template <std::input_iterator First>
  void assign(First first, First last) {
    replace([&] { insert(end(), first, last); });
  }
  void assign(std::initializer_list<T> values) { assign(values.begin(), values.end()); }

  size_type size() const { return Look(this).load(head_.size); }
  static size_type max_size() { return static_cast<size_type>(-1) / 2 / sizeof(Node); }
  bool empty() const { return size() == 0; }
  iterator begin() { return {this, first()}; }
  iterator end() { return {this, nullptr}; }
  const_iterator begin() const { return {this, first()}; }
  const_iterator end() const { return {this, nullptr}; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  reverse_iterator rbegin() { return reverse_iterator(end()); }
  reverse_iterator rend() { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
  const_reverse_iterator crbegin() const { return rbegin(); }
  const_reverse_iterator crend() const { return rend(); }
  reference front() { return *begin(); }
  const_reference front() const { return *begin(); }
  reference back() { return *--end(); }
  const_reference back() const { return *--end(); }

  void push_back(const T& value) { emplace(end(), value); }
  void push_back(T&& value) { emplace(end(), std::move(value)); }
  void push_front(const T& value) { emplace(begin(), value); }
  void push_front(T&& value) { emplace(begin(), std::move(value)); }
  template <class... Args>
  reference emplace_back(Args&&... args) {
    return *emplace(end(), std::forward<Args>(args)...);
  }
  template <class... Args>
  reference emplace_front(Args&&... args) {
    return *emplace(begin(), std::forward<Args>(args)...);
  }
  void pop_back() { erase(--end()); }
  void pop_front() { erase(begin()); }

  template <class... Args>
  iterator emplace(const_iterator before, Args&&... args) {
    const Step step(this);
    Node* const node = allocate_node(step);
    perdura::detail::undone_by(
        [&] { detail::construct_member(step, node->value, std::forward<Args>(args)...); },
        [&] { step.deallocate(node, kAlignment); });
    link(step, node, node, before.node_);
    step.store(head_.size, step.load(head_.size) + 1);
    return {this, node};
  }
  iterator insert(const_iterator before, const T& value) { return emplace(before, value); }
  iterator insert(const_iterator before, T&& value) { return emplace(before, std::move(value)); }
  // All of them, or where it throws none. The first one that is new, or `before`.
  iterator insert(const_iterator before, size_type count, const T& value) {
    return insert_all(before, [&](auto&& add) {
      for (size_type i = 0; i < count; ++i) add(value);
    });
  }
  template <std::input_iterator First>
  iterator insert(const_iterator before, First first, First last) {
    return insert_all(before, [&](auto&& add) {
      for (; first != last; ++first) add(*first);
    });
  }
  iterator insert(const_iterator before, std::initializer_list<T> values) {
    return insert(before, values.begin(), values.end());
  }
  /// The one behind it, or behind the last of them.
  iterator erase(const_iterator position) {
    const Step step(this);
    Node* const node = position.node_;
    Node* const next = step.load(node->next);
    unlink(step, node, node);
    step.store(head_.size, step.load(head_.size) - 1);
    detail::destroy_member(node->value);
    step.deallocate(node, kAlignment);
    return {this, next};
  }
  iterator erase(const_iterator first, const_iterator last) {
    const Step step(this);
    while (first != last) first = erase(first);
    return {this, last.node_};
  }
  void clear() {
    const Step step(this);
    release(step);
    step.store(head_, Head{});
  }

  void resize(size_type count) {
    resize_by(count, [&] { emplace_back(); });
  }
  void resize(size_type count, const T& value) {
    const T copy = value;  // NOLINT(performance-unnecessary-copy-initialization): it may go
    resize_by(count, [&] { emplace_back(copy); });
  }

  // Those of the other one come before `before`; between two memories as copies.
  void splice(const_iterator before, list& other) {
    splice(before, other, other.begin(), other.end());
  }
  void splice(const_iterator before, list& other, const_iterator one) {
    if (before == one) return;
    splice(before, other, one, std::next(one));
  }
  void splice(const_iterator before, list&& other) { splice(before, other); }
  void splice(const_iterator before, list&& other, const_iterator one) {
    splice(before, other, one);
  }
  void splice(const_iterator before, list&& other, const_iterator first, const_iterator last) {
    splice(before, other, first, last);
  }
  /// `before` is none of them.
  void splice(const_iterator before, list& other, const_iterator first, const_iterator last) {
    if (first == last || (this == &other && before == last)) return;
    const Step step(this);
    if (!step.shares_memory(&other)) {
      insert(before, first, last);
      other.erase(first, last);
      return;
    }
    std::uint64_t count = 0;
    Node* end = nullptr;
    for (const_iterator at = first; at != last; ++at, ++count) end = at.node_;
    other.unlink(step, first.node_, end);
    link(step, first.node_, end, before.node_);
    step.store(other.head_.size, step.load(other.head_.size) - count);
    step.store(head_.size, step.load(head_.size) + count);
  }

  // What a function says of each before anything changes. How many were erased.
  template <class Predicate>
  size_type remove_if(Predicate predicate) {
    const Step step(this);
    std::vector<Node*> out;
    for (Node* node = first(); node != nullptr; node = step.load(node->next))
      if (predicate(detail::load_value(step, std::as_const(node->value)))) out.push_back(node);
    return erase_all(out);
  }
  size_type remove(const T& value) {
    return remove_if([&](const T& each) { return each == value; });
  }
  template <class Equal = std::equal_to<>>
  size_type unique(Equal equal = {}) {
    const Step step(this);
    std::vector<Node*> out;
    Node* kept = first();
    for (Node* node = kept; node != nullptr; node = step.load(node->next)) {
      if (node == kept) continue;
      if (equal(detail::load_value(step, std::as_const(kept->value)),
                detail::load_value(step, std::as_const(node->value))))
        out.push_back(node);
      else kept = node;
    }
    return erase_all(out);
  }
  void reverse() {
    std::vector<Node*> nodes = all();
    std::reverse(nodes.begin(), nodes.end());
    relink(nodes);
  }
  /// Stable. Where comparing throws, it is as it was.
  template <class Less = std::less<>>
  void sort(Less less = {}) {
    const Step step(this);
    const std::vector<Node*> nodes = all();
    const auto is_less = by_value(step, less);
    std::vector<size_type> order(nodes.size());
    for (size_type i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_type a, size_type b) {
      if (is_less(nodes[a], nodes[b])) return true;
      return a < b && !is_less(nodes[b], nodes[a]);
    });
    std::vector<Node*> sorted;
    sorted.reserve(nodes.size());
    for (const size_type at : order) sorted.push_back(nodes[at]);
    relink(sorted);
  }
  /// Of two that are sorted; the other one is empty then. Where comparing throws, its elements are
  /// behind this one's.
  template <class Less = std::less<>>
  void merge(list& other, Less less = {}) {
    if (this == &other) return;
    const Step step(this);
    const auto mine = static_cast<std::ptrdiff_t>(size());
    splice(end(), other);
    const std::vector<Node*> nodes = all();
    std::vector<Node*> merged(nodes.size());
    std::merge(nodes.begin(), nodes.begin() + mine, nodes.begin() + mine, nodes.end(),
               merged.begin(), by_value(step, less));
    relink(merged);
  }
  template <class Less = std::less<>>
  void merge(list&& other, Less less = {}) {
    merge(other, less);
  }
  void swap(list& other) {  // NOLINT: memory may be wanted where they lie in different ones
    const Step step(this);
    if (step.shares_memory(&other)) return detail::exchange_heads(step, head_, other.head_);
    perdura::detail::exchange_by_copies(*this, other);
  }
  friend void swap(list& a, list& b) { a.swap(b); }  // NOLINT: as above

  friend bool operator==(const list& a, const list& b) {
    if (a.size() != b.size()) return false;
    for (auto of_a = a.begin(), of_b = b.begin(); of_a != a.end(); ++of_a, ++of_b)
      if (!(*of_a == *of_b)) return false;
    return true;
  }

  friend std::weak_ordering operator<=>(const list& a, const list& b) {
    return detail::compare_elements(a, b);
  }

 private:
  friend struct perdura::detail::OwnParts<list>;
  static constexpr size_type kAlignment = std::max<size_type>(16, alignof(Node));

  struct Head {
    Node* first = nullptr;
    Node* last = nullptr;
    std::uint64_t size = 0;
  };

  /// All of it is stored to before the step ends.
  static Node* allocate_node(const Step& step) {
    if constexpr (perdura::detail::RecordedElement<Node>)
      if (step.is_in_store())
        return static_cast<Node*>(step.allocate_block(perdura::detail::record_of<Node>(), false));
    return static_cast<Node*>(step.allocate(sizeof(Node), kAlignment));
  }
  Node* first() const { return Look(this).load(head_.first); }
  template <class Fill>
  iterator insert_all(const_iterator before, Fill&& fill) {
    const Step step(this);
    iterator begins(this, before.node_);
    size_type count = 0;
    perdura::detail::undone_by(
        [&] {
          fill([&](const auto& value) {
            const iterator made = emplace_copy(before, value);
            if (count++ == 0) begins = made;
          });
        },
        [&] {
          for (; count != 0; --count) begins = erase(begins);
        });
    return begins;
  }
  template <class Add>
  void resize_by(size_type count, Add&& add) {
    const Step step(this);
    while (size() > count) pop_back();
    const size_type before = size();
    perdura::detail::undone_by(
        [&] {
          while (size() < count) add();
        },
        [&] {
          while (size() > before) pop_back();
        });
  }
  template <class Value>
  iterator emplace_copy(const_iterator before, const Value& value) {
    if constexpr (requires { value.get(); }) return emplace(before, value.get());
    else return emplace(before, value);
  }
  /// A chain of nodes, before one or at the end.
  void link(const Step& step, Node* begin, Node* end, Node* before) {
    Node* const prev = before == nullptr ? step.load(head_.last) : step.load(before->prev);
    step.store(begin->prev, prev);
    step.store(end->next, before);
    step.store(prev == nullptr ? head_.first : prev->next, begin);
    step.store(before == nullptr ? head_.last : before->prev, end);
  }
  void unlink(const Step& step, Node* begin, Node* end) {
    Node* const prev = step.load(begin->prev);
    Node* const next = step.load(end->next);
    step.store(prev == nullptr ? head_.first : prev->next, next);
    step.store(next == nullptr ? head_.last : next->prev, prev);
  }
  size_type erase_all(const std::vector<Node*>& nodes) {
    for (Node* node : nodes) erase(const_iterator(this, node));
    return nodes.size();
  }
  std::vector<Node*> all() const {
    const Look look(this);
    std::vector<Node*> nodes;
    for (Node* node = first(); node != nullptr; node = look.load(node->next)) nodes.push_back(node);
    return nodes;
  }
  template <class Less>
  static auto by_value(const Step& step, Less& less) {
    return [&](const Node* a, const Node* b) {
      return bool(less(detail::load_value(step, a->value), detail::load_value(step, b->value)));
    };
  }
  /// In this order. Only links that are others are stored.
  void relink(const std::vector<Node*>& nodes) {
    if (nodes.empty()) return;
    const Step step(this);
    const auto set = [&](Node*& link, Node* to) {
      if (step.load(link) != to) step.store(link, to);
    };
    for (size_type i = 0; i < nodes.size(); ++i) {
      set(nodes[i]->prev, i == 0 ? nullptr : nodes[i - 1]);
      set(nodes[i]->next, i + 1 == nodes.size() ? nullptr : nodes[i + 1]);
    }
    set(head_.first, nodes.front());
    set(head_.last, nodes.back());
  }
  template <class Fill>
  void replace(Fill&& fill) {
    const Step step(this);
    detail::replace_contents(step, head_, [&] { release(step); }, fill);
  }
  void copy(const list& other) { insert(end(), other.begin(), other.end()); }
  void take(list& other) {
    const Step step(this);
    if (step.shares_memory(&other)) {
      clear();
      return detail::exchange_heads(step, head_, other.head_);
    }
    replace([&] { copy(other); });
    other.clear();
  }
  void release(const Step& step) {
    for (Node* node = step.load(head_.first); node != nullptr;) {
      Node* const next = step.load(node->next);
      detail::destroy_member(node->value);
      step.deallocate(node, kAlignment);
      node = next;
    }
  }

  Head head_;
};

/// How many were erased.
template <class T, class Predicate>
std::size_t erase_if(list<T>& from, Predicate predicate) {
  return from.remove_if(predicate);
}
template <class T, class Value>
std::size_t erase(list<T>& from, const Value& value) {
  return from.remove_if([&](const T& each) { return each == value; });
}

}  // namespace perdura::structures

/// A root knows them.
template <class T>
struct perdura::detail::ContentsOf<perdura::structures::list<T>> {
  using type = ContainedElsewhere<T>;
};
template <class T>
struct perdura::FormerOf<perdura::structures::list<T>> {
  using now = structures::list<typename FormerOf<T>::now>;
};
template <class T>
struct perdura::FormerOf<perdura::structures::detail::ListNode<T>> {
  using now = structures::detail::ListNode<typename FormerOf<T>::now>;
};
template <class T>
struct perdura::detail::OwnParts<perdura::structures::list<T>> {
  static constexpr bool kKnown = true;
  static constexpr bool kHasMembers = false;
  static std::vector<Part> parts() {
    using List = structures::list<T>;
    constexpr std::size_t kHead = offsetof(List, head_);
    return {part_of<void*>("first", kHead + offsetof(typename List::Head, first)),
            part_of<void*>("last", kHead + offsetof(typename List::Head, last))};
  }
};
template <class T>
struct perdura::detail::OwnParts<perdura::structures::detail::ListNode<T>> {
  using Node = structures::detail::ListNode<T>;
  static constexpr bool kKnown = find_pointers<T>();
  static constexpr bool kHasMembers = true;
  static std::vector<Part> parts() {
    return {part_of<Node*>("next", offsetof(Node, next)),
            part_of<Node*>("prev", offsetof(Node, prev)),
            part_of<T>("value", offsetof(Node, value))};
  }
};
template <class Old, class New>
  requires(!std::is_same_v<Old, New>)
struct perdura::detail::ElementConversions<perdura::structures::list<Old>,
                                           perdura::structures::list<New>> {
  using OldElement = Old;
  using NewElement = New;
  using OldNode = structures::detail::ListNode<Old>;
  using NewNode = structures::detail::ListNode<New>;

  template <class Function, class Add>
  static void for_each_block(Function& function, Add&& add) {
    if constexpr (HasOwnParts<New>) add(conversion_of<Old, New>(function));
    else
      add(Conversion{&record_of<OldNode>(), &record_of<NewNode>(), &describe<OldNode>(),
                     &describe<NewNode>(), 0, &convert<Function>, &function, nullptr});
  }
  /// Links lead to nodes as they were, until the heap has mended them.
  template <class Function>
  static void convert(void* function, const void* was, void* place) {
    const auto& from = *static_cast<const OldNode*>(was);
    auto& to = *static_cast<NewNode*>(place);
    to.next = reinterpret_cast<NewNode*>(from.next);
    to.prev = reinterpret_cast<NewNode*>(from.prev);
    convert_object<Old, New, Function>(function, &from.value, &to.value);
  }
};
template <class T>
inline constexpr bool perdura::kReportsItself<perdura::structures::list<T>> = true;
