// The interface of SIMPO (A Scalable In-Memory Persistent Object Framework, ACM TACO 15(1), 2018,
// Tables 5 and 6), on logged objects (perdura/objects.hpp, docs/simpo.md).
//
//   struct RowContext { int row; };
//   class Matrix : public POBase {
//    public:
//     Matrix() : POBase(10 * 50 * sizeof(int), 1) {}
//     void simpo_rowInc(int row) { defer<&rowInc>(RowContext{row}, row); }
//     int simpo_first(int row) { return inst<&first>(RowContext{row}, row); }
//    private:
//     static void rowInc(void* poroot, const RowContext& context);
//     static int first(void* poroot, const RowContext& context);
//   };
//
// Persistent functions are of the object's memory, which is at `poroot`, and a context that is
// logged: trivially copyable, of at most 1 MiB. Those that are deferred return nothing, use nothing
// else, and run later, in any thread. Those that are instant run in the thread that called, and
// answer with at most 48 bytes; they may use other variables, but not what decides what the object
// becomes: after a crash they run again in another process. Neither throws, calls an object, or
// waits for a lock that is held around calls. What is stored in the object outside of them is not
// durable.
//
// The first call opens the program's own store: one for each executable and user, in
// $XDG_STATE_HOME/perdura or ~/.local/state/perdura. PERDURA_STORE names another by its URI, which
// is not on memcached; PERDURA_CALLERS says how many threads the objects that are made keep a
// history of (128, a power of two). With PERDURA_HISTORY=all they keep all calls, each in
// PERDURA_ARCHIVE bytes (16 MiB): then a deterministic program is run again from its beginning, and
// calls that are recorded are answered as they were, and not run again. With PERDURA_SAME_BUILD set
// nothing runs that another build of the program has logged.
//
// An object is there until it is freed: by the last destructor or pofree of those who made it. So
// it outlives crashes, _exit, and exit of a program that has not destroyed it, where what was
// deferred since the last instant is lost.
//
// Numbers of objects and threads are the program's, any but 0. Where POBase, pocreate or
// pthread_create_simpo is told 0 one is made of the call stack, as modules with offsets in them, of
// the calling thread's own number, and of how often that came here before: the same in each run of
// the same build, and negative. A program that chooses its own takes positive ones: a negative one
// may be made elsewhere.
//
// POBase throws perdura::Error. The functions return NULL or a negative perdura_code; then
// perdura_last_error() gives a sentence. All may be called from any thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <typeinfo>

#include <perdura/perdura.h>
#include <perdura/detail/attributes.hpp>
#include <perdura/objects.hpp>

/// Of a call that works on all of an object.
inline constexpr int ALL = -1;

extern "C" {

/// The memory of the object of this number: of a new one zeros; of one that is there what it holds,
/// of at least `size` bytes. -PERDURA_TYPE_MISMATCH where it has less.
void* pocreate(int poid, std::size_t size);
/// It has `size` bytes, durably, with what it held, and zeros behind that; after a crash before it
/// returns, that or what it was. Its memory moves, and poroot with it in the POBases that it has:
/// nobody may use it meanwhile but by calls. -PERDURA_NOT_FOUND where there is none.
void* porealloc(int poid, std::size_t size);
/// One less uses it; the last one frees it. Also what nobody has used since a crash.
int pofree(int poid);
/// pthread_create; calls of the new thread are those of `potid`.
int pthread_create_simpo(pthread_t* thread, const pthread_attr_t* attr,
                         void* (*start_routine)(void*), void* arg, int potid);

/// Beyond the paper: the number of this thread, 0 where it has none; calls of all such are 0's.
int potid_self(void);
/// Beyond the paper: how many calls of the object by the threads of that number are durable, since
/// it was made. A program that was started again goes on with the next one. The object is in use.
long long porecorded(int poid, int potid);

}  // extern "C"

namespace perdura::detail {

/// A persistent function. Each is one static object, so that all of a program are known before main
/// begins, and recovery finds those that the log calls.
class SimpoFunction {
 public:
  SimpoFunction(const ObjectMethod& method, const void* code) noexcept;
  SimpoFunction(const SimpoFunction&) = delete;

