// perdura dump: the objects of a store as JSON, as far as its type records know them.
//
//   { "store": …, "regions": [ { "name": …, "roots": [ { "name": …, "to": OBJECT } ] } ] }
//
//   OBJECT   null                 a null pointer
//            "0x…"                an address that is not followed: deeper than --depth
//            "@0x…"               the object that is printed with this address as "at"
//            { "at", "type", "bytes", and "fields", or "elements" of an array, or "hex" }
//   field    { "offset", "member", "to": OBJECT }, or "outside" or "dangling" instead of "to";
//            { "offset", "hex" }, or "zero_bytes" instead of "hex";
//            where the store knows the members of the type { "offset", "member", "type", and
//            "value": VALUE, or "to", "outside", "dangling", "hex" or "zero_bytes" }
//   VALUE    a number, true or false, a text of an array of char; an array of values, with "and N
//            more" where --limit leaves some out; of a structure an array of its fields; of a
//            pointer in an array { "to": … } as above
//
// It is printed while it is read, so that its size does not matter.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "commands.hpp"
#include "heap/members.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "store/look_inside.hpp"
#include "stored_classes.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

using store::HeapSight;
using store::HeapView;

/// What a type record's text says of a member. Texts are for people: what is not understood of one
/// has no name.
struct Member {
  std::string name;
  u64 offset = 0;
  u64 pointers = 0;  ///< one behind the other; 0: it is a value of another type
  bool is_flexible = false;
  u64 tag_bytes = 0;  ///< of a union: it counts while the integer there has this value
  u64 tag_offset = 0;
  u64 tag_value = 0;
  bool tag_differs = false;  ///< or while it has another one

  bool counts(const std::byte* object, u64 bytes) const {
    if (tag_bytes == 0) return true;
    if (tag_bytes > sizeof(u64) || tag_offset > bytes || tag_bytes > bytes - tag_offset)
      return false;
    u64 value = 0;
    std::memcpy(&value, object + tag_offset, tag_bytes);
    const u64 mask = tag_bytes == sizeof(u64) ? ~u64{0} : (u64{1} << tag_bytes * 8) - 1;
    return (value == (tag_value & mask)) != tag_differs;
  }
};

/// Reads what Layout::text says: "48 bytes; next at 8: pointer, text at 16: 4 of pointer if the 4
/// bytes at 0 are 2".
class Members {
 public:
  explicit Members(const std::string& text) : text_(text) {
    size_t last = std::string::npos;
    for (size_t at = text.find(kAt); at != std::string::npos; at = text.find(kAt, at + 1)) {
      Member member;
      const size_t colon = read(at + kAt.size(), member.offset);
      if (colon == std::string::npos || text.compare(colon, 2, ": ") != 0) continue;
      const size_t comma = text.rfind(", ", at);
      const size_t semicolon = text.rfind("; ", at);
      const size_t before = comma == std::string::npos       ? semicolon
                            : semicolon == std::string::npos ? comma
                                                             : std::max(comma, semicolon);
      if (before == std::string::npos) continue;
      if (last != std::string::npos) finish(last, before);
      member.name = text.substr(before + 2, at - before - 2);
      all_.push_back(std::move(member));
      last = colon + 2;
    }
    if (last != std::string::npos) finish(last, text.size());
  }

  /// The name of the pointer at `offset` in the object; "": it is not known.
  std::string name_of(u64 offset, const std::byte* object, u64 bytes) const {
    const Member* found = nullptr;
    for (const Member& member : all_) {
      if (member.is_flexible || member.offset > offset || !member.counts(object, bytes)) continue;
      if (member.pointers != 0 && offset - member.offset >= member.pointers * sizeof(u64)) continue;
      if (found == nullptr || member.offset >= found->offset) found = &member;
    }
    return found == nullptr ? std::string() : name_in(*found, offset - found->offset);
  }
  /// The same in an element of the flexible array, by the offset in the element.
  std::string name_in_tail(u64 offset) const {
    for (const Member& member : all_)
      if (member.is_flexible) return member.pointers != 0 ? member.name : name_in(member, offset);
    return {};
  }

 private:
  static constexpr std::string_view kAt = " at ";

  /// Where the number at `at` ends; npos: there is none.
  size_t read(size_t at, u64& number) const {
    const char* const begin = text_.data() + at;
    const auto parsed = std::from_chars(begin, text_.data() + text_.size(), number);
    return parsed.ec == std::errc{} ? at + static_cast<size_t>(parsed.ptr - begin)
                                    : std::string::npos;
  }

