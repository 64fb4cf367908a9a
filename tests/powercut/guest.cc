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
//   recovered VERSION STEPS…         the version found and the steps of each shard in it
//   proof NAME                       what shows that the medium is used as in production
//   ack VERSION STEPS… / STEPS…      the version is durable: it holds at least the first steps of
//                                    each shard and at most the second
//   step SHARD STEP                  the step is durable, as a transaction
//   failed TEXT                      what is wrong
//   closed                           the store was closed in order
//
// Environment: DEVICE, FILESYSTEM, MEDIUM (file or dax), SEED, and STOP=1 to close the store after
// some steps instead of working until the power is cut. CHUNK_BYTES for a store in chunks, with
// VERSIONS_KEPT and WHOLE_CHUNKS (0 or 1); without it the store has a redo log. TRANSACTIONS=1 for
// steps that are transactions. COPIES=1 for a store in two copies.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "format/transaction_format.hpp"
#include "store/inspect.hpp"
#include "support/ledger.hpp"

namespace perdura::test {
namespace {

using Random = std::mt19937_64;

constexpr const char* kPort = "/dev/ttyS1";
constexpr const char* kFolder = "/mnt";
constexpr const char* kStore = "/mnt/state.pd";

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
u64 number_of(const char* name) { return std::strtoull(setting(name).c_str(), nullptr, 10); }

/// The serial port to the host.
class Port {
 public:
  Port() : fd_(::open(kPort, O_WRONLY | O_NOCTTY | O_CLOEXEC)) {
    termios mode{};
    if (fd_ < 0 || ::tcgetattr(fd_, &mode) != 0) std::abort();
    ::cfmakeraw(&mode);
    if (::tcsetattr(fd_, TCSANOW, &mode) != 0) std::abort();
  }

  void say(std::string words) {
    for (char& each : words)
      if (each == '\n') each = ' ';
    const std::lock_guard lock(mutex_);
    std::string line = std::to_string(++lines_) + " " + words + " ";
    line += std::to_string(checksum(line)) + "\n";
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t done = ::write(fd_, line.data() + sent, line.size() - sent);
      if (done < 0 && errno != EINTR) std::abort();
      if (done > 0) sent += static_cast<size_t>(done);
    }
  }
  void drain() { ::tcdrain(fd_); }

 private:
  static std::uint32_t checksum(const std::string& text) {  // FNV-1a
    std::uint32_t sum = 0x811c9dc5;
    for (char each : text) sum = (sum ^ static_cast<unsigned char>(each)) * 0x01000193;
    return sum;
  }

  const int fd_;
  std::mutex mutex_;
  u64 lines_ = 0;
};

// --- what shows that the medium is used as in production -----------------------------------------

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Every shared mapping of the store has the flag "sf": page faults are synchronous (MAP_SYNC).
bool mapped_synchronously() {
  std::ifstream in("/proc/self/smaps");
  size_t shared = 0;
  size_t synchronous = 0;
  bool of_store = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find('-') < line.find(' ') && line.find(':') > line.find(' ')) {
      std::istringstream fields(line);
      std::string range, permissions;
      fields >> range >> permissions;
      of_store = line.ends_with(kStore) && permissions.ends_with('s');
      shared += of_store;
    } else if (of_store && line.starts_with("VmFlags:")) {
      synchronous += (line + " ").find(" sf ") != std::string::npos;
    }
  }
  return shared != 0 && synchronous == shared;
}

/// Whether a descriptor of this process leads to `target` and is open with `flags`.
bool has_descriptor(const std::string& target, int flags) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != target) continue;
    const int fd = std::stoi(entry.path().filename());
    if (flags == 0 || (::fcntl(fd, F_GETFL) & flags) == flags) return true;
  }
  return false;
}

/// Says each fact once, when it is seen: a ring lives no longer than what it is used for.
class Prover {
 public:
  explicit Prover(Port& port) : port_(port) {
    if (setting("MEDIUM") == "dax") open_ = {{"map_sync", mapped_synchronously}};
    else
      open_ = {{"write_cache",
                [] {
                  return first_line("/sys/block/" + setting("DEVICE") + "/queue/write_cache") ==
                         "write back";
                }},
               {"direct_io", [] { return has_descriptor(kStore, O_DIRECT); }},
               {"io_uring", [] { return has_descriptor("anon_inode:[io_uring]", 0); }}};
  }

  void look() {
    std::erase_if(open_, [&](const Fact& fact) {
      if (!fact.holds()) return false;
      port_.say(std::string("proof ") + fact.name);
      return true;
    });
  }

 private:
  struct Fact {
    const char* name;
    std::function<bool()> holds;
  };

  Port& port_;
  std::vector<Fact> open_;
};

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
