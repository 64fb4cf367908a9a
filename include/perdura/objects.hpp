// Objects whose calls are logged (SIMPO: Zhang et al., ACM TACO 15(1), 2018): what a program does
// to an object is durable, not what that changes. docs/objects.md says when that pays.
//
//   struct Seats {
//     std::int32_t sold[64];
//     void sell(int row, int count) noexcept { sold[row] += count; }       // deferrable
//     int reserve(int row) noexcept { return sold[row]++; }                // instant
//     int left(int row) const noexcept { return 100 - sold[row]; }         // read: not logged
//   };
//   template <> struct perdura::Methods<Seats>
//       : perdura::MethodList<perdura::Deferrable<&Seats::sell>, perdura::Instant<&Seats::reserve>>
//       {};
//
//   perdura::Objects objects = perdura::Objects::open("seats.pd");
//   perdura::Object<Seats> hall = objects.object<Seats>("hall");
//   hall.defer<&Seats::sell>(3, 2);
//   int seat = hall.call<&Seats::reserve>(3);   // durable, with all before it, when it returns
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <perdura/error.hpp>

namespace perdura {

/// A method that returns nothing: it is logged, and runs later, in the order of calls.
template <auto Method>
struct Deferrable {
  static constexpr auto kMethod = Method;
  static constexpr bool kIsDeferrable = true;
};
/// One that changes the state and answers: durable and done when it returns.
template <auto Method>
struct Instant {
  static constexpr auto kMethod = Method;
  static constexpr bool kIsDeferrable = false;
};
template <class... List>
struct MethodList {};
/// The methods of a state that change it; to be specialised.
template <class State>
struct Methods;

struct ObjectsOptions {
  bool create = true;              ///< where there is nothing yet
  std::string region = "objects";  ///< of the store that has them
};

struct ObjectOptions {
  std::uint64_t log_bytes = 1 << 20;      ///< a power of two from 4096
  std::uint64_t checkpoint_calls = 1000;  ///< after so many the state is written, and log is free
};

struct ObjectDescription {
  std::string name;
  std::string type;
  std::uint64_t bytes = 0;  ///< of the state
};

namespace detail {

class ObjectsRuntime;
class OpenObject;

/// A method as the library calls it.
struct ObjectMethod {
  const char* name;  ///< mangled, with the types of its arguments
  std::uint64_t context_bytes;
  void (*run)(void* state, const void* context, void* result);
};
struct ObjectType {
  const char* name;
  std::uint64_t bytes;
  std::span<const ObjectMethod> methods;
  const void* initial;  ///< what a new one is
};

void object_defer(OpenObject& object, std::size_t method, std::span<const std::byte> context);
void object_call(OpenObject& object, std::size_t method, std::span<const std::byte> context,
                 void* result);
void object_read(OpenObject& object, void (*look)(const void* state, void* with), void* with);
void object_sync(OpenObject& object);
void object_checkpoint(OpenObject& object);

template <auto Method>
struct MethodTag {};

constexpr std::size_t object_align(std::size_t at, std::size_t alignment) {
  return (at + alignment - 1) / alignment * alignment;
}
/// Where each of the arguments lies in a context, and behind them its size.
template <class... A>
constexpr auto context_places() {
  std::array<std::size_t, sizeof...(A) + 1> places{};
  std::size_t at = 0;
  std::size_t i = 0;
  ((at = object_align(at, alignof(A)), places[i++] = at, at += sizeof(A)), ...);
  places[i] = at;
  return places;
}

template <class Method>
struct MethodTraits;
template <class State, class R, class... A>
struct MethodTraits<R (State::*)(A...) noexcept> {
  static constexpr bool kIsConst = false;
  static constexpr auto kPlaces = context_places<std::decay_t<A>...>();
  static_assert((std::is_trivially_copyable_v<std::decay_t<A>> && ...),
                "what an object's method is called with is logged: trivially copyable arguments");
  static_assert(std::is_void_v<R> || std::is_trivially_copyable_v<R>,
                "an object's method answers with what is trivially copyable");
  using Result = R;

  static auto pack(const std::decay_t<A>&... arguments) {
    std::array<std::byte, kPlaces.back() == 0 ? 1 : kPlaces.back()> context{};
    std::size_t i = 0;
    ((std::memcpy(context.data() + kPlaces[i], &arguments, sizeof arguments), ++i), ...);
    return context;
  }
  /// `state`: an Object's, of whose class or of a base of whose the method is.
  template <class Object, auto Method>
  static void run(void* state, const void* context, void* result) {
    static_assert(std::is_base_of_v<State, Object>, "the method is not one of the object's state");
    run_at<Method>(*static_cast<Object*>(state), static_cast<const std::byte*>(context), result,
                   std::index_sequence_for<A...>());
  }

