// What a power failure may leave: writes that a barrier covers, and of the others any atoms.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "live.hpp"

namespace perdura::model {

void Live::note_acknowledged() {
  if (recording == nullptr) return;
  std::lock_guard lock(acknowledged_mutex);
  Acknowledged now{recording->size(), {}, {}, journal.world_acknowledged};
  for (u64 lane = 0; lane < kLanes; ++lane)
    now.done.lanes[lane] = {journal.acknowledged[lane].operation,
                            journal.acknowledged[lane].transaction};
  for (size_t part = 0; part < kParts; ++part) now.parts[part] = journal.part_acknowledged[part];
  acknowledged.push_back(now);
}

namespace {

/// How atoms fare: all alike, or each by chance, or whole calls.
media::History::Keep drawn_keep(u64 chance) {
  switch (chance % 4) {
    case 0:
      return [](size_t, u64) { return false; };
    case 1:
      return [](size_t, u64) { return true; };
    case 2:
      return [chance](size_t call, u64) { return word_of(chance, call) % 2 == 0; };
    default:
      return
          [chance](size_t call, u64 atom) { return word_of(word_of(chance, call), atom) % 2 == 0; };
  }
}

}  // namespace

void cut_power(Live& live) {
  const media::History history = live.recording->history();
  std::mt19937_64 random(live.session.end_at);
  // Not before the session's first acknowledgement: until then it is as the one before it left it.
  const size_t first = live.acknowledged.front().calls;
  std::vector<size_t> points;
  for (const size_t point : history.crash_points())
    if (point >= first) points.push_back(point);
  if (points.empty()) return;
  const size_t end = random() % 2 == 0 ? points[random() % points.size()]
                                       : first + random() % (history.calls().size() - first + 1);
  const auto image = history.after_crash(end, drawn_keep(random()));
  const std::string path = live.uri.substr(live.uri.find(':') + 1);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(image.data()),
            static_cast<std::streamsize>(image.size()));
  out.close();
  require(out.good(), "the image of a power failure cannot be written");

  const Acknowledged* left = &live.acknowledged.front();
  for (const Acknowledged& one : live.acknowledged)
    if (one.calls <= end) left = &one;
  Journal& journal = live.journal;
  for (u64 lane = 0; lane < kLanes; ++lane) {
    journal.acknowledged[lane].operation = left->done.lanes[lane].operation;
    journal.acknowledged[lane].transaction = left->done.lanes[lane].transaction;
  }
  for (size_t part = 0; part < kParts; ++part)
    if (part != static_cast<size_t>(Part::kOwn) && part != static_cast<size_t>(Part::kHeapo) &&
        part != static_cast<size_t>(Part::kSoftpm))
      journal.part_acknowledged[part] = left->parts[part];
  journal.world_acknowledged = left->world;
  journal.last_version.number = 0;
  journal.sessions[live.number()].closed = false;
}

}  // namespace perdura::model
