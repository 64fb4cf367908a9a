// Figure 17 of the benchmark `object`: many large objects, which all fit, or do not.
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "object_matrix.hpp"
#include "object_parts.hpp"
#include "raw_write.hpp"

namespace perdura::bench {

/// 4 MiB. Its constructor keeps its zeros out of the program's file.
struct LargeMatrix {
  static constexpr std::size_t kCells = kMiB;
  std::int32_t cells[kCells];

  LargeMatrix() noexcept { std::memset(cells, 0, sizeof cells); }
  void all_inc(std::int32_t by) noexcept {
    for (std::int32_t& cell : cells) cell += by;
  }
  /// What an instant costs that does next to nothing.
  std::int32_t tick(std::int32_t by) noexcept { return cells[0] += by; }
  std::int32_t first() const noexcept { return cells[0]; }
  /// Its cells' value; nothing where they differ.
  std::optional<std::int32_t> value() const noexcept {
    for (const std::int32_t cell : cells)
      if (cell != cells[0]) return std::nullopt;
    return cells[0];
  }
};
struct LargeUnmerged : LargeMatrix {};
struct LargeMerged : LargeMatrix {};

}  // namespace perdura::bench

template <>
struct perdura::Methods<perdura::bench::LargeUnmerged>
    : perdura::MethodList<perdura::Deferrable<&perdura::bench::LargeMatrix::all_inc>,
                          perdura::Instant<&perdura::bench::LargeMatrix::tick>> {};
template <>
struct perdura::Methods<perdura::bench::LargeMerged>
    : perdura::MethodList<perdura::Deferrable<&perdura::bench::LargeMatrix::all_inc,
                                              &perdura::bench::Matrix::join, perdura::kCommutes>> {
};

