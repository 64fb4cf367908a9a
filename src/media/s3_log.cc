#include "media/s3_log.hpp"

#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "media/object_content.hpp"

namespace perdura::media {
namespace {

using format::S3Entry;
using format::S3EntryKind;
using format::S3Page;

constexpr HeadKind kS3HeadKind{format::kS3Magic, format::kS3Version, "log"};
constexpr int kOpenAttempts = 10;
constexpr std::chrono::milliseconds kOpenPause{20};
constexpr size_t kListedMax = 1000;    // of an answer
constexpr size_t kSupersededMax = 16;  // entries that may wait to be deleted

std::string entry_name(u64 number) { return fmt::format(".log/{:016x}", number); }
std::string beat_name(u64 opening) { return fmt::format(".beat/{:016x}", opening); }

std::optional<time_t> time_of(const std::string& text, const char* form) {
  tm parts{};
  const char* const end = ::strptime(text.c_str(), form, &parts);
  if (end == nullptr) return std::nullopt;
  return ::timegm(&parts);
}

/// Its checksum with it.
std::string as_text(const S3Entry& entry, std::span<const S3Page> pages, std::string_view rest) {
  std::string text(reinterpret_cast<const char*>(&entry), sizeof entry);
  text.append(reinterpret_cast<const char*>(pages.data()), pages.size_bytes());
  text += rest;
  const u64 sum = object_head_checksum(std::as_bytes(std::span(text)));
  std::memcpy(text.data() + offsetof(format::MediumHead, checksum), &sum, sizeof sum);
  return text;
}

}  // namespace

// --- reading -------------------------------------------------------------------------------------

Result<std::vector<S3Log::Listed>> S3Log::list(S3Exchange& exchange, u64 behind,
                                               size_t most) const {
  std::vector<Listed> listed;
  for (;;) {
    const size_t asked = std::min(most - listed.size(), kListedMax);
    const u64 from = listed.empty() ? behind : listed.back().number;
    PERDURA_ASSIGN(const S3List found,
                   ask_list(exchange, place_, ".log/", entry_name(from), asked));
    for (const S3List::Object& each : found.objects) {
      const std::optional<u64> number = number_at_end(each.name);
      if (!number || entry_name(*number) != each.name)
        return Failure{Code::kForeign, fmt::format("'{}' is not a Perdura store (it has an object "
                                                   "'{}'); choose another name, or delete that "
                                                   "object",
                                                   name_, each.name)};
      listed.push_back({*number, each.changed});
    }
    if (!found.is_cut || listed.size() >= most || found.objects.empty()) return listed;
  }
}

Result<S3Log::Entry> S3Log::parse(u64 number, const std::string& content) const {
  Entry entry;
  PERDURA_TRY(
      check_object_head(name_, kS3HeadKind, std::as_bytes(std::span(content)), content.size()));
  std::memcpy(&entry.fixed, content.data(), std::min(content.size(), sizeof entry.fixed));
  const size_t pages_bytes = entry.fixed.pages * sizeof(S3Page);
  if (content.size() < sizeof entry.fixed + pages_bytes || entry.fixed.number != number)
    return Failure{Code::kCorrupt, fmt::format("the log entry {} of '{}' is damaged; restore the "
                                               "store from a copy",
                                               number, name_)};
  entry.pages.resize(entry.fixed.pages);
  if (pages_bytes != 0)
    std::memcpy(entry.pages.data(), content.data() + sizeof entry.fixed, pages_bytes);
  entry.rest = content.substr(sizeof entry.fixed + pages_bytes);
  return entry;
}

// Where an entry is deleted while it is read, another opening is at work: false.
// Data comes after an entry, and a store that was removed keeps one: without any it lost its log.
Result<bool> S3Log::look(S3Exchange& exchange, Found& found) const {
  found = {};
  PERDURA_ASSIGN(found.listed, list(exchange, 0, ~size_t{0}));
  if (found.listed.empty()) {
    PERDURA_ASSIGN(const S3List data, ask_list(exchange, place_, ".data/", "", 1));
    // Listed again: somebody may have made the store meanwhile.
    if (!data.objects.empty()) {
      PERDURA_ASSIGN(found.listed, list(exchange, 0, ~size_t{0}));
    }
    if (!data.objects.empty() && found.listed.empty())
      return Failure{Code::kCorrupt,
                     fmt::format("'{}' has data, as '{}', and no log: it was lost or removed; "
                                 "restore the store from a copy, or delete all of its objects",
                                 name_, data.objects.front().name)};
  }
  Status failed;
  const auto read = [&](const Listed& each) -> Status {
    const u64 number = each.number;
    PERDURA_TRY(exchange.start({.name = entry_name(number)}, [&, number](S3Answer&& answer) {
      if (answer.status == 404) found.missing = number;
      else if (!answer.good() && failed)
        failed = s3_failure(place_, answer, "cannot read '" + name_ + "'");
      else if (auto entry = parse(number, answer.body)) found.entries[number] = std::move(*entry);
      else if (failed) failed = copy_of(entry.failure());
    }));
    return exchange.wait(32);
  };
  Status asked;
  for (const Listed& each : found.listed)
    if (asked) asked = read(each);
  // Also after a failure: what is under way is answered to this function.
  const Status answered = exchange.wait(0);
  PERDURA_TRY(asked);
  PERDURA_TRY(answered);
  if (found.missing != 0) return false;
  PERDURA_TRY(failed);
  if (!found.entries.empty()) PERDURA_TRY(understand(found));
  return true;
}

Status S3Log::understand(Found& found) const {
  const auto lost = [&](u64 number) {
    return Failure{
        Code::kCorrupt,
        fmt::format("the log of '{}' lacks entry {}: it was lost or removed; restore the "
                    "store from a copy",
                    name_, number)};
  };
  found.newest = found.entries.rbegin()->first;
  // From the newest entry on: an opening with entries of an earlier one behind it came too late.
  u64 lowest = ~u64{0};
  for (auto at = found.entries.rbegin(); at != found.entries.rend(); ++at) {
    const S3Entry& each = at->second.fixed;
    found.openings = std::max(found.openings, each.opening);
    lowest = std::min(lowest, each.opening);
    if (found.opening == nullptr && each.kind == S3EntryKind::kOpening && each.opening == lowest)
      found.opening = &at->second;
  }
  if (found.opening == nullptr) return lost(found.entries.rbegin()->second.fixed.opened);
  const S3Entry& opening = found.opening->fixed;
  for (auto at = found.entries.find(opening.number); at != found.entries.end(); ++at)
    if (at->second.fixed.opening == opening.opening && at->second.fixed.drawn == opening.drawn)
      found.last = &at->second;
  // An opening has entries behind it that say so: where they are of another one, it is that one's
  // that was lost.
  const S3Entry& newest = found.entries.rbegin()->second.fixed;
  if (newest.opening > opening.opening) return lost(newest.opened);
  if (found.ends_with(S3EntryKind::kRemoved)) return {};
  for (const S3Page& page : found.last->pages)
    if (!found.entries.contains(page.number)) return lost(page.number);
  return {};
}

std::string S3Log::data_prefix() const { return fmt::format(".data/{:016x}/", nonce_); }

std::optional<u64> S3Log::page_at(u64 place) const {
  const auto found = pages_.find(place);
  return found == pages_.end() ? std::nullopt : std::optional(found->second);
}

Status S3Log::get_page(S3Exchange& exchange, u64 place, u64 number, MutableBytes into) const {
  PERDURA_ASSIGN(const S3Answer answer, exchange.ask({.name = entry_name(number)}));
  if (answer.status == 404)
    return Failure{Code::kCorrupt,
                   fmt::format("the service has no log entry {} of '{}', the page at place {}: it "
                               "was lost or removed; restore the store from a copy",
                               number, name_, place)};
  if (!answer.good()) return s3_failure(place_, answer, "cannot read '" + name_ + "'");
  PERDURA_ASSIGN(const Entry entry, parse(number, answer.body));
  if (entry.fixed.kind != S3EntryKind::kPage || entry.fixed.place != place ||
      entry.rest.size() < into.size())
    return Failure{Code::kCorrupt, fmt::format("the log entry {} of '{}' is not the page at place "
                                               "{}; restore the store from a copy",
                                               number, name_, place)};
  std::memcpy(into.data(), entry.rest.data(), into.size());
  return {};
}

// --- opening -------------------------------------------------------------------------------------

Status S3Log::open(S3Exchange& exchange, const Wanted& wanted) {
  PERDURA_ASSIGN(self_, ServerOwner::describe());
  lease_s_ = wanted.lease_s;
  if (::getrandom(&drawn_, sizeof drawn_, 0) != sizeof drawn_)
    return system_failure(errno, "cannot draw a number for an opening");
  u64 missing = 0;  // the same one, so often
  int times = 0;
  for (int attempt = 0; attempt < kOpenAttempts; ++attempt) {
    Found found;
    PERDURA_ASSIGN(const bool is_whole, look(exchange, found));
    times = found.missing == missing ? times + 1 : 1;
    missing = found.missing;
    if (!is_whole) {
      std::this_thread::sleep_for(attempt * kOpenPause);  // others may be opening it
      continue;
    }
    const bool is_new = found.last == nullptr || found.ends_with(S3EntryKind::kRemoved);
    if (is_new && !wanted.create)
      return Failure{Code::kNotFound,
                     "cannot open the store '" + name_ + "': the bucket has none of this name"};
    if (!is_new) PERDURA_TRY(may_take(exchange, found, wanted));
    PERDURA_TRY(refuse_unconditional(exchange));
    pages_.clear();
    if (is_new) {
      PERDURA_ASSIGN(const format::MediumHead head, new_object_head(kS3HeadKind));
      nonce_ = head.nonce;
      size_ = 0;
    } else {
      nonce_ = found.last->fixed.head.nonce;
      size_ = found.last->fixed.head.size;
      for (const S3Page& page : found.last->pages) pages_[page.place] = page.number;
    }
    opening_ = found.openings + 1;
    newest_ = found.newest;
    opened_ = newest_ + 1;
    Entry entry = entry_of(S3EntryKind::kOpening);
    entry.rest = self_->text();
    PERDURA_ASSIGN(const bool is_owner, append(exchange, std::move(entry)));
    if (!is_owner) continue;  // somebody wrote meanwhile
    PERDURA_ASSIGN(const std::vector<Listed> behind, list(exchange, newest_, 1));
    if (!behind.empty()) {
      PERDURA_TRY(exchange.ask({.method = "DELETE", .name = entry_name(newest_)}));
      continue;
    }
    here_.emplace(self_->opening);
    superseded_.clear();
    for (const Listed& each : found.listed)
      if (std::ranges::none_of(pages_,
                               [&](const auto& page) { return page.second == each.number; }))
        superseded_.push_back(each.number);
    if (found.opening != nullptr)
      PERDURA_TRY(
          exchange.ask({.method = "DELETE", .name = beat_name(found.opening->fixed.opening)}));
    return remove_superseded(exchange);
  }
  if (missing != 0 && times == kOpenAttempts)
    return Failure{
        Code::kCorrupt,
        fmt::format("the service lists the log entry {} of '{}', and says that there is "
                    "none when it is read; if it stays so, restore the store from a copy",
                    missing, name_)};
  return Failure{Code::kLocked,
                 "'" + name_ + "' is being opened or written by others again and again; try again"};
}

Status S3Log::may_take(S3Exchange& exchange, const Found& found, const Wanted& wanted) const {
  if (found.ends_with(S3EntryKind::kClosed) || wanted.takeover) return {};
  const std::optional<ServerOwner> owner = ServerOwner::parse(found.opening->rest);
  const OwnerState state = owner ? state_of(*owner, *self_) : OwnerState::kElsewhere;
  if (state == OwnerState::kGone) return {};
  const std::string who = owner ? owner->who(*self_) : "a program that does not say which";
  if (state == OwnerState::kRunning)
    return Failure{Code::kLocked, "'" + name_ + "' is open in " + who +
                                      "; a store has one opener at a time: close it there first"};
  PERDURA_ASSIGN(const bool alive, is_alive(exchange, found));
  if (!alive) return {};
  return Failure{
      Code::kLocked,
      fmt::format("'{}' is open in {}{}; close it there first, wait {} s for its lease to run out "
                  "if it is dead, or {}",
                  name_, who, owner ? " on " + owner->host : "", found.opening->fixed.lease_s,
                  kTakeoverRemedy)};
}

// By the service's clock alone: when it was told last that the owner lives, and what it is now.
Result<bool> S3Log::is_alive(S3Exchange& exchange, const Found& found) const {
  const S3Entry& opening = found.opening->fixed;
  PERDURA_ASSIGN(const S3List beats, ask_list(exchange, place_, beat_name(opening.opening), "", 1));
  std::string changed = beats.objects.empty() ? "" : beats.objects.front().changed;
  if (changed.empty())
    for (const Listed& each : found.listed)
      if (each.number == opening.number) changed = each.changed;
  const std::optional<time_t> then = time_of(changed, "%Y-%m-%dT%H:%M:%S");
  const std::optional<time_t> now = time_of(beats.date, "%a, %d %b %Y %H:%M:%S");
  return !then || !now || *now - *then <= static_cast<time_t>(opening.lease_s);
}

// ".probe" is there, but for the first opening of all.
Status S3Log::refuse_unconditional(S3Exchange& exchange) const {
  for (int attempt = 0; attempt < 2; ++attempt) {
    PERDURA_ASSIGN(const S3Answer answer,
                   exchange.ask({.method = "PUT", .name = ".probe", .if_none = true}));
    if (answer.status == 412) return {};
    if (answer.good()) continue;
    if (answer.status != 501 && answer.status != 400)
      return s3_failure(place_, answer, "cannot write '" + name_ + "'");
    break;
  }
  return Failure{Code::kUnsupported,
                 fmt::format("the service at {} does not keep objects that are there from being "
                             "overwritten (If-None-Match: *), and so cannot have '{}' written by "
                             "one program alone; use a service that does",
                             place_.endpoint, name_)};
}

// --- writing -------------------------------------------------------------------------------------

S3Log::Entry S3Log::entry_of(S3EntryKind kind) const {
  Entry entry;
  std::memcpy(entry.fixed.head.magic, format::kS3Magic, sizeof format::kS3Magic);
  entry.fixed.head.version = format::kS3Version;
  entry.fixed.head.unit_bytes = format::kObjectUnitBytes;
  entry.fixed.head.nonce = nonce_;
  entry.fixed.head.size = size_;
  entry.fixed.kind = kind;
  entry.fixed.number = newest_ + 1;
  entry.fixed.opening = opening_;
  entry.fixed.drawn = drawn_;
  entry.fixed.opened = opened_;
  entry.fixed.lease_s = lease_s_;
  for (const auto& [place, number] : pages_) entry.pages.push_back({place, number});
  return entry;
}

Result<bool> S3Log::append(S3Exchange& exchange, Entry entry) {
  entry.fixed.pages = static_cast<u32>(entry.pages.size());
  const u64 number = entry.fixed.number;
  const std::string text = as_text(entry.fixed, entry.pages, entry.rest);
  PERDURA_ASSIGN(
      const S3Answer answer,
      exchange.ask({.method = "PUT", .name = entry_name(number), .end = text, .if_none = true}));
  bool is_ours = answer.good();
  if (answer.status == 412) {
    // It may be this one, put by the attempt before, or by whoever passed it on and did so twice.
    PERDURA_ASSIGN(const S3Answer found, exchange.ask({.name = entry_name(number)}));
    if (!found.good() && found.status != 404)
      return s3_failure(place_, found, "cannot read '" + name_ + "'");
    is_ours = found.body == text;
  }
  if (!is_ours && answer.status == 412) return false;
  if (!is_ours) return s3_failure(place_, answer, "cannot write '" + name_ + "'");
  newest_ = number;
  return true;
}

Status S3Log::append_own(S3Exchange& exchange, Entry entry) {
  PERDURA_ASSIGN(const bool appended, append(exchange, std::move(entry)));
  if (!appended) return taken_over(exchange);
  if (pageless_ != 0) superseded_.push_back(std::exchange(pageless_, 0));
  return {};
}

Status S3Log::put_page(S3Exchange& exchange, u64 place, Bytes page) {
  Entry entry = entry_of(S3EntryKind::kPage);
  entry.fixed.place = place;
  std::erase_if(entry.pages, [&](const S3Page& each) { return each.place == place; });
  entry.pages.push_back({place, entry.fixed.number});
  entry.rest.assign(reinterpret_cast<const char*>(page.data()), page.size());
  PERDURA_TRY(append_own(exchange, std::move(entry)));
  const auto [at, is_first] = pages_.try_emplace(place, newest_);
  if (!is_first) superseded_.push_back(std::exchange(at->second, newest_));
  return {};
}

Status S3Log::forget_pages(S3Exchange& exchange, u64 place, u64 length) {
  for (auto at = pages_.lower_bound(place); at != pages_.end() && at->first < place + length;) {
    const u64 number = at->second;
    Entry entry = entry_of(S3EntryKind::kPage);
    entry.fixed.place = at->first;
    std::erase_if(entry.pages, [&](const S3Page& each) { return each.number == number; });
    PERDURA_TRY(append_own(exchange, std::move(entry)));
    pageless_ = newest_;
    superseded_.push_back(number);
    at = pages_.erase(at);
  }
  return {};
}

Status S3Log::set_size(S3Exchange& exchange, u64 size) {
  const u64 before = std::exchange(size_, size);
  Status done = append_own(exchange, entry_of(S3EntryKind::kSize));
  if (done) pageless_ = newest_;
  else size_ = before;
  return done;
}

Status S3Log::check(S3Exchange& exchange) {
  PERDURA_ASSIGN(const std::vector<Listed> behind, list(exchange, newest_, 1));
  if (!behind.empty()) return taken_over(exchange);
  return superseded_.size() > kSupersededMax ? remove_superseded(exchange) : Status{};
}

Status S3Log::beat(S3Exchange& exchange) const {
  PERDURA_ASSIGN(const S3Answer answer,
                 exchange.ask({.method = "PUT", .name = beat_name(opening_)}));
  return answer.good() ? Status{} : s3_failure(place_, answer, "cannot write '" + name_ + "'");
}

Status S3Log::close(S3Exchange& exchange, bool removed) {
  Entry entry = entry_of(removed ? S3EntryKind::kRemoved : S3EntryKind::kClosed);
  if (removed) {
    for (const auto& [place, number] : std::exchange(pages_, {})) superseded_.push_back(number);
    entry.pages.clear();
  }
  PERDURA_TRY(append_own(exchange, std::move(entry)));
  PERDURA_TRY(check(exchange));
  PERDURA_TRY(remove_superseded(exchange));
  PERDURA_TRY(exchange.ask({.method = "DELETE", .name = beat_name(opening_)}));
  return {};
}

// What cannot be deleted now, the next opening finds.
Status S3Log::remove_superseded(S3Exchange& exchange) {
  for (const u64 number : std::exchange(superseded_, {}))
    PERDURA_TRY(
        exchange.start({.method = "DELETE", .name = entry_name(number)}, [](S3Answer&&) {}));
  return exchange.wait(0);
}

Failure S3Log::taken_over(S3Exchange& exchange) const {
  Failure failure{Code::kLocked, "'" + name_ + "' was taken over by another opening"};
  const Status asked = guarded([&]() -> Status {
    Found found;
    PERDURA_ASSIGN(const bool is_whole, look(exchange, found));
    if (!is_whole || found.opening == nullptr) return {};
    if (const auto owner = ServerOwner::parse(found.opening->rest))
      failure.message += fmt::format(": {}{}", owner->who(*self_),
                                     owner->host != self_->host ? " on " + owner->host : "");
    return {};
  });
  (void)asked;  // then nobody knows which
  return failure;
}

}  // namespace perdura::media
