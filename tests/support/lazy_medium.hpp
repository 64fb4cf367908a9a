// A medium whose queues write as late as a disk may: when a drain or the end of the queue asks.
// Whoever frees or changes the data of a write in flight is found out. For block media.
#pragma once

#include <malloc.h>

#include <deque>
#include <memory>

#include "media/decorator.hpp"

namespace perdura::test {

class LazyMedium final : public media::Decorator {
 public:
  explicit LazyMedium(std::unique_ptr<media::Medium> inner) : Decorator(std::move(inner)) {
    ::mallopt(M_PERTURB, 0x5a);  // freed memory is overwritten at once
  }
  std::unique_ptr<media::WriteQueue> queue() override { return std::make_unique<Queue>(inner()); }

 private:
  class Queue final : public media::WriteQueue {
   public:
    explicit Queue(media::Medium& medium) : medium_(medium) {}
    ~Queue() override {
      const Status status = drain(0);
      (void)status;  // nobody is left to be told
    }
    Status submit(u64 offset, media::Bytes data, const media::Site& site) override {
      writes_.push_back({offset, data, &site});
      return {};
    }
    Status drain(size_t pending_max) override {
      Status first;
      for (; writes_.size() > pending_max; writes_.pop_front()) {
        const Write& write = writes_.front();
        const Status written = medium_.write(write.offset, write.data, *write.site);
        if (first && !written) first = written;
      }
      return first;
    }

   private:
    struct Write {
      u64 offset;
      media::Bytes data;
      const media::Site* site;
    };
    media::Medium& medium_;
    std::deque<Write> writes_;
  };
};

/// Block media become lazy.
inline std::unique_ptr<media::Medium> make_lazy(std::unique_ptr<media::Medium> inner) {
  if (inner->geometry().byte_addressable) return inner;
  return std::make_unique<LazyMedium>(std::move(inner));
}

}  // namespace perdura::test
