// Two containers in regions of the store, whose roots lead into one graph: each has all of it in
// its versions, and what was one object is two when they are opened again.
//
//   left  ──first──▶ knot 0 ──next──▶ knot 1 ──▶ … ──▶ knot n/2 ──▶ … ──▶ knot 0
//   right ──first──────────────────────────────────────▲
//
// Knots also lead across, into each other, to words of their own and to functions. The steps of
// both are counted together, and what a root leads to follows from the step that it tells. A step
// takes some of the knots that there are, wherever they are, makes others, and destroys the rest.
#include <algorithm>
#include <optional>

#include "live.hpp"

namespace perdura::model {

using Rule = u64 (*)(u64);

struct Knot {
  u64 number;
  Knot* next;
  Knot* other;
  u64* inside;  ///< the number of a knot
  u64* words;
  u64 count;  ///< of words
  Rule rule;
};

struct SharedRoot {
  u64 steps;
  Knot* first;
};

}  // namespace perdura::model

PERDURA_TYPE(perdura::model::Knot, next, other, inside, words, rule)
PERDURA_TYPE(perdura::model::SharedRoot, first)

namespace perdura::model {
namespace {

enum Side : u64 { kLeft, kRight, kSides };
constexpr Side other_than(Side side) { return side == kLeft ? kRight : kLeft; }
constexpr Part part_of(Side side) { return side == kLeft ? Part::kLeft : Part::kRight; }
const char* name_of(Side side) { return region_of(part_of(side)); }

constexpr perdura_type kWordsType{"model::words", sizeof(u64), alignof(u64), 0, nullptr};

u64 add_one(u64 value) { return value + 1; }
u64 add_two(u64 value) { return value + 2; }

u64 knots_of(u64 step) { return 1 + test::mix(step + 11) % 6; }
u64 first_of(Side side, u64 step) { return side == kLeft ? 0 : knots_of(step) / 2; }
u64 other_of(u64 number, u64 knots) { return number / 7 % knots; }
u64 inside_of(u64 number, u64 knots) { return number / 11 % knots; }
/// Of some knots several pages.
u64 count_of(u64 number) { return number % 8 == 0 ? number / 8 % 3000 : number / 8 % 20; }
Rule rule_of(u64 number) { return number % 2 == 0 ? add_one : add_two; }

using Knots = std::vector<Knot*>;

/// Each once, in the order of a ring.
Knots ring_of(const SharedRoot& root) {
  Knots knots;
  for (Knot* knot = root.first; knot != nullptr && (knots.empty() || knot != knots.front());
       knot = knot->next) {
    require(knots.size() < 100, "a ring of shared objects has no end");
    knots.push_back(knot);
  }
  return knots;
}

void give_back(Knot* knot) {
  deallocate(knot->words);
  destroy(knot);
}

void fill(Knot& knot, u64 number, const Knots& knots, u64 next) {
  const u64 count = count_of(number);
  if (knot.words == nullptr || knot.count != count) {
    deallocate(std::exchange(knot.words, nullptr));
    if (count != 0) knot.words = static_cast<u64*>(allocate(kWordsType, count));
  }
  knot.number = number;
  knot.next = knots[next];
  knot.other = knots[other_of(number, knots.size())];
  knot.inside = &knots[inside_of(number, knots.size())]->number;
  knot.count = count;
  knot.rule = rule_of(number);
  for (u64 i = 0; i < count; ++i) knot.words[i] = word_of(number, i);
}

/// The knots of a step, some of them of `pool`.
Knots tie(u64 step, Knots pool) {
  Knots knots;
  for (u64 i = 0; i < knots_of(step); ++i) {
    const bool is_new = pool.empty() || word_of(step + 5, i) % 2 == 0;
    knots.push_back(is_new ? make<Knot>() : pool.back());
    if (!is_new) pool.pop_back();
  }
  for (Knot* const rest : pool) give_back(rest);
  for (u64 i = 0; i < knots.size(); ++i)
    fill(*knots[i], word_of(step, i), knots, (i + 1) % knots.size());
  return knots;
}

std::string wrong_with(const SharedRoot& root, Side side) {
  if (root.steps == 0) return root.first == nullptr ? "" : "it has knots of no step";
  const Knots ring = ring_of(root);
  const u64 count = knots_of(root.steps);
  if (ring.size() != count) return "it has another number of knots";
  const auto knot_at = [&](u64 index) {
    return ring[(index + count - first_of(side, root.steps)) % count];
  };
  for (u64 i = 0; i < count; ++i) {
    const Knot& knot = *knot_at(i);
    if (knot.number != word_of(root.steps, i)) return "a knot is of another step";
    if (knot.next != knot_at((i + 1) % count) ||
        knot.other != knot_at(other_of(knot.number, count)))
      return "a knot leads to another one";
    if (knot.inside != &knot_at(inside_of(knot.number, count))->number)
      return "a knot leads into another one";
    if (knot.rule != rule_of(knot.number)) return "a knot has another function";
    if (knot.count != count_of(knot.number) || (knot.words == nullptr) != (knot.count == 0))
      return "a knot has other words";
    for (u64 j = 0; j < knot.count; ++j)
      if (knot.words[j] != word_of(knot.number, j)) return "words of a knot are wrong";
  }
  return {};
}

}  // namespace

/// Both in a session.
struct SharedRun {
  Live& live;
  std::optional<Container> sides[kSides]{};
  bool is_shared = false;  ///< both lead into one graph
  u64 pointed[kSides]{};   ///< the step that the last point has

