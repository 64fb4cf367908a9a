#include "preload/libc.hpp"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/bits.hpp"

namespace perdura::preload {
namespace {

/// The dynamic symbols of a loaded library. dlsym() would need a handle of libc, and dlopen(),
/// which gives one, allocates.
class Symbols {
 public:
  explicit Symbols(const dl_phdr_info& library) : base_(library.dlpi_addr) {
    const ElfW(Dyn)* entry = nullptr;
    for (const ElfW(Phdr) & header : std::span(library.dlpi_phdr, library.dlpi_phnum))
      if (header.p_type == PT_DYNAMIC) entry = at<ElfW(Dyn)>(header.p_vaddr);
    for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_SYMTAB) symbols_ = at<ElfW(Sym)>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_STRTAB) names_ = at<char>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_GNU_HASH) hashes_ = at<u32>(entry->d_un.d_ptr);
    }
  }

  /// Through the table that is, in words of 32 bits: how many buckets, the first symbol in them,
  /// how many words of 64 bits the filter has, its shift; the filter; of each bucket its first
  /// symbol; of each symbol its hash, in which the last bit ends a bucket.
  void* find(std::string_view name) const {
    if (symbols_ == nullptr || names_ == nullptr || hashes_ == nullptr) return nullptr;
    const u32 bucket_count = hashes_[0];
    const u32 first = hashes_[1];
    const u32* const buckets = hashes_ + 4 + 2 * hashes_[2];
    const u32* const chain = buckets + bucket_count;
    u32 hash = 5381;
    for (const char letter : name) hash = hash * 33 + static_cast<unsigned char>(letter);
    for (u32 i = buckets[hash % bucket_count]; i >= first; ++i) {
      const u32 other = chain[i - first];
      if ((other | 1) == (hash | 1) && name == names_ + symbols_[i].st_name)
        return reinterpret_cast<void*>(base_ + symbols_[i].st_value);
      if ((other & 1) != 0) break;
    }
    return nullptr;
  }

 private:
  /// The loader makes addresses of most offsets in the dynamic section.
  template <class T>
  const T* at(ElfW(Addr) place) const {
    return reinterpret_cast<const T*>(place < base_ ? base_ + place : place);
  }

  const ElfW(Addr) base_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  const u32* hashes_ = nullptr;
};

template <class Function>
bool look_up(const Symbols& symbols, const char* name, Function& function) {
  function = reinterpret_cast<Function>(symbols.find(name));
  return function != nullptr;
}

/// dl_iterate_phdr() ends where this returns another number than 0, and returns that.
int look_into(dl_phdr_info* library, size_t, void* found) {
  const std::string_view path = library->dlpi_name;
  if (path.substr(path.rfind('/') + 1) != "libc.so.6") return 0;
  const Symbols symbols(*library);
  auto& libc = *static_cast<Libc*>(found);
  return look_up(symbols, "malloc", libc.allocate) &&
         look_up(symbols, "calloc", libc.allocate_cleared) &&
         look_up(symbols, "realloc", libc.reallocate) &&
         look_up(symbols, "memalign", libc.allocate_aligned) &&
         look_up(symbols, "free", libc.release) &&
         look_up(symbols, "malloc_usable_size", libc.usable_size);
}

constinit Libc known{};
constinit std::atomic<bool> is_known{false};

// The first call is made before there is a second thread: to start one, libc allocates.
__attribute__((noinline)) void find_libc() noexcept {
  if (::dl_iterate_phdr(look_into, &known) == 0) {
    constexpr std::string_view kSentence = "libperdura_malloc: cannot find malloc in libc.so.6\n";
    [[maybe_unused]] const ssize_t said =
        ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
    std::abort();
  }
  is_known.store(true, std::memory_order_release);
}

}  // namespace

const Libc& libc() noexcept {
  if (!is_known.load(std::memory_order_acquire)) [[unlikely]]
    find_libc();
  return known;
}

}  // namespace perdura::preload
