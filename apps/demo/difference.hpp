// Whether two indexes are the same, in whatever memory each of them is: every word, every package,
// and where each pointer leads.
#pragma once

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "index.hpp"

namespace demo {

namespace detail {

/// The names of the packages that pointers lead to.
constexpr auto kName = [](const auto* package) -> std::string_view { return package->name; };

template <class One, class Other>
bool same_names(const One& one, const Other& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const auto* a, const auto* b) { return kName(a) == kName(b); });
}

/// Of one package, under the same name in both.
template <class One, class Other>
bool same_package(const One& one, const Other& other) {
  const auto same_texts = [](const auto& a, const auto& b) {
    return std::string_view(a) == std::string_view(b);
  };
  const auto same_dependency = [&](const auto& a, const auto& b) {
    return kName(a.package) == kName(b.package) && same_texts(a.versions, b.versions);
  };
  return same_texts(one.name, other.name) &&
         std::equal(one.versions.begin(), one.versions.end(), other.versions.begin(),
                    other.versions.end(), same_texts) &&
         same_texts(one.description, other.description) &&
         std::equal(one.depends.begin(), one.depends.end(), other.depends.begin(),
                    other.depends.end(), same_dependency) &&
         same_names(one.needed_by, other.needed_by) && same_names(one.providers, other.providers);
}

}  // namespace detail

/// What `found` has otherwise than `expected`, the first of it; "" where they are the same.
template <class Found, class Expected>
std::string difference(const Index<Found>& found, const Index<Expected>& expected) {
  const auto counts = [](const auto& index) {
    return fmt::format("{} documents, {} words and {} packages", index.documents().size(),
                       index.words().size(), index.packages().size());
  };
  if (counts(found) != counts(expected))
    return fmt::format("it has {} instead of {}", counts(found), counts(expected));
  for (std::size_t i = 0; i < expected.documents().size(); ++i)
    if (std::string_view(found.documents()[i]) != std::string_view(expected.documents()[i]))
      return fmt::format("document {} has another name", i);
  for (const auto& [word, postings] : expected.words()) {
    const auto at = found.words().find(std::string_view(word));
    const auto same = [](const auto& a, const auto& b) {
      return a.document == b.document && a.count == b.count;
    };
    if (at == found.words().end())
      return fmt::format("the word '{}' is missing", std::string_view(word));
    if (!std::equal(at->second.begin(), at->second.end(), postings.begin(), postings.end(), same))
      return fmt::format("the word '{}' is found elsewhere", std::string_view(word));
  }
  auto at = found.packages().begin();
  for (const auto& [name, package] : expected.packages()) {
    if (std::string_view(at->first) != std::string_view(name))
      return fmt::format("the package '{}' is not in its place", std::string_view(name));
    if (!detail::same_package(*at->second, *package))
      return fmt::format("the package '{}' is another one", std::string_view(name));
    ++at;
  }
  return {};
}

}  // namespace demo
