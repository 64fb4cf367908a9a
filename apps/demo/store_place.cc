#include "store_place.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace demo {

namespace fs = std::filesystem;

namespace {

/// The file behind a URI such as "emu:PATH?write_ns=300"; empty when there is none.
fs::path file_of(const std::string& uri) {
  const std::string location = uri.substr(0, uri.find('?'));
  if (location.find("://") != std::string::npos) return {};
  const auto colon = location.find(':');
  return colon == std::string::npos ? location : location.substr(colon + 1);
}

/// /tmp is often memory; the demo is to show what a disk costs.
std::string new_directory() {
  std::error_code ignored;
  const fs::path parent =
      fs::is_directory("/var/tmp", ignored) ? fs::path("/var/tmp") : fs::temp_directory_path();
  std::string path = parent / "perdura-demo-XXXXXX";
  if (mkdtemp(path.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(),
                            "cannot make a directory in " + parent.string());
  return path;
}

std::string with_suffix(const std::string& uri, const std::string& suffix) {
  const auto query = std::min(uri.find('?'), uri.size());
  return uri.substr(0, query) + suffix + uri.substr(query);
}

}  // namespace

StorePlace::StorePlace(const std::string& uri, bool keep) : keep_(keep) {
  if (uri.empty()) {
    directory_ = new_directory();
    killed_ = "file:" + directory_ + "/index.pd";
    undisturbed_ = "file:" + directory_ + "/undisturbed.pd";
  } else {
    killed_ = uri;
    undisturbed_ = with_suffix(uri, "-undisturbed");
  }
  for (const std::string& store : {killed_, undisturbed_})
    if (const fs::path file = file_of(store); !file.empty() && fs::exists(file))
      throw std::runtime_error(file.string() +
                               ": exists already; the demo starts from nothing, so name another "
                               "store or remove it");
}

StorePlace::~StorePlace() {
  if (keep_) return;
  std::error_code ignored;
  for (const std::string& store : {killed_, undisturbed_})
    if (const fs::path file = file_of(store); !file.empty()) fs::remove(file, ignored);
  if (!directory_.empty()) fs::remove(directory_, ignored);
}

}  // namespace demo
