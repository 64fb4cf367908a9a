// From what is known of classes to the edits that make their calls logged ones.
#include <algorithm>
#include <cctype>
#include <functional>

#include <fmt/format.h>

#include "refactor.hpp"

namespace perdura::source {
namespace {

/// What a method becomes.
enum class Role {
  kStays,       ///< nobody asks for it later: calls in it are rewritten
  kPersistent,  ///< a static function with a context, and what calls it
  kHelper,      ///< a static function, of poroot where it needs that
};

struct Plan {
  Role role = Role::kStays;
  Verdict verdict = Verdict::kInstant;
  bool uses_root = true;
  std::string function;  ///< its name
  std::string context;   ///< the struct's
};

/// Of all classes: a class that derives from another one may call its methods, and override them.
struct Plans {
  const Model& model;
  std::map<std::string, Plan> plans;  ///< by the key of a method
  std::map<std::string, const ModelMethod*> methods;
  std::map<std::string, const ModelClass*> owners;  ///< of methods
  std::set<const ModelClass*> serve_others;         ///< whose functions other classes call

  explicit Plans(const Model& of) : model(of) {
    for (const auto& [place, each] : of.classes)
      for (const auto& [key, method] : each.methods) {
        methods[key] = &method;
        owners[key] = &each;
      }
  }

  Role role_of(const std::string& key) const {
    const auto at = plans.find(key);
    return at == plans.end() ? Role::kStays : at->second.role;
  }

  /// What persistent methods call, also by others, becomes a function.
  void find_helpers() {
    std::vector<std::string> to_see;
    for (const auto& [key, plan] : plans)
      if (plan.role == Role::kPersistent) to_see.push_back(key);
    while (!to_see.empty()) {
      const std::string key = to_see.back();
      to_see.pop_back();
      if (!methods.at(key)->body) continue;
      for (const InnerCall& each : methods.at(key)->body->calls) {
        const auto at = plans.find(each.callee);
        if (at == plans.end() || methods.at(each.callee)->name.starts_with("simpo")) continue;
        if (owners.at(each.callee) != owners.at(key)) serve_others.insert(owners.at(each.callee));
        if (at->second.role != Role::kStays) continue;
        at->second.role = Role::kHelper;
        to_see.push_back(each.callee);
      }
    }
  }

  void find_uses_of_root() {
    for (auto& [key, plan] : plans)
      plan.uses_root = methods.at(key)->body && methods.at(key)->body->uses_root;
    for (bool changes = true; changes;) {
      changes = false;
      for (auto& [key, plan] : plans) {
        if (plan.uses_root || !methods.at(key)->body) continue;
        for (const InnerCall& each : methods.at(key)->body->calls) {
          const auto callee = plans.find(each.callee);
          if (callee == plans.end() ||
              (callee->second.role != Role::kPersistent && !callee->second.uses_root))
            continue;
          plan.uses_root = changes = true;
        }
      }
    }
  }

  bool takes_root(const std::string& key) const {
    const auto at = plans.find(key);
    return at != plans.end() && at->second.role != Role::kStays &&
           (at->second.role == Role::kPersistent || at->second.uses_root);
  }

  /// Whether any class that one derives from, or from which one derives, has it.
  template <class Has>
  bool any_related(const ModelClass& of, const Has& has) const {
    return std::ranges::any_of(model.classes, [&](const auto& each) {
      return are_related(each.second, of) && has(each.second);
    });
  }

  /// That one derives from the other, or both from one, perhaps by others.
  bool are_related(const ModelClass& a, const ModelClass& b) const {
    return &a == &b || roots_of(a) == roots_of(b);
  }

 private:
  /// The class at the end of its bases, of which each class here has one.
  const ModelClass* roots_of(const ModelClass& of) const {
    const ModelClass* root = &of;
    while (!root->bases.empty()) {
      const auto at = model.classes.find(root->bases.front());
      if (at == model.classes.end()) break;
      root = &at->second;
    }
    return root;
  }
};

/// "rowInc", "row_inc": "RowInc".
std::string capitalised(const std::string& name) {
  std::string result;
  bool upper = true;
  for (const char each : name) {
    if (each == '_') {
      upper = true;
      continue;
    }
    result += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(each))) : each;
    upper = false;
  }
  return result;
}

