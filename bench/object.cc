// Objects whose calls are logged, against the same without persistence, and against what else makes
// them durable: the experiments of SIMPO's sections 4.1 and 4.2. Native is the paper's: 500
// integers behind a pthread mutex. Throughputs are compared unless a figure is a time. Every side's
// cells are counted at the end, the objects' after they have been opened again.
//
//   hybrid          each thread does its own calls, a checkpoint every 1,000 ÷ native; the worst
//                   of 1, 2 and 8 threads
//   nvram, ssd      hybrid ÷ a checkpoint at each call; that ÷ the same on the disk
//   cow, cow_each   hybrid ÷ an engine that copies on write, at every 1,000 calls, or at each
//   simpo_N         deferred, as objects are by default ÷ native, N threads
//   merged          where calls are merged ÷ native; the worst of 2, 8 and 60 threads
//   m_server_fc     two rows, 8 threads: by domain ÷ by one server
//   m_server, fc    by domain, by one server ÷ native, where each row has a mutex
//   group_no        an instant after 1,000 deferred calls, durable behind one barrier ÷ with the
//   group_all       next checkpoint; ÷ a barrier for each call
//   group_two       ÷ two barriers
//   mix_N           N deferred calls an instant ÷ native
//   recover_object  time: opening after a kill at 640,000 calls ÷ running them natively
//   pool            192 objects of 4 MiB, called at random ÷ native
//   pool_merged     the same where calls are merged
//   swap            time: two thirds of them have space in NVM, the others are on the disk ÷ all
//                   have
//   swap_floor      time: instants that do next to nothing, the same way ÷ writing what moved:
//                   each object out to the disk, with fdatasync, and home past the caches
//   array … graph   time: 100,000 elements, methods drawn at random ÷ native; the worst of 2 and 8
//                   threads (queue, stack: 8). _hybrid: as above. _short: without the methods that
//                   visit all elements
//   length_N        time: instants that work for so long ÷ native, 2 threads
//   defer           time: ÷ a locked increment and 64 bytes copied
//   instant         time: ÷ 128 bytes written past the caches and a fence
//   whole           time: a checkpoint of 64 MiB ÷ copying it past the caches, two fences
//   abort_window    time: until a group of 1,000 calls is durable, before it runs ÷ running it as a
//                   transaction, in which each call reads and writes the whole of what it increases
//   transaction     an instant after 100 deferred calls ÷ each in a transaction of ours
//   libpmemobj      ÷ each in one of libpmemobj's
//   shared_4        four processes ÷ four threads, an instant after 999 deferred calls
//   takeover_ms     time: from the death of whoever executes, in a method of an object of 4 MiB,
//                   until another process's call is answered
//   file_8          instants on the disk, 8 threads ÷ transactions of ours
//   …_slow          the same on NVM as slow as the paper's: 60 ns a line, and clflushopt
#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <vector>

#include "object_cow.hpp"
#include "object_matrix.hpp"
#include "object_parts.hpp"

