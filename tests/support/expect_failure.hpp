// What a call that must fail says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/result.hpp"

namespace perdura::test {

template <class T>
void expect_failure(const Result<T>& result, Code code, const std::string& sentence) {
  ASSERT_FALSE(result) << "lacks the failure '" << sentence << "'";
  EXPECT_EQ(result.failure().code, code) << result.failure().message;
  EXPECT_NE(result.failure().message.find(sentence), std::string::npos)
      << result.failure().message << " lacks '" << sentence << "'";
}

}  // namespace perdura::test
