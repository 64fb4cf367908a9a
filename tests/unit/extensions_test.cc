// Goal: each programming model has a state of its own with a store, whichever others are used on
// it. Method: models that note what happens to them; threads that ask for the same one at once.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/extensions.hpp"

namespace perdura::store {
namespace {

template <char kName>
struct Model : Extension {
  explicit Model(std::string& log) : log(log) {}
  ~Model() override { log += kName; }
  void end_threads() noexcept override { (log += kName) += '-'; }
  std::string& log;
};
using A = Model<'a'>;
using B = Model<'b'>;
using C = Model<'c'>;

template <class Type>
Type* get(Extensions& extensions, std::string& log) {
  return value_or_throw(extensions.find_or_make<Type>(
      [&]() -> Result<std::unique_ptr<Type>> { return std::make_unique<Type>(log); }));
}

TEST(Extensions, AreOfTheirTypesAndEndLastFirst) {
  std::string log;
  {
    Extensions extensions;
    EXPECT_EQ(extensions.find<A>(), nullptr);
    B* const b = get<B>(extensions, log);
    EXPECT_EQ(extensions.find<A>(), nullptr);
    A* const a = get<A>(extensions, log);
    EXPECT_NE(static_cast<void*>(a), b);
    EXPECT_EQ(extensions.find<A>(), a);
    EXPECT_EQ(extensions.find<B>(), b);
    EXPECT_EQ(get<A>(extensions, log), a);
    EXPECT_EQ(get<B>(extensions, log), b);
    EXPECT_EQ(extensions.find<C>(), nullptr);
    extensions.end_threads();
    EXPECT_EQ(log, "a-b-");
    extensions.clear();
    EXPECT_EQ(log, "a-b-ab");
    EXPECT_EQ(extensions.find<A>(), nullptr);
  }
  EXPECT_EQ(log, "a-b-ab");
}

TEST(Extensions, ThatCouldNotBeMadeAreMadeLater) {
  std::string log;
  Extensions extensions;
  const auto failed = extensions.find_or_make<A>(
      []() -> Result<std::unique_ptr<A>> { return Failure{Code::kNoMemory, "no"}; });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.failure().message, "no");
  EXPECT_EQ(extensions.find<A>(), nullptr);
  EXPECT_EQ(extensions.find<A>(), (get<B>(extensions, log), nullptr));
  EXPECT_NE(get<A>(extensions, log), nullptr);
}

TEST(Extensions, AreMadeOnceForAllThreads) {
  std::string log;
  Extensions extensions;
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  std::vector<A*> found(4);
  for (A*& each : found)
    threads.emplace_back([&] {
      B* const other = extensions.find<B>();
      each = value_or_throw(extensions.find_or_make<A>([&]() -> Result<std::unique_ptr<A>> {
        ++made;
        return std::make_unique<A>(log);
      }));
      EXPECT_TRUE(other == nullptr || other == extensions.find<B>());
      EXPECT_EQ(extensions.find<A>(), each);
      get<B>(extensions, log);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  for (A* each : found) EXPECT_EQ(each, found[0]);
}

}  // namespace
}  // namespace perdura::store
