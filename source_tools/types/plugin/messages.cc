#include "messages.hpp"

#include <fstream>

namespace perdura::types {

using namespace clang;

void Messages::list(SourceLocation location, const std::string& what) {
  if (compiler_.getSourceManager().isInSystemHeader(location)) return;
  if (!settings_.list_file.empty()) {
    std::ofstream(settings_.list_file, std::ios::app) << place_of(location) << ": " << what << '\n';
  } else if (settings_.lists) {
    DiagnosticsEngine& diagnostics = compiler_.getDiagnostics();
    diagnostics.Report(location, diagnostics.getCustomDiagID(DiagnosticsEngine::Remark, "%0"))
        << what;
  }
}

void Messages::refuse(SourceLocation location, const std::string& why) {
  DiagnosticsEngine& diagnostics = compiler_.getDiagnostics();
  diagnostics.Report(location, diagnostics.getCustomDiagID(DiagnosticsEngine::Error, "perdura: %0"))
      << why;
}

std::string Messages::place_of(SourceLocation location) const {
  const SourceManager& sources = compiler_.getSourceManager();
  const PresumedLoc place = sources.getPresumedLoc(sources.getExpansionLoc(location));
  if (place.isInvalid()) return "?";
  return std::string(place.getFilename()) + ":" + std::to_string(place.getLine()) + ":" +
         std::to_string(place.getColumn());
}

}  // namespace perdura::types
