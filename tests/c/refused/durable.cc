// What cannot live in a store does not compile: each kind, wherever a type has it, and at each way
// by which it would come there. REFUSED=0 is what compiles.
#if REFUSED == 1 || REFUSED >= 40
#include <string>
#elif REFUSED == 2
#include <vector>
#elif REFUSED == 3
#include <deque>
#elif REFUSED == 4
#include <list>
#elif REFUSED == 5 || REFUSED == 6
#include <map>
#elif REFUSED == 7 || REFUSED == 8
#include <set>
#elif REFUSED == 9
#include <unordered_map>
#elif REFUSED == 10
#include <unordered_set>
#elif REFUSED == 11
#include <forward_list>
#elif REFUSED == 12
#include <memory_resource>
#include <vector>
#elif REFUSED == 15
#include <functional>
#elif REFUSED == 18
#include <mutex>
#elif REFUSED == 19
#include <condition_variable>
#elif REFUSED == 20
#include <thread>
#elif REFUSED == 21
#include <sstream>
#elif REFUSED == 22
#include <filesystem>
#elif REFUSED == 23
#include <any>
#elif REFUSED == 24
#include <regex>
#endif
#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

struct Shape {
  virtual double area() const;
};
struct View {
  int begin;
  const int& whole;
};

#if REFUSED < 40
#include <perdura/durable.hpp>

#if REFUSED == 0
using Kept = std::tuple<int, const char*, std::array<double, 4>, std::optional<Shape*>>;
#elif REFUSED == 1
using Kept = std::string;
#elif REFUSED == 2
using Kept = std::vector<bool>;
#elif REFUSED == 3
using Kept = std::deque<int>;
#elif REFUSED == 4
using Kept = std::list<int>;
#elif REFUSED == 5
using Kept = std::map<int, int>;
#elif REFUSED == 6
using Kept = std::multimap<int, int>;
#elif REFUSED == 7
using Kept = std::set<int>;
#elif REFUSED == 8
using Kept = std::multiset<int>;
#elif REFUSED == 9
using Kept = std::unordered_map<int, int>;
#elif REFUSED == 10
using Kept = std::unordered_set<int>;
#elif REFUSED == 11
using Kept = std::forward_list<int>;
#elif REFUSED == 12
using Kept = std::pmr::vector<int>;
#elif REFUSED == 13
using Kept = Shape;
#elif REFUSED == 14
using Kept = View;
#elif REFUSED == 15
using Kept = std::function<int(int)>;
#elif REFUSED == 16
using Kept = std::unique_ptr<int>;
#elif REFUSED == 17
using Kept = std::weak_ptr<int>;
#elif REFUSED == 18
using Kept = std::recursive_mutex;
#elif REFUSED == 19
using Kept = std::condition_variable;
#elif REFUSED == 20
using Kept = std::jthread;
#elif REFUSED == 21
using Kept = std::ostringstream;
#elif REFUSED == 22
using Kept = std::filesystem::path;
#elif REFUSED == 23
using Kept = std::any;
#elif REFUSED == 24
using Kept = std::regex;
// Wherever it is.
#elif REFUSED == 25
struct Inner {
  int before;
  Shape shape;
};
struct Kept {
  double before[3];
  Inner inner;
};
#elif REFUSED == 26
using Kept = Shape[2][3];
#elif REFUSED == 27
using Kept = std::array<Shape, 3>;
#elif REFUSED == 28
using Kept = std::pair<const int, Shape>;
#elif REFUSED == 29
using Kept = std::tuple<int, std::tuple<Shape>>;
#elif REFUSED == 30
using Kept = std::optional<Shape>;
#elif REFUSED == 31
using Kept = std::variant<int, Shape>;
#endif

static_assert((perdura::detail::require_durable<Kept>(), true));

#else
#include <perdura/perdura.hpp>
#include <perdura/structures/hash_map.hpp>

struct Person {
  int age;
  std::string name;
};
PERDURA_TYPE(Person)

void use(perdura::Store& store, perdura::Container& container) {
#if REFUSED == 40
  store.make<Person>();
#elif REFUSED == 41
  store.root<perdura::map<int, Person>>("people");
#elif REFUSED == 42
  store.find_root<Person>("person");
#elif REFUSED == 43
  perdura::map<int, Person> people{perdura::Allocator<int>(store)};
  people[1].age = 2;
#elif REFUSED == 44
  perdura::unordered_map<int, Person> people(0, perdura::Allocator<int>(store));
  people[1].age = 2;
#elif REFUSED == 45
  perdura::atomically(store, [](perdura::Transaction& tx) { tx.make<Person>(); });
#elif REFUSED == 46
  container.root<Person>();
#elif REFUSED == 47
  perdura::make<Person>();
#endif
}
#if REFUSED == 48
template <>
inline constexpr bool perdura::kReportsItself<Person> = true;
void report(perdura::structures::hash_map<int, Person>& people) { people.clear(); }
#endif
#endif
