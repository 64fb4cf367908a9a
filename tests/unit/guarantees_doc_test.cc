// Goal: what docs/guarantees.md says and no test of a part shows: of forked children, system calls
// that store into a store, stores that nobody reported, faults that nobody can answer, and limits.
// Method: a program does what the sentence is about; what it sees, and what is there after a crash.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include <perdura/perdura.hpp>

#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/wrapped_store.hpp"

// Sanitizers leave these signals to the library and to the system.
extern "C" const char* __asan_default_options() { return "handle_segv=0:handle_sigbus=0"; }
extern "C" const char* __tsan_default_options() { return "handle_segv=0:handle_sigbus=0"; }

namespace perdura::test {

struct Leading {
  Leading* inside;
  const char* outside;
};

}  // namespace perdura::test

PERDURA_TYPE(perdura::test::Leading, inside, outside)

namespace perdura::test {
namespace {

Options small(Tracking tracking = Tracking::kAutomatic) {
  Options options;
  options.region_limit_bytes = 16 * kMiB;
  options.tracking = tracking;
  return options;
}

std::string died_of(int signal) { return " died of signal " + std::to_string(signal); }

// --- forked children -----------------------------------------------------------------------------

class ForkedChild : public testing::TestWithParam<Tracking> {
 protected:
  Store open(const std::string& parameters = "") const {
    return Store::open("file:" + path_ + parameters, small(GetParam()));
  }
  const TempDir folder_{TempDir::kMemory};
  const std::string path_ = folder_.path("state.pd");
};

TEST_P(ForkedChild, DiesWhereItTouchesTheMemory) {
  for (const bool is_new : {true, false}) {
    Store store = open();
    u64& number = store.root<u64>("number");
    number = 5;
    EXPECT_EQ(in_child([&] {
                return "read " + std::to_string(*static_cast<const volatile u64*>(&number));
              }),
              died_of(SIGSEGV))
        << is_new;
    EXPECT_EQ(number, 5u);
  }
}

// Where nobody watches the memory nothing is said; what is said is of the parent.
TEST_P(ForkedChild, IsToldWhyItDies) {
  Store store = open();
  u64& number = store.root<u64>("number");
  testing::internal::CaptureStderr();
  const std::string died =
      in_child([&] { return std::to_string(*static_cast<const volatile u64*>(&number)); });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(died, died_of(SIGSEGV));
  if (GetParam() == Tracking::kProtect || GetParam() == Tracking::kSigbus || !said.empty()) {
    EXPECT_NE(said.find("the store belongs to the parent process"), said.npos) << said;
  }
  EXPECT_EQ(said.find("its medium failed"), said.npos) << said;
}

// So it can open stores there that others have made.
TEST_P(ForkedChild, HasItsAddressesForItself) {
  for (const bool is_new : {true, false}) {
    Store store = open();
    const u64& number = store.root<u64>("number");
    std::byte* const base = detail::runtime_holding(&number)->region().base();
    EXPECT_EQ(in_child([&]() -> std::string {
                const auto taken = Mapping::reserve(base, small(GetParam()).region_limit_bytes);
                return taken ? "" : taken.failure().message;
              }),
              "")
        << is_new;
  }
}

TEST_P(ForkedChild, IsToldWhoseTheStoreIs) {
  Store store = open();
  u64& number = store.root<u64>("number");
  atomically(store, [&](Transaction& tx) { tx.write(number, u64{5}); });
  const std::vector<std::function<void()>> calls = {
      [&] { const auto operation = store.operation(); },
      [&] { store.allocate(8); },
      [&] { store.deallocate(&number); },
      [&] { store.touch(&number, 8); },
      [&] { store.get_root("number"); },
      [&] { store.root<u64>("number"); },
      [&] { store.checkpoint(); },
      [&] { atomically(store, [&](Transaction& tx) { tx.write(number, u64{6}); }); },
  };
  for (size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(in_child([&]() -> std::string {
                expect_error(calls[i], Code::kForked, "belongs to the parent process");
                return testing::Test::HasFailure() ? "another error" : "";
              }),
              "")
        << i;
}

// Of two stores that lie at the same address. What finds a store by an
// address in it, or finds the only one, means the child's; and so does an access to what is not
// loaded yet.
TEST_P(ForkedChild, HasAStoreOfItsOwnWhereItsParentHasOne) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer takes the child's threads for its parent's, which had their ids";
#endif
  constexpr size_t kBytes = 8 * kMiB;
  struct Root {
    Field<u64> number;
    std::byte* block;
  };
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap}) {
    SCOPED_TRACE(static_cast<int>(engine));
    Options options = small(GetParam());
    options.engine = engine;
    const auto open = [&](const char* file, u64 address = 0) {
      options.region_address = address;
      return Store::open("file:" + folder_.path(file) + std::to_string(static_cast<int>(engine)),
                         options);
    };
    const auto make = [&](const char* file, u64 address) {
      Store store = open(file, address);
      Root& root = store.root<Root>("root");
      const auto operation = store.operation();
      operation.touch(&root, sizeof root);
      root.block = static_cast<std::byte*>(operation.allocate(kBytes));
      operation.touch(root.block, kBytes);
      std::memset(root.block, file[0], kBytes);
      return reinterpret_cast<std::uintptr_t>(detail::runtime_holding(&root)->region().base());
    };
    const u64 place = make("child's", 0);
    ASSERT_EQ(make("parent's", place), place);
    Store parents = open("parent's");
    const Root& root = *parents.find_root<Root>("root");
    const auto is_whole = [](const Root& at, char byte) {
      return std::all_of(at.block, at.block + kBytes,
                         [&](std::byte each) { return each == static_cast<std::byte>(byte); });
    };
    ASSERT_TRUE(is_whole(root, 'p'));
    for (u64 i = 1; i <= 3; ++i)
      EXPECT_EQ(in_child([&]() -> std::string {
                  Store own = open("child's");
                  Root& its = *own.find_root<Root>("root");
                  if (!is_whole(its, 'c')) return "another block";
                  its.number = its.number.get() + i;
                  const bool is_reported = GetParam() == Tracking::kReported;
                  if (!is_reported) {
                    vector<u64> numbers;  // of the only store
                    numbers.assign(1000, i);
                    if (!own.contains(numbers.data())) return "of another store";
                    const auto operation = own.operation();
                    string text(1000, 'x');
                    if (!own.contains(text.data())) return "text of another store";
                  }
                  if (engine == Engine::kRedoLog)
                    atomically(own, [&](Transaction& tx) {
                      if (is_reported) return tx.deallocate(tx.allocate(500));
                      auto* const text = tx.make<string>(Allocator<char>(own));
                      text->assign(500, 'y');
                      tx.destroy(text);
                    });
                  own.close();
                  return "";
                }),
                "");
    EXPECT_TRUE(is_whole(root, 'p'));
    parents.checkpoint();
    parents.close();
    EXPECT_EQ(open("child's").find_root<Root>("root")->number.get(), 6u);
  }
}

