// classify --write: what was found is written at the methods, as attributes or as directives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "classify.hpp"
#include "rewrite.hpp"

namespace perdura::source {

/// A method as it is in its class, or where it is defined.
struct MarkSite {
  Spot at;             ///< of its name
  unsigned begin = 0;  ///< where an attribute may stand
  unsigned end = 0;    ///< behind it
  std::string owner;   ///< the place of its class, or of its namespace
  auto operator<=>(const MarkSite&) const = default;
};

struct MarkedMethod {
  MarkSite declared;
  MarkSite defined;  ///< the same where it is defined in its class
};

/// Of all methods of classes outside of system headers, by the place of their names.
using MarkSites = std::map<std::string, MarkedMethod>;
MarkSites mark_sites(clang::ASTContext& context);

struct Changes {
  std::vector<std::string> wrong;
  std::vector<std::string> objections;  ///< as in Classification; then nothing changes
  std::map<std::string, std::string> before;
  std::map<std::string, std::string> after;
};

/// Methods of which something is said already are left as they are.
Changes marked(const Sources& sources, const Judged& methods, bool directives);

}  // namespace perdura::source
