#include "track/kinds.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "track/compiled_reports.hpp"
#include "track/protected_pages.hpp"
#include "track/reported.hpp"
#include "track/userfault.hpp"

namespace perdura::track {
namespace {

using Made = Result<std::unique_ptr<Tracker>>;

Made make_userfault(const Watched& watched) {
  PERDURA_ASSIGN(auto made, Userfault::create(watched.base, watched.bytes, watched.memory));
  return std::unique_ptr<Tracker>(std::move(made));
}

template <Tracking kMode>
Made make_protected(const Watched& watched) {
  PERDURA_ASSIGN(auto made, ProtectedPages::create(watched.base, watched.bytes, kMode,
                                                   watched.memory, watched.chunk_bytes));
  return std::unique_ptr<Tracker>(std::move(made));
}

template <Tracking kMode>
Made make_reported(const Watched& watched) {
  PERDURA_ASSIGN(auto made, Reported::create(watched.mutators, watched.base, watched.bytes, kMode,
                                             watched.granule_bytes));
  return std::unique_ptr<Tracker>(std::move(made));
}

Made make_compiled(const Watched& watched) {
  PERDURA_TRY(check_compiled(watched.base, watched.bytes));
  return make_reported<Tracking::kCompiled>(watched);
}

// The page trackers first, in the order in which kAutomatic tries them.
constexpr Kind kKinds[] = {
    {.tracking = Tracking::kUserfault,
     .in_c = PERDURA_TRACK_USERFAULT,
     .name = "userfault",
     .is_reported = false,
     .sees_first = false,
     .lists_lines = false,
     .make = make_userfault},
    {.tracking = Tracking::kSigbus,
     .in_c = PERDURA_TRACK_SIGBUS,
     .name = "sigbus",
     .is_reported = false,
     .sees_first = true,
     .lists_lines = false,
     .make = make_protected<Tracking::kSigbus>},
    {.tracking = Tracking::kProtect,
     .in_c = PERDURA_TRACK_PROTECT,
     .name = "protect",
     .is_reported = false,
     .sees_first = true,
     .by_access = true,
     .lists_lines = false,
     .make = make_protected<Tracking::kProtect>},
    {.tracking = Tracking::kReported,
     .in_c = PERDURA_TRACK_REPORTED,
     .name = "reported",
     .is_reported = true,
     .sees_first = true,
     .lists_lines = true,
     .make = make_reported<Tracking::kReported>},
    {.tracking = Tracking::kBitmap,
     .in_c = PERDURA_TRACK_BITMAP,
     .name = "bitmap",
     .is_reported = true,
     .sees_first = true,
     .lists_lines = false,
     .make = make_reported<Tracking::kBitmap>},
    {.tracking = Tracking::kCompiled,
     .in_c = PERDURA_TRACK_COMPILED,
     .name = "compiled",
     .is_reported = true,
     .by_compiler = true,
     .sees_first = true,
     .lists_lines = true,
     .make = make_compiled},
    {.tracking = Tracking::kAutomatic,
     .in_c = PERDURA_TRACK_AUTOMATIC,
     .name = "automatic",
     .is_reported = false,
     .sees_first = true,  // one that does is chosen
     .lists_lines = false,
     .make = nullptr},
};
constexpr bool is_page_tracker(const Kind& kind) {
  return !kind.is_reported && kind.tracking != Tracking::kAutomatic;
}
constexpr auto kPageTrackers = static_cast<size_t>(std::ranges::count_if(kKinds, is_page_tracker));
static_assert(std::ranges::is_partitioned(kKinds, is_page_tracker));
static_assert(std::ranges::all_of(kKinds, [](const Kind& kind) {
  return static_cast<u32>(kind.tracking) == static_cast<u32>(kind.in_c);
}));

}  // namespace

const Kind* find_kind(Tracking tracking) {
  const auto* const found = std::ranges::find(kKinds, tracking, &Kind::tracking);
  return found != std::end(kKinds) ? found : nullptr;
}

const Kind& kind_of(Tracking tracking) {
  const Kind* const found = find_kind(tracking);
  PERDURA_ASSERT(found != nullptr);
  return *found;
}

std::span<const Kind> page_trackers() { return std::span(kKinds).first(kPageTrackers); }

}  // namespace perdura::track

const char* perdura::name_of(Tracking tracking) {
  const track::Kind* const found = track::find_kind(tracking);
  return found != nullptr ? found->name : "unknown";
}
