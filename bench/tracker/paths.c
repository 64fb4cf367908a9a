// Paths are laid through a grid, in the style of STAMP's labyrinth: a search in a copy of a part of
// the grid, then the cells of the path are stored to in the grid. The oldest path is taken away
// when there are many.
//
// tracker-paths SIDE LAYERS PATHS CHECKPOINTS: the grid is one block of SIDE * SIDE * LAYERS words
#include <stdlib.h>

#include "program.h"

enum {
  kReach = 32,  ///< a path ends at most so far from its beginning, in either direction
  kMargin = 8,  ///< how far it may stray
  kWindow = kReach + 2 * kMargin,
  kLivePercent = 4  ///< of the grid's cells at most are taken
};

struct place {
  int32_t x, y, z;
};

struct path {
  uint32_t length;
  uint64_t cells[];  ///< of the grid
};

struct maze {
  struct random_numbers random;
  int32_t side, layers;
  uint64_t* cells;
  struct path** live;  ///< a ring
  uint64_t live_max, laid, taken;
  uint64_t cells_taken;
  int32_t* distance;  ///< of the places in the window
  int32_t* queue;
};

static uint64_t cell_of(const struct maze* maze, struct place place) {
  return ((uint64_t)place.z * (uint64_t)maze->side + (uint64_t)place.y) * (uint64_t)maze->side +
         (uint64_t)place.x;
}

static int32_t window_index(struct place origin, struct place place) {
  return (place.z * kWindow + place.y - origin.y) * kWindow + place.x - origin.x;
}

static struct place window_place(struct place origin, int32_t index) {
  return (struct place){origin.x + index % kWindow, origin.y + index / kWindow % kWindow,
                        index / (kWindow * kWindow)};
}

/// Places next to `place` in the window; how many.
static int neighbours(const struct maze* maze, struct place origin, struct place place,
                      struct place out[6]) {
  int count = 0;
  if (place.x > origin.x) out[count++] = (struct place){place.x - 1, place.y, place.z};
  if (place.x < origin.x + kWindow - 1)
    out[count++] = (struct place){place.x + 1, place.y, place.z};
  if (place.y > origin.y) out[count++] = (struct place){place.x, place.y - 1, place.z};
  if (place.y < origin.y + kWindow - 1)
    out[count++] = (struct place){place.x, place.y + 1, place.z};
  if (place.z > 0) out[count++] = (struct place){place.x, place.y, place.z - 1};
  if (place.z < maze->layers - 1) out[count++] = (struct place){place.x, place.y, place.z + 1};
  return count;
}

enum { kUnknown = -1, kTaken = -2 };

static void copy_window(struct maze* maze, struct place origin) {
  int32_t* out = maze->distance;
  for (int32_t z = 0; z < maze->layers; ++z)
    for (int32_t y = origin.y; y < origin.y + kWindow; ++y) {
      const uint64_t* row = &maze->cells[cell_of(maze, (struct place){origin.x, y, z})];
      for (int32_t x = 0; x < kWindow; ++x) *out++ = row[x] == 0 ? kUnknown : kTaken;
    }
}

/// Distances from `from` on, until `to` is reached; 0 when it cannot be.
static int expand(struct maze* maze, struct place origin, struct place from, struct place to) {
  const int32_t target = window_index(origin, to);
  int32_t begin = 0, end = 0;
  maze->queue[end++] = window_index(origin, from);
  maze->distance[maze->queue[0]] = 0;
  while (begin < end) {
    const int32_t at = maze->queue[begin++];
    if (at == target) return 1;
    struct place next[6];
    const int count = neighbours(maze, origin, window_place(origin, at), next);
    for (int i = 0; i < count; ++i) {
      const int32_t index = window_index(origin, next[i]);
      if (maze->distance[index] != kUnknown) continue;
      maze->distance[index] = maze->distance[at] + 1;
      maze->queue[end++] = index;
    }
  }
  return 0;
}

/// From `to` back to where the distance is 0.
static struct path* trace_back(struct maze* maze, struct place origin, struct place to) {
  int32_t left = maze->distance[window_index(origin, to)];
  struct path* path = allocate(sizeof(struct path) + ((uint64_t)left + 1) * sizeof(uint64_t));
  path->length = (uint32_t)left + 1;
  struct place at = to;
  for (;; --left) {
    path->cells[left] = cell_of(maze, at);
    if (left == 0) return path;
    struct place next[6];
    const int count = neighbours(maze, origin, at, next);
    for (int i = 0; i < count; ++i)
      if (maze->distance[window_index(origin, next[i])] == left - 1) at = next[i];
  }
}

static void take_away_oldest(struct maze* maze) {
  struct path** oldest = &maze->live[maze->taken++ % maze->live_max];
  for (uint32_t i = 0; i < (*oldest)->length; ++i) maze->cells[(*oldest)->cells[i]] = 0;
  maze->cells_taken -= (*oldest)->length;
  free(*oldest);
  *oldest = NULL;
}

static void lay(struct maze* maze) {
  const uint64_t span = (uint64_t)maze->side - kWindow;
  const struct place origin = {(int32_t)random_below(&maze->random, span),
                               (int32_t)random_below(&maze->random, span), 0};
  struct place ends[2];
  for (int i = 0; i < 2; ++i)
    ends[i] = (struct place){origin.x + kMargin + (int32_t)random_below(&maze->random, kReach),
                             origin.y + kMargin + (int32_t)random_below(&maze->random, kReach),
                             (int32_t)random_below(&maze->random, (uint64_t)maze->layers)};
  if (maze->cells[cell_of(maze, ends[0])] != 0 || maze->cells[cell_of(maze, ends[1])] != 0) return;
  copy_window(maze, origin);
  if (!expand(maze, origin, ends[0], ends[1])) return;
  struct path* path = trace_back(maze, origin, ends[1]);
  if (maze->laid - maze->taken == maze->live_max) take_away_oldest(maze);
  maze->live[maze->laid++ % maze->live_max] = path;
  for (uint32_t i = 0; i < path->length; ++i) maze->cells[path->cells[i]] = maze->laid;
  maze->cells_taken += path->length;
}

int main(int argc, char** argv) {
  if (argc != 5) fail("tracker-paths SIDE LAYERS PATHS CHECKPOINTS");
  const uint64_t side = number(argv[1]), layers = number(argv[2]), paths = number(argv[3]);
  if (side <= kWindow || side > 1 << 14 || layers == 0 || layers > 64 || paths == 0)
    fail("a side has 49 to 16384 cells; there are 1 to 64 layers and at least one path");
  struct run run = begin_run(paths, argv[4]);
  struct maze maze = {.random = random_from(11), .side = (int32_t)side, .layers = (int32_t)layers};
  maze.cells = calloc(side * side * layers, sizeof(uint64_t));
  maze.live_max = side * side * layers / 100 * kLivePercent / kReach + 1;
  maze.live = calloc(maze.live_max, sizeof(struct path*));
  maze.distance = allocate(layers * kWindow * kWindow * sizeof(int32_t));
  maze.queue = allocate(layers * kWindow * kWindow * sizeof(int32_t));
  if (maze.cells == NULL || maze.live == NULL) fail("out of memory");
  do lay(&maze);
  while (step_done(&run));
  const struct times times = end_run(&run);

  uint64_t sum = maze.laid;
  for (uint64_t i = 0; i < side * side * layers; ++i)
    if (maze.cells[i] != 0) sum = mixed(sum, i * paths + maze.cells[i]);
  print_result(times, mixed(sum, maze.cells_taken));
  return 0;
}
