#include "media/record.hpp"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "media/decorator.hpp"
#include "media/summed_copy.hpp"

namespace perdura::media {
namespace {

using Kind = RecordedCall::Kind;

RecordedCall write_call(Kind kind, u64 offset, Bytes data, const Site& site) {
  RecordedCall call;
  call.kind = kind;
  call.site = &site;
  call.offset = offset;
  call.bytes.assign(data.begin(), data.end());
  return call;
}

void apply(History::Content& content, u64 offset, const std::byte* from, u64 length) {
  PERDURA_ASSERT(offset + length <= content.size());
  std::memcpy(content.data() + offset, from, length);
}

}  // namespace

// --- looking back ------------------------------------------------------------------------------

std::vector<size_t> History::crash_points() const {
  std::vector<size_t> found;
  for (size_t i = 0; i < calls_.size(); ++i)
    if (calls_[i].kind == Kind::kBarrier && calls_[i].succeeded) found.push_back(i);
  found.push_back(calls_.size());
  return found;
}

// Of barriers that overlap, of several threads, the one that began last may end first.
std::vector<size_t> History::covered_calls(size_t end, const Site* no_barrier) const {
  std::vector<size_t> covers(1);
  for (size_t i = 0; i < end; ++i) {
    const RecordedCall& call = calls_[i];
    if (covers.size() <= call.medium) covers.resize(call.medium + 1);
    if (call.kind == Kind::kBarrier && call.succeeded &&
        (no_barrier == nullptr || call.site != no_barrier))
      covers[call.medium] = std::max(covers[call.medium], call.covers);
  }
  return covers;
}

std::vector<bool> History::durable_writes(size_t end, const Site* no_barrier,
                                          const Site* never_covered) const {
  std::vector<bool> durable(end);
  const std::vector<size_t> covers = covered_calls(end, no_barrier);
  std::vector<std::vector<size_t>> submitted;
  for (size_t i = 0; i < end; ++i) {
    const RecordedCall& call = calls_[i];
    if (i >= covers[call.medium]) continue;
    if (call.kind == Kind::kWrite) durable[i] = call.succeeded;
    if (call.kind != Kind::kSubmit && call.kind != Kind::kDrain) continue;
    if (submitted.size() <= call.queue) submitted.resize(call.queue + 1);
    std::vector<size_t>& queue = submitted[call.queue];
    if (call.kind == Kind::kSubmit) {
      queue.push_back(i);
    } else if (call.succeeded && queue.size() > call.pending_max) {
      const auto done = static_cast<std::ptrdiff_t>(queue.size() - call.pending_max);
      std::for_each(queue.begin(), queue.begin() + done, [&](size_t at) { durable[at] = true; });
      queue.erase(queue.begin(), queue.begin() + done);
    }
  }
  for (size_t i = 0; i < end && never_covered != nullptr; ++i)
    if (calls_[i].site == never_covered) durable[i] = false;
  return durable;
}

u64 History::size_after(size_t end) const {
  u64 size = initial_.size();
  for (size_t i = 0; i < end; ++i)
    if (calls_[i].kind == Kind::kGrow && calls_[i].succeeded) size = std::max(size, calls_[i].size);
  return size;
}

u64 History::covered_size(size_t end) const {
  const std::vector<size_t> covers = covered_calls(end, nullptr);
  u64 size = initial_.size();
  for (size_t i = 0; i < end; ++i)
    if (calls_[i].kind == Kind::kGrow && calls_[i].succeeded && i < covers[calls_[i].medium])
      size = std::max(size, calls_[i].size);
  return size;
}

History::Content History::grown(size_t end) const {
  Content content = initial_;
  for (size_t i = 0; i < end; ++i) {
    const RecordedCall& call = calls_[i];
    if (call.kind == Kind::kGrow && call.succeeded && call.size > content.size())
      content.resize(call.size, call.unwritten ? kUnwritten : std::byte{0});
  }
  return content;
}

History::Content History::after_crash(size_t end, const Keep& keep) const {
  const std::vector<bool> durable = durable_writes(end);
  Content content = grown(end);
  for (size_t i = 0; i < end; ++i) {
    const RecordedCall& call = calls_[i];
    if (call.kind != Kind::kWrite && call.kind != Kind::kSubmit) continue;
    if (durable[i]) {
      apply(content, call.offset, call.bytes.data(), call.bytes.size());
      continue;
    }
    for (u64 at = 0; at < call.bytes.size(); at += atomic_bytes_)
      if (keep(i, at / atomic_bytes_))
        apply(content, call.offset + at, call.bytes.data() + at,
              std::min<u64>(atomic_bytes_, call.bytes.size() - at));
  }
  return content;
}

// --- recording ---------------------------------------------------------------------------------

/// Which medium of a history, and where its bytes lie there.
struct Recording::Part {
  u32 medium = 0;
  u64 begin = 0;
};

class Recording::RecordedQueue final : public WriteQueue {
 public:
  RecordedQueue(Recording& recording, Medium& inner, const Part& part)
      : recording_(recording),
        part_(part),
        inner_(inner.queue()),
        objects_(inner.geometry().objects),
        byte_addressable_(inner.geometry().byte_addressable),
        number_(recording.next_queue()) {}
  ~RecordedQueue() override {
    (void)guarded([this] { return drain(0); });
  }

