// A store: one durable thing. Opens a medium, owns the region and its heap, takes checkpoints.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <perdura/allocator.hpp>
#include <perdura/detail/conversion.hpp>
#include <perdura/detail/description.hpp>
#include <perdura/detail/fingerprint.hpp>
#include <perdura/detail/mutator.hpp>
#include <perdura/durable.hpp>
#include <perdura/error.hpp>
#include <perdura/options.hpp>
#include <perdura/type.hpp>

namespace perdura {

namespace detail {
class Runtime;
struct StoreAccess;  ///< makes a Store of a Runtime, for the testing library
struct RuntimeDeleter {
  void operator()(Runtime* runtime) const noexcept;
};
[[noreturn]] void throw_closed();
}  // namespace detail

/// What the heap holds, proven by walking all of its metadata (`Store::audit`).
struct HeapAudit {
  bool clean = false;
  std::string problem;  ///< empty when clean; else the first thing wrong, with its address
  std::uint64_t live_blocks = 0;
  std::uint64_t live_bytes = 0;  ///< by usable size
  std::uint64_t free_bytes = 0;  ///< in slabs and free runs
  std::uint64_t slabs = 0;
  std::uint64_t large_blocks = 0;
  std::uint64_t largest_free_bytes = 0;
  std::uint64_t roots = 0;
  std::uint64_t types = 0;  ///< that blocks have or had
};

/// Of Store::backup.
struct BackupOptions {
  std::uint64_t bytes_per_second = 0;  ///< read at most; 0: as fast as it goes
  std::uint32_t versions_kept = 0;     ///< by a backup made now, 1 to 1024; 0: 8
  bool adopts = false;  ///< go on also where another store's versions are there, or its own
};

/// Where a version is durable: here, or in the second place (Options::drain) as well.
enum class Where { kHere, kDrain };

/// Brackets one consistent step of a program: no checkpoint falls inside it. Operations nest; one
/// that starts while a checkpoint fixes its change set waits for microseconds. Must end in the
/// thread that began it. Not copyable, not movable.
class [[nodiscard]] Operation {
 public:
  ~Operation() {
    if (mutator_ != nullptr) detail::leave(*mutator_);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Report a store of `length` bytes at `address`, before it happens. Free of cost with the
  /// page trackers. Any length; the range must lie in the region.
  void touch(const void* address, std::size_t length) const noexcept {
    detail::report(*mutator_, address, length);
  }

  /// As Store::allocate and Store::deallocate, without the look-up of the thread.
  void* allocate(std::size_t size, std::size_t alignment = 16) const;
  void* allocate(const perdura_type& type, std::size_t count = 1) const;
  void deallocate(void* block) const;

 private:
  friend class Store;
  explicit Operation(detail::Mutator& mutator) noexcept : mutator_(&mutator) {
    detail::enter(mutator);
  }
  detail::Mutator* mutator_;
};

/// A durable heap in its program's memory. All members may be called from any thread at any time
/// unless said otherwise; they throw perdura::Error.
class Store {
 public:
  /// Open `uri` and recover its last durable version. A plain path is a file; also `file:PATH`,
  /// `dax:PATH`, `emu:PATH[?write_ns=N&bandwidth_mb=N&flush=nt|clwb|clflushopt|clflush]`,
  /// `memcached://HOST[:PORT]/NAME[?timeout_ms=N&takeover=1]`,
  /// `rados://POOL/NAME[?conf=FILE&user=NAME&lease_s=N&takeover=1]`, or on an S3 service,
  /// `s3://BUCKET/PREFIX[?endpoint=URL&region=NAME&lease_s=N&takeover=1]`.
  static Store open(std::string_view uri, const Options& options = {});

  /// Remove a region with all that it holds; its space is free for others. Nobody may have the
  /// store open to write, nor the region to read. Throws kNotFound, kLocked.
  static void remove(std::string_view uri, std::string_view region);

  /// What it was moved from is closed.
  Store(Store&& other) noexcept
      : runtime_(std::move(other.runtime_)), key_(std::exchange(other.key_, kClosed)) {}
  /// Closes the store that this one was, as the destructor does.
  Store& operator=(Store&& other) noexcept;

