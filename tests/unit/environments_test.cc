// Goal: where programs run that nobody has set up for Perdura, a store works, or works in another
// way and says so, or is refused with a sentence that names the remedy: the sandbox of a container,
// another user, an overlay file system, memory file systems, low limits, file systems that are not
// to be written, no /proc.
// Method: a child makes the condition for itself, with system calls alone, and uses a store; what
// it says on stderr is collected. What this machine does not let a process make is skipped and says
// why.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>

#include <perdura/detail/sanitizers.hpp>
#include <perdura/perdura.hpp>

#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
#if defined(PERDURA_THREAD_SANITIZER)
constexpr bool kUsesRings = false;  // as in file_medium.cc
#else
constexpr bool kUsesRings = true;
#endif

constexpr uid_t kNobody = 65534;

Options small(Tracking tracking = Tracking::kAutomatic) {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.tracking = tracking;
  return options;
}

/// What this process says on stderr from now on.
class Stderr {
 public:
  Stderr() : file_(::memfd_create("said", MFD_CLOEXEC)) {
    if (file_ < 0 || ::dup2(file_, STDERR_FILENO) < 0) std::abort();
  }
  Stderr(const Stderr&) = delete;
  std::string said() const {
    std::string text(static_cast<size_t>(::lseek(file_, 0, SEEK_END)), '\0');
    if (::pread(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      std::abort();
    return text;
  }

 private:
  const int file_;
};

size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// "" where the text has all of these.
std::string lacks(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (text.find(part) == text.npos) return "'" + text + "' lacks '" + part + "'";
  return "";
}

/// A store is made, changed by more than fits a log segment, and opened again. What is wrong, or
/// "".
std::string use(const std::string& uri, const Options& options = small()) {
  constexpr u64 kNumbers = 300'000;
  for (u64 round = 0; round < 3; ++round) {
    Store store = Store::open(uri, options);
    auto& numbers = store.root<vector<u64>>("numbers");
    if (numbers.size() != round * kNumbers) return "has " + std::to_string(numbers.size());
    for (u64 i = 0; i < numbers.size(); ++i)
      if (numbers[i] != i) return "another number at " + std::to_string(i);
    {
      const auto operation = store.operation();
      while (numbers.size() != (round + 1) * kNumbers) numbers.push_back(numbers.size());
    }
    store.checkpoint();
    store.close();
  }
  return "";
}

/// errno of a read(2) into memory that nobody has stored to since the last checkpoint; 0: it works.
int error_of_reading_into(Store& store) {
  auto* const block = static_cast<char*>(store.allocate(256 * 1024));
  std::memset(block, 1, 256 * 1024);
  store.checkpoint();
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const ssize_t got = ::read(zeros, block + 100 * 1024, 100);
  const int error_number = got < 0 ? errno : 0;
  ::close(zeros);
  return error_number;
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
  return "nothing is refused";
}
std::string code(Code code) { return std::to_string(static_cast<int>(code)) + " "; }

/// Make a system call fail with an error, by one of these filters each.
void forbid(std::initializer_list<long> calls, int error_number) {
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  size_t left = calls.size();
  for (const long call : calls)
    filter.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<u32>(call), static_cast<u8>(left--), 0));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<u32>(error_number)));
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    std::abort();
}

/// There is no /dev/userfaultfd in a container.
void forbid_userfault_device() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, _IO(0xAA, 0x00), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    std::abort();
}

/// Mounts of this process alone. "" or why not.
std::string enter_mount_namespace() {
  const uid_t uid = ::getuid();
  const gid_t gid = ::getgid();
  if (::unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0)
    return std::string("unshare: ") + std::strerror(errno);
  if (uid != 0) {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return std::string("mount: ") + std::strerror(errno);
  return "";
}

/// What begins so is no failure of a child, but says why it could do nothing.
constexpr std::string_view kSkipped = "skipped: ";
#define EXPECT_NOTHING_WRONG(expression)                        \
  do {                                                          \
    const std::string problem = expression;                     \
    if (problem.starts_with(kSkipped)) GTEST_SKIP() << problem; \
    EXPECT_EQ(problem, "");                                     \
  } while (false)

std::string become_nobody() {
  if (::getuid() != 0) return std::string(kSkipped) + "only root can become another user";
  if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)
    return std::string(kSkipped) + std::strerror(errno);
  return "";
}
/// As after execve, of a program that was started by this user.
std::string be_nobodys_program() {
  std::string skipped = become_nobody();
  if (skipped.empty() && ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) std::abort();
  return skipped;
}

