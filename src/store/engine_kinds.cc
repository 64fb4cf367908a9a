#include <algorithm>

#include <perdura/perdura.h>

#include "base/assert.hpp"
#include "store/storage.hpp"

namespace perdura::store {
namespace {

/// What a program may choose.
struct Choice {
  Engine engine;
  perdura_engine in_c;  ///< the same number
  const EngineKind& (*kind)();
};
constexpr Choice kChoices[] = {
    {Engine::kRedoLog, PERDURA_ENGINE_REDO_LOG, redo_log_kind},
    {Engine::kRemap, PERDURA_ENGINE_REMAP, chunk_kind},
    {Engine::kDualCopy, PERDURA_ENGINE_DUAL_COPY, copy_kind},
};
static_assert(std::ranges::all_of(kChoices, [](const Choice& choice) {
  return static_cast<u32>(choice.engine) == static_cast<u32>(choice.in_c);
}));

}  // namespace

const EngineKind* find_engine_kind(Engine engine) {
  const auto* const found = std::ranges::find(kChoices, engine, &Choice::engine);
  return found != std::end(kChoices) ? &found->kind() : nullptr;
}

const EngineKind& engine_kind(Engine engine) {
  const EngineKind* const found = find_engine_kind(engine);
  PERDURA_ASSERT(found != nullptr);
  return *found;
}

const EngineKind& engine_kind(const format::RegionRecord& record) {
  switch (record.engine) {
    case format::EngineId::kRedoLog:
      return redo_log_kind();
    case format::EngineId::kRemap:
      return chunk_kind();
    case format::EngineId::kCopies:
      return copy_kind();
    case format::EngineId::kObjects:
    case format::EngineId::kObjectsOverflowing:
    case format::EngineId::kOverflow:
      return object_kind();
    case format::EngineId::kUnsaid:
      break;
  }
  PERDURA_ASSERT(false);  // region/engine_rules.cc knows no other, and such a volume is not opened
}

}  // namespace perdura::store
