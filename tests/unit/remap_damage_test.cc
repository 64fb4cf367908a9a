// Goal: damage to a store in chunks, wherever it is, is an error that names the place, or harms
// nothing that is asked for; `perdura check` names what is damaged; what an older version alone
// needs keeps nobody from the newest one; and going back leads past damage to the newest one.
// Method: a store with a map of two levels and three versions, as its file is when it is closed and
// as a kill leaves it. Its records, map nodes and chunks are found by reading it, and bits of each
// are flipped, or its bytes exchanged. Versions are compared with a model, word by word.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "store/recovery.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/version_parts.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

constexpr u32 kChunkBytes = 4096;
constexpr u32 kKept = 3;
constexpr u64 kWords = 192 * 1024;  // more than 240 chunks
constexpr u64 kWordsPerChunk = kChunkBytes / sizeof(u64);

Options options(bool lazy = false) {
  Options options;
  options.region_limit_bytes = 16 * kMiB;
  options.engine = Engine::kRemap;
  options.chunk_bytes = kChunkBytes;
  options.versions_kept = kKept;
  options.over_provisioning = 0;
  options.lazy_recovery = lazy;
  return options;
}

using Words = std::vector<u64>;

class RemapDamageTest : public testing::TestWithParam<const char*> {
 protected:
  RemapDamageTest() {
    make();
    write_file(path(), closed_);
    auto medium = value_or_throw(media::open_medium(uri(), {}));
    auto volume = value_or_throw(region::Volume::open(std::move(medium.medium)));
    parts_ = find_parts(*volume);
  }

  void make() {
    WrappedStore store(uri(), options());
    u64* words = nullptr;
    {
      const auto op = store.operation();
      words = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
      op.set_root("words", words);
    }
    Words model(kWords);
    std::mt19937_64 random(5);
    for (u64 round = 1; round <= kKept + 1; ++round) {
      for (u64 i = 0; i < 20; ++i) {
        const auto op = store.operation();
        const u64 at = random() % kWords;
        op.touch(words + at, sizeof(u64));
        words[at] = model[at] = random();
      }
      versions_[store.checkpoint()] = model;
    }
    crashed_ = read_file(path());
    store.close();
    newest_ = store.durable_version();
    store.crash();
    closed_ = read_file(path());
  }

  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam() + (":" + path()); }

  /// What only this version has, one of them.
  u64 own_node(u64 version) const { return own(version, parts_.at(version).nodes); }
  u64 own_chunk(u64 version) const {
    std::vector<u64> places;
    for (const auto& [place, offset] : parts_.at(version).chunks)
      if (offset >= kMiB / 4) places.push_back(place);  // behind the heap's tables
    return own(version, places);
  }
  u64 own(u64 version, const std::vector<u64>& places) const {
    for (const u64 place : places) {
      bool shared = false;
      for (const auto& [other, parts] : parts_)
        if (other != version)
          shared = shared || parts.chunks.contains(place) ||
                   std::count(parts.nodes.begin(), parts.nodes.end(), place) != 0;
      if (!shared) return place;
    }
    ADD_FAILURE() << "version " << version << " shares everything";
    return 0;
  }

  void flip(FileBytes image, const std::vector<u64>& places) {
    for (const u64 place : places)
      image[place + random_() % kChunkBytes] ^= std::byte{1} << random_() % 8;
    write_file(path(), image);
  }

  /// Open at a version and compare. The error's text; "" when all is as it was.
  std::string open(u64 version = 0) {
    try {
      Options chosen = options();
      chosen.version = version;
      WrappedStore store(uri(), chosen);
      const auto* words = static_cast<const u64*>(store.get_root("words"));
      const auto expected = versions_.find(store.durable_version());
      if (words == nullptr || expected == versions_.end()) return "WRONG version";
      for (u64 i = 0; i < kWords; ++i)
        if (words[i] != expected->second[i]) return "WRONG word " + std::to_string(i);
      store.crash();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCorrupt) << error.what();
      return error.what();
    }
  }
  void expect_refusal_of(u64 place, u64 version = 0) {
    const std::string text = open(version);
    EXPECT_NE(text.find("medium offset " + std::to_string(place)), text.npos) << text;
  }

  /// What `perdura check` says of a part, and that it says nothing of others.
  store::Finding check(const std::string& part, store::Finding::Severity severity) {
    const auto report = value_or_throw(store::check(uri(), {}));
    store::Finding found;
    for (const store::Finding& finding : report.findings) {
      if (finding.part == "heap") continue;  // of a version that cannot be read
      EXPECT_EQ(finding.part, part) << finding.message;
      EXPECT_EQ(finding.severity, severity) << finding.message;
      found = finding;
    }
    EXPECT_EQ(found.part, part) << "nothing is found";
    return found;
  }

  const TempDir folder_{TempDir::kMemory};
  std::mt19937_64 random_{11};
  FileBytes closed_;
  FileBytes crashed_;
  u64 newest_ = 0;
  std::map<u64, Words> versions_;
  std::map<u64, VersionParts> parts_;
};