class Environments : public testing::Test {
 protected:
  /// In a folder that every user may use.
  std::string path(const std::string& name = "state.pd") const { return folder_.path(name); }

  void SetUp() override {
    std::filesystem::permissions(folder_.path(""), std::filesystem::perms::all);
    Child child([&]() -> std::string {
      Store store = Store::open(path("usual.pd"), small());
      return name_of(store.statistics().tracking);
    });
    usual_ = child.wait();
  }
  bool has_userfault() const { return usual_ == name_of(Tracking::kUserfault); }

  const TempDir folder_;
  std::string usual_;  ///< the tracker that there is without a condition
};

// --- sandboxes -----------------------------------------------------------------------------------

class Sandbox : public Environments, public testing::WithParamInterface<int> {};

// Docker's profile of system calls refuses with EPERM what it knows, and with ENOSYS what it does
// not know yet.
TEST_P(Sandbox, OfAContainerIsSaidWithWhatToAllow) {
  EXPECT_EQ(in_child([&]() -> std::string {
              const Stderr stderr_of_child;
              forbid(
                  {SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register},
                  GetParam());
              forbid_userfault_device();
              if (std::string wrong = use(path()); !wrong.empty()) return wrong;
              Store store = Store::open(path("other.pd"), small());
              if (store.statistics().tracking != Tracking::kProtect) return "another tracker";
              if (error_of_reading_into(store) != EFAULT) return "read(2) does not fail";
              store.close();
              const std::string said = stderr_of_child.said();
              // Each once, whatever is opened later.
              if (lines_of(said) != (kUsesRings ? 2 : 1)) return "said: " + said;
              if (kUsesRings)
                if (std::string lack = lacks(said, {"io_uring is refused", "allow io_uring_setup"});
                    !lack.empty())
                  return lack;
              if (GetParam() == EPERM)
                if (std::string lack = lacks(said, {"a sandbox may forbid the system call: allow"});
                    !lack.empty())
                  return lack;
              return lacks(said, {"state.pd", "'protect'", "userfaultfd is refused", "read(2)",
                                  "fail with EFAULT"});
            }),
            "");
}

// Whose memory takes no system call's stores either, though they are in no version.
TEST_P(Sandbox, IsSaidToReaders) {
  EXPECT_EQ(in_child([&] { return use(path()); }), "");
  EXPECT_EQ(in_child([&]() -> std::string {
              const Stderr stderr_of_child;
              forbid({SYS_userfaultfd}, GetParam());
              forbid_userfault_device();
              Options reading = small();
              reading.read_only = true;
              Store store = Store::open(path(), reading);
              auto& numbers = store.root<vector<u64>>("numbers");
              const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
              if (::read(zeros, &numbers[100'000], 100) != -1 || errno != EFAULT)
                return "read(2) does not fail";
              const std::string said = stderr_of_child.said();
              if (lines_of(said) != 1) return "said: " + said;
              return lacks(said, {"state.pd", "'protect'", "fail with EFAULT"});
            }),
            "");
}

// Reports need neither, and so nothing is said of the tracker.
TEST_P(Sandbox, IsNothingToReportedStores) {
  EXPECT_EQ(in_child([&]() -> std::string {
              const Stderr stderr_of_child;
              forbid({SYS_userfaultfd}, GetParam());
              forbid_userfault_device();
              Store store = Store::open("emu:" + path(), small(Tracking::kReported));
              store.root<Field<u64>>("number") = 7;
              if (error_of_reading_into(store) != 0) return "read(2) fails";
              store.close();
              return stderr_of_child.said();
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(All, Sandbox, testing::Values(EPERM, ENOSYS),
                         [](const auto& info) { return info.param == EPERM ? "EPERM" : "ENOSYS"; });

// --- users ---------------------------------------------------------------------------------------

TEST_F(Environments, AnotherUserThanRootNeedsNothing) {
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    if (::getuid() == 0) {  // else it is one
      if (std::string skipped = be_nobodys_program(); !skipped.empty()) return skipped;
    }
    const Stderr stderr_of_child;
    if (std::string wrong = use(path()); !wrong.empty()) return wrong;
    Store store = Store::open(path("other.pd"), small());
    const std::string tracking = name_of(store.statistics().tracking);
    return tracking == usual_ ? stderr_of_child.said() : "tracks by " + tracking;
  }));
}

// The kernel keeps a process that has changed its user from its own /proc/self.
TEST_F(Environments, AServiceThatGivesUpRootIsToldHowToKeepItsTracker) {
  if (!has_userfault()) GTEST_SKIP() << "tracks by " << usual_ << " here";
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    if (std::string skipped = become_nobody(); !skipped.empty()) return skipped;
    const Stderr stderr_of_child;
    {
      Store store = Store::open(path(), small());
      if (store.statistics().tracking == Tracking::kUserfault) return "keeps it";
      if (error_of_reading_into(store) != EFAULT) return "read(2) does not fail";
    }
    const std::string said = stderr_of_child.said();
    if (lines_of(said) != 1) return "said: " + said;
    if (std::string lack = lacks(said, {"PR_SET_DUMPABLE", "EFAULT"}); !lack.empty()) return lack;
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    Store store = Store::open(path(), small());
    return store.statistics().tracking == Tracking::kUserfault ? "" : "the remedy is none";
  }));
}

TEST_F(Environments, AStoreOfSomebodyElseCanBeReadWhereItsFileCan) {
  EXPECT_EQ(in_child([&] { return use(path()); }), "");
  std::filesystem::permissions(path(), std::filesystem::perms(0644));
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    if (std::string skipped = be_nobodys_program(); !skipped.empty()) return skipped;
    const std::string refused = refusal_of([&] { Store::open(path(), small()); });
    if (std::string lack = lacks(
            refused, {code(Code::kInvalidArgument).c_str(), "state.pd", "check the permissions"});
        !lack.empty())
      return lack;
    Options reading = small();
    reading.read_only = true;
    Store store = Store::open(path(), reading);
    return store.root<vector<u64>>("numbers").size() == 900'000 ? "" : "reads something else";
  }));
}