/// Of an overload: "_int_Row".
std::string suffix_of(const ModelMethod& method) {
  std::string suffix;
  for (const Argument& each : method.arguments) {
    suffix += '_';
    for (const char letter : each.type)
      if (std::isalnum(static_cast<unsigned char>(letter))) suffix += letter;
  }
  return suffix.empty() ? "_none" : suffix;
}

class ClassWriter {
 public:
  ClassWriter(const ModelClass& of, Plans& all, const Verdicts& verdicts,
              const Directives& directives, std::map<std::string, Edits>& edits, Refactored& result)
      : class_(of),
        all_(all),
        plans_(all.plans),
        verdicts_(verdicts),
        directives_(directives),
        edits_(edits),
        result_(result) {
    for (const auto& [key, method] : of.methods) in_order_.push_back(key);
    std::ranges::sort(in_order_, {}, [&](const std::string& key) { return at(key).at; });
  }

  /// All roles and names are chosen.
  void write() {
    refuse();
    remove_directives();
    std::string contexts;
    std::string functions;
    for (const std::string& key : in_order_) {
      const ModelMethod& method = at(key);
      Plan& plan = plans_[key];
      if (plan.role == Role::kPersistent) {
        write_persistent(method, plan, contexts, functions);
      } else if (plan.role == Role::kHelper) {
        write_helper(method, plan);
      } else if (method.body) {
        rewrite_calls(*method.body, edits_[method.body->file], false);
      }
    }
    for (const auto& [offset, body] : class_.others) rewrite_calls(body, edits_[body.file], false);
    if (contexts.empty()) return;
    Edits& edits = edits_[class_.at.file];
    if (all_.serve_others.contains(&class_)) {
      edits.push_back(
          {class_.close, class_.close, "\n protected:\n" + contexts + "\n" + functions});
    } else if (class_.section && class_.functions_only) {
      edits.push_back({*class_.section, *class_.section, "\n" + contexts});
      edits.push_back({class_.close, class_.close, "\n" + functions});
    } else {
      edits.push_back({class_.close, class_.close,
                       (class_.section ? "\n" : "\n private:\n") + contexts + "\n" + functions});
    }
  }

 private:
  const ModelMethod& at(const std::string& key) const { return *all_.methods.at(key); }
  std::string wrapper_of(const std::string& key) const { return "simpo_" + at(key).name; }

  const Classified* verdict_of(const ModelMethod& method) const {
    for (const Spot& each : {method.outer ? method.outer->at : method.at, method.at}) {
      const auto found = verdicts_.find(each.text());
      if (found != verdicts_.end()) return found->second;
    }
    return nullptr;
  }

 public:
  void choose_roles() {
    for (const std::string& key : in_order_) {
      const ModelMethod& method = at(key);
      Plan& plan = plans_[key];
      const Classified* const found = verdict_of(method);
      const bool is_said = found != nullptr && found->method.said != Verdict::kNothing;
      if ((!method.is_public && !is_said) || method.name.starts_with("simpo")) continue;
      plan.role = Role::kPersistent;
      if (found != nullptr) plan.verdict = is_said ? found->method.said : found->judgement.verdict;
      if (plan.verdict != Verdict::kDeferrable) plan.verdict = Verdict::kInstant;
    }
  }

