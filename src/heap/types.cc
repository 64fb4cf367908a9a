// Types of blocks: what the heap knows of where pointers are, and the relocation that follows from
// it.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_set>

#include "base/threads.hpp"
#include "heap/heap.hpp"
#include "heap/known_types.hpp"

namespace perdura::heap {

using detail::Mutator;
using detail::report;
using format::kTypesMax;
using format::kUnitBytes;
using format::PointerRun;
using format::PointerTag;
using format::TypeNode;
using format::UnitEntry;
using format::UnitKind;

namespace {

u64 node_bytes(const TypeNode& node) {
  return sizeof node + (u64{node.run_count} + node.tail_run_count) * sizeof(PointerRun) +
         node.tag_count * sizeof(PointerTag) + node.name_length + node.text_length;
}

constexpr u64 kExpectedAtOnce = 2 * kMiB;
constexpr size_t kRunsAtOnce = 32;  // as many as that, of slabs

std::byte* page_of(std::byte* address) {
  return address - reinterpret_cast<std::uintptr_t>(address) % kPageBytes;
}

u16 block_tag(u32 type_number, bool flexible) {
  return static_cast<u16>(2 * type_number + (flexible ? 1 : 0));
}

/// Whether a tag is that of a block of one of `count` types.
bool is_type(u16 tag, u64 count) { return tag / 2 != 0 && tag / 2 <= count; }

/// Copies what follows a node, in its order.
class Reader {
 public:
  explicit Reader(const TypeNode& node) : at_(reinterpret_cast<const std::byte*>(&node + 1)) {}
  template <class T>
  void read(T& into, u64 count) {
    into.resize(count);
    const u64 bytes = count * sizeof(into[0]);
    if (bytes != 0) std::memcpy(into.data(), at_, bytes);
    at_ += bytes;
  }

 private:
  const std::byte* at_;
};

class Writer {
 public:
  explicit Writer(TypeNode& node) : at_(reinterpret_cast<std::byte*>(&node + 1)) {}
  template <class T>
  void write(const T& from) {
    const u64 bytes = from.size() * sizeof(from[0]);
    if (bytes != 0) std::memcpy(at_, from.data(), bytes);
    at_ += bytes;
  }

