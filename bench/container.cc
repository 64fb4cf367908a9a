// Containers (SoftPM, section 6): what finding, moving and writing what is reachable costs, against
// a serializer that writes the whole structure, and against writing the changed bytes raw.

#include <msgpack.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <perdura/container.hpp>

#include "child.hpp"
#include "harness.hpp"
#include "raw_write.hpp"
#include "stores.hpp"
#include "structure.h"

namespace {

struct Node {
  Node* next;
  std::uint64_t number;
  std::byte payload[48];
};
static_assert(sizeof(Node) == 64);

struct List {
  Node* first;
  std::uint64_t count;
};

struct Matrix {
  double* values;
};

}  // namespace

PERDURA_TYPE(Node, next)
PERDURA_TYPE(List, first)
PERDURA_TYPE(Matrix, values)

namespace perdura::bench {
namespace {

constexpr perdura_type kDoubles{"double", sizeof(double), alignof(double), 0, nullptr};

Options options_for(std::uint64_t bytes) {
  Options options;
  options.region_limit_bytes = (4 * bytes + kGiB) / kMiB * kMiB;
  options.engine = Engine::kRemap;
  options.tracking = Tracking::kSigbus;  // sees stores first, so that points are asynchronous
  options.versions_kept = 1;
  options.over_provisioning = 110;  // both of two versions that share nothing
  return options;
}

/// Volatile, in the order of allocation.
void make_list(List& list, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Node* node = make<Node>();
    node->number = i;
    node->next = list.first;
    list.first = node;
  }
  list.count = count;
}

/// Every `apart`-th node, or the first of each.
void change_spread(List& list, std::uint64_t apart) {
  std::uint64_t i = 0;
  for (Node* node = list.first; node != nullptr; node = node->next)
    if (i++ % apart == 0) ++node->number;
}
void change_first(List& list, std::uint64_t count) {
  for (Node* node = list.first; node != nullptr && count != 0; node = node->next, --count)
    ++node->number;
}

// --- discovery -----------------------------------------------------------------------------------

struct Discovery {
  Measured first;
  Measured again;
};

Discovery discover(Context& context) {
  const std::uint64_t count = context.scale<std::uint64_t>(10'000'000, 1'000'000);
  const std::string uri = context.uri(Place::kDisk, "discovery");
  Discovery result;
  {
    Container container = Container::open(uri, options_for(count * sizeof(Node)));
    auto& list = container.root<List>();
    container.point();
    make_list(list, count);
    container.point();
    const ContainerStatistics first = container.statistics();
    const double first_s = static_cast<double>(first.last_discovery_ns) / 1e9;
    result.first.value = static_cast<double>(count) / first_s;
    result.first.detail = {{"seconds", first_s},
                           {"moved_mb", static_cast<double>(first.moved_bytes) / 1e6}};
    const auto again_s = [&](auto&& change) {
      std::vector<double> all;
      for (int i = 0; i < 5; ++i) {
        change();
        container.point();
        all.push_back(static_cast<double>(container.statistics().last_discovery_ns) / 1e9);
      }
      return median(all);
    };
    const double near_s = again_s([&] { change_first(list, count / 100); });
    const double spread_s = again_s([&] { change_spread(list, 100); });
    result.again.value = near_s / first_s;
    // Of two thirds of the pages a node changes then.
    result.again.detail = {{"milliseconds", near_s * 1e3},
                           {"spread_milliseconds", spread_s * 1e3},
                           {"spread_ratio", spread_s / first_s}};
    container.discard();
  }
  context.remove(uri);
  return result;
}

// --- points on a list of a gigabyte --------------------------------------------------------------

class Gigabyte {
 public:
  explicit Gigabyte(Context& context)
      : context_(context),
        count_(context.scale<std::uint64_t>(kGiB, 128 * kMiB) / sizeof(Node)),
        uri_(context.uri(Place::kDisk, "gigabyte")),
        container_(Container::open(uri_, options_for(count_ * sizeof(Node)))) {
    container_->point();
    make_list(list(), count_);
    container_->point();
    fresh_ = incremental(10);
    // From now on points write to space that was written before, as the raw file was.
    for (int i = 0; i < 2; ++i) {
      change_first(list(), count_);
      container_->point();
    }
  }
  ~Gigabyte() {
    container_->discard();
    container_.reset();
    context_.remove(uri_);
  }