  void choose_names() {
    std::set<std::string> taken = class_.names;
    std::set<std::string> elsewhere = class_.words;
    for (const std::string& key : in_order_)
      if (at(key).body) elsewhere.insert(at(key).body->words.begin(), at(key).body->words.end());
    for (const auto& [offset, body] : class_.others)
      elsewhere.insert(body.words.begin(), body.words.end());
    // Without a number, if that is free.
    const auto free = [&](const std::string& name, const std::string& counted) {
      const auto is_taken = [&](const std::string& each) {
        return taken.contains(each) || elsewhere.contains(each) ||
               all_.model.names.contains(each) || is_outside(each);
      };
      std::string found = name;
      for (int i = 2; is_taken(found); ++i) found = counted + std::to_string(i);
      return found;
    };
    std::map<std::string, std::vector<std::string>> helpers;  // by name and arguments
    for (const std::string& key : in_order_) {
      Plan& plan = plans_[key];
      const ModelMethod& method = at(key);
      plan.function = method.name;
      if (plan.role == Role::kPersistent) continue;
      taken.insert(method.name);
      if (plan.role != Role::kHelper) continue;
      std::string shape = method.name + "(";
      shape += shape_of(method);
      auto& same = helpers[shape];
      if (needs_own_name(key)) {
        plan.function = free(method.name + "_of_root", method.name + "_of_root_");
        taken.insert(plan.function);
      } else if (!same.empty()) {
        const std::string name = method.name + (method.is_const ? "_const" : "_changing");
        plan.function = free(name, name + "_");
        taken.insert(plan.function);
      }
      same.push_back(key);
    }
    for (const std::string& key : in_order_) {
      Plan& plan = plans_[key];
      if (plan.role != Role::kPersistent) continue;
      const ModelMethod& method = at(key);
      if (taken.contains(plan.function))
        plan.function = free(method.name + suffix_of(method), method.name + "_");
      taken.insert(plan.function);
      const std::string context = capitalised(plan.function) + "Context";
      plan.context = free(context, context);
      taken.insert(plan.context);
    }
  }

 private:
  static std::string shape_of(const ModelMethod& method) {
    std::string shape;
    for (const Argument& each : method.arguments) shape += each.type + ",";
    return shape;
  }

  /// Whether a call of the helper could be one of another function of its name, now that the root
  /// is its first argument, or that the object, const or not, is none any more.
  bool needs_own_name(const std::string& key) const {
    const ModelMethod& method = at(key);
    const bool uses_root = plans_.at(key).uses_root;
    if (uses_root && class_.names.contains(method.name)) return true;
    return std::ranges::any_of(in_order_, [&](const std::string& each) {
      const ModelMethod& other = at(each);
      return other.name == method.name && all_.role_of(each) != Role::kPersistent &&
             shape_of(other) != shape_of(method) &&
             (uses_root || other.is_const != method.is_const);
    });
  }

  /// In a base class that is not in the model, or around the class.
  bool is_outside(const std::string& name) const {
    return all_.any_related(
        class_, [&](const ModelClass& each) { return each.names_outside.contains(name); });
  }

  void refuse(const Spot& at, const std::string& text) {
    result_.refusals.push_back(at.text() + ": " + text);
  }
  void refuse(const std::vector<Refusal>& refusals, const std::string& before) {
    for (const Refusal& each : refusals) refuse(each.at, before + each.text);
  }

  void refuse() {
    if (std::ranges::any_of(
            in_order_, [&](const std::string& key) { return plans_[key].role != Role::kStays; }))
      for (const Refusal& each : class_.refusals) refuse(each.at, class_.name + ": " + each.text);
    for (const std::string& key : in_order_) {
      const ModelMethod& method = at(key);
      const Plan& plan = plans_[key];
      const std::string of = method.signature + ": ";
      for (const ModelMethod::Overridden& each : method.overrides)
        if ((plan.role == Role::kPersistent) != (all_.role_of(each.key) == Role::kPersistent))
          refuse(method.at, of + "overrides " + each.name +
                                (plan.role == Role::kPersistent
                                     ? ", which is not called later: make both public, of classes "
                                       "that derive from POBase"
                                     : ", which is called later: make it public as well"));
      if (plan.role == Role::kStays) {
        if (method.body) refuse_calls(*method.body, of);
        continue;
      }
      if (plan.role == Role::kPersistent) {
        refuse(method.refusals, of);
        if (std::ranges::any_of(method.twins, [&](const std::string& each) {
              return all_.role_of(each) == Role::kPersistent;
            }))
          refuse(method.at, of + "is there once more without const, and calls that are logged are "
                                 "of no const object: give one another name");
        if (has_other_wrapper(method))
          refuse(method.at, of + "would be simpo_" + method.name +
                                ", which something else is called as well: give it another name");
        for (const Argument& each : method.arguments)
          if (!each.refused.empty()) refuse(each.at, of + each.refused);
        refuse_what_throws(method, of);
      } else {
        refuse(method.static_refusals, of);
        if (method.is_virtual)
          refuse(method.at, of + "is virtual, and becomes a function of this class: make it one");
      }
      if (!method.body && method.is_written)
        refuse(method.at, of + "its body is in no source that was given: name that as well");
      if (!method.body) continue;
      refuse(method.body->refusals, of);
      if (plan.function != method.name) refuse(method.body->refusals_if_renamed, of);
      for (const InnerCall& each : method.body->calls)
        if (!each.refused.empty() && all_.role_of(each.callee) == Role::kPersistent)
          refuse(each.at, of + at(each.callee).name + " " + each.refused);
    }
    for (const auto& [offset, body] : class_.others) refuse_calls(body, class_.name + ": ");
  }

