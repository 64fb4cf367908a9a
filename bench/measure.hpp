// What every benchmark measures with: pinned threads, prefaulted memory, medians of paired
// segments, and YCSB's key distribution.
//
// Two variants are compared by running short segments of each in turn (A B, B A, A B, ...) and
// taking the median of the ratios of neighbours: a noisy neighbour then slows both of a pair.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace perdura::bench {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kGiB = 1024 * kMiB;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kLineBytes = 64;

/// The CPU of the measured thread, and the one of everything in the background.
constexpr int kMutatorCpu = 0;
constexpr int kBackgroundCpu = 1;
constexpr int kAnyCpu = -1;  ///< either of them, as the system decides

/// Pin the calling thread. Threads it creates later inherit this. Ignored when there is no such
/// CPU.
void pin_thread(int cpu);

/// Pins the calling thread for a scope: threads created inside it stay on `cpu`.
class PinnedScope {
 public:
  explicit PinnedScope(int cpu);
  ~PinnedScope();
  PinnedScope(const PinnedScope&) = delete;
  PinnedScope& operator=(const PinnedScope&) = delete;

 private:
  std::vector<std::byte> saved_;
};

/// Seconds of a monotonic clock.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

/// Seconds of processor time of the calling thread: what it did, without what it waited for.
double thread_cpu_s();

/// Seconds `body` takes.
template <class Body>
double timed_s(Body&& body) {
  const double start = now_s();
  body();
  return now_s() - start;
}

double median(std::vector<double> values);
/// `fraction` 0 to 1: 0.99 is the 99th percentile (nearest rank).
double percentile(std::vector<double> values, double fraction);

/// The outcome of a paired comparison.
struct Paired {
  double ratio = 0;    ///< median of subject ÷ base of each pair
  double subject = 0;  ///< median of each side alone
  double base = 0;
  std::vector<double> ratios;
};

/// Runs `pairs` pairs of segments, alternating which goes first. Both return what is compared
/// (usually seconds). One unmeasured pair warms up when `warm_up`.
template <std::invocable Subject, std::invocable Base>
Paired paired(int pairs, Subject&& subject, Base&& base, bool warm_up = true) {
  if (warm_up) {
    base();
    subject();
  }
  std::vector<double> subjects, bases;
  Paired result;
  for (int i = 0; i < pairs; ++i) {
    double s, b;
    if (i % 2 == 0) {
      b = base();
      s = subject();
    } else {
      s = subject();
      b = base();
    }
    subjects.push_back(s);
    bases.push_back(b);
    result.ratios.push_back(s / b);
  }
  result.ratio = median(result.ratios);
  result.subject = median(std::move(subjects));
  result.base = median(std::move(bases));
  return result;
}

using Segment = std::function<double()>;

/// The same against several bases, an outcome for each: a round is one segment of every side, and
/// begins with another side each time. One unmeasured round warms up.
std::vector<Paired> paired_with_each(int rounds, const Segment& subject,
                                     const std::vector<Segment>& bases);

/// The one whose base is the least: what a subject that wants little is to be measured against.
const Paired& against_best(const std::vector<Paired>& all);

/// Touch every page of [address, address + size) for writing without changing it.
void prefault(void* address, std::size_t size);

/// Anonymous, prefaulted, page-aligned memory.
class Buffer {
 public:
  explicit Buffer(std::size_t size);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_;
  std::size_t size_;
};

/// xorshift64*: small, fast, seeded.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u | 1) {}
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  /// 0 to bound - 1.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(next()) * bound >> 64);
  }
  /// In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

/// A bijection of 64-bit numbers that scatters them (splitmix64's finalizer).
inline std::uint64_t scatter(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/// YCSB's scrambled Zipfian: ranks by Gray et al.'s method, scattered over the items by a hash so
/// that the popular ones are not neighbours. YCSB's own constants draw ranks from 10^10 items
/// whatever the table's size; `rank_items` chooses (0: the items themselves, the stricter skew).
class Zipfian {
 public:
  explicit Zipfian(std::uint64_t items, double theta = 0.99, std::uint64_t rank_items = 0);
  std::uint64_t next(Random& random) const;  ///< 0 to items - 1

  static constexpr std::uint64_t kYcsbRankItems = 10'000'000'000;

 private:
  std::uint64_t items_, rank_items_;
  double zeta_, alpha_, eta_, second_;
};

}  // namespace perdura::bench
