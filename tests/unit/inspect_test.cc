// Goal: a store can be looked at, and an old version of it read, by whoever may read the file, and
// by several at a time; what was appended to a store does it no harm; what was cut off is damage,
// and so is a root that leads to nothing. Method: stores in files that are closed in order or left
// by a process that dies, looked at by processes without permission to write, or with the file on a
// mount that is read-only; bytes are appended to files and cut off.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <perdura/perdura.hpp>

#include "base/unique_fd.hpp"
#include "media/medium.hpp"
#include "store/inspect.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/somebody_else.hpp"

namespace perdura::test {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* scheme;
  Engine engine;
  bool killed;
};

class Inspect : public testing::TestWithParam<Kind> {
 protected:
  static constexpr size_t kTextBytes = 6000;

  Inspect() {
    fs::permissions(folder_.path(""), fs::perms(0755));
    EXPECT_EQ(in_child([this]() -> std::string {
                Store store = Store::open(uri(), options());
                append_text(store, 'a');
                append_text(store, 'b');
                if (GetParam().killed) ::_exit(0);
                store.close();
                return "";
              }),
              "");
  }

  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam().scheme + path(); }
  bool keeps_versions() const { return GetParam().engine == Engine::kRemap; }
  static Options options() {
    Options options;
    options.engine = GetParam().engine;
    options.versions_kept = 4;
    options.chunk_bytes = 64 * kKiB;
    options.region_limit_bytes = 64 * kMiB;
    return options;
  }

  static std::string name_of(char letter) { return {letter}; }
  /// A text of its own for each call, made durable by a version.
  static void append_text(Store& store, char letter) {
    {
      auto operation = store.operation();
      auto* text = static_cast<char*>(operation.allocate(kTextBytes));
      operation.touch(text, kTextBytes);
      std::memset(text, letter, kTextBytes);
      store.set_root(name_of(letter).c_str(), text);
    }
    store.checkpoint();
  }
  /// What is wrong with the texts of these letters, or "".
  static std::string problem_of(Store& store, const std::string& letters) {
    for (const char letter : letters) {
      const auto* text = static_cast<const char*>(store.get_root(name_of(letter).c_str()));
      if (text == nullptr) return "lacks a text";
      if (std::string(text, kTextBytes) != std::string(kTextBytes, letter))
        return "holds something else";
    }
    return store.audit().problem;
  }

  /// What is wrong with looking at the store in every way, or "".
  std::string problem_of_looking() const {
    const FileBytes before = read_file(path());
    const auto description = store::describe(uri(), {});
    if (!description) return description.failure().message;
    if (description->regions.at(0).roots.size() != 2) return "does not have two roots";
    const auto outline = store::outline(uri(), {});
    if (!outline) return outline.failure().message;
    const auto report = store::check(uri(), {});
    if (!report) return report.failure().message;
    if (report->damaged()) return "is damaged: " + report->findings.at(0).message;
    if (keeps_versions()) {
      Options chosen = options();
      chosen.version = outline->regions.at(0).versions.back().number;
      Store store = Store::open(uri(), chosen);
      if (std::string problem = problem_of(store, "ab"); !problem.empty()) return problem;
      store.close();
    }
    return read_file(path()) == before ? "" : "was written to";
  }

  void append(const FileBytes& bytes) const {
    std::ofstream file(path(), std::ios::binary | std::ios::app);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(file.flush().good());
  }

  const TempDir folder_;
};

TEST_P(Inspect, NeedsNoPermissionToWrite) {
  fs::permissions(path(), fs::perms(0444));
  EXPECT_EQ(in_child([this]() -> std::string {
              if (!become_somebody_else()) return "cannot become somebody else";
              if (::access(path().c_str(), W_OK) == 0) return "may write";
              if (std::string problem = problem_of_looking(); !problem.empty()) return problem;
              const auto written = media::open_medium(uri(), {});
              if (written) return "was opened to be written";
              const std::string& message = written.failure().message;
              return message.find("Permission denied") != message.npos ? "" : message;
            }),
            "");
}

// Which even its owner may not open to write.
TEST_P(Inspect, WorksOnAnImmutableFile) {
  const UniqueFd file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  const auto set_flags = [&](int flags) {
    return ::ioctl(file.get(), FS_IOC_SETFLAGS, &flags) == 0;
  };
  int flags = 0;
  if (::ioctl(file.get(), FS_IOC_GETFLAGS, &flags) != 0 || !set_flags(flags | FS_IMMUTABLE_FL))
    GTEST_SKIP() << "files cannot be made immutable here";
  const std::string problem = problem_of_looking();
  const auto written = media::open_medium(uri(), {});
  EXPECT_TRUE(set_flags(flags));
  EXPECT_EQ(problem, "");
  ASSERT_FALSE(written);
  EXPECT_NE(written.failure().message.find("not permitted"), std::string::npos)
      << written.failure().message;
}

TEST_P(Inspect, WorksOnAReadOnlyMount) {
  std::string no_mount;
  const auto mount_read_only = [this] {
    if (::unshare(CLONE_NEWNS) != 0) return false;
    const std::string folder = folder_.path("");
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
           ::mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) ==
               0;
  };
  const std::string problem = in_child(
      [&]() -> std::string { return mount_read_only() ? problem_of_looking() : "no mount"; });
  if (problem == "no mount") GTEST_SKIP() << "this process may not mount anything";
  EXPECT_EQ(problem, "");
}

