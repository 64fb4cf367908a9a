// The example of docs/testing-your-code.md, as it stands there: it finds nothing wrong. The same
// with a step in two operations: the test of it fails.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

#include <perdura/testing.hpp>

#define EXPECT_TRUE(condition) \
  if (condition) {             \
  } else std::cerr

namespace {

bool documented() {
#include "example.inc"
  return report.ok() && report.versions != 0;
}

struct Account {
  std::uint64_t left = 0, right = 0;
};

bool in_two_operations() {
  const auto report = perdura::testing::crash_test(
      {},
      [](perdura::Store& store) {
        auto& account = store.root<Account>("account");
        for (std::uint64_t Account::* const side : {&Account::left, &Account::right}) {
          const auto operation = store.operation();
          operation.touch(&account, sizeof account);
          ++(account.*side);
        }
      },
      [](perdura::Store& store) -> std::string {
        const auto* const account = store.find_root<Account>("account");
        return account == nullptr || account->left == account->right ? "" : "unequal";
      });
  return report.ok();
}

}  // namespace

int main() {
  const bool good = documented();
  const bool wrong = in_two_operations();
  std::printf("the example is %s, two operations are %s\n", good ? "right" : "wrong",
              wrong ? "not found" : "found");
  return good && !wrong ? 0 : 1;
}
