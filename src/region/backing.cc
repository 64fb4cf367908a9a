#include "region/backing.hpp"

#include <algorithm>

namespace perdura::region {
namespace {

using format::Extent;
using format::ExtentKind;

// The volume also knows extents that an earlier attempt failed to map.
Result<Extent> take_home(Volume& volume, const format::RegionRecord& record, ExtentKind kind,
                         u64 offset, u64 end) {
  for (const Extent& extent : volume.extents(kind, record.region))
    if (extent.region_offset > offset) end = std::min(end, extent.region_offset);
  return volume.allocate_home(record.region, offset, end - offset, kind);
}

class HomeBacking final : public Backing {
 public:
  HomeBacking(Volume& volume, const format::RegionRecord& record)
      : volume_(volume), record_(record) {}

  Result<std::vector<Extent>> parts() const override {
    PERDURA_ASSIGN(const auto home, HomeMap::of(volume_, record_));
    return home->extents();
  }
  bool has_home() const override { return true; }
  Result<Extent> take(u64 offset, u64 end, const HomeMap&) override {
    return take_home(volume_, record_, ExtentKind::kHome, offset, end);
  }

 private:
  Volume& volume_;
  const format::RegionRecord record_;
};

// A part of it is new in both copies: neither has anything yet that the other one lacks.
class CopyBacking final : public Backing {
 public:
  CopyBacking(Volume& volume, const format::RegionRecord& record, u64 copy)
      : volume_(volume), record_(record), copy_(copy) {}

  Result<std::vector<Extent>> parts() const override {
    PERDURA_ASSIGN(const auto home, HomeMap::of_copy(volume_, record_, copy_));
    return home->extents();
  }
  bool has_home() const override { return true; }
  Result<Extent> take(u64 offset, u64 end, const HomeMap&) override {
    PERDURA_ASSIGN(const Extent taken,
                   take_home(volume_, record_, ExtentKind::kCopies, offset, end));
    return format::home_in_copy(taken, copy_);
  }

 private:
  Volume& volume_;
  const format::RegionRecord record_;
  const u64 copy_;
};

class ChunkBacking final : public Backing {
 public:
  ChunkBacking(ChunkSpace& space, const format::RegionRecord& record, u64 backed_bytes)
      : space_(space), record_(record), backed_bytes_(backed_bytes) {}

  Result<std::vector<Extent>> parts() const override {
    if (backed_bytes_ == 0) return std::vector<Extent>{};
    return std::vector<Extent>{{ExtentKind::kChunks, record_.region, 0, backed_bytes_, 0}};
  }
  bool has_home() const override { return false; }
  // Whole chunks: what a version writes with a part of one is then of that version.
  Result<Extent> take(u64 offset, u64 end, const HomeMap& now) override {
    u64 begin = round_down(offset, space_.chunk_bytes());
    end = round_up(end, space_.chunk_bytes());
    for (const Extent& extent : now.extents()) {
      if (extent.region_offset > offset) end = std::min(end, extent.region_offset);
      else begin = std::max(begin, extent.region_offset + extent.length);
    }
    PERDURA_TRY(space_.promise(end - begin));
    return Extent{ExtentKind::kChunks, record_.region, begin, end - begin, 0};
  }

 private:
  ChunkSpace& space_;
  const format::RegionRecord record_;
  const u64 backed_bytes_;
};

class NoBacking final : public Backing {
 public:
  Result<std::vector<Extent>> parts() const override { return std::vector<Extent>{}; }
  bool has_home() const override { return true; }
  Result<Extent> take(u64 offset, u64 end, const HomeMap&) override {
    return Extent{.kind = {},
                  .region = 0,
                  .region_offset = offset,
                  .length = end - offset,
                  .medium_offset = 0};
  }
};

}  // namespace

std::unique_ptr<Backing> home_backing(Volume& volume, const format::RegionRecord& record) {
  return std::make_unique<HomeBacking>(volume, record);
}

std::unique_ptr<Backing> copy_backing(Volume& volume, const format::RegionRecord& record,
                                      u64 copy) {
  return std::make_unique<CopyBacking>(volume, record, copy);
}

std::unique_ptr<Backing> chunk_backing(ChunkSpace& space, const format::RegionRecord& record,
                                       u64 backed_bytes) {
  return std::make_unique<ChunkBacking>(space, record, backed_bytes);
}

std::unique_ptr<Backing> no_backing() { return std::make_unique<NoBacking>(); }

}  // namespace perdura::region
