// The plain model: what a lane holds, in ordinary memory, and what a crash may leave of it.
//
// A lane's content is a row of cells. An action's steps become changes of cells, each with what was
// there and what is there after it. The store says how far a lane came: the last action that
// changed it in an operation, and in a transaction. Changes beyond those are lost. What is left
// must be exactly what the others make.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "durable.hpp"
#include "program.hpp"

namespace perdura::model {

struct Journal;

/// How a block is allocated. A bare one holds no pointer, not even to itself.
enum class Form : u8 { kNone, kRaw, kAligned, kTyped, kFlexible, kBare };

/// What is in a cell.
struct Value {
  Form form = Form::kNone;  ///< of a block
  u64 id = 0;               ///< of a block, from which its words follow; or a number
  u64 words = 0;            ///< of a block
  std::vector<u64> list{};  ///< of a standard container
  bool operator==(const Value&) const = default;
  bool is_block() const { return form != Form::kNone; }
};

/// Which cells a lane has.
namespace cells {
constexpr u64 kSlot = 0;
constexpr u64 kWord = kSlot + kSlots;
constexpr u64 kHalf = kWord + 2 * kOf;
constexpr u64 kAccount = kHalf + 2 * kOf;  ///< what the lane added to the world's
constexpr u64 kRoot = kAccount + 2 * kOf;
constexpr u64 kKey = kRoot + kRoots;
constexpr u64 kVector = kKey + kKeys;
constexpr u64 kString = kVector + 1;
constexpr u64 kText = kString + 1;
constexpr u64 kOffer = kText + kTexts;
constexpr u64 kDistance = kOffer + kOffers;
constexpr u64 kCount = kDistance + kDistances;
}  // namespace cells

struct Change {
  u64 cell = 0;
  Value before{};
  Value after{};
};

/// A step with what it means where the model is.
struct Planned {
  const Step* step = nullptr;
  std::vector<Change> changes{};
};

struct LaneModel {
  std::array<Value, cells::kCount> cells{};
  std::array<u64, cells::kCount> stored_by{};  ///< the last operation that changed it
  u64 operation = 0;
  u64 transaction = 0;
  u64 covered = 0;  ///< operations that an acknowledged version has

  void apply(const Change& change, Domain domain, u64 id);
  /// A transaction may store here: what operations made of it is part of a version.
  bool is_covered(u64 cell) const { return stored_by[cell] <= covered; }
};

/// What an action does: first what is undone again, then what stays.
struct Plan {
  std::vector<Planned> undone{};
  std::vector<Planned> kept{};
};
Plan plan(const Program& program, const LaneModel& model, const Action& action);
/// The action was done, with `count` of its steps.
void apply(LaneModel& model, const Action& action, const Plan& plan, u64 count);

/// How far a lane came, as the store says.
struct Reached {
  u64 operation = 0;
  u64 transaction = 0;
};

/// What the store holds when the session begins, where the lanes came so far; or what is wrong.
struct Replayed {
  std::string problem;
  std::array<LaneModel, kLanes> lanes{};
};
Replayed replay(const Program& program, const Journal& journal, size_t session);

}  // namespace perdura::model
