// What the commands say, and where they put it.
#pragma once

#include <string>
#include <vector>

namespace perdura::source {

// Exit codes.
constexpr int kDone = 0;
constexpr int kRefused = 1;  ///< or it differs from what is expected, or said
constexpr int kFailed = 2;

/// Sentences, to stderr. Returns kFailed, for those who then end.
int complain(const std::vector<std::string>& sentences);

/// To a file, or with "-" to stdout. Where that fails it complains, and returns false.
bool put(const std::string& path, const std::string& text);

}  // namespace perdura::source
