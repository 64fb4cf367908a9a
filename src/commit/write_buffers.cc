#include "commit/write_buffers.hpp"

#include <algorithm>
#include <utility>

namespace perdura::commit {
namespace {
constexpr u64 kBufferBytesMin = 256 * kKiB;
constexpr u64 kBuffersMin = 4;
constexpr u64 kBuffersMax = 16;
// Where nothing is to be filled first, the disk has to wait for no buffer.
constexpr u64 kWriteBytesMax = kMiB;
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

bool WriteBuffers::follows(u64 place, u64 length, u64 bytes_max) const {
  return !objects_ && bytes_ != 0 && place == place_ + bytes_ && bytes_ + length <= bytes_max;
}

Result<std::byte*> WriteBuffers::room(u64 place, u64 length) {
  std::byte* buffer = buffers_.data() + buffer_ * buffer_bytes_;
  if (begin_ != buffer || !follows(place, length, buffer_bytes_)) {
    PERDURA_TRY(flush());
    begin_ = buffer = buffers_.data() + buffer_ * buffer_bytes_;
    place_ = place;
  }
  return buffer + std::exchange(bytes_, bytes_ + length);
}

Status WriteBuffers::write(u64 place, media::Bytes bytes) {
  if (begin_ + bytes_ != bytes.data() || !follows(place, bytes.size(), kWriteBytesMax)) {
    PERDURA_TRY(flush());
    begin_ = bytes.data();
    place_ = place;
  }
  bytes_ += bytes.size();
  return {};
}

Status WriteBuffers::flush() {
  if (bytes_ == 0) return {};
  PERDURA_TRY(queue_->submit(place_, {begin_, bytes_}, site_));
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