// --- file systems --------------------------------------------------------------------------------

// What a container's image has is below, what it writes above. A file of the image is copied up
// when it is first opened to be written.
TEST_F(Environments, AnOverlayIsAFileSystemLikeOthers) {
  for (const char* each : {"lower", "upper", "work", "merged"})
    std::filesystem::create_directory(path(each));
  EXPECT_EQ(in_child([&] { return use(path("lower/state.pd")); }), "");
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    const Stderr stderr_of_child;
    if (std::string why = enter_mount_namespace(); !why.empty()) return std::string(kSkipped) + why;
    const std::string data = "lowerdir=" + path("lower") + ",upperdir=" + path("upper") +
                             ",workdir=" + path("work") + (::getuid() == 0 ? "" : ",userxattr");
    if (::mount("overlay", path("merged").c_str(), "overlay", 0, data.c_str()) != 0)
      return std::string(kSkipped) + "overlay: " + std::strerror(errno);
    if (std::string wrong = use(path("merged/new.pd")); !wrong.empty()) return wrong;
    if (std::filesystem::exists(path("upper/state.pd"))) return "it is copied up already";
    // Killed behind a checkpoint.
    Child child([&]() -> std::string {
      Store store = Store::open(path("merged/state.pd"), small());
      auto& numbers = store.root<vector<u64>>("numbers");
      {
        const auto operation = store.operation();
        numbers.push_back(7);
      }
      store.checkpoint();
      ::kill(::getpid(), SIGKILL);
      return "";
    });
    if (std::string wrong = child.wait(); !wrong.empty()) return wrong;
    Store store = Store::open(path("merged/state.pd"), small());
    const auto& numbers = store.root<vector<u64>>("numbers");
    if (numbers.size() != 900'001 || numbers.back() != 7) return "is not what was acknowledged";
    if (!std::filesystem::exists(path("upper/state.pd"))) return "is in the image";
    return stderr_of_child.said();
  }));
  // The image has what it had.
  Store below = Store::open(path("lower/state.pd"), small());
  EXPECT_EQ(below.root<vector<u64>>("numbers").size(), 900'000u);
}

// What is on it goes with it, as when the system starts anew.
TEST_F(Environments, AMemoryFileSystemIsMemory) {
  std::filesystem::create_directory(path("memory"));
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    const Stderr stderr_of_child;
    if (std::string why = enter_mount_namespace(); !why.empty()) return std::string(kSkipped) + why;
    const auto mounted = [&] {
      return ::mount("none", path("memory").c_str(), "tmpfs", 0, nullptr) == 0;
    };
    if (!mounted()) return std::string(kSkipped) + std::strerror(errno);
    for (const char* scheme : {"file:", "emu:"})
      if (std::string wrong = use(scheme + path("memory/") + (scheme[0] == 'f' ? "f.pd" : "e.pd"));
          !wrong.empty())
        return wrong;
    const std::string refused =
        refusal_of([&] { Store::open("dax:" + path("memory/d.pd"), small()); });
    if (std::string lack = lacks(refused, {"MAP_SYNC is refused", "use file: (a disk)"});
        !lack.empty())
      return lack;
    if (::umount(path("memory").c_str()) != 0 || !mounted()) return std::strerror(errno);
    Options there = small();
    there.create = false;
    const std::string gone = refusal_of([&] { Store::open(path("memory/f.pd"), there); });
    if (!gone.starts_with(code(Code::kNotFound))) return gone;
    return stderr_of_child.said();
  }));
}

