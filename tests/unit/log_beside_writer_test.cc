// Goal: a log that somebody appends to while it is read gives what was durable when that began, or
// more, without a hole: no version is missing before another, nor a record on which another relies;
// damage is found all the same.
// Method: a reader's medium that lets a writer go on between the pieces that it loads, chosen at
// random; versions and records by several streams, some of which are written late; what is found is
// compared with what the writer had told before, and with what each record relies on.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "log/reader.hpp"
#include "log/record.hpp"
#include "media/decorator.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"

namespace perdura::test {
namespace {

constexpr u32 kRegion = 1;

/// Loads one piece after the other, and calls something in between.
class SlowMedium final : public media::Decorator {
 public:
  SlowMedium(std::unique_ptr<Medium> inner, const std::function<void()>& between)
      : Decorator(std::move(inner)), between_(between) {}
  Status load(std::span<const media::ReadRequest> requests) override {
    for (const media::ReadRequest& request : requests) {
      between_();
      PERDURA_TRY(inner().load({&request, 1}));
    }
    return {};
  }

 private:
  const std::function<void()>& between_;
};

class LogBesideWriter : public testing::TestWithParam<const char*> {
 protected:
  static constexpr u64 kSegmentBytes = 256 * kKiB;
  static constexpr size_t kStreams = 4;

  LogBesideWriter() {
    auto opened = value_or_throw(media::open_medium(uri(), {}));
    volume_ = value_or_throw(region::Volume::create(std::move(opened.medium), kSegmentBytes));
    value_or_throw(volume_->begin_session());
    value_or_throw(volume_->add_region(region_record()));
    // All that is needed, so that readers know of it.
    value_or_throw(volume_->allocate_log(kRegion, 64 * kMiB));
    space_ = std::make_unique<log::Space>(*volume_, kRegion, 64 * kMiB);
    for (auto& writer : writers_)
      writer = std::make_unique<log::VersionWriter>(*space_, *volume_, kRegion);
    u16 number = 0;
    for (auto& stream : streams_)
      stream.writer = std::make_unique<log::RecordWriter>(*space_, *volume_, kRegion, number++);
  }
  ~LogBesideWriter() override {
    for (auto& writer : writers_) writer->leave_segment();
  }

  std::string uri() const { return GetParam() + (":" + folder_.path("log.pd")); }
  bool is_nvm() const { return volume_->medium().geometry().byte_addressable; }

  /// The next version, of one line, by any of the writers.
  void write_version() {
    log::VersionInProgress version;
    version.number = ++versions_;
    version.ticket = version.number;
    log::VersionWriter& writer = *writers_[random_() % writers_.size()];
    writer.begin(version);
    write_lines(writer, {{random_() % 1000, Line{version.number}}});
    ASSERT_TRUE(writer.finish_with_commit());
    ASSERT_TRUE(volume_->medium().barrier(PERDURA_SITE("test")));
  }

  /// A record of any stream: it relies on some that are there, which it names. One in eight takes
  /// its time, and is written later; its stream waits for it.
  void write_record() {
    Stream& stream = streams_[random_() % kStreams];
    const bool was_late = stream.late_time != 0;
    const u64 time = was_late ? std::exchange(stream.late_time, 0) : ++times_;
    if (!was_late && random_() % 8 == 0) {
      stream.late_time = time;
      return;
    }
    log::RecordBuilder builder(kSegmentBytes);
    builder.begin();
    std::set<u64> relies_on;
    for (int i = 0; i < 3 && !written_.empty(); ++i) {
      // The newest ones most of all.
      auto at = written_.rbegin();
      std::advance(at, random_() % std::min<size_t>(written_.size(), 6));
      if (at->first < time) relies_on.insert(at->first);
    }
    for (const u64 each : relies_on) *value_or_throw(builder.take(1)) = each;
    ++stream.sequence;
    ASSERT_TRUE(stream.writer->make_room(builder.length(), log::Space::kHeld, stream.sequence));
    ASSERT_TRUE(stream.writer->commit(builder, {time, stream.sequence, versions_},
                                      log::RecordWriter::Steps::kOne));
    written_[time] = relies_on;
  }

  std::unique_ptr<region::Volume> open_to_read() {
    auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    return value_or_throw(region::Volume::open_to_read(
        std::make_unique<SlowMedium>(std::move(opened.medium), between_)));
  }

  struct Stream {
    std::unique_ptr<log::RecordWriter> writer;
    u64 sequence = 0;
    u64 late_time = 0;  ///< of a record that is still to be written
  };

