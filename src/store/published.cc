#include "store/published.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/clock.hpp"
#include "media/lock.hpp"
#include "store/recovery.hpp"

namespace perdura::store {
namespace {

constexpr u64 kPageMagic = 0x7374617473304450;  // "PD0stats"
constexpr u32 kPageVersion = 2;                 // another one where counters() changes
constexpr size_t kNumbersMax = 64;
constexpr int kReadsMax = 100;
constexpr std::chrono::microseconds kReadAgain(200);

template <auto kMember>
u64 number_of(const Statistics& statistics) {
  return statistics.*kMember;
}

using S = Statistics;
constexpr PublishedCounter kCounters[] = {
    {"durable_version", "Newest version that survives a crash", false,
     number_of<&S::durable_version>},
    {"replayed_version", "Newest version whole in the home image", false,
     number_of<&S::replayed_version>},
    {"confirmed_version", "Newest version that the superblock knows of", false,
     number_of<&S::confirmed_version>},
    {"pinned_version", "Oldest version that a reader has open; 0: none", false,
     number_of<&S::pinned_version>},
    {"checkpoints", "Versions made", true, number_of<&S::checkpoints>},
    {"failed_checkpoints", "Checkpoints that failed", true, number_of<&S::failed_checkpoints>},
    {"late_checkpoints", "Changes that were durable later than checkpoint_every is to have them",
     true, number_of<&S::late_checkpoints>},
    {"checkpoint_ns", "Time from the beginning of checkpoints until they were durable", true,
     number_of<&S::checkpoint_ns>},
    {"changed_bytes", "Bytes in change sets", true, number_of<&S::changed_bytes>},
    {"log_bytes", "Bytes written to the log, or in chunks and map nodes", true,
     number_of<&S::log_bytes>},
    {"home_bytes", "Bytes written to home images by replay", true, number_of<&S::home_bytes>},
    {"side_copies", "Lines copied aside during background captures", true,
     number_of<&S::side_copies>},
    {"log_live_bytes", "Log space not yet replayed", false, number_of<&S::log_live_bytes>},
    {"log_capacity_bytes", "Log space allocated on the medium", false,
     number_of<&S::log_capacity_bytes>},
    {"log_limit_bytes", "Log space after which checkpoints wait for replay", false,
     number_of<&S::log_limit_bytes>},
    {"region_backed_bytes", "Bytes of the region with space on the medium", false,
     number_of<&S::region_backed_bytes>},
    {"pauses", "Stops of all mutators", true, number_of<&S::pause_count>},
    {"pause_p99_ns", "99th percentile of the stops of all mutators", false,
     number_of<&S::pause_p99_ns>},
    {"pause_max_ns", "Longest stop of all mutators", false, number_of<&S::pause_max_ns>},
    {"stop_waits", "Operations that waited for a stop", true, number_of<&S::stop_waits>},
    {"stop_wait_ns", "Time that operations waited for stops", true, number_of<&S::stop_wait_ns>},
    {"checkpoint_waits", "Calls that waited for a version under way", true,
     number_of<&S::checkpoint_waits>},
    {"checkpoint_wait_ns", "Time that calls waited for versions under way", true,
     number_of<&S::checkpoint_wait_ns>},
    {"log_waits", "Checkpoints that waited for replay", true, number_of<&S::log_waits>},
    {"log_wait_ns", "Time that checkpoints waited for replay", true, number_of<&S::log_wait_ns>},
    {"group_waits", "Calls and transactions that waited for a barrier shared by a group", true,
     number_of<&S::group_waits>},
    {"group_wait_ns", "Time that they waited for it", true, number_of<&S::group_wait_ns>},
    {"verified_bytes", "Bytes of the home image compared with checksums", true,
     number_of<&S::verified_bytes>},
    {"damaged_pages", "Pages or chunks found damaged", false, number_of<&S::damaged_pages>},
    {"unreported", "Lines found changed but not reported (verify_reports)", false,
     number_of<&S::unreported>},
    {"events", "Events told to the program, or on stderr", true, number_of<&S::events>},
    {"untyped_allocations", "Allocations of the process whose type the compiler did not see", true,
     number_of<&S::untyped_allocations>},
    {"drained_version", "Newest version that the drain has; 0: none", false,
     number_of<&S::drained_version>},
    {"drained_versions", "Versions sent to the drain", true, number_of<&S::drained_versions>},
    {"drain_skipped", "Versions not sent to the drain, as newer ones were there", true,
     number_of<&S::drain_skipped>},
    {"drain_read_bytes", "Bytes read for the drain", true, number_of<&S::drain_read_bytes>},
    {"drain_bytes", "Bytes written to the drain", true, number_of<&S::drain_bytes>},
    {"drain_failures", "Attempts to drain that failed", true, number_of<&S::drain_failures>},
    {"recovery_ns", "Time that opening spent on recovery", false, number_of<&S::recovery_ns>},
};
static_assert(std::size(kCounters) <= kNumbersMax);

std::string hex_of(const u8 (&uuid)[16]) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const u8 byte : uuid) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// What links to it in /proc/PID/fd begin with, behind "/memfd:".
std::string name_of_memory(const u8 (&uuid)[16]) { return "perdura-stats-" + hex_of(uuid) + "-"; }

}  // namespace

