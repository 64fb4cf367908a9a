// Calls of each of the C library's functions for which compiled code has a wrapper.
#pragma once

#include <limits.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>
#include <random>
#include <string_view>

#include "../runtime/fortified.hpp"

class CallsOfC {
 public:
  static constexpr std::size_t kPlaceBytes = 8192;

  /// Ends the program where one has a wrapper that is not called here.
  CallsOfC();
  /// One of them, which stores to the place.
  void call(char* place, std::mt19937& draw);

 private:
  struct Call {
    std::string_view name;
    void (*make)(CallsOfC& with);
  };
  static const Call kCalls[];
  static const std::size_t kCallsCount;

  std::size_t some(std::size_t most) { return (*draw_)() % (most + 1); }
  /// In the place, a line or more from its beginning.
  char* at() { return place_ + 64 * some(30); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(at());
  }
  const char* text() { return text_ + sizeof text_ - 1 - some(200); }
  const wchar_t* wide() { return wide_ + 200 - some(200); }
  int formatted(char* to, const char* format, ...);
  int formatted_at_most(char* to, std::size_t bytes, const char* format, ...);
  int formatted_checked(char* to, const char* format, ...);
  int formatted_at_most_checked(char* to, std::size_t bytes, const char* format, ...);
  std::FILE* rewound() {
    std::rewind(file_);
    return file_;
  }
  int filled_socket() {
    if (::send(sockets_[1], text_, 1 + some(300), 0) < 0) std::abort();
    return sockets_[0];
  }

  char* place_ = nullptr;
  std::mt19937* draw_ = nullptr;
  char text_[601];
  wchar_t wide_[301];
  std::FILE* file_ = std::tmpfile();
  int zeros_;
  int sockets_[2];
};
