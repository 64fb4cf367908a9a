// Goal: the log gives back exactly the versions that were committed, line by line; of a version
// that is not whole it gives nothing, and of those before it everything; damage to an earlier one
// is an error. Space is used again after its versions are home, and given back above the limit.
// Method: versions of many shapes written on both kinds of media and read back, on the same volume
// and on one opened anew, with blocks left out and with bits flipped.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "base/checksum.hpp"
#include "log/reader.hpp"
#include "support/files.hpp"
#include "support/lazy_medium.hpp"
#include "support/log_volume.hpp"

namespace perdura::test {
namespace {

using log::LoggedVersion;
using log::Space;
using log::VersionWriter;

constexpr u32 kRegion = 1;

class LogTest : public testing::TestWithParam<const char*> {
 protected:
  LogTest() { open(64 * kMiB); }

  void open(u64 limit_bytes) {
    log_.reset();
    volume_.reset();
    volume_ = open_volume(GetParam() + (":" + folder_.path("log.pd")), make_lazy);
    if (volume_->regions().empty()) value_or_throw(volume_->add_region(region_record()));
    log_ = std::make_unique<log::Space>(*volume_, kRegion, limit_bytes);
  }

  /// Lines with random bytes, in runs of up to `run_max`, over a region of 64 MiB.
  Lines random_lines(u64 count, u64 run_max = 3) {
    Lines lines;
    while (lines.size() < count) {
      u64 line = random_() % kMiB;
      for (u64 i = 1 + random_() % run_max; i != 0 && lines.size() < count; --i)
        for (u64& word : lines[line++]) word = random_();
    }
    return lines;
  }
  Lines random_pages(u64 first, u64 count) {
    Lines lines;
    for (u64 i = 0; i < count * kLinesPerPage; ++i)
      for (u64& word : lines[first * kLinesPerPage + i]) word = random_();
    return lines;
  }

  enum Fate { kCommitted, kWithoutCommit, kAbandoned };
  /// Write a version: each part by a writer of its own, all at once.
  void write(u64 number, const std::vector<Lines>& parts, Fate fate = kCommitted);

  /// What a recovery finds.
  std::map<u64, Lines> read(u64 replayed = 0);
  Code read_failure() {
    log::Space log(*volume_, kRegion, 64 * kMiB);
    const auto recovered = log::read(*volume_, kRegion, 0, log);
    return recovered ? Code::kOk : recovered.failure().code;
  }
  void flip(u64 offset) {
    const u64 unit = volume_->medium().geometry().write_bytes;
    AlignedBuffer bytes(unit);
    const u64 begin = round_down(offset, unit);
    ASSERT_TRUE(volume_->medium().read(begin, bytes.first(unit)));
    bytes.data()[offset - begin] ^= std::byte{0x10};
    ASSERT_TRUE(volume_->medium().write(begin, bytes.first(unit), PERDURA_SITE("test")));
  }

