#include "golden.hpp"

namespace perdura::golden {
namespace {

/// Open until the process ends.
Store& open(const std::string& path, const Options& options) {
  return *new Store(Store::open(path, options));
}

std::string check_list(Store& store) {
  return wrong_with(store.find_root<List>("list"), {1000, 0});
}

void make_list(Store& store) {
  fill(store, "list", 0);
  store.checkpoint();
  fill(store, "list", 1000);
  store.checkpoint();
}

void make_transactions(Store& store, bool closes) {
  auto& numbers = store.root<List>("numbers");
  fill(store, "list", 0);
  atomically(store, [&](Transaction& tx) { tx.write(numbers.count, std::uint64_t{0}); });
  store.checkpoint();
  for (std::uint64_t i = 0; i < kNumbers; ++i)
    atomically(store, [&](Transaction& tx) {
      tx.write(numbers.first, tx.make<Node>(tx.read(numbers.first), i));
      tx.write(numbers.count, i + 1);
    });
  if (closes) store.close();
}

std::string check_transactions(Store& store) {
  const List* const numbers = store.find_root<List>("numbers");
  if (numbers == nullptr || numbers->count != kNumbers) return "transactions are missing";
  std::uint64_t left = kNumbers;
  for (const Node* node = numbers->first; node != nullptr; node = node->next)
    if (node->number != --left) return "a transaction's node is another one";
  return left == 0 ? wrong_with(store.find_root<List>("list"), {0}) : "nodes are missing";
}

void make_standard(Store& store) {
  auto& numbers = store.root<Numbers>("numbers");
  {
    const auto operation = store.operation();
    for (std::uint64_t i = 0; i < kNumbers; ++i)
      numbers.emplace(i, perdura::string(std::string(i, 'x').c_str()));
  }
  store.checkpoint();
}

std::string check_standard(Store& store) {
  const auto* const numbers = store.find_root<Numbers>("numbers");
  if (numbers == nullptr || numbers->size() != kNumbers) return "the map has another size";
  for (const auto& [number, text] : *numbers)
    if (text.size() != number || text.find_first_not_of('x') != perdura::string::npos)
      return "a string is another one";
  return "";
}

/// Opens the store, and audits its heap as well.
template <class Check>
auto opened(const Options& options, Check check) {
  return [options, check](const std::string& path) -> std::string {
    Store store = Store::open(path, options);
    if (const HeapAudit audit = store.audit(); !audit.clean) return audit.problem;
    return check(store);
  };
}

Options other_region() {
  Options options = in_chunks();
  options.region = "other";
  return options;
}

void make_container(const std::string& path) {
  auto& container = *new Container(Container::open(path, in_chunks()));
  List& list = container.root<List>();
  for (std::uint64_t i = 0; i < kNodes; ++i) list.first = make<Node>(list.first, i);
  list.count = kNodes;
  container.point();
}

std::string check_container(const std::string& path) {
  Container container = Container::open(path, in_chunks());
  return wrong_with(&container.root<List>(), {0});
}

// Some calls in both copies, some in the newer one, some in the log alone.
constexpr std::uint32_t kTallies = 600;

void make_objects(const std::string& path) {
  auto& objects = *new Objects(Objects::open(path));
  auto& tally = *new Object<Tally>(
      objects.object<Tally>("tally", {.history = ObjectHistory::kLast, .callers = 4}));
  for (std::uint32_t i = 0; i < kTallies; ++i) {
    tally.defer<&Tally::add>(i, i + 1);
    if (i % 7 == 0) tally.call<&Tally::take>(i);
    if (i % 200 == 150) tally.checkpoint();
  }
  tally.sync();
}

std::string check_objects(const std::string& path) {
  Objects objects = Objects::open(path);
  Object<Tally> tally = objects.object<Tally>("tally");
  for (std::uint32_t i = 0; i < kTallies; ++i)
    if (tally.read<&Tally::at>(i) != (i % 7 == 0 ? std::uint64_t{i + 1} * 3 + 1 : i + 1))
      return "a sum is another one";
  objects.close();
  return "";
}

// What waits in the log is of the build that made the image, until it was executed.
std::string check_objects_of_a_build(const std::string& path) {
  const auto last = [](Object<Tally>& tally) { return tally.read<&Tally::at>(kTallies - 1); };
  bool refused = false;
  try {
    Objects objects = Objects::open(path);
    (void)objects.object<Tally>("tally", {.same_build = true});
  } catch (const Error& error) {
    refused = error.code() == Code::kIncompatible;
    if (std::string(error.what()).find(" of make_images, and this program is build ") ==
        std::string::npos)
      return error.what();
  }
  Objects objects = Objects::open(path);
  Object<Tally> tally = objects.object<Tally>("tally");
  const bool was_used = last(tally) != kTallies;
  if (refused == was_used) return "another build does what waits in it, or its own does not";
  if (!was_used) tally.call<&Tally::take>(kTallies - 1);
  return last(tally) == kTallies * 3 + 1 ? "" : "a sum is another one";
}

// Of another size than it was made, in another place, with an owner and worn free space in its
// head.
constexpr std::uint64_t kRowWords = 700;
constexpr std::uint64_t row_bytes(std::uint64_t words) { return sizeof(Row) + words * 8; }

void make_row(const std::string& path) {
  auto& objects = *new Objects(Objects::open(path, {.wear_moves = 5}));
  auto& row = *new Object<Row>(objects.object<Row>(
      "row", {.log_bytes = 8192, .checkpoint_calls = 20, .bytes = row_bytes(kRowWords / 2)}));
  for (std::uint64_t i = 0; i < kRowWords / 2; ++i) row.call<&Row::swap>(i, i + 1);
  row.resize(row_bytes(kRowWords));
  for (std::uint64_t i = kRowWords / 2; i < kRowWords; ++i) row.defer<&Row::put>(i, i + 1);
  row.sync();
}

std::string check_row(const std::string& path) {
  Objects objects = Objects::open(path, {.wear_moves = 5});
  if (objects.list().at(0).owner_pid == 0) return "nobody has it";
  Object<Row> row = objects.object<Row>("row");
  if (row.bytes() != row_bytes(kRowWords)) return "it has another size";
  for (std::uint64_t i = 0; i < kRowWords; ++i)
    if (row.read<&Row::at>(i) != i + 1) return "a word is another one";
  objects.close();
  return "";
}

// All calls are kept: some in the archive, some in the log alone. The program that makes them again
// is answered as it was.
std::string run_recorded(Objects& objects) {
  const Caller caller(objects, 3);
  Object<Tally> tally = objects.object<Tally>(
      "recorded",
      {.log_bytes = 8192, .history = ObjectHistory::kAll, .callers = 4, .archive_bytes = 65536});
  for (std::uint32_t i = 0; i < kTallies; ++i) {
    tally.defer<&Tally::add>(i, i + 1);
    if (i % 7 == 0 && tally.call<&Tally::take>(i) != i + 1) return "an answer is another one";
    if (i == 400) tally.checkpoint();
  }
  tally.sync();
  return "";
}

void make_recorded(const std::string& path) { run_recorded(*new Objects(Objects::open(path))); }

std::string check_recorded(const std::string& path) {
  Objects objects = Objects::open(path);
  const Object<Tally> tally = objects.object<Tally>("recorded");
  if (Caller(objects, 3).recorded(tally) != kTallies + (kTallies + 6) / 7)
    return "calls are missing";
  return run_recorded(objects);
}

// Space for one of three: one is away and was called there again, one has never been opened since
// it moved, and for the third its copy there stands in for a second one.
constexpr const char* kTravellers[] = {"first", "second", "third"};

ObjectsOptions with_overflow(const std::string& path) {
  return {.bytes_max = 48 << 10, .overflow = "file:" + path + ".overflow"};
}

void make_overflow(const std::string& path) {
  auto& objects = *new Objects(Objects::open(path, with_overflow(path)));
  for (int round = 0; round < 2; ++round)
    for (const char* name : kTravellers) {
      auto& tally = *new Object<Tally>(objects.object<Tally>(name, {.log_bytes = 8192}));
      for (std::uint32_t i = 0; i < 10; ++i) tally.call<&Tally::take>(i);
    }
}

std::string check_overflow(const std::string& path) {
  Objects objects = Objects::open(path, with_overflow(path));
  std::uint64_t away = 0;
  for (const ObjectDescription& each : objects.list()) away += each.in_overflow;
  if (away != 2) return "another number of them is away";
  for (const char* name : kTravellers) {
    Object<Tally> tally = objects.object<Tally>(name, {.log_bytes = 8192});
    if (tally.read<&Tally::at>(9) != 4 || tally.read<&Tally::at>(10) != 0)
      return "a sum is another one";
  }
  objects.close();
  return "";
}

}  // namespace

std::vector<Image> images() {
  const auto list_of = [](const Options& options) {
    return [options](const std::string& path) { make_list(open(path, options)); };
  };
  const auto check_regions = [](const std::string& path) {
    const std::string wrong = opened(small(), check_list)(path);
    return wrong.empty() ? opened(other_region(), check_list)(path) : wrong;
  };
  return {
      {"log_closed",
       [](const std::string& path) {
         Store store = Store::open(path, small());
         make_list(store);
         store.close();
       },
       opened(small(), check_list)},
      {"log_open", list_of(small()), opened(small(), check_list)},
      {"chunks", list_of(in_chunks()), opened(in_chunks(), check_list)},
      {"aliases", list_of(aliased()), opened(aliased(), check_list)},
      {"regions",
       [=](const std::string& path) {
         list_of(small())(path);
         list_of(other_region())(path);
       },
       check_regions},
      {"standard_containers", [](const std::string& path) { make_standard(open(path, small())); },
       opened(small(), check_standard)},
      {"transactions_closed",
       [](const std::string& path) { make_transactions(open(path, small()), true); },
       opened(small(), check_transactions)},
      {"transactions_open",
       [](const std::string& path) { make_transactions(open(path, small()), false); },
       opened(small(), check_transactions)},
      {"container", make_container, check_container},
      {"copies_closed",
       [](const std::string& path) {
         Store store = Store::open(path, in_two_copies());
         make_list(store);
         store.close();
       },
       opened(in_two_copies(), check_list), 4},
      {"copies_open", list_of(in_two_copies()), opened(in_two_copies(), check_list), 4},
      {"objects", make_objects, check_objects, 4},
      {"objects_of_a_build", make_objects, check_objects_of_a_build, 4},
      {"objects_moved", make_row, check_row, 4},
      {"objects_recorded", make_recorded, check_recorded, 4},
      {"objects_in_two_stores", make_overflow, check_overflow, 4},
  };
}

}  // namespace perdura::golden
