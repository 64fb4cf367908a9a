#include "parse.hpp"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Stmt.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/FileManager.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Tooling/CompilationDatabase.h>
#include <clang/Tooling/JSONCompilationDatabase.h>
#include <clang/Tooling/Tooling.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <thread>

#ifndef PERDURA_CLANG_RESOURCES
#error "source_tools/CMakeLists.txt defines PERDURA_CLANG_RESOURCES"
#endif

namespace perdura::source {
namespace {

using namespace clang;

class Consumer : public ASTConsumer {
 public:
  Consumer(const Look& look, std::size_t unit) : look_(look), unit_(unit) {}
  void HandleTranslationUnit(ASTContext& context) override {
    if (!context.getDiagnostics().hasErrorOccurred()) look_(context, unit_);
  }

 private:
  const Look& look_;
  std::size_t unit_;
};

class Action : public ASTFrontendAction {
 public:
  Action(const Look& look, std::size_t unit) : look_(look), unit_(unit) {}
  std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance&, StringRef) override {
    return std::make_unique<Consumer>(look_, unit_);
  }

 private:
  const Look& look_;
  std::size_t unit_;
};

/// Keeps errors, and no warnings.
class Errors : public DiagnosticConsumer {
 public:
  void HandleDiagnostic(DiagnosticsEngine::Level level, const Diagnostic& info) override {
    DiagnosticConsumer::HandleDiagnostic(level, info);
    if (level < DiagnosticsEngine::Error || sentences.size() >= 20) return;
    SmallString<256> text;
    info.FormatDiagnostic(text);
    std::string place;
    if (info.hasSourceManager() && info.getLocation().isValid()) {
      const PresumedLoc at = info.getSourceManager().getPresumedLoc(info.getLocation());
      if (at.isValid())
        place = std::string(at.getFilename()) + ":" + std::to_string(at.getLine()) + ":" +
                std::to_string(at.getColumn()) + ": ";
    }
    sentences.push_back(place + text.str().str());
  }
  std::vector<std::string> sentences;
};

/// As Clang takes it: without what is another compiler's, or for the output.
std::vector<std::string> adjusted(const std::vector<std::string>& command) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const StringRef each = command[i];
    if (i > 0 && (each == "-o" || each == "-MF" || each == "-MT" || each == "-MQ")) {
      ++i;
      continue;
    }
    if (i > 0 &&
        (each == "-c" || each == "-MD" || each == "-MMD" || each == "-MP" ||
         each == "-fpch-preprocess" || each == "-Werror" || each == "-Winvalid-pch" ||
         each.starts_with("-fplugin=") || each.starts_with("-fpass-plugin=") ||
         each.starts_with("-fconcepts") || each.starts_with("-fmodules-ts") ||
         each.starts_with("-fdeps-format") || each.starts_with("-fmodule-mapper") ||
         each.starts_with("-fanalyzer") || each.starts_with("-fno-gnu-unique") ||
         each.starts_with("-fcondition-coverage") || each.starts_with("-mindirect-branch") ||
         each.starts_with("-fno-semantic-interposition")))
      continue;
    all.push_back(each.str());
    if (i == 0) {
      all.insert(all.end(),
                 {"-fsyntax-only", "-w", "-Wno-unknown-warning-option", "-Qunused-arguments",
                  "-fno-caret-diagnostics", "-resource-dir=" PERDURA_CLANG_RESOURCES});
    }
  }
  return all;
}

struct Unit {
  std::string file;
  tooling::CompileCommand command;
};

std::string absolute(const std::string& path) {
  SmallString<256> found(path);
  llvm::sys::fs::make_absolute(found);
  llvm::sys::path::remove_dots(found, true);
  return found.str().str();
}

