// Changes of the text of files: what is replaced where, formatted, shown or written.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

namespace perdura::source {

/// A place in a file for people, with its offset.
struct Spot {
  std::string file;
  unsigned offset = 0;
  unsigned line = 0;
  unsigned column = 0;
  auto operator<=>(const Spot&) const = default;
  /// "FILE:LINE:COLUMN".
  std::string text() const;
};

struct Edit {
  unsigned begin;  ///< offsets
  unsigned end;
  std::string text;
  bool operator==(const Edit&) const = default;
};

/// In the order in which they are made, where several are at one place.
using Edits = std::vector<Edit>;

/// What `text` is from `begin` to `end` with the edits in there. The same edit twice is one.
std::string edited(const std::string& text, const Edits& edits, unsigned begin, unsigned end);

/// The file with the edits; the lines that they touch are formatted as the .clang-format above the
/// file says, where `formats`. Fails with a sentence in `wrong`.
std::string edited_and_formatted(const std::string& path, const std::string& text,
                                 const Edits& edits, bool formats, std::vector<std::string>& wrong);

/// The text of a file; a sentence in `wrong` where it cannot be read.
std::string text_of_file(const std::string& path, std::vector<std::string>& wrong);

/// A unified patch of one file; "" where nothing differs.
std::string patch(const std::string& path, const std::string& before, const std::string& after);

/// Writes all of them, each by a temporary file that takes its place, and none where one of the
/// temporary files cannot be written. Returns sentences.
std::vector<std::string> write_files(const std::map<std::string, std::string>& files);

}  // namespace perdura::source
