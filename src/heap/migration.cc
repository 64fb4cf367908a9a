#include "heap/migration.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "heap/known_types.hpp"
#include "heap/members.hpp"

namespace perdura::heap {

using detail::Conversion;
using detail::MemberDescription;
using detail::TypeDescription;

namespace {

/// Of a former type, under the name that the store knows.
Result<Layout> former_layout(const Conversion& conversion) {
  PERDURA_ASSIGN(Layout layout, Layout::of(*conversion.former));
  layout.name = conversion.now->name;
  layout.fingerprint = layout.compute_fingerprint();
  return layout;
}

/// Where in an object is now what was at an offset of it.
std::optional<u64> place_in(const TypeDescription& was, const TypeDescription& is, u64 offset) {
  if (offset == 0) return 0;
  if (was.count != 0 && is.count != 0) {
    const TypeDescription& element = was.contained.front()();
    const TypeDescription& element_now = is.contained.front()();
    const u64 index = offset / element.size;
    if (index >= is.count) return {};
    const auto within = place_in(element, element_now, offset % element.size);
    if (!within) return {};
    return index * element_now.size + *within;
  }
  if (was.members.empty() || is.members.empty()) {
    if (offset >= std::min(was.size, is.size)) return {};
    return offset;
  }
  for (const MemberDescription& member : was.members)
    for (const MemberDescription& now : is.members)
      if (member.name == now.name && offset >= member.offset &&
          offset - member.offset < member.type().size) {
        const auto within = place_in(member.type(), now.type(), offset - member.offset);
        if (!within) return {};
        return now.offset + *within;
      }
  return {};
}

}  // namespace

// Without success: what was made of the new layouts goes.
Migration::~Migration() {
  if (done_) return;
  for (const Moved& moved : moved_)
    if (Status freed = heap_.deallocate(mutator_, moved.now); !freed) return;
}

Result<u64> Migration::run(std::span<const Conversion> conversions) {
  return guarded([&]() -> Result<u64> {
    if (heap_.has_aliases())
      return Failure{Code::kUnsupported, "objects of '" + heap_.blocks().store_name() +
                                             "' cannot be converted, since it has aliases; copy "
                                             "them to a store without"};
    PERDURA_TRY(heap_.load_typed());
    for (const Conversion& conversion : conversions) add(conversion);
    for (const Conversion& conversion : conversions_) PERDURA_TRY(look_at(conversion));
    if (types_.empty()) {
      PERDURA_TRY(mend_container_roots());
      return u64{0};
    }
    PERDURA_TRY(heap_.require_types());
    PERDURA_TRY(require_holders());
    PERDURA_TRY(prepare_names());
    PERDURA_TRY(make_objects());
    PERDURA_TRY(mend(true));
    // From here on nothing can fail.
    PERDURA_TRY(mend(false));
    PERDURA_TRY(mend_roots());
    PERDURA_TRY(mend_container_roots());
    for (const Renamed& each : renamed_)
      heap_.types().exchange_names(mutator_, each.former, each.now);
    heap_.forget_types();
    done_ = true;
    for (const Moved& moved : moved_) PERDURA_TRY(heap_.deallocate(mutator_, moved.was));
    return moved_.size();
  });
}

// --- which types --------------------------------------------------------------------------------

// Of a container its blocks. Of a type once.
void Migration::add(const Conversion& conversion) {
  if (conversion.for_each_block != nullptr) {
    containers_.push_back(&conversions_.emplace_back(conversion));
    conversion.for_each_block(conversion.function, this, [](void* to, const Conversion& block) {
      static_cast<Migration*>(to)->add(block);
    });
    return;
  }
  const bool is_known =
      std::any_of(conversions_.begin(), conversions_.end(),
                  [&](const Conversion& each) { return each.former == conversion.former; });
  if (!is_known) conversions_.push_back(conversion);
}

// A type is to be converted where the store has its former layout. Neither layout is kTypeMismatch.
Status Migration::look_at(const Conversion& conversion) {
  if (conversion.for_each_block != nullptr) return {};
  TypeList& types = heap_.types();
  PERDURA_ASSIGN(const Layout former, former_layout(conversion));
  PERDURA_ASSIGN(Layout now, Layout::of(*conversion.now));
  PERDURA_ASSIGN(const u32 number, types.number_named(now.name));
  const auto is_stored = [&](const Layout& layout) {
    return number == 0 || types.layouts()[number - 1].fingerprint == layout.fingerprint;
  };
  bool is_former = is_stored(former);
  bool is_now = is_stored(now);
  std::vector<Layout> changed;
  std::string stored_text = number != 0 ? types.layouts()[number - 1].text : "other members";
  std::string former_text = former.text;
  std::string now_text = now.text;
  if (conversion.now_members != nullptr) {
    std::vector<std::pair<Layout, Layout>> classes;  // as they were and are
    for_each_class(*conversion.now_members, [&](const TypeDescription& each) {
      classes.emplace_back(Layout{}, members_entry(each));
    });
    for_each_class(*conversion.former_members, [&](const TypeDescription& each) {
      Layout entry = members_entry(each);
      const auto same = std::find_if(classes.begin(), classes.end(), [&](const auto& both) {
        return both.second.name == entry.name;
      });
      if (same != classes.end()) same->first = std::move(entry);
    });
    // The type itself is the last.
    former_text = readable(classes.back().first.text);
    now_text = readable(classes.back().second.text);
    for (auto& [was, is] : classes) {
      PERDURA_ASSIGN(const u32 known, types.number_named(is.name));
      const bool is_itself = &is == &classes.back().second;
      if (known == 0 && is_itself) stored_text = "unknown members";
      if (known == 0) continue;
      const std::string& stored = types.layouts()[known - 1].text;
      if (is_itself) stored_text = readable(stored);
      is_now = is_now && stored == is.text;
      if (was.name.empty()) continue;  // the former type had none of these
      is_former = is_former && stored == was.text;
      if (stored == was.text && was.text != is.text) changed.push_back(std::move(is));
    }
  }
  if (is_now) return {};
  if (!is_former)
    return Failure{
        Code::kTypeMismatch,
        fmt::format("'{}' in '{}', or a type that it has members of, has neither the former nor "
                    "the new layout; in the store: {}; the former type has: {}; the new one: {}",
                    readable_name(now.name), heap_.blocks().store_name(), stored_text, former_text,
                    now_text)};
  entries_.insert(entries_.end(), std::make_move_iterator(changed.begin()),
                  std::make_move_iterator(changed.end()));
  types_.push_back({&conversion, number, number, std::move(now)});
  return {};
}

bool Migration::converts(std::string_view class_name) const {
  return std::any_of(types_.begin(), types_.end(), [&](const Type& type) {
    return type.conversion->now_members != nullptr &&
           type.conversion->now_members->name == class_name;
  });
}

// The type that blocks of the class of an entry have; 0: none.
u32 Migration::number_of_class(const Layout& entry) const {
  const std::deque<Layout>& layouts = heap_.types().layouts();
  for (size_t i = 0; i < layouts.size(); ++i)
    if (!is_members_entry(layouts[i]) && is_entry_of(entry, layouts[i].name))
      return static_cast<u32>(i + 1);
  return 0;
}

Failure Migration::refuse_holder(const std::string& name, const Layout& changed) const {
  const std::string text = fmt::format(
      "objects of '{}' in '{}' have members of '{}', which gets another layout: ",
      readable_name(name), heap_.blocks().store_name(), readable_name(class_of_entry(changed)));
  // Nodes of ordered maps, and the keys of hash tables.
  if (name.find("9TreeInner") != name.npos || name.find("8TreeLeaf") != name.npos)
    return {Code::kUnsupported,
            text +
                "take the elements of ordered maps and sets out, clear these, convert, and "
                "insert the elements again, in one operation"};
  return {Code::kInvalidArgument,
          text +
              "convert both in one call of Store::migrate; of a container by a conversion of "
              "the container"};
}

// Objects that have another one as a member, whose layout changes, are to be converted with it.
Status Migration::require_holders() const {
  std::unordered_set<u32> used;
  heap_.blocks().for_each_block([&](const std::byte*, u64, u16 tag) { used.insert(tag / 2); });
  const std::deque<Layout>& layouts = heap_.types().layouts();
  // Those that change, what has them as members, and what has that.
  std::vector<std::pair<const Layout*, const Layout*>> changing;  // and what it is about
  for (const Layout& changed : entries_) changing.emplace_back(&changed, &changed);
  std::unordered_set<const Layout*> seen;
  for (size_t i = 0; i < changing.size(); ++i) {
    const auto [inner, about] = changing[i];
    for (const Layout& entry : layouts) {
      if (!is_members_entry(entry) || entry.name == inner->name || !has_member_of(entry, *inner) ||
          !seen.insert(&entry).second)
        continue;
      const std::string name = class_of_entry(entry);
      if (converts(name)) continue;
      changing.emplace_back(&entry, about);
      const u32 number = number_of_class(entry);
      if (number != 0 && used.contains(number)) return refuse_holder(name, *about);
    }
  }
  // A type of which objects are left as they were.
  for (const Layout& changed : entries_) {
    const std::string name = class_of_entry(changed);
    const u32 number = number_of_class(changed);
    if (number != 0 && used.contains(number) && !converts(name))
      return Failure{Code::kInvalidArgument,
                     fmt::format("objects of '{}' in '{}' get another layout as well: convert them "
                                 "in the same call of Store::migrate",
                                 readable_name(name), heap_.blocks().store_name())};
  }
  return {};
}

// The new layouts, under names that nobody has.
Status Migration::prepare_names() {
  TypeList& types = heap_.types();
  const auto prepare = [&](const Layout& now, u32 former) -> Result<u32> {
    PERDURA_ASSIGN(const u32 spare, types.number_of_spare(mutator_, now));
    renamed_.push_back({former, spare});
    return spare;
  };
  for (Type& type : types_) {
    if (type.former_number == 0 ||
        types.layouts()[type.former_number - 1].fingerprint == type.now.fingerprint)
      continue;
    PERDURA_ASSIGN(type.number, prepare(type.now, type.former_number));
  }
  std::unordered_set<std::string> seen;
  for (const Layout& entry : entries_) {
    if (!seen.insert(entry.name).second) continue;
    PERDURA_ASSIGN(const u32 former, types.number_named(entry.name));
    const Result<u32> made = prepare(entry, former);
    if (!made) return made.failure();
  }
  return {};
}

// --- objects -------------------------------------------------------------------------------------

Status Migration::make_objects() {
  struct Found {
    std::byte* place;
    u64 bytes;
    u16 tag;
  };
  std::vector<Found> found;
  heap_.blocks().for_each_block([&](const std::byte* place, u64 bytes, u16 tag) {
    if (std::any_of(types_.begin(), types_.end(), [&](const Type& type) {
          return type.former_number != 0 && type.former_number == tag / 2;
        }))
      found.push_back({const_cast<std::byte*>(place), bytes, tag});
  });
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.place < b.place; });
  moved_.reserve(found.size());
  for (const Found& each : found) {
    const Type& type = *std::find_if(types_.begin(), types_.end(), [&](const Type& one) {
      return one.former_number == each.tag / 2;
    });
    if ((each.tag & 1) != 0)
      return Failure{Code::kUnsupported,
                     fmt::format("an object of '{}' ends with a flexible array: such objects are "
                                 "converted one by one, by the program",
                                 readable_name(type.now.name))};
    const perdura_type& former = *type.conversion->former;
    const u64 count = each.bytes / former.size;
    PERDURA_ASSIGN(void* const made,
                   heap_.allocate_tagged(mutator_, static_cast<u16>(2 * type.number),
                                         count * type.now.size, type.now.alignment));
    moved_.push_back({each.place, static_cast<std::byte*>(made), count, &type});
    for (u64 i = 0; i < count; ++i)
      type.conversion->convert(type.conversion->function, each.place + i * former.size,
                               static_cast<std::byte*>(made) + i * type.now.size);
  }
  return {};
}

