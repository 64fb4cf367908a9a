// Goal: the rules on which the design rests hold in the sources themselves.
//  1. A layer of src/ includes only itself and the layers below it (src/README.md), never what is
//     built on the library.
//  2. Public headers include no internal header.
//  3. Only src/media makes bytes durable, so that a test of a medium sees every durable write.
//  4. Nobody asks which engine or which tracker a store has, but the tables that know them: another
//     one needs no branch elsewhere.
//  5. media::Decorator passes every call of a medium on: where it did not, a decorated medium would
//     answer with the interface's default.
// Method: read every source file line by line; each violation fails with its file and line. The
// checks are themselves checked on lines that break the rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Bottom to top.
constexpr std::array<std::string_view, 11> kLayers = {"base", "format", "media", "region",
                                                      "log",  "object", "track", "commit",
                                                      "heap", "store",  "model"};

/// Position of a layer from the bottom; kLayers.size() when there is none of this name.
size_t height(std::string_view layer) {
  return static_cast<size_t>(std::find(kLayers.begin(), kLayers.end(), layer) - kLayers.begin());
}

std::string first_component(const std::string& path) { return path.substr(0, path.find('/')); }

struct Include {
  std::string path;  ///< empty: the line includes nothing
  bool quoted = false;
};

Include parse_include(const std::string& line) {
  const size_t open = line.find_first_of("<\"");
  if (open == std::string::npos) return {};
  std::string directive = line.substr(0, open);
  std::erase(directive, ' ');
  if (directive != "#include") return {};
  const size_t close = line.find_first_of(">\"", open + 1);
  return {line.substr(open + 1, close - open - 1), line[open] == '"'};
}

/// The identifiers and numbers of a line, without those in string literals and after "//".
std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> found(1);
  bool in_literal = false;
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\\') {
      ++at;
    } else if (line[at] == '"') {
      in_literal = !in_literal;
    } else if (!in_literal) {
      if (line.compare(at, 2, "//") == 0) break;
      if (std::isalnum(static_cast<unsigned char>(line[at])) || line[at] == '_')
        found.back() += line[at];
      else found.emplace_back();
    }
  }
  return found;
}

bool writes_durably(std::string_view word) {
  for (std::string_view call : {"fdatasync", "fsync", "syncfs", "sync_file_range", "msync"})
    if (word == call) return true;
  for (std::string_view prefix : {"pwrite", "io_uring_prep_write", "io_uring_prep_fsync",
                                  "io_uring_prep_sync", "_mm_clwb", "_mm_clflush"})
    if (word.starts_with(prefix)) return true;
  return word.starts_with("_mm") && word.find("_stream_") != word.npos;
}

// Each check returns what is wrong with a line of `file` (relative to the source folder), or "".

std::string check_layer(const std::string& file, const std::string& line) {
  const std::string layer = first_component(file.substr(std::string_view("src/").size()));
  if (height(layer) == kLayers.size()) return "src/" + layer + " is not a layer";
  const Include include = parse_include(line);
  const std::string included = first_component(include.path);
  if (include.path.starts_with("perdura/structures/") ||
      include.path.starts_with("perdura/testing/"))
    return layer + " includes what is built on the library: " + include.path;
  if (height(included) == kLayers.size())
    return include.quoted ? "not of the form \"layer/file.hpp\": " + include.path : "";
  return height(included) > height(layer) ? layer + " includes the higher layer " + include.path
                                          : "";
}

std::string check_public_header(const std::string&, const std::string& line) {
  const Include include = parse_include(line);
  const bool internal = include.quoted || height(first_component(include.path)) < kLayers.size() ||
                        include.path.find("..") != std::string::npos;
  return internal ? "a public header includes " + include.path : "";
}

std::string check_durable_write(const std::string& file, const std::string& line) {
  if (file.starts_with("src/media/")) return "";
  for (const std::string& word : words(line))
    if (writes_durably(word)) return word + " outside src/media";
  return "";
}

std::string check_engine(const std::string& file, const std::string& line) {
  for (const char* table : {"src/store/engine_kinds.cc", "src/region/engine_rules.cc"})
    if (file == table) return "";
  const std::string code = line.substr(0, line.find("//"));
  static const std::regex asks(
      R"((^|[(!&|?]|return)\s*(region|record)\w*(\.|->)(record\.)?(chunk_bytes|versions_kept)\s*[!=]=\s*0)"
      R"(|[!=]=\s*(format::)?Engine(Id)?::|case (format::)?Engine(Id)?::|[^:]engine\s*[!=]=|in_chunks)"
      R"(|dynamic_cast<[^>]*(RedoLog|Remap|Storage|Inspection))");
  return std::regex_search(code, asks) ? "asks which engine a store has" : "";
}

