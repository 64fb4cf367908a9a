#include "commit/sequence.hpp"

namespace perdura::commit {
namespace {
/// Of a change set: milliseconds of work, some hundred times what it costs to start a thread.
constexpr u64 kPagesPerHelper = 8192;
}  // namespace

u64 Sequence::cut(Attempt& attempt) {
  // First: a guest may stop others whose memory a thread would take.
  const track::Mutators::Helpers helpers(*config_.mutators, changed_pages_ / kPagesPerHelper);
  CutGuest* const guest = config_.guest;
  const Status ready = guarded([&] { return guest != nullptr ? guest->before_cut() : Status{}; });
  const u64 begin_ns = config_.mutators->stop();
  attempt.status = guarded([&]() -> Status {
    config_.engine->begin(attempt.version);
    if (!ready) return copy_of(ready.failure());
    return take(attempt);
  });
  const u64 pause_ns = config_.mutators->resume() - begin_ns;
  if (guest != nullptr) guest->after_cut();
  return pause_ns;
}

// While mutators stand still.
Status Sequence::take(Attempt& attempt) {
  if (attempt.selection != nullptr) {
    PERDURA_TRY(attempt.selection->select());
    if (config_.selected) config_.selected(attempt.version, attempt.selection->lines().numbers);
    return config_.engine->capture_selection(attempt.selection->lines());
  }
  // Before anything can fail for want of space: what has failed so is not tried the same way again.
  attempt.trimmed = config_.engine->trims();
  if (config_.guest != nullptr) PERDURA_TRY(config_.guest->at_cut());
  PERDURA_TRY(config_.tracker->cut());
  if (config_.epochs != nullptr) config_.epochs->epoch_begins();
  if (config_.snapshot != nullptr && !attempt.trimmed) {
    PERDURA_ASSIGN(attempt.in_background, config_.snapshot->open());
  }
  return attempt.in_background ? Status{} : capture_stopped(attempt);
}

Status Sequence::capture_stopped(Attempt& attempt) {
  const track::DirtyMap& changes = config_.tracker->collect();
  if (config_.inspect) config_.inspect(changes);
  attempt.empty = changes.empty();
  changed_pages_ = changes.pages();
  if (attempt.empty) return {};
  note_(changes);
  if (config_.changes) config_.changes(attempt.version, changes);
  return config_.engine->capture_stopped(changes);
}

Status Sequence::make_version(Attempt& attempt, bool has_versions) {
  Status status = attempt.status ? guarded([&] { return write(attempt, has_versions); })
                                 : std::move(attempt.status);
  if (attempt.in_background) config_.snapshot->close();
  if (config_.agreement != nullptr) status = agree(attempt, std::move(status));
  // What it has of the last version is what that one was made of.
  const bool is_same = status && (attempt.in_background || attempt.empty);
  if (config_.snapshot != nullptr && !is_same) config_.snapshot->forget();
  if (!status) config_.engine->discard();
  else if (!attempt.empty) config_.engine->publish();
  return status;
}

Status Sequence::write(Attempt& attempt, bool has_versions) {
  if (attempt.in_background) {
    const track::DirtyMap& changes = config_.tracker->collect();
    attempt.empty = changes.empty();
    changed_pages_ = config_.tracker->is_coarse() ? changes.pages() : 0;
    PERDURA_TRY(config_.engine->capture(changes, *config_.snapshot));
    config_.snapshot->close();  // nothing is copied aside while a barrier is waited for
    note_(changes);
    if (config_.changes) config_.changes(attempt.version, changes);
  }
  // Nothing changed: the last version holds it all. An asynchronous one was promised a number.
  attempt.empty = attempt.empty && attempt.trigger != Attempt::Trigger::kAsync && has_versions;
  return attempt.empty ? Status{} : config_.engine->prepare();
}

// A process in which nothing changed has a version like the others, so that their numbers agree.
Status Sequence::agree(Attempt& attempt, Status mine) {
  using Mine = Agreement::Mine;
  for (;;) {
    const auto told = [&]() -> Result<Mine> {
      if (!mine) return copy_of(mine.failure());
      return attempt.empty ? Mine::kNothing : Mine::kPrepared;
    };
    PERDURA_ASSIGN(const Agreement::All all,
                   guarded([&] { return config_.agreement->agree(told()); }));
    if (all != Agreement::All::kPrepare) return {};
    if (!std::exchange(attempt.empty, false)) continue;
    mine = guarded([this] { return config_.engine->prepare(); });
  }
}

}  // namespace perdura::commit
