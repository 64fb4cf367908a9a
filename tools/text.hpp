// Values as a person reads them.
#pragma once

#include <string>
#include <string_view>

#include "format/format.hpp"
#include "store/identity.hpp"

namespace perdura::tools {

/// "512 B", "1.5 MiB".
std::string bytes_text(u64 bytes);
/// "64 ms", "5 s".
std::string interval_text(u64 ms);
/// "1 version", "2 versions".
std::string count_text(u64 count, std::string_view noun);
using store::uuid_text;

/// A text of a durable structure, which may lack the final zero.
template <size_t kSize>
std::string fixed_text(const char (&text)[kSize]) {
  const std::string_view all(text, kSize);
  return std::string(all.substr(0, all.find('\0')));
}
/// Print a line of a description.
void line(const char* label, const std::string& text);
/// Without control characters, which could play tricks on a terminal.
std::string printable(std::string_view text);

}  // namespace perdura::tools
