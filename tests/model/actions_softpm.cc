// A container by SoftPM's calls, beside the store: with a root of which it is known where its
// pointers are, or each word of which may be one; left, come back to, closed and removed.
//
//   root ──state──▶ steps ──chain──▶ links, older ones behind
//                         ──item───▶ an object of the last step ◀── root's aside, an excluded
//                                    pointer; or it leads to an object that nothing else leads to
#include <perdura/compat/softpm.h>

#include <chrono>
#include <thread>

#include "chain_steps.hpp"
#include "live.hpp"

namespace perdura::model {

struct SoftpmItem {
  u64 steps;
  SoftpmItem* self;
  const char* name;  ///< a literal
};

struct SoftpmState {
  test::ChainRoot chain;
  u64 steps;
  SoftpmItem* item;
  u64 loose;  ///< the address of what only the excluded pointer leads to; no pointer
};

struct SoftpmRoot {
  SoftpmItem* aside;  // before what makes its object move
  SoftpmState* state;
};

}  // namespace perdura::model

PERDURA_TYPE(perdura::model::SoftpmItem, self, name)
PERDURA_TYPE(perdura::model::SoftpmState, chain, item)
PERDURA_TYPE(perdura::model::SoftpmRoot, aside, state)

namespace perdura::model {
namespace {

constexpr int kNoContainer = kSoftpmContainer + 1;  ///< of this number there never is one
constexpr u64 kPoint = 5;                           ///< of an action's number: what it does

/// The container in a session.
struct {
  int id = 0;  ///< 0: it is closed
  SoftpmRoot* root = nullptr;
  SoftpmItem* loose = nullptr;  ///< what only the excluded pointer leads to
  u64 pointed = 0;              ///< steps that its last point has
  u64 attempted = 0;            ///< the same, whatever came of it
  bool may_be_told = false;     ///< a point failed, and there was no memory to say so
} now;

/// Memory may be refused.
void require_done(int code, const char* what) {
  if (code == -PERDURA_NO_MEMORY) throw Error(Code::kNoMemory, perdura_last_error());
  require(code >= 0, std::string(what) + ": " + perdura_last_error());
}
void require_code(int code, int expected, const char* what) {
  require(code == expected, std::string(what) + " returned " + std::to_string(code) + ", not " +
                                std::to_string(expected));
}

bool has_typed_root(const Live& live) { return live.program.typed_root; }

int make_container(const Live& live, void** root) {
  return has_typed_root(live) ? pCAllocTyped(kSoftpmContainer, &TypeRecord<SoftpmRoot>::value, root)
                              : pCAlloc(kSoftpmContainer, sizeof(SoftpmRoot), root);
}

bool leads_aside(u64 step) { return test::mix(step + 1) % 2 == 0; }

/// As the last point left it. A word that may be a pointer may as well be a number.
SoftpmItem* aside_once_opened(const Live& live, const SoftpmState& state) {
  return has_typed_root(live) ? nullptr : reinterpret_cast<SoftpmItem*>(state.loose);
}

void check(const Live& live) {
  const SoftpmState* const state = now.root->state;
  if (state == nullptr) return;
  std::vector<u64> numbers;
  const std::string problem = test::check_chain(state->chain, &numbers);
  require(problem.empty(), "in SoftPM's container: " + problem);
  require(numbers == expected_chain(state->steps), "SoftPM's container holds another chain");
  require(state->item != nullptr && state->item->steps == state->steps &&
              state->item->self == state->item && state->item->name == std::string("an item"),
          "SoftPM's item is not that of the last step");
  if (!leads_aside(state->steps))
    require(now.root->aside == state->item,
            "SoftPM's excluded pointer does not lead to where its object is");
  else
    require(now.root->aside == (now.loose == nullptr ? aside_once_opened(live, *state) : now.loose),
            "SoftPM's excluded pointer leads to something else");
}

void open(Live& live, u64 number) {
  void* root = nullptr;
  const int id = live.library([&] {
    if (has_typed_root(live) && number % 2 == 0)
      return pCOpenTyped(kSoftpmContainer, &TypeRecord<SoftpmRoot>::value, &root);
    const int restored = pCRestore(kSoftpmContainer, &root);
    return restored == -PERDURA_NOT_FOUND ? make_container(live, &root) : restored;
  });
  require_done(id, "SoftPM's container cannot be opened");
  now.id = id;
  now.root = static_cast<SoftpmRoot*>(root);
  const SoftpmState* const state = now.root->state;
  now.pointed = now.attempted = state == nullptr ? 0 : state->steps;
  require_reached(live.journal, Part::kSoftpm, now.pointed, "SoftPM's container");
  check(live);
  pExclude(now.id, &now.root->aside);
}

void step(Live& live) {
  Journal& journal = live.journal;
  const u64 steps = journal.done_of(Part::kSoftpm) + 1;
  SoftpmRoot& root = *now.root;
  if (root.state == nullptr) root.state = make<SoftpmState>();
  SoftpmState& state = *root.state;
  step_chain(state.chain, steps);
  auto* const item = static_cast<SoftpmItem*>(perdura_new(&TypeRecord<SoftpmItem>::value, 1));
  require(item != nullptr, std::string("perdura_new: ") + perdura_last_error());
  *item = {steps, item, "an item"};
  require_done(perdura_delete(std::exchange(state.item, item)), "perdura_delete");
  destroy(std::exchange(now.loose, nullptr));
  if (leads_aside(steps)) now.loose = make<SoftpmItem>(steps, nullptr, nullptr);
  root.aside = leads_aside(steps) ? now.loose : item;
  state.loose = reinterpret_cast<u64>(now.loose);
  state.steps = steps;
  journal.done_of(Part::kSoftpm) = steps;
}

/// With `waits` it is durable. What may fail is waited for.
void point(Live& live, bool waits) {
  Journal& journal = live.journal;
  live.library([] { pPoint(now.id); });
  now.attempted = journal.done_of(Part::kSoftpm);
  if (waits || live.is_starved) {
    int synced = live.library([] { return pSync(now.id); });
    if (live.is_starved && synced != 0) now.may_be_told = true;
    // It speaks of the first point that failed since one was told of: once, also when it is over.
    if (!live.is_starved && std::exchange(now.may_be_told, false) && synced == -PERDURA_NO_MEMORY) {
      pPoint(now.id);
      synced = pSync(now.id);
    }
    require_done(synced, "pSync");
    raise(journal.acknowledged_of(Part::kSoftpm), now.attempted);
  }
  now.pointed = now.attempted;
}

/// The program does nothing meanwhile: it has no way to bracket its steps.
void point_by_the_timer(Live& live) {
  cattr attributes{};
  attributes.interval_ms = 1;
  require_done(pCSetAttr(now.id, &attributes), "pCSetAttr");
  const cattr* const read = pCGetAttr(kSoftpmContainer);
  require(read != nullptr && read->magic == kSoftpmContainer && read->interval_ms == 1,
          "SoftPM's container has other attributes");
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  attributes.interval_ms = 0;
  require_done(pCSetAttr(now.id, &attributes), "pCSetAttr");
  point(live, true);
}

/// What was changed since the last point is lost, and nothing else.
void close(Live& live) {
  Journal& journal = live.journal;
  pCFree(now.id);
  destroy(std::exchange(now.loose, nullptr));
  require_code(pSync(std::exchange(now.id, 0)), -PERDURA_NOT_FOUND, "pSync of a closed container");
  require(pCGetAttr(kSoftpmContainer) == nullptr, "a closed container has attributes");
  raise(journal.acknowledged_of(Part::kSoftpm), now.pointed);
  journal.done_of(Part::kSoftpm) = now.attempted;
  now.may_be_told = false;
}

/// Open or not.
void remove(Journal& journal) {
  journal.acknowledged_of(Part::kSoftpm) = 0;
  pCDelete(kSoftpmContainer);
  destroy(std::exchange(now.loose, nullptr));
  now.id = 0;
  now.may_be_told = false;
  journal.done_of(Part::kSoftpm) = 0;
  void* root = nullptr;
  require_code(pCRestore(kSoftpmContainer, &root), -PERDURA_NOT_FOUND,
               "pCRestore of a removed container");
}

void refuse(Live& live) {
  void* root = nullptr;
  require_code(make_container(live, &root), -PERDURA_MISUSE, "pCAlloc of an open container");
  require_code(pCRestore(kSoftpmContainer, &root), -PERDURA_MISUSE,
               "pCRestore of an open container");
  require_code(pCRestore(kNoContainer, &root), -PERDURA_NOT_FOUND, "pCRestore of no container");
  require_code(pSync(now.id + 1000), -PERDURA_NOT_FOUND, "pSync of no container");
}

const ActionRegistration kSoftpm({
    .name = "softpm",
    .weight = 2,
    .by_one_thread = true,
    .possible = [](const Program& program, const Session&) { return program.own; },
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          Journal& journal = live.journal;
          journal.use(Feature::kSoftpm);
          const u64 what = live.is_starved ? kPoint : action.number % 16;
          if (what == 0) return remove(journal);
          if (now.id == 0) open(live, action.number / 16);
          for (u64 left = action.number / 32 % 4; left != 0; --left) step(live);
          if (what == 1) refuse(live);
          else if (what < 4) close(live);
          else if (what == 4) point_by_the_timer(live);
          else if (what < 14) point(live, what < 12);
          if (now.id != 0) check(live);
        },
});

}  // namespace

// A point that is being written may fail, which the next pSync tells.
void starve_softpm(const Journal& journal) {
  now.may_be_told = true;
  now.pointed = journal.part_acknowledged[static_cast<size_t>(Part::kSoftpm)];
}

}  // namespace perdura::model
