// Goal: at the end of a counter that docs/counters.md lists a program is told, or goes on; nothing
// wraps in silence. Method: each is taken to its end, by as many things as it counts. Counters that
// other tests take there are named in the document.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <perdura/perdura.hpp>

#include "format/heap_format.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

Options options(u64 limit_bytes) {
  Options options;
  options.region_limit_bytes = limit_bytes;
  options.tracking = Tracking::kReported;
  options.log_limit_bytes = 4 * kMiB;
  options.log_segment_bytes = 256 * kKiB;
  return options;
}

// Threads tell stores apart by an index of 6 bits and an identifier: an index is used again, and
// what a thread remembers of it is not of the store that has it now.
TEST(Counters, AProcessHasSoManyStoresOpen) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer leaves no address space for so many";
#endif
  const TempDir folder{TempDir::kMemory};
  const auto open = [&](size_t i) {
    return std::make_unique<Store>(
        Store::open("emu:" + folder.path(std::to_string(i)), options(kMiB)));
  };
  std::vector<std::unique_ptr<Store>> stores;
  for (size_t i = 0; i < detail::kOpenStoresMax; ++i) {
    stores.push_back(open(i));
    stores.back()->root<u64>("number") = i;
  }
  const size_t last = detail::kOpenStoresMax;
  expect_error([&] { open(last); }, Code::kNoMemory, "64 stores");
  stores[7]->close();
  stores[7] = open(last);
  stores[7]->root<u64>("number") = last;
  std::thread([&] {
    EXPECT_EQ(stores[7]->root<u64>("number"), last);
    EXPECT_EQ(stores[8]->root<u64>("number"), 8u);
  }).join();
  EXPECT_EQ(stores[7]->root<u64>("number"), last);
  EXPECT_EQ(stores[8]->root<u64>("number"), 8u);
}

TEST(Counters, AHeapKnowsSoManyTypes) {
  const TempDir folder{TempDir::kMemory};
  const std::string uri = "emu:" + folder.path("store.pd");
  std::vector<std::string> names(format::kTypesMax + 1);
  std::vector<perdura_type> types;
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = "type " + std::to_string(i);
    types.push_back({names[i].c_str(), 16, 8, 0, nullptr});
  }
  {
    Store store = Store::open(uri, options(64 * kMiB));
    for (size_t i = 0; i < format::kTypesMax; ++i) store.deallocate(store.allocate(types[i]));
    expect_error([&] { store.allocate(types.back()); }, Code::kNoSpace, "32767 types");
    EXPECT_NE(store.allocate(types[0]), nullptr) << "those that it knows go on";
    store.close();
  }
  Store store = Store::open(uri, options(64 * kMiB));
  expect_error([&] { store.allocate(types.back()); }, Code::kNoSpace, "32767 types");
  store.set_root("last", store.allocate(types[format::kTypesMax - 1]));
  EXPECT_EQ(store.audit().types, format::kTypesMax);
  EXPECT_TRUE(store.audit().clean);
}

// A report has 16 bits for its bytes.
TEST(Counters, AReportMayBeOfAnyLength) {
  constexpr u64 kLengths[] = {0xfffe, 0xffff, 0x10000, 0x10001, 0x1ffff, 0x20000, 3 * kMiB + 1};
  const TempDir folder{TempDir::kMemory};
  const std::string uri = "emu:" + folder.path("store.pd");
  unsigned char* blocks[std::size(kLengths)];
  {
    WrappedStore store(uri, options(64 * kMiB));
    for (size_t i = 0; i < std::size(kLengths); ++i)
      blocks[i] = static_cast<unsigned char*>(store.operation().allocate(kLengths[i]));
    store.checkpoint();
    for (size_t i = 0; i < std::size(kLengths); ++i) {
      const auto operation = store.operation();
      operation.touch(blocks[i], kLengths[i]);
      std::memset(blocks[i], static_cast<int>(i + 1), kLengths[i]);
    }
    store.checkpoint();
    store.crash();
  }
  WrappedStore store(uri, options(64 * kMiB));
  for (size_t i = 0; i < std::size(kLengths); ++i)
    for (u64 at = 0; at < kLengths[i]; ++at) ASSERT_EQ(blocks[i][at], i + 1) << kLengths[i];
}

}  // namespace
}  // namespace perdura::test
