#include "model/object/program_build.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "object/object_build.hpp"

namespace perdura::detail {
namespace {

std::string id_of(const Module& module) {
  return {reinterpret_cast<const char*>(module.build_id.data()), module.build_id_bytes};
}

// The beginning of an id is enough for people to find it.
std::string text_of(const Module& module) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr size_t kShownBytes = 8;
  std::string text;
  for (const char each : id_of(module).substr(0, kShownBytes)) {
    const auto byte = static_cast<u8>(each);
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text + " of " + std::string(module.name());
}

}  // namespace

// In an order that does not depend on where they were loaded.
format::ObjectBuild ProgramBuild::of(const ObjectType& type) {
  std::lock_guard lock(mutex_);
  (void)modules_.refresh();
  std::vector<const Module*> modules;
  for (const ObjectMethod& method : type.methods)
    for (const void* const code : {reinterpret_cast<const void*>(method.run), method.code}) {
      if (code == nullptr) continue;
      const Module* const module = modules_.find(reinterpret_cast<std::uintptr_t>(code));
      if (module == nullptr) return {};
      if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
    }
  std::ranges::sort(modules, {}, [](const Module* module) { return id_of(*module); });
  std::string ids;
  std::string text;
  for (const Module* const module : modules) {
    ids += static_cast<char>(module->build_id_bytes) + id_of(*module);
    text += (text.empty() ? "" : ", ") + text_of(*module);
  }
  if (modules.empty()) return object::build_named(1, "of no methods");
  return object::build_named(std::max<u64>(checksum(ids.data(), ids.size()), 2), text);
}

}  // namespace perdura::detail
