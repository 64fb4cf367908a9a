#include "media/file_medium.hpp"

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <vector>

#include <perdura/detail/sanitizers.hpp>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "base/events.hpp"
#include "media/file_space.hpp"
#include "media/lock.hpp"

namespace perdura::media {
namespace {

constexpr unsigned kQueueDepth = 32;
constexpr size_t kTransferBytesMax = kGiB;  // at once, on a ring: it has 32 bits for lengths

// ThreadSanitizer does not see that liburing unmaps a ring and the kernel maps the next one at the
// same address, and takes their users for racing.
#if defined(PERDURA_THREAD_SANITIZER)
constexpr bool kRingsUsable = false;
#else
constexpr bool kRingsUsable = true;
#endif

std::string place(const std::string& path, const char* what, u64 offset, u64 length) {
  return std::string("cannot ") + what + " " + std::to_string(length) + " bytes at offset " +
         std::to_string(offset) + " of '" + path + "'";
}

Status write_fully(int fd, const std::string& path, u64 offset, Bytes data) {
  while (!data.empty()) {
    const ssize_t done = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return system_failure(errno, place(path, "write", offset, data.size()));
    if (done == 0) return system_failure(ENOSPC, place(path, "write", offset, data.size()));
    offset += static_cast<u64>(done);
    data = data.subspan(static_cast<size_t>(done));
  }
  return {};
}

/// Writes at once: where io_uring is refused (seccomp, old kernels).
class PlainQueue final : public WriteQueue {
 public:
  PlainQueue(int fd, const std::string& path) : fd_(fd), path_(path) {}
  Status submit(u64 offset, Bytes data, const Site&) override {
    return write_fully(fd_, path_, offset, data);
  }
  Status drain(size_t) override { return {}; }

 private:
  const int fd_;
  const std::string& path_;
};

// Nothing is wrong then, but checkpoints take longer than the disk needs. Once a process.
void say_refused(const std::string& path, int error_number) {
  Events::nobody().tell(
      EventKind::kMediumSlow, Code::kUnsupported,
      "'" + path + "' is written by one call after the other, since io_uring is refused: " +
          std::generic_category().message(error_number) +
          "; checkpoints on a disk take longer with that; allow io_uring_setup, io_uring_enter and "
          "io_uring_register in the sandbox (and see kernel.io_uring_disabled), or open the store "
          "with io_uring=0",
      Events::Line::kOnceAProcess);
}

/// Transfers in flight on a ring of their own.
class RingQueue final : public WriteQueue {
 public:
  /// `abandoned` is set where transfers cannot be waited for: they may land at any later time.
  static std::unique_ptr<RingQueue> create(int fd, const std::string& path,
                                           std::atomic<bool>& abandoned) {
    std::unique_ptr<RingQueue> queue(new RingQueue(fd, path, abandoned));
    const int error = io_uring_queue_init(kQueueDepth, &queue->ring_, 0);
    if (error == -EPERM || error == -EACCES || error == -ENOSYS) say_refused(path, -error);
    if (error != 0) return nullptr;
    queue->ready_ = true;
    return queue;
  }

  ~RingQueue() override {
    if (!ready_) return;
    // The buffers of writes in flight belong to the caller, who may be unwinding.
    while (pending_ != 0 && reap()) {
    }
    io_uring_queue_exit(&ring_);
  }

  Status submit(u64 offset, Bytes data, const Site&) override {
    // The ring takes a mutable pointer for both directions; a write only reads through it.
    return add(Transfer{.offset = offset,
                        .data = const_cast<std::byte*>(data.data()),
                        .length = data.size(),
                        .is_write = true});
  }

  Status submit_read(u64 offset, MutableBytes into) {
    return add(
        Transfer{.offset = offset, .data = into.data(), .length = into.size(), .is_write = false});
  }

  Status drain(size_t pending_max) override {
    while (pending_ != 0 && next_order_ - oldest_order() > pending_max)
      if (!reap()) break;
    return take_failure();
  }

 private:
  struct Transfer {
    u64 offset = 0;
    std::byte* data = nullptr;
    size_t length = 0;
    bool is_write = false;
    bool busy = false;
    u64 order = 0;
  };

