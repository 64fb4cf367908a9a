#include "media/s3_client.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "media/curl_api.hpp"

namespace perdura::media {
namespace {

constexpr long kConnectionsMax = 32;
constexpr u64 kMs = 1'000'000;
constexpr u64 kFirstPauseNs = 50 * kMs;
constexpr u64 kPauseMaxNs = 2'000 * kMs;

// What libcurl's TLS writes to a broken connection raises it in the thread.
class NoBrokenPipes {
 public:
  NoBrokenPipes() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipes() {
    const timespec at_once{};
    if (!was_pending_)
      while (::sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) {
      }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipes(const NoBrokenPipes&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_;
};

/// The text between the first <tag> behind `at` and its end; moves `at` behind it. nullopt: there
/// is no more.
std::optional<std::string_view> next_element(std::string_view xml, std::string_view tag,
                                             size_t& at) {
  const std::string opens = fmt::format("<{}>", tag);
  const std::string closes = fmt::format("</{}>", tag);
  const size_t begin = xml.find(opens, at);
  if (begin == xml.npos) return std::nullopt;
  const size_t end = xml.find(closes, begin);
  if (end == xml.npos) return std::nullopt;
  at = end + closes.size();
  return xml.substr(begin + opens.size(), end - begin - opens.size());
}

/// Names are of letters, digits and -_./ alone.
std::string encoded(std::string_view text) {
  std::string query;
  for (const char c : text) query += c == '/' ? std::string("%2F") : std::string(1, c);
  return query;
}

size_t take_header(char* text, size_t, size_t length, void* into) {
  const std::string_view line(text, length);
  constexpr std::string_view kDate = "date: ";
  if (line.size() > kDate.size() &&
      std::equal(kDate.begin(), kDate.end(), line.begin(), [](char expected, char c) {
        return expected == (c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c);
      })) {
    std::string& date = static_cast<S3Answer*>(into)->date;
    date = line.substr(kDate.size());
    while (date.ends_with('\r') || date.ends_with('\n')) date.pop_back();
  }
  return length;
}

size_t take_body(char* bytes, size_t, size_t length, void* into) {
  static_cast<S3Answer*>(into)->body.append(bytes, length);
  return length;
}

/// Over libcurl.
class CurlExchange final : public S3Exchange {
 public:
  CurlExchange(const S3Place& place, const CurlApi& api) : place_(place), api_(api) {}
  ~CurlExchange() override;
  CurlExchange(const CurlExchange&) = delete;

  Status begin();
  Status start(S3Request request, Done done) override;
  Status wait(size_t most) override;
  size_t under_way() const override { return under_way_; }

 private:
  struct Transfer;

  Status send(Transfer& transfer);
  void take(CURL* easy, CURLcode result);
  void send_due();

  const S3Place& place_;
  const CurlApi& api_;
  CURLM* multi_ = nullptr;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  size_t under_way_ = 0;
};

/// A request, its attempts, and what came of them.
struct CurlExchange::Transfer {
  S3Request request;
  Done done;
  S3Answer answer;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  size_t sent = 0;  ///< bytes of the body
  u64 begin_ns = 0;
  u64 pause_ns = kFirstPauseNs;
  u64 due_ns = 0;  ///< when it is sent again; 0: it is under way
  bool is_free = true;

  size_t length() const { return request.body.size() + request.end.size(); }

  size_t give(char* into, size_t room) {
    const size_t body = request.body.size();
    const size_t from = sent;
    if (sent < body) {
      const size_t count = std::min(room, body - sent);
      std::memcpy(into, request.body.data() + sent, count);
      sent += count;
      into += count;
      room -= count;
    }
    if (sent >= body && room != 0) {
      const size_t count = std::min(room, length() - sent);
      std::memcpy(into, request.end.data() + (sent - body), count);
      sent += count;
    }
    return sent - from;
  }
  static size_t give_body(char* into, size_t size, size_t count, void* transfer) {
    return static_cast<Transfer*>(transfer)->give(into, size * count);
  }
  static int go_to(void* transfer, curl_off_t offset, int) {
    static_cast<Transfer*>(transfer)->sent = static_cast<size_t>(offset);
    return CURL_SEEKFUNC_OK;
  }
};

Status CurlExchange::begin() {
  multi_ = api_.multi_init();
  if (multi_ == nullptr)
    return Failure{Code::kNoMemory, "no memory for connections to " + place_.endpoint};
  api_.multi_setopt(multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, kConnectionsMax);
  api_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kConnectionsMax);
  return {};
}

CurlExchange::~CurlExchange() {
  const NoBrokenPipes no_broken_pipes;
  for (const auto& each : transfers_) {
    if (!each->is_free && each->due_ns == 0) api_.multi_remove_handle(multi_, each->easy);
    api_.slist_free_all(each->headers);
    if (each->easy != nullptr) api_.easy_cleanup(each->easy);
  }
  if (multi_ != nullptr) api_.multi_cleanup(multi_);
}

Status CurlExchange::start(S3Request request, Done done) {
  auto free = std::ranges::find_if(transfers_, [](const auto& each) { return each->is_free; });
  if (free == transfers_.end()) {
    transfers_.push_back(std::make_unique<Transfer>());
    free = transfers_.end() - 1;
    (*free)->easy = api_.easy_init();
    if ((*free)->easy == nullptr) {
      transfers_.pop_back();
      return Failure{Code::kNoMemory, "no memory for a connection to " + place_.endpoint};
    }
  }
  Transfer& transfer = **free;
  transfer.request = std::move(request);
  transfer.done = std::move(done);
  transfer.answer = {};
  transfer.begin_ns = now_ns();
  transfer.pause_ns = kFirstPauseNs;
  PERDURA_TRY(send(transfer));
  transfer.is_free = false;
  ++under_way_;
  return {};
}

Status CurlExchange::send(Transfer& transfer) {
  const S3Request& request = transfer.request;
  CURL* const easy = transfer.easy;
  api_.easy_reset(easy);
  api_.slist_free_all(std::exchange(transfer.headers, nullptr));
  transfer.sent = 0;
  transfer.due_ns = 0;
  transfer.answer.body.clear();
  transfer.answer.why.clear();
  const std::string url =
      request.query.empty()
          ? fmt::format("{}/{}/{}/{}", place_.endpoint, place_.bucket, place_.prefix, request.name)
          : fmt::format("{}/{}?{}", place_.endpoint, place_.bucket, request.query);
  const auto add_header = [&](const std::string& header) {
    transfer.headers = api_.slist_append(transfer.headers, header.c_str());
  };
  // The connection's own checks are enough, and those of Perdura; a checksum of the body besides,
  // with a key, would take longer than sending it.
  add_header("x-amz-content-sha256: UNSIGNED-PAYLOAD");
  add_header("Content-Type: application/octet-stream");
  if (request.if_none) add_header("If-None-Match: *");
  if (!place_.token.empty()) add_header("x-amz-security-token: " + place_.token);
  const std::string signs = fmt::format("aws:amz:{}:s3", place_.region);
  if (!place_.key.empty()) {
    api_.easy_setopt(easy, CURLOPT_AWS_SIGV4, signs.c_str());
    api_.easy_setopt(easy, CURLOPT_USERNAME, place_.key.c_str());
    api_.easy_setopt(easy, CURLOPT_PASSWORD, place_.secret.c_str());
  }
  api_.easy_setopt(easy, CURLOPT_URL, url.c_str());
  api_.easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers);
  api_.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  api_.easy_setopt(easy, CURLOPT_NOPROXY, "127.0.0.1,localhost");
  api_.easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  api_.easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
  // A header that is left out would be signed all the same.
  api_.easy_setopt(easy, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
  api_.easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L * 1024);
  api_.easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L * 1024);
  const long patience = static_cast<long>(std::max<u64>(place_.timeout_ms, 1));
  api_.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, patience);
  api_.easy_setopt(easy, CURLOPT_TIMEOUT_MS, patience);
  // Of an attempt of which nothing is heard any more there is time for another one.
  api_.easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  api_.easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, std::max(patience / 2000, 1L));
  api_.easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
  api_.easy_setopt(easy, CURLOPT_HEADERDATA, &transfer.answer);
  api_.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
  api_.easy_setopt(easy, CURLOPT_WRITEDATA, &transfer.answer);
  api_.easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
  if (std::string_view(request.method) == "PUT") {
    api_.easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    api_.easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(transfer.length()));
    api_.easy_setopt(easy, CURLOPT_READFUNCTION, Transfer::give_body);
    api_.easy_setopt(easy, CURLOPT_READDATA, &transfer);
    api_.easy_setopt(easy, CURLOPT_SEEKFUNCTION, Transfer::go_to);
    api_.easy_setopt(easy, CURLOPT_SEEKDATA, &transfer);
  } else if (std::string_view(request.method) != "GET") {
    api_.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method);
  }
  if (api_.multi_add_handle(multi_, easy) != CURLM_OK)
    return Failure{Code::kNoMemory, "no memory for a request to " + place_.endpoint};
  return {};
}

