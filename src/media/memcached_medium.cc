#include "media/memcached_medium.hpp"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <ranges>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "format/memcached_format.hpp"
#include "media/memcached_blocks.hpp"
#include "media/memcached_client.hpp"
#include "media/memcached_lock.hpp"

namespace perdura::media {
namespace {

using format::kMemcachedBlockBytes;
using format::MemcachedHead;

constexpr size_t kNameBytesMax = 200;  // keys have at most 250
constexpr u64 kGrowBytes = 16 * kMiB;  // between two looks at what the server says
constexpr int kReleaseMs = 1000;
// Of `stats`: items that went for want of memory. The second and the third are those that were in
// the way when memory was moved between sizes, which -M does not forbid.
constexpr std::string_view kEvictionCounters[] = {"evictions", "slab_reassign_evictions_nomem",
                                                  "slab_reassign_busy_deletes"};

struct Place {
  MemcachedServer server;
  std::string name;

  std::string uri() const { return fmt::format("memcached://{}/{}", server.name(), name); }
  std::string key() const { return "perdura:" + name; }
  std::string lock_key() const { return key() + ":lock"; }
  std::string block_key_begin(u64 nonce) const { return fmt::format("{}:{:016x}:", key(), nonce); }
};

struct Authority {
  std::string_view host;
  std::string_view port = "11211";
};

// "HOST[:PORT]", where the host that is an IPv6 address is in brackets.
Authority split_authority(std::string_view text) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : text.npos;
  const bool in_brackets = bracket != text.npos;
  const size_t end = in_brackets ? bracket + 1 : std::min(text.find(':'), text.size());
  Authority split{.host = in_brackets ? text.substr(1, bracket - 1) : text.substr(0, end)};
  if (end != text.size()) split.port = text[end] == ':' ? text.substr(end + 1) : "";
  return split;
}

bool is_port(std::string_view text) {
  u16 port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() && port != 0;
}

// "//HOST[:PORT]/NAME"
Result<Place> parse_place(std::string_view address, const MediumOptions& options) {
  constexpr int kTimeoutMax = std::numeric_limits<int>::max();
  const auto invalid = [&](const std::string& why) {
    return Failure{
        Code::kInvalidArgument,
        fmt::format("'memcached:{}': {}; as in memcached://127.0.0.1:11211/name", address, why)};
  };
  if (!address.starts_with("//")) return invalid("the server's address is missing");
  const std::string_view rest = address.substr(2);
  const size_t slash = std::min(rest.find('/'), rest.size());
  const auto [host, port] = split_authority(rest.substr(0, slash));
  const std::string_view name = rest.substr(std::min(slash + 1, rest.size()));
  if (host.empty()) return invalid("the server's address is missing");
  if (!is_port(port)) return invalid(fmt::format("'{}' is no port", port));
  if (name.empty()) return invalid("the store's name is missing");
  if (name.size() > kNameBytesMax)
    return invalid(
        fmt::format("the store's name has {} bytes, more than {}", name.size(), kNameBytesMax));
  if (std::ranges::any_of(name, [](char c) { return c <= ' ' || c > '~' || c == ':'; }))
    return invalid("a store's name here has no colons, spaces, control or non-ASCII characters");
  if (options.timeout_ms == 0 || options.timeout_ms > kTimeoutMax)
    return invalid(fmt::format("timeout_ms is 1 to {}", kTimeoutMax));
  Place place{{std::string(host), std::string(port), static_cast<int>(options.timeout_ms)},
              std::string(name)};
  place.server.medium = place.uri();
  return place;
}

u64 head_checksum(const MemcachedHead& head) {
  constexpr size_t kFrom = offsetof(MemcachedHead, version);
  return checksum(reinterpret_cast<const char*>(&head) + kFrom, sizeof head - kFrom);
}

Result<MemcachedHead> new_head() {
  MemcachedHead head{};
  std::memcpy(head.magic, format::kMemcachedMagic, sizeof head.magic);
  head.version = format::kMemcachedVersion;
  head.block_bytes = kMemcachedBlockBytes;
  if (::getrandom(&head.nonce, sizeof head.nonce, 0) != sizeof head.nonce)
    return system_failure(errno, "cannot draw a number for the keys of a store");
  return head;
}

Result<MemcachedHead> parse_head(const std::string& medium, std::string_view value) {
  MemcachedHead head{};
  std::memcpy(&head, value.data(), std::min(value.size(), sizeof head));
  if (std::memcmp(head.magic, format::kMemcachedMagic, sizeof head.magic) != 0)
    return Failure{Code::kForeign, "'" + medium +
                                       "' is not a Perdura store (its head item is something "
                                       "else); choose another name, or remove it"};
  if (value.size() != sizeof head || head.checksum != head_checksum(head) ||
      !is_aligned(head.size | head.items_end, kMemcachedBlockBytes) || head.size > head.items_end)
    return Failure{Code::kCorrupt,
                   "the head item of '" + medium + "' is damaged; restore the store from a copy"};
  if (head.version != format::kMemcachedVersion || head.block_bytes != kMemcachedBlockBytes)
    return Failure{Code::kIncompatible,
                   "the head item of '" + medium + "' has version " + std::to_string(head.version) +
                       ", this Perdura reads version " + std::to_string(format::kMemcachedVersion) +
                       "; use a newer Perdura"};
  return head;
}

class MemcachedMedium final : public Medium {
 public:
  MemcachedMedium(Place place, std::unique_ptr<MemcachedConnection> main,
                  std::unique_ptr<MemcachedLock> lock)
      : place_(std::move(place)),
        name_(place_.uri()),
        main_(std::move(main)),
        lock_(std::move(lock)) {}