std::span<const PublishedCounter> counters() { return kCounters; }

u64 PublishedCounters::value(std::string_view name) const {
  const auto found = std::ranges::find_if(
      kCounters, [&](const PublishedCounter& each) { return each.name == name; });
  PERDURA_ASSERT(found != std::end(kCounters));
  return values[static_cast<size_t>(found - kCounters)];
}

struct Published::Page {
  u64 magic = kPageMagic;
  u32 version = kPageVersion;
  u32 count = std::size(kCounters);
  u64 checksum = 0;  ///< of all that follows
  u64 region = 0;
  char name[32] = {};
  char occupant[64] = {};
  u64 is_open = 1;
  u64 opened_ns = 0;
  u64 written_ns = 0;
  u64 tracking = 0;
  u64 values[kNumbersMax] = {};

  u64 sum() const { return perdura::checksum(&region, sizeof *this - offsetof(Page, region)); }
};

Published::Published(media::HeldFd fd, Mapping memory)
    : fd_(std::move(fd)), memory_(std::move(memory)), page_(std::make_unique<Page>()) {}

Result<std::unique_ptr<Published>> Published::create(const Of& of) {
  static_assert(sizeof(Page) <= kPageBytes);
  const std::string name = name_of_memory(of.uuid) + std::to_string(of.region);
  media::HeldFd fd(UniqueFd(::memfd_create(name.c_str(), MFD_CLOEXEC)));
  if (!fd || ::ftruncate(fd.get(), kPageBytes) != 0)
    return system_failure(errno, "cannot make memory for statistics");
  PERDURA_ASSIGN(Mapping memory, Mapping::reserve(nullptr, kPageBytes));
  if (map_without_children(memory.as<void>(), kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                           fd.get(), 0) == MAP_FAILED)
    return system_failure(errno, "cannot map memory for statistics");
  std::unique_ptr<Published> made(new Published(std::move(fd), std::move(memory)));
  Page& page = *made->page_;
  page.region = of.region;
  of.name.copy(page.name, sizeof page.name - 1);
  of.occupant.copy(page.occupant, sizeof page.occupant - 1);
  page.opened_ns = now_ns();
  return made;
}

Published::~Published() {
  page_->is_open = 0;
  put();
}

void Published::write(const Statistics& statistics) noexcept {
  for (size_t i = 0; i < std::size(kCounters); ++i)
    page_->values[i] = kCounters[i].value(statistics);
  page_->tracking = static_cast<u64>(statistics.tracking);
  put();
}

void Published::put() noexcept {
  page_->written_ns = now_ns();
  page_->checksum = page_->sum();
  std::memcpy(memory_.as<void>(), page_.get(), sizeof *page_);
}

// --- in another process --------------------------------------------------------------------------

Result<PublishedCounters> PublishedView::read() const {
  Published::Page page;
  for (int reads = 0;; ++reads) {
    if (::pread(fd_.get(), &page, sizeof page, 0) != static_cast<ssize_t>(sizeof page) ||
        page.magic != kPageMagic)
      return Failure{Code::kCorrupt, "the process publishes no statistics that can be read"};
    if (page.version != kPageVersion || page.count != std::size(kCounters))
      return Failure{Code::kUnsupported,
                     "the process has another Perdura, which publishes other statistics: run the "
                     "`perdura` of that"};
    if (page.checksum == page.sum()) break;
    if (reads == kReadsMax)
      return Failure{Code::kCorrupt,
                     "the statistics of the process do not fit their checksum: it has ended while "
                     "it wrote them, or stored there what it should not"};
    std::this_thread::sleep_for(kReadAgain);
  }
  PublishedCounters all;
  all.region = page.region;
  all.name.assign(page.name, ::strnlen(page.name, sizeof page.name));
  all.tracking = static_cast<Tracking>(page.tracking);
  all.is_open = page.is_open != 0;
  all.opened_ns = page.opened_ns;
  all.written_ns = page.written_ns;
  all.values.assign(page.values, page.values + page.count);
  return all;
}

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::string link_at(const std::string& path) {
  std::array<char, 512> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<size_t>(length)) : "";
}

}  // namespace

