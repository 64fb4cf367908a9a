// What services of objects have in common: the checksum behind each object's data, and a head that
// says whose objects these are.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "format/object_medium_format.hpp"
#include "media/medium.hpp"

namespace perdura::media {

/// Of an object's data, behind which it stands; with its place.
u64 object_checksum(u64 place, Bytes data);

struct FoundObject {
  Bytes content;  ///< data, and their end
  u64 place;
  std::string_view kind;  ///< for messages: "object", "item"
};
/// The data's beginning, as much as `into` takes; kCorrupt where it is no such object.
Status take_object(const std::string& medium, const FoundObject& found, MutableBytes into);

/// How the head of a kind of medium begins.
struct HeadKind {
  const char (&magic)[8];
  u32 version;
  std::string_view name;  ///< for messages: "head", "head item"
};
/// Of a medium that is made now: with a nonce, without its checksum.
Result<format::MediumHead> new_object_head(const HeadKind& kind);
u64 object_head_checksum(Bytes head);
/// `content`: of the whole head, which begins with an MediumHead, at least. kForeign, kCorrupt and
/// kIncompatible are of the head, the service is sound.
Status check_object_head(const std::string& medium, const HeadKind& kind, Bytes content,
                         size_t head_bytes);

}  // namespace perdura::media