// The trackers that share a class know each other.
std::string check_tracker(const std::string& file, const std::string& line) {
  if (file.starts_with("src/track/")) return "";
  const std::string code = line.substr(0, line.find("//"));
  static const std::regex asks(
      R"(([!=]=|case)\s*Tracking::|(Tracking::\w+|kind\(\)|tracking)\s*[!=]=)"
      R"(|dynamic_cast<[^>]*(Reported|ProtectedPages|Userfault|Scatter))");
  return std::regex_search(code, asks) ? "asks which tracker a store has" : "";
}

/// The virtual functions that `interfaces` declares in one of `classes`, and that neither one of
/// these makes final nor `decorator`, a source as well, overrides.
std::vector<std::string> not_passed_on(const std::string& interfaces, const std::string& classes,
                                       const std::string& decorator) {
  static const std::regex begins(R"(^class (\w+) .*\{$)");
  static const std::regex declares(R"(^  virtual [^~]*?(\w+)\()");
  std::vector<std::string> missing;
  std::istringstream lines(interfaces);
  bool is_wanted = false;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, begins))
      is_wanted = std::regex_match(found[1].str(), std::regex(classes));
    if (!is_wanted || !std::regex_search(line, found, declares)) continue;
    const std::string call = "\\b" + found[1].str() + R"(\([^;{]*\b)";
    if (!std::regex_search(decorator, std::regex(call + "override\\b")) &&
        !std::regex_search(interfaces, std::regex(call + "final\\b")))
      missing.push_back(found[1]);
  }
  return missing;
}

std::string text_of(const std::string& file) {
  std::ifstream in(fs::path(PERDURA_SOURCE_DIR) / file);
  EXPECT_TRUE(in.is_open()) << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool is_source(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".cc" || extension == ".hpp" || extension == ".c" || extension == ".h";
}

/// Applies `check` to every line of every source file under `folder`; returns how many files.
template <class Check>
size_t check_folder(const std::string& folder, Check check) {
  const fs::path root = PERDURA_SOURCE_DIR;
  if (!fs::exists(root / folder)) return 0;
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    ++files;
    const std::string file = entry.path().lexically_relative(root);
    std::ifstream in(entry.path());
    EXPECT_TRUE(in.is_open()) << file;
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      const std::string wrong = check(file, line);
      if (!wrong.empty()) ADD_FAILURE_AT(file.c_str(), number) << wrong;
    }
  }
  return files;
}

TEST(Layers, IncludeOnlyDownward) { EXPECT_GT(check_folder("src", check_layer), 0u); }

TEST(Layers, PublicHeadersIncludeNoInternalOnes) {
  EXPECT_GT(check_folder("include/perdura", check_public_header), 0u);
}

TEST(Layers, OnlyMediaWritesDurably) {
  EXPECT_GT(check_folder("src/media", check_durable_write), 0u);
  EXPECT_GT(check_folder("src", check_durable_write), 0u);
  EXPECT_GT(check_folder("include", check_durable_write), 0u);
  check_folder("structures", check_durable_write);
  check_folder("tools", check_durable_write);
}

TEST(Layers, NobodyAsksWhichEngineAStoreHas) {
  EXPECT_GT(check_folder("src", check_engine), 0u);
  check_folder("tools", check_engine);
  check_folder("preload", check_engine);
}

TEST(Layers, NobodyAsksWhichTrackerAStoreHas) {
  EXPECT_GT(check_folder("src", check_tracker), 0u);
  check_folder("tools", check_tracker);
  check_folder("preload", check_tracker);
}

TEST(Layers, DecoratorsPassEveryCallOn) {
  const std::string decorator = text_of("src/media/decorator.hpp");
  for (const std::string& missing :
       not_passed_on(text_of("src/media/medium.hpp"), "Medium|LinearMedium", decorator))
    ADD_FAILURE() << "media::Decorator does not pass on " << missing << "()";
}

