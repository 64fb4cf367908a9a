// Goal: stores that processes make which know nothing of each other can mostly be open in one
// process, each at the address where it was made.
// Method: child processes make stores of untyped blocks, which no other address would do for; the
// test opens all of them at once.
#include <gtest/gtest.h>

#include <set>

#include <perdura/detail/sanitizers.hpp>
#include <perdura/perdura.hpp>

#include "region/region.hpp"
#include "store/inspect.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

constexpr u64 kLimit = u64{64} << 20;  // a place of a GiB among eleven thousand

Options options(Engine engine) {
  Options options;
  options.engine = engine;
  options.tracking = Tracking::kReported;
  options.region_limit_bytes = kLimit;
  return options;
}

#if defined(PERDURA_THREAD_SANITIZER)
constexpr bool kIsOtherWindow = true;  // which is small, and given out from its beginning
#else
constexpr bool kIsOtherWindow = false;
#endif

class Addresses : public testing::TestWithParam<Engine> {
 protected:
  static std::string make(const std::string& path, const char* text, Engine engine) {
    return in_child([&]() -> std::string {
      Store store = Store::open(path, options(engine));
      auto* const made = static_cast<char*>(store.allocate(64));
      auto** const link = static_cast<char**>(store.allocate(sizeof(char*)));
      {
        auto operation = store.operation();
        operation.touch(made, 64);
        std::snprintf(made, 64, "%s", text);
        operation.touch(link, sizeof *link);
        *link = made;
      }
      store.set_root("link", link);
      store.checkpoint();
      store.close();
      return "";
    });
  }

  const TempDir folder_{TempDir::kMemory};
};

// Of two stores in 11,000 one pair meets: what is made anew then shows that it is chance.
TEST_P(Addresses, StoresOfSeparateProcessesAreOpenInOne) {
  if (kIsOtherWindow) GTEST_SKIP() << "the window is another there";
  for (int attempt = 0;; ++attempt) {
    const std::string first = folder_.path("first" + std::to_string(attempt));
    const std::string second = folder_.path("second" + std::to_string(attempt));
    ASSERT_EQ(make(first, "one", GetParam()), "");
    ASSERT_EQ(make(second, "two", GetParam()), "");
    const auto one = store::outline(first, {});
    const auto two = store::outline(second, {});
    ASSERT_TRUE(one && two);
    if (one->regions[0].record.address == two->regions[0].record.address) {
      ASSERT_LT(attempt, 2) << "stores are made at the same address";
      continue;
    }
    Store a = Store::open(first, options(GetParam()));
    Store b = Store::open(second, options(GetParam()));
    EXPECT_STREQ(*static_cast<char**>(a.get_root("link")), "one");
    EXPECT_STREQ(*static_cast<char**>(b.get_root("link")), "two");
    a.close();
    b.close();
    break;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, Addresses,
                         testing::Values(Engine::kRedoLog, Engine::kRemap, Engine::kDualCopy));

// What a store's id says is where the search begins: what is taken is passed by, around the end.
TEST(AddressChoice, FollowsFromTheIdentityAndPassesByWhatIsTaken) {
  std::set<u64> addresses;
  for (u64 identity = 1; identity <= 64; ++identity) {
    const auto address = region::Region::choose_address(kGiB, {}, identity * 0x9e3779b97f4a7c15);
    ASSERT_TRUE(address);
    addresses.insert(*address);
    EXPECT_EQ(*address, *region::Region::choose_address(kGiB, {}, identity * 0x9e3779b97f4a7c15));
    format::RegionRecord taken{};
    taken.address = *address;
    taken.limit_bytes = kGiB;
    const auto other = region::Region::choose_address(kGiB, {taken}, identity * 0x9e3779b97f4a7c15);
    ASSERT_TRUE(other);
    EXPECT_NE(*other, *address);
  }
  if (!kIsOtherWindow) {
    EXPECT_GE(addresses.size(), 60u) << "64 of 11,000 places";
  }
  EXPECT_EQ(*region::Region::choose_address(kGiB, {}, 0), *region::Region::choose_address(kGiB));
  const auto none = region::Region::choose_address(u64{1} << 45, {}, 7);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.failure().code, Code::kNoMemory);
}

}  // namespace
}  // namespace perdura::test
