// Operations of threads that live for them alone: ordinary ones, those that block every signal,
// and those whose end another operation waits for.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "live.hpp"

namespace perdura::model {
namespace {

/// The action "operate" in a new thread.
void operate_in_new_thread(Live& live, LaneRun& run, const Action& action, bool blocks_signals) {
  in_new_thread([&] {
    if (blocks_signals) {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    }
    action_kind("operate").run(live, run, action);
  });
}

const ActionRegistration kOperateElsewhere({
    .name = "operate_in_new_thread",
    .weight = 1.5,
    .has_steps = true,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          live.journal.use(Feature::kNewThread);
          operate_in_new_thread(live, run, action, false);
        },
});

const ActionRegistration kOperateWithoutSignals({
    .name = "operate_without_signals",
    .weight = 1,
    .has_steps = true,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          live.journal.use(Feature::kSignalsBlocked);
          operate_in_new_thread(live, run, action, true);
        },
});

/// Inside the operation it waits for the end of a thread that used the store before, while a third
/// one wants a version: nobody may wait for the version but who asked for it.
const ActionRegistration kOperateAndJoin({
    .name = "operate_and_join",
    .weight = 0.7,
    .has_steps = true,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          live.journal.use(Feature::kThreadEnds);
          std::atomic<bool> has_used{false};
          std::atomic<bool> may_end{false};
          std::thread ends([&] {
            {
              const auto operation = live.store->operation();
            }
            has_used = true;
            while (!may_end) std::this_thread::yield();
          });
          while (!has_used) std::this_thread::yield();
          std::exception_ptr failed;
          std::thread checkpoints;
          {
            const auto operation = live.store->operation();
            checkpoints = std::thread([&] {
              try {
                live.store->checkpoint();
              } catch (...) {
                failed = std::current_exception();
              }
            });
            std::this_thread::sleep_for(std::chrono::microseconds(300));
            may_end = true;
            ends.join();
          }
          checkpoints.join();
          if (failed) {
            try {
              std::rethrow_exception(failed);
            } catch (const Error& error) {
              if (!live.expected(error)) throw;
              ++live.journal.failed_calls;
            }
          }
          action_kind("operate").run(live, run, action);
        },
});

}  // namespace
}  // namespace perdura::model
