#include "store/chunk_loader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/mapping.hpp"

namespace perdura::store {

using format::ChunkEntry;

ChunkLoader::ChunkLoader(region::Volume& volume, region::ChunkSpace& space, region::Region& region,
                         std::vector<ChunkEntry> chunks)
    : volume_(volume),
      region_(region),
      chunk_bytes_(space.chunk_bytes()),
      reader_(volume, space),
      chunks_(std::move(chunks)) {}

Status ChunkLoader::load_all() {
  AlignedBuffer buffer(chunk_bytes_);
  for (u64 index = 0; index < chunks_.size(); ++index) {
    if (chunks_[index].place == 0) continue;
    PERDURA_TRY(reader_.read_chunk(index, chunks_[index], buffer.first(chunk_bytes_)));
    std::memcpy(region_.base() + index * chunk_bytes_, buffer.data(), chunk_bytes_);
  }
  std::lock_guard lock(mutex_);
  findings_.verified_bytes = chunks_.size() * chunk_bytes_;
  return {};
}

Status ChunkLoader::load_lazily(track::Tracker& tracker) {
  const u64 part_bytes = LazyParts::part_bytes_for(chunks_.size() * chunk_bytes_, chunk_bytes_);
  const u64 chunks_per_part = part_bytes / chunk_bytes_;
  std::vector<bool> wanted((chunks_.size() + chunks_per_part - 1) / chunks_per_part);
  for (u64 index = 0; index < chunks_.size(); ++index)
    if (chunks_[index].place != 0) wanted[index / chunks_per_part] = true;
  auto parts = LazyParts::create(region_, tracker, *this, part_bytes, wanted);
  if (!parts && parts.failure().code == Code::kUnsupported) return load_all();
  PERDURA_ASSIGN(parts_, std::move(parts));
  return {};
}

// Neighbours on the medium are read together. Takes no memory from the allocator, of which the
// thread that faulted may be a user just now.
Status ChunkLoader::load_part(u64 first, u64 last, const media::SelfMemory& memory) {
  PERDURA_ASSIGN(const Mapping buffer, Mapping::anonymous((last - first) * chunk_bytes_));
  while (first < last) {
    const u64 begin = first++;
    if (chunks_[begin].place == 0) continue;
    while (first < last && chunks_[first].place == chunks_[first - 1].place + chunk_bytes_) ++first;
    const media::MutableBytes run(buffer.as(), (first - begin) * chunk_bytes_);
    const media::ReadRequest request{chunks_[begin].place, run};
    PERDURA_TRY(volume_.medium().load({&request, 1}));
    for (u64 index = begin; index < first; ++index)
      PERDURA_TRY(
          reader_.check_chunk(index, chunks_[index], &run[(index - begin) * chunk_bytes_]));
    if (!memory.write(region_.base() + begin * chunk_bytes_, run))
      return Failure{Code::kNoMemory, "cannot write a part of the region"};
  }
  return {};
}

bool ChunkLoader::fill(u64 begin, u64 end, const media::SelfMemory& memory) noexcept {
  const Status loaded = guarded([&] {
    return load_part(begin / chunk_bytes_, std::min<u64>(end / chunk_bytes_, chunks_.size()),
                     memory);
  });
  std::lock_guard lock(mutex_);
  if (loaded) findings_.verified_bytes += end - begin;
  else note(loaded.failure());
  return static_cast<bool>(loaded);
}

// Nobody else will: the access that needs the part fails next.
void ChunkLoader::note(const Failure& failure) noexcept {
  ++findings_.damaged_pages;
  try {
    const std::string text = "perdura: " + failure.message + "\n";
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    (void)written;  // there is nobody to tell
    findings_.first.push_back(failure.message);
  } catch (const std::bad_alloc&) {
  }
}

commit::Findings ChunkLoader::findings() const {
  std::lock_guard lock(mutex_);
  return findings_;
}

}  // namespace perdura::store
