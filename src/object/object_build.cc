#include "object/object_build.hpp"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "object/object_table.hpp"

namespace perdura::object {

using format::ObjectBuild;
using format::ObjectHead;

namespace {

u64 build_checksum(const ObjectBuild& build) {
  return checksum(&build.sequence, sizeof build - sizeof build.checksum);
}

// The text is printed: no more of it than there is.
bool fits(const ObjectBuild& build, const ObjectHead& head) {
  return build.checksum == build_checksum(build) && build.sequence == head.sequence &&
         build.text[format::kObjectBuildTextMax] == '\0';
}

}  // namespace

ObjectBuild build_named(u64 sum, const std::string& text) {
  ObjectBuild build{};
  build.sum = sum;
  text.copy(build.text, format::kObjectBuildTextMax);
  return build;
}

ObjectBuild several_builds() { return build_named(0, "several builds at once"); }

std::string build_text(const ObjectBuild& build) {
  if (build.text[0] == '\0') return "a build that is not known";
  return (is_known(build) ? "build " : "") + std::string(build.text);
}

ObjectBuild build_behind(const ObjectHead& head, const ObjectBuild& build) {
  ObjectBuild summed = build;
  summed.sequence = head.sequence;
  summed.checksum = build_checksum(summed);
  return summed;
}

ObjectBuild build_found(media::Medium& medium, u64 place, const std::byte* slots,
                        const ObjectHead& newest, const ObjectHead& older) {
  for (const ObjectHead* const head : {&newest, &older}) {
    if (head->magic == 0 || head->identity != newest.identity || head->session != newest.session)
      continue;
    const u64 offset = head->sequence % 2 * format::kObjectHeadBytes + format::kObjectBuildOffset;
    const bool whole = medium.whole(place + offset, slots + offset, sizeof(ObjectBuild),
                                    PERDURA_SITE("object build"), [&](const std::byte* at) {
                                      return fits(*reinterpret_cast<const ObjectBuild*>(at), *head);
                                    });
    if (!whole) continue;
    return *reinterpret_cast<const ObjectBuild*>(slots + offset);
  }
  return {};
}

// All else of the slot is what it was, so its head is whole whatever becomes of the write.
Status complete_build(media::LinearMedium& medium, u64 place, const ObjectHead& newest,
                      const ObjectBuild& found) {
  if (found.sequence == 0 || found.sequence == newest.sequence) return {};
  const u64 slot = newest.sequence % 2;
  const u64 at = place + slot * format::kObjectHeadBytes;
  AlignedBuffer bytes(format::kObjectHeadBytes);
  PERDURA_TRY(medium.load_pages(at, bytes.span()));
  const bool whole = medium.whole(
      at, bytes.data(), sizeof newest, PERDURA_SITE("object head"), [&](const std::byte* head) {
        return head_fits(*reinterpret_cast<const ObjectHead*>(head), slot);
      });
  if (!whole)
    return Failure{Code::kCorrupt, "the newest head of an object of '" + medium.name() +
                                       "' (medium offset " + std::to_string(at) +
                                       ") was whole and is not any more; open it again"};
  const ObjectBuild completed = build_behind(newest, found);
  std::memcpy(bytes.data() + format::kObjectBuildOffset, &completed, sizeof completed);
  const u64 unit = medium.geometry().write_bytes;
  const u64 begin = round_down(format::kObjectBuildOffset, unit);
  const u64 end = round_up(format::kObjectBuildOffset + sizeof completed, unit);
  PERDURA_TRY(medium.write(at + begin, bytes.span().subspan(begin, end - begin),
                           PERDURA_SITE("object build")));
  // Barrier: the build is durable before the next head takes the slot that has it now.
  return medium.barrier(PERDURA_SITE("object build"));
}

}  // namespace perdura::object
