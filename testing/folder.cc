#include "folder.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <perdura/perdura.hpp>

namespace perdura::testing {

Folder::Folder() {
  path_ = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                          : std::filesystem::temp_directory_path().string();
  path_ += "/perdura-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr)
    throw Error(Code::kIo, "cannot make a folder '" + path_ + "'");
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::vector<std::byte>& content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) throw Error(Code::kIo, "cannot write '" + path + "'");
}

}  // namespace perdura::testing
