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

}  // namespace perdura::test
