// Goal: what is written to a file that has no name any more is not acknowledged: it would be gone
// with the process.
// Method: files that are deleted, replaced, renamed or linked while a store in them is open.
#include <gtest/gtest.h>

#include <unistd.h>

#include <sys/mman.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include <perdura/perdura.hpp>

#include "base/unique_fd.hpp"
#include "media/medium.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* scheme;
  Engine engine;
};

class DeletedFile : public testing::TestWithParam<Kind> {
 protected:
  DeletedFile() : store_(Store::open(uri(), options())), number_(&store_.root<u64>("number")) {
    *number_ = 1;
    store_.checkpoint();
  }

  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam().scheme + path(); }
  static Options options() {
    Options options;
    options.engine = GetParam().engine;
    options.region_limit_bytes = 64 * kMiB;
    return options;
  }
  void expect_refused() {
    const std::string sentence =
        "'" + path() +
        "' was deleted or replaced while it is open, and what is written to it "
        "would be lost when this process ends";
    for (u64 number = 2; number < 4; ++number) {
      *number_ = number;
      expect_error([this] { store_.checkpoint(); }, Code::kIo, sentence);
      EXPECT_EQ(*number_, number);
    }
    expect_error([this] { store_.close(); }, Code::kIo, sentence);
  }

  const TempDir folder_;
  Store store_;
  u64* number_;
};

TEST_P(DeletedFile, IsNotWrittenToInSilence) {
  fs::remove(path());
  expect_refused();
}

TEST_P(DeletedFile, NorIsOneThatAnotherReplaced) {
  std::ofstream(folder_.path("other")) << "something else";
  fs::rename(folder_.path("other"), path());
  expect_refused();
  EXPECT_EQ(fs::file_size(path()), 14u);
}

TEST_P(DeletedFile, AnotherNameIsAsGood) {
  fs::rename(path(), folder_.path("renamed"));
  *number_ = 2;
  store_.checkpoint();
  fs::create_hard_link(folder_.path("renamed"), path());
  fs::remove(folder_.path("renamed"));
  *number_ = 3;
  store_.close();
  EXPECT_EQ(Store::open(uri(), options()).root<u64>("number"), 3u);
}

TEST_P(DeletedFile, TheCopyOfItThatTheMessageSpeaksOfHoldsWhatIsDurable) {
  fs::remove(path());
  *number_ = 2;
  std::string message;
  try {
    store_.checkpoint();
  } catch (const Error& error) {
    message = error.what();
  }
  const size_t begin = message.find("/proc/");
  ASSERT_NE(begin, std::string::npos) << message;
  fs::copy_file(message.substr(begin, message.find(' ', begin) - begin), folder_.path("copy"));
  {
    const Store ended = std::move(store_);
  }  // the copy's region has the same address
  Store copy = Store::open(GetParam().scheme + folder_.path("copy"), options());
  EXPECT_EQ(copy.root<u64>("number"), 1u);
}

TEST_P(DeletedFile, OneThatIsNamelessOnPurposeIsWrittenTo) {
  auto medium = value_or_throw(media::open_medium(uri() + "2", {})).medium;
  ASSERT_TRUE(medium->grow(kMiB, true));
  ASSERT_TRUE(medium->give_up_name());
  EXPECT_FALSE(fs::exists(path() + "2"));
  EXPECT_TRUE(medium->check_named());
  EXPECT_TRUE(medium->barrier(PERDURA_SITE("test")));
}

// Nobody expects to find a memory file again.
TEST_P(DeletedFile, OneThatNeverHadANameIsAStore) {
  const UniqueFd memory(::memfd_create("store", MFD_CLOEXEC));
  Store store = Store::open(
      std::string(GetParam().scheme) + "/proc/self/fd/" + std::to_string(memory.get()), options());
  store.root<u64>("number") = 2;
  EXPECT_GT(store.checkpoint(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Stores, DeletedFile,
    testing::Values(Kind{"file:", Engine::kRedoLog}, Kind{"file:", Engine::kRemap},
                    Kind{"emu:", Engine::kRedoLog}, Kind{"emu:", Engine::kRemap},
                    Kind{"file:", Engine::kDualCopy}, Kind{"emu:", Engine::kDualCopy}),
    [](const auto& each) {
      const std::string place = each.param.scheme[0] == 'f' ? "File" : "Nvm";
      return place + (each.param.engine == Engine::kRemap      ? "InChunks"
                      : each.param.engine == Engine::kDualCopy ? "InCopies"
                                                               : "");
    });

// A transaction's barrier asks for the name by itself.
TEST(DeletedFileOfTransactions, IsNotWrittenToInSilence) {
  const TempDir folder;
  Store store = Store::open(folder.path("store.pd"));
  u64& number = store.root<u64>("number");
  atomically(store, [&](Transaction& tx) { tx.write(number, u64{1}); });
  fs::remove(folder.path("store.pd"));
  expect_error([&] { atomically(store, [&](Transaction& tx) { tx.write(number, u64{2}); }); },
               Code::kIo, "was deleted or replaced");
}

}  // namespace
}  // namespace perdura::test
