#include "media/s3_log.hpp"

#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "media/object_content.hpp"

namespace perdura::media {
namespace {

using format::S3Adopted;
using format::S3Entry;
using format::S3EntryKind;

constexpr HeadKind kS3HeadKind{format::kS3Magic, format::kS3Version, "log"};
constexpr int kOpenAttempts = 10;
constexpr size_t kListedMax = 1000;    // of an answer
constexpr size_t kSupersededMax = 16;  // entries that may wait to be deleted

std::string entry_name(u64 number) { return fmt::format("log/{:016x}", number); }
std::string beat_name(u64 opening) { return fmt::format("beat/{:016x}", opening); }

std::string encoded(std::string_view text) {
  std::string query;
  for (const char c : text) query += c == '/' ? std::string("%2F") : std::string(1, c);
  return query;
}

std::optional<time_t> time_of(const std::string& text, const char* form) {
  tm parts{};
  const char* const end = ::strptime(text.c_str(), form, &parts);
  if (end == nullptr) return std::nullopt;
  return ::timegm(&parts);
}

std::string as_text(const S3Entry& entry, std::string_view rest) {
  std::string text(reinterpret_cast<const char*>(&entry), sizeof entry);
  text += rest;
  const u64 sum = object_head_checksum(std::as_bytes(std::span(text)));
  std::memcpy(text.data() + offsetof(format::MediumHead, checksum), &sum, sizeof sum);
  return text;
}

}  // namespace

// --- reading -------------------------------------------------------------------------------------

Result<std::vector<S3Log::Listed>> S3Log::list(S3Exchange& exchange, u64 behind, size_t most,
                                               std::string* date) const {
  std::vector<Listed> listed;
  for (;;) {
    const size_t asked = std::min(most - listed.size(), kListedMax);
    PERDURA_ASSIGN(
        const S3Answer answer,
        exchange.ask({.name = {},
                      .query = fmt::format(
                          "list-type=2&max-keys={}&prefix={}&start-after={}", asked,
                          encoded(place_.prefix + "/log/"),
                          encoded(place_.prefix + "/" +
                                  entry_name(listed.empty() ? behind : listed.back().number)))}));
    if (!answer.good()) return s3_failure(place_, answer, "cannot list '" + name_ + "'");
    if (date != nullptr) *date = answer.date;
    const size_t before = listed.size();
    size_t at = 0;
    while (const auto contents = next_element(answer.body, "Contents", at)) {
      size_t inside = 0;
      const std::string_view key = next_element(*contents, "Key", inside).value_or("");
      inside = 0;
      const std::string_view changed = next_element(*contents, "LastModified", inside).value_or("");
      const std::string_view digits = key.substr(key.size() - std::min<size_t>(key.size(), 16));
      u64 number = 0;
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
      if (parsed.ptr != digits.data() + digits.size() || digits.size() != 16)
        return Failure{Code::kForeign, fmt::format("'{}' is not a Perdura store (it has an object "
                                                   "'{}'); choose another name",
                                                   name_, key)};
      listed.push_back({number, std::string(changed)});
    }
    at = 0;
    const bool is_cut = next_element(answer.body, "IsTruncated", at).value_or("") == "true";
    if (!is_cut || listed.size() >= most || listed.size() == before) return listed;
  }
}

Result<S3Log::Entry> S3Log::parse(u64 number, const std::string& content) const {
  Entry entry;
  const auto damaged = [&] {
    return Failure{Code::kCorrupt, fmt::format("the log entry {} of '{}' is damaged; restore the "
                                               "store from a copy",
                                               number, name_)};
  };
  PERDURA_TRY(
      check_object_head(name_, kS3HeadKind, std::as_bytes(std::span(content)), content.size()));
  if (content.size() < sizeof entry.fixed) return damaged();
  std::memcpy(&entry.fixed, content.data(), sizeof entry.fixed);
  entry.rest = content.substr(sizeof entry.fixed);
  const bool is_opening = entry.fixed.kind == S3EntryKind::kOpening;
  if (entry.fixed.number != number ||
      (is_opening && entry.rest.size() < entry.fixed.adopted * sizeof(S3Adopted)))
    return damaged();
  return entry;
}

// Where an entry is deleted while it is read, another opening is at work: false.
Result<bool> S3Log::look(S3Exchange& exchange, Found& found) const {
  found = {};
  PERDURA_ASSIGN(found.listed, list(exchange, 0, ~size_t{0}, &found.date));
  Status failed;
  bool is_there = true;
  for (const Listed& each : found.listed) {
    const u64 number = each.number;
    PERDURA_TRY(exchange.start({.name = entry_name(number)}, [&, number](S3Answer&& answer) {
      if (answer.status == 404) is_there = false;
      else if (!answer.good() && failed)
        failed = s3_failure(place_, answer, "cannot read '" + name_ + "'");
      else if (auto entry = parse(number, answer.body)) found.entries[number] = std::move(*entry);
      else if (failed) failed = copy_of(entry.failure());
    }));
    PERDURA_TRY(exchange.wait(32));
  }
  PERDURA_TRY(exchange.wait(0));
  if (!is_there) return false;
  PERDURA_TRY(failed);
  if (!found.entries.empty()) PERDURA_TRY(understand(found));
  return true;
}

Status S3Log::understand(Found& found) const {
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
  const auto lost = [&](u64 number) {
    return Failure{
        Code::kCorrupt,
        fmt::format("the log of '{}' lacks entry {}: it was lost or removed; restore the "
                    "store from a copy",
                    name_, number)};
  };
  if (found.opening == nullptr) return lost(found.newest);
  const S3Entry& opening = found.opening->fixed;
  found.size = opening.head.size;
  for (u32 i = 0; i < opening.adopted; ++i) {
    S3Adopted adopted;
    std::memcpy(&adopted, found.opening->rest.data() + i * sizeof adopted, sizeof adopted);
    found.pages[adopted.place] = adopted.number;
  }
  for (auto at = found.entries.upper_bound(opening.number); at != found.entries.end(); ++at) {
    const auto& [number, entry] = *at;
    if (entry.fixed.opening != opening.opening || entry.fixed.drawn != opening.drawn) continue;
    switch (entry.fixed.kind) {
      case S3EntryKind::kSize:
        found.size = entry.fixed.head.size;
        break;
      case S3EntryKind::kPage:
        if (entry.rest.empty()) found.pages.erase(entry.fixed.place);
        else found.pages[entry.fixed.place] = number;
        break;
      case S3EntryKind::kClosed:
        found.closed = true;
        break;
      case S3EntryKind::kRemoved:
        found.removed = true;
        break;
      case S3EntryKind::kOpening:
        break;
    }
  }
  if (!found.removed)
    for (const auto& [place, number] : found.pages)
      if (!found.entries.contains(number)) return lost(number);
  return {};
}

std::string S3Log::data_prefix() const { return fmt::format("data/{:016x}/", nonce_); }

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
  if (entry.fixed.place != place || entry.rest.size() < into.size())
    return Failure{Code::kCorrupt, fmt::format("the log entry {} of '{}' is not the page at place "
                                               "{}; restore the store from a copy",
                                               number, name_, place)};
  std::memcpy(into.data(), entry.rest.data(), into.size());
  return {};
}

