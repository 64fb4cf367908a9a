// SIMPO's interface on the objects of the program's own store: which persistent functions there
// are, and who uses which object.
#include <perdura/compat/simpo.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.hpp"
#include "model/object/objects_runtime.hpp"
#include "model/object/stack_identity.hpp"
#include "model/own_store.hpp"
#include "object/function_name.hpp"
#include "store/c_error.hpp"

namespace perdura {
namespace detail {
namespace {

constexpr char kSimpoType[] = "POBase";
constexpr u32 kSimpoCallers = 128;
constexpr int kRefused = std::numeric_limits<int>::max();

/// Grows while libraries are loaded.
constinit std::atomic<const SimpoFunction*> last_function{nullptr};

std::string object_name(int poid) { return "poid " + std::to_string(poid); }

// A lambda that is called as a function is not among its name's parts.
bool has_lasting_name(const SimpoFunction& function) {
  for (const char* each : {"4_FUN", "8__invoke"})
    if (std::strstr(function.method.name, each) != nullptr) return false;
  return object::has_lasting_name(function.method.name);
}

/// Of the environment; `otherwise` where it says nothing.
u64 number_in(const char* name, u64 otherwise, const char* kind, bool (*fits)(u64 number)) {
  const char* const text = environment(name);
  if (text == nullptr) return otherwise;
  u64 number = 0;
  const char* const end = text + std::strlen(text);
  if (const auto parsed = std::from_chars(text, end, number);
      parsed.ec != std::errc{} || parsed.ptr != end || !fits(number))
    throw Error(Code::kInvalidArgument, std::string(name) + " in the environment is " + kind +
                                            ", not '" + text + "'; set it so, or not at all");
  return number;
}

// What new objects keep of their calls.
void add_history(ObjectOptions& options) {
  const char* const text = environment("PERDURA_HISTORY");
  const std::string_view history = text == nullptr ? "last" : text;
  if (history != "last" && history != "all")
    throw Error(Code::kInvalidArgument,
                std::string("PERDURA_HISTORY in the environment is last or all, not '") + text +
                    "'; set it so, or not at all");
  options.history = history == "all" ? ObjectHistory::kAll : ObjectHistory::kLast;
  options.callers = static_cast<u32>(
      number_in("PERDURA_CALLERS", kSimpoCallers, "a power of two",
                [](u64 number) { return number >> 32 == 0 && std::has_single_bit(number); }));
  options.archive_bytes = number_in("PERDURA_ARCHIVE", options.archive_bytes, "a number of bytes",
                                    [](u64 number) { return number != 0; });
}

void refuse_in_method(const char* what) {
  if (object::InMethod::any())
    throw Error(Code::kMisuse, std::string("a persistent function calls ") + what +
                                   "; call it when that has returned");
}

/// The program's objects. Thread-safe.
class PersistentObjects {
 public:
  PersistentObjects()
      : runtime_(value_or_throw(
            ObjectsRuntime::open(own_store_uri(), {.create = true, .region = "simpo"}))) {}

  /// One more uses it; `root` is kept where its memory is, unless it is nullptr.
  std::shared_ptr<OpenObject> use(int poid, u64 bytes, void** root) {
    check_size(poid, bytes);
    std::lock_guard lock(mutex_);
    auto object = open(poid, bytes);
    User& users = users_[poid];
    if (root != nullptr) {
      users.roots.push_back(root);
      *root = address_of(*object);
    }
    ++users.count;
    return object;
  }
  void* address(int poid, u64 bytes) { return address_of(*use(poid, bytes, nullptr)); }

  void* resize(int poid, u64 bytes) {
    check_size(poid, bytes);
    std::lock_guard lock(mutex_);
    const std::string name = object_name(poid);
    const auto object = open(poid, required_bytes(name));
    value_or_throw(runtime_->resize(name, bytes));
    for (void** const root : users_[poid].roots) *root = address_of(*object);
    return address_of(*object);
  }

  /// The last one but `root`'s frees it.
  void release(int poid, void** root) {
    std::lock_guard lock(mutex_);
    User& users = users_[poid];
    if (root != nullptr) std::erase(users.roots, root);
    // Those of POBases end with these: where there is no other one it is refused.
    const bool is_anothers = root == nullptr && users.count == users.roots.size();
    if (users.count > 1 && !is_anothers) {
      --users.count;
      return;
    }
    value_or_throw(runtime_->remove(object_name(poid)));
    users_.erase(poid);
  }

  u64 recorded(int poid, u32 potid) {
    std::lock_guard lock(mutex_);
    const auto object = open(poid, required_bytes(object_name(poid)));
    return value_or_throw(object->core().caller(potid)).calls;
  }

