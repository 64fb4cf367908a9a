// What cannot live in a store does not compile: each kind, and wherever a type has it.
#include <any>
#include <array>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <perdura/durable.hpp>

/// The compiler tells of a type once: of each number there is another.
template <int>
struct Shape {
  virtual double area() const;
};
struct View {
  int begin;
  const int& whole;
};
struct Inner {
  int before;
  Shape<1> shape;
};
struct Outer {
  double before[3];
  Inner inner;
};

#define KEEP(...) static_assert((perdura::detail::require_durable<__VA_ARGS__>(), true))

KEEP(std::tuple<int, const char*, std::array<double, 4>, std::optional<Shape<0>*>>);

// clang-format off
#if !defined(ACCEPTED)
KEEP(std::string);  // refused: a std::string's text is in malloc's memory.*use perdura::string
KEEP(std::vector<bool>);               // refused: use perdura::vector
KEEP(std::deque<int>);                 // refused: use perdura::deque
KEEP(std::list<int>);                  // refused: use perdura::list
KEEP(std::map<int, int>);              // refused: use perdura::map
KEEP(std::multimap<int, int>);         // refused: use perdura::multimap
KEEP(std::set<int>);                   // refused: use perdura::set
KEEP(std::multiset<int>);              // refused: use perdura::multiset
KEEP(std::unordered_map<int, int>);    // refused: use perdura::unordered_map
KEEP(std::unordered_set<int>);         // refused: use perdura::unordered_set
KEEP(std::forward_list<int>);          // refused: give it perdura::Allocator instead of std::alloca
KEEP(std::pmr::vector<int>);           // refused: points to a memory resource of this run
KEEP(Shape<2>);                        // refused: a class with virtual functions points to code
KEEP(View);                            // refused: a reference among the members
KEEP(std::function<int(int)>);         // refused: a std::function points to code
KEEP(std::unique_ptr<int>);            // refused: a std::unique_ptr gives its object back to malloc
KEEP(std::weak_ptr<int>);              // refused: a std::shared_ptr or weak_ptr counts in
KEEP(std::recursive_mutex);            // refused: locks and condition variables are
KEEP(std::condition_variable);         // refused: locks and condition variables are
KEEP(std::jthread);                    // refused: threads and what they hand over
KEEP(std::ostringstream);              // refused: a stream has a file
KEEP(std::filesystem::path);           // refused: keep it in a perdura::string
KEEP(std::any);                        // refused: a std::any points to code
KEEP(std::regex);                      // refused: a regular expression
KEEP(Outer);                           // refused: a class with virtual functions points to code
KEEP(Shape<3>[2][3]);                  // refused: a class with virtual functions points to code
KEEP(std::array<Shape<4>, 3>);         // refused: a class with virtual functions points to code
KEEP(std::pair<const int, Shape<5>>);  // refused: a class with virtual functions points to code
KEEP(std::tuple<int, std::tuple<Shape<6>>>);  // refused: a class with virtual functions points to
KEEP(std::optional<Shape<7>>);         // refused: a class with virtual functions points to code
KEEP(std::variant<int, Shape<8>>);     // refused: a class with virtual functions points to code
#endif