// The block that has this address, among those that were.
const Migration::Moved* Migration::moved_at(u64 address) const {
  auto after = std::upper_bound(
      moved_.begin(), moved_.end(), address,
      [](u64 at, const Moved& each) { return at < reinterpret_cast<std::uintptr_t>(each.was); });
  if (after == moved_.begin()) return nullptr;
  const Moved& before = *--after;
  const u64 offset = address - reinterpret_cast<std::uintptr_t>(before.was);
  return offset < before.count * before.type->conversion->former->size ? &before : nullptr;
}

// In the new block, of what was at an offset of the old one.
Result<u64> Migration::place_now(const Moved& moved, u64 offset) const {
  const Conversion& conversion = *moved.type->conversion;
  const u64 index = offset / conversion.former->size;
  const u64 within = offset % conversion.former->size;
  const u64 object = index * conversion.now->size;
  if (within == 0) return object;
  if (conversion.now_members != nullptr)
    if (const auto place = place_in(*conversion.former_members, *conversion.now_members, within))
      return object + *place;
  return Failure{
      Code::kInvalidArgument,
      fmt::format("a pointer leads to byte {} of an object of '{}' in '{}', which is in "
                  "no member that both layouts have",
                  within, readable_name(moved.type->now.name), heap_.blocks().store_name())};
}

