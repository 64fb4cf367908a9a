// What a crash would leave at some moments of a test, looked at when the test has ended: another
// store has its place until then.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <perdura/perdura.hpp>

#include "support/copy_working.hpp"

namespace perdura::test {

class CrashCopies {
 public:
  /// Of the store's file as it is now.
  void take(const std::string& path, const std::function<void(Store&)>& check) {
    const std::string copy = path + " copy " + std::to_string(copies_.size());
    copy_working(path, copy);
    copies_.emplace_back(copy, check);
  }
  void look(const std::string& scheme, const Options& options) const {
    for (const auto& [copy, check] : copies_) {
      Store store = Store::open(scheme + ":" + copy, options);
      const HeapAudit audit = store.audit();
      EXPECT_TRUE(audit.clean) << audit.problem;
      check(store);
    }
  }

 private:
  std::vector<std::pair<std::string, std::function<void(Store&)>>> copies_;
};

}  // namespace perdura::test
