// The C++ surface: failures become exceptions.
#include <perdura/store.hpp>

#include <cstring>
#include <exception>

#include "base/checksum.hpp"
#include "format/container_format.hpp"
#include "format/transaction_format.hpp"
#include "heap/migration.hpp"
#include "store/runtime.hpp"
#include "store/transaction_blocks.hpp"
#include "store/versions.hpp"

namespace perdura {
namespace {

// A heap call is a small operation of its own.
using track::InOperation;

void* allocate_by(detail::Mutator& mutator, std::size_t size, std::size_t alignment) {
  if (mutator.in_transaction) [[unlikely]]
    return store::blocks_of(mutator).allocate(size, alignment);
  auto& runtime = *static_cast<detail::Runtime*>(mutator.runtime);
  const InOperation operation(mutator);
  return value_or_throw(runtime.heap().allocate(mutator, size, alignment));
}

void deallocate_by(detail::Mutator& mutator, void* block) {
  if (mutator.in_transaction) [[unlikely]]
    return store::blocks_of(mutator).deallocate(block);
  auto& runtime = *static_cast<detail::Runtime*>(mutator.runtime);
  const InOperation operation(mutator);
  value_or_throw(runtime.heap().deallocate(mutator, block));
}

void refuse_in_transaction(const detail::Mutator& mutator, const char* call) {
  if (mutator.in_transaction)
    throw Error(Code::kMisuse, std::string(call) +
                                   " in a transaction could not be undone with it; call it outside "
                                   "of transactions");
}

// Roots that the library keeps in a store beside the program's.
void expect_own_name(std::string_view name) {
  if (name != format::kTransactionRoot && name != format::kContainerRoot) return;
  throw Error(Code::kInvalidArgument,
              "the root '" + std::string(name) + "' is the library's own; call yours otherwise");
}

}  // namespace

namespace detail {

void throw_closed() {
  throw Error(Code::kMisuse, "the store was closed, or moved to another object; open it again");
}

void RuntimeDeleter::operator()(Runtime* runtime) const noexcept {
  // A forked child has neither the threads nor the memory that tearing down would need.
  if (!runtime->usable()) return;
  runtime->require_outside_at_end(runtime->require_outside_operation("destroying it"));
  delete runtime;
}

std::uint64_t type_fingerprint(const char* mangled_name, std::size_t size, std::size_t alignment) {
  const u64 parts[] = {checksum(mangled_name, std::strlen(mangled_name)), size, alignment};
  return checksum(parts, sizeof parts) | 1;  // 0 means any type
}

std::uint64_t joined_fingerprint(std::uint64_t own, std::uint64_t contained) {
  const u64 parts[] = {own, contained};
  return checksum(parts, sizeof parts) | 1;
}

void* heap_of(Runtime& runtime) noexcept { return runtime.region().base(); }

void* container_heap(Runtime& runtime) {
  if (runtime.needs_reports())
    throw Error(
        Code::kUnsupported,
        "standard containers do not report what they store, and '" + runtime.name() +
            "' makes only reported stores durable; open it with a page tracker "
            "(Tracking::kAutomatic), use the containers of perdura::structures or structures of "
            "Field<T>, or compile the program with perdura-clang (Tracking::kCompiled)");
  return heap_of(runtime);
}

void* current_heap() {
  if (Runtime* runtime = only_or_current_runtime()) return container_heap(*runtime);
  throw Error(Code::kMisuse,
              "an allocator was made without a store, and there is not exactly one to choose; pass "
              "a Store, or begin an operation on the one you mean");
}

void* heap_allocate(void* heap, std::size_t size, std::size_t alignment) {
  Runtime* runtime = runtime_at(heap);
  if (runtime == nullptr)
    throw Error(Code::kMisuse, "a container's allocator belongs to a store that is not open");
  value_or_throw(runtime->usable());
  container_heap(*runtime);
  return allocate_by(runtime->mutators().this_thread(), size, alignment);
}

void heap_deallocate(void* heap, void* block) {
  Runtime* runtime = runtime_at(heap);
  if (runtime == nullptr)
    throw Error(Code::kMisuse, "a container's allocator belongs to a store that is not open");
  value_or_throw(runtime->usable());
  Mutator& mutator = runtime->mutators().this_thread();
  if (mutator.in_transaction) [[unlikely]]
    return store::blocks_of(mutator).deallocate_of_object(block);
  deallocate_by(mutator, block);
}

void report_address(const void* address, std::size_t length) {
  if (Mutator* const mutator = mutator_holding(address)) report(*mutator, address, length);
}

void* allocate_in(Mutator& mutator, std::size_t size, std::size_t alignment) {
  return allocate_by(mutator, size, alignment);
}

void* allocate_in(Mutator& mutator, const perdura_type& type, std::size_t bytes, bool zeroed) {
  if (mutator.in_transaction) [[unlikely]]
    return store::blocks_of(mutator).allocate_array(type, bytes);
  auto& runtime = *static_cast<Runtime*>(mutator.runtime);
  const InOperation operation(mutator);
  return value_or_throw(runtime.heap().allocate_array(mutator, type, bytes, zeroed));
}

void deallocate_in(Mutator& mutator, void* block) { deallocate_by(mutator, block); }

void throw_in_transaction(const char* what) {
  throw Error(Code::kMisuse, std::string(what) +
                                 " gives what others may change while it is looked at; in a "
                                 "transaction take a copy, as get() and str() do");
}

Transaction& transaction_of(Mutator& mutator) noexcept {
  return store::blocks_of(mutator).running();
}

}  // namespace detail

void* Operation::allocate(std::size_t size, std::size_t alignment) const {
  if (mutator_->in_transaction) [[unlikely]]
    return store::blocks_of(*mutator_).allocate(size, alignment);
  auto& runtime = *static_cast<detail::Runtime*>(mutator_->runtime);
  Result<void*> block = runtime.heap().allocate(*mutator_, size, alignment);
  if (!block) throw_failure(std::move(block).failure());
  return *block;
}

void* Operation::allocate(const perdura_type& type, std::size_t count) const {
  if (mutator_->in_transaction) return store::blocks_of(*mutator_).allocate(type, count);
  auto& runtime = *static_cast<detail::Runtime*>(mutator_->runtime);
  return value_or_throw(runtime.heap().allocate_typed(*mutator_, type, count));
}

void Operation::deallocate(void* block) const {
  if (mutator_->in_transaction) [[unlikely]]
    return store::blocks_of(*mutator_).deallocate(block);
  auto& runtime = *static_cast<detail::Runtime*>(mutator_->runtime);
  if (Status freed = runtime.heap().deallocate(*mutator_, block); !freed)
    throw_failure(std::move(freed).failure());
}

Store::Store(std::unique_ptr<detail::Runtime, detail::RuntimeDeleter> runtime) noexcept
    : runtime_(std::move(runtime)), key_(runtime_->mutators().key()) {}

Store Store::open(std::string_view uri, const Options& options) {
  auto runtime = value_or_throw(detail::Runtime::open(uri, options));
  return Store(std::unique_ptr<detail::Runtime, detail::RuntimeDeleter>(runtime.release()));
}

void Store::remove(std::string_view uri, std::string_view region) {
  value_or_throw(store::remove_region(uri, region, {}));
}

Store& Store::operator=(Store&& other) noexcept {
  if (this == &other) return *this;
  {
    const Store closing(std::move(*this));
  }
  runtime_ = std::move(other.runtime_);
  key_ = std::exchange(other.key_, kClosed);
  return *this;
}

Store::~Store() {
  if (!runtime_ || !runtime_->usable() || std::uncaught_exceptions() != 0) return;
  Status closed = runtime_->close();
  (void)closed;  // a destructor cannot report; close() does
}

void Store::close() {
  if (!runtime_) return;
  value_or_throw(runtime_->usable());
  Status closed = runtime_->close();
  if (!closed && closed.failure().code == Code::kMisuse) throw_failure(std::move(closed).failure());
  runtime_.reset();
  key_ = kClosed;
  if (!closed) throw_failure(std::move(closed).failure());
}

detail::Mutator& Store::register_thread() {
  value_or_throw(runtime().usable());
  return runtime().mutators().this_thread();
}

void* Store::allocate(std::size_t size, std::size_t alignment) {
  return allocate_by(mutator(), size, alignment);
}

void* Store::allocate(const perdura_type& type, std::size_t count) {
  detail::Mutator& mutator = this->mutator();
  if (mutator.in_transaction) return store::blocks_of(mutator).allocate(type, count);
  const InOperation operation(mutator);
  return value_or_throw(runtime().heap().allocate_typed(mutator, type, count));
}

void* Store::allocate_flexible(const perdura_type& type, std::size_t bytes) {
  detail::Mutator& mutator = this->mutator();
  refuse_in_transaction(mutator, "allocate_flexible");
  const InOperation operation(mutator);
  return value_or_throw(runtime().heap().allocate_flexible(mutator, type, bytes));
}

void Store::expect_type(const perdura_type& type) {
  value_or_throw(runtime().usable());
  value_or_throw(runtime().heap().types().expect(type));
}

void Store::expect_members(const detail::TypeDescription& type) {
  value_or_throw(runtime().usable());
  value_or_throw(runtime().heap().types().expect_members(type));
}

std::uint64_t Store::migrate(std::span<const Conversion> conversions) {
  detail::Mutator& mutator = this->mutator();
  refuse_in_transaction(mutator, "migrate");
  value_or_throw(runtime().usable());
  const InOperation operation(mutator);
  heap::Migration migration(runtime().heap(), mutator);
  return value_or_throw(migration.run(conversions));
}

void Store::learn_members(const detail::TypeDescription& type) {
  detail::Mutator& mutator = this->mutator();
  if (runtime().read_only() || mutator.in_transaction) return;
  const InOperation operation(mutator);
  value_or_throw(runtime().heap().types().learn_members(mutator, type));
}

void Store::deallocate(void* block) { deallocate_by(mutator(), block); }

void* Store::reallocate(void* block, std::size_t size) {
  if (block == nullptr) return allocate(size);
  value_or_throw(runtime().usable());
  refuse_in_transaction(mutator(), "reallocate");
  const auto [old, typed] = value_or_throw(runtime().heap().usable(block));
  if (typed) size = std::max(size, value_or_throw(runtime().heap().least_bytes(block)));
  // Keep the block unless it is too small, or more than twice what is wanted.
  const bool keep = size <= old && size * 2 > old;
  if (keep && !typed) return block;
  const auto op = operation();
  if (keep) {
    op.touch(static_cast<std::byte*>(block) + size, old - size);
    std::memset(static_cast<std::byte*>(block) + size, 0, old - size);
    return block;
  }
  if (typed) return value_or_throw(runtime().heap().reallocate_typed(mutator(), block, size));
  void* moved = op.allocate(size);
  std::memcpy(moved, block, std::min(old, size));
  op.deallocate(block);
  return moved;
}

std::size_t Store::usable_size(const void* block) const {
  value_or_throw(runtime().usable());
  return value_or_throw(runtime().heap().usable(block)).bytes;
}

bool Store::contains(const void* address) const noexcept {
  return runtime_ && runtime_->region().contains(address);
}

void Store::set_root(std::string_view name, void* object, std::uint64_t fingerprint) {
  expect_own_name(name);
  detail::Mutator& mutator = this->mutator();
  refuse_in_transaction(mutator, "set_root");
  const InOperation operation(mutator);
  value_or_throw(runtime().heap().roots().set(mutator, name, object, fingerprint));
}

void* Store::get_root(std::string_view name, std::uint64_t fingerprint) {
  value_or_throw(runtime().usable());
  if (fingerprint != 0) expect_own_name(name);  // for looking at it, tools have no type
  return value_or_throw(runtime().heap().roots().get(name, fingerprint));
}

void* Store::get_root(std::string_view name, std::uint64_t fingerprint, std::uint64_t earlier) {
  expect_own_name(name);
  detail::Mutator& mutator = this->mutator();
  const InOperation operation(mutator);
  return value_or_throw(runtime().heap().roots().get(mutator, name, fingerprint, earlier));
}

void* Store::get_or_set_root(std::string_view name, void* object, std::uint64_t fingerprint) {
  expect_own_name(name);
  detail::Mutator& mutator = this->mutator();
  refuse_in_transaction(mutator, "get_or_set_root");
  const InOperation operation(mutator);
  return value_or_throw(runtime().heap().roots().get_or_set(mutator, name, object, fingerprint));
}

std::uint64_t Store::checkpoint() { return value_or_throw(runtime().checkpoint()); }
std::uint64_t Store::checkpoint_root(std::string_view name) {
  return value_or_throw(runtime().checkpoint_root(name));
}
std::uint64_t Store::checkpoint_async() { return value_or_throw(runtime().checkpoint_async()); }
void Store::wait(std::uint64_t version) { value_or_throw(runtime().wait(version)); }

void Store::checkpoint_every(std::chrono::milliseconds interval) {
  value_or_throw(runtime().usable());
  if (interval.count() < 0)
    throw Error(Code::kInvalidArgument, "a checkpoint interval is not negative");
  value_or_throw(runtime().require_no_group("checkpoint_every"));
  runtime().checkpointer().every(interval);
}

std::uint64_t Store::durable_version() const noexcept {
  return runtime_ ? runtime_->checkpointer().durable_version() : 0;
}

std::uint64_t Store::durable_version(Where where) const noexcept {
  if (where == Where::kHere) return durable_version();
  return runtime_ ? runtime_->drained_version() : 0;
}

std::uint64_t Store::backup(std::string_view uri, const BackupOptions& options) {
  refuse_in_transaction(mutator(), "backup");
  return value_or_throw(runtime().back_up(uri, options));
}

Statistics Store::statistics() const {
  value_or_throw(runtime().usable());
  return runtime().statistics();
}
HeapAudit Store::audit() const {
  value_or_throw(runtime().usable());
  return value_or_throw(
      guarded([this]() -> Result<HeapAudit> { return runtime().heap().audit(); }));
}
void Store::reset_statistics() {
  value_or_throw(runtime().usable());
  runtime().reset_statistics();
}
std::vector<std::string> Store::damaged_pages() const {
  value_or_throw(runtime().usable());
  return runtime().damaged_pages();
}
std::vector<std::string> Store::unreported_stores() const {
  value_or_throw(runtime().usable());
  return runtime().unreported();
}

}  // namespace perdura
