// Taking text apart: words, the fields of a Debian package paragraph, and its dependency lists.
#pragma once

#include <cstddef>
#include <string_view>

namespace demo {

constexpr std::size_t kWordBytesMin = 2;
constexpr std::size_t kWordBytesMax = 32;

namespace detail {

/// Letters, digits, and every byte of a multi-byte UTF-8 character.
constexpr bool is_word_byte(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
}
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace detail

/// Calls `take` with each word of `text`, in lower case. Words start with a letter; overlong ones
/// (checksums, encoded images) are left out.
template <class Take>
void for_each_word(std::string_view text, Take&& take) {
  char word[kWordBytesMax];
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    for (; at < text.size() && detail::is_word_byte(static_cast<unsigned char>(text[at])); ++at) {
      if (length < kWordBytesMax) word[length] = detail::lower(text[at]);
      ++length;
    }
    ++at;
    const bool is_number = length > 0 && word[0] >= '0' && word[0] <= '9';
    if (length >= kWordBytesMin && length <= kWordBytesMax && !is_number)
      take(std::string_view(word, length));
  }
}

/// The first piece of `text`, about `bytes` long, that does not cut a word in two.
std::string_view leading_piece(std::string_view text, std::size_t bytes);

/// The value of a field of a paragraph, continuation lines included; empty when there is none.
std::string_view find_field(std::string_view paragraph, std::string_view name);

/// The part of `text` before `separator`, blanks trimmed; `text` keeps what follows it.
std::string_view take_until(std::string_view& text, char separator);

/// Calls `take(name, versions)` with every package that a dependency field names, alternatives
/// included: "libc6 (>= 2.36), default-mta | mail-transport-agent".
template <class Take>
void for_each_relation(std::string_view field, Take&& take) {
  while (!field.empty()) {
    std::string_view alternatives = take_until(field, ',');
    while (!alternatives.empty()) {
      std::string_view versions = take_until(alternatives, '|');
      std::string_view name = take_until(versions, '(');
      name = name.substr(0, name.find(':'));  // an architecture, as in "python3:any"
      if (!name.empty()) take(name, versions.substr(0, versions.find(')')));
    }
  }
}

}  // namespace demo
