// Programs from numbers.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "journal.hpp"
#include "known.hpp"
#include "live.hpp"
#include "media/fault.hpp"

namespace perdura::model {

bool reports_stores(const Options& options) {
  return options.tracking == Tracking::kReported || options.tracking == Tracking::kBitmap;
}

bool Program::transactions() const {
  return options.engine == Engine::kRedoLog && options.aliases == 0;
}

u64 Program::actions() const {
  u64 count = 0;
  for (const Session& session : sessions) count += session.actions.size();
  return count;
}

namespace {

class Drawer {
 public:
  Drawer(u64 seed, const Drawing& drawing) : drawing_(drawing), random_(test::mix(seed)) {
    program_.seed = seed;
  }

  Program draw() {
    draw_taste();
    draw_store();
    const u64 sessions = 2 + below(4);
    for (u64 i = 0; i < sessions; ++i)
      draw_session(std::max<u64>(drawing_.actions / sessions, 2), i + 1 == sessions);
    return std::move(program_);
  }

 private:
  u64 below(u64 limit) { return random_() % limit; }
  bool one_in(u64 of) { return below(of) == 0; }
  double between(double low, double high) {
    return std::uniform_real_distribution(low, high)(random_);
  }

  /// Programs differ in what they do most. Few kinds that come often, with the same sizes again and
  /// again, meet in ways in which all of them together hardly ever do.
  void draw_taste() {
    if (!one_in(3)) {
      for (const ActionKind* kind : action_kinds()) draw_taste(kind->name);
      for (const StepKind* kind : step_kinds()) draw_taste(kind->name);
    }
    if (one_in(2))
      for (u64 i = 1 + below(4); i != 0; --i) numbers_.push_back(random_());
    if (!numbers_.empty()) opens_slowly_ = one_in(3);
    if (opens_slowly_)
      for (u64& number : numbers_) number |= kOfLargeBlocks;
  }
  void draw_taste(const char* kind) {
    if (one_in(3)) taste_[kind] = 0.1;
    else if (one_in(4)) taste_[kind] = 5;
  }
  /// Of a kind that is drawn rarely because it takes its time nobody wants more.
  template <class Kind>
  double weight_of(const Kind& kind) const {
    const auto found = taste_.find(kind.name);
    return found == taste_.end() || kind.weight < kWeightOfSlow ? kind.weight
                                                                : kind.weight * found->second;
  }

  /// What stays as the store is made.
  void draw_store() {
    program_.medium = one_in(16)                                  ? "memcached"
                      : one_in(drawing_.kind == "faults" ? 2 : 3) ? "file"
                                                                  : "emu";
    program_.on_disk = program_.medium == "file" && one_in(3);
    program_.options.engine = program_.medium == "memcached" || one_in(4) ? Engine::kRemap
                              : one_in(4)                                 ? Engine::kDualCopy
                                                                          : Engine::kRedoLog;
    program_.options.region_limit_bytes = one_in(8) ? kSmallRegion : 32 * kMiB;
    program_.options.log_segment_bytes = 32 * kKiB << below(4);
    program_.options.chunk_bytes = static_cast<std::uint32_t>(4096 << below(5));
    program_.options.versions_kept = static_cast<std::uint32_t>(1 + below(4));
    if (one_in(5)) program_.options.aliases = static_cast<std::uint32_t>(1 << below(3));
    program_.typed = one_in(program_.options.aliases != 0 ? 2 : 4);
    program_.own = one_in(4);
    program_.typed_root = one_in(2);
    draw_tracking(program_.options);
    program_.standard = !program_.typed && one_in(3);
    if (!program_.transactions()) return;
    if (one_in(4) || leaves_out({}, "both use the heap"))
      program_.heap_use = one_in(3) ? HeapUse::kOperations : HeapUse::kTransactions;
  }

  void draw_tracking(Options& options) {
    constexpr Tracking kAll[] = {Tracking::kAutomatic, Tracking::kReported, Tracking::kBitmap,
                                 Tracking::kUserfault, Tracking::kProtect,  Tracking::kSigbus};
    do {
      options.tracking = kAll[below(std::size(kAll))];
      options.capture = Capture::kAutomatic;
      if (one_in(3))
        options.capture =
            options.aliases == 0 && one_in(2) ? Capture::kBackground : Capture::kStopped;
      if (options.tracking == Tracking::kReported && one_in(4))
        options.granule_bytes = 64u << below(7);
    } while ((reports_stores(options) && (options.aliases != 0 || program_.standard)) ||
             !is_supported(options.tracking));
  }

