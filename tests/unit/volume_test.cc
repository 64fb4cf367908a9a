// Goal: a medium is opened as what it is: a new store, a whole one, one whose creation was cut
// short, or refused with the sentence that says why.
// Method: files made or changed byte by byte, and crash images of a recorded creation: after every
// call, with any subset of the atoms that no barrier covers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <set>

#include "base/checksum.hpp"
#include "format/format.hpp"
#include "media/fault.hpp"
#include "media/record.hpp"
#include "region/chunk_space.hpp"
#include "region/volume.hpp"
#include "store/recovery.hpp"
#include "support/call_faults.hpp"
#include "support/earlier_version.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using format::Superblock;

Options small() {
  Options options;
  options.region_limit_bytes = 16 * kMiB;
  return options;
}

class VolumeTest : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return folder_.path("state.pd"); }
  std::string uri() const { return std::string(GetParam()) + ":" + path(); }

  void expect_refused(Code code, const std::string& sentence) {
    try {
      WrappedStore store(uri(), small());
      ADD_FAILURE() << "was opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(sentence), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
    }
  }
  FileBytes closed_store() {
    WrappedStore(uri(), small()).close();
    return read_file(path());
  }
  std::unique_ptr<media::Medium> medium_there() const {
    return value_or_throw(media::open_medium(uri(), {.create = false})).medium;
  }
  static Result<std::unique_ptr<region::Volume>> open_there(std::unique_ptr<media::Medium> medium,
                                                            bool read_only) {
    return read_only ? store::open_volume_to_read(std::move(medium))
                     : store::open_volume(std::move(medium), false, format::kSegmentBytesMax);
  }
  /// Changes both superblocks, with their checksums.
  template <class Change>
  static FileBytes with_superblocks(FileBytes image, Change&& change) {
    for (u64 offset : format::kSuperblockOffset) {
      Superblock superblock;
      std::memcpy(&superblock, image.data() + offset, sizeof superblock);
      change(superblock);
      constexpr size_t kFrom = offsetof(Superblock, format_version);
      superblock.checksum =
          checksum(reinterpret_cast<const char*>(&superblock) + kFrom, sizeof superblock - kFrom);
      std::memcpy(image.data() + offset, &superblock, sizeof superblock);
    }
    return image;
  }

  /// Changes the directory that counts, with all checksums.
  template <class Change>
  static FileBytes with_directory(FileBytes image, Change&& change) {
    Superblock newest{};
    for (u64 offset : format::kSuperblockOffset) {
      Superblock superblock;
      std::memcpy(&superblock, image.data() + offset, sizeof superblock);
      if (superblock.sequence > newest.sequence) newest = superblock;
    }
    std::byte* const directory = image.data() + format::kDirectoryOffset[newest.directory_slot];
    auto* const region =
        reinterpret_cast<format::RegionRecord*>(directory + sizeof(format::DirectoryHeader));
    change(*region, reinterpret_cast<format::Extent*>(region + 1));
    const u64 sum = checksum(directory, newest.directory_bytes);
    return with_superblocks(std::move(image), [&](Superblock& superblock) {
      if (superblock.directory_slot == newest.directory_slot) superblock.directory_checksum = sum;
    });
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(VolumeTest, ForeignFilesAreRefusedAndLeftAlone) {
  std::mt19937_64 random(1);
  for (u64 size : {1, 100, 511, 512, 4095, 4096, 5000, 8192, 60'000, 65'536, 200'000}) {
    FileBytes foreign(size);
    for (std::byte& byte : foreign) byte = static_cast<std::byte>(random() | 1);
    write_file(path(), foreign);
    SCOPED_TRACE(size);
    expect_refused(Code::kForeign, "is not a Perdura store");
    EXPECT_EQ(read_file(path()), foreign);
  }
}

TEST_P(VolumeTest, EmptyAndZeroFilesBecomeStores) {
  for (u64 size : {0, 1, 4096, 10'000, 65'536, 196'608}) {
    write_file(path(), FileBytes(size));
    SCOPED_TRACE(size);
    WrappedStore store(uri(), small());
    EXPECT_EQ(store.durable_version(), 1u);
    store.close();
  }
}

TEST_P(VolumeTest, ABlankMediumIsMadeAStoreOnlyWhenAsked) {
  Options options = small();
  options.create = false;
  for (u64 size : {u64{0}, format::kDataBegin}) {
    write_file(path(), FileBytes(size));
    try {
      WrappedStore store(uri(), options);
      ADD_FAILURE() << "was opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kNotFound) << error.what();
      EXPECT_NE(std::string(error.what()).find("holds no store yet"), std::string::npos);
    }
    EXPECT_EQ(read_file(path()), FileBytes(size));
  }
}

TEST_P(VolumeTest, NewerFormatsAndOtherMachinesAreRefused) {
  const FileBytes image = closed_store();
  write_file(path(), with_superblocks(image, [](Superblock& s) { ++s.format_version; }));
  expect_refused(Code::kIncompatible, "has format version 5, this Perdura reads versions 2 to 4");
  write_file(path(), with_superblocks(image, [](Superblock& s) { s.format_version = 1; }));
  expect_refused(Code::kIncompatible, "use the older Perdura");
  for (const u64 unknown : {u64{4}, u64{16}, u64{256}}) {
    write_file(path(),
               with_superblocks(image, [&](Superblock& s) { s.incompatible_features = unknown; }));
    expect_refused(Code::kIncompatible,
                   "uses format features (mask " + std::to_string(unknown) + ")");
  }
  write_file(path(), with_superblocks(image, [](Superblock& s) { s.compatible_features = 8; }));
  WrappedStore(uri(), small()).close();
  write_file(path(), with_superblocks(image, [](Superblock& s) {
               std::memcpy(s.architecture, "riscv64-be-64\0\0", 16);
             }));
  expect_refused(Code::kIncompatible, "was written on the architecture 'riscv64-be-64'");
}

TEST_P(VolumeTest, TruncatedStoresAreRefused) {
  const FileBytes image = closed_store();
  for (u64 size : {u64{4096}, u64{8192}, u64{65536}, image.size() - 1, image.size() - 4096}) {
    SCOPED_TRACE(size);
    write_file(path(), FileBytes(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(size)));
    expect_refused(Code::kCorrupt, "truncated");
  }
}

TEST_P(VolumeTest, OneDamagedSuperblockIsBorneTwoAreNot) {
  const FileBytes image = closed_store();
  for (u64 offset : format::kSuperblockOffset) {
    FileBytes damaged = image;
    damaged[offset + 100] ^= std::byte{1};
    write_file(path(), damaged);
    WrappedStore(uri(), small()).close();
  }
  FileBytes damaged = image;
  for (u64 offset : format::kSuperblockOffset) damaged[offset + 100] ^= std::byte{1};
  write_file(path(), damaged);
  expect_refused(Code::kCorrupt, "both superblocks");
}

// The rest of the file tells that it is a store, whatever of them is lost.
TEST_P(VolumeTest, TwoSuperblocksWithoutTheirMagicAreDamage) {
  const FileBytes image = closed_store();
  for (const u64 bytes : {u64{1}, sizeof(format::kMagic), format::kSuperblockBytes}) {
    SCOPED_TRACE(bytes);
    FileBytes damaged = image;
    for (u64 offset : format::kSuperblockOffset)
      for (u64 i = 0; i < bytes; ++i) damaged[offset + i] ^= std::byte{0x5a};
    write_file(path(), damaged);
    expect_refused(Code::kCorrupt, "both superblocks");
    EXPECT_EQ(read_file(path()), damaged);
  }
  // Nor is more of it there than a file of somebody else's may hold by chance.
  FileBytes foreign = image;
  std::fill_n(foreign.begin(), format::kDataBegin, std::byte{1});
  write_file(path(), foreign);
  expect_refused(Code::kForeign, "is not a Perdura store");
}

// One of them damaged later must cost nothing: no version, no session, no extent.
TEST_P(VolumeTest, BothSuperblocksSayTheSameAfterEveryUpdate) {
  auto volume = open_volume(uri());
  const format::RegionRecord region = region_record();
  const std::function<Status()> updates[] = {
      [&] { return volume->begin_session(); },
      [&] { return volume->add_region(region); },
      [&] { return volume->set_replayed(1, 7, 3); },
      [&] { return volume->end_session(); },
  };
  for (const auto& update : updates) {
    SCOPED_TRACE(&update - updates);
    ASSERT_TRUE(update());
    const FileBytes image = read_file(path());
    Superblock slots[2];
    for (u64 slot = 0; slot < 2; ++slot)
      std::memcpy(&slots[slot], image.data() + format::kSuperblockOffset[slot], sizeof *slots);
    EXPECT_NE(slots[0].sequence, slots[1].sequence);
    for (Superblock& slot : slots) slot.sequence = slot.checksum = 0;
    EXPECT_EQ(std::memcmp(&slots[0], &slots[1], sizeof *slots), 0);
  }
}

// Old log blocks must not become the zeros that a heap finds in new space.
TEST_P(VolumeTest, SpaceThatWasGivenBackIsZeroBeforeItIsAHome) {
  media::Recording recording;
  size_t begin = 0;
  {
    const auto volume = open_volume(uri(), [&](std::unique_ptr<media::Medium> medium) {
      return recording.wrap(std::move(medium));
    });
    ASSERT_TRUE(volume->add_region(region_record()));
    const auto log = value_or_throw(volume->allocate_log(1, volume->segment_bytes()));
    AlignedBuffer old(log.length);
    std::memset(old.data(), 0x5a, log.length);
    ASSERT_TRUE(
        volume->medium().write(log.medium_offset, old.first(log.length), PERDURA_SITE("test")));
    ASSERT_TRUE(volume->medium().barrier(PERDURA_SITE("test")));
    ASSERT_TRUE(volume->release_log(log.medium_offset, log.length));
    begin = recording.size();
    ASSERT_TRUE(volume->allocate_home(1, 0, 4 * kPageBytes));
  }
  const media::History history = recording.history();
  u64 homes = 0;
  for (size_t end = begin; end <= history.calls().size(); ++end) {
    const auto lost = [&](size_t call, u64) {
      return history.calls()[call].site->what != std::string("clear free space");
    };
    write_file(path(), history.after_crash(end, lost));
    const auto volume = open_volume(uri());
    for (const format::Extent& home : volume->extents(format::ExtentKind::kHome)) {
      ++homes;
      AlignedBuffer bytes(home.length);
      ASSERT_TRUE(volume->medium().read(home.medium_offset, bytes.first(home.length)));
      for (u64 i = 0; i < home.length; ++i)
        ASSERT_EQ(bytes.data()[i], std::byte{}) << "byte " << i << " after call " << end;
    }
  }
  EXPECT_GT(homes, 0u);
}

TEST_P(VolumeTest, DamagedDirectoriesAreRefused) {
  FileBytes damaged = closed_store();
  for (u64 offset : format::kDirectoryOffset) damaged[offset + 20] ^= std::byte{1};
  write_file(path(), damaged);
  expect_refused(Code::kCorrupt, "the directory of");
}

// Sums that fit prove nothing about who wrote them.
TEST_P(VolumeTest, ImpossibleDirectoriesAreRefused) {
  using format::EngineId;
  using format::Extent;
  using format::ExtentKind;
  using format::RegionRecord;
  using Change = void (*)(RegionRecord&, Extent&, Extent&);  // region, a home extent, a log extent
  const std::pair<const char*, Change> changes[] = {
      {"no region", [](RegionRecord& r, Extent&, Extent&) { r.region = 0; }},
      {"unknown region", [](RegionRecord& r, Extent&, Extent&) { r.region = 2; }},
      {"number", [](RegionRecord& r, Extent&, Extent&) { r.region = format::kRegionsMax + 1; }},
      {"no name", [](RegionRecord& r, Extent&, Extent&) { r.name[0] = '\0'; }},
      {"endless name", [](RegionRecord& r, Extent&, Extent&) { std::ranges::fill(r.name, 'x'); }},
      {"no address", [](RegionRecord& r, Extent&, Extent&) { r.address = 0; }},
      {"odd address", [](RegionRecord& r, Extent&, Extent&) { r.address += 8; }},
      {"kernel address", [](RegionRecord& r, Extent&, Extent&) { r.address = u64{1} << 47; }},
      {"no space", [](RegionRecord& r, Extent&, Extent&) { r.limit_bytes = 0; }},
      {"odd space", [](RegionRecord& r, Extent&, Extent&) { r.limit_bytes -= kPageBytes; }},
      {"endless", [](RegionRecord& r, Extent&, Extent&) { r.limit_bytes = u64{1} << 45; }},
      {"small", [](RegionRecord& r, Extent&, Extent&) { r.limit_bytes = kMiB / 16; }},
      {"no engine", [](RegionRecord& r, Extent&, Extent&) { r.engine = EngineId::kUnsaid; }},
      {"engine", [](RegionRecord& r, Extent&, Extent&) { r.engine = static_cast<EngineId>(3); }},
      {"another's", [](RegionRecord& r, Extent&, Extent&) { r.engine = EngineId::kRemap; }},
      {"kind", [](RegionRecord&, Extent& e, Extent&) { e.kind = static_cast<ExtentKind>(3); }},
      {"outside", [](RegionRecord&, Extent& e, Extent&) { e.region_offset = 16 * kMiB; }},
      {"wraps", [](RegionRecord&, Extent& e, Extent&) { e.region_offset = -e.length; }},
      {"odd offset", [](RegionRecord&, Extent& e, Extent&) { e.region_offset += 64; }},
      {"twice", [](RegionRecord&, Extent& e, Extent&) { e.region_offset = 64 * kKiB; }},
      {"long", [](RegionRecord&, Extent& e, Extent&) { e.length = ~u64{0} - kPageBytes + 1; }},
      {"empty", [](RegionRecord&, Extent& e, Extent&) { e.length = 0; }},
      {"odd place", [](RegionRecord&, Extent& e, Extent&) { e.medium_offset += 512; }},
      {"in the head", [](RegionRecord&, Extent& e, Extent&) { e.medium_offset = kPageBytes; }},
      {"beyond", [](RegionRecord&, Extent& e, Extent&) { e.medium_offset = u64{1} << 50; }},
      {"half a segment", [](RegionRecord&, Extent&, Extent& e) { e.length -= kPageBytes; }},
  };
  {
    WrappedStore store(uri(), small());
    store.operation().allocate(1);  // a second home extent
    store.close();
  }
  const FileBytes image = read_file(path());
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    write_file(path(), with_directory(image, [&](RegionRecord& region, Extent* extents) {
                 Extent* home = extents;
                 while (home->kind != ExtentKind::kHome) ++home;
                 Extent* log = extents;
                 while (log->kind != ExtentKind::kLog) ++log;
                 change(region, *home, *log);
               }));
    expect_refused(Code::kCorrupt, "holds an impossible");
  }
  write_file(path(), with_directory(image, [](RegionRecord&, Extent*) {}));
  WrappedStore(uri(), small()).close();
}

TEST_P(VolumeTest, SuperblocksThatNameNoDirectoryAreRefused) {
  const FileBytes image = closed_store();
  using Change = void (*)(Superblock&);
  const Change changes[] = {[](Superblock& s) { s.directory_slot = 2; },
                            [](Superblock& s) { s.directory_bytes = 8; },
                            [](Superblock& s) { s.directory_bytes = kMiB; },
                            [](Superblock& s) { s.segment_bytes = 4096; },
                            [](Superblock& s) { s.segment_bytes = 2 * format::kSegmentBytesMax; }};
  for (const Change change : changes) {
    write_file(path(), with_superblocks(image, change));
    expect_refused(Code::kCorrupt, "its superblock describes no directory");
  }
  write_file(path(), with_superblocks(image, [](Superblock& s) { ++s.directory_sequence; }));
  expect_refused(Code::kCorrupt, "its header does not fit its length");
  write_file(path(), with_directory(image, [](format::RegionRecord& region, format::Extent*) {
               (reinterpret_cast<format::DirectoryHeader*>(&region) - 1)->region_count = 17;
             }));
  expect_refused(Code::kCorrupt, "its header does not fit its length");
}

TEST_P(VolumeTest, AnExtentThatReachesBeyondTheEndIsRefused) {
  const FileBytes image = closed_store();
  write_file(path(), with_directory(image, [&](format::RegionRecord&, format::Extent* extents) {
               while (extents->kind != format::ExtentKind::kLog) ++extents;
               extents->medium_offset = image.size() - kPageBytes;
             }));
  expect_refused(Code::kCorrupt, "holds an impossible extent");
}

TEST_P(VolumeTest, AliasesMustBePossibleAndAnnounced) {
  const FileBytes image = closed_store();
  for (const u32 aliases : {3, 512}) {
    write_file(
        path(),
        with_directory(
            with_superblocks(
                image, [](Superblock& s) { s.incompatible_features = format::kFeatureAliases; }),
            [&](format::RegionRecord& region, format::Extent*) { region.aliases = aliases; }));
    expect_refused(Code::kCorrupt, "holds an impossible region");
  }
  write_file(path(), with_directory(image, [](format::RegionRecord& region, format::Extent*) {
               region.aliases = 2;
             }));
  expect_refused(Code::kCorrupt, "holds an impossible region");
  write_file(path(), with_superblocks(image, [](Superblock& s) {
               s.incompatible_features = format::kFeatureAliases;
             }));
  expect_refused(Code::kCorrupt, "holds an impossible region");
}

TEST_P(VolumeTest, ARegionThatIsThereTwiceIsRefused) {
  {
    const auto volume = open_volume(uri());
    format::RegionRecord region{};
    region.region = 1;
    region.address = 0x552000000000;
    region.limit_bytes = kMiB;
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(volume->add_region(region));
  }
  expect_refused(Code::kCorrupt, "holds an impossible region (number 1)");
}

TEST_P(VolumeTest, AMediumTooSmallForASuperblockIsForeign) {
  expect_failure(region::Volume::open(value_or_throw(media::open_medium(uri(), {})).medium),
                 Code::kForeign, "is not a Perdura store");
}

TEST_P(VolumeTest, AMediumThatCannotBeReadIsNotTakenForAnything) {
  media::FaultPlan faults;
  const auto expect_unread = [&](u64 size, std::byte content, u64 reads) {
    write_file(path(), FileBytes(size, content));
    for (u64 nth = 1; nth <= reads; ++nth) {
      faults.arm({.calls = media::kFaultRead, .nth = nth});
      try {
        WrappedStore store(uri(), small(), [&](std::unique_ptr<media::Medium> inner) {
          return faults.wrap(std::move(inner));
        });
        ADD_FAILURE() << "was opened";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kIo) << error.what();
        EXPECT_NE(std::string(error.what()).find("cannot read"), std::string::npos);
      }
      EXPECT_EQ(read_file(path()), FileBytes(size, content));
    }
  };
  expect_unread(format::kDataBegin, std::byte{0}, 1);
  expect_unread(format::kSuperblockBytes, std::byte{1}, 2);
  expect_unread(2 * format::kDataBegin, std::byte{1}, 1);
}

// What a creation that was cut short cannot have left is somebody's.
TEST_P(VolumeTest, OnlyWhatACreationLeavesIsMadeAStore) {
  FileBytes foreign(format::kDataBegin);
  foreign[format::kDirectoryOffset[1] + 2 * kPageBytes] = std::byte{1};
  write_file(path(), foreign);
  expect_refused(Code::kForeign, "is not a Perdura store");
  EXPECT_EQ(read_file(path()), foreign);

  // The first superblock, whole, but without the directory that it names.
  std::filesystem::remove(path());
  const FileBytes image = closed_store();
  using Change = void (*)(Superblock&);
  const Change changes[] = {[](Superblock& s) { s.directory_slot = 2; },
                            [](Superblock& s) { s.directory_bytes = 2 * kMiB; },
                            [](Superblock& s) { s.directory_slot = 1; }};
  for (const Change change : changes) {
    const FileBytes changed = with_superblocks(image, change);
    FileBytes begun(format::kDataBegin);
    const u64 superblock = format::kSuperblockOffset[1];
    std::copy_n(&changed[superblock], format::kSuperblockBytes, &begun[superblock]);
    write_file(path(), begun);
    WrappedStore store(uri(), small());
    EXPECT_EQ(store.durable_version(), 1u);
    store.close();
  }
}

// Neither formatted anew, nor taken for whole.
TEST_P(VolumeTest, AHeapWithoutAVersionIsRefused) {
  write_file(path(), with_superblocks(closed_store(), [](Superblock& s) {
               s.uuid[0] ^= 1;  // the log is another store's
               s.regions[0].replayed_version = 0;
             }));
  try {
    WrappedStore store(uri(), small());
    ADD_FAILURE() << "was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kCorrupt) << error.what();
    EXPECT_NE(std::string(error.what()).find("holds a heap"), std::string::npos) << error.what();
  }
}

TEST_P(VolumeTest, AMachineOfTheOtherByteOrderIsNamed) {
  FileBytes image = with_superblocks(closed_store(), [](Superblock& s) {
    std::memcpy(s.architecture, "s390x-be-64\0\0\0\0", 16);
  });
  for (u64 offset : format::kSuperblockOffset) {
    std::byte* const sum = image.data() + offset + offsetof(Superblock, checksum);
    std::reverse(sum, sum + sizeof(u64));
  }
  write_file(path(), image);
  expect_refused(Code::kIncompatible, "was written on the architecture 's390x-be-64'");
}

TEST_P(VolumeTest, CountersAtTheirEndAreRefused) {
  const FileBytes image = closed_store();
  using Change = void (*)(Superblock&);
  const Change changes[] = {[](Superblock& s) { s.sequence = ~u64{0}; },
                            [](Superblock& s) { s.session = format::kCounterMax + 1; },
                            [](Superblock& s) { s.regions[0].live_generation = ~u64{0}; },
                            [](Superblock& s) { s.regions[0].replayed_version = ~u64{0}; }};
  for (const Change change : changes) {
    write_file(path(), with_superblocks(image, change));
    expect_refused(Code::kCorrupt, "holds impossible counters");
  }
}

// Tickets have 32 bits for the session, which blocks name in full beside them.
TEST_P(VolumeTest, SessionsGoOnBeyondTheirPartOfATicket) {
  constexpr u64 kLast = (u64{1} << 32) - 1;
  write_file(path(),
             with_superblocks(closed_store(), [](Superblock& s) { s.session = kLast - 3; }));
  u64* word = nullptr;
  for (u64 session = 0; session < 8; ++session) {
    WrappedStore store(uri(), small());
    EXPECT_EQ(store.runtime().volume().superblock().session, kLast - 2 + session);
    if (session == 0) {
      const auto operation = store.operation();
      word = static_cast<u64*>(operation.allocate(sizeof *word));
      *word = 0;
      operation.set_root("word", word);
    }
    word = static_cast<u64*>(store.get_root("word"));
    ASSERT_EQ(*word, session);
    {
      const auto operation = store.operation();
      operation.touch(word, sizeof *word);
      ++*word;
    }
    store.checkpoint();
    store.crash();  // the version is in the log
  }
}

// A crash during creation leaves a store that opens: as a new one until its first version is
// durable, and in any case without a version lost that was acknowledged.
TEST_P(VolumeTest, CreationCutShortAnywhereOpens) {
  media::Recording recording;
  {
    WrappedStore store(uri(), small(), [&](std::unique_ptr<media::Medium> inner) {
      return recording.wrap(std::move(inner));
    });
    store.crash();
  }
  const media::History history = recording.history();
  std::mt19937_64 random(3);
  for (size_t end = 0; end <= history.calls().size(); ++end) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      // None, all, or a random half of what no barrier covers.
      write_file(path(), history.after_crash(end, [&](size_t, u64) {
        return attempt == 0 ? false : attempt == 1 ? true : random() % 2 == 0;
      }));
      try {
        WrappedStore store(uri(), small());
        EXPECT_GE(store.durable_version(), 1u);
        EXPECT_TRUE(store.audit().clean);
        store.close();
        EXPECT_EQ(home_problems(store.runtime().volume()), std::vector<std::string>());
      } catch (const Error& error) {
        FAIL() << "after " << end << " of " << history.calls().size() << " calls, attempt "
               << attempt << ": " << error.what();
      }
    }
  }
}

