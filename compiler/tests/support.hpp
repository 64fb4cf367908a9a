// For programs that perdura-clang compiles: a store of their own, and what they expect.
#pragma once

#include <perdura/compiled.h>
#include <perdura/perdura.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

/// Ends the program where what is expected does not hold.
#define EXPECT(condition) expect(condition, #condition, __FILE__, __LINE__)

inline void expect(bool holds, const char* what, const char* file, int line) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
  std::exit(1);
}

/// A file in memory that is gone when the program is.
class OwnStore {
 public:
  OwnStore() : path_("/dev/shm/perdura-compiled-" + std::to_string(::getpid())) {}
  ~OwnStore() { ::unlink(path_.c_str()); }
  std::string uri() const { return "emu:" + path_; }
  perdura::Store open(perdura::Options options = {}) const {
    options.tracking = perdura::Tracking::kCompiled;
    return perdura::Store::open(uri(), options);
  }
  /// All that changed is compared with what was reported.
  perdura::Store open_verified(perdura::Options options = {}) const {
    options.verify_reports = true;
    return open(options);
  }

 private:
  const std::string path_;
};

/// Names the first lines that nobody reported, and ends the program.
inline void expect_reported(perdura::Store& store) {
  const auto found = store.unreported_stores();
  for (std::size_t i = 0; i < found.size() && i < 5; ++i)
    std::fprintf(stderr, "%s\n", found[i].c_str());
  EXPECT(store.statistics().unreported == 0);
}
