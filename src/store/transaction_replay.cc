#include "store/transaction_replay.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "heap/size_classes.hpp"

namespace perdura::store {
namespace {

using commit::FoundTransaction;
using format::EntryKind;
using format::TransactionState;

Failure log_damaged(const std::string& name, const std::string& what) {
  return {Code::kCorrupt,
          "the log of '" + name + "' is damaged: " + what + "; restore the store from a copy"};
}

constexpr u64 kWordsOfLine = kLineBytes / sizeof(u64);
constexpr u64 kSlabUnitsMax = 8;
constexpr u64 kSlabWordsMax = format::kUnitBytes / 16 / 64;
static_assert(std::all_of(heap::kClassInfo.begin(), heap::kClassInfo.end(), [](const auto& info) {
  return info.units <= kSlabUnitsMax && info.words <= kSlabWordsMax;
}));

constexpr u64 lines_of(u64 count, u64 bytes_of_each) {
  return (count * bytes_of_each + kLineBytes - 1) / kLineBytes;
}

// A slab that is new takes the place of others, which were empty.
constexpr u64 kLinesOfUnits = lines_of(3 * kSlabUnitsMax, sizeof(format::UnitEntry)) + 1;
u64 lines_of_slab(u64 size_class) {
  const u64 words =
      size_class < heap::kClassInfo.size() ? heap::kClassInfo[size_class].words : kSlabWordsMax;
  return kLinesOfUnits + lines_of(sizeof(format::SlabHeader) + 2 * sizeof(u64) * words, 1);
}
// Two bitmaps, and the units of a slab that is empty then.
constexpr u64 kLinesOfFree = 2 + lines_of(kSlabUnitsMax, sizeof(format::UnitEntry)) + 1;
static_assert(kLinesOfFree <= kVersionLinesOfWordMax);
static_assert((1 + kLinesOfUnits + lines_of(sizeof(format::SlabHeader) + 16 * kSlabWordsMax, 1)) <=
              3 * kVersionLinesOfWordMax);

class Repeat {
 public:
  Repeat(const std::string& name, heap::Heap& heap, region::Region& region,
         detail::Mutator& mutator, TransactionState& state)
      : name_(name), heap_(heap), region_(region), mutator_(mutator), state_(state) {}

  /// Whether it was to be repeated.
  Result<bool> repeat(const FoundTransaction& transaction) {
    TransactionState::Slot& slot = state_.slots[transaction.slot];
    if (transaction.time <= slot.time) return false;
    if (transaction.sequence != slot.sequence + 1)
      return damaged("transaction " + std::to_string(slot.sequence + 1) + " of stream " +
                     std::to_string(transaction.slot) + " is missing, but a later one is there (" +
                     place_of(transaction) + ")");
    // Blocks that it gave back are there until the end: what it stored may lie in them.
    const std::vector<u64>& words = transaction.entries;
    for (size_t i = 0; i < words.size();) {
      PERDURA_ASSIGN(const size_t used, apply(transaction, i));
      i += used;
    }
    detail::report(mutator_, &slot, sizeof slot);
    slot = {transaction.time, transaction.sequence};
    return true;
  }

 private:
  static bool counts_words(u64 entry) {
    const EntryKind kind = format::entry_kind(entry);
    return kind == EntryKind::kWords || kind == EntryKind::kMaskedWord;
  }
  static std::string place_of(const FoundTransaction& transaction) {
    return "offset " + std::to_string(transaction.offset);
  }

