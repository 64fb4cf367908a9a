// perdura-demo-worker SIDE STORE INTERVAL_MS PAGE_TRACKER SEED VERIFY_FOUND VERIFY_REPORTS
// CORPUS_FD PROGRESS_FD ANSWERS_FD: builds the index from wherever the store left off, and answers
// the queries. Process starts it, with WorkerOptions as arguments.
#include "worker.hpp"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <perdura/perdura.hpp>

#include "containers.hpp"
#include "corpus.hpp"
#include "difference.hpp"
#include "index.hpp"
#include "progress.hpp"
#include "queries.hpp"

namespace demo {

namespace {

std::uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

class Worker {
 public:
  explicit Worker(const WorkerOptions& options)
      : options_(options),
        corpus_memory_(options.corpus_fd),
        progress_memory_(options.progress_fd),
        corpus_(corpus_memory_.bytes()),
        progress_(*reinterpret_cast<Progress*>(progress_memory_.bytes().data())) {}

  void run() {
    switch (options_.side) {
      case Side::kOrdinary:
        return run_ordinary();
      case Side::kReporting:
        return run_durable<ReportingMemory>(perdura::Tracking::kReported);
      case Side::kPages:
        return run_durable<DurableMemory>(options_.page_tracker);
      case Side::kCompiled:
        return run_durable<DurableMemory>(perdura::Tracking::kCompiled);
    }
  }

 private:
  void run_ordinary() {
    progress_.phase = Phase::kOpening;
    const auto index = std::make_unique<Index<PlainMemory>>();
    build(*index, [] { return 0; }, [](auto&) {}, [] {});
    answer(*index);
  }

  template <class Memory>
  void run_durable(perdura::Tracking tracking) {
    perdura::Options store_options;
    store_options.tracking = tracking;
    store_options.verify_reports = options_.side != Side::kPages && options_.verify_reports;
    progress_.phase = Phase::kOpening;
    const std::uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    perdura::Store store = perdura::Store::open(options_.store, store_options);
    auto& index = store.root<Index<Memory>>("index");
    progress_.open_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
    progress_.resumed_version = store.durable_version();
    if (options_.verify_found) verify(store, index);

    store.checkpoint_every(std::chrono::milliseconds(options_.interval_ms));
    build(
        index, [&] { return store.operation(); },
        [&](Progress& progress) { progress.durable_version = store.durable_version(); },
        [&] { store.checkpoint(); });
    progress_.statistics = store.statistics();
    if (const auto missed = store.unreported_stores(); !missed.empty())
      throw std::runtime_error("a store was not reported: " + missed.front());
    check_heap(store);
    answer(index);
    store.close();
  }

  /// `begin_operation` gives a guard that holds checkpoints off; `report` adds to the progress;
  /// `finish` makes the whole index durable.
  template <class TheIndex, class BeginOperation, class Report, class Finish>
  void build(TheIndex& index, BeginOperation begin_operation, Report report, Finish finish) {
    publish_position(index);
    progress_.resumed_document = progress_.document;
    progress_.resumed_bytes = progress_.bytes;
    progress_.phase = Phase::kIndexing;
    const std::uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    const std::uint64_t start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    while (!index.covers(corpus_)) {
      {
        [[maybe_unused]] auto operation = begin_operation();
        index.step(corpus_);
      }
      publish_position(index);
      report(progress_);
    }
    finish();
    progress_.build_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
    progress_.build_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;
  }

  /// What was found is what the steps up to its position make.
  template <class Memory>
  void verify(const perdura::Store& store, const Index<Memory>& found) {
    Index<PlainMemory> expected;
    const auto position = [](const auto& index) {
      return std::pair<std::uint64_t, std::uint64_t>(index.position().document,
                                                     index.position().offset);
    };
    while (!expected.covers(corpus_) && position(expected) < position(found))
      expected.step(corpus_);
    if (position(expected) != position(found))
      throw std::runtime_error("the store was left within a step");
    if (const std::string wrong = difference(found, expected); !wrong.empty())
      throw std::runtime_error("the index that was found is not whole: " + wrong);
    check_heap(store);
  }

  void check_heap(const perdura::Store& store) {
    const perdura::HeapAudit audit = store.audit();
    if (!audit.clean) throw std::runtime_error("the heap is damaged: " + audit.problem);
    progress_.heap_blocks = audit.live_blocks;
    progress_.heap_bytes = audit.live_bytes;
  }

  template <class TheIndex>
  void publish_position(const TheIndex& index) {
    const std::uint64_t document = index.position().document;
    const std::uint64_t offset = index.position().offset;
    progress_.document.store(document, std::memory_order_relaxed);
    progress_.bytes.store(corpus_.bytes_before(document) + offset, std::memory_order_relaxed);
  }

  template <class Memory>
  void answer(const Index<Memory>& index) {
    progress_.phase = Phase::kAnswering;
    const Queries queries = choose_queries(corpus_, options_.seed);
    const std::uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    const std::vector<std::string> lines = Answerer<Memory>(index).answer(queries);
    progress_.answer_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
    FILE* out = fdopen(options_.answers_fd, "w");
    for (const std::string& line : lines) fmt::print(out, "{}\n", line);
    std::fclose(out);
    progress_.phase = Phase::kDone;
  }

  const WorkerOptions& options_;
  SharedMemory corpus_memory_, progress_memory_;
  Corpus corpus_;
  Progress& progress_;
};

WorkerOptions options_of(const std::vector<std::string>& arguments) {
  if (arguments.size() != 10)
    throw std::runtime_error("perdura-demo starts this program; start that one");
  const auto number = [&](std::size_t at) { return std::stoull(arguments[at]); };
  const auto descriptor = [&](std::size_t at) { return std::stoi(arguments[at]); };
  const auto side = std::find(kSideNames.begin(), kSideNames.end(), arguments[0]);
  if (side == kSideNames.end()) throw std::runtime_error("there is no side " + arguments[0]);
  return {.side = static_cast<Side>(side - kSideNames.begin()),
          .store = arguments[1],
          .interval_ms = static_cast<std::uint32_t>(number(2)),
          .page_tracker = static_cast<perdura::Tracking>(number(3)),
          .seed = number(4),
          .verify_found = number(5) != 0,
          .verify_reports = number(6) != 0,
          .corpus_fd = descriptor(7),
          .progress_fd = descriptor(8),
          .answers_fd = descriptor(9)};
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // no worker outlives its supervisor
  signal(SIGINT, SIG_IGN);           // a terminal's interrupt is the supervisor's to handle
  try {
    const demo::WorkerOptions options = demo::options_of({argv + 1, argv + argc});
    demo::Worker worker(options);
    worker.run();
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "perdura-demo-worker: {}\n", failure.what());
    return 1;
  }
}