  /// Whether its wrapper would be beside something else of that name, or hide it.
  bool has_other_wrapper(const ModelMethod& method) const {
    const std::string name = "simpo_" + method.name;
    return all_.model.names.contains(name) || is_outside(name) ||
           all_.any_related(class_, [&](const ModelClass& each) {
             return each.names.contains(name) ||
                    std::ranges::any_of(
                        each.methods, [&](const auto& other) { return other.second.name == name; });
           });
  }

  /// Of a body that stays, calls that cannot become those of wrappers.
  void refuse_calls(const Body& body, const std::string& of) {
    for (const Body::Unresolved& each : body.unresolved)
      if (std::ranges::any_of(in_order_, [&](const std::string& key) {
            return at(key).name == each.name && plans_[key].role != Role::kStays;
          }))
        refuse(each.at, of + "which " + each.name +
                            " is called depends on the arguments of the template: give the "
                            "methods different names");
    // Wrappers may throw.
    for (const InnerCall& each : body.calls) {
      if (all_.role_of(each.callee) != Role::kPersistent) continue;
      if (each.asks_noexcept)
        refuse(each.at, of + at(each.callee).name +
                            " is asked for noexcept here, which a call that is logged is not: "
                            "leave the question out");
      if (each.of_const)
        refuse(each.at, of + at(each.callee).name +
                            " is called of a const object, and calls that are logged change it: "
                            "leave out const in this method");
    }
  }

  void refuse_what_throws(const ModelMethod& method, const std::string& of) {
    const Classified* const found = verdict_of(method);
    if (found == nullptr) return;
    for (const Reason& each : found->judgement.reasons) {
      if (each.kind != Kind::kThrows) continue;
      Spot at = method.at;
      if (each.at.file != kNone) {
        at.file = result_.files[each.at.file];
        at.line = each.at.line;
        at.column = each.at.column;
      }
      refuse(at, of + sentence(each) + ", and nobody would catch that: " + remedy(each.kind));
    }
  }

  /// Those around methods that are done.
  void remove_directives() {
    for (const std::string& key : in_order_) {
      if (plans_[key].role == Role::kStays) continue;
      const ModelMethod& method = at(key);
      remove_directives(method.at);
      if (method.outer) remove_directives(method.outer->at);
    }
  }
  void remove_directives(const Spot& spot) {
    const Region region = directives_.of(spot.file, spot.line);
    if (region.verdict == Verdict::kNothing) return;
    const std::string& text = text_of(spot.file);
    unsigned line = 1;
    for (std::size_t begin = 0; begin < text.size(); ++line) {
      std::size_t end = text.find('\n', begin);
      end = end == std::string::npos ? text.size() : end + 1;
      const Edit edit{static_cast<unsigned>(begin), static_cast<unsigned>(end), ""};
      Edits& edits = edits_[spot.file];
      if ((line == region.first || line == region.last) &&
          std::ranges::find(edits, edit) == edits.end())
        edits.push_back(edit);
      begin = end;
    }
  }

