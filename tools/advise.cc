// perdura advise: runs a program once, and says how its memory is best made durable.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "advice.hpp"
#include "base/unique_fd.hpp"
#include "commands.hpp"
#include "program.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Beside the command as it is built, or as it is installed.
std::string find_library(const std::string& chosen) {
  if (!chosen.empty()) return fs::absolute(chosen);
  std::error_code failed;
  const fs::path command = fs::read_symlink("/proc/self/exe", failed).parent_path();
  constexpr const char* kName = "libperdura_malloc.so";
  for (const fs::path& folder : {command / "../preload", command / "../" PERDURA_LIBDIR}) {
    const fs::path library = folder / kName;
    if (fs::exists(library, failed)) return fs::weakly_canonical(library);
  }
  throw Error(Code::kNotFound, std::string(kName) +
                                   " is not where perdura was built or installed; name it by "
                                   "--library");
}

/// A folder of this run alone.
class Folder {
 public:
  explicit Folder(std::string pattern) : path_(std::move(pattern)) {
    path_ += "/perdura-advise-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr)
      throw Error(Code::kIo, "cannot make a folder like '" + path_ + "': " + std::strerror(errno));
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string folder_of(const AdviseArguments& arguments) {
  if (!arguments.folder.empty()) return arguments.folder;
  if (arguments.medium.starts_with("emu") && ::access("/dev/shm", W_OK) == 0) return "/dev/shm";
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr ? temporary : "/var/tmp";
}

/// For a file of this command's: it can be written before anything is measured.
class Output {
 public:
  explicit Output(const std::string& path) : path_(path) {
    if (path.empty()) return;
    is_new_ = !fs::exists(path);
    fd_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!fd_) throw Error(Code::kIo, "cannot write '" + path + "': " + std::strerror(errno));
  }
  ~Output() {
    std::error_code ignored;
    if (fd_ && is_new_) fs::remove(path_, ignored);
  }
  Output(const Output&) = delete;

  bool is_wanted() const { return static_cast<bool>(fd_); }
  void write(const std::string& text) {
    std::ofstream file(path_);
    file << text;
    file.close();
    if (!file) throw Error(Code::kIo, "cannot write '" + path_ + "'");
    fd_.reset();
  }

 private:
  const std::string path_;
  bool is_new_ = false;  ///< nothing of it stays unless it was written
  UniqueFd fd_;
};

/// As LD_PRELOAD takes it.
std::string checked_library(const AdviseArguments& arguments) {
  const std::string library = find_library(arguments.library);
  if (::access(library.c_str(), R_OK) != 0)
    throw Error(Code::kNotFound, "cannot read '" + library + "': " + std::strerror(errno));
  if (library.find_first_of(": \t\n") != library.npos)
    throw Error(Code::kInvalidArgument,
                "LD_PRELOAD takes no path with spaces or colons, as '" + library +
                    "' has; copy the library to another place and name it by --library");
  return library;
}

/// Settings of the program's own are not for this run.
Environment environment(const std::string& library, const std::string& sample_pattern,
                        std::string& preload) {
  const char* const before = std::getenv("LD_PRELOAD");
  preload = before != nullptr && *before != 0 ? library + ":" + before : library;
  return {{"LD_PRELOAD", preload.c_str()}, {"PERDURA_SAMPLE", sample_pattern.c_str()},
          {"PERDURA_STORE", nullptr},      {"PERDURA_TRACKING", nullptr},
          {"PERDURA_ALIASES", nullptr},    {"PERDURA_COMPARE", nullptr},
          {"PERDURA_STATISTICS", nullptr}, {"PERDURA_CHECKPOINT_MS", nullptr}};
}

Json read_sample(const std::string& path, int status) {
  std::ifstream file(path);
  if (!file)
    throw Error(Code::kNotFound,
                "the program left nothing that was sampled (it " + ending_text(status) +
                    "): it must run for some hundredths of a second, be linked dynamically, have "
                    "no malloc of its own, and not be set another user's rights");
  Json sample = Json::parse(file);
  const auto shows_nothing = [](const Json& interval) { return interval.at("checkpoints") == 0; };
  if (std::all_of(sample.at("intervals").begin(), sample.at("intervals").end(), shows_nothing))
    throw Error(Code::kNotFound,
                fmt::format("{} ran for {:.0f} ms and {}: that is too short for a checkpoint, so "
                            "there is nothing to advise; give it more to do",
                            sample.at("program").get<std::string>(),
                            double{sample.at("run_ns")} / 1e6, ending_text(status)));
  return sample;
}

std::vector<Calibrated> calibrate_all(const Site& site, const SignalsHeld& signals) {
  const bool is_watched = ::isatty(STDERR_FILENO) != 0;
  const auto between = [&](const std::string& what) {
    if (is_watched) fmt::print(stderr, "\rmeasuring: {:<32}", what);
    // Ends the process when the signals are let through.
    if (signals.any()) throw Error(Code::kIo, "interrupted");
  };
  std::vector<Calibrated> all = value_or_throw(calibrate(site, between));
  if (is_watched) fmt::print(stderr, "\r{:<44}\r", "");
  return all;
}

/// What is measured, of which nothing is left behind however this ends.
struct Measured {
  Json sample;
  std::vector<Calibrated> ways;
  int status;  ///< of the program, as waitpid() gives it
};
Measured measure(const AdviseArguments& arguments) {
  const std::string library = checked_library(arguments);
  const SignalsHeld signals;
  const Folder folder(folder_of(arguments));
  const std::string trial = folder.file("trial.pd");
  const bool byte_addressable = value_or_throw(try_out(uri_of(arguments.medium, trial), trial));
  // Programs that it starts sample as well, and are of no interest.
  const std::string pattern = folder.file("sample-%p");
  std::string preload;
  Program program(arguments.command, environment(library, pattern, preload), signals);
  const int status = program.wait();
  const std::string sample = folder.file(("sample-" + std::to_string(program.pid())).c_str());
  return {read_sample(sample, status),
          calibrate_all({arguments.medium, folder.path(), byte_addressable}, signals), status};
}

/// What is said of each interval in a line.
template <class Text>
void print_line(const std::string& name, const Advice& advice, Text&& text) {
  fmt::print("  {:<32}", name);
  for (size_t i = 0; i < advice.intervals.size(); ++i)
    fmt::print("{:>14}", advice.intervals[i].checkpoints == 0 ? "-" : text(i));
  fmt::print("\n");
}

void print_head(const char* what, const Advice& advice) {
  fmt::print("\n{:<34}", what);
  for (const IntervalAdvice& each : advice.intervals) fmt::print("{:>14}", interval_text(each.ms));
  fmt::print("\n");
}

void print_table(const Advice& advice, const Json& sample, int status) {
  fmt::print(
      "\n{} takes {:.2f} s without checkpoints{}, and {}; {} in {} live at its end\n",
      printable(sample.at("program").get<std::string>()), advice.base_ns / 1e9,
      advice.doubt_ns < 5e6 ? "" : fmt::format(" (give or take {:.2f})", advice.doubt_ns / 1e9),
      ending_text(status), bytes_text(sample.at("live_bytes")),
      count_text(sample.at("live_blocks"), "block"));
  print_head("copied by a checkpoint every", advice);
  for (const WayAdvice& way : advice.ways)
    if (!way.failure && !way.way.reported)
      print_line(way.way.name, advice,
                 [&](size_t i) { return bytes_text(way.predictions[i].bytes); });
  print_line("reported (lines)", advice,
             [&](size_t i) { return bytes_text(advice.intervals[i].changed_bytes); });
  print_head("predicted run time", advice);
  for (size_t which = 0; which < advice.ways.size(); ++which) {
    const WayAdvice& way = advice.ways[which];
    if (way.failure) fmt::print("  {:<32}  not here: {}\n", way.way.name, way.failure->message);
    else
      print_line(way.way.name, advice, [&](size_t i) {
        const Prediction& each = way.predictions[i];
        return fmt::format("{}{:.2f} ±{:.2f}", advice.intervals[i].best == which ? "*" : "",
                           each.slowdown, each.doubt);
      });
  }
  fmt::print(
      "\nTimes are multiples of that without checkpoints, while the program waits for each; ± is\n"
      "how far they may be off. * is recommended: Options::aliases, Options::compare and\n"
      "Options::tracking (docs/tracking.md); the simplest, where what is quicker is in doubt.\n");
}

std::string seconds_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.3g} min", seconds / 60);
  return fmt::format("{:.3g} h", seconds / 3600);
}

