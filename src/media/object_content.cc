#include "media/object_content.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/checksum.hpp"

namespace perdura::media {

using format::kObjectUnitBytes;
using format::MediumHead;
using format::ObjectEnd;

u64 object_checksum(u64 place, Bytes data) {
  const format::ObjectSummed summed{checksum(data.data(), data.size()), place};
  return checksum(&summed, sizeof summed);
}

Status take_object(const std::string& medium, const FoundObject& found, MutableBytes into) {
  ObjectEnd end;
  const size_t length = found.content.size();
  if (length < into.size() + sizeof end || !is_aligned(length - sizeof end, kObjectUnitBytes))
    return Failure{
        Code::kCorrupt,
        fmt::format(
            "the {} of '{}' at place {} has {} bytes, not {}; restore the store from a copy",
            found.kind, medium, found.place, length, into.size() + sizeof end)};
  const Bytes data = found.content.first(length - sizeof end);
  std::memcpy(&end, data.data() + data.size(), sizeof end);
  if (end.checksum != object_checksum(found.place, data))
    return Failure{Code::kCorrupt,
                   fmt::format("the {} of '{}' at place {} is damaged (its checksum does not fit); "
                               "restore the store from a copy",
                               found.kind, medium, found.place)};
  std::memcpy(into.data(), data.data(), into.size());
  return {};
}

Result<MediumHead> new_object_head(const HeadKind& kind) {
  MediumHead head{};
  std::memcpy(head.magic, kind.magic, sizeof head.magic);
  head.version = kind.version;
  head.unit_bytes = kObjectUnitBytes;
  if (::getrandom(&head.nonce, sizeof head.nonce, 0) != sizeof head.nonce)
    return system_failure(errno, "cannot draw a number for the names of a store's objects");
  return head;
}

u64 object_head_checksum(Bytes head) {
  constexpr size_t kFrom = offsetof(MediumHead, version);
  const Bytes summed = head.subspan(std::min(kFrom, head.size()));
  return checksum(summed.data(), summed.size());
}

Status check_object_head(const std::string& medium, const HeadKind& kind, Bytes content,
                         size_t head_bytes) {
  MediumHead head{};
  std::memcpy(&head, content.data(), std::min(content.size(), sizeof head));
  if (std::memcmp(head.magic, kind.magic, sizeof head.magic) != 0)
    return Failure{Code::kForeign,
                   fmt::format("'{}' is not a Perdura store (its {} is something else); choose "
                               "another name, or remove it",
                               medium, kind.name)};
  const bool is_whole =
      content.size() >= sizeof head && head.checksum == object_head_checksum(content);
  const bool is_known = head.version == kind.version && head.unit_bytes == kObjectUnitBytes;
  if (!is_whole ||
      (is_known && (content.size() != head_bytes || !is_aligned(head.size, kObjectUnitBytes))))
    return Failure{Code::kCorrupt, fmt::format("the {} of '{}' is damaged; restore the store from "
                                               "a copy",
                                               kind.name, medium)};
  if (!is_known)
    return Failure{
        Code::kIncompatible,
        fmt::format("the {} of '{}' has version {}, this Perdura reads version {}; {}", kind.name,
                    medium, head.version, kind.version,
                    head.version > kind.version ? "use a newer Perdura"
                                                : "use the older Perdura that wrote it")};
  return {};
}

}  // namespace perdura::media
