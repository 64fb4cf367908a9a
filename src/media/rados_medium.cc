#include "media/rados_medium.hpp"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <rados/librados.hpp>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/process.hpp"
#include "format/rados_format.hpp"
#include "media/rados_failure.hpp"
#include "media/rados_lock.hpp"

namespace perdura::media {
namespace {

using format::kRadosUnitBytes;
using format::RadosHead;
using format::RadosObjectEnd;
using librados::bufferlist;

constexpr size_t kInFlightMax = 32;           // operations of one thread
constexpr u64 kInFlightBytesMax = 16 * kMiB;  // and what they carry
constexpr char kHead[] = "head";
constexpr char kSum[] = "sum";  // of a record: its checksum, which the next one asserts

constexpr std::array<std::byte, kRadosUnitBytes> kZeros{};

struct RadosPlace {
  std::string pool;
  std::string name;
  std::string conf;
  std::string user;

  std::string uri() const { return fmt::format("rados://{}/{}", pool, name); }

  static Result<RadosPlace> parse(std::string_view address, const MediumOptions& options) {
    const auto invalid = [&](const std::string& why) {
      return Failure{Code::kInvalidArgument,
                     fmt::format("'rados:{}': {}; as in rados://pool/name", address, why)};
    };
    if (!address.starts_with("//")) return invalid("the pool is missing");
    const std::string_view rest = address.substr(2);
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view name = rest.substr(std::min(slash + 1, rest.size()));
    if (slash == 0) return invalid("the pool is missing");
    if (name.empty()) return invalid("the store's name is missing");
    if (name.size() > 200) return invalid("the store's name has more than 200 bytes");
    return RadosPlace{std::string(rest.substr(0, slash)), std::string(name), options.conf,
                      options.user};
  }
};

u64 sum_of(u64 place, Bytes data) {
  const format::RadosObjectSummed summed{checksum(data.data(), data.size()), place};
  return checksum(&summed, sizeof summed);
}

/// The data from where they are, and their end. They must stay until the operation is done.
bufferlist content_of(u64 place, Bytes data) {
  bufferlist content;
  content.append(
      ceph::buffer::create_static(static_cast<unsigned>(data.size()),
                                  reinterpret_cast<char*>(const_cast<std::byte*>(data.data()))));
  const RadosObjectEnd end{sum_of(place, data)};
  content.append(reinterpret_cast<const char*>(&end), sizeof end);
  return content;
}

bufferlist bytes_of(u64 number) {
  bufferlist bytes;
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  return bytes;
}

/// Operations of one thread that are under way, the oldest first.
class InFlight {
 public:
  struct Operation {
    librados::AioCompletion* completion;
    u64 bytes;
    int ignored;  ///< a failure that is none
  };
  ~InFlight() { (void)wait(0); }

  void add(librados::AioCompletion* completion, u64 bytes, int ignored = 0) {
    operations_.push_back({completion, bytes, ignored});
    bytes_ += bytes;
  }
  /// Until so many are left, and not too many bytes; the first failure.
  int wait(size_t most, u64 bytes_max = ~u64{0}) {
    int first = 0;
    while (operations_.size() > most || bytes_ > bytes_max) {
      const Operation oldest = operations_.front();
      operations_.pop_front();
      oldest.completion->wait_for_complete();
      const int done = oldest.completion->get_return_value();
      oldest.completion->release();
      bytes_ -= oldest.bytes;
      if (done < 0 && done != oldest.ignored && first == 0) first = done;
    }
    return first;
  }
  size_t size() const { return operations_.size(); }
  u64 bytes() const { return bytes_; }

 private:
  std::deque<Operation> operations_;
  u64 bytes_ = 0;
};

/// A client of its own, so that it alone is on the blocklist when somebody takes over.
struct Client {
  librados::Rados cluster;
  librados::IoCtx pool;