  Measured incremental(int percent) {
    const std::uint64_t changed = count_ * static_cast<std::uint64_t>(percent) / 100;
    const std::size_t bytes = (changed * sizeof(Node) + kMiB - 1) / kMiB * kMiB;
    const std::string path = context_.path(Place::kDisk, "raw");
    RawFile raw(path, bytes);
    const Buffer buffer(bytes);
    std::memset(buffer.data(), 1, bytes);
    const Paired pair = paired(
        percent < 100 ? 15 : context_.scale(5, 3),
        [&] {
          change_first(list(), changed);
          return timed_s([&] { container_->point(); });
        },
        [&] { return timed_s([&] { raw.overwrite(buffer.data(), bytes); }); });
    context_.remove(path);
    return {pair.ratio,
            {{"point_ms", pair.subject * 1e3},
             {"raw_ms", pair.base * 1e3},
             {"changed_mb", static_cast<double>(bytes) / 1e6}}};
  }

  /// A tenth of the list, to space of the file that was never written: the file system notes that
  /// of each part of it.
  const Measured& fresh() const { return fresh_; }

  Measured pause() {
    std::vector<double> pauses;
    for (int i = 0; i < context_.scale(15, 5); ++i) {
      change_first(list(), count_ / 100);
      pauses.push_back(timed_s([&] { container_->point_async(); }) * 1e3);
      container_->sync();
    }
    return {median(pauses), {{"worst", *std::max_element(pauses.begin(), pauses.end())}}};
  }

 private:
  List& list() { return container_->root<List>(); }