TEST_P(ForkedChild, WithoutAStoreOfItsOwnIsToldWhoseTheOnlyOneIs) {
  if (GetParam() == Tracking::kReported) return;  // no standard container is in such a store
  const Store store = open();
  EXPECT_EQ(in_child([&]() -> std::string {
              expect_error([&] { vector<u64>().assign(1000, 1); }, Code::kForked,
                           "belongs to the parent process");
              return testing::Test::HasFailure() ? "another error" : "";
            }),
            "");
}

TEST_P(ForkedChild, MayDestroyTheStoreThatItInherited) {
  std::optional<Store> store(open());
  Field<u64>& number = store->root<Field<u64>>("number");
  number = 1;
  const u64 version = store->checkpoint();
  number = 2;
  const FileBytes before = read_file(path_);
  EXPECT_EQ(in_child([&]() -> std::string {
              ::alarm(60);  // the threads of the store are not there
              store.reset();
              return "";
            }),
            "");
  EXPECT_EQ(read_file(path_), before);
  EXPECT_EQ(store->durable_version(), version);
  EXPECT_EQ(number.get(), 2u);
  expect_error([&] { open(); }, Code::kLocked, "is open in process");
  EXPECT_GT(store->checkpoint(), version);
  store->close();
  EXPECT_EQ(open().root<Field<u64>>("number").get(), 2u);
}

