// Which build of the program wrote an object's calls: what is in its log means what the code of
// that build does. Each head has the build of its session behind it, in the same write.
#pragma once

#include <string>

#include "format/object_format.hpp"
#include "media/medium.hpp"

namespace perdura::object {

/// A build that is known by such a sum, of which people read `text`.
format::ObjectBuild build_named(u64 sum, const std::string& text);
/// Several that have an object at once.
format::ObjectBuild several_builds();
inline bool is_known(const format::ObjectBuild& build) { return build.sum != 0; }
inline bool is_same(const format::ObjectBuild& a, const format::ObjectBuild& b) {
  return is_known(a) && a.sum == b.sum;
}
/// For a message: "build NAME", or that it is not known.
std::string build_text(const format::ObjectBuild& build);

/// As it is written behind a head.
format::ObjectBuild build_behind(const format::ObjectHead& head, const format::ObjectBuild& build);
/// Of the session of the newest head; nobody's (zeros) where no slot has it whole. Both slots may
/// have it, if both heads are of that session; its sequence is that of the head it was found
/// behind. `slots`: what was read from `place`; a head of zeros is none.
format::ObjectBuild build_found(media::Medium& medium, u64 place, const std::byte* slots,
                                const format::ObjectHead& newest, const format::ObjectHead& older);
/// Before the next head is written: it takes the slot that is not the newest one's, and where only
/// that one has the build the newest one gets it. `found`: by build_found, in the slots at `place`.
Status complete_build(media::LinearMedium& medium, u64 place, const format::ObjectHead& newest,
                      const format::ObjectBuild& found);

}  // namespace perdura::object