void CurlExchange::take(CURL* easy, CURLcode result) {
  void* found = nullptr;
  api_.easy_getinfo(easy, CURLINFO_PRIVATE, &found);
  auto& transfer = *static_cast<Transfer*>(found);
  long status = 0;
  api_.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  api_.multi_remove_handle(multi_, easy);
  transfer.answer.status = result == CURLE_OK ? static_cast<int>(status) : 0;
  transfer.answer.why = result == CURLE_OK ? "" : api_.easy_strerror(result);
  const bool is_of_service = transfer.answer.status >= 500 || transfer.answer.status == 429 ||
                             transfer.answer.status == 409 || transfer.answer.status == 0;
  const u64 now = now_ns();
  if (is_of_service && now + transfer.pause_ns < transfer.begin_ns + place_.timeout_ms * kMs) {
    transfer.answer.repeated = true;
    transfer.due_ns = now + transfer.pause_ns;
    transfer.pause_ns = std::min(2 * transfer.pause_ns, kPauseMaxNs);
    return;
  }
  transfer.is_free = true;
  --under_way_;
  const Done done = std::move(transfer.done);
  done(std::move(transfer.answer));
}

void CurlExchange::send_due() {
  for (const auto& each : transfers_) {
    if (each->is_free || each->due_ns == 0 || each->due_ns > now_ns()) continue;
    if (send(*each)) continue;
    each->due_ns = now_ns() + each->pause_ns;  // for want of memory: later
  }
}

