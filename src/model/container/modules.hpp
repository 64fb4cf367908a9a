// Programs and shared libraries that are loaded: what a pointer out of a container leads to, and
// where that is in another process (SoftPM §3.2).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "format/container_format.hpp"
#include "heap/container_view.hpp"

namespace perdura::detail {

struct Module {
  u64 begin = 0;
  u64 end = 0;
  std::string file;  ///< with the folder
  std::string path;  ///< the same as the dynamic linker has it; "": the program
  std::array<u8, format::kBuildIdBytesMax> build_id{};
  u32 build_id_bytes = 0;

  bool is_build(const u8* id, u32 bytes) const {
    return bytes == build_id_bytes && std::equal(id, id + bytes, build_id.begin());
  }
  std::string_view name() const { return heap::name_of_file(file); }
  /// Where a symbol is now.
  std::optional<u64> address_of(const std::string& symbol) const;
};

/// All that are loaded now, also those without a build id, by address.
std::vector<Module> loaded_modules();

/// A symbol that an address lies in, or the address itself.
struct Symbol {
  u64 begin = 0;
  u64 bytes = 0;
  std::string name;  ///< "": the module exports none there
};
Symbol symbol_at(u64 address);

class Modules {
 public:
  /// Look again if any was loaded or unloaded. False: none was.
  bool refresh();
  const std::vector<Module>& all() const { return modules_; }
  const Module* find(u64 address) const;
  /// Of several that fit, as two copies of a library, the one from that file, else one from a file
  /// of that name.
  const Module* find_build(const u8* id, u32 bytes, std::string_view file) const;
  const Module* find_file(std::string_view file) const;

 private:
  template <class Fits>
  const Module* find_best(std::string_view file, Fits&& fits) const;

  std::vector<Module> modules_;  ///< with a build id, by address
  u64 loads_ = 0;
  u64 unloads_ = 0;
};

}  // namespace perdura::detail
