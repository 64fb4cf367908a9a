#include "model/container/container_runtime.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "heap/container_view.hpp"
#include "model/container/state_array.hpp"

PERDURA_TYPE(perdura::format::ContainerModule, name)
PERDURA_TYPE(perdura::format::ContainerSymbol, name)
PERDURA_TYPE(perdura::format::ContainerState, root, modules, symbols, marked, shadows)

namespace perdura::detail {
namespace {

using format::ContainerModule;
using format::ContainerShadow;
using format::ContainerState;
using format::ContainerSymbol;
using format::kContainerRoot;
using track::InOperation;

constexpr perdura_type kText{"perdura::format::ContainerText", 1, 1, 0, nullptr};
constexpr perdura_type kMarks{"perdura::format::ContainerMarks", 8, 8, 0, nullptr};
constexpr size_t kListedMax = 1000;

/// The containers of the process. One discovers at a time.
struct OpenContainers {
  std::mutex discovery;
  std::vector<ContainerRuntime*> containers;  ///< under `discovery`
};
OpenContainers& open_containers() {
  static auto* const containers = new OpenContainers;
  return *containers;
}

std::string hex(u64 value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%lx", value);
  return text;
}

}  // namespace

// --- opening and closing -------------------------------------------------------------------------

std::unique_ptr<ContainerRuntime> ContainerRuntime::open(std::string_view uri,
                                                         const Options& options,
                                                         const InternalOptions& internal) {
  return value_or_throw(guarded([&] { return try_open(uri, options, internal); }));
}

Result<std::unique_ptr<ContainerRuntime>> ContainerRuntime::try_open(
    std::string_view uri, const Options& options, const InternalOptions& internal) {
  if (options.aliases != 0)
    return Failure{Code::kInvalidArgument,
                   "a container cannot have aliases: objects that move need one address"};
  if (options.tracking == Tracking::kReported || options.tracking == Tracking::kBitmap)
    return Failure{Code::kInvalidArgument,
                   "a container finds changes by page; reported stores are for stores"};
  OpenContainers& all = open_containers();
  std::unique_ptr<ContainerRuntime> container(new ContainerRuntime);
  InternalOptions inner = internal;
  inner.guest = container.get();
  inner.restore = [&container](Runtime& runtime, Mutator& mutator) {
    return container->restore(runtime, mutator);
  };
  PERDURA_ASSIGN(container->runtime_, Runtime::open(uri, options, inner));
  PERDURA_TRY(container->create_state());
  std::lock_guard lock(all.discovery);
  all.containers.push_back(container.get());
  return container;
}

// A timed point may be under way until the background work has ended. What was said of words in it
// is not said of those that are at these addresses next.
ContainerRuntime::~ContainerRuntime() {
  if (!runtime_) return;
  const Status ended = runtime_->checkpointer().finish(false);
  (void)ended;  // nothing was asked to be brought home
  const region::Region& region = runtime_->region();
  std::lock_guard lock(open_containers().discovery);
  std::erase(open_containers().containers, this);
  volatile_.object_moved(region.base(), nullptr, region.limit());
}

Status ContainerRuntime::close() {
  PERDURA_TRY(require_outside_operation("close"));
  return runtime_->close();
}

void ContainerRuntime::enter() {
  detail::enter(volatile_.mutators().this_thread());
  detail::enter(runtime_->mutators().this_thread());
}

void ContainerRuntime::leave() noexcept {
  detail::leave(runtime_->mutators().this_thread());
  detail::leave(volatile_.mutators().this_thread());
}

Status ContainerRuntime::require_outside_operation(const char* call) {
  PERDURA_TRY(runtime_->usable());
  if (!volatile_.mutators().in_operation() && !runtime_->mutators().in_operation()) return {};
  return Failure{Code::kMisuse, std::string(call) +
                                    " inside an operation of the same thread would wait for it for "
                                    "ever; end the operation first"};
}

Status ContainerRuntime::create_state() {
  heap::Heap& heap = runtime_->heap();
  Mutator& mutator = runtime_->mutators().this_thread();
  const InOperation operation(mutator);
  PERDURA_ASSIGN(void* root, heap.get_root(kContainerRoot, 0));
  if (root == nullptr) {
    PERDURA_ASSIGN(root, heap.allocate_typed(mutator, TypeRecord<ContainerState>::value, 1));
    PERDURA_TRY(heap.set_root(mutator, kContainerRoot, root, 0));
  }
  auto* const state = static_cast<ContainerState*>(root);
  if (state->version != format::kContainerVersion) state->version = format::kContainerVersion;
  for (u32 i = 0; i < state->module_count; ++i)
    if (state->modules[i].bytes != 0) module_numbers_.emplace(state->modules[i].begin, i);
  for (u32 i = 0; i < state->symbol_count; ++i) {
    const ContainerSymbol& symbol = state->symbols[i];
    const ContainerModule& module = state->modules[symbol.module];
    if (module.bytes == 0) continue;
    const u64 begin = module.begin + symbol.offset;
    known_symbols_.emplace(begin, begin + symbol.bytes);
  }
  const u64 limit = runtime_->region().limit();
  PERDURA_ASSIGN(track::DirtyMap changed, track::DirtyMap::create(limit));
  PERDURA_ASSIGN(track::DirtyMap revisit, track::DirtyMap::create(limit));
  PERDURA_ASSIGN(track::DirtyMap outside, track::DirtyMap::create(limit));
  pages_.emplace(Pages{std::move(changed), std::move(revisit), std::move(outside)});
  state_ = state;
  return {};
}

Result<void*> ContainerRuntime::root(const perdura_type& type) {
  const InOperation outer(volatile_.mutators().this_thread());
  Mutator& mutator = runtime_->mutators().this_thread();
  const InOperation operation(mutator);
  heap::Heap& heap = runtime_->heap();
  if (state_->root == nullptr) {
    PERDURA_ASSIGN(state_->root, heap.allocate_typed(mutator, type, 1));
    return state_->root;
  }
  PERDURA_TRY(heap.expect_type(type));
  PERDURA_ASSIGN(const std::string name, heap.type_name(state_->root));
  if (name == type.name) return state_->root;
  return Failure{Code::kTypeMismatch, "the root of '" + runtime_->name() + "' is of type '" + name +
                                          "', not '" + type.name + "'"};
}

// --- persistence points --------------------------------------------------------------------------

Result<u64> ContainerRuntime::point() {
  PERDURA_TRY(require_outside_operation("a persistence point"));
  return runtime_->checkpoint();
}

// A failure of the one before is kept for sync().
Result<u64> ContainerRuntime::point_async() {
  PERDURA_TRY(require_outside_operation("a persistence point"));
  std::lock_guard lock(points_mutex_);
  if (pending_ != 0) {
    if (Status before = runtime_->wait(pending_); !before && !failed_) failed_ = before.failure();
    pending_ = 0;
  }
  PERDURA_ASSIGN(pending_, runtime_->checkpoint_async());
  return pending_;
}

void ContainerRuntime::start_point() {
  const Result<u64> begun = guarded([this] { return point_async(); });
  if (begun) return;
  std::lock_guard lock(points_mutex_);
  if (!failed_) failed_ = begun.failure();
}

Status ContainerRuntime::sync() {
  std::lock_guard lock(points_mutex_);
  Status status;
  if (pending_ != 0) status = runtime_->wait(pending_);
  pending_ = 0;
  if (failed_) status = *std::exchange(failed_, std::nullopt);
  return status;
}

// A thread cannot become a mutator while they stand still.
Status ContainerRuntime::before_cut() {
  if (state_ == nullptr) return {};
  Mutator& mutator = runtime_->mutators().this_thread();
  Mutator& volatile_mutator = volatile_.mutators().this_thread();
  open_containers().discovery.lock();
  discovering_ = true;
  mutator_ = &mutator;
  volatile_mutator_ = &volatile_mutator;
  volatile_.mutators().stop();
  return {};
}

Status ContainerRuntime::at_cut() {
  if (state_ == nullptr) return {};
  const u64 begin = now_ns();
  const Status status = guarded([this] { return discover(); });
  if (!status) pages_->revisit.merge(pages_->changed);
  std::lock_guard lock(mutex_);
  statistics_.foreign_pointers = foreign_pointers_;
  statistics_.staying_pointers = staying_pointers_;
  statistics_.last_discovery_ns = now_ns() - begin;
  statistics_.discovery_ns += statistics_.last_discovery_ns;
  return status;
}

void ContainerRuntime::after_cut() noexcept {
  if (!discovering_) return;
  discovering_ = false;
  shadows_.end();
  const std::string warning = std::move(warning_);
  warning_.clear();
  volatile_.mutators().resume();
  open_containers().discovery.unlock();
  std::fputs(warning.c_str(), stderr);
}

// --- discovery -----------------------------------------------------------------------------------

Status ContainerRuntime::discover() {
  foreign_pointers_ = staying_pointers_ = 0;
  noted_ = {};
  pages_->changed.clear();
  pages_->changed.merge(pages_->revisit);
  PERDURA_TRY(runtime_->tracker().add_changes(pages_->changed));
  pages_->revisit.clear();
  pages_->outside.clear();
  new_modules_.clear();
  modules_.refresh();
  begin_shadows();
  heap::Closure closure({runtime_->heap(), *mutator_}, {volatile_.heap(), *volatile_mutator_},
                        *this);
  closure.visit(pages_->changed);
  refresh_shadows(closure);
  if (closure.any_moved()) fix_references(closure);
  {
    std::lock_guard lock(mutex_);
    if (!pages_->changed.empty()) ++statistics_.points;
    statistics_.moved_objects += closure.moved_objects();
    statistics_.moved_bytes += closure.moved_bytes();
    statistics_.visited_pointers += closure.visited_words();
  }
  if (!closure.status()) return copy_of(closure.status().failure());
  if (!noted_) return copy_of(noted_.failure());
  PERDURA_TRY(end_shadows());
  PERDURA_TRY(note_modules());
  PERDURA_TRY(note_symbols());
  return mark_pages();
}

// Other containers may lead to what has moved as well, from what changed in them. What moved stays
// known until all of them were looked at.
void ContainerRuntime::fix_references(heap::Closure& closure) {
  closure.fix_rest();
  for (void** reference : volatile_.references()) closure.fix(reinterpret_cast<u64*>(reference));
  bool all_fixed = true;
  for (ContainerRuntime* other : open_containers().containers) {
    if (other == this) continue;
    const Status fixed = guarded([&] { return other->fix_own(closure); });
    all_fixed = all_fixed && fixed;
  }
  if (all_fixed) closure.release();
}

// Whoever works on its objects has entered an operation on volatile ones first, and stands still.
Status ContainerRuntime::fix_own(heap::Closure& closure) {
  pages_->changed.clear();
  pages_->changed.merge(pages_->revisit);
  PERDURA_TRY(runtime_->tracker().add_changes(pages_->changed));
  closure.fix(runtime_->heap(), pages_->changed);
  return {};
}

bool ContainerRuntime::follows(const u64* word, const void* object) {
  return !volatile_.is_excluded(word) && !volatile_.is_pinned(object);
}

void ContainerRuntime::moved(const void* from, void* to, u64 bytes) {
  volatile_.move_words(from, to, bytes);
}

// Null when it is restored, as what leads elsewhere.
void ContainerRuntime::stays(const u64* word) {
  ++staying_pointers_;
  if (!is_own(word)) return;
  pages_->revisit.add(line_of(word), 1);
  pages_->outside.add(line_of(word), 1);
}

void ContainerRuntime::elsewhere(const u64* word, bool maybe) {
  const Lead lead = lead_of(word, maybe);
  if (!is_own(word)) return;
  if (lead.is_pointer) pages_->outside.add(line_of(word), 1);
  if (lead.to_container) pages_->revisit.add(line_of(word), 1);
}

ContainerRuntime::Lead ContainerRuntime::lead_of(const u64* word, bool maybe) {
  const u64 unfollowed = maybe ? *word : 0;
  if (shadows_.concern(*word)) {
    if (volatile_.is_excluded(word)) {
      ++staying_pointers_;
      return {true, true, unfollowed};
    }
    u64 place = 0;
    if (noted_)
      noted_ = guarded([&]() -> Status {
        PERDURA_ASSIGN(place, shadows_.follow(*word));
        return {};
      });
    if (place != 0) return {true, true, place};
    if (!maybe) ++foreign_pointers_;
    return {!maybe, true, unfollowed};
  }
  const Module* const module = modules_.find(*word);
  if (module != nullptr) {
    if (noted_) noted_ = guarded([&] { return note(*module, *word); });
    return {true, false, *word};
  }
  if (!maybe) ++foreign_pointers_;
  return {!maybe, false, unfollowed};
}

// That a word leads into a module, and to which symbol.
Status ContainerRuntime::note(const Module& module, u64 address) {
  if (!module_numbers_.contains(module.begin) &&
      std::find(new_modules_.begin(), new_modules_.end(), &module) == new_modules_.end())
    new_modules_.push_back(&module);
  const auto after = known_symbols_.upper_bound(address);
  if (after != known_symbols_.begin() && address < std::prev(after)->second) return {};
  Symbol symbol = symbol_at(address);
  const auto known = known_symbols_.emplace(symbol.begin, symbol.begin + symbol.bytes);
  if (symbol.name.empty()) return {};
  try {
    new_symbols_.push_back(std::move(symbol));
  } catch (...) {
    known_symbols_.erase(known.first);
    throw;
  }
  return {};
}

// --- objects of other containers -----------------------------------------------------------------

void ContainerRuntime::begin_shadows() {
  std::vector<Shadows::Other> others;
  for (ContainerRuntime* other : open_containers().containers) {
    if (other == this) continue;
    region::Region& region = other->runtime_->region();
    others.push_back({&other->runtime_->name(), &other->runtime_->heap(),
                      reinterpret_cast<std::uintptr_t>(region.base()), region.limit()});
  }
  shadows_.begin(*state_, {runtime_->heap(), *mutator_}, std::move(others));
}

// What an object of another container leads to is reachable from this one, and moves here if it is
// volatile. Whoever works on that object stands still.
void ContainerRuntime::refresh_shadows(heap::Closure& closure) {
  const auto translate = [&](u64* word, bool maybe, const u64* shadow_word) {
    return in_shadow(closure, word, maybe, shadow_word);
  };
  bool more = true;
  while (more && noted_ && closure.status()) {
    const Status status = guarded([&]() -> Status {
      PERDURA_ASSIGN(more, shadows_.refresh_next(translate));
      return {};
    });
    if (!status && noted_) noted_ = status;
  }
}

// Null where it leads to nothing that the version holds. What leads into a module is for opening.
u64 ContainerRuntime::in_shadow(heap::Closure& closure, u64* word, bool maybe,
                                const u64* shadow_word) {
  if (*word == 0 || is_own(*word)) return *word;
  if (closure.is_volatile(*word)) {
    closure.visit(word, maybe);
    return is_own(*word) || maybe ? *word : 0;
  }
  const Lead lead = lead_of(word, maybe);
  if (lead.is_pointer && lead.in_shadow != 0 && !is_own(lead.in_shadow))
    pages_->outside.add(line_of(shadow_word), 1);
  return lead.in_shadow;
}

Status ContainerRuntime::end_shadows() {
  PERDURA_TRY(shadows_.sweep());
  u64 bytes = 0;
  for (u32 i = 0; i < state_->shadow_count; ++i) bytes += state_->shadows[i].bytes;
  {
    std::lock_guard lock(mutex_);
    statistics_.shared_objects = state_->shadow_count;
    statistics_.shared_bytes = bytes;
  }
  if (!warns_) return {};
  shadows_.for_each_other([this](const std::string& name, u64 objects) {
    if (!warned_.insert(name).second) return;
    warning_ += "perdura: the container '" + runtime_->name() + "' leads to " +
                std::to_string(objects) + (objects == 1 ? " object of '" : " objects of '") + name +
                "'; its versions hold copies of them\n";
  });
  return {};
}

Result<std::vector<std::string>> ContainerRuntime::shared_objects() {
  PERDURA_TRY(require_outside_operation("shared_objects"));
  OpenContainers& all = open_containers();
  std::lock_guard lock(all.discovery);
  std::vector<std::string> list;
  for (u32 i = 0; i < state_->shadow_count && list.size() < kListedMax; ++i) {
    const ContainerShadow& shadow = state_->shadows[i];
    PERDURA_ASSIGN(const std::string type, runtime_->heap().type_name(shadow.copy));
    const auto owner =
        std::find_if(all.containers.begin(), all.containers.end(),
                     [&](const ContainerRuntime* other) { return other->is_own(shadow.original); });
    list.push_back("a '" + type + "' in " + std::to_string(shadow.bytes) + " bytes at " +
                   hex(shadow.original) + " in " +
                   (owner != all.containers.end() ? "'" + (*owner)->runtime_->name() + "'"
                                                  : "a container that is closed"));
  }
  return list;
}

u64 ContainerRuntime::line_of(const void* address) const {
  return runtime_->region().offset_of(address) / kLineBytes;
}

// --- what a container keeps beside the objects ---------------------------------------------------

template <class T>
Status ContainerRuntime::append_named(T*& all, u32& count, T one, const std::string& name) {
  heap::Heap& heap = runtime_->heap();
  PERDURA_ASSIGN(void* const text, heap.allocate_typed(*mutator_, kText, name.size() + 1));
  std::memcpy(text, name.c_str(), name.size() + 1);
  one.name = static_cast<char*>(text);
  Status appended = append(heap, *mutator_, all, count, one);
  if (!appended) PERDURA_TRY(heap.deallocate(*mutator_, text));
  return appended;
}

// One that was loaded again, elsewhere, is the same.
Status ContainerRuntime::note_modules() {
  for (const Module* module : new_modules_) {
    const auto begin = state_->modules;
    const auto end = begin + state_->module_count;
    const auto known = std::find_if(begin, end, [&](const ContainerModule& each) {
      return module->is_build(each.build_id, each.build_id_bytes);
    });
    if (known != end) {
      known->begin = module->begin;
      known->bytes = module->end - module->begin;
      module_numbers_[module->begin] = static_cast<u32>(known - begin);
      continue;
    }
    ContainerModule one{};
    one.begin = module->begin;
    one.bytes = module->end - module->begin;
    one.build_id_bytes = module->build_id_bytes;
    std::copy(module->build_id.begin(), module->build_id.end(), one.build_id);
    PERDURA_TRY(append_named(state_->modules, state_->module_count, one, module->name));
    module_numbers_[module->begin] = state_->module_count - 1;
  }
  return {};
}

// What fails is tried again by the next point.
Status ContainerRuntime::note_symbols() {
  for (; !new_symbols_.empty(); new_symbols_.pop_back()) {
    const Symbol& symbol = new_symbols_.back();
    const Module* const module = modules_.find(symbol.begin);
    if (module == nullptr) continue;
    ContainerSymbol one{};
    one.module = module_numbers_.at(module->begin);
    one.bytes = static_cast<u32>(symbol.bytes);
    one.offset = symbol.begin - module->begin;
    PERDURA_TRY(append_named(state_->symbols, state_->symbol_count, one, symbol.name));
  }
  return {};
}

Status ContainerRuntime::mark_pages() {
  u64 end = 0;
  pages_->outside.for_each_page([&](u64 page, u64) { end = page + 1; });
  if (end > state_->marked_words * 64) {
    const u64 words = std::bit_ceil((end + 63) / 64);
    heap::Heap& heap = runtime_->heap();
    PERDURA_ASSIGN(void* const made, heap.allocate_typed(*mutator_, kMarks, words));
    u64* const old = state_->marked;
    if (old != nullptr) std::memcpy(made, old, state_->marked_words * sizeof(u64));
    state_->marked = static_cast<u64*>(made);
    state_->marked_words = words;
    if (old != nullptr) PERDURA_TRY(heap.deallocate(*mutator_, old));
  }
  const auto mark = [&](u64 page, bool on) {
    if (page / 64 >= state_->marked_words) return;
    u64& word = state_->marked[page / 64];
    const u64 bit = u64{1} << page % 64;
    if (((word & bit) != 0) == on) return;
    word ^= bit;
  };
  pages_->changed.for_each_page([&](u64 page, u64) { mark(page, pages_->outside.has_page(page)); });
  pages_->outside.for_each_page([&](u64 page, u64) { mark(page, true); });
  return {};
}

// --- restoring -----------------------------------------------------------------------------------

namespace {

/// Where the modules of a container are in this process.
class Homecoming {
 public:
  explicit Homecoming(const heap::ContainerView& view) : view_(view) {
    modules_.refresh();
    for (u32 i = 0; i < view.state().module_count; ++i)
      now_.push_back(
          modules_.find_build(view.modules()[i].build_id, view.modules()[i].build_id_bytes));
  }

