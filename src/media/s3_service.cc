#include "media/s3_service.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/threads.hpp"
#include "media/object_content.hpp"
#include "media/object_medium.hpp"
#include "media/s3_client.hpp"
#include "media/s3_log.hpp"

namespace perdura::media {
namespace {

constexpr size_t kS3InFlightMax = 32;
constexpr u64 kS3InFlightBytesMax = 16 * kMiB;

class S3Service final : public ObjectService {
 public:
  S3Service(const std::string& name, Usable& usable, S3Place place)
      : name_(name), usable_(usable), place_(std::move(place)), log_(place_) {}

  ~S3Service() override {
    stop_beating();
    if (usable_.ended() || log_.opening() == 0) return;
    (void)guarded([&]() -> Status {
      PERDURA_ASSIGN(auto exchange, lend());
      return log_.close(*exchange, false);
    });
  }

  // --- before it is used

  Status open(const MediumOptions& options) {
    PERDURA_ASSIGN(auto exchange, lend());
    PERDURA_TRY(log_.open(
        *exchange,
        {.create = options.create, .takeover = options.takeover, .lease_s = options.lease_s}));
    PERDURA_TRY(find_objects(*exchange));
    put_back(std::move(exchange));
    lease_s_ = options.lease_s;
    const NoSignals no_signals;
    if (lease_s_ != 0) beats_ = std::thread([this] { beat(); });
    return {};
  }
  u64 size() const { return log_.size(); }

  /// When it is cut short, it can be done again.
  Status remove() {
    stop_beating();
    PERDURA_ASSIGN(auto exchange, lend());
    Status failed;
    for (const char* const begin : {".data/", ".beat/"})
      PERDURA_TRY(list_objects(*exchange, begin, [&](const std::string& name) -> Status {
        if (put_by(name) == 0 || put_by(name) > log_.opening()) return {};
        PERDURA_TRY(exchange->start({.method = "DELETE", .name = name}, [&](S3Answer&& answer) {
          if (failed && !answer.good() && answer.status != 404)
            failed = s3_failure(place_, answer, "cannot remove objects of '" + name_ + "'");
        }));
        return exchange->wait(kS3InFlightMax);
      }));
    PERDURA_TRY(exchange->wait(0));
    PERDURA_TRY(failed);
    PERDURA_TRY(log_.close(*exchange, true));
    usable_.end({Code::kNotFound, "the store was removed"});
    return {};
  }

  // --- ObjectService

  std::unique_ptr<ObjectChannel> channel() override { return std::make_unique<Channel>(*this); }

  Status get(std::span<const ReadRequest> requests) override {
    PERDURA_ASSIGN(auto exchange, lend());
    Status first;
    std::vector<const ReadRequest*> gone;
    for (const ReadRequest& request : requests) {
      if (const auto number = page_at(request.offset)) {
        PERDURA_TRY(exchange->wait(0));
        Status got = log_.get_page(*exchange, request.offset, *number, request.into);
        if (first && !got) first = std::move(got);
        continue;
      }
      const std::optional<Put> put = put_at(request.offset);
      if (!put) {
        if (first) first = missing(request.offset);
        continue;
      }
      PERDURA_TRY(exchange->start({.name = object_at(request.offset, *put)},
                                  [&first, &gone, &request, this](S3Answer&& answer) {
                                    if (answer.status == 404) return gone.push_back(&request);
                                    Status got = take(request, answer);
                                    if (first && !got) first = std::move(got);
                                  }));
      PERDURA_TRY(exchange->wait(kS3InFlightMax));
    }
    PERDURA_TRY(exchange->wait(0));
    for (const ReadRequest* const each : gone) {
      Status got = get_again(*exchange, *each);
      if (first && !got) first = std::move(got);
    }
    put_back(std::move(exchange));
    return first;
  }

  Status put_record(u64 place, Bytes record) override {
    return with_log([&](S3Exchange& exchange) { return log_.put_page(exchange, place, record); });
  }
  // One that was taken over from may put objects still, which the next one would find here.
  Status put_in_place(u64 place, Bytes page) override {
    if (page.size() == kObjectUnitBytes) return put_record(place, page);
    return ObjectService::put_in_place(place, page);
  }
  Status check() override {
    return with_log([&](S3Exchange& exchange) { return log_.check(exchange); });
  }
  Status set_size(u64 size) override {
    return with_log([&](S3Exchange& exchange) { return log_.set_size(exchange, size); });
  }

