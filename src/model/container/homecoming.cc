#include "model/container/homecoming.hpp"

#include <set>

#include "base/mutant.hpp"
#include "heap/typed_words.hpp"

namespace perdura::detail {

using format::ContainerModule;

std::string hex(u64 value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%lx", value);
  return text;
}

/// Where what the words led to is in this process.
class Homecoming::Places {
 public:
  explicit Places(const heap::ContainerView& view) : view_(view), shadows_(view) {
    modules_.refresh();
    for (u32 i = 0; i < view.state().module_count; ++i) {
      const ContainerModule& module = view.modules()[i];
      now_.push_back(
          modules_.find_build(module.build_id, module.build_id_bytes, view.file_of(module)));
    }
  }

  const heap::ContainerView& view() const { return view_; }
  const ShadowsBefore& shadows() const { return shadows_; }

  /// The module that a word led to.
  std::optional<u32> module_of(u64 value) const {
    for (u32 i = 0; i < view_.state().module_count; ++i)
      if (value - view_.modules()[i].begin < view_.modules()[i].bytes) return i;
    return std::nullopt;
  }

  Result<u64> resolve(u64 value, u32 number) const {
    const ContainerModule& module = view_.modules()[number];
    const u64 offset = value - module.begin;
    if (now_[number] != nullptr) return now_[number]->begin + offset;
    const std::string file = view_.file_of(module);
    const Module* const other = modules_.find_file(file);
    const auto missing = [&](const std::string& what) {
      return Failure{Code::kNotFound,
                     "a pointer leads to " + what + " in '" +
                         std::string(heap::name_of_file(file)) + "' of another build, and " +
                         (other == nullptr ? "no module of that name is loaded; load it first"
                                           : "the one that is loaded has no such symbol; "
                                             "export it, or link with -rdynamic")};
    };
    for (u32 i = 0; i < view_.state().symbol_count; ++i) {
      const format::ContainerSymbol& symbol = view_.symbols()[i];
      if (symbol.module != number || offset - symbol.offset >= symbol.bytes) continue;
      const std::string name = view_.name_of(symbol);
      const auto address = other != nullptr ? other->address_of(name) : std::optional<u64>{};
      if (!address) return missing("'" + name + "'");
      return *address + (offset - symbol.offset);
    }
    return missing("offset " + hex(offset));
  }

  // Nothing leads to those that are not there any more. Of two records of one module, as when it
  // was loaded a second time at another place, the first one says it all.
  void update_records() const {
    std::set<u64> begins;
    for (u32 i = 0; i < view_.state().module_count; ++i) {
      ContainerModule& module = view_.modules()[i];
      if (module.bytes == 0) continue;
      const u64 begin = now_[i] != nullptr ? now_[i]->begin : 0;
      if (module.begin != begin) module.begin = begin;
      if (begin == 0 || !begins.insert(begin).second) module.bytes = 0;
    }
  }

 private:
  const heap::ContainerView& view_;
  const ShadowsBefore shadows_;
  Modules modules_;
  std::vector<const Module*> now_;
};

Status Homecoming::restore(Runtime& runtime, Mutator& mutator) {
  heap::Heap& heap = runtime.heap();
  PERDURA_TRY(heap.load_typed());
  if (!is_mutant("container_other_layout")) PERDURA_TRY(heap.types().expect_known());
  region::Region& region = runtime.region();
  PERDURA_ASSIGN(const auto view, heap::ContainerView::find(heap, region));
  if (!view) {
    if (heap.roots().all().empty()) return {};  // its first point was cut short
    return Failure{Code::kMisuse, "'" + runtime.name() +
                                      "' is a store, not a container; open it with Store::open"};
  }
  const Places places(*view);
  PERDURA_ASSIGN(track::DirtyMap pages, track::DirtyMap::create(region.limit()));
  view->for_each_marked([&](u64 page) { pages.add(page * kLinesPerPage, kLinesPerPage); });
  Status status;
  heap::TypedWords(heap).for_each_in(pages, [&](u64* word, bool maybe) {
    if (*word == 0 || !status) return;
    status = guarded([&] { return bring_home(places, word, maybe, region.offset_of(word)); });
  });
  if (!status) return status;
  places.update_records();
  return places.shadows().end(heap, mutator);
}

// As pointers in the region hold before they are moved.
Status Homecoming::bring_home(const Places& places, u64* word, bool maybe, u64 offset) {
  const u64 value = *word;
  if (places.view().is_inside(value)) return {};
  if (const auto place = places.shadows().place_of(value)) {
    *word = *place;
  } else if (const auto module = places.module_of(value)) {
    PERDURA_ASSIGN(const u64 now, places.resolve(value, *module));
    ++restored_;
    const bool is_late = places.view().is_inside(now) && !is_mutant("container_late_word");
    if (is_late) late_.emplace_back(word, now);
    if (now != value) *word = is_late ? 0 : now;
  } else if (!maybe) {
    make_null(word, offset);
  }
  return {};
}

void Homecoming::make_null(u64* word, u64 offset) {
  ++nulled_;
  if (list_.size() < kListedMax)
    list_.push_back("the pointer at region offset " + hex(offset) + " led to " + hex(*word));
  *word = 0;
}

void Homecoming::finish() noexcept {
  for (const auto& [word, home] : late_) *word = home;
}

}  // namespace perdura::detail
