#include "heap/layout.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>

#include "base/checksum.hpp"
#include "heap/record_members.hpp"

namespace perdura::heap {
namespace {

using format::kTagDiffers;
using format::PointerRun;
using format::PointerTag;

constexpr size_t kTypeNameMax = 255;
constexpr u32 kPointerBytes = 8;
constexpr size_t kRunsMax = 4096;
constexpr int kDepthMax = 32;  // of values in values
static_assert(PERDURA_TAG_DIFFERS == kTagDiffers);
static_assert(std::endian::native == std::endian::little, "a short tag is the low bytes of a word");

/// A run with its tags, not yet part of a layout.
struct OwnRun {
  PointerRun run;
  std::vector<PointerTag> tags;
};

std::string name_of(const char* name) { return name != nullptr ? name : "(nameless)"; }

/// Resolves a record.
class Resolver {
 public:
  /// With `by_place` arrays of pointers in many values come to fewer runs; without, to those that
  /// stores know.
  explicit Resolver(bool by_place) : by_place_(by_place) {}
  bool has_too_many() const { return has_too_many_; }

  Result<Layout> resolve(const perdura_type& type) {
    Layout layout;
    PERDURA_TRY(check(type));
    PERDURA_ASSIGN(layout.name, name_of_record(type));
    layout.size = type.size;
    layout.alignment = type.alignment;
    for (const perdura_slot* const each : slots_of(type)) {
      const perdura_slot& slot = *each;
      std::vector<OwnRun> runs;
      PERDURA_TRY(add(type, slot, 0, runs));
      const bool flexible = slot.bytes == 0;
      if (flexible) {
        layout.tail_offset = slot.offset;
        layout.tail_stride = slot.kind == PERDURA_SLOT_VALUE ? slot.value->size : kPointerBytes;
      }
      put(runs, flexible ? layout.tail_runs : layout.runs, layout.tags);
      if (layout.runs.size() + layout.tail_runs.size() > kRunsMax) return too_many(type);
    }
    layout.text = text_of(type);
    layout.fingerprint = layout.compute_fingerprint();
    // What would be taken for damage when the store is opened again is not accepted.
    if (const std::string problem = layout.problem(); !problem.empty())
      return failure(type, "has " + problem);
    layout.find_shared_words();
    return layout;
  }

 private:
  static Failure failure(const perdura_type& type, const std::string& what) {
    return Failure{Code::kInvalidArgument,
                   "the record of type '" + name_of(type.name) + "' " + what};
  }
  static Failure failure(const perdura_type& type, const perdura_slot& slot,
                         const std::string& what) {
    return failure(type, "says of member '" + name_of(slot.member) + "' what cannot be: " + what);
  }

  /// Those that say where pointers are. Of records that say all members they are in the order of
  /// these, whatever order the program says them in: so that the layout is that of C++.
  static std::vector<const perdura_slot*> slots_of(const perdura_type& type) {
    std::vector<const perdura_slot*> slots;
    const bool all = has_all_members(type);
    for (u32 i = all ? 1 : 0; i < type.slot_count; ++i)
      if (!all || (!is_number_slot(type.slots[i]) && type.slots[i].kind != PERDURA_SLOT_OPAQUE))
        slots.push_back(&type.slots[i]);
    if (all)
      std::ranges::sort(slots, {}, [](const perdura_slot* slot) {
        return std::pair(slot->offset, slot);  // of one place in the program's order
      });
    return slots;
  }

  Status check(const perdura_type& type) const {
    if (depth_ > kDepthMax) return failure(type, "contains itself");
    if (type.name == nullptr || *type.name == 0 || std::strlen(type.name) > kTypeNameMax)
      return failure(type, "has no name of 1 to 255 bytes");
    if (type.size == 0) return failure(type, "has no size");
    if (!std::has_single_bit(type.alignment) || type.alignment > kPageBytes)
      return failure(type, "has an alignment that is no power of two up to 4096");
    if (type.slot_count != 0 && type.slots == nullptr) return failure(type, "has no slots");
    return {};
  }

