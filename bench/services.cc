// Goal: a point to a store on a cluster takes hardly longer than the cluster takes for the bytes
// that changed. Method: a cluster on loopback (tests/cluster/ceph.sh: three replicas of everything
// on one disk), and points of a store of 1 GiB, each beside the same number of objects of the same
// size that librados' asynchronous writes, or libcurl's puts, send with equally many in flight, in
// turn.
#if defined(PERDURA_RADOS) && defined(PERDURA_S3)
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <perdura/perdura.hpp>

#include "harness.hpp"
#include "media/rados_api.hpp"
#include "media/s3_client.hpp"

namespace perdura::bench {
namespace {

constexpr std::size_t kChunkBytes = kMiB;
constexpr std::size_t kRequestsInFlight = 32;
constexpr std::size_t kBytesInFlight = 16 * kMiB;

std::string conf_of(const std::string& folder) { return folder + "/ceph.conf"; }

/// Started when it is made, and stopped when it goes.
class Cluster {
 public:
  explicit Cluster(Context& context) : folder_(context.path(Place::kDisk, "ceph")) {
    ::setenv("CEPH_OSD_BYTES", "17179869184", 1);
    context.progress("starting a cluster");
    call("start");
    std::ifstream lines(folder_ + "/s3");
    for (std::string line; std::getline(lines, line);)
      if (const auto equals = line.find('='); equals != line.npos)
        ::setenv(line.substr(0, equals).c_str(), line.substr(equals + 1).c_str(), 1);
  }
  ~Cluster() {
    try {
      call("stop");
    } catch (const std::exception&) {
      // It has said why.
    }
  }
  Cluster(const Cluster&) = delete;

  std::string rados(const std::string& name) const {
    return "rados://tests/" + name + "?conf=" + conf_of(folder_);
  }
  std::string s3(const std::string& name) const { return "s3://tests/" + name; }
  media::RadosClient::Wanted client() const {
    return {.medium = "rados://tests/floor",
            .pool = "tests",
            .name = "floor",
            .conf = conf_of(folder_),
            .user = "",
            .timeout_ms = 10'000};
  }

 private:
  void call(const char* what) const {
    const std::string command = std::string(CEPH_SCRIPT) + " " + what + " " + folder_;
    if (std::system(command.c_str()) != 0)
      throw std::runtime_error("'" + command +
                               "' has failed; the benchmark needs ceph-mon, "
                               "ceph-mgr, ceph-osd, ceph-common and radosgw");
  }
  const std::string folder_;
};

Options options_of_store() {
  Options options;
  options.engine = Engine::kRemap;
  options.chunk_bytes = kChunkBytes;
  options.versions_kept = 1;
  options.tracking = Tracking::kReported;
  return options;
}

/// A block of so many chunks, as a program's memory; each time other bytes in some of them.
class Changing {
 public:
  Changing(const std::string& uri, std::size_t bytes)
      : store_(Store::open(uri, options_of_store())), chunks_(bytes / kChunkBytes) {
    block_ = static_cast<std::byte*>(store_.get_root("block"));
    if (block_ != nullptr) return;
    const Operation operation = store_.operation();
    block_ = static_cast<std::byte*>(operation.allocate(bytes, kChunkBytes));
    store_.set_root("block", block_);
  }
  /// Every chunk that is touched changes as a whole; the seconds of the point.
  double point(std::size_t chunks) {
    {
      const Operation operation = store_.operation();
      std::vector<std::size_t> which(chunks_);
      for (std::size_t i = 0; i < chunks_; ++i) which[i] = i;
      std::shuffle(which.begin(), which.end(), random_);
      for (std::size_t i = 0; i < chunks; ++i) {
        std::byte* const at = block_ + which[i] * kChunkBytes;
        operation.touch(at, kChunkBytes);
        std::memset(at, static_cast<int>(random_() | 1), kChunkBytes);
      }
    }
    return timed_s([&] { store_.checkpoint(); });
  }
  Store& store() { return store_; }
  std::byte* block() const { return block_; }

 private:
  Store store_;
  const std::size_t chunks_;
  std::byte* block_ = nullptr;
  std::mt19937_64 random_{7};
};

/// What librados takes to write so many objects.
class RadosFloor {
 public:
  explicit RadosFloor(const Cluster& cluster)
      : client_(value_or_throw(media::RadosClient::connect(cluster.client()))),
        bytes_(kChunkBytes, 'x') {}
  double write(std::size_t objects) {
    const media::RadosApi& api = client_->api();
    std::deque<rados_completion_t> under_way;
    const auto wait = [&](std::size_t most) {
      while (under_way.size() > most) {
        api.aio_wait_for_complete_and_cb(under_way.front());
        if (api.aio_get_return_value(under_way.front()) < 0)
          throw std::runtime_error("librados cannot write");
        api.aio_release(under_way.front());
        under_way.pop_front();
      }
    };
    return timed_s([&] {
      for (std::size_t i = 0; i < objects; ++i) {
        rados_completion_t completion = nullptr;
        api.aio_create_completion2(nullptr, nullptr, &completion);
        media::RadosWrite write(api);
        write.write_full(bytes_);
        write.start(client_->pool(), "floor." + std::to_string(i), completion);
        under_way.push_back(completion);
        wait(std::min(kRequestsInFlight, kBytesInFlight / kChunkBytes));
      }
      wait(0);
    });
  }