// --- space ---------------------------------------------------------------------------------------

std::vector<std::pair<u64, u64>> places(const region::Volume& volume) {
  std::vector<std::pair<u64, u64>> all;
  for (const auto kind : {format::ExtentKind::kLog, format::ExtentKind::kHome})
    for (const format::Extent& extent : volume.extents(kind))
      all.emplace_back(extent.medium_offset, extent.length);
  return all;
}

TEST_P(VolumeTest, SpaceThatWasGivenBackIsUsedAgain) {
  auto volume = open_volume(uri());
  ASSERT_TRUE(volume->add_region(region_record()));
  const u64 segment = volume->superblock().segment_bytes;
  const u64 begin = value_or_throw(volume->allocate_log(1, 4 * segment)).medium_offset;
  value_or_throw(volume->release_log(begin + segment, 2 * segment));
  EXPECT_EQ(value_or_throw(volume->allocate_home(1, 0, kPageBytes)).medium_offset, begin + segment);
  const u64 behind = begin + segment + 2 * kPageBytes;  // the page and its table
  EXPECT_EQ(value_or_throw(volume->allocate_log(1, segment)).medium_offset, behind);
  value_or_throw(volume->release_log(begin, segment));
  value_or_throw(volume->release_log(begin + 3 * segment, segment));
  const auto expected = places(*volume);
  EXPECT_EQ(expected,
            (std::vector<std::pair<u64, u64>>{{behind, segment}, {begin + segment, kPageBytes}}));
  volume.reset();
  EXPECT_EQ(places(*open_volume(uri())), expected);
}

