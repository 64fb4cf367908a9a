// What a program's methods are to an object: which of the functions that its entries call, by the
// names that it keeps, and by those that the program says they had.
#include <algorithm>

#include "model/object/object_opening.hpp"
#include "object/function_name.hpp"
#include "object/object_build.hpp"

namespace perdura::detail {

using object::claim_of;
using object::function_text;

namespace {

Failure no_lasting_name(const std::string& what) {
  return {Code::kInvalidArgument,
          what +
              " is in an unnamed namespace, or has a lambda or an unnamed type in it, so that a "
              "later build could not tell which it is; give it a name"};
}

// Two methods that say so of one function, or one that says so of another's.
Status check_claims(const ObjectType& type) {
  const auto claimed_by = [&](const std::string& claim, const ObjectMethod& other) {
    if (claim == claim_of(other.name)) return true;
    return std::ranges::any_of(
        other.formerly, [&](const char* former) { return claim == claim_of(former, other.name); });
  };
  for (const ObjectMethod& method : type.methods)
    for (const char* const former : method.formerly)
      for (const ObjectMethod& other : type.methods)
        if (&other != &method && claimed_by(claim_of(former, method.name), other))
          return Failure{Code::kInvalidArgument,
                         "method '" + function_text(method.name) + "' was formerly '" +
                             function_text(former) + "', and so is or was method '" +
                             function_text(other.name) + "': say formerly() of one of them"};
  return {};
}

const ObjectMethod* named(const ObjectType& type, const std::string& name) {
  const auto found = std::ranges::find_if(
      type.methods, [&](const ObjectMethod& each) { return name == each.name; });
  return found == type.methods.end() ? nullptr : &*found;
}

// A text that two of the names have says nothing of either.
Result<const ObjectMethod*> formerly_named(const std::vector<std::string>& names,
                                           const ObjectType& type, const std::string& name) {
  const std::string claim = claim_of(name);
  for (const ObjectMethod& method : type.methods)
    for (const char* const former : method.formerly) {
      if (name == former) return &method;
      const bool is_mangled = function_text(former) != former;
      if (is_mangled || claim != claim_of(former, method.name)) continue;
      const auto means_another = [&](const std::string& each) {
        return each != name && named(type, each) == nullptr && claim_of(each) == claim;
      };
      const auto another = std::ranges::find_if(names, means_another);
      if (another == names.end()) return &method;
      return Failure{Code::kIncompatible, "method '" + function_text(method.name) +
                                              "' was formerly '" + former +
                                              "', and there are two such functions; say "
                                              "formerly(\"" +
                                              name + "\") or formerly(\"" + *another + "\")"};
    }
  return nullptr;
}

u16 number_of(const std::vector<std::string>& names, const char* name) {
  return static_cast<u16>(std::ranges::find(names, name) - names.begin());
}

object::Function function_of(const ObjectMethod& method) {
  object::Function function;
  function.context_bytes = method.context_bytes;
  function.result_bytes = method.result_bytes;
  function.run = method.run;
  function.join = method.join;
  function.accepts = method.accepts;
  function.commutes = method.commutes;
  function.reports = method.reports;
  function.own_thread = method.own_thread;
  function.answers_are_bytes = method.answers_are_bytes;
  return function;
}

bool has_name_of(std::string_view found, const ObjectType& type) {
  return found == type.name || std::ranges::any_of(type.formerly, [&](std::string_view former) {
           return found == former || object::type_text(found) == former;
         });
}

}  // namespace

// What has no lasting name is another one in another translation unit, or in the next build.
Status check_names(const ObjectType& type) {
  if (!object::has_lasting_name(type.name))
    return no_lasting_name("the type " + object::type_text(type.name));
  for (const ObjectMethod& method : type.methods)
    if (!object::has_lasting_name(method.name))
      return no_lasting_name("method " + function_text(method.name));
  return check_claims(type);
}

Status check_build(const format::ObjectBuild& build, const ObjectOptions& options) {
  if (!options.same_build || object::is_known(build)) return {};
  return Failure{Code::kUnsupported,
                 "same_build needs to know which build the program is, and it, or a library that "
                 "has methods of the object, has no build id; link them with -Wl,--build-id"};
}

// Layouts are known by their sizes.
bool is_of_type(const format::ObjectHead& found, const ObjectType& type) {
  return has_name_of(found.type, type) &&
         (type.is_flexible ? found.bytes >= type.bytes : found.bytes == type.bytes);
}

Failure other_type(const format::ObjectHead& found, const ObjectType& type,
                   const std::string& store) {
  const std::string name = object::type_text(found.type);
  const std::string now = object::type_text(type.name);
  const std::string remedy =
      has_name_of(found.type, type)
          ? "open it with the program that made it, and copy its state to an object of another name"
          : "open it as what it is, or remove it; where that type was renamed, say so by "
            "'static constexpr const char* kFormerly[] = {\"" +
                name + "\"};' in Methods<" + now + ">";
  return {Code::kTypeMismatch, "object '" + std::string(found.name) + "' of '" + store + "' is a " +
                                   name + " of " + std::to_string(found.bytes) + " bytes, not a " +
                                   now + " of " + std::to_string(type.bytes) +
                                   (type.is_flexible ? " or more: " : ": ") + remedy};
}

Result<std::vector<object::Function>> functions_of(const std::vector<std::string>& names,
                                                   const ObjectType& type) {
  const bool some_had_others = std::ranges::any_of(
      type.methods, [](const ObjectMethod& each) { return !each.formerly.empty(); });
  std::vector<object::Function> functions;
  for (const std::string& name : names) {
    const ObjectMethod* method = named(type, name);
    if (method == nullptr && some_had_others) {
      PERDURA_ASSIGN(method, formerly_named(names, type, name));
    }
    object::Function& function = functions.emplace_back();
    if (method != nullptr) {
      function = function_of(*method);
      function.present = number_of(names, method->name);
    }
    function.name = function_text(name);
  }
  return functions;
}

std::vector<u16> numbers_of(const std::vector<std::string>& names, const ObjectType& type) {
  std::vector<u16> numbers;
  for (const ObjectMethod& method : type.methods) numbers.push_back(number_of(names, method.name));
  return numbers;
}

}  // namespace perdura::detail
