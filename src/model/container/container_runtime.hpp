// A container: a store, and the discovery that moves what is reachable into it at each cut.
//
//   before the cut   volatile objects stand still, and so does any other container's discovery
//   at the cut       changed pages are walked, objects move, pointers out of it are noted
//   opening          pointers into modules lead to where these are now, those to objects of other
//                    containers to their shadows, others become null
//
// Lock order: the discovery mutex, volatile mutators, the container's mutators. Each operation on a
// container is inside one on volatile objects: so those of other containers stand still as well.
#pragma once

#include <set>

#include <perdura/container.hpp>

#include "heap/closure.hpp"
#include "model/container/module_records.hpp"
#include "model/container/shadows.hpp"
#include "model/container/volatile_heap.hpp"
#include "store/runtime.hpp"

namespace perdura::detail {

class ContainerRuntime final : public commit::CutGuest, private heap::Closure::Observer {
 public:
  /// Throws.
  static std::unique_ptr<ContainerRuntime> open(std::string_view uri, const Options& options,
                                                const InternalOptions& internal = {});
  ~ContainerRuntime() override;
  ContainerRuntime(const ContainerRuntime&) = delete;

  Runtime& runtime() { return *runtime_; }
  /// Volatile objects before those of the container, as a cut stops them.
  void enter();
  void leave() noexcept;
  bool in_operation() { return runtime_->mutators().in_operation(); }

  Result<void*> root(const perdura_type& type);
  /// nullptr: there is none yet.
  void* existing_root() const;
  Result<u64> point();
  Result<u64> point_async();
  /// The same for callers that learn of failures by sync() alone.
  void start_point();
  Status sync();
  /// kMisuse inside one of this thread, on it or on volatile objects, which `call` would wait for.
  Status require_outside_operation(const char* call);
  Status close();

  ContainerStatistics statistics() const;
  std::vector<std::string> nulled() const { return nulled_; }
  Result<std::vector<std::string>> shared_objects();
  /// Tell, once of each, which other containers points find objects in (EventKind::kShared).
  void warn_of_sharing(bool warn) { warns_ = warn; }

  Status before_cut() override;
  Status at_cut() override;
  void after_cut() noexcept override;

 private:
  ContainerRuntime() : volatile_(VolatileHeap::instance()) {}

  static Result<std::unique_ptr<ContainerRuntime>> try_open(std::string_view uri,
                                                            const Options& options,
                                                            const InternalOptions& internal);
  Status create_state();

  Status discover();
  void fix_references(heap::Closure& closure);
  Status fix_own(heap::Closure& closure);
  bool follows(const u64* word, const void* object) override;
  void moved(const void* from, void* to, u64 bytes) override;
  void stays(const u64* word) override;
  void elsewhere(const u64* word, bool maybe) override;

  /// What a word leads to that leads to no object of this container, nor to a volatile one.
  struct Lead {
    bool is_pointer;
    bool to_container;  ///< another one
    u64 in_shadow;      ///< the word's value in a shadow
  };
  Lead lead_of(const u64* word, bool maybe);
  void begin_shadows();
  void refresh_shadows(heap::Closure& closure);
  u64 in_shadow(heap::Closure& closure, u64* word, bool maybe, const u64* shadow_word);
  Status end_shadows();
  bool is_own(const void* address) const { return runtime_->region().contains(address); }
  bool is_own(u64 value) const { return is_own(reinterpret_cast<const void*>(value)); }

  Status mark_pages();
  u64 line_of(const void* address) const;

  VolatileHeap& volatile_;
  std::unique_ptr<Runtime> runtime_;
  format::ContainerState* state_ = nullptr;  ///< nullptr while the store is being opened

  // --- of discovery; under the discovery mutex
  ModuleRecords modules_;
  struct Pages {
    track::DirtyMap changed;
    track::DirtyMap
        revisit;  ///< words there lead to volatile objects that stayed, or into other containers
    track::DirtyMap outside;  ///< words there lead out of the container
  };
  std::optional<Pages> pages_;
  bool discovering_ = false;
  Mutator* mutator_ = nullptr;           ///< of the thread that cuts
  Mutator* volatile_mutator_ = nullptr;  ///< the same
  Status noted_;                         ///< what became of noting modules, and of shadows
  Shadows shadows_;
  std::set<std::string> warned_;  ///< names of other containers
  std::string warning_;           ///< to be told
  u64 foreign_pointers_ = 0;
  u64 staying_pointers_ = 0;

  std::mutex root_mutex_;
  std::atomic<bool> warns_{false};
  mutable std::mutex mutex_;
  ContainerStatistics statistics_;  ///< under mutex_
  std::vector<std::string> nulled_;

  std::mutex points_mutex_;  ///< asynchronous points begin one at a time, and before mutex_
  u64 pending_ = 0;          ///< the version of the last asynchronous point
  std::optional<Failure> failed_;
};

}  // namespace perdura::detail
