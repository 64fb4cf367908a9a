// Where a store on an S3 service is, and who asks: of a URI, the environment, and AWS's files.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "media/s3_client.hpp"

namespace perdura::media {
namespace {

constexpr size_t kPrefixBytesMax = 500;  // names have at most 1024

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

/// What AWS's tools keep: sections of profiles, with lines "name = value".
class ProfileFile {
 public:
  ProfileFile(const char* variable, const char* usual) : path_(environment(variable)) {
    const std::string home = environment("HOME");
    if (path_.empty() && !home.empty()) path_ = home + usual;
  }
  /// "" where there is none.
  std::string value(std::string_view section, std::string_view name) const {
    std::ifstream file(path_);
    bool is_there = false;
    for (std::string line; std::getline(file, line);) {
      const std::string_view text = trimmed(line);
      if (text.starts_with('[')) is_there = text == fmt::format("[{}]", section);
      const size_t equals = text.find('=');
      if (is_there && equals != text.npos && trimmed(text.substr(0, equals)) == name)
        return std::string(trimmed(text.substr(equals + 1)));
    }
    return {};
  }

 private:
  std::string path_;
};

void find_credentials(S3Place& place) {
  place.key = environment("AWS_ACCESS_KEY_ID");
  place.secret = environment("AWS_SECRET_ACCESS_KEY");
  place.token = environment("AWS_SESSION_TOKEN");
  if (!place.key.empty()) return;
  const ProfileFile file("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials");
  std::string profile = environment("AWS_PROFILE");
  if (profile.empty()) profile = "default";
  place.key = file.value(profile, "aws_access_key_id");
  place.secret = file.value(profile, "aws_secret_access_key");
  place.token = file.value(profile, "aws_session_token");
}

std::string region_of(const MediumOptions& options) {
  if (!options.region.empty()) return options.region;
  for (const char* const variable : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (std::string region = environment(variable); !region.empty()) return region;
  const std::string profile = environment("AWS_PROFILE");
  const bool is_default = profile.empty() || profile == "default";
  std::string region = ProfileFile("AWS_CONFIG_FILE", "/.aws/config")
                           .value(is_default ? "default" : "profile " + profile, "region");
  return region.empty() ? "us-east-1" : region;
}

// What needs no escapes, neither in a path nor in a list's answer.
bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '/';
}

}  // namespace

Result<S3Place> S3Place::parse(std::string_view address, const MediumOptions& options) {
  const auto invalid = [&](const std::string& why) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("'s3:{}': {}; as in s3://bucket/folder/name", address, why)};
  };
  if (!address.starts_with("//")) return invalid("the bucket is missing");
  const std::string_view rest = address.substr(2);
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view prefix = rest.substr(std::min(slash + 1, rest.size()));
  if (slash == 0) return invalid("the bucket is missing");
  if (prefix.empty()) return invalid("the store's name is missing");
  if (prefix.size() > kPrefixBytesMax)
    return invalid(
        fmt::format("the store's name has {} bytes, more than {}", prefix.size(), kPrefixBytesMax));
  if (!std::ranges::all_of(rest, is_plain))
    return invalid("a store's name here has letters, digits and - _ . / alone");
  if (prefix.starts_with('/') || prefix.ends_with('/') || prefix.find("//") != prefix.npos ||
      fmt::format("/{}/", prefix).find("/.") != std::string::npos)
    return invalid("a part of the store's name is empty, or begins with a dot");
  S3Place place;
  place.bucket = rest.substr(0, slash);
  place.prefix = prefix;
  place.region = region_of(options);
  place.timeout_ms = options.timeout_ms;
  place.endpoint = options.endpoint.empty() ? environment("AWS_ENDPOINT_URL") : options.endpoint;
  if (place.endpoint.empty()) place.endpoint = "https://s3." + place.region + ".amazonaws.com";
  while (place.endpoint.ends_with('/')) place.endpoint.pop_back();
  if (!place.endpoint.starts_with("http://") && !place.endpoint.starts_with("https://"))
    return invalid(fmt::format("the endpoint '{}' begins neither with http:// nor with https://",
                               place.endpoint));
  find_credentials(place);
  return place;
}

}  // namespace perdura::media
