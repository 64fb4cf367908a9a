#include "campaign/fault_session.hpp"

#include <string.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "format/memcached_format.hpp"
#include "support/lazy_medium.hpp"
#include "support/refusing_medium.hpp"

namespace perdura::test {
namespace {

/// Reports to the library count as its calls; what the test itself does, does not.
class LibraryOp {
 public:
  explicit LibraryOp(const WrappedStore::Op& op) : op_(op) {}
  void touch(const void* address, size_t length) const {
    in_library([&] { op_.touch(address, length); });
  }
  void* allocate(size_t size, size_t alignment = 16) const {
    return in_library([&] { return op_.allocate(size, alignment); });
  }
  void deallocate(void* block) const {
    in_library([&] { op_.deallocate(block); });
  }
  void set_root(const char* name, void* object) const {
    in_library([&] { op_.set_root(name, object); });
  }

 private:
  const WrappedStore::Op& op_;
};

void fill(u64* words, u64 count, u64 value) {
  for (u64 i = 0; i < count; ++i) words[i] = value + i;
}

u64 extras_in_use(const Extras& extras) {
  u64 count = 0;
  for (const auto& slot : extras.slots) count += slot.words != nullptr;
  return count;
}

std::string check_extras(const Extras& extras) {
  for (u64 i = 0; i < Extras::kSlots; ++i) {
    const auto& slot = extras.slots[i];
    for (u64 word = 0; slot.words != nullptr && word < slot.count; ++word)
      if (slot.words[word] != slot.value + word)
        return "word " + std::to_string(word) + " of block " + std::to_string(i) + " is " +
               std::to_string(slot.words[word]) + " instead of " +
               std::to_string(slot.value + word);
  }
  return {};
}

std::string check_object(const Object& object) {
  for (const u64 word : object.words)
    if (word != object.words[0])
      return "the object holds " + std::to_string(word) + " beside " +
             std::to_string(object.words[0]);
  return {};
}

std::string check_store(WrappedStore& store) {
  const auto* ledger = static_cast<const Ledger*>(store.get_root("ledger"));
  const auto* extras = static_cast<const Extras*>(store.get_root("extras"));
  const auto* object = static_cast<const Object*>(store.get_root("object"));
  const HeapAudit audit = store.audit();
  if (!audit.clean) return audit.problem;
  if (object != nullptr)
    if (std::string problem = check_object(*object); !problem.empty()) return problem;
  if (ledger == nullptr || extras == nullptr) return {};
  const u64 others = audit.roots + 1 + extras_in_use(*extras) + (object != nullptr ? 1 : 0);
  if (std::string problem = check_ledger(*ledger, audit, others); !problem.empty()) return problem;
  return check_extras(*extras);
}

/// The medium on a lost server, and what can be done.
bool names_loss(const std::string& text, const std::string& server) {
  const auto has = [&](const char* words) { return text.find(words) != text.npos; };
  return has(("'memcached://" + server + "/").c_str()) && (has("again") || has("it was restarted"));
}

bool names_error(const std::string& text, const CallFault& fault) {
  const auto has = [&](const char* words) { return text.find(words) != text.npos; };
  if (fault.error != 0) return has(::strerror(fault.error));
  if (fault.call == Call::kReceive) return has("closed the connection");
  return fault.call == Call::kPoll && (has("did not answer") || has(::strerror(ETIMEDOUT)));
}

/// Whether an exchange with a server is cut short: what was written then is not to be trusted.
bool cuts_exchanges(const Point& point) {
  if (point.of_medium) return false;
  const Call call = point.call.call;
  return point.loss != Loss::kNone || call == Call::kSend || call == Call::kReceive ||
         call == Call::kPoll;
}

constexpr char kClosedToAllUse[] = "is closed to all use since an earlier failure";

Session* losing = nullptr;

void raise_to(std::atomic<u64>& value, u64 to) {
  for (u64 seen = value; seen < to && !value.compare_exchange_weak(seen, to);) {
  }
}

}  // namespace

std::string Point::describe() const {
  if (of_medium)
    return "medium:" + std::to_string(medium.nth) + ":" +
           std::to_string(static_cast<int>(medium.kind) * 2 + medium.for_ever);
  if (loss != Loss::kNone)
    return std::string(loss == Loss::kStaysAway ? "killed before " : "restarted before ") +
           name_of(call.call) + ":" + std::to_string(call.nth);
  return std::string(name_of(call.call)) + ":" + std::to_string(call.nth) + ":" +
         std::to_string(call.error * 2 + call.for_ever);
}

Session::Session(const Scenario& scenario, std::string path, const Point* point, Outcome& outcome,
                 const ServerDesk* desk)
    : scenario_(scenario),
      path_(std::move(path)),
      point_(point),
      outcome_(outcome),
      desk_(desk),
      existed_(scenario.before != Before::kNothing) {
  if (scenario.no_direct_io) refuse_direct_io();
  if (point != nullptr && point->of_medium) plan_.arm(point->medium);
  CallFault call = point != nullptr ? point->call : CallFault{};
  if (point != nullptr && point->loss != Loss::kNone) {
    losing = this;
    call.before = [] { losing->lose_server(); };
  }
  arm_calls(point != nullptr && !point->of_medium ? &call : nullptr);
}

// In whatever thread of the library.
void Session::lose_server() {
  desk_->lose(point_->loss);
  server_lost_ = true;
}

std::string Session::uri() const {
  return std::string(scenario_.scheme) + ":" + path_ + scenario_.parameters;
}

void Session::problem(const std::string& text) {
  std::lock_guard lock(mutex_);
  if (problem_.empty()) problem_ = text;
}

// An error names its cause. Without any memory left not even an Error can be made.
std::string Session::last_words(const std::exception& error, std::optional<Code> code) {
  const std::string text = error.what();
  {
    std::lock_guard lock(mutex_);
    last_error_ = text;
    is_closed_ = is_closed_ || text.find(kClosedToAllUse) != text.npos;
  }
  if (point_ == nullptr) return "failed without a fault: " + text;
  if (!code) {
    const bool starved = !point_->of_medium && point_->call.call == Call::kAllocate &&
                         point_->call.for_ever &&
                         dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    return starved ? "" : "not an Error: " + text;
  }
  if (point_->of_medium)
    return text.find("injected fault") != text.npos || text.find("earlier") != text.npos
               ? ""
               : "an error does not name its cause: " + text;
  if (point_->loss != Loss::kNone)
    return names_loss(text, desk_->server().address())
               ? ""
               : "an error does not name the medium and what to do: " + text;
  if (point_->call.call == Call::kShortWrite) return "a short write is no failure: " + text;
  const bool named = *code == Code::kNoMemory || names_error(text, point_->call) ||
                     text.find("earlier") != text.npos;
  return named ? "" : "an error does not name its cause: " + text;
}

// --- what scenarios do -------------------------------------------------------------------------

void Session::open() {
  if (!store_ && ++openings_ > kOpeningsMax) return;
  if (!store_) {
    flushes_before_ = flushes_failed();
    const bool is_lost = server_lost_ && existed_ && !has_store(*desk_);
    Options chosen = scenario_.options;
    chosen.create = desk_ == nullptr || !existed_;
    attempt([&] {
      const std::string uri = this->uri();
      const detail::WrapMedium wrap = [&](std::unique_ptr<media::Medium> inner) {
        return plan_.wrap(scenario_.late_writes ? make_lazy(std::move(inner)) : std::move(inner));
      };
      in_library([&] { store_.emplace(uri, chosen, wrap); });
      if (is_lost) problem("a store was opened that the server had lost");
      existed_ = true;
      is_closed_ = false;
      ledger_ = static_cast<Ledger*>(store_->get_root("ledger"));
      extras_ = static_cast<Extras*>(store_->get_root("extras"));
    });
  }
  if (store_ && ledger_ == nullptr) attempt([&] { begin(); });
}

void Session::begin() {
  const auto library_op = in_library([&] { return store_->operation(); });
  const LibraryOp op(library_op);
  auto* ledger = make_ledger(op, 1);
  Extras* extras = nullptr;
  try {
    extras = static_cast<Extras*>(op.allocate(sizeof(Extras)));
    std::memset(static_cast<void*>(extras), 0, sizeof *extras);
    op.set_root("extras", extras);
    op.set_root("ledger", ledger);
  } catch (const std::exception&) {
    // A program undoes what it began.
    op.set_root("extras", nullptr);
    if (extras != nullptr) op.deallocate(extras);
    op.deallocate(ledger);
    throw;
  }
  ledger_ = ledger;
  extras_ = extras;
}

void Session::steps(u64 count, u64 shard) {
  for (u64 i = 0; i < count; ++i) {
    if (ledger_ == nullptr) open();
    if (ledger_ == nullptr) return;
    attempt([&] {
      const auto library_op = in_library([&] { return store_->operation(); });
      do_step(LibraryOp(library_op), *ledger_, shard);
    });
  }
}

void Session::exchange(u64 slot, u64 words, u64 alignment) {
  if (extras_ == nullptr) open();
  if (extras_ == nullptr) return;
  attempt([&] {
    const auto library_op = in_library([&] { return store_->operation(); });
    const LibraryOp op(library_op);
    auto* made =
        words != 0 ? static_cast<u64*>(op.allocate(words * sizeof(u64), alignment)) : nullptr;
    auto& place = extras_->slots[slot];
    u64* const old = place.words;
    op.touch(extras_, sizeof *extras_);
    place = {made, words, ++value_};
    fill(made, words, value_);
    ++extras_->changes;
    if (old != nullptr) op.deallocate(old);
  });
}

void Session::rewrite(u64 slot) {
  if (extras_ == nullptr) return;
  attempt([&] {
    const auto library_op = in_library([&] { return store_->operation(); });
    const LibraryOp op(library_op);
    auto& place = extras_->slots[slot];
    op.touch(extras_, sizeof *extras_);
    op.touch(place.words, place.count * sizeof(u64));
    place.value = ++value_;
    fill(place.words, place.count, place.value);
    ++extras_->changes;
  });
}

void Session::set_root(const char* name, bool present) {
  if (ledger_ == nullptr) return;
  attempt([&] {
    const auto library_op = in_library([&] { return store_->operation(); });
    LibraryOp(library_op).set_root(name, present ? static_cast<void*>(ledger_) : nullptr);
  });
}

void Session::write_object() {
  if (!store_) open();
  if (!store_) return;
  attempt([&] {
    const auto library_op = in_library([&] { return store_->operation(); });
    const LibraryOp op(library_op);
    const auto write = [&](Object& object) {
      std::fill(std::begin(object.words), std::end(object.words), ++value_);
    };
    if (auto* const there = static_cast<Object*>(store_->get_root("object")); there != nullptr) {
      op.touch(there, sizeof *there);
      return write(*there);
    }
    auto* const made = static_cast<Object*>(op.allocate(sizeof(Object)));
    write(*made);
    try {
      op.set_root("object", made);
    } catch (const std::exception&) {
      op.deallocate(made);
      throw;
    }
  });
}

void Session::checkpoint_object() {
  if (!store_) return;
  const auto* const object = static_cast<const Object*>(store_->get_root("object"));
  if (object == nullptr) return;
  attempt([&] {
    const u64 value = object->words[0];
    in_library([&] { value_or_throw(store_->runtime().checkpoint_root("object")); });
    raise_to(outcome_.acknowledged_object, value);
  });
}

// `server_lost`: before it was asked for.
void Session::note_acknowledged(const std::array<u64, Ledger::kShards>& steps, u64 changes,
                                bool server_lost) {
  bool is_more = changes > outcome_.acknowledged_changes;
  for (u64 i = 0; i < steps.size(); ++i) is_more = is_more || steps[i] > outcome_.acknowledged[i];
  if (server_lost && is_more && !has_store(*desk_))
    problem("a version was acknowledged after the server was lost");
  for (u64 i = 0; i < steps.size(); ++i) raise_to(outcome_.acknowledged[i], steps[i]);
  raise_to(outcome_.acknowledged_changes, changes);
}

void Session::take_checkpoint(bool async) {
  const bool server_lost = server_lost_;
  std::array<u64, Ledger::kShards> steps{};
  u64 changes = 0;
  if (ledger_ != nullptr) {
    for (u64 i = 0; i < steps.size(); ++i)
      steps[i] = std::atomic_ref(ledger_->shards[i].steps).load(std::memory_order_acquire);
    changes = extras_->changes;
  }
  in_library([&] {
    if (async) store_->wait(store_->checkpoint_async());
    else store_->checkpoint();
  });
  note_acknowledged(steps, changes, server_lost);
}

void Session::checkpoint() {
  if (store_) attempt([&] { take_checkpoint(false); });
}
void Session::checkpoint_async() {
  if (store_) attempt([&] { take_checkpoint(true); });
}

void Session::every(std::chrono::milliseconds interval) {
  if (store_) in_library([&] { store_->runtime().checkpointer().every(interval); });
}

void Session::threads(u64 count, u64 steps) {
  if (ledger_ == nullptr) open();
  if (ledger_ == nullptr) return;
  std::vector<std::thread> all;
  for (u64 shard = 0; shard < count; ++shard)
    all.emplace_back([&, shard] {
      const TestThread here;
      for (u64 i = 0; i < steps; ++i) {
        attempt([&] {
          const auto library_op = in_library([&] { return store_->operation(); });
          do_step(LibraryOp(library_op), *ledger_, shard);
        });
        if (i % 4 == shard) checkpoint();
      }
    });
  for (std::thread& thread : all) thread.join();
}

void Session::close() {
  if (!store_) return;
  const bool server_lost = server_lost_;
  std::array<u64, Ledger::kShards> steps{};
  u64 changes = 0;
  if (ledger_ != nullptr) {
    for (u64 i = 0; i < steps.size(); ++i) steps[i] = ledger_->shards[i].steps;
    changes = extras_->changes;
  }
  if (attempt([&] { in_library([&] { store_->close(); }); }))
    note_acknowledged(steps, changes, server_lost);
  in_library([&] { store_.reset(); });
  ledger_ = nullptr;
  extras_ = nullptr;
}

// --- what must hold ----------------------------------------------------------------------------

std::string Session::check_in_memory() {
  std::string problem = check_store(*store_);
  return problem.empty() ? "" : "in memory: " + problem;
}

std::string Session::finish() {
  outcome_.fired = plan_.fired() + calls_failed();
  const bool flush_failed = plan_.barrier_failed() || flushes_failed() != flushes_before_;
  disarm_calls();
  if (!plan_.barrier_failed()) plan_.disarm();
  if (!problem_.empty()) return problem_;
  if (server_lost_ && !has_store(*desk_)) return finish_without_server();
  if (store_) {
    if (std::string problem = check_in_memory(); !problem.empty()) return problem;
    if (flush_failed) {
      if (attempt([&] { take_checkpoint(true); }))
        return "a version was acknowledged after a failed flush";
    } else if (is_closed_) {
      change();
      if (attempt([&] { take_checkpoint(false); }) && extras_ != nullptr)
        return "a version was acknowledged after a lost connection";
    } else {
      // The first one may wait for a replay that met the fault, or notice that a connection is lost
      // since then, and report that.
      const auto again = [&] { take_checkpoint(false); };
      if (!attempt(again) && !attempt(again) && !is_closed_)
        return "two checkpoints failed after the fault was over: " + last_error_;
    }
    const u64 errors = outcome_.errors;
    close();
    // A replay that met the fault while it was there may say so only now.
    if (!flush_failed && !is_closed_ && outcome_.errors != errors &&
        last_error_.find("home image") == last_error_.npos)
      return "closing failed after the fault was over: " + last_error_;
    if (is_closed_ && !cuts_exchanges(*point_)) return "the medium closed itself: " + last_error_;
    if (!problem_.empty()) return problem_;
  }
  if (outcome_.fired != 0 && point_ != nullptr && !point_->of_medium &&
      point_->call.call == Call::kShortWrite && outcome_.errors != 0)
    return "short writes were reported as failures";
  return check_what_is_left(uri(), scenario_.options, outcome_, point_, desk_);
}

/// Something that no version has, without a new block.
void Session::change() {
  if (extras_ == nullptr) return;
  attempt([&] {
    const auto library_op = in_library([&] { return store_->operation(); });
    LibraryOp(library_op).touch(&extras_->changes, sizeof extras_->changes);
    ++extras_->changes;
  });
}

// The program has what it had, and nothing of it becomes durable.
std::string Session::finish_without_server() {
  if (store_) {
    if (std::string problem = check_in_memory(); !problem.empty()) return problem;
    for (const bool async : {false, true}) {
      change();
      if (extras_ != nullptr && attempt([&] { take_checkpoint(async); }))
        return "a version was acknowledged without the server";
    }
    const u64 errors = outcome_.errors;
    const bool changed = extras_ != nullptr;
    close();
    if (changed && outcome_.errors == errors) return "closing did not notice the lost server";
    if (!problem_.empty()) return problem_;
  }
  return check_what_is_left(uri(), scenario_.options, outcome_, point_, desk_);
}

bool Session::has_store(const ServerDesk& desk) {
  const std::string_view magic(reinterpret_cast<const char*>(format::kMemcachedMagic),
                               sizeof format::kMemcachedMagic);
  return desk.server().ask("mg perdura:state v\r\n").starts_with(magic);
}

namespace {

/// What is wrong with how a store that is lost is refused, or "".
std::string check_refusal(const std::string& uri, const Options& options, Code code,
                          const std::string& server) {
  try {
    WrappedStore store(uri, options);
    return "a store opened that the server had lost";
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() != code) return "a lost store is refused for another reason: " + text;
    return names_loss(text, server) ? "" : "an error does not say what to do: " + text;
  }
}

/// Whoever wants a new store gets one, with nothing in it.
std::string check_new_store(const std::string& uri, const Options& options) {
  WrappedStore store(uri, options);
  if (store.get_root("ledger") != nullptr) return "a new store holds what was lost";
  {
    const auto op = store.operation();
    op.set_root("ledger", make_ledger(op, 2));
  }
  store.checkpoint();
  store.close();
  return {};
}

}  // namespace