  static Result<std::unique_ptr<Client>> connect(const RadosPlace& place,
                                                 const MediumOptions& options) {
    auto client = std::make_unique<Client>();
    const std::string medium = place.uri();
    const char* const user = place.user.empty() ? "admin" : place.user.c_str();
    int done = client->cluster.init(user);
    if (done < 0) return rados_failure(done, "cannot begin to use RADOS for '" + medium + "'");
    const char* const conf = place.conf.empty() ? nullptr : place.conf.c_str();
    done = client->cluster.conf_read_file(conf);
    if (done < 0)
      return rados_failure(
          done, "cannot read the configuration of Ceph" +
                    (conf != nullptr ? " '" + place.conf + "'" : std::string()) + " for '" +
                    medium + "'; name it, as in rados://pool/name?conf=/etc/ceph/ceph.conf");
    const std::string patience = std::to_string(std::max<u64>(1, options.timeout_ms / 1000));
    (void)client->cluster.conf_set("client_mount_timeout", patience.c_str());
    done = client->cluster.connect();
    if (done < 0)
      return rados_failure(done, fmt::format("cannot reach the cluster of '{}' as client.{} "
                                             "within {} s; see whether its monitors run, and "
                                             "whether the user's key is where the configuration "
                                             "says (?conf=FILE&user=NAME)",
                                             medium, user, patience));
    done = client->cluster.ioctx_create(place.pool.c_str(), client->pool);
    if (done == -ENOENT)
      return Failure{Code::kNotFound, "cannot open '" + medium + "': the cluster has no pool '" +
                                          place.pool + "'; 'ceph osd pool create " + place.pool +
                                          "' makes one"};
    if (done < 0) return rados_failure(done, "cannot use the pool of '" + medium + "'");
    client->pool.set_namespace("perdura." + place.name);
    return client;
  }
};

class RadosMedium final : public Medium {
 public:
  RadosMedium(RadosPlace place, const MediumOptions& options, std::unique_ptr<Client> client)
      : place_(std::move(place)),
        options_(options),
        name_(place_.uri()),
        client_(std::move(client)) {}

  ~RadosMedium() override {
    if (!forked_since(generation_)) return;
    // In a child: the client's threads are the parent's, and it cannot be ended without them.
    if (lock_) lock_->abandon();
    [[maybe_unused]] const RadosLock* const lock = lock_.release();
    [[maybe_unused]] const Client* const client = client_.release();
  }

  // --- before it is used

  Status lock(bool& same_address) {
    PERDURA_ASSIGN(lock_, RadosLock::take(client_->cluster, client_->pool,
                                          {.medium = name_,
                                           .takeover = options_.takeover,
                                           .lease_s = options_.lease_s,
                                           .lost = [this](const Failure& why) { poison(why); },
                                           .same_address = same_address}));
    return {};
  }

  /// Failures kForeign, kCorrupt and kIncompatible are of the head, the cluster is sound.
  Status find_head(bool create) {
    bufferlist content;
    const int got = pool().read(kHead, content, 0, 0);
    if (got >= 0) return take_head(content);
    if (got != -ENOENT) return failed(got, "cannot read the head of");
    if (!create)
      return Failure{Code::kNotFound,
                     "cannot open the store '" + name_ + "': the pool has none of this name"};
    RadosHead head{};
    std::memcpy(head.magic, format::kRadosMagic, sizeof head.magic);
    head.version = format::kRadosVersion;
    head.unit_bytes = kRadosUnitBytes;
    if (::getrandom(&head.nonce, sizeof head.nonce, 0) != sizeof head.nonce)
      return system_failure(errno, "cannot draw a number for the names of a store's objects");
    PERDURA_TRY(put_head(head));
    begin(head);
    return {};
  }

  /// Everything but the lock. When it is cut short, it can be done again: the head goes last.
  Status remove() {
    InFlight removals;
    for (auto at = pool().nobjects_begin(); at != pool().nobjects_end(); ++at) {
      const std::string object = at->get_oid();
      if (object == kHead || object == "lock") continue;
      librados::AioCompletion* const completion = librados::Rados::aio_create_completion();
      const int sent = pool().aio_remove(object, completion);
      if (sent < 0) {
        completion->release();
        return failed(sent, "cannot remove objects of");
      }
      removals.add(completion, 0, -ENOENT);
      if (const int done = removals.wait(kInFlightMax); done < 0)
        return failed(done, "cannot remove objects of");
    }
    int done = removals.wait(0);
    if (done >= 0) done = pool().remove(kHead);
    return done < 0 && done != -ENOENT ? failed(done, "cannot remove") : Status{};
  }

  // --- Medium

  const std::string& name() const override { return name_; }

  Geometry geometry() const override {
    return Geometry{.size = size_.load(std::memory_order_acquire),
                    .atomic_bytes = kRadosUnitBytes,
                    .write_bytes = kRadosUnitBytes,
                    .byte_addressable = false,
                    .reads_in_handlers = false,
                    .objects = true};
  }