  void draw_session(u64 actions, bool last) {
    Session session;
    session.options = program_.options;
    draw_tracking(session.options);
    session.options.log_limit_bytes = !opens_slowly_ && one_in(2) ? 256 * kKiB : 0;
    session.options.lazy_recovery = opens_slowly_ ? !one_in(4) : one_in(2);
    if (one_in(3)) session.options.verify = Verify::kBeforeUse;
    session.options.huge_pages = one_in(2);
    session.parallel = one_in(3);
    if (one_in(session.parallel || drawing_.kind == "faults" ? 2 : 3)) {
      session.durability = draw_durability();
      session.logging = one_in(2) ? Logging::kUndo : Logging::kRedo;
    }
    session.inspect = one_in(3) && !leaves_out(session, "check");
    session.other_build = has_regions(program_, session) && one_in(4);
    session.guest_below_libraries = has_regions(program_, session) && one_in(3);
    if (has_regions(program_, session) && one_in(2)) session.taken_bytes = (1 + below(16)) * kMiB;
    session.roll_back = program_.options.engine == Engine::kRemap && one_in(2);
    if (has_regions(program_, session) && one_in(5)) {
      constexpr Part kRemoved[] = {Part::kGuest, Part::kPlain, Part::kLeft, Part::kRight};
      session.removed = kRemoved[below(std::size(kRemoved))];
    }
    session.look_back = program_.options.engine == Engine::kRemap && one_in(2);
    session.at_once = opens_slowly_ ? !one_in(4) : one_in(2);
    // Far from where it was, or with a part of that.
    if (program_.typed && one_in(2))
      session.options.region_address =
          kAddress + below(8) * (one_in(2) ? u64{1} << 32 : 64 * kPageBytes);
    // Trackers open as much at a time, also where the store has no chunks.
    if (program_.options.engine != Engine::kRemap &&
        program_.options.region_limit_bytes != kSmallRegion)
      session.options.chunk_bytes =
          static_cast<std::uint32_t>(opens_slowly_ ? 4 * kMiB >> below(4) : 4 * kKiB << below(11));
    draw_end(session, last);
    // Who looks outlives a process that is killed meanwhile, and would have the store.
    session.read_only = session.end != End::kTime && one_in(4);
    if (session.end == End::kThrow && one_in(2)) session.durability = Durability::kRelaxed;
    session.full_disk = !program_.sessions.empty() && session.end != End::kDeleted && one_in(8);
    if (drawing_.kind == "faults" && !session.full_disk && !last && one_in(2)) {
      session.fault_at = 1 + below(one_in(2) ? 60 : 8);
      constexpr unsigned kWrites = media::kFaultWrite | media::kFaultSubmit;
      constexpr unsigned kCalls[] = {
          kWrites, kWrites, kWrites, media::kFaultBarrier, media::kFaultGrow, media::kFaultDrain};
      session.fault_calls = kCalls[below(std::size(kCalls))];
    }
    // Short ones end before anything made a version of what they did.
    const u64 drawn = one_in(4) ? 1 + below(8) : actions / 2 + below(actions);
    while (session.actions.size() < drawn && next_id_ < kActionsMax - 1 - 2 * kBurstMax)
      draw_burst(session, one_in(10));
    if (one_in(3)) draw_burst(session, true);  // nobody waits for what was done last
    program_.sessions.push_back(std::move(session));
  }

  /// One action, or several of a kind.
  void draw_burst(Session& session, bool several) {
    const ActionKind& kind = draw_action_kind(session);
    u64 count = several && kind.weight >= kWeightOfSlow ? 2 + below(kBurstMax - 1) : 1;
    for (; count != 0; --count) session.actions.push_back(draw_action(session, kind));
  }

  /// On a disk all but two are one.
  Durability draw_durability() {
    if (one_in(6)) return Durability::kNone;
    if (program_.medium == "file" && one_in(2)) return Durability::kRelaxed;
    return static_cast<Durability>(below(5));
  }

