// Objects whose calls are logged (SIMPO: Zhang et al., ACM TACO 15(1), 2018): what a program does
// to an object is durable, not what that changes. docs/objects.md says when that pays.
//
//   struct Seats {
//     std::int32_t sold[64];
//     void sell(int row, int count) noexcept { sold[row] += count; }       // deferrable
//     int reserve(int row) noexcept { return sold[row]++; }                // instant
//     int left(int row) const noexcept { return 100 - sold[row]; }         // read: not logged
//     static perdura::Domain row(int row) noexcept { return perdura::Domain(row); }
//   };
//   template <> struct perdura::Methods<Seats> : perdura::MethodList<
//       perdura::Deferrable<&Seats::sell, &Seats::row>,  // calls of several rows run at once
//       perdura::Instant<&Seats::reserve, &Seats::row>> {};
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
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <perdura/detail/attributes.hpp>
#include <perdura/error.hpp>
#include <perdura/flexible.hpp>
#include <perdura/formerly.hpp>
#include <perdura/object_options.hpp>

namespace perdura {

/// What a call works on: calls of one domain run in the order in which they were called, those of
/// different ones may run at the same time, in several threads. kAll: on all of the object, after
/// all that was called before, and before all that is called later.
enum class Domain : std::int32_t { kAll = -1 };

/// Calls of the method may run in any order among themselves.
enum class Commutes { kYes };
inline constexpr Commutes kCommutes = Commutes::kYes;
/// The method says what it changes: object_changed().
enum class Reports { kYes };
inline constexpr Reports kReports = Reports::kYes;

/// In a method of which kReports is said: it has changed these bytes of the state, or is about to.
/// A checkpoint of an object all of whose calls reported writes what changed alone. What is changed
/// and not reported is in no checkpoint, or in some: ObjectOptions::verify_replay finds it.
/// Anywhere else it does nothing.
void object_changed(const void* first, std::size_t bytes) noexcept;

/// A method that returns nothing: it is logged, and runs later, in the order of calls. What may be
/// said of it besides, in any order, all of them static functions and noexcept:
///  - Domain f(leading arguments): what a call works on; Domain::kAll where it is not said.
///  - bool f(std::tuple<arguments>& first, const std::tuple<arguments>& next): `first` becomes a
///    call that does what both do one after the other, or it returns false and changes nothing.
///    Calls that wait are merged so; arguments of at most 256 bytes.
///  - kReports: it calls object_changed() for all that it changes.
///  - kCommutes, beside such a function: further calls of a thread are merged into its last one.
///  - bool f(arguments): whether it may be called so; a call that may not throws kInvalidArgument.
///  - formerly("…"): its calls were logged under another name; as often as it had others.
template <auto Method, auto... Hints>
struct Deferrable {
  static constexpr auto kMethod = Method;
  static constexpr bool kIsDeferrable = true;
};
/// One that changes the state and answers: durable and done when it returns. It may have a domain,
/// a function that says what it may be called with, and former names, and report.
template <auto Method, auto... Hints>
struct Instant {
  static constexpr auto kMethod = Method;
  static constexpr bool kIsDeferrable = false;
};
template <class... List>
struct MethodList {};
/// The methods of a state that change it; to be specialised. Where the state's type had other
/// names, or was in other namespaces, a member says so, for all objects that were made then:
///   static constexpr const char* kFormerly[] = {"hall::Seats"};
template <class State>
struct Methods;

namespace detail {

class ObjectsRuntime;
class OpenObject;

/// A method as the library calls it.
struct ObjectMethod {
  const char* name;  ///< mangled, with the types of its arguments
  std::uint64_t context_bytes;
  std::uint64_t result_bytes;
  void (*run)(void* state, const void* context, void* result);
  bool (*join)(void* first, const void* next);  ///< nullptr: calls are not merged
  bool (*accepts)(const void* context);         ///< nullptr: all calls
  bool commutes;
  bool reports = false;
  bool own_thread = false;                  ///< whoever called runs it
  bool answers_are_bytes = false;           ///< equal answers have equal bytes
  std::span<const char* const> formerly{};  ///< names that it had
  const void* code = nullptr;               ///< of the method itself
};
struct ObjectType {
  const char* name;
  std::uint64_t bytes;
  std::span<const ObjectMethod> methods;
  const void* initial;       ///< what a new one is, of that size
  bool is_flexible = false;  ///< an object of it may be larger
  std::span<const char* const> formerly{};
};

[[noreturn]] void refuse_moved_from_object();
void object_defer(OpenObject& object, std::size_t method, Domain domain,
                  std::span<const std::byte> context);
void object_call(OpenObject& object, std::size_t method, Domain domain,
                 std::span<const std::byte> context, void* result);
void object_read(OpenObject& object, void (*look)(const void* state, void* with), void* with);
void object_sync(OpenObject& object);
std::uint64_t object_checkpoint(OpenObject& object);
void object_resize(OpenObject& object, std::size_t bytes, std::size_t bytes_min);
std::size_t object_size(OpenObject& object);
struct CallerRecord {
  std::uint64_t calls;
  std::uint32_t answer_bytes;
  std::byte answer[48];
};
CallerRecord object_caller(OpenObject& object, std::uint32_t potid);

template <auto Method>
struct MethodTag {};

/// What is said of a method, by type.
template <class Hint>
struct HintTraits {
  static constexpr bool kIsDomain = false;
  static constexpr bool kIsJoin = false;
  static constexpr bool kIsPredicate = false;
  static constexpr bool kIsCommutes = std::is_same_v<Hint, Commutes>;
  static constexpr bool kIsReports = std::is_same_v<Hint, Reports>;
};
template <class... A>
struct HintTraits<Domain (*)(A...) noexcept> : HintTraits<void> {
  static constexpr bool kIsDomain = true;
  static constexpr std::size_t kArguments = sizeof...(A);
};
template <class... A>
struct HintTraits<bool (*)(A...) noexcept> : HintTraits<void> {
  static constexpr bool kIsPredicate = true;
};
template <class... A>
struct HintTraits<bool (*)(std::tuple<A...>&, const std::tuple<A...>&) noexcept>
    : HintTraits<void> {
  static constexpr bool kIsJoin = true;
};

template <class State>
constexpr std::span<const char* const> former_types() {
  if constexpr (requires { Methods<State>::kFormerly; }) return Methods<State>::kFormerly;
  else return {};
}

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
  static constexpr std::size_t kResultBytes = [] {
    if constexpr (std::is_void_v<R>) return std::size_t{0};
    else return sizeof(R);
  }();
  static constexpr bool kAnswersAreBytes = std::has_unique_object_representations_v<R> ||
                                           std::is_same_v<R, float> || std::is_same_v<R, double>;

