// perdura-demo [FILE…]: index real text while being killed again and again.
//
//   main ──▶ demonstration ──▶ runs ──▶ process ──▶ (main, as a worker) ──▶ worker ──▶ index

#include <exception>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "demonstration.hpp"
#include "process.hpp"
#include "worker.hpp"

namespace {

using perdura::Tracking;

/// Those that see the stores of unmodified containers.
const std::map<std::string, Tracking> kTrackers = {{"automatic", Tracking::kAutomatic},
                                                   {"userfault", Tracking::kUserfault},
                                                   {"sigbus", Tracking::kSigbus},
                                                   {"protect", Tracking::kProtect}};

void add_worker_options(CLI::App& app, demo::WorkerOptions& worker) {
  app.add_option("--interval-ms", worker.interval_ms, "milliseconds between checkpoints")
      ->check(CLI::Range(1, 60'000))
      ->capture_default_str();
  app.add_option("--tracker", worker.tracking, "how changed memory is found")
      ->transform(CLI::CheckedTransformer(kTrackers, CLI::ignore_case));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Builds an index of words and a graph of packages in memory that Perdura makes durable, is\n"
      "killed again and again while doing so, and shows that nothing was lost.");
  demo::DemoOptions options;
  app.add_option("FILE", options.files,
                 "texts, package lists or directories to index; this machine's own if none");
  app.add_option("--limit-mb", options.limit_mb, "text to index at most, in megabytes")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--store", options.store, "URI of the store; a new file on the disk if none");
  app.add_flag("--keep", options.keep, "do not remove the stores at the end");
  app.add_option("--kills", options.kills, "how often to kill the program at work")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the moments to kill, and of the queries")
      ->capture_default_str();
  app.add_option("--json", options.json, "write the figures to this file");
  add_worker_options(app, options.worker);

  // How the demo starts itself.
  CLI::App* worker_command = app.add_subcommand("worker")->group("");
  demo::WorkerOptions worker;
  add_worker_options(*worker_command, worker);
  worker_command->add_option("--store", worker.store);
  worker_command->add_option("--seed", worker.seed);
  worker_command->add_option("--corpus-fd", worker.corpus_fd);
  worker_command->add_option("--progress-fd", worker.progress_fd);
  worker_command->add_option("--answers-fd", worker.answers_fd);

  CLI11_PARSE(app, argc, argv);
  if (worker_command->parsed()) return demo::run_worker(worker);

  try {
    demo::stop_on_interrupt();
    return demo::demonstrate(options) ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "perdura-demo: {}\n", failure.what());
    return 1;
  }
}
