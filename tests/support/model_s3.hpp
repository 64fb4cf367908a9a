// What an S3 service promises, and no more: for exploring what a store on it makes of that.
//
//  - A put is whole or not there; with If-None-Match: * one of several is done.
//  - What was acknowledged is there for everybody, and in every list, from then on.
//  - Requests under way at the same time are done in any order.
//  - A request may be done once more, at any time: an attempt whose answer was lost, and which the
//    client has made again.
//  - Those of a client that died may still be done, at any time.
#pragma once

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "media/s3_client.hpp"
#include "support/paused_client.hpp"

namespace perdura::test {

class ModelS3 {
 public:
  explicit ModelS3(u64 seed) : random_(seed) {}

  /// Where the store "store" is for `client`, which outlives it, as this does.
  media::S3Place place(PausedClient& client) {
    media::S3Place place;
    place.endpoint = "http://model";
    place.bucket = "tests";
    place.prefix = "store";
    place.timeout_ms = 1;
    place.connect = [this, &client] {
      return Result<std::unique_ptr<media::S3Exchange>>(std::make_unique<Exchange>(*this, client));
    };
    return place;
  }

  /// What clients had under way when they died: as much of it as `keep` says is done now, or else
  /// never.
  template <class Keep>
  void deliver_late(Keep&& keep) {
    const std::lock_guard lock(mutex_);
    for (const Late& each : std::exchange(late_, {}))
      if (keep()) (void)done(each.request, each.content);
  }
  size_t late() {
    const std::lock_guard lock(mutex_);
    return late_.size();
  }

 private:
  struct Late {
    media::S3Request request;
    std::string content;
  };

  class Exchange final : public media::S3Exchange {
   public:
    Exchange(ModelS3& model, PausedClient& client) : model_(model), client_(client) {}
    ~Exchange() override { leave(); }

    Status start(media::S3Request request, Done done) override {
      pending_.push_back({std::move(request), std::move(done)});
      return {};
    }
    Status wait(size_t most) override {
      while (pending_.size() > most) {
        const bool asks = client_.may_ask();
        if (!asks) leave();
        if (pending_.empty()) break;
        Pending next = take();
        media::S3Answer answer;
        if (asks) {
          const std::lock_guard lock(model_.mutex_);
          answer = model_.done(next.request, content_of(next.request));
          model_.repeat(next.request, content_of(next.request));
        } else {
          answer.why = "the client is dead";
        }
        next.done(std::move(answer));
      }
      return {};
    }
    size_t under_way() const override { return pending_.size(); }

   private:
    struct Pending {
      media::S3Request request;
      Done done;
      bool left = false;
    };
    static std::string content_of(const media::S3Request& request) {
      return std::string(reinterpret_cast<const char*>(request.body.data()), request.body.size()) +
             request.end;
    }
    /// Whatever is still under way may be done without it.
    void leave() {
      const std::lock_guard lock(model_.mutex_);
      for (Pending& each : pending_)
        if (!std::exchange(each.left, true))
          model_.late_.push_back({each.request, content_of(each.request)});
    }
    Pending take() {
      const std::lock_guard lock(model_.mutex_);
      const size_t chosen = model_.random_() % pending_.size();
      Pending next = std::move(pending_[chosen]);
      pending_.erase(pending_.begin() + static_cast<long>(chosen));
      return next;
    }

    ModelS3& model_;
    PausedClient& client_;
    std::vector<Pending> pending_;
  };

  /// With the mutex.
  void repeat(const media::S3Request& request, std::string content) {
    if (std::string(request.method) != "GET" && random_() % 4 == 0)
      attempts_.push_back({request, std::move(content)});
    if (attempts_.empty() || random_() % 8 != 0) return;
    const size_t chosen = random_() % attempts_.size();
    (void)done(attempts_[chosen].request, attempts_[chosen].content);
    attempts_.erase(attempts_.begin() + static_cast<long>(chosen));
  }

  media::S3Answer done(const media::S3Request& request, const std::string& content) {
    media::S3Answer answer;
    answer.status = 200;
    answer.date = "Mon, 30 Nov 2026 00:00:00 GMT";
    const std::string method = request.method;
    if (!request.query.empty()) {
      answer.body = listed(request.query);
    } else if (method == "PUT") {
      if (request.if_none && objects_.contains(request.name)) answer.status = 412;
      else objects_[request.name] = content;
    } else if (method == "DELETE") {
      objects_.erase(request.name);
      answer.status = 204;
    } else if (const auto found = objects_.find(request.name); found != objects_.end()) {
      answer.body = found->second;
    } else {
      answer.status = 404;
    }
    return answer;
  }

  static std::string parameter(const std::string& query, const std::string& name) {
    const size_t begin = ("&" + query).find("&" + name + "=");
    if (begin == std::string::npos) return {};
    std::string value = query.substr(begin + name.size() + 1);
    value = value.substr(0, value.find('&'));
    for (size_t at; (at = value.find("%2F")) != value.npos;) value.replace(at, 3, "/");
    return value;
  }
  /// Fifty at once, so that lists have several parts.
  std::string listed(const std::string& query) {
    const std::string prefix = parameter(query, "prefix");
    const std::string behind = parameter(query, "start-after");
    const std::string most_text = parameter(query, "max-keys");
    size_t most = 0;
    std::from_chars(most_text.data(), most_text.data() + most_text.size(), most);
    std::string body;
    size_t count = 0;
    bool cut = false;
    for (const auto& [name, content] : objects_) {
      const std::string key = "store/" + name;
      if (!key.starts_with(prefix) || key <= behind) continue;
      if (count == std::min<size_t>(most, 50)) {
        cut = true;
        break;
      }
      body += "<Contents><Key>" + key +
              "</Key><LastModified>2026-11-30T00:00:00.000Z</LastModified></Contents>";
      ++count;
    }
    return std::string("<IsTruncated>") + (cut ? "true" : "false") + "</IsTruncated>" + body +
           "</ListBucketResult>";
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  std::map<std::string, std::string> objects_;
  std::vector<Late> late_;
  std::vector<Late> attempts_;  ///< that were made again
};

}  // namespace perdura::test
