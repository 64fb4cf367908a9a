#include "commit/write_buffers.hpp"

#include <algorithm>

namespace perdura::commit {
namespace {
constexpr u64 kBufferBytesMin = 256 * kKiB;
constexpr u64 kBuffersMin = 4;
constexpr u64 kBuffersMax = 16;
// A service answers late: what is in flight there is bounded by bytes and requests.
constexpr u64 kObjectBytes = 16 * kMiB;
constexpr u64 kObjectsMax = 32;
}  // namespace

WriteBuffers::WriteBuffers(media::Medium& medium, u64 bytes_max, const media::Site& site)
    : objects_(medium.geometry().objects),
      site_(site),
      buffer_bytes_(objects_ ? bytes_max : std::max(kBufferBytesMin, bytes_max)),
      buffer_count_(objects_
                        ? std::clamp(kObjectBytes / buffer_bytes_, kBuffersMin, kObjectsMax)
                        : std::max(kBuffersMin, kBuffersMax * kBufferBytesMin / buffer_bytes_)),
      buffers_(buffer_count_ * buffer_bytes_),
      queue_(medium.queue()) {}

Result<std::byte*> WriteBuffers::room(u64 place, u64 length) {
  const bool follows =
      !objects_ && bytes_ != 0 && place == place_ + bytes_ && bytes_ + length <= buffer_bytes_;
  if (!follows) {
    PERDURA_TRY(flush());
    place_ = place;
  }
  std::byte* const at = buffers_.data() + buffer_ * buffer_bytes_ + bytes_;
  bytes_ += length;
  return at;
}

Status WriteBuffers::flush() {
  if (bytes_ == 0) return {};
  const std::byte* const bytes = buffers_.data() + buffer_ * buffer_bytes_;
  PERDURA_TRY(queue_->submit(place_, {bytes, bytes_}, site_));
  bytes_ = 0;
  buffer_ = (buffer_ + 1) % buffer_count_;
  return queue_->drain(buffer_count_ - 1);
}

Status WriteBuffers::drain() {
  PERDURA_TRY(flush());
  return queue_->drain();
}

void WriteBuffers::abandon() noexcept {
  const Status drained = guarded([this] { return queue_->drain(); });
  (void)drained;  // the attempt has failed already
  bytes_ = 0;
}

}  // namespace perdura::commit
