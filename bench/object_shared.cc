// Several processes that have one object open, of the benchmark `object`: against as many threads
// of one process, and how long the others wait where the one that executes is killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "child.hpp"
#include "object_matrix.hpp"
#include "object_parts.hpp"

namespace perdura::bench {

/// What processes of a measurement see of each other, in a file.
struct Board {
  std::atomic<std::uint64_t> rounds{0};   ///< that have begun
  std::atomic<std::uint64_t> done{0};     ///< by processes, of all rounds
  std::atomic<std::uint64_t> died_ns{0};  ///< when one did; 0: none has
  std::atomic<std::uint64_t> died_at{0};  ///< the call that it died in
};

/// A file of it, at an address of this process's.
class SharedBoard {
 public:
  explicit SharedBoard(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(Board)) != 0)
      throw std::runtime_error("cannot make " + path);
    void* const at = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (at == MAP_FAILED) throw std::runtime_error("cannot map " + path);
    board_ = static_cast<Board*>(at);
  }
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  Board* operator->() const { return board_; }

 private:
  Board* board_;
};

static const SharedBoard* own_board = nullptr;  // a method finds it there

static std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// 4 MiB of which a method changes little.
struct LargeState {
  std::uint64_t calls;
  char filler[4 * 1024 * 1024 - 8];

  LargeState() noexcept { std::memset(static_cast<void*>(this), 0, sizeof *this); }
  std::uint64_t next() noexcept { return ++calls; }
  /// Its process dies of it, where it is this one.
  std::uint64_t die(std::uint64_t pid) noexcept {
    ++calls;
    if (pid == static_cast<std::uint64_t>(::getpid())) {
      (*own_board)->died_at = calls;
      (*own_board)->died_ns = clock_ns();
      ::kill(::getpid(), SIGKILL);
    }
    return calls;
  }
};

}  // namespace perdura::bench

template <>
struct perdura::Methods<perdura::bench::LargeState>
    : perdura::MethodList<perdura::Instant<&perdura::bench::LargeState::next>,
                          perdura::Instant<&perdura::bench::LargeState::die>> {};

namespace perdura::bench {
namespace {

Objects open_shared(const std::string& uri) {
  ObjectsOptions how;
  how.shared = true;
  return Objects::open(uri, how);
}

// --- four processes ------------------------------------------------------------------------------

constexpr int kProcesses = 4;
constexpr std::uint64_t kCallsAnInstant = 1000;

/// A store's URI, a board, calls a round, a number.
int run_fellow(const ChildArguments& arguments) {
  const SharedBoard board(arguments.at(1));
  const std::uint64_t calls = std::stoull(arguments.at(2));
  pin_thread(std::stoi(arguments.at(3)) % 2 == 0 ? kMutatorCpu : kBackgroundCpu);
  Objects objects = open_shared(arguments.at(0));
  auto object = objects.object<Unmerged>("object");
  std::puts("ready");
  std::fflush(stdout);
  for (std::uint64_t round = 0;; ++round) {
    while (board->rounds == round) ::usleep(20);
    for (std::uint64_t i = 1; i <= calls; ++i) {
      if (i % kCallsAnInstant == 0) object.call<&Matrix::all_inc_told>(1);
      else object.defer<&Matrix::all_inc>(1);
    }
    object.sync();
    ++board->done;
  }
}
const ChildRegistration kFellow("object-fellow", run_fellow);

Measured compare_processes(Context& context) {
  const std::uint64_t calls = context.scale<std::uint64_t>(1'000'000, 400'000);
  const std::string uri = context.uri(Place::kMemory, "shared");
  const std::string board_path = context.path(Place::kMemory, "board");
  const SharedBoard board(board_path);
  StoredObject<Unmerged> stored(context, Place::kMemory, {});
  CountedMatrix threads(stored.get());
  Paired pair;
  {
    std::vector<std::unique_ptr<ChildProcess>> fellows;
    for (int i = 0; i < kProcesses; ++i) {
      fellows.push_back(std::make_unique<ChildProcess>(
          "object-fellow",
          ChildArguments{uri, board_path, std::to_string(calls / kProcesses), std::to_string(i)}));
      fellows.back()->read_line();
    }
    pair = paired(
        context.scale(9, 3),
        [&] {
          return timed_s([&] {
                   const std::uint64_t wanted = ++board->rounds * kProcesses;
                   while (board->done != wanted) ::usleep(20);
                 }) /
                 static_cast<double>(calls);
        },
        [&] { return threads.run(kProcesses, calls, kCallsAnInstant); });
  }
  threads.check("threads");
  stored.reopen();
  threads.check("threads");
  {
    Objects objects = Objects::open(uri);
    const std::uint64_t made = board->rounds * calls;
    check_cells("processes", objects.object<Unmerged>("object").read<&Matrix::all>(), {made, made});
    objects.close();
  }
  context.remove(uri);
  context.remove(board_path);
  return {1 / pair.ratio,
          {{"throughput", 1 / pair.ratio},
           {"processes_ns", pair.subject * 1e9},
           {"threads_ns", pair.base * 1e9}}};
}

// --- one is killed -------------------------------------------------------------------------------

/// Calls so often, and then dies in a method, as the one that executes: a store's URI, a board.
int run_dying(const ChildArguments& arguments) {
  const SharedBoard board(arguments.at(1));
  own_board = &board;
  Objects objects = open_shared(arguments.at(0));
  auto object = objects.object<LargeState>("large");
  std::puts("ready");
  std::fflush(stdout);
  for (int i = 0; i < 2500; ++i) object.call<&LargeState::next>();
  for (;;) object.call<&LargeState::die>(static_cast<std::uint64_t>(::getpid()));
}
const ChildRegistration kDying("object-dying", run_dying);

/// From the death of whoever executed until a later call, of another process, has its answer,
/// milliseconds. Where this process does the call that kills, it is called again.
double takeover_ms(const std::string& uri, const std::string& board_path, const SharedBoard& board,
                   Object<LargeState>& object) {
  board->died_ns = 0;
  ChildProcess dying("object-dying", {uri, board_path});
  dying.read_line();
  std::uint64_t call = 0;
  do call = object.call<&LargeState::next>();
  while (board->died_ns == 0 || call <= board->died_at);
  const std::uint64_t end = clock_ns();
  return static_cast<double>(end - board->died_ns) / 1e6;
}

Measured measure_takeover(Context& context) {
  const std::string uri = context.uri(Place::kMemory, "shared");
  const std::string board_path = context.path(Place::kMemory, "board");
  std::vector<double> times;
  {
    const SharedBoard board(board_path);
    Objects objects = open_shared(uri);
    auto object = objects.object<LargeState>("large");
    for (int i = context.scale(21, 7); i != 0; --i)
      times.push_back(takeover_ms(uri, board_path, board, object));
    objects.close();
  }
  context.remove(uri);
  context.remove(board_path);
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], {{"least_ms", times.front()}, {"most_ms", times.back()}}};
}

}  // namespace

void measure_shared(Context& context) {
  context.measure("shared_4", "ratio", Reach::at_least(0.8),
                  [&] { return compare_processes(context); });
  context.measure("takeover_ms", "ms", Reach::at_most(100),
                  [&] { return measure_takeover(context); });
}

}  // namespace perdura::bench
