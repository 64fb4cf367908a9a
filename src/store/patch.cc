#include "store/patch.hpp"

#include <cstring>

namespace perdura::store {

Result<std::unique_ptr<Patch>> Patch::create(commit::RecoveredLog recovered, u64 region_bytes,
                                             std::vector<commit::LoggedVersion>& versions) {
  PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(region_bytes));
  for (const commit::LoggedVersion& version : recovered.versions)
    for (const commit::BlockRef& block : version.blocks)
      PERDURA_TRY(index.add(*recovered.image, block));
  versions = std::move(recovered.versions);
  return std::unique_ptr<Patch>(new Patch(std::move(recovered.image), std::move(index)));
}

Status Patch::apply_all(region::Region& region) {
  const auto home = region.home();
  Status status;
  index_.lines().for_each_page([&](u64 page, u64) {
    if (!status) return;
    if (home->find(page * kPageBytes) == nullptr) {
      status = Failure{Code::kCorrupt, "the log changes region offset " +
                                           std::to_string(page * kPageBytes) +
                                           ", which has no place on the medium"};
      return;
    }
    std::byte* const bytes = region.base() + page * kPageBytes;
    index_.for_each_line(page, [bytes](u64 line, const std::byte* from) {
      std::memcpy(bytes + line * kLineBytes, from, kLineBytes);
    });
  });
  return status;
}

}  // namespace perdura::store
