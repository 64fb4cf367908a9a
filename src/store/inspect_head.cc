// The fixed places at the beginning of a store.
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "store/inspection.hpp"
#include "store/look_again.hpp"

namespace perdura::store {
namespace {

using format::Superblock;
using Severity = Finding::Severity;

/// Whether an update may have torn a slot of which the other one, `whole`, is what counts: each
/// word is as before the update or as after it. What no update changes is in both.
bool is_mix(const Superblock& torn, const Superblock& whole) {
  constexpr size_t kWords = sizeof(Superblock) / sizeof(u64);
  using Words = std::array<u64, kWords>;
  // Of a store that was closed in order the update was the end of that session, the beginning of
  // the next one, or the creation.
  Superblock before = whole;
  before.sequence = whole.sequence - 1;
  Superblock after = whole;
  after.sequence = whole.sequence + 1;
  std::vector<Superblock> contents{before, after};
  for (Superblock* const in_use : {&before, &after}) {
    in_use->clean = 0;
    in_use->ended_logs_session = in_use->ended_logs = 0;
  }
  contents.push_back(before);
  ++after.session;
  contents.push_back(after);
  // That one may make a store of an earlier format one of this, and then changes more.
  const bool taken_over = whole.format_version < format::kFormatVersion;
  after.format_version = format::kFormatVersion;
  contents.push_back(after);
  for (u32 version = format::kFormatVersionMin;
       whole.clean == 0 && version < format::kFormatVersion; ++version) {
    before.format_version = version;
    contents.push_back(before);
  }
  std::vector<Words> words;
  for (Superblock& content : contents) {
    content.checksum = region::superblock_checksum(content);
    words.push_back(std::bit_cast<Words>(content));
  }
  if (whole.sequence == 1) words.push_back({});

  // While a store is in use its updates change more than can be foreseen.
  const auto may_change = [&](size_t word) {
    const size_t at = word * sizeof(u64);
    return (whole.clean == 0 || taken_over) &&
           (at == offsetof(Superblock, checksum) ||
            at == offsetof(Superblock, incompatible_features) ||
            (at >= offsetof(Superblock, uuid) && at < offsetof(Superblock, reserved1)));
  };
  const auto found = std::bit_cast<Words>(torn);
  for (size_t i = 0; i < kWords; ++i)
    if (!may_change(i) && std::none_of(words.begin(), words.end(), [&](const Words& content) {
          return content[i] == found[i];
        }))
      return false;
  return true;
}

/// Superblock slots, directories, owner record.
class HeadCheck {
 public:
  HeadCheck(media::Medium& medium, CheckReport& report) : medium_(medium), report_(report) {}

  Status run() {
    if (medium_.geometry().size < format::kDataBegin) return {};  // opening says what that means
    for (u32 i = 0; i < 2; ++i) {
      AlignedBuffer page(format::kSuperblockBytes);
      PERDURA_TRY(medium_.read(format::kSuperblockOffset[i], page.span()));
      std::memcpy(&slots_[i], page.data(), sizeof slots_[i]);
      whole_[i] = std::memcmp(slots_[i].magic, format::kMagic, sizeof format::kMagic) == 0 &&
                  slots_[i].checksum == region::superblock_checksum(slots_[i]);
    }
    if (!whole_[0] && !whole_[1]) return {};
    newest_ = whole_[1] && (!whole_[0] || slots_[1].sequence > slots_[0].sequence) ? 1 : 0;
    check_superblocks();
    PERDURA_TRY(check_directories());
    return check_owner();
  }

 private:
  Severity severity(bool torn) const { return torn ? Severity::kNote : Severity::kDamage; }

  // A power failure may tear the last write, unless the medium writes all that changes of it at
  // once.
  bool may_tear(u64 changing_bytes) const {
    return changing_bytes > medium_.geometry().atomic_bytes;
  }

  void add(const char* part, u64 offset, std::string message, Severity severity) {
    message += " (medium offset " + std::to_string(offset) + ")";
    if (severity == Severity::kNote)
      message += "; a power failure while it was written explains it";
    report_.findings.push_back({severity, part, std::move(message), {}, offset, std::nullopt});
  }

  void check_superblocks() {
    const Superblock& newest = slots_[newest_];
    const Superblock& other = slots_[newest_ ^ 1];
    const u64 place = format::kSuperblockOffset[newest_ ^ 1];
    if (!whole_[newest_ ^ 1]) {
      // A store is created with its first superblock; the second follows.
      if (newest.sequence == 1 && is_zero(&other, sizeof other)) return;
      add("superblock", place,
          "superblock slot " + std::to_string(newest_ ^ 1) + " does not fit its checksum",
          severity(may_tear(offsetof(Superblock, reserved1)) && is_mix(other, newest)));
    } else if (newest.sequence - other.sequence != 1 || (newest.sequence & 1) != newest_) {
      add("superblock", place,
          "the superblocks have the sequences " + std::to_string(newest.sequence) + " and " +
              std::to_string(other.sequence) +
              ", which do not follow each other: the medium lost a write that it had confirmed",
          Severity::kDamage);
    }
  }

  Status check_directories() {
    std::set<u64> seen;
    for (const u32 i : {newest_, newest_ ^ 1}) {
      const Superblock& superblock = slots_[i];
      if (!whole_[i] || superblock.directory_slot > 1 ||
          superblock.directory_bytes > format::kDirectoryBytes ||
          !seen.insert(superblock.directory_sequence).second)
        continue;
      const u64 place = format::kDirectoryOffset[superblock.directory_slot];
      AlignedBuffer bytes(superblock.directory_bytes);
      PERDURA_ASSIGN(const bool whole,
                     medium_.verified_read(place, bytes.first(superblock.directory_bytes),
                                           superblock.directory_checksum,
                                           PERDURA_SITE("inspected directory")));
      if (!whole)
        add("directory", place,
            "directory slot " + std::to_string(superblock.directory_slot) +
                " does not fit the checksum in the superblock with sequence " +
                std::to_string(superblock.sequence),
            severity(slots_[newest_].clean == 0 &&
                     may_tear(superblock.directory_bytes + sizeof(Superblock))));
    }
    return {};
  }

  // Used for messages only, so it can never be more than a note.
  Status check_owner() {
    format::OwnerRecord owner{};
    AlignedBuffer page(sizeof owner);
    PERDURA_TRY(medium_.read(format::kOwnerOffset, page.span()));
    std::memcpy(&owner, page.data(), sizeof owner);
    if (is_zero(&owner, sizeof owner)) return {};
    if (owner.checksum != checksum(page.data() + sizeof(u64), page.size() - sizeof(u64)))
      add("owner", format::kOwnerOffset, "the owner record does not fit its checksum",
          Severity::kNote);
    return {};
  }

  media::Medium& medium_;
  CheckReport& report_;
  Superblock slots_[2]{};
  bool whole_[2] = {false, false};
  u32 newest_ = 0;
};

}  // namespace

// Beside a writer what does not fit was caught between two updates: then the next look finds
// nothing.
Status check_head(media::Medium& medium, CheckReport& report) {
  const size_t before = report.findings.size();
  for (int looks = 0;; ++looks) {
    const bool was_written = medium.has_writer();
    const Status read = HeadCheck(medium, report).run();
    const bool written = was_written || medium.has_writer();
    if (!written || looks == kLooksMax || report.findings.size() == before) return read;
    report.findings.erase(report.findings.begin() + static_cast<std::ptrdiff_t>(before),
                          report.findings.end());
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace perdura::store
