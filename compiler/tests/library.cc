// Functions of the C library store into a store: all that they do is reported.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <cwchar>

#include "support.hpp"

namespace {

constexpr std::size_t kPlaces = 64;
constexpr std::size_t kPlaceBytes = 1024;

char* memory;
std::size_t places;

/// Memory for whatever.
struct Place {
  void* at;
  template <class T>
  operator T*() const {
    return static_cast<T*>(at);
  }
};

/// One of its own, lines away from the one before.
Place place() { return {memory + kPlaceBytes * (places++ % kPlaces)}; }

int compare(const void* one, const void* other) {
  return *static_cast<const int*>(one) - *static_cast<const int*>(other);
}

void use_memory() {
  char text[200];
  memset(text, 'x', sizeof text);
  memcpy(place(), text, static_cast<std::size_t>(rand() % 200));
  memmove(place(), text, 150);
  memset(place(), 7, static_cast<std::size_t>(rand() % 200));
  EXPECT(mempcpy(place(), text, 10) != nullptr);
  EXPECT(memccpy(place(), "abc;def", ';', 7) != nullptr);
  bzero(place(), 77);
  bcopy(text, place(), 99);
  swab(text, place(), 64);
  int* const numbers = place();
  for (int i = 0; i < 200; ++i) numbers[i] = rand();
  qsort(numbers, 200, sizeof *numbers, compare);
  for (int i = 1; i < 200; ++i) EXPECT(numbers[i - 1] <= numbers[i]);
  wchar_t* const wide = place();
  wmemset(wide, L'w', 100);
  wmemcpy(place(), wide, 100);
  wmemmove(place(), wide, 100);
  wcscpy(place(), L"wide");
}

void use_strings() {
  char* const text = place();
  strcpy(text, "first");
  strcat(text, " second");
  strncat(text, " third and more", 6);
  EXPECT(strcmp(text, "first second third") == 0);
  strncpy(place(), "padded", 100);
  stpcpy(place(), "stpcpy");
  stpncpy(place(), "stpncpy", 70);
  char* rest = nullptr;
  EXPECT(strcmp(strtok(text, " "), "first") == 0);
  EXPECT(strcmp(strtok(nullptr, " "), "second") == 0);
  char* const other = place();
  strcpy(other, "a,b,c");
  EXPECT(strcmp(strtok_r(other, ",", &rest), "a") == 0);
  char** const at = place();
  *at = rest;
  EXPECT(strcmp(strsep(at, ","), "b") == 0);
  EXPECT(sprintf(place(), "%d and %s", rand(), "text") > 0);
  const std::size_t room = 100;
  EXPECT(snprintf(place(), static_cast<std::size_t>(rand() % 2) + room, "%120d", 5) == 120);
  time_t now = time(nullptr);
  struct tm* const parts = place();
  EXPECT(gmtime_r(&now, parts) == parts && localtime_r(&now, place()) != nullptr);
  EXPECT(strftime(place(), 100, "%Y-%m-%d", parts) == 10);
  char** const end = place();
  EXPECT(strtol("12x", end, 10) == 12 && **end == 'x');
  EXPECT(strtoul("13y", place(), 10) == 13 && strtoll("14", place(), 10) == 14);
  EXPECT(strtoull("15", place(), 10) == 15 && strtod("1.5", place()) == 1.5);
  EXPECT(frexp(8, place()) == 0.5 && modf(2.5, place()) == 0.5);
}

void use_files() {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  char text[600];
  memset(text, 'y', sizeof text);
  EXPECT(write(ends[1], text, 300) == 300);
  EXPECT(read(ends[0], place(), 100) == 100);
  struct iovec pieces[2] = {{place(), 100}, {place(), 100}};
  EXPECT(readv(ends[0], pieces, 2) == 200);
  close(ends[0]);
  close(ends[1]);
  EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
  EXPECT(send(ends[1], text, 99, 0) == 99 && recv(ends[0], place(), 100, 0) == 99);
  EXPECT(send(ends[1], text, 99, 0) == 99);
  EXPECT(recvfrom(ends[0], place(), 100, 0, nullptr, nullptr) == 99);
  close(ends[0]);
  close(ends[1]);
  FILE* const file = tmpfile();
  EXPECT(file != nullptr && fputs("line one\nline two\n", file) >= 0);
  rewind(file);
  EXPECT(fgets(place(), 100, file) != nullptr);
  EXPECT(fread(place(), 1, 5, file) == 5);
  EXPECT(pread(fileno(file), place(), 5, 2) == 5);
  EXPECT(fstat(fileno(file), place()) == 0 && stat("/", place()) == 0 && lstat("/", place()) == 0);
  char** const line = place();
  size_t* const bytes = place();
  *line = nullptr;
  rewind(file);
  EXPECT(getline(line, bytes, file) == 9);
  EXPECT(getdelim(line, bytes, 'w', file) == 7);
  free(*line);
  fclose(file);
  EXPECT(getcwd(place(), 1000) != nullptr);
  EXPECT(gettimeofday(place(), nullptr) == 0 && clock_gettime(CLOCK_REALTIME, place()) == 0);
  unsigned* const seed = place();
  *seed = 1;
  EXPECT(rand_r(seed) >= 0);
}

}  // namespace

int main() {
  const OwnStore own;
  perdura::Store store = own.open_verified();
  memory = static_cast<char*>(store.allocate(kPlaces * kPlaceBytes, 4096));
  for (int round = 0; round < 20; ++round) {
    use_memory();
    store.checkpoint();
    use_strings();
    use_files();
    store.checkpoint();
  }
  expect_reported(store);
  store.close();
  return 0;
}
