// The C surface: exceptions become negative codes and a sentence.
#include <perdura/perdura.h>
#include <cstring>

#include <string>

#include <perdura/store.hpp>

#include "base/mutant.hpp"
#include "store/c_error.hpp"
#include "store/runtime.hpp"
#include "track/compiled_reports.hpp"

struct perdura_store {
  perdura::Store store;
};

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

Options options_of(const perdura_options* options) {
  Options chosen;
  if (options == nullptr) return chosen;
  chosen.create = options->must_exist == 0;
  chosen.tracking = enum_of<Tracking>(options->tracking);
  if (options->region_limit_bytes != 0) chosen.region_limit_bytes = options->region_limit_bytes;
  chosen.region_address = options->region_address;
  chosen.log_limit_bytes = options->log_limit_bytes;
  chosen.aliases = options->aliases;
  if (options->chunk_bytes != 0) chosen.chunk_bytes = options->chunk_bytes;
  chosen.engine = enum_of<Engine>(options->engine);
  if (options->versions_kept != 0) chosen.versions_kept = options->versions_kept;
  if (options->over_provisioning != 0) chosen.over_provisioning = options->over_provisioning;
  chosen.version = options->version;
  chosen.capture = enum_of<Capture>(options->capture);
  if (options->region != nullptr) chosen.region = options->region;
  chosen.verify = enum_of<Verify>(options->verify);
  chosen.confirm_versions = options->confirm_versions != 0;
  chosen.read_only = options->read_only != 0;
  chosen.on_damage = enum_of<OnDamage>(options->on_damage);
  return chosen;
}

}  // namespace perdura::detail

using perdura::detail::c_call;
using perdura::detail::pointer_of;
using perdura::detail::required;

namespace {
// What allocates, or gives back, in a transaction of C is part of it, also before its first word.
perdura::Store& joined(perdura_store* store) {
  if (const auto* const transactions =
          perdura::detail::c_transactions.load(std::memory_order_relaxed))
    transactions->join(store->store.runtime());
  return store->store;
}

const char* required_name(const char* name) {
  if (name == nullptr) throw perdura::Error(perdura::Code::kInvalidArgument, "a root needs a name");
  return name;
}
}  // namespace

extern "C" {

int perdura_open(const char* uri, const perdura_options* options, perdura_store** store) {
  return c_call([&] {
    if (uri == nullptr || store == nullptr)
      throw perdura::Error(perdura::Code::kInvalidArgument, "perdura_open needs a URI and a store");
    *store = new perdura_store{perdura::Store::open(uri, perdura::detail::options_of(options))};
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

int perdura_get_statistics(perdura_store* store, perdura_statistics* statistics) {
  return c_call([&] {
    if (statistics == nullptr)
      throw perdura::Error(perdura::Code::kInvalidArgument, "statistics need a place");
    const perdura::Statistics all = store->store.statistics();
    *statistics = {.durable_version = all.durable_version,
                   .replayed_version = all.replayed_version,
                   .checkpoints = all.checkpoints,
                   .failed_checkpoints = all.failed_checkpoints,
                   .checkpoint_ns = all.checkpoint_ns,
                   .changed_bytes = all.changed_bytes,
                   .log_bytes = all.log_bytes,
                   .log_live_bytes = all.log_live_bytes,
                   .log_capacity_bytes = all.log_capacity_bytes,
                   .log_limit_bytes = all.log_limit_bytes,
                   .log_waits = all.log_waits,
                   .home_bytes = all.home_bytes,
                   .side_copies = all.side_copies,
                   .region_backed_bytes = all.region_backed_bytes,
                   .pause_count = all.pause_count,
                   .pause_p99_ns = all.pause_p99_ns,
                   .pause_max_ns = all.pause_max_ns,
                   .verified_bytes = all.verified_bytes,
                   .damaged_pages = all.damaged_pages,
                   .recovery_ns = all.recovery_ns,
                   .unreported = all.unreported,
                   .tracking = static_cast<perdura_tracking>(all.tracking),
                   .aliases = all.aliases,
                   .confirmed_version = all.confirmed_version,
                   .pinned_version = all.pinned_version};
  });
}

uint64_t perdura_durable_version(perdura_store* store) { return store->store.durable_version(); }

const char* perdura_last_error(void) { return last_error.c_str(); }
int perdura_last_code(void) { return last_code; }

}  // extern "C"