  static Status check(const perdura_type& type, const perdura_slot& slot, bool last) {
    const bool value = slot.kind == PERDURA_SLOT_VALUE;
    if (!value && slot.kind != PERDURA_SLOT_POINTER && slot.kind != PERDURA_SLOT_MAYBE)
      return failure(type, slot, "it is of no known kind");
    if (value && slot.value == nullptr) return failure(type, slot, "its type has no record");
    if (!value && slot.offset % kPointerBytes != 0)
      return failure(type, slot, "a pointer is not aligned to 8 bytes");
    if (slot.bytes == 0) {
      if (!last) return failure(type, slot, "a flexible array is not the last slot");
      if (slot.tag_bytes != 0) return failure(type, slot, "a flexible array has a tag");
      return {};
    }
    if (u64{slot.offset} + slot.bytes > type.size)
      return failure(type, slot, "it ends beyond the type");
    const u32 tag_bytes = tag_bytes_of(slot);
    if (slot.tag_bytes != 0 &&
        ((tag_bytes != 1 && tag_bytes != 2 && tag_bytes != 4 && tag_bytes != 8) ||
         u64{slot.tag_offset} + tag_bytes > type.size))
      return failure(type, slot, "its tag is no integer in the type");
    return {};
  }

  static u32 tag_bytes_of(const perdura_slot& slot) { return slot.tag_bytes & ~kTagDiffers; }

  /// The runs of a slot whose type begins at `base`; of a flexible array those of an element.
  Status add(const perdura_type& type, const perdura_slot& slot, u32 base,
             std::vector<OwnRun>& into) {
    const bool last = &slot == &type.slots[type.slot_count - 1];
    PERDURA_TRY(check(type, slot, last));
    std::vector<PointerTag> tags;
    if (slot.tag_bytes != 0) {
      // Of a short integer C gives a negative value in all bits of a long one.
      const u32 tag_bytes = tag_bytes_of(slot);
      const u64 mask = tag_bytes == 8 ? ~u64{0} : (u64{1} << tag_bytes * 8) - 1;
      tags.push_back({slot.tag_value & mask, base + slot.tag_offset, 0, slot.tag_bytes, 0});
    }
    const u32 at = slot.bytes == 0 ? 0 : base + slot.offset;
    if (slot.kind != PERDURA_SLOT_VALUE) {
      if (slot.bytes % kPointerBytes != 0)
        return failure(type, slot, "its size is no multiple of a pointer's");
      const u32 count = slot.bytes == 0 ? 1 : slot.bytes / kPointerBytes;
      into.push_back({{at, count, kPointerBytes, slot.kind == PERDURA_SLOT_MAYBE, 0, 0}, tags});
      return {};
    }
    std::vector<OwnRun> inner;
    ++depth_;
    PERDURA_TRY(add_all(*slot.value, inner));
    --depth_;
    const u32 size = slot.value->size;
    if (slot.bytes % size != 0)
      return failure(type, slot,
                     "its size is no multiple of that of '" + std::string(slot.value->name) + "'");
    const u32 count = slot.bytes == 0 ? 1 : slot.bytes / size;
    const bool is_array = slot.bytes == 0 || count > 1;
    if (!inner.empty() &&
        (slot.offset % kPointerBytes != 0 || (is_array && size % kPointerBytes != 0)))
      return failure(type, slot,
                     "the pointers in it are not aligned to 8 bytes, as in a packed type");
    for (const OwnRun& each : inner) PERDURA_TRY(repeat(type, each, at, count, size, tags, into));
    return {};
  }

