// Characters that report what is stored to them: a durable string, also in stores whose tracker
// needs reports, and in transactions.
//
//   size, capacity          four bytes each; capacity 0: the characters are in the string itself
//   16 characters, or the address of a block
//
// In a transaction the characters of what was there before it are not changed in place: a block is
// replaced by another one. view() is not for transactions, where others may change the characters
// while they are looked at; str() is, and so are comparisons.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include <perdura/detail/step.hpp>
#include <perdura/structures/hash.hpp>
#include <perdura/structures/reference.hpp>

namespace perdura::structures {

class string;

/// What strings are made of and compared with.
template <class T>
concept TextLike = std::is_convertible_v<const T&, std::string_view> && !std::is_same_v<T, string>;

class string {
 public:
  using value_type = char;
  using size_type = std::size_t;
  using const_reference = const char&;
  using const_iterator = const char*;
  using iterator = const_iterator;  ///< characters are changed by the string's own calls
  static constexpr std::size_t npos = std::string_view::npos;

  string() : string(std::string_view()) {}
  template <TextLike T>
  string(const T& text) {  // NOLINT: a string is made of characters
    construct(text);
  }
  string(const string& other) { construct(*Text(other)); }
  /// Takes the block over where both lie in the same memory; what is left of `other` is empty.
  string(string&& other) {  // NOLINT: memory may be wanted where they do not
    construct({});
    take(other);
  }
  ~string() noexcept(false) {
    const perdura::detail::Step step(this);
    perdura::detail::destroy_by([&] {
      if (shape_of(step).capacity != 0) step.deallocate(block_of(step), kAlignment);
    });
  }

  template <TextLike T>
  string& operator=(const T& text) {
    return assign(text);
  }
  string& operator=(const string& other) { return this == &other ? *this : assign(*Text(other)); }
  string& operator=(string&& other) {  // NOLINT: as above
    if (this != &other) take(other);
    return *this;
  }

  string& assign(std::string_view text) {
    replace_all(text, {});
    return *this;
  }
  string& append(std::string_view text) {
    const perdura::detail::Step step(this);
    const Shape shape = shape_of(step);
    if (step.in_transaction()) {
      replace_all(str(), text);
    } else if (shape.size + text.size() > room(shape)) {
      replace_all(view(), text);
    } else {
      char* const end = chars(shape) + shape.size;
      if (!text.empty()) {
        step.touch(end, text.size());
        std::memmove(end, text.data(), text.size());
      }
      set_size(step, shape, shape.size + text.size());
    }
    return *this;
  }
  string& append(std::size_t count, char each) { return append(std::string(count, each)); }
  string& operator+=(std::string_view text) { return append(text); }
  string& operator+=(char each) { return append(std::string_view(&each, 1)); }
  void push_back(char each) { append(std::string_view(&each, 1)); }
  void pop_back() { resize(size() - 1); }
  void clear() { resize(0); }
  void resize(std::size_t size, char each = '\0') {
    const perdura::detail::Step step(this);
    const Shape shape = shape_of(step);
    if (size > shape.size) append(size - shape.size, each);
    else set_size(step, shape, size);
  }
  /// Space for so many characters; it is kept until the string is destroyed or assigned more.
  void reserve(std::size_t capacity) {
    const perdura::detail::Step step(this);
    if (capacity <= room(shape_of(step))) return;
    const std::string text = str();
    replace_all(text, {}, capacity);
  }

  std::size_t size() const { return shape_of(perdura::detail::Look(this)).size; }
  std::size_t length() const { return size(); }
  bool empty() const { return size() == 0; }
  std::size_t capacity() const { return room(shape_of(perdura::detail::Look(this))); }

