#include "media/medium.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/checksum.hpp"
#include "media/file_medium.hpp"
#include "media/mapped_medium.hpp"
#include "media/memcached_medium.hpp"
#include "media/summed_copy.hpp"

namespace perdura::media {
namespace {

Status parse_parameter(std::string_view key, std::string_view value, MediumOptions& options) {
  if (key == "flush") {
    if (value == "nt") options.flush = Flush::kNonTemporal;
    else if (value == "clwb") options.flush = Flush::kClwb;
    else if (value == "clflushopt") options.flush = Flush::kClflushopt;
    else if (value == "clflush") options.flush = Flush::kClflush;
    else
      return Failure{Code::kInvalidArgument,
                     "flush is nt, clwb, clflushopt or clflush, not '" + std::string(value) + "'"};
    return {};
  }
  u64 use_io_uring = options.use_io_uring;
  u64 takeover = options.takeover;
  const std::pair<std::string_view, u64*> numbers[] = {{"write_ns", &options.write_ns},
                                                       {"bandwidth_mb", &options.bandwidth_mb},
                                                       {"io_uring", &use_io_uring},
                                                       {"timeout_ms", &options.timeout_ms},
                                                       {"takeover", &takeover}};
  for (const auto& [name, number] : numbers) {
    if (key != name) continue;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), *number);
    if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size())
      return Failure{Code::kInvalidArgument, "the URI parameter " + std::string(key) +
                                                 " needs a number, not '" + std::string(value) +
                                                 "'"};
    options.use_io_uring = use_io_uring != 0;
    options.takeover = takeover != 0;
    return {};
  }
  return Failure{
      Code::kInvalidArgument,
      "unknown URI parameter '" + std::string(key) +
          "'; known are write_ns, bandwidth_mb, flush, io_uring, timeout_ms and takeover"};
}

Status parse_parameters(std::string_view text, MediumOptions& options) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos)
      return Failure{Code::kInvalidArgument,
                     "URI parameters are written key=value, not '" + std::string(pair) + "'"};
    PERDURA_TRY(parse_parameter(pair.substr(0, equals), pair.substr(equals + 1), options));
  }
  return {};
}

}  // namespace

Result<bool> Medium::verified_read(u64 offset, MutableBytes into, u64 expected, const Site& site) {
  const ReadRequest request{offset, into};
  PERDURA_TRY(load({&request, 1}));
  return whole(offset, into.data(), into.size(), site,
               [&](const std::byte* bytes) { return checksum(bytes, into.size()) == expected; });
}

bool Medium::decide(u64, const std::byte* bytes, u64, const Site&, Fits fits) {
  return fits(bytes);
}

Result<u64> WriteQueue::submit_gathered(u64 offset, const Gather& gather, const Site& site) {
  alignas(kPageBytes) std::byte copy[Gather::kLinesMax * kLineBytes];
  const u64 sum = gather_summed(copy, gather);
  PERDURA_TRY(submit(offset, {copy, gather.bytes()}, site));
  PERDURA_TRY(drain());
  return sum;
}

Status Medium::read_all(std::span<const ReadRequest> requests) {
  for (const ReadRequest& request : requests) PERDURA_TRY(read(request.offset, request.into));
  return {};
}

namespace {

struct ParsedUri {
  std::string_view scheme = "file";
  std::string_view path;
  std::string_view parameters;
};

ParsedUri parse(std::string_view uri) {
  ParsedUri parsed;
  parsed.path = uri;
  for (std::string_view known : {"file", "emu", "dax", "memcached"}) {
    if (uri.size() > known.size() && uri.starts_with(known) && uri[known.size()] == ':') {
      parsed.scheme = known;
      parsed.path = uri.substr(known.size() + 1);
    }
  }
  // A plain path may hold question marks; only a URI has parameters.
  if (parsed.path.size() == uri.size()) return parsed;
  if (const size_t query = parsed.path.find('?'); query != std::string_view::npos) {
    parsed.parameters = parsed.path.substr(query + 1);
    parsed.path = parsed.path.substr(0, query);
  }
  return parsed;
}

}  // namespace

Result<OpenedMedium> open_medium(std::string_view uri, MediumOptions options) {
  const ParsedUri parsed = parse(uri);
  PERDURA_TRY(parse_parameters(parsed.parameters, options));
  const std::string path(parsed.path);
  if (parsed.scheme == "emu") return open_mapped(path, MappedKind::kEmulated, options);
  if (parsed.scheme == "dax") return open_mapped(path, MappedKind::kDax, options);
  if (parsed.scheme == "memcached") return open_memcached(path, options);
  return open_file(path, options);
}

// A link is a place of its own: who opens both finds the file locked.
std::string place_of(std::string_view uri) {
  const ParsedUri parsed = parse(uri);
  const std::string scheme = std::string(parsed.scheme) + ":";
  const std::filesystem::path path(parsed.path);
  if (parsed.scheme == "memcached") return scheme + path.string();
  std::error_code error;
  const auto folder =
      std::filesystem::weakly_canonical(path.has_parent_path() ? path.parent_path() : ".", error);
  return scheme + (error ? path : folder / path.filename()).string();
}

std::string occupant_of(std::string_view uri) {
  const ParsedUri parsed = parse(uri);
  struct stat info{};
  if (parsed.scheme == "memcached" || ::stat(std::string(parsed.path).c_str(), &info) != 0)
    return {};
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

Status remove_medium(std::string_view uri) {
  const ParsedUri parsed = parse(uri);
  if (parsed.scheme == "dax")
    return Failure{Code::kUnsupported, std::string(uri) + " is a device, not a file"};
  MediumOptions options;
  options.create = false;
  if (parsed.scheme == "memcached") {
    PERDURA_TRY(parse_parameters(parsed.parameters, options));
    return remove_memcached(parsed.path, options);
  }
  PERDURA_ASSIGN(const OpenedMedium opened, open_medium(uri, options));  // nobody else has it open
  const std::string path(parsed.path);
  if (::unlink(path.c_str()) == 0) return {};
  return system_failure(errno, "cannot remove " + path);
}

std::string uri_beside(std::string_view uri, std::string_view suffix) {
  const ParsedUri parsed = parse(uri);
  const auto end = static_cast<size_t>(parsed.path.data() + parsed.path.size() - uri.data());
  return std::string(uri.substr(0, end)) + std::string(suffix) + std::string(uri.substr(end));
}

}  // namespace perdura::media