std::vector<Unit> units_of(const Sources& sources, std::vector<std::string>& wrong) {
  std::vector<Unit> units;
  std::unique_ptr<tooling::CompilationDatabase> database;
  std::string message;
  if (sources.has_flags) {
    database = std::make_unique<tooling::FixedCompilationDatabase>(".", sources.flags);
  } else if (!sources.build_folder.empty()) {
    database = tooling::CompilationDatabase::loadFromDirectory(sources.build_folder, message);
  } else if (!sources.files.empty()) {
    database =
        tooling::CompilationDatabase::autoDetectFromSource(absolute(sources.files[0]), message);
  } else {
    wrong.push_back("name sources, or a build folder with -p");
    return units;
  }
  const std::string written =
      (sources.build_folder.empty() ? "." : sources.build_folder) + "/compile_commands.json";
  if (database == nullptr && llvm::sys::fs::exists(written)) {
    wrong.push_back("'" + written + "' is damaged: let the build write it again");
    return units;
  }
  if (database == nullptr) {
    wrong.push_back("there is no compilation database" +
                    (sources.build_folder.empty() ? "" : " in '" + sources.build_folder + "'") +
                    ": let the build write compile_commands.json (CMake: "
                    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON) and name its folder with -p, or give the "
                    "compiler's flags behind --");
    return units;
  }
  std::set<std::string> known;
  if (sources.files.empty()) {
    for (tooling::CompileCommand& each : database->getAllCompileCommands()) {
      std::string file = each.Filename;
      std::string command = file;
      for (const std::string& word : each.CommandLine) command += '\n' + word;
      if (!known.insert(command).second) continue;
      units.push_back({std::move(file), std::move(each)});
    }
    if (units.empty())
      wrong.push_back("the compilation database in '" + sources.build_folder +
                      "' has no commands: name sources");
  }
  for (const std::string& file : sources.files) {
    const std::string path = absolute(file);
    if (!known.insert(path).second) continue;
    if (!llvm::sys::fs::exists(path)) {
      wrong.push_back("there is no file '" + file + "'");
      continue;
    }
    std::vector<tooling::CompileCommand> commands = database->getCompileCommands(path);
    // Of a header it takes the one of a source that it is near to; sources have their own.
    static const std::set<StringRef> kHeaders = {".h", ".hh", ".hpp", ".hxx", ".inc", ".inl"};
    if (!commands.empty() && !commands.front().Heuristic.empty() && !sources.has_flags &&
        !kHeaders.contains(llvm::sys::path::extension(path)))
      commands.clear();
    if (commands.empty()) {
      wrong.push_back("the compilation database has no command for '" + file +
                      "': name another folder with -p, or give flags behind --");
      continue;
    }
    for (tooling::CompileCommand& each : commands) units.push_back({path, std::move(each)});
  }
  return units;
}

std::vector<std::string> parse_unit(const Unit& unit, std::size_t number, Directives& directives,
                                    const Look& look) {
  auto system = without_directives(
      IntrusiveRefCntPtr<llvm::vfs::FileSystem>(llvm::vfs::createPhysicalFileSystem().release()),
      directives);
  system->setCurrentWorkingDirectory(unit.command.Directory);
  FileSystemOptions options;
  options.WorkingDir = unit.command.Directory;
  const IntrusiveRefCntPtr<FileManager> files(new FileManager(options, system));
  Errors errors;
  tooling::ToolInvocation invocation(adjusted(unit.command.CommandLine),
                                     std::make_unique<Action>(look, number), files.get());
  invocation.setDiagnosticConsumer(&errors);
  const bool done = invocation.run();
  if (!done && errors.sentences.empty())
    errors.sentences.push_back("'" + unit.file + "' cannot be compiled");
  if (!errors.sentences.empty())
    errors.sentences.push_back("'" + unit.file +
                               "' does not compile with Clang 19: correct it, or the flags");
  return std::move(errors.sentences);
}

}  // namespace

std::vector<std::string> parse(const Sources& sources, Directives& directives, const Look& look) {
  std::vector<std::string> wrong;
  const std::vector<Unit> units = units_of(sources, wrong);
  if (!wrong.empty()) return wrong;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  std::mutex mutex;
  const bool shows = !sources.quiet && units.size() > 8 && isatty(STDERR_FILENO) != 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < units.size(); i = next++) {
      std::vector<std::string> found = parse_unit(units[i], i, directives, look);
      const std::lock_guard lock(mutex);
      wrong.insert(wrong.end(), found.begin(), found.end());
      if (shows) std::fprintf(stderr, "\r%zu of %zu sources", ++done, units.size());
    }
  };
  const std::size_t jobs = std::min<std::size_t>(
      units.size(), sources.jobs != 0 ? sources.jobs : std::thread::hardware_concurrency());
  // Clang fills its table of the names of statements when it is first asked for one, in whichever
  // thread, and others find it half filled: Stmt::getStmtClassName() of two units at once.
  clang::Stmt::addStmtClass(clang::Stmt::NullStmtClass);
  std::vector<std::thread> workers;
  for (std::size_t i = 1; i < jobs; ++i) workers.emplace_back(work);
  work();
  for (std::thread& each : workers) each.join();
  if (shows) std::fputs("\r\033[K", stderr);
  return wrong;
}

}  // namespace perdura::source