  /// Closes as close() does, but reports nothing; during stack unwinding no checkpoint is taken.
  ~Store();

  /// Take a last checkpoint, bring the home image up to date, release everything. No other thread
  /// may use the store any more. On failure the store is closed all the same, and the last
  /// durable version is what a next open finds. Throws kCorrupt when all is done, and durable,
  /// where some of what was stored lies in damaged pages; with OnDamage::kThrow where the program
  /// was not told of damage, and without a last checkpoint where it may have read zeros. Calls on a
  /// closed store throw kMisuse, but for close(), contains() and durable_version(), which then do
  /// nothing and know nothing.
  void close();

  /// Begin an operation of this thread.
  Operation operation() { return Operation(mutator()); }

  /// Report a store, before it happens (see Operation::touch).
  void touch(const void* address, std::size_t length) {
    detail::report(mutator(), address, length);
  }

  // --- heap ---------------------------------------------------------------------------------

  /// `size` bytes aligned to `alignment` (a power of two). Contents are indeterminate; with a
  /// reported tracker the whole block counts as reported. Throws kNoSpace when region or medium
  /// are full. Allocation rolls back with the data: after a crash it never happened unless a
  /// durable version covers it.
  void* allocate(std::size_t size, std::size_t alignment = 16);
  /// Zeroed space for `count` objects of a type with a record. A store that holds nothing else can
  /// be opened at another address. Throws kTypeMismatch when the store knows another layout of the
  /// type, and names both. `type` must outlive the store.
  void* allocate(const perdura_type& type, std::size_t count = 1);
  /// The same for one object of `bytes` bytes that ends with a flexible array.
  void* allocate_flexible(const perdura_type& type, std::size_t bytes);
  /// Throws kTypeMismatch as these do. Types that the store does not know are not added to it.
  void expect_type(const perdura_type& type);
  /// nullptr is ignored; a pointer this heap did not give out, or gave back, throws kMisuse.
  void deallocate(void* block);
  /// A typed block keeps its type, and what is new of it is zero.
  void* reallocate(void* block, std::size_t size);
  std::size_t usable_size(const void* block) const;
  bool contains(const void* address) const noexcept;

  /// Construct a T in the heap; destroy it again. It is typed if T has a record, by PERDURA_TYPE or
  /// by its members (type.hpp). What cannot live in a store does not compile (durable.hpp).
  template <class T, class... Args>
  T* make(Args&&... args) {
    detail::require_durable<T>();
    auto op = operation();
    void* block = allocate_for<T>(op);
    try {
      return construct<T>(block, std::forward<Args>(args)...);
    } catch (...) {
      op.deallocate(block);
      throw;
    }
  }
  template <class T>
  void destroy(T* object) {
    if (object == nullptr) return;
    auto op = operation();
    object->~T();
    op.deallocate(object);
  }

  // --- roots --------------------------------------------------------------------------------

  /// The root called `name` (1 to 255 bytes), constructed from `args` the first time. Throws
  /// kTypeMismatch when it exists with another type. Of several threads that ask for a new one at
  /// once each may construct an object; all get the same, and the others are destroyed again.
  template <class T, class... Args>
  T& root(std::string_view name, Args&&... args) {
    auto op = operation();
    if (T* found = find_root<T>(name)) {
      learn_members(detail::describe<T>());
      return *found;
    }
    T* made = make<T>(std::forward<Args>(args)...);
    T* root = nullptr;
    try {
      root = static_cast<T*>(get_or_set_root(name, made, fingerprint<T>()));
    } catch (...) {
      destroy(made);
      throw;
    }
    if (root != made) destroy(made);
    learn_members(detail::describe<T>());
    return *root;
  }
  /// As root, but nullptr when there is none. What a T is made of must be as the store knows it:
  /// its members, and those of its members, of elements of containers and arrays, and of parts of
  /// pairs and tuples, not of what pointers lead to. kTypeMismatch says what each is in the store
  /// and in the program.
  template <class T>
  T* find_root(std::string_view name) {
    detail::require_durable<T>();
    if constexpr (detail::Recorded<T>) expect_type(detail::record_of<T>());
    expect_members(detail::describe<T>());
    if constexpr (detail::StandardContainer<T>) detail::container_heap(*runtime_);
    if constexpr (detail::Contents<T>::kElsewhere)
      return static_cast<T*>(get_root(name, fingerprint<T>(), detail::own_fingerprint<T>()));
    else return static_cast<T*>(get_root(name, fingerprint<T>()));
  }
  /// Untyped roots: fingerprint 0 matches any type. A null `object` removes the root (the object
  /// stays allocated).
  void set_root(std::string_view name, void* object, std::uint64_t fingerprint = 0);
  void* get_root(std::string_view name, std::uint64_t fingerprint = 0);
  /// The object of the root, which `object` becomes where there is none: in one step, so that
  /// several threads can each make an object and agree on one.
  void* get_or_set_root(std::string_view name, void* object, std::uint64_t fingerprint = 0);

