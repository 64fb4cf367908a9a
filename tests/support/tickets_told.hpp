// What programs were told of an object whose callers draw tickets, through all their lives, and of
// another one in which they note them: as object_worker.cc and shared_worker.cc print it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <string>

#include "base/bits.hpp"

namespace perdura::test {

class TicketsTold {
 public:
  static constexpr u64 kCallers = 8;

  /// "ticket CALLER TICKET", "found CALLER TICKETS LAST NOTES", "notes CALLER NOTES" or "drawn
  /// TICKETS": what is missing, twice, or another one's fails the test. False: another line.
  bool note(const std::string& line) {
    char what[16];
    u64 of[4] = {};
    const int words =
        std::sscanf(line.c_str(), "%15s %lu %lu %lu %lu", what, &of[0], &of[1], &of[2], &of[3]);
    if (words < 1) return false;
    const std::string kind = what;
    if (kind == "ticket" && words == 3) {
      drawn(of[0], of[1]);
    } else if (kind == "found" && words == 5) {
      found(of[0], of[1], of[2]);
      noted(of[0], of[3], line);
    } else if (kind == "notes" && words == 3) {
      noted(of[0], of[1], line);
    } else if (kind == "drawn" && words == 2) {
      EXPECT_EQ(of[0], tickets()) << "tickets are missing";
    } else {
      return false;
    }
    return true;
  }
  u64 tickets() const { return owners_.size(); }

 private:
  void drawn(u64 caller, u64 ticket) {
    ASSERT_LT(caller, kCallers);
    EXPECT_TRUE(owners_.emplace(ticket, caller).second) << "ticket " << ticket << " twice";
    EXPECT_TRUE(counts_[caller] == 0 || ticket > last_[caller]) << "ticket " << ticket;
    last_[caller] = ticket;
    ++counts_[caller];
  }
  // One may have been drawn whose answer nobody heard.
  void found(u64 caller, u64 count, u64 last) {
    ASSERT_LT(caller, kCallers);
    if (count == counts_[caller] + 1) drawn(caller, last);
    EXPECT_EQ(count, counts_[caller]) << "of caller " << caller;
    EXPECT_EQ(last, last_[caller]) << "of caller " << caller;
  }
  void noted(u64 caller, u64 count, const std::string& line) {
    ASSERT_LT(caller, kCallers);
    EXPECT_GE(count, notes_[caller]) << line;
    notes_[caller] = count;
  }

  std::map<u64, u64> owners_;
  std::array<u64, kCallers> counts_{};
  std::array<u64, kCallers> last_{};
  std::array<u64, kCallers> notes_{};
};

}  // namespace perdura::test