  Status grow(u64 size, bool prewrite) override {
    std::lock_guard growing(grow_mutex_);
    size = round_up(size, kRadosUnitBytes);
    const u64 old = size_.load(std::memory_order_acquire);
    if (size <= old) return {};
    PERDURA_TRY(usable());
    if (prewrite) {
      Queue zeros(*this);
      for (u64 place = old; place < size; place += kRadosUnitBytes)
        PERDURA_TRY(zeros.put(place, kZeros));
      PERDURA_TRY(zeros.drain(0));
    }
    RadosHead head = head_;
    head.size = size;
    PERDURA_TRY(put_head(head));
    head_ = head;
    size_.store(size, std::memory_order_release);
    return {};
  }

  Status write(u64 offset, Bytes data, const Site&) override {
    PERDURA_TRY(check(offset, data));
    forget_records(offset, data.size());
    librados::ObjectWriteOperation operation;
    fill(operation, offset, data);
    const int done = pool().operate(object_of(offset), &operation);
    return done < 0 ? lost(done, "cannot write an object of") : Status{};
  }

  Status write_record(u64 place, Bytes record, const Site&) override {
    PERDURA_ASSERT(record.size() == kRadosUnitBytes);
    PERDURA_TRY(check(place, record));
    std::lock_guard lock(records_mutex_);
    const std::string object = object_of(place);
    auto known = records_.find(place);
    if (known == records_.end()) {
      bufferlist sum;
      const int got = pool().getxattr(object, kSum, sum);
      if (got < 0) return lost(got, "cannot read a record of");
      u64 number = 0;
      std::memcpy(&number, sum.c_str(), std::min<size_t>(sum.length(), sizeof number));
      known = records_.emplace(place, number).first;
    }
    librados::ObjectWriteOperation operation;
    bufferlist before = bytes_of(known->second);
    operation.cmpxattr(kSum, LIBRADOS_CMPXATTR_OP_EQ, before);
    fill(operation, place, record);
    // While it is under way nobody knows which of the two is there.
    records_.erase(known);
    const int done = pool().operate(object, &operation);
    if (done == -ECANCELED)
      return poisoned_by(Failure{
          Code::kLocked, fmt::format("another process has written the record of '{}' at place {}; "
                                     "it has taken the store over",
                                     name_, place)});
    if (done < 0) return lost(done, "cannot write a record of");
    records_.emplace(place, sum_of(place, record));
    return {};
  }

  std::unique_ptr<WriteQueue> queue() override { return std::make_unique<Queue>(*this); }

  // Everything that was done is acknowledged by all replicas: it remains to see that nobody else
  // has the store.
  Status barrier(const Site&) override {
    PERDURA_TRY(usable());
    const Status checked = lock_->check();
    return checked ? Status{} : poisoned_by(checked.failure());
  }

  Status read(u64 offset, MutableBytes into) override {
    const ReadRequest request{offset, into};
    return read_all({&request, 1});
  }

  Status read_all(std::span<const ReadRequest> requests) override {
    PERDURA_TRY(usable());
    const u64 size = size_.load(std::memory_order_acquire);
    for (const ReadRequest& request : requests)
      if (request.offset + request.into.size() > size)
        return Failure{Code::kCorrupt, "'" + name_ + "' ends before offset " +
                                           std::to_string(request.offset + request.into.size()) +
                                           ": truncated"};
    std::vector<bufferlist> contents(requests.size());
    std::vector<int> answers(requests.size(), 0);
    Status first;
    size_t taken = 0;
    InFlight reads;
    const auto take_oldest = [&] {
      const int done = reads.wait(reads.size() - 1);
      Status one = answer(requests[taken], contents[taken], done < 0 ? done : answers[taken]);
      contents[taken++].clear();
      if (first && !one) first = std::move(one);
    };
    for (size_t i = 0; i < requests.size(); ++i) {
      librados::ObjectReadOperation operation;
      operation.read(0, 0, &contents[i], &answers[i]);  // all of it, as its checksum is of all
      librados::AioCompletion* const completion = librados::Rados::aio_create_completion();
      const int sent =
          pool().aio_operate(object_of(requests[i].offset), completion, &operation, nullptr);
      if (sent < 0) {
        completion->release();
        (void)reads.wait(0);
        return failed(sent, "cannot read an object of");
      }
      reads.add(completion, requests[i].into.size());
      while (reads.size() > kInFlightMax || reads.bytes() > kInFlightBytesMax) take_oldest();
    }
    while (reads.size() != 0) take_oldest();
    return first;
  }

