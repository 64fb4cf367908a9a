#include "queries.hpp"

#include <random>

namespace demo {

namespace {

constexpr int kWordQueries = 200;
constexpr int kPairQueries = 100;
constexpr int kPackageQueries = 60;
/// Words are drawn from a piece of a document this long.
constexpr std::size_t kSampleBytes = 2048;

class Sampler {
 public:
  Sampler(const Corpus& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  Document document() { return corpus_[below(corpus_.size())]; }

  /// Words that stand near each other in some document.
  std::vector<std::string> neighbours() {
    const Document sample = document();
    std::string_view text =
        sample.kind == Kind::kPackage ? find_field(sample.text, "Description") : sample.text;
    // A piece that starts with a whole word.
    text = text.substr(leading_piece(text, below(text.size())).size());
    std::vector<std::string> words;
    for_each_word(leading_piece(text, kSampleBytes),
                  [&](std::string_view word) { words.emplace_back(word); });
    return words;
  }

 private:
  const Corpus& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

Queries choose_queries(const Corpus& corpus, std::uint64_t seed) {
  Queries queries;
  if (corpus.size() == 0) return queries;
  Sampler sampler(corpus, seed);
  // Bounded, for a corpus without words.
  for (int tries = 0; tries < 20 * (kWordQueries + kPairQueries); ++tries) {
    const std::vector<std::string> words = sampler.neighbours();
    if (words.empty()) continue;
    const std::string& word = words[sampler.below(words.size())];
    const std::string& other = words[sampler.below(words.size())];
    if (queries.words.size() < kWordQueries) queries.words.push_back(word);
    else if (queries.pairs.size() < kPairQueries && word != other)
      queries.pairs.emplace_back(word, other);
  }
  for (int tries = 0; tries < 20 * kPackageQueries; ++tries) {
    const Document document = sampler.document();
    if (document.kind == Kind::kPackage && queries.packages.size() < kPackageQueries)
      queries.packages.emplace_back(document.name);
  }
  return queries;
}

}  // namespace demo