// The directory names an extent before the region maps it. When that fails the extent is used by
// the next attempt, whatever that asks for: a second home for the same part would be damage.
TEST_P(VolumeTest, AFailedMappingLeavesNoSecondHome) {
  WrappedStore store(uri(), small());
  store.operation();
  for (const size_t size : {300 * kKiB, 2 * kMiB, size_t{100}, 4 * kMiB}) {
    const CallFault no_map{.call = Call::kMap, .nth = 1, .error = ENOMEM, .for_ever = true};
    arm_calls(&no_map);
    try {
      const InLibrary here;
      for (;;) store.operation().allocate(size);
    } catch (const Error&) {
    }
    EXPECT_GT(calls_failed(), 0u);
    disarm_calls();
  }
  store.operation().allocate(kMiB);
  store.close();
  const HeapAudit audit = store.audit();
  store.crash();
  WrappedStore again(uri(), small());
  EXPECT_TRUE(again.audit().clean) << again.audit().problem;
  EXPECT_EQ(again.audit().live_bytes, audit.live_bytes);
  again.close();
  EXPECT_EQ(home_problems(again.runtime().volume()), std::vector<std::string>());
}

TEST_P(VolumeTest, AFullDirectoryIsAnError) {
  auto volume = open_volume(uri());
  format::RegionRecord record = region_record();
  record.limit_bytes = kGiB;
  ASSERT_TRUE(volume->add_region(record));
  u64 made = 0;
  for (;; ++made) {
    const auto extent = volume->allocate_home(1, made * kPageBytes, kPageBytes);
    if (extent) continue;
    EXPECT_EQ(extent.failure().code, Code::kNoSpace);
    EXPECT_NE(extent.failure().message.find("the directory of"), std::string::npos);
    break;
  }
  EXPECT_GE(made, 2000u);
  const auto before = places(*volume);
  EXPECT_EQ(before.size(), made);
  volume.reset();
  EXPECT_EQ(places(*open_volume(uri())), before);
}

