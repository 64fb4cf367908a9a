#include "records.hpp"

#include <algorithm>
#include <set>

#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/RecordLayout.h>
#include <clang/Basic/CharInfo.h>
#include <llvm/Support/MD5.h>

namespace perdura::types {

using namespace clang;

namespace {

// As in perdura/type.h.
constexpr uint32_t kPointer = 1;
constexpr uint32_t kMaybe = 2;
constexpr uint32_t kValue = 3;
constexpr uint32_t kTagDiffers = 0x80000000u;
constexpr uint64_t kSizeMax = UINT32_MAX - kWord;  ///< records have numbers of 32 bits
constexpr size_t kNameMax = 200;

std::string hash_of(const std::string& text) {
  llvm::MD5 md5;
  md5.update(text);
  llvm::MD5::MD5Result result;
  md5.final(result);
  return std::string(result.digest().substr(0, 16));
}

std::string annotation(const Decl* decl, llvm::StringRef prefix) {
  for (const auto* attribute : decl->specific_attrs<AnnotateAttr>())
    if (attribute->getAnnotation().starts_with(prefix))
      return attribute->getAnnotation().substr(prefix.size()).str();
  return {};
}

}  // namespace

bool is_integer_for_pointers(QualType type) {
  if (const auto* atomic = type->getAs<AtomicType>()) type = atomic->getValueType();
  while (const auto* named = type->getAs<TypedefType>()) {
    const llvm::StringRef name = named->getDecl()->getName();
    if (name == "uintptr_t" || name == "intptr_t") return true;
    type = named->desugar();
  }
  return false;
}

bool is_byte(QualType type) {
  return type->isCharType() || type->isStdByteType() || type->isChar8Type();
}

bool has_annotation(const Decl* decl, llvm::StringRef text) {
  for (const auto* attribute : decl->specific_attrs<AnnotateAttr>())
    if (attribute->getAnnotation() == text) return true;
  return false;
}

std::string Record::key() const {
  std::string text = name + "|" + std::to_string(size) + "|" + std::to_string(alignment);
  for (const Slot& slot : slots) {
    text += "|" + slot.member;
    for (const uint64_t number : {uint64_t{slot.kind}, slot.offset, slot.bytes, slot.tag_offset,
                                  uint64_t{slot.tag_bytes}, slot.tag_value})
      text += "," + std::to_string(number);
    if (slot.value) text += "," + slot.value->key();
  }
  std::string readable;
  for (const char c : name.substr(0, 40)) readable += isAlphanumeric(c) ? c : '_';
  return readable + "." + hash_of(text);
}

bool& audits() {
  static bool audits = false;
  return audits;
}

std::map<std::string, Marked>& marked() {
  static std::map<std::string, Marked> all;
  return all;
}

/// Collects the slots of one type.
class Records::Builder {
 public:
  Builder(Records& records, Record& record)
      : records_(records), context_(records.context_), record_(record) {}

  void add(QualType type, uint64_t at, const std::string& member, bool may_be_last) {
    if (const auto* atomic = type->getAs<AtomicType>()) type = atomic->getValueType();
    const bool holds = is_integer_for_pointers(type);
    const ArrayType* const array = context_.getAsArrayType(type);
    if (array != nullptr) return add_array(type, at, member, may_be_last);
    type = type.getCanonicalType().getUnqualifiedType();
    if (type->isAnyPointerType() || type->isReferenceType() || type->isBlockPointerType())
      return put(kPointer, at, kWord, member);
    if (holds) return put(kMaybe, at, kWord, member);
    if (type->isMemberFunctionPointerType()) return put(kMaybe, at, kWord, member);
    if (const QualType stored = stored_in(type); !stored.isNull())
      return add(stored, at, member, false);
    if (type->isRecordType()) add_value(type, at, bytes_of(type), member);
  }

