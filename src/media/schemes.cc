// What a URI opens: the schemes, each with its parameters. A new medium is a line of the table
// here.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "media/file_medium.hpp"
#include "media/mapped_medium.hpp"
#include "media/medium.hpp"
#include "media/memcached_service.hpp"
#ifdef PERDURA_RADOS
#include "media/rados_service.hpp"
#endif
#ifdef PERDURA_S3
#include "media/s3_service.hpp"
#endif

namespace perdura::media {
namespace {

// --- parameters ----------------------------------------------------------------------------------

struct Parameter {
  std::string_view key;
  std::variant<u64 MediumOptions::*, bool MediumOptions::*, Flush MediumOptions::*,
               std::string MediumOptions::*>
      member;
  u64 min = 0;  ///< of a number
  u64 max = std::numeric_limits<u64>::max();

  Status set(std::string_view value, MediumOptions& options) const;
};

Result<u64> number_of(std::string_view key, std::string_view value) {
  u64 number = 0;
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
  if (parsed.ec == std::errc{} && parsed.ptr == value.data() + value.size()) return number;
  return Failure{Code::kInvalidArgument, "the URI parameter " + std::string(key) +
                                             " needs a number, not '" + std::string(value) + "'"};
}

Result<Flush> flush_of(std::string_view value) {
  constexpr std::pair<std::string_view, Flush> kWays[] = {{"nt", Flush::kNonTemporal},
                                                          {"clwb", Flush::kClwb},
                                                          {"clflushopt", Flush::kClflushopt},
                                                          {"clflush", Flush::kClflush}};
  for (const auto& [name, flush] : kWays)
    if (value == name) return flush;
  return Failure{Code::kInvalidArgument,
                 "flush is nt, clwb, clflushopt or clflush, not '" + std::string(value) + "'"};
}

Status Parameter::set(std::string_view value, MediumOptions& options) const {
  if (const auto* const flush = std::get_if<Flush MediumOptions::*>(&member)) {
    PERDURA_ASSIGN(options.**flush, flush_of(value));
    return {};
  }
  if (const auto* const text = std::get_if<std::string MediumOptions::*>(&member)) {
    options.** text = value;
    return {};
  }
  PERDURA_ASSIGN(const u64 number, number_of(key, value));
  if (number < min || number > max)
    return Failure{Code::kInvalidArgument,
                   "the URI parameter " + std::string(key) + " is " + std::to_string(min) +
                       (max == min + 1 ? " or " : " to ") + std::to_string(max) + ", not " +
                       std::to_string(number)};
  if (const auto* const flag = std::get_if<bool MediumOptions::*>(&member))
    options.** flag = number != 0;
  else options.*std::get<u64 MediumOptions::*>(member) = number;
  return {};
}

constexpr Parameter kIoUring{"io_uring", &MediumOptions::use_io_uring, 0, 1};
constexpr Parameter kTimeout{"timeout_ms", &MediumOptions::timeout_ms, 1,
                             std::numeric_limits<int>::max()};
constexpr Parameter kTakeover{"takeover", &MediumOptions::takeover, 0, 1};
constexpr Parameter kWriteNs{"write_ns", &MediumOptions::write_ns};
constexpr Parameter kBandwidth{"bandwidth_mb", &MediumOptions::bandwidth_mb};
constexpr Parameter kFlush{"flush", &MediumOptions::flush};

constexpr Parameter kLease{"lease_s", &MediumOptions::lease_s, 1, 3600};
constexpr Parameter kConf{"conf", &MediumOptions::conf};
constexpr Parameter kUser{"user", &MediumOptions::user};
constexpr Parameter kEndpoint{"endpoint", &MediumOptions::endpoint};
constexpr Parameter kRegion{"region", &MediumOptions::region};

constexpr Parameter kOfFiles[] = {kIoUring, kTimeout};
constexpr Parameter kOfMappings[] = {kWriteNs, kBandwidth, kFlush, kTimeout};
constexpr Parameter kOfServers[] = {kTimeout, kTakeover};
constexpr Parameter kOfBuckets[] = {kTimeout, kTakeover, kLease, kEndpoint, kRegion};
constexpr Parameter kOfClusters[] = {kTimeout, kTakeover, kLease, kConf, kUser};

// --- schemes -------------------------------------------------------------------------------------

struct Scheme {
  std::string_view name;
  std::span<const Parameter> parameters;
  Result<OpenedMedium> (*open)(const std::string& path, const MediumOptions& options);
  Status (*remove)(const std::string& path, const MediumOptions& options);
  bool has_files;  ///< what its paths name
};

Result<OpenedMedium> open_emulated(const std::string& path, const MediumOptions& options) {
  return open_mapped(path, MappedKind::kEmulated, options);
}

template <auto kOpen>
Status remove_file(const std::string& path, const MediumOptions& options) {
  PERDURA_ASSIGN(const OpenedMedium held, kOpen(path, options));  // nobody else writes to it
  if (held.medium->has_readers())
    return Failure{Code::kLocked,
                   "'" + path + "' is open to be read; close it there before it is removed"};
  if (::unlink(path.c_str()) == 0) return {};
  return system_failure(errno, "cannot remove " + path);
}

// What this Perdura was built without has a line in the table all the same, and says so.
[[maybe_unused]] Failure left_out(const char* scheme, const std::string& path, const char* option,
                                  const char* package) {
  return {Code::kUnsupported, std::string("cannot use '") + scheme + ":" + path +
                                  "': this Perdura was built without it; configure it with -D" +
                                  option + "=ON, which needs the package " + package};
}
#ifdef PERDURA_RADOS
Result<OpenedMedium> open_cluster(const std::string& path, const MediumOptions& options) {
  return open_rados(path, options);
}
Status remove_from_cluster(const std::string& path, const MediumOptions& options) {
  return remove_rados(path, options);
}
#else
Result<OpenedMedium> open_cluster(const std::string& path, const MediumOptions&) {
  return left_out("rados", path, "PERDURA_RADOS", "librados-dev");
}
Status remove_from_cluster(const std::string& path, const MediumOptions&) {
  return left_out("rados", path, "PERDURA_RADOS", "librados-dev");
}
#endif
#ifdef PERDURA_S3
Result<OpenedMedium> open_bucket(const std::string& path, const MediumOptions& options) {
  return open_s3(path, options);
}
Status remove_from_bucket(const std::string& path, const MediumOptions& options) {
  return remove_s3(path, options);
}
#else
Result<OpenedMedium> open_bucket(const std::string& path, const MediumOptions&) {
  return left_out("s3", path, "PERDURA_S3", "libcurl4-openssl-dev");
}
Status remove_from_bucket(const std::string& path, const MediumOptions&) {
  return left_out("s3", path, "PERDURA_S3", "libcurl4-openssl-dev");
}
#endif

constexpr Scheme kSchemes[] = {
    {.name = "file",
     .parameters = kOfFiles,
     .open = open_file,
     .remove = remove_file<open_file>,
     .has_files = true},
    {.name = "emu",
     .parameters = kOfMappings,
     .open = open_emulated,
     .remove = remove_file<open_emulated>,
     .has_files = true},
    {.name = "dax",
     .parameters = kOfMappings,
     .open =
         [](const std::string& path, const MediumOptions& options) {
           return open_mapped(path, MappedKind::kDax, options);
         },
     .remove = [](const std::string& path, const MediumOptions&) -> Status {
       return Failure{Code::kUnsupported, "dax:" + path + " is a device, not a file"};
     },
     .has_files = true},
    {.name = "memcached",
     .parameters = kOfServers,
     .open = [](const std::string& path,
                const MediumOptions& options) { return open_memcached(path, options); },
     .remove = [](const std::string& path,
                  const MediumOptions& options) { return remove_memcached(path, options); },
     .has_files = false},
    {.name = "rados",
     .parameters = kOfClusters,
     .open = open_cluster,
     .remove = remove_from_cluster,
     .has_files = false},
    {.name = "s3",
     .parameters = kOfBuckets,
     .open = open_bucket,
     .remove = remove_from_bucket,
     .has_files = false},
};
constexpr const Scheme& kOfPlainPaths = kSchemes[0];

// --- URIs ----------------------------------------------------------------------------------------

struct ParsedUri {
  const Scheme* scheme = &kOfPlainPaths;
  std::string_view path;
  std::string_view parameters;
  bool is_uri = false;  ///< it has a scheme; else a plain path
};

ParsedUri parse(std::string_view uri) {
  ParsedUri parsed;
  parsed.path = uri;
  for (const Scheme& known : kSchemes) {
    const size_t length = known.name.size();
    if (uri.size() > length && uri.starts_with(known.name) && uri[length] == ':') {
      parsed.scheme = &known;
      parsed.path = uri.substr(length + 1);
      parsed.is_uri = true;
    }
  }
  // A plain path may hold question marks; only a URI has parameters.
  if (!parsed.is_uri) return parsed;
  if (const size_t query = parsed.path.find('?'); query != std::string_view::npos) {
    parsed.parameters = parsed.path.substr(query + 1);
    parsed.path = parsed.path.substr(0, query);
  }
  return parsed;
}

Status set_parameter(const Scheme& scheme, std::string_view key, std::string_view value,
                     MediumOptions& options) {
  std::string known;
  for (const Parameter& parameter : scheme.parameters) {
    if (parameter.key == key) return parameter.set(value, options);
    known += (known.empty() ? "" : ", ") + std::string(parameter.key);
  }
  return Failure{Code::kInvalidArgument, "unknown URI parameter '" + std::string(key) + "' of " +
                                             std::string(scheme.name) + ":; it has " + known};
}

Status set_parameters(const ParsedUri& uri, MediumOptions& options) {
  std::string_view text = uri.parameters;
  std::vector<std::string_view> keys;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos)
      return Failure{Code::kInvalidArgument,
                     "URI parameters are written key=value, not '" + std::string(pair) + "'"};
    const std::string_view key = pair.substr(0, equals);
    PERDURA_TRY(set_parameter(*uri.scheme, key, pair.substr(equals + 1), options));
    if (std::ranges::count(keys, key) != 0)
      return Failure{Code::kInvalidArgument, "the URI parameter " + std::string(key) +
                                                 " is there twice; leave one of them out"};
    keys.push_back(key);
  }
  return {};
}