  /// Among those that `object` has.
  size_t number_of(OpenObject& object, const SimpoFunction& function) {
    int number = function.number.load(std::memory_order_acquire);
    if (number >= 0 && object.has(static_cast<size_t>(number))) [[likely]]
      return static_cast<size_t>(number);
    std::lock_guard lock(mutex_);
    learn_functions();
    number = function.number.load(std::memory_order_relaxed);
    if (number == kRefused)
      throw Error(
          Code::kInvalidArgument,
          "persistent function " + object::function_text(function.method.name) +
              ", called of object '" + object.core().name() +
              "', has no name that only it has in this and later builds: it is a lambda, in "
              "an unnamed namespace, or there is another one; give it one");
    if (!object.has(static_cast<size_t>(number)))
      throw Error(Code::kMisuse,
                  "persistent function " + object::function_text(function.method.name) +
                      " was loaded when object '" + object.core().name() +
                      "' was in use; load its library, or begin main, before the object is made");
    return static_cast<size_t>(number);
  }

 private:
  struct User {
    u64 count = 0;
    std::vector<void**> roots;
  };

  // A POBase is told an int, which may be negative.
  void check_size(int poid, u64 bytes) const {
    if (bytes != 0 && bytes <= format::kObjectBytesMax) return;
    const auto asked = static_cast<std::int64_t>(bytes);
    throw Error(
        Code::kInvalidArgument,
        "object '" + object_name(poid) + "' of '" + runtime_->name() + "' can have 1 to " +
            std::to_string(format::kObjectBytesMax) + " bytes, not " +
            (asked < 0 && asked >= std::numeric_limits<int>::min() ? std::to_string(asked)
                                                                   : std::to_string(bytes)));
  }
  static void* address_of(OpenObject& object) {
    return const_cast<std::byte*>(object.core().state());
  }
  u64 required_bytes(const std::string& name) {
    const std::optional<u64> bytes = value_or_throw(runtime_->state_bytes(name));
    if (!bytes)
      throw Error(Code::kNotFound,
                  "the program's store '" + runtime_->name() + "' has no object '" + name + "'");
    return *bytes;
  }

  std::shared_ptr<OpenObject> open(int poid, u64 bytes) {
    const std::string name = object_name(poid);
    const std::optional<u64> found = value_or_throw(runtime_->state_bytes(name));
    learn_functions();
    std::vector<std::byte> zeros(found ? 0 : bytes);
    auto object = value_or_throw(runtime_->object(name,
                                                  {.name = kSimpoType,
                                                   .bytes = found.value_or(bytes),
                                                   .methods = methods_,
                                                   .initial = zeros.data()},
                                                  options()));
    // Of a program that is run again it may have the size of a later call already.
    if (found && *found < bytes && !object->core().is_answering())
      throw Error(Code::kTypeMismatch,
                  "object '" + name + "' of '" + runtime_->name() + "' has " +
                      std::to_string(*found) + " bytes, not the " + std::to_string(bytes) +
                      " that are asked for; porealloc makes it larger, pofree removes it");
    return object;
  }

  ObjectOptions options() const {
    ObjectOptions options;
    for (const ObjectMethod& each : methods_)
      options.log_bytes =
          std::max(options.log_bytes, std::bit_ceil(each.context_bytes + 2 * kPageBytes));
    add_history(options);
    options.same_build = environment("PERDURA_SAME_BUILD") != nullptr;
    return options;
  }

  // In the order in which they were made, so that those which are known keep their numbers.
  void learn_functions() {
    const SimpoFunction* const last = last_function.load(std::memory_order_acquire);
    std::vector<const SimpoFunction*> added;
    for (const SimpoFunction* each = last; each != learnt_; each = each->before)
      added.push_back(each);
    for (auto each = added.rbegin(); each != added.rend(); ++each) learn(**each);
    learnt_ = last;
  }
  // Of two that have one name neither can be called: the next build may take them the other way
  // round. One function that is called at several places has the former names that any of them
  // says.
  void learn(const SimpoFunction& function) {
    const auto same = std::ranges::find_if(functions_, [&](const SimpoFunction* each) {
      return std::string_view(each->method.name) == function.method.name;
    });
    int number = static_cast<int>(same - functions_.begin());
    if (!has_lasting_name(function)) {
      number = kRefused;
    } else if (same == functions_.end()) {
      methods_.push_back(function.method);
      functions_.push_back(&function);
      former_names_.emplace_back();
    } else if ((*same)->code != function.code) {
      number = kRefused;
      (*same)->number.store(number, std::memory_order_release);
    }
    if (number != kRefused) add_former_names(static_cast<size_t>(number), function);
    function.number.store(number, std::memory_order_release);
  }
  void add_former_names(size_t number, const SimpoFunction& function) {
    std::vector<const char*>& names = former_names_[number];
    names.insert(names.end(), function.method.formerly.begin(), function.method.formerly.end());
    methods_[number].formerly = names;
  }