  // What the last member is, from `begin` on.
  void finish(size_t begin, size_t end) {
    Member& member = all_.back();
    constexpr std::string_view kFlexible = "flexible array of ";
    constexpr std::string_view kIf = " if the ";
    u64 count = 1;
    if (text_.compare(begin, kFlexible.size(), kFlexible) == 0) {
      member.is_flexible = true;
      begin += kFlexible.size();
    } else if (const size_t of = read(begin, count);
               of != std::string::npos && text_.compare(of, 4, " of ") == 0) {
      begin = of + 4;
    } else {
      count = 1;
    }
    std::string what = text_.substr(begin, end - begin);
    if (const size_t condition = what.rfind(kIf); condition != std::string::npos) {
      const size_t bytes = read(begin + condition + kIf.size(), member.tag_bytes);
      const size_t place = text_.find(kAt, begin + condition);
      if (bytes != std::string::npos && place < end) {
        const size_t are = read(place + kAt.size(), member.tag_offset);
        if (are != std::string::npos && text_.compare(are, 5, " are ") == 0) {
          member.tag_differs = text_.compare(are, 9, " are not ") == 0;
          read(are + (member.tag_differs ? 9 : 5), member.tag_value);
        }
      }
      what.erase(condition);
    }
    if (what == "pointer" || what == "pointer or not") member.pointers = count;
  }

  static std::string name_in(const Member& member, u64 offset) {
    if (member.pointers == 1 || (offset == 0 && member.pointers == 0)) return member.name;
    if (member.pointers != 0) return fmt::format("{}[{}]", member.name, offset / sizeof(u64));
    return fmt::format("{}+{}", member.name, offset);
  }

  const std::string& text_;
  std::vector<Member> all_;
};

/// Prints JSON piece by piece.
class Printer {
 public:
  void open(char bracket) {
    begin_value();
    std::fputc(bracket, stdout);
    is_first_.push_back(true);
  }
  void close(char bracket) {
    const bool empty = is_first_.back();
    is_first_.pop_back();
    if (!empty) new_line();
    std::fputc(bracket, stdout);
    if (is_first_.empty()) std::fputc('\n', stdout);
  }
  void key(std::string_view name) {
    begin_value();
    fmt::print("{}: ", quoted(name));
    has_key_ = true;
  }
  void string(std::string_view text) { plain(quoted(text)); }
  void number(u64 value) { plain(std::to_string(value)); }
  void json(const nlohmann::ordered_json& value) { plain(value.dump()); }
  void null() { plain("null"); }

 private:
  static std::string quoted(std::string_view text) {
    return nlohmann::ordered_json(text).dump(-1, ' ', false,
                                             nlohmann::ordered_json::error_handler_t::replace);
  }
  void plain(const std::string& text) {
    begin_value();
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  void begin_value() {
    if (has_key_ || is_first_.empty()) {
      has_key_ = false;
      return;
    }
    if (!is_first_.back()) std::fputc(',', stdout);
    is_first_.back() = false;
    new_line();
  }
  void new_line() { fmt::print("\n{:{}}", "", 2 * is_first_.size()); }

  std::vector<bool> is_first_;  ///< of what is open: nothing is in it yet
  bool has_key_ = false;
};

/// Prints the objects of one heap.
class Dump {
 public:
  Dump(const HeapSight& sight, const Arguments& arguments, Printer& printer)
      : sight_(sight),
        view_(sight.view),
        arguments_(arguments),
        printer_(printer),
        classes_(sight.view.types()) {}

  void root(const store::RootDescription& root) {
    printer_.open('{');
    field("name", root.name);
    printer_.key("to");
    follow(root.offset, 0);
    printer_.close('}');
  }

  /// With --flat: what was found by the way, each once.
  void objects() {
    for (; !pending_.empty(); pending_.pop_front()) {
      const auto [object, depth] = pending_.front();
      print(object, depth);
    }
  }

 private:
  struct Word {
    u64 offset;  ///< in the object
    bool maybe;
  };
  static constexpr u64 kZerosMin = 16;  // fewer are printed

  static std::string hex(u64 value) { return fmt::format("{:#x}", value); }
  std::string at_text(u64 offset) const { return hex(view_.address_of(offset)); }

  void field(std::string_view name, std::string_view text) {
    printer_.key(name);
    printer_.string(text);
  }
  void field(std::string_view name, u64 value) {
    printer_.key(name);
    printer_.number(value);
  }