// --- opening -------------------------------------------------------------------------------------

Status S3Log::open(S3Exchange& exchange, const Wanted& wanted) {
  PERDURA_ASSIGN(self_, ServerOwner::describe());
  if (::getrandom(&drawn_, sizeof drawn_, 0) != sizeof drawn_)
    return system_failure(errno, "cannot draw a number for an opening");
  for (int attempt = 0; attempt < kOpenAttempts; ++attempt) {
    Found found;
    PERDURA_ASSIGN(const bool is_whole, look(exchange, found));
    if (!is_whole) continue;
    const bool is_new = found.opening == nullptr || found.removed;
    if (is_new && !wanted.create)
      return Failure{Code::kNotFound,
                     "cannot open the store '" + name_ + "': the bucket has none of this name"};
    if (!is_new) PERDURA_TRY(may_take(exchange, found, wanted));
    PERDURA_TRY(refuse_unconditional(exchange));
    if (is_new) {
      PERDURA_ASSIGN(const format::MediumHead head, new_object_head(kS3HeadKind));
      nonce_ = head.nonce;
      size_ = 0;
      pages_.clear();
    } else {
      nonce_ = found.opening->fixed.head.nonce;
      size_ = found.size;
      pages_ = std::move(found.pages);
    }
    opening_ = found.openings + 1;
    newest_ = found.newest;
    Entry entry = entry_of(S3EntryKind::kOpening);
    entry.fixed.adopted = static_cast<u32>(pages_.size());
    for (const auto& [place, number] : pages_) {
      const S3Adopted adopted{place, number};
      entry.rest.append(reinterpret_cast<const char*>(&adopted), sizeof adopted);
    }
    entry.rest += self_->text();
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
    return remove_superseded(exchange, 0);
  }
  return Failure{Code::kLocked,
                 "'" + name_ + "' is being opened or written by others again and again; try again"};
}

