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

constexpr const char* kLeftOut =
    "Compiled with reports: left out, it needs Clang 19; ./dev demo installs that and builds it.";

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

struct Texts {
  const char* how;
  const char* when;
};
/// Of a durable one.
Texts texts_of(Side side) {
  switch (side) {
    case Side::kReporting:
      return {"its containers report what they store to", "when containers report"};
    case Side::kCompiled:
      return {"what changes is reported by code that the compiler adds",
              "when the compiler reports stores"};
    default:
      return {"pages that change are found by the system", "when the system finds pages"};
  }
}

/// One way to have the index durable, and how its runs went.
struct DurableSide {
  explicit DurableSide(Side which) : side(which) {}

  Side side;
  Finished undisturbed, killed;
  std::vector<Kill> kills;

  std::string undisturbed_name() const { return std::string(name_of(side)); }
  std::string killed_name() const { return undisturbed_name() + "-killed"; }
  double stop_ms() const {  // 99 of 100 are shorter
    return static_cast<double>(undisturbed.statistics.pause_p99_ns) * 1e-6;
  }
};

/// The sides that are wanted, without those that this build has no program for.
std::vector<DurableSide> durable_sides(const DemoOptions& options) {
  std::vector<DurableSide> sides;
  for (const Side side : {Side::kReporting, Side::kPages, Side::kCompiled}) {
    const bool is_named = std::ranges::find(options.sides, side) != options.sides.end();
    if (is_named && !can_run(side)) throw std::runtime_error(kLeftOut);
    if (is_named || (options.sides.empty() && can_run(side))) sides.emplace_back(side);
  }
  return sides;
}

std::vector<std::string> store_names(const std::vector<DurableSide>& sides) {
  std::vector<std::string> names;
  for (const DurableSide& side : sides)
    names.insert(names.end(), {side.undisturbed_name(), side.killed_name()});
  return names;
}

/// Reports are compared while the program stands still: not where it is to be killed at work.
WorkerOptions undisturbed_options(const DemoOptions& options) {
  WorkerOptions worker = options.worker;
  worker.verify_reports = options.verify;
  return worker;
}

WorkerOptions killed_options(const DemoOptions& options) {
  WorkerOptions worker = options.worker;
  worker.verify_found = options.verify;
  return worker;
}

class Demonstration {
 public:
  explicit Demonstration(const DemoOptions& options)
      : options_(options),
        sides_(durable_sides(options)),
        corpus_memory_(collect(options)),
        corpus_(corpus_memory_.bytes()),
        place_(options.store, options.keep, store_names(sides_)),
        launcher_(corpus_memory_, undisturbed_options(options)),
        killed_launcher_(corpus_memory_, killed_options(options)) {}

  bool run() {
    introduce();
    build_in_ordinary_memory();
    for (DurableSide& side : sides_) {
      say("{}. In Perdura's memory; {}", ++part_, texts_of(side.side).how);
      build_undisturbed(side);
      build_while_killed(side);
    }
    if (options_.sides.empty() && !can_run(Side::kCompiled)) say("{}. {}\n", ++part_, kLeftOut);
    const bool same = compare();
    conclude(same);
    return same;
  }

 private:
  void introduce() {
    say("Perdura demo: a program that is killed again and again, and goes on where it was.\n");
    say("  input    {} and {}, {} of text{}", counted(corpus_.count(Kind::kPackage), "package"),
        counted(corpus_.count(Kind::kText), "document"),
        size_text(static_cast<double>(corpus_.text_bytes())),
        options_.files.empty() ? ", found on this machine" : "");
    say("  program  indexes every word (hash map, vectors, strings) and links the packages that\n"
        "           depend on each other (ordered map, raw pointers): with containers that "
        "report,\n"
        "           then with the standard's and Perdura's allocator");
    say("  stores   {}, a checkpoint every {} ms\n", place_.text(), options_.worker.interval_ms);
  }

