#include "media/object_medium.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace perdura::media {
namespace {

constexpr std::array<std::byte, kObjectUnitBytes> kZeros{};

class ObjectMedium final : public Medium {
 public:
  ObjectMedium(ObjectMediumParts<ObjectService> parts, u64 size)
      : name_(std::move(parts.name)),
        usable_(std::move(parts.usable)),
        service_(std::move(parts.service)),
        size_(size) {}

  ~ObjectMedium() override {
    if (!usable_->in_a_child()) return;
    service_->abandon();
    [[maybe_unused]] const ObjectService* const service = service_.release();
    [[maybe_unused]] const Usable* const usable = usable_.release();
    [[maybe_unused]] const std::string* const name = name_.release();
  }

  const std::string& name() const override { return *name_; }

  Geometry geometry() const override {
    return Geometry{.size = size_.load(std::memory_order_acquire),
                    .atomic_bytes = kObjectUnitBytes,
                    .write_bytes = kObjectUnitBytes,
                    .byte_addressable = false,
                    .reads_in_handlers = false,
                    .objects = true};
  }

  Status grow(u64 size, bool prewrite) override {
    std::lock_guard growing(grow_mutex_);
    size = round_up(size, kObjectUnitBytes);
    const u64 old = size_.load(std::memory_order_acquire);
    if (size <= old) return {};
    PERDURA_TRY(usable_->check());
    if (prewrite) PERDURA_TRY(put_zeros(old, size));
    PERDURA_TRY(service_->set_size(size));
    size_.store(size, std::memory_order_release);
    return {};
  }

  Status write(u64 offset, Bytes data, const Site&) override {
    PERDURA_TRY(check(offset, data));
    return service_->put_in_place(offset, data);
  }

  Status write_record(u64 place, Bytes record, const Site&) override {
    PERDURA_ASSERT(record.size() == kObjectUnitBytes);
    PERDURA_TRY(check(place, record));
    return service_->put_record(place, record);
  }
  Status write_record_copies(std::span<const u64> places, Bytes record, const Site&) override {
    PERDURA_ASSERT(record.size() == kObjectUnitBytes);
    for (const u64 place : places) PERDURA_TRY(check(place, record));
    return service_->put_record_copies(places, record);
  }

  std::unique_ptr<WriteQueue> queue() override { return std::make_unique<Queue>(*this); }

  // Everything that was drained is acknowledged: it remains to see that nobody else has the store.
  Status barrier(const Site&) override {
    PERDURA_TRY(usable_->check());
    return service_->check();
  }

  Status read(u64 offset, MutableBytes into) override {
    const ReadRequest request{offset, into};
    return read_all({&request, 1});
  }

  Status read_all(std::span<const ReadRequest> requests) override {
    PERDURA_TRY(usable_->check());
    const u64 size = size_.load(std::memory_order_acquire);
    for (const ReadRequest& request : requests)
      if (request.offset + request.into.size() > size)
        return Failure{Code::kCorrupt, fmt::format("'{}' ends before offset {}: truncated", *name_,
                                                   request.offset + request.into.size())};
    return service_->get(requests);
  }

 private:
  class Queue final : public WriteQueue {
   public:
    explicit Queue(ObjectMedium& medium) : medium_(medium), channel_(medium.service_->channel()) {}

    Status submit(u64 offset, Bytes data, const Site&) override {
      PERDURA_TRY(medium_.check(offset, data));
      return channel_->put(offset, data);
    }
    void erase(u64 place, u64 length) noexcept override { channel_->erase(place, length); }
    Status drain(size_t pending_max) override { return channel_->drain(pending_max); }

   private:
    ObjectMedium& medium_;
    const std::unique_ptr<ObjectChannel> channel_;
  };

  // Where some are refused those that were taken are given back: what is overwritten may need it.
  Status put_zeros(u64 from, u64 to) {
    PERDURA_TRY(service_->expect(to));
    const std::unique_ptr<ObjectChannel> zeros = service_->channel();
    Status done = guarded([&]() -> Status {
      for (u64 place = from; place < to; place += kObjectUnitBytes)
        PERDURA_TRY(zeros->put(place, kZeros));
      return zeros->drain(0);
    });
    if (done || usable_->ended()) return done;
    (void)zeros->drain(0);
    for (u64 place = from; place < to; place += kObjectUnitBytes)
      zeros->erase(place, kObjectUnitBytes);
    const Status given_back = zeros->drain(0);
    // A zero that is still under way would overwrite what comes to its place next.
    if (!given_back) usable_->end(given_back.failure());
    return done;
  }

  Status check(u64 offset, Bytes data) const {
    PERDURA_ASSERT(is_aligned(offset | data.size(), kObjectUnitBytes) && !data.empty());
    PERDURA_ASSERT(offset + data.size() <= size_.load(std::memory_order_relaxed));
    return usable_->check();
  }

  std::unique_ptr<std::string> name_;
  std::unique_ptr<Usable> usable_;
  std::unique_ptr<ObjectService> service_;
  std::mutex grow_mutex_;
  std::atomic<u64> size_;
};

}  // namespace

void Usable::end(const Failure& failure) noexcept {
  std::lock_guard lock(mutex_);
  if (ended()) return;
  (void)guarded([&]() -> Status {
    why_.code =
        failure.code == Code::kLocked || failure.code == Code::kForked ? failure.code : Code::kIo;
    why_.message = fmt::format(
        "'{}' is closed to all use since an earlier failure ({}), after which nothing written can "
        "be trusted; close the store and open it again",
        medium_, failure.message);
    return {};
  });
  ended_.store(true, std::memory_order_release);
}

Status Usable::check() const {
  if (in_a_child())
    return Failure{Code::kForked, "'" + medium_ + "' was opened by the parent process"};
  if (ended()) return copy_of(why_);
  return {};
}

OpenedMedium make_object_medium(ObjectMediumParts<ObjectService> parts, u64 size) {
  return {std::make_unique<ObjectMedium>(std::move(parts), size), size == 0};
}

}  // namespace perdura::media
