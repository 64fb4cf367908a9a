#include "oracle.hpp"

#include <cstring>

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
  return testing::recover(execution, run_.options.log_segment_bytes, run_.options.log_limit_bytes);
}

std::string Oracle::compare(const Execution& execution, const Recovered& recovered) const {
  const auto known = versions_.find(recovered.version);
  if (known == versions_.end())
    return "version " + std::to_string(recovered.version) + " never was";
  const Version& expected = known->second;
  const auto wrong = [&](u64 page, const char* what) {
    return "version " + std::to_string(recovered.version) + ": " + what + " at region offset " +
           std::to_string(page * kPageBytes);
  };
  if (found_right_.state_id != execution.state_id()) found_right_ = {execution.state_id(), {}};
  std::vector<bool>& right = found_right_.pages[recovered.version];
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

Outcome Oracle::judge(Execution& execution, u64 version_min) const {
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
    if (outcome.problem.empty()) outcome.problem = compare(execution, recovered);
    if (outcome.problem.empty() && attempt == 1 &&
        execution.changed_since(mark, format::kDirectoryOffset[0]))
      outcome.problem = "a second recovery leaves other bytes than the first";
    if (!outcome.problem.empty()) break;
  }
  return outcome;
}

Oracle::Diagnosis Oracle::diagnose(Execution& execution) const {
  const size_t mark = execution.stores();
  const Recovered recovered = recover(execution);
  Diagnosis diagnosis{.problem = recovered.problem, .version = recovered.version};
  if (!diagnosis.problem.empty() || recovered.home == nullptr) return diagnosis;
  const auto known = versions_.find(recovered.version);
  if (known == versions_.end()) {
    diagnosis.wrong_pages = 1;
    return diagnosis;
  }
  diagnose_pages(execution, recovered, known->second, mark, diagnosis);
  return diagnosis;
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

std::string Oracle::learn() {
  for (const size_t end : session_.history.crash_points()) {
    const testing::CrashState state =
        testing::CrashState(session_.history, end, run_.medium.tearing).nothing_lost();
    testing::Choices choices;
    Execution execution(state, run_.geometry, choices, nullptr, {});
    Recovered recovered = recover(execution);
    if (!recovered.problem.empty()) return recovered.problem;
    if (versions_.contains(recovered.version)) {
      if (std::string problem = compare(execution, recovered); !problem.empty())
        return "with nothing lost: " + problem;
      continue;
    }
    Version version;
    if (recovered.home) {
      for (const format::Extent& extent : recovered.home->extents()) {
        version.region.resize(
            std::max<u64>(version.region.size(), extent.region_offset + extent.length));
        execution.copy(extent.medium_offset,
                       std::span(version.region).subspan(extent.region_offset, extent.length));
      }
    }
    const u64 pages = version.region.size() / kPageBytes;
    for (u64 page = 0; page < pages; ++page) {
      std::byte* const bytes = version.region.data() + page * kPageBytes;
      if (recovered.index)
        recovered.index->for_each_line(page, [&](u64 line, const std::byte* from) {
          std::memcpy(bytes + line * kLineBytes, from, kLineBytes);
        });
      version.sums.push_back(page_checksum(bytes, page * kLinesPerPage));
      version.pages += version.sums.back() != 0;
    }
    versions_.emplace(recovered.version, std::move(version));
    if (std::string problem = prove(state.image(), recovered.version); !problem.empty())
      return "version " + std::to_string(recovered.version) + " in a real store: " + problem;
  }
  return {};
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

std::string Oracle::prove(const Content& image, u64 version) const {
  const std::string path = folder_.path("proven.pd");
  testing::write_file(path, image);
  if (session_.chain_at.contains(version)) return prove_container(path, version);
  const auto check = [&](test::WrappedStore& store, u64 steps_min) -> std::string {
    const HeapAudit audit = store.audit();
    if (!audit.clean) return "the heap is damaged: " + audit.problem;
    const auto* ledger = static_cast<const test::Ledger*>(store.get_root("ledger"));
    if (ledger == nullptr) return steps_min == 0 ? "" : "the ledger is gone";
    if (ledger->steps < steps_min)
      return "the ledger has " + std::to_string(ledger->steps) + " steps instead of " +
             std::to_string(steps_min);
    return run_.others ? test::check_ledger(*ledger)
                       : test::check_ledger(*ledger, audit, audit.roots);
  };
  try {
    test::WrappedStore store(uri(run_.medium, path), run_.options);
    const auto steps = session_.steps_at.find(version);
    const u64 steps_min = steps == session_.steps_at.end() ? 0 : steps->second;
    if (version != 0 && store.durable_version() != version)
      return "it recovers version " + std::to_string(store.durable_version());
    if (std::string problem = check(store, steps_min); !problem.empty()) return problem;
    if (std::string problem = check_objects(store, version); !problem.empty()) return problem;
    auto* ledger = static_cast<test::Ledger*>(store.get_root("ledger"));
    u64 after = 0;
    if (ledger != nullptr) {
      after = ledger->steps + kMoreSteps;
      for (u64 i = 0; i < kMoreSteps; ++i)
        test::do_step(store.operation(), *ledger, i % test::Ledger::kShards);
    }
    store.checkpoint();
    store.crash();
    test::WrappedStore again(uri(run_.medium, path), run_.options);
    if (std::string problem = check(again, after); !problem.empty())
      return "after more operations: " + problem;
    again.close();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace perdura::proof
