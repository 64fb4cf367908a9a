// The log of a store on an S3 service: what it is, who has it, and its records. Entries are objects
// with numbers, put where none is ("If-None-Match: *"): so of two who write at once one is refused,
// and who was taken over from is.
//
//   … PAGE 17   PAGE 19   OPENING 20   PAGE 21   SIZE 22   PAGE 23 (pages: 17, 21, 23)
//                         └ by the one whose log this is    └ newest
//
// Invariants:
//  - Who opens the store puts its entry behind the newest one, and then writes. Whoever had the
//    store before knows no entry behind that, so its next one is refused, or, where that name is
//    free again, follows entries that it does not know, which check() finds.
//  - Whoever looked long before it puts its entry may find a name that is free again as well, with
//    entries of the owner behind it, of which the newest is always there. Such an opening is none:
//    it finds them when it looks once more, and so does everybody else.
//  - What counts is the newest entry of the newest opening, and the entries that it names. All else
//    was superseded, or came too late, and is deleted: but only once a look behind what superseded
//    it has shown that this is the newest, since only then it counts itself.
//  - The newest opening and what ended it stay, also when the store is removed: numbers begin
//    nowhere anew.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/s3_format.hpp"
#include "media/s3_client.hpp"
#include "media/server_owner.hpp"

namespace perdura::media {

/// Not thread-safe.
class S3Log {
 public:
  struct Wanted {
    bool create = true;
    bool takeover = false;
    u64 lease_s = 0;
  };

  explicit S3Log(const S3Place& place) : place_(place), name_(place.uri()) {}

  /// Becomes the owner. kLocked names the one that is.
  Status open(S3Exchange& exchange, const Wanted& wanted);

  u64 opening() const { return opening_; }
  u64 size() const { return size_; }
  /// Whose objects these are, in their names.
  std::string data_prefix() const;
  /// The entry that has the page at `place`.
  std::optional<u64> page_at(u64 place) const;
  /// Whether it has any at these places.
  bool has_pages(u64 place, u64 length) const {
    const auto first = pages_.lower_bound(place);
    return first != pages_.end() && first->first < place + length;
  }

  Status put_page(S3Exchange& exchange, u64 place, Bytes page);
  /// What is at these places now is no page of the log.
  Status forget_pages(S3Exchange& exchange, u64 place, u64 length);
  Status set_size(S3Exchange& exchange, u64 size);
  Status get_page(S3Exchange& exchange, u64 place, u64 number, MutableBytes into) const;
  /// kLocked where somebody else has the store. A round trip; what was superseded goes then.
  Status check(S3Exchange& exchange);
  /// That the opening is alive.
  Status beat(S3Exchange& exchange) const;
  /// The opening is over, and, `removed`, the store gone.
  Status close(S3Exchange& exchange, bool removed);

 private:
  struct Listed {
    u64 number;
    std::string changed;  ///< as the service says it
  };
  struct Entry {
    format::S3Entry fixed{};
    std::string rest;  ///< behind its pages
    std::vector<format::S3Page> pages;
  };
  /// What the log says, as somebody finds it who opens the store.
  struct Found {
    std::vector<Listed> listed;
    std::map<u64, Entry> entries;
    u64 newest = 0;
    u64 missing = 0;                 ///< was listed, and is gone; 0: none, which has no entry
    u64 openings = 0;                ///< the highest number of one, also of those that are none
    const Entry* opening = nullptr;  ///< the newest one
    const Entry* last = nullptr;     ///< of its entries: what the store is

    bool ends_with(format::S3EntryKind kind) const {
      return last != nullptr && last->fixed.kind == kind;
    }
  };

  Result<bool> look(S3Exchange& exchange, Found& found) const;
  Status understand(Found& found) const;
  Status may_take(S3Exchange& exchange, const Found& found, const Wanted& wanted) const;
  Result<bool> is_alive(S3Exchange& exchange, const Found& found) const;
  Status refuse_unconditional(S3Exchange& exchange) const;
  Result<Entry> parse(u64 number, const std::string& content) const;
  Result<std::vector<Listed>> list(S3Exchange& exchange, u64 behind, size_t most) const;
  /// Whether it is in the log now: not where another one has this number.
  Result<bool> append(S3Exchange& exchange, Entry entry);
  Status append_own(S3Exchange& exchange, Entry entry);
  Entry entry_of(format::S3EntryKind kind) const;
  Failure taken_over(S3Exchange& exchange) const;
  Status remove_superseded(S3Exchange& exchange);

  const S3Place& place_;
  const std::string name_;
  std::optional<ServerOwner> self_;
  std::optional<Opening> here_;
  u64 opening_ = 0;
  u64 drawn_ = 0;
  u64 lease_s_ = 0;
  u64 nonce_ = 0;
  u64 size_ = 0;
  u64 opened_ = 0;  ///< the number of this opening's entry
  u64 newest_ = 0;
  u64 pageless_ = 0;             ///< the newest entry behind that, if it has no page; 0: it has
  std::map<u64, u64> pages_;     ///< numbers of entries by place
  std::vector<u64> superseded_;  ///< by entries that check() has not looked behind yet
};

}  // namespace perdura::media
