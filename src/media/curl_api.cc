#include "media/curl_api.hpp"

#include <string>

#include "media/loaded_library.hpp"

namespace perdura::media {
namespace {

constexpr unsigned kOldestCurl = 0x075800;  // 7.88: signs requests that have queries

Status load_curl(CurlApi& api) {
  PERDURA_ASSIGN(const LoadedLibrary library,
                 LoadedLibrary::load("libcurl.so.4", "the package libcurl4"));
#define PERDURA_CURL_FIND(name) PERDURA_TRY(library.find("curl_" #name, api.name));
  PERDURA_CURL_FUNCTIONS(PERDURA_CURL_FIND)
#undef PERDURA_CURL_FIND
  const curl_version_info_data* const version = api.version_info(CURLVERSION_NOW);
  if (version->version_num < kOldestCurl)
    return Failure{Code::kUnsupported, "libcurl " + std::string(version->version) +
                                           " is too old to sign requests of S3; install 7.88 or "
                                           "newer"};
  if (api.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return Failure{Code::kIo, "libcurl cannot be used: curl_global_init fails"};
  return {};
}

}  // namespace

Result<const CurlApi*> CurlApi::get() { return loaded_once<load_curl, CurlApi>(); }

}  // namespace perdura::media