namespace perdura::bench {
namespace {

constexpr ObjectOptions kHybrid{.durability = ObjectDurability::kRelaxed, .servers = 0};
constexpr ObjectOptions kEachCheckpointed{
    .checkpoint_calls = 1, .durability = ObjectDurability::kRelaxed, .servers = 0};

std::uint64_t calls_of(const Context& context) {
  return context.scale<std::uint64_t>(2'000'000, 400'000);
}
int rounds_of(const Context& context) { return context.scale(9, 3); }

/// One side of a comparison.
struct Load {
  int threads;
  std::uint64_t calls;
  std::uint64_t calls_an_instant = 0;
  Pinned pinned = Pinned::kYes;
};

template <class Subject, class Base>
Paired compare(int rounds, CountedMatrix<Subject>& subject, const Load& of_subject,
               CountedMatrix<Base>& base, const Load& of_base) {
  const auto run = [](auto& side, const Load& load) {
    return side.run(load.threads, load.calls, load.calls_an_instant, load.pinned);
  };
  return paired(
      rounds, [&] { return run(subject, of_subject); }, [&] { return run(base, of_base); });
}

Json describe(const Paired& pair) {
  return {{"throughput", 1 / pair.ratio},
          {"subject_ns", pair.subject * 1e9},
          {"base_ns", pair.base * 1e9}};
}

template <class State>
Paired against_native(Context& context, const ObjectOptions& options, const Load& load,
                      const char* nvm = "") {
  StoredObject<State> stored(context, Place::kMemory, options, nvm);
  NativeObject<Matrix> memory;
  CountedMatrix subject(stored.get());
  CountedMatrix base(memory);
  const Paired pair = compare(rounds_of(context), subject, load, base, load);
  base.check("native");
  stored.reopen();
  subject.check("perdura");
  return pair;
}

/// The least of the throughputs with so many threads.
template <class State>
Measured worst_against_native(Context& context, const ObjectOptions& options,
                              const std::vector<int>& threads, const char* nvm = "") {
  Measured worst{std::numeric_limits<double>::infinity(), Json::object()};
  for (const int count : threads) {
    const Paired pair = against_native<State>(context, options, {count, calls_of(context)}, nvm);
    worst.value = std::min(worst.value, 1 / pair.ratio);
    worst.detail[std::to_string(count)] = describe(pair);
  }
  return worst;
}

struct Variant {
  Place place = Place::kMemory;
  ObjectOptions options;
  std::uint64_t calls_max = std::numeric_limits<std::uint64_t>::max();
  const char* parameters = "";  ///< of its URI

  Variant slow() const {
    Variant slow = *this;
    slow.parameters = kSlowNvm;
    return slow;
  }
};

/// Two variants of our own, in two threads.
Measured compare_variants(Context& context, const Variant& faster, const Variant& slower,
                          std::uint64_t calls_an_instant = 0) {
  const auto load = [&](const Variant& variant) {
    return Load{2, std::min(calls_of(context), variant.calls_max), calls_an_instant,
                variant.place == Place::kDisk ? Pinned::kNo : Pinned::kYes};
  };
  StoredObject<Unmerged> first(context, faster.place, faster.options, faster.parameters);
  StoredObject<Unmerged> second(context, slower.place, slower.options, slower.parameters);
  CountedMatrix subject(first.get());
  CountedMatrix base(second.get());
  const Paired pair = compare(rounds_of(context), subject, load(faster), base, load(slower));
  first.reopen();
  second.reopen();
  subject.check("perdura");
  base.check("perdura, the other variant");
  return {1 / pair.ratio, describe(pair)};
}

template <class Peer>
Measured compare_copied(Context& context, std::uint64_t checkpoint_calls) {
  const ObjectOptions& options =
      checkpoint_calls == 1 && std::is_same_v<Peer, MaskedMatrix> ? kEachCheckpointed : kHybrid;
  StoredObject<Unmerged> stored(context, Place::kMemory, options);
  Peer peer(context, checkpoint_calls);
  CountedMatrix subject(stored.get());
  CountedMatrix base(peer);
  const Load load{2, calls_of(context)};
  const Paired pair = compare(rounds_of(context), subject, load, base, load);
  stored.reopen();
  subject.check("perdura");
  base.check("peer");
  return {1 / pair.ratio, describe(pair)};
}

// --- two rows ------------------------------------------------------------------------------------

struct NativeRows {
  struct alignas(kLineBytes) Row {
    Mutex mutex;
  };
  Row rows[Matrix::kRows];
  Matrix matrix{};

  void inc(std::uint32_t row) {
    const std::lock_guard lock(rows[row].mutex);
    matrix.row_inc(row, 1);
  }
};

/// Seconds a call; half of the threads increase one row, half the other.
template <class Increase, class Sync>
double row_incs_s(int threads, std::uint64_t calls, const Increase& increase, const Sync& sync) {
  return seconds_a_call(threads, calls, [&](int thread, std::uint64_t count) {
    const auto row = static_cast<std::uint32_t>(thread) % Matrix::kRows;
    for (std::uint64_t i = 0; i < count; ++i) increase(row);
    sync();
  });
}

/// By domains, by one server, and natively: against which of the last two, or the second against
/// the third.
class RowSides {
 public:
  explicit RowSides(Context& context, const char* nvm)
      : context_(context),
        by_domain_(context, Place::kMemory, {.durability = ObjectDurability::kRelaxed}, nvm),
        by_one_(context, Place::kMemory, {.durability = ObjectDurability::kRelaxed, .servers = 1},
                nvm) {}

  double by_domain_s() { return stored_s(by_domain_, by_domain_calls_); }
  double by_one_s() { return stored_s(by_one_, by_one_calls_); }
  double native_s() {
    native_calls_ += calls() / Matrix::kRows;
    return row_incs_s(kThreads, calls(), [&](std::uint32_t row) { native_.inc(row); }, [] {});
  }
  void check() {
    check_cells("native", native_.matrix, both(native_calls_));
    by_domain_.reopen();
    by_one_.reopen();
    check_cells("perdura, by domain", by_domain_.get().read<&Matrix::all>(),
                both(by_domain_calls_));
    check_cells("perdura, by one server", by_one_.get().read<&Matrix::all>(), both(by_one_calls_));
  }

 private:
  static constexpr int kThreads = 8;
  static std::array<std::uint64_t, Matrix::kRows> both(std::uint64_t calls) {
    return {calls, calls};
  }
  std::uint64_t calls() const { return calls_of(context_); }
  double stored_s(StoredObject<RowMatrix>& stored, std::uint64_t& count) {
    Object<RowMatrix>& object = stored.get();
    count += calls() / Matrix::kRows;
    return row_incs_s(
        kThreads, calls(), [&](std::uint32_t row) { object.defer<&Matrix::row_inc>(row, 1); },
        [&] { object.sync(); });
  }

  Context& context_;
  StoredObject<RowMatrix> by_domain_, by_one_;
  NativeRows native_;
  std::uint64_t by_domain_calls_ = 0, by_one_calls_ = 0, native_calls_ = 0;
};

Measured compare_rows(Context& context, double (RowSides::*subject)(), double (RowSides::*base)(),
                      const char* nvm = "") {
  RowSides sides(context, nvm);
  const Paired pair = paired(
      rounds_of(context), [&] { return (sides.*subject)(); }, [&] { return (sides.*base)(); });
  sides.check();
  return {1 / pair.ratio, describe(pair)};
}

// --- figures -------------------------------------------------------------------------------------

void measure_checkpoints(Context& context) {
  const std::uint64_t on_disk = context.scale<std::uint64_t>(2000, 200);
  const Variant hybrid{Place::kMemory, kHybrid};
  const Variant nvram{Place::kMemory, kEachCheckpointed, calls_of(context) / 4};
  const Variant ssd{Place::kDisk, kEachCheckpointed, on_disk};
  context.measure("hybrid", "ratio", Reach::at_least(0.91),
                  [&] { return worst_against_native<Unmerged>(context, kHybrid, {1, 2, 8}); });
  context.measure("hybrid_slow", "ratio", Reach::none(), [&] {
    return worst_against_native<Unmerged>(context, kHybrid, {1, 2, 8}, kSlowNvm);
  });
  context.measure("nvram", "ratio", Reach::at_least(2.1),
                  [&] { return compare_variants(context, hybrid, nvram); });
  context.measure("nvram_slow", "ratio", Reach::none(),
                  [&] { return compare_variants(context, hybrid.slow(), nvram.slow()); });
  context.measure("ssd", "ratio", Reach::at_least(2.6),
                  [&] { return compare_variants(context, nvram, ssd); });
  context.measure("cow", "ratio", Reach::none(),
                  [&] { return compare_copied<CowMatrix>(context, 1000); });
  context.measure("cow_each", "ratio", Reach::at_least(1.5),
                  [&] { return compare_copied<CowMatrix>(context, 1); });
  context.measure("masked", "ratio", Reach::none(),
                  [&] { return compare_copied<MaskedMatrix>(context, 1000); });
  context.measure("masked_each", "ratio", Reach::none(),
                  [&] { return compare_copied<MaskedMatrix>(context, 1); });
}

void measure_deferring(Context& context) {
  const std::array<std::pair<int, Reach>, 4> wanted = {{{1, Reach::at_least(0.9)},
                                                        {2, Reach::at_least(1.5)},
                                                        {8, Reach::none()},
                                                        {60, Reach::at_least(1.1)}}};
  const auto simpo = [&](const std::string& key, int threads, Reach reach, const char* nvm) {
    context.measure(key, "ratio", reach, [&context, threads, nvm] {
      return worst_against_native<Unmerged>(context, {}, {threads}, nvm);
    });
  };
  for (const auto& [threads, reach] : wanted) {
    simpo(fmt::format("simpo_{}", threads), threads, reach, "");
    simpo(fmt::format("simpo_{}_slow", threads), threads, Reach::none(), kSlowNvm);
  }
  context.measure("merged", "ratio", Reach::at_least(10),
                  [&] { return worst_against_native<Merged>(context, {}, {2, 8, 60}); });
  context.measure("merged_slow", "ratio", Reach::none(),
                  [&] { return worst_against_native<Merged>(context, {}, {2, 8, 60}, kSlowNvm); });
  context.measure("m_server_fc", "ratio", Reach::at_least(1.4), [&] {
    return compare_rows(context, &RowSides::by_domain_s, &RowSides::by_one_s);
  });
  context.measure("m_server_fc_slow", "ratio", Reach::none(), [&] {
    return compare_rows(context, &RowSides::by_domain_s, &RowSides::by_one_s, kSlowNvm);
  });
  context.measure("m_server", "ratio", Reach::at_least(1.2), [&] {
    return compare_rows(context, &RowSides::by_domain_s, &RowSides::native_s);
  });
  context.measure("fc", "ratio", Reach::none(),
                  [&] { return compare_rows(context, &RowSides::by_one_s, &RowSides::native_s); });
}

void measure_grouping(Context& context) {
  const auto durable = [](ObjectDurability how) {
    return Variant{Place::kMemory, {.durability = how}};
  };
  const Variant group = durable(ObjectDurability::kInstants);
  const auto against = [&](const char* key, ObjectDurability how, Reach reach) {
    context.measure(key, "ratio", reach,
                    [&] { return compare_variants(context, group, durable(how), 1001); });
    context.measure(fmt::format("{}_slow", key), "ratio", Reach::none(), [&] {
      return compare_variants(context, group.slow(), durable(how).slow(), 1001);
    });
  };
  against("group_no", ObjectDurability::kRelaxed, Reach::at_least(0.95));
  against("group_all", ObjectDurability::kEach, Reach::at_least(1.2));
  against("group_two", ObjectDurability::kTwoSteps, Reach::none());
  for (const std::uint64_t deferred : {1000u, 100u, 10u, 1u})
    context.measure(fmt::format("mix_{}", deferred), "ratio", Reach::none(), [&] {
      const Load load{2, calls_of(context), deferred + 1};
      const Paired pair = against_native<Unmerged>(context, {}, load);
      return Measured{1 / pair.ratio, describe(pair)};
    });
}

void run(Context& context) {
  pin_thread(kMutatorCpu);
  measure_checkpoints(context);
  measure_deferring(context);
  measure_grouping(context);
  measure_recovery(context);
  measure_shared(context);
  measure_pools(context);
  measure_structures(context);
  measure_floors(context);
  measure_dual_stores(context);
  measure_peers(context);
}

const Registration kThis("object",
                         "objects whose calls are logged ÷ without persistence, and peers", run,
                         plot_object);

}  // namespace
}  // namespace perdura::bench