  ~MemcachedMedium() override {
    if (main_->forked()) return;  // the lock and everything else is the parent's
    idle_.clear();
    // A lock that stays for want of memory is that of an opening that is over.
    (void)guarded([&]() -> Status {
      release_lock();
      return {};
    });
  }

  // --- before it is used

  /// Failures kForeign, kCorrupt and kIncompatible are of the head item, the server is sound.
  Status find_head(bool create) {
    PERDURA_ASSIGN(const MemcachedReply reply,
                   main_->ask(fmt::format("mg {} v\r\n", place_.key())));
    if (reply.is("VA ")) {
      PERDURA_ASSIGN(const MemcachedHead head, parse_head(name_, reply.value));
      begin(head);
      return {};
    }
    if (!reply.is("EN")) return main_->nonsense(reply);
    if (!create)
      return Failure{Code::kNotFound, "cannot open the store '" + name_ +
                                          "': the server has none of this name; if it had, it was "
                                          "restarted, or started without -M (no eviction)"};
    PERDURA_ASSIGN(const MemcachedHead head, new_head());
    PERDURA_TRY(put_head(head));
    begin(head);
    return {};
  }

  // A server that evicts is refused: it would drop blocks, of any store, without a word.
  Status refuse_evictions() {
    std::lock_guard lock(main_mutex_);
    std::string evicts = "unknown";
    PERDURA_TRY(main_->list("stats settings\r\n", [&](auto name, auto value) {
      if (name == "evictions") evicts = value;
    }));
    if (evicts == "off") {
      PERDURA_ASSIGN(evictions_, count_evictions());
      return {};
    }
    return Failure{
        Code::kUnsupported,
        fmt::format("the memcached server {} evicts items when its memory is full (its setting "
                    "evictions is {}), which would lose what it acknowledged; start it with -M (no "
                    "eviction), and with enough memory (-m)",
                    place_.server.name(), evicts)};
  }

