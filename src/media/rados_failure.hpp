// What librados answers, as a failure.
#pragma once

#include <cerrno>
#include <string>

#include "base/result.hpp"

namespace perdura::media {

/// `error`: negative. Of a client on the blocklist kLocked.
inline Failure rados_failure(int error, std::string what) {
  if (error == -ESHUTDOWN)
    return {Code::kLocked, std::move(what) + ": another opening has taken the store over"};
  if (error == -ENOSPC || error == -EDQUOT)
    return {Code::kNoSpace, std::move(what) + ": the cluster, or its pool's quota, is full"};
  return system_failure(-error, std::move(what));
}

}  // namespace perdura::media
