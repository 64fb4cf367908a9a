// Goal: whatever the medium of a store with objects holds, checking, describing and opening them
// end with a sentence or with objects that work: no function runs that the program does not have,
// none with arguments that it does not accept or that are not there, nothing crashes, hangs, leaks
// or reads out of bounds. Method: the input chooses one of the stores that are made here, one of
// them with an overflow store or that one, and overwrites fields of its structures: superblocks,
// directory, heads, copies, entries, names, the overflow record. Then all checksums are made to fit
// again, those of groups of entries as well; the input may exempt any.
#include <perdura/objects.hpp>

#include "format/object_format.hpp"
#include "support/heads.hpp"
#include "support/opened.hpp"
#include "support/patch.hpp"

namespace perdura::fuzz {

constexpr u32 kRows = 8;

/// Each method finds out whether it runs with what nobody may call it with.
struct Sheet {
  struct Wide {
    u64 words[20];
  };
  u64 rows[kRows];
  u64 calls;

  void add(u32 row, u64 value) noexcept {
    require(accepts(row, value), "a method runs with what it does not accept");
    rows[row] += value;
    ++calls;
  }
  void fill(u32 row, Wide wide) noexcept {
    require(is_row(row, wide), "a method runs with what it does not accept");
    for (const u64 word : wide.words) rows[row] = rows[row] * 31 + word;
    ++calls;
  }
  u64 tell(u32 row) noexcept {
    require(has(row), "a method runs with what it does not accept");
    ++calls;
    return ++rows[row];
  }
  void clear() noexcept { *this = {}; }
  Sheet all() const noexcept { return *this; }

  static bool accepts(u32 row, u64) noexcept { return row < kRows; }
  static bool is_row(u32 row, Wide) noexcept { return row < kRows; }
  static bool has(u32 row) noexcept { return row < kRows; }
  static Domain of(u32 row) noexcept { return Domain(row); }
  static bool join(std::tuple<u32, u64>& first, const std::tuple<u32, u64>& next) noexcept {
    if (std::get<0>(first) != std::get<0>(next)) return false;
    std::get<1>(first) += std::get<1>(next);
    return true;
  }
};

}  // namespace perdura::fuzz

template <>
struct perdura::Methods<perdura::fuzz::Sheet>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::fuzz::Sheet::add, &perdura::fuzz::Sheet::of,
                              &perdura::fuzz::Sheet::join, perdura::kCommutes,
                              &perdura::fuzz::Sheet::accepts>,
          perdura::Deferrable<&perdura::fuzz::Sheet::fill, &perdura::fuzz::Sheet::is_row>,
          perdura::Deferrable<&perdura::fuzz::Sheet::clear>,
          perdura::Instant<&perdura::fuzz::Sheet::tell, &perdura::fuzz::Sheet::of,
                           &perdura::fuzz::Sheet::has>> {};

