// Applications as those of the paper's Table 4 (BigDataBench), on arrays in the object.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <perdura/compat/simpo.hpp>

namespace corpus_table4 {

struct Word {
  char text[16];
};

class WordCount : public POBase {
 public:
  explicit WordCount(int poid = 0) : POBase(sizeof(Table), poid) {}

  void countWord(Word word) {  // expect: deferrable
    Slot* const slot = slotOf(table(), word);
    if (slot == nullptr) return;
    slot->word = word;
    ++slot->count;
  }
  void splitLine(std::uint64_t packed) {  // expect: deferrable
    Word word{};
    int length = 0;
    for (int i = 0; i < 8; ++i) {
      const char c = static_cast<char>(packed >> (8 * i));
      if (c != ' ' && c != '\0') {
        word.text[length++] = c;
        continue;
      }
      if (length > 0) countWord(word);
      word = Word{};
      length = 0;
    }
    if (length > 0) countWord(word);
  }
  void clearWords() {  // expect: deferrable
    std::memset(poroot, 0, sizeof(Table));
  }
  void dropRareWords(int least) {  // expect: deferrable
    Table copy = table();
    clearWords();
    for (const Slot& slot : copy.slots) {
      if (slot.count < least || slot.count == 0) continue;
      Slot* const to = slotOf(table(), slot.word);
      if (to != nullptr) *to = slot;
    }
  }
  void printWords() {  // expect: instant
    for (const Slot& slot : table().slots)
      std::printf("%.16s %d\n", slot.word.text, slot.count);  // because: printWords no_source
  }

 private:
  static constexpr int kSlots = 256;
  struct Slot {
    Word word;
    int count;
  };
  struct Table {
    Slot slots[kSlots];
  };
  static Slot* slotOf(Table& table, const Word& word) {
    std::uint32_t hash = 2166136261u;
    for (const char c : word.text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      Slot& slot = table.slots[(hash + i) % kSlots];
      if (slot.count == 0 || std::memcmp(slot.word.text, word.text, sizeof word.text) == 0)
        return &slot;
    }
    return nullptr;
  }
  Table& table() { return *static_cast<Table*>(poroot); }
};

class Sort : public POBase {
 public:
  explicit Sort(int poid = 0) : POBase(sizeof(Records), poid) {}

  void addRecord(std::int64_t key) {  // expect: deferrable
    Records& all = records();
    if (all.count < kRecords) all.keys[all.count++] = key;
  }
  void sortRecords() {  // expect: deferrable
    quickSort(records().keys, 0, records().count - 1);
  }
  void mergeHalves(int middle) {  // expect: deferrable
    Records& all = records();
    std::int64_t merged[kRecords];
    std::merge(all.keys, all.keys + middle, all.keys + middle, all.keys + all.count, merged);
    std::copy(merged, merged + all.count, all.keys);
  }
  std::int64_t takeLargest() {  // expect: instant; because: takeLargest returns
    Records& all = records();
    return all.count == 0 ? 0 : all.keys[--all.count];
  }

 private:
  static constexpr int kRecords = 512;
  struct Records {
    int count;
    std::int64_t keys[kRecords];
  };
  static void quickSort(std::int64_t* keys, int first, int last) {
    if (first >= last) return;
    const std::int64_t pivot = keys[first + (last - first) / 2];
    int low = first;
    int high = last;
    while (low <= high) {
      while (keys[low] < pivot) ++low;
      while (pivot < keys[high]) --high;
      if (low <= high) std::swap(keys[low++], keys[high--]);
    }
    quickSort(keys, first, high);
    quickSort(keys, low, last);
  }
  Records& records() { return *static_cast<Records*>(poroot); }
};

class Grep : public POBase {
 public:
  explicit Grep(int poid = 0) : POBase(sizeof(Text), poid) {}

  void appendLine(Word line) {  // expect: deferrable
    Text& all = text();
    if (all.count < kLines) all.lines[all.count++] = line;
  }
  void markMatches(Word pattern) {  // expect: deferrable
    Text& all = text();
    std::size_t length = 0;
    while (length < sizeof pattern.text && pattern.text[length] != 0) ++length;
    all.matches = 0;
    for (int i = 0; i < all.count; ++i) {
      all.is_match[i] = contains(all.lines[i].text, pattern.text, length);
      all.matches += all.is_match[i];
    }
  }
  void printMatches() {  // expect: instant
    for (int i = 0; i < text().count; ++i) {
      if (!text().is_match[i]) continue;
      std::printf("%.16s\n", text().lines[i].text);  // because: printMatches no_source
    }
  }

