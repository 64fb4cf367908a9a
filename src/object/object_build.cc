#include "object/object_build.hpp"

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"

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
    ObjectBuild found = *reinterpret_cast<const ObjectBuild*>(slots + offset);
    found.checksum = found.sequence = 0;
    return found;
  }
  return {};
}

}  // namespace perdura::object