  void draw_end(Session& session, bool last) {
    if (drawing_.kind == "run" || last) {
      session.end = one_in(4) ? End::kUnwind : End::kClose;
      return;
    }
    constexpr End kEnds[] = {End::kClose,  End::kExit,  End::kExit,  End::kMediumCall,
                             End::kTime,   End::kThrow, End::kThrow, End::kMediumCall,
                             End::kPower,  End::kPower, End::kPower, End::kDeleted,
                             End::kDeleted};
    session.end = kEnds[below(std::size(kEnds))];
    // Few sessions look back, and few of these would end so.
    if ((session.look_back || session.roll_back) && drawing_.kind == "kill" && one_in(5))
      session.end = End::kDeleted;
    // What is deleted, or written as the power left it, is a file.
    if (program_.medium == "memcached" &&
        (session.end == End::kDeleted || session.end == End::kPower))
      session.end = End::kExit;
    if (session.end == End::kDeleted && drawing_.kind == "faults") session.end = End::kExit;
    if (session.end == End::kMediumCall) session.end_at = 1 + below(one_in(2) ? 30 : 400);
    if (session.end == End::kPower) session.end_at = random_();
    if (session.end == End::kTime)
      session.end_at = static_cast<u64>(std::pow(10, between(4.5, 7.3)));
  }

  template <class Kind>
  const Kind& draw_kind(const std::vector<const Kind*>& kinds,
                        const std::function<bool(const Kind&)>& may) {
    double sum = 0;
    for (const Kind* kind : kinds)
      if (may(*kind)) sum += weight_of(*kind);
    double left = between(0, sum);
    const Kind* last = nullptr;
    for (const Kind* kind : kinds) {
      if (!may(*kind)) continue;
      last = kind;
      if ((left -= weight_of(*kind)) < 0) break;
    }
    return *last;
  }

  const ActionKind& draw_action_kind(const Session& session) {
    return draw_kind<ActionKind>(action_kinds(), [&](const ActionKind& one) {
      return (one.possible == nullptr || one.possible(program_, session)) &&
             !leaves_out(session, one.name);
    });
  }

  Action draw_action(const Session& session, const ActionKind& kind) {
    Action action;
    action.id = ++next_id_;
    action.kind = kind.name;
    action.lane = below(kLanes);
    action.number = random_();
    if (kind.has_steps) {
      const u64 steps = 1 + below(one_in(4) ? 12 : 4);
      for (u64 i = 0; i < steps; ++i) action.steps.push_back(draw_step(session, kind.domain));
    }
    return action;
  }

  Step draw_step(const Session& session, Domain domain) {
    const StepKind& kind = draw_kind<StepKind>(step_kinds(), [&](const StepKind& one) {
      return (domain == Domain::kOperation ? one.by_operations : one.by_transactions) &&
             (!one.heap || uses_heap(domain)) &&
             (one.possible == nullptr || one.possible(program_, session.options)) &&
             !leaves_out(session, one.name);
    });
    return {kind.name, below(64), numbers_.empty() ? random_() : numbers_[below(numbers_.size())]};
  }

  bool leaves_out(const Session& session, std::string_view kind) const {
    return !drawing_.known && is_left_out(program_, session, kind);
  }
  bool uses_heap(Domain domain) const {
    return program_.heap_use == HeapUse::kBoth ||
           (program_.heap_use == HeapUse::kOperations) == (domain == Domain::kOperation);
  }

  static constexpr u64 kAddress = u64{0x2000} << 32;
  static constexpr u64 kOfLargeBlocks = 62;
  static constexpr u64 kBurstMax = 6;
  static constexpr double kWeightOfSlow = 0.3;

  const Drawing drawing_;
  std::mt19937_64 random_;
  Program program_;
  u64 next_id_ = 0;
  std::map<std::string_view, double> taste_;  ///< by which weights are multiplied
  std::vector<u64> numbers_;                  ///< of steps; none: any
  /// Blocks of many pages, which are still in the log when the store is opened again, by a program
  /// that does not wait until they are home.
  bool opens_slowly_ = false;
};

}  // namespace

Program draw(u64 seed, const Drawing& drawing) { return Drawer(seed, drawing).draw(); }

}  // namespace perdura::model
