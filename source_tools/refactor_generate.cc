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
  ClassWriter(const ModelClass& of, const Verdicts& verdicts, const Directives& directives,
              std::map<std::string, Edits>& edits, Refactored& result)
      : class_(of), verdicts_(verdicts), directives_(directives), edits_(edits), result_(result) {
    for (const auto& [key, method] : of.methods) in_order_.push_back(key);
    std::ranges::sort(in_order_, {}, [&](const std::string& key) { return at(key).at; });
  }

  /// Whether there is something to do, which then is done if nothing is refused.
  bool write() {
    choose_roles();
    if (std::ranges::none_of(
            plans_, [](const auto& each) { return each.second.role == Role::kPersistent; }))
      return false;
    choose_names();
    find_uses_of_root();
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
    Edits& edits = edits_[class_.at.file];
    if (class_.section && class_.functions_only) {
      edits.push_back({*class_.section, *class_.section, "\n" + contexts});
      edits.push_back({class_.close, class_.close, "\n" + functions});
    } else {
      edits.push_back({class_.close, class_.close,
                       (class_.section ? "\n" : "\n private:\n") + contexts + "\n" + functions});
    }
    return true;
  }

  const std::map<std::string, Plan>& plans() const { return plans_; }
  std::string wrapper_of(const std::string& key) const { return "simpo_" + at(key).name; }

 private:
  const ModelMethod& at(const std::string& key) const { return class_.methods.at(key); }

  const Classified* verdict_of(const ModelMethod& method) const {
    for (const Spot& each : {method.outer ? method.outer->at : method.at, method.at}) {
      const auto found = verdicts_.find(each.text());
      if (found != verdicts_.end()) return found->second;
    }
    return nullptr;
  }

  void choose_roles() {
    std::vector<std::string> to_see;
    for (const std::string& key : in_order_) {
      const ModelMethod& method = at(key);
      Plan& plan = plans_[key];
      const Classified* const found = verdict_of(method);
      const bool is_said = found != nullptr && found->method.said != Verdict::kNothing;
      if ((!method.is_public && !is_said) || method.name.starts_with("simpo")) continue;
      plan.role = Role::kPersistent;
      if (found != nullptr) plan.verdict = is_said ? found->method.said : found->judgement.verdict;
      if (plan.verdict != Verdict::kDeferrable) plan.verdict = Verdict::kInstant;
      to_see.push_back(key);
    }
    while (!to_see.empty()) {
      const ModelMethod& method = at(to_see.back());
      to_see.pop_back();
      if (!method.body) continue;
      for (const InnerCall& each : method.body->calls) {
        Plan& plan = plans_[each.callee];
        if (plan.role != Role::kStays || !class_.methods.contains(each.callee)) continue;
        plan.role = Role::kHelper;
        to_see.push_back(each.callee);
      }
    }
  }

  void choose_names() {
    std::set<std::string> taken = class_.names;
    std::map<std::string, std::vector<std::string>> helpers;  // by name and arguments
    for (const std::string& key : in_order_) {
      Plan& plan = plans_[key];
      const ModelMethod& method = at(key);
      plan.function = method.name;
      if (plan.role == Role::kPersistent) continue;
      taken.insert(method.name);
      if (plan.role != Role::kHelper) continue;
      std::string shape = method.name + "(";
      for (const Argument& each : method.arguments) shape += each.type + ",";
      auto& same = helpers[shape];
      if (!same.empty()) plan.function += method.is_const ? "_const" : "_changing";
      same.push_back(key);
    }
    for (const std::string& key : in_order_) {
      Plan& plan = plans_[key];
      if (plan.role != Role::kPersistent) continue;
      const ModelMethod& method = at(key);
      std::string name = method.name;
      if (taken.contains(name)) name += suffix_of(method);
      for (int i = 2; taken.contains(name); ++i) name = method.name + "_" + std::to_string(i);
      taken.insert(name);
      plan.function = name;
      plan.context = capitalised(name) + "Context";
      for (int i = 2; taken.contains(plan.context); ++i)
        plan.context = capitalised(name) + "Context" + std::to_string(i);
      taken.insert(plan.context);
    }
  }

  void find_uses_of_root() {
    for (auto& [key, plan] : plans_)
      plan.uses_root = class_.methods.contains(key) && at(key).body && at(key).body->uses_root;
    for (bool changes = true; changes;) {
      changes = false;
      for (auto& [key, plan] : plans_) {
        if (plan.uses_root || !class_.methods.contains(key) || !at(key).body) continue;
        for (const InnerCall& each : at(key).body->calls) {
          const Plan& callee = plans_[each.callee];
          if (callee.role != Role::kPersistent && !callee.uses_root) continue;
          plan.uses_root = changes = true;
        }
      }
    }
  }

  void refuse(const Spot& at, const std::string& text) {
    result_.refusals.push_back(at.text() + ": " + text);
  }
  void refuse(const std::vector<Refusal>& refusals, const std::string& before) {
    for (const Refusal& each : refusals) refuse(each.at, before + each.text);
  }

  void refuse() {
    for (const Refusal& each : class_.refusals) refuse(each.at, class_.name + ": " + each.text);
    for (const std::string& key : in_order_) {
      const ModelMethod& method = at(key);
      const Plan& plan = plans_[key];
      if (plan.role == Role::kStays) continue;
      const std::string of = method.signature + ": ";
      if (plan.role == Role::kPersistent) {
        refuse(method.refusals, of);
        for (const Argument& each : method.arguments)
          if (!each.refused.empty()) refuse(each.at, of + each.refused);
        refuse_what_throws(method, of);
      } else {
        refuse(method.static_refusals, of);
        if (method.is_virtual)
          refuse(method.at, of + "is virtual, and becomes a function of this class: make it one");
      }
      if (!method.body)
        refuse(method.at, of + "its body is in no source that was given: name that as well");
      else refuse(method.body->refusals, of);
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
    for (const auto& [key, plan] : plans_) {
      if (plan.role == Role::kStays || !class_.methods.contains(key)) continue;
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
      if (found == plans_.end() || found->second.role == Role::kStays ||
          !class_.methods.contains(each.callee))
        continue;
      const Plan& plan = found->second;
      const ModelMethod& callee = at(each.callee);
      if (plan.role == Role::kPersistent && !is_static) {
        edits.push_back({each.name, each.end, wrapper_of(each.callee)});
        continue;
      }
      const bool takes_root = plan.role == Role::kPersistent || plan.uses_root;
      edits.push_back({each.begin, each.end, plan.function});
      std::string opens = takes_root ? "poroot" : "";
      std::string closes;
      if (plan.role == Role::kPersistent) {
        opens += ", " + plan.context + "{";
        closes = "}";
        for (std::size_t i = each.arguments; i < callee.arguments.size(); ++i)
          closes = closes.insert(closes.size() - 1,
                                 (i == 0 ? "" : ", ") + callee.arguments[i].otherwise);
      } else if (takes_root && each.arguments > 0) {
        opens += ", ";
      }
      edits.push_back({each.open, each.open, opens});
      if (plan.role == Role::kPersistent) {
        for (const InnerCall::Cast& cast : each.casts) {
          edits.push_back({cast.begin, cast.begin,
                           "static_cast<" + callee.arguments[cast.parameter].type + ">("});
          edits.push_back({cast.end, cast.end, ")"});
        }
      }
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
        copying += fmt::format("\n{} {} = {}.{};", method.arguments[each].type,
                               arguments[each].name, context, field_of(method, each));
      if (!copying.empty()) edits.push_back({body.begin + 1, body.begin + 1, copying});
      for (const Body::Use& each : body.uses)
        if (!copies.contains(each.parameter))
          edits.push_back({each.begin, each.end, context + "." + field_of(method, each.parameter)});
    }
    edits.insert(edits.end(), body.edits.begin(), body.edits.end());
    rewrite_calls(body, edits, true);
    return edits;
  }

  /// What a member of the context is called.
  std::string field_of(const ModelMethod& method, std::size_t i) const {
    if (!method.arguments[i].name.empty()) return method.arguments[i].name;
    if (method.outer && !method.outer->arguments[i].name.empty())
      return method.outer->arguments[i].name;
    return "argument" + std::to_string(i + 1);
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
      functions += head + ";\n";
      Edits& edits = edits_[method.body->file];
      const OuterDefinition& outer = *method.outer;
      edits.push_back({outer.name_begin, outer.name_end, plan.function});
      edits.push_back({outer.open, outer.close, parameters_of(method, plan, context)});
      drop_const(method, edits);
      edits.insert(edits.end(), inner.begin(), inner.end());
    }
    result_.done.push_back({class_.name, method.signature, plan.function, plan.context,
                            "simpo_" + method.name, name_of(plan.verdict), method.at});
  }

  /// Behind the arguments of a definition that is not in the class.
  void drop_const(const ModelMethod& method, Edits& edits) {
    const OuterDefinition& outer = *method.outer;
    drop_words(text_of(method.body->file), outer.close + 1, outer.tail_end, edits);
  }
  static void drop_words(const std::string& text, unsigned begin, unsigned end, Edits& edits) {
    for (const std::string word : {"const", "override", "final"}) {
      const std::size_t found = text.substr(begin, end - begin).find(word);
      if (found == std::string::npos) continue;
      unsigned first = begin + static_cast<unsigned>(found);
      const unsigned last = first + static_cast<unsigned>(word.size());
      while (first > begin && std::isspace(static_cast<unsigned char>(text[first - 1]))) --first;
      edits.push_back({first, last, ""});
    }
  }

  /// Whether a call without a dhint may be one of another overload with one.
  bool has_overloads_of_other_counts(const ModelMethod& method) const {
    return std::ranges::any_of(class_.methods, [&](const auto& each) {
      return each.second.name == method.name && plans_.at(each.first).role == Role::kPersistent &&
             each.second.arguments.size() != method.arguments.size();
    });
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
                           " " + field_of(method, i)});
      parameters = edited(text_of(method.at.file), named, method.open, method.close);
      if (parameters.find("//") != std::string::npos) parameters += "\n";
    }
    if (hints)
      parameters += std::string(method.arguments.empty() ? "" : ", ") + "int " + hint + " = ALL";
    std::string call = plan.verdict == Verdict::kDeferrable ? "defer<&" : "inst<&";
    call += plan.function + ">(" + plan.context + "{";
    for (std::size_t i = 0; i < method.arguments.size(); ++i)
      call += (i == 0 ? "" : ", ") + field_of(method, i);
    call += hints ? "}, " + hint + ")" : "})";
    return method.attributes + method.before + method.result +
           (method.result.ends_with('*') ? "" : " ") + "simpo_" + method.name + "(" + parameters +
           ")" + method.after + " { " + (method.returns ? "return " : "") + call + "; }";
  }

  void write_helper(const ModelMethod& method, const Plan& plan) {
    Edits& edits = edits_[method.at.file];
    edits.push_back({method.begin, method.begin, "static "});
    put_root(method.open, method.arguments, plan, edits);
    if (plan.function != method.name)
      edits.push_back({method.at.offset,
                       method.at.offset + static_cast<unsigned>(method.name.size()),
                       plan.function});
    drop_words(text_of(method.at.file), method.close + 1, method.tail_end, edits);
    if (!method.body) return;  // refused
    Edits& there = edits_[method.body->file];
    if (method.outer) {
      put_root(method.outer->open, method.arguments, plan, there);
      if (plan.function != method.name)
        there.push_back({method.outer->name_begin, method.outer->name_end, plan.function});
      drop_const(method, there);
    }
    const Edits inner = inner_edits(method, plan, "");
    there.insert(there.end(), inner.begin(), inner.end());
  }

  static void put_root(unsigned open, const std::vector<Argument>& arguments, const Plan& plan,
                       Edits& edits) {
    if (plan.uses_root)
      edits.push_back({open, open, arguments.empty() ? "void* poroot" : "void* poroot, "});
  }

  const ModelClass& class_;
  const Verdicts& verdicts_;
  const Directives& directives_;
  std::map<std::string, Edits>& edits_;
  Refactored& result_;
  std::vector<std::string> in_order_;
  std::map<std::string, Plan> plans_;
};