namespace perdura::fuzz {
namespace {

using format::ObjectCaller;
using format::ObjectEntry;
using format::ObjectHead;

/// Bits of Head::how.
enum How : u8 {
  kBlockMedium = 1,
  kNoCheck = 2,
  kNoDescription = 4,
  kNoOpening = 8,
  kRemove = 16,
  kApart = 32,  ///< each thread runs its own calls
  kSameBuild = 64,
  kNoOverflow = 128,  ///< it is opened without the overflow store
};

/// Bits of Head::unsummed.
enum Sum : u8 {
  kSumCopies = 1,
  kSumGroups = 2,
  kSumHeads = 4,
  kSumDirectory = 8,
  kSumSuperblocks = 16,
  kSumArchives = 32,
  kSumBuilds = 64
};

constexpr u64 kLinesAtOnce = 16;  // where a patch may be, of those that follow a place

constexpr u64 kKindsAlone = 3;  // of stores without an overflow store

constexpr const char* kNames[] = {"plain", "with callers", "removed", "all"};

struct Base {
  Bytes image;
  Bytes other;  ///< the store whose objects it has, or which has its objects; nothing: neither
  bool is_overflow = false;
  std::vector<u64> slots;    ///< of heads that are whole
  std::vector<u64> records;  ///< overflow records
  std::vector<Area> areas;
  std::vector<u64> values;  ///< that mean something
};

// --- the stores ----------------------------------------------------------------------------------

void call_some(Object<Sheet> sheet, u64 calls) {
  for (u64 i = 0; i < calls; ++i) {
    sheet.defer<&Sheet::add>(static_cast<u32>(i % kRows), i);
    if (i % 5 == 1) sheet.defer<&Sheet::fill>(static_cast<u32>(i % kRows), Sheet::Wide{{i}});
    if (i % 3 == 0) sheet.call<&Sheet::tell>(static_cast<u32>(i % kRows));
  }
  sheet.sync();
}

/// As the death of the process leaves it: logs with calls of this session, of one before, or none.
Bytes make_store(u64 kind) {
  MemoryFile file;
  file.resize(kPageBytes);
  const std::string uri = "file:" + file.path();
  for (u64 session = 0; session <= kind; ++session) {
    Objects objects = Objects::open(uri);
    ObjectOptions options;
    options.log_bytes = 8192;
    options.checkpoint_calls = 30;
    const Object<Sheet> plain = objects.object<Sheet>(kNames[0], options);
    options.history = ObjectHistory::kLast;
    options.callers = 4;
    const Object<Sheet> with_callers = objects.object<Sheet>(kNames[1], options);
    options.history = ObjectHistory::kAll;
    options.archive_bytes = 4 * kPageBytes;
    const Object<Sheet> all = objects.object<Sheet>(kNames[3], options);
    if (session == 0) {
      call_some(objects.object<Sheet>(kNames[2], options), 3);
      objects.remove(kNames[2]);
    }
    call_some(plain, 25);
    for (u32 potid = 1; potid < 4; ++potid) {
      const Caller caller(objects, potid);
      call_some(with_callers, 5);
      call_some(all, 5 * (session + 1));  // as before, and then more
    }
    if (session == kind) return file.read();
  }
  return {};
}

constexpr u64 kOnePlace = 9 * kPageBytes;  // for the copies and the log of one, and all names

/// Objects that have moved: one is at home, in one copy, for whose other one its copy in the
/// overflow store stands in; one was moved out unopened, with its log.
void make_two_stores(Bytes& home, Bytes& overflow) {
  MemoryFile file;
  MemoryFile other;
  file.resize(kPageBytes);
  other.resize(kPageBytes);
  const ObjectOptions options{.log_bytes = 8192, .checkpoint_calls = 30};
  for (int session = 0; session < 2; ++session) {
    Objects objects = Objects::open("file:" + file.path(),
                                    {.bytes_max = kOnePlace, .overflow = "file:" + other.path()});
    for (const char* name : {kNames[1], kNames[0], kNames[2]})
      if (session == 0 || name != kNames[1]) call_some(objects.object<Sheet>(name, options), 5);
    if (session == 0) continue;
    home = file.read();
    overflow = other.read();
  }
}

void find_heads(Base& base, const Heads& heads) {
  for (const format::Extent& extent : heads.extents) {
    if (extent.kind != format::ExtentKind::kObjectHeads) continue;
    for (u64 at = 0; at < extent.length; at += format::kObjectHeadBytes) {
      const u64 place = extent.medium_offset + at;
      if (load<ObjectHead>(base.image, place).magic == format::kObjectMagic)
        base.slots.push_back(place);
    }
  }
}

/// Of an overflow store: its record, and what objects of the other store have there.
Base make_overflow_base() {
  Base base;
  base.is_overflow = true;
  make_two_stores(base.other, base.image);
  const Heads heads = read_heads(base.image);
  std::vector<u64> copies;
  for (const format::Extent& extent : heads.extents)
    (extent.kind == format::ExtentKind::kObjectHeads ? base.records : copies)
        .push_back(extent.medium_offset);
  require(!base.records.empty() && !copies.empty(), "the overflow store has copies");
  for (u64 page = 1; page < 8; ++page) copies.push_back(copies.front() + page * kPageBytes);
  base.values = {0, 1, 2, kPageBytes, u64{1} << 32, u64{1} << 63, ~u64{0}};
  base.areas = head_areas(heads);
  base.areas.insert(base.areas.end(), {{base.records, sizeof(format::OverflowRecord)},
                                       {copies, 2 * kLineBytes},
                                       {{0}, base.image.size()}});
  return base;
}

Base make_base(u64 kind) {
  Base base;
  if (kind < kKindsAlone) base.image = make_store(kind);
  else make_two_stores(base.image, base.other);
  const Heads heads = read_heads(base.image);
  find_heads(base, heads);
  require(base.slots.size() >= 4, "the store has objects");
  std::vector<u64> lines;
  std::vector<u64> copies;
  std::vector<u64> names;
  std::vector<u64> archives;
  std::vector<u64> builds;
  for (const u64 slot : base.slots) {
    builds.push_back(slot + format::kObjectBuildOffset);
    const auto head = load<ObjectHead>(base.image, slot);
    if (head.log_lines == 0) continue;
    if (std::ranges::count(lines, head.log_place) != 0) continue;  // the other slot of one
    for (u64 line = 0; line < head.log_lines && !is_in_overflow(head); line += kLinesAtOnce)
      lines.push_back(head.log_place + line * kLineBytes);
    if (!is_in_overflow(head))
      copies.insert(copies.end(), {head.copy_place[0], head.copy_place[1]});
    names.push_back(head.functions_place);
    if (head.archive_lines != 0) archives.push_back(head.archive_place);
    base.values.insert(base.values.end(),
                       {head.checkpoint, head.session, head.log_place, head.copy_place[0],
                        head.functions_place, head.log_lines, head.functions_bytes,
                        head.archive_place, head.archive_lines, head.archive_used});
  }
  for (const u64 value : {u64{0}, u64{1}, u64{2}, u64{63}, u64{64}, u64{kPageBytes}, u64{1} << 16,
                          u64{1} << 20, u64{1} << 32, u64{1} << 62, u64{1} << 63, ~u64{0}})
    base.values.push_back(value);
  base.areas = head_areas(heads);
  base.areas.insert(base.areas.end(), {{base.slots, sizeof(ObjectHead)},
                                       {lines, kLinesAtOnce * kLineBytes},
                                       {copies, 2 * kLineBytes + 4 * sizeof(ObjectCaller)},
                                       {names, 256},
                                       {archives, 4 * kPageBytes},
                                       {{0}, base.image.size()},
                                       {builds, sizeof(format::ObjectBuild)}});
  return base;
}

const Base& base_of(u8 store) {
  static const std::array bases = {make_base(0), make_base(1), make_base(2), make_base(kKindsAlone),
                                   make_overflow_base()};
  return bases[store % bases.size()];
}

// --- patches -------------------------------------------------------------------------------------

/// An image to be changed, and then summed again.
struct Image {
  const Base& base;
  Bytes bytes = base.image;

