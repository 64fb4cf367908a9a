#include "media/mapped_medium.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <perdura/detail/sanitizers.hpp>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/mapping.hpp"
#include "media/file_space.hpp"
#include "media/lock.hpp"
#include "media/nvm.hpp"
#include "media/summed_copy.hpp"

namespace perdura::media {
namespace {

// Address space for the shared mapping, which grows in place. Valgrind leaves little to a program,
// and ThreadSanitizer about 1.5 TiB below a place that the kernel chooses at random: two windows of
// the usual size fit in most processes, not in all.
u64 window_bytes() {
#if defined(PERDURA_THREAD_SANITIZER)
  constexpr u64 kUsual = 64 * kGiB;
#else
  constexpr u64 kUsual = 512 * kGiB;
#endif
  return running_under_valgrind() ? 16 * kGiB : kUsual;
}

class MappedMedium final : public LinearMedium {
 public:
  MappedMedium(std::string path, MappedKind kind, const MediumOptions& options, OpenedFile opened,
               FileLock lock, Mapping window)
      : LinearMedium(options.flush != Flush::kNonTemporal),
        file_(std::move(opened.file), std::move(path)),
        path_(file_.path()),
        kind_(kind),
        write_ns_(options.write_ns),
        bandwidth_mb_(options.bandwidth_mb),
        copy_(flushing_copy(options.flush)),
        flush_(flush_of(options.flush)),
        writable_(opened.writable),
        shares_(options.shares),
        lock_(std::move(lock)),
        window_(std::move(window)) {}

  const std::string& name() const override { return path_; }

  Geometry geometry() const override {
    return Geometry{.size = size_.load(std::memory_order_acquire),
                    .atomic_bytes = 8,
                    .write_bytes = kLineBytes,
                    .byte_addressable = true};
  }

  // With stores through the caches. A process that was killed between a store and its flush has
  // left it there, where it is read like any other.
  bool decide(u64 offset, const std::byte* bytes, u64 length, const Site&, Fits fits) override {
    if (!fits(bytes)) return false;
    if (!writable_) return true;
    const u64 begin = round_down(offset, kLineBytes);
    flush_(base() + begin, round_up(offset + length, kLineBytes) - begin);
    store_fence();
    return true;
  }

  Status map_existing(u64 size) { return map_shared(0, size); }

  Status grow(u64 size, bool) override {
    const u64 old = size_.load(std::memory_order_acquire);
    if (size <= old) return {};
    PERDURA_TRY(extend_file(file_.fd(), path_, old, size));
    // No barrier of ours reaches the file's size; a superblock may rely on it at once.
    if (kind_ == MappedKind::kDax && ::fsync(file_.fd()) != 0)
      return system_failure(errno, "cannot flush the size of '" + path_ + "'");
    PERDURA_TRY(map_shared(old, size));
    // Its pages are there already, and all of them will be written: together they are mapped in a
    // fifth of the time that a fault for each takes. Where the system cannot, they are not.
    ::madvise(base() + old, size - old, MADV_POPULATE_WRITE);
    return {};
  }

