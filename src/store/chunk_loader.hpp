// A region in chunks, from its medium to working memory. Each chunk is verified before the program
// sees a byte of it.
#pragma once

#include <memory>
#include <mutex>

#include "base/mapping.hpp"
#include "commit/engine.hpp"
#include "commit/page_set.hpp"
#include "commit/version_map.hpp"
#include "region/region.hpp"
#include "store/lazy_parts.hpp"
#include "track/tracker.hpp"

namespace perdura::store {

class ChunkLoader final : private Filler {
 public:
  /// `chunks` are the entries of a version's map. `zeroed`: a damaged chunk that is loaded lazily
  /// becomes zeros, and its pages go there, unless it is of the heap's own tables; nullptr: none.
  ChunkLoader(region::Volume& volume, region::ChunkSpace& space, region::Region& region,
              std::vector<format::ChunkEntry> chunks, commit::PageSet* zeroed);

  /// The address at which pointers in the region hold; 0 where there is none.
  Result<u64> read_address();

  /// Load everything now, many reads at once; the first damaged chunk is the failure. `watched`: a
  /// tracker watches the region already.
  Status load_all(bool watched = false);
  /// Load each part when it is touched, or in the background. Falls back to load_all where the
  /// system or the tracker does not allow that. A part with a damaged chunk that does not become
  /// zeros stays closed, and an access ends the program with a message.
  Status load_lazily(track::Tracker& tracker);

  commit::Findings findings() const;

 private:
  /// The chunk lies behind the one before it, on the medium as well, where they can be read as one.
  bool follows(u64 index) const;
  Status read_group(u64 first, u64 last, std::byte* into) const;
  Status check_tables();
  bool zero(u64 index, const Failure& damage, media::MutableBytes chunk);
  Status load_part(u64 first, u64 last, const media::SelfMemory& memory, bool tell);
  Status load_part(u64 first, u64 last, const media::SelfMemory& memory, bool tell,
                   std::byte* buffer);
  bool fill(u64 begin, u64 end, const media::SelfMemory& memory, bool last) noexcept override;
  bool fills_in_handlers() const override { return volume_.medium().geometry().reads_in_handlers; }
  void note(const Failure& failure) noexcept;

  region::Volume& volume_;
  region::Region& region_;
  const u64 chunk_bytes_;
  const bool objects_;
  commit::MapReader reader_;
  const std::vector<format::ChunkEntry> chunks_;
  commit::PageSet* const zeroed_;
  Mapping reserve_;  ///< a part's memory, for where the system gives no more
  std::mutex reserve_mutex_;
  mutable std::mutex mutex_;
  commit::Findings findings_;
  std::unique_ptr<LazyParts> parts_;  ///< last: its thread uses the others
};

}  // namespace perdura::store
