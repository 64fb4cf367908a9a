// A heap by HEAPO's calls, used in F-STM's transactions, beside the store. Its first object counts
// the steps, and leads to an object of the last one:
//
//   first ──node──▶ words that follow from the step
//
// Objects are made and given back in the transaction, or before and behind it.
#include <perdura/compat/fstm.h>
#include <perdura/compat/heapo.h>

#include "live.hpp"

namespace perdura::model {
namespace {

constexpr const char* kHeap = "heap";

struct HeapoNode {
  u64 steps;
  u64 words;
  u64 data[];
};

struct HeapoFirst {
  u64 steps;
  HeapoNode* node;
};

/// Of this session.
HeapoFirst* mapped = nullptr;

void require_heapo(bool holds, const char* what) {
  require(holds, std::string(what) + ": " + perdura_last_error());
}

HeapoNode* make_node(u64 steps, u64 words) {
  auto* const node =
      static_cast<HeapoNode*>(pos_malloc(kHeap, sizeof(HeapoNode) + words * sizeof(u64)));
  require_heapo(node != nullptr, "pos_malloc");
  node->steps = steps;
  node->words = words;
  for (u64 i = 0; i < words; ++i) node->data[i] = word_of(steps, i);
  return node;
}

void check_heap(Journal& journal) {
  require_reached(journal, Part::kHeapo, mapped->steps, "the heap of HEAPO");
  const HeapoNode* const node = mapped->node;
  require((node != nullptr) == (mapped->steps != 0), "the heap of HEAPO has no object, or one");
  if (node == nullptr) return;
  require(node->steps == mapped->steps, "the heap of HEAPO has an object of another step");
  for (u64 i = 0; i < node->words; ++i)
    require(node->data[i] == word_of(node->steps, i), "the heap of HEAPO is not of one step");
}

void map_heap(Journal& journal) {
  mapped = static_cast<HeapoFirst*>(pos_map(kHeap));
  if (mapped == nullptr && perdura_last_code() == PERDURA_NOT_FOUND)
    mapped = static_cast<HeapoFirst*>(pos_create(kHeap));
  require_heapo(mapped != nullptr, "pos_map or pos_create");
  check_heap(journal);
}

/// `early`, if there is one, was made before it. Nothing of this function changes in it, since it
/// may begin again.
[[gnu::noinline]] HeapoNode* replace_node(u64 steps, u64 words, HeapoNode* early, bool frees) {
  HeapoFirst* const first = mapped;
  TM_START
  require(TM_LOAD(&first->steps) + 1 == steps, "F-STM's transaction finds another step");
  auto* const old = reinterpret_cast<HeapoNode*>(TM_LOAD(&first->node));
  TM_STORE(&first->steps, steps);
  TM_STORE(&first->node, early != nullptr ? early : make_node(steps, words));
  if (frees && old != nullptr) require_heapo(pos_free(kHeap, old) == 0, "pos_free");
  TM_COMMIT
  return frees ? nullptr : old;
}

const ActionRegistration kHeapo({
    .name = "heapo",
    .weight = 1.5,
    .by_one_thread = true,
    .possible = [](const Program& program, const Session&) { return program.own; },
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          Journal& journal = live.journal;
          journal.use(Feature::kHeapo);
          journal.use(Feature::kFstm);
          const u64 steps = ++journal.done_of(Part::kHeapo);
          const u64 words = action.number / 8 % 100;
          HeapoNode* const early = action.number % 2 == 0 ? make_node(steps, words) : nullptr;
          HeapoNode* const late = replace_node(steps, words, early, action.number % 4 < 2);
          raise(journal.acknowledged_of(Part::kHeapo), steps);
          if (late != nullptr) require_heapo(pos_free(kHeap, late) == 0, "pos_free");
          check_heap(journal);
          if (action.number % 8 != 7) return;
          // At once: what is opened meanwhile might lie where its objects must be.
          require_heapo(pos_unmap(kHeap) == 0, "pos_unmap");
          map_heap(journal);
        },
});

}  // namespace

// Before the others, for the same reason.
void open_heapo(Journal& journal) { map_heap(journal); }

}  // namespace perdura::model
