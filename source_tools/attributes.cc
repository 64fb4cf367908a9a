// [[perdura::deferrable]] and [[perdura::instant]], as annotations in the syntax tree.
#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/Sema/ParsedAttr.h>
#include <clang/Sema/Sema.h>

namespace perdura::source {
namespace {

using namespace clang;

class Attribute : public ParsedAttrInfo {
 public:
  explicit Attribute(const Spelling* spelling, const char* name) : name_(name) {
    Spellings = ArrayRef(spelling, 1);
  }
  bool diagAppertainsToDecl(Sema& sema, const ParsedAttr& attribute,
                            const Decl* decl) const override {
    if (isa<FunctionDecl>(decl)) return true;
    sema.Diag(attribute.getLoc(), diag::warn_attribute_wrong_decl_type_str)
        << attribute << attribute.isRegularKeywordAttribute() << "methods";
    return false;
  }
  AttrHandling handleDeclAttribute(Sema& sema, Decl* decl,
                                   const ParsedAttr& attribute) const override {
    decl->addAttr(AnnotateAttr::Create(sema.Context, name_, nullptr, 0, attribute.getRange()));
    return AttributeApplied;
  }

 private:
  const char* name_;
};

constexpr ParsedAttrInfo::Spelling kDeferrable = {ParsedAttr::AS_CXX11, "perdura::deferrable"};
constexpr ParsedAttrInfo::Spelling kInstant = {ParsedAttr::AS_CXX11, "perdura::instant"};

struct Deferrable : Attribute {
  Deferrable() : Attribute(&kDeferrable, "perdura::deferrable") {}
};
struct Instant : Attribute {
  Instant() : Attribute(&kInstant, "perdura::instant") {}
};

[[maybe_unused]] const ParsedAttrInfoRegistry::Add<Deferrable> deferrable("perdura_deferrable", "");
[[maybe_unused]] const ParsedAttrInfoRegistry::Add<Instant> instant("perdura_instant", "");

}  // namespace
}  // namespace perdura::source