  /// Of a root of this type: its name, size and alignment, and those of what standard containers
  /// in it contain.
  template <class T>
  static std::uint64_t fingerprint() {
    return detail::root_fingerprint<T>();
  }

  // --- types that change (docs/evolution.md) -------------------------------------------------

  /// Make each object of `New` of what it was: of an `Old`, which had the same name when the store
  /// was written (FormerOf). `function(const Old& was, New& object)` is called for each, with an
  /// object that its type has made of nothing; pointers in both lead to objects as they were, and
  /// are mended afterwards: all pointers of the store that lead to objects that are converted, or
  /// to a member of one that is in both types. Returns how many there were; 0 where the store has
  /// the new layout already, or no such type. It becomes durable as any operation does: a crash
  /// before the next version leaves the old objects. All blocks of the store must be typed; one
  /// that is an array may have room for more objects than it was allocated for, which are zero.
  /// Types that have a type with another layout as a member are converted in the same call, with
  /// the function that takes conversions. No other thread may use the store meanwhile. On failure,
  /// and where a function throws, the store is as it was. Throws kTypeMismatch where it has neither
  /// layout, kInvalidArgument where it does not tell them apart or a pointer leads to what the new
  /// type has no place for, kAddressTaken where blocks have no type, kNoSpace, kUnsupported with
  /// aliases, kMisuse in a transaction.
  template <class Old, class New, class Function>
  std::uint64_t migrate(Function&& function) {
    return migrate(conversion<Old, New>(function));
  }
  /// The same of members that have the same names: numbers are converted, arrays get longer, and
  /// members that are new are as the type makes them. Throws kInvalidArgument where the new type of
  /// a number has no such value.
  template <class Old, class New>
  std::uint64_t evolve() {
    return migrate(conversion<Old, New>());
  }
  /// Of several types at once: migrate(conversion<Old, New>(function), conversion<A, B>()). Of
  /// several conversions to one type that of the layout which the store has.
  template <std::same_as<Conversion>... Conversions>
  std::uint64_t migrate(const Conversion& first, const Conversions&... others) {
    const Conversion all[] = {first, others...};
    return migrate(std::span<const Conversion>(all));
  }
  std::uint64_t migrate(std::span<const Conversion> conversions);

  // --- checkpoints --------------------------------------------------------------------------

  /// Make everything stored before this call durable; returns the version that holds it. Threads
  /// that call while one is written share the next; where several do so again and again, one waits
  /// for the others for up to 100 us. Must not be called inside an operation. On failure the
  /// program's memory and the last durable version are intact, and a later checkpoint covers the
  /// same changes.
  std::uint64_t checkpoint();
  /// Make the object of a root durable, with its name, and nothing else that changed (FGCK's
  /// nv_ckone). Needs Options::aliases, and an object that begins a block of its own lines: one
  /// that was allocated with an alignment of 64 or more. Throws kNotFound for an unknown name, and
  /// kMisuse where the last version has another object in its place, or a block of another size or
  /// type; then checkpoint() does it.
  /// What the object points to must be durable already, or become so later.
  std::uint64_t checkpoint_root(std::string_view name);
  /// Fix the change set now, write it in the background. Returns the version to wait for, which
  /// other threads that call meanwhile may share. Waits while another one is written.
  std::uint64_t checkpoint_async();
  /// Wait until `version` is durable; throws what its checkpoint failed with.
  void wait(std::uint64_t version);
  /// Checkpoint in the background, so that what is stored is durable an interval later at most; 0
  /// stops it. The next cut comes as much before the end of the interval as versions took lately,
  /// up to half of it: where they take longer, or operations do, the medium decides, and what is
  /// late is an event (EventKind::kCheckpointLate). One that fails is counted
  /// (Statistics::failed_checkpoints), is an event, and its changes are part of the next.
  void checkpoint_every(std::chrono::milliseconds interval);
  /// The newest version that survives a crash; 0 before the first.
  std::uint64_t durable_version() const noexcept;
  /// The same of the second place; 0 where it has none, and without one.
  std::uint64_t durable_version(Where where) const noexcept;

