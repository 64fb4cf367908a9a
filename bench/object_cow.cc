#include "object_cow.hpp"

#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <mutex>
#include <system_error>

#include "raw_write.hpp"

namespace perdura::bench {
namespace {

void* map_new(const std::string& path, std::size_t size) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  void* at = MAP_FAILED;
  if (posix_fallocate(fd, 0, static_cast<off_t>(size)) == 0)
    at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  close(fd);
  if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
  return at;
}

}  // namespace

NvmFile::NvmFile(Context& context, const char* stem, std::size_t size)
    : context_(context),
      path_(context.path(Place::kMemory, stem)),
      size_(size),
      at_(map_new(path_, size)) {}

NvmFile::~NvmFile() {
  munmap(at_, size_);
  context_.remove(path_);
}

CopiedMatrix::CopiedMatrix(std::uint64_t checkpoint_calls)
    : checkpoint_calls_(checkpoint_calls), log_(kEntries * sizeof(Entry)) {}

void CopiedMatrix::all_inc(std::int32_t by) {
  const std::lock_guard lock(mutex_);
  auto* const log = reinterpret_cast<Entry*>(log_.data());
  log[calls_ % kEntries] = {calls_, by, {}};
  ++calls_;
  memory_.matrix.all_inc(by);
  if (++calls_since_ < checkpoint_calls_) return;
  checkpoint(memory_, calls_);
  calls_since_ = 0;
}

void CopiedMatrix::sync() {
  const std::lock_guard lock(mutex_);
  if (calls_since_ == 0) return;
  checkpoint(memory_, calls_);
  calls_since_ = 0;
}

CowMatrix::CowMatrix(Context& context, std::uint64_t checkpoint_calls)
    : CopiedMatrix(checkpoint_calls), file_(context, "cow", sizeof(Nvm)) {
  write_word(nvm().used, 1);
}

// After a crash the root leads to a whole copy: the old one, or the new one. A block that is used
// and not the root's is free.
void CowMatrix::checkpoint(const Block& memory, std::uint64_t) {
  Nvm& nvm = this->nvm();
  const auto block = static_cast<std::uint64_t>(std::countr_one(nvm.used));
  write_word(nvm.used, nvm.used | std::uint64_t{1} << block);
  const std::uint64_t before = nvm.root;
  write_block(nvm.blocks[before], nvm.blocks[block]);
  write_block(memory, nvm.blocks[block]);
  write_word(nvm.root, block);
  write_word(nvm.used, nvm.used & ~(std::uint64_t{1} << before));
}

MaskedMatrix::MaskedMatrix(Context& context, std::uint64_t checkpoint_calls)
    : CopiedMatrix(checkpoint_calls), file_(context, "masked", sizeof(Nvm)) {}

// Where the index has the mask after a crash its copy has all that the log has, whatever the cursor
// says.
void MaskedMatrix::checkpoint(const Block& memory, std::uint64_t calls) {
  constexpr std::uint64_t kResilient = 2;
  Nvm& nvm = this->nvm();
  const std::uint64_t older = nvm.index ^ 1;
  write_block(memory, nvm.copies[older]);
  write_word(nvm.index, older | kMask);
  write_word(nvm.last_state, kResilient);
  write_word(nvm.cursor, calls);
  write_word(nvm.index, older);
}

void CopiedMatrix::write_word(std::uint64_t& word, std::uint64_t value) {
  _mm_stream_si64(reinterpret_cast<long long*>(&word), static_cast<long long>(value));
  _mm_sfence();
}

void CopiedMatrix::write_block(const Block& from, Block& to) {
  gather_nontemporal(
      {reinterpret_cast<std::byte*>(const_cast<Block*>(&from)), sizeof(Block), sizeof(Block), 1},
      reinterpret_cast<std::byte*>(&to));
}

}  // namespace perdura::bench