Status S3Log::may_take(S3Exchange& exchange, const Found& found, const Wanted& wanted) const {
  if (found.closed || wanted.takeover) return {};
  const Entry& opening = *found.opening;
  const std::string_view text =
      std::string_view(opening.rest).substr(opening.fixed.adopted * sizeof(S3Adopted));
  const std::optional<ServerOwner> owner = ServerOwner::parse(text);
  const OwnerState state = owner ? state_of(*owner, *self_) : OwnerState::kElsewhere;
  if (state == OwnerState::kGone) return {};
  const std::string who = owner ? owner->who(*self_) : "a program that does not say which";
  if (state == OwnerState::kRunning)
    return Failure{Code::kLocked, "'" + name_ + "' is open in " + who +
                                      "; a store has one opener at a time: close it there first"};
  PERDURA_ASSIGN(const bool alive, is_alive(exchange, found, wanted.lease_s));
  if (!alive) return {};
  return Failure{
      Code::kLocked,
      fmt::format("'{}' is open in {}{}; close it there first, wait {} s for its lease to run out "
                  "if it is dead, or {}",
                  name_, who, owner ? " on " + owner->host : "", wanted.lease_s, kTakeoverRemedy)};
}

// By the service's clock alone: when it was told last that the owner lives, and what it is now.
Result<bool> S3Log::is_alive(S3Exchange& exchange, const Found& found, u64 lease_s) const {
  const std::string name = beat_name(found.opening->fixed.opening);
  PERDURA_ASSIGN(const S3Answer answer,
                 exchange.ask({.name = {},
                               .query = fmt::format("list-type=2&max-keys=1&prefix={}",
                                                    encoded(place_.prefix + "/" + name))}));
  if (!answer.good()) return s3_failure(place_, answer, "cannot list '" + name_ + "'");
  size_t at = 0;
  std::string changed(next_element(answer.body, "LastModified", at).value_or(""));
  if (changed.empty())
    for (const Listed& each : found.listed)
      if (each.number == found.opening->fixed.number) changed = each.changed;
  const std::optional<time_t> then = time_of(changed, "%Y-%m-%dT%H:%M:%S");
  const std::optional<time_t> now = time_of(answer.date, "%a, %d %b %Y %H:%M:%S");
  return !then || !now || *now - *then <= static_cast<time_t>(lease_s);
}

