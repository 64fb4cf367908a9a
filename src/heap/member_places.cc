#include "heap/member_places.hpp"

#include <algorithm>
#include <span>

namespace perdura::heap {
namespace {

/// A class, an array, or something of which nothing is known but its type.
class Part {
 public:
  explicit Part(const std::vector<Class>& classes)
      : Part(classes, classes.back().name, {}, classes.back().entry.size) {}
  Part(const std::vector<Class>& classes, const Class::Member& member)
      : Part(classes, member.type, member.counts, member.bytes) {}

  /// Of an array "".
  std::string_view name() const { return is_array() ? std::string_view() : type_; }
  bool is_array() const { return !counts_.empty(); }
  u64 count() const { return counts_.front(); }
  u64 bytes() const { return bytes_; }
  Part element() const {
    return {classes_, type_, counts_.subspan(1), count() != 0 ? bytes_ / count() : 0};
  }
  std::span<const Class::Member> members() const {
    return is_array() || class_ == nullptr ? std::span<const Class::Member>() : class_->members;
  }
  const Class::Member* member(std::string_view name) const {
    const auto all = members();
    const auto found = std::ranges::find(all, name, &Class::Member::name);
    return found != all.end() ? &*found : nullptr;
  }
  Part of(const Class::Member& member) const { return {classes_, member}; }
  /// What it is made of is not known, and not known to differ.
  bool is_as(const Part& other) const {
    return !is_array() && !other.is_array() && members().empty() && other.members().empty() &&
           type_ == other.type_ && bytes_ == other.bytes_ &&
           (class_ == nullptr) == (other.class_ == nullptr) &&
           (class_ == nullptr || class_->entry.text == other.class_->entry.text);
  }

 private:
  Part(const std::vector<Class>& classes, std::string_view type, std::span<const u64> counts,
       u64 bytes)
      : classes_(classes), type_(type), counts_(counts), bytes_(bytes) {
    const auto found = std::ranges::find(classes, type, &Class::name);
    if (found != classes.end()) class_ = &*found;
  }

  const std::vector<Class>& classes_;
  std::string_view type_;
  std::span<const u64> counts_;  ///< of an array, the outermost first
  u64 bytes_;
  const Class* class_ = nullptr;
};

/// visit(part, place) of what objects of the former layout begin with: the first member, and its
/// first one; with where that is in one of the new layout, if it has that.
template <class Visit>
void for_each_beginning(const Part& former, const std::optional<Part>& now, u64 place,
                        const Visit& visit) {
  const auto go_on = [&](const Part& was, const std::optional<Part>& is, u64 where) {
    visit(was, is ? std::optional(where) : std::nullopt);
    for_each_beginning(was, is, where, visit);
  };
  if (former.is_array()) {
    if (former.count() == 0) return;
    const bool has_one = now && now->is_array() && now->count() != 0;
    return go_on(former.element(), has_one ? std::optional(now->element()) : std::nullopt, place);
  }
  if (former.members().empty()) return;
  const Class::Member& first = former.members().front();
  const Class::Member* const same = now ? now->member(first.name) : nullptr;
  if (same == nullptr) return go_on(former.of(first), std::nullopt, 0);
  go_on(former.of(first), now->of(*same), place + same->offset);
}

std::optional<u64> place_in(const Part& former, const Part& now, u64 offset,
                            std::string_view pointee) {
  if (offset == 0) {
    std::optional<u64> result = 0;
    bool found = former.name() == pointee;
    for_each_beginning(former, now, 0, [&](const Part& was, std::optional<u64> place) {
      if (found || was.name().empty() || was.name() != pointee) return;
      result = place;
      found = true;
    });
    return result;
  }
  if (former.is_array() && now.is_array()) {
    const u64 bytes = former.element().bytes();
    const u64 index = offset / bytes;
    if (index >= now.count()) return {};
    const auto within = place_in(former.element(), now.element(), offset % bytes, pointee);
    return within ? std::optional(index * now.element().bytes() + *within) : std::nullopt;
  }
  for (const Class::Member& was : former.members()) {
    if (offset < was.offset || offset - was.offset >= was.bytes) continue;
    const Class::Member* const is = now.member(was.name);
    if (is == nullptr) return {};
    const auto within = place_in(former.of(was), now.of(*is), offset - was.offset, pointee);
    return within ? std::optional(is->offset + *within) : std::nullopt;
  }
  return former.is_as(now) ? std::optional(offset) : std::nullopt;
}

}  // namespace

std::optional<u64> MemberPlaces::of(u64 offset, std::string_view pointee) const {
  return place_in(Part(former_), Part(now_), offset, pointee);
}

bool MemberPlaces::begin_elsewhere() const {
  bool elsewhere = false;
  for_each_beginning(Part(former_), Part(now_), 0, [&](const Part&, std::optional<u64> place) {
    elsewhere = elsewhere || place != std::optional<u64>(0);
  });
  return elsewhere;
}

}  // namespace perdura::heap