  /// Delete everything but the lock. When it is cut short, it can be done again.
  Status remove() {
    if (blocks_) {
      MemcachedHead head = head_;
      head.size = 0;
      PERDURA_TRY(put_head(head));
      PERDURA_TRY(blocks_->send_deletions(*main_, 0, head.items_end));
      PERDURA_TRY(blocks_->finish(*main_));
    }
    PERDURA_ASSIGN(const MemcachedReply reply, main_->ask(fmt::format("md {}\r\n", place_.key())));
    return reply.is("HD") || reply.is("NF") ? Status{} : main_->nonsense(reply);
  }

  // --- Medium

  const std::string& name() const override { return name_; }

  Geometry geometry() const override {
    return Geometry{.size = size_.load(std::memory_order_acquire),
                    .atomic_bytes = kMemcachedBlockBytes,
                    .write_bytes = kMemcachedBlockBytes,
                    .byte_addressable = false,
                    .reads_in_handlers = false,
                    .reads_unwritten = false};
  }

  Status grow(u64 size, bool prewrite) override {
    std::lock_guard growing(grow_mutex_);
    size = round_up(size, kMemcachedBlockBytes);
    const u64 old = size_.load(std::memory_order_acquire);
    if (size <= old) return {};
    PERDURA_TRY(check_poison());
    if (prewrite) PERDURA_TRY(prewrite_zeros(old, size));
    {
      std::lock_guard lock(blocks_mutex_);
      never_written_.resize(size / kMemcachedBlockBytes, !prewrite);
    }
    PERDURA_TRY(change_head([&](MemcachedHead& head) {
      head.size = size;
      head.items_end = std::max(head.items_end, size);
    }));
    size_.store(size, std::memory_order_release);
    return {};
  }

  Status write(u64 offset, Bytes data, const Site&) override {
    PERDURA_TRY(check(offset, data));
    const Piece piece{offset, data};
    std::lock_guard lock(main_mutex_);
    if (Status sent = blocks_->send(*main_, offset, data); !sent) return settle(*main_, sent);
    return finish(*main_, {&piece, 1});
  }

  std::unique_ptr<WriteQueue> queue() override { return std::make_unique<Queue>(*this); }

  // Everything that was done is acknowledged. That it is the same server, a connection shows; that
  // nobody has told it to forget everything, and no other opener writes there as well, the lock.
  Status barrier(const Site&) override {
    std::lock_guard lock(main_mutex_);
    PERDURA_TRY(check_poison());
    Status checked = lock_->check(*main_);
    if (checked) checked = check_evictions();
    if (!checked) poison(checked.failure());
    return checked;
  }

  Status read(u64 offset, MutableBytes into) override {
    const ReadRequest request{offset, into};
    return read_all({&request, 1});
  }

  Status read_all(std::span<const ReadRequest> requests) override {
    PERDURA_TRY(check_poison());
    const u64 size = size_.load(std::memory_order_acquire);
    for (const ReadRequest& request : requests)
      if (request.offset + request.into.size() > size)
        return Failure{Code::kCorrupt, "'" + name_ + "' ends before offset " +
                                           std::to_string(request.offset + request.into.size()) +
                                           ": truncated"};
    PERDURA_ASSIGN(auto connection, lend());
    Status done = settle(*connection, blocks_->read(*connection, requests));
    give_back(std::move(connection));
    return done;
  }

  const std::byte* direct(u64, u64) override { return nullptr; }

  Status map_home(void*, u64, u64) override {
    return Failure{Code::kUnsupported, "'" + name_ +
                                           "' cannot be mapped: a store on memcached needs the "
                                           "engine of remapped chunks"};
  }

 private:
  struct Piece {
    u64 offset;
    Bytes data;
  };

  /// Writes in flight on a connection that is the queue's own from the first write on.
  class Queue final : public WriteQueue {
   public:
    explicit Queue(MemcachedMedium& medium) : medium_(medium) {}
    ~Queue() override {
      if (!connection_) return;
      (void)guarded([&] { return drain(0); });
      medium_.give_back(std::move(connection_));
    }

