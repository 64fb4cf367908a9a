// A program of several processes that are killed at any moment: it counts steps, at each of which
// it stores to a vector and a matrix that are distributed over its ranks, and takes a point. What
// it finds at its start must be of one step, on all ranks and in all elements; else it ends with 3.
//
//   group_worker STORE STEPS [ELEMENTS]
//   group_worker STORE fork       children that destroy what they inherited of the group
//   group_worker STORE room       an array for which rank 1 lacks room is on no rank
#include <sys/wait.h>
#include <unistd.h>
#include <perdura/mpi.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr std::uint64_t kRows = 60, kColumns = 70;

std::uint64_t value_of(long step, std::uint64_t index) {
  return (static_cast<std::uint64_t>(step) * 2654435761u) ^ (index * 40503u);
}

struct Counter {
  long step = 0;
};

class Program {
 public:
  Program(const char* store, std::uint64_t elements, const perdura::Options& options)
      : group_(MPI_COMM_WORLD, store, options),
        vector_(group_, "vector", elements),
        matrix_(group_, "matrix", kRows, kColumns),
        counter_(group_.root<Counter>("counter")) {}

  // A rank that was not there before has no step of its own yet.
  void take_over_step() {
    long step = counter_.step;
    MPI_Allreduce(MPI_IN_PLACE, &step, 1, MPI_LONG, MPI_MAX, group_.communicator());
    const bool is_new = group_.ranks_before() != 0 && group_.rank() >= group_.ranks_before();
    if (is_new) set_step(step);
  }

  bool is_whole() const {
    long steps[2] = {counter_.step, -counter_.step};
    MPI_Allreduce(MPI_IN_PLACE, steps, 2, MPI_LONG, MPI_MIN, group_.communicator());
    int whole = steps[0] == -steps[1] && elements_fit() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &whole, 1, MPI_INT, MPI_MIN, group_.communicator());
    return whole != 0;
  }

  // What other ranks have of a matrix is not what they have of a vector of as many elements.
  bool is_no_matrix() {
    try {
      const perdura::mpi::Matrix<std::uint64_t> matrix(group_, "vector", vector_.size(), 1);
      return matrix.grid_rows() == group_.size();
    } catch (const perdura::Error& error) {
      return error.code() == perdura::Code::kTypeMismatch;
    }
  }

  void begin() const {
    if (group_.rank() != 0) return;
    std::printf("begins with version %llu, step %ld, of %d ranks\n",
                static_cast<unsigned long long>(group_.version()), counter_.step,
                group_.ranks_before());
    std::fflush(stdout);
  }

  void run(long steps) {
    while (counter_.step < steps) {
      {
        const auto op = group_.operation();
        const long next = counter_.step + 1;
        for (std::uint64_t i = 0; i < vector_.local().size(); ++i)
          vector_.local()[i] = value_of(next, vector_.first() + i);
        for (std::uint64_t i = 0; i < matrix_.local_rows() * matrix_.local_columns(); ++i)
          matrix_.data()[i] = static_cast<std::uint32_t>(value_of(next, index_of(i)));
        counter_.step = next;
      }
      if (counter_.step % 3 == 0) group_.point();
      else group_.point_async();
    }
    group_.close();
  }

 private:
  void set_step(long step) {
    const auto op = group_.operation();
    counter_.step = step;
  }
  std::uint64_t index_of(std::uint64_t i) const {
    return (matrix_.first_row() + i / matrix_.local_columns()) * kColumns + matrix_.first_column() +
           i % matrix_.local_columns();
  }
  bool elements_fit() const {
    if (counter_.step == 0) return true;
    for (std::uint64_t i = 0; i < vector_.local().size(); ++i)
      if (vector_.local()[i] != value_of(counter_.step, vector_.first() + i)) return false;
    for (std::uint64_t i = 0; i < matrix_.local_rows() * matrix_.local_columns(); ++i)
      if (matrix_.data()[i] != static_cast<std::uint32_t>(value_of(counter_.step, index_of(i))))
        return false;
    return true;
  }

  mutable perdura::mpi::Group group_;
  perdura::mpi::Array<std::uint64_t> vector_;
  perdura::mpi::Matrix<std::uint32_t> matrix_;
  Counter& counter_;
};

// What it lacks room for is what the array is known by; more elements have some.
int lack_room(const char* store) {
  perdura::Options options;
  options.region_limit_bytes = 4 << 20;
  perdura::mpi::Group group(MPI_COMM_WORLD, store, options);
  static constexpr perdura_type kElements{"perdura::mpi::Elements", 8, 8, 0, nullptr};
  group.root<void*>("kept") = group.member().allocate(kElements, 8, true);
  group.point();
  std::vector<void*> blocks;
  for (std::size_t size = 1 << 20; group.rank() == 1 && size >= 16; size /= 2) {
    try {
      for (;;) blocks.push_back(group.store().allocate(size));
    } catch (const perdura::Error&) {
    }
  }
  int made[2] = {0, 0};
  try {
    const perdura::mpi::Array<char> array(group, "array", 2);
    made[0] = 1;
  } catch (const perdura::Error& error) {
    made[1] = 1;
  }
  MPI_Allreduce(MPI_IN_PLACE, made, 2, MPI_INT, MPI_MAX, group.communicator());
  for (void* const block : blocks) group.store().deallocate(block);
  group.point();
  const perdura::mpi::Array<char> array(group, "array", 2);
  group.close();
  return made[0] == 0 && made[1] == 1 ? 0 : 3;
}

// What it inherits of the group, and may destroy, is the parent's.
int fork_children(const char* store) {
  auto group = std::make_unique<perdura::mpi::Group>(MPI_COMM_WORLD, store);
  long& number = group->root<long>("number");
  for (int i = 0; i < 10; ++i) {
    number = i + 1;
    group->point_async();
    const pid_t child = ::fork();
    if (child == 0) {
      group.reset();
      ::_exit(0);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) return 3;
  }
  const bool is_whole = group->sync() == 10 && number == 10;
  group->close();
  return is_whole ? 0 : 3;
}

int run(int argc, char** argv) {
  perdura::Options options;
  const char* const engine = std::getenv("WORKER_ENGINE");
  if (engine != nullptr && engine[0] == 'c') options.engine = perdura::Engine::kRemap;
  if (engine != nullptr && engine[0] == 'd') options.engine = perdura::Engine::kDualCopy;
  options.region_limit_bytes = std::uint64_t{1} << 30;
  try {
    if (std::strcmp(argv[2], "room") == 0) return lack_room(argv[1]);
    if (std::strcmp(argv[2], "fork") == 0) return fork_children(argv[1]);
    Program program(argv[1], argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 5000, options);
    program.take_over_step();
    if (!program.is_whole()) {
      std::fprintf(stderr, "what was found is not of one step\n");
      return 3;
    }
    if (!program.is_no_matrix()) {
      std::fprintf(stderr, "a matrix was constructed in the place of a vector\n");
      return 3;
    }
    program.begin();
    program.run(std::atol(argv[2]));
  } catch (const perdura::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 4;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  MPI_Init(&argc, &argv);
  const int result = run(argc, argv);
  if (result != 0) MPI_Abort(MPI_COMM_WORLD, result);
  MPI_Finalize();
  return 0;
}
