// Powers of a matrix by Cannon's algorithm, on a square number of ranks: X becomes X B, again and
// again, in numbers modulo 2^32. After it a digest of the last X.
//
//   mpirun -np 4 cannon_in_memory ROWS PRODUCTS
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Block = std::vector<std::uint32_t>;

/// A rank's blocks of the two factors, as far as they have come round, and of the product.
struct State {
  long step = 0;
  Block a, b, c;
};

/// The ranks as a square, whose rows and columns are rings.
struct Grid {
  MPI_Comm comm;
  int side;
  int at[2];  ///< this rank's row and column

  int rank_at(int row, int column) const {
    const int place[] = {(row + side) % side, (column + side) % side};
    int rank = 0;
    MPI_Cart_rank(comm, place, &rank);
    return rank;
  }
  /// Every block of the square moves so many ranks up and left.
  void move(Block& block, int up, int left) const {
    MPI_Sendrecv_replace(block.data(), static_cast<int>(block.size()), MPI_UINT32_T,
                         rank_at(at[0] - up, at[1] - left), 0, rank_at(at[0] + up, at[1] + left), 0,
                         comm, MPI_STATUS_IGNORE);
  }
};

std::uint32_t element(long row, long column) {
  const auto mixed = static_cast<std::uint32_t>(row * 40503 + column) * 2654435761u;
  return mixed ^ mixed >> 15;
}

void begin(State& state, const Grid& grid, long rows) {
  const std::size_t count = static_cast<std::size_t>(rows * rows);
  state.a.resize(count);
  state.b.resize(count);
  state.c.assign(count, 0);
  for (long i = 0; i < rows; ++i)
    for (long j = 0; j < rows; ++j) {
      const long row = grid.at[0] * rows + i, column = grid.at[1] * rows + j;
      state.a[static_cast<std::size_t>(i * rows + j)] = element(row, column);
      state.b[static_cast<std::size_t>(i * rows + j)] = element(column, row);
    }
  grid.move(state.a, 0, grid.at[0]);
  grid.move(state.b, grid.at[1], 0);
}

void multiply(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* c, long rows) {
  for (long i = 0; i < rows; ++i)
    for (long k = 0; k < rows; ++k) {
      const std::uint32_t factor = a[i * rows + k];
      for (long j = 0; j < rows; ++j) c[i * rows + j] += factor * b[k * rows + j];
    }
}

void step(State& state, const Grid& grid, long rows) {
  multiply(state.a.data(), state.b.data(), state.c.data(), rows);
  grid.move(state.a, 0, 1);
  grid.move(state.b, 1, 0);
  if (++state.step % grid.side != 0) return;
  state.a.swap(state.c);  // the product is the next first factor
  state.c.assign(state.a.size(), 0);
  grid.move(state.a, 0, grid.at[0]);
}

void run(const Grid& grid, long rows, long products) {
  State state;
  begin(state, grid, rows);
  while (state.step < products * grid.side) {
    step(state, grid, rows);
  }
  std::uint64_t digest = 0, all = 0;
  for (const std::uint32_t each : state.a) digest = digest * 31 + each;
  digest *= static_cast<std::uint64_t>(grid.rank_at(grid.at[0], grid.at[1])) + 1;
  MPI_Reduce(&digest, &all, 1, MPI_UINT64_T, MPI_SUM, 0, grid.comm);
  if (grid.rank_at(grid.at[0], grid.at[1]) == 0)
    std::printf("digest %016llx\n", static_cast<unsigned long long>(all));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Grid grid{};
  while (grid.side * grid.side < size) ++grid.side;
  const long rows = argc > 1 ? std::atol(argv[1]) : 200;
  if (grid.side * grid.side != size || rows <= 0 || rows % grid.side != 0) {
    std::fprintf(stderr,
                 "a square number of ranks, whose root the number of rows is a multiple of\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int sides[] = {grid.side, grid.side}, rings[] = {1, 1};
  MPI_Cart_create(MPI_COMM_WORLD, 2, sides, rings, 0, &grid.comm);
  int rank = 0;
  MPI_Comm_rank(grid.comm, &rank);
  MPI_Cart_coords(grid.comm, rank, 2, grid.at);
  run(grid, rows / grid.side, argc > 2 ? std::atol(argv[2]) : 10);
  MPI_Finalize();
}
