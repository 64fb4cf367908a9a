#include "media/slow.hpp"

#include <string>
#include <utility>

#include "base/clock.hpp"
#include "media/decorator.hpp"

namespace perdura::media {
namespace {

/// When the call that it stands in ends, it looks how long that took.
class Timed {
 public:
  Timed(EventHub& told, const std::string& medium, const char* call)
      : told_(told), medium_(medium), call_(call) {}
  ~Timed() {
    const u64 took_ns = now_ns() - begin_ns_;
    if (took_ns >= kSlowNs) [[unlikely]]
      tell(took_ns / 1'000'000);
  }
  Timed(const Timed&) = delete;

 private:
  void tell(u64 ms) const noexcept {
    const Status told = guarded([&]() -> Status {
      told_.tell(EventKind::kMediumSlow, Code::kOk,
                 std::string(call_) + " '" + medium_ + "' took " + std::to_string(ms) +
                     " ms: what waits for it to be durable waits as long; see what else uses the "
                     "device, or the server");
      return {};
    });
    (void)told;  // without memory nobody is
  }

  EventHub& told_;
  const std::string& medium_;
  const char* const call_;
  const u64 begin_ns_ = now_ns();
};

class SlowQueue final : public WriteQueue {
 public:
  SlowQueue(std::unique_ptr<WriteQueue> inner, EventHub& told, const std::string& medium)
      : inner_(std::move(inner)), told_(told), medium_(medium) {}

  Status submit(u64 offset, Bytes data, const Site& site) override {
    const Timed timed(told_, medium_, "a write to");
    return inner_->submit(offset, data, site);
  }
  void erase(u64 place, u64 length) noexcept override { inner_->erase(place, length); }
  Result<u64> submit_gathered(u64 offset, const Gather& gather, const Site& site) override {
    return inner_->submit_gathered(offset, gather, site);
  }
  Status drain(size_t pending_max) override {
    const Timed timed(told_, medium_, "writes to");
    return inner_->drain(pending_max);
  }

 private:
  const std::unique_ptr<WriteQueue> inner_;
  EventHub& told_;
  const std::string& medium_;
};

class SlowMedium final : public Decorator {
 public:
  SlowMedium(std::unique_ptr<Medium> inner, std::shared_ptr<EventHub> told)
      : Decorator(std::move(inner)), told_(std::move(told)) {}

  Status grow(u64 size, bool prewrite) override {
    const Timed timed(*told_, name(), "to take more space of");
    return Decorator::grow(size, prewrite);
  }
  Status write(u64 offset, Bytes data, const Site& site) override {
    const Timed timed(*told_, name(), "a write to");
    return Decorator::write(offset, data, site);
  }
  Status barrier(const Site& site) override {
    const Timed timed(*told_, name(), "a barrier of");
    return Decorator::barrier(site);
  }
  std::unique_ptr<WriteQueue> queue() override {
    return std::make_unique<SlowQueue>(Decorator::queue(), *told_, name());
  }

 private:
  const std::shared_ptr<EventHub> told_;
};

}  // namespace

std::unique_ptr<Medium> tell_when_slow(std::unique_ptr<Medium> medium,
                                       std::shared_ptr<EventHub> told) {
  if (medium->geometry().byte_addressable) return medium;
  return std::make_unique<SlowMedium>(std::move(medium), std::move(told));
}

}  // namespace perdura::media