 private:
  std::byte* at_;
};

Layout layout_of(const TypeNode& node) {
  Layout layout;
  layout.fingerprint = node.fingerprint;
  layout.size = node.size;
  layout.alignment = node.alignment;
  layout.tail_offset = node.tail_offset;
  layout.tail_stride = node.tail_stride;
  Reader reader(node);
  reader.read(layout.runs, node.run_count);
  reader.read(layout.tail_runs, node.tail_run_count);
  reader.read(layout.tags, node.tag_count);
  reader.read(layout.name, node.name_length);
  reader.read(layout.text, node.text_length);
  return layout;
}

}  // namespace

// --- the list of types ---------------------------------------------------------------------------

// What is wrong with the list, or "". The newest type is its first.
std::string Heap::read_types(std::vector<Layout>& types) const {
  const format::HeapHeader& header = units_.header();
  if (header.type_count > kTypesMax) return "there are more types than there can be";
  types.assign(header.type_count, {});
  u64 left = header.type_count;
  for (u64 at = header.types; at != 0; --left) {
    const auto wrong = [at](const std::string& what) {
      return "the type at region offset " + std::to_string(at) + " " + what;
    };
    if (left == 0) return "the list of types has no end";
    const u64 bytes = allocated_at(at);
    if (bytes < sizeof(TypeNode)) return wrong("is broken");
    const TypeNode& node = type_node(at);
    if (bytes < node_bytes(node) || node.number != left) return wrong("is broken");
    types[left - 1] = layout_of(node);
    if (const std::string problem = types[left - 1].problem(); !problem.empty())
      return wrong("has " + problem);
    types[left - 1].find_shared_words();
    at = node.next;
  }
  return left == 0 ? "" : "the number of types is wrong";
}

Result<std::vector<Layout>> Heap::types() const {
  return guarded([this]() -> Result<std::vector<Layout>> {
    std::vector<Layout> types;
    if (const std::string problem = read_types(types); !problem.empty()) return damaged(problem);
    return types;
  });
}

Status Heap::load_typed() {
  PERDURA_TRY(load());
  std::lock_guard lock(types_mutex_);
  return load_types();
}

Result<std::string> Heap::type_name(const void* address) {
  PERDURA_ASSIGN(const Block block, find_allocated(address));
  PERDURA_ASSIGN(const Layout* const layout, type_of(block));
  return layout->name;
}

Result<u64> Heap::least_bytes(const void* address) {
  PERDURA_ASSIGN(const Block block, find_allocated(address));
  PERDURA_ASSIGN(const Layout* const layout, type_of(block));
  return layout->size;
}

// Of a typed one.
Result<const Layout*> Heap::type_of(const Block& block) {
  return guarded([&]() -> Result<const Layout*> {
    PERDURA_TRY(load_typed());
    std::lock_guard lock(types_mutex_);
    const u16 tag = tag_of(block);
    if (!is_type(tag, types_.size())) return damaged("a block is of no known type");
    return &types_[tag / 2 - 1];
  });
}

// Once after opening, under types_mutex_.
Status Heap::load_types() {
  if (types_loaded_) return {};
  std::vector<Layout> types;
  if (const std::string problem = read_types(types); !problem.empty()) return damaged(problem);
  types_.assign(std::make_move_iterator(types.begin()), std::make_move_iterator(types.end()));
  names_.clear();
  for (u32 i = 0; i < types_.size(); ++i) names_.emplace(types_[i].name, i + 1);
  types_loaded_ = true;
  return {};
}

// 0: none has that name.
u32 Heap::find_type(std::string_view name) const {
  const auto found = names_.find(name);
  return found != names_.end() ? found->second : 0;
}

Failure Heap::other_layout(const Layout& stored, const Layout& wanted) const {
  return Failure{Code::kTypeMismatch,
                 "the type '" + wanted.name + "' has another layout than in '" + name_ +
                     "'; in the store: " + stored.text + "; in this program: " + wanted.text +
                     "; give the new layout another name and convert, or restore the old one"};
}

// The number of a type that the store knows, 0: it does not. Under types_mutex_.
Result<u32> Heap::known_number(const Layout& layout) {
  PERDURA_TRY(load_types());
  const u32 number = find_type(layout.name);
  if (number != 0 && types_[number - 1].fingerprint != layout.fingerprint)
    return other_layout(types_[number - 1], layout);
  return number;
}

Status Heap::expect_type(const perdura_type& type) {
  return guarded([&]() -> Status {
    std::lock_guard lock(types_mutex_);
    if (numbers_.contains(&type)) return {};
    PERDURA_ASSIGN(const Layout layout, Layout::of(type));
    PERDURA_ASSIGN(const u32 number, known_number(layout));
    if (number != 0) numbers_.emplace(&type, number);
    return {};
  });
}

Status Heap::expect_known_types() {
  return guarded([this]() -> Status {
    std::lock_guard lock(types_mutex_);
    PERDURA_TRY(load_types());
    std::vector<bool> fits(types_.size());
    std::vector<std::optional<Layout>> others(types_.size());
    Status status;
    // A record that says what cannot be is refused when the program uses it.
    for_each_known_type([&](const perdura_type& type) {
      const u32 number = status && type.name != nullptr ? find_type(type.name) : 0;
      if (number == 0) return;
      Result<Layout> layout = Layout::of(type);
      if (!layout && layout.failure().code == Code::kNoMemory) status = layout.failure();
      if (!layout) return;
      if (layout->fingerprint == types_[number - 1].fingerprint) fits[number - 1] = true;
      else others[number - 1] = std::move(*layout);
    });
    PERDURA_TRY(status);
    for (size_t i = 0; i < types_.size(); ++i)
      if (others[i] && !fits[i]) return other_layout(types_[i], *others[i]);
    return {};
  });
}

// The number of a type, which the store learns if it does not know it.
Result<u32> Heap::number_of(Mutator& mutator, const perdura_type& type) {
  std::lock_guard lock(types_mutex_);
  if (const auto known = numbers_.find(&type); known != numbers_.end()) return known->second;
  PERDURA_ASSIGN(const Layout layout, Layout::of(type));
  PERDURA_ASSIGN(const u32 number, number_of(mutator, layout));
  numbers_.emplace(&type, number);
  return number;
}

Result<u32> Heap::number_of(Mutator& mutator, const Layout& layout) {
  PERDURA_ASSIGN(const u32 known, known_number(layout));
  if (known != 0) return known;
  if (types_.size() == kTypesMax)
    return Failure{Code::kNoSpace, "'" + name_ + "' knows " + std::to_string(kTypesMax) +
                                       " types, which is the most it can"};
  const auto number = static_cast<u32>(types_.size() + 1);
  types_.push_back(layout);
  const Status added = guarded([&] {
    names_.emplace(types_.back().name, number);
    return add_type(mutator, layout, number);
  });
  if (added) return number;
  names_.erase(types_.back().name);
  types_.pop_back();
  return added.failure();
}

Status Heap::add_type(Mutator& mutator, const Layout& type, u32 number) {
  format::HeapHeader& header = units_.header();
  const TypeNode node{.next = header.types,
                      .fingerprint = type.fingerprint,
                      .number = number,
                      .size = type.size,
                      .alignment = type.alignment,
                      .tail_offset = type.tail_offset,
                      .tail_stride = type.tail_stride,
                      .run_count = static_cast<u32>(type.runs.size()),
                      .tail_run_count = static_cast<u32>(type.tail_runs.size()),
                      .tag_count = static_cast<u32>(type.tags.size()),
                      .name_length = static_cast<u32>(type.name.size()),
                      .text_length = static_cast<u32>(type.text.size()),
                      .reserved = 0};
  PERDURA_ASSIGN(void* const block, allocate(mutator, node_bytes(node), 16));
  auto* const made = new (block) TypeNode(node);
  Writer writer(*made);
  writer.write(type.runs);
  writer.write(type.tail_runs);
  writer.write(type.tags);
  writer.write(type.name);
  writer.write(type.text);
  store(mutator, header.types, region_.offset_of(made));
  store(mutator, header.type_count, header.type_count + 1);
  return {};
}

// --- typed blocks --------------------------------------------------------------------------------

Result<void*> Heap::allocate_typed(Mutator& mutator, const perdura_type& type, u64 count) {
  // A packed type's: pointers of the second object would lie across words.
  if (count > 1 && type.slot_count != 0 && type.size % sizeof(u64) != 0)
    return Failure{Code::kInvalidArgument,
                   std::string("objects of type '") + type.name +
                       "' hold pointers and their size is no multiple of 8 bytes: allocate each by "
                       "itself, or do not pack the type"};
  u64 bytes = 0;
  if (__builtin_mul_overflow(u64{type.size}, std::max<u64>(count, 1), &bytes))
    return Failure{Code::kNoSpace, std::to_string(count) + " objects of type '" + type.name +
                                       "' are larger than the region"};
  return allocate_of_type(mutator, type, bytes, false);
}

Result<void*> Heap::allocate_flexible(Mutator& mutator, const perdura_type& type, u64 bytes) {
  return allocate_of_type(mutator, type, std::max<u64>(bytes, type.size), true);
}

Result<void*> Heap::allocate_of_type(Mutator& mutator, const perdura_type& type, u64 bytes,
                                     bool flexible) {
  return guarded([&]() -> Result<void*> {
    ThreadCache& cache = cache_of(mutator);
    if (cache.type == &type)
      return allocate_tagged(mutator, block_tag(cache.type_number, flexible), bytes,
                             type.alignment);
    // The block first: a type is not learnt for one that there is no space for.
    PERDURA_TRY(expect_type(type));
    PERDURA_ASSIGN(void* const made, allocate_tagged(mutator, 0, bytes, type.alignment));
    // Without memory it throws, and the block would stay.
    const Result<u32> number = guarded([&] { return number_of(mutator, type); });
    if (!number) {
      PERDURA_TRY(deallocate(mutator, made));
      return number.failure();
    }
    cache.type = &type;
    cache.type_number = *number;
    PERDURA_ASSIGN(const Block block, find(made));
    store(mutator, tag_place(block), block_tag(*number, flexible));
    return made;
  });
}

Result<void*> Heap::reallocate_typed(Mutator& mutator, void* old, u64 bytes) {
  return guarded([&]() -> Result<void*> {
    PERDURA_ASSIGN(const Block block, find_allocated(old));
    PERDURA_ASSIGN(const Layout* const layout, type_of(block));
    const u64 wanted = std::max<u64>(bytes, layout->size);
    PERDURA_ASSIGN(void* const made,
                   allocate_tagged(mutator, tag_of(block), wanted, layout->alignment));
    std::memcpy(made, old, std::min(wanted, bytes_of(block)));
    PERDURA_TRY(deallocate(mutator, old));
    return made;
  });
}

// All zero: what is not stored to holds no pointer.
Result<void*> Heap::allocate_tagged(Mutator& mutator, u16 tag, u64 bytes, u64 alignment) {
  PERDURA_ASSIGN(void* const address, place_tagged(mutator, tag, bytes, alignment));
  const unsigned size_class = class_for(bytes, alignment);
  std::memset(
      address, 0,
      size_class != kSizes ? u64{kClassInfo[size_class].block_bytes} : round_up(bytes, kUnitBytes));
  return address;
}

// With whatever its space held before.
Result<void*> Heap::place_tagged(Mutator& mutator, u16 tag, u64 bytes, u64 alignment) {
  const unsigned size_class = class_for(bytes, alignment) + kSizes;
  PERDURA_ASSIGN(void* const address, allocate_in(mutator, size_class, bytes, alignment));
  if (size_class != kClasses) {
    const ClassInfo& info = kClassInfo[size_class];
    // Most are of the thread's current slab, but for a transaction's it may be another one.
    u64 unit = 0;
    format::UnitEntry entry{};
    Slab& slab = *slab_of(place_of(address), unit, entry);
    const auto offset =
        static_cast<u64>(place_of(address) - reinterpret_cast<const std::byte*>(&slab));
    store(mutator, slab.types(info)[offset * info.reciprocal >> 32], tag);
    return address;
  }
  const u64 unit = units_.unit_of(place_of(address));
  store(mutator, units_.table()[unit].mark, tag);
  report(mutator, address, u64{units_.entry(unit).units} * kUnitBytes);
  return address;
}

// Of a typed one.
u16& Heap::tag_place(const Block& block) const {
  if (block.slab == nullptr) return units_.table()[block.unit].mark;
  return block.slab->types(kClassInfo[block.entry.size_class])[block.index];
}

u16 Heap::tag_of(const Block& block) const {
  if (block.slab == nullptr) return block.entry.mark;
  return kClassInfo[block.entry.size_class].types_at != 0 ? tag_place(block) : 0;
}

// What is wrong with the types and with the types of blocks, or "".
std::string Heap::check_types(u64& count) const {
  std::vector<Layout> types;
  if (std::string problem = read_types(types); !problem.empty()) return problem;
  count = types.size();
  std::string problem;
  for_each_block([&](const std::byte* place, u64 bytes, u16 tag) {
    const bool known = tag == 0 || is_type(tag, count);
    if (known && (tag == 0 || bytes >= types[tag / 2 - 1].size)) return;
    problem = "the block at region offset " + std::to_string(region_.offset_of(place)) +
              (known ? " is smaller than an object of its type" : " is of no known type");
  });
  return problem;
}

// --- relocation ----------------------------------------------------------------------------------

Status Heap::relocate(Mutator& mutator, const BeforeStores& before_stores) {
  const u64 from = units_.header().address;
  const auto to = reinterpret_cast<std::uintptr_t>(region_.base());
  if (from == to) return {};
  return guarded([&]() -> Status {
    PERDURA_TRY(load());
    std::lock_guard lock(types_mutex_);
    PERDURA_TRY(load_types());
    PERDURA_TRY(require_types());
    const u64 length = region_.reserved_bytes();
    const auto move = [&](u64* word, bool) {
      if (*word - from >= length) return;
      report(mutator, word, sizeof *word);
      *word += to - from;
    };
    // A mutator reports for one thread.
    for_each_run(mutator.ignores_reports,
                 [&](std::span<const u64> runs) { move_words(runs, before_stores, move); });
    store(mutator, units_.header().address, u64{to});
    return {};
  });
}

template <class Move>
void Heap::move_words(std::span<const u64> runs, const BeforeStores& before_stores,
                      const Move& move) const {
  const Layouts layouts(types_);
  std::byte* expected = units_.address(runs.front());
  std::byte* const end = units_.address(runs.back()) + units_.entry(runs.back()).units * kUnitBytes;
  for_each_block_in(runs, [&](std::byte* place, u64 bytes, u16 tag) {
    const Layout* const layout = layouts.of(tag);
    if (layout == nullptr || !layout->has_pointers()) return;
    // Most pages change.
    if (place + bytes > expected) {
      std::byte* const first = std::max(expected, page_of(place));
      expected =
          std::min(end, std::max(page_of(place + bytes - 1) + kPageBytes, first + kExpectedAtOnce));
      before_stores(first, static_cast<u64>(expected - first));
    }
    layout->for_each_pointer(place, bytes, (tag & 1) != 0, move);
  });
}

// Calls work(runs), which must not throw, for all first units of slabs and large blocks, some at a
// time, in several threads if that is wanted.
template <class Work>
void Heap::for_each_run(bool in_threads, const Work& work) const {
  std::vector<u64> runs;
  units_.for_each([&](u64 unit, const UnitEntry&) {
    runs.push_back(unit);
    return true;
  });
  std::atomic<size_t> next{0};
  share_among_threads(in_threads ? runs.size() / kRunsAtOnce : 1, [&]() noexcept {
    for (;;) {
      const size_t first = next.fetch_add(kRunsAtOnce);
      if (first >= runs.size()) return;
      work(std::span<const u64>(&runs[first], std::min(kRunsAtOnce, runs.size() - first)));
    }
  });
}

template <class Visit>
void Heap::for_each_block_in(std::span<const u64> runs, const Visit& visit) const {
  for (const u64 unit : runs) for_each_block_at(unit, units_.entry(unit), visit);
}

// Beside the heap's own blocks each must have a type. The list of types was checked.
Status Heap::require_types() const {
  std::unordered_set<u64> own;
  for (u64 at = units_.header().types; at != 0; at = type_node(at).next) own.insert(at);
  u64 count = 0;
  if (const std::string problem = check_roots(count); !problem.empty()) return damaged(problem);
  for (u64 at = units_.header().roots; at != 0; at = root_node(at).next) own.insert(at);

  std::atomic<u64> untyped{0};
  std::atomic<bool> impossible{false};
  for_each_run(true, [&](std::span<const u64> runs) {
    for_each_block_in(runs, [&](const std::byte* place, u64 bytes, u16 tag) {
      if (tag == 0 && !own.contains(region_.offset_of(place))) ++untyped;
      if (tag != 0 && (!is_type(tag, types_.size()) || bytes < types_[tag / 2 - 1].size))
        impossible = true;
    });
  });
  if (impossible) return damaged("a block is of no known type, or smaller than an object of it");
  if (untyped == 0) return {};
  return Failure{Code::kAddressTaken,
                 std::to_string(untyped) + " blocks of '" + name_ +
                     "' have no type record, so their pointers cannot be moved to another address"};
}

}  // namespace perdura::heap
