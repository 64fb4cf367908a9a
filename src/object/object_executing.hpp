// What an object's core does while no other thread executes; for its sources alone.
#pragma once

#include <mutex>
#include <utility>

#include "object/object_core.hpp"

namespace perdura::object {

// Where memory is short as well: who waits for an entry that is not done then has gone, so nothing
// more is.
template <class Body>
Status ObjectCore::or_fail(Body&& body) {
  Status done = guarded(body);
  return done ? std::move(done) : fail(std::move(done));
}

/// While it lives this thread executes; or it does not, where it was only tried.
class ObjectCore::Executing {
 public:
  explicit Executing(ObjectCore& core) : core_(core), executes_(true) {
    for (Execution::Wait wait(core.execution_); !core.execution_.try_begin();)
      if (!core.executor_.crew().help())
        wait.pause([&] { return core.executor_.crew().has_work(); });
  }
  Executing(ObjectCore& core, std::try_to_lock_t)
      : core_(core), executes_(core.execution_.try_begin()) {}
  ~Executing() {
    if (executes_) core_.execution_.end();
  }
  Executing(const Executing&) = delete;
  explicit operator bool() const { return executes_; }

 private:
  ObjectCore& core_;
  const bool executes_;
};

// `body` when all that was called by now is done, and no group is done in part.
template <class Body>
Status ObjectCore::execute_alone(bool durable, Body&& body) {
  PERDURA_TRY(require_not_forked());
  const u64 end = log_->tail();
  for (Execution::Wait wait(execution_);;) {
    bool left = false;
    if (const Executing executing(*this); executing) {
      PERDURA_TRY(require_usable());
      PERDURA_TRY(or_left(rounds_until(end, durable), left));
      if (!left && log_->done() >= end && is_between_groups()) return body();
    }
    if (left) wait.pause([&] { return log_->done() >= end; });
  }
}

}  // namespace perdura::object
