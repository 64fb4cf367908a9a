#include "track/compiled_parts.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <perdura/compiled.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/bits.hpp"
#include "base/unique_fd.hpp"

namespace perdura::track {
namespace {

constexpr std::string_view kOwnSources[] = {
#include "track/own_sources.hpp"
};

std::string_view without_folders(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

/// What a part that reports has said of itself, or somebody of one that need not. Never freed, and
/// pushed without a lock: parts say it before the program begins, and while libraries are loaded.
struct Mark {
  const char* at;  ///< in the part, by which the library that it belongs to is found
  std::string source;
  Mark* next;
};
constinit std::atomic<Mark*> marks{nullptr};
constinit std::atomic<u64> windows{0};

void add_mark(const char* source) {
  auto* const mark = new Mark{source, std::string(without_folders(source)), marks.load()};
  while (!marks.compare_exchange_weak(mark->next, mark)) {
  }
}

constexpr const char* kProgram = "/proc/self/exe";

/// A program or library in memory.
struct Loaded {
  std::string path;
  u64 begin = ~u64{0};
  u64 end = 0;

  bool holds(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - begin < end - begin;
  }
};

std::vector<Loaded> all_loaded() {
  std::vector<Loaded> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& all = *static_cast<std::vector<Loaded>*>(data);
        Loaded loaded;
        // The first one is the program, whose name the linker leaves empty.
        loaded.path = all.empty() ? kProgram : info->dlpi_name;
        for (const ElfW(Phdr) & each : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
          if (each.p_type != PT_LOAD) continue;
          loaded.begin = std::min<u64>(loaded.begin, info->dlpi_addr + each.p_vaddr);
          loaded.end = std::max<u64>(loaded.end, info->dlpi_addr + each.p_vaddr + each.p_memsz);
        }
        all.push_back(std::move(loaded));
        return 0;
      },
      &found);
  return found;
}

/// Of an ELF file of this machine's kind. It may be damaged or change: nothing in it is trusted.
class SymbolFile {
 public:
  explicit SymbolFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

  /// The sources it was made of, one for each object file. None: it does not say.
  std::optional<std::vector<std::string>> sources() const {
    const std::vector<Elf64_Ehdr> header = read<Elf64_Ehdr>(0, 1);
    if (header.empty() ||
        std::string_view(reinterpret_cast<const char*>(header[0].e_ident), SELFMAG) != ELFMAG ||
        header[0].e_ident[EI_CLASS] != ELFCLASS64 || header[0].e_shentsize != sizeof(Elf64_Shdr))
      return std::nullopt;
    const std::vector<Elf64_Shdr> sections = read<Elf64_Shdr>(header[0].e_shoff, header[0].e_shnum);
    const auto table = std::ranges::find(sections, SHT_SYMTAB, &Elf64_Shdr::sh_type);
    if (table == sections.end() || table->sh_link >= sections.size()) return std::nullopt;
    // `sh_info`: what stands before it is local, and so are names of files.
    const std::vector<Elf64_Sym> symbols = read<Elf64_Sym>(
        table->sh_offset, std::min<u64>(table->sh_info, table->sh_size / sizeof(Elf64_Sym)));
    const Elf64_Shdr& strings = sections[table->sh_link];
    const std::vector<char> names = read<char>(strings.sh_offset, strings.sh_size);
    if (symbols.empty() || names.empty() || names.back() != '\0') return std::nullopt;
    std::vector<std::string> found;
    for (const Elf64_Sym& each : symbols)
      if (ELF64_ST_TYPE(each.st_info) == STT_FILE && each.st_name < names.size())
        found.emplace_back(without_folders(&names[each.st_name]));
    return found;
  }

 private:
  template <class T>
  std::vector<T> read(u64 offset, u64 count) const {
    constexpr u64 kBytesMax = u64{1} << 32;
    if (!fd_ || count > kBytesMax / sizeof(T)) return {};
    std::vector<T> items(count);
    const u64 bytes = count * sizeof(T);
    for (u64 got = 0; got < bytes;) {
      const ssize_t now = ::pread(fd_.get(), reinterpret_cast<std::byte*>(items.data()) + got,
                                  bytes - got, static_cast<off_t>(offset + got));
      if (now <= 0) return {};
      got += static_cast<u64>(now);
    }
    return items;
  }

  UniqueFd fd_;
};

/// The C compiler's own: what starts programs, and what the linker makes, have names of object
/// files.
bool is_of_the_toolchain(const std::string& source) {
  return source.empty() || source == "crtstuff.c" || source.ends_with(".o") ||
         source.ends_with(".oS");
}

/// What comes with the system, as libc does, whose stores the pass knows of.
bool is_of_the_system(const std::string& path) {
  constexpr std::array kFolders = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"};
  return path.find('/') == std::string::npos ||  // the kernel's own
         without_folders(path).starts_with("libperdura") ||
         std::ranges::any_of(kFolders, [&](const char* each) { return path.starts_with(each); });
}

/// How many of each name. What says so twice, as a library that is loaded again, counts once.
std::map<std::string, int> parts_that_report(const Loaded& loaded) {
  std::map<std::string, int> found;
  std::set<const char*> seen;
  for (const Mark* mark = marks.load(std::memory_order_acquire); mark != nullptr; mark = mark->next)
    if (loaded.holds(mark->at) && seen.insert(mark->at).second) ++found[mark->source];
  return found;
}

}  // namespace

u64 compiled_windows() { return windows.load(std::memory_order_relaxed); }

OtherParts parts_without_reports() {
  OtherParts others;
  for (const Loaded& loaded : all_loaded()) {
    const std::map<std::string, int> reporting = parts_that_report(loaded);
    const bool is_program = loaded.path == kProgram;
    if (reporting.empty() && !is_program) {
      if (!is_of_the_system(loaded.path)) others.names.push_back(loaded.path);
      continue;
    }
    std::map<std::string, int> expected = reporting;
    if (loaded.holds(&kOwnSources))
      for (const std::string_view own : kOwnSources) ++expected[std::string(own)];
    std::map<std::string, int> found;
    const auto sources = SymbolFile(loaded.path).sources();
    for (const std::string& source : sources.value_or(std::vector<std::string>()))
      if (++found[source] > expected[source] && !is_of_the_toolchain(source))
        others.names.push_back(source);
    // Optimizing it as a whole leaves the names of no sources.
    others.are_known &= sources && std::ranges::all_of(reporting, [&](const auto& each) {
                          return found[each.first] >= each.second;
                        });
  }
  std::ranges::sort(others.names);
  return others;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kListed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kListed); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kListed) text += fmt::format(" and {} more", names.size() - kListed);
  return text;
}

}  // namespace perdura::track

void perdura_compiled_part(const char* source, unsigned window) {
  perdura::track::add_mark(source);
  perdura::track::windows.fetch_or(perdura::u64{1} << window, std::memory_order_relaxed);
}

void perdura_trusted_part(const char* source) { perdura::track::add_mark(source); }
