// Questions that two equal indexes answer alike, and the answers as lines of text to compare.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "corpus.hpp"
#include "index.hpp"

namespace demo {

struct Queries {
  std::vector<std::string> words;                          ///< where does it occur?
  std::vector<std::pair<std::string, std::string>> pairs;  ///< where do both occur?
  std::vector<std::string> packages;  ///< what does it pull in, and who needs it?
};

/// Drawn from the corpus itself, so that most of them have an answer.
Queries choose_queries(const Corpus& corpus, std::uint64_t seed);

/// Folds values into 64 bits; the order matters.
class Digest {
 public:
  void add(std::uint64_t value) { state_ = mix(state_ ^ value) + 0x9e3779b97f4a7c15u; }
  void add(std::string_view text) { add(std::hash<std::string_view>{}(text)); }
  std::uint64_t value() const { return state_; }

  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }

 private:
  std::uint64_t state_ = 0;
};

template <class Memory>
class Answerer {
 public:
  using TheIndex = Index<Memory>;
  using Package = typename TheIndex::Package;
  using Postings = std::span<const Posting>;

  explicit Answerer(const TheIndex& index) : index_(index) {}

  /// One line a question; the last two cover every word and every package.
  std::vector<std::string> answer(const Queries& queries) const {
    std::vector<std::string> lines;
    for (const std::string& word : queries.words) lines.push_back(occurrences(word));
    for (const auto& [first, second] : queries.pairs) lines.push_back(common(first, second));
    for (const std::string& name : queries.packages) {
      lines.push_back(closure(name));
      lines.push_back(needed_by(name));
    }
    lines.push_back(all_words());
    lines.push_back(all_packages());
    return lines;
  }

 private:
  Postings postings(std::string_view word) const {
    const auto found = index_.words().find(word);
    return found == index_.words().end() ? Postings() : Postings(found->second);
  }

  std::string occurrences(std::string_view word) const {
    std::uint64_t times = 0;
    Digest digest;
    for (const auto& posting : postings(word)) {
      times += posting.count;
      digest.add(posting.document);
      digest.add(posting.count);
    }
    return fmt::format("'{}' occurs {} times in {} documents [{:016x}]", word, times,
                       postings(word).size(), digest.value());
  }

  std::string common(std::string_view first, std::string_view second) const {
    const Postings a = postings(first), b = postings(second);
    std::uint64_t documents = 0;
    Digest digest;
    for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
      if (x->document == y->document) {
        ++documents;
        digest.add(x->document);
      }
      const bool advance_first = x->document <= y->document;
      if (y->document <= x->document) ++y;
      if (advance_first) ++x;
    }
    return fmt::format("'{}' and '{}' occur together in {} documents [{:016x}]", first, second,
                       documents, digest.value());
  }

  /// Everything that can be reached by following the pointers.
  std::string closure(std::string_view name) const {
    std::unordered_set<const Package*> seen;
    std::vector<const Package*> open;
    std::uint64_t digest = 0;  // a sum: the order of the visit does not matter
    const auto visit = [&](const Package* package) {
      if (!seen.insert(package).second) return;
      digest += Digest::mix(std::hash<std::string_view>{}(package->name));
      open.push_back(package);
    };
    if (const auto found = index_.packages().find(name); found != index_.packages().end())
      visit(found->second);
    while (!open.empty()) {
      const Package* package = open.back();
      open.pop_back();
      for (const auto& dependency : package->depends) visit(dependency.package);
      for (const Package* provider : package->providers) visit(provider);
    }
    return fmt::format("'{}' can pull in {} packages [{:016x}]", name, seen.size(), digest);
  }

  std::string needed_by(std::string_view name) const {
    const auto found = index_.packages().find(name);
    Digest digest;
    std::size_t count = 0;
    if (found != index_.packages().end()) {
      count = found->second->needed_by.size();
      for (const Package* package : found->second->needed_by) digest.add(package->name);
    }
    return fmt::format("'{}' is needed by {} packages [{:016x}]", name, count, digest.value());
  }

  std::string all_words() const {
    std::uint64_t postings = 0, sum = 0;
    for (const auto& [word, list] : index_.words()) {
      Digest digest;
      digest.add(word);
      for (const auto& posting : list) {
        digest.add(posting.document);
        digest.add(posting.count);
      }
      postings += list.size();
      sum += digest.value();
    }
    return fmt::format("the index holds {} words with {} postings [{:016x}]", index_.words().size(),
                       postings, sum);
  }

  std::string all_packages() const {
    Digest digest;
    std::uint64_t pointers = 0;
    const auto add_packages = [&](const auto& packages) {
      for (const Package* package : packages) digest.add(package->name);
      pointers += packages.size();
    };
    for (const auto& [name, package] : index_.packages()) {
      digest.add(name);
      digest.add(package->description);
      for (const auto& version : package->versions) digest.add(version);
      for (const auto& dependency : package->depends) {
        digest.add(dependency.package->name);
        digest.add(dependency.versions);
      }
      pointers += package->depends.size();
      add_packages(package->needed_by);
      add_packages(package->providers);
    }
    return fmt::format("the graph holds {} packages with {} pointers [{:016x}]",
                       index_.packages().size(), pointers, digest.value());
  }

  const TheIndex& index_;
};

}  // namespace demo