  /// A copy, whether in a transaction or not.
  std::string str() const { return std::string(*Text(*this)); }
  /// Until the string changes. Not in a transaction: kMisuse.
  std::string_view view() const {
    const perdura::detail::Look look(this);
    if (look.in_transaction()) perdura::detail::throw_in_transaction("view");
    const Shape shape = shape_of(look);
    return {chars(shape), shape.size};
  }
  operator std::string_view() const { return view(); }  // NOLINT: as std::string's
  const char* data() const { return view().data(); }
  const_iterator begin() const { return view().data(); }
  const_iterator end() const { return view().data() + view().size(); }
  char operator[](std::size_t at) const { return view()[at]; }
  char at(std::size_t at) const { return view().at(at); }
  char front() const { return view().front(); }
  char back() const { return view().back(); }
  /// Another character in the place of one.
  void set(std::size_t at, char each) {
    const perdura::detail::Step step(this);
    const Shape shape = shape_of(step);
    if (at >= shape.size) throw std::out_of_range("perdura::structures::string::set");
    if (step.in_transaction()) {
      std::string text = str();
      text[at] = each;
      replace_all(text, {});
    } else {
      step.store(chars(shape)[at], each);
    }
  }
  std::string_view substr(std::size_t from, std::size_t count = npos) const {
    return view().substr(from, count);
  }
  std::size_t find(std::string_view text, std::size_t from = 0) const {
    return view().find(text, from);
  }
  bool starts_with(std::string_view text) const { return view().starts_with(text); }
  bool ends_with(std::string_view text) const { return view().ends_with(text); }

