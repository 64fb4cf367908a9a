// perdura classify: which methods may be deferred.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "extract.hpp"
#include "parse.hpp"
#include "solve.hpp"

namespace perdura::source {

struct Classified {
  Method method;
  Judgement judgement;
};

struct Classification {
  Program program;
  std::vector<Classified> methods;      ///< by class, as they are in its source
  std::vector<std::string> wrong;       ///< sentences; then there are no methods
  std::vector<std::string> objections;  ///< where a directive says more than may be
};

/// `also` sees each unit as well, perhaps in several threads. The directives of all are in
/// `directives` then.
Classification classify(const Sources& sources, const Judged& judged, Directives& directives,
                        const Look& also);
Classification classify(const Sources& sources, const Judged& judged);

/// By the places of the methods, as text_of() says these. Of a template's instances whichever is
/// instant decides.
std::map<std::string, const Classified*> by_place(const Classification& found);

const char* name_of(Verdict verdict);
/// A sentence without its end: "touches the global variable counter".
std::string sentence(const Reason& reason);
/// What to do about it.
std::string remedy(Kind kind);
/// "FILE:LINE:COLUMN".
std::string text_of(const Program& program, Place place);

// What is printed.
std::string as_text(const Classification& found, bool all_lines);
std::string as_json(const Classification& found);
std::string as_sarif(const Classification& found);
std::string as_html(const Classification& found);

}  // namespace perdura::source