TEST_P(VolumeTest, RegionsAreKeptApart) {
  {
    const auto volume = open_volume(uri());
    for (u32 number : {1, 2}) ASSERT_TRUE(volume->add_region(region_record(number)));
    const auto first = value_or_throw(volume->allocate_home(1, 0, kPageBytes));
    const auto second = value_or_throw(volume->allocate_home(2, 0, kPageBytes));
    EXPECT_NE(first.medium_offset, second.medium_offset);
    EXPECT_EQ(value_or_throw(volume->allocate_home(2, 0, kPageBytes)).medium_offset,
              second.medium_offset)
        << "space it has is not taken again";
    ASSERT_TRUE(volume->set_replayed(2, 7, 3));
    const u64 segment = volume->segment_bytes();
    const auto log = value_or_throw(volume->allocate_log(1, segment));
    EXPECT_EQ(value_or_throw(volume->allocate_log(2, segment)).medium_offset,
              log.medium_offset + segment);
    EXPECT_EQ(volume->extents(format::ExtentKind::kLog).size(), 2u) << "they are not merged";
  }
  const auto volume = open_volume(uri());
  EXPECT_EQ(volume->replayed_version(1), 0u);
  EXPECT_EQ(volume->replayed_version(2), 7u);
  EXPECT_EQ(volume->state(1).live_generation, 0u);
  EXPECT_EQ(volume->state(2).live_generation, 3u);
  EXPECT_EQ(volume->extents(format::ExtentKind::kHome).size(), 2u);
  EXPECT_EQ(volume->extents(format::ExtentKind::kHome, 2).size(), 1u);
}

