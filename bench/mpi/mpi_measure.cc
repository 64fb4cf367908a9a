// What the benchmark `cluster` measures inside of a job. Prints figures as lines of a name and a
// number, by rank 0.
//
//   mpi_measure agree STORE ALONE        an empty point, and what it is compared with
//   mpi_measure write STORE BYTES        an array of so many bytes, durable
//   mpi_measure distribute STORE BYTES   the same by other ranks, and by MPI_Alltoallv and write()
#include <fcntl.h>
#include <unistd.h>
#include <perdura/mpi.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using perdura::mpi::Array;
using perdura::mpi::Group;

constexpr int kRanksBefore = 4;
/// Arrays change as a whole, and their first version is all of them.
const perdura::Options kOptions{.engine = perdura::Engine::kRemap};

void say(int rank, const char* name, double value) {
  if (rank == 0) std::printf("%s %.9g\n", name, value);
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

template <class Body>
double median_us(Body&& body) {
  constexpr int kTimes = 1001;
  std::vector<double> times;
  for (int i = 0; i < kTimes; ++i) {
    const double begin = MPI_Wtime();
    body();
    times.push_back((MPI_Wtime() - begin) * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
  return times[kTimes / 2];
}

void agree(const std::string& store, const std::string& alone_uri) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  perdura::Store alone = perdura::Store::open(alone_uri + std::to_string(rank), perdura::Options{});
  Group group(MPI_COMM_WORLD, store);
  group.point();
  alone.checkpoint();
  say(rank, "point_us", median_us([&] { group.point(); }));
  // Together, as in a point of the group: where there are fewer processors than ranks, what these
  // do by themselves takes turns.
  say(rank, "alone_and_barrier_us", median_us([&] {
        alone.checkpoint();
        MPI_Barrier(group.communicator());
      }));
  say(rank, "barrier_us", median_us([&] { MPI_Barrier(group.communicator()); }));
  say(rank, "alone_us", median_us([&] { alone.checkpoint(); }));
  say(rank, "allreduce_us", median_us([&] {
        std::int64_t values[2] = {1, -1};
        MPI_Allreduce(MPI_IN_PLACE, values, 2, MPI_INT64_T, MPI_MIN, group.communicator());
      }));
}

void write(const std::string& store, std::uint64_t words) {
  Group group(MPI_COMM_WORLD, store, kOptions);
  Array<std::uint64_t> array(group, "array", words);
  for (std::uint64_t i = 0; i < array.local().size(); ++i) array.local()[i] = array.first() + i;
  group.close();
}

/// Where a rank's part begins.
std::uint64_t begin_of(std::uint64_t words, int ranks, int rank) {
  const auto all = static_cast<std::uint64_t>(ranks), index = static_cast<std::uint64_t>(rank);
  return words / all * index + std::min(words % all, index);
}

// The same elements go the same ways: what former rank j had rank j modulo the number of ranks has.
double by_hand(const std::string& path, std::uint64_t words, int rank, int size) {
  std::vector<std::uint64_t> from,
      to(begin_of(words, size, rank + 1) - begin_of(words, size, rank));
  std::vector<int> send(static_cast<std::size_t>(size)), send_at(send), receive(send),
      receive_at(send);
  const auto common = [&](int before, int after) {
    const std::uint64_t begin =
        std::max(begin_of(words, kRanksBefore, before), begin_of(words, size, after));
    const std::uint64_t end =
        std::min(begin_of(words, kRanksBefore, before + 1), begin_of(words, size, after + 1));
    return end > begin ? end - begin : 0;
  };
  for (int other = 0; other < size; ++other)
    for (int before = 0; before < kRanksBefore; ++before) {
      if (before % size == rank)
        send[static_cast<std::size_t>(other)] += static_cast<int>(common(before, other));
      if (before % size == other)
        receive[static_cast<std::size_t>(other)] += static_cast<int>(common(before, rank));
    }
  std::uint64_t held = 0;
  for (std::size_t i = 0; i < send.size(); ++i) {
    send_at[i] = static_cast<int>(held);
    held += static_cast<std::uint64_t>(send[i]);
    receive_at[i] = i == 0 ? 0 : receive_at[i - 1] + receive[i - 1];
  }
  from.assign(held, 7);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  MPI_Alltoallv(from.data(), send.data(), send_at.data(), MPI_UINT64_T, to.data(), receive.data(),
                receive_at.data(), MPI_UINT64_T, MPI_COMM_WORLD);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0666);
  if (file < 0) fail(path.c_str());
  const char* at = reinterpret_cast<const char*>(to.data());
  for (std::size_t left = to.size() * sizeof to[0]; left != 0;) {
    const ssize_t done = ::write(file, at, left);
    if (done <= 0) fail(path.c_str());
    at += done;
    left -= static_cast<std::size_t>(done);
  }
  if (::fsync(file) != 0 || ::close(file) != 0) fail(path.c_str());
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = MPI_Wtime() - start;
  ::unlink(path.c_str());
  return seconds;
}

void distribute(const std::string& store, std::uint64_t words) {
  const double opens = MPI_Wtime();
  Group group(MPI_COMM_WORLD, store, kOptions);  // reads what the former ranks had
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  Array<std::uint64_t> array(group, "array", words);
  const double moved = MPI_Wtime();
  group.point();
  MPI_Barrier(MPI_COMM_WORLD);
  const double end = MPI_Wtime();
  for (std::uint64_t i = 0; i < array.local().size(); ++i)
    if (array.local()[i] != array.first() + i) fail("an element is another one");
  say(group.rank(), "open_s", begin - opens);
  say(group.rank(), "move_s", moved - begin);
  say(group.rank(), "point_s", end - moved);
  const std::string path =
      store.substr(store.find(':') + 1) + ".by-hand-" + std::to_string(group.rank());
  say(group.rank(), "by_hand_s", by_hand(path, words, group.rank(), group.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  MPI_Init(&argc, &argv);
  const std::string what = argv[1];
  try {
    if (what == "agree") agree(argv[2], argv[3]);
    else if (what == "write") write(argv[2], std::strtoull(argv[3], nullptr, 10) / 8);
    else distribute(argv[2], std::strtoull(argv[3], nullptr, 10) / 8);
  } catch (const perdura::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
