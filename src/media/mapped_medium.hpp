// NVM as a mapped file: `dax:` on a DAX mount with MAP_SYNC, `emu:` on anything else.
#pragma once

#include "media/medium.hpp"

namespace perdura::media {

enum class MappedKind { kEmulated, kDax };

Result<OpenedMedium> open_mapped(const std::string& path, MappedKind kind,
                                 const MediumOptions& options);

}  // namespace perdura::media
