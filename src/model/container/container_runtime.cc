#include "model/container/container_runtime.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/mutant.hpp"
#include "base/process.hpp"
#include "heap/container_types.hpp"
#include "model/container/homecoming.hpp"
#include "track/kinds.hpp"

namespace perdura::detail {
namespace {

using format::ContainerModule;
using format::ContainerShadow;
using format::ContainerState;
using format::ContainerSymbol;
using format::kContainerRoot;
using track::InOperation;

/// The containers of the process. One discovers at a time.
struct OpenContainers {
  std::mutex discovery;
  std::vector<ContainerRuntime*> containers;  ///< under `discovery`
};
OpenContainers& open_containers() {
  static constinit PerProcess<OpenContainers> containers;
  return containers.get();
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
  const track::Kind* const tracker = track::find_kind(options.tracking);
  if (tracker != nullptr && tracker->is_reported)
    return Failure{Code::kInvalidArgument,
                   "a container finds changes by page; reported stores are for stores"};
  if (options.on_damage != OnDamage::kEnd)
    return Failure{Code::kInvalidArgument,
                   "a container cannot go on beside damage (OnDamage::kThrow): it would give back "
                   "what it does not reach any more because a pointer reads as zero"};
  PERDURA_TRY(VolatileHeap::instance().usable());
  OpenContainers& all = open_containers();
  std::unique_ptr<ContainerRuntime> container(new ContainerRuntime);
  InternalOptions inner = internal;
  inner.guest = container.get();
  Homecoming home;
  inner.restore = [&home](Runtime& runtime, Mutator& mutator) {
    return home.restore(runtime, mutator);
  };
  inner.moved = [&home] { home.finish(); };
  PERDURA_ASSIGN(container->runtime_, Runtime::open(uri, options, inner));
  container->statistics_.restored_pointers = home.restored();
  container->statistics_.nulled_pointers = home.nulled();
  container->nulled_ = home.take_list();
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
  const auto gone = volatile_.take(region.base(), region.limit());
}

Status ContainerRuntime::close() {
  PERDURA_TRY(require_outside_operation("close"));
  return runtime_->close();
}

void ContainerRuntime::enter() {
  // Both first: without memory for the second the thread would stay in the first.
  Mutator& outer = volatile_.mutators().this_thread();
  Mutator& inner = runtime_->mutators().this_thread();
  detail::enter(outer);
  detail::enter(inner);
}

void ContainerRuntime::leave() noexcept {
  detail::leave(runtime_->mutators().this_thread());
  detail::leave(volatile_.mutators().this_thread());
}

Status ContainerRuntime::require_outside_operation(const char* call) {
  PERDURA_TRY(runtime_->usable());
  if (!volatile_.mutators().in_operation() && !in_operation()) return {};
  return Failure{Code::kMisuse, std::string(call) +
                                    " inside an operation of the same thread would wait for it for "
                                    "ever; end the operation first"};
}

Status ContainerRuntime::create_state() {
  heap::Heap& heap = runtime_->heap();
  Mutator& mutator = runtime_->mutators().this_thread();
  const InOperation operation(mutator);
  PERDURA_ASSIGN(void* root, heap.roots().get(kContainerRoot, 0));
  if (root == nullptr) {
    PERDURA_ASSIGN(root, heap.allocate_typed(mutator, TypeRecord<ContainerState>::value, 1));
    PERDURA_TRY(heap.roots().set(mutator, kContainerRoot, root, 0));
  }
  auto* const state = static_cast<ContainerState*>(root);
  if (state->version != format::kContainerVersion) state->version = format::kContainerVersion;
  const u64 limit = runtime_->region().limit();
  PERDURA_ASSIGN(track::DirtyMap changed, track::DirtyMap::create(limit));
  PERDURA_ASSIGN(track::DirtyMap revisit, track::DirtyMap::create(limit));
  PERDURA_ASSIGN(track::DirtyMap outside, track::DirtyMap::create(limit));
  pages_.emplace(Pages{std::move(changed), std::move(revisit), std::move(outside)});
  state_ = state;
  return {};
}

// Threads that make it at once make one. Inside operations: whoever has the lock waits for nobody.
Result<void*> ContainerRuntime::root(const perdura_type& type) {
  const InOperation outer(volatile_.mutators().this_thread());
  Mutator& mutator = runtime_->mutators().this_thread();
  const InOperation operation(mutator);
  const std::lock_guard lock(root_mutex_);
  heap::Heap& heap = runtime_->heap();
  if (existing_root() == nullptr) {
    PERDURA_ASSIGN(void* const made, heap.allocate_typed(mutator, type, 1));
    state_->root = made;
    return made;
  }
  PERDURA_TRY(heap.types().expect(type));
  PERDURA_ASSIGN(const std::string name, heap.type_name(state_->root));
  if (name == type.name) return state_->root;
  return Failure{Code::kTypeMismatch, "the root of '" + runtime_->name() + "' is of type '" + name +
                                          "', not '" + type.name + "'"};
}

// A program may destroy its root, as any object.
void* ContainerRuntime::existing_root() const {
  const region::Region& region = runtime_->region();
  const bool is_there = is_own(state_->root) &&
                        runtime_->heap().blocks().allocated_at(region.offset_of(state_->root)) != 0;
  return is_there ? state_->root : nullptr;
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
  if (!warning.empty())
    runtime_->events().tell(EventKind::kShared, Code::kOk, warning, Events::Line::kAlways);
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
  modules_.begin(*state_, {runtime_->heap(), *mutator_});
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
  PERDURA_TRY(modules_.put());
  return mark_pages();
}

// Other containers may lead to what has moved as well, from what changed in them. What moved stays
// known until all of them were looked at.
void ContainerRuntime::fix_references(heap::Closure& closure) {
  closure.fix_rest();
  // An excluded word does not move what it leads to, but another word may.
  if (!pages_->revisit.empty() && !is_mutant("container_excluded_stays"))
    closure.fix(runtime_->heap(), pages_->revisit);
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
  volatile_.give(volatile_.take(from, bytes), to, bytes);
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
  bool in_module = false;
  if (noted_)
    noted_ = guarded([&]() -> Status {
      in_module = modules_.note(*word);
      return {};
    });
  if (in_module) return {true, false, *word};
  if (!maybe) ++foreign_pointers_;
  return {!maybe, false, unfollowed};
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
    if (!warning_.empty()) warning_ += "; ";
    warning_ += "the container '" + runtime_->name() + "' leads to " + std::to_string(objects) +
                (objects == 1 ? " object of '" : " objects of '") + name +
                "'; its versions hold copies of them";
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

Status ContainerRuntime::mark_pages() {
  u64 end = 0;
  pages_->outside.for_each_page([&](u64 page, u64) { end = page + 1; });
  if (end > state_->marked_words * 64) {
    const u64 words = std::bit_ceil((end + 63) / 64);
    heap::Heap& heap = runtime_->heap();
    PERDURA_ASSIGN(void* const made, heap.allocate_typed(*mutator_, heap::kContainerMarks, words));
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

// --- statistics ----------------------------------------------------------------------------------

ContainerStatistics ContainerRuntime::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace perdura::detail
