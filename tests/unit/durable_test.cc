// What may live in a store compiles: numbers, pointers, classes whose members nobody can see, the
// containers on a store's heap, whatever contains itself through one of them, and what a program
// vouches for. What must not is refused with a sentence each (c/refused/durable.cc); here it is
// found wherever a type has it, and for what it is.
#include <gtest/gtest.h>

#include <any>
#include <atomic>
#include <bitset>
#include <chrono>
#include <complex>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <forward_list>
#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <list>
#include <map>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <queue>
#include <regex>
#include <semaphore>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <stack>
#include <string>
#include <thread>
#include <tuple>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/structures/hash_map.hpp>
#include <perdura/structures/list.hpp>
#include <perdura/structures/ordered_map.hpp>
#include <perdura/structures/string.hpp>
#include <perdura/structures/vector.hpp>

#include "support/files.hpp"

namespace perdura::test {
namespace {

using detail::Unfit;

template <class T>
constexpr Unfit kFound = detail::FirstUnfit<T>::kWhy;
template <class T, class Found>
constexpr bool kNames = std::is_same_v<typename detail::FirstUnfit<T>::Type, Found>;

// --- each kind -----------------------------------------------------------------------------------

static_assert(kFound<std::string> == Unfit::kString && kFound<std::u16string> == Unfit::kString);
static_assert(kFound<std::vector<int>> == Unfit::kVector);
static_assert(kFound<std::vector<bool>> == Unfit::kVector);
static_assert(kFound<std::deque<int>> == Unfit::kDeque);
static_assert(kFound<std::list<int>> == Unfit::kList);
static_assert(kFound<std::map<int, int>> == Unfit::kMap);
static_assert(kFound<std::multimap<int, int>> == Unfit::kMultimap);
static_assert(kFound<std::set<int>> == Unfit::kSet);
static_assert(kFound<std::multiset<int>> == Unfit::kMultiset);
static_assert(kFound<std::unordered_map<int, int>> == Unfit::kUnorderedMap);
static_assert(kFound<std::unordered_set<int>> == Unfit::kUnorderedSet);
static_assert(kFound<std::forward_list<int>> == Unfit::kStandardAllocator);
static_assert(kFound<std::unordered_multimap<int, int>> == Unfit::kStandardAllocator);
static_assert(kFound<std::stack<int>> == Unfit::kDeque);
static_assert(kFound<std::priority_queue<int>> == Unfit::kVector);
static_assert(kFound<std::pmr::string> == Unfit::kMemoryResource);
static_assert(kFound<std::pmr::map<int, int>> == Unfit::kMemoryResource);
struct IsAVector : std::vector<int> {};
static_assert(kFound<IsAVector> == Unfit::kStandardAllocator);

struct Shape {
  virtual ~Shape() = default;
};
struct Circle : Shape {
  double radius = 1;
};
static_assert(kFound<Shape> == Unfit::kVirtual && kFound<Circle> == Unfit::kVirtual);
static_assert(kFound<std::runtime_error> == Unfit::kVirtual);

static_assert(kFound<std::function<void()>> == Unfit::kFunction);
static_assert(kFound<std::packaged_task<void()>> == Unfit::kFunction);
static_assert(kFound<std::unique_ptr<int>> == Unfit::kUniquePointer);
static_assert(kFound<std::unique_ptr<int[]>> == Unfit::kUniquePointer);
static_assert(kFound<std::shared_ptr<int>> == Unfit::kSharedPointer);
static_assert(kFound<std::weak_ptr<int>> == Unfit::kSharedPointer);
static_assert(kFound<std::mutex> == Unfit::kLock && kFound<std::shared_mutex> == Unfit::kLock);
static_assert(kFound<std::condition_variable> == Unfit::kLock);
static_assert(kFound<std::binary_semaphore> == Unfit::kLock && kFound<std::latch> == Unfit::kLock);
static_assert(kFound<std::unique_lock<std::mutex>> == Unfit::kLock);
static_assert(kFound<std::once_flag> == Unfit::kLock);
static_assert(kFound<std::thread> == Unfit::kThread && kFound<std::jthread> == Unfit::kThread);
static_assert(kFound<std::future<int>> == Unfit::kThread);
static_assert(kFound<std::promise<void>> == Unfit::kThread);
static_assert(kFound<std::ofstream> == Unfit::kStream && kFound<std::ostream> == Unfit::kStream);
static_assert(kFound<std::stringstream> == Unfit::kStream &&
              kFound<std::filebuf> == Unfit::kStream);
static_assert(kFound<std::filesystem::path> == Unfit::kPath && kFound<std::any> == Unfit::kAny);
static_assert(kFound<std::regex> == Unfit::kOfThisRun && kFound<std::locale> == Unfit::kOfThisRun);
static_assert(kFound<std::exception_ptr> == Unfit::kOfThisRun);
static_assert(kFound<std::type_index> == Unfit::kOfThisRun);

// --- references ----------------------------------------------------------------------------------

struct NoDefault {
  explicit NoDefault(int);
};
struct ToNumber {
  int& number;
};
struct ToConstant {
  int before;
  const Shape& shape;
};
struct AmongOthers {
  int before[3];
  std::complex<double> number;
  NoDefault made;
  Shape*& shape;
  int behind;
};
struct WithinAnother {
  int before;
  ToNumber inner;
};
static_assert(kFound<ToNumber> == Unfit::kReference && kFound<ToConstant> == Unfit::kReference);
static_assert(kFound<AmongOthers> == Unfit::kReference);
static_assert(kFound<WithinAnother> == Unfit::kReference);
static_assert(kFound<std::tuple<int, int&>> == Unfit::kReference);
// Neither what cannot be made of nothing nor what is constant is one.
struct Constants {
  const int number;
  NoDefault made;
  const NoDefault constant;
  int* const pointer;
  int numbers[4];
};
static_assert(kFound<Constants> == Unfit::kNone);

// --- wherever it is ------------------------------------------------------------------------------

struct Inner {
  int before;
  std::string name;
};
struct Outer {
  double number;
  Inner all[3];
};
static_assert(kNames<Inner, std::string> && kNames<Outer, std::string>);
static_assert(kNames<const Outer, std::string> && kNames<Outer[2][3], std::string>);
static_assert(kNames<std::array<Inner, 2>, std::string>);
static_assert(kNames<std::pair<const int, Inner>, std::string>);
static_assert(kNames<std::tuple<int, std::tuple<Inner>>, std::string>);
static_assert(kNames<std::optional<Inner>, std::string>);
static_assert(kNames<std::variant<int, Inner>, std::string>);
static_assert(kNames<vector<Inner>, std::string> && kNames<list<Inner>, std::string>);
static_assert(kNames<map<int, map<int, Inner>>, std::string>);
static_assert(kNames<unordered_map<string, Inner>, std::string>);
static_assert(kNames<std::stack<Inner, deque<Inner>>, std::string>);
struct Several {
  int number;
  std::mutex lock;
  std::string name;
};
static_assert(kNames<Several, std::mutex>);
struct Recursive {
  vector<Recursive> children;
  std::string name;
};
static_assert(kNames<Recursive, std::string> && kNames<map<int, Recursive>, std::string>);

// --- what may ------------------------------------------------------------------------------------

struct Deleter {
  void operator()(int*) const {}
};
struct Node {
  Node* parent;
  vector<Node> children;
  map<string, Node> named;
  Field<int> number;
};
enum class Kind { kOne };
union Either {
  int number;
  float real;
};
struct Large {
  int numbers[100];
  char texts[64][64];
  Either either;
  Kind kind;
  std::bitset<99> bits;
  std::chrono::system_clock::time_point when;
};
class Closed {
 public:
  Closed() = default;
  int number() const { return number_; }