  const TempDir folder_{TempDir::kMemory};
  std::function<void()> between_ = [] {};
  std::unique_ptr<region::Volume> volume_;
  std::unique_ptr<log::Space> space_;
  std::array<std::unique_ptr<log::VersionWriter>, 3> writers_;
  std::array<Stream, kStreams> streams_;
  std::map<u64, std::set<u64>> written_;  ///< records, by their times: on which they rely
  u64 versions_ = 0;
  u64 times_ = 0;
  std::mt19937_64 random_{7};
};

TEST_P(LogBesideWriter, VersionsThatAreWrittenMeanwhileLeaveNoHole) {
  for (int i = 0; i < 20; ++i) write_version();
  u64 later = 0;
  for (int round = 0; round < 40; ++round) {
    const auto volume = open_to_read();
    const u64 durable = versions_;
    between_ = [this] {
      if (random_() % 32 != 0) return;
      for (u64 i = random_() % 6; i != 0; --i) write_version();
    };
    const auto found = log::read_beside_writer(*volume, kRegion, 0);
    between_ = [] {};
    ASSERT_TRUE(found) << found.failure().message;
    ASSERT_GE(found->durable_version, durable);
    ASSERT_LE(found->durable_version, versions_);
    ASSERT_EQ(found->versions.size(), found->durable_version);
    for (size_t i = 0; i < found->versions.size(); ++i) ASSERT_EQ(found->versions[i].number, i + 1);
    later += found->durable_version - durable;
  }
  EXPECT_GT(later, 0u);
}

// Its image is as it was read, whatever becomes of the log.
TEST_P(LogBesideWriter, WhatWasReadStays) {
  for (int i = 0; i < 20; ++i) write_version();
  const auto volume = open_to_read();
  const auto found = value_or_throw(log::read_beside_writer(*volume, kRegion, 0));
  const auto lines_of = [&](const log::LoggedVersion& version) {
    Lines lines;
    for (const log::BlockRef& block : version.blocks)
      add_lines(found.image->at(block.offset), block, lines);
    return lines;
  };
  std::vector<Lines> before;
  for (const log::LoggedVersion& each : found.versions) before.push_back(lines_of(each));
  AlignedBuffer zeros(kSegmentBytes);
  std::memset(zeros.data(), 0, zeros.size());
  for (const format::Extent& extent : volume_->extents(format::ExtentKind::kLog, kRegion))
    for (u64 at = 0; at < extent.length; at += kSegmentBytes)
      ASSERT_TRUE(
          volume_->medium().write(extent.medium_offset + at, zeros.span(), PERDURA_SITE("test")));
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(lines_of(found.versions[i]), before[i]);
}

TEST_P(LogBesideWriter, DamageBeforeWhatWasThereIsFound) {
  for (int i = 0; i < 20; ++i) write_version();
  const auto blocks = value_or_throw(log::read_beside_writer(*open_to_read(), kRegion, 0));
  const u64 place = blocks.versions.at(11).blocks.at(0).offset;
  const u64 unit = volume_->medium().geometry().write_bytes;
  AlignedBuffer bytes(unit);
  ASSERT_TRUE(volume_->medium().read(place, bytes.first(unit)));
  bytes.data()[40] ^= std::byte{1};
  ASSERT_TRUE(volume_->medium().write(place, bytes.first(unit), PERDURA_SITE("test")));
  const auto volume = open_to_read();
  for (const bool writes : {false, true}) {
    if (writes)
      between_ = [this] {
        if (random_() % 32 == 0) write_version();
      };
    expect_failure(log::read_beside_writer(*volume, kRegion, 0), Code::kCorrupt,
                   "version 12 is not whole");
  }
  between_ = [] {};
}

TEST_P(LogBesideWriter, NoRecordIsThereWithoutThoseItReliesOn) {
  if (!is_nvm()) GTEST_SKIP() << "its records are one stream (transaction tests)";
  for (int i = 0; i < 50; ++i) write_record();
  u64 later = 0;
  u64 left_out = 0;
  for (int round = 0; round < 100; ++round) {
    const auto volume = open_to_read();
    const auto durable = written_;
    between_ = [this] {
      if (random_() % 64 != 0) return;
      for (u64 i = random_() % 6; i != 0; --i) write_record();
      if (random_() % 4 == 0) write_version();
    };
    const auto found = log::read_beside_writer(*volume, kRegion, 0);
    between_ = [] {};
    ASSERT_TRUE(found) << found.failure().message;
    std::set<u64> times;
    for (const log::FoundRecord& each : found->records) {
      ASSERT_TRUE(times.insert(each.time).second);
      ASSERT_LE(each.durable_version, found->durable_version);
      for (const u64 earlier : each.entries) ASSERT_TRUE(times.contains(earlier)) << each.time;
      ASSERT_EQ(std::set<u64>(each.entries.begin(), each.entries.end()), written_.at(each.time));
    }
    for (const auto& [time, relies_on] : durable) ASSERT_TRUE(times.contains(time)) << time;
    later += times.size() - durable.size();
    left_out += written_.size() - times.size();
  }
  EXPECT_GT(later, 0u);
  EXPECT_GT(left_out, 0u);
}

INSTANTIATE_TEST_SUITE_P(Media, LogBesideWriter, testing::Values("file", "emu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
