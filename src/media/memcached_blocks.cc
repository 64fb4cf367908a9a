#include "media/memcached_blocks.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "format/memcached_format.hpp"

namespace perdura::media {
namespace {

using format::kMemcachedBlockBytes;

constexpr size_t kBatch = 64;             // requests of one system call
constexpr size_t kInFlight = 4 * kBatch;  // gets that are not answered yet

constexpr std::array<std::byte, kMemcachedBlockBytes> kZeros{};

u64 block_checksum(const void* data, u64 block) {
  const format::MemcachedBlockSummed summed{checksum(data, kMemcachedBlockBytes), block};
  return checksum(&summed, sizeof summed);
}

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

std::string MemcachedBlocks::key(u64 block) const {
  return fmt::format("{}{:x}", key_begin_, block);
}

// "ms KEY 4104 q", the data from where they are, and their checksum: with the q the server answers
// only if it refuses. What is between the data of two blocks is sent as one piece.
Status MemcachedBlocks::send_sets(MemcachedConnection& connection, u64 block, u64 count,
                                  const std::byte* data, size_t stride) const {
  std::string text;
  std::array<size_t, kBatch> data_at;  // where in the text
  std::array<iovec, 2 * kBatch + 1> pieces;
  while (count != 0) {
    const size_t batch = std::min<u64>(count, kBatch);
    text.clear();
    for (size_t i = 0; i < batch; ++i) {
      fmt::format_to(std::back_inserter(text), "ms {}{:x} {} q\r\n", key_begin_, block + i,
                     format::kMemcachedItemBytes);
      data_at[i] = text.size();
      const format::MemcachedBlockEnd end{block_checksum(data + i * stride, block + i)};
      text.append(reinterpret_cast<const char*>(&end), sizeof end);
      text += "\r\n";
    }
    size_t text_at = 0;
    for (size_t i = 0; i < batch; ++i) {
      pieces[2 * i] = {text.data() + text_at, data_at[i] - text_at};
      pieces[2 * i + 1] = {const_cast<std::byte*>(data + i * stride), kMemcachedBlockBytes};
      text_at = data_at[i];
    }
    pieces[2 * batch] = {text.data() + text_at, text.size() - text_at};
    connection.add_quiet(batch);
    PERDURA_TRY(connection.send(std::span(pieces).first(2 * batch + 1)));
    block += batch;
    count -= batch;
    data += batch * stride;
  }
  return {};
}

Status MemcachedBlocks::send(MemcachedConnection& connection, u64 offset, Bytes data) const {
  return send_sets(connection, offset / kMemcachedBlockBytes, data.size() / kMemcachedBlockBytes,
                   data.data(), kMemcachedBlockBytes);
}

Status MemcachedBlocks::send_zeros(MemcachedConnection& connection, u64 from, u64 to) const {
  return send_sets(connection, from / kMemcachedBlockBytes, (to - from) / kMemcachedBlockBytes,
                   kZeros.data(), 0);
}

Status MemcachedBlocks::send_deletions(MemcachedConnection& connection, u64 from, u64 to) const {
  std::string text;
  connection.add_quiet((to - from) / kMemcachedBlockBytes);
  for (u64 block = from / kMemcachedBlockBytes; block < to / kMemcachedBlockBytes; ++block) {
    fmt::format_to(std::back_inserter(text), "md {}{:x} q\r\n", key_begin_, block);
    if (text.size() < 64 * kKiB) continue;
    PERDURA_TRY(connection.send(text));
    text.clear();
  }
  return connection.send(text);
}

Status MemcachedBlocks::finish(MemcachedConnection& connection) const {
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
    if (refused) refused = connection.refusal(reply, "cannot write blocks of '" + medium_ + "'");
  }
}

Result<std::vector<u64>> MemcachedBlocks::missing(MemcachedConnection& connection, u64 from,
                                                  u64 to) const {
  std::vector<u64> found;
  const u64 first = from / kMemcachedBlockBytes;
  const auto is_there = [&](size_t i, const MemcachedReply& reply) -> Status {
    if (reply.is("EN")) found.push_back(first + i);
    else if (!reply.is("HD")) return connection.nonsense(reply);
    return {};
  };
  PERDURA_TRY(get_all(
      connection, to / kMemcachedBlockBytes - first, "", [&](size_t i) { return key(first + i); },
      is_there));
  return found;
}

Status MemcachedBlocks::read(MemcachedConnection& connection,
                             std::span<const ReadRequest> requests) const {
  std::vector<Part> parts;
  for (const ReadRequest& request : requests)
    for (u64 at = request.offset, end = at + request.into.size(); at < end;) {
      const u64 length =
          std::min(round_down(at, kMemcachedBlockBytes) + kMemcachedBlockBytes, end) - at;
      parts.push_back({at / kMemcachedBlockBytes, at % kMemcachedBlockBytes,
                       request.into.subspan(at - request.offset, length)});
      at += length;
    }
  return get_all(
      connection, parts.size(), " v", [&](size_t i) { return key(parts[i].block); },
      [&](size_t i, const MemcachedReply& reply) { return take(connection, reply, parts[i]); });
}

Status MemcachedBlocks::take(MemcachedConnection& connection, const MemcachedReply& reply,
                             const Part& part) const {
  const std::string at_offset = " at offset " + std::to_string(part.block * kMemcachedBlockBytes);
  if (reply.is("VA ")) {
    format::MemcachedBlockEnd end;
    const char* const data = reply.value.data();
    if (reply.value.size() != format::kMemcachedItemBytes)
      return Failure{Code::kCorrupt, "the item of '" + medium_ + "'" + at_offset + " has " +
                                         std::to_string(reply.value.size()) +
                                         " bytes, which no block has; restore the store from a "
                                         "copy"};
    std::memcpy(&end, data + kMemcachedBlockBytes, sizeof end);
    if (end.checksum != block_checksum(data, part.block))
      return Failure{Code::kCorrupt, "the item of '" + medium_ + "'" + at_offset +
                                         " is damaged (its checksum does not fit); restore the "
                                         "store from a copy"};
    std::memcpy(part.into.data(), data + part.begin, part.into.size());
    return {};
  }
  if (reply.is("EN"))
    return Failure{Code::kCorrupt,
                   "the server has no item of '" + medium_ + "'" + at_offset +
                       ": it was evicted, it expired, or the server was restarted; start memcached "
                       "with -M (no eviction) and enough memory (-m), and restore the store from a "
                       "copy"};
  if (reply.is("SERVER_ERROR"))
    return connection.refusal(reply, "cannot read '" + medium_ + "'" + at_offset);
  return connection.nonsense(reply);
}

}  // namespace perdura::media