 private:
  class Queue final : public WriteQueue {
   public:
    explicit Queue(RadosMedium& medium) : medium_(medium) {}
    ~Queue() override { (void)in_flight_.wait(0); }

    Status submit(u64 offset, Bytes data, const Site&) override {
      PERDURA_TRY(medium_.check(offset, data));
      medium_.forget_records(offset, data.size());
      return put(offset, data);
    }
    Status put(u64 offset, Bytes data) {
      librados::ObjectWriteOperation operation;
      medium_.fill(operation, offset, data);
      return send(offset, operation, data.size(), 0);
    }
    // What one client asks of one object is done in its order.
    void erase(u64 place, u64) noexcept override {
      (void)guarded([&]() -> Status {
        librados::ObjectWriteOperation operation;
        operation.remove();
        return send(place, operation, 0, -ENOENT);
      });
    }
    Status drain(size_t pending_max) override {
      const int done = in_flight_.wait(pending_max);
      Status result = failed_ < 0 || done < 0
                          ? medium_.lost(failed_ < 0 ? failed_ : done, "cannot write objects of")
                          : Status{};
      failed_ = 0;
      return result;
    }

   private:
    Status send(u64 place, librados::ObjectWriteOperation& operation, u64 bytes, int ignored) {
      librados::AioCompletion* const completion = librados::Rados::aio_create_completion();
      const int sent = medium_.pool().aio_operate(medium_.object_of(place), completion, &operation);
      if (sent < 0) {
        completion->release();
        return medium_.lost(sent, "cannot write objects of");
      }
      in_flight_.add(completion, bytes, ignored);
      const int done = in_flight_.wait(kInFlightMax, kInFlightBytesMax);
      if (done < 0 && failed_ == 0) failed_ = done;  // drain() says it
      return {};
    }

    RadosMedium& medium_;
    InFlight in_flight_;
    int failed_ = 0;
  };

  librados::IoCtx& pool() { return client_->pool; }
  std::string object_of(u64 place) const { return fmt::format("{}{:x}", objects_begin_, place); }

  static void fill(librados::ObjectWriteOperation& operation, u64 place, Bytes data) {
    operation.write_full(content_of(place, data));
    if (data.size() == kRadosUnitBytes) operation.setxattr(kSum, bytes_of(sum_of(place, data)));
  }

  /// Written otherwise than as records.
  void forget_records(u64 place, u64 length) {
    std::lock_guard lock(records_mutex_);
    records_.erase(records_.lower_bound(place), records_.lower_bound(place + length));
  }

  Status answer(const ReadRequest& request, const bufferlist& content, int failure) {
    const std::string at = " at place " + std::to_string(request.offset);
    if (failure == -ENOENT)
      return Failure{Code::kCorrupt, "the cluster has no object of '" + name_ + "'" + at +
                                         ": it was lost or removed; restore the store from a copy"};
    if (failure < 0) return failed(failure, "cannot read an object of");
    RadosObjectEnd end;
    if (content.length() < request.into.size() + sizeof end ||
        !is_aligned(content.length() - sizeof end, kRadosUnitBytes))
      return Failure{Code::kCorrupt,
                     fmt::format("the object of '{}'{} has {} bytes, not {}; restore the store "
                                 "from a copy",
                                 name_, at, content.length(), request.into.size() + sizeof end)};
    bufferlist copy = content;
    const auto* const bytes = reinterpret_cast<const std::byte*>(copy.c_str());  // in one piece
    const Bytes data(bytes, content.length() - sizeof end);
    std::memcpy(&end, bytes + data.size(), sizeof end);
    if (end.checksum != sum_of(request.offset, data))
      return Failure{Code::kCorrupt, "the object of '" + name_ + "'" + at +
                                         " is damaged (its checksum does not fit); restore the "
                                         "store from a copy"};
    std::memcpy(request.into.data(), data.data(), request.into.size());
    return {};
  }

  // --- the head

