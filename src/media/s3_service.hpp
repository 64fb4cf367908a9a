// A medium on an S3 service: an object for each chunk and page.
//
//   ".log/NUMBER"  records, and who has the store (media/s3_log.hpp)
//   ".data/NONCE/PLACE.PUT.OPENING"  everything else, by which put of which opening
//   (docs/format/s3.md)
//
// Invariants:
//  - What drain() said is done, the service has acknowledged.
//  - Each put has a name of its own, and of two at one place the later one counts: that of the
//  later
//    opening, of these the later put. Whoever was taken over from may still put some: at places
//    that were free in the last version that it had made, where what is written later has a higher
//    number. Of one opening, what the service does late, or twice, is at a name that is known no
//    more.
//  - Which objects are there is listed when the store is opened, and known from then on.
#pragma once

#include <string_view>

#include "media/medium.hpp"
#include "media/s3_client.hpp"

namespace perdura::media {

/// `address`: what follows "s3:" in a URI, "//BUCKET/PREFIX".
Result<OpenedMedium> open_s3(std::string_view address, const MediumOptions& options);
/// The same, however its place is known.
Result<OpenedMedium> open_s3(const S3Place& place, const MediumOptions& options);
Status remove_s3(std::string_view address, const MediumOptions& options);

}  // namespace perdura::media
