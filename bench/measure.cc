#include "measure.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <system_error>

namespace perdura::bench {

void pin_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu == kAnyCpu) {
    CPU_SET(kMutatorCpu, &set);
    CPU_SET(kBackgroundCpu, &set);
  } else {
    CPU_SET(cpu, &set);
  }
  sched_setaffinity(0, sizeof(set), &set);
}

PinnedScope::PinnedScope(int cpu) : saved_(sizeof(cpu_set_t)) {
  sched_getaffinity(0, sizeof(cpu_set_t), reinterpret_cast<cpu_set_t*>(saved_.data()));
  pin_thread(cpu);
}

PinnedScope::~PinnedScope() {
  sched_setaffinity(0, sizeof(cpu_set_t), reinterpret_cast<const cpu_set_t*>(saved_.data()));
}

double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const auto rank =
      static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

double median(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<Paired> paired_with_each(int rounds, const Segment& subject,
                                     const std::vector<Segment>& bases) {
  std::vector<const Segment*> sides = {&subject};
  for (const Segment& base : bases) sides.push_back(&base);
  for (const Segment* side : sides) (*side)();
  std::vector<std::vector<double>> seconds(sides.size());
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::size_t side = (round + i) % sides.size();
      seconds[side].push_back((*sides[side])());
    }
  std::vector<Paired> all;
  for (std::size_t side = 1; side < sides.size(); ++side) {
    Paired& pair = all.emplace_back();
    for (std::size_t round = 0; round < seconds[side].size(); ++round)
      pair.ratios.push_back(seconds[0][round] / seconds[side][round]);
    pair.ratio = median(pair.ratios);
    pair.subject = median(seconds[0]);
    pair.base = median(seconds[side]);
  }
  return all;
}

const Paired& against_best(const std::vector<Paired>& all) {
  return *std::min_element(all.begin(), all.end(), [](const Paired& one, const Paired& other) {
    return one.base < other.base;
  });
}

void prefault(void* address, std::size_t size) {
  auto* bytes = static_cast<volatile char*>(address);
  for (std::size_t i = 0; i < size; i += kPageBytes) bytes[i] = bytes[i];
  if (size != 0) bytes[size - 1] = bytes[size - 1];
}

Buffer::Buffer(std::size_t size) : size_(size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  data_ = static_cast<std::byte*>(memory);
}

Buffer::~Buffer() { munmap(data_, size_); }

namespace {

double zeta_sum(std::uint64_t first, std::uint64_t last, double theta) {
  double sum = 0;
  for (std::uint64_t i = first; i <= last; ++i)
    sum += std::pow(1.0 / static_cast<double>(i), theta);
  return sum;
}

/// The sum of i^-theta for i from 1 to n: exact terms first, then the integral with its first
/// Euler-Maclaurin correction (relative error below 1e-12).
double zeta(std::uint64_t n, double theta) {
  constexpr std::uint64_t kExact = 100'000;
  if (n <= kExact) return zeta_sum(1, n, theta);
  const auto a = static_cast<double>(kExact), b = static_cast<double>(n);
  const double tail = (std::pow(b, 1 - theta) - std::pow(a, 1 - theta)) / (1 - theta);
  return zeta_sum(1, kExact, theta) + tail + (std::pow(b, -theta) - std::pow(a, -theta)) / 2;
}

}  // namespace

Zipfian::Zipfian(std::uint64_t items, double theta, std::uint64_t rank_items)
    : items_(items), rank_items_(rank_items == 0 ? items : rank_items) {
  const auto n = static_cast<double>(rank_items_);
  zeta_ = zeta(rank_items_, theta);
  alpha_ = 1 / (1 - theta);
  second_ = 1 + std::pow(0.5, theta);
  eta_ = (1 - std::pow(2 / n, 1 - theta)) / (1 - second_ / zeta_);
}

std::uint64_t Zipfian::next(Random& random) const {
  const double u = random.unit();
  const double uz = u * zeta_;
  std::uint64_t rank;
  if (uz < 1) {
    rank = 0;
  } else if (uz < second_) {
    rank = 1;
  } else {
    rank = static_cast<std::uint64_t>(static_cast<double>(rank_items_) *
                                      std::pow(eta_ * u - eta_ + 1, alpha_));
  }
  // FNV-1a of the rank's bytes, as YCSB scatters it.
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < 8; ++i) {
    hash = (hash ^ (rank & 0xff)) * 0x100000001b3u;
    rank >>= 8;
  }
  return hash % items_;
}

}  // namespace perdura::bench