  void begin(const RadosHead& head) {
    head_ = head;
    objects_begin_ = fmt::format("{:016x}.", head.nonce);
    size_.store(head.size, std::memory_order_release);
  }
  static u64 checksum_of(const RadosHead& head) {
    constexpr size_t kFrom = offsetof(RadosHead, version);
    return checksum(reinterpret_cast<const char*>(&head) + kFrom, sizeof head - kFrom);
  }
  Status take_head(bufferlist& content) {
    RadosHead head{};
    std::memcpy(&head, content.c_str(), std::min<size_t>(content.length(), sizeof head));
    if (std::memcmp(head.magic, format::kRadosMagic, sizeof head.magic) != 0)
      return Failure{Code::kForeign, "'" + name_ +
                                         "' is not a Perdura store (its head is something else); "
                                         "choose another name, or remove it"};
    if (head.version != format::kRadosVersion)
      return Failure{Code::kIncompatible,
                     fmt::format("the head of '{}' has version {}, this Perdura reads version {}; "
                                 "use the Perdura that wrote it",
                                 name_, head.version, format::kRadosVersion)};
    if (content.length() != sizeof head || head.checksum != checksum_of(head) ||
        head.unit_bytes != kRadosUnitBytes || !is_aligned(head.size, kRadosUnitBytes))
      return Failure{Code::kCorrupt,
                     "the head of '" + name_ + "' is damaged; restore the store from a copy"};
    begin(head);
    return {};
  }
  Status put_head(RadosHead head) {
    head.checksum = checksum_of(head);
    bufferlist content;
    content.append(reinterpret_cast<const char*>(&head), sizeof head);
    const int done = pool().write_full(kHead, content);
    return done < 0 ? lost(done, "cannot write the head of") : Status{};
  }

  // --- failures

  Failure failed(int error, const std::string& what) const {
    return rados_failure(error, what + " '" + name_ + "'");
  }
  /// Of a write, after which nobody knows what is there; but for want of space.
  Failure lost(int error, const std::string& what) {
    Failure failure = failed(error, what);
    if (failure.code != Code::kNoSpace) poison(failure);
    return failure;
  }
  Failure poisoned_by(const Failure& failure) {
    poison(failure);
    return copy_of(failure);
  }
  void poison(const Failure& failure) noexcept {
    std::lock_guard lock(poison_mutex_);
    if (poisoned_) return;
    (void)guarded([&]() -> Status {
      poison_ = {failure.code == Code::kLocked ? Code::kLocked : Code::kIo,
                 fmt::format("'{}' is closed to all use since an earlier failure ({}); close the "
                             "store and open it again",
                             name_, failure.message)};
      return {};
    });
    poisoned_.store(true, std::memory_order_release);
  }
  Status usable() const {
    if (forked_since(generation_))
      return Failure{Code::kForked, "'" + name_ + "' was opened by the parent process"};
    if (poisoned_.load(std::memory_order_acquire)) return copy_of(poison_);
    return {};
  }
  Status check(u64 offset, Bytes data) const {
    PERDURA_ASSERT(is_aligned(offset | data.size(), kRadosUnitBytes) && !data.empty());
    PERDURA_ASSERT(offset + data.size() <= size_.load(std::memory_order_relaxed));
    return usable();
  }

  const RadosPlace place_;
  const MediumOptions options_;
  const std::string name_;
  const u64 generation_ = process_generation();
  std::unique_ptr<Client> client_;
  std::mutex poison_mutex_;
  std::atomic<bool> poisoned_{false};
  Failure poison_{Code::kIo, ""};  ///< does not change once poisoned_ is set
  std::unique_ptr<RadosLock> lock_;
  std::mutex grow_mutex_;
  RadosHead head_{};
  std::string objects_begin_;
  std::atomic<u64> size_{0};
  std::mutex records_mutex_;
  std::map<u64, u64> records_;  ///< their checksums, as far as they are known, by place
};

Result<std::unique_ptr<RadosMedium>> lock_medium(std::string_view address,
                                                 const MediumOptions& options) {
  PERDURA_ASSIGN(RadosPlace place, RadosPlace::parse(address, options));
  for (;;) {
    PERDURA_ASSIGN(auto client, Client::connect(place, options));
    auto medium = std::make_unique<RadosMedium>(place, options, std::move(client));
    bool same_address = false;
    const Status locked = medium->lock(same_address);
    if (locked) return medium;
    if (!same_address) return copy_of(locked.failure());
  }
}

}  // namespace

Result<OpenedMedium> open_rados(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(auto medium, lock_medium(address, options));
  PERDURA_TRY(medium->find_head(options.create));
  const bool created = medium->geometry().size == 0;
  return OpenedMedium{std::move(medium), created};
}

Status remove_rados(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(auto medium, lock_medium(address, options));
  // A head that cannot be read is removed with the rest.
  Status found = medium->find_head(false);
  if (!found && (found.failure().code == Code::kIo || found.failure().code == Code::kNotFound))
    return found;
  return medium->remove();
}

}  // namespace perdura::media
