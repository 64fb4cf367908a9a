#include "media/medium.hpp"

#include <charconv>
#include <cstring>
#include <utility>

#include "base/checksum.hpp"
#include "media/file_medium.hpp"
#include "media/mapped_medium.hpp"
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
  const std::pair<std::string_view, u64*> numbers[] = {{"write_ns", &options.write_ns},
                                                       {"bandwidth_mb", &options.bandwidth_mb},
                                                       {"io_uring", &use_io_uring}};
  for (const auto& [name, number] : numbers) {
    if (key != name) continue;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), *number);
    if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size())
      return Failure{Code::kInvalidArgument, "the URI parameter " + std::string(key) +
                                                 " needs a number, not '" + std::string(value) +
                                                 "'"};
    options.use_io_uring = use_io_uring != 0;
    return {};
  }
  return Failure{Code::kInvalidArgument,
                 "unknown URI parameter '" + std::string(key) +
                     "'; known are write_ns, bandwidth_mb, flush and io_uring"};
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

Result<OpenedMedium> open_medium(std::string_view uri, MediumOptions options) {
  std::string_view scheme = "file";
  std::string_view path = uri;
  for (std::string_view known : {"file", "emu", "dax"}) {
    if (uri.size() > known.size() && uri.starts_with(known) && uri[known.size()] == ':') {
      scheme = known;
      path = uri.substr(known.size() + 1);
    }
  }
  // A plain path may hold question marks; only a URI has parameters.
  const size_t query = path.size() == uri.size() ? std::string_view::npos : path.find('?');
  if (query != std::string_view::npos) {
    PERDURA_TRY(parse_parameters(path.substr(query + 1), options));
    path = path.substr(0, query);
  }
  if (scheme == "emu") return open_mapped(std::string(path), MappedKind::kEmulated, options);
  if (scheme == "dax") return open_mapped(std::string(path), MappedKind::kDax, options);
  return open_file(std::string(path), options);
}

}  // namespace perdura::media
