// Figures of the benchmark `object` against the least that a call, or a checkpoint, must cost.
#include <immintrin.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "object_cow.hpp"
#include "object_matrix.hpp"
#include "object_parts.hpp"
#include "raw_write.hpp"

namespace perdura::bench {

/// 64 MiB. Its constructor keeps its zeros out of the program's file.
struct Sheet {
  static constexpr std::size_t kCells = 16 * kMiB;
  alignas(kLineBytes) std::int32_t cells[kCells];

  Sheet() noexcept { std::memset(cells, 0, sizeof cells); }
  void all_inc(std::int32_t by) noexcept {
    for (std::int32_t& cell : cells) cell += by;
  }
  /// Pieces of so many bytes, one for each hundred of them.
  void some_inc(std::uint32_t piece_bytes, std::uint32_t first) noexcept {
    const std::size_t count = piece_bytes / sizeof(std::int32_t);
    for (std::size_t at = first * count; at < kCells; at += 100 * count) {
      for (std::size_t i = 0; i < count; ++i) ++cells[at + i];
      object_changed(&cells[at], piece_bytes);
    }
  }
  /// To another one, at an address of this process.
  bool equals(std::uintptr_t other) const noexcept {
    return std::memcmp(cells, reinterpret_cast<const Sheet*>(other)->cells, sizeof cells) == 0;
  }
  std::optional<std::int32_t> value() const noexcept {
    for (const std::int32_t cell : cells)
      if (cell != cells[0]) return std::nullopt;
    return cells[0];
  }
};

}  // namespace perdura::bench

template <>
struct perdura::Methods<perdura::bench::Sheet>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::bench::Sheet::all_inc>,
          perdura::Deferrable<&perdura::bench::Sheet::some_inc, perdura::kReports>> {};

