// A medium that passes every call on: what the decorators build upon.
#pragma once

#include <utility>

#include "base/assert.hpp"
#include "media/medium.hpp"

namespace perdura::media {

class Decorator : public LinearMedium {
 public:
  explicit Decorator(std::unique_ptr<Medium> inner)
      : LinearMedium(inner->decides()), owned_(std::move(inner)), inner_(owned_.get()) {}

  const std::string& name() const override { return inner_->name(); }
  Geometry geometry() const override { return inner_->geometry(); }
  Status grow(u64 size, bool prewrite) override { return inner_->grow(size, prewrite); }
  Status shrink(u64 size) override { return inner_->shrink(size); }
  Status give_back(u64 offset, u64 length) override { return inner_->give_back(offset, length); }
  Status have_space(u64 offset, u64 length) override { return inner_->have_space(offset, length); }
  u64 occupied_bytes() const override { return inner_->occupied_bytes(); }
  Status write(u64 offset, Bytes data, const Site& site) override {
    return inner_->write(offset, data, site);
  }
  std::unique_ptr<WriteQueue> queue() override { return inner_->queue(); }
  Status barrier(const Site& site) override { return inner_->barrier(site); }
  /// On linear media the same as write(), as which decorators see it.
  Status write_record(u64 place, Bytes record, const Site& site) override {
    if (!geometry().objects) return write(place, record, site);
    return inner_->write_record(place, record, site);
  }
  /// One by one, as which decorators see them.
  Status write_record_copies(std::span<const u64> places, Bytes record, const Site& site) override {
    return Medium::write_record_copies(places, record, site);
  }
  Status check_named() const override { return inner_->check_named(); }
  Status give_up_name() override { return inner_->give_up_name(); }
  Status read(u64 offset, MutableBytes into) override { return inner_->read(offset, into); }
  Status read_all(std::span<const ReadRequest> requests) override {
    return inner_->read_all(requests);
  }
  const std::byte* direct(u64 offset, u64 length) override {
    return linear_inner().direct(offset, length);
  }
  Status pin(u32 region, u64 version) override { return inner_->pin(region, version); }
  u64 lowest_pin(u32 region, u64 from) const noexcept override {
    return inner_->lowest_pin(region, from);
  }
  bool has_writer() const noexcept override { return inner_->has_writer(); }
  bool has_readers() const noexcept override { return inner_->has_readers(); }
  Status look_again() override { return inner_->look_again(); }
  FileLock* sharing() noexcept override { return inner_->sharing(); }
  Status load(std::span<const ReadRequest> requests) override { return inner_->load(requests); }
  const std::byte* view(u64 offset) override { return linear_inner().view(offset); }
  bool decide(u64 offset, const std::byte* bytes, u64 length, const Site& site,
              Fits fits) override {
    return inner_->decide(offset, bytes, length, site, fits);
  }
  Status map_home(void* address, u64 offset, u64 length) override {
    return linear_inner().map_home(address, offset, length);
  }

 protected:
  /// Of one that is somebody else's, and outlives this.
  explicit Decorator(Medium& inner) : LinearMedium(inner.decides()), inner_(&inner) {}

  Medium& inner() { return *inner_; }
  LinearMedium& linear_inner() {
    LinearMedium* const linear = inner_->linear();
    PERDURA_ASSERT(linear != nullptr);
    return *linear;
  }

 private:
  const std::unique_ptr<Medium> owned_;
  Medium* const inner_;
};

}  // namespace perdura::media
