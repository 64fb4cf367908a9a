// Names of tests whose parameter is the beginning of a URI, as "emu:".
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace perdura::test {

inline std::string name_of_scheme(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  name.pop_back();
  return name;
}

}  // namespace perdura::test
