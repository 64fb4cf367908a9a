#include "store/storage.hpp"

namespace perdura::store {

const EngineKind& engine_kind(Engine engine) {
  switch (engine) {
    case Engine::kRemap:
      return chunk_kind();
    case Engine::kDualCopy:
      return copy_kind();
    default:
      return redo_log_kind();
  }
}

const EngineKind& engine_kind(const format::RegionRecord& record) {
  switch (record.engine) {
    case format::EngineId::kRemap:
      return chunk_kind();
    case format::EngineId::kCopies:
      return copy_kind();
    case format::EngineId::kObjects:
    case format::EngineId::kObjectsOverflowing:
    case format::EngineId::kOverflow:
      return object_kind();
    default:
      return redo_log_kind();
  }
}

}  // namespace perdura::store
