// A store whose medium a test decorates, and which can be dropped as a crash would drop it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <perdura/perdura.hpp>

#include "store/runtime.hpp"

namespace perdura::test {

/// What does not fit its checksum in the home images of an open volume.
inline std::vector<std::string> home_problems(region::Volume& volume) {
  std::vector<std::string> problems;
  const region::HomeMap home(volume.extents(format::ExtentKind::kHome));
  value_or_throw(region::verify_home(volume.medium(), home,
                                     [&](const std::string& each) { problems.push_back(each); }));
  return problems;
}

/// The same of a store that nobody has open.
inline std::vector<std::string> home_problems(const std::string& uri) {
  auto opened = value_or_throw(media::open_medium(uri, {}));
  auto volume = value_or_throw(region::Volume::open(std::move(opened.medium)));
  return home_problems(*volume);
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
    void deallocate(void* block) const {
      value_or_throw(runtime_.heap().deallocate(mutator_, block));
    }
    void set_root(const char* name, void* object) const {
      value_or_throw(runtime_.heap().set_root(mutator_, name, object, 0));
    }

   private:
    detail::Runtime& runtime_;
    detail::Mutator& mutator_;
  };

  WrappedStore(const std::string& uri, const Options& options, const detail::WrapMedium& wrap = {})
      : runtime_(value_or_throw(detail::Runtime::open(uri, options, wrap))) {}

  Op operation() { return Op(*runtime_); }
  void* get_root(const char* name) { return value_or_throw(runtime_->heap().get_root(name, 0)); }
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
