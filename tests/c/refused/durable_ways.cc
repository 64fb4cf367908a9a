// What cannot live in a store does not compile, by whichever call it would come there.
#include <perdura/perdura.hpp>
#include <perdura/structures/hash_map.hpp>

/// The compiler tells of a type once: of each number there is another.
template <int>
struct Shape {
  virtual double area() const;
};
template <int kNumber>
struct Person {
  int age;
  Shape<kNumber> shape;
};
struct Known {
  int age;
};
PERDURA_TYPE(Known)
template <>
inline constexpr bool perdura::kReportsItself<Person<9>> = true;

using perdura::Allocator;
template <class T>
using Hashed = perdura::structures::hash_map<int, T>;

// clang-format off
void use(perdura::Store& store, perdura::Container& container, perdura::Transaction& tx) {
  store.make<Known>();
  tx.make<Known>();
  container.root<Known>();
  perdura::make<Known>();
#if !defined(ACCEPTED)
  store.make<Person<1>>();                                    // refused: a class with virtual func
  store.root<perdura::map<int, Person<2>>>("people");         // refused: a class with virtual func
  store.find_root<Person<3>>("person");                       // refused: a class with virtual func
  perdura::map<int, Person<4>>(Allocator<int>(store))[1];     // refused: a class with virtual func
  perdura::unordered_map<int, Person<5>>(0, Allocator<int>(store))[1];  // refused: a class with virt
  tx.make<Person<6>>();                                       // refused: a class with virtual func
  container.root<Person<7>>();                                // refused: a class with virtual func
  perdura::make<Person<8>>();                                 // refused: a class with virtual func
  static_cast<Hashed<Person<9>>*>(nullptr)->clear();          // refused: a class with virtual func
#endif
}