  Context& context_;
  const std::uint64_t count_;
  const std::string uri_;
  std::optional<Container> container_;
  Measured fresh_;
};

// --- restoring -----------------------------------------------------------------------------------

constexpr const char* kRestore = "container-restore";

/// Prints the seconds to the first access; at another address also the bytes a second.
int restore(const ChildArguments& arguments) {
  Options options = options_for(std::stoull(arguments.at(1)));
  options.region_address = std::stoull(arguments.at(2));
  const double begin = now_s();
  Container container = Container::open(arguments.at(0), options);
  auto& list = container.root<List>();
  const std::uint64_t seen = list.first->number;
  std::printf("%.9f %lu\n", now_s() - begin, seen);
  std::fflush(stdout);
  container.discard();
  return 0;
}
const ChildRegistration kRestoring(kRestore, restore);

struct Restored {
  Measured same;
  Measured moved;
  Measured moved_by_read;
};

Restored measure_restore(Context& context) {
  const std::uint64_t bytes = context.scale<std::uint64_t>(kGiB, 128 * kMiB);
  const std::string uri = context.uri(Place::kDisk, "restore");
  {
    Container container = Container::open(uri, options_for(bytes));
    make_list(container.root<List>(), bytes / sizeof(Node));
    container.point();
    container.close();
  }
  const auto opened_s = [&](std::uint64_t address) {
    ChildProcess child(kRestore, {uri, std::to_string(bytes), std::to_string(address)});
    const double seconds = std::stod(child.read_line());
    child.wait();
    return seconds;
  };
  std::vector<double> same, moved, read, ratios;
  for (int i = 0; i < 5; ++i) same.push_back(opened_s(0) * 1e3);
  const std::string raw_path = context.path(Place::kDisk, "read");
  {
    RawFile raw(raw_path, bytes);
    const Buffer buffer(bytes);
    for (int i = 0; i < 5; ++i) {
      moved.push_back(opened_s(0x440000000000 + (std::uint64_t{1} << 40)));
      read.push_back(timed_s([&] { raw.read(buffer.data(), bytes); }));
      ratios.push_back(moved.back() / read.back());
    }
  }
  context.remove(raw_path);
  context.remove(uri);
  Restored result;
  result.same = {median(same), {{"worst", *std::max_element(same.begin(), same.end())}}};
  result.moved = {static_cast<double>(bytes) / kGiB / median(moved), {{"seconds", median(moved)}}};
  result.moved_by_read = {median(ratios), {{"read_s", median(read)}}};
  return result;
}

// --- structures against a serializer -------------------------------------------------------------

const structure* const kStructures[] = {&array_structure, &list_structure, &tree_structure,
                                        &hash_structure};

/// A new file takes the place of the last one when it is durable.
void write_durably(const std::string& path, const char* data, std::size_t size) {
  const std::string fresh = path + ".new";
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (std::size_t done = 0; done < size;) {
    const ssize_t written = ::write(fd, data + done, size - done);
    if (written <= 0) throw std::runtime_error("cannot write " + fresh);
    done += static_cast<std::size_t>(written);
  }
  if (::fdatasync(fd) != 0 || ::close(fd) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0)
    throw std::runtime_error("cannot make " + path + " durable");
}

/// The whole structure.
void serialize(const structure& structure, const void* root, const std::string& path) {
  msgpack_sbuffer buffer;
  msgpack_sbuffer_init(&buffer);
  msgpack_packer packer;
  msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
  structure.for_each(
      root,
      [](const record* record, void* argument) {
        auto* packer = static_cast<msgpack_packer*>(argument);
        msgpack_pack_array(packer, 2);
        msgpack_pack_uint64(packer, record->key);
        msgpack_pack_bin(packer, kValueBytes);
        msgpack_pack_bin_body(packer, record->value, kValueBytes);
      },
      &packer);
  write_durably(path, buffer.data, buffer.size);
  msgpack_sbuffer_destroy(&buffer);
}

/// One of a thing that is done to a structure, and then made durable.
struct Step {
  const char* name;
  std::function<void(const structure&, void* root)> run;
};

std::vector<Step> steps(std::uint64_t count, std::uint64_t touched) {
  const auto fill = [](record* record, std::uint64_t salt) {
    for (std::size_t i = 0; i < kValueBytes; i += 8) {
      const std::uint64_t word = record->key * 31 + salt + i;
      std::memcpy(record->value + i, &word, 8);
    }
  };
  // A list is searched from its first record: the newest ones are near.
  const auto near = [=](std::uint64_t i) { return count - 1 - i; };
  return {{"create",
           [=](const structure& structure, void* root) {
             for (std::uint64_t i = 0; i < count; ++i) fill(structure.insert(root, i), 1);
           }},
          {"query",
           [=](const structure& structure, void* root) {
             for (std::uint64_t i = 0; i < touched; ++i) {
               std::uint64_t word = 0;
               std::memcpy(&word, structure.find(root, near(i))->value, sizeof word);
               if (word != near(i) * 31 + 1) throw std::runtime_error("a record is wrong");
             }
           }},
          {"modify",
           [=](const structure& structure, void* root) {
             for (std::uint64_t i = 0; i < touched; ++i) fill(structure.find(root, near(i)), 2);
           }},
          {"add",
           [=](const structure& structure, void* root) {
             for (std::uint64_t i = 0; i < touched; ++i) fill(structure.insert(root, count + i), 3);
           }},
          {"remove", [=](const structure& structure, void* root) {
             for (std::uint64_t i = 0; i < touched; ++i) structure.erase(root, count + i);
           }}};
}

/// Seconds of each step with points, and with the serializer.
struct Steps {
  std::vector<double> points;
  std::vector<double> serialized;
};

Steps run_steps(Context& context, const structure& structure) {
  const std::uint64_t count = context.scale<std::uint64_t>(500'000, 100'000);
  const auto all = steps(count, count / 1000);
  Steps result;
  {
    const std::string uri = context.uri(Place::kDisk, "structure");
    Container container = Container::open(uri, options_for(count * 256));
    void* const root = container.root(*structure.root_type);
    for (const Step& step : all)
      result.points.push_back(timed_s([&] {
        step.run(structure, root);
        container.point();
      }));
    container.discard();
    context.remove(uri);
  }
  const std::string path = context.path(Place::kDisk, "serialized");
  void* const root = allocate(*structure.root_type);
  for (const Step& step : all)
    result.serialized.push_back(timed_s([&] {
      step.run(structure, root);
      serialize(structure, root, path);
    }));
  // What is left is the memory of the process.
  context.remove(path);
  return result;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

struct Structures {
  Measured all;
  Measured query;
};

Structures measure_structures(Context& context) {
  Structures result;
  std::vector<double> ratios, queries;
  for (const structure* structure : kStructures) {
    std::array<std::vector<double>, 5> rounds;
    std::array<double, 5> points{}, serialized{};
    for (int round = 0; round < context.scale(5, 3); ++round) {
      const Steps steps = run_steps(context, *structure);
      for (std::size_t i = 0; i < 5; ++i) {
        rounds[i].push_back(steps.points[i] / steps.serialized[i]);
        points[i] = steps.points[i];
        serialized[i] = steps.serialized[i];
      }
    }
    const auto names = steps(0, 0);
    for (std::size_t i = 0; i < 5; ++i) {
      const double ratio = median(rounds[i]);
      ratios.push_back(ratio);
      if (i == 1) queries.push_back(ratio);
      result.all.detail[structure->name][names[i].name] = {
          {"ratio", ratio}, {"point_ms", points[i] * 1e3}, {"serialized_ms", serialized[i] * 1e3}};
    }
  }
  result.all.value = geometric_mean(ratios);
  result.query.value = geometric_mean(queries);
  return result;
}

// --- computing while points are written ----------------------------------------------------------

/// a * b into c, in blocks; `after` each.
template <class After>
void multiply(const double* a, const double* b, double* c, std::size_t side, std::size_t block,
              After&& after) {
  for (std::size_t i0 = 0; i0 < side; i0 += block)
    for (std::size_t j0 = 0; j0 < side; j0 += block) {
      for (std::size_t k0 = 0; k0 < side; k0 += block)
        for (std::size_t i = i0; i < std::min(i0 + block, side); ++i)
          for (std::size_t k = k0; k < std::min(k0 + block, side); ++k) {
            const double factor = a[i * side + k];
            for (std::size_t j = j0; j < std::min(j0 + block, side); ++j)
              c[i * side + j] += factor * b[k * side + j];
          }
      after();
    }
}

Measured measure_async(Context& context) {
  const std::size_t side = context.scale<std::size_t>(2000, 1000);
  const std::size_t block = side / 4;
  const std::size_t bytes = side * side * sizeof(double);
  const Buffer a(bytes), b(bytes), plain(bytes);
  auto* left = reinterpret_cast<double*>(a.data());
  auto* right = reinterpret_cast<double*>(b.data());
  for (std::size_t i = 0; i < side * side; ++i) {
    left[i] = static_cast<double>(i % 97) / 7;
    right[i] = static_cast<double>(i % 89) / 5;
  }
  const std::string uri = context.uri(Place::kDisk, "matrix");
  Container container = [&] {
    const PinnedScope background(kBackgroundCpu);
    return Container::open(uri, options_for(4 * bytes));
  }();
  auto& matrix = container.root<Matrix>();
  matrix.values = static_cast<double*>(allocate(kDoubles, side * side));
  container.point();
  const PinnedScope mutator(kMutatorCpu);
  const Paired pair = paired(
      context.scale(5, 3),
      [&] {
        std::memset(matrix.values, 0, bytes);
        container.point();
        const double seconds = timed_s([&] {
          multiply(left, right, matrix.values, side, block, [&] { container.point_async(); });
        });
        container.sync();
        return seconds;
      },
      [&] {
        auto* values = reinterpret_cast<double*>(plain.data());
        std::memset(values, 0, bytes);
        return timed_s([&] { multiply(left, right, values, side, block, [] {}); });
      });
  if (std::memcmp(matrix.values, plain.data(), bytes) != 0)
    throw std::runtime_error("the products differ");
  container.discard();
  context.remove(uri);
  return {pair.ratio, {{"seconds", pair.subject}, {"without_s", pair.base}, {"points", 16}}};
}

// --- pointers in the data
// --------------------------------------------------------------------------

/// Eight words, of which so many lead to other objects.
struct Words {
  std::uint64_t words[8];
};

/// A full point of a list of such objects ÷ their other words, serialized and written.
Measured measure_share(Context& context, std::uint32_t pointers) {
  const std::uint64_t count = context.scale<std::uint64_t>(500'000'000, 50'000'000) / sizeof(Words);
  static const perdura_slot slots[] = {{"words", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0},
                                       {"words", PERDURA_SLOT_POINTER, 0, 16, nullptr, 0, 0, 0},
                                       {"words", PERDURA_SLOT_POINTER, 0, 32, nullptr, 0, 0, 0},
                                       {"words", PERDURA_SLOT_POINTER, 0, 64, nullptr, 0, 0, 0}};
  static const perdura_type types[] = {{"words 1", sizeof(Words), 8, 1, &slots[0]},
                                       {"words 2", sizeof(Words), 8, 1, &slots[1]},
                                       {"words 4", sizeof(Words), 8, 1, &slots[2]},
                                       {"words 8", sizeof(Words), 8, 1, &slots[3]}};
  const perdura_type& type = types[pointers == 1 ? 0 : pointers == 2 ? 1 : pointers == 4 ? 2 : 3];
  const std::string uri = context.uri(Place::kDisk, "share");
  Container container = Container::open(uri, options_for(count * sizeof(Words)));
  auto& list = container.root<List>();
  container.point();
  Words* last = nullptr;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto* const made = static_cast<Words*>(allocate(type));
    for (std::uint32_t word = 0; word < 8; ++word)
      made->words[word] = word < pointers ? reinterpret_cast<std::uintptr_t>(last) : i;
    last = made;
  }
  list.first = reinterpret_cast<Node*>(last);
  const double point_s = timed_s([&] { container.point(); });
  const std::string path = context.path(Place::kDisk, "serialized");
  const double serialized_s = timed_s([&] {
    msgpack_sbuffer buffer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    const auto* each = reinterpret_cast<const Words*>(list.first);
    for (std::uint64_t i = 0; i < count; ++i) {
      msgpack_pack_array(&packer, 8 - pointers);
      for (std::uint32_t word = pointers; word < 8; ++word)
        msgpack_pack_uint64(&packer, each->words[word]);
      each = reinterpret_cast<const Words*>(each->words[0]);
    }
    write_durably(path, buffer.data, buffer.size);
    msgpack_sbuffer_destroy(&buffer);
  });
  container.discard();
  context.remove(uri);
  context.remove(path);
  return {point_s / serialized_s,
          {{"point_ms", point_s * 1e3}, {"serialized_ms", serialized_s * 1e3}}};
}

// --- chunks
// ----------------------------------------------------------------------------------------

/// A point after a tenth of a list changed, found by chunks of this size.
Measured measure_chunk(Context& context, std::uint32_t chunk_bytes) {
  const std::uint64_t count = context.scale<std::uint64_t>(kGiB, 128 * kMiB) / sizeof(Node);
  Options options = options_for(count * sizeof(Node));
  options.chunk_bytes = chunk_bytes;
  const std::string uri = context.uri(Place::kDisk, "chunks");
  Container container = Container::open(uri, options);
  auto& list = container.root<List>();
  container.point();
  make_list(list, count);
  container.point();
  std::vector<double> points, changes;
  for (int i = 0; i < 3; ++i) {
    changes.push_back(timed_s([&] { change_first(list, count / 10); }) * 1e3);
    points.push_back(timed_s([&] { container.point(); }) * 1e3);
  }
  container.discard();
  context.remove(uri);
  return {median(points), {{"change_ms", median(changes)}}};
}

// --- processes
// -------------------------------------------------------------------------------------

constexpr const char* kShare = "container-process";

/// Makes a list, waits for a file to appear, takes a point and prints when it began and ended.
int persist(const ChildArguments& arguments) {
  const std::uint64_t bytes = std::stoull(arguments.at(1));
  Container container = Container::open(arguments.at(0), options_for(bytes));
  auto& list = container.root<List>();
  container.point();
  make_list(list, bytes / sizeof(Node));
  std::puts("ready");
  std::fflush(stdout);
  while (::access(arguments.at(2).c_str(), F_OK) != 0) ::usleep(200);
  const double begin = now_s();
  container.point();
  std::printf("%.9f %.9f\n", begin, now_s());
  std::fflush(stdout);
  container.discard();
  return 0;
}
const ChildRegistration kPersist(kShare, persist);

/// Seconds until all of so many processes have made their part of a gigabyte durable.
double persist_in(Context& context, std::uint64_t processes) {
  const std::uint64_t bytes = context.scale<std::uint64_t>(kGiB, 128 * kMiB) / processes;
  const std::string go = context.path(Place::kMemory, "go");
  std::vector<std::string> uris;
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (std::uint64_t i = 0; i < processes; ++i) {
    uris.push_back(context.uri(Place::kDisk, "process"));
    children.push_back(std::make_unique<ChildProcess>(
        kShare, ChildArguments{uris.back(), std::to_string(bytes), go}));
  }
  for (const auto& child : children) child->read_line();
  std::ofstream(go).put('\n');
  double first = 0;
  double last = 0;
  for (const auto& child : children) {
    const std::string line = child->read_line();
    const double begin = std::stod(line);
    first = first == 0 ? begin : std::min(first, begin);
    last = std::max(last, std::stod(line.substr(line.find(' '))));
    child->wait();
  }
  for (const std::string& uri : uris) context.remove(uri);
  context.remove(go);
  return last - first;
}

void run(Context& context) {
  if (context.wants("discovery") || context.wants("rediscovery")) {
    std::optional<Discovery> found;
    const auto once = [&]() -> Discovery& {
      if (!found) found = discover(context);
      return *found;
    };
    context.measure("discovery", "pointers/s", Reach::at_least(5e6), [&] { return once().first; });
    context.measure("rediscovery", "ratio", Reach::at_most(0.03), [&] { return once().again; });
  }
  {
    std::optional<Gigabyte> gigabyte;
    const auto once = [&]() -> Gigabyte& {
      if (!gigabyte) gigabyte.emplace(context);
      return *gigabyte;
    };
    for (const int percent : {1, 10, 100})
      context.measure(fmt::format("incremental_{}", percent), "ratio", Reach::at_most(1.25),
                      [&] { return once().incremental(percent); });
    context.measure("incremental_fresh", "ratio", Reach::none(), [&] { return once().fresh(); });
    context.measure("pause_ms", "ms", Reach::at_most(10), [&] { return once().pause(); });
  }
  {
    std::optional<Restored> restored;
    const auto once = [&]() -> Restored& {
      if (!restored) restored = measure_restore(context);
      return *restored;
    };
    context.measure("restore_ms", "ms", Reach::at_most(20), [&] { return once().same; });
    context.measure("relocate", "GiB/s", Reach::at_least(1), [&] { return once().moved; });
    // The figure above depends on the disk; this one says how much comes on top of its reads.
    context.measure("relocate_read", "ratio", Reach::at_most(1.25),
                    [&] { return once().moved_by_read; });
  }
  {
    std::optional<Structures> structures;
    const auto once = [&]() -> Structures& {
      if (!structures) structures = measure_structures(context);
      return *structures;
    };
    context.measure("structures", "ratio", Reach::at_most(0.5), [&] { return once().all; });
    context.measure("query", "ratio", Reach::at_most(0.05), [&] { return once().query; });
  }
  for (const std::uint32_t pointers : {1, 2, 4, 8})
    context.measure(fmt::format("pointer_share_{}", pointers * 100 / 8), "ratio", Reach::none(),
                    [&] { return measure_share(context, pointers); });
  for (const std::uint32_t kib : {4, 64, 1024, 4096})
    context.measure(fmt::format("chunk_{}k", kib), "ms", Reach::none(),
                    [&] { return measure_chunk(context, kib * 1024); });
  std::optional<double> alone;
  for (const std::uint64_t processes : {2, 4, 8})
    context.measure(fmt::format("processes_{}", processes), "ratio", Reach::at_most(1.3), [&] {
      if (!alone) alone = persist_in(context, 1);
      const double together = persist_in(context, processes);
      return Measured{together / *alone, {{"seconds", together}, {"one_s", *alone}}};
    });
  context.measure("async", "ratio", Reach::at_most(1.03), [&] { return measure_async(context); });
}

const Registration kContainer("container", "containers against a serializer and raw writes", run);

}  // namespace
}  // namespace perdura::bench