// --- pointers ------------------------------------------------------------------------------------

Status Migration::mend_word(u64* word, bool maybe, bool check) {
  const Moved* const moved = moved_at(*word);
  if (moved == nullptr) return {};
  Result<u64> place = place_now(*moved, *word - reinterpret_cast<std::uintptr_t>(moved->was));
  if (!place && maybe) return {};  // it may be none
  if (!place) return std::move(place).failure();
  if (check) return {};
  detail::report(mutator_, word, sizeof *word);
  *word = reinterpret_cast<std::uintptr_t>(moved->now) + *place;
  return {};
}

// In all blocks but those that go. With `check` nothing is changed.
Status Migration::mend(bool check) {
  const Layouts layouts(heap_.types().layouts());
  Status status;
  heap_.blocks().for_each_block([&](const std::byte* place, u64 bytes, u16 tag) {
    const Layout* const layout = layouts.of(tag);
    if (!status || layout == nullptr || !layout->has_pointers()) return;
    const Moved* const moved = moved_at(reinterpret_cast<std::uintptr_t>(place));
    if (moved != nullptr && moved->was == place) return;
    layout->for_each_pointer(const_cast<std::byte*>(place), bytes, (tag & 1) != 0,
                             [&](u64* word, bool maybe) {
                               if (!status) return;
                               status = mend_word(word, maybe, check);
                             });
  });
  if (!status || !check) return status;
  for (const Roots::Root& root : heap_.roots().all()) {
    const auto address = reinterpret_cast<std::uintptr_t>(root.object);
    const Moved* const moved = moved_at(address);
    if (moved == nullptr) continue;
    if (Result<u64> place =
            place_now(*moved, address - reinterpret_cast<std::uintptr_t>(moved->was));
        !place)
      return std::move(place).failure();
  }
  return {};
}