// The space of what was removed is free, and what comes after it with its number starts anew.
TEST_P(VolumeTest, ARegionThatIsRemovedLeavesNothing) {
  auto volume = open_volume(uri());
  format::RegionRecord chunks = region_record(2);
  chunks.engine = format::EngineId::kRemap;
  chunks.chunk_bytes = kPageBytes;
  chunks.versions_kept = 1;
  ASSERT_TRUE(volume->add_region(region_record(1)));
  ASSERT_TRUE(volume->add_region(chunks));
  const u64 place = value_or_throw(volume->allocate_chunks(chunks, 8 * kPageBytes)).medium_offset;
  ASSERT_TRUE(volume->set_replayed(2, 7, 0));
  EXPECT_NE(volume->superblock().incompatible_features, 0u);
  ASSERT_TRUE(volume->remove_region(2));
  for (int opening = 0; opening < 2; ++opening) {
    EXPECT_EQ(volume->regions().size(), 1u);
    EXPECT_EQ(places(*volume).size(), 0u);
    EXPECT_EQ(volume->superblock().incompatible_features, 0u);
    volume.reset();
    volume = open_volume(uri());
  }
  ASSERT_TRUE(volume->add_region(region_record(2)));
  EXPECT_EQ(volume->replayed_version(2), 0u);
  EXPECT_LE(value_or_throw(volume->allocate_home(2, 0, kPageBytes)).medium_offset, place);
}

