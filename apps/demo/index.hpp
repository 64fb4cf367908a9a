// What the demo builds: an inverted index of words and a graph of packages, with raw pointers.
//
//   words     word ──▶ postings { document, count } …
//   packages  name ──▶ Package { versions, description,
//                                depends ──▶ Package…, needed by ──▶ Package…, providers ──▶ … }
//   position  the next document, and how far into it
//
// Invariant: between two calls of step(), the index holds everything before the position and
// nothing after it. A checkpoint must not fall inside step().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <perdura/structures/common.hpp>

#include "corpus.hpp"
#include "text.hpp"

namespace demo {

struct Posting {
  std::uint32_t document;
  std::uint32_t count;
};

template <class Memory>
struct Package;
template <class Memory>
struct Dependency {
  Package<Memory>* package;
  typename Memory::string versions;  ///< as ">= 2.36"; empty when any will do
};
template <class Memory>
struct Package {
  using String = typename Memory::string;
  template <class T>
  using Vector = typename Memory::template vector<T>;

  String name;
  Vector<String> versions;  ///< none: only mentioned by others
  String description;
  Vector<Dependency<Memory>> depends;
  Vector<Package*> needed_by;
  Vector<Package*> providers;  ///< packages that can stand in for this one
};

}  // namespace demo

// What is stored to in them is stored to by containers that report it.
template <class Memory>
inline constexpr bool perdura::kReportsItself<demo::Dependency<Memory>> = true;
template <class Memory>
inline constexpr bool perdura::kReportsItself<demo::Package<Memory>> = true;

namespace demo {

template <class Memory>
class Index {
 public:
  using String = typename Memory::string;
  template <class T>
  using Vector = typename Memory::template vector<T>;
  using Package = demo::Package<Memory>;
  using Postings = Vector<Posting>;

  struct Position {
    template <class T>
    using Field = typename Memory::template field<T>;
    Field<std::uint64_t> document = 0;
    Field<std::uint64_t> offset = 0;  ///< bytes of its text already indexed
  };

  /// Index the next piece of the corpus and advance the position past it.
  void step(const Corpus& corpus) {
    const Document document = corpus[position_.document];
    if (document.kind == Kind::kPackage) {
      add_package(document.text);
      return next_document(document);
    }
    const std::string_view piece =
        leading_piece(document.text.substr(position_.offset), kPieceBytes);
    add_words(piece);
    position_.offset += piece.size();
    if (position_.offset == document.text.size()) next_document(document);
  }

  const Position& position() const { return position_; }
  bool covers(const Corpus& corpus) const { return position_.document == corpus.size(); }

  const auto& documents() const { return documents_; }
  const auto& words() const { return words_; }
  /// In the order of their names.
  const auto& packages() const { return packages_; }

 private:
  /// Small, because a checkpoint waits for the step that is under way.
  static constexpr std::size_t kPieceBytes = 4096;

  void next_document(const Document& document) {
    documents_.emplace_back(String(document.name));
    ++position_.document;
    position_.offset = 0;
  }

  void add_words(std::string_view text) {
    const auto document = static_cast<std::uint32_t>(position_.document);
    for_each_word(text, [&](std::string_view word) {
      auto found = words_.find(word);
      if (found == words_.end()) found = words_.try_emplace(String(word)).first;
      Postings& postings = found->second;
      const Posting last = postings.empty() ? Posting{} : Posting(postings.back());
      if (last.count != 0 && last.document == document)
        postings.back() = Posting{document, last.count + 1};
      else postings.push_back({document, 1});
    });
  }

  void add_package(std::string_view paragraph) {
    Package& package = package_named(find_field(paragraph, "Package"));
    package.versions.emplace_back(String(find_field(paragraph, "Version")));
    if (package.versions.size() > 1) return;  // the graph is that of the first version listed
    const std::string_view description = find_field(paragraph, "Description");
    package.description = description;
    add_words(description);
    for (const char* field : {"Pre-Depends", "Depends", "Recommends"})
      for_each_relation(find_field(paragraph, field),
                        [&](std::string_view name, std::string_view versions) {
                          Package& needed = package_named(name);
                          package.depends.push_back({&needed, String(versions)});
                          needed.needed_by.push_back(&package);
                        });
    for_each_relation(find_field(paragraph, "Provides"),
                      [&](std::string_view name, std::string_view) {
                        package_named(name).providers.push_back(&package);
                      });
  }

  Package& package_named(std::string_view name) {
    if (const auto found = packages_.find(name); found != packages_.end()) return *found->second;
    Package& package = all_packages_.emplace_back();
    package.name = name;
    packages_.try_emplace(String(name), &package);
    return package;
  }

  Position position_;
  Vector<String> documents_;  ///< names
  typename Memory::template word_map<Postings> words_;
  typename Memory::template list<Package> all_packages_;  ///< they stay where they are
  typename Memory::template map<String, Package*> packages_;
};

}  // namespace demo
