// What a checkpoint costs, against the least that could make the same bytes durable: on NVM a copy
// of them with non-temporal stores and one fence, its lines fetched ahead; on a disk sequential
// direct writes, as many in flight as ours, and one fdatasync.

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "harness.hpp"
#include "raw_write.hpp"
#include "stores.hpp"

namespace perdura::bench {
namespace {

constexpr std::size_t kBlockBytes = 256 * kMiB;

/// A heap of large blocks that follow each other, all of it durable and replayed. Blocks have a
/// little metadata between them, so pieces are addressed block by block.
class Heap {
 public:
  /// Every `populate_pages`-th page is written, so that it has a private copy; 0: none.
  Heap(Context& context, Place place, Options options, std::size_t bytes,
       std::size_t populate_pages)
      : context_(context), uri_(context.uri(place, "heap")) {
    options.region_limit_bytes = bytes + bytes / 4 + kGiB;
    store_ = std::make_unique<Store>(open_store(uri_, options));
    for (std::size_t done = 0; done < bytes; done += kBlockBytes) {
      {
        const Operation operation = store_->operation();
        const std::size_t size = std::min(kBlockBytes, bytes - done);
        auto* block = static_cast<std::byte*>(operation.allocate(size, kPageBytes));
        blocks_.push_back(block);
        for (std::size_t i = 0; populate_pages != 0 && i < size; i += populate_pages * kPageBytes)
          block[i] = std::byte{1};
      }
      store_->checkpoint();
    }
    if (!wait_replayed(*store_)) context.progress("replay lags behind");
  }
  ~Heap() {
    store_.reset();
    context_.remove(uri_);
  }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Store& store() { return *store_; }

  /// `count` pieces from the heap's start on, in blocks.
  std::vector<Strided> pieces(std::size_t piece_bytes, std::size_t distance_bytes,
                              std::size_t count) const {
    std::vector<Strided> result;
    for (std::byte* block : blocks_) {
      const std::size_t here = std::min(count, kBlockBytes / distance_bytes);
      if (here == 0) break;
      result.push_back({block, piece_bytes, distance_bytes, here});
      count -= here;
    }
    return result;
  }

 private:
  Context& context_;
  std::string uri_;
  std::unique_ptr<Store> store_;
  std::vector<std::byte*> blocks_;
};

/// Report and change every word of the pieces.
void change(Store& store, const std::vector<Strided>& pieces) {
  static std::uint64_t round = 0;
  ++round;
  const Operation operation = store.operation();
  for (const Strided& part : pieces)
    for (std::size_t i = 0; i < part.count; ++i) {
      std::byte* piece = part.first + i * part.distance_bytes;
      operation.touch(piece, part.piece_bytes);
      auto* words = reinterpret_cast<std::uint64_t*>(piece);
      for (std::size_t w = 0; w < part.piece_bytes / 8; ++w) words[w] = round + w;
    }
}

double checkpoint_s(Store& store) {
  return timed_s([&] { store.checkpoint(); });
}

/// Pairs over one and the same change: base and checkpoint take turns in going first.
template <class Base>
Measured compare(Context& context, Store& store, const std::vector<Strided>& pieces, Base&& base) {
  std::vector<double> ratios, checkpoints, bases;
  const Statistics before = store.statistics();
  bool replay_lagged = false;
  const int rounds = context.scale(15, 7);
  for (int i = -1; i < rounds; ++i) {  // the first warms up
    change(store, pieces);
    double b = 0, c = 0;
    if (i % 2 == 0) b = timed_s(base);
    c = checkpoint_s(store);
    replay_lagged |= !wait_replayed(store);
    if (i % 2 != 0) b = timed_s(base);
    if (i < 0) continue;
    ratios.push_back(c / b);
    checkpoints.push_back(c * 1e3);
    bases.push_back(b * 1e3);
  }
  Json detail = {{"checkpoint_ms", median(checkpoints)},
                 {"base_ms", median(bases)},
                 {"pairs", rounds},
                 {"replay_lagged", replay_lagged},
                 {"statistics", difference(before, store.statistics())}};
  return {median(ratios), detail};
}

Options tracked(Tracking tracking) {
  Options options;
  options.tracking = tracking;
  return options;
}

Measured nvm(Context& context, const Options& options, std::size_t piece_bytes) {
  const std::size_t bytes = context.quick() ? 16 * kMiB : 64 * kMiB;
  const std::size_t count = bytes / piece_bytes;
  Heap heap(context, Place::kMemory, options, count * kPageBytes, 1);
  const auto pieces = heap.pieces(piece_bytes, kPageBytes, count);
  const Buffer target(bytes);
  return compare(context, heap.store(), pieces, [&] {
    std::byte* to = target.data();
    for (const Strided& part : pieces) {
      gather_nontemporal(part, to);
      to += part.bytes();
    }
  });
}

Measured file_dense(Context& context, Tracking tracking) {
  const std::size_t bytes = 64 * kMiB;
  Heap heap(context, Place::kDisk, tracked(tracking), bytes, 1);
  const auto pieces = heap.pieces(kPageBytes, kPageBytes, bytes / kPageBytes);
  const std::string path = context.path(Place::kDisk, "raw");
  RawFile raw(path, bytes);
  return compare(context, heap.store(), pieces,
                 [&] { raw.overwrite(pieces.front().first, bytes); });
}

/// The figure with reported stores; the same with page protection goes into the detail.
template <class Measure>
Measured with_userfault(Context& context, Measure&& measure) {
  Measured result = measure(Tracking::kReported);
  if (context.quick()) return result;
  try {
    const Measured userfault = measure(Tracking::kUserfault);
    result.detail["userfault"] = userfault.detail;
    result.detail["userfault"]["ratio"] = userfault.value;
  } catch (const std::exception& failure) {
    result.detail["userfault"] = failure.what();
  }
  return result;
}

double amplification(Context& context, Place place) {
  constexpr std::size_t kLines = 64 * 1024;
  Heap heap(context, place, tracked(Tracking::kReported), kLines * kPageBytes, 1);
  const auto pieces = heap.pieces(kLineBytes, kPageBytes, kLines);
  const std::uint64_t before = heap.store().statistics().log_bytes;
  change(heap.store(), pieces);
  heap.store().checkpoint();
  const std::uint64_t written = heap.store().statistics().log_bytes - before;
  return static_cast<double>(written) / static_cast<double>(kLines * kLineBytes);
}

Measured log_amplification(Context& context) {
  const double nvm = amplification(context, Place::kMemory);
  const double file = amplification(context, Place::kDisk);
  return {std::max(nvm, file), {{"nvm", nvm}, {"file", file}, {"changed", "64 B, one a page"}}};
}

std::size_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) * kKiB;
  return 0;
}