  const std::unique_ptr<ObjectsRuntime> runtime_;
  std::mutex mutex_;
  std::map<int, User> users_;
  std::vector<ObjectMethod> methods_;  ///< by the numbers of functions
  std::vector<const SimpoFunction*> functions_;
  std::vector<std::vector<const char*>> former_names_;
  const SimpoFunction* learnt_ = nullptr;
};

// As with the other papers' interfaces: never closed, a failure is tried again by the next call.
PersistentObjects& persistent_objects() {
  static constinit MadeOnce<PersistentObjects> opened;
  return opened.get([] { return new PersistentObjects; });
}

int identify(MadeOnce<StackIdentities>& all, const void* returns_to) {
  return value_or_throw(
      all.get([] { return new StackIdentities; }).next(returns_to, current_caller));
}

int object_number(int poid, const void* returns_to) {
  static constinit MadeOnce<StackIdentities> all;
  return poid != 0 ? poid : identify(all, returns_to);
}

int thread_number(int potid, const void* returns_to) {
  static constinit MadeOnce<StackIdentities> all;
  return potid != 0 ? potid : identify(all, returns_to);
}

struct ThreadStart {
  void* (*routine)(void*);
  void* argument;
  int potid;
};

void* start_thread(void* with) {
  const ThreadStart start = *static_cast<ThreadStart*>(with);
  delete static_cast<ThreadStart*>(with);
  current_caller = static_cast<u32>(start.potid);
  return start.routine(start.argument);
}

}  // namespace

SimpoFunction::SimpoFunction(const ObjectMethod& of, const void* at) noexcept
    : method(of), code(at), before(last_function.load(std::memory_order_relaxed)) {
  while (!last_function.compare_exchange_weak(before, this, std::memory_order_release)) {
  }
}

void simpo_defer(OpenObject& object, const SimpoFunction& function, int dhint,
                 std::span<const std::byte> context) {
  object_defer(object, persistent_objects().number_of(object, function), Domain(dhint), context);
}

void simpo_call(OpenObject& object, const SimpoFunction& function, int dhint,
                std::span<const std::byte> context, void* result) {
  object_call(object, persistent_objects().number_of(object, function), Domain(dhint), context,
              result);
}

}  // namespace detail
}  // namespace perdura

namespace detail = perdura::detail;

POBase::POBase(int size, int poid)
    : poid_(detail::object_number(poid, __builtin_return_address(0))) {
  detail::refuse_in_method("POBase");
  object_ = detail::persistent_objects().use(poid_, static_cast<perdura::u64>(size), &poroot);
}

POBase::~POBase() {
  object_.reset();
  (void)detail::c_call([&] {
    detail::refuse_in_method("~POBase");
    detail::persistent_objects().release(poid_, &poroot);
  });
}

void POBase::sync() { detail::object_sync(*object_); }

extern "C" {

void* pocreate(int poid, size_t size) {
  const void* const returns_to = __builtin_return_address(0);
  return detail::pointer_of([&] {
    detail::refuse_in_method("pocreate");
    return detail::persistent_objects().address(detail::object_number(poid, returns_to), size);
  });
}

void* porealloc(int poid, size_t size) {
  return detail::pointer_of([&] {
    detail::refuse_in_method("porealloc");
    return detail::persistent_objects().resize(poid, size);
  });
}

int pofree(int poid) {
  return detail::c_call([&] {
    detail::refuse_in_method("pofree");
    detail::persistent_objects().release(poid, nullptr);
  });
}

int pthread_create_simpo(pthread_t* thread, const pthread_attr_t* attr,
                         void* (*start_routine)(void*), void* arg, int potid) {
  const void* const returns_to = __builtin_return_address(0);
  detail::ThreadStart* start = nullptr;
  if (detail::c_call([&] {
        start =
            new detail::ThreadStart{start_routine, arg, detail::thread_number(potid, returns_to)};
      }) != 0)
    return EAGAIN;
  const int failed = ::pthread_create(thread, attr, &detail::start_thread, start);
  if (failed != 0) delete start;
  return failed;
}

int potid_self(void) { return static_cast<int>(detail::current_caller); }

long long porecorded(int poid, int potid) {
  long long recorded = 0;
  const int failed = detail::c_call([&] {
    detail::refuse_in_method("porecorded");
    recorded = static_cast<long long>(
        detail::persistent_objects().recorded(poid, static_cast<perdura::u32>(potid)));
  });
  return failed != 0 ? failed : recorded;
}

}  // extern "C"