TEST_F(Environments, AFileSystemThatIsNotWrittenIsRead) {
  std::filesystem::create_directory(path("data"));
  EXPECT_EQ(in_child([&] { return use(path("data/state.pd")); }), "");
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    const Stderr stderr_of_child;
    if (std::string why = enter_mount_namespace(); !why.empty()) return std::string(kSkipped) + why;
    const std::string data = path("data");
    if (::mount(data.c_str(), data.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        ::mount(nullptr, data.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0)
      return std::string(kSkipped) + std::strerror(errno);
    for (const char* name : {"data/state.pd", "data/new.pd"}) {
      const std::string refused = refusal_of([&] { Store::open(path(name), small()); });
      if (std::string lack = lacks(refused, {name, "remount", "read_only"}); !lack.empty())
        return lack;
    }
    Options reading = small();
    reading.read_only = true;
    Store store = Store::open(path("data/state.pd"), reading);
    if (store.root<vector<u64>>("numbers").size() != 900'000) return "reads something else";
    return stderr_of_child.said();
  }));
}

TEST_F(Environments, AFolderThatTakesNoNewFilesHoldsTheStoreThatIsThere) {
  std::filesystem::create_directory(path("closed"));
  EXPECT_EQ(in_child([&]() -> std::string {
              Store::open(path("closed/state.pd"), small()).close();
              return "";
            }),
            "");
  std::filesystem::permissions(path("closed/state.pd"), std::filesystem::perms(0666));
  std::filesystem::permissions(path("closed"), std::filesystem::perms(0555));
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    if (std::string skipped = be_nobodys_program(); !skipped.empty()) return skipped;
    const std::string refused = refusal_of([&] { Store::open(path("closed/new.pd"), small()); });
    if (std::string lack = lacks(refused, {"new.pd", "permissions of the file and its directory"});
        !lack.empty())
      return lack;
    return use(path("closed/state.pd"));
  }));
}

// --- limits --------------------------------------------------------------------------------------

void limit(decltype(RLIMIT_AS) what, u64 value) {
  const rlimit limit{value, value};
  if (::setrlimit(what, &limit) != 0) std::abort();
}

TEST_F(Environments, LittleAddressSpaceIsNamedWithBothRemedies) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers take terabytes";
  EXPECT_EQ(in_child([&]() -> std::string {
              Store::open(path("large.pd")).close();  // 64 GiB, the default
              return "";
            }),
            "");
  EXPECT_EQ(in_child([&]() -> std::string {
              const Stderr stderr_of_child;
              limit(RLIMIT_AS, 4 * kGiB);
              const std::string made = refusal_of([&] { Store::open(path("new.pd")); });
              if (std::string lack = lacks(made, {code(Code::kNoMemory).c_str(),
                                                  "smaller region_limit_bytes", "ulimit -v"});
                  !lack.empty())
                return lack;
              // One that there is keeps its limit.
              const std::string opened = refusal_of([&] { Store::open(path("large.pd")); });
              if (std::string lack =
                      lacks(opened, {code(Code::kNoMemory).c_str(), "large.pd", "ulimit -v"});
                  !lack.empty())
                return lack;
              if (std::string wrong = use(path()); !wrong.empty()) return wrong;
              return stderr_of_child.said();
            }),
            "");
}

