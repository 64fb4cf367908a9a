// Figures of the benchmark `object` against transactions: ours, and libpmemobj's on the same tmpfs,
// told that it is persistent memory, as bench/pmem_pool.hpp has it.
#include <libpmemobj.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <perdura/transaction.hpp>

#include "object_matrix.hpp"
#include "object_parts.hpp"
#include "stores.hpp"

namespace perdura::bench {
namespace {

constexpr std::uint64_t kGroup = 1000;          ///< calls in one transaction
constexpr std::uint64_t kCallsAnInstant = 101;  ///< 100 are deferred

Options store_options() {
  Options options;
  options.region_limit_bytes = kGiB;
  return options;
}

/// The matrix in a store of ours. A call reads and writes all of it at once: nothing costs less.
class TransactionMatrix {
 public:
  explicit TransactionMatrix(Context& context)
      : context_(context),
        uri_(context.uri(Place::kMemory, "matrix")),
        store_(open_store(uri_, store_options())),
        matrix_(&store_.root<Matrix>("matrix")) {
    warm_up(store_);
  }
  ~TransactionMatrix() {
    store_.close();
    context_.remove(uri_);
  }
  TransactionMatrix(const TransactionMatrix&) = delete;

  /// So many calls in one transaction.
  void all_inc(std::uint64_t calls) {
    atomically(store_, [&](Transaction& tx) {
      for (std::uint64_t i = 0; i < calls; ++i) {
        Matrix changed = tx.read(*matrix_);
        changed.all_inc(1);
        tx.write(*matrix_, changed);
      }
    });
    calls_ += calls;
  }
  void check() {
    store_.close();
    store_ = open_store(uri_, store_options());
    check_cells("transactions", store_.root<Matrix>("matrix"), {calls_, calls_});
  }

 private:
  Context& context_;
  const std::string uri_;
  Store store_;
  Matrix* matrix_;
  std::uint64_t calls_ = 0;
};

/// In a pool of libpmemobj.
class PmemMatrix {
 public:
  explicit PmemMatrix(Context& context)
      : context_(context), path_(context.path(Place::kMemory, "matrix-pmem")) {
    setenv("PMEM_IS_PMEM_FORCE", "1", 1);
    int touch_pages = 1;
    if (pmemobj_ctl_set(nullptr, "prefault.at_create", &touch_pages) != 0) fail();
    use(pmemobj_create(path_.c_str(), kLayout, 64 * kMiB, 0600));
    auto no_statistics = POBJ_STATS_DISABLED;
    if (pmemobj_ctl_set(pool_, "stats.enabled", &no_statistics) != 0) fail();
  }
  ~PmemMatrix() {
    pmemobj_close(pool_);
    context_.remove(path_);
  }
  PmemMatrix(const PmemMatrix&) = delete;

  void all_inc() {
    volatile bool failed = false;  // it is left by longjmp
    TX_BEGIN(pool_) {
      pmemobj_tx_add_range_direct(matrix_, sizeof *matrix_);
      matrix_->all_inc(1);
    }
    TX_ONABORT { failed = true; }
    TX_END
    if (failed) fail();
    ++calls_;
  }
  void check() {
    pmemobj_close(pool_);
    use(pmemobj_open(path_.c_str(), kLayout));
    check_cells("libpmemobj", *matrix_, {calls_, calls_});
  }

 private:
  static constexpr char kLayout[] = "matrix";
  [[noreturn]] static void fail() { throw std::runtime_error(pmemobj_errormsg()); }
  void use(PMEMobjpool* pool) {
    if (pool == nullptr) fail();
    pool_ = pool;
    matrix_ = static_cast<Matrix*>(pmemobj_direct(pmemobj_root(pool_, sizeof(Matrix))));
  }

  Context& context_;
  const std::string path_;
  PMEMobjpool* pool_ = nullptr;
  Matrix* matrix_ = nullptr;
  std::uint64_t calls_ = 0;
};

Json describe(const Paired& pair) {
  return {{"throughput", 1 / pair.ratio},
          {"subject_ns", pair.subject * 1e9},
          {"base_ns", pair.base * 1e9}};
}

/// Groups of calls, unmerged and merged, ÷ a transaction for each call. The figure is the unmerged.
template <class Peer>
Measured compare_each(Context& context, Peer& peer, const std::function<void()>& all_inc) {
  const auto calls = context.scale<std::uint64_t>(40, 8) * kCallsAnInstant * 50;
  const auto peer_calls = context.scale<std::uint64_t>(100'000, 20'000);
  const auto peer_s = [&] {
    return timed_s([&] {
             for (std::uint64_t i = 0; i < peer_calls; ++i) all_inc();
           }) /
           static_cast<double>(peer_calls);
  };
  Measured measured;
  const auto against = [&]<class State>(const char* name, State) {
    StoredObject<State> stored(context, Place::kMemory, {});
    CountedMatrix subject(stored.get());
    const Paired pair =
        paired(context.scale(9, 5), [&] { return subject.run(1, calls, kCallsAnInstant); }, peer_s);
    stored.reopen();
    subject.check("perdura");
    measured.detail[name] = describe(pair);
    return 1 / pair.ratio;
  };
  measured.value = against("unmerged", Unmerged{});
  against("merged", Merged{});
  peer.check();
  return measured;
}

/// Until a group of calls is durable, if they do nothing, ÷ the same calls in one transaction.
Measured compare_abort_window(Context& context) {
  const auto groups = context.scale<std::uint64_t>(1000, 200);
  StoredObject<Idle> stored(context, Place::kMemory, {});
  TransactionMatrix peer(context);
  const auto each_s = [&](const auto& group) {
    return timed_s([&] {
             for (std::uint64_t i = 0; i < groups; ++i) group();
           }) /
           static_cast<double>(groups);
  };
  const Paired pair = paired(
      context.scale(9, 5),
      [&] {
        Object<Idle>& object = stored.get();
        return each_s([&] {
          for (std::uint64_t i = 0; i < kGroup - 1; ++i) object.defer<&Idle::pass>(1);
          object.call<&Idle::pass_told>(1);
        });
      },
      [&] { return each_s([&] { peer.all_inc(kGroup); }); });
  peer.check();
  return {pair.ratio, {{"log_us", pair.subject * 1e6}, {"transaction_us", pair.base * 1e6}}};
}

// --- on a disk -----------------------------------------------------------------------------------

constexpr int kDiskThreads = 8;

}  // namespace

/// A line of its own for each thread, so that transactions do not meet.
struct Tickets {
  struct alignas(kLineBytes) Row {
    std::uint64_t sold;
  };
  Row rows[kDiskThreads];

