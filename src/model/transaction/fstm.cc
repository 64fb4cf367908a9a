// F-STM and HEAPO from C: conflicts leave through longjmp instead of exceptions.
#include <perdura/compat/fstm.h>
#include <perdura/compat/heapo.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/process.hpp"
#include "media/medium.hpp"
#include "model/own_store.hpp"
#include "model/transaction/transactions.hpp"
#include "store/c_error.hpp"

namespace perdura::detail {
namespace {

constexpr const char* kFirstObject = "heapo";
constexpr size_t kFirstBytes = 4096;
constexpr size_t kNameMax = 100;

/// The transaction of a thread.
struct Current {
  jmp_buf place{};  ///< where it begins
  bool started = false;
  Transactions::Restarts restarts;
  Transactions* all = nullptr;  ///< from the first word on
  TransactionContext* context = nullptr;
};

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "perdura: a transaction cannot go on: %s\n", why);
  std::abort();
}

// A thread that has transactions of C gets one: what a library may have of a thread's own memory is
// little where it is loaded while a program runs.
constinit thread_local Current* current_transaction = nullptr;

[[gnu::noinline]] Current& make_current() {
  struct Owner {
    ~Owner() {
      current_transaction = nullptr;  // a later destructor of the thread may have one of its own
      current.reset();
    }
    std::unique_ptr<Current> current;
  };
  static thread_local Owner owner;
  owner.current.reset(new (std::nothrow) Current);
  if (owner.current == nullptr) give_up("there is no memory for it");
  current_transaction = owner.current.get();
  return *current_transaction;
}

Current& current() {
  return current_transaction != nullptr ? *current_transaction : make_current();
}

// That of a thread that forked is the parent's.
[[maybe_unused]] const bool forgets_current_in_child = [] {
  at_fork_in_child([]() noexcept {
    if (current_transaction != nullptr) *current_transaction = {};
  });
  return true;
}();

/// The transaction's context, which begins with the first word's store.
TransactionContext& context_in(Current& tx, Runtime& runtime) {
  if (tx.context == nullptr) {
    Transactions& all = transactions_of(runtime);
    TransactionContext& context = all.prepare();
    all.enter(context, tx.restarts.count);
    tx.all = &all;
    tx.context = &context;
  } else if (tx.all != &transactions_of(runtime)) {
    give_up("its words lie in two heaps; a transaction is of one");
  }
  return *tx.context;
}

TransactionContext& context_at(Current& tx, const void* word) {
  if (!tx.started) give_up("TM_LOAD and TM_STORE need TM_START before them");
  Runtime* const runtime = runtime_holding(word);
  if (runtime == nullptr) give_up("a word lies in no store; allocate it with pos_malloc");
  return context_in(tx, *runtime);
}