 private:
  template <class T>
  static T argument_at(const std::byte* at) {
    alignas(T) std::byte copy[sizeof(T)];
    std::memcpy(copy, at, sizeof(T));
    return *reinterpret_cast<const T*>(copy);
  }
  template <auto Method, std::size_t... I>
  static void run_at(State& at, [[maybe_unused]] const std::byte* context, void* result,
                     std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
      (at.*Method)(argument_at<std::decay_t<A>>(context + kPlaces[I])...);
    } else {
      const R answer = (at.*Method)(argument_at<std::decay_t<A>>(context + kPlaces[I])...);
      if (result != nullptr) std::memcpy(result, &answer, sizeof answer);
    }
  }
};

template <class State, class... List>
constexpr std::array<ObjectMethod, sizeof...(List)> methods_of(MethodList<List...>) {
  static_assert(
      ((!List::kIsDeferrable ||
        std::is_void_v<
            typename MethodTraits<std::remove_const_t<decltype(List::kMethod)>>::Result>) &&
       ...),
      "a method that answers is instant, not deferrable");
  return {ObjectMethod{
      typeid(MethodTag<List::kMethod>).name(),
      MethodTraits<std::remove_const_t<decltype(List::kMethod)>>::kPlaces.back(),
      &MethodTraits<std::remove_const_t<decltype(List::kMethod)>>::template run<State,
                                                                                List::kMethod>}...};
}
template <auto A, auto B>
constexpr bool is_same_method() {
  if constexpr (std::is_same_v<decltype(A), decltype(B)>) return A == B;
  else return false;
}
struct FoundMethod {
  std::size_t index;
  bool found;
  bool is_deferrable;
};
template <auto Method, class... List>
constexpr FoundMethod find_method(MethodList<List...>) {
  FoundMethod result{0, false, false};
  std::size_t i = 0;
  ((is_same_method<Method, List::kMethod>() ? void(result = {i, true, List::kIsDeferrable})
                                            : void(),
    ++i),
   ...);
  return result;
}

}  // namespace detail

/// Thread-safe; copies are the same object. Where its Objects are closed calls throw kMisuse, and
/// in a forked child kForked.
template <class State>
class Object {
 public:
  /// Runs at some time after all that was called before; durable with the next call, sync or
  /// checkpoint.
  template <auto Method, class... A>
  void defer(A&&... arguments) {
    constexpr detail::FoundMethod kFound = detail::find_method<Method>(Methods<State>{});
    static_assert(kFound.found, "the method is not in Methods of the state");
    static_assert(kFound.is_deferrable, "an instant method is called by call()");
    const auto context =
        detail::MethodTraits<decltype(Method)>::pack(std::forward<A>(arguments)...);
    detail::object_defer(*object_, kFound.index, used<Method>(context));
  }
  /// Durable, with all that was called before, and run once, when it returns.
  template <auto Method, class... A>
  auto call(A&&... arguments) {
    using Traits = detail::MethodTraits<decltype(Method)>;
    constexpr detail::FoundMethod kFound = detail::find_method<Method>(Methods<State>{});
    static_assert(kFound.found, "the method is not in Methods of the state");
    static_assert(!kFound.is_deferrable, "a deferrable method is called by defer()");
    const auto context = Traits::pack(std::forward<A>(arguments)...);
    if constexpr (std::is_void_v<typename Traits::Result>) {
      detail::object_call(*object_, kFound.index, used<Method>(context), nullptr);
    } else {
      alignas(typename Traits::Result) std::byte answer[sizeof(typename Traits::Result)];
      detail::object_call(*object_, kFound.index, used<Method>(context), answer);
      return *reinterpret_cast<const typename Traits::Result*>(answer);
    }
  }
  /// A const method, after all that was called before is durable and run; it is not logged.
  template <auto Method, class... A>
  auto read(A&&... arguments) const {
    using Answer = decltype((std::declval<const State&>().*Method)(std::forward<A>(arguments)...));
    static_assert(!std::is_void_v<Answer>, "what only looks answers");
    std::remove_cvref_t<Answer> answer{};
    auto look = [&](const State& state) {
      answer = (state.*Method)(std::forward<A>(arguments)...);
    };
    detail::object_read(
        *object_,
        [](const void* state, void* with) {
          (*static_cast<decltype(look)*>(with))(*static_cast<const State*>(state));
        },
        &look);
    return answer;
  }
  /// All that was called before is durable and run.
  void sync() { detail::object_sync(*object_); }
  /// The same, and written as a whole: the log before it is free.
  void checkpoint() { detail::object_checkpoint(*object_); }

 private:
  friend class Objects;
  explicit Object(std::shared_ptr<detail::OpenObject> object) : object_(std::move(object)) {}
  template <auto Method, class Context>
  static std::span<const std::byte> used(const Context& context) {
    return {context.data(), detail::MethodTraits<decltype(Method)>::kPlaces.back()};
  }

  std::shared_ptr<detail::OpenObject> object_;
};

/// The objects of a store. Thread-safe. One process has them open at a time.
class Objects {
 public:
  /// Throws Error: kLocked, kNotFound, kCorrupt, kUnsupported (a medium that has no bytes).
  static Objects open(std::string_view uri, const ObjectsOptions& options = {});
  Objects(Objects&&) noexcept;
  Objects& operator=(Objects&&) noexcept;
  /// What was deferred becomes durable, if it can.
  ~Objects();

  /// The object of a name, made as State{} where there is none. Throws Error: kInvalidArgument
  /// where it has another type, kIncompatible where its log calls what this program does not have.
  template <class State>
  Object<State> object(std::string_view name, const ObjectOptions& options = {}) {
    static_assert(std::is_trivially_copyable_v<State>, "an object's state is copied as it lies");
    static_assert(alignof(State) <= 4096, "an object's state lies at the beginning of a page");
    static const State initial{};
    static const auto methods = detail::methods_of<State>(Methods<State>{});
    return Object<State>(
        open_object(name, {typeid(State).name(), sizeof(State), methods, &initial}, options));
  }
  /// Throws Error: kNotFound; kMisuse where somebody has it open.
  void remove(std::string_view name);
  std::vector<ObjectDescription> list() const;
  /// All that was deferred is durable, or an Error says why not; nothing is open any more.
  void close();

 private:
  explicit Objects(std::unique_ptr<detail::ObjectsRuntime> runtime);
  std::shared_ptr<detail::OpenObject> open_object(std::string_view name,
                                                  const detail::ObjectType& type,
                                                  const ObjectOptions& options);

  std::unique_ptr<detail::ObjectsRuntime> runtime_;
};

}  // namespace perdura
