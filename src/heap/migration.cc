#include "heap/migration.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "heap/member_places.hpp"
#include "heap/members.hpp"
#include "heap/record_members.hpp"

namespace perdura::heap {

using detail::Conversion;
using detail::TypeDescription;

namespace {

/// Of a former type, under the name that the store knows.
Result<Layout> former_layout(const Conversion& conversion, const Layout& now) {
  PERDURA_ASSIGN(Layout layout, Layout::of(*conversion.former));
  layout.name = now.name;
  layout.fingerprint = layout.compute_fingerprint();
  return layout;
}

/// Of a type of C++, or of a record that says all members. The type itself is the last.
Result<std::vector<Class>> classes_stated(const TypeDescription* type, const perdura_type& record) {
  if (type != nullptr) return classes_of(*type);
  if (has_all_members(record)) return classes_of(record);
  return std::vector<Class>{};
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
    for (size_t i = 0; i < conversions_.size(); ++i) PERDURA_TRY(choose(conversions_, i));
    if (types_.empty()) {
      PERDURA_TRY(find_roots());
      PERDURA_TRY(set_roots());
      return u64{0};
    }
    PERDURA_TRY(heap_.require_types());
    PERDURA_TRY(require_holders());
    PERDURA_TRY(prepare_names());
    PERDURA_TRY(make_objects());
    PERDURA_TRY(find_words());
    PERDURA_TRY(find_roots());
    // From here on nothing can fail, nor needs memory.
    mend_words();
    PERDURA_TRY(set_roots());
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
    containers_.push_back(conversion);
    conversion.for_each_block(conversion.function, this, [](void* to, const Conversion& block) {
      static_cast<Migration*>(to)->add(block);
    });
    return;
  }
  const bool is_known =
      std::ranges::find(conversions_, conversion.former, &Conversion::former) != conversions_.end();
  if (!is_known) conversions_.push_back(conversion);
}

// Of the conversions to one type, that of the layout which the store has: a program may know
// several former ones. Of the first of these, for all.
Status Migration::choose(std::span<const Conversion> conversions, size_t first) {
  const auto has_this_name = [&](const Conversion& each) {
    return std::strcmp(each.now->name, conversions[first].now->name) == 0;
  };
  if (std::any_of(conversions.begin(), conversions.begin() + first, has_this_name)) return {};
  Status unfit;
  for (const Conversion& each : conversions.subspan(first)) {
    if (!has_this_name(each)) continue;
    Status fits = look_at(each);
    if (fits) return fits;
    if (unfit) unfit = std::move(fits);
    if (unfit.failure().code != Code::kTypeMismatch) break;
  }
  return unfit;
}

// A type is to be converted where the store has its former layout. Neither layout is kTypeMismatch.
Status Migration::look_at(const Conversion& conversion) {
  TypeList& types = heap_.types();
  PERDURA_ASSIGN(Layout now, Layout::of(*conversion.now));
  PERDURA_ASSIGN(const Layout former, former_layout(conversion, now));
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
  PERDURA_ASSIGN(std::vector<Class> now_classes,
                 classes_stated(conversion.now_members, *conversion.now));
  PERDURA_ASSIGN(std::vector<Class> former_classes,
                 classes_stated(conversion.former_members, *conversion.former));
  if (!now_classes.empty()) {
    former_text = readable(former_classes.back().entry.text);
    now_text = readable(now_classes.back().entry.text);
  }
  for (const Class& each : now_classes) {
    const bool is_itself = &each == &now_classes.back();
    PERDURA_ASSIGN(const u32 known, types.number_named(each.entry.name));
    if (known == 0 && is_itself) stored_text = "unknown members";
    if (known == 0) continue;
    const std::string& stored = types.layouts()[known - 1].text;
    if (is_itself) stored_text = readable(stored);
    is_now = is_now && same_members(stored, each.entry.text);
    const auto was = std::ranges::find(former_classes, each.entry.name,
                                       [](const Class& one) { return one.entry.name; });
    if (was == former_classes.end()) continue;  // the former type had none of these
    const bool is_as_it_was = same_members(stored, was->entry.text);
    is_former = is_former && is_as_it_was;
    if (is_as_it_was && !same_members(was->entry.text, each.entry.text))
      changed.push_back(each.entry);
  }
  if (is_now && is_former && number != 0)
    return Failure{
        Code::kInvalidArgument,
        fmt::format("'{}' of '{}' cannot be converted, since the store does not tell its former "
                    "layout from the new one; in the store: {}; the former type has: {}; the new "
                    "one: {}; give the new type another name and make its objects of the old ones",
                    readable_name(now.name), heap_.blocks().store_name(), stored_text, former_text,
                    now_text)};
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
  types_.push_back({&conversion, number, number, std::move(now), std::move(former_classes),
                    std::move(now_classes), false});
  Type& type = types_.back();
  if (!type.now_classes.empty())
    type.begins_elsewhere = MemberPlaces(type.former_classes, type.now_classes).begin_elsewhere();
  return {};
}

bool Migration::converts(std::string_view class_name) const {
  return std::any_of(types_.begin(), types_.end(), [&](const Type& type) {
    return !type.now_classes.empty() && name_in_entries(type.now_classes.back().name) == class_name;
  });
}

// The classes that have one whose layout changes among their members, at any depth: of each, by
// its name, which one that is.
std::unordered_map<std::string, std::string> Migration::find_holders() const {
  struct Held {
    std::string name;
    std::string changed;
  };
  std::vector<Held> left;
  for (const Layout& entry : entries_)
    left.push_back({class_of_entry(entry), class_of_entry(entry)});
  std::unordered_map<std::string, std::string> holders;
  while (!left.empty()) {
    const Held held = std::move(left.back());
    left.pop_back();
    for (const Layout& each : heap_.types().layouts())
      if (is_members_entry(each) && has_member_of(each, held.name) &&
          holders.emplace(class_of_entry(each), held.changed).second)
        left.push_back({class_of_entry(each), held.changed});
  }
  return holders;
}

Failure Migration::refuse_holder(const std::string& name, const std::string& changed) const {
  const std::string text =
      fmt::format("objects of '{}' in '{}' have members of '{}', which gets another layout: ",
                  readable_name(name), heap_.blocks().store_name(), readable_name(changed));
  // Nodes of ordered maps.
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
  // Records that PERDURA_TYPE makes have the names that programs write.
  std::unordered_set<std::string> used;
  std::unordered_set<u32> numbers;
  heap_.blocks().for_each_block([&](const std::byte*, u64, u16 tag) { numbers.insert(tag / 2); });
  for (const u32 number : numbers)
    if (number != 0) used.insert(name_in_entries(heap_.types().layouts()[number - 1].name));
  const auto is_left = [&](const std::string& name) {
    return !converts(name) && (used.contains(name) || used.contains(written_name(name)));
  };
  for (const auto& [name, changed] : find_holders())
    if (is_left(name)) return refuse_holder(name, changed);
  // A type of which objects are left as they were.
  for (const Layout& changed : entries_)
    if (const std::string name = class_of_entry(changed); is_left(name))
      return Failure{Code::kInvalidArgument,
                     fmt::format("objects of '{}' in '{}' get another layout as well: convert them "
                                 "in the same call of Store::migrate",
                                 readable_name(name), heap_.blocks().store_name())};
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
Result<u64> Migration::place_now(const Moved& moved, u64 offset, const Place& from) const {
  const Conversion& conversion = *moved.type->conversion;
  const u64 index = offset / conversion.former->size;
  const u64 within = offset % conversion.former->size;
  const u64 object = index * conversion.now->size;
  if (within == 0 && !moved.type->begins_elsewhere) return object;
  if (!moved.type->now_classes.empty()) {
    const std::string_view pointee =
        from.type != nullptr ? pointees_->at(*from.type, from.offset) : std::string_view();
    const MemberPlaces places(moved.type->former_classes, moved.type->now_classes);
    if (const auto place = places.of(within, pointee)) return object + *place;
  }
  return Failure{
      Code::kInvalidArgument,
      fmt::format("a pointer leads to byte {} of an object of '{}' in '{}', which is in "
                  "no member that both layouts have",
                  within, readable_name(moved.type->now.name), heap_.blocks().store_name())};
}

// --- pointers ------------------------------------------------------------------------------------

// What a pointer is to be, if it leads to an object that is converted.
Status Migration::find_word(u64* word, bool maybe, const Place& place_of_word) {
  const Moved* const moved = moved_at(*word);
  if (moved == nullptr) return {};
  Result<u64> place =
      place_now(*moved, *word - reinterpret_cast<std::uintptr_t>(moved->was), place_of_word);
  if (!place && maybe) return {};  // it may be none
  if (!place) return std::move(place).failure();
  words_.push_back({word, reinterpret_cast<std::uintptr_t>(moved->now) + *place});
  return {};
}

// That of an object with this tag, under which the program knows it: a new layout has another name
// in the list until all is done.
const std::string& Migration::type_name_now(u16 tag, const Layout& layout) const {
  for (const Type& type : types_)
    if (type.number == tag / 2) return type.now.name;
  return layout.name;
}

// In all blocks but those that go.
Status Migration::find_words() {
  for (const Type& type : types_)
    for (const Class& each : type.now_classes) new_members_.push_back(each.entry);
  pointees_.emplace(heap_.types().layouts(), new_members_);
  const Layouts layouts(heap_.types().layouts());
  Status status;
  heap_.blocks().for_each_block([&](const std::byte* place, u64 bytes, u16 tag) {
    const Layout* const layout = layouts.of(tag);
    if (!status || layout == nullptr || !layout->has_pointers()) return;
    const Moved* const moved = moved_at(reinterpret_cast<std::uintptr_t>(place));
    if (moved != nullptr && moved->was == place) return;
    const std::string& type = type_name_now(tag, *layout);
    layout->for_each_pointer(
        const_cast<std::byte*>(place), bytes, (tag & 1) != 0, [&](u64* word, bool maybe) {
          if (!status) return;
          const u64 offset = static_cast<u64>(reinterpret_cast<const std::byte*>(word) - place);
          const bool in_array = (tag & 1) != 0 && offset >= layout->size;
          status = find_word(word, maybe, {in_array ? nullptr : &type, offset % layout->size});
        });
  });
  return status;
}

// A root's type is compared again when it is found. The type of a container that is a root says
// what it contains; its block is as it was.
Status Migration::find_roots() {
  for (const Roots::Root& root : heap_.roots().all()) {
    const auto address = reinterpret_cast<std::uintptr_t>(root.object);
    const Moved* const moved = moved_at(address);
    if (moved != nullptr) {
      const u64 offset = address - reinterpret_cast<std::uintptr_t>(moved->was);
      PERDURA_ASSIGN(const u64 place, place_now(*moved, offset, {}));
      const bool is_object = offset == 0 && root.fingerprint != 0;
      roots_.push_back({root.name, moved->now + place,
                        is_object ? moved->type->conversion->root_fingerprint : root.fingerprint});
    } else if (const Conversion* const container = container_at(root); container != nullptr) {
      roots_.push_back({root.name, static_cast<std::byte*>(const_cast<void*>(root.object)),
                        container->root_fingerprint});
    }
  }
  return {};
}

// Of a root that is a container whose elements were others, its conversion.
const Conversion* Migration::container_at(const Roots::Root& root) const {
  if (root.fingerprint == 0 || containers_.empty()) return nullptr;
  const std::deque<Layout>& layouts = heap_.types().layouts();
  const Result<Block> block = heap_.blocks().find_allocated(root.object);
  if (!block || block->tag() / 2 == 0 || block->tag() / 2 > layouts.size()) return nullptr;
  const auto found = std::ranges::find_if(containers_, [&](const Conversion& container) {
    return layouts[block->tag() / 2 - 1].name == container.now->name &&
           root.fingerprint != container.root_fingerprint;
  });
  return found != containers_.end() ? &*found : nullptr;
}

Status Migration::set_roots() {
  for (const Root& root : roots_)
    PERDURA_TRY(heap_.roots().set(mutator_, root.name, root.object, root.fingerprint));
  return {};
}

void Migration::mend_words() noexcept {
  for (const Word& word : words_) {
    detail::report(mutator_, word.place, sizeof *word.place);
    *word.place = word.value;
  }
}

}  // namespace perdura::heap
