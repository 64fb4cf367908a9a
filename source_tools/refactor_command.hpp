// perdura refactor and classify --write, on the command line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "refactor.hpp"
#include "rewrite_marks.hpp"

namespace CLI {
class App;
}

namespace perdura::source {

/// Where changed files go.
struct Output {
  bool diff = false;
  bool in_place = false;
  std::string folder;
};

/// Prints or writes them. Returns the exit code.
int deliver(const std::map<std::string, std::string>& before,
            const std::map<std::string, std::string>& after, const Output& output);

/// classify --write.
int write_marks(const Sources& sources, const Judged& judged, bool directives, bool diff);

struct RefactorCommand {
  RefactorOptions options;
  Output output;
  std::string json;
  bool methods = false;
  std::vector<std::string> classes;

  void add(CLI::App* command);
  int run(const Sources& sources) const;
};

}  // namespace perdura::source