  void build_in_ordinary_memory() {
    say("{}. In ordinary memory, where nothing survives", ++part_);
    plain_ = run_undisturbed(launcher_, Side::kOrdinary, "", corpus_.text_bytes());
    say("   built in {:.2f} s ({:.2f} s of CPU)\n", plain_.build_s, plain_.build_cpu_s);
  }

  void build_undisturbed(DurableSide& side) {
    const std::string name = side.undisturbed_name();
    side.undisturbed =
        run_undisturbed(launcher_, side.side, place_.uri(name), corpus_.text_bytes());
    place_.done_with(name);
    const perdura::Statistics& statistics = side.undisturbed.statistics;
    const double checkpoints =
        static_cast<double>(std::max<std::uint64_t>(statistics.checkpoints, 1));
    say("   undisturbed: built in {:.2f} s ({:.2f} s of CPU){}", side.undisturbed.build_s,
        side.undisturbed.build_cpu_s,
        comparable() ? fmt::format(": {:.2f} times as long as in ordinary memory", slowdown(side))
                     : "");
    say("   {}, {} of changes each; they stopped the program for {:.2f} ms (99 of 100)",
        counted(statistics.checkpoints, "checkpoint"),
        size_text(static_cast<double>(statistics.changed_bytes) / checkpoints), side.stop_ms());
  }

  void build_while_killed(DurableSide& side) {
    if (options_.kills == 0) return say("");
    say("   killed (SIGKILL) at {}:",
        counted(static_cast<std::uint64_t>(options_.kills), "random moment"));
    const std::string name = side.killed_name();
    KilledRun run(killed_launcher_, side.side, place_.uri(name), corpus_.text_bytes(),
                  options_.kills, options_.worker.seed,
                  [&](const Kill& kill) { tell(side, kill); });
    side.killed = run.run();
    place_.done_with(name);
    say("   built in {:.2f} s, restarts and repeated work included", side.killed.build_s);
    say("   the heap is sound: {} of {} in use\n", counted(side.killed.heap_blocks, "block"),
        size_text(static_cast<double>(side.killed.heap_bytes)));
  }

  void tell(DurableSide& side, const Kill& kill) {
    side.kills.push_back(kill);
    say("     kill {} struck at document {}{}", side.kills.size(), grouped(kill.document),
        kill.while_opening > 0 ? ", and once more while the store was being opened again" : "");
    say("            open again in {:.1f} ms; resumed at document {}: lost {}, {} of\n"
        "            text, {:.0f} ms of work",
        kill.open_ms, grouped(kill.resumed_document), counted(kill.lost_documents(), "document"),
        size_text(static_cast<double>(kill.lost_bytes())), kill.lost_ms);
  }

  double slowdown(const DurableSide& side) const {
    return side.undisturbed.build_s / plain_.build_s;
  }
  /// A build that is over before a few checkpoints are says nothing of their cost.
  bool comparable() const { return plain_.build_s * 1e3 > 4 * options_.worker.interval_ms; }

  bool compare() {
    say("{}. Do they all give the same answers?", ++part_);
    bool all_same = true;
    for (const DurableSide& side : sides_) {
      all_same &= compare(side.undisturbed, side.undisturbed_name() + ", undisturbed");
      if (options_.kills > 0)
        all_same &= compare(side.killed, side.undisturbed_name() + ", killed");
    }
    say("   among them:");
    // The last two questions cover every word and every package.
    const std::size_t count = plain_.answers.size();
    for (const std::size_t at : {std::size_t{0}, count * 2 / 3, count - 3, count - 2, count - 1})
      if (at < count) say("     {}", plain_.answers[at]);
    say("");
    return all_same;
  }