  const TempDir folder_{TempDir::kMemory};
  std::unique_ptr<region::Volume> volume_;
  std::unique_ptr<log::Space> log_;
  std::vector<log::BlockRef> blocks_;  ///< of the version written last
  u64 tickets_ = 0;
  std::mt19937_64 random_{1};
};

void LogTest::write(u64 number, const std::vector<Lines>& parts, Fate fate) {
  log::VersionInProgress version;
  version.number = number;
  version.ticket = ++tickets_;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < parts.size(); ++i)
    threads.emplace_back([&, i] {
      VersionWriter writer(*log_, *volume_, kRegion);
      writer.begin(version);
      write_lines(writer, parts[i]);
      ASSERT_TRUE(writer.finish());
    });
  for (std::thread& thread : threads) thread.join();
  VersionWriter writer(*log_, *volume_, kRegion);
  writer.begin(version);
  if (!parts.empty()) write_lines(writer, parts[0]);
  if (fate == kCommitted) {
    ASSERT_TRUE(writer.finish_with_commit());
  } else {
    ASSERT_TRUE(writer.finish());
  }
  if (fate == kAbandoned) writer.abandon();
  ASSERT_TRUE(volume_->medium().barrier(PERDURA_SITE("test")));
  u64 lines = 0;
  for (const Lines& part : parts) lines += part.size();
  ASSERT_EQ(version.line_count, lines);
  blocks_ = version.blocks;
}

std::map<u64, Lines> LogTest::read(u64 replayed) {
  log::Space log(*volume_, kRegion, 64 * kMiB);
  const auto recovered = value_or_throw(log::read(*volume_, kRegion, replayed, log));
  std::map<u64, Lines> versions;
  for (const LoggedVersion& version : recovered.versions) {
    Lines& lines = versions[version.number];
    u64 bytes = 0;
    for (const log::BlockRef& block : version.blocks) {
      EXPECT_TRUE(
          log::block_fits(volume_->medium(), block.offset, recovered.image->at(block.offset)));
      EXPECT_FALSE(add_lines(recovered.image->at(block.offset), block, lines));
      bytes += block.block_bytes;
    }
    EXPECT_EQ(version.log_bytes, bytes);
  }
  return versions;
}

Lines merged(const std::vector<Lines>& parts) {
  Lines all;
  for (const Lines& part : parts) all.insert(part.begin(), part.end());
  return all;
}

TEST_P(LogTest, VersionsOfManyShapesAreReadBack) {
  const std::vector<std::vector<Lines>> shapes{
      {},
      {random_lines(1)},
      {random_lines(63)},
      {random_lines(64)},
      {random_lines(65)},
      {random_pages(7, 1)},
      {random_lines(7000)},
      {random_pages(100, 500)},
      {random_lines(3000, 500)},
      {{}},
      {random_pages(0, 1), random_pages(1, 100), random_pages(200, 3)},
  };
  std::map<u64, Lines> expected;
  for (const auto& shape : shapes) {
    const u64 number = expected.size() + 1;
    ASSERT_NO_FATAL_FAILURE(write(number, shape)) << number;
    expected[number] = merged(shape);
    ASSERT_EQ(read(), expected) << number;
  }
  EXPECT_EQ(read(4).size(), shapes.size() - 4);
  EXPECT_EQ(read(shapes.size()).size(), 0u);
  open(64 * kMiB);
  EXPECT_EQ(read(), expected);
}

TEST_P(LogTest, SeveralWritersAtOnce) {
  std::map<u64, Lines> expected;
  for (u64 number = 1; number <= 5; ++number) {
    std::vector<Lines> parts;
    for (u64 i = 0; i < 4; ++i) {
      Lines part;
      for (const auto& [line, bytes] : random_lines(3000)) part[line * 4 + i] = bytes;
      parts.push_back(std::move(part));
    }
    ASSERT_NO_FATAL_FAILURE(write(number, parts));
    expected[number] = merged(parts);
  }
  ASSERT_EQ(read(), expected);
}

TEST_P(LogTest, WithoutItsCommitBlockAVersionNeverWas) {
  const Lines first = random_lines(100);
  write(1, {first});
  write(2, {random_lines(5000), random_lines(200)}, kWithoutCommit);
  const std::map<u64, Lines> expected{{1, first}};
  EXPECT_EQ(read(), expected);
  open(64 * kMiB);
  EXPECT_EQ(read(), expected);
}

// The same number is tried again: only the blocks of the attempt that was committed count.
TEST_P(LogTest, AnotherAttemptReplacesAFailedOne) {
  std::map<u64, Lines> expected;
  for (u64 number = 1; number <= 4; ++number) {
    write(number, {random_lines(300), random_lines(6000)}, kAbandoned);
    expected[number] = random_lines(500);
    write(number, {expected[number]});
  }
  EXPECT_EQ(read(), expected);
}

TEST_P(LogTest, AFlippedBitTakesTheNewestVersionAndNoOther) {
  std::map<u64, Lines> expected;
  for (u64 number = 1; number <= 3; ++number) {
    expected[number] = random_lines(5000);
    write(number, {expected[number], {}});
  }
  std::vector<Lines> parts{random_lines(9000, 1)};
  write(4, parts);
  ASSERT_GT(blocks_.size(), 2u);
  for (const log::BlockRef& block : blocks_) {
    const u64 used = sizeof(format::LogBlockHeader) + block.data_bytes + block.run_count * 8;
    std::vector<u64> places{0, 8, 16, 24, 127, 128, used - 1, 128 + block.data_bytes};
    for (int i = 0; i < 20; ++i) places.push_back(random_() % used);
    for (u64 place : places) {
      flip(block.offset + place);
      ASSERT_EQ(read(), expected) << "byte " << place << " of " << used;
      flip(block.offset + place);
    }
  }
  expected[4] = parts[0];
  EXPECT_EQ(read(), expected);
}

// Sums that fit prove nothing about who wrote them.
TEST_P(LogTest, ABlockWithMoreLinesInItsRunsThanInItsDataIsNotWhole) {
  write(1, {random_lines(10)});
  ASSERT_EQ(blocks_.size(), 1u);
  const log::BlockRef block = blocks_.front();
  AlignedBuffer bytes(block.block_bytes);
  ASSERT_TRUE(volume_->medium().read(block.offset, bytes.first(block.block_bytes)));
  ASSERT_TRUE(log::block_fits(volume_->medium(), block.offset, bytes.data()));
  const u64 runs_at = sizeof(format::LogBlockHeader) + block.data_bytes;
  std::vector<u64> runs(block.run_count);
  std::memcpy(runs.data(), bytes.data() + runs_at, runs.size() * sizeof(u64));
  runs.back() += u64{1} << format::kRunCountShift;
  std::memcpy(bytes.data() + runs_at, runs.data(), runs.size() * sizeof(u64));
  auto* const header = reinterpret_cast<format::LogBlockHeader*>(bytes.data());
  header->runs_checksum = checksum(runs.data(), runs.size() * sizeof(u64));
  header->checksum = log::header_checksum(*header);
  ASSERT_TRUE(
      volume_->medium().write(block.offset, bytes.first(block.block_bytes), PERDURA_SITE("test")));
  EXPECT_FALSE(log::block_fits(volume_->medium(), block.offset, bytes.data()));
  EXPECT_TRUE(read().empty());
}

// The same of what a reader would follow beyond the block.
TEST_P(LogTest, AHeaderThatCannotBeFollowedIsNoBlock) {
  write(1, {random_lines(100)});
  const log::BlockRef block = blocks_.front();
  AlignedBuffer bytes(block.block_bytes);
  ASSERT_TRUE(volume_->medium().read(block.offset, bytes.first(block.block_bytes)));
  const auto whole = *reinterpret_cast<const format::LogBlockHeader*>(bytes.data());
  using format::LogBlockHeader;
  using Change = void (*)(LogBlockHeader&);
  const Change changes[] = {
      [](LogBlockHeader& h) { h.version = format::kCounterMax + 1; },
      [](LogBlockHeader& h) { h.generation = format::kCounterMax + 1; },
      [](LogBlockHeader& h) { h.generation = 0; },
      [](LogBlockHeader& h) { h.block_bytes = 2 * format::kSegmentBytesMax; },
      [](LogBlockHeader& h) { h.block_bytes -= 8; },
      [](LogBlockHeader& h) { h.data_bytes -= 8; },
      [](LogBlockHeader& h) { h.data_bytes = h.block_bytes; },
      [](LogBlockHeader& h) { h.run_count = ~u32{0}; },
      [](LogBlockHeader& h) { h.place += kLineBytes; },
  };
  for (const Change change : changes) {
    SCOPED_TRACE(&change - changes);
    LogBlockHeader header = whole;
    change(header);
    header.checksum = log::header_checksum(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    ASSERT_TRUE(volume_->medium().write(block.offset, bytes.first(block.block_bytes),
                                        PERDURA_SITE("test")));
    EXPECT_TRUE(read().empty());
  }
}

// The 32 bits of a session for its attempts run into those of the session behind it: a ticket may
// be given twice. The session itself tells whose a block is.
TEST_P(LogTest, OneTicketOfTwoSessionsIsTwoAttempts) {
  constexpr u64 kTicket = u64{2} << 32;
  const auto attempt = [&](log::Space& space, const Lines& lines, bool commits) {
    log::VersionInProgress version;
    version.number = 1;
    version.ticket = kTicket;
    VersionWriter writer(space, *volume_, kRegion);
    writer.begin(version);
    write_lines(writer, lines);
    ASSERT_TRUE(commits ? writer.finish_with_commit() : writer.finish());
    ASSERT_TRUE(volume_->medium().barrier(PERDURA_SITE("test")));
  };
  attempt(*log_, random_lines(100), false);
  ASSERT_TRUE(volume_->begin_session());
  log::Space next(*volume_, kRegion, 64 * kMiB);
  EXPECT_TRUE(value_or_throw(log::read(*volume_, kRegion, 0, next)).versions.empty());
  const Lines lines = random_lines(100);
  attempt(next, lines, true);
  const std::map<u64, Lines> expected{{1, lines}};
  EXPECT_TRUE(read() == expected);
}

// A segment that begins with zeros may still hold versions.
TEST_P(LogTest, ALostPageAtTheHeadOfASegmentHidesNoOther) {
  VersionWriter writer(*log_, *volume_, kRegion);
  log::BlockRef blocks[2];
  for (u64 i = 0; i < 2; ++i) {
    log::VersionInProgress version;
    version.number = version.ticket = i + 1;
    writer.begin(version);
    write_lines(writer, random_lines(10));
    ASSERT_TRUE(writer.finish_with_commit());
    ASSERT_TRUE(volume_->medium().barrier(PERDURA_SITE("test")));
    ASSERT_EQ(version.blocks.size(), 1u);
    blocks[i] = version.blocks.front();
  }
  const auto [first, second] = blocks;
  ASSERT_EQ(second.offset, first.offset + first.block_bytes);
  EXPECT_EQ(read().size(), 2u);
  AlignedBuffer zeros(first.block_bytes);
  std::memset(zeros.data(), 0, zeros.size());
  ASSERT_TRUE(
      volume_->medium().write(first.offset, zeros.first(first.block_bytes), PERDURA_SITE("test")));
  EXPECT_EQ(read_failure(), Code::kCorrupt);
}

TEST_P(LogTest, DamageToAnEarlierVersionIsAnError) {
  write(1, {random_lines(5000)});
  write(2, {random_lines(10)});
  const auto damaged = blocks_;
  write(3, {random_lines(10)});
  for (const log::BlockRef& block : damaged) {
    for (u64 place : {u64{0}, u64{48}, u64{128}, u64{128} + block.data_bytes}) {
      flip(block.offset + place);
      EXPECT_EQ(read_failure(), Code::kCorrupt) << place;
      flip(block.offset + place);
    }
  }
  EXPECT_EQ(read_failure(), Code::kOk);
}

TEST_P(LogTest, SegmentsAreUsedAgainOnceTheirVersionsAreHome) {
  Lines newest;
  u64 capacity = 0;
  for (u64 number = 1; number <= 60; ++number) {
    newest = random_lines(6000);
    ASSERT_NO_FATAL_FAILURE(write(number, {newest}));
    if (number == 10) capacity = log_->capacity_bytes();
    if (number < 3) continue;
    // Two versions stay in the log.
    const u64 home = number - 2;
    ASSERT_TRUE(volume_->set_replayed(kRegion, home, log_->live_generation_after(home)));
    log_->retire(home);
    const auto held = read(home);
    ASSERT_EQ(held.size(), 2u) << number;
    ASSERT_EQ(held.at(number), newest);
  }
  EXPECT_EQ(log_->capacity_bytes(), capacity) << "grew though segments were free";
  open(64 * kMiB);
  const auto held = read(58);
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held.at(60), newest);
}

// Recovery takes over segments that are in use: new versions do not overwrite them.
TEST_P(LogTest, WritingGoesOnAfterRecovery) {
  std::map<u64, Lines> expected;
  for (u64 number = 1; number <= 12; ++number) {
    if (number % 3 == 0) {
      open(64 * kMiB);
      const auto recovered = log::read(*volume_, kRegion, 0, *log_);
      ASSERT_TRUE(recovered);
      ASSERT_EQ(recovered->versions.size(), number - 1);
    }
    expected[number] = random_lines(4000);
    ASSERT_NO_FATAL_FAILURE(write(number, {expected[number]}));
  }
  EXPECT_EQ(read(), expected);
}

TEST_P(LogTest, SpaceAboveTheLimitIsGivenBack) {
  constexpr u64 kLimit = 2 * kMiB;
  open(kLimit);
  const auto on_medium = [&] {
    u64 bytes = 0;
    for (const format::Extent& extent : volume_->extents(format::ExtentKind::kLog))
      bytes += extent.length;
    return bytes;
  };
  for (u64 number = 1; number <= 6; ++number) {
    // Larger than the limit, then smaller.
    const Lines lines = number % 2 == 1 ? random_pages(0, 3000) : random_lines(100);
    ASSERT_NO_FATAL_FAILURE(write(number, {lines}));
    EXPECT_EQ(on_medium(), log_->capacity_bytes());
    EXPECT_EQ(log_->over_limit(), number % 2 == 1);
    ASSERT_EQ(read(number - 1).at(number), lines);
    ASSERT_TRUE(volume_->set_replayed(kRegion, number, log_->live_generation_after(number)));
    log_->retire(number);
    EXPECT_LE(log_->capacity_bytes(), kLimit);
    EXPECT_EQ(on_medium(), log_->capacity_bytes());
    EXPECT_TRUE(read(number).empty());
  }
}

TEST_P(LogTest, BlocksInFlightAreWholeWhenTheirWriterIsGone) {
  log::VersionInProgress version;
  version.number = 1;
  {
    VersionWriter writer(*log_, *volume_, kRegion);
    writer.begin(version);
    write_lines(writer, random_lines(10'000));
  }
  ASSERT_GT(version.blocks.size(), 1u);
  for (const log::BlockRef& block : version.blocks) {
    AlignedBuffer bytes(block.block_bytes);
    ASSERT_TRUE(volume_->medium().read(block.offset, bytes.first(block.block_bytes)));
    EXPECT_TRUE(log::block_fits(volume_->medium(), block.offset, bytes.data()));
  }
  EXPECT_TRUE(read().empty());
}

INSTANTIATE_TEST_SUITE_P(Media, LogTest, testing::Values("emu", "file"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
