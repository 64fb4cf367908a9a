/* A disk with a volatile write cache, as a plugin of nbdkit.
 *
 * A write goes to the cache. FLUSH makes everything written before it durable, that is, writes it
 * to the image. When the power is cut, any version of a sector written since it was last durable
 * may get to the image, or none of them. Each sector is drawn for itself, so a request can be torn
 * between any two.
 *
 * Some writes are held back until the next flush is over, or for a moment when none comes: a flush
 * covers only the writes that were complete when it was sent.
 *
 * The power is cut when the host says so, or at a write or flush that it chooses, which then never
 * returns: there is something in the cache. Nothing is answered afterwards, until the host kills
 * nbdkit. (It must not kill the disk's user before: nbdkit may abort when it has several answers
 * for somebody who is gone.)
 *
 *   image=FILE   what is durable
 *   seed=N       what survives the cut
 *   control=FD   a socket of the host. It sends a uint32_t: cut the power after so many more
 *                requests; UINT32_MAX: at once. It is sent, after the cut, a line: what was asked
 *                of the disk, and what survived.
 *   whole=N      the first N sectors are not torn, but kept or lost by eight, as a disk with
 *                sectors of 4 KiB does. File systems need it where they do not recover from half a
 *                block: ext4 for its superblock, XFS for all of its metadata.
 *   lie=1        FLUSH is acknowledged and ignored. The cut keeps the older requests, at most half
 *                of them, in order: a sound disk as it was some time before.
 *
 *   log          every sector written and not durable yet, oldest first
 *   newest[s]    1 + place in the log of the newest version of sector s; 0: the image has it
 *   older        the same for the version before
 */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#define SECTOR_BYTES 512u
#define HOLD_NS 3000000

struct version {
  uint32_t sector;
  uint32_t older;
  uint32_t request;
  unsigned char bytes[SECTOR_BYTES];
};

static char* image;
static int control = -1;
static uint64_t random_state;
static unsigned whole_sectors;
static int lies;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all that follows */
static pthread_cond_t flushed = PTHREAD_COND_INITIALIZER;
static int fd = -1;
static uint32_t sectors;
static uint32_t* newest;
static struct version* log_versions;
static uint32_t log_length;
static uint32_t log_capacity;

static int64_t requests_left = -1; /* before the power is cut; negative: not chosen */
static uint32_t requests;
static uint64_t flushes;
static uint64_t overtaken;

static uint64_t mix(uint64_t value) { /* with draw: splitmix64 */
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

static uint64_t draw(void) { return mix(random_state += 0x9e3779b97f4a7c15); }

static int set_parameter(const char* key, const char* value) {
  if (strcmp(key, "image") == 0) {
    image = nbdkit_absolute_path(value);
    return image != NULL ? 0 : -1;
  }
  if (strcmp(key, "control") == 0) return nbdkit_parse_int("control", value, &control);
  if (strcmp(key, "seed") == 0) return nbdkit_parse_uint64_t("seed", value, &random_state);
  if (strcmp(key, "whole") == 0) return nbdkit_parse_unsigned("whole", value, &whole_sectors);
  if (strcmp(key, "lie") == 0) {
    lies = nbdkit_parse_bool(value);
    return lies < 0 ? -1 : 0;
  }
  nbdkit_error("unknown parameter '%s'", key);
  return -1;
}

static int open_image(void) {
  struct stat info;
  if (image == NULL || control < 0) {
    nbdkit_error("image=FILE or control=FD is missing");
    return -1;
  }
  fd = open(image, O_RDWR | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &info) != 0) {
    nbdkit_error("cannot open '%s': %m", image);
    return -1;
  }
  if (info.st_size % SECTOR_BYTES != 0 || info.st_size / SECTOR_BYTES >= UINT32_MAX) {
    nbdkit_error("'%s' is not a number of sectors below 2 TiB", image);
    return -1;
  }
  sectors = (uint32_t)(info.st_size / SECTOR_BYTES);
  newest = calloc(sectors, sizeof *newest);
  if (newest == NULL) {
    nbdkit_error("calloc: %m");
    return -1;
  }
  return 0;
}