// "emy:" of "emy:state.pd"; "" of what nobody takes for a URI.
std::string_view unknown_scheme_of(std::string_view uri) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_of_scheme = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  const size_t length = std::min(uri.find(':'), uri.size());
  const std::string_view name = uri.substr(0, length);
  if (length == uri.size() || name.empty() || !is_letter(name.front()) ||
      !std::ranges::all_of(name, is_of_scheme))
    return {};
  return uri.substr(0, length + 1);
}

// A path may hold colons: only where there is no such file, nor a directory to make it in, may its
// beginning be a scheme that was mistyped.
Failure not_found(const ParsedUri& uri, Failure failure) {
  const std::string_view scheme = unknown_scheme_of(uri.path);
  if (uri.is_uri || failure.code != Code::kNotFound || scheme.empty()) return failure;
  std::string known;
  for (const Scheme& each : kSchemes)
    known += (known.empty() ? "" : ", ") + std::string(each.name) + ":";
  const std::string path(uri.path);
  failure.message = "cannot find the store '" + path + "': there is no such path, and '" +
                    std::string(scheme) + "' is none of the schemes, which are " + known +
                    "; choose one of them, or write 'file:" + path +
                    "' for a path in a directory that exists";
  return failure;
}

}  // namespace

Result<OpenedMedium> open_medium(std::string_view uri, MediumOptions options) {
  const ParsedUri parsed = parse(uri);
  PERDURA_TRY(set_parameters(parsed, options));
  if (options.shares && !parsed.scheme->has_files)
    return Failure{Code::kUnsupported, "processes cannot share what is on a server (" +
                                           std::string(parsed.scheme->name) +
                                           ":); use file:, emu: or dax:"};
  auto opened = parsed.scheme->open(std::string(parsed.path), options);
  if (!opened) return not_found(parsed, opened.failure());
  return opened;
}