using Severity = store::Finding::Severity;
constexpr int kRounds = 20;

TEST_P(RemapDamageTest, OneCopyOfARecordIsEnough) {
  for (const auto& [version, parts] : parts_)
    for (const u64 place : parts.records)
      for (const FileBytes* image : {&closed_, &crashed_}) {
        flip(*image, {place});
        EXPECT_EQ(check("versions", Severity::kNote).medium_offset, place);
        EXPECT_EQ(open(), "");
        flip(*image, {place});
        EXPECT_EQ(open(version), "");
      }
}

TEST_P(RemapDamageTest, ALostRecordOfTheNewestVersionIsNamed) {
  const VersionParts& parts = parts_.at(newest_);
  flip(closed_, {parts.records[0], parts.records[1]});
  const std::string finding = check("versions", Severity::kDamage).message;
  EXPECT_NE(finding.find(std::to_string(parts.records[0])), finding.npos) << finding;
  const std::string text = open();
  EXPECT_NE(text.find(std::to_string(parts.records[1])), text.npos) << text;
  // A crash may have torn both.
  flip(crashed_, {parts.records[0], parts.records[1]});
  EXPECT_EQ(open(newest_ - 1), "");
}

TEST_P(RemapDamageTest, ADamagedChunkOfTheNewestVersionIsNamed) {
  const u64 place = own_chunk(newest_);
  for (int round = 0; round < kRounds; ++round) {
    flip(round % 2 == 0 ? closed_ : crashed_, {place});
    expect_refusal_of(place);
    const store::Finding finding = check("chunks", Severity::kDamage);
    EXPECT_EQ(finding.medium_offset, place);
    EXPECT_EQ(finding.region_offset, parts_.at(newest_).chunks.at(place));
  }
  EXPECT_EQ(open(newest_ - 1), "");
}

// Another version may have the same place, and going back to it does not help then.
TEST_P(RemapDamageTest, ARemedyIsToldWithItsCondition) {
  flip(closed_, {own_chunk(newest_)});
  const std::string text = open();
  EXPECT_NE(
      text.find("restore the store from a copy, or go back with `perdura rollback` to an older "
                "version, if one does not share this place"),
      text.npos)
      << text;
}

TEST_P(RemapDamageTest, WithoutAnyRecordThereIsNoVersionToGoBackTo) {
  // Two copies of each slot, one behind the other; there is one more than versions are kept.
  constexpr u64 kSlots = kKept + 1;
  const u64 first = parts_.at(newest_).records[0] - newest_ % kSlots * format::kVersionRecordBytes;
  std::vector<u64> records;
  for (u64 i = 0; i < 2 * kSlots; ++i) records.push_back(first + i * format::kVersionRecordBytes);
  flip(closed_, records);
  const std::string text = open();
  EXPECT_NE(text.find("no other one is left: restore the store from a copy"), text.npos) << text;
  EXPECT_EQ(text.find("rollback"), text.npos) << text;
}

TEST_P(RemapDamageTest, ADamagedNodeOfTheNewestVersionIsNamed) {
  const u64 place = own_node(newest_);
  for (int round = 0; round < kRounds; ++round) {
    flip(round % 2 == 0 ? closed_ : crashed_, {place});
    expect_refusal_of(place);
    const std::string text = check("map", Severity::kDamage).message;
    EXPECT_NE(text.find(std::to_string(place)), text.npos) << text;
  }
}

