// Goal: a call of SoftPM's that the system refuses memory says so, and the next one finds
// everything as if it had not been made. Method: each allocation of making a container fails in
// turn, each time with a root of another size, of which nothing is known yet.
#include <gtest/gtest.h>
#include <perdura/compat/softpm.h>

#include <cstdlib>
#include <string>

#include <perdura/perdura.h>

#include "base/bits.hpp"
#include "support/call_faults.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

constexpr int kMagic = 7;

TEST(SoftpmMemory, AContainerThatGotNoneIsMadeByTheNextCall) {
  const TempDir folder(TempDir::kMemory);
  ASSERT_EQ(::setenv("PERDURA_STORE", ("file:" + folder.path("store.pd")).c_str(), 1), 0);
  bool refused = true;
  for (u64 nth = 1; refused; ++nth) {
    void* root = nullptr;
    const int bytes = static_cast<int>(8 * nth);
    const CallFault fault{.nth = nth, .own = true};
    int id = 0;
    {
      const InLibrary here;
      arm_calls(&fault);
      id = pCAlloc(kMagic, bytes, &root);
      disarm_calls();
    }
    refused = id == -PERDURA_NO_MEMORY;
    ASSERT_TRUE(refused || id > 0) << "allocation " << nth << ": " << perdura_last_error();
    if (refused) id = pCAlloc(kMagic, bytes, &root);
    ASSERT_GT(id, 0) << "after allocation " << nth << ": " << perdura_last_error();
    ASSERT_NE(root, nullptr);
    pCFree(id);
    pCDelete(kMagic);
    ASSERT_LT(nth, 10'000u);
  }
}

}  // namespace
}  // namespace perdura::test
