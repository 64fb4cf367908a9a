#include "model/container/modules.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace perdura::detail {
namespace {

void read_build_id(const char* note, u64 bytes, u64 alignment, Module& module) {
  if (alignment < 4) alignment = 4;
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    const u64 name_bytes = round_up(header.n_namesz, alignment);
    const u64 whole = sizeof header + name_bytes + round_up(header.n_descsz, alignment);
    if (whole > bytes) return;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
        std::memcmp(note + sizeof header, "GNU", 4) == 0) {
      module.build_id_bytes = std::min<u32>(header.n_descsz, format::kBuildIdBytesMax);
      std::memcpy(module.build_id.data(), note + sizeof header + name_bytes, module.build_id_bytes);
      return;
    }
    note += whole;
    bytes -= whole;
  }
}

Module module_of(const dl_phdr_info& info) {
  Module module;
  module.path = info.dlpi_name != nullptr ? info.dlpi_name : "";
  std::error_code ignored;
  module.file = module.path.empty() ? std::filesystem::read_symlink("/proc/self/exe", ignored)
                                    : std::filesystem::path(module.path);
  u64 begin = ~u64{0};
  u64 end = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info.dlpi_phdr[i];
    const u64 at = info.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) {
      begin = std::min(begin, at);
      end = std::max(end, at + part.p_memsz);
    } else if (part.p_type == PT_NOTE && module.build_id_bytes == 0) {
      read_build_id(reinterpret_cast<const char*>(at), part.p_memsz, part.p_align, module);
    }
  }
  module.begin = std::min(begin, end);
  module.end = end;
  return module;
}

}  // namespace

std::optional<u64> Module::address_of(const std::string& symbol) const {
  void* const handle = ::dlopen(path.empty() ? nullptr : path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return std::nullopt;
  const auto address = reinterpret_cast<std::uintptr_t>(::dlsym(handle, symbol.c_str()));
  ::dlclose(handle);
  // A library's dependencies and those of the program are searched as well.
  if (address < begin || address >= end) return std::nullopt;
  return address;
}

Symbol symbol_at(u64 address) {
  Dl_info info{};
  ElfW(Sym)* symbol = nullptr;
  void* extra = nullptr;
  if (::dladdr1(reinterpret_cast<const void*>(address), &info, &extra, RTLD_DL_SYMENT) != 0)
    symbol = static_cast<ElfW(Sym)*>(extra);
  if (symbol == nullptr || info.dli_sname == nullptr) return {address, 1, ""};
  const auto begin = reinterpret_cast<std::uintptr_t>(info.dli_saddr);
  const u64 bytes = std::max<u64>(symbol->st_size, 1);
  if (address - begin >= bytes) return {address, 1, ""};
  return {begin, bytes, info.dli_sname};
}

std::vector<Module> loaded_modules() {
  std::vector<Module> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        static_cast<std::vector<Module>*>(data)->push_back(module_of(*info));
        return 0;
      },
      &found);
  std::ranges::sort(found, {}, &Module::begin);
  return found;
}

bool Modules::refresh() {
  struct Walk {
    const Modules& modules;
    bool first = true;
    bool same = false;
    u64 loads = 0;
    u64 unloads = 0;
    std::vector<Module> found{};
  } walk{*this};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& walk = *static_cast<Walk*>(data);
        const Modules& all = walk.modules;
        if (std::exchange(walk.first, false)) {
          walk.same = !all.modules_.empty() && all.loads_ == info->dlpi_adds &&
                      all.unloads_ == info->dlpi_subs;
          walk.loads = info->dlpi_adds;
          walk.unloads = info->dlpi_subs;
        }
        if (walk.same) return 1;
        if (Module module = module_of(*info); module.build_id_bytes != 0)
          walk.found.push_back(std::move(module));
        return 0;
      },
      &walk);
  if (walk.same) return false;
  std::sort(walk.found.begin(), walk.found.end(),
            [](const Module& a, const Module& b) { return a.begin < b.begin; });
  // All or nothing: when memory is short the next call looks again.
  modules_ = std::move(walk.found);
  loads_ = walk.loads;
  unloads_ = walk.unloads;
  return true;
}

const Module* Modules::find(u64 address) const {
  const auto after =
      std::upper_bound(modules_.begin(), modules_.end(), address,
                       [](u64 at, const Module& module) { return at < module.begin; });
  if (after == modules_.begin() || address >= (after - 1)->end) return nullptr;
  return &*(after - 1);
}

template <class Fits>
const Module* Modules::find_best(std::string_view file, Fits&& fits) const {
  const Module* best = nullptr;
  const auto rank = [&](const Module& module) {
    return module.file == file ? 2 : static_cast<int>(module.name() == heap::name_of_file(file));
  };
  for (const Module& module : modules_)
    if (fits(module) && (best == nullptr || rank(module) > rank(*best))) best = &module;
  return best;
}

const Module* Modules::find_build(const u8* id, u32 bytes, std::string_view file) const {
  return find_best(file, [&](const Module& module) { return module.is_build(id, bytes); });
}

const Module* Modules::find_file(std::string_view file) const {
  return find_best(file,
                   [&](const Module& module) { return module.name() == heap::name_of_file(file); });
}

}  // namespace perdura::detail