Status CurlExchange::wait(size_t most) {
  const NoBrokenPipes no_broken_pipes;
  while (under_way_ > most) {
    send_due();
    int running = 0;
    if (api_.multi_perform(multi_, &running) != CURLM_OK)
      return Failure{Code::kIo, "libcurl cannot go on with requests to " + place_.endpoint};
    int left = 0;
    while (const CURLMsg* const message = api_.multi_info_read(multi_, &left))
      if (message->msg == CURLMSG_DONE) take(message->easy_handle, message->data.result);
    if (under_way_ > most) api_.multi_poll(multi_, nullptr, 0, 20, nullptr);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<S3Exchange>> S3Exchange::create(const S3Place& place) {
  if (place.connect) return place.connect();
  PERDURA_ASSIGN(const CurlApi* const api, CurlApi::get());
  auto exchange = std::make_unique<CurlExchange>(place, *api);
  PERDURA_TRY(exchange->begin());
  return std::unique_ptr<S3Exchange>(std::move(exchange));
}

Result<S3Answer> S3Exchange::ask(S3Request request) {
  PERDURA_ASSERT(under_way() == 0);
  S3Answer taken;
  PERDURA_TRY(start(std::move(request), [&](S3Answer&& answer) { taken = std::move(answer); }));
  PERDURA_TRY(wait(0));
  return taken;
}

Result<S3List> ask_list(S3Exchange& exchange, const S3Place& place, std::string_view begin,
                        std::string_view behind, size_t most) {
  const std::string prefix = place.prefix + "/";
  std::string query = fmt::format("list-type=2&max-keys={}&prefix={}", std::min<size_t>(most, 1000),
                                  encoded(prefix + std::string(begin)));
  if (!behind.empty()) query += "&start-after=" + encoded(prefix + std::string(behind));
  PERDURA_ASSIGN(const S3Answer answer, exchange.ask({.name = {}, .query = std::move(query)}));
  const std::string what = "cannot list '" + place.uri() + "'";
  if (!answer.good()) return s3_failure(place, answer, what);
  size_t at = 0;
  const auto is_cut = next_element(answer.body, "IsTruncated", at);
  const size_t end = answer.body.find_last_not_of(" \r\n\t");
  const std::string_view whole = std::string_view(answer.body).substr(0, end + 1);
  if (!is_cut || !whole.ends_with("</ListBucketResult>"))
    return Failure{Code::kIo,
                   fmt::format("{}: the service at {} answers what is no list, or not all "
                               "of one; see that it is an S3 service (?endpoint=URL)",
                               what, place.endpoint)};
  S3List list{.objects = {}, .is_cut = *is_cut == "true", .date = answer.date};
  at = 0;
  while (const auto contents = next_element(answer.body, "Contents", at)) {
    size_t inside = 0;
    const std::string_view key = next_element(*contents, "Key", inside).value_or("");
    inside = 0;
    const std::string_view changed = next_element(*contents, "LastModified", inside).value_or("");
    if (!key.starts_with(prefix)) continue;
    list.objects.push_back({std::string(key.substr(prefix.size())), std::string(changed)});
  }
  return list;
}

std::optional<u64> number_at_end(std::string_view name) {
  constexpr size_t kDigits = 16;
  if (name.size() < kDigits) return std::nullopt;
  const std::string_view digits = name.substr(name.size() - kDigits);
  u64 number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + kDigits, number, 16);
  return parsed.ptr == digits.data() + kDigits ? std::optional(number) : std::nullopt;
}

Failure s3_failure(const S3Place& place, const S3Answer& answer, const std::string& what) {
  if (answer.status == 0)
    return {Code::kIo, fmt::format("{}: the service at {} did not answer within {} ms ({}); see "
                                   "that it runs, and that it is the right one (?endpoint=URL)",
                                   what, place.endpoint, place.timeout_ms, answer.why)};
  size_t at = 0;
  const std::string code(next_element(answer.body, "Code", at).value_or("no reason"));
  const std::string says =
      fmt::format("{}: the service at {} says {} ({})", what, place.endpoint, answer.status, code);
  if (code == "NoSuchBucket")
    return {Code::kNotFound, fmt::format("{}: there is no bucket '{}' at {}; make one, or name "
                                         "another",
                                         what, place.bucket, place.endpoint)};
  if (code == "RequestTimeTooSkewed")
    return {Code::kIo, says + "; the clock of this machine differs from the service's" +
                           (answer.date.empty() ? "" : ", which says '" + answer.date + "'") +
                           ": set it"};
  if (answer.status == 401 || answer.status == 403)
    return {Code::kIo,
            says + (place.key.empty() ? "; there are no credentials: set AWS_ACCESS_KEY_ID and "
                                        "AWS_SECRET_ACCESS_KEY, or write them to ~/.aws/credentials"
                                      : "; see whether the key '" + place.key +
                                            "' is right, and whether it may use this bucket")};
  if (code == "QuotaExceeded" || answer.status == 507)
    return {Code::kNoSpace, says + ": a quota is full"};
  return {Code::kIo, says};
}

}  // namespace perdura::media
