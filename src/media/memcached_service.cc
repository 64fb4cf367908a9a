#include "media/memcached_service.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <ranges>
#include <vector>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "format/memcached_format.hpp"
#include "media/memcached_client.hpp"
#include "media/memcached_evictions.hpp"
#include "media/memcached_lock.hpp"
#include "media/memcached_objects.hpp"
#include "media/memcached_place.hpp"
#include "media/object_content.hpp"
#include "media/object_medium.hpp"

namespace perdura::media {
namespace {

using format::MemcachedHead;

constexpr u64 kUnsentBytesMax = 256 * kKiB;  // of a queue
constexpr int kReleaseMs = 1000;

class MemcachedService final : public ObjectService {
 public:
  MemcachedService(const std::string& name, Usable& usable, MemcachedPlace place,
                   std::unique_ptr<MemcachedConnection> main, std::unique_ptr<MemcachedLock> lock)
      : name_(name),
        usable_(usable),
        place_(std::move(place)),
        evictions_(place_.server.name(), name_),
        main_(std::move(main)),
        lock_(std::move(lock)) {}

  ~MemcachedService() override {
    idle_.clear();
    // A lock that stays for want of memory is that of an opening that is over.
    (void)guarded([&]() -> Status {
      release_lock();
      return {};
    });
  }

  // --- before it is used

  /// The medium's size. Failures kForeign, kCorrupt and kIncompatible are of the head item, the
  /// server is sound.
  Result<u64> find_head(bool create) {
    PERDURA_ASSIGN(const MemcachedReply reply,
                   main_->ask(fmt::format("mg {} v\r\n", place_.key())));
    if (reply.is("VA ")) {
      PERDURA_ASSIGN(const MemcachedHead head, parse_memcached_head(name_, reply.value));
      begin(head);
      return head.size;
    }
    if (!reply.is("EN")) return main_->nonsense(reply);
    if (!create)
      return Failure{Code::kNotFound, "cannot open the store '" + name_ +
                                          "': the server has none of this name; if it had, it was "
                                          "restarted, or started without -M (no eviction)"};
    PERDURA_ASSIGN(const MemcachedHead head, new_memcached_head());
    PERDURA_TRY(put_head(head));
    begin(head);
    return head.size;
  }

  Status refuse_evictions() {
    std::lock_guard lock(main_mutex_);
    return evictions_.refuse(*main_);
  }

  /// Delete everything but the lock. When it is cut short, it can be done again.
  Status remove() {
    if (objects_) {
      MemcachedHead head = head_;
      head.size = 0;
      PERDURA_TRY(put_head(head));
      PERDURA_TRY(objects_->send_deletions(*main_, 0, head.items_end));
      PERDURA_TRY(objects_->finish(*main_));
    }
    PERDURA_ASSIGN(const MemcachedReply reply, main_->ask(fmt::format("md {}\r\n", place_.key())));
    return reply.is("HD") || reply.is("NF") ? Status{} : main_->nonsense(reply);
  }

  // --- ObjectService

  std::unique_ptr<ObjectChannel> channel() override { return std::make_unique<Channel>(*this); }

  Status get(std::span<const ReadRequest> requests) override {
    PERDURA_ASSIGN(auto connection, lend());
    Status done = settle(*connection, objects_->read(*connection, requests));
    put_back(std::move(connection));
    return done;
  }

  Status put_record(u64 place, Bytes record) override {
    std::lock_guard lock(main_mutex_);
    Status done = set_record(place, record);
    if (!done) usable_.end(done.failure());
    return done;
  }

  // That it is the same server, a connection shows; that nobody has told it to forget everything,
  // and no other opener writes there as well, the lock.
  Status check() override {
    std::lock_guard lock(main_mutex_);
    PERDURA_TRY(usable_.check());
    Status checked = lock_->check(*main_);
    if (checked) checked = evictions_.check(*main_);
    if (!checked) usable_.end(checked.failure());
    return checked;
  }

  Status expect(u64 size) override {
    have_places(size);
    return change_head(
        [&](MemcachedHead& head) { head.items_end = std::max(head.items_end, size); });
  }

  Status set_size(u64 size) override {
    have_places(size);
    return change_head([&](MemcachedHead& head) {
      head.size = size;
      head.items_end = std::max(head.items_end, size);
    });
  }

  void abandon() noexcept override {}  // in a child its connections are closed by themselves

 private:
  /// Requests on a connection that is the channel's own from the first one on.
  class Channel final : public ObjectChannel {
   public:
    explicit Channel(MemcachedService& service) : service_(service) {}
    ~Channel() override {
      (void)guarded([&] { return drain(0); });
      if (connection_) service_.put_back(std::move(connection_));
    }

    Status put(u64 place, Bytes data) override {
      objects_.push_back({place, data});
      unsent_bytes_ += data.size();
      return unsent_bytes_ < kUnsentBytesMax ? Status{} : send();
    }

