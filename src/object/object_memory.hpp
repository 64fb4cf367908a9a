// What is in memory of an object that is open, but for what each process has of it for itself: in
// the process's own memory, or in memory that several have, each at an address of its own. So there
// are no pointers in it.
//
//   ObjectControl  cursors, who executes, the newest head, why it failed
//   admitted       of callers, a word each
//   waiters        by lines of the log: where the thread is that waits for the entry
//   circle         the lines of the log
//   slots          of several processes: a thread that waits, and its answer
//   image          the state, and records of callers
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <span>

#include "base/aligned_buffer.hpp"
#include "base/mapping.hpp"
#include "format/object_format.hpp"
#include "object/execution.hpp"
#include "object/merging.hpp"
#include "object/newest_head.hpp"
#include "object/object_log.hpp"
#include "object/peers.hpp"

namespace perdura::object {

/// Why calls fail for good. Written once, by whoever executes; read when `has_failed`.
struct FailureNote {
  std::atomic<bool> has_failed{false};
  Code code = Code::kIo;
  char message[600]{};

  void set(const Failure& why) {
    if (has_failed.load(std::memory_order_relaxed)) return;
    code = why.code;
    std::strncpy(message, why.message.c_str(), sizeof message - 1);
    has_failed.store(true, std::memory_order_release);
  }
};

/// Functions that a process has, by their numbers.
constexpr u32 kSharedFunctionsMax = 256;
struct KnownFunctions {
  std::atomic<u64> life{0};  ///< whose; 0: nobody's
  std::array<std::atomic<u64>, kSharedFunctionsMax / 64> has{};
};

/// A thread that waits for the answer to its entry: in its stack, or in a slot that all processes
/// see.
struct Waiter {
  u64 result = 0;             ///< from the base of waiters on; 0: nobody asks for it
  pthread_t thread = 0;       ///< that alone may do it; 0: whoever executes
  std::atomic<u64> index{0};  ///< among processes: of the entry; 0: none is logged yet
};

struct WaiterSlot {
  Waiter waiter;
  std::atomic<u64> owner{0};  ///< the life of a process; 0: nobody's
  /// Who waited has gone: it is nobody's when the entry is done.
  std::atomic<bool> is_left{false};
};
static_assert(sizeof(WaiterSlot) <= kLineBytes);
constexpr u64 kWaiterSlots = 512;

struct ObjectControl {
  LogCursors log;
  Execution execution;
  Turns turns;
  NewestHead head;
  FailureNote failure;
  u64 calls_since_checkpoint = 0;
  /// The checkpoint of a head that may be on the medium though writing it failed, where the log
  /// there ends before it.
  u64 unclear_checkpoint = 0;

  // --- where processes share it: what the first of them chose
  u64 session = 0;
  u64 answer_bytes = 0;  ///< that a slot has room for
  u8 durability = 0;
  bool each_its_own = false;  ///< no thread runs another one's calls
  bool same_build = false;    ///< all of them are one build of the program
  std::array<KnownFunctions, kProcessesMax> known{};
};

/// Its parts, in memory of either kind.
class ObjectMemory {
 public:
  struct Sizes {
    u64 lines = 0;  ///< of the log
    u64 callers = 0;
    u64 image_bytes = 0;
    u64 answer_bytes = 0;  ///< 0: of one process, which has no slots
  };
  /// Of memory that processes share.
  static u64 bytes(const Sizes& sizes);

  static Result<ObjectMemory> of_process(const Sizes& sizes);
  /// `mapping` begins with zeros where it is new.
  static ObjectMemory among_processes(Mapping mapping, const Sizes& sizes, bool is_new);

  ObjectControl& control() const { return *reinterpret_cast<ObjectControl*>(memory_.as()); }
  LogMemory log() const { return {&control().log, memory_.as() + places_.circle, is_new_}; }
  std::span<std::atomic<u64>> admitted() const {
    return {words(places_.admitted), places_.callers};
  }
  std::atomic<u64>* waiters() const { return words(places_.waiters); }
  WaiterSlot& slot(u64 number) const {
    return *reinterpret_cast<WaiterSlot*>(memory_.as() + places_.slots +
                                          number * places_.slot_bytes);
  }
  static std::byte* answer_of(WaiterSlot& slot) {
    return reinterpret_cast<std::byte*>(&slot) + kLineBytes;
  }
  /// Of the image, in whole pages.
  std::span<std::byte> pages() const {
    return is_shared_ ? std::span(memory_.as() + places_.image, places_.image_bytes)
                      : image_.span();
  }
  bool is_shared() const { return is_shared_; }
  bool is_new() const { return is_new_; }
  /// What places of waiters count from.
  std::byte* base() const { return is_shared_ ? memory_.as() : nullptr; }
  /// Of one process: the image is elsewhere from now on.
  void exchange_image(AlignedBuffer&& image) { image_ = std::move(image); }

 private:
  struct Places {
    explicit Places(const Sizes& sizes);
    u64 callers, admitted, waiters, circle, slots, slot_bytes, image, image_bytes, end;
  };
  ObjectMemory(Mapping memory, const Places& places, bool is_shared, bool is_new)
      : memory_(std::move(memory)), places_(places), is_shared_(is_shared), is_new_(is_new) {}
  std::atomic<u64>* words(u64 place) const {
    return reinterpret_cast<std::atomic<u64>*>(memory_.as() + place);
  }

  Mapping memory_;
  Places places_;
  AlignedBuffer image_;
  bool is_shared_;
  bool is_new_;
};

}  // namespace perdura::object