  const std::string& text_of(const std::string& file) {
    const auto [at, is_new] = result_.before.try_emplace(file);
    if (is_new) at->second = text_of_file(file, result_.wrong);
    return at->second;
  }

  /// Of a static function's first argument: what it is called in there.
  std::string context_name(const Body& body) const {
    for (const char* each : {"context", "call", "context_of_call", "logged_context"})
      if (!body.words.contains(each)) return each;
    return "context_that_is_logged";
  }

  /// Which arguments are changed in the body, and so are copied.
  static std::set<std::size_t> copied(const Body& body) {
    std::set<std::size_t> result;
    for (const Body::Use& each : body.uses)
      if (each.changes) result.insert(each.parameter);
    return result;
  }

  /// Calls on the object itself: of functions where that is `is_static`, else of the object's.
  void rewrite_calls(const Body& body, Edits& edits, bool is_static) {
    for (const InnerCall& each : body.calls) {
      const auto found = plans_.find(each.callee);
      if (found == plans_.end() || found->second.role == Role::kStays) continue;
      const Plan& plan = found->second;
      const ModelMethod& callee = at(each.callee);
      if (plan.role == Role::kPersistent && !is_static) {
        edits.push_back({each.name, each.end, wrapper_of(each.callee)});
        continue;
      }
      const bool takes_root = all_.takes_root(each.callee);
      const ModelClass& owner = *all_.owners.at(each.callee);
      const std::string of = owner.name.substr(owner.name.rfind(':') + 1) + "::";
      const bool is_inherited = &owner != &class_;
      const bool is_hidden = body.locals.contains(plan.function);
      edits.push_back({each.begin, each.end,
                       each.comments + (is_inherited || is_hidden ? of : "") + plan.function});
      std::string opens = takes_root ? "poroot" : "";
      std::string closes;
      if (plan.role == Role::kPersistent) {
        // Parentheses convert as the call did, and as braces and a cast would not.
        opens += ", " + (is_inherited ? of : "") + plan.context + (each.converts ? "(" : "{");
        closes = each.converts ? ")" : "}";
        for (std::size_t i = each.arguments; i < callee.arguments.size(); ++i)
          closes = closes.insert(closes.size() - 1,
                                 (i == 0 ? "" : ", ") + callee.arguments[i].otherwise);
      } else if (takes_root && each.arguments > 0) {
        opens += ", ";
      }
      edits.push_back({each.open, each.open, opens});
      edits.push_back({each.close, each.close, closes});
    }
  }

  /// The edits within the braces of what becomes a static function.
  Edits inner_edits(const ModelMethod& method, const Plan& plan, const std::string& context) {
    const Body& body = *method.body;
    Edits edits;
    if (plan.role == Role::kPersistent) {
      const std::set<std::size_t> copies = copied(body);
      const auto& arguments = method.outer ? method.outer->arguments : method.arguments;
      std::string copying;
      for (const std::size_t each : copies)
        copying += fmt::format("\n{}{} {} = {}.{};", arguments[each].is_const ? "const " : "",
                               method.arguments[each].type, arguments[each].name, context,
                               field_of(method, each));
      if (!copying.empty()) edits.push_back({body.begin + 1, body.begin + 1, copying});
      for (const Body::Use& each : body.uses)
        if (!copies.contains(each.parameter))
          edits.push_back({each.begin, each.end, context + "." + field_of(method, each.parameter)});
    }
    edits.insert(edits.end(), body.edits.begin(), body.edits.end());
    for (const Body::Capture& each : body.captures)
      edits.push_back(needs_root(body, each) ? Edit{each.begin, each.end, "poroot"}
                                             : Edit{each.without_begin, each.without_end, ""});
    rewrite_calls(body, edits, true);
    return edits;
  }

  bool needs_root(const Body& body, const Body::Capture& lambda) const {
    const auto is_inside = [&](unsigned at) {
      return lambda.lambda_begin < at && at < lambda.lambda_end;
    };
    return std::ranges::any_of(body.roots, is_inside) ||
           std::ranges::any_of(body.calls, [&](const InnerCall& each) {
             return is_inside(each.begin) && each.is_evaluated && all_.takes_root(each.callee);
           });
  }

