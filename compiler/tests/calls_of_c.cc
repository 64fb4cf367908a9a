// Compiled with -fno-builtin: each is a call.
#include "calls_of_c.hpp"

#include <fcntl.h>

#include <algorithm>

namespace {

int compare(const void* one, const void* other) {
  return *static_cast<const int*>(one) < *static_cast<const int*>(other) ? -1 : 1;
}

constexpr std::size_t kRoom = CallsOfC::kPlaceBytes / 2;

}  // namespace

#define CALL(name, ...) {#name, [](CallsOfC& c) { __VA_ARGS__; }}

const CallsOfC::Call CallsOfC::kCalls[] = {
    CALL(memcpy, memcpy(c.at(), c.text_, c.some(600))),
    CALL(memmove, memmove(c.at(), c.at(), c.some(600))),
    CALL(memset, memset(c.at(), 7, c.some(2000))),
    CALL(mempcpy, mempcpy(c.at(), c.text_, c.some(600))),
    CALL(memccpy, memccpy(c.at(), "abc;def", ';', 7)),
    CALL(bzero, bzero(c.at(), c.some(500))),
    CALL(bcopy, bcopy(c.text_, c.at(), c.some(600))),
    CALL(strcpy, strcpy(c.at(), c.text())),
    CALL(strncpy, strncpy(c.at(), c.text(), c.some(300))),
    CALL(stpcpy, stpcpy(c.at(), c.text())),
    CALL(stpncpy, stpncpy(c.at(), c.text(), c.some(300))),
    CALL(strcat, char* to = c.at(); *to = 0; strcat(to, c.text()); strcat(to, c.text())),
    CALL(strncat, char* to = c.at(); *to = 0; strncat(to, c.text(), c.some(200))),
    CALL(sprintf, sprintf(c.at(), "%s %zu", c.text(), c.some(999))),
    CALL(snprintf, snprintf(c.at(), c.some(300), "%s %zu", c.text(), c.some(999))),
    CALL(vsprintf, c.formatted(c.at(), "%s", c.text())),
    CALL(vsnprintf, c.formatted_at_most(c.at(), c.some(300), "%s", c.text())),
    CALL(strftime, std::tm time{}; time.tm_mday = 1; strftime(c.at(), 200, "%Y-%m-%d %B", &time)),
    CALL(read, if (read(c.zeros_, c.at(), c.some(900)) < 0) std::abort()),
    CALL(pread, if (pread(fileno(c.file_), c.at(), c.some(500), 3) < 0) std::abort()),
    CALL(readv, iovec parts[2] = {{c.at(), c.some(200)}, {c.at(), c.some(200)}};
         if (readv(c.zeros_, parts, 2) < 0) std::abort()),
    CALL(recv, recv(c.filled_socket(), c.at(), c.some(300), 0)),
    CALL(recvfrom, sockaddr_storage from; socklen_t* bytes = c.as<socklen_t>();
         *bytes = sizeof from; recvfrom(c.filled_socket(), c.at() + 2048, c.some(300), 0,
                                        reinterpret_cast<sockaddr*>(&from), bytes)),
    CALL(fread, if (fread(c.at(), 1 + c.some(3), c.some(90), c.rewound()) > 90) std::abort()),
    CALL(fgets, fgets(c.at(), 1 + static_cast<int>(c.some(300)), c.rewound())),
    CALL(getline, char** line = c.as<char*>();
         auto* bytes = reinterpret_cast<std::size_t*>(line + 9); *line = nullptr;
         if (getline(line, bytes, c.rewound()) < 0) std::abort(); free(*line)),
    CALL(getdelim, char** line = c.as<char*>();
         auto* bytes = reinterpret_cast<std::size_t*>(line + 9); *line = nullptr;
         if (getdelim(line, bytes, 'w', c.rewound()) < 0) std::abort(); free(*line)),
    CALL(__getdelim, char** line = c.as<char*>();
         auto* bytes = reinterpret_cast<std::size_t*>(line + 9); *line = nullptr;
         if (__getdelim(line, bytes, 'w', c.rewound()) < 0) std::abort(); free(*line)),
    CALL(qsort, qsort(c.at(), c.some(300), sizeof(int), compare)),
    CALL(strtok, char* at = c.at(); strcpy(at, "one two three"); strtok(at, " ");
         strtok(nullptr, " ")),
    CALL(strtok_r, char* at = c.at(); strcpy(at, "one two three");
         auto** rest = reinterpret_cast<char**>(at + 128); strtok_r(at, " ", rest);
         strtok_r(nullptr, " ", rest)),
    CALL(strsep, char* at = c.at(); strcpy(at, "one two three");
         auto** rest = reinterpret_cast<char**>(at + 128); *rest = at; strsep(rest, " ");
         strsep(rest, " ")),
    CALL(stat, stat("/", c.as<struct stat>())),
    CALL(fstat, fstat(c.zeros_, c.as<struct stat>())),
    CALL(lstat, lstat("/", c.as<struct stat>())),
    CALL(stat64, stat64("/", c.as<struct stat64>())),
    CALL(fstat64, fstat64(c.zeros_, c.as<struct stat64>())),
    CALL(lstat64, lstat64("/", c.as<struct stat64>())),
    CALL(gettimeofday, gettimeofday(c.as<timeval>(), nullptr)),
    CALL(clock_gettime, clock_gettime(CLOCK_REALTIME, c.as<timespec>())),
    CALL(localtime_r, const std::time_t now = std::time(nullptr);
         localtime_r(&now, c.as<std::tm>())),
    CALL(gmtime_r, const std::time_t now = std::time(nullptr); gmtime_r(&now, c.as<std::tm>())),
    CALL(frexp, (void)frexp(static_cast<double>(c.some(999)), c.as<int>())),
    CALL(modf, (void)modf(static_cast<double>(c.some(999)) / 7, c.as<double>())),
    CALL(strtol, (void)strtol("12x", c.as<char*>(), 10)),
    CALL(strtoul, (void)strtoul("12x", c.as<char*>(), 10)),
    CALL(strtoll, (void)strtoll("12x", c.as<char*>(), 10)),
    CALL(strtoull, (void)strtoull("12x", c.as<char*>(), 10)),
    CALL(strtod, (void)strtod("1.5x", c.as<char*>())),
    CALL(wmemcpy, wmemcpy(c.as<wchar_t>(), c.wide_, c.some(200))),
    CALL(wmemmove, wmemmove(c.as<wchar_t>(), c.as<wchar_t>(), c.some(200))),
    CALL(wmemset, wmemset(c.as<wchar_t>(), L'w', c.some(200))),
    CALL(wcscpy, wcscpy(c.as<wchar_t>(), c.wide())),
    CALL(getrandom, if (getrandom(c.at(), c.some(200), 0) < 0) std::abort()),
    CALL(getentropy, if (getentropy(c.at(), c.some(200)) < 0) std::abort()),
    CALL(rand_r, (void)rand_r(c.as<unsigned>())),
    CALL(getcwd, if (getcwd(c.at(), 4096) == nullptr) std::abort()),
    CALL(realpath, if (realpath("/tmp", c.at()) == nullptr) std::abort()),
    CALL(swab, swab(c.text_, c.at(), static_cast<ssize_t>(c.some(300)))),
    CALL(pread64, if (pread64(fileno(c.file_), c.at(), c.some(500), 3) < 0) std::abort()),
    CALL(__memcpy_chk, __memcpy_chk(c.at(), c.text_, c.some(600), kRoom)),
    CALL(__memmove_chk, __memmove_chk(c.at(), c.at(), c.some(600), kRoom)),
    CALL(__mempcpy_chk, __mempcpy_chk(c.at(), c.text_, c.some(600), kRoom)),
    CALL(__memset_chk, __memset_chk(c.at(), 9, c.some(2000), kRoom)),
    CALL(__wmemcpy_chk, __wmemcpy_chk(c.as<wchar_t>(), c.wide_, c.some(200), kRoom)),
    CALL(__wmemmove_chk, __wmemmove_chk(c.as<wchar_t>(), c.as<wchar_t>(), c.some(200), kRoom)),
    CALL(__wmemset_chk, __wmemset_chk(c.as<wchar_t>(), L'w', c.some(200), kRoom)),
    CALL(__wcscpy_chk, __wcscpy_chk(c.as<wchar_t>(), c.wide(), kRoom)),
    CALL(__strcpy_chk, __strcpy_chk(c.at(), c.text(), kRoom)),
    CALL(__strncpy_chk, __strncpy_chk(c.at(), c.text(), c.some(300), kRoom)),
    CALL(__stpcpy_chk, __stpcpy_chk(c.at(), c.text(), kRoom)),
    CALL(__stpncpy_chk, __stpncpy_chk(c.at(), c.text(), c.some(300), kRoom)),
    CALL(__strcat_chk, char* to = c.at(); *to = 0; __strcat_chk(to, c.text(), kRoom)),
    CALL(__strncat_chk, char* to = c.at(); *to = 0;
         __strncat_chk(to, c.text(), c.some(200), kRoom)),
    CALL(__sprintf_chk, __sprintf_chk(c.at(), 1, kRoom, "%s %d", c.text(), 7)),
    CALL(__snprintf_chk, __snprintf_chk(c.at(), c.some(300), 1, kRoom, "%s %d", c.text(), 7)),
    CALL(__vsprintf_chk, c.formatted_checked(c.at(), "%s", c.text())),
    CALL(__vsnprintf_chk, c.formatted_at_most_checked(c.at(), c.some(300), "%s", c.text())),
    CALL(__read_chk, if (__read_chk(c.zeros_, c.at(), c.some(900), kRoom) < 0) std::abort()),
    CALL(__pread_chk,
         if (__pread_chk(fileno(c.file_), c.at(), c.some(500), 3, kRoom) < 0) std::abort()),
    CALL(__recv_chk, __recv_chk(c.filled_socket(), c.at(), c.some(300), kRoom, 0)),
    CALL(__fgets_chk, __fgets_chk(c.at(), kRoom, 1 + static_cast<int>(c.some(300)), c.rewound())),
    CALL(__fread_chk,
         if (__fread_chk(c.at(), kRoom, 1, c.some(300), c.rewound()) > 300) std::abort()),
};
const std::size_t CallsOfC::kCallsCount = std::size(kCalls);