namespace perdura::bench {
namespace {

constexpr int kPoolThreads = 2;

/// Natively, in memory, and in two copies on the medium.
std::size_t objects_that_fit() {
  struct sysinfo system{};
  sysinfo(&system);
  const std::size_t each = 5 * sizeof(LargeMatrix);
  return std::clamp<std::size_t>(system.freeram * system.mem_unit / each, 8, 192);
}

/// Seconds a call of increase(object) at random, counted by object.
template <class Increase, class Sync>
double pool_s(std::vector<std::atomic<std::uint64_t>>& calls, std::uint64_t count,
              const Increase& increase, const Sync& sync) {
  static std::uint64_t seed = 0;
  seed += kPoolThreads;
  return seconds_a_call(kPoolThreads, count, [&](int thread, std::uint64_t each) {
    Random random(seed + static_cast<std::uint64_t>(thread));
    for (std::uint64_t i = 0; i < each; ++i) {
      const std::size_t object = random.below(calls.size());
      increase(object);
      calls[object].fetch_add(1, std::memory_order_relaxed);
    }
    for (auto object = static_cast<std::size_t>(thread); object < calls.size();
         object += kPoolThreads)
      sync(object);
  });
}

void check_pool(const char* side, const std::vector<std::atomic<std::uint64_t>>& calls,
                const std::function<std::optional<std::int32_t>(std::size_t)>& value) {
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (value(i) != static_cast<std::int32_t>(calls[i]))
      throw std::runtime_error(
          fmt::format("{}: object {} is not its {} calls", side, i, calls[i].load()));
}

template <class State>
Measured compare_pool(Context& context, const std::string& parameters = "") {
  const std::size_t count = objects_that_fit();
  const std::string uri = context.uri(Place::kMemory, "pool") + parameters;
  std::vector<std::unique_ptr<NativeObject<LargeMatrix>>> native;
  for (std::size_t i = 0; i < count; ++i)
    native.push_back(std::make_unique<NativeObject<LargeMatrix>>());
  std::vector<std::atomic<std::uint64_t>> native_calls(count), calls(count);
  const auto open_all = [&](Objects& objects) {
    std::vector<Object<State>> all;
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(objects.object<State>(std::to_string(i), {.log_bytes = 1 << 16}));
    return all;
  };
  Paired pair;
  {
    Objects objects = Objects::open(uri);
    std::vector<Object<State>> all = open_all(objects);
    const std::uint64_t calls_a_round = count * context.scale<std::uint64_t>(16, 4);
    pair = paired(
        context.scale(7, 3),
        [&] {
          return pool_s(
              calls, calls_a_round,
              [&](std::size_t i) { all[i].template defer<&LargeMatrix::all_inc>(1); },
              [&](std::size_t i) { all[i].sync(); });
        },
        [&] {
          return pool_s(
              native_calls, calls_a_round,
              [&](std::size_t i) { native[i]->template defer<&LargeMatrix::all_inc>(1); },
              [](std::size_t) {});
        });
    objects.close();
  }
  check_pool("native", native_calls,
             [&](std::size_t i) { return native[i]->template read<&LargeMatrix::value>(); });
  Objects objects = Objects::open(uri);
  const std::vector<Object<State>> all = open_all(objects);
  check_pool("perdura", calls,
             [&](std::size_t i) { return all[i].template read<&LargeMatrix::value>(); });
  objects.close();
  context.remove(uri);
  return {1 / pair.ratio,
          {{"throughput", 1 / pair.ratio},
           {"objects", count},
           {"subject_us", pair.subject * 1e6},
           {"base_us", pair.base * 1e6}}};
}

// --- more than fit
// ---------------------------------------------------------------------------------

constexpr std::uint64_t kPoolLogBytes = 1 << 16;

/// Objects of a store, all of which have space, or two thirds of them, the others in a file on the
/// disk.
class Pool {
 public:
  enum class Space { kAll, kTwoThirds };
  Pool(Context& context, std::size_t count, Space space)
      : context_(context), uri_(context.uri(Place::kMemory, "pool")) {
    options_.bytes_max = 0;
    if (space == Space::kTwoThirds) {
      constexpr std::uint64_t kEach = 2 * sizeof(LargeMatrix) + kPoolLogBytes;
      options_.bytes_max = count * 2 / 3 * kEach + count * kPageBytes;
      options_.overflow = context.uri(Place::kDisk, "overflow");
    }
    open(count);
  }
  ~Pool() {
    all_.clear();
    objects_.reset();
    context_.remove(uri_);
    if (!options_.overflow.empty()) context_.remove(options_.overflow);
  }
  Pool(const Pool&) = delete;

  Object<LargeUnmerged>& operator[](std::size_t i) { return all_[i]; }
  ObjectMoves moves() const { return objects_->moves(); }
  void reopen() {
    const std::size_t count = all_.size();
    all_.clear();
    objects_->close();
    objects_.reset();
    open(count);
  }

 private:
  void open(std::size_t count) {
    objects_.emplace(Objects::open(uri_, options_));
    for (std::size_t i = 0; i < count; ++i)
      all_.push_back(
          objects_->object<LargeUnmerged>(std::to_string(i), {.log_bytes = kPoolLogBytes}));
  }