  void abandon() noexcept override {
    if (beats_.joinable()) beats_.detach();  // there is none in a child
  }

 private:
  /// Which put of which opening: of two at one place the later one counts. No name comes twice, so
  /// that an attempt that the service does long after another one has been made changes nothing.
  struct Put {
    u64 opening;
    u64 number;
    auto operator<=>(const Put&) const = default;
  };

  class Channel final : public ObjectChannel {
   public:
    explicit Channel(S3Service& service) : service_(service) {}
    ~Channel() override {
      (void)guarded([&] { return drain(0); });
      // What is under way still ends with it: the bytes that it sends go.
      if (exchange_ && exchange_->under_way() == 0) service_.put_back(std::move(exchange_));
    }

    Status put(u64 place, Bytes data) override {
      PERDURA_TRY(begin());
      PERDURA_TRY(in_order(place));
      PERDURA_TRY(service_.forget_pages(place, data.size()));
      const u64 end = object_checksum(place, data);
      const Put mine{service_.log_.opening(), ++service_.puts_};
      S3Request request{.method = "PUT",
                        .name = service_.object_at(place, mine),
                        .body = data,
                        .end = std::string(reinterpret_cast<const char*>(&end), sizeof end)};
      const u64 turn = begun_ + 1;
      PERDURA_TRY(
          exchange_->start(std::move(request), [=, this, length = data.size()](S3Answer&& answer) {
            bytes_ -= length;
            under_way_.erase(turn);
            if (!answer.good()) return note(answer);
            // What was there before is not needed any more.
            if (const auto former = service_.is_put(place, mine))
              superseded_.push_back(service_.object_at(place, *former));
          }));
      // Not of one that could not be begun, whose end nobody tells. (That of others wait() tells.)
      begun_ = turn;
      bytes_ += data.size();
      under_way_.insert(turn);
      while (bytes_ > kS3InFlightBytesMax && exchange_->under_way() != 0)
        PERDURA_TRY(exchange_->wait(exchange_->under_way() - 1));
      return exchange_->wait(kS3InFlightMax);
    }

    void erase(u64 place, u64) noexcept override {
      (void)guarded([&]() -> Status {
        PERDURA_TRY(begin());
        PERDURA_TRY(in_order(place));
        const std::optional<Put> put = service_.put_at(place);
        if (!put) return {};
        service_.is_erased(place);
        return remove(service_.object_at(place, *put));
      });
    }

    Status drain(size_t pending_max) override {
      if (!exchange_) return {};
      // Puts end in any order, each the sooner the fewer attempts it takes; their bytes stay for
      // those that are the youngest alone.
      Status done;
      while (done && !under_way_.empty() && *under_way_.begin() + pending_max <= begun_)
        done = exchange_->wait(exchange_->under_way() - 1);
      if (pending_max == 0) {
        if (done) done = exchange_->wait(0);
        for (const std::string& each : std::exchange(superseded_, {}))
          if (done) done = remove(each);
        if (done) done = exchange_->wait(0);
        asked_.clear();
      }
      if (!failed_) done = std::exchange(failed_, Status{});
      return done ? std::move(done) : Status{service_.usable_.lost(done.failure())};
    }

   private:
    Status begin() {
      if (exchange_) return {};
      PERDURA_ASSIGN(exchange_, service_.lend());
      return {};
    }
    // A service does what is under way at once in any order.
    Status in_order(u64 place) {
      if (asked_.insert(place).second) return {};
      asked_ = {place};
      return exchange_->wait(0);
    }
    Status remove(const std::string& name) {
      PERDURA_TRY(exchange_->start({.method = "DELETE", .name = name}, [](S3Answer&&) {}));
      return exchange_->wait(kS3InFlightMax);
    }
    void note(const S3Answer& answer) {
      if (failed_)
        failed_ =
            s3_failure(service_.place_, answer, "cannot write objects of '" + service_.name_ + "'");
    }

