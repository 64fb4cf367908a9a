#include "harness.hpp"

#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

namespace perdura::bench {

Json Reach::text() const {
  if (kind_ == Kind::kNone) return nullptr;
  return fmt::format("{} {}", kind_ == Kind::kAtMost ? "≤" : "≥", bound_);
}

Json Reach::holds(double value) const {
  if (kind_ == Kind::kNone) return nullptr;
  return kind_ == Kind::kAtMost ? value <= bound_ : value >= bound_;
}

std::vector<Benchmark>& benchmarks() {
  static std::vector<Benchmark> all;
  return all;
}

bool Context::wants(std::string_view key) const {
  if (setup_.keys.empty()) return true;
  for (const std::string& wanted : setup_.keys)
    if (wanted == key) return true;
  return false;
}

void Context::figure(std::string_view key, std::string_view unit, Reach reach,
                     const Measured& measured) {
  Json figure;
  figure["key"] = key;
  // JSON has no NaN: what could not be measured is null.
  figure["value"] = std::isfinite(measured.value) ? Json(measured.value) : Json(nullptr);
  figure["unit"] = unit;
  figure["reach"] = reach.text();
  figure["holds"] = reach.holds(measured.value);
  figure["detail"] = measured.detail;
  setup_.sink(figure);
}

void Context::measure(std::string_view key, std::string_view unit, Reach reach,
                      const std::function<Measured()>& body) {
  if (!wants(key)) return;
  progress("{} …", key);
  Measured measured;
  try {
    measured = body();
  } catch (const std::exception& failure) {
    progress("{} failed: {}", key, failure.what());
    measured.detail["error"] = failure.what();
  }
  figure(key, unit, reach, measured);
}

void Context::say(const std::string& line) const {
  fmt::print(stderr, "  [{}] {}\n", setup_.benchmark, line);
}

std::string Context::path(Place place, std::string_view stem) {
  const std::string& directory =
      place == Place::kDisk ? setup_.disk_directory : setup_.memory_directory;
  return fmt::format("{}/{}-{}-{}", directory, setup_.benchmark, stem, paths_++);
}

std::string Context::uri(Place place, std::string_view stem) {
  return (place == Place::kDisk ? "file:" : "emu:") + path(place, stem);
}

void Context::remove(std::string_view path_or_uri) const {
  for (std::string_view scheme : {"file:", "emu:"})
    if (path_or_uri.starts_with(scheme)) path_or_uri.remove_prefix(scheme.size());
  namespace fs = std::filesystem;
  const fs::path path(path_or_uri.substr(0, path_or_uri.find('?')));
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string stem = path.filename().string();
    // The number that ends the stem must not be a prefix of another's.
    if (name.starts_with(stem) &&
        (name.size() == stem.size() || std::isdigit(name[stem.size()]) == 0))
      fs::remove_all(entry.path(), ignored);
  }
}

namespace {

std::string line_after(const char* path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) {
      const auto colon = line.find(':');
      const auto begin = line.find_first_not_of(" \t", colon + 1);
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  return "unknown";
}

/// The type of the mounted file system that holds `directory`.
std::string file_system(const std::string& directory) {
  std::error_code ignored;
  const std::string path = std::filesystem::weakly_canonical(directory, ignored).string();
  std::ifstream in("/proc/self/mounts");
  std::string type = "unknown";
  std::size_t longest = 0;
  std::string device, mount, kind, rest;
  while (in >> device >> mount >> kind && std::getline(in, rest)) {
    const std::string prefix = mount == "/" ? "/" : mount + "/";
    if ((path + "/").starts_with(prefix) && prefix.size() >= longest) {
      longest = prefix.size();
      type = kind;
    }
  }
  return type;
}

}  // namespace

Json machine(const std::string& directory) {
  utsname system{};
  uname(&system);
  Json result;
  result["cpu"] = line_after("/proc/cpuinfo", "model name");
  result["cores"] = std::thread::hardware_concurrency();
  result["kernel"] = fmt::format("{} {}", system.sysname, system.release);
  result["memory"] = line_after("/proc/meminfo", "MemTotal");
#if defined(__clang__)
  result["compiler"] = "clang " __clang_version__;
#else
  result["compiler"] = "gcc " __VERSION__;
#endif
  result["fs"] = file_system(directory);
  return result;
}

}  // namespace perdura::bench