  /// What is at a region offset, as the value of a pointer to there.
  void follow(u64 offset, u64 depth) {
    const auto object = view_.find(offset);
    PERDURA_ASSERT(object);  // the audit has seen roots, and print() the others
    const bool is_known = seen_.contains(object->offset);
    if (is_known || (arguments_.flat && depth <= arguments_.depth)) {
      if (!is_known) pending_.emplace_back(*object, depth);
      seen_.insert(object->offset);
      return printer_.string(fmt::format("@{}", at_text(object->offset)));
    }
    if (depth > arguments_.depth) return printer_.string(at_text(object->offset));
    seen_.insert(object->offset);
    print(*object, depth);
  }

  void print(const HeapView::Object& object, u64 depth) {
    printer_.open('{');
    field("at", at_text(object.offset));
    if (object.type != nullptr) field("type", heap::readable_name(object.type->name));
    field("bytes", object.bytes);
    if (sight_.is_damaged(object)) print_damage(object);
    else if (object.type == nullptr) print_untyped(object);
    else print_typed(object, depth);
    printer_.close('}');
  }

  void print_damage(const HeapView::Object& object) {
    printer_.key("damaged_pages");
    printer_.open('[');
    for (u64 page = round_down(object.offset, kPageBytes); page < object.offset + object.bytes;
         page += kPageBytes)
      if (sight_.damaged_pages.contains(page)) printer_.string(at_text(page));
    printer_.close(']');
  }

  u64 shown(u64 bytes) const {
    return arguments_.limit == 0 ? bytes : std::min(bytes, arguments_.limit);
  }

  void print_untyped(const HeapView::Object& object) {
    printer_.key("fields");
    printer_.open('[');
    print_bytes(view_.at(object.offset), 0, object.bytes);
    printer_.close(']');
  }

  // Elements that nobody has stored to are zero, and so is what is left of the block behind them.
  void print_typed(const HeapView::Object& object, u64 depth) {
    const heap::Layout& type = *object.type;
    const std::byte* const place = view_.at(object.offset);
    u64 end = object.bytes;
    while (end != 0 && place[end - 1] == std::byte{0}) --end;
    if (object.is_flexible) return print_flexible(object, end, depth);
    const u64 whole = object.bytes / type.size;
    const u64 elements = std::max<u64>(1, (end + type.size - 1) / type.size);
    const u64 wanted = (shown(object.bytes) + type.size - 1) / type.size;
    const u64 count = std::min({elements, wanted, std::max<u64>(1, whole)});
    if (elements == 1) {
      printer_.key("fields");
      print_element(object, 0, std::min<u64>(type.size, object.bytes), depth);
    } else {
      printer_.key("elements");
      printer_.open('[');
      for (u64 i = 0; i < count; ++i) print_element(object, i * type.size, type.size, depth);
      printer_.close(']');
    }
    if (elements > count) field("left_out_elements", std::min(elements, whole) - count);
    if (whole > elements) field("zero_elements", whole - elements);
  }

  void print_flexible(const HeapView::Object& object, u64 end, u64 depth) {
    const heap::Layout& type = *object.type;
    const u64 stride = type.tail_stride;
    const u64 head =
        std::min(stride == 0 ? std::max<u64>(end, type.size) : type.tail_offset, object.bytes);
    printer_.key("fields");
    print_element(object, 0, head, depth);
    if (stride == 0 || end <= head) return;
    printer_.key("tail");
    printer_.open('[');
    const u64 shown_end = std::max(shown(end), head + 1);
    u64 at = head;
    for (; at < std::min(end, shown_end) && at + stride <= object.bytes; at += stride)
      print_words(object, at, stride, depth);
    printer_.close(']');
    if (at < end) field("left_out_bytes", end - at);
  }

  /// The pointers in a part of an object, in their order.
  std::vector<Word> words_in(const HeapView::Object& object, u64 begin, u64 length) const {
    std::vector<Word> words;
    std::byte* const place = view_.at(object.offset);
    object.type->for_each_pointer(
        place, object.bytes, object.is_flexible, begin, begin + length,
        [&](const u64* word, bool maybe) {
          const auto offset = static_cast<u64>(reinterpret_cast<const std::byte*>(word) - place);
          if (offset >= begin && offset + sizeof *word <= begin + length)
            words.push_back({offset, maybe});
        });
    std::ranges::sort(words, {}, &Word::offset);
    return words;
  }

