// A store whose medium a test decorates, and which can be dropped as a crash would drop it.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <perdura/perdura.hpp>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "model/transaction/transactions.hpp"
#include "store/runtime.hpp"

namespace perdura::test {

/// Which pages of an open volume's home images, in pairs those of the newest, do not fit their
/// checksums.
inline std::vector<std::string> home_problems(region::Volume& volume) {
  std::vector<std::string> problems;
  AlignedBuffer page(kPageBytes);
  std::vector<format::Extent> homes = volume.extents(format::ExtentKind::kHome);
  for (const format::Extent& extent : volume.extents(format::ExtentKind::kCopies))
    homes.push_back(
        format::home_in_copy(extent, format::copy_of(volume.replayed_version(extent.region))));
  for (const format::Extent& extent : homes) {
    AlignedBuffer table(format::table_bytes(extent.length));
    value_or_throw(volume.medium().read(extent.medium_offset + extent.length, table.span()));
    for (u64 at = 0; at < extent.length; at += kPageBytes) {
      const u64 offset = extent.region_offset + at;
      u64 expected = 0;
      std::memcpy(&expected, table.data() + at / kPageBytes * sizeof(u64), sizeof(u64));
      value_or_throw(volume.medium().read(extent.medium_offset + at, page.span()));
      if (page_checksum(page.data(), offset / kLineBytes) != expected)
        problems.push_back("the home page at region offset " + std::to_string(offset));
    }
  }
  return problems;
}

/// The parts of Store and Operation that tests use, over a Runtime. Throws Error like them.
class WrappedStore {
 public:
  class Op {
   public:
    explicit Op(detail::Runtime& runtime)
        : runtime_(runtime), mutator_(runtime.mutators().this_thread()) {
      detail::enter(mutator_);
    }
    ~Op() { detail::leave(mutator_); }
    Op(const Op&) = delete;
    void touch(const void* address, size_t length) const {
      detail::report(mutator_, address, length);
    }
    void* allocate(size_t size, size_t alignment = 16) const {
      return value_or_throw(runtime_.heap().allocate(mutator_, size, alignment));
    }
    void* allocate_apart(size_t size) const {
      return value_or_throw(runtime_.heap().allocate_apart(mutator_, size));
    }
    void* allocate_flexible(const perdura_type& type, size_t size) const {
      return value_or_throw(runtime_.heap().allocate_flexible(mutator_, type, size));
    }
    void deallocate(void* block) const {
      value_or_throw(runtime_.heap().deallocate(mutator_, block));
    }
    void set_root(const char* name, void* object) const {
      value_or_throw(runtime_.heap().roots().set(mutator_, name, object, 0));
    }

   private:
    detail::Runtime& runtime_;
    detail::Mutator& mutator_;
  };

  WrappedStore(const std::string& uri, const Options& options, const detail::WrapMedium& wrap = {})
      : WrappedStore(uri, options, detail::InternalOptions{.wrap = wrap}) {}
  WrappedStore(const std::string& uri, const Options& options,
               const detail::InternalOptions& internal)
      : runtime_(value_or_throw(detail::Runtime::open(uri, options, internal))) {}

  Op operation() { return Op(*runtime_); }
  /// As perdura::atomically.
  template <class Body>
  void atomically(Body&& body) {
    detail::transactions_of(*runtime_).run(
        {[](void* with, Transaction& tx) {
           (*static_cast<std::remove_reference_t<Body>*>(with))(tx);
         },
         nullptr},
        &body);
  }
  void* get_root(const char* name) { return value_or_throw(runtime_->heap().roots().get(name, 0)); }
  u64 checkpoint() { return value_or_throw(runtime_->checkpoint()); }
  u64 checkpoint_async() { return value_or_throw(runtime_->checkpoint_async()); }
  void wait(u64 version) { value_or_throw(runtime_->wait(version)); }
  u64 durable_version() { return runtime_->checkpointer().durable_version(); }
  HeapAudit audit() { return runtime_->heap().audit(); }
  Statistics statistics() { return runtime_->statistics(); }
  detail::Runtime& runtime() { return *runtime_; }

  /// Close in order; the medium stays open to be looked at until this object goes.
  void close() { value_or_throw(runtime_->close()); }
  /// Drop everything that is not durable, as the death of the process would.
  void crash() { runtime_.reset(); }

 private:
  std::unique_ptr<detail::Runtime> runtime_;
};

}  // namespace perdura::test