  Status submit(u64 offset, Bytes data, const Site& site) override {
    RecordedCall call = write_call(Kind::kSubmit, part_.begin + offset, data, site);
    call.queue = number_;
    call.medium = part_.medium;
    // Before the inner medium has it: afterwards it may already be on its way.
    const size_t index = recording_.add(std::move(call));
    Status submitted = inner_->submit(offset, data, site);
    if (submitted) recording_.succeeded(index);
    return submitted;
  }

  // Memory that is addressed takes the bytes at once, and fences them when it is drained.
  Result<u64> submit_gathered(u64 offset, const Gather& gather, const Site& site) override {
    if (!byte_addressable_) return WriteQueue::submit_gathered(offset, gather, site);
    alignas(kPageBytes) std::byte copy[Gather::kLinesMax * kLineBytes];
    const u64 sum = gather_summed(copy, gather);
    PERDURA_TRY(submit(offset, {copy, gather.bytes()}, site));
    return sum;
  }

  // What is erased cannot be read any more, as what was never written.
  void erase(u64 place, u64 length) noexcept override {
    inner_->erase(place, length);
    if (!objects_) return;
    const std::vector<std::byte> gone(length, kUnwritten);
    RecordedCall call =
        write_call(Kind::kSubmit, part_.begin + place, gone, PERDURA_SITE("erased object"));
    call.queue = number_;
    call.medium = part_.medium;
    recording_.succeeded(recording_.add(std::move(call)));
  }

  Status drain(size_t pending_max) override {
    Status drained = inner_->drain(pending_max);
    RecordedCall call;
    call.kind = Kind::kDrain;
    call.queue = number_;
    call.medium = part_.medium;
    call.pending_max = pending_max;
    call.succeeded = static_cast<bool>(drained);
    recording_.add(std::move(call));
    return drained;
  }

 private:
  Recording& recording_;
  const Part part_;
  const std::unique_ptr<WriteQueue> inner_;
  const bool objects_;
  const bool byte_addressable_;
  const size_t number_;
};

class Recording::RecordedMedium final : public Decorator {
 public:
  RecordedMedium(Recording& recording, std::unique_ptr<Medium> inner, const Part& part)
      : Decorator(std::move(inner)), recording_(recording), part_(part) {}

  Status grow(u64 size, bool prewrite) override {
    Status grown = inner().grow(size, prewrite);
    RecordedCall call;
    call.kind = Kind::kGrow;
    call.size = part_.begin + size;
    call.medium = part_.medium;
    call.unwritten = !prewrite && geometry().objects;
    call.succeeded = static_cast<bool>(grown);
    recording_.add(std::move(call));
    return grown;
  }

  // A crash leaves any of what was there: as zeros do that nobody has flushed. A medium that is as
  // long as it was is what shrink() may leave.
  Status give_back(u64 offset, u64 length) override {
    const std::vector<std::byte> zeros(std::min(length, kMiB));
    for (u64 done = 0; done < length; done += zeros.size()) {
      const u64 piece = std::min<u64>(zeros.size(), length - done);
      PERDURA_TRY(recorded(offset + done, {zeros.data(), piece}, PERDURA_SITE("given back"),
                           [&] { return inner().give_back(offset + done, piece); }));
    }
    return {};
  }
  Status shrink(u64 size) override {
    const u64 old = geometry().size;
    return size < old ? give_back(size, old - size) : Status{};
  }