  /// An element of an array, or the head of an object that ends with one, or an object.
  void print_element(const HeapView::Object& object, u64 begin, u64 length, u64 depth) {
    const StoredClass* const known = classes_.of_type(object.type->name);
    if (known != nullptr && known->size == object.type->size)
      print_members(object, *known, begin, length, depth, 0);
    else print_words(object, begin, length, depth);
  }

  /// Where the pointers are, and the bytes between them.
  void print_words(const HeapView::Object& object, u64 begin, u64 length, u64 depth) {
    const std::byte* const place = view_.at(object.offset);
    printer_.open('[');
    u64 at = begin;
    for (const Word& word : words_in(object, begin, length)) {
      u64 value = 0;
      std::memcpy(&value, place + word.offset, sizeof value);
      const auto target = view_.target_of(value);
      if (word.maybe && !target) continue;
      print_bytes(place, at, word.offset);
      print_pointer(object, word.offset, begin, value, depth);
      at = word.offset + sizeof value;
    }
    print_bytes(place, at, begin + length);
    printer_.close(']');
  }

  void print_pointer(const HeapView::Object& object, u64 offset, u64 element, u64 value,
                     u64 depth) {
    printer_.open('{');
    field("offset", offset);
    if (const std::string name = name_of(object, offset, element); !name.empty())
      field("member", name);
    print_target(value, depth);
    printer_.close('}');
  }

  /// Where a pointer leads to, as fields of what is open.
  void print_target(u64 value, u64 depth) {
    const auto target = view_.target_of(value);
    const auto found = target ? view_.find(*target) : std::nullopt;
    if (value == 0) {
      printer_.key("to");
      printer_.null();
    } else if (!target) {
      field("outside", hex(value));
    } else if (!found) {
      field("dangling", hex(value));
    } else {
      if (found->offset != *target) field("into", *target - found->offset);
      printer_.key("to");
      follow(*target, depth + 1);
    }
  }

  // --- members, by what the store keeps of them

  static constexpr int kInnerMax = 32;  // of structures in structures: of a store nobody forged

  /// A structure that begins at `begin` in an object, of which the first `length` bytes are there.
  void print_members(const HeapView::Object& object, const StoredClass& its_class, u64 begin,
                     u64 length, u64 depth, int inner) {
    printer_.open('[');
    for (const StoredMember& member : its_class.members) {
      u64 bytes = member.element_bytes;
      for (const u64 count : member.counts) bytes *= count;
      if (member.offset + bytes > length) break;  // of an object that is shorter than its type
      printer_.open('{');
      field("offset", begin + member.offset);
      field("member", member.name);
      field("type", type_text(member));
      if (member.is_pointer && member.counts.empty()) {
        print_target(word_at(object, begin + member.offset), depth);
      } else {
        printer_.key("value");
        print_value(object, member, 0, begin + member.offset, bytes, depth, inner);
      }
      printer_.close('}');
    }
    printer_.close(']');
  }

  static std::string type_text(const StoredMember& member) {
    std::string text = member.type;
    for (const u64 count : member.counts) text += fmt::format("[{}]", count);
    return text;
  }

  u64 word_at(const HeapView::Object& object, u64 offset) const {
    u64 value = 0;
    std::memcpy(&value, view_.at(object.offset) + offset, sizeof value);
    return value;
  }

  /// Of a member, or of an array's element: what is left of its type from the dimension on.
  void print_value(const HeapView::Object& object, const StoredMember& member, size_t dimension,
                   u64 at, u64 bytes, u64 depth, int inner) {
    const std::byte* const place = view_.at(object.offset) + at;
    if (dimension < member.counts.size()) {
      if (is_text(member, dimension, place, bytes)) return printer_.string(text_at(place, bytes));
      const u64 count = member.counts[dimension];
      const u64 each = bytes / count;
      const u64 wanted = std::max<u64>(1, std::min(count, shown(bytes) / std::max<u64>(each, 1)));
      printer_.open('[');
      for (u64 i = 0; i < wanted; ++i)
        print_value(object, member, dimension + 1, at + i * each, each, depth, inner);
      if (wanted < count) printer_.string(fmt::format("and {} more", count - wanted));
      printer_.close(']');
    } else if (member.number != nullptr) {
      print_number(*member.number, place);
    } else if (member.is_pointer) {
      printer_.open('{');
      print_target(word_at(object, at), depth);
      printer_.close('}');
    } else if (member.of_class != nullptr && !member.of_class->members.empty() &&
               inner < kInnerMax) {
      print_members(object, *member.of_class, at, bytes, depth, inner + 1);
    } else {
      print_opaque(object, member, at, bytes, depth);
    }
  }

