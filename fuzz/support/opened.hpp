// What is done with a store whose medium may hold anything.
#pragma once

#include <array>
#include <set>
#include <vector>

#include <perdura/store.hpp>

#include "store/inspect.hpp"
#include "store/look_inside.hpp"
#include "support/target.hpp"

namespace perdura::fuzz {

constexpr u64 kRegionBytes = 16 * kMiB;

inline Options small_store(bool page_tracker) {
  Options options;
  options.tracking = page_tracker ? Tracking::kProtect : Tracking::kReported;
  options.region_limit_bytes = kRegionBytes;
  options.region_address = kRegionAddress;
  options.huge_pages = false;
  return options;
}

inline void fill(Store& store, void* block, size_t length, int with) {
  store.touch(block, length);
  std::memset(block, with, length);
}

struct Looks {
  bool check;
  bool description;
};
// What `perdura dump` reads of a heap.
inline Status walk(const store::HeapSight& sight) {
  constexpr u64 kObjectsMax = 10'000;
  u64 sum = 0;
  std::vector<u64> pending;
  std::set<u64> seen;
  for (const store::RootDescription& root : sight.region.roots) pending.push_back(root.offset);
  while (!pending.empty() && seen.size() < kObjectsMax) {
    const auto object = sight.view.find(pending.back());
    pending.pop_back();
    if (!object || !seen.insert(object->offset).second || sight.is_damaged(*object)) continue;
    for (u64 at = 0; at < object->bytes; at += kLineBytes)
      sum += std::to_integer<u64>(sight.view.at(object->offset)[at]);
    sight.view.for_each_pointer(*object, [&](const u64* word, bool) {
      if (const auto target = sight.view.target_of(*word)) pending.push_back(*target);
    });
  }
  require(sum < ~u64{0}, "all of them were read");
  return {};
}

inline void look_inside(const std::string& uri) {
  const auto usage = store::describe_usage(uri, {});
  if (usage) {
    u64 bytes = 0;
    for (const store::SpaceUsage& part : usage->space) bytes += part.bytes;
    require(bytes == usage->medium_bytes, "usage misses no byte");
  } else {
    require(!usage.failure().message.empty(), "a refusal says why");
  }
  const auto inside = store::look_inside(uri, {}, "", store::no_progress, walk);
  if (!inside) require(!inside.failure().message.empty(), "a refusal says why");
}

inline void look(const std::string& uri, const Looks& looks) {
  if (looks.check) {
    const auto report = store::check(uri, {});
    if (!report) {
      require(!report.failure().message.empty(), "a refusal says why");
    } else if (!report->damaged()) {
      require(report->description.has_value(), "a sound store is described");
      for (const store::RegionDescription& region : report->description->regions)
        require(!region.heap || region.heap->clean, "a sound store has a sound heap");
    }
  }
  if (looks.description) {
    const auto description = store::describe(uri, {});
    if (!description) require(!description.failure().message.empty(), "a refusal says why");
    look_inside(uri);
  }
}

// What a program does first. A heap that is sound stays sound.
inline void use(Store& store) {
  const bool sound = store.audit().clean;
  void* root = store.get_root("root 1");
  (void)root;  // what it points to is the program's matter
  std::array<void*, 8> blocks{};
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t size = size_t{24} << (i * 2 % 14);
    blocks[i] = store.allocate(size);
    fill(store, blocks[i], size, 7);
  }
  store.set_root("new", blocks[0]);
  for (size_t i = 1; i < blocks.size(); i += 2) store.deallocate(blocks[i]);
  store.checkpoint();
  require(!sound || store.audit().clean, "a sound heap stays sound");
}

struct Uses {
  bool drop;    ///< end as the process's death does
  bool reopen;  ///< afterwards, when all was well
};
inline void open_and_use(const std::string& uri, const Options& options, const Uses& uses) {
  bool sound = false;
  try {
    Options chosen = options;
    chosen.create = false;
    Store store = Store::open(uri, chosen);
    try {
      use(store);
      sound = store.audit().clean;
    } catch (const Error& error) {
      require(*error.what() != '\0', "a refusal says why");
    }
    if (uses.drop) drop(std::move(store));
    else store.close();
  } catch (const Error& error) {
    require(*error.what() != '\0', "a refusal says why");
    return;
  }
  if (!sound || !uses.reopen) return;
  try {
    Store again = Store::open(uri, options);
    require(again.audit().clean, "a sound store is sound when it is opened again");
    again.close();
  } catch (const Error& error) {
    finding(std::string("a store that worked is refused: ") + error.what());
  }
}

}  // namespace perdura::fuzz
