#include "text.hpp"

#include <fmt/format.h>

namespace perdura::tools {

std::string bytes_text(u64 bytes) {
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / kKiB;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  const std::string number = fmt::format("{:.1f}", value);
  return fmt::format("{} {}", number.ends_with(".0") ? number.substr(0, number.size() - 2) : number,
                     kUnits[unit]);
}

std::string interval_text(u64 ms) {
  return ms < 1000 ? fmt::format("{} ms", ms) : fmt::format("{} s", ms / 1000);
}

std::string count_text(u64 count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void line(const char* label, const std::string& text) { fmt::print("{:<12} {}\n", label, text); }

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) result += fmt::format("\\x{:02x}", byte);
    else result += c;
  }
  return result;
}

}  // namespace perdura::tools