  /// An enumeration, or what else is of the size and alignment of a number; of others the pointers
  /// that are known of it, as of a union's, and its bytes.
  void print_opaque(const HeapView::Object& object, const StoredMember& member, u64 at, u64 bytes,
                    u64 depth) {
    const bool is_number = member.of_class != nullptr && member.of_class->alignment == bytes &&
                           bytes <= sizeof(u64) && words_in(object, at, bytes).empty();
    if (!is_number) return print_words(object, at, bytes, depth);
    u64 value = 0;
    std::memcpy(&value, view_.at(object.offset) + at, bytes);
    printer_.number(value);
  }

  void print_number(const heap::NumberType& number, const std::byte* place) {
    const auto as = [&]<class T>(T value) {
      std::memcpy(&value, place, sizeof value);
      if constexpr (std::is_floating_point_v<T>) {
        const auto narrow = static_cast<double>(value);
        if (!std::isfinite(narrow)) return printer_.string(fmt::format("{}", narrow));
        printer_.json(narrow);
      } else {
        printer_.json(value);
      }
    };
    switch (number.kind) {
      case PERDURA_SLOT_BOOL: {
        const auto byte = std::to_integer<unsigned>(*place);
        return byte <= 1 ? printer_.json(byte == 1) : printer_.number(byte);
      }
      case PERDURA_SLOT_CHAR:
      case PERDURA_SLOT_INT8:
        return as(std::int8_t{});
      case PERDURA_SLOT_INT16:
        return as(std::int16_t{});
      case PERDURA_SLOT_INT32:
        return as(std::int32_t{});
      case PERDURA_SLOT_INT64:
        return as(std::int64_t{});
      case PERDURA_SLOT_UINT8:
        return as(std::uint8_t{});
      case PERDURA_SLOT_UINT16:
        return as(std::uint16_t{});
      case PERDURA_SLOT_UINT32:
        return as(std::uint32_t{});
      case PERDURA_SLOT_UINT64:
        return as(std::uint64_t{});
      case PERDURA_SLOT_FLOAT32:
        return print_float(place);
      case PERDURA_SLOT_FLOAT64:
        return as(double{});
      case PERDURA_SLOT_LONG_DOUBLE:
        return as(static_cast<long double>(0));
      default:
        return print_wide(number, place);
    }
  }

  // With the digits that tell it from others of its type, not those of a double.
  void print_float(const std::byte* place) {
    float value = 0;
    std::memcpy(&value, place, sizeof value);
    if (!std::isfinite(value)) return printer_.string(fmt::format("{}", value));
    printer_.json(nlohmann::ordered_json::parse(fmt::format("{}", value)));
  }

  // Of 128 bits: no reader of JSON has numbers of these.
  void print_wide(const heap::NumberType& number, const std::byte* place) {
    unsigned __int128 value = 0;
    std::memcpy(&value, place, sizeof value);
    const bool negative = number.kind == PERDURA_SLOT_INT128 && value >> 127 != 0;
    if (negative) value = 0 - value;
    printer_.string(fmt::format("{}{}", negative ? "-" : "", value));
  }

  /// Characters with zeros behind them, and no other zeros.
  static bool is_text(const StoredMember& member, size_t dimension, const std::byte* place,
                      u64 bytes) {
    if (member.number == nullptr || member.number->kind != PERDURA_SLOT_CHAR ||
        dimension + 1 != member.counts.size())
      return false;
    const std::string text = text_at(place, bytes);
    if (!is_zero(place + text.size(), bytes - text.size())) return false;
    const auto is_control = [](char c) {
      return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r';
    };
    return std::ranges::none_of(text, is_control) && is_utf8(text);
  }
  static std::string text_at(const std::byte* place, u64 bytes) {
    const std::string_view all(reinterpret_cast<const char*>(place), bytes);
    return std::string(all.substr(0, all.find('\0')));
  }
  static bool is_utf8(const std::string& text) {
    try {
      (void)nlohmann::ordered_json(text).dump();
      return true;
    } catch (const nlohmann::ordered_json::exception&) {
      return false;
    }
  }

  std::string name_of(const HeapView::Object& object, u64 offset, u64 element) {
    const heap::Layout& type = *object.type;
    const auto found = members_.try_emplace(&type, type.text).first;
    if (object.is_flexible && type.tail_stride != 0 && offset >= type.tail_offset)
      return found->second.name_in_tail((offset - type.tail_offset) % type.tail_stride);
    return found->second.name_of(offset - element, view_.at(object.offset) + element,
                                 std::min<u64>(type.size, object.bytes - element));
  }