  /// What an argument of the wrapper is called.
  std::string argument_of(const ModelMethod& method, std::size_t i) const {
    if (!method.arguments[i].name.empty()) return method.arguments[i].name;
    const auto is_anothers = [&](const std::string& name) {
      return std::ranges::any_of(method.arguments,
                                 [&](const Argument& each) { return each.name == name; });
    };
    if (method.outer) {
      const std::string& there = method.outer->arguments[i].name;
      if (!there.empty() && !is_anothers(there)) return there;
    }
    std::string name = "argument" + std::to_string(i + 1);
    while (is_anothers(name)) name += '_';
    return name;
  }

  /// What a member of the context is called: in a struct no name may mean a type and a member.
  std::string field_of(const ModelMethod& method, std::size_t i) const {
    std::string name = argument_of(method, i);
    const auto is_in_a_type = [&] {
      return std::ranges::any_of(method.arguments,
                                 [&](const Argument& each) { return has_word(each.type, name); });
    };
    const auto is_anothers = [&] {
      for (std::size_t other = 0; other < method.arguments.size(); ++other)
        if (other != i && argument_of(method, other) == name) return true;
      return false;
    };
    while (is_in_a_type() || is_anothers()) name += '_';
    return name;
  }
  static bool has_word(const std::string& text, const std::string& word) {
    const auto is_letter = [&](std::size_t i) {
      return i < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
    };
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
      if (!is_letter(at + word.size()) && (at == 0 || !is_letter(at - 1))) return true;
    return false;
  }

  /// "void* poroot, const RowIncContext& context".
  std::string parameters_of(const ModelMethod& method, const Plan& plan,
                            const std::string& context) const {
    return (plan.uses_root ? "void* poroot, const " : "void*, const ") + plan.context + "&" +
           (method.body && method.body->uses.empty() ? "" : " " + context);
  }

  void write_persistent(const ModelMethod& method, const Plan& plan, std::string& contexts,
                        std::string& functions) {
    contexts += "struct " + plan.context + " {";
    for (std::size_t i = 0; i < method.arguments.size(); ++i)
      contexts += "\n" + method.arguments[i].type + " " + field_of(method, i) + ";";
    contexts += method.arguments.empty() ? "};\n" : "\n};\n";
    edits_[method.at.file].push_back({method.begin, method.end, wrapper(method, plan)});
    const std::string context = method.body ? context_name(*method.body) : "context";
    const std::string head = "static " + method.result + (method.result.ends_with('*') ? "" : " ") +
                             plan.function + "(" + parameters_of(method, plan, context) + ")" +
                             method.noexcept_text;
    if (!method.body) return;  // refused
    const Edits inner = inner_edits(method, plan, context);
    if (!method.outer) {
      functions += method.comments + head + " " +
                   edited(text_of(method.body->file), inner, method.body->begin, method.body->end) +
                   "\n";
    } else {
      functions += method.comments + head + ";\n";
      Edits& edits = edits_[method.body->file];
      const OuterDefinition& outer = *method.outer;
      edits.push_back({outer.name_begin, outer.name_end, plan.function});
      edits.push_back(
          {outer.open, outer.close, outer.comments + parameters_of(method, plan, context)});
      edits.insert(edits.end(), outer.dropped.begin(), outer.dropped.end());
      edits.insert(edits.end(), inner.begin(), inner.end());
    }
    result_.done.push_back({class_.name, method.signature, plan.function, plan.context,
                            "simpo_" + method.name, name_of(plan.verdict), method.at});
  }

  /// Whether a call without a dhint may be one of another overload with one, or a method that
  /// overrides none would override one.
  bool has_overloads_of_other_counts(const ModelMethod& method) const {
    return std::ranges::any_of(all_.methods, [&](const auto& each) {
      return each.second->name == method.name && all_.role_of(each.first) == Role::kPersistent &&
             each.second->arguments.size() != method.arguments.size() &&
             all_.are_related(*all_.owners.at(each.first), class_);
    });
  }

