// The identity of a store: what tells it from others, but not from a copy of its file.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "media/medium.hpp"
#include "region/volume.hpp"

namespace perdura::store {

using Uuid = std::array<u8, 16>;

/// In hex digits, as people write it.
std::string uuid_text(const u8 (&uuid)[16]);

/// Draw a new identity for a store that nobody has open and that was closed in order: for a copy,
/// which is another store from then on. Its regions stay at their addresses, where their pointers
/// hold. Returns the new one.
Result<Uuid> renew_identity(std::string_view uri, const media::MediumOptions& options);
Result<Uuid> renew_identity(std::unique_ptr<media::Medium> medium);

/// Of a store without regions, before anybody else has its volume: what is made there next is
/// another store than what was there, or was begun to be.
Status become_another(region::Volume& volume);

}  // namespace perdura::store