Measured heap_size(Context& context, Tracking tracking) {
  const std::size_t large_bytes = context.quick() ? 4 * kGiB : 8 * kGiB, small_bytes = kGiB;
  // Each populated page costs its private copy, besides the home image's.
  const bool room = available_memory() > 2 * (large_bytes + small_bytes) + 3 * kGiB;
  const std::size_t populate = room ? 1 : 4;
  Heap large(context, Place::kMemory, tracked(tracking), large_bytes, populate);
  Heap small(context, Place::kMemory, tracked(tracking), small_bytes, populate);
  // 64 MiB of changed lines: four in each page of the first GiB.
  const std::size_t count = small_bytes / kPageBytes, piece_bytes = 4 * kLineBytes;
  const auto run = [&](Heap& heap) {
    change(heap.store(), heap.pieces(piece_bytes, kPageBytes, count));
    const double seconds = checkpoint_s(heap.store());
    wait_replayed(heap.store());
    return seconds;
  };
  const Paired result =
      paired(context.scale(15, 7), [&] { return run(large); }, [&] { return run(small); });
  return {result.ratio,
          {{"large_ms", result.subject * 1e3},
           {"small_ms", result.base * 1e3},
           {"large_bytes", large_bytes},
           {"small_bytes", small_bytes},
           {"changed_bytes", count * piece_bytes},
           {"populated", room ? "every page" : "every 4th page"}}};
}

void run(Context& context) {
  pin_thread(kMutatorCpu);
  context.measure("nvm_dense", "ratio", Reach::at_most(1.25), [&] {
    return with_userfault(context,
                          [&](Tracking t) { return nvm(context, tracked(t), kPageBytes); });
  });
  context.measure("nvm_sparse", "ratio", Reach::at_most(1.5), [&] {
    return with_userfault(context,
                          [&](Tracking t) { return nvm(context, tracked(t), kLineBytes); });
  });
  // Two copies have nothing left to do afterwards, where a log has its replay.
  Options copies = tracked(Tracking::kReported);
  copies.engine = Engine::kDualCopy;
  context.measure("copies_dense", "ratio", Reach::none(),
                  [&] { return nvm(context, copies, kPageBytes); });
  context.measure("copies_sparse", "ratio", Reach::none(),
                  [&] { return nvm(context, copies, kLineBytes); });
  context.measure("file_dense", "ratio", Reach::at_most(1.25), [&] {
    return with_userfault(context, [&](Tracking t) { return file_dense(context, t); });
  });
  context.measure("log_amplification", "ratio", Reach::at_most(1.5),
                  [&] { return log_amplification(context); });
  context.measure("heap_size", "ratio", Reach::at_most(1.2), [&] {
    return with_userfault(context, [&](Tracking t) { return heap_size(context, t); });
  });
}

const Registration kThis("checkpoint", "a checkpoint ÷ the least that makes the same bytes durable",
                         run);

}  // namespace
}  // namespace perdura::bench
