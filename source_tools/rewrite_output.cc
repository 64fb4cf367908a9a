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
#include <map>
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

/// Pairs of lines of a longest common subsequence, in order. A table of all pairs would need more
/// memory than there is for large files; so the middle is found by two rows of it, and each side by
/// itself (Hirschberg, CACM 18(6), 1975).
class CommonLines {
 public:
  std::vector<std::pair<std::size_t, std::size_t>> found;

  CommonLines(const Lines& before, const Lines& after) {
    std::map<std::string, std::size_t> numbers;
    const auto number = [&](const Lines& lines) {
      std::vector<std::size_t> all;
      for (const std::string& each : lines)
        all.push_back(numbers.try_emplace(each, numbers.size()).first->second);
      return all;
    };
    a_ = number(before);
    b_ = number(after);
    find(0, a_.size(), 0, b_.size());
  }

 private:
  void find(std::size_t a, std::size_t a_end, std::size_t b, std::size_t b_end) {
    for (; a < a_end && b < b_end && a_[a] == b_[b]; ++a, ++b) found.emplace_back(a, b);
    std::size_t tail = 0;
    for (; a < a_end && b < b_end && a_[a_end - 1] == b_[b_end - 1]; --a_end, --b_end) ++tail;
    if (a_end - a == 1) {
      const auto at = std::find(b_.begin() + static_cast<long>(b),
                                b_.begin() + static_cast<long>(b_end), a_[a]) -
                      b_.begin();
      if (static_cast<std::size_t>(at) < b_end) found.emplace_back(a, at);
    } else if (a < a_end && b < b_end) {
      const std::size_t middle = a + (a_end - a) / 2;
      const std::size_t columns = b_end - b;
      const auto before = lengths(middle - a, columns, [&](std::size_t i, std::size_t j) {
        return a_[a + i] == b_[b + j];
      });
      const auto behind = lengths(a_end - middle, columns, [&](std::size_t i, std::size_t j) {
        return a_[a_end - 1 - i] == b_[b_end - 1 - j];
      });
      std::size_t best = 0;
      for (std::size_t j = 1; j <= columns; ++j)
        if (before[j] + behind[columns - j] > before[best] + behind[columns - best]) best = j;
      find(a, middle, b, b + best);
      find(middle, a_end, b + best, b_end);
    }
    for (; tail > 0; --tail) found.emplace_back(a_end++, b_end++);
  }

  /// Of the longest common subsequences of all rows with the first 0, 1, … columns.
  template <class Equal>
  static std::vector<unsigned> lengths(std::size_t rows, std::size_t columns, const Equal& equal) {
    std::vector<unsigned> row(columns + 1);
    for (std::size_t i = 0; i < rows; ++i) {
      unsigned diagonal = 0;
      for (std::size_t j = 0; j < columns; ++j) {
        const unsigned above = row[j + 1];
        row[j + 1] = equal(i, j) ? diagonal + 1 : std::max(row[j], above);
        diagonal = above;
      }
    }
    return row;
  }

  std::vector<std::size_t> a_, b_;  ///< numbers of lines that are the same where the lines are
};

std::vector<Step> steps_between(const Lines& a, const Lines& b) {
  std::vector<Step> steps;
  std::size_t i = 0;
  std::size_t j = 0;
  const auto go_to = [&](std::size_t row, std::size_t column) {
    for (; i < row; ++i) steps.push_back({'-', i, j});
    for (; j < column; ++j) steps.push_back({'+', i, j});
  };
  for (const auto& [row, column] : CommonLines(a, b).found) {
    go_to(row, column);
    steps.push_back({' ', i++, j++});
  }
  go_to(a.size(), b.size());
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
  // As git does it: without the tab the name would end at the space.
  const std::string end = name.find(' ') != name.npos ? "\t\n" : "\n";
  std::string text = "--- a/" + name + end + "+++ b/" + name + end;
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
