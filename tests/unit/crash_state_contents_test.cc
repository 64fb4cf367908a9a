// Goal: what explores crash states leaves none out that is physically possible, inside recoveries
// as well, and takes no two for one another.
// Method: drawn writes and recoveries on media of a few atoms, compared with trying all contents
// one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "crash_state.hpp"

namespace perdura::testing {
namespace {

constexpr u64 kPlace = 4096;
constexpr u64 kAtoms = 4;
constexpr u64 kSize = 3 * 4096;
const media::Site kSite{__FILE__, __LINE__, "a record"};

struct Range {
  u64 begin, end;  // in bytes
};
struct Put {
  Range at;
  u8 value;
};
/// A look at a record, and what is written then, by what it found.
struct Step {
  Range look;
  std::vector<Put> if_torn, if_whole;
  bool barrier = false;
};
struct Case {
  Tearing tearing;
  u64 atom;
  std::vector<std::pair<Put, bool>> history;  ///< durable ones first
  std::vector<Step> recovery;
  std::vector<Range> again;
};

bool fits(const std::byte* at, u64 length) {
  if (at[0] == std::byte{0}) return false;
  return std::all_of(at, at + length, [&](std::byte each) { return each == at[0]; });
}

// --- by the explorer -----------------------------------------------------------------------------

bool look(media::Medium& medium, const Range& range) {
  AlignedBuffer bytes(4096);
  EXPECT_TRUE(medium.load_pages(kPlace, bytes.span()));
  const u64 length = range.end - range.begin;
  return medium.whole(kPlace + range.begin, bytes.data() + range.begin, length, kSite,
                      [&](const std::byte* at) { return fits(at, length); });
}

std::string looks(media::Medium& medium, const std::vector<Range>& ranges) {
  std::string found;
  for (const Range& each : ranges) {
    const bool whole = look(medium, each);
    found += whole ? '1' : '0';
    if (!whole) continue;
    AlignedBuffer bytes(4096);  // which one
    EXPECT_TRUE(medium.load_pages(kPlace, bytes.span()));
    found += std::to_string(static_cast<int>(bytes.data()[each.begin]));
  }
  return found;
}

CrashState state_of(const Case& test) {
  std::vector<media::RecordedCall> calls;
  for (const auto& [put, durable] : test.history) {
    media::RecordedCall write;
    write.kind = media::RecordedCall::Kind::kWrite;
    write.succeeded = true;
    write.site = &kSite;
    write.offset = kPlace + put.at.begin;
    write.bytes.assign(put.at.end - put.at.begin, std::byte{put.value});
    calls.push_back(write);
    if (!durable) continue;
    media::RecordedCall barrier;
    barrier.kind = media::RecordedCall::Kind::kBarrier;
    barrier.succeeded = true;
    barrier.site = &kSite;
    barrier.covers = calls.size();
    calls.push_back(barrier);
  }
  const size_t end = calls.size();
  return CrashState(media::History(std::vector<std::byte>(kSize), test.atom, std::move(calls)), end,
                    test.tearing);
}

media::Geometry geometry(const Case& test) {
  return {.size = kSize, .atomic_bytes = test.atom, .write_bytes = test.atom};
}

/// What the first recovery found until it failed, and the second one; and by digests.
using Found = std::set<std::string>;
Found explored(const Case& test, std::map<u64, Found>& by_digest, bool& digests_agree) {
  Found found;
  const CrashState state = state_of(test);
  Choices choices;
  std::string before;
  int barriers = 0;
  Execution execution(state, geometry(test), choices, nullptr, [&](Execution& at) {
    Found here;
    const CrashState left = at.crash_state();
    Choices inner;
    Execution second(left, geometry(test), inner, nullptr, {});
    do {
      second.reset();
      here.insert(looks(*second.medium(), test.again));
    } while (inner.advance());
    for (const std::string& each : here)
      found.insert(before + " |" + std::to_string(barriers) + "| " + each);
    const auto [known, is_new] = by_digest.emplace(at.digest(), here);
    if (!is_new && known->second != here) {
      digests_agree = false;
    }
  });
  do {
    execution.reset();
    before.clear();
    barriers = 0;
    const auto medium = execution.medium();
    for (const Step& step : test.recovery) {
      const bool whole = look(*medium, step.look);
      before += whole ? '1' : '0';
      for (const Put& put : whole ? step.if_whole : step.if_torn) {
        AlignedBuffer bytes(4096);
        std::memset(bytes.data(), put.value, 4096);
        EXPECT_TRUE(
            medium->write(kPlace + put.at.begin, bytes.first(put.at.end - put.at.begin), kSite));
      }
      if (!step.barrier) continue;
      EXPECT_TRUE(medium->barrier(kSite));
      ++barriers;
    }
  } while (choices.advance());
  return found;
}

// --- one by one ----------------------------------------------------------------------------------

using Bytes4 = std::vector<std::byte>;

/// Contents that writes on top of `certain` may have left.
void each_content(const Bytes4& certain, const std::vector<Put>& writes, u64 atom,
                  const std::function<void(const Bytes4&)>& use) {
  std::vector<std::vector<Bytes4>> options(kAtoms);
  for (u64 i = 0; i < kAtoms; ++i) {
    Bytes4 now(certain.begin() + static_cast<std::ptrdiff_t>(i * atom),
               certain.begin() + static_cast<std::ptrdiff_t>((i + 1) * atom));
    options[i].push_back(now);
    for (const Put& put : writes) {
      const u64 begin = std::max(put.at.begin, i * atom),
                end = std::min(put.at.end, (i + 1) * atom);
      if (begin >= end) continue;
      std::fill(now.begin() + static_cast<std::ptrdiff_t>(begin - i * atom),
                now.begin() + static_cast<std::ptrdiff_t>(end - i * atom), std::byte{put.value});
      if (std::find(options[i].begin(), options[i].end(), now) == options[i].end())
        options[i].push_back(now);
    }
  }
  Bytes4 content(kAtoms * atom);
  const std::function<void(u64)> choose = [&](u64 i) {
    if (i == kAtoms) return use(content);
    for (const Bytes4& each : options[i]) {
      std::copy(each.begin(), each.end(), content.begin() + static_cast<std::ptrdiff_t>(i * atom));
      choose(i + 1);
    }
  };
  choose(0);
}

Found one_by_one(const Case& test) {
  Found found;
  Bytes4 certain(kAtoms * test.atom);
  std::vector<Put> writes;
  const auto apply = [](Bytes4& to, const Put& put) {
    std::fill(to.begin() + static_cast<std::ptrdiff_t>(put.at.begin),
              to.begin() + static_cast<std::ptrdiff_t>(put.at.end), std::byte{put.value});
  };
  for (const auto& [put, durable] : test.history) {
    if (durable) apply(certain, put);
    else writes.push_back(put);
  }
  each_content(certain, writes, test.atom, [&](const Bytes4& first) {
    Bytes4 durable = first, now = first;
    std::vector<Put> pending;
    std::string before;
    int barriers = 0;
    for (const Step& step : test.recovery) {
      const bool whole = fits(now.data() + step.look.begin, step.look.end - step.look.begin);
      before += whole ? '1' : '0';
      for (const Put& put : whole ? step.if_whole : step.if_torn) {
        apply(now, put);
        pending.push_back(put);
      }
      if (!step.barrier) continue;
      each_content(durable, pending, test.atom, [&](const Bytes4& second) {
        std::string again;
        for (const Range& each : test.again) {
          const bool is = fits(second.data() + each.begin, each.end - each.begin);
          again += is ? '1' : '0';
          if (is) again += std::to_string(static_cast<int>(second[each.begin]));
        }
        found.insert(before + " |" + std::to_string(barriers) + "| " + again);
      });
      durable = now;
      pending.clear();
      ++barriers;
    }
  });
  return found;
}

Case drawn(std::mt19937_64& random) {
  Case test;
  const bool words = random() % 2 == 0;
  test.tearing = words ? Tearing::kWords : Tearing::kSectors512;
  test.atom = words ? 8 : 512;
  std::vector<Range> pool;
  for (u64 i = 0; i < 3; ++i) {
    const u64 step = random() % 3 == 0 ? test.atom / 2 : test.atom;
    const u64 all = kAtoms * test.atom / step;
    const u64 begin = random() % all;
    const u64 end = begin + 1 + random() % (all - begin);
    pool.push_back({begin * step, end * step});
  }
  pool.push_back({pool[0].begin, pool[1].end > pool[0].begin ? pool[1].end : pool[0].end});
  const auto range = [&] { return pool[random() % pool.size()]; };
  // A checksum fits what was once written, and nothing else: no two have the same bytes.
  u8 value = 0;
  const auto put = [&] {
    Put made{range(), random() % 4 == 0 ? u8{0} : ++value};
    {  // no write is of a part of a sector
      made.at.begin = made.at.begin / test.atom * test.atom;
      made.at.end = (made.at.end + test.atom - 1) / test.atom * test.atom;
    }
    return made;
  };
  for (u64 i = random() % 3; i != 0; --i) test.history.emplace_back(put(), true);
  for (u64 i = 1 + random() % 3; i != 0; --i) test.history.emplace_back(put(), false);
  for (u64 i = 1 + random() % 4; i != 0; --i) {
    Step step{.look = range(), .if_torn = {}, .if_whole = {}};
    for (u64 k = random() % 2; k != 0; --k) step.if_torn.push_back(put());
    for (u64 k = random() % 2; k != 0; --k) step.if_whole.push_back(put());
    step.barrier = i == 1 || random() % 3 == 0;
    test.recovery.push_back(step);
  }
  for (u64 i = 1 + random() % 3; i != 0; --i) test.again.push_back(range());
  return test;
}

TEST(CrashStatesOneByOne, NoneIsLeftOut) {
  u64 disagree = 0;
  for (u64 seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    const Case test = drawn(random);
    std::map<u64, Found> by_digest;
    bool digests_agree = true;
    const Found by_explorer = explored(test, by_digest, digests_agree);
    const Found all = one_by_one(test);
    for (const std::string& each : all)
      ASSERT_TRUE(by_explorer.contains(each)) << "seed " << seed << ": " << each;
    disagree += !digests_agree;
  }
  EXPECT_EQ(disagree, 0u);
}

}  // namespace
}  // namespace perdura::testing