 private:
  static constexpr int kLines = 128;
  struct Text {
    int count;
    int matches;
    Word lines[kLines];
    bool is_match[kLines];
  };
  static bool contains(const char* line, const char* pattern, std::size_t length) {
    for (std::size_t i = 0; i + length <= sizeof(Word); ++i)
      if (std::memcmp(line + i, pattern, length) == 0) return true;
    return false;
  }
  Text& text() { return *static_cast<Text*>(poroot); }
};

class PageRank : public POBase {
 public:
  explicit PageRank(int poid = 0) : POBase(sizeof(Web), poid) {}

  void join() {  // expect: deferrable
    Web& all = web();
    for (int i = 0; i < all.links; ++i) {
      all.joined[i].to = all.link[i].to;
      all.joined[i].rank = all.rank[all.link[i].from];
    }
  }
  void flatmap() {  // expect: deferrable
    Web& all = web();
    int degree[kPages] = {};
    for (int i = 0; i < all.links; ++i) ++degree[all.link[i].from];
    for (int i = 0; i < all.links; ++i) all.joined[i].rank /= degree[all.link[i].from];
  }
  void map(int from, int to) {  // expect: deferrable
    Web& all = web();
    if (all.links < kLinks) all.link[all.links++] = Link{from, to};
  }
  void reducebykey() {  // expect: deferrable
    Web& all = web();
    std::fill(all.sum, all.sum + kPages, 0.0);
    for (int i = 0; i < all.links; ++i) all.sum[all.joined[i].to] += all.joined[i].rank;
  }
  void mapvalue() {  // expect: deferrable
    Web& all = web();
    std::transform(all.sum, all.sum + kPages, all.rank,
                   [](double sum) { return 0.15 + 0.85 * sum; });
  }
  void persist() {  // expect: instant
    std::FILE* file = std::fopen("ranks", "wb");  // because: persist no_source
    if (file == nullptr) return;
    std::fwrite(web().rank, sizeof(double), kPages, file);  // because: persist no_source
    std::fclose(file);  // because: persist no_source
  }

 private:
  static constexpr int kPages = 64;
  static constexpr int kLinks = 512;
  struct Link {
    int from;
    int to;
  };
  struct Contribution {
    int to;
    double rank;
  };
  struct Web {
    int links;
    Link link[kLinks];
    Contribution joined[kLinks];
    double sum[kPages];
    double rank[kPages];
  };
  Web& web() { return *static_cast<Web*>(poroot); }
};

struct Spot {
  double x;
  double y;
};

class Kmeans : public POBase {
 public:
  explicit Kmeans(int poid = 0) : POBase(sizeof(Clusters), poid) {}

  void addSpot(Spot spot) {  // expect: deferrable
    Clusters& all = clusters();
    if (all.count < kSpots) all.spots[all.count++] = spot;
  }
  void setCenter(int k, Spot center) {  // expect: deferrable
    clusters().centers[k] = center;
  }
  void assignSpots() {  // expect: deferrable
    Clusters& all = clusters();
    for (int i = 0; i < all.count; ++i) all.nearest[i] = nearestOf(all, all.spots[i]);
  }
  void moveCenters() {  // expect: deferrable
    Clusters& all = clusters();
    Spot sums[kCenters] = {};
    int counts[kCenters] = {};
    for (int i = 0; i < all.count; ++i) {
      Spot& sum = sums[all.nearest[i]];
      sum.x += all.spots[i].x;
      sum.y += all.spots[i].y;
      ++counts[all.nearest[i]];
    }
    for (int k = 0; k < kCenters; ++k)
      if (counts[k] > 0) all.centers[k] = {sums[k].x / counts[k], sums[k].y / counts[k]};
  }
  double iterate() {  // expect: instant; because: iterate returns
    Clusters before = clusters();
    assignSpots();
    moveCenters();
    double moved = 0;
    for (int k = 0; k < kCenters; ++k) moved += distance(before.centers[k], clusters().centers[k]);
    return moved;
  }
  Spot takeSpot() {  // expect: instant; because: takeSpot returns
    Clusters& all = clusters();
    return all.count == 0 ? Spot{0, 0} : all.spots[--all.count];
  }
  void printCenters() {  // expect: instant
    for (const Spot& each : clusters().centers)
      std::printf("%g %g\n", each.x, each.y);  // because: printCenters no_source
  }

