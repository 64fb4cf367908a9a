// perdura-bench [NAME[:KEY,…]…] [--quick] [--json FILE] [--plot FOLDER] [--dir DIR] [--list]
//
// Runs benchmarks, each in a forked process that sends its figures through a pipe; prints a table
// and, if asked, JSON. Whether figures reach their bounds does not change the exit code.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include <CLI/CLI.hpp>

#include "child.hpp"
#include "harness.hpp"

namespace perdura::bench {
namespace {

namespace fs = std::filesystem;

std::atomic<pid_t> running{0};
std::atomic<bool> interrupted{false};

/// The benchmark's process dies; the main process then ends in its own time, and cleans up.
void interrupt(int) {
  interrupted = true;
  if (const pid_t pid = running; pid > 0) kill(pid, SIGKILL);
}

/// A directory of this run alone, removed with everything in it.
class RunDirectory {
 public:
  explicit RunDirectory(const std::string& parent)
      : made_parent_(fs::create_directories(parent)),
        parent_(fs::absolute(parent)),
        path_(parent_ / fmt::format("perdura-bench-{}", getpid())) {
    fs::create_directories(path_);
  }
  ~RunDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    if (made_parent_) fs::remove(parent_, ignored);  // fails, rightly, when others use it
  }
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  std::string string() const { return path_.string(); }
  void clear() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path(), ignored);
  }

 private:
  bool made_parent_;
  fs::path parent_, path_;
};

struct Wanted {
  const Benchmark* benchmark;
  std::vector<std::string> keys;
};

/// "cluster" is every one whose name begins with "cluster_".
void add_named(const std::string& text, std::vector<Wanted>& wanted) {
  const auto colon = text.find(':');
  const std::string name = text.substr(0, colon);
  std::vector<std::string> keys;
  if (colon != std::string::npos) {
    std::istringstream list(text.substr(colon + 1));
    for (std::string key; std::getline(list, key, ',');) keys.push_back(key);
  }
  const std::size_t before = wanted.size();
  for (const Benchmark& each : benchmarks())
    if (each.name == name || each.name.starts_with(name + "_")) wanted.push_back({&each, keys});
  if (wanted.size() == before) throw CLI::ValidationError(name, "no such benchmark; see --list");
}

void print_figure(const std::string& benchmark, const Json& figure) {
  const std::string value =
      figure["value"].is_null() ? "-" : fmt::format("{:.4g}", figure["value"].get<double>());
  const std::string reach = figure["reach"].is_null() ? "" : figure["reach"].get<std::string>();
  const std::string holds =
      figure["holds"].is_null() ? "" : (figure["holds"].get<bool>() ? "yes" : "NO");
  fmt::print("{:<12} {:<18} {:>10} {:<10} {:>9} {:>4}\n", benchmark,
             figure["key"].get<std::string>(), value, figure["unit"].get<std::string>(), reach,
             holds);
  std::fflush(stdout);
}

[[noreturn]] void run_in_child(const Wanted& wanted, Context::Setup setup, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);  // a terminal's interrupt is the main process's to handle
  setup.sink = [out](const Json& figure) {
    const std::string line = figure.dump() + "\n";
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t wrote = write(out, line.data() + done, line.size() - done);
      if (wrote <= 0) _exit(1);
      done += static_cast<std::size_t>(wrote);
    }
  };
  try {
    Context context(std::move(setup));
    wanted.benchmark->function(context);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}: {}\n", wanted.benchmark->name, failure.what());
    _exit(1);
  }
  std::fflush(nullptr);
  _exit(0);
}

/// Runs one benchmark in a process of its own; returns its figures.
Json run(const Wanted& wanted, Context::Setup setup) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    close(ends[0]);
    run_in_child(wanted, std::move(setup), ends[1]);
  }
  running = pid;
  close(ends[1]);
  Json figures = Json::array();
  FILE* in = fdopen(ends[0], "r");
  char* line = nullptr;
  std::size_t capacity = 0;
  while (getline(&line, &capacity, in) > 0) {
    figures.push_back(Json::parse(line));
    print_figure(wanted.benchmark->name, figures.back());
  }
  std::free(line);
  std::fclose(in);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  running = 0;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fmt::print(stderr, "{}: ended {} {}\n", wanted.benchmark->name,
               WIFSIGNALED(status) ? "by signal" : "with code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return figures;
}

struct Arguments {
  std::vector<std::string> names;
  bool quick = false;
  bool list = false;
  std::string json;
  std::string plots;
  std::string directory = "bench-data";
};

void write_json(const std::string& path, const Json& results) {
  std::ofstream out(path);
  out << (results.size() == 1 ? results[0] : results).dump(2) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

void run_all(const Arguments& arguments) {
  std::vector<Wanted> wanted;
  for (const std::string& name : arguments.names) add_named(name, wanted);
  if (wanted.empty())
    for (const Benchmark& benchmark : benchmarks()) wanted.push_back({&benchmark, {}});

  if (!arguments.plots.empty()) fs::create_directories(arguments.plots);
  const RunDirectory disk(arguments.directory), memory("/dev/shm");
  const Json system = machine(disk.string());
  Json results = Json::array();
  fmt::print("{:<12} {:<18} {:>10} {:<10} {:>9} {:>4}\n", "benchmark", "figure", "value", "unit",
             "reach", "ok");
  for (const Wanted& each : wanted) {
    if (interrupted) break;
    Context::Setup setup;
    setup.benchmark = each.benchmark->name;
    setup.quick = arguments.quick;
    setup.keys = each.keys;
    setup.disk_directory = disk.string();
    setup.memory_directory = memory.string();
    Json result;
    result["benchmark"] = each.benchmark->name;
    result["machine"] = system;
    result["figures"] = run(each, std::move(setup));
    results.push_back(std::move(result));
    if (!arguments.json.empty()) write_json(arguments.json, results);  // kept if a later one hangs
    if (!arguments.plots.empty() && each.benchmark->plot != nullptr)
      each.benchmark->plot(results.back()["figures"], arguments.plots);
    disk.clear();
    memory.clear();
  }
}

int main(int argc, char** argv) {
  if (argc >= 3 && std::string_view(argv[1]) == "--child")
    return run_child(argv[2], ChildArguments(argv + 3, argv + argc));

  std::sort(benchmarks().begin(), benchmarks().end(),
            [](const Benchmark& a, const Benchmark& b) { return a.name < b.name; });
  CLI::App app("Measure Perdura against what a user would pick instead");
  Arguments arguments;
  app.add_option("NAME", arguments.names,
                 "benchmarks to run, all if none; NAME:KEY,KEY for some figures");
  app.add_flag("--quick", arguments.quick, "at most a minute a benchmark, less precise");
  app.add_option("--json", arguments.json, "write the figures to this file");
  app.add_option("--plot", arguments.plots, "draw charts of the figures into this folder, as SVG");
  app.add_option("--dir", arguments.directory, "where `file:` stores live")->capture_default_str();
  app.add_flag("--list", arguments.list, "name the benchmarks");
  try {
    app.parse(argc, argv);
    if (arguments.list) {
      for (const Benchmark& benchmark : benchmarks())
        fmt::print("{:<12} {}\n", benchmark.name, benchmark.description);
      return 0;
    }
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    run_all(arguments);
  } catch (const CLI::Error& error) {
    return app.exit(error);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "perdura-bench: {}\n", failure.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace perdura::bench

int main(int argc, char** argv) { return perdura::bench::main(argc, argv); }