  void add_members(const RecordDecl* decl, uint64_t base, const std::string& prefix, bool whole) {
    if (decl->isUnion()) {
      add_union(decl, base, prefix, nullptr, 0);
      return;
    }
    const ASTRecordLayout& layout = context_.getASTRecordLayout(decl);
    if (const auto* cxx = dyn_cast<CXXRecordDecl>(decl))
      add_bases(cxx, layout, base, prefix, whole);
    const FieldDecl* last = nullptr;
    for (const FieldDecl* field : decl->fields()) last = field;
    for (const FieldDecl* field : decl->fields()) {
      if (field->isBitField() || has_annotation(field, "perdura_plain")) continue;
      const uint64_t at = base + layout.getFieldOffset(field->getFieldIndex()) / 8;
      const std::string name = prefix + field->getNameAsString();
      const bool is_last = whole && base == 0 && field == last;
      if (has_annotation(field, "perdura_maybe") || is_storage(field)) {
        add_words(at, bytes_of(field->getType()), name);
        if (is_last && is_flexible(field->getType()))
          put(kMaybe, (at + kWord - 1) / kWord * kWord, 0, name);
        continue;
      }
      const RecordDecl* const inner = record_of(field->getType());
      if (inner != nullptr && inner->isUnion()) {
        const bool anonymous = field->isAnonymousStructOrUnion();
        add_union(inner, at, anonymous ? prefix : name + ".", decl, base);
      } else if (inner != nullptr && field->isAnonymousStructOrUnion()) {
        add_members(inner, at, prefix, false);
      } else {
        add(field->getType(), at, name, is_last);
      }
    }
  }

 private:
  /// Words that may be pointers: those that lie in these bytes as a whole.
  void add_words(uint64_t at, uint64_t bytes, const std::string& member) {
    const uint64_t end = (at + bytes) / kWord * kWord;
    const uint64_t first = (at + kWord - 1) / kWord * kWord;
    if (end > first) put(kMaybe, first, end - first, member);
  }
  bool is_flexible(QualType type) const {
    const ArrayType* const array = context_.getAsArrayType(type);
    const auto* const constant = dyn_cast_or_null<ConstantArrayType>(array);
    return array != nullptr && (constant == nullptr || constant->getZExtSize() == 0);
  }

  /// What libstdc++'s buffers are for, which nodes of its containers have.
  static QualType stored_in(QualType type) {
    const CXXRecordDecl* const decl = type->getAsCXXRecordDecl();
    const auto* const made = dyn_cast_or_null<ClassTemplateSpecializationDecl>(decl);
    if (made == nullptr || made->getTemplateArgs().size() != 1 ||
        (made->getName() != "__aligned_membuf" && made->getName() != "__aligned_buffer"))
      return {};
    return made->getTemplateArgs()[0].getAsType();
  }
  /// Bytes that are aligned as objects are: there is something in them of which nothing is known.
  bool is_storage(const FieldDecl* field) const {
    if (context_.getAsArrayType(field->getType()) == nullptr ||
        !is_byte(context_.getBaseElementType(field->getType())))
      return false;
    // By what is said of the member, of its type, or of the structure that it is in.
    return std::max({field->getMaxAlignment(), context_.getTypeAlignIfKnown(field->getType()),
                     field->getParent()->getMaxAlignment()}) >= kWord * 8;
  }

  uint64_t bytes_of(QualType type) const {
    return static_cast<uint64_t>(context_.getTypeSizeInChars(type).getQuantity());
  }
  const RecordDecl* record_of(QualType type) const {
    const auto* const record = type->getAs<RecordType>();
    return record != nullptr ? record->getDecl()->getDefinition() : nullptr;
  }

  void put(uint32_t kind, uint64_t at, uint64_t bytes, const std::string& member) {
    if (at % kWord != 0) {
      if (record_.refused.empty())
        record_.refused = "the pointer '" + member + "' is not aligned to 8 bytes";
      return;
    }
    // The pointer to virtual functions of a virtual base may be that of the class as well.
    for (const Slot& slot : record_.slots)
      if (slot.kind == kPointer && kind == kPointer && slot.offset == at && slot.tag_bytes == 0 &&
          bytes == kWord && slot.bytes == kWord)
        return;
    record_.slots.push_back({member, kind, at, bytes, nullptr, 0, 0, 0});
  }

  void add_value(QualType type, uint64_t at, uint64_t bytes, const std::string& member) {
    const RecordPtr value = records_.of(type);
    if (!value->refused.empty() && record_.refused.empty()) record_.refused = value->refused;
    if (!value->has_pointers() || !value->refused.empty()) return;
    if (value->has_tail()) {  // a value in another one has no flexible array
      Record open = *value;
      open.slots.pop_back();
      if (open.slots.empty()) return;
      open.name += " in another";
      record_.slots.push_back(
          {member, kValue, at, bytes, std::make_shared<Record>(std::move(open)), 0, 0, 0});
      return;
    }
    if (at % kWord != 0 && record_.refused.empty())
      record_.refused = "the pointers in '" + member + "' are not aligned to 8 bytes";
    record_.slots.push_back({member, kValue, at, bytes, value, 0, 0, 0});
  }