  Status add(Transfer transfer) {
    while (pending_ >= kQueueDepth)
      if (!reap()) return take_failure();
    const auto free = std::find_if(transfers_.begin(), transfers_.end(),
                                   [](const Transfer& each) { return !each.busy; });
    *free = transfer;
    free->busy = true;
    free->order = next_order_++;
    ++pending_;
    return start(*free) ? Status{} : take_failure();
  }

  u64 oldest_order() const {
    u64 oldest = next_order_;
    for (const Transfer& each : transfers_)
      if (each.busy) oldest = std::min(oldest, each.order);
    return oldest;
  }

  RingQueue(int fd, const std::string& path, std::atomic<bool>& abandoned)
      : fd_(fd), path_(path), abandoned_(abandoned) {}

  bool start(Transfer& transfer) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    PERDURA_ASSERT(sqe != nullptr);
    const auto length = static_cast<unsigned>(std::min(transfer.length, kTransferBytesMax));
    if (transfer.is_write) io_uring_prep_write(sqe, fd_, transfer.data, length, transfer.offset);
    else io_uring_prep_read(sqe, fd_, transfer.data, length, transfer.offset);
    io_uring_sqe_set_data(sqe, &transfer);
    int done = 0;
    do done = io_uring_submit(&ring_);
    while (done == -EINTR || done == -EAGAIN);
    if (done >= 0) return true;
    // The entry stays in the ring and goes with the next one: by then it must do nothing.
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, nullptr);
    fail(transfer, -done);
    return false;
  }

  // Wait for one completion. False when the ring itself fails: what is in flight is left behind.
  bool reap() {
    io_uring_cqe* cqe = nullptr;
    int error = 0;
    do error = io_uring_wait_cqe(&ring_, &cqe);
    while (error == -EINTR);
    if (error != 0) {
      abandoned_ = true;
      if (status_) status_ = system_failure(-error, "cannot wait for I/O on '" + path_ + "'");
      return false;
    }
    void* const data = io_uring_cqe_get_data(cqe);
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    if (data == nullptr) return true;  // an entry that was withdrawn
    Transfer& transfer = *static_cast<Transfer*>(data);
    // One that cannot be started again is over, the others are still to be waited for.
    if (result == -EINTR || result == -EAGAIN) {
      start(transfer);
      return true;
    }
    if (result <= 0) {
      // A read of nothing is the end of the file; a write of nothing, a full device.
      fail(transfer, result < 0 ? -result : transfer.is_write ? ENOSPC : ENODATA);
      return true;
    }
    const auto done = static_cast<size_t>(result);
    transfer.offset += done;
    transfer.data += done;
    transfer.length -= done;
    if (transfer.length != 0) start(transfer);
    else finish(transfer);
    return true;
  }

  void finish(Transfer& transfer) {
    transfer.busy = false;
    --pending_;
  }
  void fail(Transfer& transfer, int error_number) {
    finish(transfer);
    if (status_)
      status_ = system_failure(error_number, place(path_, transfer.is_write ? "write" : "read",
                                                   transfer.offset, transfer.length));
  }
  Status take_failure() { return std::exchange(status_, Status{}); }

  const int fd_;
  const std::string& path_;
  std::atomic<bool>& abandoned_;
  io_uring ring_{};
  bool ready_ = false;
  std::array<Transfer, kQueueDepth> transfers_;
  size_t pending_ = 0;
  u64 next_order_ = 0;
  Status status_;
};

class FileMedium final : public LinearMedium {
 public:
  FileMedium(std::string path, UniqueFd mapped, FileLock locked, HeldFd read_through, bool direct,
             u64 size, const MediumOptions& options)
      : file_(std::move(mapped), std::move(path)),
        path_(file_.path()),
        locked_(std::move(locked)),
        read_through_(std::move(read_through)),
        direct_(direct),
        use_io_uring_(options.use_io_uring && kRingsUsable),
        shares_(options.shares),
        size_(size) {}
  ~FileMedium() override {
    if (abandoned_) locked_.leave_to_writes();
  }

  const std::string& name() const override { return path_; }

  Geometry geometry() const override {
    return Geometry{.size = size_.load(std::memory_order_acquire),
                    .atomic_bytes = 512,
                    .write_bytes = kPageBytes,
                    .byte_addressable = false};
  }

