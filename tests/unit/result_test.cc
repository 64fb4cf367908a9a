// Goal: what went wrong is told, once and whole, also where no memory is left: what is said once,
// such as damage that was found, is never lost on its way to the program.
// Method: each allocation fails from the moment at which there is a failure.
#include "base/result.hpp"

#include <gtest/gtest.h>

#include "support/call_faults.hpp"

namespace perdura::test {
namespace {

constexpr const char* kSentence = "a sentence that is too long for a string without memory";

Status passed_on(Status status) {
  PERDURA_TRY(std::move(status));
  return {};
}

Result<int> passed_on_as_another(Status status) {
  PERDURA_TRY(passed_on(std::move(status)));
  return 0;
}

Result<u64> assigned(Status status) {
  PERDURA_ASSIGN(const int value, passed_on_as_another(std::move(status)));
  return u64{0} + static_cast<u64>(value);
}

TEST(Failures, AreToldWithoutMemory) {
  const TestThread here;
  Status failed = Failure{Code::kCorrupt, kSentence};
  const CallFault fault{.call = Call::kAllocate, .for_ever = true};
  std::string told;
  Code code = Code::kOk;
  arm_calls(&fault);
  try {
    in_library([&] { value_or_throw(assigned(std::move(failed))); });
  } catch (const Error& error) {
    disarm_calls();
    told = error.what();
    code = error.code();
  }
  disarm_calls();
  EXPECT_EQ(calls_failed(), 0u);
  EXPECT_EQ(told, kSentence);
  EXPECT_EQ(code, Code::kCorrupt);
}

TEST(Failures, AreCopiedWithoutTheirMessageAtWorst) {
  const TestThread here;
  const Error error(Code::kNoSpace, kSentence);
  const CallFault fault{.call = Call::kAllocate, .for_ever = true};
  arm_calls(&fault);
  const Error copy = in_library([&] { return Error(error); });
  disarm_calls();
  EXPECT_EQ(calls_failed(), 1u);
  EXPECT_EQ(copy.code(), Code::kNoSpace);
  EXPECT_STREQ(copy.what(), "");
  EXPECT_STREQ(Error(error).what(), kSentence);
}

}  // namespace
}  // namespace perdura::test
