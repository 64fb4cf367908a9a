// How a store is kept, and on what: each way once.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <perdura/options.hpp>

namespace perdura::test {

struct StorePlace {
  const char* scheme;
  Engine engine;
};

inline std::string name_of(const testing::TestParamInfo<StorePlace>& info) {
  const std::string engine = info.param.engine == Engine::kRemap      ? "Chunks"
                             : info.param.engine == Engine::kDualCopy ? "Copies"
                                                                      : "Log";
  return engine + (std::string(info.param.scheme) == "emu:" ? "OnNvm" : "OnAFile");
}

inline constexpr StorePlace kStorePlaces[] = {
    {"file:", Engine::kRedoLog}, {"file:", Engine::kRemap}, {"file:", Engine::kDualCopy},
    {"emu:", Engine::kRedoLog},  {"emu:", Engine::kRemap},  {"emu:", Engine::kDualCopy}};

/// Of a small store there, whose stores are reported.
inline Options small_options(const StorePlace& place) {
  Options options;
  options.region_limit_bytes = 8 << 20;
  options.engine = place.engine;
  options.tracking = Tracking::kReported;
  options.log_limit_bytes = 2 << 20;
  options.chunk_bytes = 16 * 1024;
  return options;
}

}  // namespace perdura::test
