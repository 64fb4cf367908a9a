/* Linked to a program that is compiled with --perdura-audit: counts, ten times a second, the words
 * of its objects that lead to one, by what type records say of them, and writes the sums to the
 * file that CENSUS names when the program ends. The objects that one of its functions makes, whose
 * name begins with CENSUS_APART, are counted apart. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <perdura/typed.h>

static perdura_audit_census sums[2]; /* the second: apart */
static unsigned long taken;
static int ends;
static pthread_t thread;

static void add(const char* made, const char* type, const perdura_audit_census* one, void* apart) {
  const char* const function = strstr(made, " in ");
  perdura_audit_census* const sum =
      &sums[function != NULL && apart != NULL && strncmp(function + 4, apart, strlen(apart)) == 0];
  (void)type;
  sum->named += one->named;
  sum->maybe += one->maybe;
  sum->missed += one->missed;
  sum->objects += one->objects;
}

static void* run(void* unused) {
  const struct timespec pause = {0, 100000000};
  while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
    nanosleep(&pause, NULL);
    if (perdura_audit_take_census(add, getenv("CENSUS_APART")) == 0) ++taken;
  }
  return unused;
}

static void end(void) {
  __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  FILE* const file = fopen(getenv("CENSUS"), "w");
  if (file == NULL) return;
  fprintf(file, "{\"censuses\": %lu, \"untyped\": %lu, \"findings\": %lu", taken,
          perdura_untyped_allocations(), perdura_audit_findings());
  for (int i = 0; i < 2; ++i)
    fprintf(file, ", \"%s\": {\"named\": %lu, \"maybe\": %lu, \"missed\": %lu, \"objects\": %lu}",
            i == 0 ? "others" : "apart", sums[i].named, sums[i].maybe, sums[i].missed,
            sums[i].objects);
  fprintf(file, "}\n");
  fclose(file);
}

__attribute__((constructor)) static void begin(void) {
  if (getenv("CENSUS") == NULL) return;
  pthread_create(&thread, NULL, run, NULL);
  atexit(end);
}