  void print_bytes(const std::byte* place, u64 begin, u64 end) {
    if (begin >= end) return;
    printer_.open('{');
    field("offset", begin);
    if (end - begin >= kZerosMin && is_zero(place + begin, end - begin)) {
      field("zero_bytes", end - begin);
    } else {
      const u64 shown_end = begin + shown(end - begin);
      std::string text;
      text.reserve(2 * (shown_end - begin));
      for (u64 at = begin; at < shown_end; ++at)
        fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<unsigned>(place[at]));
      field("hex", text);
      if (shown_end < end) field("left_out_bytes", end - shown_end);
    }
    printer_.close('}');
  }

  const HeapSight& sight_;
  const HeapView& view_;
  const Arguments& arguments_;
  Printer& printer_;
  std::unordered_set<u64> seen_;  ///< region offsets of objects that are printed, or will be
  std::deque<std::pair<HeapView::Object, u64>> pending_;
  std::unordered_map<const heap::Layout*, Members> members_;
  const StoredClasses classes_;
};

/// All of it, into one JSON document.
class Document {
 public:
  explicit Document(const Arguments& arguments) : arguments_(arguments) {}

  Status add(const HeapSight& sight) {
    std::vector<store::RootDescription> roots = sight.region.roots;
    if (!arguments_.root.empty())
      std::erase_if(roots, [&](const auto& root) { return root.name != arguments_.root; });
    number_of_damaged_pages_ += sight.damaged_pages.size();
    if (!arguments_.root.empty() && roots.empty()) return {};
    found_root_ = true;
    begin();
    printer_.open('{');
    text("name", sight.region.name());
    text("address", fmt::format("{:#x}", sight.view.address_of(0)));
    number("version", sight.region.durable_version);
    if (sight.region.log && sight.region.log->transactions != 0)
      number("transactions_not_shown", sight.region.log->transactions);
    Dump dump(sight, arguments_, printer_);
    printer_.key("roots");
    printer_.open('[');
    for (const store::RootDescription& root : roots) dump.root(root);
    printer_.close(']');
    if (arguments_.flat) {
      printer_.key("objects");
      printer_.open('[');
      dump.objects();
      printer_.close(']');
    }
    printer_.close('}');
    return {};
  }

  void end() {
    begin();
    printer_.close(']');
    number("damaged_pages", number_of_damaged_pages_);
    text("note",
         "of types whose members the store knows the values are printed; of others what type "
         "records say, where pointers are and how their members are called; other bytes are "
         "printed as they are, and so are objects without a type");
    printer_.close('}');
  }

  bool found_root() const { return found_root_ || arguments_.root.empty(); }
  bool is_damaged() const { return number_of_damaged_pages_ != 0; }

 private:
  void begin() {
    if (begun_) return;
    begun_ = true;
    printer_.open('{');
    text("store", arguments_.store);
    printer_.key("regions");
    printer_.open('[');
  }
  void text(std::string_view name, std::string_view value) {
    printer_.key(name);
    printer_.string(value);
  }
  void number(std::string_view name, u64 value) {
    printer_.key(name);
    printer_.number(value);
  }

  const Arguments& arguments_;
  Printer printer_;
  bool begun_ = false;
  bool found_root_ = false;
  u64 number_of_damaged_pages_ = 0;
};

}  // namespace

int dump_objects(const Arguments& arguments) {
  Document document(arguments);
  ProgressLine line;
  const auto description =
      store::look_inside(arguments.store, arguments.medium, arguments.region, std::ref(line),
                         [&](const HeapSight& sight) { return document.add(sight); });
  if (!description) return complain(description.failure());
  if (document.found_root()) document.end();
  for (const store::RegionDescription& region : description->regions)
    if (region.heap && !region.heap->clean)
      return complain(
          {Code::kCorrupt, fmt::format("the heap of region '{}' of '{}' is damaged, "
                                       "and nothing of it is printed: {}",
                                       region.name(), arguments.store, region.heap->problem)});
  if (!document.found_root())
    return complain({Code::kNotFound, fmt::format("'{}' has no root '{}'; `perdura info` names "
                                                  "those that it has",
                                                  arguments.store, arguments.root)});
  return document.is_damaged() ? kDamaged : kGood;
}

}  // namespace perdura::tools
