#include "store/chunk_loader.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <future>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/mapping.hpp"
#include "base/threads.hpp"
#include "format/heap_format.hpp"

namespace perdura::store {

using format::ChunkEntry;

namespace {
constexpr u64 kBytesAtOnce = 32 * kMiB;
constexpr size_t kGroupsAhead = 2;
constexpr u64 kRunBytes = kMiB;
constexpr size_t kRequestsAtOnce = 64;
constexpr int kTriesMax = 10;
constexpr timespec kPause{0, 1'000'000};
}  // namespace

ChunkLoader::ChunkLoader(region::Volume& volume, region::ChunkSpace& space, region::Region& region,
                         std::vector<ChunkEntry> chunks, commit::PageSet* zeroed)
    : volume_(volume),
      region_(region),
      chunk_bytes_(space.chunk_bytes()),
      objects_(volume.medium().geometry().objects),
      reader_(volume, space),
      chunks_(std::move(chunks)),
      zeroed_(zeroed) {}

Result<u64> ChunkLoader::read_address() {
  if (chunks_.empty() || chunks_[0].place == 0) return 0;
  AlignedBuffer chunk(chunk_bytes_);
  PERDURA_TRY(reader_.read_chunk(0, chunks_[0], chunk.first(chunk_bytes_)));
  format::HeapHeader header;
  std::memcpy(&header, chunk.data(), sizeof header);
  return header.address;
}

// Two groups are read while the one before them is checked; the first has nothing to wait for.
Status ChunkLoader::load_all(bool watched) {
  const u64 at_once = std::max<u64>(kBytesAtOnce / chunk_bytes_, 1);
  // The system does not write to pages that a tracker protects, as the program does.
  std::array<AlignedBuffer, kGroupsAhead + 1> buffers;
  if (watched)
    for (AlignedBuffer& buffer : buffers) buffer = AlignedBuffer(at_once * chunk_bytes_);
  const auto place = [&](u64 first) { return region_.base() + first * chunk_bytes_; };
  const auto target = [&](u64 first) {
    return watched ? buffers[first / at_once % buffers.size()].data() : place(first);
  };
  const auto end_of = [&](u64 first) { return std::min<u64>(first + at_once, chunks_.size()); };
  std::deque<std::future<Status>> reading;
  u64 next = 0;
  const auto read_next = [&] {
    if (next >= chunks_.size()) return;
    const NoSignals no_signals;
    // Where the system refuses a thread, get() reads.
    reading.push_back(
        std::async(next == 0 ? std::launch::deferred : std::launch::async | std::launch::deferred,
                   [this, first = next, last = end_of(next), into = target(next)] {
                     return guarded([&] { return read_group(first, last, into); });
                   }));
    next += at_once;
  };
  for (size_t i = 0; i < kGroupsAhead; ++i) read_next();
  for (u64 first = 0; first < chunks_.size(); first += at_once) {
    PERDURA_TRY(reading.front().get());
    reading.pop_front();
    read_next();
    for (u64 index = first; index < end_of(first); ++index) {
      const u64 at = (index - first) * chunk_bytes_;
      if (chunks_[index].place == 0) continue;
      PERDURA_TRY(reader_.check_chunk(index, chunks_[index], target(first) + at));
      if (watched) std::memcpy(place(first) + at, target(first) + at, chunk_bytes_);
    }
  }
  std::lock_guard lock(mutex_);
  findings_.verified_bytes = chunks_.size() * chunk_bytes_;
  return {};
}

// What lies together is read together.
Status ChunkLoader::read_group(u64 first, u64 last, std::byte* into) const {
  std::vector<media::ReadRequest> requests;
  for (u64 index = first; index < last;) {
    const u64 begin = index++;
    if (chunks_[begin].place == 0) continue;
    while (index < last && index - begin < kRunBytes / chunk_bytes_ && follows(index)) ++index;
    requests.push_back({chunks_[begin].place,
                        {into + (begin - first) * chunk_bytes_, (index - begin) * chunk_bytes_}});
  }
  return volume_.medium().load(requests);
}

bool ChunkLoader::follows(u64 index) const {
  return !objects_ && chunks_[index].place == chunks_[index - 1].place + chunk_bytes_;
}

// As zeros the heap's tables would give out blocks that are in use.
Status ChunkLoader::check_tables() {
  const u64 end = (format::data_begin_for(region_.limit()) + chunk_bytes_ - 1) / chunk_bytes_;
  AlignedBuffer chunk(chunk_bytes_);
  for (u64 index = 0; index < std::min<u64>(end, chunks_.size()); ++index)
    if (chunks_[index].place != 0)
      PERDURA_TRY(reader_.read_chunk(index, chunks_[index], chunk.first(chunk_bytes_)));
  return {};
}

Status ChunkLoader::load_lazily(track::Tracker& tracker) {
  if (zeroed_ != nullptr) PERDURA_TRY(check_tables());
  const u64 part_bytes = LazyParts::part_bytes_for(chunks_.size() * chunk_bytes_, chunk_bytes_);
  const u64 chunks_per_part = part_bytes / chunk_bytes_;
  LazyParts::Plan plan{.part_bytes = part_bytes, .parts = {}};
  plan.parts.resize((chunks_.size() + chunks_per_part - 1) / chunks_per_part);
  for (u64 index = 0; index < chunks_.size(); ++index)
    if (chunks_[index].place != 0) plan.parts[index / chunks_per_part] = Wanted::kSoon;
  PERDURA_ASSIGN(reserve_, Mapping::anonymous(part_bytes));
  auto parts = LazyParts::create(region_, tracker, *this, std::move(plan));
  if (!parts && parts.failure().code == Code::kUnsupported) return load_all(true);
  PERDURA_ASSIGN(parts_, std::move(parts));
  return {};
}

// Neighbours on the medium are read together, all of it before any is written: a checkpoint may
// come between two writes, and then reads what will be there. Takes no memory from the allocator,
// of which the thread that faulted may be a user just now, unless damage is to be told.
Status ChunkLoader::load_part(u64 first, u64 last, const media::SelfMemory& memory, bool tell) {
  const Result<Mapping> own = Mapping::anonymous((last - first) * chunk_bytes_);
  if (own) return load_part(first, last, memory, tell, own->as());
  // Who touches the part can be told of no failure: one after the other they load it into what was
  // mapped when the store was opened.
  if ((last - first) * chunk_bytes_ > reserve_.length()) return own.failure();
  const std::lock_guard lock(reserve_mutex_);
  return load_part(first, last, memory, tell, reserve_.as());
}

Status ChunkLoader::load_part(u64 first, u64 last, const media::SelfMemory& memory, bool tell,
                              std::byte* buffer) {
  const auto content = [&](u64 begin, u64 end) {
    return media::MutableBytes(buffer + (begin - first) * chunk_bytes_,
                               (end - begin) * chunk_bytes_);
  };
  // Calls visit(begin, end) for each run of neighbours until one fails.
  const auto for_each_run = [&](auto&& visit) -> Status {
    for (u64 index = first; index < last;) {
      const u64 begin = index++;
      if (chunks_[begin].place == 0) continue;
      while (index < last && follows(index)) ++index;
      PERDURA_TRY(visit(begin, index));
    }
    return {};
  };
  // Of a linear medium one at a time: several take memory, and a ring, which may be refused.
  std::array<media::ReadRequest, kRequestsAtOnce> requests;
  size_t wanted = 0;
  const auto load = [&]() -> Status {
    return volume_.medium().load(std::span(requests).first(std::exchange(wanted, 0)));
  };
  PERDURA_TRY(for_each_run([&](u64 begin, u64 end) -> Status {
    requests[wanted++] = {chunks_[begin].place, content(begin, end)};
    return wanted == (objects_ ? requests.size() : 1) ? load() : Status{};
  }));
  if (wanted != 0) PERDURA_TRY(load());
  PERDURA_TRY(for_each_run([&](u64 begin, u64 end) -> Status {
    for (u64 index = begin; index < end; ++index) {
      const media::MutableBytes chunk = content(index, index + 1);
      if (reader_.fits(chunks_[index], chunk.data())) continue;
      if (!tell) return Failure{Code::kCorrupt, ""};
      Failure damage = reader_.chunk_damaged(index, chunks_[index]);
      if (!zero(index, damage, chunk)) return damage;
    }
    return {};
  }));
  return for_each_run([&](u64 begin, u64 end) -> Status {
    if (memory.write(region_.base() + begin * chunk_bytes_, content(begin, end))) return {};
    return Failure{Code::kNoMemory, "cannot write a part of the region"};
  });
}

// Whether it may.
bool ChunkLoader::zero(u64 index, const Failure& damage, media::MutableBytes chunk) {
  if (zeroed_ == nullptr || damage.code != Code::kCorrupt) return false;
  std::memset(chunk.data(), 0, chunk.size());
  const u64 pages = chunk_bytes_ / kPageBytes;
  bool is_new = false;  // else it was loaded before, and could not be written then
  for (u64 page = index * pages; page < (index + 1) * pages; ++page)
    is_new = zeroed_->add(page) || is_new;
  if (!is_new) return true;
  std::lock_guard lock(mutex_);
  note(damage);
  ++findings_.zeroed_pages;
  return true;
}

// A want of memory may pass: what cannot be loaded ends the program when it is touched.
bool ChunkLoader::fill(u64 begin, u64 end, const media::SelfMemory& memory, bool last) noexcept {
  const u64 until = std::min<u64>(end / chunk_bytes_, chunks_.size());
  const auto load = [&] {
    return guarded([&] { return load_part(begin / chunk_bytes_, until, memory, last); });
  };
  Status loaded = load();
  for (int i = 1; i < kTriesMax && !loaded && loaded.failure().code == Code::kNoMemory; ++i) {
    ::nanosleep(&kPause, nullptr);
    loaded = load();
  }
  std::lock_guard lock(mutex_);
  if (loaded) findings_.verified_bytes += end - begin;
  else if (last) note(loaded.failure());
  return static_cast<bool>(loaded);
}

// Nobody else will: the access that needs the part fails next.
void ChunkLoader::note(const Failure& failure) noexcept {
  region::refusal_is_told();
  ++findings_.damaged_pages;
  const Status told = guarded([&]() -> Status {
    region_.events().post(EventKind::kDamage, failure.code, failure.message);
    findings_.first.push_back(failure.message);
    return {};
  });
  (void)told;  // without memory the count has to do
}

commit::Findings ChunkLoader::findings() const {
  std::lock_guard lock(mutex_);
  return findings_;
}

}  // namespace perdura::store
