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

CowMatrix::CowMatrix(Context& context, std::uint64_t checkpoint_calls)
    : checkpoint_calls_(checkpoint_calls),
      context_(context),
      path_(context.path(Place::kMemory, "cow")),
      nvm_(static_cast<Nvm*>(map_new(path_, sizeof(Nvm)))),
      log_(kEntries * sizeof(Entry)) {
  write_word(nvm_->used, 1);
}

CowMatrix::~CowMatrix() {
  munmap(nvm_, sizeof(Nvm));
  context_.remove(path_);
}

void CowMatrix::all_inc(std::int32_t by) {
  const std::lock_guard lock(mutex_);
  auto* const log = reinterpret_cast<Entry*>(log_.data());
  log[calls_ % kEntries] = {calls_, by, {}};
  ++calls_;
  memory_.matrix.all_inc(by);
  if (++calls_since_ >= checkpoint_calls_) checkpoint();
}

void CowMatrix::sync() {
  const std::lock_guard lock(mutex_);
  if (calls_since_ != 0) checkpoint();
}

// After a crash the root leads to a whole copy: the old one, or the new one. A block that is used
// and not the root's is free.
void CowMatrix::checkpoint() {
  const auto block = static_cast<std::uint64_t>(std::countr_one(nvm_->used));
  write_word(nvm_->used, nvm_->used | std::uint64_t{1} << block);
  const std::uint64_t before = nvm_->root;
  write_block(nvm_->blocks[before], nvm_->blocks[block]);
  write_block(memory_, nvm_->blocks[block]);
  write_word(nvm_->root, block);
  write_word(nvm_->used, nvm_->used & ~(std::uint64_t{1} << before));
  calls_since_ = 0;
}

void CowMatrix::write_word(std::uint64_t& word, std::uint64_t value) {
  _mm_stream_si64(reinterpret_cast<long long*>(&word), static_cast<long long>(value));
  _mm_sfence();
}

void CowMatrix::write_block(const Block& from, Block& to) {
  gather_nontemporal(
      {reinterpret_cast<std::byte*>(const_cast<Block*>(&from)), sizeof(Block), sizeof(Block), 1},
      reinterpret_cast<std::byte*>(&to));
}

}  // namespace perdura::bench