// "probe" is there, but for the first opening of all.
Status S3Log::refuse_unconditional(S3Exchange& exchange) const {
  for (int attempt = 0; attempt < 2; ++attempt) {
    PERDURA_ASSIGN(const S3Answer answer,
                   exchange.ask({.method = "PUT", .name = "probe", .if_none = true}));
    if (answer.status == 412 || answer.status == 409) return {};
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
  entry.fixed.opening = opening_;
  entry.fixed.drawn = drawn_;
  return entry;
}

Result<bool> S3Log::append(S3Exchange& exchange, Entry entry) {
  const u64 number = newest_ + 1;
  entry.fixed.number = number;
  const std::string text = as_text(entry.fixed, entry.rest);
  for (;;) {
    PERDURA_ASSIGN(
        S3Answer answer,
        exchange.ask({.method = "PUT", .name = entry_name(number), .end = text, .if_none = true}));
    if (answer.status == 409) continue;  // two at once, of which the other one was not done either
    if (answer.status == 412 && answer.repeated) {
      // It may be this one, put by the attempt before.
      PERDURA_ASSIGN(const S3Answer found, exchange.ask({.name = entry_name(number)}));
      if (found.good() && found.body == text) answer.status = 200;
    }
    if (answer.status == 412) return false;
    if (!answer.good()) return s3_failure(place_, answer, "cannot write '" + name_ + "'");
    newest_ = number;
    return true;
  }
}

Status S3Log::append_own(S3Exchange& exchange, Entry entry) {
  PERDURA_ASSIGN(const bool appended, append(exchange, std::move(entry)));
  if (!appended) return taken_over(exchange);
  return remove_superseded(exchange, kSupersededMax);
}

Status S3Log::put_page(S3Exchange& exchange, u64 place, Bytes page) {
  Entry entry = entry_of(S3EntryKind::kPage);
  entry.fixed.place = place;
  entry.rest.assign(reinterpret_cast<const char*>(page.data()), page.size());
  PERDURA_TRY(append_own(exchange, std::move(entry)));
  const auto [at, is_first] = pages_.try_emplace(place, newest_);
  if (!is_first) superseded_.push_back(std::exchange(at->second, newest_));
  return {};
}

Status S3Log::forget_pages(S3Exchange& exchange, u64 place, u64 length) {
  for (auto at = pages_.lower_bound(place); at != pages_.end() && at->first < place + length;) {
    Entry entry = entry_of(S3EntryKind::kPage);
    entry.fixed.place = at->first;
    PERDURA_TRY(append_own(exchange, std::move(entry)));
    superseded_.push_back(at->second);
    at = pages_.erase(at);
  }
  return {};
}

Status S3Log::set_size(S3Exchange& exchange, u64 size) {
  const u64 before = std::exchange(size_, size);
  Status done = append_own(exchange, entry_of(S3EntryKind::kSize));
  if (!done) {
    size_ = before;
    return done;
  }
  if (size_entry_ != 0) superseded_.push_back(size_entry_);
  size_entry_ = newest_;
  return {};
}

Status S3Log::check(S3Exchange& exchange) const {
  PERDURA_ASSIGN(const std::vector<Listed> behind, list(exchange, newest_, 1));
  return behind.empty() ? Status{} : taken_over(exchange);
}

Status S3Log::beat(S3Exchange& exchange) const {
  PERDURA_ASSIGN(const S3Answer answer,
                 exchange.ask({.method = "PUT", .name = beat_name(opening_)}));
  return answer.good() ? Status{} : s3_failure(place_, answer, "cannot write '" + name_ + "'");
}

Status S3Log::close(S3Exchange& exchange, bool removed) {
  PERDURA_TRY(
      append_own(exchange, entry_of(removed ? S3EntryKind::kRemoved : S3EntryKind::kClosed)));
  if (removed) {
    for (const auto& [place, number] : std::exchange(pages_, {})) superseded_.push_back(number);
    if (size_entry_ != 0) superseded_.push_back(size_entry_);
  }
  PERDURA_TRY(remove_superseded(exchange, 0));
  PERDURA_TRY(exchange.ask({.method = "DELETE", .name = beat_name(opening_)}));
  return {};
}

// What cannot be deleted now, the next opening finds.
Status S3Log::remove_superseded(S3Exchange& exchange, size_t more_than) {
  if (superseded_.size() <= more_than) return {};
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
    const std::optional<ServerOwner> owner =
        ServerOwner::parse(std::string_view(found.opening->rest)
                               .substr(found.opening->fixed.adopted * sizeof(S3Adopted)));
    if (owner)
      failure.message += fmt::format(": {}{}", owner->who(*self_),
                                     owner->host != self_->host ? " on " + owner->host : "");
    return {};
  });
  (void)asked;  // then nobody knows which
  return failure;
}

}  // namespace perdura::media
