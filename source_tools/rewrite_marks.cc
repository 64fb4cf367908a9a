#include "rewrite_marks.hpp"

#include <clang/AST/Attr.h>
#include <clang/AST/RecursiveASTVisitor.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "refactor_places.hpp"

namespace perdura::source {
namespace {

using namespace clang;

class SiteFinder : public RecursiveASTVisitor<SiteFinder> {
 public:
  explicit SiteFinder(ASTContext& context) : places_(context) {}

  bool TraverseDecl(Decl* decl) {
    if (decl != nullptr && !isa<TranslationUnitDecl>(decl) && !isa<NamespaceDecl>(decl) &&
        places_.is_system(decl->getLocation()))
      return true;
    return RecursiveASTVisitor::TraverseDecl(decl);
  }

  bool VisitCXXMethodDecl(CXXMethodDecl* method) {
    if (method->isImplicit() || method->isStatic() || method->isTemplateInstantiation() ||
        isa<CXXConstructorDecl, CXXDestructorDecl>(method) || method->getParent()->isLambda())
      return true;
    const auto* const declared = cast<CXXMethodDecl>(method->getCanonicalDecl());
    const auto site = site_of(declared);
    if (!site) return true;
    MarkedMethod& found = sites.try_emplace(site->at.text(), MarkedMethod{*site, {}}).first->second;
    if (!method->doesThisDeclarationHaveABody()) return true;
    if (const auto defined = site_of(method)) found.defined = *defined;
    return true;
  }

  MarkSites sites;

 private:
  std::optional<MarkSite> site_of(const CXXMethodDecl* method) const {
    const auto begin = places_.range(method->getBeginLoc());
    const auto whole = places_.range(method->getSourceRange());
    if (!begin || !whole) return std::nullopt;
    MarkSite site{places_.spot(method->getLocation()), begin->first, whole->second, ""};
    const Decl* const owner = Decl::castFromDeclContext(method->getLexicalDeclContext());
    const Spot at = places_.spot(owner->getLocation());
    site.owner = at.text();
    if (method->doesThisDeclarationHaveABody()) return site;
    for (const Token& each :
         places_.tokens(method->getLocation(), site.end,
                        static_cast<unsigned>(places_.text(method->getLocation()).size()))) {
      if (each.text != ";") continue;
      site.end = each.end;
      break;
    }
    return site;
  }

  Places places_;
};

struct Mark {
  MarkSite site;
  Verdict verdict;
  auto operator<=>(const Mark&) const = default;
};

/// The file has nothing but spaces and whole comments from `begin` to `end`.
bool is_empty_between(const std::string& text, unsigned begin, unsigned end) {
  for (unsigned i = begin; i < end; ++i) {
    if (text.compare(i, 2, "//") == 0) {
      // A backslash before its end takes the next line into it.
      const auto goes_on = [&] {
        const unsigned last = text[i - 1] == '\r' ? i - 2 : i - 1;
        return text[last] == '\\';
      };
      while (i < end && (text[i] != '\n' || goes_on())) ++i;
      if (i == end && goes_on()) return false;
    } else if (text.compare(i, 2, "/*") == 0) {
      const std::size_t close = text.find("*/", i + 2);
      if (close == std::string::npos || close + 2 > end) return false;
      i = static_cast<unsigned>(close) + 1;
    } else if (!std::isspace(static_cast<unsigned char>(text[i]))) {
      return false;
    }
  }
  return true;
}

Edits attributes(const std::vector<Mark>& marks) {
  Edits edits;
  for (const Mark& each : marks)
    edits.push_back({each.site.begin, each.site.begin,
                     each.verdict == Verdict::kDeferrable ? "[[perdura::deferrable]] "
                                                          : "[[perdura::instant]] "});
  return edits;
}

/// Around methods of one verdict that follow each other. `marks` are in the order of the file.
Edits directives_around(const std::string& text, const std::vector<Mark>& marks) {
  Edits edits;
  for (std::size_t i = 0; i < marks.size();) {
    std::size_t last = i;
    while (last + 1 < marks.size() && marks[last + 1].verdict == marks[i].verdict &&
           marks[last + 1].site.owner == marks[i].site.owner &&
           is_empty_between(text, marks[last].site.end, marks[last + 1].site.begin))
      ++last;
    unsigned begin = marks[i].site.begin;
    while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\t')) --begin;
    const bool begins_line = begin == 0 || text[begin - 1] == '\n';
    const std::string word = marks[i].verdict == Verdict::kDeferrable ? "defer" : "inst";
    edits.push_back({begin, begin, (begins_line ? "#begin " : "\n#begin ") + word + "\n"});
    unsigned end = marks[last].site.end;
    std::size_t line_end = text.find('\n', end);
    if (line_end == std::string::npos) line_end = text.size();
    if (line_end > end && text[line_end - 1] == '\r') --line_end;
    if (is_empty_between(text, end, static_cast<unsigned>(line_end)))
      edits.push_back({static_cast<unsigned>(line_end), static_cast<unsigned>(line_end), "\n#end"});
    else edits.push_back({end, end, "\n#end\n"});
    i = last + 1;
  }
  return edits;
}

}  // namespace

MarkSites mark_sites(ASTContext& context) {
  SiteFinder finder(context);
  finder.TraverseDecl(context.getTranslationUnitDecl());
  return std::move(finder.sites);
}

Changes marked(const Sources& sources, const Judged& methods, bool directives) {
  Changes changes;
  MarkSites sites;
  Directives taken;
  std::mutex mutex;
  const auto add_sites = [&](ASTContext& context, std::size_t) {
    MarkSites unit = mark_sites(context);
    const std::lock_guard lock(mutex);
    for (auto& [key, each] : unit) {
      MarkedMethod& known = sites.try_emplace(key, each).first->second;
      if (known.defined.end == 0) known.defined = each.defined;
    }
  };
  const Classification found = classify(sources, methods, taken, add_sites);
  changes.wrong = found.wrong;
  changes.objections = found.objections;
  if (!changes.wrong.empty() || !changes.objections.empty()) return changes;
  const std::map<std::string, const Classified*> judged = by_place(found);
  std::map<std::string, std::vector<Mark>> marks;
  std::set<std::pair<std::string, unsigned>> begins;
  for (const auto& [key, site] : sites) {
    const bool is_defined = site.defined.end != 0;
    auto at = judged.find(is_defined ? site.defined.at.text() : key);
    if (at == judged.end()) at = judged.find(key);
    if (at == judged.end()) continue;
    const Classified& method = *at->second;
    Verdict verdict = method.judgement.verdict;
    if (method.method.said != Verdict::kNothing) continue;
    if (verdict == Verdict::kRead && method.method.of_memory) verdict = Verdict::kInstant;
    if (verdict != Verdict::kDeferrable && verdict != Verdict::kInstant) continue;
    const MarkSite& where = directives && is_defined ? site.defined : site.declared;
    if (!begins.emplace(where.at.file, where.begin).second)
      changes.wrong.push_back(where.at.text() +
                              ": another method is declared in the same declaration, and a mark "
                              "would be of both: write a declaration for each");
    marks[where.at.file].push_back({where, verdict});
  }
  for (auto& [file, each] : marks) {
    std::ranges::sort(each);
    const std::string text = text_of_file(file, changes.wrong);
    changes.before[file] = text;
    changes.after[file] = edited_and_formatted(
        file, text, directives ? directives_around(text, each) : attributes(each), !directives,
        changes.wrong);
  }
  return changes;
}

}  // namespace perdura::source