    Status submit(u64 offset, Bytes data, const Site&) override {
      PERDURA_TRY(medium_.check(offset, data));
      if (!connection_) {
        PERDURA_ASSIGN(connection_, medium_.lend());
      }
      pieces_.push_back({offset, data});
      return medium_.settle(*connection_, medium_.blocks_->send(*connection_, offset, data));
    }

    Status drain(size_t) override {
      const std::vector<Piece> pieces = std::exchange(pieces_, {});
      if (pieces.empty()) return {};
      PERDURA_TRY(medium_.check_poison());
      const MemcachedExchange exchange(*connection_);
      return medium_.finish(*connection_, pieces);
    }

   private:
    MemcachedMedium& medium_;
    std::unique_ptr<MemcachedConnection> connection_;
    std::vector<Piece> pieces_;  ///< since the last drain
  };

  void release_lock() {
    if (!poisoned_ && !main_->broken()) {
      lock_->release(*main_);
      return;
    }
    // What was sent and not waited for may still be in the server's hands.
    main_.reset();
    MemcachedServer server = place_.server;
    server.timeout_ms = std::min(server.timeout_ms, kReleaseMs);
    if (auto fresh = MemcachedConnection::open(server))
      lock_->release_after_loss(**fresh, kReleaseMs);
  }

  void begin(const MemcachedHead& head) {
    head_ = head;
    blocks_.emplace(name_, place_.block_key_begin(head.nonce));
    size_.store(head.size, std::memory_order_release);
    never_written_.assign(head.size / kMemcachedBlockBytes, false);
  }

  Status check(u64 offset, Bytes data) const {
    PERDURA_ASSERT(is_aligned(offset, kMemcachedBlockBytes) &&
                   is_aligned(data.size(), kMemcachedBlockBytes));
    PERDURA_ASSERT(offset + data.size() <= size_.load(std::memory_order_relaxed));
    return check_poison();
  }

  // --- evictions

  Result<std::string> count_evictions() {
    std::string counts;
    PERDURA_TRY(main_->list("stats\r\n", [&](auto name, auto value) {
      if (std::ranges::count(kEvictionCounters, name) != 0)
        counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", name, value);
    }));
    return counts.empty() ? "nothing" : counts;
  }
  // Counters that somebody reset prove nothing either.
  Status check_evictions() {
    PERDURA_ASSIGN(const std::string now, count_evictions());
    if (now == evictions_) return {};
    return Failure{
        Code::kIo,
        fmt::format("the memcached server {} evicted items, perhaps blocks of '{}' (its counters "
                    "said {} and say {}); start it with more memory (-m), and restore the store "
                    "from a copy if `perdura check` finds it damaged",
                    place_.server.name(), name_, evictions_, now)};
  }

  // --- blocks

  /// Wait until the server took these pieces, which were sent.
  Status finish(MemcachedConnection& connection, std::span<const Piece> pieces) {
    Status done = blocks_->finish(connection);
    if (!done && done.failure().code == Code::kNoSpace) done = send_missing(connection, pieces);
    else if (!done) poison(done.failure());
    if (done) mark_written(pieces);
    return settle(connection, done);
  }

  // A block that the server refused for want of memory it has dropped as well, and so has memory
  // for its new value now. Not so for blocks that are new.
  Status send_missing(MemcachedConnection& connection, std::span<const Piece> pieces) {
    std::set<u64> missing;
    for (const Piece& piece : pieces) {
      PERDURA_ASSIGN(const std::vector<u64> found,
                     blocks_->missing(connection, piece.offset, piece.offset + piece.data.size()));
      missing.insert(found.begin(), found.end());
    }
    const std::set<u64> refused = missing;
    // Of several writes of a block the last one counts.
    for (const Piece& piece : std::ranges::reverse_view(pieces))
      for (u64 at = 0; at < piece.data.size(); at += kMemcachedBlockBytes)
        if (missing.erase((piece.offset + at) / kMemcachedBlockBytes) != 0)
          PERDURA_TRY(blocks_->send(connection, piece.offset + at,
                                    piece.data.subspan(at, kMemcachedBlockBytes)));
    Status done = blocks_->finish(connection);
    if (done || connection.broken()) return done;
    if (!all_new(refused)) poison(done.failure());
    // What is new is given back: the server has memory for overwriting then.
    for (const Piece& piece : pieces) PERDURA_TRY(delete_new(connection, piece));
    if (Status deleted = blocks_->finish(connection); !deleted) return deleted;
    return done;
  }

