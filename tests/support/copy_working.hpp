// What a crash would leave of a store now.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace perdura::test {

/// Of a store that is at work. Where its file grew meanwhile the copy may know of that, and lack
/// it.
inline void copy_working(const std::string& from, const std::string& to) {
  std::uintmax_t size = 0;
  do {
    size = std::filesystem::file_size(from);
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  } while (std::filesystem::file_size(from) != size);
}

}  // namespace perdura::test
