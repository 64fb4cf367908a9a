// What a call that must fail says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <perdura/error.hpp>

#include "base/result.hpp"

namespace perdura::test {

template <class T>
void expect_failure(const Result<T>& result, Code code, const std::string& sentence) {
  ASSERT_FALSE(result) << "lacks the failure '" << sentence << "'";
  EXPECT_EQ(result.failure().code, code) << result.failure().message;
  EXPECT_NE(result.failure().message.find(sentence), std::string::npos)
      << result.failure().message << " lacks '" << sentence << "'";
}

/// Of the public interface, which throws.
template <class Call>
void expect_error(Call&& call, Code code, const std::string& sentence) {
  try {
    call();
    ADD_FAILURE() << "lacks the failure '" << sentence << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(sentence), std::string::npos)
        << error.what() << " lacks '" << sentence << "'";
  }
}

}  // namespace perdura::test
