// Exceptions: those that leave the method, and those that are caught within it.
#include <exception>

#include <perdura/compat/simpo.hpp>

namespace corpus_exceptions {

int failures = 0;

struct Failure {
  int code;
};
int checked(int i) {
  if (i < 0) throw Failure{i};  // because: throws_in_helper throws
  return i;
}
int checked_always_caught(int i) {
  if (i < 0) throw Failure{i};
  return i;
}
int checked_in_two_steps(int i) { return checked_always_caught(i) + 1; }
void rethrow_all(int i) {
  try {
    if (i < 0) throw Failure{i};  // because: rethrows_in_helper throws
  } catch (...) {
    throw;  // because: rethrows_in_helper throws
  }
}
int swallow(int i) {
  try {
    return checked_always_caught(i);
  } catch (...) {
    return 0;
  }
}
struct Guard {
  explicit Guard(int* cell) : cell(cell) { ++*cell; }
  ~Guard() { --*cell; }
  int* cell;
};
struct Strict {
  explicit Strict(int value) : value(value) {
    if (value < 0) throw Failure{1};  // because: constructs_strict throws
  }
  int value;
};

class Exceptions : public POBase {
 public:
  explicit Exceptions(int poid = 0) : POBase(64 * sizeof(int), poid) {}

  void throws_itself(int i) {  // expect: instant
    if (i < 0) throw Failure{i};  // because: throws_itself throws
    ints()[i] = 1;
  }
  void throws_in_helper(int i) {  // expect: instant
    ints()[checked(i)] = 1;
  }
  void throws_in_ternary(int i) {  // expect: instant
    ints()[i < 0 ? throw 1 : i] = 1;  // because: throws_in_ternary throws
  }
  void catches_all(int i) {  // expect: deferrable
    try {
      if (i < 0) throw Failure{i};
      ints()[i] = 1;
    } catch (...) {
      ints()[0] = -1;
    }
  }
  void catches_all_of_helper(int i) {  // expect: deferrable
    try {
      ints()[checked_in_two_steps(i)] = 1;
    } catch (...) {
    }
  }
  void calls_what_swallows(int i) {  // expect: deferrable
    ints()[swallow(i)] = 1;
  }
  void catches_after_others(int i) {  // expect: deferrable
    try {
      if (i < 0) throw Failure{i};
      ints()[i] = 1;
    } catch (const Failure& failure) {
      ints()[0] = failure.code;
    } catch (...) {
      ints()[0] = -1;
    }
  }
  void catches_in_function_block(int i) try {  // expect: deferrable
    if (i < 0) throw Failure{i};
    ints()[i] = 1;
  } catch (...) {
  }
  void catches_what_is_rethrown(int i) {  // expect: deferrable
    try {
      try {
        if (i < 0) throw Failure{i};
      } catch (...) {
        throw;
      }
    } catch (...) {
      ints()[0] = 0;
    }
  }
  void throws_in_handler(int i) {  // expect: instant
    try {
      ints()[checked_always_caught(i)] = 1;
    } catch (...) {
      throw 2;  // because: throws_in_handler throws
    }
  }
  void throws_behind_try(int i) {  // expect: instant
    try {
      ints()[swallow(i)] = 1;
    } catch (...) {
    }
    if (ints()[i] > 8) throw 3;  // because: throws_behind_try throws
  }
  void rethrows_in_helper(int i) {  // expect: instant
    rethrow_all(i);
  }
  void counts_in_handler(int i) {  // expect: instant
    try {
      ints()[checked_always_caught(i)] = 1;
    } catch (...) {
      ++failures;  // because: counts_in_handler global
    }
  }
  void constructs_strict(int i) {  // expect: instant
    const Strict strict(i);
    ints()[0] = strict.value;
  }
  void unwinds_guard(int i) {  // expect: deferrable
    try {
      Guard guard(ints() + 1);
      ints()[checked_always_caught(i)] = 1;
    } catch (...) {
    }
  }
  void terminates(int i) {  // expect: deferrable
    if (i < 0) std::terminate();
    ints()[i] = 1;
  }
  void throws_in_lambda() {  // expect: instant
    auto fail = [](int value) {
      if (value > 3) throw value;  // because: throws_in_lambda throws
    };
    fail(ints()[0]);
  }
  void catches_all_of_lambda() {  // expect: deferrable
    auto fail = [](int value) {
      if (value > 3) throw value;
    };
    try {
      fail(ints()[0]);
    } catch (...) {
      ints()[0] = 3;
    }
  }
  void names_throw_in_noexcept(int i) {  // expect: deferrable
    ints()[i] = noexcept(checked(i));
  }
  int nth(int i) const {  // expect: instant; because: nth returns
    if (i < 0) throw Failure{i};  // because: nth throws
    return static_cast<const int*>(poroot)[i];
  }

 private:
  int* ints() { return static_cast<int*>(poroot); }
};

}  // namespace corpus_exceptions
