// Inserts into Tokyo Cabinet's in-memory tree, keys in random order: a splay tree with one block a
// record, in which every insertion moves the nodes on its path.
//
// tracker-tokyo RECORDS VALUE_BYTES CHECKPOINTS
#include <string.h>

#include <tcutil.h>

#include "program.h"

enum { kKeyBytes = 8, kValueBytesMax = 4096, kCheckEvery = 16 };

static uint64_t key_of(uint64_t record) { return scattered(record + 1); }

static uint64_t sum_of(const char* value, int bytes) {
  uint64_t sum = (uint64_t)bytes, word = 0;
  for (int at = 0; at + 8 <= bytes; at += 8) {
    memcpy(&word, value + at, sizeof(word));
    sum = mixed(sum, word);
  }
  return sum;
}

int main(int argc, char** argv) {
  if (argc != 4) fail("tracker-tokyo RECORDS VALUE_BYTES CHECKPOINTS");
  const uint64_t records = number(argv[1]);
  const uint64_t value_bytes = number(argv[2]);
  if (records == 0 || value_bytes > kValueBytesMax) fail("a value has at most 4096 bytes");
  TCNDB* table = tcndbnew();
  char value[kValueBytesMax];
  struct run run = begin_run(records, argv[3]);
  uint64_t record = 0;
  do {
    const uint64_t key = key_of(record);
    memset(value, (int)(key & 0xff), value_bytes);
    memcpy(value, &record, value_bytes < sizeof(record) ? value_bytes : sizeof(record));
    tcndbput(table, &key, kKeyBytes, value, (int)value_bytes);
    ++record;
  } while (step_done(&run));
  const struct times times = end_run(&run);

  uint64_t sum = tcndbrnum(table);
  for (uint64_t other = 0; other < record; other += kCheckEvery) {
    const uint64_t key = key_of(other);
    int bytes = 0;
    char* found = tcndbget(table, &key, kKeyBytes, &bytes);
    if (found == NULL) fail("a record is missing");
    sum = mixed(sum, sum_of(found, bytes));
    free(found);
  }
  print_result(times, sum);
  tcndbdel(table);
  return 0;
}