  // The write counts as done from the next call on that is recorded after it returned.
  Status write(u64 offset, Bytes data, const Site& site) override {
    return recorded(offset, data, site, [&] { return inner().write(offset, data, site); });
  }
  Status write_record(u64 place, Bytes record, const Site& site) override {
    return recorded(place, record, site, [&] { return inner().write_record(place, record, site); });
  }

  std::unique_ptr<WriteQueue> queue() override {
    return std::make_unique<RecordedQueue>(recording_, inner(), part_);
  }

  Status barrier(const Site& site) override {
    RecordedCall call;
    call.kind = Kind::kBarrier;
    call.site = &site;
    call.medium = part_.medium;
    call.covers = recording_.size();
    Status passed = inner().barrier(site);
    call.succeeded = static_cast<bool>(passed);
    recording_.add(std::move(call));
    return passed;
  }

 private:
  template <class Write>
  Status recorded(u64 offset, Bytes data, const Site& site, Write&& write) {
    RecordedCall call = write_call(Kind::kWrite, part_.begin + offset, data, site);
    call.medium = part_.medium;
    Status written = write();
    call.succeeded = static_cast<bool>(written);
    recording_.add(std::move(call));
    return written;
  }

  Recording& recording_;
  const Part part_;
};

namespace {

// Nothing says which objects there are, nor how long they are: a power of two.
void read_objects(Medium& medium, MutableBytes into) {
  std::fill(into.begin(), into.end(), kUnwritten);
  for (u64 at = 0; at < into.size();) {
    u64 length = kPageBytes;
    while (at + length <= into.size() && medium.read(at, into.subspan(at, length))) length *= 2;
    at += std::max<u64>(kPageBytes, length / 2);
  }
}

}  // namespace

namespace {

History::Content content_of(Medium& medium) {
  const Geometry geometry = medium.geometry();
  AlignedBuffer content(std::max<u64>(geometry.size, 1));
  const MutableBytes all(content.data(), geometry.size);
  if (geometry.objects) read_objects(medium, all);
  else if (const Status read = medium.read(0, all); !read) throw_failure(read.failure());
  return {all.begin(), all.end()};
}

}  // namespace

std::unique_ptr<Medium> Recording::wrap(std::unique_ptr<Medium> inner) {
  History::Content content = content_of(*inner);
  std::lock_guard lock(mutex_);
  history_ = {};
  history_.initial_ = std::move(content);
  history_.atomic_bytes_ = inner->geometry().atomic_bytes;
  queues_ = 0;
  media_ = 1;
  return std::make_unique<RecordedMedium>(*this, std::move(inner), Part{});
}

std::unique_ptr<Medium> Recording::wrap_beside(std::unique_ptr<Medium> inner, u64 begin) {
  const History::Content content = content_of(*inner);
  std::lock_guard lock(mutex_);
  PERDURA_ASSERT(begin >= history_.size_after(history_.calls_.size()));
  if (!content.empty()) {
    history_.initial_.resize(begin);
    history_.initial_.insert(history_.initial_.end(), content.begin(), content.end());
  }
  return std::make_unique<RecordedMedium>(*this, std::move(inner), Part{media_++, begin});
}

History Recording::history() const {
  std::lock_guard lock(mutex_);
  return history_;
}

size_t Recording::size() const {
  std::lock_guard lock(mutex_);
  return history_.calls_.size();
}

size_t Recording::add(RecordedCall call) {
  std::lock_guard lock(mutex_);
  history_.calls_.push_back(std::move(call));
  return history_.calls_.size() - 1;
}

void Recording::succeeded(size_t call) {
  std::lock_guard lock(mutex_);
  history_.calls_[call].succeeded = true;
}

size_t Recording::next_queue() {
  std::lock_guard lock(mutex_);
  return queues_++;
}

}  // namespace perdura::media