  Status grow(u64 size, bool prewrite) override {
    const u64 old = size_.load(std::memory_order_acquire);
    if (size <= old) return {};
    PERDURA_TRY(extend_file(file_.fd(), path_, old, size));
    if (prewrite) PERDURA_TRY(write_zeros(old, size));
    size_.store(size, std::memory_order_release);
    return {};
  }

  Status shrink(u64 size) override {
    if (size >= size_.load(std::memory_order_acquire)) return {};
    PERDURA_TRY(cut_file(file_.fd(), path_, size));
    size_.store(size, std::memory_order_release);
    return {};
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
    check(offset, data);
    return write_fully(fd(), path_, offset, data);
  }

  std::unique_ptr<WriteQueue> queue() override {
    if (use_io_uring_)
      if (auto queue = RingQueue::create(fd(), path_, abandoned_)) return queue;
    return std::make_unique<PlainQueue>(fd(), path_);
  }

  // After one failed fdatasync the kernel has dropped the dirty state: a later success would prove
  // nothing. So the failure stays; and so it is with a write that nobody could wait for, which may
  // land in a place that was given away since. Of two at a time the kernel tells one, and the other
  // succeeds with as little on the disk: so there is one at a time. Whoever finds one under way
  // waits for the next, which begins after his writes, and is one for all who wait.
  Status barrier(const Site&) override {
    std::unique_lock lock(flush_mutex_);
    const u64 needed = flushes_begun_ + 1;
    while (flushes_done_ < needed) {
      if (poisoned_ || abandoned_) return poison_failure();
      PERDURA_TRY(file_.check_named());
      if (flushes_begun_ == flushes_done_) PERDURA_TRY(flush(lock));
      else flush_ended_.wait(lock);
    }
    return {};
  }

  Status check_named() const override { return file_.check_named(); }
  Status give_up_name() override { return file_.give_up_name(); }

  Status pin(u32 region, u64 version) override { return locked_.pin(path_, region, version); }
  u64 lowest_pin(u32 region, u64 from) const noexcept override {
    return locked_.lowest_pin(region, from);
  }
  bool has_writer() const noexcept override { return locked_.has_writer(); }
  bool has_readers() const noexcept override { return locked_.has_readers(); }
  FileLock* sharing() noexcept override { return shares_ ? &locked_ : nullptr; }
  Status look_again() override {
    PERDURA_ASSIGN(const u64 size, file_.size());
    size_.store(std::max(size, size_.load(std::memory_order_relaxed)), std::memory_order_release);
    return {};
  }

  Status read(u64 offset, MutableBytes into) override {
    const bool aligned = is_aligned(offset, kPageBytes) && is_aligned(into.size(), kPageBytes) &&
                         is_aligned(reinterpret_cast<std::uintptr_t>(into.data()), kPageBytes);
    if (aligned || !direct_) return read_fully(fd(), offset, into);
    const u64 begin = round_down(offset, kPageBytes);
    AlignedBuffer buffer(round_up(offset + into.size(), kPageBytes) - begin);
    PERDURA_TRY(read_fully(fd(), begin, buffer.span()));
    std::memcpy(into.data(), buffer.data() + (offset - begin), into.size());
    return {};
  }

  Status read_all(std::span<const ReadRequest> requests) override {
    const auto ring =
        use_io_uring_ && requests.size() > 1 ? RingQueue::create(fd(), path_, abandoned_) : nullptr;
    if (!ring) return Medium::read_all(requests);
    for (const ReadRequest& request : requests)
      PERDURA_TRY(ring->submit_read(request.offset, request.into));
    return ring->drain(0);
  }

  const std::byte* direct(u64, u64) override { return nullptr; }

  Status map_home(void* address, u64 offset, u64 length) override {
    return map_private(file_.fd(), path_, address, offset, length);
  }

 private:
  // One way of writing a file, never two: dirty pages of the cache beside direct writes make
  // fsync fail on ext4 and XFS.
  int fd() const { return read_through_ ? read_through_.get() : locked_.fd(); }

  void check(u64 offset, Bytes data) const {
    PERDURA_ASSERT(is_aligned(offset, kPageBytes) && is_aligned(data.size(), kPageBytes));
    PERDURA_ASSERT(is_aligned(reinterpret_cast<std::uintptr_t>(data.data()), kPageBytes));
    PERDURA_ASSERT(offset + data.size() <= size_.load(std::memory_order_relaxed));
  }