 private:
  static constexpr int kSpots = 256;
  static constexpr int kCenters = 4;
  struct Clusters {
    int count;
    Spot spots[kSpots];
    int nearest[kSpots];
    Spot centers[kCenters];
  };
  static double distance(Spot a, Spot b) {
    return std::sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y));
  }
  static int nearestOf(const Clusters& all, Spot spot) {
    int best = 0;
    for (int k = 1; k < kCenters; ++k)
      if (distance(spot, all.centers[k]) < distance(spot, all.centers[best])) best = k;
    return best;
  }
  Clusters& clusters() { return *static_cast<Clusters*>(poroot); }
};

class ConnectedComponents : public POBase {
 public:
  explicit ConnectedComponents(int poid = 0) : POBase(kVertices * sizeof(int), poid) {}

  void separateAll() {  // expect: deferrable
    for (int i = 0; i < kVertices; ++i) parents()[i] = i;
  }
  void connect(int a, int b) {  // expect: deferrable
    parents()[rootOf(a)] = rootOf(b);
  }
  int componentOf(int vertex) {  // expect: instant; because: componentOf returns
    return rootOf(vertex);
  }

 private:
  static constexpr int kVertices = 256;
  int rootOf(int vertex) {
    while (parents()[vertex] != vertex) {
      parents()[vertex] = parents()[parents()[vertex]];
      vertex = parents()[vertex];
    }
    return vertex;
  }
  int* parents() { return static_cast<int*>(poroot); }
};

class NaiveBayes : public POBase {
 public:
  explicit NaiveBayes(int poid = 0) : POBase(sizeof(Model), poid) {}

  void addDocument(int label) {  // expect: deferrable
    ++model().documents[label];
  }
  void addTerm(int label, int term) {  // expect: deferrable
    ++model().terms[label][term];
    ++model().totals[label];
  }
  void removeTerm(int label, int term) {  // expect: deferrable
    if (model().terms[label][term] == 0) return;
    --model().terms[label][term];
    --model().totals[label];
  }
  void computePriors() {  // expect: deferrable
    Model& all = model();
    double sum = 0;
    for (const int documents : all.documents) sum += documents;
    for (int label = 0; label < kLabels; ++label)
      all.prior[label] = std::log((all.documents[label] + 1) / (sum + kLabels));
  }
  void computeLikelihoods() {  // expect: deferrable
    Model& all = model();
    for (int label = 0; label < kLabels; ++label) {
      for (int term = 0; term < kTerms; ++term) {
        const double seen = all.terms[label][term] + 1.0;
        all.likelihood[label][term] = std::log(seen / (all.totals[label] + kTerms));
      }
    }
  }
  void forgetLabel(int label) {  // expect: deferrable
    Model& all = model();
    all.documents[label] = 0;
    all.totals[label] = 0;
    std::memset(all.terms[label], 0, sizeof all.terms[label]);
  }
  void mergeLabels(int from, int to) {  // expect: deferrable
    Model& all = model();
    all.documents[to] += all.documents[from];
    all.totals[to] += all.totals[from];
    for (int term = 0; term < kTerms; ++term) all.terms[to][term] += all.terms[from][term];
    forgetLabel(from);
  }
  int classifyTerms(std::uint64_t terms) {  // expect: instant; because: classifyTerms returns
    const Model& all = model();
    int best = 0;
    double best_score = 0;
    for (int label = 0; label < kLabels; ++label) {
      double score = all.prior[label];
      for (int term = 0; term < kTerms; ++term)
        if ((terms >> term & 1) != 0) score += all.likelihood[label][term];
      if (label == 0 || score > best_score) {
        best = label;
        best_score = score;
      }
    }
    return best;
  }
  void printModel() {  // expect: instant
    for (const double prior : model().prior)
      std::printf("%g\n", prior);  // because: printModel no_source
  }
  void addFromFile(std::FILE* file) {  // expect: instant
    const int term = std::fgetc(file);  // because: addFromFile no_source
    if (term >= 0) addTerm(0, term % kTerms);
  }