static void* open_connection(int readonly) {
  (void)readonly;
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t size_bytes(void* handle) {
  (void)handle;
  return (int64_t)sectors * SECTOR_BYTES;
}

static int block_size(void* handle, uint32_t* minimum, uint32_t* preferred, uint32_t* maximum) {
  (void)handle;
  *minimum = SECTOR_BYTES;
  *preferred = 4096;
  *maximum = 32u << 20;
  return 0;
}

static int yes(void* handle) {
  (void)handle;
  return 1;
}

static int write_image(uint32_t sector, const void* bytes, size_t length) {
  const char* from = bytes;
  off_t to = (off_t)sector * SECTOR_BYTES;
  while (length != 0) {
    const ssize_t done = pwrite(fd, from, length, to);
    if (done <= 0) {
      nbdkit_error("cannot write '%s': %m", image);
      return -1;
    }
    from += done;
    to += done;
    length -= (size_t)done;
  }
  return 0;
}

static int read_locked(char* into, uint32_t count, uint64_t offset) {
  for (uint32_t done = 0; done < count;) {
    const ssize_t got = pread(fd, into + done, count - done, (off_t)(offset + done));
    if (got <= 0) {
      nbdkit_error("cannot read '%s': %m", image);
      return -1;
    }
    done += (uint32_t)got;
  }
  const uint32_t first = (uint32_t)(offset / SECTOR_BYTES);
  for (uint32_t i = 0; i < count / SECTOR_BYTES; ++i)
    if (newest[first + i] != 0)
      memcpy(into + (size_t)i * SECTOR_BYTES, log_versions[newest[first + i] - 1].bytes,
             SECTOR_BYTES);
  return 0;
}

static int read_disk(void* handle, void* buffer, uint32_t count, uint64_t offset, uint32_t flags) {
  (void)handle;
  (void)flags;
  pthread_mutex_lock(&mutex);
  const int result = read_locked(buffer, count, offset);
  pthread_mutex_unlock(&mutex);
  return result;
}

static int append(uint32_t sector, const void* bytes) {
  if (log_length == log_capacity) {
    const uint32_t capacity = log_capacity == 0 ? 4096 : 2 * log_capacity;
    struct version* grown = realloc(log_versions, capacity * sizeof *grown);
    if (grown == NULL) {
      nbdkit_error("realloc: %m");
      return -1;
    }
    log_versions = grown;
    log_capacity = capacity;
  }
  struct version* version = &log_versions[log_length];
  version->sector = sector;
  version->older = newest[sector];
  version->request = requests;
  memcpy(version->bytes, bytes, SECTOR_BYTES);
  newest[sector] = ++log_length;
  return 0;
}

/* Place `at` of the log is the newest version of its sector. */
static int is_newest(uint32_t at) { return newest[log_versions[at].sector] == at + 1; }

/* A version of a sector, or 0 for what the image has: newer ones with a larger chance. */
static uint32_t choose(uint32_t version, unsigned chance_of_16) {
  while (version != 0 && draw() % 16 >= chance_of_16) version = log_versions[version - 1].older;
  return version;
}

/* How much of the cache survives is drawn for the cut: nearly all, half, some or nothing. */
static int keep_any(uint64_t* kept, uint64_t* lost) {
  static const unsigned of_16[] = {0, 4, 8, 14, 15};
  const unsigned chance = of_16[draw() % (sizeof of_16 / sizeof *of_16)];
  const uint64_t whole_state = draw();
  for (uint32_t at = 0; at < log_length; ++at) {
    if (!is_newest(at)) continue;
    const uint32_t sector = log_versions[at].sector;
    const uint64_t state = random_state;
    if (sector < whole_sectors) random_state = whole_state ^ mix(sector / 8); /* one draw for 8 */
    const uint32_t chosen = choose(at + 1, chance);
    if (sector < whole_sectors) random_state = state;
    ++*(chosen == at + 1 ? kept : lost);
    if (chosen != 0 && write_image(sector, log_versions[chosen - 1].bytes, SECTOR_BYTES) != 0)
      return -1;
  }
  return 0;
}

static int keep_older(uint64_t* kept, uint64_t* lost) {
  const uint64_t requests_kept = draw() % (requests / 2 + 1);
  for (uint32_t at = 0; at < log_length; ++at) {
    const int survives = log_versions[at].request <= requests_kept;
    ++*(survives ? kept : lost);
    if (survives && write_image(log_versions[at].sector, log_versions[at].bytes, SECTOR_BYTES) != 0)
      return -1;
  }
  return 0;
}

static void cut_power(void) {
  uint64_t kept = 0;
  uint64_t lost = 0;
  if ((lies ? keep_older : keep_any)(&kept, &lost) != 0) exit(EXIT_FAILURE);
  dprintf(control,
          "{\"flushes\": %" PRIu64 ", \"writes_overtaken\": %" PRIu64 ", \"sectors_kept\": %" PRIu64
          ", \"sectors_lost\": %" PRIu64 "}\n",
          flushes, overtaken, kept, lost);
}

/* With the mutex, which it keeps: the host kills this process. */
static void end_with_power(void) {
  cut_power();
  for (;;) pause();
}

/* At a write or flush, with the mutex: does not return when the power is cut here. */
static void await_cut(void) {
  if (requests_left < 0 || requests_left-- > 0) return;
  end_with_power();
}

static void* hear_host(void* nothing) {
  uint32_t chosen;
  while (recv(control, &chosen, sizeof chosen, MSG_WAITALL) == sizeof chosen) {
    pthread_mutex_lock(&mutex);
    if (chosen == UINT32_MAX) end_with_power();
    requests_left = chosen;
    pthread_mutex_unlock(&mutex);
  }
  return nothing; /* the host is gone */
}

static int begin_to_hear(void) {
  pthread_t thread;
  const int error = pthread_create(&thread, NULL, hear_host, NULL);
  if (error == 0) return pthread_detach(thread);
  nbdkit_error("cannot start a thread: %s", strerror(error));
  return -1;
}

/* Let a flush overtake this write, if one comes. */
static void hold(void) {
  const uint64_t before = flushes;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += HOLD_NS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (flushes == before && pthread_cond_timedwait(&flushed, &mutex, &until) == 0) {
  }
  overtaken += flushes != before;
}

static int write_disk(void* handle, const void* buffer, uint32_t count, uint64_t offset,
                      uint32_t flags) {
  (void)handle;
  (void)flags;
  const char* from = buffer;
  const uint32_t first = (uint32_t)(offset / SECTOR_BYTES);
  int result = 0;
  pthread_mutex_lock(&mutex);
  if (draw() % 8 == 0) hold();
  ++requests;
  for (uint32_t i = 0; i < count / SECTOR_BYTES && result == 0; ++i)
    result = append(first + i, from + (size_t)i * SECTOR_BYTES);
  await_cut(); /* with this write in the cache */
  pthread_mutex_unlock(&mutex);
  return result;
}

static int make_durable(void) {
  for (uint32_t at = 0; at < log_length; ++at) {
    if (!is_newest(at)) continue;
    if (write_image(log_versions[at].sector, log_versions[at].bytes, SECTOR_BYTES) != 0) return -1;
    newest[log_versions[at].sector] = 0;
  }
  log_length = 0;
  return 0;
}

static int flush_disk(void* handle, uint32_t flags) {
  (void)handle;
  (void)flags;
  pthread_mutex_lock(&mutex);
  await_cut();
  const int result = lies ? 0 : make_durable();
  ++flushes;
  pthread_cond_broadcast(&flushed);
  pthread_mutex_unlock(&mutex);
  return result;
}

static struct nbdkit_plugin plugin = {
    .name = "volatile-disk",
    .longname = "A disk with a volatile write cache",
    .config = set_parameter,
    .get_ready = open_image,
    .after_fork = begin_to_hear,
    .open = open_connection,
    .get_size = size_bytes,
    .block_size = block_size,
    .can_flush = yes,
    .pread = read_disk,
    .pwrite = write_disk,
    .flush = flush_disk,
};
NBDKIT_REGISTER_PLUGIN(plugin)