TEST_P(RemapDamageTest, DamageToAnOlderVersionIsItsOwn) {
  for (const u64 version : {newest_ - 1, newest_ - 2})
    for (const bool node : {false, true}) {
      const u64 place = node ? own_node(version) : own_chunk(version);
      flip(closed_, {place});
      check(node ? "map" : "chunks", Severity::kDamage);
      EXPECT_EQ(open(), "");
      flip(closed_, {place});
      expect_refusal_of(place, version);
      EXPECT_EQ(open(newest_), "");
    }
}

TEST_P(RemapDamageTest, GoingBackLeadsPastDamage) {
  for (const bool node : {false, true}) {
    flip(closed_, {node ? own_node(newest_) : own_chunk(newest_)});
    EXPECT_NE(open(), "");
    const u64 made = value_or_throw(store::roll_back(uri(), {}, newest_ - 1, {}));
    versions_[made] = versions_.at(newest_ - 1);
    EXPECT_EQ(open(), "");
    WrappedStore store(uri(), options());
    ASSERT_EQ(store.durable_version(), made);
    // The damaged version goes when its time comes.
    for (u64 i = 0; i < kKept; ++i) {
      auto* const words = static_cast<u64*>(store.get_root("words"));
      {
        const auto op = store.operation();
        op.touch(words, sizeof(u64));
        words[0] = i;
      }
      store.checkpoint();
    }
    store.close();
    store.crash();
    EXPECT_FALSE(value_or_throw(store::check(uri(), {})).damaged());
  }
}

TEST_P(RemapDamageTest, ExchangedAndStaleChunksAreFound) {
  const VersionParts& newest = parts_.at(newest_);
  const u64 place = own_chunk(newest_);
  u64 before = 0;  // the same part of the region, as an older version has it
  for (const auto& [other, offset] : parts_.at(newest_ - 1).chunks)
    if (offset == newest.chunks.at(place)) before = other;
  for (const u64 other : {before, newest.chunks.begin()->first, own_node(newest_)}) {
    if (other == 0 || other == place) continue;
    FileBytes image = closed_;
    std::swap_ranges(image.begin() + static_cast<std::ptrdiff_t>(place),
                     image.begin() + static_cast<std::ptrdiff_t>(place + kChunkBytes),
                     image.begin() + static_cast<std::ptrdiff_t>(other));
    write_file(path(), image);
    const std::string text = open();
    EXPECT_NE(text.find("medium offset"), text.npos) << text;
    std::copy_n(closed_.begin() + static_cast<std::ptrdiff_t>(other), kChunkBytes,
                image.begin() + static_cast<std::ptrdiff_t>(other));
    write_file(path(), image);
    expect_refusal_of(place);
  }
}

TEST_P(RemapDamageTest, ATruncatedStoreIsRefused) {
  for (u64 pages = 1; pages < 40; pages += 3) {
    FileBytes image = closed_;
    image.resize(image.size() - pages * kPageBytes);
    write_file(path(), image);
    EXPECT_NE(open(), "") << pages << " pages";
  }
}

