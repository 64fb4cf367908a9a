// A queue of a medium in which a test decides what becomes of each write.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "media/medium.hpp"

namespace perdura::test {

class FilteredQueue final : public media::WriteQueue {
 public:
  /// Calls submit(), or does not; what it returns is what the write came to.
  using Filter = std::function<Status(u64 offset, const media::Site& site,
                                      const std::function<Status()>& submit)>;
  FilteredQueue(std::unique_ptr<media::WriteQueue> inner, Filter filter)
      : inner_(std::move(inner)), filter_(std::move(filter)) {}

  Status submit(u64 offset, media::Bytes data, const media::Site& site) override {
    return filter_(offset, site, [&] { return inner_->submit(offset, data, site); });
  }
  void erase(u64 place, u64 length) noexcept override { inner_->erase(place, length); }
  Status drain(size_t pending_max) override { return inner_->drain(pending_max); }

 private:
  const std::unique_ptr<media::WriteQueue> inner_;
  const Filter filter_;
};

}  // namespace perdura::test
