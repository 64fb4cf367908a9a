// Goal: a program that is killed at any moment finds its objects as its calls made them: of eight
// threads that draw tickets none is missing, none is drawn twice, and each was answered to whom the
// object says; what was deferred to another object is there up to the last answer; and an object
// that comes and goes is there or not, as the program was told last, whole.
// Method: object_worker.cc as a process of its own, killed with SIGKILL at 3,000 random moments
// (PERDURA_OBJECT_KILLS changes it), many of them while it opens its objects, and while it makes or
// removes one, with each durability, on emulated NVM and on a disk.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <random>

#include "media/medium.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"
#include "support/worker.hpp"

namespace perdura::test {
namespace {

constexpr u64 kThreads = 8;

struct Config {
  const char* name;
  const char* scheme;
  const char* way;
  u64 share;  ///< of the kills
};
class ObjectKillTest : public testing::TestWithParam<Config> {};

INSTANTIATE_TEST_SUITE_P(Media, ObjectKillTest,
                         testing::Values(Config{"emu", "emu", "instants", 3},
                                         Config{"emu_each", "emu", "each", 6},
                                         Config{"emu_two_steps", "emu", "two_steps", 6},
                                         Config{"emu_apart", "emu", "apart", 6},
                                         Config{"file", "file", "instants", 6},
                                         Config{"file_apart", "file", "apart", 6}),
                         [](const auto& info) { return std::string(info.param.name); });

/// What a program was told of its objects, through all its lives.
class Told {
 public:
  u64 tickets() const { return owners_.size(); }

  void note(const std::string& line) {
    char what[16];
    u64 first = 0;
    u64 second = 0;
    u64 third = 0;
    u64 fourth = 0;
    const int words =
        std::sscanf(line.c_str(), "%15s %lu %lu %lu %lu", what, &first, &second, &third, &fourth);
    ASSERT_GE(words, 1) << line;
    const std::string kind = what;
    if (kind == "ticket" && words == 3) {
      drawn(first, second);
    } else if (kind == "found" && words == 5) {
      found(first, second, third);
      noted(first, fourth, line);
    } else if (kind == "drawn" && words == 2) {
      EXPECT_EQ(first, tickets()) << "tickets are missing";
    } else if (kind == "notes" && words == 3) {
      noted(first, second, line);
    } else if ((kind == "made" || kind == "gone") && words == 2) {
      made_ = kind == "made";
      number_ = first;
    } else if (kind == "visit" && words == 3) {
      visit(first, second);
    } else {
      EXPECT_EQ(line, "none");
      made_ = false;
      number_ = 0;
    }
  }

 private:
  void drawn(u64 thread, u64 ticket) {
    ASSERT_LT(thread, kThreads);
    EXPECT_TRUE(owners_.emplace(ticket, thread).second) << "ticket " << ticket << " twice";
    last_[thread] = ticket;
    ++counts_[thread];
  }
  // One may have been drawn whose answer nobody heard.
  void found(u64 thread, u64 count, u64 last) {
    ASSERT_LT(thread, kThreads);
    if (count == counts_[thread] + 1) drawn(thread, last);
    EXPECT_EQ(count, counts_[thread]) << "of thread " << thread;
    EXPECT_EQ(last, last_[thread]) << "of thread " << thread;
  }
  void noted(u64 thread, u64 count, const std::string& line) {
    ASSERT_LT(thread, kThreads);
    EXPECT_GE(count, notes_[thread]) << line;
    notes_[thread] = count;
  }
  void visit(u64 number, u64 calls) {
    EXPECT_LE(calls, 1u);
    EXPECT_EQ(calls, number == 0 ? 0u : 1u);
    EXPECT_TRUE(made_ ? number == number_ : calls == 0 || number == number_ + 1)
        << number << " where " << number_ << (made_ ? " was made" : " had gone");
    made_ = calls != 0;
    number_ = number;
  }

  std::map<u64, u64> owners_;
  std::array<u64, kThreads> counts_{};
  std::array<u64, kThreads> last_{};
  std::array<u64, kThreads> notes_{};
  bool made_ = false;
  u64 number_ = 0;
};

TEST_P(ObjectKillTest, FindsWhatWasAnswered) {
  const char* text = std::getenv("PERDURA_OBJECT_KILLS");
  const u64 kills =
      (text != nullptr ? std::strtoull(text, nullptr, 10) : slice_or_whole(300, 3000)) /
      GetParam().share;
  const std::string scheme = GetParam().scheme;
  const TempDir folder(scheme == "emu" ? TempDir::kMemory : TempDir::kDisk);
  const std::string uri = scheme + ":" + folder.path("objects.pd");
  std::mt19937_64 random(std::random_device{}());
  Told told;
  u64 answered = 0;
  for (u64 kill = 0; kill < kills; ++kill) {
    if (kill % 40 == 0 && kill != 0) {
      value_or_throw(media::remove_medium(uri));
      answered += told.tickets();
      told = {};
    }
    const auto lines = live({PERDURA_OBJECT_WORKER, uri, GetParam().way}, random);
    SCOPED_TRACE("kill " + std::to_string(kill));
    for (const std::string& line : lines) told.note(line);
    if (HasFailure()) return;
  }
  answered += told.tickets();
  std::printf("%lu kills, %lu tickets drawn\n", kills, answered);
  EXPECT_GT(answered, kills / 4);
}

}  // namespace
}  // namespace perdura::test