TEST(Layers, ChecksFindViolations) {
  const std::string file = "src/media/medium.cc";
  EXPECT_EQ(check_layer(file, "#include \"media/medium.hpp\""), "");
  EXPECT_EQ(check_layer(file, "#include \"format/format.hpp\""), "");
  EXPECT_EQ(check_layer(file, "#include <perdura/error.hpp>"), "");
  EXPECT_EQ(check_layer(file, "#include <vector>"), "");
  EXPECT_NE(check_layer(file, "#include \"store/store.hpp\""), "");
  EXPECT_NE(check_layer(file, "  # include <store/store.hpp>"), "");
  EXPECT_NE(check_layer(file, "#include \"medium.hpp\""), "");
  EXPECT_NE(check_layer(file, "#include \"../store/store.hpp\""), "");
  EXPECT_NE(check_layer(file, "#include <perdura/structures/map.hpp>"), "");
  EXPECT_NE(check_layer("src/other/other.cc", ""), "");
  EXPECT_NE(check_layer("src/main.cc", ""), "");

  const std::string header = "include/perdura/store.hpp";
  EXPECT_EQ(check_public_header(header, "#include <perdura/error.hpp>"), "");
  EXPECT_NE(check_public_header(header, "#include \"store/runtime.hpp\""), "");
  EXPECT_NE(check_public_header(header, "#include <store/runtime.hpp>"), "");

  const std::string log = "src/log/space.cc";
  EXPECT_EQ(check_durable_write(file, "::fdatasync(fd);"), "");
  EXPECT_EQ(check_durable_write(log, "medium.write(at, bytes);  // ends in pwrite"), "");
  EXPECT_EQ(check_durable_write(log, "throw Error(\"fsync failed\");"), "");
  for (const char* code :
       {"::pwrite(fd, p, n, 0);", "pwritev2(fd, v, 1, 0, 0);", "if (fdatasync(fd) != 0)",
        "fsync(fd);", "msync(p, n, MS_SYNC);", "io_uring_prep_fsync(sqe, fd, 0);",
        "_mm_clwb(line);", "_mm_clflushopt(line);", "_mm512_stream_si512(to, value);"})
    EXPECT_NE(check_durable_write(log, code), "") << code;

  EXPECT_EQ(check_engine("src/region/engine_rules.cc", "if (record.chunk_bytes == 0)"), "");
  EXPECT_EQ(check_engine(log, "options.engine = Engine::kRemap;  // engine == nothing"), "");
  for (const char* code :
       {"if (record.chunk_bytes != 0) return;", "return options.engine == Engine::kRemap;",
        "case Engine::kRedoLog:", "case EngineId::kRemap:",
        "return record.engine != format::EngineId::kRemap;", "if (in_chunks()) load();",
        "region.versions_kept==0", "dynamic_cast<commit::RedoLog*>(engine)"})
    EXPECT_NE(check_engine(log, code), "") << code;

  EXPECT_EQ(check_tracker("src/track/reported.cc", "if (mode_ == Tracking::kBitmap) {"), "");
  EXPECT_EQ(check_tracker(log, "settings.options.tracking = Tracking::kUserfault;"), "");
  EXPECT_EQ(check_tracker(log, "if (track::kind_of(options.tracking).is_reported)"), "");
  for (const char* code :
       {"return tracker.kind() == Tracking::kReported;",
        "case Tracking::kSigbus:", "if (options_.tracking != Tracking::kAutomatic)",
        "if (Tracking::kBitmap == mode)", "if (options.tracking == wanted)",
        "if (tracker_->kind() != before)", "dynamic_cast<track::Reported*>(tracker_.get())"})
    EXPECT_NE(check_tracker(log, code), "") << code;

  const std::string interfaces =
      "class Queue {\n  virtual void wait() = 0;\n};\n"
      "class Medium {\n  virtual ~Medium() = default;\n  virtual const T& name() const = 0;\n"
      "  virtual Status pin(u32 region,\n                     u64 version) {\n};\n";
  EXPECT_EQ(not_passed_on(interfaces, "Medium",
                          "const T& name() const override {\n"
                          "Status pin(u32 region,\n           u64 version) override {"),
            std::vector<std::string>{});
  EXPECT_EQ(not_passed_on(interfaces, "Medium",
                          "const T& name() const { return inner_->name(); }\n"
                          "void wait() override;"),
            (std::vector<std::string>{"name", "pin"}));
}

}  // namespace
