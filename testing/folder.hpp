// A folder for stores that come and go, in memory where the system has such.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace perdura::testing {

/// Gone with the object. Throws Error where a file cannot be written.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_file(const std::string& path, const std::vector<std::byte>& content);

}  // namespace perdura::testing
