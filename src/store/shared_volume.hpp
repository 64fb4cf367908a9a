// The volume of a medium, shared by the regions of it that this process has open to write: a medium
// is opened with the first of them and closed with the last. Who reads has a medium of his own, as
// if he were another process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "region/volume.hpp"

namespace perdura::store {

/// The region of a name, or of "" the first one. kNotFound tells which there are.
Result<format::RegionRecord> find_region(const region::Volume& volume, std::string_view name);

/// One use of a volume: of one region. Any thread may make and end it.
class SharedVolume {
 public:
  using Open = std::function<Result<std::unique_ptr<region::Volume>>()>;

  /// Of what `uri` names. `open` opens it, where no region of it is open in this process; else this
  /// session is counted.
  static Result<std::unique_ptr<SharedVolume>> of(std::string_view uri, const Open& open);
  /// Of who reads: nobody else's.
  static std::unique_ptr<SharedVolume> of_reader(std::unique_ptr<region::Volume> volume);
  ~SharedVolume();
  SharedVolume(const SharedVolume&) = delete;

  region::Volume& volume() const;

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
  static Registry& registry();

  explicit SharedVolume(std::shared_ptr<Opened> opened) : opened_(std::move(opened)) {}

  std::shared_ptr<Opened> opened_;
  u32 region_ = 0;  ///< that is claimed
};

}  // namespace perdura::store
