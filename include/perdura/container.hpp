// Containers (SoftPM): a program names one root object, and what can be reached from it becomes
// durable at each persistence point.
//
//   struct Node { Node* next; int value; };
//   PERDURA_TYPE(Node, next)
//   struct List { Node* first; };
//   PERDURA_TYPE(List, first)
//
//   auto container = perdura::Container::open("list.pd");
//   List& list = container.root<List>();
//   list.first = perdura::make<Node>(list.first, 42);  // an ordinary object
//   container.point();                                 // it moves into the container
//
// Objects that make() makes are volatile until a point finds them reachable from a root: then they
// move, and every pointer to them changes, in objects with type records and in what was registered
// with refer(). The program's other variables are not known: load such pointers again after a
// point, register them, or pin() the object.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <perdura/durable.hpp>
#include <perdura/error.hpp>
#include <perdura/options.hpp>
#include <perdura/type.hpp>

namespace perdura {

struct HeapAudit;

// --- objects -------------------------------------------------------------------------------------

// Any thread may call these at any time.

/// Zeroed space for `count` volatile objects of a type, or for one of `bytes` bytes that ends with
/// a flexible array. Throws kTypeMismatch when another layout of a type of this name is known to
/// the process, kNoMemory. `type` must be static.
void* allocate(const perdura_type& type, std::size_t count = 1);
void* allocate_flexible(const perdura_type& type, std::size_t bytes);
/// Of objects in containers as well. The type stays, and what is new of the block is zero. An
/// object that is changed in its size may move.
void* reallocate(void* object, std::size_t bytes);
/// Of objects in containers as well; nullptr is ignored. Throws kMisuse for what is no object.
void deallocate(void* object);

/// What cannot live in a container does not compile (durable.hpp).
template <class T, class... Args>
T* make(Args&&... args) {
  detail::require_durable<T>();
  void* const place = allocate(TypeRecord<T>::value);
  try {
    return ::new (place) T{std::forward<Args>(args)...};
  } catch (...) {
    deallocate(place);
    throw;
  }
}
template <class T>
void destroy(T* object) {
  if (object == nullptr) return;
  object->~T();
  deallocate(object);
}

/// A volatile object stays where it is, even when it is reachable, until it was unpinned as often:
/// until then it is not part of a version, and in one a pointer to it is null. Reallocating it or
/// giving it back ends its pins. Throws kMisuse for an address that is of no object, but inside of
/// one.
void pin(const void* object);
void unpin(const void* object);

/// A pointer that is no part of an object: it is changed when the object that it leads to moves.
void refer(void** pointer);
void forget(void** pointer);

/// A pointer that refer() knows, as long as it lives.
template <class T>
class Reference {
 public:
  explicit Reference(T* object = nullptr) : object_(object) { refer(&object_); }
  ~Reference() { forget(&object_); }
  Reference(const Reference& other) : Reference(other.get()) {}
  Reference& operator=(const Reference& other) {
    if (this != &other) object_ = other.object_;
    return *this;
  }
  Reference& operator=(T* object) {
    object_ = object;
    return *this;
  }
  T* get() const { return static_cast<T*>(object_); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  void* object_;
};

// --- containers ----------------------------------------------------------------------------------

namespace detail {
class ContainerRuntime;
[[noreturn]] void throw_closed_container();
struct ContainerDeleter {
  void operator()(ContainerRuntime* container) const noexcept;
};
}  // namespace detail

struct ContainerStatistics {
  std::uint64_t points = 0;         ///< that found something changed
  std::uint64_t moved_objects = 0;  ///< by all points, as all of these
  std::uint64_t moved_bytes = 0;
  std::uint64_t visited_pointers = 0;
  std::uint64_t discovery_ns = 0;
  std::uint64_t last_discovery_ns = 0;
  /// Words found by the last point that lead to nothing that a container can hold: they are null in
  /// the version.
  std::uint64_t foreign_pointers = 0;
  std::uint64_t shared_objects = 0;  ///< of other containers, copied into the last version
  std::uint64_t shared_bytes = 0;
  std::uint64_t staying_pointers = 0;   ///< of the last point: to pinned objects, or excluded
  std::uint64_t restored_pointers = 0;  ///< when it was opened: into programs and libraries
  std::uint64_t nulled_pointers = 0;    ///< when it was opened
};

/// Brackets one consistent step of a thread that works on objects while other threads may take
/// points: nothing moves meanwhile. They nest; not copyable, not movable. A program in which the
/// same thread takes the points needs none.
class [[nodiscard]] ContainerOperation {
 public:
  ~ContainerOperation();
  ContainerOperation(const ContainerOperation&) = delete;
  ContainerOperation& operator=(const ContainerOperation&) = delete;