std::string Session::check_what_is_left(const std::string& uri, const Options& options,
                                        const Outcome& outcome, const Point* point,
                                        const ServerDesk* desk) {
  if (desk == nullptr || point == nullptr || point->loss == Loss::kNone || has_store(*desk))
    return reopen_and_check(uri, options, outcome);
  const std::string server = desk->server().address();
  if (point->loss == Loss::kStaysAway) {
    for (const bool create : {false, true}) {
      Options chosen = options;
      chosen.create = create;
      if (std::string problem = check_refusal(uri, chosen, Code::kIo, server); !problem.empty())
        return problem;
    }
    desk->lose(Loss::kComesBackEmpty);
  }
  Options existing = options;
  existing.create = false;
  std::string problem = check_refusal(uri, existing, Code::kNotFound, server);
  return problem.empty() ? check_new_store(uri, options) : problem;
}

std::string Session::reopen_and_check(const std::string& uri, const Options& options,
                                      const Outcome& outcome) {
  WrappedStore store(uri, options);
  if (std::string problem = check_store(store); !problem.empty())
    return "after opening again: " + problem;
  const auto* ledger = static_cast<const Ledger*>(store.get_root("ledger"));
  const auto* extras = static_cast<const Extras*>(store.get_root("extras"));
  for (u64 i = 0; i < Ledger::kShards; ++i) {
    const u64 steps = ledger != nullptr ? ledger->shards[i].steps : 0;
    if (steps < outcome.acknowledged[i])
      return "lost: step " + std::to_string(outcome.acknowledged[i]) + " of shard " +
             std::to_string(i) + " was acknowledged, " + std::to_string(steps) + " are left";
  }
  const u64 changes = extras != nullptr ? extras->changes : 0;
  if (changes < outcome.acknowledged_changes)
    return "lost: change " + std::to_string(outcome.acknowledged_changes) +
           " of the blocks was acknowledged, " + std::to_string(changes) + " are left";
  const auto* object = static_cast<const Object*>(store.get_root("object"));
  const u64 value = object != nullptr ? object->words[0] : 0;
  if (value < outcome.acknowledged_object)
    return "lost: " + std::to_string(outcome.acknowledged_object) +
           " was acknowledged in the object, " + std::to_string(value) + " is left";
  store.close();
  const auto problems = home_problems(store.runtime().volume());
  return problems.empty() ? "" : "after closing again: " + problems.front();
}

