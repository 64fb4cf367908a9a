// The subcommands of perdura. Each prints to stdout what it found, and returns the exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <perdura/options.hpp>

#include "base/bits.hpp"
#include "base/result.hpp"
#include "media/medium.hpp"

namespace CLI {
class App;
}

namespace perdura::tools {

// Exit codes.
constexpr int kGood = 0;
constexpr int kDamaged = 1;
constexpr int kFailed = 2;  ///< wrong usage, or nothing that could be looked at

struct Arguments {
  std::string store;
  media::MediumOptions medium;
  bool json = false;
  bool usage = false;          ///< info: what takes the space as well
  std::string root;            ///< dump: this one alone; "": all
  u64 depth = 0;               ///< dump: so many pointers behind a root are followed
  u64 limit = 0;               ///< dump: bytes that are printed at once; 0: all
  bool flat = false;           ///< dump: objects in a list
  bool dry_run = false;        ///< compact: nothing is written
  bool renew = false;          ///< identity: draw a new one
  u64 version = 0;             ///< rollback: where to
  std::string region;          ///< versions, rollback, remove: its name
  std::string object;          ///< remove: its name; "": all of the region
  std::string overflow;        ///< check, remove: the URI of the overflow store; "": there is none
  bool overflow_lost = false;  ///< remove: nobody has it any more
};

/// Of copy, backup and restore.
struct CopyArguments {
  std::string from;
  std::string to;
  media::MediumOptions medium;
  std::string region;
  u64 version = 0;
  u64 bytes_per_second = 0;
  u32 versions_kept = 0;
  bool adopts = false;
  std::optional<Engine> engine;
  bool json = false;
};
enum class CopyKind { kCopy, kBackup, kRestore };

struct AdviseArguments {
  std::vector<std::string> command;
  std::string medium = "file";  ///< a scheme, with parameters perhaps
  std::string folder;
  std::string library;
  std::string json;
  std::string html;
  u64 ranks = 0;  ///< 0: no job is asked about
  double mtbf_hours = 0;
  double restart_s = 60;
};

struct StatsArguments {
  std::string store;
  media::MediumOptions medium;
  std::string region;  ///< "": all that are open
  bool json = false;
  bool prometheus = false;
  bool watch = false;
  u64 interval_ms = 1000;
};

int info(const Arguments& arguments);
int dump_objects(const Arguments& arguments);
int check(const Arguments& arguments);
int versions(const Arguments& arguments);
int stats(const StatsArguments& arguments);
int rollback(const Arguments& arguments);
int remove(const Arguments& arguments);
int compact(const Arguments& arguments);
int identity(const Arguments& arguments);
int copy(const CopyArguments& arguments);
int backup(const CopyArguments& arguments);
int restore(const CopyArguments& arguments);
/// The command, in `app`.
const CLI::App* add_copy(CLI::App& app, CopyKind kind, CopyArguments& arguments);
int advise(const AdviseArguments& arguments);
/// classify, refactor: the program that does it takes all arguments.
int source_tools(char** argv);

/// Prints the sentence to stderr. The exit code.
int complain(const Failure& failure);

}  // namespace perdura::tools