TEST_P(Inspect, SeveralMayLookAtOnceBesideAWriter) {
  const auto looked_at = media::open_medium(uri(), {.read_only = true});
  ASSERT_TRUE(looked_at);
  EXPECT_EQ(in_child([this] { return problem_of_looking(); }), "");
  // Made before the store is open: the sanitizers are not fit for children of several threads.
  ToldProcess another([this](const ToldProcess::Ends& ends) -> std::string {
    u64 order;
    return ::read(ends.orders, &order, sizeof order) == sizeof order ? problem_of_looking()
                                                                     : "was not told to look";
  });
  Store store = Store::open(uri(), options());
  another.order(1);
  EXPECT_EQ(another.wait(), "");
  EXPECT_TRUE(store::describe(uri(), {}));
  const auto checked = value_or_throw(store::check(uri(), {}));
  EXPECT_TRUE(checked.findings.empty()) << checked.findings.at(0).message;
  expect_failure(store::roll_back(uri(), "", 1, {}), Code::kLocked,
                 "is open in process " + std::to_string(::getpid()));
  store.close();
  if (keeps_versions()) {
    EXPECT_TRUE(store::roll_back(uri(), "", 1, {}));
  }
}

TEST_P(Inspect, AWriterBesideAReaderOfTheSameProcessKeepsNobodyOut) {
  Options chosen = options();
  chosen.read_only = true;
  chosen.version = keeps_versions() ? 1 : 0;
  Store then = Store::open(uri(), chosen);
  chosen = options();
  chosen.region = "another";
  Store now = Store::open(uri(), chosen);
  EXPECT_EQ(in_child([this] {
              const auto looked_at = store::outline(uri(), {});
              return looked_at ? "" : looked_at.failure().message;
            }),
            "");
  now.close();
  if (!keeps_versions()) {
    EXPECT_EQ(problem_of(then, "ab"), "");
  }
  then.close();
}

TEST_P(Inspect, WhatWasAppendedToAStoreDoesNoHarm) {
  const u64 lengths[] = {6, kPageBytes - 1, kPageBytes, 3 * kMiB + 5};
  char letter = 'b';
  std::string letters = "ab";
  for (const u64 length : lengths) {
    SCOPED_TRACE(length);
    append(FileBytes(length, std::byte{0xa5}));
    const auto report = store::check(uri(), {});
    ASSERT_TRUE(report) << report.failure().message;
    EXPECT_FALSE(report->damaged()) << report->findings.at(0).message;
    // It needs the space in which the bytes are, for its heap and for its log.
    for (const bool again : {false, true}) {
      Options chosen = options();
      Store store = Store::open(uri(), chosen);
      EXPECT_EQ(problem_of(store, letters), "");
      if (again) {
        store.close();
        continue;
      }
      append_text(store, ++letter);
      letters += letter;
      (void)store.allocate(8 * kMiB);
      store.checkpoint();
      store.close();
    }
    const auto grown = store::check(uri(), {});
    ASSERT_TRUE(grown) << grown.failure().message;
    EXPECT_FALSE(grown->damaged()) << grown->findings.at(0).message;
  }
}

TEST_P(Inspect, WhatWasCutOffIsDamage) {
  const FileBytes whole = read_file(path());
  for (const u64 size : {whole.size() - 1, whole.size() - kMiB - 1, whole.size() - kMiB,
                         u64{200'000}, u64{100'000}, u64{8192}, u64{5000}, u64{100}}) {
    if (size == 0 || size >= whole.size()) continue;  // an empty file is a new one
    SCOPED_TRACE(size);
    FileBytes cut = whole;
    cut.resize(size);
    write_file(path(), cut);
    const auto report = store::check(uri(), {});
    ASSERT_TRUE(report) << report.failure().message;
    EXPECT_TRUE(report->damaged());
    EXPECT_NE(report->name.find("store.pd"), std::string::npos);
    expect_error([this] { Store::open(uri(), options()); }, Code::kCorrupt, "'" + path() + "'");
    EXPECT_EQ(read_file(path()), cut) << "was written to";
  }
}

// What a program forgets keeps it from nothing else, but it is found.
TEST_P(Inspect, ARootThatLeadsToAFreedBlockIsFound) {
  {
    Store store = Store::open(uri(), options());
    store.deallocate(store.get_root("a"));
    store.checkpoint();
    EXPECT_NE(store.get_root("a"), nullptr);
    store.close();
  }
  const auto report = value_or_throw(store::check(uri(), {}));
  EXPECT_TRUE(report.damaged());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].part, "heap");
  EXPECT_NE(report.findings[0].message.find("the root 'a'"), std::string::npos)
      << report.findings[0].message;
}

INSTANTIATE_TEST_SUITE_P(
    Stores, Inspect,
    testing::Values(Kind{"file:", Engine::kRedoLog, true}, Kind{"file:", Engine::kRemap, false},
                    Kind{"emu:", Engine::kRedoLog, false}, Kind{"emu:", Engine::kRemap, true},
                    Kind{"file:", Engine::kDualCopy, true}, Kind{"emu:", Engine::kDualCopy, false}),
    [](const auto& each) {
      const std::string place = each.param.scheme[0] == 'f' ? "File" : "Nvm";
      return place + (each.param.engine == Engine::kRemap      ? "InChunks"
                      : each.param.engine == Engine::kDualCopy ? "InCopies"
                                                               : "");
    });

}  // namespace
}  // namespace perdura::test