  void mark_written(std::span<const Piece> pieces) {
    std::lock_guard lock(blocks_mutex_);
    for (const Piece& piece : pieces)
      std::fill_n(never_written_.begin() + static_cast<long>(piece.offset / kMemcachedBlockBytes),
                  piece.data.size() / kMemcachedBlockBytes, false);
  }
  bool all_new(const std::set<u64>& blocks) {
    std::lock_guard lock(blocks_mutex_);
    return std::ranges::all_of(blocks, [this](u64 block) { return never_written_[block]; });
  }
  Status delete_new(MemcachedConnection& connection, const Piece& piece) {
    for (u64 at = piece.offset; at < piece.offset + piece.data.size(); at += kMemcachedBlockBytes)
      if (all_new({at / kMemcachedBlockBytes}))
        PERDURA_TRY(blocks_->send_deletions(connection, at, at + kMemcachedBlockBytes));
    return {};
  }

  Status send_zeros(MemcachedConnection& connection, u64 from, u64 to) {
    for (u64 at = from; at < to; at += kGrowBytes) {
      PERDURA_TRY(blocks_->send_zeros(connection, at, std::min(at + kGrowBytes, to)));
      PERDURA_TRY(blocks_->finish(connection));
    }
    return {};
  }

  // On failure the server gets back what it has given already, and has memory for overwriting.
  Status prewrite_zeros(u64 from, u64 to) {
    PERDURA_TRY(
        change_head([&](MemcachedHead& head) { head.items_end = std::max(head.items_end, to); }));
    PERDURA_ASSIGN(auto connection, lend());
    Status done = guarded([&] { return send_zeros(*connection, from, to); });
    if (!done && !connection->broken()) {
      const Status deleted = guarded([&]() -> Status {
        PERDURA_TRY(blocks_->send_deletions(*connection, from, to));
        return blocks_->finish(*connection);
      });
      // A zero that is still under way would overwrite what comes to its place next.
      if (!deleted) connection->give_up();
    }
    done = settle(*connection, done);
    give_back(std::move(connection));
    return done;
  }

  // --- the head

  Status put_head(MemcachedHead head) {
    head.checksum = head_checksum(head);
    const std::string_view bytes(reinterpret_cast<const char*>(&head), sizeof head);
    PERDURA_ASSIGN(
        const MemcachedReply reply,
        main_->ask(fmt::format("ms {} {}\r\n{}\r\n", place_.key(), bytes.size(), bytes)));
    if (reply.is("HD")) return {};
    if (reply.is_error()) return main_->refusal(reply, "cannot write the head of '" + name_ + "'");
    return main_->nonsense(reply);
  }

  template <class Change>
  Status change_head(Change&& change) {
    std::lock_guard lock(main_mutex_);
    MemcachedHead head = head_;
    change(head);
    Status put = put_head(head);
    if (put) head_ = head;
    else poison(put.failure());  // a refused value may have cost the old one
    return put;
  }

  // --- connections

