#include "text.hpp"

#include <algorithm>

namespace demo {

std::string_view leading_piece(std::string_view text, std::size_t bytes) {
  std::size_t end = std::min(bytes, text.size());
  while (end < text.size() && detail::is_word_byte(static_cast<unsigned char>(text[end]))) ++end;
  return text.substr(0, end);
}

std::string_view find_field(std::string_view paragraph, std::string_view name) {
  while (!paragraph.empty()) {
    // A field ends at a newline that no blank follows.
    std::size_t end = paragraph.find('\n');
    while (end != std::string_view::npos && end + 1 < paragraph.size() && paragraph[end + 1] == ' ')
      end = paragraph.find('\n', end + 1);
    const std::string_view field = paragraph.substr(0, end);
    if (field.size() > name.size() && field.starts_with(name) && field[name.size()] == ':') {
      std::string_view value = field.substr(name.size() + 1);
      if (value.starts_with(' ')) value.remove_prefix(1);
      return value;
    }
    paragraph.remove_prefix(end == std::string_view::npos ? paragraph.size() : end + 1);
  }
  return {};
}

std::string_view take_until(std::string_view& text, char separator) {
  constexpr std::string_view kBlanks = " \t\n";
  const std::size_t at = text.find(separator);
  std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  const std::size_t begin = part.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return part.substr(begin, part.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace demo