  static auto pack(const std::decay_t<A>&... arguments) {
    std::array<std::byte, kPlaces.back() == 0 ? 1 : kPlaces.back()> context{};
    std::size_t i = 0;
    ((std::memcpy(context.data() + kPlaces[i], &arguments, sizeof arguments), ++i), ...);
    return context;
  }
  static std::tuple<std::decay_t<A>...> unpack(const void* context) {
    return unpack_at(static_cast<const std::byte*>(context), std::index_sequence_for<A...>());
  }
  template <auto Hint>
  static Domain domain_of(const void* context) {
    return call_with<Hint>(unpack(context),
                           std::make_index_sequence<HintTraits<decltype(Hint)>::kArguments>());
  }
  template <auto Hint>
  static bool join(void* first, const void* next) {
    auto joined = unpack(first);
    if (!Hint(joined, unpack(next))) return false;
    const auto context = std::apply([](const auto&... each) { return pack(each...); }, joined);
    std::memcpy(first, context.data(), kPlaces.back());
    return true;
  }
  template <auto Hint>
  static bool accepts(const void* context) {
    return std::apply(Hint, unpack(context));
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
  template <std::size_t... I>
  static std::tuple<std::decay_t<A>...> unpack_at([[maybe_unused]] const std::byte* context,
                                                  std::index_sequence<I...>) {
    return {argument_at<std::decay_t<A>>(context + kPlaces[I])...};
  }
  template <auto Hint, std::size_t... I>
  static Domain call_with([[maybe_unused]] const std::tuple<std::decay_t<A>...>& arguments,
                          std::index_sequence<I...>) {
    return Hint(std::get<I>(arguments)...);
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

/// Whose method it is: a state's, or that of a base of it.
template <class Signature, class Class>
Class class_of(Signature Class::*);

template <auto Method>
using TraitsOf = MethodTraits<std::remove_const_t<decltype(Method)>>;

/// A line of the list of methods.
template <class Line>
struct LineOf;
template <template <auto, auto...> class Kind, auto Method, auto... Hints>
struct LineOf<Kind<Method, Hints...>> {
  using Traits = TraitsOf<Method>;
  static constexpr bool kIsDeferrable = Kind<Method, Hints...>::kIsDeferrable;
  static constexpr int kDomains = (0 + ... + int{HintTraits<decltype(Hints)>::kIsDomain});
  static constexpr int kJoins = (0 + ... + int{HintTraits<decltype(Hints)>::kIsJoin});
  static constexpr int kPredicates = (0 + ... + int{HintTraits<decltype(Hints)>::kIsPredicate});
  static constexpr int kCommute = (0 + ... + int{HintTraits<decltype(Hints)>::kIsCommutes});
  static constexpr int kReport = (0 + ... + int{HintTraits<decltype(Hints)>::kIsReports});
  static constexpr auto kFormerly = former_names<Hints...>();
  static_assert(kDomains + kJoins + kPredicates + kCommute + kReport +
                        static_cast<int>(kFormerly.size()) ==
                    sizeof...(Hints),
                "what is said of a method is a noexcept function as objects.hpp lists them, "
                "kCommutes, kReports, or formerly()");
  static_assert(kDomains <= 1 && kJoins <= 1 && kPredicates <= 1 && kCommute <= 1 && kReport <= 1,
                "each thing is said of a method once");
  static_assert(kIsDeferrable || kJoins + kCommute == 0,
                "each call of a method that answers is done");
  static_assert(kCommute == 0 || kJoins == 1, "calls that commute are merged by a function");
  static_assert(kJoins == 0 || Traits::kPlaces.back() <= 256,
                "calls that are merged have arguments of 256 bytes at most");
  static_assert(!kIsDeferrable || std::is_void_v<typename Traits::Result>,
                "a method that answers is instant, not deferrable");

  static Domain domain_of([[maybe_unused]] const void* context) {
    Domain domain = Domain::kAll;
    (
        [&] {
          if constexpr (HintTraits<decltype(Hints)>::kIsDomain)
            domain = Traits::template domain_of<Hints>(context);
        }(),
        ...);
    return domain;
  }
  template <class State>
  static ObjectMethod method() {
    ObjectMethod method{typeid(MethodTag<Method>).name(),
                        Traits::kPlaces.back(),
                        Traits::kResultBytes,
                        &Traits::template run<State, Method>,
                        nullptr,
                        nullptr,
                        kCommute == 1,
                        kReport == 1};
    method.answers_are_bytes = Traits::kAnswersAreBytes;
    method.formerly = kFormerly;
    constexpr auto kMethod = Method;
    std::memcpy(&method.code, &kMethod, sizeof method.code);  // what a pointer to one begins with
    (
        [&] {
          if constexpr (HintTraits<decltype(Hints)>::kIsJoin)
            method.join = &Traits::template join<Hints>;
          if constexpr (HintTraits<decltype(Hints)>::kIsPredicate)
            method.accepts = &Traits::template accepts<Hints>;
        }(),
        ...);
    return method;
  }
};

template <class State, class... List>
std::array<ObjectMethod, sizeof...(List)> methods_of(MethodList<List...>) {
  return {LineOf<List>::template method<State>()...};
}
/// By their types: with sanitizers GCC does not compare pointers to members as constants.
template <auto A, auto B>
constexpr bool kIsSameMethod = std::is_same_v<MethodTag<A>, MethodTag<B>>;
struct FoundMethod {
  std::size_t index;
  bool found;
  bool is_deferrable;
  Domain (*domain_of)(const void* context);
};
template <auto Method, class... List>
constexpr FoundMethod find_method(MethodList<List...>) {
  FoundMethod result{0, false, false, nullptr};
  std::size_t i = 0;
  ((kIsSameMethod<Method, List::kMethod>
        ? void(result = {i, true, List::kIsDeferrable, &LineOf<List>::domain_of})
        : void(),
    ++i),
   ...);
  return result;
}

}  // namespace detail

/// Thread-safe; copies are the same object. Where its Objects are closed, or it was moved from,
/// calls throw kMisuse, and in a forked child kForked.
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
    detail::object_defer(open(), kFound.index, kFound.domain_of(context.data()),
                         used<Method>(context));
  }
  /// Durable, with all that was called before, and run once, when it returns.
  template <auto Method, class... A>
  auto call(A&&... arguments) {
    using Traits = detail::MethodTraits<decltype(Method)>;
    constexpr detail::FoundMethod kFound = detail::find_method<Method>(Methods<State>{});
    static_assert(kFound.found, "the method is not in Methods of the state");
    static_assert(!kFound.is_deferrable, "a deferrable method is called by defer()");
    const auto context = Traits::pack(std::forward<A>(arguments)...);
    const Domain domain = kFound.domain_of(context.data());
    if constexpr (std::is_void_v<typename Traits::Result>) {
      detail::object_call(open(), kFound.index, domain, used<Method>(context), nullptr);
    } else {
      alignas(typename Traits::Result) std::byte answer[sizeof(typename Traits::Result)];
      detail::object_call(open(), kFound.index, domain, used<Method>(context), answer);
      return *reinterpret_cast<const typename Traits::Result*>(answer);
    }
  }
  /// A const method, after all that was called before is durable and run (of a relaxed object,
  /// run); it is not logged.
  template <auto Method, class... A>
  auto read(A&&... arguments) const {
    using Answer = decltype((std::declval<const State&>().*Method)(std::forward<A>(arguments)...));
    static_assert(!std::is_void_v<Answer>, "what only looks answers");
    std::remove_cvref_t<Answer> answer{};
    auto look = [&](const decltype(detail::class_of(Method))& state) {
      answer = (state.*Method)(std::forward<A>(arguments)...);
    };
    detail::object_read(
        open(),
        [](const void* state, void* with) {
          (*static_cast<decltype(look)*>(with))(*static_cast<const State*>(state));
        },
        &look);
    return answer;
  }
  /// All that was called before is durable and run.
  void sync() { detail::object_sync(open()); }
  /// The same, and the state is resilient: it need not be made anew from the log. Returns its
  /// version. Later ones have larger numbers, whoever takes them, also after the next opening; of
  /// an object that is in the overflow store, which nobody has called, it is the last one again.
  std::uint64_t checkpoint() { return detail::object_checkpoint(open()); }
  /// The object has so many bytes from now on, from sizeof(State) to 2^40: what it held, as much of
  /// it as has room, and zeros behind that. It comes after all that was called before, and is
  /// durable when it returns; a crash before that leaves the object as it was, or so. Calls of
  /// other threads wait. For the time being there is space for both. Throws Error:
  /// kInvalidArgument, kNoSpace (nothing has changed), kUnsupported where processes share it,
  /// kMisuse in a method.
  void resize(std::size_t bytes) {
    static_assert(FlexibleState<State>,
                  "objects have the size of their state; one that is flexible "
                  "(perdura::FlexibleState) may have more behind it");
    detail::object_resize(open(), bytes, sizeof(State));
  }
  /// Of the state, with what follows it.
  std::size_t bytes() const { return detail::object_size(open()); }