 private:
  const std::unique_ptr<media::RadosClient> client_;
  const std::string bytes_;
};

/// The same for libcurl.
class S3Floor {
 public:
  S3Floor()
      : place_(value_or_throw(media::S3Place::parse("//tests/floor", {}))),
        exchange_(value_or_throw(media::S3Exchange::create(place_))),
        bytes_(kChunkBytes, std::byte{'x'}) {}
  double write(std::size_t objects) {
    return timed_s([&] {
      for (std::size_t i = 0; i < objects; ++i) {
        value_or_throw(
            exchange_->start({.method = "PUT", .name = std::to_string(i), .body = bytes_},
                             [](media::S3Answer&& answer) {
                               if (!answer.good()) throw std::runtime_error("libcurl cannot put");
                             }));
        value_or_throw(exchange_->wait(std::min(kRequestsInFlight, kBytesInFlight / kChunkBytes)));
      }
      value_or_throw(exchange_->wait(0));
    });
  }

 private:
  const media::S3Place place_;
  const std::unique_ptr<media::S3Exchange> exchange_;
  const std::vector<std::byte> bytes_;
};

template <class Floor>
Measured measure_points(Context& context, Changing& changing, Floor& floor, std::size_t chunks,
                        int pairs) {
  const Paired pair =
      paired(pairs, [&] { return changing.point(chunks); }, [&] { return floor.write(chunks); });
  context.progress("{} chunks: {:.3f} s, {:.3f} s by the floor", chunks, pair.subject, pair.base);
  return {pair.ratio,
          {{"point_s", pair.subject},
           {"floor_s", pair.base},
           {"chunks", chunks},
           {"ratios", pair.ratios}}};
}

/// A program that does a fixed amount of work, with or without a point each second.
Measured measure_async(Context& context, Changing& changing) {
  const std::size_t hot = 8 * kMiB;
  auto* const words = reinterpret_cast<std::uint64_t*>(changing.block());
  const std::uint64_t rounds = context.scale<std::uint64_t>(100'000'000, 10'000'000);
  const auto work = [&](bool with_points) {
    changing.store().checkpoint_every(std::chrono::milliseconds(with_points ? 1000 : 0));
    std::mt19937_64 random(3);
    std::uint64_t sum = 0;
    const double seconds = timed_s([&] {
      for (std::uint64_t round = 0; round < rounds; ++round) {
        std::uint64_t* const at = words + random() % (hot / sizeof(std::uint64_t));
        const Operation operation = changing.store().operation();
        operation.touch(at, sizeof *at);
        sum += ++*at;
      }
    });
    changing.store().checkpoint_every(std::chrono::milliseconds(0));
    if (sum == 1) context.progress("{}", sum);
    changing.store().checkpoint();
    return seconds;
  };
  const Paired pair =
      paired(context.scale(15, 2), [&] { return work(true); }, [&] { return work(false); });
  return {pair.ratio,
          {{"with_s", pair.subject}, {"without_s", pair.base}, {"ratios", pair.ratios}}};
}

/// To the first access; what closing takes is not opening.
Measured measure_open(Context& context, const std::string& uri, std::size_t bytes) {
  std::vector<double> all;
  for (int i = 0; i < context.scale(7, 3); ++i) {
    std::optional<Store> store;
    all.push_back(1000 * timed_s([&] {
                    store.emplace(Store::open(uri, options_of_store()));
                    const auto* const block =
                        static_cast<const std::byte*>(store->get_root("block"));
                    if (block == nullptr || block[bytes / 2] == std::byte{0})
                      throw std::runtime_error("the store has lost its block");
                  }));
  }
  return {median(all), {{"all_ms", all}}};
}

void run_rados(Context& context) {
  const std::size_t bytes = context.scale<std::size_t>(kGiB, 128 * kMiB);
  const std::size_t chunks = bytes / kChunkBytes;
  const Cluster cluster(context);
  {
    Changing changing(cluster.rados("store"), bytes);
    RadosFloor floor(cluster);
    changing.point(chunks);
    context.measure("rados_1", "ratio", Reach::at_most(1.25), [&] {
      return measure_points(context, changing, floor, std::max<std::size_t>(chunks / 100, 1),
                            context.scale(21, 5));
    });
    context.measure("rados_10", "ratio", Reach::at_most(1.25), [&] {
      return measure_points(context, changing, floor, chunks / 10, context.scale(11, 3));
    });
    context.measure("rados_100", "ratio", Reach::at_most(1.25), [&] {
      return measure_points(context, changing, floor, chunks, context.scale(5, 2));
    });
    context.measure("rados_async", "ratio", Reach::at_most(1.05),
                    [&] { return measure_async(context, changing); });
  }
  context.measure("rados_open_ms", "ms", Reach::at_most(250),
                  [&] { return measure_open(context, cluster.rados("store"), bytes); });
}

void run_s3(Context& context) {
  const std::size_t bytes = context.scale<std::size_t>(kGiB, 128 * kMiB);
  const std::size_t chunks = bytes / kChunkBytes;
  const Cluster cluster(context);
  Changing changing(cluster.s3("store"), bytes);
  S3Floor floor;
  changing.point(chunks);
  context.measure("s3_10", "ratio", Reach::at_most(1.25), [&] {
    return measure_points(context, changing, floor, chunks / 10, context.scale(11, 3));
  });
}

const Registration kRados("cluster_rados", "points to a RADOS cluster ÷ the same bytes by librados",
                          run_rados);
const Registration kS3("cluster_s3", "points to an S3 service ÷ the same bytes by libcurl", run_s3);

}  // namespace
}  // namespace perdura::bench
#endif
