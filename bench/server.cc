// Goal: a key-value server whose data are its own map, made durable by a store (apps/kv), answers
// as quickly as one in ordinary memory, and more quickly than redis with an append-only file, which
// promises as much.
// Method: perdura-kv, redis-server from Debian's package and perdura-kv on ordinary memory, each
// asked by redis-benchmark: 8 connections with 16 requests in flight, SETs of 100 bytes to 100,000
// keys. Two servers run at a time and are asked in turn; a figure is the median of the ratios of
// neighbours. All files lie on the same disk, and no server is pinned. Redis writes its
// append-only file as it is told (appendfsync always, everysec), takes no snapshots, and does not
// rewrite the file meanwhile.
//
// How few lines make a program durable is counted in the sources of the examples, where these lines
// are marked with a D, with the headers that they need (examples/README.md).
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include <perdura/perdura.hpp>

#include "child.hpp"
#include "harness.hpp"
#include "server.hpp"

namespace perdura::bench {
namespace {

constexpr const char* kConnections = "8";
constexpr const char* kInFlight = "16";
constexpr const char* kValueBytes = "100";
constexpr const char* kKeys = "100000";

std::string free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      socket >= 0 && ::bind(socket, any, length) == 0 && ::getsockname(socket, any, &length) == 0;
  ::close(socket);
  if (!bound) throw std::runtime_error("there is no free port");
  return std::to_string(ntohs(address.sin_port));
}

/// The full path of a program of Debian's packages.
std::string program(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/usr/local/bin/"})
    if (std::filesystem::exists(folder + name)) return folder + name;
  throw std::runtime_error("'" + name + "' is not there; apt-get install redis-server");
}

/// A server that answers until it goes out of scope.
class Server {
 public:
  static Server kv(Context& context, const std::string& map, int every_ms) {
    const std::string port = free_port();
    return Server(context, port, "ready",
                  {PERDURA_KV, "--port", port, "--store", context.path(Place::kDisk, "kv"), "--map",
                   map, "--every", std::to_string(every_ms)});
  }
  static Server redis(Context& context, const std::string& fsync) {
    const std::string port = free_port();
    const std::string folder = context.path(Place::kDisk, "redis");
    std::filesystem::create_directory(folder);
    return Server(context, port, "Ready to accept connections",
                  {program("redis-server"), "--port", port, "--bind", "127.0.0.1", "--dir", folder,
                   "--save", "", "--appendonly", "yes", "--appendfsync", fsync,
                   "--auto-aof-rewrite-percentage", "0", "--daemonize", "no", "--logfile", ""});
  }

  /// SETs a second.
  double ask(std::uint64_t requests) const {
    ChildProcess load(
        ChildProcess::kCommand,
        {program("redis-benchmark"), "-p", port_, "-t", "set", "-n", std::to_string(requests), "-c",
         kConnections, "-P", kInFlight, "-d", kValueBytes, "-r", kKeys, "--csv"});
    for (;;) {
      const std::string line = load.read_line();
      if (!line.starts_with("\"SET\",\"")) continue;
      load.wait();
      return std::strtod(line.c_str() + 7, nullptr);
    }
  }

 private:
  Server(Context& context, std::string port, const char* ready, const ChildArguments& arguments)
      : port_(std::move(port)),
        process_(std::make_unique<ChildProcess>(ChildProcess::kCommand, arguments)) {
    context.progress("started {}", arguments.front());
    while (process_->read_line().find(ready) == std::string::npos) {
    }
  }

  std::string port_;
  std::unique_ptr<ChildProcess> process_;
};

/// The first one's requests a second ÷ the second one's.
Measured compare(Context& context, const Server& ours, const Server& theirs) {
  const std::uint64_t requests = context.scale<std::uint64_t>(400'000, 100'000);
  const int pairs = context.scale(7, 3);
  const Paired rates =
      paired(pairs, [&] { return ours.ask(requests); }, [&] { return theirs.ask(requests); });
  return {rates.ratio,
          {{"pairs", pairs}, {"ours_per_s", rates.subject}, {"theirs_per_s", rates.base}}};
}

// --- callers that checkpoint together ------------------------------------------------------------

struct alignas(64) Line {
  std::uint64_t value;
};

/// Durable steps a second of so many threads.
double steps_per_s(Context& context, unsigned threads, double seconds) {
  const std::string uri = context.uri(Place::kDisk, "group");
  double rate = 0;
  {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = Tracking::kReported;
    Store store = Store::open(uri, options);
    auto* const lines = static_cast<Line*>(store.allocate(64 * sizeof(Line), 64));
    store.checkpoint();
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> steps{0};
    std::vector<std::jthread> workers;
    workers.reserve(threads);
    for (unsigned t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        std::uint64_t count = 0;
        for (; !stop; ++count) {
          {
            const auto operation = store.operation();
            operation.touch(&lines[t], sizeof(Line));
            lines[t].value = count;
          }
          store.checkpoint();
        }
        steps += count;
      });
    const double begin = now_s();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    workers.clear();
    rate = static_cast<double>(steps) / (now_s() - begin);
  }
  context.remove(uri);
  return rate;
}

Measured group(Context& context, unsigned threads) {
  const int pairs = context.scale(7, 3);
  const double seconds = context.scale(1.0, 0.3);
  const Paired rates = paired(
      pairs, [&] { return steps_per_s(context, threads, seconds); },
      [&] { return steps_per_s(context, 1, seconds); });
  return {rates.ratio,
          {{"pairs", pairs}, {"together_per_s", rates.subject}, {"alone_per_s", rates.base}}};
}

// --- lines that make programs durable ------------------------------------------------------------

Measured marked_lines(const std::string& source) {
  const std::string path = PERDURA_SOURCES "/" + source;
  std::ifstream file(path);
  std::uint64_t count = 0, all = 0;
  for (std::string line; std::getline(file, line); ++all)
    if (line.ends_with("// D") || line.ends_with("/* D */")) ++count;
  if (count == 0) throw std::runtime_error(path + " has no line that is marked with a D");
  return {static_cast<double>(count), {{"source", source}, {"lines", all}}};
}

void run(Context& context) {
  const auto lines = [&](const char* key, double most, const char* source) {
    context.measure(key, "lines", Reach::at_most(most), [&] { return marked_lines(source); });
  };
  lines("lines_kv", 8, "apps/kv/main.cc");
  lines("lines_graph", 10, "examples/graph/graph.c");
  lines("lines_map", 4, "examples/orders/orders.cc");
  const auto against = [&](const char* key, Reach reach, const char* map, int every_ms,
                           const char* fsync) {
    context.measure(key, "ratio", reach, [&] {
      const Server ours = Server::kv(context, map, every_ms);
      const Server theirs = Server::redis(context, fsync);
      return compare(context, ours, theirs);
    });
  };
  against("always", Reach::at_least(2), "hash_map", 0, "always");
  against("always_map", Reach::at_least(1), "unordered_map", 0, "always");
  against("everysec", Reach::at_least(2.5), "hash_map", 64, "everysec");
  context.measure("memory", "ratio", Reach::at_least(0.9), [&] {
    const Server ours = Server::kv(context, "hash_map", 64);
    const Server theirs = Server::kv(context, "memory", 0);
    return compare(context, ours, theirs);
  });
  context.measure("group_4", "ratio", Reach::at_least(3), [&] { return group(context, 4); });
  context.measure("group_8", "ratio", Reach::at_least(5), [&] { return group(context, 8); });
  report_containers(context);
}

const Registration kThis("server", "a durable key-value server ÷ redis, and ÷ one in memory", run);

}  // namespace
}  // namespace perdura::bench