std::string Session::prepare(const Scenario& scenario, const std::string& path) {
  const TestThread here;
  const bool crashed = scenario.before != Before::kClosed;
  WrappedStore store(std::string(scenario.scheme) + ":" + path, scenario.options,
                     [&](std::unique_ptr<media::Medium> inner) {
                       std::unique_ptr<media::Medium> medium = std::move(inner);
                       if (crashed) medium = std::make_unique<RefusingMedium>(std::move(medium));
                       return medium;
                     });
  Ledger* ledger = nullptr;
  Extras* extras = nullptr;
  {
    const auto op = store.operation();
    ledger = make_ledger(op, 1);
    extras = static_cast<Extras*>(op.allocate(sizeof(Extras)));
    std::memset(static_cast<void*>(extras), 0, sizeof *extras);
    op.set_root("extras", extras);
    op.set_root("ledger", ledger);
    const u64 words = scenario.before == Before::kShortLog ? 512 : 48 * 1024;
    auto& slot = extras->slots[0];
    slot = {static_cast<u64*>(op.allocate(words * sizeof(u64))), words, 0};
    fill(slot.words, words, 0);
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 12; ++i) {
      const auto op = store.operation();
      do_step(op, *ledger, 0);
    }
    store.checkpoint();
  }
  if (crashed) {
    store.crash();
    return {};
  }
  store.close();
  return {};
}

}  // namespace perdura::test