// Whoever only reads changes nothing; the first session makes it one of this version.
TEST_P(VolumeTest, AStoreOfVersion2IsTakenOver) {
  format::RegionRecord chunks = region_record(2);
  chunks.engine = format::EngineId::kRemap;
  chunks.chunk_bytes = kPageBytes;
  chunks.versions_kept = format::kVersionsKeptMax;
  {
    const auto volume = open_volume(uri());
    ASSERT_TRUE(volume->add_region(region_record(1)));
    ASSERT_TRUE(volume->add_region(chunks));
    ASSERT_TRUE(volume->end_session());
  }
  make_earlier_version(*medium_there(), 2);
  const FileBytes old = read_file(path());
  for (const u32 version : {2u, 2u, format::kFormatVersion, format::kFormatVersion}) {
    const bool reads = version == 2;
    const auto volume = value_or_throw(open_there(medium_there(), reads));
    EXPECT_EQ(volume->superblock().format_version, version);
    const std::vector<format::RegionRecord> regions = volume->regions();
    ASSERT_EQ(regions.size(), 2u);
    EXPECT_EQ(regions[0].engine, format::EngineId::kRedoLog);
    EXPECT_EQ(regions[1].engine, format::EngineId::kRemap);
    EXPECT_EQ(regions[1].versions_kept, format::kVersionsKeptMax);
    if (!reads) {
      ASSERT_TRUE(volume->end_session());
    }
    EXPECT_EQ(read_file(path()) == old, reads);
  }
  write_file(path(), old);
  FileBytes forged = with_directory(
      old, [](format::RegionRecord& r, format::Extent*) { r.engine = format::EngineId::kRedoLog; });
  write_file(path(), forged);
  expect_refused(Code::kCorrupt, "holds an impossible region");
}