  const ObjectMethod method;
  const void* const code;               ///< two of a name are the same where this is
  const SimpoFunction* before;          ///< that was made before it
  mutable std::atomic<int> number{-1};  ///< among those that objects can have; -1: not asked yet
};

template <auto F, class C, bool kIsInstant>
struct SimpoTag {};

template <auto F, class C, bool kIsInstant, auto... Said>
struct SimpoFunctionOf {
  static_assert(std::is_pointer_v<decltype(F)> && std::is_invocable_v<decltype(F), void*, const C&>,
                "a persistent function is a function of (void* poroot, const C& context)");
  static_assert(std::is_trivially_copyable_v<C>, "a context is logged: trivially copyable");
  static_assert(sizeof(C) <= std::size_t{1} << 20, "a context has at most 1 MiB");
  using Result = std::invoke_result_t<decltype(F), void*, const C&>;
  static_assert(std::is_void_v<Result> || kIsInstant, "a function that answers is instant");
  static_assert(std::is_void_v<Result> || std::is_trivially_copyable_v<Result>,
                "an instant function answers with what is trivially copyable");
  static constexpr std::size_t kResultBytes = [] {
    if constexpr (std::is_void_v<Result>) return std::size_t{0};
    else return sizeof(Result);
  }();
  static_assert(kResultBytes <= sizeof CallerRecord::answer,
                "an instant function answers with at most 48 bytes");
  static constexpr auto kFormerly = former_names<Said...>();
  static_assert(kFormerly.size() == sizeof...(Said),
                "what is said of a persistent function is formerly()");

  static void run(void* poroot, const void* context, void* result) noexcept {
    if constexpr (alignof(C) <= alignof(std::uint64_t)) {  // as entries are
      answer(poroot, *static_cast<const C*>(context), result);
    } else {
      alignas(C) std::byte aligned[sizeof(C)];
      std::memcpy(aligned, context, sizeof(C));
      answer(poroot, *reinterpret_cast<const C*>(aligned), result);
    }
  }

  static inline const SimpoFunction function{{.name = typeid(SimpoTag<F, C, kIsInstant>).name(),
                                              .context_bytes = sizeof(C),
                                              .result_bytes = kResultBytes,
                                              .run = &run,
                                              .join = nullptr,
                                              .accepts = nullptr,
                                              .commutes = false,
                                              .own_thread = kIsInstant,
                                              .formerly = kFormerly,
                                              .code = reinterpret_cast<const void*>(F)},
                                             reinterpret_cast<const void*>(F)};

 private:
  static void answer(void* poroot, const C& context, [[maybe_unused]] void* result) {
    if constexpr (std::is_void_v<Result>) {
      F(poroot, context);
    } else {
      const Result value = F(poroot, context);
      if (result != nullptr) std::memcpy(result, &value, sizeof value);
    }
  }
};

void simpo_defer(OpenObject& object, const SimpoFunction& function, int dhint,
                 std::span<const std::byte> context);
void simpo_call(OpenObject& object, const SimpoFunction& function, int dhint,
                std::span<const std::byte> context, void* result);

}  // namespace perdura::detail

/// What a persistent class begins with. All that it keeps is in the memory at poroot, of constant
/// size; its functions get that address, and need no object of the class.
class POBase {
 public:
  /// The object of this number, made of `size` bytes of zeros where there is none (pocreate).
  explicit POBase(int size, int poid = 0);
  /// pofree. Where that fails the object stays.
  virtual ~POBase();
  POBase(const POBase&) = delete;
  POBase& operator=(const POBase&) = delete;

  /// All that was called before is durable, and has run.
  void sync();

 protected:
  /// Beyond the paper: the object's number, for porealloc where it was made.
  int poid() const { return poid_; }

  void* poroot;

  /// F(poroot, context) runs at some time after all that was called before; it is durable with the
  /// next inst or sync of the object. Beyond the paper: where F had another name when calls of it
  /// were logged, one of the places that call it says so, by defer<&F, perdura::formerly("…")>.
  template <auto F, auto... Said, class C>
  void defer(const C& context, int dhint = ALL) {
    perdura::detail::simpo_defer(*object_,
                                 perdura::detail::SimpoFunctionOf<F, C, false, Said...>::function,
                                 dhint, std::as_bytes(std::span(&context, 1)));
  }
  /// What F(poroot, context) answers, durable with all that was called before. As with defer.
  template <auto F, auto... Said, class C>
  auto inst(const C& context, int dhint = ALL) {
    using Function = perdura::detail::SimpoFunctionOf<F, C, true, Said...>;
    const auto call = [&](void* result) {
      perdura::detail::simpo_call(*object_, Function::function, dhint,
                                  std::as_bytes(std::span(&context, 1)), result);
    };
    if constexpr (std::is_void_v<typename Function::Result>) {
      call(nullptr);
    } else {
      alignas(typename Function::Result) std::byte answer[sizeof(typename Function::Result)];
      call(answer);
      return *reinterpret_cast<const typename Function::Result*>(answer);
    }
  }

 private:
  int poid_;
  std::shared_ptr<perdura::detail::OpenObject> object_;
};
