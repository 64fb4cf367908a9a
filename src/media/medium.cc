#include "media/medium.hpp"

#include "base/checksum.hpp"
#include "media/summed_copy.hpp"

namespace perdura::media {
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

}  // namespace perdura::media
