// Requests to an S3 service, many at once, signed by libcurl.
//
// A request that the service refuses for its own reasons (5xx, 429, 409), or whose connection
// breaks, is sent again, later each time, until the time that it may take is over. What cannot be
// asked twice is told apart by what asks: a conditional put that comes back refused may have been
// done by the attempt before.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "media/medium.hpp"

namespace perdura::media {

/// Where a store is, and who asks.
struct S3Place {
  std::string endpoint;  ///< "https://host[:port]", without a path
  std::string bucket;
  std::string prefix;  ///< of all its names, without a slash at its end
  std::string region;
  std::string key;  ///< "": requests are not signed
  std::string secret;
  std::string token;
  u64 timeout_ms = 0;
  /// How requests are sent, where not by libcurl: for tests.
  std::function<Result<std::unique_ptr<class S3Exchange>>()> connect = {};

  /// `address`: "//BUCKET/PREFIX". Credentials are those of the environment, or of the file that
  /// AWS's tools use.
  static Result<S3Place> parse(std::string_view address, const MediumOptions& options);
  std::string uri() const { return "s3://" + bucket + "/" + prefix; }
};

struct S3Request {
  const char* method = "GET";
  std::string name;        ///< of an object behind the prefix; or of the bucket with `query`
  std::string query = {};  ///< encoded, in the order of its names; of a list
  Bytes body = {};         ///< stays until the request is done
  std::string end = {};    ///< follows it
  bool if_none = false;    ///< put only where nothing is
};

struct S3Answer {
  int status = 0;  ///< of HTTP; 0: none came
  std::string body;
  std::string why;        ///< where there is no answer
  std::string date;       ///< of the service
  bool repeated = false;  ///< an attempt before may have been done

  bool good() const { return status >= 200 && status < 300; }
};

/// A part of a list, as the service has it now.
struct S3List {
  struct Object {
    std::string name;     ///< behind the store's prefix
    std::string changed;  ///< as the service says it
  };
  std::vector<Object> objects;
  bool is_cut = false;  ///< there are more
  std::string date;     ///< of the service
};

/// Requests under way, over connections of its own. Not thread-safe.
class S3Exchange {
 public:
  using Done = std::function<void(S3Answer&&)>;

  /// `place` outlives it.
  static Result<std::unique_ptr<S3Exchange>> create(const S3Place& place);
  /// Ends what is under way.
  virtual ~S3Exchange() = default;

  /// `done` is called by wait().
  virtual Status start(S3Request request, Done done) = 0;
  /// Until so many requests are under way.
  virtual Status wait(size_t most) = 0;
  virtual size_t under_way() const = 0;
  Result<S3Answer> ask(S3Request request);
};

/// Objects whose names begin with `begin`, at most 1000, from behind `behind` on ("": from the
/// first), both without the store's prefix. What is no whole list is a failure.
Result<S3List> ask_list(S3Exchange& exchange, const S3Place& place, std::string_view begin,
                        std::string_view behind, size_t most);
/// The 16 hex digits at the end of a name.
std::optional<u64> number_at_end(std::string_view name);

/// What an answer that is no success means; `what` could not be done.
Failure s3_failure(const S3Place& place, const S3Answer& answer, const std::string& what);

}  // namespace perdura::media
