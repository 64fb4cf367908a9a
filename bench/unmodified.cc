// Programs that say nothing of their stores: what the reports that perdura-clang puts into them
// cost, against reports by hand, page trackers and ordinary memory (unmodified/keep.cc); what they
// cost programs that have no store (Debian's sources of bzip2, zstd, Lua and SQLite, fetched when
// the benchmark runs); what transactions that GCC compiles cost against the library's own; what
// `perdura advise` says that reports cost programs of the benchmark `tracker`; what page trackers
// cost where a program has a large heap; and whole programs, the demonstration and loads of
// malloc(3) (unmodified_programs.cc).

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

#include <perdura/transaction.hpp>

#include "child.hpp"
#include "stores.hpp"
#include "threads.hpp"
#include "tracker_campaign.hpp"
#include "unmodified.hpp"
#include "unmodified/transact.h"

namespace perdura::bench {
namespace {

namespace fs = std::filesystem;

// --- programs that keep records ------------------------------------------------------------------

#ifdef PERDURA_UNMODIFIED

/// Who runs beside whom, in rounds of a segment each.
class Keeper {
 public:
  Keeper(Context& context, Place place, const std::string& structure, const char* way,
         std::uint64_t records)
      : context_(context), uri_(context.uri(place, way)) {
    const std::string program =
        std::string(way) == "compiled" || std::string(way) == "by_hand" ? way : "plain";
    const PinnedScope where_its_user_runs_it(kAnyCpu);
    child_ = std::make_unique<ChildProcess>(
        ChildProcess::kCommand, ChildArguments{PERDURA_UNMODIFIED "/keep-" + program, structure,
                                               way, uri_, std::to_string(records)});
    child_->read_line();
  }
  ~Keeper() {
    child_.reset();
    context_.remove(uri_);
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  double segment_s(std::uint64_t operations) {
    child_->write_line(std::to_string(operations));
    return std::stod(child_->read_line());
  }

 private:
  Context& context_;
  std::string uri_;
  std::unique_ptr<ChildProcess> child_;
};

struct Load {
  const char* structure;
  std::uint64_t records, operations;  ///< those of a segment
};

/// Compiled ÷ by hand; beside it what ordinary memory and pages make of it.
Measured keep(Context& context, Place place, const Load& load) {
  std::map<std::string, std::unique_ptr<Keeper>> ways;
  for (const char* way : {"memory", "pages", "by_hand", "compiled"}) {
    context.progress("{}: {}", load.structure, way);
    ways[way] = std::make_unique<Keeper>(context, place, load.structure, way, load.records);
  }
  const auto segment = [&](const char* way) -> Segment {
    return [&ways, way, &load] { return ways[way]->segment_s(load.operations); };
  };
  const auto all = paired_with_each(context.scale(9, 5), segment("compiled"),
                                    {segment("by_hand"), segment("memory"), segment("pages")});
  const Paired &by_hand = all[0], &memory = all[1], &pages = all[2];
  return {by_hand.ratio,
          {{"to_memory", memory.ratio},
           {"to_pages", pages.ratio},
           {"pages_to_memory", pages.base / memory.base},
           {"by_hand_to_memory", by_hand.base / memory.base},
           {"compiled_s", by_hand.subject},
           {"records", load.records},
           {"operations", load.operations},
           {"ratios", by_hand.ratios}}};
}

/// What a poll adds to a store, with the beginning of the next operation.
Measured poll(Context& context) {
  Keeper keeper(context, Place::kMemory, "poll", "compiled", 0);
  const std::uint64_t stores = 20'000'000;
  std::vector<double> each_ns;
  for (int i = 0; i < 7; ++i)
    each_ns.push_back(keeper.segment_s(stores) * 1e9 / static_cast<double>(stores));
  return {median(each_ns), {{"ns", each_ns}}};
}

/// Lines that nobody reported, of random calls of what others have compiled.
Measured unreported(Context& context) {
  const std::uint64_t calls = context.scale(1'000'000, 100'000);
  ChildProcess child(ChildProcess::kCommand,
                     ChildArguments{PERDURA_UNMODIFIED "/calls", std::to_string(calls)});
  return {std::stod(child.read_line()), {{"calls", calls}}};
}

void report_keepers(Context& context) {
  const std::uint64_t records = context.scale(1'000'000, 200'000);
  const std::uint64_t operations = context.scale(1'000'000, 300'000);
  for (const char* structure : {"map", "unordered_map"})
    for (const Place place : {Place::kMemory, Place::kDisk})
      context.measure(fmt::format("{}_{}", structure, place == Place::kMemory ? "emu" : "file"),
                      "ratio", Reach::at_most(1.10),
                      [&] { return keep(context, place, {structure, records, operations}); });
  for (const char* structure : {"hash", "tree"})
    context.measure(structure, "ratio", Reach::at_most(1.10), [&] {
      return keep(context, Place::kMemory, {structure, records, operations});
    });
  context.measure("list", "ratio", Reach::at_most(1.10),
                  [&] { return keep(context, Place::kMemory, {"list", records, 20}); });
  context.measure("poll_ns", "ns", Reach::at_most(5), [&] { return poll(context); });
  context.measure("unreported", "lines", Reach::at_most(0), [&] { return unreported(context); });
}

// --- programs without a store --------------------------------------------------------------------

/// Seconds of processor time; its output goes to a file, its complaints to ours.
double run_s(const ChildArguments& arguments, const std::string& output = "/dev/null") {
  std::vector<std::string> words = arguments;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t child = ::vfork();
  if (child == 0) {
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0) ::_exit(126);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || ::wait4(child, &status, 0, &used) != child)
    throw std::system_error(errno, std::generic_category(), "cannot run " + words[0]);
  if (status != 0)
    throw std::runtime_error(fmt::format("'{}' ended with status {}", words[0], status));
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Made of the same sources by one compiler with some flags.
struct Build {
  std::string name, compiler;
  ChildArguments flags;
};

/// Four programs, each compiled in several ways.
class IdlePrograms {
 public:
  static constexpr const char* kNames[] = {"bzip2", "zstd", "lua", "sqlite"};

  explicit IdlePrograms(Context& context)
      : context_(context),
        sources_(context.path(Place::kDisk, "sources")),
        builds_(context.path(Place::kDisk, "builds")) {}
  ~IdlePrograms() {
    std::error_code error;
    fs::remove_all(sources_, error);
    fs::remove_all(builds_, error);
  }

  static Build plain() { return {"plain", PERDURA_CLANG, {"-O2"}}; }
  static Build compiled() { return {"compiled", PERDURA_DRIVER, {"-O2"}}; }
  static Build out_of_line() {
    return {"out of line", PERDURA_DRIVER, {"-O2", "-mllvm", "-perdura-out-of-line"}};
  }
  /// Every store reported by itself.
  static Build not_optimized() {
    return {"not optimized",
            PERDURA_DRIVER,
            {"-O2", "-mllvm", "-perdura-no-merging", "-mllvm", "-perdura-no-ranges"}};
  }

  double compile_s(const std::string& program, const Build& build) {
    make(program, build);
    return compiled_.at({program, build.name});
  }

  /// Of the program's own code, without what is linked to it: bytes.
  double text_bytes(const std::string& program, const Build& build) {
    make(program, build);
    const std::string list = builds_ + "/sizes";
    ChildArguments arguments = {"/usr/bin/size", "-A", "-d"};
    for (const auto& each : fs::directory_iterator(folder(program, build)))
      if (each.path().extension() == ".o") arguments.push_back(each.path());
    run_s(arguments, list);
    std::ifstream lines(list);
    double all = 0;
    for (std::string line, section; std::getline(lines, line);) {
      std::istringstream words(line);
      double size = 0;
      if (words >> section >> size && section.starts_with(".text")) all += size;
    }
    return all;
  }

  /// One run of its load. What it prints is the same whoever compiled it.
  double run_load_s(const std::string& program, const Build& build) {
    make(program, build);
    const std::string output = builds_ + "/output";
    ChildArguments arguments = {"/usr/bin/taskset", "-c", std::to_string(kMutatorCpu),
                                folder(program, build) + "/" + program};
    for (const std::string& each : load(program)) arguments.push_back(each);
    const double seconds = run_s(arguments, output);
    if (program != "sqlite") {  // it prints times
      std::string& known = outputs_[program];
      const std::string printed = contents(output);
      if (known.empty()) known = printed;
      if (printed.empty() || printed != known)
        throw std::runtime_error(program + ", " + build.name + ": another output");
    }
    return seconds;
  }

 private:
  std::string folder(const std::string& program, const Build& build) const {
    std::string name = builds_ + "/" + program + "-" + build.name;
    std::replace(name.begin() + static_cast<std::ptrdiff_t>(builds_.size()), name.end(), ' ', '-');
    return name;
  }

  /// Some seconds.
  ChildArguments load(const std::string& program) {
    const std::string text = sources_ + "/sqlite/sqlite3.c";
    if (program == "bzip2") return {"-c", text};
    if (program == "zstd") return {"-q", "-c", "-12", text};
    if (program == "lua")
      return {PERDURA_UNMODIFIED_SOURCES "/work.lua", context_.quick() ? "4" : "8"};
    return {"--size", context_.quick() ? "20" : "60", ":memory:"};
  }

  void make(const std::string& program, const Build& build) {
    if (compiled_.contains({program, build.name})) return;
    if (compiled_.empty()) {
      context_.progress("fetching sources");
      run_s({PERDURA_UNMODIFIED_SOURCES "/fetch_sources.sh", sources_});
      fs::create_directories(builds_);
    }
    context_.progress("{}: {}", program, build.name);
    const auto step = [&](const char* what) {
      ChildArguments arguments = {PERDURA_UNMODIFIED_SOURCES "/compile_program.sh",
                                  what,
                                  sources_,
                                  program,
                                  folder(program, build),
                                  build.compiler};
      arguments.insert(arguments.end(), build.flags.begin(), build.flags.end());
      return run_s(arguments);
    };
    const double seconds = step("compile");
    step("link");
    compiled_[{program, build.name}] = seconds;
  }

  Context& context_;
  std::string sources_, builds_;
  std::map<std::pair<std::string, std::string>, double> compiled_;  ///< seconds
  std::map<std::string, std::string> outputs_;
};

void report_idle(Context& context) {
  IdlePrograms programs(context);
  const Build plain = IdlePrograms::plain(), compiled = IdlePrograms::compiled();
  std::map<std::string, double> ratios;
  const auto ratio = [&](const std::string& program) {
    const auto all = paired_with_each(
        context.scale(9, 5), [&] { return programs.run_load_s(program, compiled); },
        {[&] { return programs.run_load_s(program, plain); },
         [&] { return programs.run_load_s(program, IdlePrograms::not_optimized()); }});
    ratios[program] = all[0].ratio;
    return Measured{all[0].ratio,
                    {{"plain_s", all[0].base},
                     {"not_optimized", all[1].base / all[0].base},
                     {"ratios", all[0].ratios}}};
  };
  for (const char* program : IdlePrograms::kNames)
    context.measure(fmt::format("idle_{}", program), "ratio", Reach::at_most(1.20),
                    [&] { return ratio(program); });
  context.measure("idle", "ratio", Reach::at_most(1.08), [&] {
    Measured result;
    std::vector<double> all;
    for (const char* program : IdlePrograms::kNames) {
      if (!ratios.contains(program)) ratio(program);
      all.push_back(ratios.at(program));
      result.detail[program] = ratios.at(program);
    }
    result.value = median(all);
    return result;
  });
  /// Of all of them.
  const auto sum = [&](const Build& build, auto&& of) {
    double all = 0;
    for (const char* program : IdlePrograms::kNames) all += of(program, build);
    return all;
  };
  const auto text = [&](const std::string& program, const Build& build) {
    return programs.text_bytes(program, build);
  };
  const auto text_ratio = [&](const Build& build) {
    Measured result{sum(build, text) / sum(plain, text), {}};
    for (const char* program : IdlePrograms::kNames)
      result.detail[program] = text(program, build) / text(program, plain);
    return result;
  };
  context.measure("text_inline", "ratio", Reach::at_most(2.1),
                  [&] { return text_ratio(compiled); });
  context.measure("text_out_of_line", "ratio", Reach::at_most(1.6),
                  [&] { return text_ratio(IdlePrograms::out_of_line()); });
  context.measure("text_not_optimized", "ratio", Reach::none(),
                  [&] { return text_ratio(IdlePrograms::not_optimized()); });
  context.measure("compile", "ratio", Reach::at_most(1.4), [&] {
    const auto seconds = [&](const std::string& program, const Build& build) {
      return programs.compile_s(program, build);
    };
    return Measured{sum(compiled, seconds) / sum(plain, seconds),
                    {{"plain_s", sum(plain, seconds)}}};
  });
}

// --- perdura advise ------------------------------------------------------------------------------

#ifdef PERDURA_PRELOAD

/// Run time with what the compiler reports and checkpoints ÷ that of the same program, compiled by
/// the same compiler without, with neither: as predicted, and as it is.
class CompiledTrial {
 public:
  explicit CompiledTrial(Context& context) : context_(context), campaign_(context) {
    for (const Program& program : campaign_.all()) {
      // Tokyo Cabinet is a library of others, which reports nothing.
      if (program.file == "tracker-tokyo") continue;
      for (const int ms : context.quick() ? std::vector{64} : std::vector{64, 1000, 5000})
        try_out(program, ms);
    }
  }

  double median_error() const { return median(errors_); }
  double worst_error() const { return *std::max_element(errors_.begin(), errors_.end()); }
  const Json& detail() const { return detail_; }

 private:
  static Program built(const Program& program, const char* way) {
    Program one = program;
    one.name += std::string("_") + way;
    one.file += std::string("-") + way;
    return one;
  }

  void try_out(const Program& program, int ms) {
    const Program plain = built(program, "plain"), compiled = built(program, "compiled");
    const double interval_s = ms / 1000.0;
    if (!campaign_.is_long_enough(compiled, interval_s)) return;
    const Json advice = campaign_.advise(compiled);
    const double predicted = predicted_by(advice, ms);
    if (predicted == 0) return;
    const Tracker tracker{"compiled", 0, false, "compiled"};
    // What others do on the machine only makes a run longer, also where it is not waited for.
    double with_s = 0, without_s = 0, with_cpu_s = 0, without_cpu_s = 0;
    for (int round = 0; round < context_.scale(5, 5); ++round) {
      const Run without = campaign_.rounds(plain, {{kPage}}, 1)[0][0];
      const Run with = campaign_.rounds(compiled, {{tracker, interval_s}}, 1)[0][0];
      const auto take_least = [&](double& least, double seconds) {
        least = round == 0 ? seconds : std::min(least, seconds);
      };
      take_least(with_s, with.seconds - with.queued_seconds);
      take_least(without_s, without.seconds - without.queued_seconds);
      take_least(with_cpu_s, with.cpu_seconds);
      take_least(without_cpu_s, without.cpu_seconds);
    }
    errors_.push_back(std::abs(predicted / (with_s / without_s) - 1));
    detail_[fmt::format("{} every {} ms", program.name, ms)] = {
        {"predicted", predicted},
        {"measured", with_s / without_s},
        {"measured_cpu", with_cpu_s / without_cpu_s},
        {"base_s", without_s},
        {"predicted_base_s", advice["base_ns"].get<double>() / 1e9}};
  }

  /// 0: nothing is said of that interval.
  static double predicted_by(const Json& advice, int ms) {
    for (const Json& way : advice["ways"]) {
      if (way["tracking"] != "compiled") continue;
      if (way.contains("unavailable")) throw std::runtime_error(way["unavailable"]);
      if (!way.contains("predictions")) return 0;
      for (const Json& each : way["predictions"])
        if (each["interval_ms"] == ms) return each["slowdown"].get<double>();
    }
    return 0;
  }

  Context& context_;
  Campaign campaign_;
  std::vector<double> errors_;
  Json detail_;
};

void report_predicted(Context& context) {
  if (!context.wants("predicted") && !context.wants("predicted_worst")) return;
  std::optional<CompiledTrial> trial;
  const auto tried = [&]() -> const CompiledTrial& {
    if (!trial) trial.emplace(context);
    return *trial;
  };
  context.measure("predicted", "error", Reach::at_most(0.08),
                  [&] { return Measured{tried().median_error(), tried().detail()}; });
  context.measure("predicted_worst", "error", Reach::at_most(0.30),
                  [&] { return Measured{tried().worst_error(), {}}; });
}

#endif

#endif

// --- large heaps found by page -------------------------------------------------------------------

/// A store with one block of `bytes`, stored to everywhere.
struct LargeHeap {
  static Options options(Engine engine) {
    Options options;
    options.engine = engine;
    return options;
  }

  LargeHeap(Context& context_in, Place place, std::uint64_t bytes_in, Engine engine)
      : context(context_in), uri(context.uri(place, "large")), bytes(bytes_in), kind(engine) {
    store.emplace(open_store(uri, options(kind)));
    words = static_cast<std::uint64_t*>(store->allocate(bytes, kPageBytes));
    store->set_root("words", words);
    fill(1);
  }
  ~LargeHeap() {
    store.reset();
    context.remove(uri);
  }
  LargeHeap(const LargeHeap&) = delete;
  LargeHeap& operator=(const LargeHeap&) = delete;

  void fill(std::uint64_t value) {
    for (std::uint64_t i = 0; i < bytes / 8; ++i) words[i] = value + i;
  }
  /// A word of each line.
  static std::uint64_t read(const volatile std::uint64_t* from, std::uint64_t bytes) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < bytes / 8; i += 8) sum += from[i];
    return sum;
  }
  void reopen() {
    store->close();
    store.emplace(open_store(uri, options(kind)));
    words = static_cast<std::uint64_t*>(store->get_root("words"));
  }

  Context& context;
  std::string uri;
  std::uint64_t bytes;
  Engine kind;
  std::optional<Store> store;
  std::uint64_t* words = nullptr;
};

/// A checkpoint of one changed page.
Measured reopened_ms(Context& context) {
  LargeHeap heap(context, Place::kDisk, context.scale(kGiB, kGiB / 4), Engine::kRedoLog);
  heap.store->checkpoint();
  heap.reopen();
  LargeHeap::read(heap.words, heap.bytes);
  std::vector<double> ms;
  for (std::uint64_t i = 0; i < 50; ++i) {
    heap.words[i * 4099 % (heap.bytes / 8)] = i;
    ms.push_back(timed_s([&] { heap.store->checkpoint(); }) * 1e3);
  }
  return {median(ms), {{"p90", percentile(ms, 0.9)}}};
}

/// The time that a thread which stores is kept waiting.
Measured stop_ms(Context& context) {
  const PinnedScope where_its_user_runs_it(kAnyCpu);
  const std::uint64_t bytes = context.scale<std::uint64_t>(700'000'000, 175'000'000);
  LargeHeap heap(context, Place::kMemory, bytes / kPageBytes * kPageBytes, Engine::kRedoLog);
  heap.store->checkpoint();
  settle(*heap.store);
  std::vector<double> ms;
  for (std::uint64_t i = 0; i < 3; ++i) {
    heap.fill(i);
    heap.store->reset_statistics();
    heap.store->checkpoint();
    ms.push_back(static_cast<double>(heap.store->statistics().pause_max_ns) / 1e6);
    settle(*heap.store);
  }
  return {median(ms), {{"ms", ms}, {"bytes", bytes}}};
}

/// A first read of all of a store that was opened again ÷ that of a plain mapping of its file,
/// which the system has in memory; in the detail also ÷ that of one which comes from the disk.
Measured read_all(Context& context, Engine engine) {
  LargeHeap heap(context, Place::kDisk, context.scale(kGiB, kGiB / 4), engine);
  heap.store->checkpoint();
  const std::string path = heap.uri.substr(heap.uri.find(':') + 1);
  const auto plain_s = [&](bool from_disk) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (from_disk) ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    void* const mapped = ::mmap(nullptr, heap.bytes, PROT_READ, MAP_PRIVATE, file, 0);
    ::close(file);
    if (mapped == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    const double seconds =
        timed_s([&] { LargeHeap::read(static_cast<const std::uint64_t*>(mapped), heap.bytes); });
    ::munmap(mapped, heap.bytes);
    return seconds;
  };
  std::vector<double> ratios, seconds, plain, from_disk;
  for (int i = 0; i < context.scale(5, 3); ++i) {
    heap.reopen();
    seconds.push_back(timed_s([&] { LargeHeap::read(heap.words, heap.bytes); }));
    from_disk.push_back(plain_s(true));
    plain.push_back(plain_s(false));
    ratios.push_back(seconds.back() / plain.back());
  }
  return {median(ratios),
          {{"seconds", median(seconds)},
           {"plain_s", median(plain)},
           {"plain_from_disk_s", median(from_disk)}}};
}

// --- transactions that GCC compiles --------------------------------------------------------------

#ifdef PERDURA_ITM

/// One store, emulated NVM, each commit durable; both sides work on it in turn, on lists of their
/// own and on the same accounts.
class TransactStore {
 public:
  static constexpr std::uint64_t kAccounts = 1'000'000;
  /// A transact_node.
  struct Node {
    Node* next;
    std::uint64_t key;
    std::uint64_t value;
    std::uint64_t rest[5] = {};
  };
  static_assert(sizeof(Node) == sizeof(transact_node));
  struct Root {
    transact_list compiled;
    Node* first;
    std::int64_t accounts[kAccounts];
  };

  explicit TransactStore(Context& context)
      : store_(open_store(context.uri(Place::kMemory, "transact"), options())),
        root_(store_.root<Root>("root")) {
    warm_up(store_);
  }

  void insert_compiled(std::uint64_t key) { transact_insert(&root_.compiled, key); }
  void insert(std::uint64_t key) {
    atomically(store_, [&](Transaction& tx) {
      auto* const node = tx.make<Node>(tx.read(root_.first), key, key);
      tx.write(root_.first, node);
    });
  }
  void transfer_compiled(std::uint64_t from, std::uint64_t to) {
    transact_transfer(account(from), account(to));
  }
  void transfer(std::uint64_t from, std::uint64_t to) {
    std::int64_t &one = *account(from), &other = *account(to);
    atomically(store_, [&](Transaction& tx) {
      tx.write(one, tx.read(one) - 1);
      tx.write(other, tx.read(other) + 1);
    });
  }
  /// What both have done is there.
  void close(std::uint64_t inserted) {
    std::int64_t sum = 0;
    for (const std::int64_t account : root_.accounts) sum += account;
    if (sum != 0) throw std::runtime_error("money was made or lost");
    if (length(root_.compiled.first) != inserted || length(root_.first) != inserted)
      throw std::runtime_error("nodes were made or lost");
    store_.close();
  }

 private:
  static Options options() {
    Options options;
    options.region_limit_bytes = 4 * kGiB;
    return options;
  }
  template <class Any>
  static std::uint64_t length(const Any* node) {
    std::uint64_t count = 0;
    for (; node != nullptr; node = node->next) ++count;
    return count;
  }
  std::int64_t* account(std::uint64_t number) { return &root_.accounts[number % kAccounts]; }

  Store store_;
  Root& root_;
};

Measured transact_list_ratio(Context& context) {
  const auto count = context.scale<std::uint64_t>(200'000, 50'000);
  TransactStore store(context);
  std::uint64_t rounds = 0;
  const auto inserts = [&](const auto& insert) {
    return timed_s([&] {
      for (std::uint64_t key = 0; key < count; ++key) insert(key);
    });
  };
  const Paired result = paired(
      9, [&] { return inserts([&](std::uint64_t key) { store.insert_compiled(key); }); },
      [&] {
        ++rounds;
        return inserts([&](std::uint64_t key) { store.insert(key); });
      });
  store.close(rounds * count);
  const auto each = static_cast<double>(count) / 1e9;
  return {result.ratio,
          {{"compiled_ns", result.subject / each},
           {"own_ns", result.base / each},
           {"ratios", result.ratios}}};
}

Measured transact_bank_ratio(Context& context) {
  const auto count = context.scale<std::uint64_t>(500'000, 100'000);
  TransactStore store(context);
  const auto transfers = [&](int threads, const auto& transfer) {
    return seconds_a_call(threads, count, [&](int thread, std::uint64_t each) {
      Random random(static_cast<std::uint64_t>(thread));
      for (std::uint64_t i = 0; i < each; ++i) {
        const std::uint64_t from = random.next();
        transfer(from, random.next());
      }
    });
  };
  const auto ratio_with = [&](int threads) {
    return paired(
        9,
        [&] {
          return transfers(threads, [&](std::uint64_t from, std::uint64_t to) {
            store.transfer_compiled(from, to);
          });
        },
        [&] {
          return transfers(threads,
                           [&](std::uint64_t from, std::uint64_t to) { store.transfer(from, to); });
        });
  };
  const Paired one = ratio_with(1), two = ratio_with(2);
  store.close(0);
  return {one.ratio,
          {{"compiled_ns", one.subject * 1e9},
           {"own_ns", one.base * 1e9},
           {"two_threads", two.ratio},
           {"ratios", one.ratios}}};
}

void report_transactions(Context& context) {
  context.measure("itm_list", "ratio", Reach::at_most(1.5),
                  [&] { return transact_list_ratio(context); });
  context.measure("itm_bank", "ratio", Reach::at_most(1.5),
                  [&] { return transact_bank_ratio(context); });
}

#endif

void run(Context& context) {
  pin_thread(kMutatorCpu);
#ifdef PERDURA_ITM
  report_transactions(context);
#else
  context.progress("without transactions that GCC compiles: configure with GCC for these");
#endif
#ifdef PERDURA_UNMODIFIED
  report_keepers(context);
  report_idle(context);
  report_demo(context);
#ifdef PERDURA_PRELOAD
  report_predicted(context);
#endif
#else
  context.progress("without perdura-clang: configure with -DPERDURA_COMPILER=ON for the rest");
#endif
  report_malloc(context);
  context.measure("reopened_ms", "ms", Reach::at_most(1.2), [&] { return reopened_ms(context); });
  context.measure("stop_700_ms", "ms", Reach::at_most(100), [&] { return stop_ms(context); });
  context.measure("read_all", "ratio", Reach::at_most(1.5),
                  [&] { return read_all(context, Engine::kRedoLog); });
  context.measure("read_all_chunks", "ratio", Reach::at_most(3),
                  [&] { return read_all(context, Engine::kRemap); });
}

const Registration kThis("unmodified", "programs that say nothing of their stores ÷ those that do",
                         run);

}  // namespace
}  // namespace perdura::bench