// A root's type is compared again when it is found.
Status Migration::mend_roots() {
  for (const Roots::Root& root : heap_.roots().all()) {
    const auto address = reinterpret_cast<std::uintptr_t>(root.object);
    const Moved* const moved = moved_at(address);
    if (moved == nullptr) continue;
    const u64 offset = address - reinterpret_cast<std::uintptr_t>(moved->was);
    PERDURA_ASSIGN(const u64 place, place_now(*moved, offset));
    const bool is_object = offset == 0 && root.fingerprint != 0;
    PERDURA_TRY(heap_.roots().set(
        mutator_, root.name, moved->now + place,
        is_object ? moved->type->conversion->root_fingerprint : root.fingerprint));
  }
  return {};
}

// The type of a container that is a root says what it contains; its block is as it was.
Status Migration::mend_container_roots() {
  const std::deque<Layout>& layouts = heap_.types().layouts();
  for (const Roots::Root& root : heap_.roots().all()) {
    if (root.fingerprint == 0) continue;
    const Result<Block> block = heap_.blocks().find_allocated(root.object);
    if (!block || block->tag() / 2 == 0 || block->tag() / 2 > layouts.size()) continue;
    const std::string& name = layouts[block->tag() / 2 - 1].name;
    for (const Conversion* const container : containers_)
      if (name == container->now->name && root.fingerprint != container->root_fingerprint)
        PERDURA_TRY(heap_.roots().set(mutator_, root.name, const_cast<void*>(root.object),
                                      container->root_fingerprint));
  }
  return {};
}

}  // namespace perdura::heap