 private:
  friend class Container;
  explicit ContainerOperation(detail::ContainerRuntime& container);
  detail::ContainerRuntime& container_;
};

/// A durable object graph. All members may be called from any thread; they throw perdura::Error.
/// Once it was closed or moved to another object, all but close() and discard() throw kMisuse.
class Container {
 public:
  /// Open `uri`, a URI as Store::open takes it, and bring the last version back. Pointers into
  /// programs and libraries lead to where these are now: those of the same build id, else to the
  /// symbol of the same name. Throws kNotFound naming what is missing. Other pointers that lead out
  /// of the container are null. Throws kTypeMismatch, with both layouts, when the program has a
  /// PERDURA_TYPE of another layout than that of objects in the container.
  static Container open(std::string_view uri, const Options& options = {});
  Container(Container&&) noexcept = default;
  Container& operator=(Container&&) noexcept = default;

  /// The root: zeroed the first time. Throws kTypeMismatch when it is of another type.
  void* root(const perdura_type& type);
  template <class T>
  T& root() {
    detail::require_durable<T>();
    return *static_cast<T*>(root(TypeRecord<T>::value));
  }

  /// Persistence point: make durable what is reachable from the root now, all or nothing. Returns
  /// the version. Not inside an operation. On failure the objects and the last version are intact.
  std::uint64_t point();
  /// The same in the background: returns when it is fixed what the version holds. One that is still
  /// being written is waited for.
  std::uint64_t point_async();
  /// Wait for the points so far; throws what the first of them since the last sync failed with.
  void sync();
  /// A point each interval; 0 stops it.
  void point_every(std::chrono::milliseconds interval);
  std::uint64_t durable_version() const;

  ContainerOperation operation() { return ContainerOperation(runtime()); }

  /// Points do not follow this pointer, a word of an object, any more. It is null in a version
  /// unless it leads to an object in the container. A word of which the object's type says that it
  /// may be a pointer is in a version as it is.
  void exclude(const void* pointer);

  /// A last point. What fails is thrown, and the container is closed all the same. The destructor
  /// closes as well, and reports nothing.
  void close();
  /// Close without a last point.
  void discard() noexcept;

  /// Tell, once of each other container, that points find objects of it (EventKind::kShared). What
  /// is shared is one object while the program runs, and one in each container after it.
  void warn_of_sharing(bool warn = true);
  /// What the last point found in other containers, at most 1000 objects. Not inside an operation.
  std::vector<std::string> shared_objects() const;

  ContainerStatistics statistics() const;
  /// Of what was set to null when it was opened, at most 1000: what each pointer led to.
  std::vector<std::string> nulled_pointers() const;
  HeapAudit audit() const;
  bool contains(const void* address) const;

  detail::ContainerRuntime& runtime() const {
    if (!container_) [[unlikely]]
      detail::throw_closed_container();
    return *container_;
  }

 private:
  explicit Container(std::unique_ptr<detail::ContainerRuntime, detail::ContainerDeleter> container)
      : container_(std::move(container)) {}
  std::unique_ptr<detail::ContainerRuntime, detail::ContainerDeleter> container_;
};

}  // namespace perdura