Result<std::vector<PublishedView>> PublishedView::find(u64 pid, const u8 (&uuid)[16],
                                                       const std::string& occupant) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  const std::unique_ptr<DIR, CloseFolder> listed(::opendir(folder.c_str()));
  if (listed == nullptr) {
    if (errno == EACCES || errno == EPERM)
      return Failure{
          Code::kUnsupported,
          "process " + std::to_string(pid) +
              " belongs to another user, or may not be looked at: run `perdura stats` as "
              "its user, or as root"};
    return Failure{Code::kNotFound,
                   "process " + std::to_string(pid) +
                       " cannot be found: it has ended, or is in another namespace of processes (a "
                       "container); run `perdura stats` there"};
  }
  const std::string begins = "/memfd:" + name_of_memory(uuid);
  std::vector<std::pair<u64, PublishedView>> found;
  std::optional<Failure> failure;
  while (const dirent* const entry = ::readdir(listed.get())) {
    const std::string path = folder + "/" + entry->d_name;
    if (!link_at(path).starts_with(begins)) continue;
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) continue;  // it was closed just now
    PublishedView view(std::move(fd));
    const Result<PublishedCounters> counters = view.read();
    if (!counters) {
      failure = counters.failure();
      continue;
    }
    if (!occupant.empty()) {
      Published::Page page;
      if (::pread(view.fd_.get(), &page, sizeof page, 0) != static_cast<ssize_t>(sizeof page) ||
          occupant.compare(0, sizeof page.occupant - 1, page.occupant) != 0)
        continue;  // a copy of the store, which it has open as well
    }
    found.emplace_back(counters->region, std::move(view));
  }
  if (found.empty() && failure) return *failure;
  std::ranges::sort(found, {}, [](const auto& each) { return each.first; });
  std::vector<PublishedView> views;
  for (auto& [region, view] : found) views.push_back(std::move(view));
  return views;
}

bool StoreOwner::is_running() const { return media::is_running(pid, start_time); }

Result<StoreOwner> find_owner(std::string_view uri, const media::MediumOptions& options) {
  media::MediumOptions reading = options;
  reading.create = false;
  reading.read_only = true;
  auto opened = media::open_medium(uri, reading);
  if (!opened) {
    Failure failure = opened.failure();
    // Of a server, which nobody looks at beside its writer.
    if (failure.code == Code::kLocked)
      failure.message +=
          "; statistics are seen beside a program on this machine that has a file "
          "open: there Store::statistics() says them";
    return failure;
  }
  PERDURA_ASSIGN(const auto volume, open_volume_to_read(std::move(opened->medium)));
  const std::string name = "'" + volume->name() + "'";
  if (!volume->medium().has_writer())
    return Failure{Code::kNotFound,
                   name +
                       " is open to write in no process, so that there is nothing "
                       "to be seen of its work; `perdura info` says what it holds"};
  media::OwnerPage page;
  PERDURA_TRY(volume->medium().read(format::kOwnerOffset, {page.bytes, sizeof page.bytes}));
  const std::optional<format::OwnerRecord> record = media::owner_in(page);
  if (!record)
    return Failure{Code::kNotFound,
                   name + " is open in a process that has not signed it yet; try again"};
  StoreOwner owner;
  owner.name = volume->name();
  const format::Superblock superblock = volume->superblock();
  std::copy_n(superblock.uuid, sizeof owner.uuid, owner.uuid);
  owner.pid = record->pid;
  owner.start_time = record->start_time;
  owner.program.assign(record->program, ::strnlen(record->program, sizeof record->program));
  owner.occupant = media::occupant_of(uri);
  if (!media::is_of_this_boot(*record))
    return Failure{Code::kUnsupported, name + " is open in process " + std::to_string(owner.pid) +
                                           " (" + owner.program +
                                           ") on another machine; run `perdura stats` there"};
  return owner;
}

}  // namespace perdura::store
