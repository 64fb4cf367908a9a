// A medium on a RADOS cluster: an object for each chunk and page, in a namespace of the pool that
// is the store's own.
//
//   "head"  size, nonce     "lock"  a lease, and the owner     "NONCE.PLACE"  …
//   (docs/format/rados.md)
//
// Invariants:
//  - What drain() said is done, all replicas have acknowledged.
//  - Before anybody else writes, the client of the owner before is on the cluster's blocklist, and
//    this client has that map: whatever the former one still sends, or sends when it wakes up, is
//    refused by each OSD that this one has written to. What an OSD took from it before lies at
//    places that its last record does not name, and is overwritten before a record names them.
//  - A record is written only over the one that this opening wrote or read.
//  - An operation waits for the cluster as long as it takes; the owner's lease then runs out, and
//  is
//    renewed if nobody took it meanwhile.
#pragma once

#include <string_view>

#include "media/medium.hpp"
#include "media/rados_api.hpp"

namespace perdura::media {

/// `address`: what follows "rados:" in a URI, "//POOL/NAME".
Result<OpenedMedium> open_rados(std::string_view address, const MediumOptions& options);
/// The same, however its place is known.
Result<OpenedMedium> open_rados(const RadosClient::Wanted& wanted, const MediumOptions& options);
Status remove_rados(std::string_view address, const MediumOptions& options);

}  // namespace perdura::media