  /// Something else has the name of the library's hint.
  bool is_all_hidden() const {
    return all_.model.names.contains("ALL") || is_outside("ALL") ||
           all_.any_related(class_,
                            [](const ModelClass& each) { return each.words.contains("ALL"); });
  }

  std::string wrapper(const ModelMethod& method, const Plan& plan) {
    const bool hints = !has_overloads_of_other_counts(method);
    std::string hint = "dhint";
    const auto is_taken = [&](const std::string& name) {
      return std::ranges::any_of(method.arguments,
                                 [&](const Argument& each) { return each.name == name; });
    };
    while (is_taken(hint)) hint += '_';
    std::string parameters;
    if (!method.arguments.empty()) {
      Edits named;
      for (std::size_t i = 0; i < method.arguments.size(); ++i)
        if (method.arguments[i].name.empty())
          named.push_back({method.arguments[i].name_at, method.arguments[i].name_at,
                           " " + argument_of(method, i)});
      parameters = edited(text_of(method.at.file), named, method.open, method.close);
      if (parameters.find("//") != std::string::npos) parameters += "\n";
    }
    if (hints)
      parameters += std::string(method.arguments.empty() ? "" : ", ") + "int " + hint + " = " +
                    (is_all_hidden() ? "::ALL" : "ALL");
    std::string call = plan.verdict == Verdict::kDeferrable ? "defer<&" : "inst<&";
    call += plan.function + ">(" + plan.context + "{";
    for (std::size_t i = 0; i < method.arguments.size(); ++i)
      call += (i == 0 ? "" : ", ") + argument_of(method, i);
    call += hints ? "}, " + hint + ")" : "})";
    return method.attributes + method.before + method.result +
           (method.result.ends_with('*') ? "" : " ") + "simpo_" + method.name + "(" + parameters +
           ")" + method.after + " { " + (method.returns ? "return " : "") + call + "; }";
  }

  void write_helper(const ModelMethod& method, const Plan& plan) {
    Edits& edits = edits_[method.at.file];
    edits.push_back({method.specifiers, method.specifiers, "static "});
    put_root(method, plan, edits);
    if (plan.function != method.name)
      edits.push_back({method.at.offset,
                       method.at.offset + static_cast<unsigned>(method.name.size()),
                       plan.function});
    edits.insert(edits.end(), method.dropped.begin(), method.dropped.end());
    if (!method.body) return;  // refused
    Edits& there = edits_[method.body->file];
    if (method.outer) {
      put_root(*method.outer, plan, there);
      if (plan.function != method.name)
        there.push_back({method.outer->name_begin, method.outer->name_end, plan.function});
      there.insert(there.end(), method.outer->dropped.begin(), method.outer->dropped.end());
    }
    const Edits inner = inner_edits(method, plan, "");
    there.insert(there.end(), inner.begin(), inner.end());
  }

  /// Of a method, or of its definition out of the class.
  static void put_root(const auto& function, const Plan& plan, Edits& edits) {
    if (!plan.uses_root) return;
    if (function.nothing) edits.push_back(*function.nothing);
    edits.push_back({function.open, function.open,
                     function.arguments.empty() ? "void* poroot" : "void* poroot, "});
  }

  const ModelClass& class_;
  Plans& all_;
  std::map<std::string, Plan>& plans_;  ///< of all
  const Verdicts& verdicts_;
  const Directives& directives_;
  std::map<std::string, Edits>& edits_;
  Refactored& result_;
  std::vector<std::string> in_order_;
};

void refuse_elsewhere(const Model& model, const Plans& all, Refactored& result) {
  for (const auto& [key, each] : model.refusals) {
    const auto found = model.classes.find(key);
    const bool is_done = key.empty() || all.role_of(key) != Role::kStays ||
                         (found != model.classes.end() &&
                          std::ranges::any_of(found->second.methods, [&](const auto& method) {
                            return all.role_of(method.first) != Role::kStays;
                          }));
    if (is_done) result.refusals.push_back(each.at.text() + ": " + each.text);
  }
}