  /// One that nobody uses, and that the lock names.
  Result<std::unique_ptr<MemcachedConnection>> lend() {
    {
      std::lock_guard lock(idle_mutex_);
      if (!idle_.empty()) {
        auto connection = std::move(idle_.back());
        idle_.pop_back();
        return connection;
      }
    }
    if (main_->forked())
      return Failure{Code::kForked, "'" + name_ + "' was opened by the parent process"};
    PERDURA_ASSIGN(auto connection, MemcachedConnection::open(place_.server));
    std::lock_guard lock(main_mutex_);
    Status named = lock_->add(connection->address(), *main_);
    if (!named) poison(named.failure());
    PERDURA_TRY(named);
    return connection;
  }

  // What is under way on a broken one may come behind whatever is written next.
  void give_back(std::unique_ptr<MemcachedConnection> connection) noexcept {
    if (connection->broken()) {
      poison(Code::kIo, "an exchange with the server was cut short");
      return;
    }
    std::lock_guard lock(idle_mutex_);
    const Status kept = guarded([&]() -> Status {
      idle_.push_back(std::move(connection));
      return {};
    });
    (void)kept;  // another is opened when one is needed
  }

  // --- failures that stay

  /// A lost connection is the end of the medium; other failures are of the call only.
  Status settle(MemcachedConnection& connection, Status done) {
    if (connection.broken()) poison(done.failure());
    return done;
  }

  void poison(const Failure& failure) noexcept { poison(failure.code, failure.message); }

  void poison(Code code, std::string_view why) noexcept {
    std::lock_guard lock(poison_mutex_);
    if (poisoned_) return;
    poison_.code = code == Code::kForked ? Code::kForked : Code::kIo;
    try {
      poison_.message = fmt::format(
          "'{}' is closed to all use since an earlier failure ({}), after which nothing written "
          "can be trusted; close the store and open it again",
          name_, why);
    } catch (const std::bad_alloc&) {
      poison_.message.clear();
    }
    poisoned_ = true;
  }

  Status check_poison() const {
    if (!poisoned_.load(std::memory_order_acquire)) return {};
    return poison_;
  }

  const Place place_;
  const std::string name_;
  std::optional<MemcachedBlocks> blocks_;
  std::atomic<u64> size_{0};
  std::mutex grow_mutex_;

  std::mutex main_mutex_;  ///< after grow_mutex_
  std::string evictions_;  ///< as the server counted them before the first write
  std::unique_ptr<MemcachedConnection> main_;
  std::unique_ptr<MemcachedLock> lock_;
  MemcachedHead head_{};

  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<MemcachedConnection>> idle_;

  std::mutex blocks_mutex_;
  std::vector<bool> never_written_;  ///< blocks of which the server has no value to lose

  std::mutex poison_mutex_;
  std::atomic<bool> poisoned_{false};
  Failure poison_;  ///< does not change once poisoned_ is set
};

Result<std::unique_ptr<MemcachedMedium>> lock_medium(std::string_view address,
                                                     const MediumOptions& options) {
  PERDURA_ASSIGN(Place place, parse_place(address, options));
  PERDURA_ASSIGN(auto main, MemcachedConnection::open(place.server));
  PERDURA_ASSIGN(
      auto lock,
      MemcachedLock::take(
          {.key = place.lock_key(), .medium = place.uri(), .takeover = options.takeover}, *main));
  return std::make_unique<MemcachedMedium>(std::move(place), std::move(main), std::move(lock));
}

}  // namespace

Result<OpenedMedium> open_memcached(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(auto medium, lock_medium(address, options));
  if (!options.read_only) PERDURA_TRY(medium->refuse_evictions());
  PERDURA_TRY(medium->find_head(options.create));
  const bool created = medium->geometry().size == 0;
  return OpenedMedium{std::move(medium), created};
}

Status remove_memcached(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(auto medium, lock_medium(address, options));
  // A head that cannot be read is removed by itself: it does not say what else there is.
  Status found = medium->find_head(false);
  if (!found && (found.failure().code == Code::kIo || found.failure().code == Code::kNotFound))
    return found;
  return medium->remove();
}

}  // namespace perdura::media
