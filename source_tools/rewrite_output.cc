// Changed files, as a patch and on the disk.
#include "rewrite.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

namespace perdura::source {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    end = end == std::string::npos ? text.size() : end + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

/// A line of a patch: ' ', '-' or '+', and which one it is.
struct Step {
  char what;
  std::size_t before;
  std::size_t after;
};

/// By the longest common subsequence of what lies between the same lines at both ends.
std::vector<Step> steps_between(const Lines& a, const Lines& b) {
  std::size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  std::size_t tail = 0;
  while (tail < a.size() - head && tail < b.size() - head &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  const std::size_t rows = a.size() - head - tail;
  const std::size_t columns = b.size() - head - tail;
  std::vector<std::vector<unsigned>> common(rows + 1, std::vector<unsigned>(columns + 1, 0));
  for (std::size_t i = rows; i-- > 0;)
    for (std::size_t j = columns; j-- > 0;)
      common[i][j] = a[head + i] == b[head + j] ? common[i + 1][j + 1] + 1
                                                : std::max(common[i + 1][j], common[i][j + 1]);
  std::vector<Step> steps;
  for (std::size_t i = 0; i < head; ++i) steps.push_back({' ', i, i});
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < rows || j < columns) {
    if (i < rows && j < columns && a[head + i] == b[head + j]) {
      steps.push_back({' ', head + i++, head + j++});
    } else if (i < rows && (j == columns || common[i + 1][j] >= common[i][j + 1])) {
      steps.push_back({'-', head + i++, head + j});
    } else {
      steps.push_back({'+', head + i, head + j++});
    }
  }
  for (std::size_t k = 0; k < tail; ++k)
    steps.push_back({' ', a.size() - tail + k, b.size() - tail + k});
  return steps;
}

std::string range_of(std::size_t first, std::size_t count) {
  return std::to_string(count == 0 ? first : first + 1) +
         (count == 1 ? "" : "," + std::to_string(count));
}

std::string hunk(const Lines& a, const Lines& b, const std::vector<Step>& steps, std::size_t begin,
                 std::size_t end) {
  std::size_t before = 0;
  std::size_t after = 0;
  std::string body;
  for (std::size_t i = begin; i < end; ++i) {
    before += steps[i].what != '+';
    after += steps[i].what != '-';
    const std::string& line = steps[i].what == '+' ? b[steps[i].after] : a[steps[i].before];
    body += steps[i].what + line;
    if (!line.ends_with('\n')) body += "\n\\ No newline at end of file\n";
  }
  return "@@ -" + range_of(steps[begin].before, before) + " +" +
         range_of(steps[begin].after, after) + " @@\n" + body;
}

/// After that the names in the folder are those that they are now, also when the power fails.
bool sync_folder(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return false;
  const bool good = ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  errno = error;
  return good;
}

}  // namespace

std::string patch(const std::string& path, const std::string& before, const std::string& after) {
  constexpr std::size_t kContext = 3;
  if (before == after) return "";
  const Lines a = lines_of(before);
  const Lines b = lines_of(after);
  const std::vector<Step> steps = steps_between(a, b);
  const std::string name = path.starts_with('/') ? path.substr(1) : path;
  std::string text = "--- a/" + name + "\n+++ b/" + name + "\n";
  for (std::size_t i = 0; i < steps.size();) {
    if (steps[i].what == ' ') {
      ++i;
      continue;
    }
    const std::size_t begin = i < kContext ? 0 : i - kContext;
    std::size_t end = i + 1;  // behind the last line that differs
    for (std::size_t j = end; j < steps.size() && j <= end + 2 * kContext; ++j)
      if (steps[j].what != ' ') end = j + 1;
    const std::size_t stop = std::min(steps.size(), end + kContext);
    text += hunk(a, b, steps, begin, stop);
    i = stop;
  }
  return text;
}

std::vector<std::string> write_files(const std::map<std::string, std::string>& files) {
  std::vector<std::pair<std::string, std::string>> made;  // temporary, final
  std::vector<std::string> wrong;
  for (const auto& [named, text] : files) {
    std::error_code none;
    const std::filesystem::path real = std::filesystem::canonical(named, none);  // of a link
    const std::string path = none ? named : real.string();
    std::string name = path + ".XXXXXX";
    const int file = ::mkstemp(name.data());
    bool good = file >= 0;
    if (good) made.emplace_back(name, path);
    struct stat status{};
    const mode_t mode = ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0644;
    for (std::size_t at = 0; good && at < text.size();) {
      const ssize_t done = ::write(file, text.data() + at, text.size() - at);
      good = done > 0;
      if (good) at += static_cast<std::size_t>(done);
    }
    good = good && ::fchmod(file, mode) == 0 && ::fsync(file) == 0;
    if (!good) wrong.push_back("'" + path + "' cannot be written: " + std::strerror(errno));
    if (file >= 0) ::close(file);
  }
  std::set<std::string> folders;
  for (const auto& [temporary, path] : made) {
    if (wrong.empty() && std::rename(temporary.c_str(), path.c_str()) == 0) {
      folders.insert(std::filesystem::absolute(path).parent_path().string());
      continue;
    }
    if (wrong.empty()) wrong.push_back("'" + path + "' cannot be written: " + std::strerror(errno));
    ::unlink(temporary.c_str());
  }
  for (const std::string& each : folders)
    if (!sync_folder(each))
      wrong.push_back("what is written in '" + each +
                      "' may be lost when the power fails: " + std::strerror(errno));
  return wrong;
}

}  // namespace perdura::source
