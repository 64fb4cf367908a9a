// What a program does wrong, and what happens to its process: the answer is an error, and nothing
// else changes.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "live.hpp"
#include "store/inspect.hpp"

namespace perdura::model {
namespace {

template <class Call>
void require_code(const Live& live, Code code, const char* what, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() == Code::kNoSpace || live.expected(error)) throw;
    require(error.code() == code, std::string(what) + " threw: " + error.what());
    return;
  }
  throw Problem(std::string(what) + " was accepted");
}

Block* some_block(const LaneRun& run) {
  for (u64 slot = kOf; slot < kSlots; ++slot)  // those that transactions may use
    if (run.model.cells[cells::kSlot + slot].is_block() &&
        run.model.is_covered(cells::kSlot + slot))
      return run.lane->slots[slot];
  return nullptr;
}

/// In one transaction, or one that is gone already.
void give_back_twice(Live& live, LaneRun& run, const Action& action, Block* block) {
  Store& store = *live.store;
  if (block == nullptr) {
    if (live.session.parallel || live.program.options.region_limit_bytes == kSmallRegion) return;
    void* gone = nullptr;
    atomically(store, [&](Transaction& tx) {
      gone = tx.allocate(sizeof(Block));
      tx.deallocate(gone);
    });
    block = static_cast<Block*>(gone);
  }
  require_code(live, Code::kMisuse, "giving a block back twice in a transaction", [&] {
    atomically(store, [&](Transaction& tx) {
      tx.write(run.lane->transaction, action.id);
      tx.deallocate(block);
      tx.deallocate(block);
    });
  });
  require(run.lane->transaction == run.model.transaction, "misuse was thrown, and it happened");
}

const ActionRegistration kMisuse({
    .name = "misuse",
    .weight = 0.8,
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          Store& store = *live.store;
          live.journal.use(Feature::kMisuse);
          Block* const block = some_block(run);
          switch (action.number % 4) {
            case 0:
              require_code(live, Code::kMisuse, "a checkpoint inside an operation", [&] {
                const auto operation = store.operation();
                store.checkpoint();
              });
              break;
            case 1: {
              u64 outside = 0;
              require_code(live, Code::kMisuse, "giving back what is no block",
                           [&] { store.deallocate(&outside); });
              if (block == nullptr) break;
              require_code(live, Code::kMisuse, "giving back the middle of a block",
                           [&] { store.deallocate(&block->words); });
              break;
            }
            case 2:
              if (!live.program.transactions()) break;
              require_code(live, Code::kMisuse, "a transaction inside an operation", [&] {
                const auto operation = store.operation();
                atomically(store, [&](Transaction&) {});
              });
              break;
            default:
              if (!live.program.transactions()) break;
              give_back_twice(live, run, action, block);
          }
        },
});

/// Two threads make a root of one name.
const ActionRegistration kRootTwice({
    .name = "root_in_two_threads",
    .weight = 0.5,
    .possible =
        [](const Program& program, const Session& session) {
          return !program.typed && !session.parallel && session.fault_at == 0 &&
                 !session.full_disk && program.options.region_limit_bytes != kSmallRegion;
        },
    .run =
        [](Live& live, LaneRun&, const Action&) {
          Store& store = *live.store;
          live.journal.use(Feature::kRoot);
          {
            const auto operation = store.operation();
            if (void* const old = store.get_root("twice")) {
              store.set_root("twice", nullptr);
              operation.deallocate(old);
            }
          }
          struct Twice {
            u64 words[4];
          };
          Twice* made[2] = {};
          std::atomic<int> waiting{2};
          std::thread threads[2];
          for (int i = 0; i < 2; ++i)
            threads[i] = std::thread([&, i] {
              --waiting;
              while (waiting != 0) {
              }
              made[i] = &store.root<Twice>("twice");
            });
          for (std::thread& thread : threads) thread.join();
          require(made[0] == made[1], "two threads have two objects of one root");
        },
});

const ActionRegistration kFork({
    .name = "fork",
    .weight = 0.3,
    .run =
        [](Live& live, LaneRun&, const Action&) {
          live.journal.use(Feature::kFork);
          const pid_t child = ::fork();
          require(child >= 0, "cannot fork");
          if (child == 0) {
            ::alarm(20);
            try {
              live.store->checkpoint();
            } catch (const Error& error) {
              ::_exit(error.code() == Code::kForked ? 0 : 1);
            }
            ::_exit(2);
          }
          int status = 0;
          while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
          }
          require(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "a forked child's checkpoint ended with status " + std::to_string(status));
        },
});

bool is_locked_to_write(const Live& live) {
  Options options = live.program.options;
  options.create = false;
  try {
    Store::open(live.uri, options).close();
  } catch (const Error& error) {
    return error.code() == Code::kLocked;
  }
  return false;
}