  const Module* now(u32 module) const { return now_[module]; }

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
    const std::string name = view_.name_of(module);
    const Module* const other = modules_.find_name(name);
    const auto missing = [&](const std::string& what) {
      return Failure{Code::kNotFound,
                     "a pointer leads to " + what + " in '" + name + "' of another build, and " +
                         (other == nullptr ? "no module of that name is loaded; load it first"
                                           : "the one that is loaded has no such symbol; "
                                             "export it, or link with -rdynamic")};
    };
    for (u32 i = 0; i < view_.state().symbol_count; ++i) {
      const ContainerSymbol& symbol = view_.symbols()[i];
      if (symbol.module != number || offset - symbol.offset >= symbol.bytes) continue;
      const std::string symbol_name = view_.name_of(symbol);
      const auto address = other != nullptr ? other->address_of(symbol_name) : std::optional<u64>{};
      if (!address) return missing("'" + symbol_name + "'");
      return *address + (offset - symbol.offset);
    }
    return missing("offset " + hex(offset));
  }

 private:
  const heap::ContainerView& view_;
  Modules modules_;
  std::vector<const Module*> now_;
};

}  // namespace

// Before pointers into the region are moved: they still tell what led out of it.
Status ContainerRuntime::restore(Runtime& runtime, Mutator& mutator) {
  heap::Heap& heap = runtime.heap();
  PERDURA_TRY(heap.load_typed());
  region::Region& region = runtime.region();
  PERDURA_ASSIGN(const auto view, heap::ContainerView::find(heap, region));
  if (!view) {
    if (heap.roots().empty()) return {};  // its first point was cut short
    return Failure{Code::kMisuse, "'" + runtime.name() +
                                      "' is a store, not a container; open it with Store::open"};
  }
  const Homecoming home(*view);
  const ShadowsBefore shadows(*view);
  PERDURA_ASSIGN(track::DirtyMap pages, track::DirtyMap::create(region.limit()));
  view->for_each_marked([&](u64 page) { pages.add(page * kLinesPerPage, kLinesPerPage); });
  Status status;
  heap::TypedWords(heap).for_each_in(pages, [&](u64* word, bool maybe) {
    if (*word == 0 || view->is_inside(*word) || !status) return;
    if (const auto place = shadows.place_of(*word)) {
      *word = *place;
      return;
    }
    const auto module = home.module_of(*word);
    u64 now = 0;
    if (module) {
      Result<u64> resolved = guarded([&] { return home.resolve(*word, *module); });
      if (!resolved) {
        status = resolved.failure();
        return;
      }
      now = *resolved;
      ++statistics_.restored_pointers;
    } else if (maybe) {
      return;
    } else {
      ++statistics_.nulled_pointers;
      if (nulled_.size() < kListedMax)
        nulled_.push_back("the pointer at region offset " + hex(region.offset_of(word)) +
                          " led to " + hex(*word));
    }
    *word = now;
  });
  if (!status) return status;
  // Nothing leads to those that are not there any more.
  for (u32 i = 0; i < view->state().module_count; ++i) {
    ContainerModule& module = view->modules()[i];
    const u64 begin = home.now(i) != nullptr ? home.now(i)->begin : 0;
    if (module.begin == begin) continue;
    module.begin = begin;
    if (begin == 0) module.bytes = 0;
  }
  return shadows.end(heap, mutator);
}

// --- statistics ----------------------------------------------------------------------------------

ContainerStatistics ContainerRuntime::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace perdura::detail
