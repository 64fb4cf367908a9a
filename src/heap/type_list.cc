#include "heap/type_list.hpp"

#include <cstring>
#include <optional>

#include "heap/heap.hpp"
#include "heap/known_types.hpp"
#include "heap/record_members.hpp"

namespace perdura::heap {

using detail::Mutator;
using format::kTypesMax;
using format::PointerRun;
using format::PointerTag;
using format::TypeNode;

namespace {

u64 node_bytes(const TypeNode& node) {
  return sizeof node + (u64{node.run_count} + node.tail_run_count) * sizeof(PointerRun) +
         node.tag_count * sizeof(PointerTag) + node.name_length + node.text_length;
}

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

TypeList::TypeList(Heap& heap) : heap_(heap), blocks_(heap.blocks()) {}

// The newest type is its first.
std::string TypeList::problem(std::vector<Layout>& types) const {
  const format::HeapHeader& header = blocks_.units().header();
  if (header.type_count > kTypesMax) return "there are more types than there can be";
  types.assign(header.type_count, {});
  u64 left = header.type_count;
  for (u64 at = header.types; at != 0; --left) {
    const auto wrong = [at](const std::string& what) {
      return "the type at region offset " + std::to_string(at) + " " + what;
    };
    if (left == 0) return "the list of types has no end";
    const u64 bytes = blocks_.allocated_at(at);
    if (bytes < sizeof(TypeNode)) return wrong("is broken");
    const TypeNode& node = node_at(at);
    if (bytes < node_bytes(node) || node.number != left) return wrong("is broken");
    types[left - 1] = layout_of(node);
    if (const std::string problem = types[left - 1].problem(); !problem.empty())
      return wrong("has " + problem);
    types[left - 1].find_shared_words();
    at = node.next;
  }
  return left == 0 ? "" : "the number of types is wrong";
}

Result<std::vector<Layout>> TypeList::read() const {
  return guarded([this]() -> Result<std::vector<Layout>> {
    std::vector<Layout> types;
    if (const std::string problem = this->problem(types); !problem.empty())
      return blocks_.damaged(problem);
    return types;
  });
}

Status TypeList::load() {
  return guarded([this]() -> Status {
    std::lock_guard lock(mutex_);
    return load_list();
  });
}

Result<const Layout*> TypeList::find(u32 tag) {
  return guarded([&]() -> Result<const Layout*> {
    std::lock_guard lock(mutex_);
    PERDURA_TRY(load_list());
    const Layout* const none = nullptr;
    return tag / 2 != 0 && tag / 2 <= layouts_.size() ? &layouts_[tag / 2 - 1] : none;
  });
}

Status TypeList::load_list() {
  if (loaded_) return {};
  std::vector<Layout> types;
  if (const std::string problem = this->problem(types); !problem.empty())
    return blocks_.damaged(problem);
  layouts_.assign(std::make_move_iterator(types.begin()), std::make_move_iterator(types.end()));
  names_.clear();
  for (u32 i = 0; i < layouts_.size(); ++i) names_.emplace(layouts_[i].name, i + 1);
  loaded_ = true;
  return {};
}

// 0: none has that name.
u32 TypeList::find_name(std::string_view name) const {
  const auto found = names_.find(name);
  return found != names_.end() ? found->second : 0;
}

Failure TypeList::other_layout(const Layout& stored, const Layout& wanted) const {
  return Failure{Code::kTypeMismatch,
                 "the type '" + readable_name(wanted.name) + "' has another layout than in '" +
                     blocks_.store_name() + "'; in the store: " + stored.text +
                     "; in this program: " + wanted.text +
                     "; give the new layout another name and convert, or restore the old one"};
}

Failure TypeList::other_members(const Layout& stored, const Layout& wanted) const {
  return Failure{Code::kTypeMismatch,
                 "the " + readable_name(wanted.name) + " are others than in '" +
                     blocks_.store_name() + "'; in the store: " + readable(stored.text) +
                     "; in this program: " + readable(wanted.text) +
                     "; convert its objects with Store::migrate or Store::evolve, or restore the "
                     "old members"};
}

// 0: the store does not know it.
Result<u32> TypeList::known_number(const Layout& layout) {
  PERDURA_TRY(load_list());
  const u32 number = find_name(layout.name);
  if (number != 0 && layouts_[number - 1].fingerprint != layout.fingerprint)
    return other_layout(layouts_[number - 1], layout);
  return number;
}

Status TypeList::expect(const perdura_type& type) {
  return guarded([&]() -> Status {
    std::lock_guard lock(mutex_);
    if (numbers_.contains(&type)) return {};
    PERDURA_ASSIGN(const std::vector<Class> classes, classes_of_program(type));
    const Result<std::vector<Layout>> unknown = compare_members(classes);
    if (!unknown) return unknown.failure();
    PERDURA_ASSIGN(const Layout layout, Layout::of(type));
    PERDURA_ASSIGN(const u32 number, known_number(layout));
    if (number != 0) numbers_.emplace(&type, number);
    return {};
  });
}

Result<std::vector<Layout>> TypeList::compare_members(const std::vector<Class>& classes) {
  PERDURA_TRY(load_list());
  std::vector<Layout> unknown;
  for (const Class& each : classes) {
    const u32 number = find_name(each.entry.name);
    if (number == 0) unknown.push_back(each.entry);
    else if (!same_members(layouts_[number - 1].text, each.entry.text))
      return other_members(layouts_[number - 1], each.entry);
  }
  return unknown;
}

Status TypeList::expect_members(const detail::TypeDescription& type) {
  return guarded([&]() -> Status {
    std::lock_guard lock(mutex_);
    if (known_members_.contains(&type)) return {};
    PERDURA_ASSIGN(const std::vector<Layout> unknown, compare_members(classes_of(type)));
    if (unknown.empty()) known_members_.insert(&type);
    return {};
  });
}

Status TypeList::learn_members(Mutator& mutator, const detail::TypeDescription& type) {
  return guarded([&]() -> Status {
    std::lock_guard lock(mutex_);
    if (known_members_.contains(&type)) return {};
    PERDURA_TRY(learn_entries(mutator, classes_of(type)));
    known_members_.insert(&type);
    return {};
  });
}

Status TypeList::learn_members(Mutator& mutator, const perdura_type& type) {
  return guarded([&]() -> Status {
    std::lock_guard lock(mutex_);
    PERDURA_ASSIGN(const std::vector<Class> classes, classes_of_program(type));
    return learn_entries(mutator, classes);
  });
}

Status TypeList::learn_entries(Mutator& mutator, const std::vector<Class>& classes) {
  PERDURA_ASSIGN(const std::vector<Layout> unknown, compare_members(classes));
  for (const Layout& entry : unknown) {
    const Result<u32> learnt = learn(mutator, entry);
    if (!learnt) return learnt.failure();
  }
  return {};
}

Status TypeList::expect_known() {
  return guarded([this]() -> Status {
    std::lock_guard lock(mutex_);
    PERDURA_TRY(load_list());
    std::vector<bool> fits(layouts_.size());
    std::vector<std::optional<Layout>> others(layouts_.size());
    Status status;
    // A record that says what cannot be is refused when the program uses it.
    for_each_known_type([&](const perdura_type& type) {
      const u32 number = status && type.name != nullptr ? find_name(type.name) : 0;
      if (number == 0) return;
      Result<Layout> layout = Layout::of(type);
      if (!layout && layout.failure().code == Code::kNoMemory) status = layout.failure();
      if (!layout) return;
      if (layout->fingerprint == layouts_[number - 1].fingerprint) fits[number - 1] = true;
      else others[number - 1] = std::move(*layout);
    });
    PERDURA_TRY(status);
    for (size_t i = 0; i < layouts_.size(); ++i)
      if (others[i] && !fits[i]) return other_layout(layouts_[i], *others[i]);
    return {};
  });
}

Result<u32> TypeList::number_of(Mutator& mutator, const perdura_type& type) {
  return guarded([&]() -> Result<u32> {
    std::lock_guard lock(mutex_);
    if (const auto known = numbers_.find(&type); known != numbers_.end()) return known->second;
    PERDURA_ASSIGN(const Layout layout, Layout::of(type));
    PERDURA_ASSIGN(const std::vector<Class> classes, classes_of_program(type));
    PERDURA_TRY(learn_entries(mutator, classes));
    PERDURA_ASSIGN(const u32 number, learn(mutator, layout));
    numbers_.emplace(&type, number);
    return number;
  });
}

Result<u32> TypeList::number_of(Mutator& mutator, const Layout& layout) {
  std::lock_guard lock(mutex_);
  return learn(mutator, layout);
}

Result<u32> TypeList::number_of_moved(Mutator& mutator, const Layout& layout, bool& as_words) {
  return guarded([&]() -> Result<u32> {
    PERDURA_ASSIGN(const Layout words, Layout::of(kWords));
    std::lock_guard lock(mutex_);
    PERDURA_TRY(load_list());
    // The last place is theirs.
    if (layouts_.size() == kTypesMax - 1) PERDURA_TRY(learn(mutator, words));
    Result<u32> number = learn(mutator, layout);
    if (number) return number;
    const Code code = number.failure().code;
    as_words = (code == Code::kNoSpace && layouts_.size() == kTypesMax) ||
               (code == Code::kTypeMismatch && is_of_program(layouts_[find_name(layout.name) - 1]));
    return as_words ? learn(mutator, words) : std::move(number);
  });
}

bool TypeList::is_of_program(const Layout& known) const {
  bool found = false;
  for_each_known_type([&](const perdura_type& type) {
    if (found || type.name == nullptr || type.name != known.name) return;
    const Result<Layout> layout = Layout::of(type);
    found = layout && layout->fingerprint == known.fingerprint;
  });
  return found;
}

Result<u32> TypeList::number_named(std::string_view name) {
  std::lock_guard lock(mutex_);
  PERDURA_TRY(load_list());
  return find_name(name);
}

// "~Node", "!Node", …: such a name is no type's. A layout that a migration left there before it
// failed is taken again.
Result<u32> TypeList::number_of_spare(Mutator& mutator, const Layout& layout) {
  constexpr std::string_view kMarks = "~!#$%&*+-/:;<=>?@^|";
  std::lock_guard lock(mutex_);
  PERDURA_TRY(load_list());
  Layout spare = layout;
  for (size_t i = 0; i < kMarks.size() * kMarks.size(); ++i) {
    spare.name = layout.name;
    spare.name.front() = kMarks[i % kMarks.size()];
    if (const size_t second = i / kMarks.size(); second != 0) {
      if (spare.name.size() < 2) break;
      spare.name[1] = kMarks[second];
    }
    spare.fingerprint = spare.compute_fingerprint();
    const u32 number = find_name(spare.name);
    if (number == 0) return learn(mutator, spare);
    const Layout& known = layouts_[number - 1];
    if (known.fingerprint == spare.fingerprint && known.text == spare.text) return number;
  }
  return Failure{Code::kNoSpace, "the type '" + layout.name + "' of '" + blocks_.store_name() +
                                     "' has had too many layouts; give it another name"};
}

void TypeList::exchange_names(Mutator& mutator, u32 a, u32 b) noexcept {
  std::lock_guard lock(mutex_);
  Layout& first = layouts_[a - 1];
  Layout& second = layouts_[b - 1];
  PERDURA_ASSERT(first.name.size() == second.name.size());
  auto first_name = names_.extract(first.name);
  auto second_name = names_.extract(second.name);
  first.name.swap(second.name);
  first_name.key() = second.name;
  second_name.key() = first.name;
  first_name.mapped() = b;
  second_name.mapped() = a;
  names_.insert(std::move(first_name));
  names_.insert(std::move(second_name));
  for (Layout* const layout : {&first, &second})
    layout->fingerprint = layout->compute_fingerprint();
  for_each_node([&](u64 at) {
    TypeNode& node = const_cast<TypeNode&>(node_at(at));
    if (node.number != a && node.number != b) return;
    const Layout& layout = layouts_[node.number - 1];
    detail::report(mutator, &node, node_bytes(node));
    node.fingerprint = layout.fingerprint;
    std::memcpy(reinterpret_cast<std::byte*>(&node) + node_bytes(node) - node.text_length -
                    node.name_length,
                layout.name.data(), node.name_length);
  });
  // Who asks for them finds other numbers.
  numbers_.clear();
  known_members_.clear();
}

Result<u32> TypeList::learn(Mutator& mutator, const Layout& layout) {
  PERDURA_ASSIGN(const u32 known, known_number(layout));
  if (known != 0) return known;
  if (layouts_.size() == kTypesMax)
    return Failure{Code::kNoSpace, "'" + blocks_.store_name() + "' knows " +
                                       std::to_string(kTypesMax) +
                                       " types, which is the most it can"};
  const auto number = static_cast<u32>(layouts_.size() + 1);
  layouts_.push_back(layout);
  const Status added = guarded([&] {
    names_.emplace(layouts_.back().name, number);
    return add(mutator, layout, number);
  });
  if (added) return number;
  names_.erase(layouts_.back().name);
  layouts_.pop_back();
  return added.failure();
}

Status TypeList::add(Mutator& mutator, const Layout& type, u32 number) {
  format::HeapHeader& header = blocks_.units().header();
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
  PERDURA_ASSIGN(void* const block, heap_.allocate(mutator, node_bytes(node), 16));
  auto* const made = new (block) TypeNode(node);
  Writer writer(*made);
  writer.write(type.runs);
  writer.write(type.tail_runs);
  writer.write(type.tags);
  writer.write(type.name);
  writer.write(type.text);
  store_reported(mutator, header.types, blocks_.region().offset_of(made));
  store_reported(mutator, header.type_count, header.type_count + 1);
  return {};
}

}  // namespace perdura::heap