  bool compare(const Finished& run, const std::string& name) {
    std::size_t same = 0, first_wrong = SIZE_MAX;
    for (std::size_t i = 0; i < plain_.answers.size(); ++i) {
      if (i < run.answers.size() && run.answers[i] == plain_.answers[i]) ++same;
      else first_wrong = std::min(first_wrong, i);
    }
    say("   {:<22} {} of {} answers as in ordinary memory", name + ":", same,
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
    for (const DurableSide& side : sides_)
      for (const Kill& kill : side.kills) {
        total += 1 + static_cast<std::uint64_t>(kill.while_opening);
        lost_ms_max = std::max(lost_ms_max, kill.lost_ms);
      }
    if (same && total == 0) {
      say("The same.");
    } else if (same) {
      say("The same. The program was killed {}, and each time lost the work of {:.0f} ms at most.",
          counted(total, "time"), std::ceil(lost_ms_max));
    } else {
      say("DIFFERENT: a durable index is not the one that ordinary memory holds.");
    }
    if (comparable()) say("{}", costs());
    if (options_.keep) say("Kept: {}", place_.text());
    if (!options_.json.empty()) write_json(same);
  }

  /// What durability costs, in one sentence.
  std::string costs() const {
    std::string text;
    for (const DurableSide& side : sides_)
      text += fmt::format("{} {:.0f} % of time and stops of {:.2f} ms {}",
                          text.empty() ? "Undisturbed, durability costs it" : ", and",
                          (slowdown(side) - 1) * 100, side.stop_ms(), texts_of(side.side).when);
    return text + '.';
  }

  static Json json_of(const std::vector<Kill>& kills) {
    Json all = Json::array();
    for (const Kill& kill : kills)
      all.push_back({{"document", kill.document},
                     {"kills_while_opening", kill.while_opening},
                     {"open_ms", kill.open_ms},
                     {"resumed_document", kill.resumed_document},
                     {"lost_documents", kill.lost_documents()},
                     {"lost_bytes", kill.lost_bytes()},
                     {"lost_ms", kill.lost_ms}});
    return all;
  }

  Json json_of(const DurableSide& side) const {
    const Finished& run = side.undisturbed;
    return {{"build_s", run.build_s},
            {"cpu_s", run.build_cpu_s},
            {"slowdown", slowdown(side)},
            {"cpu_slowdown", run.build_cpu_s / plain_.build_cpu_s},
            {"checkpoints", run.statistics.checkpoints},
            {"changed_bytes", run.statistics.changed_bytes},
            {"log_bytes", run.statistics.log_bytes},
            {"home_bytes", run.statistics.home_bytes},
            {"pause_p99_ns", run.statistics.pause_p99_ns},
            {"pause_max_ns", run.statistics.pause_max_ns},
            {"killed", {{"build_s", side.killed.build_s}, {"kills", json_of(side.kills)}}}};
  }

  void write_json(bool same) const {
    Json result = {{"input",
                    {{"packages", corpus_.count(Kind::kPackage)},
                     {"documents", corpus_.count(Kind::kText)},
                     {"text_bytes", corpus_.text_bytes()}}},
                   {"interval_ms", options_.worker.interval_ms},
                   {"seed", options_.worker.seed},
                   {"ordinary", {{"build_s", plain_.build_s}, {"cpu_s", plain_.build_cpu_s}}}};
    for (const DurableSide& side : sides_) result[name_of(side.side)] = json_of(side);
    result["answers"] = plain_.answers.size();
    result["same"] = same;
    std::ofstream out(options_.json);
    out << result.dump(2) << '\n';
    if (!out.flush()) throw std::runtime_error("cannot write " + options_.json);
  }

  const DemoOptions& options_;
  std::vector<DurableSide> sides_;
  SharedMemory corpus_memory_;
  Corpus corpus_;
  StorePlace place_;
  Launcher launcher_, killed_launcher_;

  int part_ = 0;  ///< of what is shown
  Finished plain_;
};

}  // namespace

bool demonstrate(const DemoOptions& options) { return Demonstration(options).run(); }

}  // namespace demo
