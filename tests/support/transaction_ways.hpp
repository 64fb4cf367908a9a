// Stores with transactions on either medium, with either logging, and what crashes would leave.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"
#include "support/crash_copies.hpp"
#include "support/files.hpp"

namespace perdura::test {

struct TransactionWay {
  friend void PrintTo(const TransactionWay& way, std::ostream* out) {
    *out << way.scheme << (way.logging == Logging::kUndo ? "_undo" : "");
  }
  std::string scheme;
  Logging logging;
};

class TransactionWays : public testing::TestWithParam<TransactionWay> {
 protected:
  virtual Options options() const {
    Options options;
    options.region_limit_bytes = 16 * kMiB;
    options.lazy_recovery = false;
    return options;
  }
  std::string path(const std::string& file = "store.pd") const { return folder_.path(file); }
  Store open(const std::string& file = "store.pd") const {
    Store store = Store::open(GetParam().scheme + ":" + path(file), options());
    set_logging(store, GetParam().logging);
    return store;
  }
  /// What a crash would leave now is looked at when the test has ended.
  void after_crash(const std::function<void(Store&)>& check) { crashes_.take(path(), check); }
  void TearDown() override { crashes_.look(GetParam().scheme, options()); }

 private:
  const TempDir folder_{TempDir::kMemory};
  CrashCopies crashes_;
};

inline const auto kTransactionWays =
    testing::Values(TransactionWay{"emu", Logging::kRedo}, TransactionWay{"emu", Logging::kUndo},
                    TransactionWay{"file", Logging::kRedo}, TransactionWay{"file", Logging::kUndo});

}  // namespace perdura::test
