// Goal: each sentence of the documents that promises something names tests that there are, and who
// adds one without, or renames a test, is told so.
// Method: tests/proof/promises.py over the documents, and over copies of them that were changed.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "support/files.hpp"

namespace perdura::test {
namespace {

namespace fs = std::filesystem;

class Promises : public testing::Test {
 protected:
  Promises() { fs::copy(PERDURA_SOURCE_DIR "/docs", folder_.path("docs")); }

  /// The exit status; what it says goes to output_.
  int run(const std::string& documents) {
    const std::string command = "python3 " PERDURA_SOURCE_DIR "/tests/proof/promises.py " +
                                std::string(PERDURA_SOURCE_DIR) + " --documents " + documents +
                                " --json " + folder_.path("promises.json") + " 2>&1";
    FILE* const pipe = ::popen(command.c_str(), "r");
    output_.clear();
    char buffer[4096];
    for (size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) != 0;)
      output_.append(buffer, got);
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  /// In a copy of a document.
  void replace(const std::string& from, const std::string& to) {
    const std::string path = folder_.path("docs/guarantees.md");
    std::string text = text_of(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(path) << text;
  }

  const TempDir folder_{TempDir::kMemory};
  std::string output_;
};

TEST_F(Promises, NameTheirTests) {
  EXPECT_EQ(run(PERDURA_SOURCE_DIR "/docs"), 0) << output_;
  EXPECT_NE(text_of(folder_.path("promises.json")).find("\"promises_untested\": 0,"),
            std::string::npos);
}

TEST_F(Promises, WithoutATestAreFound) {
  replace("If nothing changed,", "It rains. If nothing changed,");
  replace("| power loss |", "| a row | of | a | table |\n| power loss |");
  replace("## DMA", "Nobody says so.\n\n## DMA");
  replace("<!-- no promise -->", "<!-- no promises -->");
  replace("Heap.FollowsAModelThroughCrashes", "Heap.IsARenamedTest");
  replace(" It is never older than the last acknowledged one.", "");
  EXPECT_EQ(run(folder_.path("docs")), 1);
  for (const char* sentence :
       {"If nothing changed, `checkpoint()` writes nothing and returns the last version.\n    has "
        "no",
        "| bit rot in the home image |", "Nobody says so.\n    has no test",
        "no mark: <!-- no promises -->", "there is no test Heap.IsARenamedTest",
        "a mark is of 3 sentences, before it are 2"})
    EXPECT_NE(output_.find(sentence), output_.npos) << output_ << "lacks " << sentence;
}

}  // namespace
}  // namespace perdura::test
