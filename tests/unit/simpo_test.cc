// Goal: perdura/compat/simpo.hpp does what its comments say: objects outlive crashes and end with
// their last destructor, persistent functions are durable and run in the threads that they must run
// in, sizes change, threads are known by number, and what cannot be is refused with its place.
// Method: children that use the program's own store one after the other, each a process that ends
// in order, by _exit or by SIGKILL.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <perdura/compat/simpo.hpp>

#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {

struct AddContext {
  int at;
  int value;
};
struct Empty {};
struct alignas(64) Wide {
  std::uint64_t words[500];
};
struct ThreadContext {
  pthread_t thread;
};

inline void add(void* poroot, const AddContext& context) {
  static_cast<int*>(poroot)[context.at] += context.value;
}
inline int add_and_get(void* poroot, const AddContext& context) {
  add(poroot, context);
  return static_cast<int*>(poroot)[context.at];
}
inline void add_wide(void* poroot, const Wide& context) {
  if (reinterpret_cast<std::uintptr_t>(&context) % alignof(Wide) != 0) return;
  static_cast<int*>(poroot)[0] += static_cast<int>(context.words[499]);
}
inline bool add_in_own(void* poroot, const ThreadContext& context) {
  ++static_cast<int*>(poroot)[0];
  ::usleep(20);  // until others have called, who must do theirs
  return pthread_equal(context.thread, ::pthread_self()) != 0;
}
inline constexpr auto kLambda = [](void* poroot, const AddContext& context) {
  add(poroot, context);
};
namespace {
void add_unnamed(void* poroot, const AddContext& context) { add(poroot, context); }
}  // namespace
inline void clear(void* poroot, const Empty&) { *static_cast<int*>(poroot) = 0; }

class Numbers : public POBase {
 public:
  explicit Numbers(int count, int poid = 0) : POBase(count * static_cast<int>(sizeof(int)), poid) {}
  void simpo_add(int at, int value) { defer<&add>(AddContext{at, value}, at); }
  int simpo_add_and_get(int at, int value) { return inst<&add_and_get>(AddContext{at, value}, at); }
  void simpo_add_wide(int value) {
    Wide context{};
    context.words[499] = static_cast<std::uint64_t>(value);
    defer<&add_wide>(context);
  }
  bool simpo_add_in_own() { return inst<&add_in_own>(ThreadContext{::pthread_self()}); }
  void simpo_clear() { inst<&clear>(Empty{}); }
  void simpo_lambda() { defer<+kLambda>(AddContext{}); }
  void simpo_unnamed() { defer<&add_unnamed>(AddContext{}); }
  int at(int index) {
    sync();
    return static_cast<int*>(poroot)[index];
  }
  void* root() const { return poroot; }
  int number() const { return poid(); }
};

class Nested;
inline Nested* nested = nullptr;
inline int use_objects(void*, const Empty&);
class Nested : public Numbers {
 public:
  using Numbers::Numbers;
  int simpo_use_objects() { return inst<&use_objects>(Empty{}); }
};
/// How many of its calls are refused.
inline int use_objects(void*, const Empty&) {
  int refused = 0;
  const auto try_to = [&](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      refused += error.code() == Code::kMisuse;
    }
  };
  try_to([] { Numbers another(1, 77); });
  try_to([] { nested->simpo_add(0, 1); });
  try_to([] { nested->sync(); });
  refused += pocreate(77, 4) == nullptr && perdura_last_code() == PERDURA_MISUSE;
  refused += porealloc(5, 4) == nullptr && perdura_last_code() == PERDURA_MISUSE;
  return refused;
}