  Context& context_;
  const std::string uri_;
  ObjectsOptions options_;
  std::optional<Objects> objects_;
  std::vector<Object<LargeUnmerged>> all_;
};

Measured compare_swapping(Context& context) {
  const std::size_t count = objects_that_fit();
  Pool all(context, count, Pool::Space::kAll);
  Pool some(context, count, Pool::Space::kTwoThirds);
  std::vector<std::atomic<std::uint64_t>> all_calls(count), some_calls(count);
  const std::uint64_t calls_a_round = count * context.scale<std::uint64_t>(4, 2);
  const auto run = [&](Pool& pool, std::vector<std::atomic<std::uint64_t>>& calls) {
    return pool_s(
        calls, calls_a_round, [&](std::size_t i) { pool[i].defer<&LargeMatrix::all_inc>(1); },
        [&](std::size_t i) { pool[i].sync(); });
  };
  const Paired pair = paired(
      context.scale(5, 3), [&] { return run(some, some_calls); },
      [&] { return run(all, all_calls); });
  const ObjectMoves moves = some.moves();
  some.reopen();
  check_pool("perdura, moving", some_calls,
             [&](std::size_t i) { return some[i].read<&LargeMatrix::value>(); });
  check_pool("perdura", all_calls,
             [&](std::size_t i) { return all[i].read<&LargeMatrix::value>(); });
  return {pair.ratio,
          {{"objects", count},
           {"moved_out", moves.out},
           {"moved_home", moves.home},
           {"subject_us", pair.subject * 1e6},
           {"base_us", pair.base * 1e6}}};
}

/// Seconds that moving so many objects takes at least: each is written to the disk at once, several
/// writes in flight, and made durable before the next one; or past the caches, with a fence.
double moved_s(RawFile& file, const Buffer& state, const Buffer& memory, const ObjectMoves& moves) {
  return timed_s([&] {
    for (std::uint64_t i = 0; i < moves.out; ++i) file.overwrite(state.data(), state.size());
    for (std::uint64_t i = 0; i < moves.home; ++i)
      gather_nontemporal({state.data(), kPageBytes, kPageBytes, state.size() / kPageBytes},
                         memory.data());
  });
}

Measured compare_moves(Context& context) {
  const std::size_t count = objects_that_fit();
  Pool pool(context, count, Pool::Space::kTwoThirds);
  const std::string path = context.path(Place::kDisk, "raw");
  std::vector<std::int32_t> calls(count);
  std::vector<double> ratios, run_s, raw_s;
  ObjectMoves moved;
  {
    RawFile file(path, sizeof(LargeMatrix));
    const Buffer state(sizeof(LargeMatrix)), memory(sizeof(LargeMatrix));
    Random random(5);
    for (int round = 0; round < context.scale(9, 5); ++round) {
      const ObjectMoves before = pool.moves();
      run_s.push_back(timed_s([&] {
        for (std::size_t i = 0; i < 2 * count; ++i) {
          const std::size_t object = random.below(count);
          ++calls[object];
          if (pool[object].call<&LargeMatrix::tick>(1) != calls[object])
            throw std::runtime_error("an object is not its calls");
        }
      }));
      const ObjectMoves after = pool.moves();
      moved = {after.out - before.out, after.home - before.home};
      raw_s.push_back(moved_s(file, state, memory, moved));
      ratios.push_back(run_s.back() / raw_s.back());
    }
  }
  context.remove(path);
  pool.reopen();
  for (std::size_t i = 0; i < count; ++i)
    if (pool[i].read<&LargeMatrix::first>() != calls[i])
      throw std::runtime_error("an object is not its calls after it was opened again");
  return {median(ratios),
          {{"objects", count},
           {"calls", 2 * count},
           {"moved_out", moved.out},
           {"moved_home", moved.home},
           {"run_ms", median(run_s) * 1e3},
           {"raw_ms", median(raw_s) * 1e3}}};
}

}  // namespace

void measure_pools(Context& context) {
  context.measure("pool", "ratio", Reach::at_least(0.95),
                  [&] { return compare_pool<LargeUnmerged>(context); });
  context.measure("pool_merged", "ratio", Reach::at_least(1.4),
                  [&] { return compare_pool<LargeMerged>(context); });
  context.measure("pool_slow", "ratio", Reach::none(),
                  [&] { return compare_pool<LargeUnmerged>(context, kSlowNvm); });
  context.measure("pool_merged_slow", "ratio", Reach::none(),
                  [&] { return compare_pool<LargeMerged>(context, kSlowNvm); });
  context.measure("swap", "ratio", Reach::none(), [&] { return compare_swapping(context); });
  context.measure("swap_floor", "ratio", Reach::at_most(1.25),
                  [&] { return compare_moves(context); });
}

}  // namespace perdura::bench
