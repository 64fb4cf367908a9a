#include "media/memcached_objects.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "format/memcached_format.hpp"
#include "media/object_content.hpp"

namespace perdura::media {
namespace {

using format::kObjectUnitBytes;

constexpr size_t kBatch = 64;             // requests of one system call
constexpr size_t kInFlight = 4 * kBatch;  // gets that are not answered yet
constexpr size_t kTextBytes = 64 * kKiB;  // deletions that are sent at once

// Ask for `count` items, with many questions under way, and take the answers in turn. After the
// first failure nothing more is asked.
template <class Key, class Take>
Status get_all(MemcachedConnection& connection, size_t count, const char* flags, Key&& key,
               Take&& take) {
  const MemcachedExchange exchange(connection);
  Status first_failure;
  size_t asked = 0;
  for (size_t answered = 0; answered < asked || asked < count; ++answered) {
    if (asked - answered <= kInFlight - kBatch && asked < count) {
      std::string text;
      for (const size_t end = std::min(asked + kBatch, count); asked < end; ++asked)
        text += fmt::format("mg {}{}\r\n", key(asked), flags);
      PERDURA_TRY(connection.send(text));
    }
    PERDURA_ASSIGN(const MemcachedReply reply, connection.receive());
    Status taken = take(answered, reply);
    if (connection.broken()) return taken;
    if (first_failure && !taken) {
      first_failure = taken;
      count = asked;
    }
  }
  return first_failure;
}

}  // namespace

std::string MemcachedObjects::key(u64 place) const {
  return fmt::format("{}{:x}", key_begin_, place);
}

// "ms KEY LENGTH q", the data from where they are, and their checksum: with the q the server
// answers only if it refuses. What is between the data of two items is sent as one piece.
Status MemcachedObjects::send_items(MemcachedConnection& connection,
                                    std::span<const MemcachedItem> items) const {
  std::string text;
  std::array<size_t, kBatch> data_at;  // where in the text
  std::array<iovec, 2 * kBatch + 1> pieces;
  while (!items.empty()) {
    const size_t batch = std::min(items.size(), kBatch);
    text.clear();
    for (size_t i = 0; i < batch; ++i) {
      const auto& [place, data] = items[i];
      const format::ObjectEnd end{object_checksum(place, data)};
      fmt::format_to(std::back_inserter(text), "ms {}{:x} {} q\r\n", key_begin_, place,
                     data.size() + sizeof end);
      data_at[i] = text.size();
      text.append(reinterpret_cast<const char*>(&end), sizeof end);
      text += "\r\n";
    }
    size_t text_at = 0;
    for (size_t i = 0; i < batch; ++i) {
      pieces[2 * i] = {text.data() + text_at, data_at[i] - text_at};
      pieces[2 * i + 1] = {const_cast<std::byte*>(items[i].data.data()), items[i].data.size()};
      text_at = data_at[i];
    }
    pieces[2 * batch] = {text.data() + text_at, text.size() - text_at};
    connection.add_quiet(batch);
    PERDURA_TRY(connection.send(std::span(pieces).first(2 * batch + 1)));
    items = items.subspan(batch);
  }
  return {};
}

Status MemcachedObjects::send(MemcachedConnection& connection,
                              std::span<const MemcachedItem> objects) const {
  std::vector<MemcachedItem> items;
  for (const auto& [place, data] : objects)
    for_each_item(place, data.size(), [&](u64 item, u64 at, u64 length) {
      items.push_back({item, data.subspan(at, length)});
    });
  return send_items(connection, items);
}

Status MemcachedObjects::send_deletions(MemcachedConnection& connection, u64 from, u64 to) const {
  std::string text;
  for (u64 place = from; place < to; place += kObjectUnitBytes) {
    connection.add_quiet(add_deletions(place, kObjectUnitBytes, text));
    if (text.size() < kTextBytes) continue;
    PERDURA_TRY(connection.send(text));
    text.clear();
  }
  return connection.send(text);
}

u64 MemcachedObjects::add_deletions(u64 place, u64 length, std::string& text) const {
  u64 requests = 0;
  for_each_item(place, length, [&](u64 item, u64, u64) {
    fmt::format_to(std::back_inserter(text), "md {}{:x} q\r\n", key_begin_, item);
    ++requests;
  });
  return requests;
}

Status MemcachedObjects::finish(MemcachedConnection& connection) const {
  const MemcachedExchange exchange(connection);
  // What was sent is in the server's hands, all but some buffers: one deadline is enough for it.
  const u64 end_ns = connection.deadline();
  PERDURA_TRY(connection.send("mn\r\n"));
  Status refused;
  for (u64 answers_left = connection.take_quiet();; --answers_left) {
    PERDURA_ASSIGN(const MemcachedReply reply, connection.receive(end_ns));
    if (reply.is("MN")) return refused;
    if (answers_left == 0) return connection.nonsense(reply);
    if (reply.is("NF")) continue;  // a deletion of what is not there
    // Any other error leaves open where the server takes the next request to begin.
    if (!reply.is("SERVER_ERROR")) return connection.nonsense(reply);
    if (refused) refused = connection.refusal(reply, "cannot write objects of '" + medium_ + "'");
  }
}

Result<std::vector<u64>> MemcachedObjects::missing(MemcachedConnection& connection,
                                                   std::span<const u64> places) const {
  std::vector<u64> found;
  const auto is_there = [&](size_t i, const MemcachedReply& reply) -> Status {
    if (reply.is("EN")) found.push_back(places[i]);
    else if (!reply.is("HD")) return connection.nonsense(reply);
    return {};
  };
  PERDURA_TRY(
      get_all(connection, places.size(), "", [&](size_t i) { return key(places[i]); }, is_there));
  return found;
}

Status MemcachedObjects::read(MemcachedConnection& connection,
                              std::span<const ReadRequest> requests) const {
  std::vector<ReadRequest> items;
  for (const ReadRequest& request : requests)
    for_each_item(request.offset, request.into.size(), [&](u64 item, u64 at, u64 length) {
      items.push_back({item, request.into.subspan(at, length)});
    });
  return get_all(
      connection, items.size(), " v", [&](size_t i) { return key(items[i].offset); },
      [&](size_t i, const MemcachedReply& reply) { return take(connection, reply, items[i]); });
}

Status MemcachedObjects::take(MemcachedConnection& connection, const MemcachedReply& reply,
                              const ReadRequest& wanted) const {
  const std::string at_place = " at place " + std::to_string(wanted.offset);
  if (reply.is("VA ")) {
    const Bytes content = std::as_bytes(std::span(reply.value));
    return take_object(medium_, {content, wanted.offset, "item"}, wanted.into);
  }
  if (reply.is("EN"))
    return Failure{Code::kCorrupt,
                   "the server has no item of '" + medium_ + "'" + at_place +
                       ": it was evicted, it expired, or the server was restarted; start memcached "
                       "with -M (no eviction) and enough memory (-m), and restore the store from a "
                       "copy"};
  if (reply.is("SERVER_ERROR"))
    return connection.refusal(reply, "cannot read '" + medium_ + "'" + at_place);
  return connection.nonsense(reply);
}

}  // namespace perdura::media
