#include "preload/instrument.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "media/decorator.hpp"
#include "preload/children.hpp"
#include "preload/reports.hpp"
#include "preload/sampler.hpp"
#include "preload/settings.hpp"
#include "region/volume.hpp"
#include "store/runtime.hpp"

namespace perdura::preload {
namespace {

/// Says in the directory that a store came from here, and that nobody will miss it.
constexpr const char* kRegionName = "malloc";

/// The first words of a block that waits to be freed; no block is smaller.
struct Waiting {
  Waiting* next;
};
constinit std::atomic<Waiting*> waiting{nullptr};

struct Exit {
  Usage begin;  ///< what was used up before
  std::string statistics_path;
};
// Never destroyed: written when the process ends.
const Exit* at_exit = nullptr;

Usage usage_now() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return {.run_ns = now_ns(), .page_faults = static_cast<u64>(used.ru_minflt)};
}

/// While it lives, what is opened gets descriptors that programs do not expect to be taken: shells
/// put their own files at the low ones by number, and would replace the store's.
class LowDescriptorsTaken {
 public:
  LowDescriptorsTaken() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const int first = static_cast<int>(std::min<rlim_t>(kFirst, limit.rlim_cur / 2));
    UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    while (null && null.get() < first) {
      UniqueFd next(::fcntl(null.get(), F_DUPFD_CLOEXEC, 0));
      taken_.push_back(std::move(null));
      null = std::move(next);
    }
  }

 private:
  static constexpr rlim_t kFirst = 512;
  std::vector<UniqueFd> taken_;
};

// A store that an earlier program left is replaced. Its lock is held while that is found out, so
// that of programs that begin at once each finds either nothing or a store in use.
Status remove_store_of_earlier_run(const std::string& uri) {
  media::MediumOptions options;
  options.create = false;
  auto existing = media::open_medium(uri, options);
  if (!existing) {
    if (existing.failure().code == Code::kNotFound) return {};
    return existing.failure();
  }
  PERDURA_ASSIGN(const bool blank, region::Volume::is_blank(*existing->medium));
  if (blank) return {};
  PERDURA_ASSIGN(const auto volume, region::Volume::open(std::move(existing->medium)));
  const auto regions = volume->regions();
  if (regions.empty()) return {};
  if (std::string_view(regions.front().name) != kRegionName)
    return Failure{Code::kForeign, "'" + volume->name() +
                                       "' is the store of a program that uses Perdura itself; "
                                       "PERDURA_STORE takes a new file"};
  if (::unlink(volume->name().c_str()) != 0)
    return system_failure(errno, "cannot replace '" + volume->name() + "'");
  return {};
}

/// Space that nobody will write to: a program that is sampled takes no checkpoint, and would wait
/// for memory that it asks for and never uses.
class PromisedSpace final : public media::Decorator {
 public:
  using Decorator::Decorator;
  /// From now on it grows by words alone.
  void begin() { promises_ = true; }

  media::Geometry geometry() const override {
    media::Geometry geometry = Decorator::geometry();
    geometry.size = std::max(geometry.size, promised_.load(std::memory_order_relaxed));
    return geometry;
  }
  Status grow(u64 size, bool prewrite) override {
    if (!promises_) return Decorator::grow(size, prewrite);
    promised_.store(std::max(size, promised_.load(std::memory_order_relaxed)),
                    std::memory_order_relaxed);
    return {};
  }

 private:
  bool promises_ = false;
  std::atomic<u64> promised_{0};
};

Result<std::unique_ptr<detail::Runtime>> open_new(const Settings& settings) {
  const LowDescriptorsTaken low_descriptors;
  PERDURA_TRY(remove_store_of_earlier_run(settings.uri));
  detail::InternalOptions internal;
  internal.children_inherit = true;
  // Rings are opened when they are needed: then their descriptors are low ones.
  internal.use_io_uring = false;
  Options options = settings.options;
  options.region = kRegionName;
  // Without a name it never outlives its process, whatever ends that, and whatever fails from here
  // on.
  PromisedSpace* space = nullptr;
  internal.wrap = [&](std::unique_ptr<media::Medium> medium) -> std::unique_ptr<media::Medium> {
    if (settings.is_default_uri) (void)medium->give_up_name();
    if (settings.sample_path.empty()) return medium;
    auto promised = std::make_unique<PromisedSpace>(std::move(medium));
    space = promised.get();
    return promised;
  };
  auto runtime = detail::Runtime::open(settings.uri, options, internal);
  if (runtime && space != nullptr) space->begin();
  return runtime;
}