  void add_array(QualType type, uint64_t at, const std::string& member, bool may_be_last) {
    uint64_t count = 1;
    bool flexible = false;
    while (const ArrayType* const array = context_.getAsArrayType(type)) {
      if (is_flexible(type)) flexible = true;
      else count *= cast<ConstantArrayType>(array)->getZExtSize();
      type = array->getElementType();
    }
    if (flexible && !may_be_last) return;
    const size_t before = record_.slots.size();
    add(type, at, member, false);
    if (record_.slots.size() == before) return;
    Slot& slot = record_.slots.back();
    // Beside a pointer to a member function is a number.
    const uint64_t one = type->isMemberFunctionPointerType() ? bytes_of(type) : slot.bytes;
    slot.bytes = flexible ? 0 : one * count;
  }

  void add_bases(const CXXRecordDecl* decl, const ASTRecordLayout& layout, uint64_t base,
                 const std::string& prefix, bool whole) {
    if (layout.hasOwnVFPtr()) put(kPointer, base, kWord, prefix + "(virtual functions)");
    if (layout.hasOwnVBPtr()) put(kPointer, base, kWord, prefix + "(virtual bases)");
    for (const CXXBaseSpecifier& each : decl->bases()) {
      const CXXRecordDecl* const other = each.getType()->getAsCXXRecordDecl();
      if (each.isVirtual() || other == nullptr || other->isEmpty()) continue;
      const auto at = static_cast<uint64_t>(layout.getBaseClassOffset(other).getQuantity());
      add_members(other->getDefinition(), base + at, prefix, false);
    }
    // A class with virtual bases alone may have its first word from none of these.
    if (decl->getNumVBases() != 0 && layout.getPrimaryBase() == nullptr && !layout.hasOwnVFPtr())
      put(kPointer, base, kWord, prefix + "(virtual bases)");
    if (!whole) return;
    for (const CXXBaseSpecifier& each : decl->vbases()) {
      const CXXRecordDecl* const other = each.getType()->getAsCXXRecordDecl();
      if (other == nullptr || other->isEmpty()) continue;
      const auto at = static_cast<uint64_t>(layout.getVBaseClassOffset(other).getQuantity());
      add_members(other->getDefinition(), base + at, prefix, false);
    }
  }

  // --- unions

  /// An alternative by itself, in words of the union: pointers, maybe, or neither.
  std::vector<uint32_t> words_of(QualType type, uint64_t words) {
    std::vector<uint32_t> kinds(words, 0);
    Record own;
    Builder(records_, own).add(type, 0, "", false);
    // What is a flexible array alone has no size.
    if (record_.refused.empty() && bytes_of(type) != 0) record_.refused = own.refused;
    const auto mark = [&](const auto& self, const Record& record, uint64_t at) -> void {
      for (const Slot& slot : record.slots) {
        const uint64_t step = slot.kind == kValue ? slot.value->size : kWord;
        for (uint64_t i = 0; slot.bytes != 0 && i < slot.bytes / step; ++i) {
          const uint64_t place = at + slot.offset + i * step;
          if (slot.kind == kValue) self(self, *slot.value, place);
          else if (place % kWord == 0 && place / kWord < words)
            kinds[place / kWord] = slot.tag_bytes != 0 ? kMaybe : slot.kind;
        }
      }
    };
    mark(mark, own, 0);
    return kinds;
  }

  static bool says_what_counts(const FieldDecl* field) {
    return !annotation(field, "perdura_when:").empty() ||
           !annotation(field, "perdura_unless:").empty();
  }
  /// Where bytes lie beside pointers, or are aligned as objects are, there may be any object in
  /// them, as in a std::function; but not beside numbers, as in a std::string.
  bool has_storage(const RecordDecl* one) const {
    return one->getMaxAlignment() >= kWord * 8 ||
           llvm::any_of(one->fields(), [&](const FieldDecl* field) {
             const RecordDecl* const record = record_of(field->getType());
             // As max_align_t, of which the members have it.
             return field->getMaxAlignment() >= kWord * 8 ||
                    (record != nullptr &&
                     (record->getMaxAlignment() >= kWord * 8 ||
                      llvm::any_of(record->fields(), [](const FieldDecl* inner) {
                        return inner->getMaxAlignment() >= kWord * 8;
                      })));
           });
  }
  void add_storage(const RecordDecl* one, std::vector<uint32_t>& kinds) const {
    const bool beside_pointers = llvm::any_of(kinds, [](uint32_t kind) { return kind != 0; });
    if (!beside_pointers && !has_storage(one)) return;
    for (const FieldDecl* field : one->fields()) {
      const ArrayType* const array = context_.getAsArrayType(field->getType());
      if (array == nullptr || says_what_counts(field) || has_annotation(field, "perdura_plain") ||
          !is_byte(context_.getBaseElementType(array->getElementType())))
        continue;
      std::fill_n(kinds.begin(), bytes_of(field->getType()) / kWord, kMaybe);
    }
  }

