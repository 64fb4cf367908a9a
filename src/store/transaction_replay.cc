#include "store/transaction_replay.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "heap/size_classes.hpp"

namespace perdura::store {
namespace {

using format::EntryKind;
using format::TransactionState;
using log::FoundRecord;

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
// A typed block is cleared. Its objects are in the record, and nearly fill it: their words have
// room for its lines in kVersionLinesOfWordMax.
u64 lines_of_block(u64 units, u64 size_class) {
  if (units != 0) return lines_of(units, format::kUnitBytes);
  return size_class < heap::kClassInfo.size()
             ? heap::kClassInfo[size_class].block_bytes / kLineBytes + 1
             : 0;
}
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

/// An entry of a record, whose words are there and whose places the region has.
struct Entry {
  EntryKind kind;
  u64 place;
  u64 count;
  const u64* words;  ///< behind the first
  size_t length;     ///< in words
};

/// Reads records of a region, and follows their streams.
class Reader {
 public:
  Reader(const std::string& name, region::Region& region) : name_(name), region_(region) {}

  /// Of one that comes after what `slot` says its stream has.
  Status check_sequence(const log::FoundRecord& transaction,
                        const TransactionState::Slot& slot) const {
    if (transaction.sequence == slot.sequence + 1) return {};
    return log_damaged(name_, "transaction " + std::to_string(slot.sequence + 1) + " of stream " +
                                  std::to_string(transaction.slot) +
                                  " is missing, but a later one is there (" +
                                  place_of(transaction) + ")");
  }

  Result<Entry> entry_at(const log::FoundRecord& transaction, size_t at) const {
    const std::vector<u64>& words = transaction.entries;
    const u64 first = words[at];
    Entry entry{format::entry_kind(first), format::entry_place(first), format::entry_count(first),
                words.data() + at + 1, 0};
    bool fits = false;
    switch (entry.kind) {
      case EntryKind::kWords:
        entry.length = 1 + entry.count;
        fits = lies_in_region(entry.place * 8, entry.count * 8);
        break;
      case EntryKind::kMaskedWord:
        entry.length = 2;
        fits = entry.count <= 0xff && lies_in_region(entry.place * 8, 8);
        break;
      case EntryKind::kAllocate:
        entry.length = 3;
        fits = true;  // the heap says whether it can be there
        break;
      case EntryKind::kFree:
        entry.length = 1;
        fits = lies_in_region(entry.place * 16, 1);
        break;
    }
    if (fits && entry.length <= words.size() - at) return entry;
    return log_damaged(name_, "the transaction at " + place_of(transaction) +
                                  " says of region offset " +
                                  std::to_string(entry.place * (counts_words(first) ? 8 : 16)) +
                                  " what cannot be");
  }

 private:
  static bool counts_words(u64 entry) {
    const EntryKind kind = format::entry_kind(entry);
    return kind == EntryKind::kWords || kind == EntryKind::kMaskedWord;
  }
  static std::string place_of(const log::FoundRecord& transaction) {
    return "offset " + std::to_string(transaction.offset);
  }
  bool lies_in_region(u64 offset, u64 length) const {
    const u64 end = offset + length;
    return end <= region_.limit() &&
           region_.home()->backed_until(round_down(offset, kPageBytes)) >= end;
  }

  const std::string& name_;
  region::Region& region_;
};

class Repeat {
 public:
  Repeat(const std::string& name, heap::Heap& heap, region::Region& region,
         detail::Mutator& mutator, TransactionState& state)
      : reader_(name, region), heap_(heap), region_(region), mutator_(mutator), state_(state) {}

  /// Whether it was to be repeated.
  Result<bool> repeat(const log::FoundRecord& transaction) {
    TransactionState::Slot& slot = state_.slots[transaction.slot];
    if (transaction.time <= slot.time) return false;
    PERDURA_TRY(reader_.check_sequence(transaction, slot));
    // Blocks that it gave back are there until the end: what it stored may lie in them.
    for (size_t i = 0; i < transaction.entries.size();) {
      PERDURA_ASSIGN(const Entry entry, reader_.entry_at(transaction, i));
      PERDURA_TRY(apply(entry));
      i += entry.length;
    }
    detail::report(mutator_, &slot, sizeof slot);
    slot = {transaction.time, transaction.sequence};
    return true;
  }

 private:
  Status apply(const Entry& entry) {
    switch (entry.kind) {
      case EntryKind::kWords: {
        std::byte* const to = region_.base() + entry.place * 8;
        detail::report(mutator_, to, entry.count * 8);
        std::memcpy(to, entry.words, entry.count * 8);
        return {};
      }
      case EntryKind::kMaskedWord: {
        auto& word = *reinterpret_cast<u64*>(region_.base() + entry.place * 8);
        detail::report(mutator_, &word, sizeof word);
        word = format::store_masked(word, entry.words[0], entry.count);
        return {};
      }
      case EntryKind::kAllocate:
        return heap_.claim(mutator_, {.offset = entry.place * 16,
                                      .unit = static_cast<u32>(entry.words[0]),
                                      .units = static_cast<u32>(entry.words[0] >> 32),
                                      .size_class = static_cast<u32>(entry.words[1]),
                                      .tag = static_cast<u32>(entry.words[1] >> 32)});
      case EntryKind::kFree:
        return heap_.disclaim(mutator_, entry.place * 16);
    }
    return {};
  }

  const Reader reader_;
  heap::Heap& heap_;
  region::Region& region_;
  detail::Mutator& mutator_;
  TransactionState& state_;
};

}  // namespace

Result<TransactionState*> transaction_state(const std::string& name, heap::Heap& heap) {
  PERDURA_ASSIGN(void* const root, heap.roots().get(format::kTransactionRoot, 0));
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
        if (entries[i + 2] >> 32 != 0) lines += lines_of_block(units, size_class);
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

void erase_held(const TransactionState& state, std::vector<log::FoundRecord>& transactions) {
  std::erase_if(transactions, [&](const log::FoundRecord& each) {
    return each.time <= state.slots[each.slot].time;
  });
}

namespace {

Failure lacks_state(const std::string& name) {
  return log_damaged(name, "it has transactions, and the region has no state of them");
}

}  // namespace

Result<u64> repeat_transactions(const std::string& name, heap::Heap& heap, region::Region& region,
                                detail::Mutator& mutator,
                                std::span<const log::FoundRecord> transactions) {
  PERDURA_ASSIGN(TransactionState* const state, transaction_state(name, heap));
  if (state == nullptr) return lacks_state(name);
  Repeat repeat(name, heap, region, mutator, *state);
  u64 repeated = 0;
  for (const log::FoundRecord& transaction : transactions) {
    PERDURA_ASSIGN(const bool now, repeat.repeat(transaction));
    repeated += now ? 1 : 0;
  }
  return repeated;
}

Status check_transactions(const std::string& name, heap::Heap& heap, region::Region& region,
                          std::span<const log::FoundRecord> transactions) {
  if (transactions.empty()) return {};
  PERDURA_ASSIGN(const auto mutators,
                 track::Mutators::create(nullptr, [](detail::Mutator&) noexcept {}));
  detail::Mutator& mutator = mutators->this_thread();
  const track::InOperation operation(mutator);
  PERDURA_TRY(repeat_transactions(name, heap, region, mutator, transactions));
  return {};
}

}  // namespace perdura::store