 private:
  friend class Objects;
  friend class Caller;
  explicit Object(std::shared_ptr<detail::OpenObject> object) : object_(std::move(object)) {}
  template <auto Method, class Context>
  static std::span<const std::byte> used(const Context& context) {
    return {context.data(), detail::MethodTraits<decltype(Method)>::kPlaces.back()};
  }

  detail::OpenObject& open() const {
    if (object_ == nullptr) [[unlikely]]
      detail::refuse_moved_from_object();
    return *object_;
  }

  std::shared_ptr<detail::OpenObject> object_;
};

/// The objects of a store. Thread-safe. One process has them open at a time, or those that share
/// them (ObjectsOptions::shared).
class Objects {
 public:
  /// Throws Error: kLocked (another process has the store open, or the other way), kNotFound,
  /// kCorrupt, kUnsupported (a medium that has no bytes).
  static Objects open(std::string_view uri, const ObjectsOptions& options = {});
  Objects(Objects&&) noexcept;
  Objects& operator=(Objects&&) noexcept;
  /// What was deferred becomes durable, if it can.
  ~Objects();

  /// The object of a name, 1 to 127 bytes, none of them zero, made as State{} where there is none.
  /// Throws Error: kInvalidArgument, which says what is wrong with the name, an option or a method;
  /// kTypeMismatch where it has another type or size, kIncompatible where its log calls what this
  /// program does not have.
  template <class State>
  Object<State> object(std::string_view name, const ObjectOptions& options = {}) {
    static_assert(std::is_trivially_copyable_v<State>, "an object's state is copied as it lies");
    static_assert(alignof(State) <= 4096, "an object's state lies at the beginning of a page");
    static const State initial{};
    static const auto methods = detail::methods_of<State>(Methods<State>{});
    return Object<State>(open_object(name,
                                     {typeid(State).name(), sizeof(State), methods, &initial,
                                      FlexibleState<State>, detail::former_types<State>()},
                                     options));
  }
  /// It is gone for good when this returns, with what was deferred and has not run, which does not
  /// run any more; its space is free, in an overflow store as well. Throws Error: kNotFound;
  /// kMisuse where there is an Object of it, here or in a process that shares it, and then it
  /// stays, also when that has gone: call this again.
  void remove(std::string_view name);
  std::vector<ObjectDescription> list() const;
  /// How often objects have moved: often, where those that are used do not fit.
  ObjectMoves moves() const;
  /// How many calls of a caller are durable, of all objects that are open and have a history.
  std::uint64_t recorded(std::uint32_t potid) const;
  /// All that was deferred is durable, or an Error says why not; nothing is open any more.
  void close();