    // The server does what a connection asks in its order, which is that of the calls.
    void erase(u64 place, u64 length) noexcept override {
      if (unsent_bytes_ != 0 && !guarded([&] { return send(); })) return;
      const size_t before = deletions_text_.size();
      const Status added = guarded([&]() -> Status {
        deletions_ += service_.objects_->add_deletions(place, length, deletions_text_);
        return {};
      });
      if (!added) return deletions_text_.resize(before);  // it may end in the middle of a request
      service_.mark(place, length, true);
      if (deletions_text_.size() < kUnsentBytesMax) return;
      const Status sent = guarded([&] { return send(); });
      (void)sent;  // what is sent next meets the same
    }

    Status drain(size_t pending_max) override {
      if (objects_.size() <= pending_max && deletions_text_.empty()) return {};
      // Whatever comes of it, the caller has his memory back.
      const std::vector<MemcachedItem> objects = std::exchange(objects_, {});
      const size_t sent = std::exchange(sent_, 0);
      PERDURA_TRY(service_.usable_.check());
      PERDURA_TRY(send(std::span(objects).subspan(sent)));
      const MemcachedExchange exchange(*connection_);
      return service_.finish(*connection_, objects);
    }

   private:
    /// Deletions, and the objects that came after them. Where memory is refused in between, whole
    /// requests were sent, and the rest can be sent later.
    Status send(std::span<const MemcachedItem> objects) {
      unsent_bytes_ = 0;
      if (!connection_) {
        PERDURA_ASSIGN(connection_, service_.lend());
      }
      if (!deletions_text_.empty()) {
        connection_->add_quiet(std::exchange(deletions_, 0));
        const Status sent = connection_->send(deletions_text_);
        deletions_text_.clear();
        if (!sent) return service_.settle(*connection_, copy_of(sent.failure()));
      }
      return service_.settle(*connection_, service_.objects_->send(*connection_, objects));
    }
    Status send() {
      PERDURA_TRY(send(std::span(objects_).subspan(sent_)));
      sent_ = objects_.size();
      return {};
    }

    MemcachedService& service_;
    std::unique_ptr<MemcachedConnection> connection_;
    std::vector<MemcachedItem> objects_;  ///< since the last drain
    size_t sent_ = 0;                     ///< of them
    u64 unsent_bytes_ = 0;                ///< of the others
    std::string deletions_text_;          ///< that are to be sent before these
    u64 deletions_ = 0;
  };

