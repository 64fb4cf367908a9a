#include "print.hpp"

#include <cstdio>
#include <fstream>

#include <fmt/format.h>

namespace perdura::source {

int complain(const std::vector<std::string>& sentences) {
  for (const std::string& each : sentences) std::fprintf(stderr, "perdura: %s\n", each.c_str());
  return kFailed;
}

bool put(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0;
  }
  std::ofstream output(path, std::ios::binary | std::ios::trunc);
  output << text;
  output.close();
  if (output.fail()) complain({fmt::format("'{}' cannot be written", path)});
  return !output.fail();
}

}  // namespace perdura::source