 private:
  explicit Objects(std::unique_ptr<detail::ObjectsRuntime> runtime);
  std::shared_ptr<detail::OpenObject> open_object(std::string_view name,
                                                  const detail::ObjectType& type,
                                                  const ObjectOptions& options);

  std::unique_ptr<detail::ObjectsRuntime> runtime_;
};

/// While it lives the calls of this thread are those of a caller that the program knows by a
/// number, in every run. Objects with a history (ObjectOptions::callers) count them: so a program
/// that was ended anywhere knows which of a caller's calls have happened, and goes on with the next
/// one. Calls of threads without one count as caller 0's.
///
///   perdura::Caller caller(objects, 7);
///   for (std::uint64_t i = caller.recorded(); i < count; ++i) hall.call<&Seats::reserve>(row(i));
class Caller {
 public:
  Caller(Objects& objects, std::uint32_t potid);
  ~Caller();
  Caller(const Caller&) = delete;

  /// Its calls that are durable, of all objects that are open and have a history. Where it deferred
  /// to one object and called another one, a crash may leave the later call without the one before.
  std::uint64_t recorded() const { return objects_.recorded(potid_); }
  /// Of one object. Throws Error: kMisuse where that has no history.
  template <class State>
  std::uint64_t recorded(const Object<State>& object) const {
    return detail::object_caller(object.open(), potid_).calls;
  }
  /// What the last of its calls of an object that is recorded was answered; nothing where there is
  /// none, or that answered something else.
  template <class Answer, class State>
  std::optional<Answer> last_answer(const Object<State>& object) const {
    static_assert(std::is_trivially_copyable_v<Answer>);
    const detail::CallerRecord record = detail::object_caller(object.open(), potid_);
    if (record.calls == 0 || record.answer_bytes != sizeof(Answer)) return std::nullopt;
    alignas(Answer) std::byte answer[sizeof(Answer)];
    std::memcpy(answer, record.answer, sizeof(Answer));
    return *reinterpret_cast<const Answer*>(answer);
  }

 private:
  const Objects& objects_;
  const std::uint32_t potid_;
  const std::uint32_t before_;
};

}  // namespace perdura
