// The scenarios of fault_test.cc. Each is small, so that every call it makes can fail.
#include <sched.h>

#include <cstring>

#include <perdura/perdura.h>

#include "campaign/fault_session.hpp"
#include "store/inspect.hpp"
#include "store/versions.hpp"
#include "support/chain.hpp"
#include "support/files.hpp"

namespace {
struct Item {
  Item* next;
  perdura::u64 number;
};
}  // namespace
PERDURA_TYPE(Item, next)

namespace perdura::test {
namespace {

using std::chrono::milliseconds;

Options options(Tracking tracking, Capture capture = Capture::kAutomatic) {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.log_limit_bytes = 2 * kMiB;
  options.tracking = tracking;
  options.capture = capture;
  return options;
}

// Small chunks, so that maps need nodes.
Options chunks(Tracking tracking, Capture capture = Capture::kAutomatic) {
  Options chosen = options(tracking, capture);
  chosen.engine = Engine::kRemap;
  chosen.chunk_bytes = 4096;
  chosen.over_provisioning = 0;
  return chosen;
}

Options with(Options options, bool Options::* flag, bool value) {
  options.*flag = value;
  return options;
}

void open_only(Session& session) { session.open(); }

void open_and_step(Session& session) {
  session.open();
  session.steps(8);
  session.checkpoint();
}

void open_and_close(Session& session) {
  session.open();
  session.steps(4);
  session.close();
}

void touch_recovered(Session& session) {
  session.open();
  session.rewrite(0);
  session.steps(4);
  session.checkpoint();
}

// The heap takes space from the medium four times and more.
void grow(Session& session) {
  session.open();
  for (u64 slot = 0; slot < 4; ++slot) session.exchange(slot, 20'000 << slot);
  session.checkpoint();
}

// An attempt that failed is followed by one of another size.
void grow_unevenly(Session& session) {
  session.open();
  session.exchange(0, 100'000);
  session.exchange(1, 9'000);
  session.checkpoint();
  session.exchange(2, 50'000);
  session.checkpoint();
}

void small_blocks(Session& session) {
  session.open();
  for (u64 round = 0; round < 3; ++round)
    for (u64 slot = 0; slot < Extras::kSlots; ++slot)
      session.exchange(slot, (slot * 37 + round * 11) % 200);
  session.checkpoint();
}

void large_blocks(Session& session) {
  session.open();
  for (u64 round = 0; round < 2; ++round)
    for (u64 slot = 0; slot < 5; ++slot) session.exchange(slot, 9'000 + slot * 2'000 * (round + 1));
  session.checkpoint();
}

void aligned_blocks(Session& session) {
  session.open();
  for (u64 slot = 0; slot < 12; ++slot) session.exchange(slot, 20 + slot * 100, u64{16} << slot);
  session.checkpoint();
}

void roots(Session& session) {
  session.open();
  for (int round = 0; round < 2; ++round) {
    for (const char* name : {"one", "two", "a third one with a long name"})
      session.set_root(name, true);
    session.set_root("two", true);
    session.checkpoint();
    for (const char* name : {"two", "a third one with a long name", "none"})
      session.set_root(name, false);
    session.set_root("one", round == 0);
  }
  session.checkpoint();
}

void checkpoints(Session& session) {
  session.open();
  for (int i = 0; i < 6; ++i) {
    session.steps(3);
    session.checkpoint();
  }
}

// First of an object that no version has, then beside changes that are durable later.
void object_alone(Session& session) {
  session.open();
  session.checkpoint();
  for (int i = 0; i < 6; ++i) {
    session.steps(2);
    session.write_object();
    session.checkpoint_object();
    if (i == 3) session.checkpoint();
  }
}

void async_checkpoints(Session& session) {
  session.open();
  for (int i = 0; i < 6; ++i) {
    session.steps(3);
    session.checkpoint_async();
  }
}

void timed_checkpoints(Session& session) {
  session.open();
  session.every(milliseconds(1));
  for (int i = 0; i < 8; ++i) {
    session.steps(10);
    if (i % 4 == 3) session.checkpoint();
  }
  session.every(milliseconds(0));
}

void nothing_changed(Session& session) {
  session.open();
  for (int i = 0; i < 4; ++i) session.checkpoint();
  session.checkpoint_async();
  session.close();
}

void several_threads(Session& session) {
  session.open();
  session.threads(3, 6);
  session.checkpoint();
}

void threads_and_timer(Session& session) {
  session.open();
  session.every(milliseconds(1));
  session.threads(4, 8);
  session.every(milliseconds(0));
}

// More than the log's limit goes through it.
void log_wraps(Session& session) {
  session.open();
  session.exchange(0, 24'000);
  for (int i = 0; i < 14; ++i) {
    session.rewrite(0);
    if (i % 4 == 0) session.checkpoint_async();
    else session.checkpoint();
  }
}

// A version larger than the log's limit, whose space is given back afterwards.
void log_overflows(Session& session) {
  session.open();
  session.exchange(0, 300'000);
  session.checkpoint();
  for (int i = 0; i < 4; ++i) {
    session.steps(2);
    session.checkpoint();
  }
  session.exchange(0, 0);
  session.checkpoint();
}

// Checkpoints wait for replay all the time.
void log_at_limit(Session& session) {
  session.open();
  session.exchange(0, 130'000);
  for (int i = 0; i < 5; ++i) {
    session.rewrite(0);
    session.checkpoint();
  }
}

// Several versions of the same lines wait for replay when its last step fails.
void same_lines(Session& session) {
  session.open();
  session.exchange(0, 2'000);
  for (int i = 0; i < 6; ++i) {
    session.rewrite(0);
    session.checkpoint();
  }
}

void replay_beside_checkpoints(Session& session) {
  session.open();
  session.exchange(0, 40'000);
  for (int i = 0; i < 6; ++i) {
    session.rewrite(0);
    session.checkpoint();
    session.steps(1);
    session.checkpoint_async();
  }
}

// So many that the marks of windows start again.
void many_windows(Session& session) {
  session.open();
  for (int i = 0; i < 132; ++i) {
    session.steps(1);
    session.checkpoint();
  }
}

// What was reopened is moved to huge pages as it changes.
void promotion(Session& session) {
  session.open();
  for (int i = 0; i < 2; ++i) {
    session.rewrite(0);
    session.checkpoint();
    // The promotion comes a few milliseconds after a checkpoint.
    const auto end = std::chrono::steady_clock::now() + milliseconds(8);
    while (std::chrono::steady_clock::now() < end) ::sched_yield();
    session.steps(2);
  }
}

void reopened_again_and_again(Session& session) {
  for (int i = 0; i < 3; ++i) {
    session.open();
    session.steps(5);
    session.checkpoint();
    session.steps(2);
    session.close();
  }
}

// A check says what it found or that it could not look; never that all is well when it did not.
void check_store(Session& session) {
  const std::string uri = session.uri();
  const FileBytes before = read_file(session.path());
  session.attempt([&] {
    const auto report = in_library([&] { return store::check(uri, {}); });
    if (!report) throw_failure(report.failure());
    if (report->findings.empty()) {
      const auto& description = report->description;
      const bool reached = description && !description->regions.empty() &&
                           description->regions.front().heap &&
                           description->regions.front().heap->clean;
      if (!reached) session.problem("a check without findings that did not reach the heap");
      if (calls_failed() != 0 && session.point() != nullptr &&
          session.point()->call.call == Call::kRead)
        session.problem("silent: a read failed, and the check found nothing");
    } else {
      throw Error(Code::kNoMemory, report->findings.front().message);
    }
  });
  if (read_file(session.path()) != before) session.problem("a check wrote to the store");
}

// What fails leaves the version that there was, or the one that it went back to.
void roll_back(Session& session) {
  const std::string uri = session.uri();
  const store::Description before = value_or_throw(store::outline(uri, {}));
  const u64 older = before.regions.front().durable_version - 1;
  session.attempt([&] {
    const auto made = in_library([&] { return store::roll_back(uri, {}, older, {}); });
    if (!made) throw_failure(made.failure());
  });
}

void describe_store(Session& session) {
  const std::string uri = session.uri();
  const FileBytes before = read_file(session.path());
  session.attempt([&] {
    const auto description = in_library([&] { return store::describe(uri, {}); });
    if (!description) throw_failure(description.failure());
    const auto& regions = description->regions;
    if (regions.size() != 1 || regions[0].durable_version == 0 || regions[0].roots.size() != 2)
      session.problem("silent: a description lacks what the store holds");
  });
  if (read_file(session.path()) != before) session.problem("a description wrote to the store");
}

void c_interface(Session& session) {
  const std::string uri = session.uri();
  const auto check = [&](int result) {
    if (result < 0)
      session.attempt([&] { throw Error(static_cast<Code>(-result), perdura_last_error()); });
    return result >= 0;
  };
  perdura_options chosen{};
  chosen.region_limit_bytes = session.options().region_limit_bytes;
  chosen.log_limit_bytes = session.options().log_limit_bytes;
  chosen.tracking = PERDURA_TRACK_REPORTED;
  perdura_store* store = nullptr;
  if (!check(in_library([&] { return perdura_open(uri.c_str(), &chosen, &store); }))) return;
  auto* number = static_cast<u64*>(in_library([&] { return perdura_root_get(store, "number"); }));
  u64 acknowledged = 0;
  if (number == nullptr) {
    number = static_cast<u64*>(in_library([&] { return perdura_alloc(store, sizeof *number); }));
    if (number != nullptr) {
      *number = 0;
      // Without a name nobody finds it again.
      if (!check(in_library([&] { return perdura_root_set(store, "number", number); })))
        number = nullptr;
    }
  }
  for (u64 i = 1; i <= 6 && number != nullptr; ++i) {
    if (!check(in_library([&] { return perdura_operation_begin(store); }))) continue;
    in_library([&] { perdura_touch(store, number, sizeof *number); });
    *number = i;
    in_library([&] { perdura_operation_end(store); });
    if (check(in_library([&] { return perdura_checkpoint(store, nullptr); }))) acknowledged = i;
    void* block = in_library([&] { return perdura_aligned_alloc(store, 64, i * 500); });
    void* larger = in_library([&] { return perdura_realloc(store, block, i * 2'000); });
    check(in_library([&] { return perdura_free(store, larger != nullptr ? larger : block); }));
  }
  check(in_library([&] { return perdura_close(store); }));
  const bool flush_failed = flushes_failed() != 0;
  disarm_calls();
  store = nullptr;
  if (perdura_open(uri.c_str(), &chosen, &store) != 0) {
    session.problem(std::string("opening again: ") + perdura_last_error());
    return;
  }
  number = static_cast<u64*>(perdura_root_get(store, "number"));
  if (acknowledged != 0 && (number == nullptr || *number < acknowledged))
    session.problem("lost: the number was acknowledged as " + std::to_string(acknowledged));
  if (perdura_close(store) != 0 && !flush_failed) session.problem("closing again failed");
}

// Containers of the standard library, whose steps are operations of several allocations. One that
// fails is undone by the container; the program adds a record whole or not at all.
void containers(Session& session) {
  const std::string uri = session.uri();
  u64 acknowledged = 0;
  session.attempt([&] {
    Store store = in_library([&] { return Store::open(uri, session.options()); });
    auto& map = in_library([&]() -> auto& { return store.root<perdura::map<u64, string>>("map"); });
    for (u64 i = 0; i < 12; ++i) {
      session.attempt([&] {
        in_library([&] {
          auto operation = store.operation();
          map.try_emplace(i, std::string_view("a text of more than a few bytes"));
        });
      });
      session.attempt([&] {
        const u64 size = map.size();
        in_library([&] { store.checkpoint(); });
        acknowledged = size;
      });
    }
    session.attempt([&] { in_library([&] { store.close(); }); });
  });
  disarm_calls();
  Store store = Store::open(uri, session.options());
  const auto& map = store.root<perdura::map<u64, string>>("map");
  if (map.size() < acknowledged)
    session.problem("lost: " + std::to_string(acknowledged) + " entries were acknowledged");
  for (const auto& [key, text] : map)
    if (text != "a text of more than a few bytes") session.problem("a text is wrong");
  if (const HeapAudit audit = store.audit(); !audit.clean) session.problem(audit.problem);
}

// The list moves with each opening.
void typed_list(Session& session) {
  constexpr u64 kAddress = 0x5544'0000'0000;
  const std::string uri = session.uri();
  Options options = session.options();
  const perdura_type& type = TypeRecord<Item>::value;
  u64 acknowledged = 0;
  for (u64 round = 0; round < 3; ++round) {
    options.region_address = kAddress + round * kGiB;
    session.attempt([&] {
      Store store = in_library([&] { return Store::open(uri, options); });
      for (int i = 0; i < 4; ++i)
        session.attempt([&] {
          auto* const item = in_library([&] { return static_cast<Item*>(store.allocate(type)); });
          item->next = static_cast<Item*>(store.get_root("list"));
          item->number = item->next != nullptr ? item->next->number + 1 : 1;
          try {
            in_library([&] { store.set_root("list", item); });
          } catch (const std::exception&) {
            store.deallocate(item);
            throw;
          }
        });
      const auto* const list = static_cast<const Item*>(store.get_root("list"));
      const u64 number = list != nullptr ? list->number : 0;
      in_library([&] { store.checkpoint(); });
      acknowledged = number;
      in_library([&] { store.close(); });
    });
  }
  disarm_calls();
  options.region_address = 0;
  Store store = Store::open(uri, options);
  u64 number = 0;
  const auto* item = static_cast<const Item*>(store.get_root("list"));
  if (item != nullptr) number = item->number;
  if (number < acknowledged)
    session.problem("lost: " + std::to_string(acknowledged) + " items were acknowledged");
  for (; number != 0 && item != nullptr && item->number == number; --number) item = item->next;
  if (number != 0 || item != nullptr) session.problem("the list is broken");
  if (const HeapAudit audit = store.audit(); !audit.clean) session.problem(audit.problem);
}

void push_and_point(Session& session, Container& container, bool async, u64& acknowledged) {
  auto& chain = in_library([&]() -> ChainRoot& { return container.root<ChainRoot>(); });
  session.attempt([&] { in_library([&] { push(chain, chain.count); }); });
  session.attempt([&] {
    const u64 count = chain.count;
    if (async) {
      in_library([&] { container.point_async(); });
      in_library([&] { container.sync(); });
    } else {
      in_library([&] { container.point(); });
    }
    acknowledged = count;
  });
  if (const std::string problem = check_chain(chain); !problem.empty()) session.problem(problem);
}

void close_chain(Container& container, u64& acknowledged) {
  const u64 count = container.root<ChainRoot>().count;
  in_library([&] { container.close(); });
  acknowledged = count;
}

void check_what_is_left_of_chain(Session& session, const Options& options, u64 acknowledged) {
  Container container = Container::open(session.uri(), options);
  const auto& chain = container.root<ChainRoot>();
  if (chain.count < acknowledged)
    session.problem("lost: " + std::to_string(acknowledged) + " links were acknowledged");
  if (const std::string problem = check_chain(chain); !problem.empty()) session.problem(problem);
  if (const HeapAudit audit = container.audit(); !audit.clean) session.problem(audit.problem);
}

// A container's points, some of them asynchronous: what cannot move or be written now is part of
// the next one.
void reachable_chain(Session& session) {
  const std::string uri = session.uri();
  const Options options = session.options();
  u64 acknowledged = 0;
  for (u64 round = 0; round < 3; ++round)
    session.attempt([&] {
      Container container = in_library([&] { return Container::open(uri, options); });
      for (u64 i = 0; i < 6; ++i) push_and_point(session, container, i % 2 == 1, acknowledged);
      close_chain(container, acknowledged);
    });
  disarm_calls();
  check_what_is_left_of_chain(session, options, acknowledged);
}

// Two containers of a store: what fails for one is not the other's.
void regions(Session& session) {
  const std::string uri = session.uri();
  Options options[2] = {session.options(), session.options()};
  options[1].region = "second";
  u64 acknowledged[2] = {};
  for (u64 round = 0; round < 2; ++round)
    session.attempt([&] {
      Container first = in_library([&] { return Container::open(uri, options[0]); });
      session.attempt([&] {
        Container second = in_library([&] { return Container::open(uri, options[1]); });
        for (u64 i = 0; i < 4; ++i) {
          push_and_point(session, first, i % 2 == 1, acknowledged[0]);
          push_and_point(session, second, i % 2 == 0, acknowledged[1]);
        }
        close_chain(second, acknowledged[1]);
      });
      push_and_point(session, first, false, acknowledged[0]);
      close_chain(first, acknowledged[0]);
    });
  disarm_calls();
  for (u64 i = 0; i < 2; ++i) check_what_is_left_of_chain(session, options[i], acknowledged[i]);
}

struct Pushed {
  Pushed* next;
  u64 number;
};
struct Stack {
  Pushed* top;
  u64 count;
};

std::string check_stack(const Stack& stack) {
  u64 count = 0;
  for (const Pushed* each = stack.top; each != nullptr; each = each->next) ++count;
  return count == stack.count ? "" : "the stack is not whole";
}

// Each transaction is done and durable, or fails and never was; unless the barrier failed.
// Those that are relaxed are durable when they were waited for.
void transact(Session& session, Durability durability, Logging logging) {
  const std::string uri = session.uri();
  const Options options = session.options();
  u64 acknowledged = 0;
  for (u64 round = 0; round < 2; ++round)
    session.attempt([&] {
      Store store = in_library([&] { return Store::open(uri, options); });
      Stack& stack = in_library([&]() -> Stack& { return store.root<Stack>("stack"); });
      in_library([&] {
        set_durability(store, durability);
        set_logging(store, logging);
      });
      for (u64 i = 0; i < 8; ++i) {
        session.attempt([&] {
          acknowledged = in_library([&] {
            const u64 pushed = atomically(store, [&](Transaction& tx) {
              Pushed* const top = tx.read(stack.top);
              u64 count = tx.read(stack.count);
              if (i % 4 == 3 && top != nullptr) {
                tx.write(stack.top, tx.read(top->next));
                tx.destroy(top);
                --count;
              }
              tx.write(stack.top, tx.make<Pushed>(tx.read(stack.top), i));
              tx.write(stack.count, count + 1);
              return count + 1;
            });
            wait_for_commit(store, last_commit(store));
            return pushed;
          });
        });
        if (i == 4) session.attempt([&] { in_library([&] { store.checkpoint(); }); });
        if (const std::string problem = check_stack(stack); !problem.empty())
          session.problem(problem);
      }
      in_library([&] { store.close(); });
    });
  disarm_calls();
  Store store = Store::open(uri, options);
  const auto* const stack = store.find_root<Stack>("stack");
  if (stack == nullptr) {
    if (acknowledged != 0) session.problem("lost: the stack");
    return;
  }
  if (stack->count < acknowledged)
    session.problem("lost: " + std::to_string(acknowledged) + " were on the stack");
  if (const std::string problem = check_stack(*stack); !problem.empty()) session.problem(problem);
  if (const HeapAudit audit = store.audit(); !audit.clean) session.problem(audit.problem);
}

void transactions(Session& session) { transact(session, Durability::kNonTemporal, Logging::kRedo); }
void transactions_undo(Session& session) {
  transact(session, Durability::kNonTemporal, Logging::kUndo);
}
void transactions_relaxed(Session& session) {
  transact(session, Durability::kRelaxed, Logging::kRedo);
}

std::vector<Scenario> make_scenarios() {
  const Options reported = options(Tracking::kReported);
  const Options bitmap = options(Tracking::kBitmap);
  const Options pages = options(Tracking::kAutomatic);
  const Options lazy = reported;
  const Options eager = with(reported, &Options::lazy_recovery, false);
  Options before_use = lazy;
  before_use.verify = Verify::kBeforeUse;
  const Options views = with(reported, &Options::huge_pages, false);
  const Options stopped = options(Tracking::kReported, Capture::kStopped);
  const Options userfault = options(Tracking::kUserfault);
  const Options sigbus = options(Tracking::kSigbus);
  const Options protect = options(Tracking::kProtect);
  Options aliased = options(Tracking::kAutomatic);
  aliased.aliases = 2;
  const auto in_copies = [](Options chosen) {
    chosen.engine = Engine::kDualCopy;
    return chosen;
  };
  const Options lazy_chunks = chunks(Tracking::kAutomatic);
  const Options in_chunks = with(lazy_chunks, &Options::lazy_recovery, false);
  const Options noted_chunks = with(chunks(Tracking::kReported), &Options::lazy_recovery, false);
  const Options aside_chunks = chunks(Tracking::kProtect, Capture::kBackground);
  const Options verified = with(reported, &Options::verify_reports, true);
  const auto none = Before::kNothing;
  const auto closed = Before::kClosed;
  const auto short_log = Before::kShortLog;
  const auto long_log = Before::kLongLog;
  std::vector<Scenario> all = {
      // name, scheme, parameters, before, options, run
      {"format_file", "file", "", none, reported, open_only},
      {"format_emu", "emu", "", none, reported, open_only},
      {"format_without_ring", "file", "?io_uring=0", none, reported, open_only},
      {"format_buffered", "file", "", none, reported, open_only, false, true},
      {"open_clean_file", "file", "", closed, reported, open_and_step},
      {"open_clean_emu", "emu", "", closed, reported, open_and_step},
      {"open_short_log", "file", "", short_log, lazy, touch_recovered, false, false, true},
      {"open_long_log_lazily", "file", "", long_log, lazy, touch_recovered, false, false, true},
      {"open_verified", "file", "", long_log, before_use, touch_recovered, false, false, true},
      {"open_clean_verified", "emu", "", closed, before_use, open_and_step, false, false, true},
      {"open_long_log_eagerly", "file", "", long_log, eager, touch_recovered},
      {"open_log_without_ring", "file", "?io_uring=0", long_log, eager, touch_recovered},
      {"open_log_buffered", "file", "", long_log, eager, touch_recovered, false, true},
      {"open_log_emu", "emu", "", long_log, reported, touch_recovered},
      {"grow_file", "file", "", none, reported, grow},
      {"grow_views", "file", "", none, views, grow},
      {"grow_tracked_pages", "file", "", none, pages, grow},
      {"grow_emu", "emu", "", none, reported, grow},
      {"grow_unevenly", "file", "", none, reported, grow_unevenly},
      {"blocks_small", "file", "", closed, reported, small_blocks},
      {"blocks_large", "emu", "", closed, reported, large_blocks},
      {"blocks_aligned", "file", "", closed, reported, aligned_blocks},
      {"roots", "emu", "", closed, reported, roots},
      {"checkpoint", "file", "", closed, reported, checkpoints},
      {"checkpoint_without_ring", "file", "?io_uring=0", closed, reported, checkpoints},
      {"checkpoint_buffered", "file", "", closed, reported, checkpoints, false, true},
      {"checkpoint_emu", "emu", "", closed, reported, checkpoints},
      {"checkpoint_async", "file", "", closed, reported, async_checkpoints},
      {"checkpoint_timed", "file", "", closed, reported, timed_checkpoints},
      {"checkpoint_timed_emu", "emu", "", closed, reported, timed_checkpoints},
      {"nothing_changed", "file", "", closed, reported, nothing_changed},
      {"close_file", "file", "", closed, reported, open_and_close},
      {"close_emu", "emu", "", short_log, reported, open_and_close},
      {"threads_background", "file", "", closed, reported, several_threads},
      {"threads_stopped", "emu", "", closed, bitmap, several_threads},
      {"threads_and_timer", "file", "", closed, stopped, threads_and_timer},
      {"log_wraps", "file", "", none, reported, log_wraps},
      {"log_wraps_late", "file", "", none, reported, log_wraps, true},
      {"log_wraps_emu", "emu", "", none, reported, log_wraps},
      {"log_overflows", "file", "", none, reported, log_overflows},
      {"log_overflows_emu", "emu", "", none, reported, log_overflows},
      {"log_at_limit", "file", "", none, reported, log_at_limit, true},
      {"same_lines", "file", "", none, reported, same_lines},
      {"same_lines_emu", "emu", "", none, reported, same_lines},
      {"replay_beside", "file", "", none, reported, replay_beside_checkpoints, true},
      {"windows", "emu", "", none, reported, many_windows},
      {"promotion", "file", "", closed, reported, promotion, false, false, true},
      {"reopened", "file", "", none, reported, reopened_again_and_again},
      {"reopened_emu", "emu", "", none, pages, reopened_again_and_again},
      {"bitmap", "file", "", short_log, bitmap, checkpoints, false, false, true},
      {"userfault", "file", "", short_log, userfault, checkpoints, false, false, true},
      {"userfault_emu", "emu", "", closed, userfault, checkpoints},
      {"sigbus", "file", "", short_log, sigbus, checkpoints, false, false, true},
      {"protect", "file", "", short_log, protect, checkpoints, false, false, true},
      {"protect_emu", "emu", "", closed, protect, checkpoints, false, false, true},
      {"aliases", "file", "", none, aliased, checkpoints},
      {"aliases_log", "file", "", short_log, aliased, small_blocks},
      {"aliases_emu", "emu", "", closed, aliased, roots},
      {"aliases_grow", "emu", "", none, aliased, grow},
      {"object_alone", "file", "", none, aliased, object_alone},
      {"object_alone_emu", "emu", "", closed, aliased, object_alone},
      {"stopped", "file", "", short_log, stopped, checkpoints, false, false, true},
      {"verified_reports", "file", "", closed, verified, checkpoints},
      {"check", "file", "", closed, reported, check_store},
      {"check_log", "file", "", long_log, reported, check_store},
      {"check_emu", "emu", "", short_log, reported, check_store},
      {"describe", "file", "", short_log, reported, describe_store},
      {"c_interface", "file", "?io_uring=0", none, reported, c_interface},
      {"c_interface_emu", "emu", "", none, reported, c_interface},
      {"containers", "file", "?io_uring=0", none, pages, containers},
      {"typed_list", "file", "?io_uring=0", none, reported, typed_list},
      {"typed_list_emu", "emu", "", none, pages, typed_list},
      {"reachable_chain", "file", "?io_uring=0", none, pages, reachable_chain},
      {"reachable_chain_emu", "emu", "", none, pages, reachable_chain},
      {"regions", "file", "?io_uring=0", none, pages, regions},
      {"regions_emu", "emu", "", none, pages, regions},
      {"regions_chunks", "file", "?io_uring=0", none, in_chunks, regions},
      {"transactions", "file", "?io_uring=0", none, pages, transactions},
      {"transactions_emu", "emu", "", none, reported, transactions},
      {"transactions_undo", "emu", "", none, pages, transactions_undo},
      {"transactions_relaxed", "file", "?io_uring=0", none, reported, transactions_relaxed, false,
       false, true},
      {"logged_objects", "file", "?io_uring=0", none, reported, call_objects},
      {"logged_objects_emu", "emu", "", none, reported, call_objects},
      {"logged_otherwise", "file", "?io_uring=0", none, reported, call_objects_otherwise},
      {"logged_otherwise_emu", "emu", "", none, reported, call_objects_otherwise},
      {"resized_objects", "file", "?io_uring=0", none, reported, resize_objects},
      {"resized_objects_emu", "emu", "", none, reported, resize_objects},
      {"moving_objects", "file", "?io_uring=0", none, reported, move_objects},
      {"moving_objects_emu", "emu", "", none, reported, move_objects},
      {"damage", "file", "?io_uring=0", closed, reported, meet_damage, false, false, true},
      {"damage_emu", "emu", "", closed, reported, meet_damage, false, false, true},
      {"damage_copies", "emu", "", closed, in_copies(pages), meet_damage, false, false, true},
      {"chunks_format", "file", "", none, in_chunks, open_only},
      {"chunks", "file", "", closed, in_chunks, checkpoints},
      {"chunks_emu", "emu", "", closed, noted_chunks, checkpoints},
      {"chunks_without_ring", "file", "?io_uring=0", closed, noted_chunks, checkpoints},
      {"chunks_async", "file", "", closed, aside_chunks, async_checkpoints, false, false, true},
      {"chunks_timed", "file", "", closed, aside_chunks, timed_checkpoints, true, false, true},
      {"chunks_threads", "file", "", closed, aside_chunks, several_threads, false, false, true},
      {"chunks_grow", "file", "", none, in_chunks, grow},
      {"chunks_grow_unevenly", "emu", "", none, noted_chunks, grow_unevenly},
      {"chunks_lazily", "file", "", long_log, lazy_chunks, touch_recovered, false, false, true},
      {"chunks_eagerly", "file", "", long_log, in_chunks, touch_recovered},
      {"chunks_reopened", "file", "", none, in_chunks, reopened_again_and_again},
      {"chunks_check", "file", "", closed, in_chunks, check_store},
      {"chunks_roll_back", "file", "?io_uring=0", closed, in_chunks, roll_back},
      {"chunks_chain", "file", "?io_uring=0", none, in_chunks, reachable_chain},
      {"copies_format", "file", "", none, in_copies(pages), open_only},
      {"copies", "file", "", closed, in_copies(reported), checkpoints},
      {"copies_emu", "emu", "", closed, in_copies(pages), checkpoints},
      {"copies_without_ring", "file", "?io_uring=0", closed, in_copies(stopped), checkpoints},
      {"copies_async", "file", "", closed, in_copies(reported), async_checkpoints, false, false,
       true},
      {"copies_timed", "emu", "", closed, in_copies(reported), timed_checkpoints, true, false,
       true},
      {"copies_grow_unevenly", "emu", "", none, in_copies(bitmap), grow_unevenly},
      {"copies_before_use", "file", "", closed, in_copies(before_use), touch_recovered, false,
       false, true},
      {"copies_reopened", "file", "", none, in_copies(pages), reopened_again_and_again},
      {"copies_check", "file", "", closed, in_copies(pages), check_store},
      {"copies_chain", "file", "?io_uring=0", none, in_copies(pages), reachable_chain},
      {"memcached_format", "memcached", "", none, in_chunks, open_only},
      {"memcached", "memcached", "", closed, in_chunks, checkpoints},
      {"memcached_async", "memcached", "", closed, noted_chunks, async_checkpoints},
      {"memcached_grow", "memcached", "", none, in_chunks, grow},
      {"memcached_lazily", "memcached", "", closed, lazy_chunks, touch_recovered, false, false,
       true},
      {"memcached_reopened", "memcached", "", none, in_chunks, reopened_again_and_again},
  };
  for (Scenario& each : all)
    if (each.on_server()) each.calls_max = 16;  // each takes a server of its own
  return all;
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = make_scenarios();
  return all;
}

}  // namespace perdura::test