// The program ends with the message, or goes on without that part.
TEST_P(RemapDamageTest, ALazilyLoadedChunkIsNeverWrong) {
  const u64 place = own_chunk(newest_);
  const u64 word = [&] {
    write_file(path(), closed_);
    WrappedStore store(uri(), options());
    const auto* words = static_cast<const u64*>(store.get_root("words"));
    const auto begin = reinterpret_cast<const std::byte*>(words) - store.runtime().region().base();
    store.crash();
    return (parts_.at(newest_).chunks.at(place) - static_cast<u64>(begin)) / sizeof(u64);
  }();
  flip(closed_, {place});
  const std::string died = in_child([&]() -> std::string {
    WrappedStore store(uri(), options(true));
    const auto* words = static_cast<const u64*>(store.get_root("words"));
    return "read " + std::to_string(*const_cast<const volatile u64*>(words + word));
  });
  // Without having read anything; sanitizers end it with an exit code of their own.
  EXPECT_TRUE(died.starts_with(" died of signal") || died.starts_with(" exited with")) << died;
  const std::string other = in_child([&]() -> std::string {
    testing::internal::CaptureStderr();
    WrappedStore store(uri(), options(true));
    const auto* words = static_cast<const u64*>(store.get_root("words"));
    const u64 far = word < kWords / 2 ? kWords - kWordsPerChunk : 0;
    while (store.statistics().damaged_pages == 0) ::sched_yield();
    const auto named = store.runtime().damaged_pages();
    if (named.empty() || named.front().find(std::to_string(place)) == std::string::npos)
      return "the place is not named";
    const std::string said = testing::internal::GetCapturedStderr();
    if (said.find(std::to_string(place)) == said.npos) return "stderr lacks the place: " + said;
    const u64 words_per_part = 256 * kKiB / sizeof(u64);
    for (u64 at = 0; at < kWords; ++at)
      if ((at < word ? word - at : at - word) > words_per_part &&
          words[at] != versions_.at(newest_)[at])
        return "wrong data";
    if (words[far] != versions_.at(newest_)[far]) return "wrong data";
    if (store.statistics().damaged_pages != 1) return "it is counted more than once";
    store.crash();
    return "";
  });
  EXPECT_EQ(other, "");
}

// Opening touches them.
TEST_P(RemapDamageTest, DamageToTheHeapsTablesEndsWhoOpensTheStoreOrIsThrown) {
  u64 place = 0;
  for (const auto& [at, offset] : parts_.at(newest_).chunks)
    if (offset <= kPageBytes && kPageBytes < offset + kChunkBytes) place = at;
  ASSERT_NE(place, 0u);
  flip(closed_, {place});
  const std::string named = "medium offset " + std::to_string(place);
  testing::internal::CaptureStderr();
  const std::string died = in_child([&]() -> std::string {
    WrappedStore store(uri(), options(true));
    return "was opened";
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(died.starts_with(" died of signal") || died.starts_with(" exited with")) << died;
  EXPECT_NE(said.find(named), said.npos) << said;
  Options throwing = options(true);
  throwing.on_damage = OnDamage::kThrow;
  expect_failure(detail::Runtime::open(uri(), throwing), Code::kCorrupt, named);
}

// With OnDamage::kThrow the rest of the store goes on, and the chunk stays what it is.
TEST_P(RemapDamageTest, ADamagedChunkReadsAsZerosAndIsThrown) {
  const u64 place = own_chunk(newest_);
  const u64 chunk = parts_.at(newest_).chunks.at(place);  // its region offset
  flip(closed_, {place});
  Options throwing = options(true);
  throwing.on_damage = OnDamage::kThrow;
  const std::string named = "medium offset " + std::to_string(place);
  u64 far = 0;
  {
    WrappedStore store(uri(), throwing);
    auto* const words = static_cast<u64*>(store.get_root("words"));
    const auto* const zeros = reinterpret_cast<const u64*>(store.runtime().region().base() + chunk);
    for (u64 i = 0; i < kWordsPerChunk; ++i) ASSERT_EQ(zeros[i], 0u);
    const u64 first = static_cast<u64>(zeros - words);
    ASSERT_LT(first + kWordsPerChunk, kWords);
    far = first < kWords / 2 ? kWords - 1 : 0;
    EXPECT_EQ(words[far], versions_.at(newest_)[far]);
    words[first] = 5;
    words[far] = 6;
    const u64 before = store.durable_version();
    expect_failure(store.runtime().checkpoint(), Code::kCorrupt, named);
    EXPECT_EQ(store.checkpoint(), before + 1);
    store.close();
  }
  EXPECT_NE(open().find(named), std::string::npos);  // it is as damaged as before
  WrappedStore store(uri(), throwing);
  EXPECT_EQ(static_cast<u64*>(store.get_root("words"))[far], 6u);
  store.crash();
}

INSTANTIATE_TEST_SUITE_P(Media, RemapDamageTest, testing::Values("file", "emu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