/// Who looks at a store that is open elsewhere: "", or what is wrong with what came of it. On a
/// server that is a refusal.
std::string look_at_open(const Live& live) {
  if (!is_locked_to_write(live)) return "a store was opened to write that is open elsewhere";
  const auto report = store::check(live.uri, {});
  if (live.uri.starts_with("memcached:")) {
    if (!report && report.failure().code == Code::kLocked) return "";
    return "perdura check of an open store: " + (report ? "done" : report.failure().message);
  }
  if (!report) return "perdura check beside a writer: " + report.failure().message;
  if (report->damaged()) return "beside a writer: " + report->findings.at(0).message;
  Options options = live.program.options;
  options.read_only = true;
  try {
    const Store store = Store::open(live.uri, options);
    const HeapAudit audit = store.audit();
    return audit.clean ? "" : "beside a writer: " + audit.problem;
  } catch (const Error& error) {
    return std::string("opening it to read: ") + error.what();
  }
}

/// Not where the process may end meanwhile: the store would be the child's.
const ActionRegistration kLook({
    .name = "look_from_elsewhere",
    .weight = 0.3,
    .possible =
        [](const Program&, const Session& session) {
          return session.end != End::kMediumCall && session.end != End::kTime &&
                 !(session.parallel && (session.fault_at != 0 || session.full_disk));
        },
    .run =
        [](Live& live, LaneRun&, const Action&) {
          live.journal.use(Feature::kReadOnly);
          const pid_t child = ::fork();
          require(child >= 0, "cannot fork");
          if (child == 0) {
            ::alarm(20);
            const std::string problem = look_at_open(live);
            if (!problem.empty()) live.journal.say(problem);
            ::_exit(problem.empty() ? 0 : 1);
          }
          int status = 0;
          while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
          }
          require(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "who looks at an open store ended with status " + std::to_string(status));
        },
});

/// The descriptors of a pipe.
class Pipe {
 public:
  Pipe() { require(::pipe(ends_) == 0, "no pipe"); }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  void tell() const { require(::write(ends_[1], "x", 1) == 1, "a pipe is closed"); }
  void wait() const {
    char word = 0;
    while (::read(ends_[0], &word, 1) != 1) {
    }
  }

 private:
  int ends_[2];
};

/// A block that the action will change, or give back.
const Block* changed_block(const LaneRun& run, const Action& action) {
  for (const Planned& planned : plan(run.live.program, run.model, action).kept)
    for (const Change& change : planned.changes)
      if (change.cell - cells::kSlot < kSlots && change.before.is_block())
        return run.lane->slots[change.cell - cells::kSlot];
  return nullptr;
}

/// A child that touches the store dies, and nothing of its parent's changes, which has gone on
/// meanwhile.
const ActionRegistration kForkAndOperate({
    .name = "operate_beside_a_child",
    .weight = 1,
    .has_steps = true,
    .possible = [](const Program&, const Session& session) { return !session.parallel; },
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          live.journal.use(Feature::kFork);
          const volatile Block* const touched = changed_block(run, action);
          if (touched == nullptr) return action_kind("operate").run(live, run, action);
          const Pipe done;
          const pid_t child = ::fork();
          require(child >= 0, "cannot fork");
          if (child == 0) {
            ::alarm(20);
            constexpr rlimit kNoCore{.rlim_cur = 0, .rlim_max = 0};
            ::setrlimit(RLIMIT_CORE, &kNoCore);
            done.wait();
            ::_exit(touched->id == 0 ? 1 : 2);
          }
          action_kind("operate").run(live, run, action);
          done.tell();
          int status = 0;
          while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
          }
          require(
              WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
              "a forked child that touched the store ended with status " + std::to_string(status));
        },
});

/// There was no room for the steps: the waiter is woken without them.
void release(Live& live, LaneRun& run, const Action& action) {
  live.journal.progress[action.id] = Progress::kCut;
  atomically(*live.store, [&](Transaction& tx) {
    tx.write(run.lane->transaction, action.id);
    tx.write(run.lane->awaited.signal, action.id);
  });
  apply(run.model, action, {}, 0);
  live.journal.done[run.number].transaction = action.id;
}

/// A thread waits for what this one does in a transaction.
const ActionRegistration kAwait({
    .name = "transact_awaited",
    .weight = 0.8,
    .has_steps = true,
    .domain = Domain::kTransaction,
    .possible =
        [](const Program& program, const Session&) {
          return program.transactions() && program.options.region_limit_bytes != kSmallRegion;
        },
    .run =
        [](Live& live, LaneRun& run, const Action& action) {
          live.journal.use(Feature::kRetry);
          const auto guarded = [&](auto&& body) {
            try {
              body();
            } catch (const std::exception& thrown) {
              const auto* const error = dynamic_cast<const Error*>(&thrown);
              if (error != nullptr && live.expected(*error)) ::_exit(0);
              live.journal.say("action " + std::to_string(action.id) +
                               ", transact_awaited, threw: " + thrown.what());
              ::_exit(3);
            }
          };
          std::thread waiter([&] {
            guarded([&] {
              atomically(*live.store, [&](Transaction& tx) {
                if (action.number % 2 == 0)
                  tx.write(run.lane->awaited.scratch, action.id);  // owns it
                if (tx.read(run.lane->awaited.signal) != action.id) tx.retry();
              });
            });
          });
          // The waiter changes nothing: this is an ordinary transaction beside it.
          guarded([&] { action_kind("transact").run(live, run, action); });
          if (live.journal.progress[action.id] == Progress::kFailed)
            guarded([&] { release(live, run, action); });
          waiter.join();
        },
});

}  // namespace
}  // namespace perdura::model
