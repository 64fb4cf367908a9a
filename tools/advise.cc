// perdura advise: runs a program once, and says how its memory is best made durable.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "advice.hpp"
#include "commands.hpp"
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
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// "emu?write_ns=600" and a path, as a URI.
std::string uri_of(const std::string& medium, const std::string& path) {
  const size_t query = medium.find('?');
  return medium.substr(0, query) + ":" + path +
         (query == std::string::npos ? "" : medium.substr(query));
}

std::string folder_of(const AdviseArguments& arguments) {
  if (!arguments.folder.empty()) return arguments.folder;
  if (arguments.medium.starts_with("emu") && ::access("/dev/shm", W_OK) == 0) return "/dev/shm";
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr ? temporary : "/var/tmp";
}

/// Run the program; its exit status.
int run(const AdviseArguments& arguments, const std::string& library, const std::string& pattern,
        pid_t& pid) {
  pid = ::fork();
  if (pid < 0) throw Error(Code::kNoMemory, std::string("cannot fork: ") + std::strerror(errno));
  if (pid == 0) {
    const char* before = std::getenv("LD_PRELOAD");
    const std::string preload =
        before != nullptr && *before != 0 ? library + ":" + before : library;
    ::setenv("LD_PRELOAD", preload.c_str(), 1);
    ::setenv("PERDURA_SAMPLE", pattern.c_str(), 1);
    ::unsetenv("PERDURA_STORE");
    std::vector<char*> command;
    for (const std::string& word : arguments.command)
      command.push_back(const_cast<char*>(word.c_str()));
    command.push_back(nullptr);
    ::execvp(command[0], command.data());
    fmt::print(stderr, "perdura: cannot run '{}': {}\n", command[0], std::strerror(errno));
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Json read_sample(const std::string& path, int status) {
  std::ifstream file(path);
  if (!file) {
    const std::string how = WIFSIGNALED(status)
                                ? "died of signal " + std::to_string(WTERMSIG(status))
                                : "ended with status " + std::to_string(WEXITSTATUS(status));
    throw Error(Code::kNotFound,
                "the program left nothing that was sampled (it " + how +
                    "): it must be linked dynamically, not set another user's rights, and end by "
                    "exit or by returning from main");
  }
  return Json::parse(file);
}

void print_table(const Advice& advice, const Json& sample) {
  fmt::print("\nran {:.2f} s without checkpoints; {} in {} live at its end\n", advice.base_ns / 1e9,
             bytes_text(sample.at("live_bytes")), count_text(sample.at("live_blocks"), "block"));
  const auto print_head = [&](const char* what) {
    fmt::print("\n{:<34}", what);
    for (const u64 ms : advice.intervals_ms) fmt::print("{:>12}", interval_text(ms));
    fmt::print("\n");
  };
  const auto bytes_each = [](u64 bytes, u64 checkpoints) {
    return bytes_text(bytes / std::max<u64>(checkpoints, 1));
  };
  print_head("copied by a checkpoint every");
  for (const WayAdvice& way : advice.ways) {
    if (way.failure) continue;
    fmt::print("  {:<32}", way.way.name);
    for (const Prediction& each : way.predictions)
      fmt::print("{:>12}", each.checkpoints == 0 ? "-" : bytes_each(each.bytes, each.checkpoints));
    fmt::print("\n");
  }
  fmt::print("  {:<32}", "reported by the program (lines)");
  for (size_t i = 0; i < advice.intervals_ms.size(); ++i)
    fmt::print("{:>12}", advice.checkpoints[i] == 0
                             ? "-"
                             : bytes_each(advice.changed_bytes[i], advice.checkpoints[i]));
  fmt::print("\n");
  print_head("predicted run time");
  for (size_t way = 0; way < advice.ways.size(); ++way) {
    const WayAdvice& each = advice.ways[way];
    fmt::print("  {:<32}", each.way.name);
    if (each.failure) {
      fmt::print("  not here: {}\n", each.failure->message);
      continue;
    }
    for (size_t i = 0; i < each.predictions.size(); ++i) {
      const Prediction& prediction = each.predictions[i];
      fmt::print("{:>12}", prediction.checkpoints == 0
                               ? "-"
                               : fmt::format("{}{:.2f}", advice.best[i] == way ? "*" : "",
                                             prediction.slowdown));
    }
    fmt::print("\n");
  }
  fmt::print(
      "\nTimes are multiples of that without checkpoints, while the program waits for each.\n"
      "* is recommended: Options::aliases and Options::compare (docs/tracking.md).\n");
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw Error(Code::kIo, "cannot write '" + path + "'");
}

}  // namespace

int advise(const AdviseArguments& arguments) {
  const std::string library = find_library(arguments.library);
  const Folder folder(folder_of(arguments));
  pid_t pid = 0;
  // Programs that it starts sample as well, and are of no interest.
  const int status = run(arguments, library, folder.file("sample-%p"), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return kFailed;
  const Json sample = read_sample(folder.file(("sample-" + std::to_string(pid)).c_str()), status);
  std::vector<WayAdvice> calibrated;
  for (const Way& way : ways()) {
    if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\rmeasuring: {:<32}", way.name);
    const std::string path = folder.file("calibration.pd");
    Result<Costs> costs = calibrate(way, uri_of(arguments.medium, path), path);
    WayAdvice one{.way = way, .failure = {}, .costs = {}, .predictions = {}};
    if (costs) one.costs = *costs;
    else if (costs.failure().code == Code::kUnsupported) one.failure = costs.failure();
    else throw_failure(costs.failure());
    calibrated.push_back(std::move(one));
  }
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:<44}\r", "");
  if (calibrated.front().failure) throw_failure(*calibrated.front().failure);
  const Advice advice = advise_on(sample, std::move(calibrated));
  print_table(advice, sample);
  std::string title;
  for (const std::string& word : arguments.command) title += (title.empty() ? "" : " ") + word;
  if (!arguments.json.empty()) write_file(arguments.json, to_json(advice, sample).dump(2) + "\n");
  if (!arguments.html.empty()) write_file(arguments.html, to_html(advice, sample, title));
  return kGood;
}

}  // namespace perdura::tools