  // What is cut off is not mapped any more, so that nobody meets its end by a signal.
  Status shrink(u64 size) override {
    const u64 old = size_.load(std::memory_order_acquire);
    if (size >= old) return {};
    if (map_without_children(base() + size, old - size, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
      return system_failure(errno, "cannot unmap the end of '" + path_ + "'");
    size_.store(size, std::memory_order_release);
    return cut_file(file_.fd(), path_, size);
  }
  Status give_back(u64 offset, u64 length) override {
    return make_hole(file_.fd(), path_, offset, length);
  }
  Status have_space(u64 offset, u64 length) override {
    return fill_hole(file_.fd(), path_, offset, length);
  }
  u64 occupied_bytes() const override {
    return media::occupied_bytes(file_.fd(), size_.load(std::memory_order_acquire));
  }

  Status write(u64 offset, Bytes data, const Site&) override {
    store(offset, data);
    store_fence();
    return {};
  }

  std::unique_ptr<WriteQueue> queue() override { return std::make_unique<Queue>(*this); }

  // Every writer fenced its own stores in write() or drain(); the fence here covers this thread's.
  // The emulated cost is charged from the first write since the last barrier, as SIMPO's emulator
  // does from the first modification to the end of the flush.
  Status barrier(const Site&) override {
    store_fence();
    if ((write_ns_ | bandwidth_mb_) == 0) return {};
    const u64 lines = lines_since_barrier_.exchange(0, std::memory_order_relaxed);
    const u64 begin = first_write_ns_.exchange(0, std::memory_order_relaxed);
    if (lines == 0) return {};
    u64 cost_ns = lines * write_ns_;
    if (bandwidth_mb_ != 0) cost_ns = std::max(cost_ns, lines * kLineBytes * 1000 / bandwidth_mb_);
    while (now_ns() < begin + cost_ns) __builtin_ia32_pause();
    return {};
  }

  Status check_named() const override { return file_.check_named(); }
  Status give_up_name() override { return file_.give_up_name(); }

  Status pin(u32 region, u64 version) override { return lock_.pin(path_, region, version); }
  u64 lowest_pin(u32 region, u64 from) const noexcept override {
    return lock_.lowest_pin(region, from);
  }
  bool has_writer() const noexcept override { return lock_.has_writer(); }
  bool has_readers() const noexcept override { return lock_.has_readers(); }
  FileLock* sharing() noexcept override { return shares_ ? &lock_ : nullptr; }
  Status look_again() override {
    PERDURA_ASSIGN(const u64 size, file_.size());
    const u64 old = size_.load(std::memory_order_acquire);
    return size > old ? map_shared(old, size) : Status{};
  }

  Status read(u64 offset, MutableBytes into) override {
    if (offset + into.size() > size_.load(std::memory_order_acquire))
      return Failure{Code::kCorrupt, "'" + path_ + "' ends before offset " +
                                         std::to_string(offset + into.size()) + ": truncated"};
    std::memcpy(into.data(), base() + offset, into.size());
    return {};
  }

  const std::byte* direct(u64 offset, u64) override { return base() + offset; }

  Status map_home(void* address, u64 offset, u64 length) override {
    return map_private(file_.fd(), path_, address, offset, length);
  }

 private:
  class Queue final : public WriteQueue {
   public:
    explicit Queue(MappedMedium& medium) : medium_(medium) {}
    ~Queue() override { store_fence(); }
    Status submit(u64 offset, Bytes data, const Site&) override {
      medium_.store(offset, data);
      return {};
    }
    Result<u64> submit_gathered(u64 offset, const Gather& gather, const Site&) override {
      medium_.charge(offset, gather.bytes());
      return gather_summed(medium_.base() + offset, gather, medium_.copy_);
    }
    Status drain(size_t pending_max) override {
      if (pending_max == 0) store_fence();
      return {};
    }

   private:
    MappedMedium& medium_;
  };

  std::byte* base() const { return window_.as(); }

  void charge(u64 offset, u64 length) {
    PERDURA_ASSERT(offset + length <= size_.load(std::memory_order_relaxed));
    PERDURA_ASSERT(is_aligned(offset | length, kLineBytes));
    if ((write_ns_ | bandwidth_mb_) == 0) return;
    u64 unset = 0;
    first_write_ns_.compare_exchange_strong(unset, now_ns(), std::memory_order_relaxed);
    lines_since_barrier_.fetch_add(length / kLineBytes, std::memory_order_relaxed);
  }

  void store(u64 offset, Bytes data) {
    charge(offset, data.size());
    copy_(base() + offset, data.data(), data.size());
  }

  Status map_shared(u64 from, u64 to) {
    if (to > window_.length())
      return Failure{Code::kNoMemory, "'" + path_ + "' is larger than the " +
                                          std::to_string(window_.length() >> 30) +
                                          " GiB of address space that a mapped medium may use"};
    const int flags = kind_ == MappedKind::kDax ? MAP_SHARED_VALIDATE | MAP_SYNC : MAP_SHARED;
    const int access = writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
    if (map_without_children(base() + from, to - from, access, flags, file_.fd(),
                             static_cast<off_t>(from)) == MAP_FAILED) {
      if (kind_ == MappedKind::kDax && errno == EOPNOTSUPP)
        return Failure{Code::kUnsupported,
                       "'" + path_ +
                           "' is not on a DAX file system (MAP_SYNC is refused), so stores could "
                           "be lost in the page cache; mount the file system with -o dax on "
                           "persistent memory, or use file: (a disk) or emu: (emulation)"};
      return system_failure(errno, "cannot map '" + path_ + "'");
    }
    size_.store(to, std::memory_order_release);
    return {};
  }

  NamedFile file_;
  const std::string& path_;
  const MappedKind kind_;
  const u64 write_ns_;
  const u64 bandwidth_mb_;
  const CopyLines copy_;
  const FlushLines flush_;
  const bool writable_;
  const bool shares_;
  FileLock lock_;
  Mapping window_;
  std::atomic<u64> size_{0};
  std::atomic<u64> lines_since_barrier_{0};
  std::atomic<u64> first_write_ns_{0};
};

}  // namespace

Result<OpenedMedium> open_mapped(const std::string& path, MappedKind kind,
                                 const MediumOptions& options) {
  PERDURA_ASSIGN(OpenedFile opened, open_store_file(path, options));
  PERDURA_ASSIGN(FileLock lock, lock_file(path, opened.file.get(), opened.access(),
                                          {.reads = options.read_only,
                                           .shares = options.shares,
                                           .patience_ms = options.timeout_ms}));
  PERDURA_ASSIGN(Mapping window, Mapping::reserve(nullptr, window_bytes()));
  const u64 size = opened.size;
  auto medium = std::make_unique<MappedMedium>(path, kind, options, std::move(opened),
                                               std::move(lock), std::move(window));
  if (size != 0) PERDURA_TRY(medium->map_existing(size));
  if (options.shares) PERDURA_TRY(medium->look_again());  // others may have made it meanwhile
  const bool is_empty = medium->geometry().size == 0;
  return OpenedMedium{std::move(medium), is_empty};
}

}  // namespace perdura::media
