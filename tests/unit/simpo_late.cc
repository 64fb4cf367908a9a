// A library of simpo_test that is loaded when an object is in use, with persistent functions of its
// own; or (RENAMED) the later build of it, in which one of them has another name and the other is
// missing.
#include <signal.h>
#include <unistd.h>

#include <string>

#include <perdura/compat/simpo.hpp>
#include <perdura/error.hpp>

namespace late {

struct Added {
  int value;
};
#ifdef RENAMED
inline int add_now(void* poroot, const Added& added) {
  return *static_cast<int*>(poroot) += added.value;
}
#else
inline int add_late(void* poroot, const Added& added) {
  return *static_cast<int*>(poroot) += added.value;
}
inline int add_lost(void* poroot, const Added& added) { return add_late(poroot, added); }
#endif
class Late : public POBase {
 public:
  explicit Late(int poid) : POBase(sizeof(int), poid) {}
#ifdef RENAMED
  int simpo_add(int value) { return inst<&add_now>(Added{value}); }
  /// One of the places that call it says what it was.
  int simpo_add_more(int value) {
    return inst<&add_now, perdura::formerly("late::add_late(void*, late::Added const&)")>(
        Added{value});
  }
#else
  int simpo_add(int value) { return inst<&add_late>(Added{value}); }
  int simpo_add_more(int value) { return inst<&add_lost>(Added{value}); }
#endif
};

}  // namespace late

/// What is wrong, or "".
extern "C" const char* call_late(int poid) {
  static std::string said;
  try {
    late::Late late(poid);
    said = late.simpo_add(3) == 3 ? "" : "it does not answer";
  } catch (const perdura::Error& error) {
    said = error.what();
  }
  return said.c_str();
}

/// What both answer, or what is wrong. If `dies`, the process ends with one call (the first one, or
/// the other), which the object's copy lacks.
extern "C" const char* call_twice(int poid, bool dies, bool other) {
  static std::string said;
  try {
    late::Late late(poid);
    if (dies) {
      (void)(other ? late.simpo_add_more(4) : late.simpo_add(4));
      ::kill(::getpid(), SIGKILL);
    }
    const int first = late.simpo_add(10);
    said = std::to_string(first) + " " + std::to_string(late.simpo_add_more(10));
  } catch (const perdura::Error& error) {
    said = error.what();
  }
  return said.c_str();
}
