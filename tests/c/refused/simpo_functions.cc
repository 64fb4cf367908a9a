// What perdura/compat/simpo.hpp refuses to compile.
#include <string>

#include <perdura/compat/simpo.hpp>

struct Text {
  std::string text;
};
struct Number {
  int number;
};
struct Long {
  char bytes[49];
};
void with_text(void*, const Text&);
int with_answer(void*, const Number&);
Long with_long_answer(void*, const Number&);

class Refused : public POBase {
 public:
  Refused() : POBase(4) {}
  void call() {
#if REFUSED == 1
    defer<&with_text>(Text{"text"});
#elif REFUSED == 2
    defer<&with_answer>(Number{1});
#elif REFUSED == 3
    inst<&with_long_answer>(Number{1});
#else
    inst<&with_answer>(Text{"text"});
#endif
  }
};
