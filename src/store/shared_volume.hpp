// The volume of a medium, shared by the regions of it that this process has open to write: a medium
// is opened with the first of them and closed with the last. Who reads has a medium of his own, as
// if he were another process. Other processes may have it open as well, where all of them share it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "region/volume.hpp"
#include "store/shared_memory.hpp"

namespace perdura::store {

/// The region of a name, or of "" the first one. kNotFound tells which there are.
Result<format::RegionRecord> find_region(const region::Volume& volume, std::string_view name);

/// One use of a volume: of one region. Any thread may make and end it.
class SharedVolume {
 public:
  using Open = std::function<Result<std::unique_ptr<region::Volume>>()>;
  using OpenMedium = std::function<Result<std::unique_ptr<media::Medium>>()>;

  /// Of what `uri` names. `open` opens it, where no region of it is open in this process; else this
  /// session is counted.
  static Result<std::unique_ptr<SharedVolume>> of(std::string_view uri, const Open& open);
  /// Of a volume that other processes may share: regions of objects alone. `open` opens the medium,
  /// which is shared. kLocked where this process has it open for itself.
  static Result<std::unique_ptr<SharedVolume>> among_processes(std::string_view uri, bool create,
                                                               const OpenMedium& open);
  /// Whether this process has it open to write; kLocked where the region, "": the first one, is
  /// somebody's there.
  static Result<bool> is_open(std::string_view uri, std::string_view region);
  /// Of who reads: nobody else's.
  static std::unique_ptr<SharedVolume> of_reader(std::unique_ptr<region::Volume> volume);
  ~SharedVolume();
  SharedVolume(const SharedVolume&) = delete;

  region::Volume& volume() const;
  /// What processes have in common that share it; nullptr: this one has it for itself.
  const std::shared_ptr<SharedMemory>& memory() const;
  /// The use ends in order.
  Status end_session();

  struct Claim {
    format::RegionRecord record;  ///< of a new region its number and its name
    bool is_new;
  };
  /// The region of a name, to be nobody else's meanwhile: kLocked where it is. "" is the first one,
  /// which gets the name "main". With `create` it need not be there, and then becomes so when it is
  /// added to the volume. Once.
  Result<Claim> claim(std::string_view name, bool create);

 private:
  struct Opened;
  struct Registry;
  struct Opening;
  static Registry& registry();
  static Result<std::unique_ptr<SharedVolume>> of(std::string_view uri, bool among_processes,
                                                  const std::function<Result<Opening>()>& open);

  explicit SharedVolume(std::shared_ptr<Opened> opened) : opened_(std::move(opened)) {}

  std::shared_ptr<Opened> opened_;
  u32 region_ = 0;  ///< that is claimed
  /// A session is counted, and no region of it is claimed: it has changed nothing.
  bool has_unused_session_ = false;
};

}  // namespace perdura::store