void print_job(const JobAdvice& job, const Advice& advice) {
  fmt::print(
      "\nA job of {} ranks, of which one fails every {:.4g} hours, fails every {}. With {} a "
      "point\n"
      "takes {} on its slowest rank; take one after {} of work (Young: {}).\n"
      "Points, failures and what they lose then make it {:.3g} times as long as its work.\n",
      job.job.ranks, job.job.mtbf_hours, seconds_text(job.failure_s), advice.ways[job.way].way.name,
      seconds_text(job.point_s), seconds_text(job.interval_s), seconds_text(job.young_s),
      job.slowdown);
}

}  // namespace

int advise(const AdviseArguments& arguments) {
  Output json(arguments.json);
  Output html(arguments.html);
  const Measured measured = measure(arguments);
  const Advice advice = value_or_throw(advise_on(measured.sample, measured.ways));
  print_table(advice, measured.sample, measured.status);
  Json figures = to_json(advice, measured.sample);
  if (arguments.ranks != 0) {
    const JobAdvice job = value_or_throw(advise_job(
        advice, measured.sample, {arguments.ranks, arguments.mtbf_hours, arguments.restart_s}));
    print_job(job, advice);
    figures["job"] = to_json(job);
  }
  std::string title;
  for (const std::string& word : arguments.command) title += (title.empty() ? "" : " ") + word;
  if (json.is_wanted()) json.write(figures.dump(2) + "\n");
  if (html.is_wanted()) html.write(to_html(advice, measured.sample, title));
  if (std::fflush(stdout) != 0) throw Error(Code::kIo, "cannot write the advice to the output");
  return kGood;
}

}  // namespace perdura::tools
