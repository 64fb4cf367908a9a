// An object alone on a medium: where a test puts its parts, and how it is found there again.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "media/record.hpp"
#include "object/object_core.hpp"
#include "object/object_table.hpp"

namespace perdura::test {

/// Of one that is made in session 1; its table is at the beginning of the medium.
inline format::ObjectHead new_object_head(const u64 (&copy_place)[2], u64 log_place, u64 log_lines,
                                          u64 callers = 0) {
  format::ObjectHead head{};
  head.magic = format::kObjectMagic;
  head.identity = 7;
  head.session = 1;
  std::ranges::copy(copy_place, head.copy_place);
  head.log_place = log_place;
  head.log_lines = log_lines;
  head.callers = callers;
  if (callers != 0) head.history = format::ObjectHistory::kLast;
  head.name[0] = 'a';
  return head;
}

/// `parts` with the heads that are at the beginning of its medium.
inline object::ObjectCore::Parts with_heads(object::ObjectCore::Parts parts) {
  AlignedBuffer slots(2 * format::kObjectHeadBytes);
  value_or_throw(parts.medium->load_pages(0, slots.span()));
  const auto found = object::ObjectTable::entry_of(*parts.medium, 0, slots.data());
  parts.head = found.head;
  parts.older = found.older;
  parts.unclear = found.unclear;
  parts.build_found = found.build;
  return parts;
}

/// Calls visit(end, image) for states that a crash may leave at each call of the medium from
/// `first` on: with nothing, all, and drawn parts of what was not durable; so many of each. `image`
/// is made when it is asked for. Ends where `go_on` says no.
template <class Visit, class GoOn>
void for_each_crash(const media::History& history, size_t first, int variants, Visit&& visit,
                    GoOn&& go_on) {
  std::mt19937_64 random(2);
  for (const size_t end : history.crash_points()) {
    if (end < first) continue;
    for (int variant = 0; variant < variants; ++variant) {
      const u64 salt = random();
      visit(end, history.after_crash(end, [&](size_t at, u64 atom) {
        if (variant < 2) return variant == 1;
        std::mt19937_64 draw(salt ^ (at << 20) ^ atom);
        return draw() % 2 == 0;
      }));
      if (!go_on()) return;
    }
  }
}

/// Of what was noted at so many calls of the medium, rising: the last before `end`.
inline u64 noted_by(const std::vector<std::pair<size_t, u64>>& notes, size_t end) {
  u64 last = 0;
  for (const auto& [at, value] : notes)
    if (at <= end) last = value;
  return last;
}

}  // namespace perdura::test
