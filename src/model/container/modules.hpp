// Programs and shared libraries that are loaded: what a pointer out of a container leads to, and
// where that is in another process (SoftPM §3.2).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "format/container_format.hpp"

namespace perdura::detail {

struct Module {
  u64 begin = 0;
  u64 end = 0;
  std::string name;  ///< of its file, without the folder
  std::string path;  ///< "": the program
  std::array<u8, format::kBuildIdBytesMax> build_id{};
  u32 build_id_bytes = 0;

  bool is_build(const u8* id, u32 bytes) const {
    return bytes == build_id_bytes && std::equal(id, id + bytes, build_id.begin());
  }
  /// Where a symbol is now.
  std::optional<u64> address_of(const std::string& symbol) const;
};

/// A symbol that an address lies in, or the address itself.
struct Symbol {
  u64 begin = 0;
  u64 bytes = 0;
  std::string name;  ///< "": the module exports none there
};
Symbol symbol_at(u64 address);

class Modules {
 public:
  /// Look again if any was loaded or unloaded.
  void refresh();
  const Module* find(u64 address) const;
  const Module* find_build(const u8* id, u32 bytes) const;
  const Module* find_name(const std::string& name) const;

 private:
  std::vector<Module> modules_;  ///< with a build id, by address
  u64 loads_ = 0;
  u64 unloads_ = 0;
};

}  // namespace perdura::detail
