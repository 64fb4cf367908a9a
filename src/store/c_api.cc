// The C surface: exceptions become negative codes and a sentence.
#include <perdura/perdura.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/mutant.hpp"
#include "store/c_error.hpp"
#include "store/c_store.hpp"
#include "store/runtime.hpp"
#include "track/compiled_reports.hpp"

namespace {

thread_local std::string last_error;
thread_local int last_code = 0;

}  // namespace

namespace perdura::detail {

int keep_error(Code code, const char* message) noexcept {
  last_code = static_cast<int>(code);
  try {
    last_error = message;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return -last_code;
}

const perdura_type& required(const perdura_type* type) {
  if (type == nullptr) throw Error(Code::kInvalidArgument, "an object needs a type");
  return *type;
}

const char* required_name(const char* name) {
  if (name == nullptr) throw Error(Code::kInvalidArgument, "a root needs a name");
  return name;
}

Store& joined(perdura_store* store) {
  if (const CTransactions* const transactions = c_transactions.load(std::memory_order_relaxed))
    transactions->join(store->store.runtime());
  return store->store;
}

namespace {

// An enumeration in C holds any number, which is for the options to refuse. Read as what it is in
// C++ such a number would be undefined.
template <class Enum, class InC>
Enum enum_of(const InC& value) {
  int number = 0;
  static_assert(sizeof value == sizeof number);
  std::memcpy(&number, &value, sizeof number);
  return static_cast<Enum>(number);
}

}  // namespace

namespace {

// What a perdura_options was first ends where its second version begins.
static_assert(offsetof(perdura_options, granule_bytes) == kFirstOptionsBytes);

// As this library knows them. Fields that it does not know must be 0: a program that asks for what
// it will not get is told.
perdura_options known(const perdura_options& options, size_t bytes) {
  if (bytes < kFirstOptionsBytes)
    throw Error(Code::kInvalidArgument, "perdura_options of " + std::to_string(bytes) +
                                            " bytes are none; hand over sizeof(perdura_options)");
  perdura_options all{};
  std::memcpy(&all, &options, std::min(bytes, sizeof all));
  const auto* const begin = reinterpret_cast<const unsigned char*>(&options);
  if (bytes > sizeof all &&
      std::any_of(begin + sizeof all, begin + bytes, [](unsigned char each) { return each != 0; }))
    throw Error(Code::kUnsupported,
                "the program sets options in bytes " + std::to_string(sizeof all) + " to " +
                    std::to_string(bytes) +
                    " of perdura_options, which this libperdura does not know; run it with the one "
                    "that it was compiled for, or a newer one");
  return all;
}

EventListener listener_of(const perdura_options& options) {
  if (options.on_event == nullptr) return {};
  return [call = options.on_event, user = options.on_event_user](const Event& event) {
    const std::string store(event.store);
    const std::string message(event.message);
    const perdura_event told{.kind = static_cast<perdura_event_kind>(event.kind),
                             .code = static_cast<int>(event.code),
                             .store = store.c_str(),
                             .message = message.c_str(),
                             .durable_version = event.durable_version};
    call(&told, user);
  };
}

template <class Number>
void take(Number wanted, Number& chosen) {
  if (wanted != 0) chosen = wanted;
}
template <class Number>
void take(Number wanted, Number none, Number& chosen) {
  if (wanted != 0) chosen = wanted == none ? 0 : wanted;
}

}  // namespace

// The names are all fields of Options, in their order: one that is added does not compile here
// until C has it.
Options options_of(const perdura_options* given, std::size_t bytes) {
  Options chosen;
  if (given == nullptr) return chosen;
  const perdura_options options = known(*given, bytes);
  auto& [create, region, tracking, capture, granule_bytes, aliases, chunk_bytes, engine,
         versions_kept, over_provisioning, whole_chunks, read_only, version, compare,
         region_limit_bytes, region_address, log_limit_bytes, log_segment_bytes, verify_reports,
         strict, lazy_recovery, verify, on_damage, verify_bytes_per_second, confirm_versions,
         huge_pages, allow_network_filesystem, drain, drain_bytes_per_second, drain_wait_ms,
         on_event] = chosen;
  create = options.must_exist == 0;
  if (options.region != nullptr) region = options.region;
  tracking = enum_of<Tracking>(options.tracking);
  capture = enum_of<Capture>(options.capture);
  take(options.granule_bytes, granule_bytes);
  aliases = options.aliases;
  take(options.chunk_bytes, chunk_bytes);
  engine = enum_of<Engine>(options.engine);
  take(options.versions_kept, versions_kept);
  take(options.over_provisioning, PERDURA_NO_OVER_PROVISIONING, over_provisioning);
  whole_chunks = options.whole_chunks != 0;
  read_only = options.read_only != 0;
  version = options.version;
  compare = options.no_compare == 0;
  take(options.region_limit_bytes, region_limit_bytes);
  region_address = options.region_address;
  log_limit_bytes = options.log_limit_bytes;
  take(options.log_segment_bytes, log_segment_bytes);
  verify_reports = options.verify_reports != 0;
  strict = options.strict != 0;
  lazy_recovery = options.no_lazy_recovery == 0;
  verify = enum_of<Verify>(options.verify);
  on_damage = enum_of<OnDamage>(options.on_damage);
  take(options.verify_bytes_per_second, std::uint64_t{PERDURA_NO_BACKGROUND_VERIFICATION},
       verify_bytes_per_second);
  confirm_versions = options.confirm_versions != 0;
  huge_pages = options.no_huge_pages == 0;
  allow_network_filesystem = options.allow_network_filesystem != 0;
  if (options.drain != nullptr) drain = options.drain;
  drain_bytes_per_second = options.drain_bytes_per_second;
  take(options.drain_wait_ms, std::uint32_t{PERDURA_NO_DRAIN_WAIT}, drain_wait_ms);
  on_event = listener_of(options);
  return chosen;
}

}  // namespace perdura::detail

using perdura::detail::c_call;
using perdura::detail::joined;
using perdura::detail::pointer_of;
using perdura::detail::required;
using perdura::detail::required_name;

namespace {
// All fields of Statistics: one that is added does not compile here until C has it.
perdura_statistics statistics_of(const perdura::Statistics& statistics) {
  const auto& [durable_version, replayed_version, confirmed_version, pinned_version, checkpoints,
               failed_checkpoints, checkpoint_ns, changed_bytes, log_bytes, log_live_bytes,
               log_capacity_bytes, log_limit_bytes, log_waits, home_bytes, side_copies,
               region_backed_bytes, pause_count, pause_p99_ns, pause_max_ns, verified_bytes,
               damaged_pages, recovery_ns, unreported, tracking, aliases, late_checkpoints,
               stop_waits, stop_wait_ns, log_wait_ns, checkpoint_waits, checkpoint_wait_ns,
               group_waits, group_wait_ns, events, untyped_allocations, drained_version,
               drained_versions, drain_skipped, drain_read_bytes, drain_bytes, drain_failures] =
      statistics;
  return {.durable_version = durable_version,
          .replayed_version = replayed_version,
          .checkpoints = checkpoints,
          .failed_checkpoints = failed_checkpoints,
          .checkpoint_ns = checkpoint_ns,
          .changed_bytes = changed_bytes,
          .log_bytes = log_bytes,
          .log_live_bytes = log_live_bytes,
          .log_capacity_bytes = log_capacity_bytes,
          .log_limit_bytes = log_limit_bytes,
          .log_waits = log_waits,
          .home_bytes = home_bytes,
          .side_copies = side_copies,
          .region_backed_bytes = region_backed_bytes,
          .pause_count = pause_count,
          .pause_p99_ns = pause_p99_ns,
          .pause_max_ns = pause_max_ns,
          .verified_bytes = verified_bytes,
          .damaged_pages = damaged_pages,
          .recovery_ns = recovery_ns,
          .unreported = unreported,
          .tracking = static_cast<perdura_tracking>(tracking),
          .aliases = aliases,
          .confirmed_version = confirmed_version,
          .pinned_version = pinned_version,
          .late_checkpoints = late_checkpoints,
          .stop_waits = stop_waits,
          .stop_wait_ns = stop_wait_ns,
          .log_wait_ns = log_wait_ns,
          .checkpoint_waits = checkpoint_waits,
          .checkpoint_wait_ns = checkpoint_wait_ns,
          .group_waits = group_waits,
          .group_wait_ns = group_wait_ns,
          .events = events,
          .untyped_allocations = untyped_allocations,
          .drained_version = drained_version,
          .drained_versions = drained_versions,
          .drain_skipped = drain_skipped,
          .drain_read_bytes = drain_read_bytes,
          .drain_bytes = drain_bytes,
          .drain_failures = drain_failures};
}
constexpr size_t kFirstStatisticsBytes = offsetof(perdura_statistics, late_checkpoints);

perdura_heap_audit audit_of(const perdura::HeapAudit& audit) {
  const auto& [clean, problem, live_blocks, live_bytes, free_bytes, slabs, large_blocks,
               largest_free_bytes, roots, types] = audit;
  perdura_heap_audit all{.clean = clean ? 1 : 0,
                         .live_blocks = live_blocks,
                         .live_bytes = live_bytes,
                         .free_bytes = free_bytes,
                         .slabs = slabs,
                         .large_blocks = large_blocks,
                         .largest_free_bytes = largest_free_bytes,
                         .roots = roots,
                         .types = types,
                         .problem = {}};
  problem.copy(all.problem, sizeof all.problem - 1);
  return all;
}

// As much of it as the program knows; what it knows and this library does not is 0.
template <class All>
void put(const All& all, size_t least_bytes, All* into, size_t bytes, const char* what) {
  if (into == nullptr)
    throw perdura::Error(perdura::Code::kInvalidArgument, std::string(what) + " a place");
  if (bytes < least_bytes)
    throw perdura::Error(
        perdura::Code::kInvalidArgument,
        std::string(what) + " sizeof the structure, not " + std::to_string(bytes) + " bytes");
  std::memset(into, 0, bytes);
  std::memcpy(into, &all, std::min(bytes, sizeof all));
}

}  // namespace

extern "C" {

int perdura_open_sized(const char* uri, const perdura_options* options, size_t options_bytes,
                       perdura_store** store) {
  return c_call([&] {
    if (uri == nullptr || store == nullptr)
      throw perdura::Error(perdura::Code::kInvalidArgument, "perdura_open needs a URI and a store");
    *store = new perdura_store{
        perdura::Store::open(uri, perdura::detail::options_of(options, options_bytes))};
  });
}

int perdura_close(perdura_store* store) {
  if (store == nullptr) return 0;
  const int result = c_call([&] { store->store.close(); });
  if (result != -static_cast<int>(perdura::Code::kMisuse)) delete store;
  return result;
}

int perdura_region_remove(const char* uri, const char* region) {
  return c_call([&] {
    if (uri == nullptr || region == nullptr)
      throw perdura::Error(perdura::Code::kInvalidArgument,
                           "perdura_region_remove needs a URI and a name");
    perdura::Store::remove(uri, region);
  });
}

void* perdura_alloc(perdura_store* store, size_t size) {
  return perdura_aligned_alloc(store, 16, size);
}

void* perdura_aligned_alloc(perdura_store* store, size_t alignment, size_t size) {
  return pointer_of([&] { return joined(store).allocate(size, alignment); });
}

void* perdura_alloc_typed(perdura_store* store, const perdura_type* type, size_t count) {
  return pointer_of([&] { return joined(store).allocate(required(type), count); });
}

void* perdura_alloc_flexible(perdura_store* store, const perdura_type* type, size_t bytes) {
  return pointer_of([&] { return store->store.allocate_flexible(required(type), bytes); });
}

int perdura_type_expect(perdura_store* store, const perdura_type* type) {
  return c_call([&] { store->store.expect_type(required(type)); });
}

void* perdura_realloc(perdura_store* store, void* block, size_t size) {
  return pointer_of([&] { return store->store.reallocate(block, size); });
}

int perdura_free(perdura_store* store, void* block) {
  return c_call([&] { joined(store).deallocate(block); });
}

size_t perdura_usable_size(perdura_store* store, const void* block) {
  size_t size = 0;
  return c_call([&] { size = store->store.usable_size(block); }) == 0 ? size : 0;
}

int perdura_root_set(perdura_store* store, const char* name, void* object) {
  return c_call([&] { store->store.set_root(required_name(name), object); });
}

void* perdura_root_get(perdura_store* store, const char* name) {
  return pointer_of([&] { return store->store.get_root(required_name(name)); });
}

void perdura_touch(perdura_store* store, const void* address, size_t length) {
  const int result = c_call([&] { store->store.touch(address, length); });
  (void)result;  // only a forked child fails here, and its region is gone
}

int perdura_operation_begin(perdura_store* store) {
  return c_call([&] {
    perdura::detail::Runtime& runtime = store->store.runtime();
    perdura::value_or_throw(runtime.usable());
    perdura::detail::enter(runtime.mutators().this_thread());
  });
}

void perdura_operation_end(perdura_store* store) {
  const int result = c_call([&] {
    auto& mutator =
        static_cast<perdura::track::MutatorSlot&>(store->store.runtime().mutators().this_thread());
    // The outermost one may be a transaction itself, or have been begun by a compiled store.
    const bool is_polled = mutator.reports != nullptr && mutator.reports->is_polled(mutator);
    const unsigned others = mutator.in_transaction || is_polled ? 1 : 0;
    if (mutator.depth.load(std::memory_order_relaxed) <= others &&
        !perdura::is_mutant("unbalanced_end"))
      throw perdura::Error(perdura::Code::kMisuse,
                           "perdura_operation_end without perdura_operation_begin in this thread; "
                           "nothing was ended");
    perdura::detail::leave(mutator);
  });
  (void)result;  // is what perdura_last_code says
}

int perdura_checkpoint(perdura_store* store, uint64_t* version) {
  return c_call([&] {
    const uint64_t made = store->store.checkpoint();
    if (version != nullptr) *version = made;
  });
}

int perdura_checkpoint_root(perdura_store* store, const char* name, uint64_t* version) {
  return c_call([&] {
    if (name == nullptr)
      throw perdura::Error(perdura::Code::kInvalidArgument, "a root needs a name");
    const uint64_t made = store->store.checkpoint_root(name);
    if (version != nullptr) *version = made;
  });
}

int perdura_checkpoint_async(perdura_store* store, uint64_t* version) {
  return c_call([&] {
    const uint64_t begun = store->store.checkpoint_async();
    if (version != nullptr) *version = begun;
  });
}

int perdura_wait(perdura_store* store, uint64_t version) {
  return c_call([&] { store->store.wait(version); });
}

int perdura_checkpoint_every(perdura_store* store, uint32_t milliseconds) {
  return c_call([&] { store->store.checkpoint_every(std::chrono::milliseconds(milliseconds)); });
}

int perdura_get_statistics_sized(perdura_store* store, perdura_statistics* statistics,
                                 size_t statistics_bytes) {
  return c_call([&] {
    put(statistics_of(store->store.statistics()), kFirstStatisticsBytes, statistics,
        statistics_bytes, "statistics need");
  });
}

int perdura_reset_statistics(perdura_store* store) {
  return c_call([&] { store->store.reset_statistics(); });
}

int perdura_audit_sized(perdura_store* store, perdura_heap_audit* audit, size_t audit_bytes) {
  return c_call([&] {
    put(audit_of(store->store.audit()), sizeof(perdura_heap_audit), audit, audit_bytes,
        "an audit needs");
  });
}

uint64_t perdura_durable_version(perdura_store* store) { return store->store.durable_version(); }

uint64_t perdura_drained_version(perdura_store* store) {
  return store->store.durable_version(perdura::Where::kDrain);
}

int perdura_backup(perdura_store* store, const char* uri, uint64_t bytes_per_second,
                   uint64_t* version) {
  return c_call([&] {
    if (uri == nullptr)
      throw perdura::Error(perdura::Code::kInvalidArgument, "perdura_backup needs a URI, not NULL");
    const std::uint64_t made = store->store.backup(
        uri, {.bytes_per_second = bytes_per_second, .versions_kept = 0, .adopts = false});
    if (version != nullptr) *version = made;
  });
}

// What programs call that were compiled before sizes were handed over: in this file the names are
// those of the inline functions, which are not to be called here.
int perdura_open_first(const char* uri, const perdura_options* options,
                       perdura_store** store) __asm__("perdura_open");
int perdura_open_first(const char* uri, const perdura_options* options, perdura_store** store) {
  return perdura_open_sized(uri, options, perdura::detail::kFirstOptionsBytes, store);
}
int perdura_get_statistics_first(perdura_store* store,
                                 perdura_statistics* statistics) __asm__("perdura_get_statistics");
int perdura_get_statistics_first(perdura_store* store, perdura_statistics* statistics) {
  return perdura_get_statistics_sized(store, statistics, kFirstStatisticsBytes);
}

const char* perdura_last_error(void) { return last_error.c_str(); }
int perdura_last_code(void) { return last_code; }

}  // extern "C"
