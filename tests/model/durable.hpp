// What drawn programs keep in their store. Any block says who made it and what belongs into it, so
// that one which was overwritten, mixed up or lost is seen.
#pragma once

#include <cstddef>
#include <cstdint>

#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "support/ledger.hpp"

namespace perdura::model {

/// Each lane is used by one thread at a time, so its content follows from its actions alone.
constexpr u64 kLanes = 3;

/// Where the cells of a lane are; a lane's first kOf of each kind belong to operations, the next
/// kOf to transactions, and of slots the last kOf to both.
constexpr u64 kOf = 8;
constexpr u64 kSlots = 3 * kOf;
constexpr u64 kKeys = 16;
constexpr u64 kRoots = 4;
constexpr u64 kTexts = 4;
constexpr u64 kOffers = 4;
constexpr u64 kDistances = 4;

/// A block of the program: `words` words follow from `id`.
struct Block {
  u64 id;
  u64 words;
  Block* self;
  u64 data[];
};

/// The same with a type record.
struct Node {
  static constexpr u64 kWords = 5;
  u64 id;
  u64 words;
  Node* self;
  u64 data[kWords];
};

inline constexpr perdura_slot kFlexibleSlots[] = {
    {"self", PERDURA_SLOT_POINTER, offsetof(Block, self), sizeof(Block*), nullptr, 0, 0, 0}};
inline constexpr perdura_type kFlexibleType = {"model::Flexible", sizeof(Block), alignof(Block), 1,
                                               kFlexibleSlots};

inline u64 word_of(u64 id, u64 index) { return test::mix(id ^ test::mix(index)); }

/// Containers of the standard library, for page trackers.
struct Standard {
  using Allocator = perdura::Allocator<std::byte>;
  using allocator_type = Allocator;
  explicit Standard(const Allocator& allocator)
      : map(allocator), vector(allocator), string(allocator) {}
  perdura::map<u64, perdura::string> map;
  perdura::vector<u64> vector;
  perdura::string string;
};

/// One that transactions make and destroy as a whole.
struct Text {
  using Allocator = perdura::Allocator<std::byte>;
  Text(u64 id_, u64 count, std::string_view text, const Allocator& allocator)
      : id(id_), string(text, allocator), vector(count, id_, allocator) {}
  u64 id;
  perdura::string string;
  perdura::vector<u64> vector;
};

/// Fields of four bytes in one word, of an operation's and of a transaction's.
struct Halves {
  std::uint32_t of_operations;
  std::uint32_t of_transactions;
};

struct Lane {
  u64 operation;    ///< the last action that changed it in an operation
  u64 transaction;  ///< the last that did in a transaction
  Block* slots[kSlots];
  u64 words[2 * kOf];
  Halves halves[kOf];
  Standard* standard;
  Text* texts[kTexts];
  Block* offers[kOffers];  ///< what operations make for transactions
  /// Of blocks of transactions, which are so far from the lane: pointers that nobody takes for
  /// some.
  u64 distances[kDistances];
  /// What a transaction waits for in another one, and beside it what it stores to itself.
  struct alignas(32) {
    u64 signal;
    u64 scratch;
  } awaited;
};

inline Block* block_at(const Lane& lane, u64 distance) {
  return distance == 0
             ? nullptr
             : reinterpret_cast<Block*>(reinterpret_cast<std::uintptr_t>(&lane) + distance);
}
inline u64 distance_to(const Lane& lane, const Block* block) {
  return block == nullptr
             ? 0
             : reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(&lane);
}

struct World {
  std::int64_t accounts[2 * kOf];  ///< of all lanes
  Lane* lanes[kLanes];
};

}  // namespace perdura::model

PERDURA_TYPE(perdura::model::Node, self)
PERDURA_TYPE(perdura::model::Lane, slots, standard, texts, offers)
PERDURA_TYPE(perdura::model::World, lanes)