/// Undo it, and go back to TM_START. In no handler: what is thrown ends before.
[[noreturn]] void begin_again(Current& tx, TransactionAgain::Why why) noexcept {
  TransactionContext& context = *std::exchange(tx.context, nullptr);
  tx.started = false;
  try {
    context.roll_back();
    tx.all->leave(context);
    tx.all->prepare_again(context, why, tx.restarts);
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  std::longjmp(tx.place, 1);
}

/// Runs a part of it; where it meets others, it begins again.
template <class Call>
auto part(Current& tx, Call&& call) -> decltype(call()) {
  TransactionAgain::Why why{};
  try {
    return call();
  } catch (const TransactionAgain& again) {
    why = again.why;
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  begin_again(tx, why);
}

/// For calls of C, which are parts of it that may fail.
constexpr CTransactions kCalls{
    .join =
        [](Runtime& runtime) {
          if (current_transaction == nullptr) return;  // the thread has had none
          Current& tx = *current_transaction;
          if (tx.started && tx.context == nullptr) context_in(tx, runtime);
        },
    .is_to_begin_again =
        [](const TransactionAgain& again) noexcept {
          const Current* const tx = current_transaction;
          return tx != nullptr && tx->context != nullptr && tx->context == again.thread;
        },
    .begin_again = [](TransactionAgain::Why why) noexcept { begin_again(current(), why); }};

void configure(const void* object, perdura_fstm_durability durability,
               perdura_fstm_logging logging) {
  constexpr Durability kDurabilities[] = {Durability::kNonTemporal, Durability::kRelaxed,
                                          Durability::kLazyBulk, Durability::kPerWrite,
                                          Durability::kNone};
  constexpr Logging kLoggings[] = {Logging::kRedo, Logging::kUndo};
  Runtime* const runtime = runtime_holding(object);
  if (runtime == nullptr)
    throw Error(Code::kInvalidArgument, "the object lies in no store; name one of a mapped heap");
  if (static_cast<size_t>(durability) >= std::size(kDurabilities) ||
      static_cast<size_t>(logging) >= std::size(kLoggings))
    throw Error(Code::kInvalidArgument, "no such durability or logging (perdura/compat/fstm.h)");
  Transactions& transactions = transactions_of(*runtime);
  transactions.set_durability(kDurabilities[durability]);
  transactions.set_logging(kLoggings[logging]);
}

// --- heaps ---------------------------------------------------------------------------------------

/// The heaps that are mapped.
struct Heaps {
  std::mutex mutex;
  std::map<std::string, Store, std::less<>> open;
};
Heaps& heaps() {
  static constinit PerProcess<Heaps> heaps;
  return heaps.get();
}

std::string uri_of(const char* name) {
  const size_t length = name == nullptr ? 0 : ::strnlen(name, kNameMax + 1);
  constexpr const char* kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  if (length == 0 || length > kNameMax || std::strspn(name, kAllowed) != length)
    throw Error(Code::kInvalidArgument, "a heap's name has 1 to 100 letters, digits, - and _");
  return media::uri_beside(own_store_uri(), std::string("-") + name);
}

void* map(const char* name, bool create) {
  const std::string uri = uri_of(name);
  Heaps& all = heaps();
  const std::lock_guard lock(all.mutex);
  if (all.open.contains(name))
    throw Error(Code::kMisuse, std::string("the heap '") + name + "' is mapped already");
  Options options;
  options.create = create;
  Store store = Store::open(uri, options);
  void* first = store.get_root(kFirstObject);
  if (first != nullptr && create)
    throw Error(Code::kMisuse, std::string("there is a heap '") + name +
                                   "' already; pos_map maps it, pos_delete removes it");
  if (first == nullptr) {
    {
      const auto operation = store.operation();
      first = operation.allocate(kFirstBytes, kPageBytes);
      store.touch(first, kFirstBytes);
      std::memset(first, 0, kFirstBytes);
      store.set_root(kFirstObject, first);
    }
    store.checkpoint();
  }
  all.open.emplace(name, std::move(store));
  return first;
}

auto find_mapped(const char* name) {
  const auto found = name == nullptr ? heaps().open.end() : heaps().open.find(name);
  if (found == heaps().open.end())
    throw Error(Code::kNotFound, std::string("the heap '") + (name == nullptr ? "" : name) +
                                     "' is not mapped; map it with pos_map");
  return found;
}

// Where the last checkpoint fails it is unmapped all the same.
void unmap(const char* name) {
  const std::lock_guard lock(heaps().mutex);
  const auto found = find_mapped(name);
  value_or_throw(found->second.runtime().require_outside_operation("pos_unmap"));
  heaps().open.extract(found).mapped().close();
}

void remove_heap(const char* name) {
  const std::string uri = uri_of(name);
  {
    const std::lock_guard lock(heaps().mutex);
    if (const auto found = heaps().open.find(name); found != heaps().open.end()) {
      value_or_throw(found->second.runtime().require_outside_operation("pos_delete"));
      heaps().open.erase(found);
    }
  }
  value_or_throw(media::remove_medium(uri));
}

Store& heap_of(const char* name) {
  const std::lock_guard lock(heaps().mutex);
  return find_mapped(name)->second;
}

}  // namespace
}  // namespace perdura::detail

using namespace perdura::detail;

extern "C" {

jmp_buf* perdura_fstm_begin(void) {
  Current& tx = current();
  if (tx.started) give_up("TM_START inside a transaction");
  tx.restarts = {};
  if (c_transactions.load(std::memory_order_relaxed) == nullptr) c_transactions = &kCalls;
  return &tx.place;
}

void perdura_fstm_start(void) { current().started = true; }

uint64_t perdura_fstm_load(const void* word) {
  Current& tx = current();
  return part(tx, [&] { return context_at(tx, word).load(static_cast<const uint64_t*>(word)); });
}

void perdura_fstm_store(void* word, uint64_t value) {
  Current& tx = current();
  part(tx, [&] { context_at(tx, word).store(static_cast<uint64_t*>(word), value); });
}

void perdura_fstm_commit(void) {
  Current& tx = current();
  if (!tx.started) give_up("TM_COMMIT needs TM_START before it");
  if (tx.context != nullptr) {
    part(tx, [&] { perdura::value_or_throw(tx.context->commit()); });
    tx.all->leave(*tx.context);
    part(tx, [&] { tx.all->finish(*tx.context); });
    tx.context = nullptr;
  }
  tx.started = false;
}

int perdura_fstm_configure(const void* object, perdura_fstm_durability durability,
                           perdura_fstm_logging logging) {
  return c_call([&] { configure(object, durability, logging); });
}

void* pos_create(const char* name) {
  return pointer_of([&] { return map(name, true); });
}

void* pos_map(const char* name) {
  return pointer_of([&] { return map(name, false); });
}

int pos_unmap(const char* name) {
  return c_call([&] { unmap(name); });
}

int pos_delete(const char* name) {
  return c_call([&] { remove_heap(name); });
}

void* pos_malloc(const char* name, size_t size) {
  return pointer_of([&]() -> void* {
    perdura::Store& store = heap_of(name);
    Current& tx = current();
    return tx.started ? context_in(tx, store.runtime()).allocate(size, 16) : store.allocate(size);
  });
}

int pos_free(const char* name, void* object) {
  return c_call([&] {
    perdura::Store& store = heap_of(name);
    Current& tx = current();
    if (tx.started) context_in(tx, store.runtime()).deallocate(object);
    else store.deallocate(object);
  });
}

}  // extern "C"
