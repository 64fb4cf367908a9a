// What a store keeps that is one of several processes' (docs/format/group.md): of which version of
// theirs each of its own versions is. In a typed block, to which the heap's header leads.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura::format {

constexpr u32 kGroupVersion = 1;

/// The version v of the region, behind base_version, is the version base_number + v - base_version
/// of era `era`; the base itself is base_number of era_before. It is stored to where an era begins,
/// not at each version: one at which nothing changed needs none.
struct GroupState {
  u32 version;  ///< of this layout
  u32 rank;
  u8 group[16];  ///< who has another one is of another group
  /// Drawn by chance when the group is opened, and after each attempt at a version that failed: of
  /// two attempts at one number, which may be on the medium, each has its own.
  u64 era;
  u64 era_before;
  u64 base_version;
  u64 base_number;
  u32 ranks;  ///< of the versions of the era
  u32 ranks_before;
  u64 session;  ///< of the medium, in which the era began
  /// 1: opened alone since, which may have changed it. It counts as version base_number of era
  /// `era`, and nothing before it can be had.
  u32 alone;
  u32 reserved0;
  u8 store[16];  ///< whose versions these are: the UUID; in versions of before there is none
  u64 reserved[4];
};
static_assert(sizeof(GroupState) == 128);
static_assert(offsetof(GroupState, era) == 24 && offsetof(GroupState, base_version) == 40);
static_assert(offsetof(GroupState, ranks) == 56 && offsetof(GroupState, session) == 64);
static_assert(offsetof(GroupState, alone) == 72 && offsetof(GroupState, store) == 80);

}  // namespace perdura::format
