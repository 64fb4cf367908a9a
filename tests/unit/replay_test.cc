// Goal: after a replay the home image is what the versions say, page checksums included, on both
// kinds of media; replaying again changes nothing; a page that was damaged at home is
// mended where it is replaced as a whole; else it gets no checksum that fits, now or ever.
// Method: versions with overlapping lines over several extents, written to a log and replayed; a
// model of the home image beside them; the checksums of the result.
#include <gtest/gtest.h>

#include <random>

#include "commit/replay.hpp"
#include "log/reader.hpp"
#include "media/fault.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/lazy_medium.hpp"
#include "support/log_volume.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using log::LoggedVersion;

class ReplayTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr u64 kLimit = 64 * kMiB;

  // Backed are [0, 5 MiB), [5 MiB, 6 MiB) and [32 MiB, 33 MiB): three extents, one of them larger
  // than what a page of the checksum table covers.
  ReplayTest()
      : volume_(open_volume(GetParam() + (":" + folder_.path("home.pd")),
                            [this](std::unique_ptr<media::Medium> inner) {
                              return faults_.wrap(make_lazy(std::move(inner)));
                            })) {
    region_ = add_region(*volume_, kLimit);
    value_or_throw(region_->back(0, 5 * kMiB));
    value_or_throw(region_->back(5 * kMiB, kMiB));
    value_or_throw(region_->back(32 * kMiB, kMiB));
    log_ = std::make_unique<log::Space>(*volume_, 1, kLimit);
  }

  u64 random_page() {
    const u64 page = random_() % (7 * kMiB / kPageBytes);
    return page < 6 * kMiB / kPageBytes ? page : page + 26 * kMiB / kPageBytes;
  }
  /// Lines here and there, runs over page borders, whole pages, and the ends of the extents.
  Lines random_lines(u64 count) {
    Lines lines;
    const auto add = [&](u64 line) {
      for (u64& word : lines[line]) word = random_() % 8 == 0 ? 0 : random_();
    };
    for (u64 i = 0; i < count; ++i) add(random_page() * kLinesPerPage + random_() % kLinesPerPage);
    for (u64 i = 0; i < count / 50; ++i) {
      const u64 page = random_() % (4 * kMiB / kPageBytes);
      for (u64 j = 0; j < 100; ++j) add(page * kLinesPerPage + 50 + j);
    }
    for (u64 i = 0; i < count / 50; ++i) {
      const u64 page = random_page();
      for (u64 j = 0; j < kLinesPerPage; ++j) add(page * kLinesPerPage + j);
    }
    for (u64 end : {5 * kMiB, 6 * kMiB, 33 * kMiB}) add(end / kLineBytes - 1);
    add(0);
    add(32 * kMiB / kLineBytes);
    return lines;
  }

  LoggedVersion log_version(u64 number, const Lines& lines) {
    log::VersionInProgress version;
    version.number = number;
    version.ticket = number;
    log::VersionWriter writer(*log_, *volume_, 1);
    writer.begin(version);
    write_lines(writer, lines);
    value_or_throw(writer.finish_with_commit());
    value_or_throw(volume_->medium().barrier(PERDURA_SITE("test")));
    for (const auto& [line, bytes] : lines) model_[line] = bytes;
    return {number, version.log_bytes, std::move(version.blocks)};
  }
  std::vector<LoggedVersion> log_versions(u64 count, u64 lines) {
    std::vector<LoggedVersion> versions;
    for (u64 i = 0; i < count; ++i)
      versions.push_back(log_version(next_version_++, random_lines(lines)));
    return versions;
  }

  Status replay(std::span<const LoggedVersion> versions, bool after_crash = false) {
    commit::Replay replay(*volume_, region_->limit());
    Status status = replay.run(region_->home(), versions, after_crash);
    if (status) {
      EXPECT_GT(replay.home_bytes(), 0u);
    }
    return status;
  }

  void expect_home_is_model() {
    EXPECT_EQ(home_problems(*volume_), std::vector<std::string>());
    AlignedBuffer bytes(kMiB);
    u64 held = 0;
    for (const format::Extent& extent : region_->home()->extents())
      for (u64 at = 0; at < extent.length; at += kMiB) {
        ASSERT_TRUE(volume_->medium().read(extent.medium_offset + at, bytes.span()));
        const u64 first = (extent.region_offset + at) / kLineBytes;
        for (u64 i = 0; i < kMiB / kLineBytes; ++i) {
          const auto found = model_.find(first + i);
          const Line expected = found != model_.end() ? found->second : Line{};
          held += found != model_.end();
          ASSERT_EQ(std::memcmp(bytes.data() + i * kLineBytes, &expected, kLineBytes), 0)
              << "line " << first + i;
        }
      }
    EXPECT_EQ(held, model_.size());
  }

  u64 sum_place_of(u64 page) const {
    const auto home = region_->home();
    const format::Extent* extent = home->find(page * kPageBytes);
    return region::HomeMap::checksum_place(*extent, page * kPageBytes);
  }
  u64 place_of(u64 page) const {
    const auto home = region_->home();
    const format::Extent* extent = home->find(page * kPageBytes);
    return region::HomeMap::page_place(*extent, page * kPageBytes);
  }
  void flip_home(u64 page, u64 byte) {
    AlignedBuffer bytes(kPageBytes);
    ASSERT_TRUE(volume_->medium().read(place_of(page), bytes.span()));
    bytes.data()[byte] ^= std::byte{1};
    ASSERT_TRUE(volume_->medium().write(place_of(page), bytes.span(), PERDURA_SITE("test")));
  }
  bool on_nvm() const { return volume_->medium().geometry().byte_addressable; }

  const TempDir folder_{TempDir::kMemory};
  media::FaultPlan faults_;
  std::unique_ptr<region::Volume> volume_;
  std::unique_ptr<region::Region> region_;
  std::unique_ptr<log::Space> log_;
  Lines model_;
  u64 next_version_ = 1;
  std::mt19937_64 random_{1};
};