 private:
  std::string nobody_sees_it_;
  int number_ = 0;
};
template <class... T>
constexpr bool kMay = (Durable<T> && ...);
static_assert(kMay<int, double, Kind, Either, Large, int*, const char*, void (*)(), Shape*>);
static_assert(kMay<std::array<int, 3>, std::array<int, 0>, std::atomic<int>, std::complex<double>>);
static_assert(kMay<std::optional<int>, std::variant<std::monostate, int>, std::string_view>);
static_assert(kMay<std::unique_ptr<int, Deleter>, Node, vector<Node>, Closed>);
static_assert(kMay<string, vector<string>, deque<int>, list<int>, map<int, string>, set<int>>);
static_assert(kMay<multimap<int, int>, multiset<int>, unordered_map<string, string>>);
static_assert(kMay<structures::string, structures::vector<structures::string>,
                   structures::hash_map<int, Large>, structures::ordered_map<int, Node*>,
                   structures::list<Either>>);
static_assert(!kMay<std::string> && !kMay<int, Circle>);

// --- what a program vouches for ------------------------------------------------------------------

/// Made anew in each run.
struct Cache {
  std::vector<int>* values;
  std::mutex* lock;
  alignas(std::mutex) char memory[sizeof(std::mutex)];
  Circle unused;
};
struct Account {
  long balance;
  Cache cache;
};
static_assert(!Durable<Account>);
struct Vouched : Cache {};
struct Counted {
  long balance;
  Vouched cache;
};

}  // namespace
}  // namespace perdura::test

template <>
inline constexpr bool perdura::kDurable<perdura::test::Vouched> = true;

namespace perdura::test {
namespace {

static_assert(Durable<Vouched> && Durable<Counted> && Durable<vector<Counted>>);

// What is accepted is there in the next run.
TEST(Durable, WhatMayLiveInAStoreIsThereAgain) {
  const TempDir folder(TempDir::kMemory);
  for (int round = 0; round < 2; ++round) {
    Store store = Store::open(folder.path("state.pd"), {.region_limit_bytes = 64 << 20});
    auto& counted = store.root<Counted>("counted");
    auto& tree = store.root<vector<Node>>("tree");
    auto& closed = store.root<Closed>("closed");
    auto& large = store.root<Large>("large");
    EXPECT_EQ(counted.balance, round * 7);
    EXPECT_EQ(tree.size(), static_cast<size_t>(round));
    EXPECT_EQ(closed.number(), 0);
    if (round == 1) {
      ASSERT_EQ(tree[0].children.size(), 1u);
      EXPECT_EQ(tree[0].children[0].parent, &tree[0]);
      EXPECT_EQ(tree[0].children[0].number.get(), 5);
      EXPECT_TRUE(large.bits.test(42));
    }
    const auto operation = store.operation();
    counted.balance += 7;
    if (round == 1) continue;
    tree.emplace_back();
    tree[0].children.emplace_back();
    tree[0].children[0].parent = tree.data();
    tree[0].children[0].number = 5;
    large.bits.set(42);
  }
}

}  // namespace
}  // namespace perdura::test
