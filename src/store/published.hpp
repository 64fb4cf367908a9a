// The counters of a region that this process has open to write, for other processes to see
// (`perdura stats`).
//
// They are in a page of memory behind a descriptor (memfd) whose name has the store's UUID and the
// region's number. Whoever may look at this process finds it by that name in /proc/PID/fd, and
// reads it. The checkpoint thread writes it, so that nobody waits for it and no operation is
// slower. It is nothing durable, and goes with the process; a forked child has neither descriptor
// nor memory.
//
//   magic, version ─ checksum of what follows ─ whose ─ when ─ values, in the order of counters()
//
// A reader copies the page while it may be written: what does not fit its checksum is read again.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <perdura/options.hpp>

#include "base/mapping.hpp"
#include "format/format.hpp"
#include "media/held_fd.hpp"
#include "media/medium.hpp"

namespace perdura::store {

/// One that is published. Times are nanoseconds.
struct PublishedCounter {
  const char* name;
  const char* help;
  bool grows;  ///< else it is what it is now
  u64 (*value)(const Statistics& statistics);
};
std::span<const PublishedCounter> counters();

/// As another process sees it.
struct PublishedCounters {
  u64 region = 0;
  std::string name;  ///< of the region
  Tracking tracking = Tracking::kAutomatic;
  bool is_open = false;  ///< false: it was closed since it was found
  u64 opened_ns = 0;     ///< monotonic, of the system
  u64 written_ns = 0;
  std::vector<u64> values;  ///< in the order of counters()

  /// Of the counter of this name, which there is.
  u64 value(std::string_view name) const;
};

class Published {
 public:
  struct Of {
    u8 uuid[16];
    u32 region;
    std::string name;
    std::string occupant;  ///< media::occupant_of(): of two copies of a store it is not the same
  };
  /// Fails where the system has no descriptor or memory for it.
  static Result<std::unique_ptr<Published>> create(const Of& of);
  /// It is closed.
  ~Published();
  Published(const Published&) = delete;

  /// One thread at a time.
  void write(const Statistics& statistics) noexcept;

 private:
  struct Page;
  Published(media::HeldFd fd, Mapping memory);
  void put() noexcept;

  const media::HeldFd fd_;
  const Mapping memory_;
  std::unique_ptr<Page> page_;  ///< what is put there next

  friend class PublishedView;
};

/// A region's page, of another process.
class PublishedView {
 public:
  /// Those that the process has of this store, by their regions' numbers. kNotFound: there is no
  /// such process. kUnsupported: this user may not look at it, or it is another Perdura.
  static Result<std::vector<PublishedView>> find(u64 pid, const u8 (&uuid)[16],
                                                 const std::string& occupant);
  /// What it says now. kCorrupt where it is no such page.
  Result<PublishedCounters> read() const;

 private:
  explicit PublishedView(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// Who has a store open to write, as its owner record says.
struct StoreOwner {
  u64 pid = 0;
  u64 start_time = 0;
  std::string program;
  std::string name;  ///< of the store
  u8 uuid[16] = {};
  std::string occupant;
  /// It still is the one.
  bool is_running() const;
};
/// kNotFound: nobody has. kUnsupported: it is on another machine, or before the system's last
/// start.
Result<StoreOwner> find_owner(std::string_view uri, const media::MediumOptions& options);

}  // namespace perdura::store
