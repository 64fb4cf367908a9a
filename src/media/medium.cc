#include "media/medium.hpp"

#include <algorithm>
#include <vector>

#include "base/checksum.hpp"
#include "media/summed_copy.hpp"

namespace perdura::media {
Result<bool> Medium::verified_read(u64 offset, MutableBytes into, u64 expected, const Site& site) {
  PERDURA_TRY(load_pages(offset, into));
  return whole(offset, into.data(), into.size(), site,
               [&](const std::byte* bytes) { return checksum(bytes, into.size()) == expected; });
}

Status Medium::load_pages(u64 offset, MutableBytes into) {
  const size_t at_once = geometry().objects ? kPageBytes : into.size();
  std::vector<ReadRequest> requests;
  for (size_t at = 0; at < into.size(); at += at_once)
    requests.push_back({offset + at, into.subspan(at, std::min(at_once, into.size() - at))});
  return load(requests);
}

Status Medium::write_pages(u64 offset, Bytes pages, const Site& site) {
  if (!geometry().objects) return write(offset, pages, site);
  const std::unique_ptr<WriteQueue> queue = this->queue();
  for (size_t at = 0; at < pages.size(); at += kPageBytes)
    PERDURA_TRY(queue->submit(offset + at, pages.subspan(at, kPageBytes), site));
  return queue->drain();
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

}  // namespace perdura::media
