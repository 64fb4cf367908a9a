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

}  // namespace

StorePlace::StorePlace(const std::string& uri, bool keep, const std::vector<std::string>& names)
    : keep_(keep), base_(uri), names_(names) {
  if (uri.empty()) {
    directory_ = new_directory();
    base_ = "file:" + directory_ + "/index";
  }
  for (const std::string& name : names_)
    if (const fs::path file = file_of(this->uri(name)); !file.empty() && fs::exists(file))
      throw std::runtime_error(file.string() +
                               ": exists already; the demo starts from nothing, so name another "
                               "store or remove it");
}

StorePlace::~StorePlace() {
  for (const std::string& name : names_) done_with(name);
  std::error_code ignored;
  if (!keep_ && !directory_.empty()) fs::remove(directory_, ignored);
}

std::string StorePlace::uri(const std::string& name) const {
  const auto query = std::min(base_.find('?'), base_.size());
  return base_.substr(0, query) + "-" + name + base_.substr(query);
}

void StorePlace::done_with(const std::string& name) const {
  std::error_code ignored;
  if (const fs::path file = file_of(uri(name)); !keep_ && !file.empty()) fs::remove(file, ignored);
}

}  // namespace demo
