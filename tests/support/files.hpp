// Files and folders of a test.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace perdura::test {

using FileBytes = std::vector<std::byte>;

/// A folder of its own, removed with everything in it. On a real disk; or in memory, for what does
/// not depend on the disk and would only wait for it.
class TempDir {
 public:
  enum Where { kDisk, kMemory };
  explicit TempDir(Where where = kDisk) {
    const char* base = std::getenv("TMPDIR");
    std::string pattern = base != nullptr ? base : "/var/tmp";
    if (where == kMemory && ::access("/dev/shm", W_OK) == 0) pattern = "/dev/shm";
    pattern += "/perdura-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline FileBytes read_file(const std::string& path) {
  FileBytes bytes(std::filesystem::file_size(path));
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(in.good()) << path;
  return bytes;
}

inline void write_file(const std::string& path, const FileBytes& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  EXPECT_TRUE(out.good()) << path;
}

/// Another value of one bit of the byte at `offset`.
inline void flip_bit(const std::string& path, std::uint64_t offset, unsigned bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ (1 << bit)));
  ASSERT_TRUE(file.good()) << path;
}

}  // namespace perdura::test