 private:
  static constexpr int kLabels = 4;
  static constexpr int kTerms = 64;
  struct Model {
    int documents[kLabels];
    int totals[kLabels];
    int terms[kLabels][kTerms];
    double prior[kLabels];
    double likelihood[kLabels][kTerms];
  };
  Model& model() { return *static_cast<Model*>(poroot); }
};

class CollaborativeFiltering : public POBase {
 public:
  explicit CollaborativeFiltering(int poid = 0) : POBase(sizeof(Factors), poid) {}

  void rate(int user, int item, float value) {  // expect: deferrable
    factors().ratings[user][item] = value;
  }
  void unrate(int user, int item) {  // expect: deferrable
    factors().ratings[user][item] = 0;
  }
  void beginFactors(std::uint32_t seed) {  // expect: deferrable
    for (auto& row : factors().users)
      for (float& each : row) each = nextOf(seed);
    for (auto& row : factors().items)
      for (float& each : row) each = nextOf(seed);
  }
  void descendUser(int user, float step) {  // expect: deferrable
    Factors& all = factors();
    for (int item = 0; item < kItems; ++item)
      if (all.ratings[user][item] > 0) descend(all, user, item, step);
  }
  void descendAll(float step) {  // expect: deferrable
    for (int user = 0; user < kUsers; ++user) descendUser(user, step);
  }
  void normaliseItems() {  // expect: deferrable
    for (auto& row : factors().items) {
      float length = 0;
      for (const float each : row) length += each * each;
      if (length <= 0) continue;
      for (float& each : row) each /= std::sqrt(length);
    }
  }
  void forgetUser(int user) {  // expect: deferrable
    std::fill_n(factors().ratings[user], kItems, 0.0f);
    std::fill_n(factors().users[user], kRank, 0.0f);
  }
  float predict(int user, int item) {  // expect: instant; because: predict returns
    return product(factors(), user, item);
  }
  int recommend(int user) {  // expect: instant; because: recommend returns
    Factors& all = factors();
    int best = -1;
    for (int item = 0; item < kItems; ++item) {
      if (all.ratings[user][item] > 0) continue;
      if (best < 0 || product(all, user, item) > product(all, user, best)) best = item;
    }
    return best;
  }
  double error() {  // expect: instant; because: error returns
    const Factors& all = factors();
    double sum = 0;
    for (int user = 0; user < kUsers; ++user) {
      for (int item = 0; item < kItems; ++item) {
        if (all.ratings[user][item] <= 0) continue;
        sum += std::pow(all.ratings[user][item] - product(all, user, item), 2);
      }
    }
    return std::sqrt(sum);
  }
  void printRatings(int user) {  // expect: instant
    for (const float rating : factors().ratings[user])
      std::printf("%g ", rating);  // because: printRatings no_source
  }

 private:
  static constexpr int kUsers = 32;
  static constexpr int kItems = 32;
  static constexpr int kRank = 4;
  struct Factors {
    float ratings[kUsers][kItems];
    float users[kUsers][kRank];
    float items[kItems][kRank];
  };
  static float nextOf(std::uint32_t& seed) {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<float>(seed >> 8) / static_cast<float>(1 << 24);
  }
  static float product(const Factors& all, int user, int item) {
    float sum = 0;
    for (int k = 0; k < kRank; ++k) sum += all.users[user][k] * all.items[item][k];
    return sum;
  }
  static void descend(Factors& all, int user, int item, float step) {
    const float missing = all.ratings[user][item] - product(all, user, item);
    for (int k = 0; k < kRank; ++k) {
      const float before = all.users[user][k];
      all.users[user][k] += step * missing * all.items[item][k];
      all.items[item][k] += step * missing * before;
    }
  }
  Factors& factors() { return *static_cast<Factors*>(poroot); }
};

}  // namespace corpus_table4