// However few there are, the store has the tracker that it has with many, or is refused.
TEST_F(Environments, FewDescriptorsChangeNothingInSilence) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers need descriptors, and end without";
  u64 refused = 0;
  u64 works = 0;
  for (u64 more = 1; works < 3; ++more) {
    ASSERT_LT(more, 100u);
    const std::string name = "state" + std::to_string(more) + ".pd";
    const std::string became = in_child([&]() -> std::string {
      const Stderr stderr_of_child;
      const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      ::close(next);
      limit(RLIMIT_NOFILE, static_cast<u64>(next) + more);
      try {
        Store store = Store::open(path(name), small());
        const std::string tracking = name_of(store.statistics().tracking);
        if (tracking != usual_) return "tracks by " + tracking;
        store.root<u64>("number") = 7;
        store.close();
      } catch (const Error& error) {
        return lacks(error.what(), {name.c_str(), "Too many open files", "ulimit -n"}).empty()
                   ? "refused"
                   : std::string("without a remedy: ") + error.what();
      }
      const std::string said = stderr_of_child.said();
      return said.empty() ? "works" : "said: " + said;
    });
    if (became == "refused") ++refused;
    else if (became == "works") ++works;
    else ADD_FAILURE() << more << ": " << became;
  }
  EXPECT_GT(refused, 0u);
}

TEST_F(Environments, NoMemoryNeedsToBeLocked) {
  EXPECT_EQ(in_child([&]() -> std::string {
              if (::getuid() == 0) be_nobodys_program();  // whom limits are for
              const Stderr stderr_of_child;
              limit(RLIMIT_MEMLOCK, 0);
              if (std::string wrong = use(path()); !wrong.empty()) return wrong;
              return stderr_of_child.said();
            }),
            "");
}

TEST_F(Environments, TooFewThreadsAreNamedWithARemedy) {
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    if (std::string skipped = be_nobodys_program(); !skipped.empty()) return skipped;
    limit(RLIMIT_NPROC, 1);
    const std::string refused = refusal_of([&] { Store::open(path(), small()); });
    return lacks(refused, {code(Code::kNoMemory).c_str(), "ulimit -u", "pids.max"});
  }));
}

// The signal that goes with it ends a program that does not ignore it, as when it writes any file.
TEST_F(Environments, AFileThatMayNotGrowIsFull) {
  for (const bool is_ignored : {true, false}) {
    const std::string name = path(is_ignored ? "ignored.pd" : "ended.pd");
    EXPECT_EQ(in_child([&]() -> std::string {
                Store store = Store::open(name, small());
                store.root<u64>("number") = 7;
                store.checkpoint();
                ::signal(SIGXFSZ, is_ignored ? SIG_IGN : SIG_DFL);
                limit(RLIMIT_FSIZE, std::filesystem::file_size(name));
                const std::string refused = refusal_of([&] { (void)store.allocate(32 * kMiB); });
                if (std::string lack =
                        lacks(refused, {code(Code::kNoSpace).c_str(), name.c_str(), "ulimit -f"});
                    !lack.empty())
                  return lack;
                store.root<u64>("number") = 8;
                store.close();
                return "";
              }),
              is_ignored ? "" : " died of signal " + std::to_string(SIGXFSZ));
    EXPECT_EQ(in_child([&]() -> std::string {
                Store store = Store::open(name, small());
                return std::to_string(store.root<u64>("number"));
              }),
              is_ignored ? "8" : "7");
  }
}

// --- /proc ---------------------------------------------------------------------------------------

TEST_F(Environments, WithoutProcTheTrackerThatIsTakenIsSaidWithARemedy) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers read /proc";
  if (!has_userfault()) GTEST_SKIP() << "tracks by " << usual_ << " here";
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    const Stderr stderr_of_child;
    if (std::string why = enter_mount_namespace(); !why.empty()) return std::string(kSkipped) + why;
    if (::umount2("/proc", MNT_DETACH) != 0) return std::string(kSkipped) + std::strerror(errno);
    Store::open(path("reported.pd"), small(Tracking::kReported)).close();
    if (const std::string said = stderr_of_child.said(); !said.empty()) return "said: " + said;
    if (std::string wrong = use(path()); !wrong.empty()) return wrong;
    const std::string said = stderr_of_child.said();
    if (lines_of(said) != 1) return "said: " + said;
    return lacks(said, {"/proc/self/pagemap", "mount /proc", "EFAULT"});
  }));
}

TEST_F(Environments, AProcThatHidesOthersIsEnough) {
  EXPECT_NOTHING_WRONG(in_child([&]() -> std::string {
    if (std::string why = enter_mount_namespace(); !why.empty()) return std::string(kSkipped) + why;
    if (::mount("proc", "/proc", "proc", 0, "hidepid=2") != 0)
      return std::string(kSkipped) + std::strerror(errno);
    if (::getuid() == 0) be_nobodys_program();
    const Stderr stderr_of_child;
    if (std::string wrong = use(path()); !wrong.empty()) return wrong;
    return stderr_of_child.said();
  }));
}

}  // namespace
}  // namespace perdura::test