  Failure poison_failure() const {
    return Failure{Code::kIo, "an earlier " + std::string(poisoned_ ? "flush" : "write") + " of '" +
                                  path_ +
                                  "' to its disk failed, so nothing written since can be trusted; "
                                  "close the store, check the disk, and open it again"};
  }

  Status flush(std::unique_lock<std::mutex>& lock) {
    ++flushes_begun_;
    lock.unlock();
    const int error_number = ::fdatasync(fd()) == 0 ? 0 : errno;
    lock.lock();
    if (error_number == 0) ++flushes_done_;
    else poisoned_ = true;
    flush_ended_.notify_all();
    if (error_number == 0) return {};
    return system_failure(error_number, "cannot flush '" + path_ + "' to its disk");
  }

  Status write_zeros(u64 from, u64 to) {
    AlignedBuffer zeros(std::min(to - from, kMiB));
    std::memset(zeros.data(), 0, zeros.size());
    while (from < to) {
      const u64 length = std::min<u64>(to - from, zeros.size());
      PERDURA_TRY(write_fully(fd(), path_, from, zeros.first(length)));
      from += length;
    }
    return {};
  }

  Status read_fully(int fd, u64 offset, MutableBytes into) {
    while (!into.empty()) {
      const ssize_t done = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return system_failure(errno, place(path_, "read", offset, into.size()));
      if (done == 0)
        return Failure{Code::kCorrupt, "'" + path_ + "' ends before offset " +
                                           std::to_string(offset + into.size()) + ": truncated"};
      offset += static_cast<u64>(done);
      into = into.subspan(static_cast<size_t>(done));
    }
    return {};
  }

  NamedFile file_;  ///< to map, and to extend
  const std::string& path_;
  FileLock locked_;  ///< a writer's is for all I/O
  /// A reader's is not: reads may be in flight for a while after their process was killed, and
  /// nobody need wait for them.
  HeldFd read_through_;
  const bool direct_;
  std::atomic<bool> abandoned_{false};
  const bool use_io_uring_;
  const bool shares_;
  std::atomic<u64> size_;

  std::mutex flush_mutex_;
  std::condition_variable flush_ended_;
  u64 flushes_begun_ = 0;
  u64 flushes_done_ = 0;
  bool poisoned_ = false;
};

// Where reads come from the page cache, it may show what an earlier opener wrote and could not
// flush: the disk lacks it, and no later flush writes it. So recovery must read the disk. Flushed
// first, the pages of an opener that died are not among those.
Status drop_cached(int fd, const std::string& path) {
  if (::fdatasync(fd) != 0) return system_failure(errno, "cannot flush '" + path + "' to its disk");
  if (const int error_number = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); error_number != 0)
    return system_failure(error_number, "cannot drop '" + path + "' from the page cache");
  return {};
}

}  // namespace

Result<OpenedMedium> open_file(const std::string& path, const MediumOptions& options) {
  PERDURA_ASSIGN(OpenedFile opened, open_store_file(path, options));
  UniqueFd io(::open(path.c_str(), opened.access() | O_CLOEXEC | O_DIRECT));
  const bool direct = static_cast<bool>(io);
  if (!direct) io = UniqueFd(::open(path.c_str(), opened.access() | O_CLOEXEC));
  if (!io) return system_failure(errno, "cannot open '" + path + "' to lock it");
  const LockOptions lock{
      .reads = options.read_only, .shares = options.shares, .patience_ms = options.timeout_ms};
  const int file = opened.file.get();
  PERDURA_ASSIGN(FileLock locked, lock.reads ? lock_file(path, file, opened.access(), lock)
                                             : lock_file(path, file, std::move(io), lock));
  HeldFd read_through = lock.reads ? HeldFd(std::move(io)) : HeldFd();
  if (!direct && !(lock.shares && locked.has_others()))
    PERDURA_TRY(drop_cached(lock.reads ? read_through.get() : locked.fd(), path));
  auto medium = std::make_unique<FileMedium>(path, std::move(opened.file), std::move(locked),
                                             std::move(read_through), direct, opened.size, options);
  if (options.shares) PERDURA_TRY(medium->look_again());  // others may have made it meanwhile
  const bool is_empty = medium->geometry().size == 0;
  return OpenedMedium{std::move(medium), is_empty};
}

}  // namespace perdura::media