// Nothing tells the library of such a child: it has the descriptor that holds the lock, also when
// the program has died that opened the store.
TEST_P(ForkedChild, OfTheBareSystemCallKeepsTheLock) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  Child program([&]() -> std::string {
    Store store = open();
    const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    ::close(ends[1]);
    char byte = 0;
    if (child == 0) ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));
    if (child < 0 || ::write(ready[1], &byte, 1) != 1) return "no child";
    for (;;) ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  // The child of the child has the pipe of its results as well: it is not waited for.
  program.kill();
  siginfo_t ignored;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(program.pid()), &ignored, WEXITED | WNOWAIT), 0);
  expect_error([&] { open("?timeout_ms=1"); }, Code::kLocked, "the last one known was process");
  ::close(ends[1]);
  EXPECT_EQ(program.wait(), "");
  EXPECT_TRUE(open("?timeout_ms=60000").audit().clean);
  for (const int fd : {ends[0], ready[0], ready[1]}) ::close(fd);
}

INSTANTIATE_TEST_SUITE_P(Trackers, ForkedChild,
                         testing::Values(Tracking::kAutomatic, Tracking::kProtect,
                                         Tracking::kReported));

// --- system calls that store ---------------------------------------------------------------------

class SystemCalls : public testing::TestWithParam<Tracking> {
 protected:
  static constexpr size_t kBytes = 4 * kPageBytes;

