#include "classify.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/format.h>
#include <llvm/Demangle/Demangle.h>

namespace perdura::source {
namespace {

/// What directives around a method say.
void apply_directives(Program& program, const Directives& directives) {
  for (auto& [key, method] : program.methods) {
    std::vector<Place> places = method.other_places;
    places.push_back(method.place);  // what is said at the body counts most
    for (const Place place : places) {
      if (place.file == kNone) continue;
      const Region region = directives.of(program.files[place.file], place.line);
      if (region.verdict == Verdict::kNothing) continue;
      method.said = region.verdict;
      method.said_at = {place.file, region.first, 1};
    }
  }
}

void object(Classification& found) {
  for (const Classified& each : found.methods) {
    if (each.method.said != Verdict::kDeferrable || each.judgement.verdict == Verdict::kDeferrable)
      continue;
    const Reason& first = each.judgement.reasons.front();
    found.objections.push_back(fmt::format(
        "{}: {} is said to be deferrable, and it {} ({}): {}",
        text_of(found.program, each.method.said_at), each.method.signature, sentence(first),
        text_of(found.program, first.at), "say that it is instant, or " + remedy(first.kind)));
  }
}

}  // namespace

Classification classify(const Sources& sources, const Judged& judged) {
  Directives directives;
  return classify(sources, judged, directives, [](clang::ASTContext&, std::size_t) {});
}

Classification classify(const Sources& sources, const Judged& judged, Directives& directives,
                        const Look& also) {
  Classification found;
  std::mutex mutex;
  std::map<std::size_t, Program> units;  // joined in their order, whichever is ready first
  found.wrong = parse(sources, directives, [&](clang::ASTContext& context, std::size_t number) {
    also(context, number);
    Program unit = extract(context, judged);
    const std::lock_guard lock(mutex);
    units.emplace(number, std::move(unit));
  });
  for (auto& [number, unit] : units) found.program.join(std::move(unit));
  for (const DirectiveError& each : directives.errors())
    found.wrong.push_back(fmt::format("{}:{}: {}", each.file, each.line, each.text));
  if (!found.wrong.empty()) return found;
  apply_directives(found.program, directives);
  found.program.settle_constants();
  Solver solver(found.program);
  for (const auto& [key, method] : found.program.methods)
    found.methods.push_back({method, solver.judge(method, judged.reasons_max)});
  std::ranges::sort(found.methods, [&](const Classified& a, const Classified& b) {
    const auto order = [&](const Classified& each) {
      const Place& place = each.method.place;
      const std::string file = place.file == kNone ? "" : found.program.files[place.file];
      return std::tuple(each.method.owner, file, place.line, place.column, each.method.signature);
    };
    return order(a) < order(b);
  });
  object(found);
  return found;
}

std::map<std::string, const Classified*> by_place(const Classification& found) {
  std::map<std::string, const Classified*> all;
  const auto add = [&](const Classified& each, Place place) {
    const auto [at, is_new] = all.emplace(text_of(found.program, place), &each);
    if (!is_new && each.judgement.verdict != Verdict::kDeferrable) at->second = &each;
  };
  for (const Classified& each : found.methods) {
    add(each, each.method.place);
    for (const Place place : each.method.other_places) add(each, place);
  }
  return all;
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kDeferrable:
      return "deferrable";
    case Verdict::kInstant:
      return "instant";
    case Verdict::kRead:
      return "read";
    case Verdict::kNothing:
      break;
  }
  return "";
}

std::string sentence(const Reason& reason) {
  const std::string name =
      reason.name.starts_with("_Z") ? llvm::demangle(reason.name) : reason.name;
  switch (reason.kind) {
    case Kind::kReturns:
      return "returns a value";
    case Kind::kGlobal:
      if (name == kSeveral) return "touches one of several variables outside of the object";
      if (name == kConstantName) return "changes a constant";
      if (name.starts_with("the ")) return "touches " + name + ", which is outside of the object";
      return "touches the variable " + name + ", which is outside of the object";
    case Kind::kThreadLocal:
      return "touches the thread's variable " + name;
    case Kind::kArgument:
      return name.empty() ? "touches what an argument leads to"
                          : "touches what the argument " + name + " leads to";
    case Kind::kMember:
      return "touches a member of the class, which is not in the memory at poroot";
    case Kind::kKeptPointer:
      return "follows a pointer that is kept in the object";
    case Kind::kKeepsAddress:
      return "keeps an address in the object";
    case Kind::kUnknownPointer:
      return name.empty() ? "follows a pointer, and nobody knows where that leads"
                          : "follows " + name;
    case Kind::kAddressAsNumber:
      return "makes a number of an address";
    case Kind::kNoSource:
      return "calls " + name + ", whose source is not here";
    case Kind::kMemory:
      return "takes memory that is in no object, or gives some back (" + name + ")";
    case Kind::kVirtual:
      return "calls " + name + ", which is virtual: it may be any class's";
    case Kind::kIndirect:
      return name.empty() || name == kSeveral || name == "a function by a pointer"
                 ? "calls a function by a pointer, which may be any"
                 : "calls a function by the pointer " + name + ", which may be any";
    case Kind::kThrows:
      return "throws (" + name + ")";
    case Kind::kAssembler:
      return "has assembler";
    case Kind::kFence:
      return "orders what other threads see (" + name + ")";
    case Kind::kUnsupported:
      return "has something that is not followed (" + name + ")";
  }
  return "";
}

std::string remedy(Kind kind) {
  switch (kind) {
    case Kind::kReturns:
      return "let it return nothing, and ask by another method";
    case Kind::kGlobal:
    case Kind::kThreadLocal:
      return "hand the value over as an argument, or keep it in the object";
    case Kind::kArgument:
      return "hand the value over, not where it is";
    case Kind::kMember:
      return "keep it in the memory at poroot";
    case Kind::kKeptPointer:
    case Kind::kKeepsAddress:
      return "keep the index or the offset of what it leads to: addresses are others after a "
             "restart";
    case Kind::kUnknownPointer:
      return "make the pointer of the object's address and an offset";
    case Kind::kAddressAsNumber:
      return "use an index: addresses are others after a restart";
    case Kind::kNoSource:
      return "name the source that has it as well, or call it before and hand over what it says";
    case Kind::kMemory:
      return "use memory of the object, or an array of constant size";
    case Kind::kVirtual:
      return "make the class or the method final, or call it by its class: T::f()";
    case Kind::kIndirect:
      return "choose among named functions by a number";
    case Kind::kThrows:
      return "catch it (catch (...)), or refuse the arguments before the call";
    case Kind::kAssembler:
    case Kind::kUnsupported:
      return "write it in plain C++";
    case Kind::kFence:
      return "leave it out: calls of an object run one after the other";
  }
  return "";
}

std::string text_of(const Program& program, Place place) {
  if (place.file == kNone) return "?";
  return fmt::format("{}:{}:{}", program.files[place.file], place.line, place.column);
}

}  // namespace perdura::source
