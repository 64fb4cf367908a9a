#include "calibration.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include <perdura/store.hpp>

#include "base/clock.hpp"
#include "store/runtime.hpp"

namespace perdura::tools {
namespace {

constexpr u64 kBlockBytes = 256;
constexpr u64 kPages = 4096;
constexpr u64 kHeapPages = 4 * kPages;
constexpr double kBlockLines = double{kBlockBytes} / kLineBytes;
constexpr int kRounds = 5;

/// A file that goes in the end.
struct Removed {
  const std::string& path;
  ~Removed() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

/// A heap of equal blocks, stored to in ways whose costs are known sums of what is looked for.
class Specimen {
 public:
  Specimen(const Way& way, const std::string& uri) : store_(Store::open(uri, options(way))) {
    blocks_.reserve(kHeapPages * kBlocksPerPage);
    grow(kPages);
  }

  /// Nanoseconds a page, where it went quickest.
  double grow(u64 pages) {
    constexpr u64 kStep = 256;
    double quickest = 1e9;
    while (blocks_.size() < pages * kBlocksPerPage) {
      const auto op = store_.operation();
      const u64 begin = now_ns();
      for (u64 i = 0; i < kStep * kBlocksPerPage; ++i) {
        blocks_.push_back(static_cast<u64*>(op.allocate(kBlockBytes)));
        *blocks_.back() = 0;
      }
      quickest = std::min(quickest, static_cast<double>(now_ns() - begin) / kStep);
    }
    return quickest;
  }

  /// Store to one line of every `step`-th block among the first `pages`.
  void touch(u64 pages, u64 step) {
    for (u64 i = 0; i < pages * kBlocksPerPage; i += step) ++*blocks_[i];
  }

  struct Times {
    double touch = 0;
    double checkpoint = 0;
  };
  Times measure(const std::function<void()>& change) {
    std::array<double, kRounds> touch;
    std::array<double, kRounds> checkpoint;
    for (int round = -1; round < kRounds; ++round) {  // once to warm up
      const u64 begin = now_ns();
      change();
      const u64 changed = now_ns();
      store_.checkpoint();
      const u64 end = now_ns();
      if (round < 0) continue;
      touch[static_cast<size_t>(round)] = static_cast<double>(changed - begin);
      checkpoint[static_cast<size_t>(round)] = static_cast<double>(end - changed);
    }
    // What else runs on the machine only adds.
    return {*std::min_element(touch.begin(), touch.end()),
            *std::min_element(checkpoint.begin(), checkpoint.end())};
  }

  static constexpr u64 kBlocksPerPage = kPageBytes / kBlockBytes;

 private:
  static Options options(const Way& way) {
    Options options;
    options.region_limit_bytes = u64{1} << 30;
    options.tracking = way.tracking;
    options.aliases = way.aliases;
    options.compare = way.compare;
    options.verify_bytes_per_second = 0;
    return options;
  }

  Store store_;
  std::vector<u64*> blocks_;
};

Costs measure(const Way& way, const std::string& uri) {
  Specimen specimen(way, uri);
  const auto idle = specimen.measure([&] { specimen.touch(1, 1); });
  // One block a page: a fault each, and what is copied for one.
  const auto sparse = specimen.measure([&] { specimen.touch(kPages, Specimen::kBlocksPerPage); });
  const auto dense = specimen.measure([&] { specimen.touch(kPages, 1); });
  // The same stores where no page is new: what is not the faults' doing.
  const auto again = specimen.measure([&] {
    specimen.touch(kPages, Specimen::kBlocksPerPage);
    specimen.touch(kPages, Specimen::kBlocksPerPage);
  });
  const double fresh = specimen.grow(kHeapPages);
  const auto large = specimen.measure([&] { specimen.touch(1, 1); });

  // What the two epochs came to, in what the tracker sees and in lines that are copied.
  const auto pages = static_cast<double>(kPages);
  const double parts = std::clamp<double>(way.aliases, 1, Specimen::kBlocksPerPage);
  const double blocks_of_part = Specimen::kBlocksPerPage / parts;
  const double seen_sparse = pages;
  const double seen_dense = pages * parts;
  const double sparse_lines = way.compare        ? pages
                              : way.aliases != 0 ? pages * blocks_of_part * kBlockLines
                                                 : pages * kLinesPerPage;
  const double dense_lines = way.compare ? pages * Specimen::kBlocksPerPage : pages * kLinesPerPage;

  Costs costs;
  costs.fresh = fresh;
  const double stores = std::max(0.0, again.touch - sparse.touch);
  costs.fault = std::max(0.0, (sparse.touch - stores) / seen_sparse);
  costs.heap_page = std::max(0.0, (large.checkpoint - idle.checkpoint) / (kHeapPages - kPages));
  costs.fixed = std::max(0.0, idle.checkpoint - costs.heap_page * pages);
  // Two equations. Where they say nearly the same, all is the lines' doing.
  const double sparse_time = std::max(0.0, sparse.checkpoint - idle.checkpoint);
  const double dense_time = std::max(0.0, dense.checkpoint - idle.checkpoint);
  const double determinant = seen_sparse * dense_lines - seen_dense * sparse_lines;
  if (determinant > 0.5 * seen_sparse * dense_lines) {
    costs.line = std::max(0.0, (seen_sparse * dense_time - seen_dense * sparse_time) / determinant);
    costs.page = std::max(0.0, (sparse_time - costs.line * sparse_lines) / seen_sparse);
  } else {
    costs.line = dense_time / dense_lines;
  }
  return costs;
}

}  // namespace

const std::vector<Way>& ways() {
  static const std::vector<Way> all{{"pages", Tracking::kUserfault, 0, false},
                                    {"pages, compared", Tracking::kUserfault, 0, true},
                                    {"1 alias", Tracking::kUserfault, 1, false},
                                    {"2 aliases", Tracking::kUserfault, 2, false},
                                    {"4 aliases", Tracking::kUserfault, 4, false},
                                    {"8 aliases", Tracking::kUserfault, 8, false},
                                    {"an alias a block", Tracking::kUserfault, 256, false}};
  return all;
}

Result<bool> try_out(const std::string& uri, const std::string& path) {
  return guarded([&]() -> Result<bool> {
    const Removed removed{path};
    Options options;
    options.tracking = ways().front().tracking;
    options.region_limit_bytes = kMiB;
    PERDURA_ASSIGN(const auto runtime, detail::Runtime::open(uri, options));
    PERDURA_TRY(runtime->checkpoint());
    return runtime->volume().medium().geometry().byte_addressable;
  });
}

Result<Costs> calibrate(const Way& way, const std::string& uri, const std::string& path) {
  return guarded([&]() -> Result<Costs> {
    const Removed removed{path};
    return measure(way, uri);
  });
}

}  // namespace perdura::tools
