#include "object/function_name.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <optional>

namespace perdura::object {
namespace {

std::optional<std::string> demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  if (text == nullptr || status != 0) return std::nullopt;
  return std::string(text.get());
}

std::string replaced(std::string_view name, std::string_view what, std::string_view with) {
  std::string changed(name);
  if (const size_t at = changed.find(what); at != std::string::npos)
    changed.replace(at, what.size(), with);
  return changed;
}

// Of a member function whose address is taken the demangler leaves out the arguments; of the
// function itself it does not. Some compilers say besides that the argument's type is deduced.
std::optional<std::string> demangled_tag(std::string_view name) {
  const std::string without_type = replaced(name, "TnDaXadL_Z", "XadL_Z");
  return demangled(replaced(without_type, "XadL_Z", "XL_Z"));
}

// The first argument of a list, which others may follow.
size_t end_of_argument(std::string_view list) {
  int depth = 0;
  for (size_t at = 0; at < list.size(); ++at) {
    const char letter = list[at];
    if (letter == '(' || letter == '<' || letter == '{' || letter == '[') ++depth;
    if (letter == ')' || letter == '>' || letter == '}' || letter == ']') --depth;
    if (letter == ',' && depth == 0) return at;
  }
  return list.size();
}

struct Parts {
  std::string kind;  ///< functions of one text may be of several
  std::string text;
};

std::optional<Parts> parts_of(std::string_view name) {
  const std::optional<std::string> whole = demangled_tag(name);
  if (!whole || !whole->ends_with('>')) return std::nullopt;
  for (const std::string_view tag : {"perdura::detail::MethodTag<", "perdura::detail::SimpoTag<"}) {
    if (!whole->starts_with(tag)) continue;
    const std::string_view list = std::string_view(*whole).substr(tag.size());
    const bool is_instant = tag.ends_with("SimpoTag<") && list.ends_with(", true>");
    const size_t end = tag.ends_with("MethodTag<") ? list.size() - 1 : end_of_argument(list);
    return Parts{std::string(tag) + (is_instant ? "instant " : ""),
                 std::string(list.substr(0, end))};
  }
  return std::nullopt;
}

}  // namespace

std::string function_text(std::string_view name) {
  const std::optional<Parts> parts = parts_of(name);
  return parts ? parts->text : std::string(name);
}

std::string type_text(std::string_view name) {
  return demangled(std::string(name)).value_or(std::string(name));
}

std::string claim_of(std::string_view former, std::string_view now) {
  if (const std::optional<Parts> parts = parts_of(former)) return parts->kind + parts->text;
  const std::optional<Parts> parts = parts_of(now);
  return (parts ? parts->kind : "") + std::string(former);
}

// A lambda's type has no name of its own where it is in no function.
bool has_lasting_name(std::string_view name) {
  for (const std::string_view each : {"_GLOBAL__N_", "*"})
    if (name.find(each) != std::string_view::npos) return false;
  const std::optional<std::string> text = demangled_tag(name);
  if (!text) return !name.starts_with("Ul") && !name.starts_with("Ut");
  for (const std::string_view each : {"{lambda(", "{unnamed type#", "'lambda", "'unnamed"})
    if (text->find(each) != std::string::npos) return false;
  return true;
}

}  // namespace perdura::object
