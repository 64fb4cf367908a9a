// The one table of trackers: what a program may choose, how they differ for the rest of the
// library, and how one is made. Nothing else asks which tracker a store has; a new one gets a row
// here.
#pragma once

#include <memory>
#include <span>

#include <perdura/perdura.h>

#include "track/tracker.hpp"

namespace perdura::track {

/// What a tracker is to watch.
struct Watched {
  Mutators& mutators;
  std::byte* base;
  u64 bytes;
  Memory memory;
  u32 granule_bytes;  ///< Options::granule_bytes
  u64 chunk_bytes;    ///< Options::chunk_bytes
};

struct Kind {
  Tracking tracking;
  perdura_tracking in_c;  ///< the same number
  const char* name;
  bool is_reported;          ///< the program says what it stores to
  bool by_compiler = false;  ///< and its compiler has written that down, wherever it stores
  /// It learns of each store before it happens, unless the region has aliases: so a capture can run
  /// in the background.
  bool sees_first;
  /// It takes the program's access to pages away by mprotect itself: nobody else can.
  bool by_access = false;
  bool lists_lines;  ///< the lines that changed are known one by one when the program stops
  /// kUnsupported where the system does not have it for this memory. nullptr: another one is
  /// chosen (kAutomatic).
  Result<std::unique_ptr<Tracker>> (*make)(const Watched& watched);
};

/// nullptr: `tracking` is none, as C may say.
const Kind* find_kind(Tracking tracking);
/// `tracking` is one.
const Kind& kind_of(Tracking tracking);
/// What kAutomatic takes the first of that the system has.
std::span<const Kind> page_trackers();

}  // namespace perdura::track
