// What a container keeps in its heap beside the program's objects. docs/format/container.md
// describes it. All of it is in typed blocks, so that it moves with the rest.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura::format {

constexpr char kContainerRoot[] = "perdura.container";
constexpr u32 kContainerVersion = 2;
constexpr u32 kBuildIdBytesMax = 32;

/// Of a program or shared library that pointers lead to.
struct ContainerModule {
  u64 begin;  ///< where it was when the pointers were stored
  u64 bytes;
  u32 build_id_bytes;
  u32 reserved;
  u8 build_id[kBuildIdBytesMax];
  char* name;  ///< of its file, without the folder
};
static_assert(sizeof(ContainerModule) == 64);

/// A function or variable that pointers lead to, or into.
struct ContainerSymbol {
  u32 module;  ///< index
  u32 bytes;
  u64 offset;  ///< in the module
  char* name;
};
static_assert(sizeof(ContainerSymbol) == 24);

/// A copy of an object of another container that words lead to.
struct ContainerShadow {
  u64 original;  ///< where the object was when the words were stored; 0: only shadows lead to it
  u64 bytes;
  void* copy;
};
static_assert(sizeof(ContainerShadow) == 24);
static_assert(offsetof(ContainerShadow, copy) == 16);

struct ContainerState {
  u32 version;
  u32 module_count;
  u32 symbol_count;
  u32 shadow_count;
  u64 marked_words;  ///< of 64 bits
  void* root;        ///< the program's
  ContainerModule* modules;
  ContainerSymbol* symbols;
  u64* marked;  ///< a bit for each page of the region: a word in it leads out of the container
  ContainerShadow* shadows;
};
static_assert(sizeof(ContainerState) == 64);
static_assert(offsetof(ContainerState, shadow_count) == 12);
static_assert(offsetof(ContainerState, shadows) == 56);

}  // namespace perdura::format
