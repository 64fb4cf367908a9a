// The joint between a medium of objects and what keeps them: memcached, RADOS, S3.
//
//   ObjectMedium   (object_medium.hpp) what every one has: size, growth, bounds, poison
//        |
//   ObjectService  the rules of one service, and the names that its objects have there
//     └─ ObjectChannel  requests of one thread
//
// Rules of a service, by which the crash explorer cuts and reorders what was asked of one:
//  1. An object is put whole or not at all. A put that was not acknowledged may be there, may be
//     missing, and, as long as its client may reach the service, may still come.
//  2. What drain() has returned for is acknowledged: it survives what the service survives, for
//     which no barrier is needed. (memcached survives nothing; RADOS the loss of OSDs.)
//  3. Requests of one channel for one object are done in their order; others in any.
//  4. put_record() replaces the record that this opening wrote or read there, and no other. check()
//     says whether anybody else has the store.
//  5. Before the next owner is told that it is one, no request of the former one that comes later
//     can change what the next one reads.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "base/process.hpp"
#include "format/object_medium_format.hpp"
#include "media/medium.hpp"

namespace perdura::media {

using format::kObjectUnitBytes;

/// Whether a medium may be used: not after a failure that leaves open what is there, nor in a
/// child. Thread-safe.
class Usable {
 public:
  /// `medium` outlives it.
  explicit Usable(const std::string& medium) : medium_(medium) {}

  /// From now on every call fails: with kLocked for another owner, else with kIo. The first failure
  /// counts.
  void end(const Failure& failure) noexcept;
  /// The failure of a call after which nobody knows what is there; not so for want of space.
  Failure lost(Failure failure) noexcept {
    if (failure.code != Code::kNoSpace) end(failure);
    return failure;
  }
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  bool in_a_child() const { return forked_since(generation_); }
  Status check() const;

 private:
  const std::string& medium_;
  const u64 generation_ = process_generation();
  std::mutex mutex_;
  std::atomic<bool> ended_{false};
  Failure why_{Code::kIo, ""};  ///< does not change once ended_ is set
};

/// Requests of one thread. Data passed to put() must stay until drain() returns or the channel is
/// destroyed, which drains it.
class ObjectChannel {
 public:
  virtual ~ObjectChannel() = default;
  virtual Status put(u64 place, Bytes data) = 0;
  /// Nothing refers to it. It may stay where that fails.
  virtual void erase(u64 place, u64 length) noexcept = 0;
  /// Until all but the `pending_max` youngest requests are acknowledged; the first failure of any.
  virtual Status drain(size_t pending_max) = 0;
};

/// Thread-safe but for what says otherwise. Failures for which the medium must not be used any more
/// are told to its Usable, by whoever meets them.
class ObjectService {
 public:
  virtual ~ObjectService() = default;

  virtual std::unique_ptr<ObjectChannel> channel() = 0;
  /// Objects, or beginnings of objects, each verified as a whole with its place.
  virtual Status get(std::span<const ReadRequest> requests) = 0;
  virtual Status put_record(u64 place, Bytes record) = 0;
  /// The same at several places, of which any may be there where it fails.
  virtual Status put_record_copies(std::span<const u64> places, Bytes record) {
    for (const u64 place : places) PERDURA_TRY(put_record(place, record));
    return {};
  }
  /// A page where one may be that the next opening reads: until this is acknowledged either is
  /// there. Channels are for places that nothing refers to.
  virtual Status put_in_place(u64 place, Bytes page) {
    const std::unique_ptr<ObjectChannel> one = channel();
    PERDURA_TRY(one->put(place, page));
    return one->drain(0);
  }
  /// kLocked where another opening has the store. What comes before a version is acknowledged.
  virtual Status check() = 0;

  /// One thread at a time. Objects below `size` are going to be put, the medium is not so large
  /// yet.
  virtual Status expect(u64 size) {
    (void)size;
    return {};
  }
  /// One thread at a time: no object is at or behind this place, as the next opening finds it.
  virtual Status set_size(u64 size) = 0;

  /// In a child of the process that opened it, instead of the destructor: nothing is given back,
  /// ended or freed that is the parent's.
  virtual void abandon() noexcept = 0;
};

}  // namespace perdura::media
