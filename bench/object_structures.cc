// Figures 18 and 19 of the benchmark `object`: structures of 100,000 elements of which methods are
// drawn at random, and instants of one length.
#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <perdura/structures/array.hpp>
#include <perdura/structures/graph.hpp>
#include <perdura/structures/heap.hpp>
#include <perdura/structures/queue.hpp>
#include <perdura/structures/stack.hpp>
#include <perdura/structures/tree.hpp>

#include "object_matrix.hpp"
#include "object_parts.hpp"

namespace perdura::bench {

/// So many steps, none of which can begin before the one before has ended.
struct Worker {
  std::uint64_t value;
  std::uint64_t calls;
  std::uint64_t work(std::uint64_t steps) noexcept {
    for (std::uint64_t i = 0; i < steps; ++i) value = value * 6364136223846793005u + 1;
    return ++calls;
  }
  std::uint64_t called() const noexcept { return calls; }
};

}  // namespace perdura::bench

template <>
struct perdura::Methods<perdura::bench::Worker>
    : perdura::MethodList<perdura::Instant<&perdura::bench::Worker::work>> {};

namespace perdura::bench {
namespace {

constexpr std::uint64_t kElements = 100'000;
constexpr ObjectOptions kHybridOptions{.durability = ObjectDurability::kRelaxed, .servers = 0};

/// What threads put in, and took out.
struct Tally {
  std::atomic<std::uint64_t> in{0}, out{0};
};
[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

// Each case begins an object, native or ours, calls a drawn method of it, and says whether it holds
// what was called in the end. kShort: without the methods that visit all elements.

struct ArrayCalls {
  using State = structures::Array<std::int32_t, kElements>;
  std::vector<std::int32_t> copy = std::vector<std::int32_t>(kElements);

  static void begin(auto&, Tally&) {}
  void call(auto& object, Random& random, Tally&) {
    switch (random.below(3)) {
      case 0:
        return object.template defer<&State::increase_all>(1);
      case 1:
        return object.template defer<&State::zero>();
      default:
        object.template read<&State::snapshot>(std::span(copy));
    }
  }
  static void check(auto& object, const Tally&) {
    std::vector<std::int32_t> all(kElements);
    object.template read<&State::snapshot>(std::span(all));
    for (const std::int32_t each : all)
      if (each != all[0]) fail("elements of an array differ");
  }
};

struct QueueCalls {
  using State = structures::Queue<std::uint64_t, kElements>;

  static void begin(auto& object, Tally& tally) {
    for (; tally.in < kElements / 2; ++tally.in) object.template defer<&State::enqueue>(tally.in);
  }
  void call(auto& object, Random& random, Tally& tally) {
    switch (random.below(4)) {
      case 0:
        ++tally.in;
        return object.template defer<&State::enqueue>(random.next());
      case 1:
        tally.out += object.template call<&State::dequeue>() ? 1u : 0u;
        return;
      case 2:
        object.template read<&State::is_empty>();
        return;
      default:
        object.template read<&State::is_full>();
    }
  }
  static void check(auto& object, const Tally& tally) {
    if (object.template read<&State::size>() + object.template read<&State::dropped>() +
            tally.out !=
        tally.in)
      fail("items of a queue were lost");
  }
};

struct StackCalls {
  using State = structures::Stack<std::uint64_t, kElements>;

  static void begin(auto& object, Tally& tally) {
    for (; tally.in < kElements / 2; ++tally.in) object.template defer<&State::push>(tally.in);
  }
  void call(auto& object, Random& random, Tally& tally) {
    switch (random.below(4)) {
      case 0:
        ++tally.in;
        return object.template defer<&State::push>(random.next());
      case 1:
        tally.out += object.template call<&State::pop>() ? 1u : 0u;
        return;
      case 2:
        object.template read<&State::peek>();
        return;
      default:
        object.template read<&State::is_empty>();
    }
  }
  static void check(auto& object, const Tally& tally) {
    if (object.template read<&State::size>() + object.template read<&State::dropped>() +
            tally.out !=
        tally.in)
      fail("items of a stack were lost");
  }
};

template <bool kShort>
struct HeapCalls {
  using State = structures::Heap<std::uint64_t, kElements>;
  std::vector<std::uint64_t> copy = std::vector<std::uint64_t>(kElements);

  static void begin(auto& object, Tally& tally) {
    for (; tally.in < kElements / 2; ++tally.in)
      object.template defer<&State::en_heap>(scatter(tally.in));
  }
  void call(auto& object, Random& random, Tally& tally) {
    switch (random.below(kShort ? 3 : 4)) {
      case 0:
        ++tally.in;
        return object.template defer<&State::en_heap>(random.next());
      case 1:
        tally.out += object.template call<&State::de_heap>() ? 1u : 0u;
        return;
      case 2:
        object.template read<&State::get_num_elements>();
        return;
      default:
        object.template read<&State::snapshot>(std::span(copy));
    }
  }
  static void check(auto& object, const Tally& tally) {
    if (object.template read<&State::get_num_elements>() + object.template read<&State::dropped>() +
            tally.out !=
        tally.in)
      fail("items of a heap were lost");
    std::vector<std::uint64_t> all(kElements);
    all.resize(object.template read<&State::snapshot>(std::span(all)));
    if (!std::is_heap(all.begin(), all.end())) fail("a heap is none");
  }
};

template <bool kShort>
struct TreeCalls {
  using State = structures::Tree<std::uint64_t, kElements>;

  static void begin(auto& object, Tally&) {
    for (std::uint64_t i = 0; i < kElements; i += 2)
      object.template defer<&State::insert_element>(scatter(i) % kElements);
  }
  void call(auto& object, Random& random, Tally&) {
    const std::uint64_t key = random.below(kElements);
    switch (random.below(kShort ? 3 : 4)) {
      case 0:
        return object.template defer<&State::insert_element>(key);
      case 1:
        return object.template defer<&State::delete_element>(key);
      case 2:
        object.template read<&State::search_element>(key);
        return;
      default:
        object.template defer<&State::balance>();
    }
  }
  static void check(auto& object, const Tally&) {
    std::uint64_t found = 0;
    for (std::uint64_t key = 0; key < kElements; ++key)
      found += object.template read<&State::search_element>(key) ? 1u : 0u;
    if (found != object.template read<&State::size>()) fail("keys of a tree were lost");
  }
};

struct GraphCalls {
  using State = structures::Graph<std::uint32_t, 1000, kElements / 1000>;

  static void begin(auto& object, Tally&) {
    for (std::uint64_t i = 0; i < kElements / 2; ++i)
      object.template defer<&State::joinwt>(vertex(scatter(i)), vertex(scatter(i + kElements)), 1u);
  }
  void call(auto& object, Random& random, Tally&) {
    const std::uint32_t from = vertex(random.next()), to = vertex(random.next());
    switch (random.below(3)) {
      case 0:
        return object.template defer<&State::joinwt>(from, to, from + to);
      case 1:
        return object.template defer<&State::removewt>(from, to);
      default:
        object.template read<&State::adjacent>(from, to);
    }
  }
  static void check(auto& object, const Tally&) {
    for (std::uint32_t from = 0; from < State::kVertices; from += 10) {
      std::uint32_t found = 0;
      for (std::uint32_t to = 0; to < State::kVertices; ++to)
        found += object.template read<&State::adjacent>(from, to) ? 1u : 0u;
      if (found != object.template read<&State::degree>(from)) fail("edges of a graph were lost");
    }
  }
  static std::uint32_t vertex(std::uint64_t drawn) {
    return static_cast<std::uint32_t>(drawn % State::kVertices);
  }
};

/// A side of a comparison.
template <class Calls, class Target>
class Side {
 public:
  explicit Side(Target& target) : target_(target) { Calls::begin(target_, tally_); }
  /// Seconds a call.
  double run(int threads, std::uint64_t calls) {
    seed_ += static_cast<std::uint64_t>(threads);
    return seconds_a_call(threads, calls, [&](int thread, std::uint64_t count) {
      Random random(seed_ + static_cast<std::uint64_t>(thread));
      Calls drawn;
      for (std::uint64_t i = 0; i < count; ++i) drawn.call(target_, random, tally_);
      target_.sync();
    });
  }
  void check() { Calls::check(target_, tally_); }

 private:
  Target& target_;
  Tally tally_;
  std::uint64_t seed_ = 0;
};

/// Calls that take a segment's time natively.
template <class Calls, class Target>
std::uint64_t calls_of_segment(Context& context, Side<Calls, Target>& native, int threads) {
  const double wanted_s = context.scale(0.4, 0.03);
  for (std::uint64_t calls = 64;; calls *= 2) {
    const double seconds = native.run(threads, calls) * static_cast<double>(calls);
    if (seconds >= wanted_s) return calls;
  }
}

template <class Calls>
Measured compare_structure(Context& context, const ObjectOptions& options,
                           const std::vector<int>& all_threads) {
  using State = typename Calls::State;
  Measured worst{0, Json::object()};
  for (const int threads : all_threads) {
    NativeObject<State> memory;
    StoredObject<State> stored(context, Place::kMemory, options);
    Side<Calls, NativeObject<State>> base(memory);
    Side<Calls, Object<State>> subject(stored.get());
    const std::uint64_t calls = calls_of_segment(context, base, threads);
    const Paired pair = paired(
        context.scale(9, 3), [&] { return subject.run(threads, calls); },
        [&] { return base.run(threads, calls); });
    base.check();
    stored.reopen();
    subject.check();
    worst.value = std::max(worst.value, pair.ratio);
    worst.detail[std::to_string(threads)] = {
        {"ratio", pair.ratio}, {"subject_ns", pair.subject * 1e9}, {"base_ns", pair.base * 1e9}};
  }
  return worst;
}

// --- instants of one length ----------------------------------------------------------------------

/// Nanoseconds of a step.
double step_ns() {
  constexpr std::uint64_t kSteps = 10'000'000;
  Worker worker{};
  std::vector<double> all;
  for (int i = 0; i < 5; ++i) all.push_back(timed_s([&] { worker.work(kSteps); }) * 1e9 / kSteps);
  asm volatile("" ::"r"(worker.value));
  return *std::min_element(all.begin(), all.end());
}

Measured compare_length(Context& context, double length_ns, int threads) {
  const auto steps = static_cast<std::uint64_t>(length_ns / step_ns());
  const auto calls = std::min<std::uint64_t>(
      static_cast<std::uint64_t>(context.scale(0.4, 0.05) * 1e9 / length_ns), 400'000);
  NativeObject<Worker> memory;
  StoredObject<Worker> stored(context, Place::kMemory, {});
  const auto run_s = [&](auto& object) {
    return seconds_a_call(threads, calls, [&](int, std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) object.template call<&Worker::work>(steps);
    });
  };
  const Paired pair = paired(
      context.scale(9, 5), [&] { return run_s(stored.get()); }, [&] { return run_s(memory); });
  stored.reopen();
  if (stored.get().read<&Worker::called>() != memory.read<&Worker::called>())
    fail("instants were lost, or done twice");
  return {pair.ratio, {{"subject_ns", pair.subject * 1e9}, {"base_ns", pair.base * 1e9}}};
}

}  // namespace

void measure_structures(Context& context) {
  const auto measure = [&]<class Calls>(const std::string& key, Reach reach,
                                        const ObjectOptions& options,
                                        const std::vector<int>& threads, Calls) {
    context.measure(key, "ratio", reach,
                    [&] { return compare_structure<Calls>(context, options, threads); });
  };
  const auto measure_both = [&](const std::string& key, Reach reach,
                                const std::vector<int>& threads, auto calls) {
    measure(key, reach, {}, threads, calls);
    measure(key + "_hybrid", Reach::none(), kHybridOptions, threads, calls);
  };
  measure_both("array", Reach::at_most(1.05), {2, 8}, ArrayCalls{});
  measure_both("heap", Reach::at_most(1.05), {2, 8}, HeapCalls<false>{});
  measure_both("tree", Reach::at_most(1.05), {2, 8}, TreeCalls<false>{});
  measure_both("graph", Reach::at_most(1.05), {2, 8}, GraphCalls{});
  measure_both("queue", Reach::at_most(4), {8}, QueueCalls{});
  measure_both("stack", Reach::at_most(4), {8}, StackCalls{});
  measure("heap_short", Reach::none(), {}, {2, 8}, HeapCalls<true>{});
  measure("tree_short", Reach::none(), {}, {2, 8}, TreeCalls<true>{});
  const std::map<int, const char*> lengths = {
      {100, "100ns"}, {1000, "1us"}, {10'000, "10us"}, {100'000, "100us"}};
  for (const auto& [length_ns, name] : lengths)
    context.measure(fmt::format("length_{}", name), "ratio",
                    length_ns >= 10'000 ? Reach::at_most(1.05) : Reach::none(),
                    [&, length_ns = length_ns] { return compare_length(context, length_ns, 2); });
}

}  // namespace perdura::bench