    S3Service& service_;
    std::unique_ptr<S3Exchange> exchange_;
    u64 bytes_ = 0;            ///< under way
    u64 begun_ = 0;            ///< puts
    std::set<u64> under_way_;  ///< of these, by their turns
    Status failed_;
    std::vector<std::string> superseded_;
    std::unordered_set<u64> asked_;  ///< places of requests that may be under way
  };

  // --- objects

  std::string object_at(u64 place, const Put& put) const {
    return fmt::format("{}{:016x}.{:016x}.{:016x}", log_.data_prefix(), place, put.number,
                       put.opening);
  }

  // At a place that nothing refers to an owner that was taken over from may have put another object
  // since they were listed, and removed this one. Some such places are read all the same.
  Status get_again(S3Exchange& exchange, const ReadRequest& request) {
    std::optional<Put> newest;
    const std::string begin = fmt::format("{}{:016x}.", log_.data_prefix(), request.offset);
    PERDURA_TRY(list_objects(exchange, begin, [&](const std::string& name) -> Status {
      const Put put{put_by(name), number_at_end(name.substr(0, begin.size() + 16)).value_or(0)};
      if (put.opening <= log_.opening() && (!newest || *newest < put)) newest = put;
      return {};
    }));
    if (!newest) return missing(request.offset);
    (void)is_put(request.offset, *newest);
    PERDURA_ASSIGN(const S3Answer answer,
                   exchange.ask({.name = object_at(request.offset, *newest)}));
    return take(request, answer);
  }

  Status take(const ReadRequest& request, const S3Answer& answer) const {
    if (answer.status == 404) return missing(request.offset);
    if (!answer.good()) return s3_failure(place_, answer, "cannot read '" + name_ + "'");
    return take_object(name_, {std::as_bytes(std::span(answer.body)), request.offset, "object"},
                       request.into);
  }
  Failure missing(u64 place) const {
    return {Code::kCorrupt, fmt::format("the service has no object of '{}' at place {}: it was "
                                        "lost or removed; restore the store from a copy",
                                        name_, place)};
  }

  /// By which opening an object was put that has it at the end of its name; 0: none. Nobody ever
  /// removes what a later opening has put: so who was taken over from removes nothing that counts.
  static u64 put_by(std::string_view name) { return number_at_end(name).value_or(0); }

  template <class Visit>
  Status list_objects(S3Exchange& exchange, const std::string& begin, Visit&& visit) {
    std::string last;
    for (;;) {
      PERDURA_ASSIGN(const S3List found, ask_list(exchange, place_, begin, last, 1000));
      for (const S3List::Object& each : found.objects) PERDURA_TRY(visit(each.name));
      PERDURA_TRY(exchange.wait(0));
      if (!found.is_cut || found.objects.empty()) return {};
      last = found.objects.back().name;
    }
  }

  Status find_objects(S3Exchange& exchange) {
    std::vector<std::string> superseded;
    const std::string begin = log_.data_prefix();
    PERDURA_TRY(list_objects(exchange, begin, [&](const std::string& name) -> Status {
      const std::string_view ends = std::string_view(name).substr(begin.size());
      const auto place = number_at_end(ends.substr(0, 16));
      const auto number = number_at_end(ends.substr(0, 33));
      if (!place || !number || object_at(*place, {put_by(name), *number}) != name)
        return {};  // none of ours
      const Put put{put_by(name), *number};
      if (put.opening > log_.opening()) return log_.check(exchange);  // somebody has taken over
      const auto [at, is_first] = objects_.try_emplace(*place, put);
      if (is_first) return {};
      superseded.push_back(object_at(*place, std::min(at->second, put)));
      at->second = std::max(at->second, put);
      return {};
    }));
    for (const std::string& each : superseded) {
      PERDURA_TRY(exchange.start({.method = "DELETE", .name = each}, [](S3Answer&&) {}));
      PERDURA_TRY(exchange.wait(kS3InFlightMax));
    }
    return exchange.wait(0);
  }