// It stays what it is where its medium fails, and becomes one of this version at the next try.
TEST_P(VolumeTest, AStoreThatCouldNotBeTakenOverIsTakenOverLater) {
  {
    const auto volume = open_volume(uri());
    ASSERT_TRUE(volume->add_region(region_record(1)));
    ASSERT_TRUE(volume->end_session());
  }
  for (u32 version = format::kFormatVersionMin; version < format::kFormatVersion; ++version) {
    make_earlier_version(*medium_there(), version);
    for (u64 nth = 1;; ++nth) {
      SCOPED_TRACE("version " + std::to_string(version) + ", call " + std::to_string(nth));
      media::FaultPlan faults;
      faults.arm({.calls = media::kFaultWrite | media::kFaultBarrier, .nth = nth});
      if (open_there(faults.wrap(medium_there()), false)) break;
      const auto volume = value_or_throw(open_there(medium_there(), true));
      ASSERT_EQ(volume->regions().size(), 1u);
      EXPECT_EQ(volume->regions()[0].engine, format::EngineId::kRedoLog);
    }
    EXPECT_EQ(open_volume(uri())->superblock().format_version, format::kFormatVersion);
  }
}

TEST_P(VolumeTest, AStoreIsCleanWhenAllSessionsHaveEnded) {
  const auto volume = open_volume(uri());  // one of them
  ASSERT_TRUE(volume->begin_session());
  ASSERT_TRUE(volume->end_session());
  EXPECT_EQ(volume->superblock().clean, 0u);
  ASSERT_TRUE(volume->end_session());
  EXPECT_EQ(volume->superblock().clean, 1u);
}