  /// `decl` is that of the structure around it, whose members may say what counts.
  void add_union(const RecordDecl* one, uint64_t at, const std::string& prefix,
                 const RecordDecl* around, uint64_t around_at) {
    const uint64_t bytes = bytes_of(context_.getRecordType(one));
    const uint64_t words = bytes / kWord;
    std::vector<uint32_t> kinds(words, 0);
    std::vector<bool> covered_otherwise(words, false);
    for (const FieldDecl* field : one->fields()) {
      if (field->isBitField() || has_annotation(field, "perdura_plain")) {
        for (uint64_t i = 0; i < words; ++i) covered_otherwise[i] = true;
        continue;
      }
      if (add_tagged(field, at, prefix, around, around_at)) continue;
      const uint64_t reach = (bytes_of(field->getType()) + kWord - 1) / kWord;
      const std::vector<uint32_t> own = has_annotation(field, "perdura_maybe")
                                            ? std::vector<uint32_t>(words, kMaybe)
                                            : words_of(field->getType(), words);
      for (uint64_t i = 0; i < words && i < reach; ++i) {
        if (own[i] == 0) covered_otherwise[i] = true;
        else kinds[i] = kinds[i] == kMaybe || own[i] == kMaybe ? kMaybe : kPointer;
      }
    }
    add_storage(one, kinds);
    const std::string name = prefix.empty() ? "(union)" : prefix.substr(0, prefix.size() - 1);
    for (uint64_t i = 0; i < words; ++i) {
      if (kinds[i] == 0) continue;
      const uint32_t kind = covered_otherwise[i] ? kMaybe : kinds[i];
      Slot* const last = record_.slots.empty() ? nullptr : &record_.slots.back();
      if (i != 0 && last != nullptr && last->member == name && last->kind == kind &&
          last->tag_bytes == 0 && last->offset + last->bytes == at + i * kWord)
        last->bytes += kWord;
      else put(kind, at + i * kWord, kWord, name);
    }
  }

  bool add_tagged(const FieldDecl* field, uint64_t at, const std::string& prefix,
                  const RecordDecl* around, uint64_t around_at) {
    std::string said = annotation(field, "perdura_when:");
    const bool differs = said.empty();
    if (differs) said = annotation(field, "perdura_unless:");
    if (said.empty() || around == nullptr) return false;
    const auto [tag, value] = llvm::StringRef(said).split('=');
    for (const FieldDecl* other : around->fields()) {
      if (other->getName() != tag.trim() || other->isBitField()) continue;
      uint64_t number = 0;
      if (!number_of(value.trim(), other->getType(), number)) break;
      const ASTRecordLayout& layout = context_.getASTRecordLayout(around);
      const size_t before = record_.slots.size();
      add(field->getType(), at, prefix + field->getNameAsString(), false);
      for (size_t i = before; i < record_.slots.size(); ++i) {
        Slot& slot = record_.slots[i];
        slot.tag_offset = around_at + layout.getFieldOffset(other->getFieldIndex()) / 8;
        slot.tag_bytes =
            static_cast<uint32_t>(bytes_of(other->getType())) | (differs ? kTagDiffers : 0);
        slot.tag_value = number;
      }
      return true;
    }
    if (record_.refused.empty())
      record_.refused = "the annotation '" + said + "' of '" + field->getNameAsString() +
                        "' names no member beside the union, or no enumerator of it or number";
    return true;
  }

  /// An enumerator is one of the tag's own enumeration; of a tag that is an integer one of any, if
  /// all of that name are the same number.
  bool number_of(llvm::StringRef value, QualType tag, uint64_t& number) const {
    if (!value.getAsInteger(0, number)) return true;
    const llvm::StringRef last = value.substr(value.rfind(':') + 1);
    std::set<uint64_t> found;
    const auto look = [&](const auto& self, const DeclContext* in) -> void {
      for (const Decl* each : in->decls()) {
        if (const auto* constant = dyn_cast<EnumConstantDecl>(each);
            constant != nullptr && constant->getName() == last)
          found.insert(static_cast<uint64_t>(constant->getInitVal().getExtValue()));
        if (isa<EnumDecl>(each) || isa<RecordDecl>(each) || isa<NamespaceDecl>(each) ||
            isa<LinkageSpecDecl>(each))
          self(self, cast<DeclContext>(each));
      }
    };
    if (const auto* own = tag->getAs<EnumType>()) look(look, own->getDecl()->getDefinition());
    else look(look, context_.getTranslationUnitDecl());
    if (found.size() == 1) number = *found.begin();
    return found.size() == 1;
  }

