// Goal: heads move under threads that call, make and remove objects.
// Method: objects that are all hot, in sessions of which every other one is killed, with and
// without an overflow store; heads move as often as they can.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <perdura/objects.hpp>

#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {
struct Busy {
  std::uint64_t count;
  std::uint64_t deferred;
  std::uint64_t next() noexcept { return ++count; }
  void later() noexcept { ++deferred; }
  std::uint64_t now() const noexcept { return count; }
};
}  // namespace perdura::test
template <>
struct perdura::Methods<perdura::test::Busy>
    : perdura::MethodList<perdura::Instant<&perdura::test::Busy::next>,
                          perdura::Deferrable<&perdura::test::Busy::later>> {};

namespace perdura::test {
namespace {

class MovingHeadsOfThreads : public testing::TestWithParam<const char*> {
 protected:
  std::string uri(const char* name = "objects.pd") const { return GetParam() + folder_.path(name); }
  const TempDir folder_{TempDir::kMemory};
};
INSTANTIATE_TEST_SUITE_P(Media, MovingHeadsOfThreads, testing::Values("emu:", "file:"),
                         name_of_scheme);

TEST_P(MovingHeadsOfThreads, AllAreHot) {
  for (const bool overflowing : {false, true}) {
    std::filesystem::remove(folder_.path("objects.pd"));
    std::filesystem::remove(folder_.path("overflow.pd"));
    std::map<std::string, u64> versions;
    for (int session = 0; session < 8; ++session) {
      const bool dies = session % 2 == 1;
      const std::string wrong = in_child([&]() -> std::string {
        ObjectsOptions how;
        how.wear_moves = session % 3 == 2 ? 0 : 1;
        if (overflowing) {
          how.overflow = uri("overflow.pd");
          how.bytes_max = 40 * 4096;
        }
        Objects objects = Objects::open(uri(), how);
        std::atomic<bool> bad{false};
        std::atomic<u64> made{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t)
          threads.emplace_back([&, t] {
            std::mt19937_64 random(static_cast<u64>(t + session * 10));
            try {
              for (int i = 0; i < 300; ++i) {
                const u64 which = random() % 6;
                ObjectOptions options{.log_bytes = 4096, .checkpoint_calls = 1 + which % 3};
                if (which == 2) options.durability = ObjectDurability::kRelaxed;
                if (which == 3) options.history = ObjectHistory::kLast, options.callers = 64;
                const std::string name = "o" + std::to_string(which);
                auto object = objects.object<Busy>(name, options);
                if (which == 3) {
                  const Caller caller(objects, static_cast<std::uint32_t>(t));
                  (void)object.call<&Busy::next>();
                } else {
                  for (int k = 0; k < 4; ++k) (void)object.call<&Busy::next>();
                  object.defer<&Busy::later>();
                }
                if (i % 50 == 0) {
                  const u64 one = object.checkpoint();
                  const u64 two = object.checkpoint();
                  if (two <= one) bad = true;
                }
                if (i % 100 == 99) {
                  const std::string own = "own " + std::to_string(t);
                  {
                    (void)objects.object<Busy>(own, {.log_bytes = 4096}).call<&Busy::next>();
                  }
                  objects.remove(own);
                  ++made;
                }
              }
            } catch (const Error& error) {
              std::fprintf(stderr, "%s\n", error.what());
              bad = true;
            }
          });
        for (std::thread& each : threads) each.join();
        if (bad) return "a thread failed";
        if (how.wear_moves != 0 && objects.moves().heads == 0) return "none moved";
        if (dies) ::kill(::getpid(), SIGKILL);
        objects.close();
        return "";
      });
      ASSERT_EQ(wrong, "") << session;
      ASSERT_FALSE(value_or_throw(store::check(uri(), {}, store::no_progress,
                                               overflowing ? uri("overflow.pd") : ""))
                       .damaged());
    }
  }
}

}  // namespace
}  // namespace perdura::test
