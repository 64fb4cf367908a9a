// A part of a medium as a medium of its own: so that two stores lie in one state that a crash left.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "media/medium.hpp"

namespace perdura::test {

class WindowMedium final : public media::LinearMedium {
 public:
  /// The bytes from `begin` on, before `end`.
  WindowMedium(std::shared_ptr<media::Medium> whole, u64 begin, u64 end, std::string name)
      : LinearMedium(whole->decides()),
        whole_(std::move(whole)),
        begin_(begin),
        end_(end),
        name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  media::Geometry geometry() const override {
    media::Geometry geometry = whole_->geometry();
    geometry.size = std::min(std::max(geometry.size, begin_), end_) - begin_;
    return geometry;
  }
  Status grow(u64 size, bool prewrite) override {
    return size <= geometry().size ? Status{} : whole_->grow(begin_ + size, prewrite);
  }
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    return whole_->write(begin_ + offset, data, site);
  }
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<Queue>(whole_->queue(), begin_);
  }
  Status barrier(const media::Site& site) override { return whole_->barrier(site); }
  Status read(u64 offset, media::MutableBytes into) override {
    return whole_->read(begin_ + offset, into);
  }
  Status load(std::span<const media::ReadRequest> requests) override {
    std::vector<media::ReadRequest> moved(requests.begin(), requests.end());
    for (media::ReadRequest& each : moved) each.offset += begin_;
    return whole_->load(moved);
  }
  const std::byte* direct(u64 offset, u64 length) override {
    return whole_->linear()->direct(begin_ + offset, length);
  }
  const std::byte* view(u64 offset) override { return whole_->linear()->view(begin_ + offset); }
  bool decide(u64 offset, const std::byte* bytes, u64 length, const media::Site& site,
              Fits fits) override {
    return whole_->decide(begin_ + offset, bytes, length, site, fits);
  }
  Status map_home(void* address, u64 offset, u64 length) override {
    return whole_->linear()->map_home(address, begin_ + offset, length);
  }

 private:
  class Queue final : public media::WriteQueue {
   public:
    Queue(std::unique_ptr<media::WriteQueue> inner, u64 begin)
        : inner_(std::move(inner)), begin_(begin) {}
    Status submit(u64 offset, media::Bytes data, const media::Site& site) override {
      return inner_->submit(begin_ + offset, data, site);
    }
    Status drain(size_t pending_max) override { return inner_->drain(pending_max); }

   private:
    const std::unique_ptr<media::WriteQueue> inner_;
    const u64 begin_;
  };

  const std::shared_ptr<media::Medium> whole_;
  const u64 begin_;
  const u64 end_;
  const std::string name_;
};

}  // namespace perdura::test