  std::optional<Put> put_at(u64 place) {
    std::lock_guard lock(objects_mutex_);
    const auto found = objects_.find(place);
    return found == objects_.end() ? std::nullopt : std::optional(found->second);
  }
  /// What is superseded by it.
  std::optional<Put> is_put(u64 place, const Put& put) {
    std::lock_guard lock(objects_mutex_);
    const auto [at, is_first] = objects_.try_emplace(place, put);
    if (is_first) return std::nullopt;
    return std::exchange(at->second, put);
  }
  void is_erased(u64 place) {
    std::lock_guard lock(objects_mutex_);
    objects_.erase(place);
  }

  // --- the log

  std::optional<u64> page_at(u64 place) {
    std::lock_guard lock(log_mutex_);
    return log_.page_at(place);
  }
  /// What was written as a record is written as an object now.
  Status forget_pages(u64 place, u64 length) {
    {
      std::lock_guard lock(log_mutex_);
      if (!log_.has_pages(place, length)) return {};
    }
    return with_log(
        [&](S3Exchange& exchange) { return log_.forget_pages(exchange, place, length); });
  }
  template <class Ask>
  Status with_log(Ask&& ask) {
    PERDURA_ASSIGN(auto exchange, lend());
    std::lock_guard lock(log_mutex_);
    PERDURA_TRY(usable_.check());
    Status done = ask(*exchange);
    if (!done) return usable_.lost(done.failure());
    put_back(std::move(exchange));
    return done;
  }

  // --- the lease

  void beat() {
    std::unique_lock guard(beats_mutex_);
    const auto pause = std::chrono::milliseconds(lease_s_ * 1000 / 3);
    do {
      guard.unlock();
      (void)guarded([&] {
        return with_log([&](S3Exchange& exchange) -> Status {
          PERDURA_TRY(log_.beat(exchange));
          return log_.check(exchange);
        });
      });
      guard.lock();
    } while (!beats_end_.wait_for(guard, pause, [&] { return ending_; }));
  }
  void stop_beating() {
    if (!beats_.joinable()) return;
    {
      std::lock_guard guard(beats_mutex_);
      ending_ = true;
    }
    beats_end_.notify_all();
    beats_.join();
  }

  // --- connections

  Result<std::unique_ptr<S3Exchange>> lend() {
    {
      std::lock_guard lock(idle_mutex_);
      if (!idle_.empty()) {
        auto exchange = std::move(idle_.back());
        idle_.pop_back();
        return exchange;
      }
    }
    return S3Exchange::create(place_);
  }
  void put_back(std::unique_ptr<S3Exchange> exchange) noexcept {
    if (exchange->under_way() != 0) return;  // it ends with what is under way
    std::lock_guard lock(idle_mutex_);
    (void)guarded([&]() -> Status {
      idle_.push_back(std::move(exchange));
      return {};
    });
  }

  const std::string& name_;
  Usable& usable_;
  const S3Place place_;
  std::mutex log_mutex_;
  S3Log log_;
  std::mutex objects_mutex_;
  std::unordered_map<u64, Put> objects_;  ///< by place
  std::atomic<u64> puts_{0};
  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<S3Exchange>> idle_;
  u64 lease_s_ = 0;  ///< 0, for tests: without a thread
  std::mutex beats_mutex_;
  std::condition_variable beats_end_;
  bool ending_ = false;
  std::thread beats_;
};

using S3Parts = ObjectMediumParts<S3Service>;

Result<S3Parts> open_service(const S3Place& place, const MediumOptions& options) {
  S3Parts opened = S3Parts::make(place.uri(), place);
  PERDURA_TRY(opened.service->open(options));
  return opened;
}

}  // namespace

Result<OpenedMedium> open_s3(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(const S3Place place, S3Place::parse(address, options));
  return open_s3(place, options);
}

Result<OpenedMedium> open_s3(const S3Place& place, const MediumOptions& options) {
  PERDURA_ASSIGN(S3Parts opened, open_service(place, options));
  const u64 size = opened.service->size();
  return make_object_medium(std::move(opened), size);
}

Status remove_s3(std::string_view address, const MediumOptions& options) {
  PERDURA_ASSIGN(const S3Place place, S3Place::parse(address, options));
  PERDURA_ASSIGN(const S3Parts opened, open_service(place, options));
  return opened.service->remove();
}

}  // namespace perdura::media
