// The C library's functions that store through pointers, as code calls them that is compiled to
// report its stores (compiler/pass/library_calls.inc has the same names): what they will store to
// is reported, then they are called. Reported is no less than they store, and where that is not
// known before, all that they may.
#include <perdura/compiled.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>

#include <algorithm>
#include <cmath>

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fortified.hpp"
#include "track/compiled_reports.hpp"

namespace {

using perdura::track::in_compiled_window;

template <class T>
void report(T* what) {
  if (in_compiled_window(what)) perdura_report(what, sizeof *what);
}

/// The bytes of what would be written, with its end.
std::size_t formatted_bytes(const char* format, va_list values) {
  va_list copy;
  va_copy(copy, values);
  const int length = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  return length < 0 ? 0 : static_cast<std::size_t>(length) + 1;
}

std::size_t bytes_of(const char* text) { return std::strlen(text) + 1; }
std::size_t bytes_of(const wchar_t* text) { return (std::wcslen(text) + 1) * sizeof *text; }

}  // namespace

#define PERDURA_WRAPPER __attribute__((visibility("default")))

extern "C" {

// --- memory

PERDURA_WRAPPER void* __perdura_memcpy(void* to, const void* from, size_t bytes) {
  perdura_report(to, bytes);
  return std::memcpy(to, from, bytes);
}
PERDURA_WRAPPER void* __perdura_memmove(void* to, const void* from, size_t bytes) {
  perdura_report(to, bytes);
  return std::memmove(to, from, bytes);
}
PERDURA_WRAPPER void* __perdura_memset(void* to, int value, size_t bytes) {
  perdura_report(to, bytes);
  return std::memset(to, value, bytes);
}
PERDURA_WRAPPER void* __perdura_mempcpy(void* to, const void* from, size_t bytes) {
  perdura_report(to, bytes);
  return ::mempcpy(to, from, bytes);
}
PERDURA_WRAPPER void* __perdura_memccpy(void* to, const void* from, int last, size_t bytes) {
  const void* const found = std::memchr(from, last, bytes);
  perdura_report(to, found == nullptr ? bytes
                                      : static_cast<size_t>(static_cast<const char*>(found) -
                                                            static_cast<const char*>(from)) +
                                            1);
  return ::memccpy(to, from, last, bytes);
}
PERDURA_WRAPPER void __perdura_bzero(void* to, size_t bytes) {
  perdura_report(to, bytes);
  ::bzero(to, bytes);
}
PERDURA_WRAPPER void __perdura_bcopy(const void* from, void* to, size_t bytes) {
  perdura_report(to, bytes);
  ::bcopy(from, to, bytes);
}
PERDURA_WRAPPER void __perdura_swab(const void* from, void* to, ssize_t bytes) {
  if (bytes > 0) perdura_report(to, static_cast<size_t>(bytes));
  ::swab(from, to, bytes);
}
PERDURA_WRAPPER void __perdura_qsort(void* first, size_t count, size_t bytes,
                                     int (*compare)(const void*, const void*)) {
  perdura_report(first, count * bytes);
  std::qsort(first, count, bytes, compare);
}
PERDURA_WRAPPER wchar_t* __perdura_wmemcpy(wchar_t* to, const wchar_t* from, size_t count) {
  perdura_report(to, count * sizeof *to);
  return std::wmemcpy(to, from, count);
}
PERDURA_WRAPPER wchar_t* __perdura_wmemmove(wchar_t* to, const wchar_t* from, size_t count) {
  perdura_report(to, count * sizeof *to);
  return std::wmemmove(to, from, count);
}
PERDURA_WRAPPER wchar_t* __perdura_wmemset(wchar_t* to, wchar_t value, size_t count) {
  perdura_report(to, count * sizeof *to);
  return std::wmemset(to, value, count);
}

// --- strings

PERDURA_WRAPPER char* __perdura_strcpy(char* to, const char* from) {
  perdura_report(to, bytes_of(from));
  return std::strcpy(to, from);
}
PERDURA_WRAPPER char* __perdura_strncpy(char* to, const char* from, size_t bytes) {
  perdura_report(to, bytes);
  return std::strncpy(to, from, bytes);
}
PERDURA_WRAPPER char* __perdura_stpcpy(char* to, const char* from) {
  perdura_report(to, bytes_of(from));
  return ::stpcpy(to, from);
}
PERDURA_WRAPPER char* __perdura_stpncpy(char* to, const char* from, size_t bytes) {
  perdura_report(to, bytes);
  return ::stpncpy(to, from, bytes);
}
PERDURA_WRAPPER char* __perdura_strcat(char* to, const char* from) {
  perdura_report(to + std::strlen(to), bytes_of(from));
  return std::strcat(to, from);
}
PERDURA_WRAPPER char* __perdura_strncat(char* to, const char* from, size_t bytes) {
  perdura_report(to + std::strlen(to), ::strnlen(from, bytes) + 1);
  return std::strncat(to, from, bytes);
}
PERDURA_WRAPPER wchar_t* __perdura_wcscpy(wchar_t* to, const wchar_t* from) {
  perdura_report(to, bytes_of(from));
  return std::wcscpy(to, from);
}
PERDURA_WRAPPER char* __perdura_strtok_r(char* text, const char* ends, char** rest) {
  char* const from = text != nullptr ? text : *rest;
  if (from != nullptr) perdura_report(from, bytes_of(from));
  report(rest);
  return ::strtok_r(text, ends, rest);
}
PERDURA_WRAPPER char* __perdura_strtok(char* text, const char* ends) {
  static thread_local char* rest = nullptr;  // the library's own cannot be seen
  return __perdura_strtok_r(text, ends, &rest);
}
PERDURA_WRAPPER char* __perdura_strsep(char** text, const char* ends) {
  if (*text != nullptr) perdura_report(*text, bytes_of(*text));
  report(text);
  return ::strsep(text, ends);
}

// --- formatted

PERDURA_WRAPPER int __perdura_vsprintf(char* to, const char* format, va_list values) {
  if (in_compiled_window(to)) perdura_report(to, formatted_bytes(format, values));
  return std::vsprintf(to, format, values);
}
PERDURA_WRAPPER int __perdura_sprintf(char* to, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int length = __perdura_vsprintf(to, format, values);
  va_end(values);
  return length;
}
PERDURA_WRAPPER int __perdura_vsnprintf(char* to, size_t bytes, const char* format,
                                        va_list values) {
  if (in_compiled_window(to)) perdura_report(to, std::min(bytes, formatted_bytes(format, values)));
  return std::vsnprintf(to, bytes, format, values);
}
PERDURA_WRAPPER int __perdura_snprintf(char* to, size_t bytes, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int length = __perdura_vsnprintf(to, bytes, format, values);
  va_end(values);
  return length;
}
PERDURA_WRAPPER size_t __perdura_strftime(char* to, size_t bytes, const char* format,
                                          const std::tm* time) {
  perdura_report(to, bytes);
  return std::strftime(to, bytes, format, time);
}

// --- files and sockets

PERDURA_WRAPPER ssize_t __perdura_read(int fd, void* to, size_t bytes) {
  perdura_report(to, bytes);
  return ::read(fd, to, bytes);
}
PERDURA_WRAPPER ssize_t __perdura_pread(int fd, void* to, size_t bytes, off_t at) {
  perdura_report(to, bytes);
  return ::pread(fd, to, bytes, at);
}
PERDURA_WRAPPER ssize_t __perdura_readv(int fd, const iovec* pieces, int count) {
  for (int i = 0; i < count; ++i) perdura_report(pieces[i].iov_base, pieces[i].iov_len);
  return ::readv(fd, pieces, count);
}
PERDURA_WRAPPER ssize_t __perdura_recv(int fd, void* to, size_t bytes, int flags) {
  perdura_report(to, bytes);
  return ::recv(fd, to, bytes, flags);
}
PERDURA_WRAPPER ssize_t __perdura_recvfrom(int fd, void* to, size_t bytes, int flags,
                                           sockaddr* from, socklen_t* from_bytes) {
  perdura_report(to, bytes);
  if (from != nullptr && from_bytes != nullptr) {
    perdura_report(from, *from_bytes);
    report(from_bytes);
  }
  return ::recvfrom(fd, to, bytes, flags, from, from_bytes);
}
PERDURA_WRAPPER size_t __perdura_fread(void* to, size_t bytes, size_t count, std::FILE* file) {
  perdura_report(to, bytes * count);
  return std::fread(to, bytes, count, file);
}
PERDURA_WRAPPER char* __perdura_fgets(char* to, int bytes, std::FILE* file) {
  if (bytes > 0) perdura_report(to, static_cast<size_t>(bytes));
  return std::fgets(to, bytes, file);
}
PERDURA_WRAPPER ssize_t __perdura_getdelim(char** line, size_t* bytes, int end, std::FILE* file) {
  if (*line != nullptr) perdura_report(*line, *bytes);
  report(line);
  report(bytes);
  return ::getdelim(line, bytes, end, file);
}
PERDURA_WRAPPER ssize_t __perdura_getline(char** line, size_t* bytes, std::FILE* file) {
  return __perdura_getdelim(line, bytes, '\n', file);
}
PERDURA_WRAPPER int __perdura_stat(const char* path, struct stat* found) {
  report(found);
  return ::stat(path, found);
}
PERDURA_WRAPPER int __perdura_lstat(const char* path, struct stat* found) {
  report(found);
  return ::lstat(path, found);
}
PERDURA_WRAPPER int __perdura_fstat(int fd, struct stat* found) {
  report(found);
  return ::fstat(fd, found);
}
PERDURA_WRAPPER char* __perdura_getcwd(char* to, size_t bytes) {
  if (to != nullptr) perdura_report(to, bytes);
  return ::getcwd(to, bytes);
}
PERDURA_WRAPPER char* __perdura_realpath(const char* path, char* to) {
  if (!in_compiled_window(to)) return ::realpath(path, to);
  char* const found = ::realpath(path, nullptr);
  if (found == nullptr) return nullptr;
  __perdura_strcpy(to, found);
  std::free(found);
  return to;
}

// --- time, numbers, chance

PERDURA_WRAPPER int __perdura_gettimeofday(timeval* now, void* zone) {
  report(now);
  if (zone != nullptr) report(static_cast<struct timezone*>(zone));
  return ::gettimeofday(now, static_cast<struct timezone*>(zone));
}
PERDURA_WRAPPER int __perdura_clock_gettime(clockid_t clock, timespec* now) {
  report(now);
  return ::clock_gettime(clock, now);
}
PERDURA_WRAPPER std::tm* __perdura_localtime_r(const std::time_t* time, std::tm* found) {
  report(found);
  return ::localtime_r(time, found);
}
PERDURA_WRAPPER std::tm* __perdura_gmtime_r(const std::time_t* time, std::tm* found) {
  report(found);
  return ::gmtime_r(time, found);
}
PERDURA_WRAPPER double __perdura_frexp(double value, int* exponent) {
  report(exponent);
  return std::frexp(value, exponent);
}
PERDURA_WRAPPER double __perdura_modf(double value, double* whole) {
  report(whole);
  return std::modf(value, whole);
}
PERDURA_WRAPPER long __perdura_strtol(const char* text, char** end, int base) {
  report(end);
  return std::strtol(text, end, base);
}
PERDURA_WRAPPER unsigned long __perdura_strtoul(const char* text, char** end, int base) {
  report(end);
  return std::strtoul(text, end, base);
}
PERDURA_WRAPPER long long __perdura_strtoll(const char* text, char** end, int base) {
  report(end);
  return std::strtoll(text, end, base);
}
PERDURA_WRAPPER unsigned long long __perdura_strtoull(const char* text, char** end, int base) {
  report(end);
  return std::strtoull(text, end, base);
}
PERDURA_WRAPPER double __perdura_strtod(const char* text, char** end) {
  report(end);
  return std::strtod(text, end);
}
PERDURA_WRAPPER int __perdura_rand_r(unsigned* seed) {
  report(seed);
  return ::rand_r(seed);
}
PERDURA_WRAPPER ssize_t __perdura_getrandom(void* to, size_t bytes, unsigned flags) {
  perdura_report(to, bytes);
  return ::getrandom(to, bytes, flags);
}
PERDURA_WRAPPER int __perdura_getentropy(void* to, size_t bytes) {
  perdura_report(to, bytes);
  return ::getentropy(to, bytes);
}

// --- what headers make of the same, with _FORTIFY_SOURCE or large files

PERDURA_WRAPPER void* __perdura___memcpy_chk(void* to, const void* from, size_t bytes,
                                             size_t room) {
  perdura_report(to, bytes);
  return __memcpy_chk(to, from, bytes, room);
}
PERDURA_WRAPPER void* __perdura___memmove_chk(void* to, const void* from, size_t bytes,
                                              size_t room) {
  perdura_report(to, bytes);
  return __memmove_chk(to, from, bytes, room);
}
PERDURA_WRAPPER void* __perdura___mempcpy_chk(void* to, const void* from, size_t bytes,
                                              size_t room) {
  perdura_report(to, bytes);
  return __mempcpy_chk(to, from, bytes, room);
}
PERDURA_WRAPPER void* __perdura___memset_chk(void* to, int value, size_t bytes, size_t room) {
  perdura_report(to, bytes);
  return __memset_chk(to, value, bytes, room);
}
PERDURA_WRAPPER wchar_t* __perdura___wmemcpy_chk(wchar_t* to, const wchar_t* from, size_t count,
                                                 size_t room) {
  perdura_report(to, count * sizeof *to);
  return __wmemcpy_chk(to, from, count, room);
}
PERDURA_WRAPPER wchar_t* __perdura___wmemmove_chk(wchar_t* to, const wchar_t* from, size_t count,
                                                  size_t room) {
  perdura_report(to, count * sizeof *to);
  return __wmemmove_chk(to, from, count, room);
}
PERDURA_WRAPPER wchar_t* __perdura___wmemset_chk(wchar_t* to, wchar_t value, size_t count,
                                                 size_t room) {
  perdura_report(to, count * sizeof *to);
  return __wmemset_chk(to, value, count, room);
}
PERDURA_WRAPPER wchar_t* __perdura___wcscpy_chk(wchar_t* to, const wchar_t* from, size_t room) {
  perdura_report(to, bytes_of(from));
  return __wcscpy_chk(to, from, room);
}
PERDURA_WRAPPER char* __perdura___strcpy_chk(char* to, const char* from, size_t room) {
  perdura_report(to, bytes_of(from));
  return __strcpy_chk(to, from, room);
}
PERDURA_WRAPPER char* __perdura___strncpy_chk(char* to, const char* from, size_t bytes,
                                              size_t room) {
  perdura_report(to, bytes);
  return __strncpy_chk(to, from, bytes, room);
}
PERDURA_WRAPPER char* __perdura___stpcpy_chk(char* to, const char* from, size_t room) {
  perdura_report(to, bytes_of(from));
  return __stpcpy_chk(to, from, room);
}
PERDURA_WRAPPER char* __perdura___stpncpy_chk(char* to, const char* from, size_t bytes,
                                              size_t room) {
  perdura_report(to, bytes);
  return __stpncpy_chk(to, from, bytes, room);
}
PERDURA_WRAPPER char* __perdura___strcat_chk(char* to, const char* from, size_t room) {
  perdura_report(to + std::strlen(to), bytes_of(from));
  return __strcat_chk(to, from, room);
}
PERDURA_WRAPPER char* __perdura___strncat_chk(char* to, const char* from, size_t bytes,
                                              size_t room) {
  perdura_report(to + std::strlen(to), ::strnlen(from, bytes) + 1);
  return __strncat_chk(to, from, bytes, room);
}
PERDURA_WRAPPER int __perdura___vsprintf_chk(char* to, int flag, size_t room, const char* format,
                                             va_list values) {
  if (in_compiled_window(to)) perdura_report(to, formatted_bytes(format, values));
  return __vsprintf_chk(to, flag, room, format, values);
}
PERDURA_WRAPPER int __perdura___sprintf_chk(char* to, int flag, size_t room, const char* format,
                                            ...) {
  va_list values;
  va_start(values, format);
  const int length = __perdura___vsprintf_chk(to, flag, room, format, values);
  va_end(values);
  return length;
}
PERDURA_WRAPPER int __perdura___vsnprintf_chk(char* to, size_t bytes, int flag, size_t room,
                                              const char* format, va_list values) {
  if (in_compiled_window(to)) perdura_report(to, std::min(bytes, formatted_bytes(format, values)));
  return __vsnprintf_chk(to, bytes, flag, room, format, values);
}
PERDURA_WRAPPER int __perdura___snprintf_chk(char* to, size_t bytes, int flag, size_t room,
                                             const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int length = __perdura___vsnprintf_chk(to, bytes, flag, room, format, values);
  va_end(values);
  return length;
}
PERDURA_WRAPPER ssize_t __perdura___read_chk(int fd, void* to, size_t bytes, size_t room) {
  perdura_report(to, bytes);
  return __read_chk(fd, to, bytes, room);
}
PERDURA_WRAPPER ssize_t __perdura___pread_chk(int fd, void* to, size_t bytes, off_t at,
                                              size_t room) {
  perdura_report(to, bytes);
  return __pread_chk(fd, to, bytes, at, room);
}
PERDURA_WRAPPER ssize_t __perdura___recv_chk(int fd, void* to, size_t bytes, size_t room,
                                             int flags) {
  perdura_report(to, bytes);
  return __recv_chk(fd, to, bytes, room, flags);
}
PERDURA_WRAPPER char* __perdura___fgets_chk(char* to, size_t room, int bytes, std::FILE* file) {
  if (bytes > 0) perdura_report(to, static_cast<size_t>(bytes));
  return __fgets_chk(to, room, bytes, file);
}
PERDURA_WRAPPER size_t __perdura___fread_chk(void* to, size_t room, size_t bytes, size_t count,
                                             std::FILE* file) {
  perdura_report(to, bytes * count);
  return __fread_chk(to, room, bytes, count, file);
}
PERDURA_WRAPPER ssize_t __perdura___getdelim(char** line, size_t* bytes, int end, std::FILE* file) {
  return __perdura_getdelim(line, bytes, end, file);
}
PERDURA_WRAPPER ssize_t __perdura_pread64(int fd, void* to, size_t bytes, off64_t at) {
  perdura_report(to, bytes);
  return ::pread64(fd, to, bytes, at);
}
PERDURA_WRAPPER int __perdura_stat64(const char* path, struct stat64* found) {
  report(found);
  return ::stat64(path, found);
}
PERDURA_WRAPPER int __perdura_lstat64(const char* path, struct stat64* found) {
  report(found);
  return ::lstat64(path, found);
}
PERDURA_WRAPPER int __perdura_fstat64(int fd, struct stat64* found) {
  report(found);
  return ::fstat64(fd, found);
}

}  // extern "C"