// What begins so is C++'s, which containers call.
static void expect_called(std::string_view name, const std::string_view* first,
                          const std::string_view* last) {
  if (name.starts_with("_Z") || std::find(first, last, name) != last) return;
  std::fprintf(stderr, "%.*s has a wrapper, and is not called\n", static_cast<int>(name.size()),
               name.data());
  std::exit(1);
}

CallsOfC::CallsOfC() : zeros_(::open("/dev/zero", O_RDONLY | O_CLOEXEC)) {
  std::string_view names[std::size(kCalls)];
  std::transform(std::begin(kCalls), std::end(kCalls), names,
                 [](const Call& each) { return each.name; });
#define PERDURA_LIBRARY_CALL(name, type) expect_called(#name, names, std::end(names));
#include "../pass/library_calls.inc"
#undef PERDURA_LIBRARY_CALL
  std::fill(text_, text_ + sizeof text_ - 1, 't');
  text_[sizeof text_ - 1] = 0;
  std::fill(wide_, wide_ + 200, L'w');
  std::fill(wide_ + 200, wide_ + 301, L'\0');
  if (file_ == nullptr || zeros_ < 0 ||
      ::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets_) != 0)
    std::abort();
  for (int i = 0; i < 50; ++i) std::fputs("a line of words\nwith another one behind it\n", file_);
  std::fflush(file_);
}

void CallsOfC::call(char* place, std::mt19937& draw) {
  place_ = place;
  draw_ = &draw;
  kCalls[draw() % kCallsCount].make(*this);
}

#define FORMATTED(call)     \
  va_list values;           \
  va_start(values, format); \
  const int length = call;  \
  va_end(values);           \
  return length

int CallsOfC::formatted(char* to, const char* format, ...) {
  FORMATTED(vsprintf(to, format, values));
}
int CallsOfC::formatted_at_most(char* to, std::size_t bytes, const char* format, ...) {
  FORMATTED(vsnprintf(to, bytes, format, values));
}
int CallsOfC::formatted_checked(char* to, const char* format, ...) {
  FORMATTED(__vsprintf_chk(to, 1, kRoom, format, values));
}
int CallsOfC::formatted_at_most_checked(char* to, std::size_t bytes, const char* format, ...) {
  FORMATTED(__vsnprintf_chk(to, bytes, 1, kRoom, format, values));
}