  void apply(const Patch& patch) {
    const Area& area = base.areas[patch.area % base.areas.size()];
    if (!area.places.empty()) change(bytes, area.place_of(patch), patch, base.values);
  }
  bool has(u64 place, u64 length) const {
    return place <= bytes.size() && length <= bytes.size() - place;
  }
  void sum_copy(ObjectHead& head) const;
  void sum_groups(const ObjectHead& head);
  void sum_archive(ObjectHead& head);
  void sum(u8 unsummed);
};

void Image::sum_copy(ObjectHead& head) const {
  const Bytes& store = is_in_overflow(head) ? base.other : bytes;
  const u64 copy = head.copy_place[head.copy & 1];
  const u64 image = head.bytes < bytes.size() && head.callers < bytes.size()
                        ? format::object_image_bytes(head)
                        : ~u64{0};
  if (copy <= store.size() && image <= store.size() - copy) {
    std::vector<u64> sums;  // of any number of pages, as ObjectCopies makes them
    for (u64 at = 0; at < image; at += kPageBytes)
      sums.push_back(checksum(store.data() + copy + at, std::min<u64>(kPageBytes, image - at)));
    head.copy_checksum = checksum(sums.data(), sums.size() * sizeof(u64));
  }
  if (has(head.functions_place, head.functions_bytes))
    head.functions_checksum = checksum(bytes.data() + head.functions_place, head.functions_bytes);
}

// As ObjectLog makes them.
void Image::sum_groups(const ObjectHead& head) {
  constexpr u64 kOdd = 0x9e3779b97f4a7c15;
  const u64 lines = head.log_lines;
  if (is_in_overflow(head)) return;
  if (lines == 0 || lines > (1 << 16) || !has(head.log_place, lines * kLineBytes)) return;
  std::byte* const log = bytes.data() + head.log_place;
  for (u64 at = 0; at < lines; ++at) {
    ObjectEntry entry;
    std::memcpy(&entry, log + at * kLineBytes, sizeof entry);
    const u64 count = entry.group - u64{1} + entry.lines;
    if (entry.group == 0 || entry.group > lines || count > lines) continue;
    entry.checksum = 0;
    std::memcpy(log + at * kLineBytes, &entry, sizeof entry);
    const u64 begin = (at + lines - (entry.group - 1)) % lines;
    const u64 until_end = std::min(count, lines - begin);
    u64 sum = checksum(log + begin * kLineBytes, until_end * kLineBytes);
    if (until_end != count) sum += kOdd * checksum(log, (count - until_end) * kLineBytes);
    entry.checksum =
        sum + (head.log_place + head.identity * kOdd) * kOdd + head.session * kOdd * kOdd * kOdd;
    std::memcpy(log + at * kLineBytes, &entry, sizeof entry);
  }
}

// As ObjectArchive makes them, and ends with the last one that can be.
void Image::sum_archive(ObjectHead& head) {
  if (head.archive_lines == 0 || head.archive_used > head.archive_lines ||
      !has(head.archive_place, head.archive_used * kLineBytes))
    return;
  u64 sum = head.identity;
  u64 at = 0;
  while (at < head.archive_used) {
    const u64 place = head.archive_place + at * kLineBytes;
    auto block = load<format::ObjectArchiveBlock>(bytes, place);
    if (block.lines == 0 || block.lines > head.archive_used - at) break;
    block.previous = sum;
    store(bytes, place, block);
    sum = checksum(bytes.data() + place + sizeof sum, block.lines * kLineBytes - sizeof sum);
    store(bytes, place, sum);
    at += block.lines;
  }
  head.archive_sum = sum;
}

void Image::sum(u8 unsummed) {
  for (const u64 slot : base.slots) {
    auto head = load<ObjectHead>(bytes, slot);
    if ((unsummed & kSumGroups) == 0) sum_groups(head);
    if ((unsummed & kSumCopies) == 0) sum_copy(head);
    if ((unsummed & kSumArchives) == 0) sum_archive(head);
    if ((unsummed & kSumHeads) == 0)
      head.checksum = checksum(&head.magic, sizeof head - sizeof head.checksum);
    store(bytes, slot, head);
    if ((unsummed & kSumBuilds) != 0) continue;
    auto build = load<format::ObjectBuild>(bytes, slot + format::kObjectBuildOffset);
    build.checksum = checksum(&build.sequence, sizeof build - sizeof build.checksum);
    store(bytes, slot + format::kObjectBuildOffset, build);
  }
  for (const u64 place : base.records) {
    auto record = load<format::OverflowRecord>(bytes, place);
    record.checksum = checksum(&record.magic, sizeof record - sizeof record.checksum);
    if ((unsummed & kSumHeads) == 0) store(bytes, place, record);
  }
  sum_heads(bytes, (unsummed & kSumDirectory) == 0, (unsummed & kSumSuperblocks) == 0);
}

// --- the run -------------------------------------------------------------------------------------

/// What a program does with an object, and finds when it opens it again.
void use_object(const std::string& uri, const ObjectsOptions& there, const std::string& name,
                const ObjectOptions& options) {
  Sheet before{};
  try {
    Objects objects = Objects::open(uri, there);
    Object<Sheet> sheet = objects.object<Sheet>(name, options);
    for (u32 potid = 0; potid < 6; ++potid) {
      try {
        const Caller caller(objects, potid);
        sheet.defer<&Sheet::add>(potid, u64{1});
        sheet.call<&Sheet::tell>(potid);
        (void)caller.recorded();
      } catch (const Error& error) {  // more callers than it has room for, or others' calls
        require(error.code() == Code::kNoSpace || error.code() == Code::kIo ||
                    error.code() == Code::kMisuse,
                error.what());
      }
    }
    before = sheet.read<&Sheet::all>();
    objects.close();
  } catch (const Error& error) {
    require(*error.what() != '\0', "a refusal says why");
    return;
  }
  try {
    Objects objects = Objects::open(uri, there);
    const Sheet after = objects.object<Sheet>(name, options).read<&Sheet::all>();
    require(std::memcmp(&before, &after, sizeof before) == 0, "an object is what it was");
  } catch (const Error& error) {
    finding(std::string("an object that worked is refused: ") + error.what());
  }
}

/// `overflow`: its URI; "": it is opened without one.
void open_and_use_objects(const std::string& uri, const std::string& overflow, u8 how) {
  ObjectsOptions there;
  there.create = false;
  there.overflow = overflow;
  if (!overflow.empty()) there.bytes_max = kOnePlace;
  ObjectOptions options;
  options.log_bytes = 8192;
  options.checkpoint_calls = 7;
  if ((how & kApart) != 0) options.servers = 0;
  options.same_build = (how & kSameBuild) != 0;
  for (const char* name : kNames) use_object(uri, there, name, options);
  if ((how & kRemove) == 0) return;
  try {
    Objects objects = Objects::open(uri, there);
    for (const ObjectDescription& each : objects.list()) objects.remove(each.name);
    require(objects.list().empty(), "objects that were removed are gone");
    objects.close();
  } catch (const Error& error) {
    require(*error.what() != '\0', "a refusal says why");
  }
}

}  // namespace
}  // namespace perdura::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace perdura::fuzz;
  static MemoryFile file;
  static MemoryFile other;
  Input input(data, size);
  const auto head = input.take<Head>();
  const Base& base = base_of(head.store);
  const Bytes bytes = patched(Image{base}, head, input);
  file.write(bytes);
  other.write(base.other);
  const std::string uri = ((head.how & kBlockMedium) != 0 ? "file:" : "emu:") + file.path();
  const std::string beside = base.other.empty() ? "" : "file:" + other.path();
  if (bytes.empty()) return 0;
  look(uri, {(head.how & kNoCheck) == 0, (head.how & kNoDescription) == 0});
  const bool checks_both = !beside.empty() && (head.how & kNoCheck) == 0;
  if (checks_both)
    (void)perdura::store::check(base.is_overflow ? beside : uri, {}, perdura::store::no_progress,
                                base.is_overflow ? uri : beside);
  require(file.holds(bytes), "looking at a store changes nothing");
  if ((head.how & kNoOpening) != 0) return 0;
  if (base.is_overflow) open_and_use_objects(beside, uri, head.how);
  else open_and_use_objects(uri, (head.how & kNoOverflow) != 0 ? "" : beside, head.how);
  return 0;
}

#ifdef PERDURA_LIBFUZZER
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using namespace perdura::fuzz;
  return mutate({data, size, max_size}, base_of(0).areas.size(), seed);
}
#endif
