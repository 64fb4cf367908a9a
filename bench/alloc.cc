// The heap's allocator against glibc's: blocks of 16 B to 8 KiB, small ones more often, each
// written to once. Random replacement in an array of live blocks, with one thread and two; and one
// thread that allocates what another frees.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "harness.hpp"
#include "stores.hpp"

namespace perdura::bench {
namespace {

constexpr std::size_t kLive = 32 * 1024;    ///< blocks a thread holds
constexpr std::size_t kSteps = 256 * 1024;  ///< of a prepared sequence, a power of two
constexpr std::size_t kSmallest = 16, kLargest = 8 * kKiB;

struct Step {
  std::uint32_t slot;
  std::uint32_t size;
};

/// Each power of two half as often as the one before it, any size in between.
std::vector<Step> prepare(std::uint64_t seed) {
  Random random(seed);
  std::vector<Step> steps(kSteps);
  for (Step& step : steps) {
    const unsigned octave = static_cast<unsigned>(std::countr_zero(random.next() | 1u << 8));
    const std::size_t size = (kSmallest << octave) + random.below(kSmallest << octave);
    step = {static_cast<std::uint32_t>(random.below(kLive)),
            static_cast<std::uint32_t>(std::min(size, kLargest))};
  }
  return steps;
}

struct Glibc {
  struct Step {
    void* allocate(std::size_t size) const { return std::malloc(size); }
    void deallocate(void* block) const { std::free(block); }
  };
  Step begin() { return {}; }
};

/// An operation for each step, that is for each pair of an allocation and a deallocation.
struct Heap {
  Store& store;
  Operation begin() { return store.operation(); }
};

/// Replaces blocks of its array. Blocks stay from one segment to the next.
class Replacer {
 public:
  explicit Replacer(std::uint64_t seed) : steps_(prepare(seed)), live_(kLive) {}

  template <class Source>
  void run(Source& source, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const Step step = steps_[at_++ & (kSteps - 1)];
      const auto operation = source.begin();
      if (live_[step.slot] != nullptr) operation.deallocate(live_[step.slot]);
      void* block = operation.allocate(step.size);
      std::memcpy(block, &step, sizeof(step));
      live_[step.slot] = block;
    }
  }

 private:
  std::vector<Step> steps_;
  std::vector<void*> live_;
  std::size_t at_ = 0;
};

/// Runs work(0) on CPU 0 and, with two threads, work(1) on CPU 1; seconds from start to end.
template <class Work>
double on_threads_s(int threads, Work&& work) {
  if (threads == 1) return timed_s([&] { work(0); });
  std::barrier start(2), end(2);
  std::jthread other([&] {
    pin_thread(1);
    start.arrive_and_wait();
    work(1);
    end.arrive_and_wait();
  });
  start.arrive_and_wait();
  return timed_s([&] {
    work(0);
    end.arrive_and_wait();
  });
}

/// A scenario on one allocator: run(count) returns the seconds that `count` blocks took.
template <class Source>
class Replacement {
 public:
  Replacement(Source source, int threads) : source_(source), threads_(threads) {
    for (int t = 0; t < threads; ++t) replacers_.emplace_back(31 + t);
    run(4 * kLive);  // fills the arrays
  }
  double run(std::size_t count) {
    return on_threads_s(
        threads_, [&](int t) { replacers_[static_cast<std::size_t>(t)].run(source_, count); });
  }

 private:
  Source source_;
  int threads_;
  std::vector<Replacer> replacers_;
};

/// Waits for the other thread, which may not be running when other programs are.
class Spin {
 public:
  void wait() {
    if (++turns_ % 256 == 0) std::this_thread::yield();
  }

 private:
  unsigned turns_ = 0;
};

template <class Source>
class Handover {
 public:
  explicit Handover(Source source) : source_(source), steps_(prepare(77)), ring_(kRing) {
    run(4 * kLive);
  }
  double run(std::size_t count) {
    return on_threads_s(2, [&](int t) { t == 0 ? produce(count) : consume(count); });
  }

 private:
  static constexpr std::size_t kRing = 1024;

  void produce(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const Step step = steps_[i & (kSteps - 1)];
      void* block;
      {
        const auto operation = source_.begin();
        block = operation.allocate(step.size);
        std::memcpy(block, &step, sizeof(step));
      }
      std::atomic_ref slot(ring_[i % kRing]);
      for (Spin spin; slot.load(std::memory_order_acquire) != nullptr;) spin.wait();
      slot.store(block, std::memory_order_release);
    }
  }
  void consume(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::atomic_ref slot(ring_[i % kRing]);
      void* block;
      for (Spin spin; (block = slot.load(std::memory_order_acquire)) == nullptr;) spin.wait();
      slot.store(nullptr, std::memory_order_release);
      const auto operation = source_.begin();
      operation.deallocate(block);
    }
  }

  Source source_;
  std::vector<Step> steps_;
  std::vector<void*> ring_;
};

/// Throughput ÷ glibc's.
template <class Ours, class Theirs>
Json compare(Context& context, Ours&& ours, Theirs&& theirs) {
  const double once_s = theirs.run(kSteps);
  const double wanted_s = context.scale(0.4, 0.15);
  const auto count =
      static_cast<std::size_t>(std::max(1.0, wanted_s / once_s) * static_cast<double>(kSteps));
  const Paired result = paired(
      context.scale(15, 7), [&] { return theirs.run(count); }, [&] { return ours.run(count); });
  const auto mops = [&](double seconds) { return static_cast<double>(count) / seconds / 1e6; };
  return {{"ratio", result.ratio},
          {"glibc_mops_a_thread", mops(result.subject)},
          {"perdura_mops_a_thread", mops(result.base)}};
}

struct Variant {
  Tracking tracking;
  bool checkpoints;  ///< every 64 ms
};

Json scenarios(Context& context, Variant variant) {
  Json result;
  const auto with_store = [&](const char* name, auto&& body) {
    Options options;
    options.tracking = variant.tracking;
    const std::string uri = context.uri(Place::kMemory, "heap");
    {
      Store store = open_store(uri, options);
      if (variant.checkpoints) store.checkpoint_every(std::chrono::milliseconds(64));
      result[name] = body(Heap{store});
      store.checkpoint_every(std::chrono::milliseconds(0));
    }
    context.remove(uri);
  };
  with_store("one_thread", [&](Heap heap) {
    return compare(context, Replacement<Heap>(heap, 1), Replacement<Glibc>({}, 1));
  });
  with_store("two_threads", [&](Heap heap) {
    return compare(context, Replacement<Heap>(heap, 2), Replacement<Glibc>({}, 2));
  });
  with_store("handover", [&](Heap heap) {
    return compare(context, Handover<Heap>(heap), Handover<Glibc>({}));
  });
  return result;
}

void run(Context& context) {
  pin_thread(kMutatorCpu);
  context.measure("glibc", "ratio", Reach::at_least(0.8), [&] {
    const Json userfault = scenarios(context, {Tracking::kUserfault, false});
    Measured result;
    result.value = std::numeric_limits<double>::infinity();
    for (const Json& scenario : userfault)
      result.value = std::min(result.value, scenario["ratio"].get<double>());
    result.detail["userfault"] = userfault;
    if (!context.quick()) {
      result.detail["userfault_64ms"] = scenarios(context, {Tracking::kUserfault, true});
      result.detail["reported_64ms"] = scenarios(context, {Tracking::kReported, true});
    }
    return result;
  });
}

const Registration kThis("alloc", "allocation throughput ÷ glibc's", run);

}  // namespace
}  // namespace perdura::bench
