#include "store/storage.hpp"

namespace perdura::store {

const EngineKind& engine_kind(Engine engine) {
  return engine == Engine::kRemap ? chunk_kind() : redo_log_kind();
}

const EngineKind& engine_kind(const format::RegionRecord& record) {
  switch (record.engine) {
    case format::EngineId::kRemap:
      return chunk_kind();
    case format::EngineId::kObjects:
      return object_kind();
    default:
      return redo_log_kind();
  }
}

}  // namespace perdura::store
