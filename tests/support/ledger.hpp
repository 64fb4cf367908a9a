// A structure in a store whose every state can be checked exactly, and the steps that change it.
//
//   Ledger   accounts whose sum is 0, a count of all steps, one shard a thread
//   Shard    how many steps its thread did; by slot: the stamp of the last step, and a node or none
//
// Step k of a shard works on slot k % kSlots: it frees the node there, allocates one or none, and
// moves money between two accounts. What it does follows from (seed, shard, k) alone, so the number
// of steps determines the shard: a lost, half-done or mixed step shows.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

#include <perdura/store.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"

namespace perdura::test {

struct Node {
  u64 stamp;
  u64 words;
  u64 data[];
};

struct Shard {
  static constexpr u64 kSlots = 64;
  u64 steps;
  u64 stamps[kSlots];
  Node* nodes[kSlots];
};

struct Ledger {
  static constexpr u64 kShards = 8;
  static constexpr u64 kAccounts = 64;
  u64 seed;
  u64 node_words_max;
  u64 steps;
  std::int64_t accounts[kAccounts];
  Shard shards[kShards];
};

inline u64 mix(u64 value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// What a step does.
struct Step {
  u64 stamp;
  u64 node_words;  ///< 0: no node
  u64 from;
  u64 to;
  std::int64_t amount;

  Step(u64 seed, u64 shard, u64 number, u64 node_words_max = ~u64{0}) {
    stamp = mix(seed ^ mix(shard * 0x1000003 + mix(number)));
    const u64 draw = mix(stamp);
    const u64 kind = draw % 128;
    const u64 size = draw >> 32;
    node_words = kind < 32    ? 0
                 : kind < 96  ? 1 + size % 30
                 : kind < 120 ? 32 + size % 480
                 : kind < 127 ? 512 + size % 3500
                              : 5000 + size % 30000;
    node_words = std::min(node_words, node_words_max);
    from = mix(draw) % Ledger::kAccounts;
    to = mix(draw + 1) % Ledger::kAccounts;
    amount = static_cast<std::int64_t>(draw % 1000);
  }
};

/// Make the ledger, in an operation.
template <class Op>
Ledger* make_ledger(const Op& op, u64 seed, u64 node_words_max = ~u64{0}) {
  auto* ledger = static_cast<Ledger*>(op.allocate(sizeof(Ledger)));
  std::memset(static_cast<void*>(ledger), 0, sizeof *ledger);
  ledger->seed = seed;
  ledger->node_words_max = node_words_max;
  return ledger;
}

template <class Op, class T>
void add_shared(const Op& op, T& field, T by) {
  op.touch(&field, sizeof field);
  std::atomic_ref(field).fetch_add(by, std::memory_order_relaxed);
}

/// A step's node, or none.
template <class Heap>
Node* make_node(Heap& heap, const Step& step) {
  if (step.node_words == 0) return nullptr;
  auto* const node =
      static_cast<Node*>(heap.allocate(sizeof(Node) + step.node_words * sizeof(u64)));
  node->stamp = step.stamp;
  node->words = step.node_words;
  for (u64 i = 0; i < step.node_words; ++i) node->data[i] = step.stamp + i;
  return node;
}

/// Do the next step of a shard, in an operation. When the allocation throws nothing has changed.
template <class Op>
void do_step(const Op& op, Ledger& ledger, u64 shard_index) {
  Shard& shard = ledger.shards[shard_index];
  const u64 number = shard.steps + 1;
  const Step step(ledger.seed, shard_index, number, ledger.node_words_max);
  Node* const node = make_node(op, step);
  const u64 slot = number % Shard::kSlots;
  if (shard.nodes[slot] != nullptr) op.deallocate(shard.nodes[slot]);
  op.touch(&shard.nodes[slot], sizeof(Node*));
  shard.nodes[slot] = node;
  op.touch(&shard.stamps[slot], sizeof(u64));
  shard.stamps[slot] = step.stamp;
  add_shared(op, ledger.accounts[step.from], -step.amount);
  add_shared(op, ledger.accounts[step.to], step.amount);
  add_shared<Op, u64>(op, ledger.steps, 1);
  op.touch(&shard.steps, sizeof(u64));
  // Other threads read it to know what a checkpoint of theirs must hold.
  std::atomic_ref(shard.steps).store(number, std::memory_order_release);
}

/// The same as a transaction. It throws what the allocation throws.
inline void do_step(Transaction& tx, Ledger& ledger, u64 shard_index) {
  Shard& shard = ledger.shards[shard_index];
  const u64 number = tx.read(shard.steps) + 1;
  const Step step(ledger.seed, shard_index, number, ledger.node_words_max);
  Node* const node = make_node(tx, step);
  const u64 slot = number % Shard::kSlots;
  tx.deallocate(tx.read(shard.nodes[slot]));
  tx.write(shard.nodes[slot], node);
  tx.write(shard.stamps[slot], step.stamp);
  tx.write(ledger.accounts[step.from], tx.read(ledger.accounts[step.from]) - step.amount);
  tx.write(ledger.accounts[step.to], tx.read(ledger.accounts[step.to]) + step.amount);
  tx.write(ledger.steps, tx.read(ledger.steps) + 1);
  tx.write(shard.steps, number);
}

/// What is wrong with a shard, or "". Adds its nodes to `nodes`.
inline std::string check_shard(const Ledger& ledger, u64 index, u64& nodes) {
  const Shard& shard = ledger.shards[index];
  const std::string name =
      "shard " + std::to_string(index) + " after step " + std::to_string(shard.steps) + ": ";
  for (u64 slot = 0; slot < Shard::kSlots; ++slot) {
    const u64 back = (shard.steps - slot) % Shard::kSlots;  // since the slot's last step
    const std::string where = name + "slot " + std::to_string(slot);
    const Node* node = shard.nodes[slot];
    if (shard.steps == 0 || back >= shard.steps) {
      if (shard.stamps[slot] != 0 || node != nullptr) return where + " was used too early";
      continue;
    }
    const Step step(ledger.seed, index, shard.steps - back, ledger.node_words_max);
    if (shard.stamps[slot] != step.stamp) return where + " holds another step";
    if ((node != nullptr) != (step.node_words != 0)) return where + " has a node too many or few";
    if (node == nullptr) continue;
    ++nodes;
    if (node->stamp != step.stamp || node->words != step.node_words)
      return where + " holds the node of another step";
    for (u64 i = 0; i < node->words; ++i)
      if (node->data[i] != step.stamp + i)
        return where + ": word " + std::to_string(i) + " of " + std::to_string(node->words) +
               " of its node is wrong";
  }
  return {};
}

/// What is wrong with a ledger, or "". Nobody changes it meanwhile.
inline std::string check_ledger(const Ledger& ledger, u64* nodes = nullptr) {
  u64 steps = 0;
  u64 found = 0;
  for (u64 i = 0; i < Ledger::kShards; ++i) {
    if (std::string problem = check_shard(ledger, i, found); !problem.empty()) return problem;
    steps += ledger.shards[i].steps;
  }
  if (ledger.steps != steps)
    return "the shards did " + std::to_string(steps) + " steps, the ledger counts " +
           std::to_string(ledger.steps);
  std::int64_t sum = 0;
  for (std::int64_t account : ledger.accounts) sum += account;
  if (sum != 0) return "the accounts sum up to " + std::to_string(sum);
  if (nodes != nullptr) *nodes = found;
  return {};
}

/// Blocks beside a ledger and its nodes: what leads to roots, types, the state of transactions.
inline u64 other_blocks(const HeapAudit& audit, bool has_transactions) {
  return audit.roots + audit.types + (has_transactions ? 1 : 0);
}

/// The same, and the heap holds the ledger, `others` blocks and nothing else.
inline std::string check_ledger(const Ledger& ledger, const HeapAudit& audit, u64 others) {
  if (!audit.clean) return "the heap is damaged: " + audit.problem;
  u64 nodes = 0;
  if (std::string problem = check_ledger(ledger, &nodes); !problem.empty()) return problem;
  if (audit.live_blocks != nodes + 1 + others)
    return "the heap holds " + std::to_string(audit.live_blocks) + " blocks, " +
           std::to_string(nodes + 1 + others) + " are in use";
  return {};
}

}  // namespace perdura::test