  Result<size_t> apply(const FoundTransaction& transaction, size_t at) {
    const std::vector<u64>& words = transaction.entries;
    const u64 first = words[at];
    const u64 place = format::entry_place(first);
    switch (format::entry_kind(first)) {
      case EntryKind::kWords: {
        const u64 count = format::entry_count(first);
        if (count > words.size() - at - 1 || !lies_in_region(place * 8, count * 8)) break;
        std::byte* const to = region_.base() + place * 8;
        detail::report(mutator_, to, count * 8);
        std::memcpy(to, &words[at + 1], count * 8);
        return 1 + count;
      }
      case EntryKind::kMaskedWord: {
        const u64 bytes = format::entry_count(first);
        if (words.size() - at < 2 || bytes > 0xff || !lies_in_region(place * 8, 8)) break;
        auto& word = *reinterpret_cast<u64*>(region_.base() + place * 8);
        detail::report(mutator_, &word, sizeof word);
        word = format::store_masked(word, words[at + 1], bytes);
        return 2;
      }
      case EntryKind::kAllocate: {
        if (words.size() - at < 3) break;
        PERDURA_TRY(heap_.claim(mutator_, {.offset = place * 16,
                                           .unit = static_cast<u32>(words[at + 1]),
                                           .units = static_cast<u32>(words[at + 1] >> 32),
                                           .size_class = static_cast<u32>(words[at + 2]),
                                           .tag = static_cast<u32>(words[at + 2] >> 32)}));
        return 3;
      }
      case EntryKind::kFree: {
        if (!lies_in_region(place * 16, 1)) break;
        PERDURA_TRY(heap_.disclaim(mutator_, place * 16));
        return 1;
      }
    }
    return damaged("the transaction at " + place_of(transaction) + " says of region offset " +
                   std::to_string(place * (counts_words(first) ? 8 : 16)) + " what cannot be");
  }

  Failure damaged(const std::string& what) const { return log_damaged(name_, what); }

  bool lies_in_region(u64 offset, u64 length) const {
    const u64 end = offset + length;
    return end <= region_.limit() &&
           region_.home()->backed_until(round_down(offset, kPageBytes)) >= end;
  }

  const std::string& name_;
  heap::Heap& heap_;
  region::Region& region_;
  detail::Mutator& mutator_;
  TransactionState& state_;
};

}  // namespace

Result<TransactionState*> transaction_state(const std::string& name, heap::Heap& heap) {
  PERDURA_ASSIGN(void* const root, heap.get_root(format::kTransactionRoot, 0));
  auto* const state = static_cast<TransactionState*>(root);
  if (state != nullptr && (state->version < format::kTransactionVersionMin ||
                           state->version > format::kTransactionVersion))
    return Failure{Code::kUnsupported, "transactions of '" + name + "' have format version " +
                                           std::to_string(state->version) +
                                           ", this library knows versions " +
                                           std::to_string(format::kTransactionVersionMin) + " to " +
                                           std::to_string(format::kTransactionVersion) +
                                           "; use the library that wrote them"};
  return state;
}

u64 version_lines(std::span<const u64> entries) {
  constexpr u64 kFirst = 3;  // the heap's header, and the state
  u64 lines = kFirst;
  std::set<u64> slabs;
  for (size_t i = 0; i < entries.size();) {
    const u64 place = format::entry_place(entries[i]);
    switch (format::entry_kind(entries[i])) {
      case EntryKind::kWords: {
        const u64 count = format::entry_count(entries[i]);
        lines += lines_of(place % kWordsOfLine + count, sizeof(u64));
        i += 1 + count;
        break;
      }
      case EntryKind::kMaskedWord:
        lines += 1;
        i += 2;
        break;
      case EntryKind::kAllocate: {
        if (entries.size() - i < 3) return lines;  // damaged: who repeats it says so
        const u64 unit = static_cast<u32>(entries[i + 1]);
        const u64 units = entries[i + 1] >> 32;
        const u64 size_class = static_cast<u32>(entries[i + 2]);
        lines += 1;  // of the block's type
        if (units != 0) lines += lines_of(units + 2 * kSlabUnitsMax, sizeof(format::UnitEntry)) + 1;
        else if (slabs.insert(unit).second) lines += lines_of_slab(size_class);
        i += 3;
        break;
      }
      default:
        lines += kLinesOfFree;
        i += 1;
    }
  }
  return lines;
}

Result<u64> repeat_transactions(const std::string& name, heap::Heap& heap, region::Region& region,
                                detail::Mutator& mutator,
                                std::span<const FoundTransaction> transactions) {
  PERDURA_ASSIGN(TransactionState* const state, transaction_state(name, heap));
  if (state == nullptr)
    return log_damaged(name, "it has transactions, and the region has no state of them");
  Repeat repeat(name, heap, region, mutator, *state);
  u64 repeated = 0;
  for (const FoundTransaction& transaction : transactions) {
    PERDURA_ASSIGN(const bool now, repeat.repeat(transaction));
    repeated += now ? 1 : 0;
  }
  return repeated;
}

}  // namespace perdura::store
