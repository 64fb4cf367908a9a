#include "store/identity.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "store/recovery.hpp"
#include "store/storage.hpp"

namespace perdura::store {
namespace {

/// What is in a log has the old id, and would not be found again.
Status expect_ended_logs(const region::Volume& volume) {
  const format::Superblock superblock = volume.superblock();
  const bool knows = superblock.ended_logs_session == superblock.session;
  const u64 ended = knows ? superblock.ended_logs : 0;
  for (const format::RegionRecord& record : volume.regions()) {
    if (superblock.clean == 1 &&
        (volume.extents(format::ExtentKind::kLog, record.region).empty() ||
         ((ended >> (record.region - 1) & 1) != 0 &&
          volume.confirmed_version(record.region) <= volume.replayed_version(record.region))))
      continue;
    return Failure{Code::kMisuse, "region '" + std::string(record.name) + "' of '" + volume.name() +
                                      "' has versions in a log, or was not closed in order, and a "
                                      "log belongs to its store's identity; open the store and "
                                      "close it in order first"};
  }
  return {};
}

/// Copies of records that an earlier run has left with another id are this store's again.
Status sign_all(region::Volume& volume, u64 store_id, u64 copy) {
  for (const format::RegionRecord& record : volume.regions())
    PERDURA_TRY(engine_kind(record).sign(volume, record, store_id, copy));
  return {};
}

Result<Uuid> draw_identity() {
  Uuid uuid{};
  if (::getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size()))
    return system_failure(errno, "cannot draw an identity");
  return uuid;
}

Status set_identity(region::Volume& volume, const Uuid& uuid) {
  u8 bytes[sizeof(Uuid)];
  std::memcpy(bytes, uuid.data(), sizeof bytes);
  return volume.set_identity(bytes);
}

// Of each record that has the id one copy fits the superblock at every moment: the first one until
// that has the new id, the second one from then on.
Status renew(region::Volume& volume, const Uuid& uuid) {
  u64 id = 0;
  std::memcpy(&id, uuid.data(), sizeof id);
  const u64 old = volume.store_id();
  for (const u64 copy : {u64{1}, u64{0}}) PERDURA_TRY(sign_all(volume, old, copy));
  PERDURA_TRY(sign_all(volume, id, 1));
  PERDURA_TRY(set_identity(volume, uuid));
  return sign_all(volume, id, 0);
}

Result<Uuid> try_renew(std::unique_ptr<media::Medium> medium) {
  if (medium->geometry().objects)
    return Failure{Code::kUnsupported, "'" + medium->name() +
                                           "' is on a server, where no store is a copy of another "
                                           "one"};
  if (medium->has_readers())
    return Failure{Code::kLocked,
                   "'" + medium->name() + "' is open to be read; close it there first"};
  PERDURA_ASSIGN(const bool blank, region::Volume::is_blank(*medium));
  if (blank)
    return Failure{Code::kNotFound, "'" + medium->name() + "' holds no store: it is empty"};
  PERDURA_ASSIGN(const auto volume, region::Volume::open(std::move(medium)));
  if ((volume->superblock().incompatible_features & format::kFeatureOverflow) != 0)
    return Failure{Code::kUnsupported,
                   "'" + volume->name() +
                       "' has an overflow store or is one, and the two know each other by their "
                       "identities; give neither another one"};
  PERDURA_TRY(expect_ended_logs(*volume));
  PERDURA_ASSIGN(const Uuid uuid, draw_identity());
  PERDURA_TRY(volume->begin_session());
  PERDURA_TRY(renew(*volume, uuid));
  PERDURA_TRY(volume->end_session());
  return uuid;
}

}  // namespace

std::string uuid_text(const u8 (&uuid)[16]) {
  std::string text;
  for (size_t i = 0; i < sizeof uuid; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

Status become_another(region::Volume& volume) {
  PERDURA_ASSERT(volume.regions().empty());
  PERDURA_ASSIGN(const Uuid uuid, draw_identity());
  return set_identity(volume, uuid);
}

Result<Uuid> renew_identity(std::string_view uri, const media::MediumOptions& options) {
  return guarded([&]() -> Result<Uuid> {
    PERDURA_ASSIGN(auto medium, open_existing(uri, options));
    return try_renew(std::move(medium));
  });
}

Result<Uuid> renew_identity(std::unique_ptr<media::Medium> medium) {
  return guarded([&] { return try_renew(std::move(medium)); });
}

}  // namespace perdura::store
