// A medium that takes no home image: what is in the log stays there, so that a crash leaves it
// unreplayed, or half replayed.
#pragma once

#include <memory>
#include <string_view>

#include "media/decorator.hpp"

namespace perdura::test {

class RefusingMedium final : public media::Decorator {
 public:
  /// Of a write of home pages `torn_bytes` reach the medium before it fails.
  explicit RefusingMedium(std::unique_ptr<media::Medium> inner, size_t torn_bytes = 0)
      : Decorator(std::move(inner)), torn_bytes_(torn_bytes) {}
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<Queue>(inner().queue(), torn_bytes_);
  }

 private:
  class Queue final : public media::WriteQueue {
   public:
    Queue(std::unique_ptr<media::WriteQueue> inner, size_t torn_bytes)
        : inner_(std::move(inner)), torn_bytes_(torn_bytes) {}
    Status submit(u64 offset, media::Bytes data, const media::Site& site) override {
      const std::string_view what = site.what;
      const bool home = what.starts_with("home");
      if (!home && !what.starts_with("page")) return inner_->submit(offset, data, site);
      if (home && torn_bytes_ != 0)
        PERDURA_TRY(inner_->submit(offset, data.first(torn_bytes_), site));
      return Failure{Code::kIo, "this medium takes no home image"};
    }
    Result<u64> submit_gathered(u64 offset, const media::Gather& gather,
                                const media::Site& site) override {
      return inner_->submit_gathered(offset, gather, site);
    }
    Status drain(size_t pending_max) override { return inner_->drain(pending_max); }

   private:
    const std::unique_ptr<media::WriteQueue> inner_;
    const size_t torn_bytes_;
  };

  const size_t torn_bytes_;
};

}  // namespace perdura::test