Status begin() {
  PERDURA_ASSIGN(const Settings settings, Settings::from_environment());
  void* const page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || ::madvise(page, kPageBytes, MADV_WIPEONFORK) != 0)
    return system_failure(errno, "cannot map memory that a fork wipes (Linux 4.14 can)");
  const Usage begin = usage_now();
  // Reports that nobody took would be asked about one by one.
  const Status taken = take_reports(settings.by_reports ? Reports::kTracked : Reports::kCounted);
  if (settings.by_reports && !taken) return taken;
  PERDURA_ASSIGN(auto runtime, open_new(settings));
  PERDURA_TRY(let_children_inherit(runtime->region()));
  if (!settings.sample_path.empty()) {
    sampler = new Sampler(*runtime, settings.sample_path, begin.run_ns);
    sampler->start();
  } else {
    runtime->checkpointer().every(settings.checkpoint_interval);
    poll_interval_ns =
        static_cast<u64>(std::chrono::nanoseconds(settings.checkpoint_interval).count());
  }
  memory = {runtime->region().base(), runtime->region().reserved_bytes(), &runtime->heap(),
            runtime->region().aliases() != 0};
  at_exit = new Exit{begin, settings.statistics_path};
  // Never closed: the program's threads use it until the process has ended.
  opened = ::new (page) Opened{&runtime->heap(), runtime.get()};
  runtime.release();
  return {};
}

// Before this, calls are libc's: the C library and what the program links to are initialized now.
__attribute__((constructor)) void begin_or_say_why_not() {
  const InLibrary in_library;
  if (!program_calls_us()) {
    say("malloc is another one's, the program's own or that of a library before this one; nothing "
        "is on the heap, and there is no store");
    return;
  }
  const Status begun = guarded([] { return begin(); });
  if (!begun) say(begun.failure().message + "; the program runs on libc's malloc");
}

__attribute__((destructor)) void end() {
  if (opened->heap == nullptr) return;
  // A signal handler that ends the program may have interrupted a call to the heap.
  const bool is_in_call = this_thread.phase == Phase::kServed && this_thread.mutator == nullptr;
  const InLibrary in_library;
  const Usage now = usage_now();
  const Usage used{.run_ns = now.run_ns - at_exit->begin.run_ns,
                   .page_faults = now.page_faults - at_exit->begin.page_faults};
  if (sampler != nullptr && !is_in_call) sampler->end();
  if (!at_exit->statistics_path.empty())
    write_statistics(*opened->runtime, used, at_exit->statistics_path);
}

void free_waiting(detail::Mutator& mutator) {
  Waiting* block = waiting.exchange(nullptr, std::memory_order_acquire);
  while (block != nullptr) {
    Waiting* const next = block->next;
    detail::enter(mutator);
    const Status freed = opened->heap->deallocate(mutator, block);
    detail::leave(mutator);
    if (!freed) say(freed.failure().message);
    block = next;
  }
}

/// Destroyed before what gives the mutator to another thread, since it is made after that.
struct ThreadEnd {
  void arm() {}
  ~ThreadEnd() { this_thread = {nullptr, Phase::kEnded}; }
};

}  // namespace

bool serve_this_thread() noexcept {
  if (this_thread.phase != Phase::kUnknown || opened->heap == nullptr) return false;
  detail::Mutator* mutator = nullptr;
  try {
    const InLibrary in_library;
    mutator = &opened->runtime->mutators().this_thread();
    free_waiting(*mutator);
    static thread_local ThreadEnd thread_end;
    thread_end.arm();
  } catch (...) {
    // Without memory for a mutator; the next call tries again.
    return false;
  }
  this_thread = {mutator, Phase::kServed};
  return true;
}

void free_later(void* block) noexcept {
  auto* const mine = static_cast<Waiting*>(block);
  mine->next = waiting.load(std::memory_order_relaxed);
  while (!waiting.compare_exchange_weak(mine->next, mine, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

void say(const std::string& sentence) noexcept {
  try {
    const std::string line = "libperdura_malloc: " + sentence + "\n";
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    (void)written;
  } catch (const std::bad_alloc&) {
    // Nothing can be said.
  }
}

}  // namespace perdura::preload