  Status add_all(const perdura_type& type, std::vector<OwnRun>& into) {
    PERDURA_TRY(check(type));
    for (const perdura_slot* const slot : slots_of(type)) {
      if (slot->bytes == 0)
        return failure(type, *slot, "a value in another one has no flexible array");
      PERDURA_TRY(add(type, *slot, 0, into));
    }
    return {};
  }

  /// `run` of each of `count` values that begin at `at`, while `outer` fits.
  Status repeat(const perdura_type& type, const OwnRun& each, u32 at, u32 count, u32 size,
                const std::vector<PointerTag>& outer, std::vector<OwnRun>& into) {
    const bool as_one = each.run.count == 1;  // the same pointer of each value
    // An array of pointers in many values: as one run for each place in the array.
    if (!as_one && by_place_ && each.run.count < count) {
      for (u32 i = 0; i < each.run.count; ++i) {
        OwnRun one = each;
        one.run.offset += i * each.run.stride;
        one.run.count = 1;
        one.run.stride = 0;
        for (PointerTag& tag : one.tags) {
          tag.offset += i * tag.stride;
          tag.stride = 0;
        }
        PERDURA_TRY(repeat(type, one, at, count, size, outer, into));
      }
      return {};
    }
    for (u32 i = 0; i < (as_one ? 1 : count); ++i) {
      OwnRun copy = each;
      copy.run.offset += at + i * size;
      if (as_one) {
        copy.run.count = count;
        copy.run.stride = size;
      }
      for (PointerTag& tag : copy.tags) {
        tag.offset += at + i * size;
        if (as_one) tag.stride = size;
      }
      copy.tags.insert(copy.tags.end(), outer.begin(), outer.end());
      into.push_back(std::move(copy));
      if (into.size() > kRunsMax) return too_many(type);
    }
    return {};
  }

  static void put(const std::vector<OwnRun>& from, std::vector<PointerRun>& runs,
                  std::vector<PointerTag>& tags) {
    for (const OwnRun& each : from) {
      PointerRun run = each.run;
      run.first_tag = static_cast<u32>(tags.size());
      run.tag_count = static_cast<u16>(each.tags.size());
      tags.insert(tags.end(), each.tags.begin(), each.tags.end());
      runs.push_back(run);
    }
  }

  static std::string text_of(const perdura_type& type) {
    std::string text = std::to_string(type.size) + " bytes";
    const std::vector<const perdura_slot*> slots = slots_of(type);
    for (const perdura_slot* const each : slots) {
      const perdura_slot& slot = *each;
      text += each == slots.front() ? "; " : ", ";
      text += name_of(slot.member) + " at " + std::to_string(slot.offset) + ": ";
      const u32 size = slot.kind == PERDURA_SLOT_VALUE ? slot.value->size : kPointerBytes;
      if (slot.bytes == 0) text += "flexible array of ";
      else if (slot.bytes != size) text += std::to_string(slot.bytes / size) + " of ";
      text += slot.kind == PERDURA_SLOT_VALUE     ? slot.value->name
              : slot.kind == PERDURA_SLOT_POINTER ? "pointer"
                                                  : "pointer or not";
      if (slot.tag_bytes != 0)
        text += " if the " + std::to_string(tag_bytes_of(slot)) + " bytes at " +
                std::to_string(slot.tag_offset) +
                ((slot.tag_bytes & kTagDiffers) != 0 ? " are not " : " are ") +
                std::to_string(slot.tag_value);
    }
    return text;
  }

  Failure too_many(const perdura_type& type) {
    has_too_many_ = true;
    return failure(type, "has too many separate places for pointers");
  }

