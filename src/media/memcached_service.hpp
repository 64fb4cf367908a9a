// A medium on a memcached server: an item for each object, and a connection for each writer.
//
//   HEAD  size, nonce     LOCK  the owner     OBJECT at 0    OBJECT at 4096   …
//                                                            (docs/format/memcached.md)
//
// Invariants:
//  - What write() and drain() said is done, the server has acknowledged. Its memory is all the
//    durability there is: a barrier only asks whether it is the same server, and this the owner.
//  - After a lost connection or a failed barrier nothing works any more: a server that was
//    restarted has lost what it acknowledged.
//  - A server that lacks memory for a new value drops the old one. Where that may have happened,
//    nothing works any more either.
//  - A server that makes room by evicting items is refused. Where it evicted one all the same,
//    which its counters say, a barrier fails: it may have been any.
#pragma once

#include <string_view>

#include "media/medium.hpp"

namespace perdura::media {

/// `address`: what follows "memcached:" in a URI, "//HOST[:PORT]/NAME".
Result<OpenedMedium> open_memcached(std::string_view address, const MediumOptions& options);
Status remove_memcached(std::string_view address, const MediumOptions& options);

}  // namespace perdura::media
