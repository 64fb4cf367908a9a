// Writes of an engine in order of place: what follows each other goes to the medium as one, and
// several are in flight while others are filled. (A disk that tells of its writes when all of them
// are done stands still until there is the next one.)
#pragma once

#include <memory>

#include "base/aligned_buffer.hpp"
#include "media/medium.hpp"

namespace perdura::commit {

/// One thread at a time.
class WriteBuffers {
 public:
  /// For pieces of up to `bytes_max`.
  WriteBuffers(media::Medium& medium, u64 bytes_max, const media::Site& site);

  /// Memory for what goes to `place`, to be filled before anything else is called here. Neighbours
  /// become one write, unless the medium has objects.
  Result<std::byte*> room(u64 place, u64 length);
  /// The same of what is in memory already, and stays there as it is until drain() or abandon().
  Status write(u64 place, media::Bytes bytes);
  /// Hand over what is left. It may still be in flight.
  Status flush();
  /// All of it is done.
  Status drain();
  /// An attempt has failed: wait for what is in flight, and forget the rest.
  void abandon() noexcept;

  /// All that is ever written to these places goes through it, which erase() needs.
  media::WriteQueue& queue() { return *queue_; }

 private:
  bool follows(u64 place, u64 length, u64 bytes_max) const;

  const bool objects_;
  const media::Site& site_;
  const u64 buffer_bytes_;
  const u64 buffer_count_;
  AlignedBuffer buffers_;  ///< one behind the other
  /// After the buffers: it waits for what is in flight before these go.
  std::unique_ptr<media::WriteQueue> queue_;
  size_t buffer_ = 0;
  // What was not handed over yet: in that buffer, or in the caller's memory.
  u64 place_ = 0;
  const std::byte* begin_ = nullptr;
  u64 bytes_ = 0;
};

}  // namespace perdura::commit
