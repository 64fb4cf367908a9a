#include "media/rados_service.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "format/rados_format.hpp"
#include "media/object_content.hpp"
#include "media/object_medium.hpp"
#include "media/rados_api.hpp"
#include "media/rados_lock.hpp"

namespace perdura::media {
namespace {

using format::MediumHead;
using format::ObjectEnd;

constexpr size_t kInFlightMax = 32;           // operations of one thread
constexpr u64 kInFlightBytesMax = 16 * kMiB;  // and what they carry
constexpr char kHead[] = "head";
constexpr char kSum[] = "sum";  // of a record: its checksum, which the next one asserts
constexpr HeadKind kHeadKind{format::kRadosMagic, format::kRadosVersion, "head"};

Result<RadosClient::Wanted> parse_rados(std::string_view address, const MediumOptions& options) {
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
  const std::string pool(rest.substr(0, slash));
  return RadosClient::Wanted{.medium = fmt::format("rados://{}/{}", pool, name),
                             .pool = pool,
                             .name = std::string(name),
                             .conf = options.conf,
                             .user = options.user,
                             .timeout_ms = options.timeout_ms};
}

std::string_view text_of(Bytes data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

/// Operations of one thread that are under way, the oldest first.
class InFlight {
 public:
  explicit InFlight(const RadosApi& api) : api_(api) {}
  ~InFlight() { (void)wait(0); }
  InFlight(const InFlight&) = delete;

  /// `start(completion)`: begins one. `ignored`: a failure that is none.
  template <class Start>
  int add(u64 bytes, int ignored, Start&& start) {
    rados_completion_t completion = nullptr;
    const int made = api_.aio_create_completion2(nullptr, nullptr, &completion);
    const int started = made < 0 ? made : start(completion);
    if (started < 0) {
      if (completion != nullptr) api_.aio_release(completion);
      return started;
    }
    operations_.push_back({completion, bytes, ignored});
    bytes_ += bytes;
    return 0;
  }
  /// Until so many are left, and not too many bytes; the first failure.
  int wait(size_t most, u64 bytes_max = ~u64{0}) {
    int first = 0;
    while (operations_.size() > most || bytes_ > bytes_max)
      if (const int done = wait_for_oldest(); done < 0 && first == 0) first = done;
    return first;
  }
  int wait_for_oldest() {
    const Operation oldest = operations_.front();
    operations_.pop_front();
    api_.aio_wait_for_complete_and_cb(oldest.completion);
    const int done = api_.aio_get_return_value(oldest.completion);
    api_.aio_release(oldest.completion);
    bytes_ -= oldest.bytes;
    return done == oldest.ignored ? 0 : std::min(done, 0);
  }
  bool is_full() const { return operations_.size() > kInFlightMax || bytes_ > kInFlightBytesMax; }
  bool empty() const { return operations_.empty(); }

 private:
  struct Operation {
    rados_completion_t completion;
    u64 bytes;
    int ignored;
  };

  const RadosApi& api_;
  std::deque<Operation> operations_;
  u64 bytes_ = 0;
};

class RadosService final : public ObjectService {
 public:
  RadosService(const std::string& name, Usable& usable, std::unique_ptr<RadosClient> client)
      : name_(name), usable_(usable), client_(std::move(client)), api_(client_->api()) {}

  // --- before it is used

  Status lock(const MediumOptions& options, bool& same_address) {
    PERDURA_ASSIGN(
        lock_, RadosLock::take(*client_, {.medium = name_,
                                          .takeover = options.takeover,
                                          .lease_s = options.lease_s,
                                          .lost = [this](const Failure& why) { usable_.end(why); },
                                          .same_address = same_address}));
    return {};
  }

  /// The medium's size. Failures kForeign, kCorrupt and kIncompatible are of the head, the cluster
  /// is sound.
  Result<u64> find_head(bool create) {
    std::string content;
    const int got = client_->read(kHead, content);
    if (got >= 0) {
      PERDURA_TRY(check_object_head(name_, kHeadKind, std::as_bytes(std::span(content)),
                                    sizeof(MediumHead)));
      std::memcpy(&head_, content.data(), sizeof head_);
    } else if (got != -ENOENT) {
      return failed(got, "cannot read the head of");
    } else {
      PERDURA_TRY(expect_no_objects());
      if (!create)
        return Failure{Code::kNotFound,
                       "cannot open the store '" + name_ + "': the pool has none of this name"};
      PERDURA_ASSIGN(head_, new_object_head(kHeadKind));
      PERDURA_TRY(put_head(head_));
    }
    objects_begin_ = fmt::format("{:016x}.", head_.nonce);
    return head_.size;
  }

  /// The head is the first that a store has, and goes last.
  Status expect_no_objects() {
    rados_list_ctx_t listing = nullptr;
    int done = api_.nobjects_list_open(pool(), &listing);
    if (done < 0) return failed(done, "cannot list the objects of");
    std::string found;
    const char* object = nullptr;
    while (found.empty() &&
           (done = api_.nobjects_list_next(listing, &object, nullptr, nullptr)) >= 0)
      if (std::string_view(object) != kHead && std::string_view(object) != "lock") found = object;
    api_.nobjects_list_close(listing);
    if (!found.empty())
      return Failure{Code::kCorrupt,
                     fmt::format("'{}' has lost its object 'head', and has others, such as '{}'; "
                                 "restore the store from a copy, or remove them ('rados rm', in "
                                 "the namespace perdura.{}) to begin anew",
                                 name_, found, client_->wanted().name)};
    return done == -ENOENT ? Status{} : failed(done, "cannot list the objects of");
  }

  /// Everything but the lock. When it is cut short, it can be done again: the head goes last.
  Status remove() {
    rados_list_ctx_t listing = nullptr;
    int done = api_.nobjects_list_open(pool(), &listing);
    if (done < 0) return failed(done, "cannot list the objects of");
    InFlight removals(api_);
    const char* object = nullptr;
    while (done >= 0 && (done = api_.nobjects_list_next(listing, &object, nullptr, nullptr)) >= 0) {
      if (std::string_view(object) == kHead || std::string_view(object) == "lock") continue;
      done = removals.add(0, -ENOENT, [&](rados_completion_t completion) {
        return api_.aio_remove(pool(), object, completion);
      });
      if (done >= 0) done = removals.wait(kInFlightMax);
    }
    api_.nobjects_list_close(listing);
    if (done == -ENOENT) done = removals.wait(0);  // the list is over
    if (done >= 0) done = api_.remove(pool(), kHead);
    return done < 0 && done != -ENOENT ? failed(done, "cannot remove") : Status{};
  }

  // --- ObjectService

  std::unique_ptr<ObjectChannel> channel() override { return std::make_unique<Channel>(*this); }

  Status get(std::span<const ReadRequest> requests) override {
    std::vector<Reading> readings(requests.size());
    Status first;
    size_t taken = 0;
    InFlight reads(api_);
    const auto take_oldest = [&] {
      const int done = reads.wait_for_oldest();
      Status one = take(requests[taken], readings[taken], done);
      readings[taken++] = {};
      if (first && !one) first = std::move(one);
    };
    for (size_t i = 0; i < requests.size(); ++i) {
      const int sent = reads.add(requests[i].into.size(), 0, [&](rados_completion_t completion) {
        return readings[i].start(*this, requests[i], completion);
      });
      if (sent < 0) {
        (void)reads.wait(0);
        return failed(sent, "cannot read an object of");
      }
      while (reads.is_full()) take_oldest();
    }
    while (!reads.empty()) take_oldest();
    return first;
  }

  Status put_record(u64 place, Bytes record) override {
    return put_record_copies({&place, 1}, record);
  }

  // Each is one operation that asserts the record it follows. All are under way at once.
  Status put_record_copies(std::span<const u64> places, Bytes record) override {
    std::lock_guard lock(records_mutex_);
    for (const u64 place : places) PERDURA_TRY(know_record(place));
    int failed = 0;
    {
      InFlight writes(api_);
      for (const u64 place : places) {
        RadosWrite operation(api_);
        operation.assert_attribute(kSum, bytes_of(records_.at(place)));
        fill(operation, place, record);
        // While it is under way nobody knows which of the two is there.
        records_.erase(place);
        failed = writes.add(record.size(), 0, [&](rados_completion_t completion) {
          return operation.start(pool(), object_of(place), completion);
        });
        if (failed < 0) break;
      }
      const int done = writes.wait(0);
      if (failed == 0) failed = done;
    }
    if (failed == -ECANCELED) {
      Failure failure{Code::kLocked,
                      fmt::format("another process has written the record of '{}' at place {}; {}",
                                  name_, places.front(), lock_->taken_over().message)};
      return usable_.lost(std::move(failure));
    }
    if (failed < 0) return lost(failed, "cannot write a record of");
    for (const u64 place : places) records_.emplace(place, object_checksum(place, record));
    return {};
  }

  Status check() override {
    Status checked = lock_->check();
    if (!checked) usable_.end(checked.failure());
    return checked;
  }

  Status set_size(u64 size) override {
    MediumHead head = head_;
    head.size = size;
    PERDURA_TRY(put_head(head));
    head_ = head;
    return {};
  }

  // The client's threads are the parent's, and it cannot be ended without them.
  void abandon() noexcept override { lock_->abandon(); }

 private:
  class Channel final : public ObjectChannel {
   public:
    explicit Channel(RadosService& service) : service_(service), in_flight_(service.api_) {}

    Status put(u64 place, Bytes data) override {
      service_.forget_records(place, data.size());
      RadosWrite operation(service_.api_);
      service_.fill(operation, place, data);
      return send(place, operation, data.size(), 0);
    }
    // What one client asks of one object is done in its order.
    void erase(u64 place, u64) noexcept override {
      (void)guarded([&]() -> Status {
        const std::string object = service_.object_of(place);
        const int sent = in_flight_.add(0, -ENOENT, [&](rados_completion_t completion) {
          return service_.api_.aio_remove(service_.pool(), object.c_str(), completion);
        });
        if (sent >= 0) note(in_flight_.wait(kInFlightMax, kInFlightBytesMax));
        return {};
      });
    }
    Status drain(size_t pending_max) override {
      note(in_flight_.wait(pending_max));
      const int failed = std::exchange(failed_, 0);
      return failed < 0 ? service_.lost(failed, "cannot write objects of") : Status{};
    }

   private:
    Status send(u64 place, RadosWrite& operation, u64 bytes, int ignored) {
      const int sent = in_flight_.add(bytes, ignored, [&](rados_completion_t completion) {
        return operation.start(service_.pool(), service_.object_of(place), completion);
      });
      if (sent < 0) return service_.lost(sent, "cannot write objects of");
      note(in_flight_.wait(kInFlightMax, kInFlightBytesMax));  // drain() says it
      return {};
    }
    void note(int done) {
      if (done < 0 && failed_ == 0) failed_ = done;
    }

    RadosService& service_;
    InFlight in_flight_;
    int failed_ = 0;
  };

  /// An object that is being read. All of it, as its checksum is of all: as much as is asked for,
  /// and again where it is larger.
  struct Reading {
    std::string content;
    size_t got = 0;
    u64 size = 0;
    int read_answer = 0;
    int stat_answer = 0;
    time_t changed = 0;

    int start(RadosService& service, const ReadRequest& request, rados_completion_t completion) {
      const RadosApi& api = service.api_;
      content.resize(std::max(request.into.size() + sizeof(ObjectEnd), content.size()));
      const rados_read_op_t operation = api.create_read_op();
      api.read_op_stat(operation, &size, &changed, &stat_answer);
      api.read_op_read(operation, 0, content.size(), content.data(), &got, &read_answer);
      const int started = api.aio_read_op_operate(operation, service.pool(), completion,
                                                  service.object_of(request.offset).c_str(), 0);
      api.release_read_op(operation);
      return started;
    }
  };

  Status take(const ReadRequest& request, Reading& reading, int done) {
    while (done >= 0 && reading.size > reading.got && reading.size > reading.content.size()) {
      reading.content.resize(reading.size);
      InFlight again(api_);
      done = again.add(0, 0, [&](rados_completion_t completion) {
        return reading.start(*this, request, completion);
      });
      if (done >= 0) done = again.wait(0);
    }
    if (done == -ENOENT)
      return Failure{Code::kCorrupt,
                     fmt::format("the cluster has no object of '{}' at place {}: it was lost or "
                                 "removed; restore the store from a copy",
                                 name_, request.offset)};
    if (done < 0) return failed(done, "cannot read an object of");
    const Bytes content = std::as_bytes(std::span(reading.content)).first(reading.got);
    PERDURA_TRY(take_object(name_, {content, request.offset, "object"}, request.into));
    if (content.size() == kObjectUnitBytes + sizeof(ObjectEnd)) {
      // If a record is to replace it, it is this one that it must find.
      u64 sum = 0;
      std::memcpy(&sum, content.data() + kObjectUnitBytes, sizeof sum);
      std::lock_guard lock(records_mutex_);
      records_.try_emplace(request.offset, sum);
    }
    return {};
  }

  rados_ioctx_t pool() const { return client_->pool(); }
  std::string object_of(u64 place) const { return fmt::format("{}{:x}", objects_begin_, place); }

  static void fill(RadosWrite& operation, u64 place, Bytes data) {
    const ObjectEnd end{object_checksum(place, data)};
    operation.write_full(text_of(data));
    operation.append(bytes_of(end));
    if (data.size() == kObjectUnitBytes) operation.set_attribute(kSum, bytes_of(end.checksum));
  }

  /// The checksum of the record that is there. With the lock of records held.
  Status know_record(u64 place) {
    if (records_.contains(place)) return {};
    std::string sum;
    const int got = client_->get_attribute(object_of(place), kSum, sum);
    if (got < 0) return lost(got, "cannot read a record of");
    u64 number = 0;
    std::memcpy(&number, sum.data(), std::min(sum.size(), sizeof number));
    records_.emplace(place, number);
    return {};
  }

  /// Written otherwise than as records.
  void forget_records(u64 place, u64 length) {
    std::lock_guard lock(records_mutex_);
    records_.erase(records_.lower_bound(place), records_.lower_bound(place + length));
  }

  Status put_head(MediumHead head) {
    head.checksum = object_head_checksum(std::as_bytes(std::span(&head, 1)));
    const std::string_view bytes = bytes_of(head);
    const int done = api_.write_full(pool(), kHead, bytes.data(), bytes.size());
    return done < 0 ? lost(done, "cannot write the head of") : Status{};
  }

  Failure failed(int error, const std::string& what) const {
    return rados_failure(error, what + " '" + name_ + "'");
  }
  /// Of a write, after which nobody knows what is there; but for want of space.
  Failure lost(int error, const std::string& what) {
    Failure failure = failed(error, what);
    if (failure.code == Code::kLocked)
      failure.message = what + " '" + name_ + "': " + lock_->taken_over().message;
    return usable_.lost(std::move(failure));
  }

  const std::string& name_;
  Usable& usable_;
  const std::unique_ptr<RadosClient> client_;
  const RadosApi& api_;
  std::unique_ptr<RadosLock> lock_;
  MediumHead head_{};
  std::string objects_begin_;
  std::mutex records_mutex_;
  std::map<u64, u64> records_;  ///< their checksums, as far as they are known, by place
};

using RadosParts = ObjectMediumParts<RadosService>;

Result<RadosParts> lock_rados(const RadosClient::Wanted& wanted, const MediumOptions& options) {
  for (;;) {
    PERDURA_ASSIGN(auto client, RadosClient::connect(wanted));
    RadosParts locked = RadosParts::make(wanted.medium, std::move(client));
    bool same_address = false;
    const Status done = locked.service->lock(options, same_address);
    if (done) return locked;
    if (!same_address) return copy_of(done.failure());
  }
}

}  // namespace

Result<OpenedMedium> open_rados(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(const RadosClient::Wanted wanted, parse_rados(address, options));
  return open_rados(wanted, options);
}

Result<OpenedMedium> open_rados(const RadosClient::Wanted& wanted, const MediumOptions& options) {
  PERDURA_ASSIGN(RadosParts locked, lock_rados(wanted, options));
  PERDURA_ASSIGN(const u64 size, locked.service->find_head(options.create));
  return make_object_medium(std::move(locked), size);
}

Status remove_rados(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(const RadosClient::Wanted wanted, parse_rados(address, options));
  PERDURA_ASSIGN(const RadosParts locked, lock_rados(wanted, options));
  return remove_objects(*locked.service);
}

}  // namespace perdura::media
