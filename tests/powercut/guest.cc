// Runs in the virtual machine that loses its power. Mounts the disk, checks the store that the last
// cut left, goes on with the ledger (support/ledger.hpp), and tells the host through a serial port
// what it sees and what was acknowledged. The host judges (powercut.py).
//
// A line to the host is "NUMBER WORD… CHECKSUM": the lines are numbered from 1, so that none is
// missing, and one that the cut tore has no fitting checksum.
//
//   mounting, checking, opening      what comes next
//   checked PAGES CHUNKS             of the home image, and of all kept versions, that fit their
//                                    checksums
//   kept VERSION STEPS…              an older version that is kept, and the steps in it
//   recovered VERSION STEPS…         the version found, of objects 0, and the steps of each shard
//   in it proof NAME                       what shows that the medium is used as in production ack
//   VERSION STEPS… / STEPS…      the version is durable: it holds at least the first steps of
//                                    each shard and at most the second
//   step SHARD STEP                  the step is durable, as a transaction or a logged call
//   failed TEXT                      what is wrong
//   closed                           the store was closed in order
//
// Environment: DEVICE, FILESYSTEM, MEDIUM (file or dax), SEED, and STOP=1 to close the store after
// some steps instead of working until the power is cut. CHUNK_BYTES for a store in chunks, with
// VERSIONS_KEPT and WHOLE_CHUNKS (0 or 1); without it the store has a redo log. TRANSACTIONS=1 for
// steps that are transactions. COPIES=1 for a store in two copies. OBJECTS=none, last or all for
// logged objects with that history instead (guest_objects.cc).
#include <sys/mount.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "format/transaction_format.hpp"
#include "guest.hpp"
#include "store/inspect.hpp"
#include "support/ledger.hpp"

namespace perdura::test {
namespace {

// --- the life of one boot -----------------------------------------------------------------------

/// Some options belong to the store and are the host's choice; the others change with each boot.
struct Life {
  Options options;
  std::chrono::milliseconds interval{0};
  unsigned threads = 1;
  bool stops = false;
  bool transactions = false;
  Durability durability = Durability::kNonTemporal;
  Logging logging = Logging::kRedo;

  explicit Life(Random& random) {
    options.region_limit_bytes = 256 * kMiB;
    if (number_of("CHUNK_BYTES") != 0) choose_for_chunks(random);
    else choose_for_log(random);
    options.lazy_recovery = random() % 2 == 0;
    threads = 1 + static_cast<unsigned>(random() % Ledger::kShards);
    interval = std::chrono::milliseconds(random() % 3 * 20);
    stops = setting("STOP") == "1";
    transactions = setting("TRANSACTIONS") == "1";
    if (transactions) choose_for_transactions(random);
  }

 private:
  void choose_for_transactions(Random& random) {
    static constexpr Durability kDurabilities[] = {Durability::kNonTemporal,
                                                   Durability::kNonTemporal, Durability::kLazyBulk,
                                                   Durability::kPerWrite};
    durability = kDurabilities[random() % std::size(kDurabilities)];
    logging = random() % 3 == 0 ? Logging::kUndo : Logging::kRedo;
  }
  void choose_for_log(Random& random) {
    static constexpr Tracking kTrackings[] = {Tracking::kReported, Tracking::kReported,
                                              Tracking::kBitmap, Tracking::kProtect};
    options.tracking = kTrackings[random() % std::size(kTrackings)];
    if (options.tracking != Tracking::kProtect && random() % 2 == 0)
      options.capture = random() % 2 == 0 ? Capture::kStopped : Capture::kBackground;
    options.log_limit_bytes = random() % 4 == 0 ? 0 : 2 * kMiB;
    if (number_of("COPIES") != 0) options.engine = Engine::kDualCopy;
  }
  void choose_for_chunks(Random& random) {
    static constexpr Tracking kTrackings[] = {Tracking::kAutomatic, Tracking::kProtect,
                                              Tracking::kReported, Tracking::kBitmap};
    options.engine = Engine::kRemap;
    options.chunk_bytes = static_cast<std::uint32_t>(number_of("CHUNK_BYTES"));
    options.versions_kept = static_cast<std::uint32_t>(number_of("VERSIONS_KEPT"));
    options.whole_chunks = number_of("WHOLE_CHUNKS") != 0;
    options.tracking = kTrackings[random() % std::size(kTrackings)];
    const bool finds_stores =
        options.tracking == Tracking::kAutomatic || options.tracking == Tracking::kProtect;
    if (random() % 3 == 0) options.capture = Capture::kStopped;
    else if (finds_stores && random() % 2 == 0) options.capture = Capture::kBackground;
    options.over_provisioning = random() % 2 == 0 ? 0 : 25;
  }
};

/// Steps that each shard has begun and ended. Counted around the operations, so that what a
/// checkpoint must hold, and what it can hold, is known without stopping anyone.
struct Progress {
  std::atomic<u64> begun[Ledger::kShards];
  std::atomic<u64> ended[Ledger::kShards];