  void SetUp() override {
    try {
      open();
    } catch (const Error& error) {
      // No other failure is an excuse.
      if (error.code() != Code::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
    {
      const auto operation = store_->operation();
      void* const block = operation.allocate(kBytes, kPageBytes);
      std::memset(block, 'a', kBytes);
      operation.set_root("block", block);
    }
    store_->checkpoint();
    write_file(folder_.path("text"), FileBytes(kBytes, std::byte{'b'}));
    text_ = ::open(folder_.path("text").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(text_, 0);
  }
  ~SystemCalls() override {
    if (text_ >= 0) ::close(text_);
  }
  void open() { store_.emplace("emu:" + folder_.path("state.pd"), small(GetParam())); }
  char* block() { return static_cast<char*>(store_->get_root("block")); }
  /// What a crash leaves.
  void expect_durable(char letter) {
    store_->checkpoint();
    store_->crash();
    store_.reset();
    open();
    EXPECT_EQ(std::string(block(), kBytes), std::string(kBytes, letter));
  }

  const TempDir folder_{TempDir::kMemory};
  std::optional<WrappedStore> store_;
  int text_ = -1;
};

class FoundSystemCalls : public SystemCalls {};

TEST_P(FoundSystemCalls, AreStoresLikeOthers) {
  EXPECT_EQ(::read(text_, block(), kBytes), static_cast<ssize_t>(kBytes));
  expect_durable('b');
}

INSTANTIATE_TEST_SUITE_P(Trackers, FoundSystemCalls, testing::Values(Tracking::kUserfault));

class RefusedSystemCalls : public SystemCalls {};

TEST_P(RefusedSystemCalls, NeedAStoreToEachPageBefore) {
  EXPECT_EQ(::read(text_, block(), kBytes), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(std::string(block(), kBytes), std::string(kBytes, 'a'));
  {
    const auto operation = store_->operation();
    for (size_t at = 0; at < kBytes; at += kPageBytes)
      static_cast<volatile char*>(block())[at] = 'a';
    EXPECT_EQ(::pread(text_, block(), kBytes, 0), static_cast<ssize_t>(kBytes));
  }
  expect_durable('b');
}

INSTANTIATE_TEST_SUITE_P(Trackers, RefusedSystemCalls,
                         testing::Values(Tracking::kSigbus, Tracking::kProtect));

// --- what nobody reported ------------------------------------------------------------------------

class Unreported : public testing::TestWithParam<Tracking> {};

TEST_P(Unreported, IsLostButInAGranuleThatSomebodyReports) {
  const TempDir folder(TempDir::kMemory);
  Options options = small(GetParam());
  options.granule_bytes = 256;
  const std::string uri = "file:" + folder.path("state.pd");
  {
    WrappedStore store(uri, options);
    auto* const bytes = [&] {
      const auto operation = store.operation();
      auto* const made = static_cast<char*>(operation.allocate(kPageBytes, kPageBytes));
      std::memset(made, 'a', kPageBytes);
      operation.set_root("bytes", made);
      return made;
    }();
    store.checkpoint();
    {
      const auto operation = store.operation();
      operation.touch(bytes, 1);
      bytes[0] = bytes[255] = bytes[256] = bytes[2000] = 'b';
    }
    store.checkpoint();
    store.crash();
  }
  WrappedStore store(uri, options);
  const auto* const bytes = static_cast<const char*>(store.get_root("bytes"));
  EXPECT_EQ(bytes[0], 'b');
  EXPECT_EQ(bytes[255], 'b') << "of the granule that was reported";
  EXPECT_EQ(bytes[256], 'a');
  EXPECT_EQ(bytes[2000], 'a');
}

INSTANTIATE_TEST_SUITE_P(Trackers, Unreported,
                         testing::Values(Tracking::kReported, Tracking::kBitmap));

// Two blocks of one page: each is seen through the alias of the half that it starts in.
TEST(StoresByOtherAliases, AreChangesOfTheOtherObjectsPart) {
  const TempDir folder(TempDir::kMemory);
  Options options = small();
  options.aliases = 2;
  options.compare = false;
  const std::string uri = "emu:" + folder.path("state.pd");
  constexpr u64 kSize = 2048;
  {
    WrappedStore store(uri, options);
    const auto offset_of = [&](const char* block) {
      return store.runtime().region().offset_of(block);
    };
    std::vector<char*> blocks;
    char* lower = nullptr;
    char* upper = nullptr;
    while (upper == nullptr) {
      blocks.push_back(static_cast<char*>(store.operation().allocate(kSize, kSize)));
      std::memset(blocks.back(), 'a', kSize);
      for (char* other : blocks)
        if (offset_of(other) % kPageBytes == 0 &&
            offset_of(blocks.back()) == offset_of(other) + kSize) {
          lower = other;
          upper = blocks.back();
        }
    }
    {
      const auto operation = store.operation();
      operation.set_root("lower", lower);
      operation.set_root("upper", upper);
    }
    store.checkpoint();
    // The lower half is what this makes durable; the upper one is not known to have changed.
    lower[kSize] = 'b';
    EXPECT_EQ(upper[0], 'b');
    const u64 before = store.statistics().changed_bytes;
    store.checkpoint();
    EXPECT_EQ(store.statistics().changed_bytes - before, kSize);
    store.crash();
  }
  WrappedStore store(uri, options);
  EXPECT_EQ(*static_cast<char*>(store.get_root("upper")), 'a');
  EXPECT_EQ(*static_cast<char*>(store.get_root("lower")), 'a');
}

// --- faults that nobody can answer ---------------------------------------------------------------

void say_and_go(int signal) {
  const char said[] = "the program's own handler\n";
  const ssize_t written = ::write(STDERR_FILENO, said, sizeof said - 1);
  ::signal(signal, written > 0 ? SIG_DFL : SIG_IGN);
}

TEST(UnansweredFaults, AreToldToTheProgramsHandlerAndLoseNothing) {
  const TempDir folder(TempDir::kMemory);
  const std::string path = folder.path("state.pd");
  std::string address;
  EXPECT_EQ(in_child([&]() -> std::string {
              ::signal(SIGSEGV, &say_and_go);
              Store store = Store::open("file:" + path, small(Tracking::kProtect));
              store.root<u64>("number") = 7;
              store.checkpoint();
              store.root<u64>("number") = 8;
              const int file = ::open(folder.path("said").c_str(), O_CREAT | O_WRONLY, 0600);
              ::dup2(file, STDERR_FILENO);
              char text[40];
              auto& number = store.root<u64>("number");
              std::snprintf(text, sizeof text, "0x%016lx",
                            reinterpret_cast<std::uintptr_t>(&number));
              write_file(folder.path("address"),
                         {reinterpret_cast<std::byte*>(text),
                          reinterpret_cast<std::byte*>(text) + std::strlen(text)});
              reinterpret_cast<void (*)()>(reinterpret_cast<std::uintptr_t>(&number))();
              return "survived";
            }),
            died_of(SIGSEGV));
  const auto text_of = [&](const char* name) {
    const FileBytes bytes = read_file(folder.path(name));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const std::string said = text_of("said");
  const size_t told = said.find("perdura: the access to " + text_of("address"));
  EXPECT_NE(told, said.npos) << said;
  EXPECT_NE(said.find("the program's own handler", told), said.npos) << said;
  EXPECT_EQ(Store::open("file:" + path, small()).root<u64>("number"), 7u);
}

// --- verification --------------------------------------------------------------------------------

TEST(DamagedPages, DoNotStopCheckpoints) {
  const TempDir folder(TempDir::kMemory);
  const std::string path = folder.path("state.pd");
  u64 place = 0;
  {
    WrappedStore store("file:" + path, small());
    {
      const auto operation = store.operation();
      operation.set_root("block", operation.allocate(kMiB));
      operation.set_root("number", operation.allocate(8));
    }
    store.close();
    const auto home = store.runtime().region().home();
    const u64 offset = store.runtime().region().offset_of(store.get_root("block")) + kMiB / 2;
    for (const format::Extent& extent : home->extents())
      if (offset - extent.region_offset < extent.length)
        place = extent.medium_offset + offset - extent.region_offset;
  }
  ASSERT_NE(place, 0u);
  FileBytes image = read_file(path);
  image[place] ^= std::byte{1};
  write_file(path, image);
  {
    WrappedStore store("file:" + path, small());
    while (store.statistics().damaged_pages == 0) ::sched_yield();
    {
      const auto operation = store.operation();
      auto* const number = static_cast<u64*>(store.get_root("number"));
      operation.touch(number, sizeof *number);
      *number = 9;
    }
    store.checkpoint();
    store.crash();
  }
  WrappedStore store("file:" + path, small());
  EXPECT_EQ(*static_cast<u64*>(store.get_root("number")), 9u);
}

// --- limits --------------------------------------------------------------------------------------

TEST(Limits, AProcessHas64StoresOpen) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer leaves no address space for so many";
#endif
  const TempDir folder(TempDir::kMemory);
  const auto open = [&](u64 number) {
    return Store::open("emu:" + folder.path(std::to_string(number)), small());
  };
  std::vector<Store> stores;
  for (u64 i = 0; i < 64; ++i) stores.push_back(open(i));
  expect_error([&] { open(64); }, Code::kNoMemory, "64 stores open at once");
  stores.front().close();
  stores.push_back(open(64));
  for (Store& store : stores)
    if (&store != &stores.front()) store.root<u64>("number") = 1;
}

// The limit is rounded up, not the sum.
TEST(Limits, AliasesTakeAsManyTimesTheAddressSpace) {
  const TempDir folder(TempDir::kMemory);
  Options options = small();
  options.region_limit_bytes = 48 * kMiB;
  options.aliases = 4;
  const WrappedStore store("emu:" + folder.path("state.pd"), options);
  auto& region = const_cast<WrappedStore&>(store).runtime().region();
  constexpr u64 kStride = 64 * kMiB;
  for (u64 at = 0; at < 5 * kStride; at += kMiB) {
    void* const place = region.base() + at;
    const void* const got = ::mmap(place, kPageBytes, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(got, MAP_FAILED) << "nobody has it: " << at / kMiB << " MiB";
  }
  format::RegionRecord largest{};
  largest.limit_bytes = 64 * kGiB;
  largest.aliases = 64;
  EXPECT_EQ(format::reserved_bytes(largest), 65 * 64 * kGiB);
}

TEST(Limits, PointersOutOfTheRegionAreNotMoved) {
  const TempDir folder(TempDir::kMemory);
  static const char outside[] = "of the program";
  Options options = small(Tracking::kReported);
  for (const u64 address : {0x5530'0000'0000, 0x5540'0000'0000}) {
    options.region_address = address;
    Store store = Store::open("emu:" + folder.path("state.pd"), options);
    auto& leading = store.root<Leading>("leading");
    if (address == 0x5530'0000'0000) {
      const auto operation = store.operation();
      operation.touch(&leading, sizeof leading);
      leading = {&leading, outside};
    }
    EXPECT_TRUE(store.contains(&leading) && leading.inside == &leading);
    EXPECT_EQ(leading.outside, outside);
  }
}

TEST(Limits, DefaultsAreTheDocuments) {
  const Options options;
  EXPECT_EQ(options.verify_bytes_per_second, 64 * kMiB);
  EXPECT_EQ(options.log_segment_bytes, kMiB);
  EXPECT_EQ(options.granule_bytes, 64u);
  EXPECT_EQ(options.engine, Engine::kRedoLog);
  EXPECT_EQ(options.tracking, Tracking::kAutomatic);
  EXPECT_TRUE(options.compare);
  EXPECT_TRUE(options.lazy_recovery);
  EXPECT_TRUE(options.huge_pages);
  EXPECT_FALSE(options.allow_network_filesystem);
}

// --- allocation ----------------------------------------------------------------------------------

// A checkpoint between an allocation and the store that makes it known has the one without the
// other.
TEST(Leaks, AreOfBlocksThatAVersionHasAndNothingLeadsTo) {
  const TempDir folder(TempDir::kMemory);
  u64 without_a_leak = 0;
  for (const bool is_bracketed : {true, false}) {
    const std::string path = folder.path(is_bracketed ? "inside.pd" : "outside.pd");
    EXPECT_EQ(in_child([&]() -> std::string {
                Store store = Store::open(path, small());
                u64*& known = store.root<u64*>("known");
                known = nullptr;
                store.checkpoint();
                if (is_bracketed) {
                  const auto operation = store.operation();
                  known = store.make<u64>(7);
                  try {
                    store.checkpoint();
                    return "a checkpoint falls inside an operation";
                  } catch (const Error&) {
                  }
                } else {
                  u64* const made = store.make<u64>(7);
                  store.checkpoint();  // by another thread, say
                  known = made;
                }
                ::kill(::getpid(), SIGKILL);
                return "";
              }),
              "");
    Store store = Store::open(path, small());
    EXPECT_EQ(store.root<u64*>("known"), nullptr);
    const u64 blocks = store.audit().live_blocks;
    if (is_bracketed) without_a_leak = blocks;
    else EXPECT_EQ(blocks, without_a_leak + 1);
  }
}

}  // namespace
}  // namespace perdura::test