  void release_lock() {
    if (!usable_.ended() && !main_->broken()) {
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
    objects_.emplace(name_, place_.object_key_begin(head.nonce));
    absent_.assign(head.size / kObjectUnitBytes, false);
  }

  // --- objects

  /// Wait until the server took these objects, which were sent.
  Status finish(MemcachedConnection& connection, std::span<const MemcachedItem> objects) {
    Status done = objects_->finish(connection);
    if (!done && done.failure().code == Code::kNoSpace) done = send_missing(connection, objects);
    else if (!done) usable_.end(done.failure());
    if (done)
      for (const MemcachedItem& object : objects) mark(object.place, object.data.size(), false);
    return settle(connection, done);
  }

  // An item that the server refused for want of memory it has dropped as well, and so has memory
  // for its new value now. Not so for items that are new.
  Status send_missing(MemcachedConnection& connection, std::span<const MemcachedItem> objects) {
    // Of several writes of a place the last one counts.
    std::map<u64, Bytes> items;
    for (const MemcachedItem& object : objects)
      MemcachedObjects::for_each_item(
          object.place, object.data.size(), [&](u64 place, u64 at, u64 length) {
            items.insert_or_assign(place, object.data.subspan(at, length));
          });
    std::vector<u64> places;
    for (const auto& item : items) places.push_back(item.first);
    PERDURA_ASSIGN(const std::vector<u64> missing, objects_->missing(connection, places));
    std::vector<MemcachedItem> again;
    for (const u64 place : missing) again.push_back({place, items.at(place)});
    PERDURA_TRY(objects_->send(connection, again));
    Status done = objects_->finish(connection);
    if (done || connection.broken()) return done;
    if (!std::ranges::all_of(missing, [this](u64 place) { return is_absent(place); }))
      usable_.end(done.failure());
    // What is new is given back: the server has memory for overwriting then.
    std::string deletions;
    for (const u64 place : places)
      if (is_absent(place))
        connection.add_quiet(objects_->add_deletions(place, items.at(place).size(), deletions));
    PERDURA_TRY(connection.send(deletions));
    if (Status deleted = objects_->finish(connection); !deleted) return deleted;
    return done;
  }

  /// Objects were written, or erased: whether the server has no value of them to lose.
  void mark(u64 place, u64 length, bool absent) noexcept {
    std::lock_guard lock(places_mutex_);
    records_.erase(records_.lower_bound(place), records_.lower_bound(place + length));
    std::fill_n(absent_.begin() + static_cast<long>(place / kObjectUnitBytes),
                length / kObjectUnitBytes, absent);
  }
  bool is_absent(u64 place) {
    std::lock_guard lock(places_mutex_);
    return absent_[place / kObjectUnitBytes];
  }

  /// With which a record was written; 0: nobody knows. While it is written again nobody does.
  u64 take_cas(u64 place) {
    std::lock_guard lock(places_mutex_);
    const auto found = records_.find(place);
    if (found == records_.end()) return 0;
    const u64 cas = found->second;
    records_.erase(found);
    return cas;
  }
  Status note_cas(u64 place, u64 cas) {
    std::lock_guard lock(places_mutex_);
    records_.insert_or_assign(place, cas);
    return {};
  }

  // --- records

  /// With the item's CAS number, which is learnt when it is written first.
  Status set_record(u64 place, Bytes record) {
    const std::string key = objects_->key(place);
    u64 cas = take_cas(place);
    if (cas == 0) {
      PERDURA_ASSIGN(const MemcachedReply found, main_->ask(fmt::format("mg {} c\r\n", key)));
      if (!found.is("HD")) return record_lost(place, found);
      cas = found.number('c').value_or(0);
    }
    const format::ObjectEnd end{object_checksum(place, record)};
    std::string request = fmt::format("ms {} {} c C{}\r\n", key, record.size() + sizeof end, cas);
    request.append(reinterpret_cast<const char*>(record.data()), record.size());
    request.append(reinterpret_cast<const char*>(&end), sizeof end);
    request += "\r\n";
    PERDURA_ASSIGN(const MemcachedReply reply, main_->ask(request));
    if (reply.is("HD")) {
      const u64 written = reply.number('c').value_or(0);
      const Status noted = guarded([&] { return note_cas(place, written); });
      (void)noted;  // else it is asked for
      return {};
    }
    if (!reply.is("SERVER_ERROR")) return record_lost(place, reply);
    // For want of memory: it has dropped the old value, and so has some.
    const MemcachedItem object{place, record};
    Status done = send_missing(*main_, {&object, 1});
    mark(place, record.size(), false);
    return done;
  }

  Status record_lost(u64 place, const MemcachedReply& reply) {
    if (reply.is("EX"))
      return Failure{Code::kLocked,
                     fmt::format("another process has written the record of '{}' at place {}; it "
                                 "has taken the store over",
                                 name_, place)};
    if (reply.is("EN") || reply.is("NF"))
      return Failure{Code::kIo, fmt::format("the server has no record of '{}' at place {} any "
                                            "more: it was evicted, or the server was restarted; "
                                            "restore the store from a copy",
                                            name_, place)};
    return main_->nonsense(reply);
  }

  // --- the head

  Status put_head(MemcachedHead head) {
    head.checksum = object_head_checksum(std::as_bytes(std::span(&head, 1)));
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
    else usable_.end(put.failure());  // a refused value may have cost the old one
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
    if (!named) usable_.end(named.failure());
    PERDURA_TRY(named);
    return connection;
  }

  // What is under way on a broken one may come behind whatever is written next.
  void put_back(std::unique_ptr<MemcachedConnection> connection) noexcept {
    if (connection->broken()) {
      usable_.end({Code::kIo, "an exchange with the server was cut short"});
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
    if (!done && connection.broken()) usable_.end(done.failure());
    return done;
  }

  /// Items of places below `size` may come to be; none is there now.
  void have_places(u64 size) {
    std::lock_guard lock(places_mutex_);
    absent_.resize(std::max(absent_.size(), size / kObjectUnitBytes), true);
  }

  const std::string& name_;
  Usable& usable_;
  const MemcachedPlace place_;
  std::optional<MemcachedObjects> objects_;

  std::mutex main_mutex_;
  MemcachedEvictions evictions_;
  std::unique_ptr<MemcachedConnection> main_;
  std::unique_ptr<MemcachedLock> lock_;
  MemcachedHead head_{};

  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<MemcachedConnection>> idle_;

  std::mutex places_mutex_;
  std::vector<bool> absent_;    ///< of each place: the server has no item to lose
  std::map<u64, u64> records_;  ///< their CAS numbers, as far as they are known, by place
};

using MemcachedParts = ObjectMediumParts<MemcachedService>;

Result<MemcachedParts> lock_memcached(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(MemcachedPlace place, MemcachedPlace::parse(address, options));
  PERDURA_ASSIGN(auto main, MemcachedConnection::open(place.server));
  PERDURA_ASSIGN(
      auto lock,
      MemcachedLock::take(
          {.key = place.lock_key(), .medium = place.uri(), .takeover = options.takeover}, *main));
  std::string name = place.uri();
  return MemcachedParts::make(std::move(name), std::move(place), std::move(main), std::move(lock));
}

}  // namespace

Result<OpenedMedium> open_memcached(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(MemcachedParts locked, lock_memcached(address, options));
  if (!options.read_only) PERDURA_TRY(locked.service->refuse_evictions());
  PERDURA_ASSIGN(const u64 size, locked.service->find_head(options.create));
  return make_object_medium(std::move(locked), size);
}

Status remove_memcached(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(const MemcachedParts locked, lock_memcached(address, options));
  return remove_objects(*locked.service);
}

}  // namespace perdura::media