  const bool by_place_;
  bool has_too_many_ = false;
  int depth_ = 0;
};

}  // namespace

Result<Layout> Layout::of(const perdura_type& type) {
  return guarded([&] {
    Resolver resolver(false);
    Result<Layout> layout = resolver.resolve(type);
    return resolver.has_too_many() ? Resolver(true).resolve(type) : std::move(layout);
  });
}

const PointerRun* Layout::run_at(u64 offset, bool flexible) const {
  const auto find = [](const std::vector<PointerRun>& all, u64 at) {
    const auto found = std::ranges::find_if(all, [at](const PointerRun& run) {
      const u64 from = at - run.offset;  // beyond all of them when it wraps
      return run.stride == 0 ? from == 0 : from % run.stride == 0 && from / run.stride < run.count;
    });
    return found != all.end() ? &*found : nullptr;
  };
  if (!flexible) return find(runs, offset % size);
  if (tail_stride != 0 && offset >= tail_offset)
    if (const PointerRun* const run = find(tail_runs, (offset - tail_offset) % tail_stride))
      return run;
  return find(runs, offset);
}

u64 Layout::compute_fingerprint() const {
  const auto sum = [](const auto& all) {
    return checksum(all.data(), all.size() * sizeof(all[0]));
  };
  const u64 parts[] = {checksum(name.data(), name.size()),
                       size,
                       alignment,
                       tail_offset,
                       tail_stride,
                       sum(runs),
                       sum(tail_runs),
                       sum(tags)};
  return checksum(parts, sizeof parts) | 1;
}

std::string Layout::problem() const {
  if (size == 0 || !std::has_single_bit(alignment) || alignment > kPageBytes)
    return "an impossible size or alignment";
  if (fingerprint != compute_fingerprint()) return "a fingerprint that does not fit";
  const auto fits = [&](const PointerRun& run, u64 end) {
    if (run.count == 0 || run.offset % kPointerBytes != 0 || run.stride % kPointerBytes != 0 ||
        (run.count > 1 && run.stride == 0) ||
        run.offset + u64{run.count - 1} * run.stride + kPointerBytes > end ||
        u64{run.first_tag} + run.tag_count > tags.size())
      return false;
    return std::all_of(tags.begin() + run.first_tag, tags.begin() + run.first_tag + run.tag_count,
                       [&](const PointerTag& tag) {
                         const u32 bytes = tag.bytes & ~kTagDiffers;
                         return bytes <= sizeof(u64) &&
                                tag.offset + u64{run.count - 1} * tag.stride + bytes <= end;
                       });
  };
  if (!std::all_of(runs.begin(), runs.end(), [&](auto& run) { return fits(run, size); }) ||
      !std::all_of(tail_runs.begin(), tail_runs.end(),
                   [&](auto& run) { return fits(run, tail_stride); }))
    return "a pointer outside of it";
  return {};
}

namespace {

/// Of runs that all repeat at one distance, as those of an array of values do; nothing: of others.
std::optional<bool> values_share_words(const std::vector<PointerRun>& all) {
  constexpr size_t kFew = 64;
  if (all.empty() || all.size() > kFew) return {};
  const u32 stride = all.front().stride;
  for (const PointerRun& run : all)
    if (run.stride != stride || run.count == 1) return {};
  for (const PointerRun& a : all)
    for (const PointerRun& b : all)
      if (&a < &b && a.offset % stride == b.offset % stride) {
        const PointerRun& first = a.offset <= b.offset ? a : b;
        const PointerRun& second = a.offset <= b.offset ? b : a;
        if ((second.offset - first.offset) / stride < first.count) return true;
      }
  return false;
}

}  // namespace

void Layout::find_shared_words() {
  const auto shares = [](const std::vector<PointerRun>& all, u64 bytes) {
    if (const std::optional<bool> known = values_share_words(all)) return *known;
    std::vector<bool> seen(bytes / kPointerBytes);
    for (const PointerRun& run : all)
      for (u64 i = 0; i < run.count; ++i) {
        const u64 word = (run.offset + i * run.stride) / kPointerBytes;
        if (seen[word]) return true;
        seen[word] = true;
      }
    return false;
  };
  shares_words = shares(runs, size) || shares(tail_runs, tail_stride);
}

}  // namespace perdura::heap
