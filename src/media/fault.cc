#include "media/fault.hpp"

#include <bit>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "media/decorator.hpp"
#include "media/summed_copy.hpp"

namespace perdura::media {
namespace {

Failure injected(FaultKind kind, const char* call, const std::string& name) {
  const bool no_space = kind == FaultKind::kNoSpace || kind == FaultKind::kShort;
  return system_failure(no_space ? ENOSPC : EIO,
                        std::string("injected fault: cannot ") + call + " '" + name + "'");
}

// Half of the data, in whole write units.
Bytes first_half(Bytes data, u64 write_bytes) {
  return data.first(round_down(data.size() / 2, write_bytes));
}

}  // namespace

class FaultPlan::FaultyQueue final : public WriteQueue {
 public:
  FaultyQueue(FaultPlan& plan, const Medium& medium, std::unique_ptr<WriteQueue> inner)
      : plan_(plan), medium_(medium), inner_(std::move(inner)) {}

  Status submit(u64 offset, Bytes data, const Site& site) override {
    const auto kind = plan_.next(kFaultSubmit);
    if (!kind) return inner_->submit(offset, data, site);
    const Failure failure = injected(*kind, "write to", medium_.name());
    if (*kind == FaultKind::kLate) {
      late_ = failure;
      return {};
    }
    const Bytes half = first_half(data, medium_.geometry().write_bytes);
    if (*kind == FaultKind::kShort && !half.empty())
      PERDURA_TRY(inner_->submit(offset, half, site));
    return failure;
  }

  // As the inner medium's: no fence of its own, where that has none.
  Result<u64> submit_gathered(u64 offset, const Gather& gather, const Site& site) override {
    if (!medium_.geometry().byte_addressable)
      return WriteQueue::submit_gathered(offset, gather, site);
    alignas(kPageBytes) std::byte copy[Gather::kLinesMax * kLineBytes];
    const u64 sum = gather_summed(copy, gather);
    PERDURA_TRY(submit(offset, {copy, gather.bytes()}, site));
    return sum;
  }

  void erase(u64 place, u64 length) noexcept override { inner_->erase(place, length); }

  // The writes are done in any case: the caller gets its buffers back.
  Status drain(size_t pending_max) override {
    const auto kind = plan_.next(kFaultDrain);
    Status drained = inner_->drain(pending_max);
    if (auto late = std::exchange(late_, std::nullopt)) return *late;
    if (kind) return injected(*kind, "write to", medium_.name());
    return drained;
  }

 private:
  FaultPlan& plan_;
  const Medium& medium_;
  const std::unique_ptr<WriteQueue> inner_;
  std::optional<Failure> late_;
};

class FaultPlan::FaultyMedium final : public Decorator {
 public:
  FaultyMedium(FaultPlan& plan, std::unique_ptr<Medium> inner)
      : Decorator(std::move(inner)), plan_(plan) {}

  Status grow(u64 size, bool prewrite) override {
    if (const auto kind = plan_.next(kFaultGrow)) return injected(*kind, "extend", name());
    return inner().grow(size, prewrite);
  }

  Status write(u64 offset, Bytes data, const Site& site) override {
    const auto kind = plan_.next(kFaultWrite);
    if (!kind) return inner().write(offset, data, site);
    const Bytes half = first_half(data, geometry().write_bytes);
    if (*kind == FaultKind::kShort && !half.empty() && !geometry().objects)
      PERDURA_TRY(inner().write(offset, half, site));
    return injected(*kind, "write to", name());
  }
  Status write_record(u64 place, Bytes record, const Site& site) override {
    if (!geometry().objects) return write(place, record, site);
    if (const auto kind = plan_.next(kFaultWrite)) return injected(*kind, "write to", name());
    return inner().write_record(place, record, site);
  }

  std::unique_ptr<WriteQueue> queue() override {
    return std::make_unique<FaultyQueue>(plan_, *this, inner().queue());
  }

  Status barrier(const Site& site) override {
    if (const auto kind = plan_.next(kFaultBarrier)) return injected(*kind, "flush", name());
    return inner().barrier(site);
  }

  Status read(u64 offset, MutableBytes into) override {
    if (const auto kind = plan_.next(kFaultRead)) return injected(*kind, "read", name());
    return inner().read(offset, into);
  }
  Status read_all(std::span<const ReadRequest> requests) override {
    if (const auto kind = plan_.next(kFaultRead)) return injected(*kind, "read", name());
    return inner().read_all(requests);
  }
  Status load(std::span<const ReadRequest> requests) override {
    if (const auto kind = plan_.next(kFaultRead)) return injected(*kind, "read", name());
    return inner().load(requests);
  }
  Status map_home(void* address, u64 offset, u64 length) override {
    if (const auto kind = plan_.next(kFaultMapHome)) return injected(*kind, "map", name());
    return linear_inner().map_home(address, offset, length);
  }

 private:
  FaultPlan& plan_;
};

std::unique_ptr<Medium> FaultPlan::wrap(std::unique_ptr<Medium> inner) {
  return std::make_unique<FaultyMedium>(*this, std::move(inner));
}

void FaultPlan::arm(const Fault& fault) {
  disarm();
  std::lock_guard lock(mutex_);
  fault_ = fault;
}

void FaultPlan::disarm() {
  std::lock_guard lock(mutex_);
  fault_.reset();
  for (u64& count : counts_) count = 0;
  fired_ = 0;
  barrier_failed_ = false;
}

u64 FaultPlan::count(unsigned calls) const {
  std::lock_guard lock(mutex_);
  u64 sum = 0;
  for (unsigned i = 0; i < kKinds; ++i)
    if ((calls >> i & 1) != 0) sum += counts_[i];
  return sum;
}

u64 FaultPlan::fired() const {
  std::lock_guard lock(mutex_);
  return fired_;
}

bool FaultPlan::barrier_failed() const {
  std::lock_guard lock(mutex_);
  return barrier_failed_;
}

std::optional<FaultKind> FaultPlan::next(unsigned call) {
  PERDURA_ASSERT((call & kFaultAnything) != 0);
  std::lock_guard lock(mutex_);
  ++counts_[std::countr_zero(call)];
  if (!fault_) return std::nullopt;
  bool fails = call == kFaultBarrier && barrier_failed_;
  if ((fault_->calls & call) != 0) {
    u64 sum = 0;
    for (unsigned i = 0; i < kKinds; ++i)
      if ((fault_->calls >> i & 1) != 0) sum += counts_[i];
    fails = fails || sum == fault_->nth || (fault_->for_ever && sum > fault_->nth);
  }
  if (!fails) return std::nullopt;
  ++fired_;
  barrier_failed_ = barrier_failed_ || call == kFaultBarrier;
  return fault_->kind;
}

}  // namespace perdura::media
