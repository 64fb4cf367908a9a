// A library of simpo_test that is loaded when an object is in use, with a persistent function of
// its own.
#include <string>

#include <perdura/compat/simpo.hpp>
#include <perdura/error.hpp>

namespace late {

struct Added {
  int value;
};
inline int add_late(void* poroot, const Added& added) {
  return *static_cast<int*>(poroot) += added.value;
}
class Late : public POBase {
 public:
  explicit Late(int poid) : POBase(sizeof(int), poid) {}
  int simpo_add(int value) { return inst<&add_late>(Added{value}); }
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