// Sums are written a line at a time; the line of one extent says nothing about the next extent.
TEST_P(ReplayTest, SmallExtentsSideBySideKeepTheirSums) {
  constexpr u64 kBegin = 40 * kMiB;
  for (u64 page = 0; page < 6; ++page)
    ASSERT_TRUE(region_->back(kBegin + page * kPageBytes, kPageBytes));
  Lines lines;
  for (u64 page = 0; page < 6; ++page)
    lines[(kBegin + page * kPageBytes) / kLineBytes] = {page + 1};
  const LoggedVersion version = log_version(next_version_++, lines);
  for (const bool after_crash : {true, false, true}) {
    ASSERT_TRUE(replay({&version, 1}, after_crash));
    EXPECT_EQ(home_problems(*volume_), std::vector<std::string>());
  }
}

TEST_P(ReplayTest, TheHomeImageIsWhatTheVersionsSay) {
  expect_home_is_model();
  for (u64 lines : {u64{0}, u64{100}, u64{20'000}, u64{1}, u64{3000}}) {
    const auto versions = log_versions(4, lines);
    ASSERT_TRUE(replay(versions));
    SCOPED_TRACE(lines);
    ASSERT_NO_FATAL_FAILURE(expect_home_is_model());
  }
}

TEST_P(ReplayTest, ReplayingAgainChangesNothing) {
  ASSERT_TRUE(replay(log_versions(3, 2000)));
  const auto versions = log_versions(5, 2000);
  for (bool after_crash : {false, true, true}) {
    ASSERT_TRUE(replay(versions, after_crash));
    ASSERT_NO_FATAL_FAILURE(expect_home_is_model());
  }
}

// A crash leaves some lines and some sums of the newest versions at home; the log repairs it.
TEST_P(ReplayTest, AHalfReplayedHomeIsMadeWhole) {
  ASSERT_TRUE(replay(log_versions(3, 2000)));
  for (int round = 0; round < 5; ++round) {
    const auto versions = log_versions(3, 2000);
    // Pages of the versions get random lines of theirs, without the sums.
    u64 torn = 0;
    for (const auto& [line, bytes] : model_) {
      if (random_() % 16 != 0) continue;
      AlignedBuffer page(kPageBytes);
      const u64 place = place_of(line / kLinesPerPage);
      ASSERT_TRUE(volume_->medium().read(place, page.span()));
      std::memcpy(page.data() + line % kLinesPerPage * kLineBytes, &bytes, kLineBytes);
      ASSERT_TRUE(volume_->medium().write(place, page.span(), PERDURA_SITE("test")));
      ++torn;
    }
    ASSERT_GT(torn, 0u);
    ASSERT_FALSE(home_problems(*volume_).empty());
    ASSERT_TRUE(replay(versions, true));
    ASSERT_NO_FATAL_FAILURE(expect_home_is_model()) << round;
  }
}

// Writes may be in flight when a call fails: they end with the data that they began with, and the
// next replay mends what is half home.
TEST_P(ReplayTest, AReplayThatFailedAnywhereIsMadeWholeByTheNext) {
  ASSERT_TRUE(replay(log_versions(3, 2000)));
  bool failed = true;
  for (u64 nth = 1; failed; nth += nth < 10 ? 1 : 1 + nth / 2) {
    const auto versions = log_versions(2, 300);
    faults_.arm({.nth = nth, .kind = media::FaultKind::kIo});
    failed = !replay(versions);
    faults_.disarm();
    ASSERT_TRUE(replay(versions, true));
    ASSERT_NO_FATAL_FAILURE(expect_home_is_model()) << "call " << nth;
  }
}

// What the log found on a volume opened anew is replayed to the same image.
TEST_P(ReplayTest, RecoveredVersionsAreReplayed) {
  log_versions(6, 3000);
  log_ = std::make_unique<log::Space>(*volume_, 1, kLimit);
  const auto recovered = value_or_throw(log::read(*volume_, 1, 0, *log_));
  ASSERT_EQ(recovered.versions.size(), 6u);
  ASSERT_TRUE(replay(recovered.versions, true));
  expect_home_is_model();
}

TEST_P(ReplayTest, DamageAtHomeDoesNotGetAFittingChecksum) {
  ASSERT_TRUE(replay(log_versions(2, 2000)));
  constexpr u64 kPage = 77;
  Lines all;
  for (u64 i = 0; i < kLinesPerPage; ++i) all[kPage * kLinesPerPage + i] = {i + 1};
  ASSERT_TRUE(replay({{log_version(next_version_++, all)}}));
  flip_home(kPage, 1000);
  const auto part = log_version(next_version_++, {{kPage * kLinesPerPage + 3, Line{5}}});
  commit::Replay first(*volume_, region_->limit());
  ASSERT_TRUE(first.run(region_->home(), {{part}}, false));
  const std::vector<std::string> only{"the home page at region offset " +
                                      std::to_string(kPage * kPageBytes)};
  EXPECT_EQ(home_problems(*volume_), only);
  // On NVM lines are exchanged without looking at the others: the sum goes on not to fit.
  if (on_nvm()) return;
  EXPECT_EQ(first.damaged(), std::vector<u64>{kPage});
  // What is half replayed now is another page.
  for (const bool after_crash : {true, false, true}) {
    ASSERT_TRUE(replay({{part}}, after_crash));
    EXPECT_EQ(home_problems(*volume_), only);
  }
}

// Its lines come home like others.
TEST_P(ReplayTest, ACondemnedPageStaysCondemned) {
  ASSERT_TRUE(replay(log_versions(2, 2000)));
  constexpr u64 kPage = 77;
  const u64 place = sum_place_of(kPage);
  const u64 unit = round_down(place, kPageBytes);
  AlignedBuffer table(kPageBytes);
  ASSERT_TRUE(volume_->medium().read(unit, table.span()));
  std::memcpy(table.data() + (place - unit), &format::kCondemnedPage, sizeof(u64));
  ASSERT_TRUE(volume_->medium().write(unit, table.span(), PERDURA_SITE("test")));
  Lines all;
  for (u64 i = 0; i < kLinesPerPage; ++i) all[kPage * kLinesPerPage + i] = {i + 1};
  for (const Lines& lines : {Lines{{kPage * kLinesPerPage + 3, Line{5}}}, all})
    for (const bool after_crash : {false, true}) {
      Lines with_neighbours = lines;
      with_neighbours[(kPage + 1) * kLinesPerPage] = {7};
      with_neighbours[(kPage - 1) * kLinesPerPage] = {8};
      ASSERT_TRUE(replay({{log_version(next_version_++, with_neighbours)}}, after_crash));
      EXPECT_EQ(home_problems(*volume_),
                std::vector<std::string>{"the home page at region offset " +
                                         std::to_string(kPage * kPageBytes)});
      u64 sum = 0;
      ASSERT_TRUE(volume_->medium().read(unit, table.span()));
      std::memcpy(&sum, table.data() + (place - unit), sizeof sum);
      EXPECT_EQ(sum, format::kCondemnedPage);
      AlignedBuffer page(kPageBytes);
      ASSERT_TRUE(volume_->medium().read(place_of(kPage), page.span()));
      const Line& wanted = lines.at(kPage * kLinesPerPage + 3);
      EXPECT_EQ(std::memcmp(page.data() + 3 * kLineBytes, &wanted, kLineBytes), 0);
    }
}

// The verdict is durable before the pages change.
TEST_P(ReplayTest, AReplayThatFailedBehindItsVerdictHasIt) {
  if (on_nvm()) GTEST_SKIP() << "it does not look at pages there";
  ASSERT_TRUE(replay(log_versions(2, 2000)));
  flip_home(77, 1000);
  const auto part = log_version(next_version_++, {{77 * kLinesPerPage + 3, Line{5}}});
  faults_.arm({.calls = media::kFaultSubmit});  // of the pages
  EXPECT_FALSE(replay({{part}}));
  faults_.disarm();
  ASSERT_TRUE(replay({{part}}, true));
  EXPECT_EQ(home_problems(*volume_).size(), 1u);
}

TEST_P(ReplayTest, ADamagedPageThatIsReplacedAsAWholeIsMended) {
  ASSERT_TRUE(replay(log_versions(2, 2000)));
  flip_home(77, 1000);
  Lines all;
  for (u64 i = 0; i < kLinesPerPage; ++i) all[77 * kLinesPerPage + i] = {i + 1};
  ASSERT_TRUE(replay({{log_version(next_version_++, all)}}));
  expect_home_is_model();
}

TEST_P(ReplayTest, LinesWithoutAPlaceAreRefused) {
  for (u64 line : {6 * kMiB / kLineBytes, 31 * kMiB / kLineBytes, 33 * kMiB / kLineBytes,
                   2 * kLimit / kLineBytes}) {
    const Status status = replay({{log_version(next_version_++, {{line, Line{1}}})}});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.failure().code, Code::kCorrupt);
    EXPECT_NE(status.failure().message.find("region offset " + std::to_string(line * kLineBytes)),
              std::string::npos)
        << status.failure().message;
    model_.erase(line);
  }
  expect_home_is_model();
}

TEST_P(ReplayTest, OfSeveralLinesWithoutAPlaceTheFirstIsNamed) {
  const u64 line = 40 * kMiB / kLineBytes;
  const Lines lines = {{line, Line{1}}, {line + 10 * kLinesPerPage, Line{2}}};
  expect_failure(replay({{log_version(next_version_++, lines)}}), Code::kCorrupt,
                 "region offset " + std::to_string(40 * kMiB));
}

TEST_P(ReplayTest, ReplayingNothingIsNothing) {
  commit::Replay replay(*volume_, region_->limit());
  EXPECT_TRUE(replay.run(region_->home(), {}, false));
  EXPECT_EQ(replay.home_bytes(), 0u);
}

// More than is loaded at once.
TEST_P(ReplayTest, ALongLogIsReplayedPieceByPiece) {
  Lines lines;
  for (u64 i = 0; i < 4 * kMiB / kLineBytes; ++i) lines[i] = {i + 1, random_()};
  const LoggedVersion large = log_version(next_version_++, lines);
  const LoggedVersion small = log_version(next_version_++, random_lines(100));
  std::vector<LoggedVersion> versions(40, large);
  versions.push_back(small);
  faults_.arm({.nth = 3});
  EXPECT_FALSE(replay(versions));
  faults_.disarm();
  ASSERT_TRUE(replay(versions, true));
  expect_home_is_model();
}

TEST_P(ReplayTest, ALogDamagedSinceItWasReadIsRefused) {
  if (on_nvm()) GTEST_SKIP() << "the log is read in place, and only once";
  const LoggedVersion version = log_version(next_version_++, random_lines(100));
  const u64 offset = version.blocks.back().offset;
  AlignedBuffer page(kPageBytes);
  ASSERT_TRUE(volume_->medium().read(offset, page.span()));
  page.data()[kPageBytes / 2] ^= std::byte{1};
  ASSERT_TRUE(volume_->medium().write(offset, page.span(), PERDURA_SITE("test")));
  expect_failure(replay({&version, 1}), Code::kCorrupt,
                 "the log block at offset " + std::to_string(offset));
  model_.clear();
  expect_home_is_model();
}

// A sum that fits does not prove that the region is as large.
TEST_P(ReplayTest, TheIndexRefusesLinesBeyondTheRegion) {
  Lines lines;
  for (u64 i = 0; i < 40; ++i) lines[i * 2 * kMiB / kLineBytes] = {i + 1};
  const LoggedVersion version = log_version(next_version_++, lines);
  log::Image image(*volume_);
  ASSERT_TRUE(image.load({volume_->segment_of(version.blocks[0].offset)}));
  auto index = value_or_throw(commit::LineIndex::create(4 * kMiB));
  expect_failure(index.add(image, version.blocks[0]), Code::kCorrupt,
                 "changes region offset " + std::to_string(4 * kMiB));
}

// Of a line that several blocks hold, the index gives the one added last.
TEST_P(ReplayTest, TheIndexGivesTheNewestCopyOfEachLine) {
  const auto versions = log_versions(5, 3000);
  log::Image image(*volume_);
  std::vector<u64> segments;
  for (const LoggedVersion& version : versions)
    for (const log::BlockRef& block : version.blocks)
      if (const u64 segment = volume_->segment_of(block.offset);
          std::find(segments.begin(), segments.end(), segment) == segments.end())
        segments.push_back(segment);
  ASSERT_TRUE(image.load(segments));
  auto index = value_or_throw(commit::LineIndex::create(kLimit));
  EXPECT_TRUE(index.empty());
  for (const LoggedVersion& version : versions)
    for (const log::BlockRef& block : version.blocks) ASSERT_TRUE(index.add(image, block));
  Lines found;
  index.lines().for_each_page([&](u64 page, u64) {
    index.for_each_line(page, [&](u64 line, const std::byte* bytes) {
      Line copy;
      std::memcpy(&copy, bytes, sizeof copy);
      EXPECT_TRUE(found.emplace(page * kLinesPerPage + line, copy).second) << "visited twice";
    });
  });
  EXPECT_EQ(found, model_);
  index.clear();
  EXPECT_TRUE(index.empty());
  EXPECT_TRUE(index.lines().empty());
}

INSTANTIATE_TEST_SUITE_P(Media, ReplayTest, testing::Values("emu", "file"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
