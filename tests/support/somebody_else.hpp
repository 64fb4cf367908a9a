// A process without the rights of the one that started it.
#pragma once

#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace perdura::test {

/// For good. True also where the process has no rights that others lack. What is the process's own
/// in /proc stays its own, as if it had been started so.
inline bool become_somebody_else() {
  if (::geteuid() != 0) return true;
  constexpr uid_t kNobody = 65534;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

}  // namespace perdura::test