  Records& records_;
  ASTContext& context_;
  Record& record_;
};

std::string Records::name_of(QualType type) const {
  if (type->isAnyPointerType()) return "pointer";
  if (const auto* record = type->getAs<RecordType>())
    if (const std::string said = annotation(record->getDecl(), "perdura_name:"); !said.empty())
      return said;
  PrintingPolicy policy(context_.getLangOpts());
  policy.SuppressTagKeyword = true;
  policy.AnonymousTagLocations = false;
  policy.FullyQualifiedName = true;
  policy.PrintCanonicalTypes = true;
  std::string name = type.getAsString(policy);
  if (const auto* record = type->getAs<RecordType>()) {
    if (const TypedefNameDecl* named = record->getDecl()->getTypedefNameForAnonDecl())
      name = named->getQualifiedNameAsString();
    if (const auto* around =
            dyn_cast_or_null<FunctionDecl>(record->getDecl()->getParentFunctionOrMethod()))
      name = around->getQualifiedNameAsString() + "()::" + name;
  }
  if (name.size() > kNameMax) name = name.substr(0, kNameMax - 20) + " ... " + hash_of(name);
  return name;
}

RecordPtr Records::of(QualType type) {
  type = context_.getBaseElementType(type);  // an array is as many objects
  if (is_integer_for_pointers(type)) return words();
  type = type.getCanonicalType().getUnqualifiedType();
  RecordPtr& known = known_[type.getAsOpaquePtr()];
  if (known) return known;
  auto made = std::make_shared<Record>();
  made->name = name_of(type);
  made->size =
      std::max<uint64_t>(1, static_cast<uint64_t>(context_.getTypeSizeInChars(type).getQuantity()));
  made->alignment = static_cast<uint64_t>(context_.getTypeAlignInChars(type).getQuantity());
  if (made->size > kSizeMax) made->refused = "its size is more than 4 GiB";
  Builder builder(*this, *made);
  if (const auto* record = type->getAs<RecordType>()) {
    builder.add_members(record->getDecl()->getDefinition(), 0, "", true);
    std::stable_sort(made->slots.begin(), made->slots.end(), [](const Slot& a, const Slot& b) {
      return a.bytes != 0 && (b.bytes == 0 || a.offset < b.offset);
    });
    if (made->has_pointers() && made->size % kWord != 0 && made->refused.empty())
      made->refused = "its size is no multiple of 8 bytes, as of a packed type";
    // Many have these names.
    if (llvm::StringRef(made->name).contains("(unnamed") ||
        llvm::StringRef(made->name).contains("(anonymous") ||
        llvm::StringRef(made->name).contains("(lambda"))
      made->name += " " + made->key().substr(made->key().rfind('.') + 1);
  } else {
    builder.add(type, 0, "value", false);
  }
  return known_[type.getAsOpaquePtr()] = made;
}

RecordPtr Records::with_more(const RecordPtr& record) {
  if (record->has_tail()) return record;
  auto more = std::make_shared<Record>(*record);
  more->name += " and more";
  const uint64_t words = (record->size + kWord - 1) / kWord * kWord;
  more->slots.push_back({"behind", kMaybe, words, 0, nullptr, 0, 0, 0});
  return more;
}

RecordPtr Records::words() {
  auto words = std::make_shared<Record>();
  words->name = "words";
  words->size = words->alignment = kWord;
  words->slots.push_back({"word", kMaybe, 0, kWord, nullptr, 0, 0, 0});
  return words;
}

RecordPtr Records::behind_cookie(const RecordPtr& record, uint64_t cookie) {
  auto array = std::make_shared<Record>();
  array->name = record->name + "[] behind " + std::to_string(cookie) + " bytes";
  array->size = cookie;
  array->alignment = std::max<uint64_t>(kWord, record->alignment);
  if (record->has_pointers())
    array->slots.push_back({"elements", kValue, cookie, 0, record, 0, 0, 0});
  return array;
}

}  // namespace perdura::types
