// libcurl, loaded when the first store on an S3 service is opened.
#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/result.hpp"

namespace perdura::media {

#define PERDURA_CURL_FUNCTIONS(X) \
  X(global_init)                  \
  X(version_info)                 \
  X(easy_init)                    \
  X(easy_cleanup)                 \
  X(easy_reset)                   \
  X(easy_setopt)                  \
  X(easy_getinfo)                 \
  X(easy_strerror)                \
  X(slist_append)                 \
  X(slist_free_all)               \
  X(multi_init)                   \
  X(multi_cleanup)                \
  X(multi_add_handle)             \
  X(multi_remove_handle)          \
  X(multi_perform)                \
  X(multi_poll)                   \
  X(multi_info_read)              \
  X(multi_setopt)

/// Functions that libcurl calls curl_…, by their names there.
struct CurlApi {
#define PERDURA_CURL_MEMBER(name) decltype(&::curl_##name) name = nullptr;
  PERDURA_CURL_FUNCTIONS(PERDURA_CURL_MEMBER)
#undef PERDURA_CURL_MEMBER

  /// kUnsupported where it is not installed, or cannot sign requests. Thread-safe.
  static Result<const CurlApi*> get();
};

}  // namespace perdura::media