void write_callers(const Model& model, const std::set<std::string>& persistent,
                   const std::map<std::string, std::string>& names, bool rewrites,
                   std::map<std::string, Edits>& edits, Refactored& result) {
  for (const Caller& each : model.callers) {
    if (!persistent.contains(each.callee)) continue;
    const std::string& name = names.at(each.callee);
    if (!each.in_class) result.callers.push_back(each);
    if (!rewrites && !each.in_class) continue;
    if (!each.refused.empty()) {
      result.refusals.push_back(each.at.text() + ": " + name + " " + each.refused);
      continue;
    }
    edits[each.at.file].push_back({each.begin, each.end, "simpo_" + name});
  }
}

void write_threads(const Model& model, std::map<std::string, Edits>& edits, Refactored& result) {
  for (const ThreadStart& each : model.threads) {
    Edits& there = edits[each.at.file];
    there.push_back({each.at.offset, each.name_end, "pthread_create_simpo"});
    there.push_back({each.close, each.close, ", 0"});
    ++result.threads;
    if (each.is_known) continue;
    const unsigned behind = behind_includes(text_of_file(each.at.file, result.wrong));
    const Edit include{behind, behind, "\n#include <perdura/compat/simpo.hpp>\n"};
    if (std::ranges::find(there, include) == there.end()) there.push_back(include);
  }
}

}  // namespace

std::map<std::string, Edits> edits_of(const Model& model, const Verdicts& verdicts,
                                      const Directives& directives, const RefactorOptions& options,
                                      Refactored& result) {
  std::map<std::string, Edits> edits;
  std::set<std::string> persistent;
  std::map<std::string, std::string> names;
  for (const auto& [key, each] : model.classes) {
    ClassWriter writer(each, verdicts, directives, edits, result);
    if (!writer.write()) continue;
    for (const auto& [method, plan] : writer.plans()) {
      if (plan.role != Role::kPersistent) continue;
      persistent.insert(method);
      names[method] = each.methods.at(method).name;
    }
  }
  write_callers(model, persistent, names, options.callers, edits, result);
  if (options.callers) write_threads(model, edits, result);
  std::ranges::sort(result.refusals);
  const auto same = std::ranges::unique(result.refusals);
  result.refusals.erase(same.begin(), same.end());
  return edits;
}

}  // namespace perdura::source