namespace perdura::bench {
namespace {

constexpr std::size_t kLogBytes = kMiB;  ///< an object's, and as much that the floors go around

// --- deferring -----------------------------------------------------------------------------------

constexpr std::uint64_t kGroup = 500;  ///< calls that wait: fewer than make one run them

/// Seconds a call that is logged; it runs outside of what is measured.
double deferred_s(Object<Unmerged>& object, std::uint64_t groups) {
  double seconds = 0;
  for (std::uint64_t group = 0; group < groups; ++group) {
    seconds += timed_s([&] {
      for (std::uint64_t i = 0; i < kGroup; ++i) object.defer<&Matrix::all_inc>(1);
    });
    object.sync();
  }
  return seconds / static_cast<double>(groups * kGroup);
}

/// Seconds of a locked increment and a line copied to where it says.
double copied_line_s(const Buffer& log, std::uint64_t groups) {
  static std::atomic<std::uint64_t> next{0};
  struct alignas(kLineBytes) Line {
    std::uint64_t words[8];
  } line{};
  const std::uint64_t lines = log.size() / sizeof(Line);
  auto* const to = reinterpret_cast<Line*>(log.data());
  double seconds = 0;
  for (std::uint64_t group = 0; group < groups; ++group)
    seconds += timed_s([&] {
      for (std::uint64_t i = 0; i < kGroup; ++i) {
        line.words[0] = i;
        std::memcpy(&to[next.fetch_add(1) % lines], &line, sizeof line);
        asm volatile("" ::: "memory");
      }
    });
  return seconds / static_cast<double>(groups * kGroup);
}

Measured compare_defer(Context& context) {
  const auto groups = context.scale<std::uint64_t>(2000, 500);
  StoredObject<Unmerged> stored(context, Place::kMemory, {});
  const Buffer log(kLogBytes);
  std::uint64_t calls = 0;
  const Paired pair = paired(
      9,
      [&] {
        calls += groups * kGroup;
        return deferred_s(stored.get(), groups);
      },
      [&] { return copied_line_s(log, groups); });
  stored.reopen();
  check_cells("perdura", stored.get().read<&Matrix::all>(), {calls, calls});
  return {pair.ratio, {{"defer_ns", pair.subject * 1e9}, {"floor_ns", pair.base * 1e9}}};
}

// --- instants ------------------------------------------------------------------------------------

/// Seconds of two lines past the caches, and a fence.
double fenced_lines_s(const Buffer& log, std::uint64_t count) {
  const __m128i value = _mm_set1_epi8(7);
  const double seconds = timed_s([&] {
    for (std::uint64_t i = 0; i < count; ++i) {
      auto* const at = reinterpret_cast<__m128i*>(log.data() + i * 2 * kLineBytes % log.size());
      for (int k = 0; k < 8; ++k) _mm_stream_si128(at + k, value);
      _mm_sfence();
    }
  });
  return seconds / static_cast<double>(count);
}

Measured compare_instant(Context& context) {
  const auto count = context.scale<std::uint64_t>(1'000'000, 200'000);
  StoredObject<Unmerged> stored(context, Place::kMemory, {});
  const Buffer log(kLogBytes);
  std::int32_t told = 0;
  std::int32_t calls = 0;
  const Paired pair = paired(
      9,
      [&] {
        Object<Unmerged>& object = stored.get();
        const double seconds = timed_s([&] {
          for (std::uint64_t i = 0; i < count; ++i) told = object.call<&Matrix::tick>(1);
        });
        calls += static_cast<std::int32_t>(count);
        if (told != calls) throw std::runtime_error("an instant was answered wrong");
        return seconds / static_cast<double>(count);
      },
      [&] { return fenced_lines_s(log, count); });
  stored.reopen();
  if (stored.get().read<&Matrix::all>().cells[0][0] != calls)
    throw std::runtime_error("instants were lost");
  return {pair.ratio, {{"instant_ns", pair.subject * 1e9}, {"floor_ns", pair.base * 1e9}}};
}

// --- checkpoints ---------------------------------------------------------------------------------

Measured compare_whole(Context& context, const std::string& parameters) {
  StoredObject<Sheet> stored(context, Place::kMemory, {}, parameters);
  const auto memory = std::make_unique<Sheet>();
  const Buffer copy(sizeof(Sheet));
  std::int32_t calls = 0;
  // The base's fences: behind the copy, and behind what would say that it counts.
  const Paired pair = paired(
      context.scale(15, 7),
      [&] {
        stored.get().defer<&Sheet::all_inc>(1);
        stored.get().sync();
        ++calls;
        return timed_s([&] { stored.get().checkpoint(); });
      },
      [&] {
        memory->all_inc(1);
        return timed_s([&] {
          gather_nontemporal(
              {reinterpret_cast<std::byte*>(memory.get()), sizeof(Sheet), sizeof(Sheet), 1},
              copy.data());
          _mm_stream_si64(reinterpret_cast<long long*>(copy.data()), calls);
          _mm_sfence();
        });
      });
  stored.reopen();
  if (stored.get().read<&Sheet::value>() != calls)
    throw std::runtime_error("a checkpoint was not what was called");
  return {pair.ratio, {{"checkpoint_ms", pair.subject * 1e3}, {"floor_ms", pair.base * 1e3}}};
}

/// One piece in a hundred is changed, and reported: not the one that was before. What must be
/// written is those of the last two checkpoints, each to its place in the older of two copies.
Measured compare_differential(Context& context, std::uint32_t piece_bytes,
                              const std::string& parameters) {
  StoredObject<Sheet> stored(context, Place::kMemory, {}, parameters);
  const auto memory = std::make_unique<Sheet>();
  const NvmFile copies[] = {{context, "copy", sizeof(Sheet)}, {context, "copy", sizeof(Sheet)}};
  const std::size_t count = sizeof(Sheet) / piece_bytes / 100;
  const auto pieces = [&](std::uint32_t first) {
    return Strided{reinterpret_cast<std::byte*>(memory.get()) + first * piece_bytes, piece_bytes,
                   std::size_t{100} * piece_bytes, count};
  };
  std::uint32_t calls = 0;
  const auto first = [&](std::uint32_t call) { return call * 7 % 100; };
  const Paired pair = paired(
      context.scale(41, 15),
      [&] {
        stored.get().defer<&Sheet::some_inc>(piece_bytes, first(++calls));
        stored.get().sync();
        return timed_s([&] { stored.get().checkpoint(); });
      },
      [&] {
        memory->some_inc(piece_bytes, first(calls));
        memory->some_inc(piece_bytes, first(calls + 1));
        auto* const copy = static_cast<std::byte*>(copies[calls % 2].at());
        return timed_s([&] {
          for (const std::uint32_t each : {first(calls), first(calls + 1)})
            copy_nontemporal(pieces(each), copy + each * piece_bytes, 100 * piece_bytes);
          _mm_stream_si64(reinterpret_cast<long long*>(copy), calls);
          _mm_sfence();
        });
      });
  const auto expected = std::make_unique<Sheet>();
  for (std::uint32_t call = 1; call <= calls; ++call) expected->some_inc(piece_bytes, first(call));
  stored.reopen();
  if (!stored.get().read<&Sheet::equals>(reinterpret_cast<std::uintptr_t>(expected.get())))
    throw std::runtime_error("a checkpoint was not what was called");
  return {pair.ratio, {{"checkpoint_us", pair.subject * 1e6}, {"floor_us", pair.base * 1e6}}};
}

}  // namespace

void measure_floors(Context& context) {
  context.measure("defer", "ratio", Reach::at_most(2), [&] { return compare_defer(context); });
  context.measure("instant", "ratio", Reach::at_most(2), [&] { return compare_instant(context); });
  context.measure("whole", "ratio", Reach::at_most(1.25),
                  [&] { return compare_whole(context, ""); });
  context.measure("whole_slow", "ratio", Reach::none(),
                  [&] { return compare_whole(context, kSlowNvm); });
  context.measure("differential", "ratio", Reach::at_most(1.5),
                  [&] { return compare_differential(context, kPageBytes, ""); });
  context.measure("differential_slow", "ratio", Reach::none(),
                  [&] { return compare_differential(context, kPageBytes, kSlowNvm); });
  context.measure("differential_lines", "ratio", Reach::none(),
                  [&] { return compare_differential(context, kLineBytes, ""); });
}

}  // namespace perdura::bench