// A link is a place of its own: who opens both finds the file locked.
std::string place_of(std::string_view uri) {
  const ParsedUri parsed = parse(uri);
  const std::string scheme = std::string(parsed.scheme->name) + ":";
  const std::filesystem::path path(parsed.path);
  if (!parsed.scheme->has_files) return scheme + path.string();
  std::error_code error;
  const auto folder =
      std::filesystem::weakly_canonical(path.has_parent_path() ? path.parent_path() : ".", error);
  return scheme + (error ? path : folder / path.filename()).string();
}

std::string occupant_of(std::string_view uri) {
  const ParsedUri parsed = parse(uri);
  struct stat info{};
  if (!parsed.scheme->has_files || ::stat(std::string(parsed.path).c_str(), &info) != 0) return {};
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

Status remove_medium(std::string_view uri) {
  const ParsedUri parsed = parse(uri);
  MediumOptions options;
  options.create = false;
  PERDURA_TRY(set_parameters(parsed, options));
  const Status removed = parsed.scheme->remove(std::string(parsed.path), options);
  if (!removed) return not_found(parsed, removed.failure());
  return {};
}

std::string uri_beside(std::string_view uri, std::string_view suffix) {
  const ParsedUri parsed = parse(uri);
  const auto end = static_cast<size_t>(parsed.path.data() + parsed.path.size() - uri.data());
  return std::string(uri.substr(0, end)) + std::string(suffix) + std::string(uri.substr(end));
}

}  // namespace perdura::media
