// A medium that kills the process at a chosen call.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "media/decorator.hpp"

namespace perdura::test {

class KillingMedium final : public media::Decorator {
 public:
  using Count = std::atomic<std::int64_t>;
  /// Dies when `calls_left` comes to 0.
  KillingMedium(std::unique_ptr<media::Medium> inner, Count& calls_left)
      : Decorator(std::move(inner)), calls_left_(calls_left) {}

  Status grow(u64 size, bool prewrite) override {
    count();
    return inner().grow(size, prewrite);
  }
  Status shrink(u64 size) override {
    count();
    return inner().shrink(size);
  }
  Status give_back(u64 offset, u64 length) override {
    count();
    return inner().give_back(offset, length);
  }
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    count();
    return inner().write(offset, data, site);
  }
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<Queue>(*this, inner().queue());
  }
  Status barrier(const media::Site& site) override {
    count();
    return inner().barrier(site);
  }

 private:
  class Queue final : public media::WriteQueue {
   public:
    Queue(KillingMedium& medium, std::unique_ptr<media::WriteQueue> inner)
        : medium_(medium), inner_(std::move(inner)) {}
    Status submit(u64 offset, media::Bytes data, const media::Site& site) override {
      medium_.count();
      return inner_->submit(offset, data, site);
    }
    void erase(u64 place, u64 length) noexcept override { inner_->erase(place, length); }
    Status drain(size_t pending_max) override {
      medium_.count();
      return inner_->drain(pending_max);
    }

   private:
    KillingMedium& medium_;
    const std::unique_ptr<media::WriteQueue> inner_;
  };

  void count() {
    if (calls_left_.fetch_sub(1) == 1) ::kill(::getpid(), SIGKILL);
  }

  Count& calls_left_;
};

}  // namespace perdura::test
