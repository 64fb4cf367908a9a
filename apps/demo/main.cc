// perdura-demo [FILE…]: index real text while being killed again and again.
//
//   main ──▶ demonstration ──▶ runs ──▶ process ──▶ (another program) worker ──▶ index

#include <exception>
#include <map>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "demonstration.hpp"
#include "process.hpp"
#include "worker.hpp"

namespace {

using perdura::Tracking;

/// Those that find pages.
const std::map<std::string, Tracking> kPageTrackers = {{"automatic", Tracking::kAutomatic},
                                                       {"userfault", Tracking::kUserfault},
                                                       {"sigbus", Tracking::kSigbus},
                                                       {"protect", Tracking::kProtect}};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Builds an index of words and a graph of packages in memory that Perdura makes durable, is\n"
      "killed again and again while doing so, and shows that nothing was lost, and what it costs.");
  demo::DemoOptions options;
  app.add_option("FILE", options.files,
                 "texts, package lists or directories to index; this machine's own if none");
  app.add_option("--limit-mb", options.limit_mb, "text to index at most, in megabytes")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--store", options.store,
                 "URI that those of the stores begin with; new files on the disk if none");
  app.add_flag("--keep", options.keep, "do not remove the stores at the end");
  app.add_option("--kills", options.kills, "how often to kill the program at work, on each side")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--seed", options.worker.seed, "of the moments to kill, and of the queries")
      ->capture_default_str();
  app.add_option("--json", options.json, "write the figures to this file");
  app.add_option("--interval-ms", options.worker.interval_ms, "milliseconds between checkpoints")
      ->check(CLI::Range(1, 60'000))
      ->capture_default_str();
  app.add_option("--tracker", options.worker.page_tracker, "how changed pages are found")
      ->transform(CLI::CheckedTransformer(kPageTrackers, CLI::ignore_case));
  app.add_option("--side", options.sides,
                 "show this one beside ordinary memory, and those named so again; all if none")
      ->allow_extra_args(false)
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, demo::Side>{{"reporting", demo::Side::kReporting},
                                            {"pages", demo::Side::kPages},
                                            {"compiled", demo::Side::kCompiled}}));
  app.add_flag("--verify", options.verify,
               "compare what each start after a kill finds with an index built anew and, in the\n"
               "undisturbed run, what changes with what was reported; takes long");

  CLI11_PARSE(app, argc, argv);

  try {
    demo::stop_on_interrupt();
    return demo::demonstrate(options) ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "perdura-demo: {}\n", failure.what());
    return 1;
  }
}