TEST_P(VolumeTest, ARegionThatCouldNotBeAddedIsAddedLater) {
  media::FaultPlan faults;
  {
    const auto volume = open_volume(
        uri(), [&](std::unique_ptr<media::Medium> inner) { return faults.wrap(std::move(inner)); });
    const format::RegionRecord region = region_record();
    for (u32 i = 0; i < 2 * format::kRegionsMax; ++i) {
      faults.arm({.calls = media::kFaultWrite});
      EXPECT_FALSE(volume->add_region(region));
    }
    faults.disarm();
    ASSERT_TRUE(volume->add_region(region));
  }
  EXPECT_EQ(open_volume(uri())->regions().size(), 1u);
}

// What is in memory goes back to what it was, whichever call of the medium fails.
TEST_P(VolumeTest, AFailedUpdateOfTheDirectoryChangesNothing) {
  media::FaultPlan faults;
  auto volume = open_volume(
      uri(), [&](std::unique_ptr<media::Medium> inner) { return faults.wrap(std::move(inner)); });
  const u64 segment = volume->superblock().segment_bytes;
  ASSERT_TRUE(volume->add_region(region_record()));
  const u64 log = value_or_throw(volume->allocate_log(1, 3 * segment)).medium_offset;
  const std::function<Status()> updates[] = {
      [&] { return volume->add_region(region_record(2)); },
      [&]() -> Status {
        const auto extent = volume->allocate_home(1, 0, kPageBytes);
        return extent ? Status{} : Status(extent.failure());
      },
      [&]() -> Status {
        const auto extent = volume->allocate_log(1, segment);
        return extent ? Status{} : Status(extent.failure());
      },
      [&] { return volume->release_log(log + segment, segment); },
      [&] { return volume->remove_region(1); },
  };
  for (const auto& update : updates) {
    for (u64 nth = 1;; ++nth) {
      SCOPED_TRACE(std::to_string(&update - updates) + ", call " + std::to_string(nth));
      const auto before = places(*volume);
      const size_t regions = volume->regions().size();
      // Not the barrier: after its failure there is no other.
      faults.arm({.calls = media::kFaultWrite | media::kFaultGrow, .nth = nth});
      const Status status = update();
      const bool fired = faults.fired() != 0;
      faults.disarm();
      EXPECT_EQ(static_cast<bool>(status), !fired);
      if (!fired) break;
      EXPECT_EQ(places(*volume), before);
      EXPECT_EQ(volume->regions().size(), regions);
    }
  }
}

// Who tries again after that brings lines home, for which the superblock must say so.
TEST_P(VolumeTest, AVersionThatCouldNotBeConfirmedIsConfirmedLater) {
  for (u64 nth = 1; nth <= 2; ++nth) {
    SCOPED_TRACE(nth);
    std::filesystem::remove(path());
    media::FaultPlan faults;
    {
      const auto volume = open_volume(uri(), [&](std::unique_ptr<media::Medium> inner) {
        return faults.wrap(std::move(inner));
      });
      ASSERT_TRUE(volume->add_region(region_record()));
      faults.arm({.calls = media::kFaultWrite, .nth = nth});
      EXPECT_FALSE(volume->confirm(1, 5));
      EXPECT_EQ(faults.fired(), 1u);
      faults.disarm();
      ASSERT_TRUE(volume->confirm(1, 5));
    }
    EXPECT_EQ(open_volume(uri())->confirmed_version(1), 5u);
  }
}

// Space for chunks that grows where there is no memory: what the directory has is known, or is not
// there.
TEST_P(VolumeTest, SpaceForChunksKnowsWhatTheDirectoryHas) {
  const auto volume = open_volume(uri());
  format::RegionRecord record = region_record();
  record.engine = format::EngineId::kRemap;
  record.chunk_bytes = kPageBytes;
  record.versions_kept = 1;
  ASSERT_TRUE(volume->add_region(record));
  region::ChunkSpace space(*volume, record, 0);
  const auto known = [&] {
    u64 bytes = 0;
    for (const format::Extent& each : volume->extents(format::ExtentKind::kChunks, record.region))
      bytes += each.length;
    return bytes;
  };
  std::set<u64> taken;
  const InLibrary here;
  for (u64 growths = 0, nth = 1; growths < 40;) {
    const u64 before = space.total_bytes();
    const CallFault fault{.nth = nth, .own = true};
    arm_calls(&fault);
    const Result<u64> place = guarded([&] { return space.take_chunk(); });
    disarm_calls();
    if (place) {
      EXPECT_TRUE(taken.insert(*place).second) << *place;
    } else {
      expect_failure(Status(place.failure()), Code::kNoMemory, "");
      ++nth;
    }
    ASSERT_EQ(space.total_bytes(), known());
    ASSERT_EQ(space.free_bytes(), known() - taken.size() * kPageBytes);
    if (space.total_bytes() == before) continue;
    ++growths;
    nth = 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Media, VolumeTest, testing::Values("file", "emu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
