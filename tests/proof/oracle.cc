#include "oracle.hpp"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"

namespace perdura::proof {

using region::HomeMap;
using testing::Execution;
using testing::Outcome;
using testing::Recovered;

namespace {
constexpr u64 kMoreSteps = 100;
alignas(kPageBytes) constexpr std::byte kZeroPage[kPageBytes] = {};
}  // namespace

testing::Recovered Oracle::recover(Execution& execution) const {
  return testing::recover(execution, run_.options);
}

std::string Oracle::compare(const Execution& execution, const Recovered& recovered,
                            u64 version_min) const {
  if (!versions_.contains(recovered.version))
    return "version " + std::to_string(recovered.version) + " never was";
  if (found_right_.state_id != execution.state_id()) found_right_ = {execution.state_id(), {}, {}};
  return recovered.chunks ? compare_chunks(execution, recovered, version_min)
                          : compare_pages(execution, recovered, version_min);
}

// One that was tried several times, and is not acknowledged yet, may be as any attempt left it.
std::string Oracle::compare_pages(const Execution& execution, const Recovered& recovered,
                                  u64 version_min) const {
  const std::list<Version>& contents = versions_.at(recovered.version);
  std::string problem;
  for (auto content = contents.rbegin(); content != contents.rend(); ++content) {
    problem = compare_content(execution, recovered, *content);
    if (problem.empty() || recovered.version <= version_min) break;
  }
  return problem;
}

std::string Oracle::compare_content(const Execution& execution, const Recovered& recovered,
                                    const Version& expected) const {
  const auto wrong = [&](u64 page, const char* what) {
    return "version " + std::to_string(recovered.version) + ": " + what + " at region offset " +
           std::to_string(page * kPageBytes);
  };
  std::vector<bool>& right = found_right_.pages[&expected];
  u64 pages = 0;
  std::vector<u64> later;  // pages that the version did not have yet
  const u64 extents = recovered.home ? recovered.home->extents().size() : 0;
  for (u64 i = 0; i < extents; ++i) {
    const format::Extent& extent = recovered.home->extents()[i];
    for (u64 at = 0; at < extent.length; at += kPageBytes) {
      const u64 page = (extent.region_offset + at) / kPageBytes;
      if (page >= expected.sums.size()) {
        later.push_back(extent.medium_offset + at);
        continue;
      }
      const std::byte* const bytes = expected.region.data() + page * kPageBytes;
      const u64 patched = recovered.index ? recovered.index->lines().page_mask(page) : 0;
      pages += expected.sums[page] != 0;
      const u64 place = extent.medium_offset + at;
      const bool untouched = patched == 0 && execution.untouched(place);
      if (right.size() <= place / kPageBytes) right.resize(place / kPageBytes + 1);
      if (!untouched || !right[place / kPageBytes]) {
        if (!execution.page_surely_equals(place, bytes, patched)) return wrong(page, "wrong data");
        if (untouched) right[place / kPageBytes] = true;
      }
      // A page that the log changes gets its sum from the next replay.
      if (patched == 0 &&
          !execution.surely_equals(HomeMap::checksum_place(extent, page * kPageBytes),
                                   std::as_bytes(std::span(&expected.sums[page], 1))))
        return wrong(page, "a wrong page checksum");
      if (patched == 0) continue;
      bool same = true;
      recovered.index->for_each_line(page, [&](u64 line, const std::byte* from) {
        same = same && std::memcmp(bytes + line * kLineBytes, from, kLineBytes) == 0;
      });
      if (!same) return wrong(page, "wrong data in the log");
    }
  }
  for (const u64 place : later)
    if (!execution.page_surely_equals(place, kZeroPage, 0))
      return "a page that is new since version " + std::to_string(recovered.version) +
             " is not zero";
  if (pages != expected.pages)
    return "version " + std::to_string(recovered.version) + ": pages have no place";
  return {};
}

// Each kept version, found as opening at it finds it.
std::string Oracle::compare_chunks(const Execution& execution, const Recovered& recovered,
                                   u64 version_min) const {
  const commit::RecoveredVersions& found = recovered.chunks->versions;
  if (const std::vector<u64> missing = gone(recovered); !missing.empty())
    return "version " + std::to_string(missing.front()) + " is not kept any more";
  for (const format::VersionRecord& record : found.kept) {
    const auto known = versions_.find(record.version);
    if (known == versions_.end())
      return "version " + std::to_string(record.version) + " never was, and is kept";
    commit::VersionMap older;
    if (record.version != recovered.version) {
      auto opened = store::recover_chunks_at(*recovered.volume, recovered.region, record.version);
      if (!opened) return "opening an older version fails: " + opened.failure().message;
      older = std::move(opened->versions.map);
    }
    const commit::VersionMap& map = record.version == recovered.version ? found.map : older;
    std::string problem;
    for (auto content = known->second.rbegin(); content != known->second.rend(); ++content) {
      problem = compare_version(execution, recovered, record, map, *content);
      if (problem.empty() || record.version <= version_min) break;
    }
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string Oracle::compare_version(const Execution& execution, const Recovered& recovered,
                                    const format::VersionRecord& record,
                                    const commit::VersionMap& map, const Version& expected) const {
  const std::string version = "version " + std::to_string(record.version);
  if (record.backed_bytes != expected.region.size()) return version + " has another size";
  std::vector<u64>& right = found_right_.chunks[&expected];
  right.resize(map.chunks());
  commit::MapReader reader(*recovered.volume, *recovered.chunks->space);
  const u64 bytes = record.chunk_bytes;
  AlignedBuffer buffer(bytes);
  const auto wrong = [&](u64 index) {
    return version + ": wrong data at region offset " + std::to_string(index * bytes);
  };
  for (u64 index = 0; index < map.chunks(); ++index) {
    const format::ChunkEntry& entry = map.chunk(index);
    const u64 first = index * bytes / kPageBytes;
    if (entry.place == 0) {
      for (u64 page = first; page < first + bytes / kPageBytes; ++page)
        if (expected.sums[page] != 0) return wrong(index);
      continue;
    }
    bool untouched = true;
    for (u64 at = 0; at < bytes; at += kPageBytes)
      untouched = untouched && execution.untouched(entry.place + at);
    if (untouched && right[index] == entry.place) continue;
    if (const Status read = reader.read_chunk(index, entry, buffer.first(bytes)); !read)
      return version + ": " + read.failure().message;
    if (std::memcmp(buffer.data(), expected.region.data() + index * bytes, bytes) != 0)
      return wrong(index);
    if (untouched) right[index] = entry.place;
  }
  return {};
}

/// Versions that are known and should be kept.
std::vector<u64> Oracle::gone(const Recovered& recovered) const {
  std::vector<u64> missing;
  const auto& kept = recovered.chunks->versions.kept;
  for (const auto& [version, contents] : versions_) {
    if (version == 0 || version >= recovered.version ||
        version + run_.options.versions_kept <= recovered.version)
      continue;
    const auto same = [&](const auto& record) { return record.version == version; };
    if (std::none_of(kept.begin(), kept.end(), same)) missing.push_back(version);
  }
  return missing;
}

// As the version says itself.
bool Oracle::is_behind(u64 version, const log::FoundRecord& transaction) const {
  const Content& region = versions_.at(version).back().region;
  const u64 offset = session_.transactions_offset;
  if (offset == 0 || offset + sizeof(format::TransactionState) > region.size()) return true;
  const auto& state = *reinterpret_cast<const format::TransactionState*>(&region[offset]);
  return transaction.sequence > state.slots[transaction.slot].sequence;
}

std::vector<const log::FoundRecord*> Oracle::new_transactions(const Recovered& recovered) const {
  std::vector<const log::FoundRecord*> found;
  for (const log::FoundRecord& each : recovered.log.records)
    if (is_behind(recovered.version, each)) found.push_back(&each);
  return found;
}

namespace {
std::string name_of(const log::FoundRecord& transaction) {
  return "transaction " + std::to_string(transaction.sequence) + " of stream " +
         std::to_string(transaction.slot);
}
}  // namespace

std::string Oracle::wrong_with(const log::FoundRecord& transaction) const {
  const auto known = transactions_.find({transaction.slot, transaction.sequence});
  if (known == transactions_.end()) return name_of(transaction) + " never was";
  if (known->second.time != transaction.time || known->second.entries != transaction.entries)
    return name_of(transaction) + " is not what it was";
  return {};
}

std::string Oracle::learn_transactions(const Recovered& recovered) {
  for (const log::FoundRecord& each : recovered.log.records) {
    transactions_.try_emplace({each.slot, each.sequence}, each);
    if (std::string wrong = wrong_with(each); !wrong.empty()) return wrong;
  }
  return {};
}

u64 Oracle::steps_acknowledged(u64 shard, size_t call) const {
  u64 steps = 0;
  for (const Steps& each : session_.steps)
    if (each.shard == shard && each.calls <= call) steps = std::max(steps, each.count);
  return steps;
}

// What recovery would make of the version's ledger.
std::string Oracle::compare_transactions(Execution& execution, const Recovered& recovered,
                                         size_t call) const {
  if (session_.ledger_offset == 0) return {};
  const Content& region = versions_.at(recovered.version).back().region;
  test::Ledger ledger{};
  const u64 begin = session_.ledger_offset;
  if (begin + sizeof ledger <= region.size())
    std::memcpy(static_cast<void*>(&ledger), &region[begin], sizeof ledger);
  std::map<u32, u64> sequences;
  TransactionNames names;
  for (const log::FoundRecord* each : new_transactions(recovered)) {
    if (std::string wrong = wrong_with(*each); !wrong.empty()) return wrong;
    u64& last = sequences[each->slot];
    if (last != 0 && each->sequence != last + 1)
      return name_of(*each) + " is there, and not the one before";
    last = each->sequence;
    names.emplace_back(each->slot, each->sequence);
    for (size_t i = 0; i < each->entries.size();) {
      const u64 entry = each->entries[i++];
      if (format::entry_kind(entry) == format::EntryKind::kAllocate) i += 2;
      if (format::entry_kind(entry) == format::EntryKind::kMaskedWord) ++i;  // no ledger's
      if (format::entry_kind(entry) != format::EntryKind::kWords) continue;
      for (u64 k = 0; k < format::entry_count(entry); ++k, ++i) {
        const u64 place = (format::entry_place(entry) + k) * sizeof(u64);
        if (place >= begin && place + sizeof(u64) <= begin + sizeof ledger)
          std::memcpy(reinterpret_cast<std::byte*>(&ledger) + (place - begin), &each->entries[i],
                      sizeof(u64));
      }
    }
  }
  u64 steps = 0;
  std::int64_t sum = 0;
  for (u64 shard = 0; shard < test::Ledger::kShards; ++shard) {
    const u64 acknowledged = steps_acknowledged(shard, call);
    const u64 found = ledger.shards[shard].steps;
    if (found < acknowledged)
      return "step " + std::to_string(acknowledged) + " of shard " + std::to_string(shard) +
             " was acknowledged, " + std::to_string(found) + " are there";
    steps += found;
  }
  for (const std::int64_t account : ledger.accounts) sum += account;
  if (steps != ledger.steps || sum != 0)
    return "transactions that others follow are missing: " + std::to_string(ledger.steps) +
           " steps, the shards have " + std::to_string(steps);
  if (names.empty() || !repeated_.emplace(recovered.version, names).second) return {};
  const std::string wrong = prove(execution.crash_state().image(), recovered.version, false, steps);
  return wrong.empty()
             ? ""
             : "with " + std::to_string(names.size()) + " transactions repeated: " + wrong;
}

ObjectsVerdict Oracle::compare_logged(Execution& execution, size_t call) const {
  return check_logged(
      session_.logged, run_.objects_bytes_max,
      [&]() -> Result<std::unique_ptr<media::Medium>> { return execution.medium(); }, call);
}

// Opening begins a session, so what a second recovery writes differs.
Outcome Oracle::judge_objects(Execution& execution, size_t call) const {
  Outcome outcome;
  for (int attempt = 0; attempt < 2 && outcome.problem.empty(); ++attempt) {
    ++outcome.recoveries;
    outcome.problem = compare_logged(execution, call).problem;
  }
  return outcome;
}

Outcome Oracle::judge(Execution& execution, size_t call) const {
  if (run_.objects_alone) return judge_objects(execution, call);
  const u64 version_min = testing::acknowledged_by(session_.acknowledgements, call);
  Outcome outcome;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const size_t mark = execution.stores();
    const Recovered recovered = recover(execution);
    ++outcome.recoveries;
    outcome.version = recovered.version;
    outcome.problem = recovered.problem;
    if (outcome.problem.empty() && recovered.version < version_min)
      outcome.problem = "version " + std::to_string(version_min) + " was acknowledged, version " +
                        std::to_string(recovered.version) + " is recovered";
    if (outcome.problem.empty()) outcome.problem = compare(execution, recovered, version_min);
    if (outcome.problem.empty()) outcome.problem = compare_transactions(execution, recovered, call);
    if (outcome.problem.empty() && attempt == 1 &&
        execution.changed_since(mark, format::kDirectoryOffset[0]))
      outcome.problem = "a second recovery leaves other bytes than the first";
    if (outcome.problem.empty() && !session_.logged.empty())
      outcome.problem = compare_logged(execution, call).problem;
    if (!outcome.problem.empty()) break;
  }
  return outcome;
}

Oracle::Diagnosis Oracle::diagnose(Execution& execution) const {
  if (run_.objects_alone) {
    const ObjectsVerdict verdict = compare_logged(execution, session_.history.calls().size());
    if (verdict.refused) return {.problem = verdict.problem};
    Diagnosis diagnosis;
    diagnosis.lost_calls = verdict.lost;
    diagnosis.wrong_pages = !verdict.lost && !verdict.problem.empty();
    return diagnosis;
  }
  const size_t mark = execution.stores();
  const Recovered recovered = recover(execution);
  Diagnosis diagnosis{.problem = recovered.problem, .version = recovered.version};
  if (!diagnosis.problem.empty() || (recovered.home == nullptr && !recovered.chunks))
    return diagnosis;
  const auto known = versions_.find(recovered.version);
  if (known == versions_.end()) {
    diagnosis.wrong_pages = 1;
    return diagnosis;
  }
  if (recovered.chunks) diagnose_chunks(recovered, diagnosis);
  else diagnose_pages(execution, recovered, known->second.back(), mark, diagnosis);
  diagnosis.problem = diagnose_transactions(recovered, diagnosis);
  return diagnosis;
}

// What opening the store would say of them, or "".
std::string Oracle::diagnose_transactions(const Recovered& recovered, Diagnosis& diagnosis) const {
  if (session_.ledger_offset == 0) return {};
  std::map<TransactionName, const log::FoundRecord*> found;
  for (const log::FoundRecord* each : new_transactions(recovered)) {
    if (!wrong_with(*each).empty()) ++diagnosis.wrong_pages;
    found[{each->slot, each->sequence}] = each;
  }
  const log::FoundRecord* last_missing = nullptr;
  for (const auto& [name, transaction] : transactions_) {
    if (last_missing != nullptr && last_missing->slot == name.first && found.contains(name))
      return "the transaction at offset " + std::to_string(transaction.offset) +
             " is there, and not the one before";
    if (is_behind(recovered.version, transaction) && !found.contains(name)) {
      diagnosis.missing.push_back(transaction);
      last_missing = &transaction;
    }
  }
  return {};
}

void Oracle::diagnose_chunks(const Recovered& recovered, Diagnosis& diagnosis) const {
  // One that cannot be opened any more says so to whoever asks for it.
  diagnosis.gone = gone(recovered);
  diagnosis.found_pages += std::erase_if(diagnosis.gone, [&](u64 version) {
    const auto opened = store::recover_chunks_at(*recovered.volume, recovered.region, version);
    return !opened && opened.failure().code == Code::kCorrupt;
  });
  const commit::VersionMap& newest = recovered.chunks->versions.map;
  const Version& newest_content = versions_.at(recovered.version).back();
  for (const format::VersionRecord& record : recovered.chunks->versions.kept) {
    const auto known = versions_.find(record.version);
    if (known == versions_.end()) {
      ++diagnosis.wrong_pages;
      continue;
    }
    const auto opened =
        store::recover_chunks_at(*recovered.volume, recovered.region, record.version);
    if (!opened) {
      ++diagnosis.found_pages;
      continue;
    }
    const Content& expected = known->second.back().region;
    const std::vector<u64>& sums = known->second.back().sums;
    const commit::VersionMap& map = opened->versions.map;
    commit::MapReader reader(*recovered.volume, *opened->space);
    const u64 bytes = record.chunk_bytes;
    AlignedBuffer buffer(bytes);
    if (map.chunks() * bytes != expected.size()) ++diagnosis.wrong_pages;
    for (u64 index = 0; index < std::min(map.chunks(), expected.size() / bytes); ++index) {
      const format::ChunkEntry& entry = map.chunk(index);
      const std::byte* const wanted = expected.data() + index * bytes;
      const bool shared = record.version != recovered.version && index < newest.chunks() &&
                          entry == newest.chunk(index);
      if (shared &&
          std::equal(&sums[index * bytes / kPageBytes], &sums[0] + (index + 1) * bytes / kPageBytes,
                     &newest_content.sums[index * bytes / kPageBytes]))
        continue;  // looked at there
      if (entry.place == 0) diagnosis.wrong_pages += !is_zero(wanted, bytes);
      else if (!reader.read_chunk(index, entry, buffer.first(bytes))) ++diagnosis.found_pages;
      else diagnosis.wrong_pages += std::memcmp(buffer.data(), wanted, bytes) != 0;
    }
  }
}

void Oracle::diagnose_pages(const Execution& execution, const Recovered& recovered,
                            const Version& expected, size_t mark, Diagnosis& diagnosis) const {
  std::vector<std::byte> bytes(kPageBytes);
  for (const format::Extent& extent : recovered.home->extents())
    for (u64 at = 0; at < extent.length; at += kPageBytes) {
      const u64 place = extent.medium_offset + at;
      const u64 page = (extent.region_offset + at) / kPageBytes;
      const std::byte* const wanted =
          page < expected.sums.size() ? expected.region.data() + page * kPageBytes : kZeroPage;
      const u64 patched = recovered.index ? recovered.index->lines().page_mask(page) : 0;
      bool same = execution.page_surely_equals(place, wanted, patched);
      if (patched != 0)
        recovered.index->for_each_line(page, [&](u64 line, const std::byte* from) {
          same = same && std::memcmp(wanted + line * kLineBytes, from, kLineBytes) == 0;
        });
      u64 sum = 0;
      execution.copy(HomeMap::checksum_place(extent, page * kPageBytes),
                     std::as_writable_bytes(std::span(&sum, 1)));
      execution.copy(place, bytes);
      const bool fits = page_checksum(bytes.data(), page * kLinesPerPage) == sum;
      if (same && (fits || patched != 0)) continue;
      if (same || !fits) ++diagnosis.found_pages;
      else if (patched != 0 || execution.stored_since(mark, place, kPageBytes))
        ++diagnosis.half_replayed_pages;
      else ++diagnosis.wrong_pages;
    }
}

Oracle::Version Oracle::read_pages(const Execution& execution, const Recovered& recovered) const {
  Version version;
  if (recovered.home) {
    for (const format::Extent& extent : recovered.home->extents()) {
      version.region.resize(
          std::max<u64>(version.region.size(), extent.region_offset + extent.length));
      execution.copy(extent.medium_offset,
                     std::span(version.region).subspan(extent.region_offset, extent.length));
    }
  }
  if (recovered.index)
    recovered.index->lines().for_each_page([&](u64 page, u64) {
      recovered.index->for_each_line(page, [&](u64 line, const std::byte* from) {
        std::memcpy(version.region.data() + page * kPageBytes + line * kLineBytes, from,
                    kLineBytes);
      });
    });
  return version;
}

Oracle::Version Oracle::read_chunks(const Recovered& recovered, u64 number) const {
  Version version;
  if (number == 0) return version;
  const auto opened =
      value_or_throw(store::recover_chunks_at(*recovered.volume, recovered.region, number));
  const commit::VersionMap& map = opened.versions.map;
  commit::MapReader reader(*recovered.volume, *opened.space);
  const u64 bytes = opened.space->chunk_bytes();
  version.region.resize(map.chunks() * bytes);
  AlignedBuffer buffer(bytes);
  for (u64 index = 0; index < map.chunks(); ++index) {
    if (map.chunk(index).place == 0) continue;
    value_or_throw(reader.read_chunk(index, map.chunk(index), buffer.first(bytes)));
    std::memcpy(version.region.data() + index * bytes, buffer.data(), bytes);
  }
  return version;
}

void Oracle::sum(Version& version) {
  for (u64 at = 0; at < version.region.size(); at += kPageBytes) {
    version.sums.push_back(page_checksum(version.region.data() + at, at / kLineBytes));
    version.pages += version.sums.back() != 0;
  }
}

// Kept versions that a session before made are known from the beginning.
std::string Oracle::learn_older(const Recovered& recovered, bool first) {
  for (const format::VersionRecord& record : recovered.chunks->versions.kept) {
    if (record.version == recovered.version || versions_.contains(record.version)) continue;
    if (!first) return "version " + std::to_string(record.version) + " is kept and never was";
    Version version = read_chunks(recovered, record.version);
    sum(version);
    versions_[record.version].push_back(std::move(version));
  }
  const auto& kept = recovered.chunks->versions.kept;
  if (kept.empty() || kept.back().origin == 0 || !versions_.contains(kept.back().origin)) return {};
  return read_chunks(recovered, recovered.version).region ==
                 versions_.at(kept.back().origin).back().region
             ? ""
             : "a rollback makes something else of version " + std::to_string(kept.back().origin);
}

/// Whether an attempt at this version failed in the session, so that it may have several contents:
/// also before it had failed, when all of it may be there.
bool Oracle::was_tried(u64 version) const {
  return std::any_of(
      session_.failures.begin(), session_.failures.end(),
      [&](const testing::Acknowledgement& failed) { return failed.version == version; });
}

// What failed may be there nevertheless, and be undone before the next barrier.
std::vector<size_t> Oracle::points_to_learn_from() const {
  std::vector<size_t> points = session_.history.crash_points();
  for (const testing::Acknowledgement& failed : session_.failures) points.push_back(failed.calls);
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

std::string Oracle::learn_objects() const {
  for (const size_t end : session_.history.crash_points()) {
    const testing::CrashState state =
        testing::CrashState(session_.history, end, run_.medium.tearing).nothing_lost();
    testing::Choices choices;
    Execution execution(state, run_.geometry, choices, nullptr, {});
    if (std::string wrong = judge_objects(execution, end).problem; !wrong.empty())
      return "with nothing lost: " + wrong;
  }
  return {};
}

std::string Oracle::learn() {
  if (run_.objects_alone) return learn_objects();
  std::set<u64> attempts;  // versions of which nothing is known but that the store must be sound
  for (const size_t end : points_to_learn_from()) {
    const testing::CrashState state =
        testing::CrashState(session_.history, end, run_.medium.tearing).nothing_lost();
    testing::Choices choices;
    Execution execution(state, run_.geometry, choices, nullptr, {});
    Recovered recovered = recover(execution);
    if (!recovered.problem.empty()) return recovered.problem;
    if (std::string wrong = learn_transactions(recovered); !wrong.empty())
      return "with nothing lost: " + wrong;
    const u64 number = recovered.version;
    const u64 acknowledged = testing::acknowledged_by(session_.acknowledgements, end);
    const bool tried = was_tried(number) && acknowledged < number;
    std::string problem;
    if (versions_.contains(number)) {
      problem = compare(execution, recovered, acknowledged);
      const bool proven = !attempts.contains(number) || acknowledged < number;
      if (problem.empty() && proven) continue;
      if (!problem.empty() && !tried) return "with nothing lost: " + problem;
    }
    if (recovered.chunks) {
      if (std::string older = learn_older(recovered, versions_.empty()); !older.empty())
        return "with nothing lost: " + older;
    }
    if (!versions_.contains(number) || !problem.empty()) {
      Version version =
          recovered.chunks ? read_chunks(recovered, number) : read_pages(execution, recovered);
      sum(version);
      versions_[number].push_back(std::move(version));
    }
    if (tried) attempts.insert(number);
    else attempts.erase(number);
    if (!new_transactions(recovered).empty()) {
      if (std::string wrong = compare_transactions(execution, recovered, end); !wrong.empty())
        return "version " + std::to_string(number) + ": " + wrong;
      continue;
    }
    if (std::string wrong = prove(state.image(), number, tried); !wrong.empty())
      return "version " + std::to_string(number) + " in a real store: " + wrong;
  }
  return {};
}

std::string Oracle::check_ledger(test::WrappedStore& store, u64 steps_min) const {
  const HeapAudit audit = store.audit();
  if (!audit.clean) return "the heap is damaged: " + audit.problem;
  const auto* ledger = static_cast<const test::Ledger*>(store.get_root("ledger"));
  if (ledger == nullptr) return steps_min == 0 ? "" : "the ledger is gone";
  if (ledger->steps < steps_min)
    return "the ledger has " + std::to_string(ledger->steps) + " steps instead of " +
           std::to_string(steps_min);
  if (run_.others != 0) return test::check_ledger(*ledger);
  const bool has_transactions = store.get_root(format::kTransactionRoot) != nullptr;
  return test::check_ledger(*ledger, audit, test::other_blocks(audit, has_transactions));
}

// Each is what the version has, whole; and nothing else is allocated.
std::string Oracle::check_objects(test::WrappedStore& store, u64 version) const {
  const auto found = session_.objects_at.find(version);
  if (found == session_.objects_at.end() || found->second.empty()) return {};
  for (const auto& [name, value] : found->second) {
    const auto* object = static_cast<const u64*>(store.get_root(name.c_str()));
    if (object == nullptr) return "the object '" + name + "' is gone";
    u64 first = 1;
    if (value_or_throw(store.runtime().heap().usable(object)).typed) {
      const auto& typed = *reinterpret_cast<const TypedObject*>(object);
      if (typed.self != &typed || typed.middle != object + object[0] / 2)
        return "pointers in the object '" + name + "' are of another address";
      first = sizeof(TypedObject) / sizeof(u64);
    }
    for (u64 i = first; i < object[0]; ++i)
      if (object[i] != object_word(value, i)) return "the object '" + name + "' is not whole";
  }
  const HeapAudit audit = store.audit();
  const bool has_ledger = store.get_root("ledger") != nullptr;
  if (audit.roots != found->second.size() + (has_ledger ? 1 : 0) && run_.others == 0)
    return "there are " + std::to_string(audit.roots) + " roots";
  if (!has_ledger && run_.others == 0 && audit.live_blocks != 2 * audit.roots + audit.types)
    return "blocks are left over";
  return {};
}

// The chain is as it was when the point began, and takes more links and points.
std::string Oracle::prove_container(const std::string& path, u64 version) const {
  std::vector<u64> expected = session_.chain_at.at(version);
  const auto check = [&](detail::ContainerRuntime& container) -> std::string {
    const auto& chain = *static_cast<test::ChainRoot*>(
        value_or_throw(container.root(TypeRecord<test::ChainRoot>::value)));
    std::vector<u64> found;
    if (std::string problem = test::check_chain(chain, &found); !problem.empty()) return problem;
    std::reverse(found.begin(), found.end());
    if (found != expected) return "the chain has other links than it had";
    const HeapAudit audit = container.runtime().heap().audit();
    return audit.clean ? "" : "the heap is damaged: " + audit.problem;
  };
  try {
    for (u64 round = 0; round < 2; ++round) {
      const auto container = detail::ContainerRuntime::open(uri(run_.medium, path), run_.options);
      if (std::string problem = check(*container); !problem.empty())
        return (round == 0 ? "" : "after more links: ") + problem;
      auto& chain = *static_cast<test::ChainRoot*>(
          value_or_throw(container->root(TypeRecord<test::ChainRoot>::value)));
      for (u64 i = 0; i < kMoreSteps; ++i) {
        test::push(chain, i);
        expected.push_back(i);
      }
      value_or_throw(container->point());
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// Older versions are opened one by one, to be read.
std::string Oracle::prove_kept(const std::string& path, u64 newest) const {
  if (run_.options.engine != Engine::kRemap) return {};
  for (const auto& [version, contents] : versions_) {
    const bool kept =
        version != 0 && version < newest && version + run_.options.versions_kept > newest;
    if (!kept || !session_.steps_at.contains(version)) continue;
    Options options = run_.options;
    options.version = version;
    test::WrappedStore store(uri(run_.medium, path), options);
    const std::string which = "older version " + std::to_string(version) + ": ";
    if (std::string problem = check_ledger(store, session_.steps_at.at(version)); !problem.empty())
      return which + problem;
    if (std::string problem = check_objects(store, version); !problem.empty())
      return which + problem;
  }
  return {};
}

// Returns how many steps there are then.
u64 Oracle::transact_more(test::WrappedStore& store, test::Ledger& ledger) {
  for (u64 i = 0; i < kMoreSteps; ++i)
    store.atomically([&](Transaction& tx) { test::do_step(tx, ledger, 0); });
  return ledger.steps;
}

std::string Oracle::prove(const Content& image, u64 version, bool attempt,
                          std::optional<u64> repeated_steps) const {
  const std::string path = folder_.path("proven.pd");
  testing::write_file(path, image);
  if (session_.chain_at.contains(version)) return prove_container(path, version);
  try {
    if (std::string problem = prove_kept(path, version); !problem.empty()) return problem;
    test::WrappedStore store(uri(run_.medium, path), run_.options);
    const auto steps = session_.steps_at.find(version);
    const u64 steps_min = attempt || steps == session_.steps_at.end() ? 0 : steps->second;
    if (version != 0 && store.durable_version() != version + (repeated_steps ? 1 : 0))
      return "it recovers version " + std::to_string(store.durable_version());
    if (std::string problem = check_ledger(store, steps_min); !problem.empty()) return problem;
    if (!attempt)
      if (std::string problem = check_objects(store, version); !problem.empty()) return problem;
    auto* ledger = static_cast<test::Ledger*>(store.get_root("ledger"));
    if (repeated_steps && ledger->steps != *repeated_steps)
      return "the ledger has " + std::to_string(ledger->steps) + " steps instead of " +
             std::to_string(*repeated_steps);
    u64 after = 0;
    if (ledger != nullptr) {
      after = ledger->steps + kMoreSteps;
      for (u64 i = 0; i < kMoreSteps; ++i)
        test::do_step(store.operation(), *ledger, i % test::Ledger::kShards);
    }
    store.checkpoint();
    if (repeated_steps) after = transact_more(store, *ledger);
    store.crash();
    test::WrappedStore again(uri(run_.medium, path), run_.options);
    if (std::string problem = check_ledger(again, after); !problem.empty())
      return "after more operations: " + problem;
    again.close();
  } catch (const Error& error) {
    const std::string what = error.what();
    const bool is_unfinished = version == 0 && error.code() == Code::kNotFound &&
                               what.find("was begun and not completed") != what.npos;
    return is_unfinished ? "" : what;
  }
  return {};
}

}  // namespace perdura::proof
