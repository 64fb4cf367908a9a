#include "store/group_claims.hpp"

#include <utility>

#include "media/lent.hpp"
#include "store/shared_volume.hpp"

namespace perdura::store {

Status GroupClaims::claim(u32 rank, const std::string& uri, const Options& options,
                          const detail::InternalOptions& internal) {
  PERDURA_ASSIGN(const bool is_ours, SharedVolume::is_open(uri, options.region));
  if (is_ours) return {};
  media::MediumOptions wanted;
  wanted.create = false;
  wanted.allow_network_filesystem = options.allow_network_filesystem;
  wanted.use_io_uring = internal.use_io_uring;
  auto opened = media::open_medium(uri, wanted);
  if (!opened && opened.failure().code == Code::kNotFound) return {};
  if (!opened) return opened.failure();
  media_[rank] =
      internal.wrap ? internal.wrap(std::move(opened->medium)) : std::move(opened->medium);
  return {};
}

std::unique_ptr<media::Medium> GroupClaims::lend(u32 rank) const {
  const auto found = media_.find(rank);
  return found == media_.end() ? nullptr : std::make_unique<media::Lent>(*found->second);
}

std::unique_ptr<media::Medium> GroupClaims::take(u32 rank) {
  const auto taken = media_.extract(rank);
  return taken.empty() ? nullptr : std::move(taken.mapped());
}

void GroupClaims::keep_only(u32 rank) {
  std::erase_if(media_, [rank](const auto& each) { return each.first != rank; });
}

}  // namespace perdura::store