namespace {

#define EXPECT_OR_SAY(condition) \
  if (!(condition)) return std::string("not so: " #condition ", ") + perdura_last_error()

class Simpo : public testing::Test {
 protected:
  /// A life of the program: what it says is wrong.
  template <class Body>
  static std::string life(Body&& body) {
    Child child([&]() -> std::string { return body(); });
    return child.wait();
  }
  /// One that has ended by die(), its objects alive.
  template <class Body>
  static bool killed_life(Body&& body) {
    Child child([&]() -> std::string { return body(); });
    EXPECT_EQ(child.wait(), "");
    return child.killed();
  }
  static std::string die() {
    ::kill(::getpid(), SIGKILL);
    return "";
  }

  void SetUp() override {
    ::setenv("PERDURA_STORE", ("emu:" + folder_.path("own.pd")).c_str(), 1);
    ::unsetenv("PERDURA_CALLERS");
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_F(Simpo, AnObjectOutlivesACrashAndEndsWithItsDestructor) {
  ASSERT_TRUE(killed_life([]() -> std::string {
    Numbers numbers(10, 5);
    EXPECT_OR_SAY(numbers.at(3) == 0);
    for (int i = 0; i < 10; ++i) numbers.simpo_add(i, i);
    EXPECT_OR_SAY(numbers.simpo_add_and_get(3, 100) == 103);
    numbers.simpo_add_wide(1000);
    numbers.sync();
    return die();
  }));
  ASSERT_TRUE(killed_life([]() -> std::string {
    Numbers numbers(10, 5);
    EXPECT_OR_SAY(static_cast<const int*>(numbers.root())[3] == 103);
    EXPECT_OR_SAY(numbers.at(0) == 1000);
    numbers.simpo_clear();
    EXPECT_OR_SAY(numbers.at(0) == 0 && numbers.at(9) == 9);
    return die();
  }));
  EXPECT_EQ(
      life([]() -> std::string {
        {
          Numbers numbers(10, 5);
          EXPECT_OR_SAY(numbers.at(0) == 0 && numbers.at(3) == 103);
        }
        EXPECT_OR_SAY(porealloc(5, 400) == nullptr && perdura_last_code() == PERDURA_NOT_FOUND);
        Numbers again(20, 5);
        EXPECT_OR_SAY(again.at(3) == 0 && again.at(19) == 0);
        return "";
      }),
      "");
}

TEST_F(Simpo, AnObjectIsOneForAllThatUseIt) {
  EXPECT_EQ(
      life([]() -> std::string {
        void* const memory = pocreate(5, 40);
        EXPECT_OR_SAY(memory != nullptr && pocreate(5, 8) == memory);
        {
          Numbers numbers(10, 5);
          EXPECT_OR_SAY(numbers.root() == memory);
          numbers.simpo_add(9, 7);
          numbers.sync();
        }
        EXPECT_OR_SAY(static_cast<const int*>(memory)[9] == 7);
        EXPECT_OR_SAY(pocreate(5, 44) == nullptr && perdura_last_code() == PERDURA_TYPE_MISMATCH);
        EXPECT_OR_SAY(std::strstr(perdura_last_error(), "own.pd' has 40 bytes") != nullptr);
        EXPECT_OR_SAY(pofree(5) == 0 && pofree(5) == 0);
        EXPECT_OR_SAY(pofree(5) == -PERDURA_NOT_FOUND);
        EXPECT_OR_SAY(pocreate(5, 0) == nullptr && perdura_last_code() == PERDURA_INVALID_ARGUMENT);
        return "";
      }),
      "");
}

// Nobody has used it since.
TEST_F(Simpo, WhatACrashLeftIsFreedByItsNumber) {
  ASSERT_TRUE(killed_life([]() -> std::string {
    EXPECT_OR_SAY(pocreate(8, 100) != nullptr);
    return die();
  }));
  EXPECT_EQ(life([]() -> std::string {
              EXPECT_OR_SAY(pofree(8) == 0);
              EXPECT_OR_SAY(pofree(8) == -PERDURA_NOT_FOUND);
              return "";
            }),
            "");
}

// However many of them have it: each is one that must let go.
TEST_F(Simpo, WhatPobasesHaveIsNotFreedByItsNumber) {
  EXPECT_EQ(life([]() -> std::string {
              auto one = std::make_unique<Numbers>(10, 5);
              auto other = std::make_unique<Numbers>(10, 5);
              for (int i = 0; i < 3; ++i) EXPECT_OR_SAY(pofree(5) == -PERDURA_MISUSE);
              EXPECT_OR_SAY(pocreate(5, 40) != nullptr && pofree(5) == 0);
              EXPECT_OR_SAY(pofree(5) == -PERDURA_MISUSE);
              EXPECT_OR_SAY(pocreate(5, 40) != nullptr);
              one.reset();
              other.reset();
              EXPECT_OR_SAY(porecorded(5, 0) == 0);
              EXPECT_OR_SAY(pofree(5) == 0 && porecorded(5, 0) == -PERDURA_NOT_FOUND);
              return "";
            }),
            "");
}

// An object that somebody refers to is not freed; one that is freed nothing refers to, and what
// gets its number later, and its memory on the medium, is another one that begins with zeros.
TEST_F(Simpo, AReferenceToWhatWasFreedIsAnError) {
  ASSERT_TRUE(killed_life([]() -> std::string {
    auto numbers = std::make_unique<Numbers>(10, 5);
    EXPECT_OR_SAY(pofree(5) == -PERDURA_MISUSE);
    EXPECT_OR_SAY(std::strstr(perdura_last_error(), "let go of it") != nullptr);
    EXPECT_OR_SAY(numbers->simpo_add_and_get(3, 7) == 7);
    numbers.reset();
    const auto is_gone = []() -> std::string {
      EXPECT_OR_SAY(pofree(5) == -PERDURA_NOT_FOUND);
      EXPECT_OR_SAY(porealloc(5, 80) == nullptr && perdura_last_code() == PERDURA_NOT_FOUND);
      EXPECT_OR_SAY(porecorded(5, 0) == -PERDURA_NOT_FOUND);
      return "";
    };
    EXPECT_OR_SAY(is_gone() == "");
    Numbers other(10, 6);  // with the space of the one that has gone
    EXPECT_OR_SAY(other.simpo_add_and_get(3, 1) == 1);
    EXPECT_OR_SAY(is_gone() == "");
    EXPECT_OR_SAY(pocreate(5, 40) != nullptr && pofree(5) == 0);
    EXPECT_OR_SAY(is_gone() == "");
    return die();
  }));
  EXPECT_EQ(life([]() -> std::string {
              EXPECT_OR_SAY(porealloc(5, 80) == nullptr);
              EXPECT_OR_SAY(perdura_last_code() == PERDURA_NOT_FOUND);
              EXPECT_OR_SAY(porecorded(5, 0) == -PERDURA_NOT_FOUND);
              Numbers again(10, 5);
              EXPECT_OR_SAY(again.at(3) == 0 && porecorded(5, 0) == 0);
              Numbers other(10, 6);
              EXPECT_OR_SAY(other.at(3) == 1);
              return "";
            }),
            "");
}

TEST_F(Simpo, SizesChangeForGood) {
  ASSERT_TRUE(killed_life([]() -> std::string {
    Numbers numbers(10, 5);
    numbers.simpo_add(9, 7);
    void* const memory = porealloc(5, 4000 * sizeof(int));
    EXPECT_OR_SAY(memory != nullptr && numbers.root() == memory);
    EXPECT_OR_SAY(numbers.at(9) == 7 && numbers.at(10) == 0 && numbers.at(3999) == 0);
    numbers.simpo_add(3999, 8);
    numbers.sync();
    return die();
  }));
  ASSERT_TRUE(killed_life([]() -> std::string {
    Numbers numbers(10, 5);
    EXPECT_OR_SAY(numbers.at(9) == 7 && numbers.at(3999) == 8);
    EXPECT_OR_SAY(porealloc(5, 10 * sizeof(int)) == numbers.root());
    numbers.simpo_add(9, 1);
    EXPECT_OR_SAY(porealloc(5, 4000 * sizeof(int)) == numbers.root());
    EXPECT_OR_SAY(numbers.at(9) == 8 && numbers.at(3999) == 0);
    EXPECT_OR_SAY(porealloc(5, 20 * sizeof(int)) == numbers.root());
    return die();
  }));
  EXPECT_EQ(life([]() -> std::string {
              Numbers numbers(20, 5);
              EXPECT_OR_SAY(numbers.at(9) == 8 && numbers.at(19) == 0);
              EXPECT_OR_SAY(porealloc(5, 0) == nullptr &&
                            perdura_last_code() == PERDURA_INVALID_ARGUMENT);
              return "";
            }),
            "");
}

struct ThreadWork {
  Numbers* numbers;
  int calls;
  int self;
  int strangers;
};
void* call_in_own(void* argument) {
  auto& work = *static_cast<ThreadWork*>(argument);
  work.self = potid_self();
  for (int i = 0; i < work.calls; ++i) {
    work.numbers->simpo_add(1, 1);
    work.strangers += !work.numbers->simpo_add_in_own();
  }
  return nullptr;
}

TEST_F(Simpo, InstantFunctionsRunInTheThreadThatCalls) {
  ASSERT_TRUE(killed_life([]() -> std::string {
    Numbers numbers(2, 5);
    std::array<ThreadWork, 8> works;
    std::array<pthread_t, 8> threads;
    for (int i = 0; i < 8; ++i) {
      works[i] = {&numbers, 100, 0, 0};
      EXPECT_OR_SAY(pthread_create_simpo(&threads[i], nullptr, &call_in_own, &works[i], i + 1) ==
                    0);
    }
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    for (int i = 0; i < 8; ++i) {
      EXPECT_OR_SAY(works[i].self == i + 1 && works[i].strangers == 0);
      EXPECT_OR_SAY(porecorded(5, i + 1) == 200);
    }
    EXPECT_OR_SAY(numbers.at(0) == 8 * 100 && numbers.at(1) == 8 * 100);
    EXPECT_OR_SAY(potid_self() == 0 && porecorded(5, 0) == 0);
    return die();
  }));
  EXPECT_EQ(life([]() -> std::string {
              Numbers numbers(2, 5);
              EXPECT_OR_SAY(numbers.at(0) == 8 * 100 && numbers.at(1) == 8 * 100);
              EXPECT_OR_SAY(porecorded(5, 3) == 200);
              EXPECT_OR_SAY(porecorded(6, 3) == -PERDURA_NOT_FOUND);
              return "";
            }),
            "");
}

TEST_F(Simpo, AHistoryHasRoomForSoManyThreads) {
  ::setenv("PERDURA_CALLERS", "2", 1);
  EXPECT_EQ(life([]() -> std::string {
              Numbers numbers(2, 5);
              for (int potid = 1; potid <= 3; ++potid) {
                std::atomic<int> code{0};
                struct Both {
                  Numbers* numbers;
                  std::atomic<int>* code;
                } both{&numbers, &code};
                pthread_t thread;
                const auto routine = [](void* argument) -> void* {
                  const auto& given = *static_cast<Both*>(argument);
                  try {
                    given.numbers->simpo_add_and_get(0, 1);
                  } catch (const Error& error) {
                    *given.code = static_cast<int>(error.code());
                  }
                  return nullptr;
                };
                EXPECT_OR_SAY(pthread_create_simpo(&thread, nullptr, routine, &both, potid) == 0);
                pthread_join(thread, nullptr);
                EXPECT_OR_SAY(code == (potid <= 2 ? 0 : PERDURA_NO_SPACE));
              }
              return "";
            }),
            "");
  ::setenv("PERDURA_CALLERS", "3", 1);
  EXPECT_EQ(life([]() -> std::string {
              EXPECT_OR_SAY(pocreate(6, 4) == nullptr);
              EXPECT_OR_SAY(std::strstr(perdura_last_error(), "PERDURA_CALLERS") != nullptr);
              return "";
            }),
            "");
}

// A place is a number, each time that it is come to another one; not so its addresses.
TEST_F(Simpo, NumbersAreOfThePlaceAndOfTheThread) {
  EXPECT_EQ(life([]() -> std::string {
              std::set<int> all;
              std::vector<std::unique_ptr<Numbers>> made;
              for (int i = 0; i < 3; ++i) {
                made.push_back(std::make_unique<Numbers>(1));
                EXPECT_OR_SAY(made.back()->number() < 0);
                all.insert(made.back()->number());
              }
              made.push_back(std::make_unique<Numbers>(1));
              all.insert(made.back()->number());
              EXPECT_OR_SAY(all.size() == 4);
              std::set<int> threads;
              for (int i = 0; i < 2; ++i) {
                ThreadWork work{made[0].get(), 0, 0, 0};
                pthread_t thread;
                EXPECT_OR_SAY(pthread_create_simpo(&thread, nullptr, &call_in_own, &work, 0) == 0);
                pthread_join(thread, nullptr);
                EXPECT_OR_SAY(work.self < 0);
                threads.insert(work.self);
              }
              EXPECT_OR_SAY(threads.size() == 2);
              return "";
            }),
            "");
}

// Negative ones as well, as those are that the library makes; but there is no 0.
TEST_F(Simpo, NumbersOfTheProgramAreAnyButZero) {
  ASSERT_TRUE(killed_life([]() -> std::string {
    auto* numbers = new Numbers(2, -5);
    EXPECT_OR_SAY(numbers->number() == -5);
    ThreadWork work{numbers, 1, 0, 0};
    pthread_t thread;
    EXPECT_OR_SAY(pthread_create_simpo(&thread, nullptr, &call_in_own, &work, -7) == 0);
    pthread_join(thread, nullptr);
    EXPECT_OR_SAY(work.self == -7);
    EXPECT_OR_SAY(porecorded(-5, -7) == 2);
    EXPECT_OR_SAY(porecorded(-5, 0) == 0 && porecorded(-5, 7) == 0);
    EXPECT_OR_SAY(porecorded(0, -7) == -PERDURA_NOT_FOUND);
    return die();
  }));
  EXPECT_EQ(life([]() -> std::string {
              Numbers numbers(2, -5);
              EXPECT_OR_SAY(porecorded(-5, -7) == 2);
              EXPECT_OR_SAY(potid_self() == 0 && numbers.simpo_add_and_get(0, 1) > 0);
              EXPECT_OR_SAY(porecorded(-5, 0) == 1);
              EXPECT_OR_SAY(pofree(0) == -PERDURA_NOT_FOUND);
              EXPECT_OR_SAY(porealloc(0, 4) == nullptr);
              return "";
            }),
            "");
}

// The message says of which object, and what was asked.
TEST_F(Simpo, SizesThatCannotBeAreRefused) {
  EXPECT_EQ(life([]() -> std::string {
              for (const int bytes : {-1, 0}) {
                try {
                  POBase refused(bytes, 5);
                  return "an object has a size that it cannot have";
                } catch (const Error& error) {
                  const std::string said = error.what();
                  EXPECT_OR_SAY(error.code() == Code::kInvalidArgument);
                  EXPECT_OR_SAY(said.starts_with("object 'poid 5' of '"));
                  EXPECT_OR_SAY(said.ends_with("can have 1 to 1099511627776 bytes, not " +
                                               std::to_string(bytes)));
                }
              }
              EXPECT_OR_SAY(pocreate(5, (std::size_t{1} << 40) + 1) == nullptr);
              EXPECT_OR_SAY(std::strstr(perdura_last_error(), "not 1099511627777") != nullptr);
              EXPECT_OR_SAY(porecorded(5, 0) == -PERDURA_NOT_FOUND);
              EXPECT_OR_SAY(std::strstr(perdura_last_error(), "own.pd' has no object 'poid 5'") !=
                            nullptr);
              return "";
            }),
            "");
}

TEST_F(Simpo, FunctionsWithoutANameOfTheirOwnAreRefused) {
  EXPECT_EQ(
      life([]() -> std::string {
        Numbers numbers(1, 5);
        for (void (Numbers::* const refused)() :
             {&Numbers::simpo_lambda, &Numbers::simpo_unnamed}) {
          try {
            (numbers.*refused)();
            return "a function without a name is taken";
          } catch (const Error& error) {
            EXPECT_OR_SAY(error.code() == Code::kInvalidArgument);
            EXPECT_OR_SAY(std::strstr(error.what(), "perdura::test::") != nullptr);
            EXPECT_OR_SAY(std::strstr(error.what(), "SimpoTag") == nullptr);
            EXPECT_OR_SAY(std::strstr(error.what(), "of object 'poid 5', has no name") != nullptr);
          }
        }
        EXPECT_OR_SAY(numbers.simpo_add_and_get(0, 1) == 1);
        return "";
      }),
      "");
  // As where two sources have a static function of one name.
  EXPECT_EQ(life([]() -> std::string {
              using Known = detail::SimpoFunctionOf<&add_and_get, AddContext, true>;
              static const detail::SimpoFunction other(Known::function.method, &other);
              Numbers numbers(1, 5);
              numbers.simpo_add(0, 1);
              try {
                numbers.simpo_add_and_get(0, 1);
                return "one of two is taken";
              } catch (const Error& error) {
                EXPECT_OR_SAY(error.code() == Code::kInvalidArgument);
                EXPECT_OR_SAY(std::strstr(error.what(),
                                          "persistent function perdura::test::add_and_get(void*, "
                                          "perdura::test::AddContext const&), called") != nullptr);
              }
              return "";
            }),
            "");
}

// Its functions are known when the library is loaded, which is after the object was opened.
TEST_F(Simpo, FunctionsThatComeLaterAreRefused) {
  EXPECT_EQ(life([]() -> std::string {
              const auto call_late = [](bool is_late) -> std::string {
                void* const library = ::dlopen(PERDURA_SIMPO_LATE, RTLD_NOW);
                if (library == nullptr) return ::dlerror();
                const auto call =
                    reinterpret_cast<const char* (*)(int)>(::dlsym(library, "call_late"));
                const std::string said = call(5);
                if (!is_late) return said;
                EXPECT_OR_SAY(said.find("add_late") != said.npos);
                EXPECT_OR_SAY(said.find("was loaded when object 'poid 5' was in use") != said.npos);
                return "";
              };
              {
                Numbers numbers(1, 5);
                const std::string problem = call_late(true);
                EXPECT_OR_SAY(problem.empty());
                EXPECT_OR_SAY(numbers.simpo_add_and_get(0, 1) == 1);
              }
              return call_late(false);
            }),
            "");
}

// A later build of the library says what one of its functions was, and lacks the other one.
TEST_F(Simpo, FunctionsThatWereRenamedRun) {
  const auto call_twice = [](const char* file, int poid, bool dies, bool other) -> std::string {
    void* const library = ::dlopen(file, RTLD_NOW);
    if (library == nullptr) return ::dlerror();
    return reinterpret_cast<const char* (*)(int, bool, bool)>(::dlsym(library, "call_twice"))(
        poid, dies, other);
  };
  for (const bool other : {false, true})
    ASSERT_TRUE(killed_life([&]() -> std::string {
      return call_twice(PERDURA_SIMPO_LATE, other ? 6 : 5, true, other);
    }));
  EXPECT_EQ(life([&] { return call_twice(PERDURA_SIMPO_RENAMED, 5, false, false); }), "14 24");
  const std::string lacks =
      life([&] { return call_twice(PERDURA_SIMPO_RENAMED, 6, false, false); });
  for (const char* const part : {"calls function 'late::add_lost(void*, late::Added const&)'",
                                 "in 1 entry, which this program",
                                 "say formerly(\"late::add_lost(void*, late::Added const&)\")"})
    EXPECT_NE(lacks.find(part), lacks.npos) << lacks;
  // It may not do what the other build has logged, if it is told so.
  ASSERT_TRUE(killed_life([&] { return call_twice(PERDURA_SIMPO_LATE, 8, true, false); }));
  ::setenv("PERDURA_SAME_BUILD", "1", 1);
  const std::string refused =
      life([&] { return call_twice(PERDURA_SIMPO_RENAMED, 8, false, false); });
  ::unsetenv("PERDURA_SAME_BUILD");
  for (const char* const part :
       {"has 1 entry of build ", "of libsimpo_late.so", ", and this program is build ",
        "of libsimpo_renamed.so", "or without same_build"})
    EXPECT_NE(refused.find(part), refused.npos) << refused;
  EXPECT_EQ(life([&] { return call_twice(PERDURA_SIMPO_RENAMED, 8, false, false); }), "14 24");
  // Both builds in one program claim the same function.
  const std::string claimed = life([&]() -> std::string {
    if (::dlopen(PERDURA_SIMPO_LATE, RTLD_NOW) == nullptr) return ::dlerror();
    return call_twice(PERDURA_SIMPO_RENAMED, 7, false, false);
  });
  EXPECT_NE(claimed.find("say formerly() of one of them"), claimed.npos) << claimed;
}

TEST_F(Simpo, FunctionsUseNoObjects) {
  EXPECT_EQ(life([]() -> std::string {
              Nested numbers(1, 5);
              nested = &numbers;
              EXPECT_OR_SAY(numbers.simpo_use_objects() == 5);
              return "";
            }),
            "");
}

TEST_F(Simpo, AChildHasNoneOfItsParents) {
  EXPECT_EQ(life([]() -> std::string {
              Numbers numbers(1, 5);
              Child child([&]() -> std::string {
                EXPECT_OR_SAY(pocreate(6, 4) == nullptr && perdura_last_code() == PERDURA_FORKED);
                EXPECT_OR_SAY(pofree(5) == -PERDURA_FORKED);
                return "";
              });
              const std::string problem = child.wait();
              EXPECT_OR_SAY(problem.empty());
              EXPECT_OR_SAY(numbers.simpo_add_and_get(0, 1) == 1);
              return "";
            }),
            "");
}

TEST_F(Simpo, AStoreThatCannotBeOpenedSaysSo) {
  ::setenv("PERDURA_STORE", "emu:/nonexistent/own.pd", 1);
  EXPECT_EQ(life([]() -> std::string {
              EXPECT_OR_SAY(pocreate(5, 4) == nullptr);
              EXPECT_OR_SAY(std::strstr(perdura_last_error(), "/nonexistent") != nullptr);
              try {
                Numbers numbers(1, 5);
                return "it is made";
              } catch (const Error&) {
              }
              return "";
            }),
            "");
}

}  // namespace
}  // namespace perdura::test
