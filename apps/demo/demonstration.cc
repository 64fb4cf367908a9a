#include "demonstration.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "corpus.hpp"
#include "process.hpp"
#include "runs.hpp"
#include "store_place.hpp"

namespace demo {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kMegabyte = 1e6;

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(format, std::forward<Args>(args)...);
  fmt::print("\n");
  std::fflush(stdout);
}

/// 1234567 as 1,234,567.
std::string grouped(std::uint64_t number) {
  return number < 1000 ? std::to_string(number)
                       : fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

/// "1 document", "2 documents".
std::string counted(std::uint64_t number, const std::string& noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string size_text(double bytes) {
  if (bytes < kMegabyte) return fmt::format("{:.0f} KB", bytes / 1e3);
  return fmt::format("{:.1f} MB", bytes / kMegabyte);
}

SharedMemory collect(const DemoOptions& options) {
  CorpusBuilder builder(options.limit_mb * static_cast<std::size_t>(kMegabyte));
  for (const std::string& file : options.files) builder.add(file);
  if (options.files.empty()) builder.add_machine();
  if (builder.text_bytes() == 0)
    throw std::runtime_error("no text to index was found; name files or directories");
  return builder.freeze();
}

class Demonstration {
 public:
  explicit Demonstration(const DemoOptions& options)
      : options_(options),
        corpus_memory_(collect(options)),
        corpus_(corpus_memory_.bytes()),
        place_(options.store, options.keep),
        launcher_(corpus_memory_, worker_options(options)) {}

  bool run() {
    introduce();
    build_in_ordinary_memory();
    build_undisturbed();
    build_while_killed();
    const bool same = compare();
    conclude(same);
    return same;
  }

 private:
  static WorkerOptions worker_options(const DemoOptions& options) {
    WorkerOptions worker = options.worker;
    worker.seed = options.seed;
    return worker;
  }

  void introduce() {
    say("Perdura demo: a program that is killed again and again, and goes on where it was.\n");
    say("  input    {} and {}, {} of text{}", counted(corpus_.count(Kind::kPackage), "package"),
        counted(corpus_.count(Kind::kText), "document"),
        size_text(static_cast<double>(corpus_.text_bytes())),
        options_.files.empty() ? ", found on this machine" : "");
    say("  program  indexes every word (unordered_map, vector, string) and links the packages\n"
        "           that depend on each other (map, raw pointers): standard containers, with\n"
        "           Perdura's allocator");
    say("  store    {}, a checkpoint every {} ms\n", place_.killed(), options_.worker.interval_ms);
  }

  void build_in_ordinary_memory() {
    say("1. In ordinary memory, where nothing survives");
    plain_ = run_undisturbed(launcher_, "", corpus_.text_bytes());
    say("   built in {:.2f} s ({:.2f} s of CPU)\n", plain_.build_s, plain_.build_cpu_s);
  }

  void build_undisturbed() {
    say("2. In Perdura's memory, undisturbed");
    durable_ = run_undisturbed(launcher_, place_.undisturbed(), corpus_.text_bytes());
    const perdura::Statistics& statistics = durable_.statistics;
    const double checkpoints =
        static_cast<double>(std::max<std::uint64_t>(statistics.checkpoints, 1));
    say("   built in {:.2f} s ({:.2f} s of CPU){}", durable_.build_s, durable_.build_cpu_s,
        comparable() ? fmt::format(": {:.2f} times as long as in ordinary memory", slowdown())
                     : "");
    say("   {}, {} of changes each; they stopped the program for {:.2f} ms (99 of 100)\n",
        counted(statistics.checkpoints, "checkpoint"),
        size_text(static_cast<double>(statistics.changed_bytes) / checkpoints),
        static_cast<double>(statistics.pause_p99_ns) * 1e-6);
  }

  void build_while_killed() {
    say("3. In Perdura's memory, killed (SIGKILL) at {} random moments", options_.kills);
    KilledRun run(launcher_, place_.killed(), corpus_.text_bytes(), options_.kills, options_.seed,
                  [this](const Kill& kill) { tell(kill); });
    killed_ = run.run();
    say("   built in {:.2f} s, restarts and repeated work included", killed_.build_s);
    say("   the heap is sound: {} of {} in use\n", counted(killed_.heap_blocks, "block"),
        size_text(static_cast<double>(killed_.heap_bytes)));
  }

  void tell(const Kill& kill) {
    kills_.push_back(kill);
    say("   kill {} struck at document {}{}", kills_.size(), grouped(kill.document),
        kill.while_opening > 0 ? ", and once more while the store was being opened again" : "");
    say("          open again in {:.1f} ms; resumed at document {}: lost {}, {} of text,\n"
        "          {:.0f} ms of work",
        kill.open_ms, grouped(kill.resumed_document), counted(kill.lost_documents(), "document"),
        size_text(static_cast<double>(kill.lost_bytes())), kill.lost_ms);
  }

  double slowdown() const { return durable_.build_s / plain_.build_s; }
  /// A build that is over before a few checkpoints are says nothing of their cost.
  bool comparable() const { return plain_.build_s * 1e3 > 4 * options_.worker.interval_ms; }

  bool compare() {
    say("4. Do the three give the same answers?");
    const bool undisturbed_same = compare(durable_, "undisturbed");
    const bool killed_same = compare(killed_, "killed");
    say("   among them:");
    // The last two questions cover every word and every package.
    const std::size_t count = plain_.answers.size();
    for (const std::size_t at : {std::size_t{0}, count * 2 / 3, count - 3, count - 2, count - 1})
      if (at < count) say("     {}", plain_.answers[at]);
    say("");
    return undisturbed_same && killed_same;
  }

  bool compare(const Finished& run, const std::string& name) {
    std::size_t same = 0, first_wrong = SIZE_MAX;
    for (std::size_t i = 0; i < plain_.answers.size(); ++i) {
      if (i < run.answers.size() && run.answers[i] == plain_.answers[i]) ++same;
      else first_wrong = std::min(first_wrong, i);
    }
    say("   {:<12} {} of {} answers as in ordinary memory", name + ":", same,
        plain_.answers.size());
    if (first_wrong == SIZE_MAX) return true;
    say("     expected: {}", plain_.answers[first_wrong]);
    say("     found:    {}",
        first_wrong < run.answers.size() ? run.answers[first_wrong] : "no answer");
    return false;
  }

  void conclude(bool same) {
    std::uint64_t total = 0;
    double lost_ms_max = 0;
    for (const Kill& kill : kills_) {
      total += 1 + static_cast<std::uint64_t>(kill.while_opening);
      lost_ms_max = std::max(lost_ms_max, kill.lost_ms);
    }
    if (same) {
      say("The same. The program was killed {}, and each time lost the work of {:.0f} ms at most.",
          counted(total, "time"), std::ceil(lost_ms_max));
    } else {
      say("DIFFERENT: the durable index is not the one that ordinary memory holds.");
    }
    if (comparable())
      say("Undisturbed, durability costs it {:.0f} % of time.", (slowdown() - 1) * 100);
    if (options_.keep) say("Kept: {} and {}", place_.killed(), place_.undisturbed());
    if (!options_.json.empty()) write_json(same);
  }

  void write_json(bool same) const {
    Json kills = Json::array();
    for (const Kill& kill : kills_)
      kills.push_back({{"document", kill.document},
                       {"kills_while_opening", kill.while_opening},
                       {"open_ms", kill.open_ms},
                       {"resumed_document", kill.resumed_document},
                       {"lost_documents", kill.lost_documents()},
                       {"lost_bytes", kill.lost_bytes()},
                       {"lost_ms", kill.lost_ms}});
    const Json result = {{"input",
                          {{"packages", corpus_.count(Kind::kPackage)},
                           {"documents", corpus_.count(Kind::kText)},
                           {"text_bytes", corpus_.text_bytes()}}},
                         {"interval_ms", options_.worker.interval_ms},
                         {"seed", options_.seed},
                         {"plain", {{"build_s", plain_.build_s}, {"cpu_s", plain_.build_cpu_s}}},
                         {"durable",
                          {{"build_s", durable_.build_s},
                           {"cpu_s", durable_.build_cpu_s},
                           {"slowdown", slowdown()},
                           {"cpu_slowdown", durable_.build_cpu_s / plain_.build_cpu_s},
                           {"checkpoints", durable_.statistics.checkpoints},
                           {"changed_bytes", durable_.statistics.changed_bytes},
                           {"log_bytes", durable_.statistics.log_bytes},
                           {"home_bytes", durable_.statistics.home_bytes},
                           {"pause_p99_ns", durable_.statistics.pause_p99_ns},
                           {"pause_max_ns", durable_.statistics.pause_max_ns}}},
                         {"killed", {{"build_s", killed_.build_s}, {"kills", kills}}},
                         {"answers", plain_.answers.size()},
                         {"same", same}};
    std::ofstream out(options_.json);
    out << result.dump(2) << '\n';
    if (!out.flush()) throw std::runtime_error("cannot write " + options_.json);
  }

  const DemoOptions& options_;
  SharedMemory corpus_memory_;
  Corpus corpus_;
  StorePlace place_;
  Launcher launcher_;

  Finished plain_, durable_, killed_;
  std::vector<Kill> kills_;
};

}  // namespace

bool demonstrate(const DemoOptions& options) { return Demonstration(options).run(); }

}  // namespace demo
