// Goal: a program that is killed at any moment finds its objects as its calls made them: of eight
// threads that draw tickets none is missing, none is drawn twice, and each was answered to whom the
// object says; what was deferred to another object is there up to the last answer; an object that
// comes and goes is there or not, as the program was told last, whole; and objects that move out to
// an overflow store and come home have each call that was answered.
// Method: object_worker.cc as a process of its own, killed with SIGKILL at 3,000 random moments
// (PERDURA_OBJECT_KILLS changes it), many of them while it opens its objects, and while it makes or
// removes one, with each durability, on emulated NVM and on a disk.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "media/medium.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"
#include "support/tickets_told.hpp"
#include "support/worker.hpp"

namespace perdura::test {
namespace {

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
                                         Config{"emu_overflow", "emu", "overflow", 4},
                                         Config{"file", "file", "instants", 6},
                                         Config{"file_apart", "file", "apart", 6}),
                         [](const auto& info) { return std::string(info.param.name); });

/// What a program was told of its objects, through all its lives.
class Told : public TicketsTold {
 public:
  void note(const std::string& line) {
    if (TicketsTold::note(line)) return;
    char what[16];
    u64 number = 0;
    u64 calls = 0;
    const int words = std::sscanf(line.c_str(), "%15s %lu %lu", what, &number, &calls);
    ASSERT_GE(words, 1) << line;
    const std::string kind = what;
    if ((kind == "made" || kind == "gone") && words == 2) {
      made_ = kind == "made";
      number_ = number;
    } else if (kind == "visit" && words == 3) {
      visit(number, calls);
    } else if (kind == "roams" && words == 3) {
      EXPECT_GE(calls, roamed_[number]) << "of object " << number;
      EXPECT_LE(calls, roamed_[number] + 1) << "of object " << number;
      roamed_[number] = calls;
    } else if (kind == "roamed" && words == 3) {
      EXPECT_EQ(calls, roamed_[number] + 1) << "of object " << number;
      roamed_[number] = calls;
      ++moving_calls_;
    } else {
      EXPECT_EQ(line, "none");
      made_ = false;
      number_ = 0;
    }
  }

  u64 moving_calls() const { return moving_calls_; }

 private:
  void visit(u64 number, u64 calls) {
    EXPECT_LE(calls, 1u);
    EXPECT_EQ(calls, number == 0 ? 0u : 1u);
    EXPECT_TRUE(made_ ? number == number_ : calls == 0 || number == number_ + 1)
        << number << " where " << number_ << (made_ ? " was made" : " had gone");
    made_ = calls != 0;
    number_ = number;
  }

  bool made_ = false;
  u64 number_ = 0;
  std::map<u64, u64> roamed_;  ///< calls by object
  u64 moving_calls_ = 0;
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
  u64 moving = 0;
  for (u64 kill = 0; kill < kills; ++kill) {
    if (kill % 40 == 0 && kill != 0) {
      value_or_throw(media::remove_medium(uri));
      std::filesystem::remove(folder.path("objects.pd.overflow"));
      answered += told.tickets();
      moving += told.moving_calls();
      told = {};
    }
    const auto lines = live({PERDURA_OBJECT_WORKER, uri, GetParam().way}, kill, random);
    SCOPED_TRACE("kill " + std::to_string(kill));
    for (const std::string& line : lines) told.note(line);
    if (HasFailure()) return;
  }
  answered += told.tickets();
  moving += told.moving_calls();
  std::printf("%lu kills, %lu tickets drawn, %lu calls of objects that move\n", kills, answered,
              moving);
  EXPECT_GT(answered, kills / 4);
  if (std::string(GetParam().way) == "overflow") {
    EXPECT_GT(moving, kills / 4);
  }
}

}  // namespace
}  // namespace perdura::test
