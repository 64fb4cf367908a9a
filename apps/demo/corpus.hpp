// The demo's input, frozen: read once, then handed to every worker as the same bytes, so that all
// of them index the same thing even if the machine's files change meanwhile.
//
// One block of memory:
//
//   count, text bytes | Entry × count | names | texts, in the order of the entries
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared_memory.hpp"

namespace demo {

enum class Kind : std::uint32_t {
  kText,     ///< words
  kPackage,  ///< a paragraph of a Debian package list
};

struct Document {
  std::string_view name;
  std::string_view text;
  Kind kind = Kind::kText;
};

/// Reads a frozen corpus. Views into it live as long as the memory it was made from.
class Corpus {
 public:
  explicit Corpus(std::span<const std::byte> memory);

  std::size_t size() const { return entries_.size(); }
  std::size_t count(Kind kind) const;
  std::size_t text_bytes() const { return texts_.size(); }
  Document operator[](std::size_t document) const;
  /// Bytes of text before document `document`; size() is allowed and gives text_bytes().
  std::size_t bytes_before(std::size_t document) const;

  struct Entry {
    std::uint64_t name_offset, name_bytes;
    std::uint64_t text_offset, text_bytes;
    Kind kind;
  };

 private:
  std::span<const Entry> entries_;
  std::string_view names_, texts_;
};

/// Collects documents until they hold `limit_bytes` of text.
class CorpusBuilder {
 public:
  explicit CorpusBuilder(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// This machine's package lists and the documentation of its packages.
  void add_machine();
  /// A package list, or a text; a directory stands for the files below it.
  void add(const std::filesystem::path& path);

  std::size_t text_bytes() const { return texts_.size(); }

  SharedMemory freeze() const;

 private:
  void add_file(const std::filesystem::path& path);
  void add_contents(const std::string& name, std::string_view contents);
  void add_document(std::string_view name, std::string_view text, Kind kind);
  bool full() const { return texts_.size() >= limit_bytes_; }

  std::size_t limit_bytes_;
  std::vector<Corpus::Entry> entries_;
  std::string names_, texts_;
};

}  // namespace demo