  std::uint64_t sell(std::uint32_t row) noexcept { return ++rows[row].sold; }
  std::uint64_t sold(std::uint32_t row) const noexcept { return rows[row].sold; }
  static Domain domain(std::uint32_t row) noexcept { return Domain(row); }
};

}  // namespace perdura::bench

template <>
struct perdura::Methods<perdura::bench::Tickets>
    : perdura::MethodList<
          perdura::Instant<&perdura::bench::Tickets::sell, &perdura::bench::Tickets::domain>> {};

namespace perdura::bench {
namespace {

/// sell(row) in so many threads, each durable before the next; seconds a call. Threads that wait
/// for a disk are left to the system.
double sell_s(Context& context, std::vector<std::uint64_t>& sold,
              const std::function<std::uint64_t(std::uint32_t)>& sell) {
  const double wanted_s = context.scale(2.0, 0.5);
  std::atomic<std::uint64_t> calls{0};
  const double begin_s = now_s();
  in_threads(
      kDiskThreads,
      [&](int thread) {
        const auto row = static_cast<std::uint32_t>(thread);
        while (now_s() - begin_s < wanted_s) {
          if (sell(row) != ++sold[row]) throw std::runtime_error("a ticket was sold twice");
          calls.fetch_add(1, std::memory_order_relaxed);
        }
      },
      Pinned::kNo);
  return (now_s() - begin_s) / static_cast<double>(calls);
}

Measured compare_disk(Context& context) {
  StoredObject<Tickets> stored(context, Place::kDisk, {});
  const std::string uri = context.uri(Place::kDisk, "tickets");
  std::vector<std::uint64_t> sold(kDiskThreads), sold_by_peer(kDiskThreads);
  Paired pair;
  {
    Store store = open_store(uri, store_options(), kAnyCpu);
    auto& tickets = store.root<Tickets>("tickets");
    warm_up(store);
    pair = paired(
        context.scale(7, 3),
        [&] {
          return sell_s(context, sold,
                        [&](std::uint32_t row) { return stored.get().call<&Tickets::sell>(row); });
        },
        [&] {
          return sell_s(context, sold_by_peer, [&](std::uint32_t row) {
            return atomically(store, [&](Transaction& tx) {
              const std::uint64_t next = tx.read(tickets.rows[row].sold) + 1;
              tx.write(tickets.rows[row].sold, next);
              return next;
            });
          });
        });
    store.close();
  }
  stored.reopen();
  Store store = open_store(uri, store_options(), kAnyCpu);
  const auto& tickets = store.root<Tickets>("tickets");
  for (std::uint32_t row = 0; row < kDiskThreads; ++row)
    if (stored.get().read<&Tickets::sold>(row) != sold[row] ||
        tickets.rows[row].sold != sold_by_peer[row])
      throw std::runtime_error("tickets were lost");
  store.close();
  context.remove(uri);
  return {1 / pair.ratio,
          {{"throughput", 1 / pair.ratio},
           {"instants_per_s", 1 / pair.subject},
           {"transactions_per_s", 1 / pair.base}}};
}

}  // namespace

void measure_peers(Context& context) {
  context.measure("abort_window", "ratio", Reach::at_most(0.25),
                  [&] { return compare_abort_window(context); });
  context.measure("transaction", "ratio", Reach::at_least(5), [&] {
    TransactionMatrix peer(context);
    return compare_each(context, peer, [&] { peer.all_inc(1); });
  });
  context.measure("libpmemobj", "ratio", Reach::at_least(3), [&] {
    PmemMatrix peer(context);
    return compare_each(context, peer, [&] { peer.all_inc(); });
  });
  context.measure("file_8", "ratio", Reach::at_least(1), [&] { return compare_disk(context); });
}

}  // namespace perdura::bench