  static std::string list(const std::atomic<u64> (&steps)[Ledger::kShards]) {
    std::string text;
    for (const std::atomic<u64>& each : steps) (text += ' ') += std::to_string(each);
    return text;
  }
};

void work(Store& store, Ledger& ledger, u64 shard, Random random, u64 steps, Progress& progress,
          Port& port, Prover* prover, bool transactions) {
  constexpr u64 kToldStep = 4;  // the port is slow
  u64 next_checkpoint = random() % 50;
  for (u64 done = 0; done < steps; ++done) {
    if (transactions) {
      ++progress.begun[shard];
      atomically(store, [&](Transaction& tx) { do_step(tx, ledger, shard); });
    } else {
      const auto op = store.operation();
      ++progress.begun[shard];
      do_step(op, ledger, shard);
    }
    const u64 ended = ++progress.ended[shard];
    if (transactions && ended % kToldStep == 0)
      port.say("step " + std::to_string(shard) + " " + std::to_string(ended));
    if (done < next_checkpoint) continue;
    next_checkpoint = done + 1 + random() % 100;
    const std::string at_least = Progress::list(progress.ended);
    u64 version = 0;
    if (random() % 3 == 0) {
      version = store.checkpoint_async();
      store.wait(version);
    } else {
      version = store.checkpoint();
    }
    port.say("ack " + std::to_string(version) + at_least + " /" + Progress::list(progress.begun));
    if (prover != nullptr) prover->look();
  }
}

// --- what a cut left ----------------------------------------------------------------------------

std::string steps_of(const Ledger* ledger) {
  std::string text;
  for (u64 i = 0; i < Ledger::kShards; ++i)
    (text += ' ') += std::to_string(ledger != nullptr ? ledger->shards[i].steps : 0);
  return text;
}

std::string check(Store& store, const Ledger& ledger) {
  const HeapAudit audit = store.audit();
  const bool has_transactions = store.get_root(format::kTransactionRoot) != nullptr;
  return check_ledger(ledger, audit, other_blocks(audit, has_transactions));
}

/// An older version opens to be read, and is a state that there was.
std::string check_older(const std::string& uri, u64 version, const Life& life, Port& port) {
  Options options = life.options;
  options.version = version;
  Store store = Store::open(uri, options);
  if (store.durable_version() != version)
    return "version " + std::to_string(store.durable_version()) + " was opened instead";
  const auto* ledger = static_cast<const Ledger*>(store.get_root("ledger"));
  if (ledger != nullptr)
    if (std::string problem = check(store, *ledger); !problem.empty()) return problem;
  port.say("kept " + std::to_string(version) + steps_of(ledger));
  store.close();
  return {};
}

/// The newest versions are there without a hole: as many as the store keeps, or all.
std::string check_kept(const std::string& uri, const store::RegionDescription& region,
                       const Life& life, Port& port) {
  const std::vector<store::VersionDescription>& versions = region.versions;
  const u64 newest = region.durable_version;
  const u64 expected = std::min<u64>(newest, life.options.versions_kept);
  if (versions.size() != expected)
    return "of " + std::to_string(newest) + " versions " + std::to_string(versions.size()) +
           " are kept, not " + std::to_string(expected);
  for (u64 i = 0; i < expected; ++i) {
    const u64 version = newest - expected + 1 + i;
    const std::string name = "version " + std::to_string(version);
    if (versions[i].number != version) return name + " is not kept";
    if (version == newest) break;
    if (std::string problem = check_older(uri, version, life, port); !problem.empty())
      return name + ": " + problem;
  }
  return {};
}

std::string check_file(const std::string& uri, const Life& life, Port& port) {
  struct stat info{};
  if (::stat(kStore, &info) != 0 && errno == ENOENT) return {};
  const Result<store::CheckReport> report = store::check(uri, {});
  // What a cut during creation left has no superblock; the host knows what was acknowledged.
  if (!report) {
    port.say("unchecked " + report.failure().message);
    return {};
  }
  for (const store::Finding& finding : report->findings)
    if (finding.severity == store::Finding::Severity::kDamage)
      return finding.part + ": " + finding.message;
  port.say("checked " + std::to_string(report->home_pages) + " " + std::to_string(report->chunks));
  const std::optional<store::Description>& description = report->description;
  if (life.options.engine != Engine::kRemap || !description || description->regions.empty())
    return {};
  return check_kept(uri, description->regions.front(), life, port);
}

std::string live(Port& port) {
  Random random(number_of("SEED"));
  const Life life(random);
  const bool dax = setting("MEDIUM") == "dax";
  const std::string uri = setting("MEDIUM") + ":" + kStore;

  port.say("mounting");
  if (::mount(("/dev/" + setting("DEVICE")).c_str(), kFolder, setting("FILESYSTEM").c_str(), 0,
              dax ? "dax=always" : "") != 0)
    return std::string("cannot mount the disk: ") + std::strerror(errno);
  if (!setting("OBJECTS").empty()) return live_with_objects(uri, random, port);
  port.say("checking");
  if (std::string problem = check_file(uri, life, port); !problem.empty())
    return "the store is damaged: " + problem;

  port.say("opening");
  Store store = Store::open(uri, life.options);
  Ledger* ledger = nullptr;
  {
    const auto op = store.operation();
    ledger = static_cast<Ledger*>(store.get_root("ledger"));
    if (ledger == nullptr) {
      ledger = make_ledger(op, random());
      store.set_root("ledger", ledger);
    }
  }
  Progress progress{};
  for (u64 i = 0; i < Ledger::kShards; ++i)
    progress.begun[i] = progress.ended[i] = ledger->shards[i].steps;
  port.say("recovered " + std::to_string(store.durable_version()) + Progress::list(progress.ended));
  if (std::string problem = check(store, *ledger); !problem.empty())
    return "the recovered state is no state there was: " + problem;

  if (life.transactions) {
    set_durability(store, life.durability);
    set_logging(store, life.logging);
  }
  Prover prover(port);
  store.checkpoint_every(life.interval);
  const u64 steps = life.stops ? 200 : ~u64{0};
  std::vector<std::thread> threads;
  for (u64 i = 0; i < life.threads; ++i)
    threads.emplace_back([&, i, seed = random()] {
      work(store, *ledger, i, Random(seed), steps, progress, port, i == 0 ? &prover : nullptr,
           life.transactions);
    });
  for (std::thread& thread : threads) thread.join();
  store.close();
  if (std::string problem = check_file(uri, life, port); !problem.empty())
    return "the closed store is damaged: " + problem;
  port.say("closed");
  return {};
}

}  // namespace
}  // namespace perdura::test

int main() {
  perdura::test::Port port;
  std::string problem;
  try {
    problem = perdura::test::live(port);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) port.say("failed " + problem);
  port.drain();
  return problem.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}
