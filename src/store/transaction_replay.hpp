// Transactions that committed after the recovered version, repeated on working memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heap/heap.hpp"
#include "log/reader.hpp"

namespace perdura::store {

/// The region's, or nullptr where it never had a transaction. kUnsupported for another format.
Result<format::TransactionState*> transaction_state(const std::string& name, heap::Heap& heap);

/// How many lines a version has at most that has a transaction with these entries: those it stores
/// to, and what the heap notes of its blocks.
u64 version_lines(std::span<const u64> entries);
/// No more than these for each word of entries.
constexpr u64 kVersionLinesOfWordMax = 12;

/// Leaves those that the region does not hold: what it holds needs neither memory nor log.
void erase_held(const format::TransactionState& state, std::vector<log::FoundRecord>& transactions);

/// Whether those that the region does not hold can be repeated, which is what it does: the region's
/// memory is to be nobody else's. No mutators are needed. kCorrupt as repeat_transactions.
Status check_transactions(const std::string& name, heap::Heap& heap, region::Region& region,
                          std::span<const log::FoundRecord> transactions);

/// Those that the region does not hold, in the order of their commits. Returns how many. kCorrupt
/// where one is missing, or where it says what cannot be; `name` is the store's.
Result<u64> repeat_transactions(const std::string& name, heap::Heap& heap, region::Region& region,
                                detail::Mutator& mutator,
                                std::span<const log::FoundRecord> transactions);

}  // namespace perdura::store
