#include "store/storage.hpp"

namespace perdura::store {

const EngineKind& engine_kind(Engine engine) {
  return engine == Engine::kRemap ? chunk_kind() : redo_log_kind();
}

const EngineKind& engine_kind(const format::RegionRecord& record) {
  return record.engine == format::EngineId::kRemap ? chunk_kind() : redo_log_kind();
}

}  // namespace perdura::store