  SharedRoot& root(Side side) { return sides[side]->root<SharedRoot>(); }
  bool both() const { return sides[kLeft] && sides[kRight]; }
  std::atomic<u64>& done_of(Side side) const { return live.journal.done_of(part_of(side)); }

  void open(Side side, u64 number);
  void check(Side side);
  void step();
  void step_with(Knots pool);
  void point(Side side, bool in_background);
  void discard(Side side);
  void close(Side side);
  void leave(Side side, u64 number);
  void go_on_alone(Side side, const Knots& of_its_own, u64 number);
  void forget_words_elsewhere(Side side, const Knots& knots);
};

// Where it was, or at one of a few places. Without room for a root it is not open: what is closed
// is acknowledged, up to the step that was found here.
void SharedRun::open(Side side, u64 number) {
  Options options = container_options(live, name_of(side));
  if (number % 4 == 0)
    options.region_address = (u64{0x2800} << 32) + ((number / 4 % 4 * kSides + side) << 32);
  Container opened = live.library([&] { return Container::open(live.uri, options); });
  const SharedRoot& found = opened.root<SharedRoot>();
  require_reached(live.journal, part_of(side), found.steps, name_of(side));
  sides[side].emplace(std::move(opened));
  pointed[side] = found.steps;
  is_shared = false;
  check(side);
  for (const Knot* const knot : ring_of(found))
    require(sides[side]->contains(knot) && (knot->count == 0 || sides[side]->contains(knot->words)),
            "a container that was opened has a knot elsewhere");
  const HeapAudit audit = sides[side]->audit();
  require(audit.clean, std::string("the heap of the container ") + name_of(side) +
                           " is damaged: " + audit.problem);
}

void SharedRun::check(Side side) {
  const std::string problem = wrong_with(root(side), side);
  require(problem.empty(), std::string("the container ") + name_of(side) + ", step " +
                               std::to_string(root(side).steps) + ": " + problem);
}

void SharedRun::step() {
  Knots pool;
  for (const Side side : {kLeft, kRight}) {
    if (!sides[side] || (side == kRight && is_shared)) continue;
    const Knots ring = ring_of(root(side));
    pool.insert(pool.end(), ring.begin(), ring.end());
  }
  step_with(std::move(pool));
}

void SharedRun::step_with(Knots pool) {
  const u64 step = std::max(done_of(kLeft).load(), done_of(kRight).load()) + 1;
  const Knots knots = tie(step, std::move(pool));
  for (const Side side : {kLeft, kRight}) {
    if (!sides[side]) continue;
    root(side).first = knots[first_of(side, step)];
    root(side).steps = step;
    done_of(side) = step;
  }
  is_shared = both();
  if (is_shared) live.journal.use(Feature::kShared);
}

void SharedRun::point(Side side, bool in_background) {
  const u64 step = done_of(side);
  if (in_background) {
    live.library([&] { sides[side]->point_async(); });
    live.library([&] { sides[side]->sync(); });
  } else {
    live.library([&] { sides[side]->point(); });
  }
  pointed[side] = step;
  live.acknowledge(part_of(side), step);
}

// What was done since the last point is lost, and nothing else.
void SharedRun::discard(Side side) {
  sides[side]->discard();
  sides[side].reset();
  is_shared = false;
  if (live.session.fault_at == 0 && !live.session.full_disk) done_of(side) = pointed[side];
}

// It is closed also when that throws.
void SharedRun::close(Side side) {
  Container closing = std::move(*sides[side]);
  sides[side].reset();
  is_shared = false;
  live.library([&] { closing.close(); });
  if (live.session.fault_at == 0) live.acknowledge(part_of(side), done_of(side));
}

/// One of both closes. The other's version stays as its last point found what they share; what it
/// leads to there is gone from memory.
void SharedRun::leave(Side side, u64 number) {
  const Side stays = other_than(side);
  const bool was_shared = is_shared;
  Knots of_its_own;
  if (was_shared) {
    point(stays, number % 2 == 0);
    for (Knot* const knot : ring_of(root(stays)))
      if (sides[stays]->contains(knot)) of_its_own.push_back(knot);
  }
  try {
    if (number / 2 % 2 == 0) close(side);
    else discard(side);
    if (was_shared) go_on_alone(stays, of_its_own, number / 4);
  } catch (...) {
    if (was_shared && sides[stays]) discard(stays);
    throw;
  }
}

void SharedRun::go_on_alone(Side side, const Knots& of_its_own, u64 number) {
  if (number % 2 == 0) point(side, false);
  if (number / 2 % 2 == 0) {
    discard(side);
    open(side, number / 4);
  } else {
    forget_words_elsewhere(side, of_its_own);
    step_with(of_its_own);
  }
}

void SharedRun::forget_words_elsewhere(Side side, const Knots& knots) {
  for (Knot* const knot : knots)
    if (!sides[side]->contains(knot->words)) knot->words = nullptr;
}

namespace {

void take_points(SharedRun& shared, u64 number) {
  constexpr Side kOrders[][2] = {{kLeft, kRight}, {kRight, kLeft}};
  const auto& order = kOrders[number % 2];
  const u64 points = number / 2 % 3;
  for (u64 i = 0; i < points; ++i)
    if (shared.sides[order[i]]) shared.point(order[i], number / 6 % 2 == 0);
}

const ActionRegistration kShared({
    .name = "shared",
    .weight = 1.3,
    .by_one_thread = true,
    .possible = has_regions,
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          live.journal.use(Feature::kRegion);
          if (live.shared == nullptr) live.shared = std::make_shared<SharedRun>(live);
          SharedRun& shared = *live.shared;
          const u64 number = action.number / 8;
          const Side first = number % 2 == 0 ? kLeft : kRight;
          if (action.number % 8 == 0 && shared.both()) return shared.leave(first, number / 2);
          if (!shared.sides[first]) shared.open(first, number / 2);
          if (action.number % 8 > 1 && !shared.sides[other_than(first)])
            shared.open(other_than(first), number / 64);
          for (u64 left = number / 4 % 4; left != 0; --left) shared.step();
          take_points(shared, number / 16);
          for (const Side side : {kLeft, kRight})
            if (shared.sides[side]) shared.check(side);
        },
});

}  // namespace

// Each has all of it before the other one is gone.
void close_shared(Live& live) {
  if (live.shared == nullptr) return;
  SharedRun& shared = *live.shared;
  const u64 number = live.session.actions.empty() ? 0 : live.session.actions.back().number;
  const Side first = number % 2 == 0 ? kLeft : kRight;
  try {
    if (shared.is_shared)
      for (const Side side : {first, other_than(first)}) shared.point(side, false);
    for (const Side side : {other_than(first), first})
      if (shared.sides[side]) shared.close(side);
  } catch (const Error& error) {
    if (!live.expected(error)) throw;
    for (const Side side : {kLeft, kRight})
      if (shared.sides[side]) shared.discard(side);
  }
}

}  // namespace perdura::model
