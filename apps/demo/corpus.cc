#include "corpus.hpp"

#ifdef PERDURA_DEMO_ZLIB
#include <zlib.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "text.hpp"

namespace demo {

namespace fs = std::filesystem;

namespace {

/// A few huge files must not crowd out the many small ones.
constexpr std::size_t kFileBytesMax = 1 << 20;

struct Header {
  std::uint64_t count, names_bytes, texts_bytes;
};

/// The first `bytes_max` bytes that `read` gives.
template <class Read>
std::string read_up_to(std::size_t bytes_max, Read read) {
  std::string contents;
  std::array<char, 64 * 1024> block;
  while (contents.size() < bytes_max) {
    const auto got = read(block.data(), block.size());
    if (got <= 0) break;
    contents.append(block.data(), static_cast<std::size_t>(got));
  }
  return contents;
}

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

std::string read_stream(const File& file, std::size_t bytes_max) {
  if (file == nullptr) return {};
  return read_up_to(bytes_max, [&](char* block, std::size_t size) {
    return static_cast<std::ptrdiff_t>(std::fread(block, 1, size, file.get()));
  });
}

/// A file, decompressed if it is a .gz; empty when unreadable.
std::string read_file(const fs::path& path, std::size_t bytes_max) {
#ifdef PERDURA_DEMO_ZLIB
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) return {};
  return read_up_to(bytes_max, [&](char* block, std::size_t size) {
    return gzread(file.get(), block, static_cast<unsigned>(size));
  });
#else
  return read_stream(File(std::fopen(path.c_str(), "rb"), std::fclose), bytes_max);
#endif
}

/// A package list of apt's, which may be compressed in any way apt knows.
std::string read_apt_list(const fs::path& path, std::size_t bytes_max) {
  if (path.string().ends_with("Packages")) return read_file(path, bytes_max);
  const std::string command = "exec /usr/lib/apt/apt-helper cat-file '" + path.string() + "'";
  return read_stream(File(popen(command.c_str(), "r"), pclose), bytes_max);
}

bool looks_binary(std::string_view contents) {
  return contents.substr(0, 4096).find('\0') != std::string_view::npos;
}

/// The regular files below a directory, sorted: the same input at every run.
std::vector<fs::path> files_below(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(directory, options, error), end; it != end && !error;
       it.increment(error))
    if (it->symlink_status().type() == fs::file_type::regular) files.push_back(it->path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

// --- reading a frozen corpus --------------------------------------------------------------------

Corpus::Corpus(std::span<const std::byte> memory) {
  const auto* header = reinterpret_cast<const Header*>(memory.data());
  const auto* entries = reinterpret_cast<const Entry*>(header + 1);
  const auto* names = reinterpret_cast<const char*>(entries + header->count);
  entries_ = {entries, header->count};
  names_ = {names, header->names_bytes};
  texts_ = {names + header->names_bytes, header->texts_bytes};
}

std::size_t Corpus::count(Kind kind) const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.kind == kind; }));
}

Document Corpus::operator[](std::size_t document) const {
  const Entry& entry = entries_[document];
  return {names_.substr(entry.name_offset, entry.name_bytes),
          texts_.substr(entry.text_offset, entry.text_bytes), entry.kind};
}

std::size_t Corpus::bytes_before(std::size_t document) const {
  return document == entries_.size() ? texts_.size() : entries_[document].text_offset;
}

// --- collecting -------------------------------------------------------------------------------

void CorpusBuilder::add_machine() {
  const std::size_t limit_bytes = limit_bytes_;
  add_file("/var/lib/dpkg/status");
  limit_bytes_ = limit_bytes / 2;  // the rest is for documentation
  for (const fs::path& path : files_below("/var/lib/apt/lists"))
    if (path.filename().string().find("_Packages") != std::string::npos && !full())
      add_contents(path.filename(), read_apt_list(path, limit_bytes_ - texts_.size()));
  limit_bytes_ = limit_bytes;
  add("/usr/share/doc");
}

void CorpusBuilder::add(const fs::path& path) {
  if (fs::is_directory(path)) {
    for (const fs::path& file : files_below(path))
      if (!full()) add_file(file);
  } else if (fs::exists(path)) {
    add_file(path);
  } else {
    throw std::runtime_error(path.string() + ": no such file");
  }
}

void CorpusBuilder::add_file(const fs::path& path) {
  std::error_code ignored;
  const bool is_package_list = path.filename() == "status" || path.filename() == "Packages";
  add_contents(path, read_file(path, is_package_list ? limit_bytes_ : kFileBytesMax));
}

void CorpusBuilder::add_contents(const std::string& name, std::string_view contents) {
  if (contents.empty() || looks_binary(contents)) return;
  if (!contents.starts_with("Package: ")) return add_document(name, contents, Kind::kText);
  while (!contents.empty() && !full()) {
    const std::size_t end = contents.find("\n\n");
    const std::string_view paragraph = contents.substr(0, end);
    if (paragraph.starts_with("Package: "))
      add_document(find_field(paragraph, "Package"), paragraph, Kind::kPackage);
    contents.remove_prefix(end == std::string_view::npos ? contents.size() : end + 2);
  }
}

void CorpusBuilder::add_document(std::string_view name, std::string_view text, Kind kind) {
  if (full()) return;
  entries_.push_back({names_.size(), name.size(), texts_.size(), text.size(), kind});
  names_ += name;
  texts_ += text;
}

SharedMemory CorpusBuilder::freeze() const {
  const Header header{entries_.size(), names_.size(), texts_.size()};
  const std::size_t entries_bytes = entries_.size() * sizeof(Corpus::Entry);
  SharedMemory memory("perdura-demo-corpus",
                      sizeof header + entries_bytes + names_.size() + texts_.size());
  std::byte* out = memory.bytes().data();
  const auto append = [&](const void* data, std::size_t size) {
    std::memcpy(out, data, size);
    out += size;
  };
  append(&header, sizeof header);
  append(entries_.data(), entries_bytes);
  append(names_.data(), names_.size());
  append(texts_.data(), texts_.size());
  return memory;
}

}  // namespace demo