void write_callers(const Model& model, const Plans& all, bool rewrites,
                   std::map<std::string, Edits>& edits, Refactored& result) {
  std::set<std::pair<std::string, unsigned>> others = model.others;
  for (const Caller& each : model.callers)
    if (!each.in_class && all.role_of(each.callee) == Role::kStays)
      others.insert({each.at.file, each.at.offset});
  for (const Caller& each : model.callers) {
    const Role role = all.role_of(each.callee);
    if (role == Role::kStays) continue;
    const std::string& name = all.methods.at(each.callee)->name;
    if (all.role_of(each.within) != Role::kStays) {
      result.refusals.push_back(each.at.text() + ": " + each.signature + ": calls " + name +
                                kNoOtherObject);
      continue;
    }
    if (role == Role::kHelper) {
      result.refusals.push_back(each.at.text() + ": " + name +
                                " is called here of an object, and persistent functions need it "
                                "as a function of poroot: write a method for this call");
      continue;
    }
    if (!each.in_class) result.callers.push_back(each);
    if (!rewrites && !each.in_class) continue;
    if (others.contains({each.at.file, each.at.offset})) {
      result.refusals.push_back(each.at.text() + ": " + name +
                                " is called here in a template, of objects of other classes as "
                                "well: write a function for these");
      continue;
    }
    if (!each.refused.empty()) {
      result.refusals.push_back(each.at.text() + ": " + name + " " + each.refused);
      continue;
    }
    edits[each.at.file].push_back({each.begin, each.end, "simpo_" + name});
  }
  if (!rewrites) return;
  std::set<std::string> names;
  for (const auto& [key, plan] : all.plans)
    if (plan.role == Role::kPersistent) names.insert(all.methods.at(key)->name);
  for (const Mention& each : model.mentions)
    if (names.contains(each.name))
      result.refusals.push_back(
          each.at.text() + ": " + each.name +
          " is asked for here of classes that nobody knows, and would not be found: ask for what "
          "they have by another name, or rewrite the calls by hand, without --callers");
}

void write_threads(const Model& model, const Plans& all, std::map<std::string, Edits>& edits,
                   Refactored& result) {
  for (const ThreadStart& each : model.threads) {
    if (all.role_of(each.within) != Role::kStays) continue;
    if (each.in_a_macro) {
      result.refusals.push_back(each.at.text() +
                                ": pthread_create has to be changed, and is in a macro: write out "
                                "what the macro stands for");
      continue;
    }
    Edits& there = edits[each.at.file];
    there.push_back({each.at.offset, each.name_end, "pthread_create_simpo"});
    there.push_back({each.close, each.close, ", 0"});
    ++result.threads;
    if (each.is_known) continue;
    const unsigned behind =
        behind_includes(text_of_file(each.at.file, result.wrong), each.at.offset);
    const Edit include{behind, behind, "\n#include <perdura/compat/simpo.hpp>\n"};
    if (std::ranges::find(there, include) == there.end()) there.push_back(include);
  }
}

}  // namespace

std::map<std::string, Edits> edits_of(const Model& model, const Verdicts& verdicts,
                                      const Directives& directives, const RefactorOptions& options,
                                      Refactored& result) {
  std::map<std::string, Edits> edits;
  Plans all(model);
  std::vector<ClassWriter> writers;
  for (const auto& [key, each] : model.classes)
    writers.emplace_back(each, all, verdicts, directives, edits, result);
  for (ClassWriter& each : writers) each.choose_roles();
  all.find_helpers();
  all.find_uses_of_root();
  for (ClassWriter& each : writers) each.choose_names();
  refuse_elsewhere(model, all, result);
  for (ClassWriter& each : writers) each.write();
  write_callers(model, all, options.callers, edits, result);
  if (options.callers) write_threads(model, all, edits, result);
  std::ranges::sort(result.refusals);
  const auto same = std::ranges::unique(result.refusals);
  result.refusals.erase(same.begin(), same.end());
  return edits;
}

}  // namespace perdura::source
