// What must be true of a store after a failure.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "explorer.hpp"
#include "recording.hpp"
#include "recovered.hpp"

namespace perdura::proof {

/// Knows every version of a session and judges what recovery makes of a state:
///  - recovery succeeds, and finds the newest acknowledged version or a later one;
///  - the region is exactly as it was in that version: no hole, nothing half done;
///  - of a region in chunks, the kept versions before it are what they were;
///  - of transactions that the version does not have, those that were acknowledged are there, and
///    all that are there are what they were and make a whole ledger of the version's;
///  - of objects whose calls are logged, each is what a prefix of its calls makes it, which has all
///    that were answered, and those are there that were made and not removed;
///  - recovering again finds the same, and leaves the medium as it is.
/// Each version itself is proven once, in a real store: its heap is sound, its ledger whole, and it
/// takes more operations and a checkpoint. So is each set of transactions behind a version.
class Oracle {
 public:
  Oracle(const RunRecord& run, const Session& session) : run_(run), session_(session) {}

  /// Learn the versions: what recovery finds at each crash point when nothing is lost. Returns what
  /// is wrong, or "".
  std::string learn();

  /// The failure came after so many recorded calls.
  testing::Outcome judge(testing::Execution& execution, size_t call) const;

  /// By stream and sequence, all that there were.
  using TransactionName = std::pair<u32, u64>;
  const std::map<TransactionName, log::FoundRecord>& transactions() const { return transactions_; }

  /// What is wrong after recovery, and whether page checksums show it.
  struct Diagnosis {
    std::string problem;  ///< recovery fails
    u64 version = 0;
    u64 found_pages = 0;          ///< wrong data, and a sum that does not fit
    u64 half_replayed_pages = 0;  ///< wrong data in a page that the log changes as well
    u64 wrong_pages = 0;          ///< wrong data, and nothing shows it
    std::vector<u64> gone{};      ///< versions that should be kept
    bool lost_calls = false;      ///< of objects, that were answered
    /// Records of transactions that are behind the version no more.
    std::vector<log::FoundRecord> missing{};
  };
  Diagnosis diagnose(testing::Execution& execution) const;

 private:
  using Content = std::vector<std::byte>;
  struct Version {
    Content region;
    std::vector<u64> sums;  ///< of its pages
    u64 pages = 0;          ///< that are not zero
  };

  testing::Recovered recover(testing::Execution& execution) const;
  std::string learn_objects() const;
  ObjectsVerdict compare_logged(testing::Execution& execution, size_t call) const;
  testing::Outcome judge_objects(testing::Execution& execution, size_t call) const;
  Version read_pages(const testing::Execution& execution,
                     const testing::Recovered& recovered) const;
  Version read_chunks(const testing::Recovered& recovered, u64 version) const;
  static void sum(Version& version);
  std::string learn_older(const testing::Recovered& recovered, bool first);
  void diagnose_pages(const testing::Execution& execution, const testing::Recovered& recovered,
                      const Version& expected, size_t mark, Diagnosis& diagnosis) const;
  std::string compare(const testing::Execution& execution, const testing::Recovered& recovered,
                      u64 version_min) const;
  std::string compare_pages(const testing::Execution& execution,
                            const testing::Recovered& recovered, u64 version_min) const;
  std::string compare_content(const testing::Execution& execution,
                              const testing::Recovered& recovered, const Version& expected) const;
  std::string compare_chunks(const testing::Execution& execution,
                             const testing::Recovered& recovered, u64 version_min) const;
  std::string compare_version(const testing::Execution& execution,
                              const testing::Recovered& recovered,
                              const format::VersionRecord& record, const commit::VersionMap& map,
                              const Version& expected) const;
  std::vector<u64> gone(const testing::Recovered& recovered) const;
  std::string diagnose_transactions(const testing::Recovered& recovered,
                                    Diagnosis& diagnosis) const;
  void diagnose_chunks(const testing::Recovered& recovered, Diagnosis& diagnosis) const;
  bool was_tried(u64 version) const;
  std::vector<size_t> points_to_learn_from() const;
  using TransactionNames = std::vector<TransactionName>;
  bool is_behind(u64 version, const log::FoundRecord& transaction) const;
  /// Those that the version does not have, in the order of their commits.
  std::vector<const log::FoundRecord*> new_transactions(const testing::Recovered& recovered) const;
  /// "" when it is as it was learned.
  std::string wrong_with(const log::FoundRecord& transaction) const;
  std::string learn_transactions(const testing::Recovered& recovered);
  std::string compare_transactions(testing::Execution& execution,
                                   const testing::Recovered& recovered, size_t call) const;
  u64 steps_acknowledged(u64 shard, size_t call) const;
  /// `repeated_steps`: that there are when transactions behind the version are repeated.
  std::string prove(const Content& image, u64 version, bool attempt,
                    std::optional<u64> repeated_steps = {}) const;
  static u64 transact_more(test::WrappedStore& store, test::Ledger& ledger);
  std::string prove_kept(const std::string& path, u64 newest) const;
  std::string check_ledger(test::WrappedStore& store, u64 steps_min) const;
  std::string check_objects(test::WrappedStore& store, u64 version) const;
  std::string prove_container(const std::string& path, u64 version) const;

  const RunRecord& run_;
  const Session& session_;
  /// Pages found right in a state, where they are untouched, as medium pages. By version.
  struct FoundRight {
    u64 state_id = 0;
    std::map<const Version*, std::vector<bool>> pages;
    std::map<const Version*, std::vector<u64>> chunks;  ///< their places, by index
  };

  /// Before the last content of each, which is acknowledged, those of attempts that failed.
  std::map<u64, std::list<Version>> versions_;
  mutable FoundRight found_right_;
  std::map<TransactionName, log::FoundRecord> transactions_;
  /// Sets of transactions behind a version that a real store has repeated.
  mutable std::set<std::pair<u64, TransactionNames>> repeated_;
  testing::Folder folder_;
};

}  // namespace perdura::proof