  /// Add the newest durable version to a backup of this region at `uri` (docs/backup.md), which is
  /// made where there is none: what it does not have is sent. Returns the version, of this store,
  /// that is there from then on. Threads may store and take checkpoints meanwhile. Must not be
  /// called inside an operation, nor in a transaction. Throws kMisuse where `uri` has another
  /// store's versions, or its own; kLocked where it is open; kNotFound before the first version.
  std::uint64_t backup(std::string_view uri, const BackupOptions& options = {});

  // --- looking inside -----------------------------------------------------------------------

  Statistics statistics() const;
  /// Prove the heap's metadata sound. Other threads must not allocate meanwhile.
  HeapAudit audit() const;
  /// With Options::verify_reports: each store found that nobody reported, at most 1000, with its
  /// block. A line that is found again is watched meanwhile: then with the functions that stored to
  /// it, their files and lines, by addr2line (binutils) from debug information. Takes a while.
  std::vector<std::string> unreported_stores() const;
  /// What was found damaged so far, in the background (Options::verify_bytes_per_second), before
  /// use, or before a version had changes in it, at most 1000: each says where a page of the home
  /// image, or a chunk, is not what was written there. Memory that was loaded from it may be wrong
  /// unless it was verified before use; what to do about that is the program's decision. Restoring
  /// the store from a copy is the remedy.
  std::vector<std::string> damaged_pages() const;
  /// Forget the pauses and counters measured so far.
  void reset_statistics();

  /// For allocators and the C API.
  detail::Runtime& runtime() const {
    if (!runtime_) [[unlikely]]
      detail::throw_closed();
    return *runtime_;
  }

 private:
  friend struct detail::StoreAccess;
  explicit Store(std::unique_ptr<detail::Runtime, detail::RuntimeDeleter> runtime) noexcept;
  detail::Mutator& mutator() {
    const detail::ThreadEntry& entry = detail::thread_entries[key_.index];
    if (entry.id == key_.id) [[likely]]
      return *entry.mutator;
    return register_thread();
  }
  detail::Mutator& register_thread();
  void expect_members(const detail::TypeDescription& type);
  /// As far as the store can learn now: not to be read alone, and not in a transaction.
  void learn_members(const detail::TypeDescription& type);
  /// Also of a root that has the fingerprint `earlier`, from before there was this one.
  void* get_root(std::string_view name, std::uint64_t fingerprint, std::uint64_t earlier);

  template <class T>
  static void* allocate_for(const Operation& op) {
    if constexpr (detail::Recorded<T>) return op.allocate(detail::record_of<T>());
    else return op.allocate(sizeof(T), alignof(T));
  }

  template <class T, class... Args>
  T* construct(void* block, Args&&... args) {
    if constexpr (detail::TakesAllocator<T, Args...>) {
      return ::new (block) T(std::forward<Args>(args)..., Allocator<std::byte>(*this));
    } else {
      return ::new (block) T(std::forward<Args>(args)...);
    }
  }

  std::unique_ptr<detail::Runtime, detail::RuntimeDeleter> runtime_;
  static constexpr detail::ThreadKey kClosed{~std::uint64_t{0}, 0};  // no thread has such an entry
  detail::ThreadKey key_;
};

template <class T>
Allocator<T>::Allocator(Store& store) : heap_(detail::container_heap(store.runtime())) {}

}  // namespace perdura