  friend bool operator==(const string& a, const string& b) { return *Text(a) == *Text(b); }
  friend auto operator<=>(const string& a, const string& b) { return *Text(a) <=> *Text(b); }
  template <TextLike T>
  friend bool operator==(const string& a, const T& b) {
    return *Text(a) == std::string_view(b);
  }
  template <TextLike T>
  friend auto operator<=>(const string& a, const T& b) {
    return *Text(a) <=> std::string_view(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const string& text) {
    return out << *Text(text);
  }
  void swap(string& other) {  // NOLINT: memory may be wanted where they lie in different ones
    const perdura::detail::Step step(this);
    if (step.shares_memory(&other)) {
      const std::uint64_t words[] = {step.load(words_[0]), step.load(words_[1])};
      const Shape shape = shape_of(step);
      for (std::size_t i = 0; i < 2; ++i) {
        step.store(words_[i], step.load(other.words_[i]));
        step.store(other.words_[i], words[i]);
      }
      step.store(shape_, step.load(other.shape_));
      step.store(other.shape_, shape);
      return;
    }
    perdura::detail::exchange_by_copies(*this, other);
  }
  friend void swap(string& a, string& b) { a.swap(b); }  // NOLINT: as above

 private:
  friend struct perdura::detail::OwnParts<string>;
  static constexpr std::size_t kInline = 16;
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kSizeMax = 0xfffffff0;

  struct Shape {
    std::uint32_t size;
    std::uint32_t capacity;
  };

  /// The characters: in a transaction a copy.
  class Text {
   public:
    explicit Text(const string& text) {
      const perdura::detail::Look look(&text);
      const Shape shape = text.shape_of(look);
      if (!look.in_transaction()) {
        view_ = {text.chars(shape), shape.size};
        return;
      }
      copy_.resize(shape.size);
      look.load_bytes(shape.capacity != 0 ? text.block_of(look) : text.own_chars(), copy_.data(),
                      shape.size);
      view_ = copy_;
    }
    Text(const Text&) = delete;
    std::string_view operator*() const { return view_; }

   private:
    std::string copy_;
    std::string_view view_;
  };

  Shape shape_of(const perdura::detail::Look& look) const { return look.load(shape_); }
  char* block_of(const perdura::detail::Look& look) const {
    return reinterpret_cast<char*>(look.load(words_[0]));
  }
  static std::size_t room(const Shape& shape) {
    return shape.capacity != 0 ? shape.capacity : kInline;
  }
  /// Outside of transactions.
  char* chars(const Shape& shape) const {
    return shape.capacity != 0 ? reinterpret_cast<char*>(words_[0]) : own_chars();
  }
  char* own_chars() const { return reinterpret_cast<char*>(const_cast<std::uint64_t*>(words_)); }
  void set_size(const perdura::detail::Step& step, Shape shape, std::size_t size) {
    if (size == shape.size) return;
    shape.size = static_cast<std::uint32_t>(size);
    step.store(shape_, shape);
  }

  /// In memory that holds no string yet.
  void construct(std::string_view text) {
    const perdura::detail::Step step(this);
    fill(step, text, {}, 0);
  }

  void replace_all(std::string_view head, std::string_view tail, std::size_t capacity = 0) {
    const perdura::detail::Step step(this);
    const Shape shape = shape_of(step);
    const std::size_t size = head.size() + tail.size();
    if (!step.in_transaction() && shape.capacity != 0 && size <= shape.capacity &&
        capacity <= shape.capacity) {
      char* const block = chars(shape);
      step.touch(block, size);
      if (!head.empty()) std::memmove(block, head.data(), head.size());
      if (!tail.empty()) std::memmove(block + head.size(), tail.data(), tail.size());
      return set_size(step, shape, size);
    }
    char* const old = shape.capacity != 0 ? block_of(step) : nullptr;
    fill(step, head, tail, capacity);
    if (old != nullptr) step.deallocate(old, kAlignment);
  }

  /// As a new one, whatever was there. `head` and `tail` may be parts of what was.
  void fill(const perdura::detail::Step& step, std::string_view head, std::string_view tail,
            std::size_t capacity) {
    const std::size_t size = head.size() + tail.size();
    if (size > kSizeMax || capacity > kSizeMax)
      throw std::length_error("perdura::structures::string of more than 4 GiB");
    Shape shape{static_cast<std::uint32_t>(size), 0};
    std::uint64_t words[2] = {};
    char* to = reinterpret_cast<char*>(words);
    if (size > kInline || capacity > kInline) {
      // What grows is going to grow; what is assigned is as large as it is.
      const std::size_t wanted = std::max(capacity, tail.empty() ? size : size + head.size());
      const std::size_t bytes =
          std::min((wanted + kAlignment - 1) / kAlignment * kAlignment, kSizeMax);
      shape.capacity = static_cast<std::uint32_t>(bytes);
      to = step.allocate_elements<char>(bytes, kAlignment);
      words[0] = reinterpret_cast<std::uintptr_t>(to);
    }
    step.initialize_bytes(to, head.data(), head.size());
    step.initialize_bytes(to + head.size(), tail.data(), tail.size());
    step.store(words_[0], words[0]);
    step.store(words_[1], words[1]);
    step.store(shape_, shape);
  }

  void take(string& other) {
    const perdura::detail::Step step(this);
    if (!step.shares_memory(&other)) {
      assign(*Text(other));
      return other.clear();
    }
    const Shape mine = shape_of(step);
    char* const old = mine.capacity != 0 ? block_of(step) : nullptr;
    step.store(words_[0], step.load(other.words_[0]));
    step.store(words_[1], step.load(other.words_[1]));
    step.store(shape_, step.load(other.shape_));
    step.store(other.shape_, Shape{0, 0});
    if (old != nullptr) step.deallocate(old, kAlignment);
  }

  Shape shape_;
  std::uint64_t words_[2];
};
static_assert(sizeof(string) == 24);

}  // namespace perdura::structures

/// Where its characters are: while it has a capacity, they lie elsewhere.
template <>
struct perdura::detail::OwnParts<perdura::structures::string> {
  static constexpr bool kKnown = true;
  static constexpr bool kHasMembers = false;
  static std::vector<Part> parts() {
    using structures::string;
    Part characters{};
    characters.slot = {"characters",
                       PERDURA_SLOT_POINTER,
                       offsetof(string, words_),
                       sizeof(char*),
                       nullptr,
                       offsetof(string, shape_) + offsetof(string::Shape, capacity),
                       sizeof(std::uint32_t) | PERDURA_TAG_DIFFERS,
                       0};
    return {characters};
  }
};
template <>
inline constexpr bool perdura::kReportsItself<perdura::structures::string> = true;
