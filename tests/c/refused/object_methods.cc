// What perdura/objects.hpp refuses to compile.
#include <string>
#include <tuple>

#include <perdura/objects.hpp>

struct Text {
  std::string text;
};
struct Seats {
  int sold;
  void sell(int count) noexcept { sold += count; }
  int reserve() noexcept { return sold++; }
  int left() const noexcept { return 100 - sold; }
  void look() const noexcept {}
  void forgotten() noexcept {}
  void write(Text) noexcept {}
  Text tell() noexcept { return {}; }
  static perdura::Domain all() noexcept { return perdura::Domain::kAll; }
  static perdura::Domain may_throw() { return perdura::Domain::kAll; }
  static bool join(std::tuple<int>& first, const std::tuple<int>& next) noexcept {
    std::get<0>(first) += std::get<0>(next);
    return true;
  }
  static bool join_none(std::tuple<>&, const std::tuple<>&) noexcept { return true; }
};
struct Named {
  std::string name;
};

template <>
struct perdura::Methods<Seats>
    : perdura::MethodList<
          perdura::Deferrable<&Seats::sell, &Seats::join, perdura::kCommutes>,
          perdura::Instant<&Seats::reserve, &Seats::all, perdura::formerly("Seats::book()")>
#if REFUSED == 4
          ,
          perdura::Deferrable<&Seats::write>
#elif REFUSED == 5
          ,
          perdura::Instant<&Seats::tell>
#elif REFUSED == 7
          ,
          perdura::Deferrable<&Seats::reserve>
#elif REFUSED == 8
          ,
          perdura::Instant<&Seats::reserve, &Seats::join_none>
#elif REFUSED == 9
          ,
          perdura::Deferrable<&Seats::forgotten, &Seats::may_throw>
#elif REFUSED == 11
          ,
          perdura::Deferrable<&Seats::forgotten, perdura::kCommutes>
#elif REFUSED == 12
          ,
          perdura::Deferrable<&Seats::forgotten, &Seats::all, &Seats::all>
#endif
          > {
};
template <>
struct perdura::Methods<Named> : perdura::MethodList<> {};

void use(perdura::Objects& objects) {
  perdura::Object<Seats> seats = objects.object<Seats>("seats");
  seats.defer<&Seats::sell>(1);
  (void)seats.call<&Seats::reserve>();
  (void)seats.read<&Seats::left>();
#if REFUSED == 1
  seats.defer<&Seats::reserve>();
#elif REFUSED == 2
  seats.call<&Seats::sell>(1);
#elif REFUSED == 3
  seats.defer<&Seats::forgotten>();
#elif REFUSED == 6
  (void)objects.object<Named>("named");
#elif REFUSED == 10
  (void)seats.read<&Seats::look>();
#endif
}
