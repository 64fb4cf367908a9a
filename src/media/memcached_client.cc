#include "media/memcached_client.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "base/clock.hpp"

namespace perdura::media {
namespace {

constexpr size_t kPiecesMax = 1024;  // of one sendmsg
constexpr size_t kLineBytesMax = 8 * kKiB;
constexpr std::string_view kLineEnd = "\r\n";

std::string message_of(int error_number) { return std::generic_category().message(error_number); }

// A server for IPv6 lists addresses in brackets, and those of IPv4 as mapped ones.
std::string plain_address(std::string_view listed) {
  std::string address(listed);
  std::erase(address, '[');
  std::erase(address, ']');
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped)) address.erase(0, kMapped.size());
  return address;
}

std::string address_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  char host[INET6_ADDRSTRLEN] = "";
  char port[sizeof "65535"] = "";
  auto* const any = reinterpret_cast<sockaddr*>(&storage);
  (void)::getsockname(fd, any, &length);
  (void)::getnameinfo(any, length, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
  return plain_address(std::string(host) + ":" + port);
}

// As poll(): 0 when the time is over, however many signals come meanwhile.
int wait_for(int fd, short events, int timeout_ms) {
  const u64 end_ns = now_ns() + static_cast<u64>(timeout_ms) * 1'000'000;
  for (;;) {
    pollfd waiting{.fd = fd, .events = events, .revents = 0};
    const u64 left_ns = end_ns - std::min(end_ns, now_ns());
    const int ready = ::poll(&waiting, 1, static_cast<int>(left_ns / 1'000'000));
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

// Returns an error number.
int connect_within(int fd, const addrinfo& address, int timeout_ms) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) return errno;
  const int ready = wait_for(fd, POLLOUT, timeout_ms);
  if (ready != 1) return ready == 0 ? ETIMEDOUT : errno;
  int error_number = 0;
  socklen_t length = sizeof error_number;
  (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &length);
  return error_number;
}

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

Result<UniqueFd> connect_to(const MemcachedServer& server) {
  const auto failed = [&](const std::string& why) {
    return Failure{Code::kIo, "cannot connect to the memcached server " + server.name() + ": " +
                                  why + server.remedy()};
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  AddressList found;
  const int looked_up =
      ::getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found.first);
  if (looked_up != 0) return failed(::gai_strerror(looked_up));
  int error_number = 0;
  for (const addrinfo* each = found.first; each != nullptr; each = each->ai_next) {
    UniqueFd fd(
        ::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, each->ai_protocol));
    error_number = fd ? connect_within(fd.get(), *each, server.timeout_ms) : errno;
    if (error_number != 0) continue;
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
  }
  return failed(message_of(error_number));
}

}  // namespace

std::optional<u64> MemcachedReply::number(char flag) const {
  const size_t at = line.find(std::string{' ', flag});
  if (at == std::string_view::npos) return std::nullopt;
  u64 number = 0;
  const char* const digits = line.data() + at + 2;
  const auto parsed = std::from_chars(digits, line.data() + line.size(), number);
  return parsed.ec == std::errc{} ? std::optional(number) : std::nullopt;
}

Result<std::unique_ptr<MemcachedConnection>> MemcachedConnection::open(
    const MemcachedServer& server) {
  PERDURA_ASSIGN(UniqueFd fd, connect_to(server));
  std::string address = address_of(fd.get());
  std::unique_ptr<MemcachedConnection> connection(
      new MemcachedConnection(server, std::move(fd), std::move(address)));
  PERDURA_ASSIGN(const MemcachedReply reply, connection->ask("mn\r\n"));
  if (reply.line == "ERROR")
    return Failure{Code::kUnsupported, "the server " + server.name() +
                                           " does not know the meta protocol; memcached 1.6 or "
                                           "newer is needed"};
  if (!reply.is("MN")) return connection->nonsense(reply);
  return connection;
}

MemcachedConnection::~MemcachedConnection() {
  if (fd_) ::shutdown(fd_.get(), SHUT_RDWR);
}

Failure MemcachedConnection::fail(const std::string& what) {
  broken_ = true;
  return Failure{Code::kIo, "the memcached server " + server_ + " " + what + remedy_};
}

Failure MemcachedConnection::given_up() {
  return fail("was left in the middle of an exchange by an earlier failure");
}

Failure MemcachedConnection::lost() { return fail("is lost: " + message_of(errno)); }

Failure MemcachedConnection::left_behind() {
  broken_ = true;
  return Failure{Code::kForked, "the connection to the memcached server " + server_ +
                                    " belongs to the parent process"};
}

Failure MemcachedConnection::refusal(const MemcachedReply& reply, const std::string& what) const {
  const std::string words =
      what + ": the memcached server " + server_ + " says '" + std::string(reply.line) + "'";
  if (reply.line.find("out of memory") != std::string_view::npos)
    return Failure{Code::kNoSpace, words + "; start it with more memory (-m)"};
  if (reply.line.find("too large") != std::string_view::npos)
    return Failure{Code::kUnsupported, words + "; start it with -I 16k or more"};
  return Failure{Code::kIo, words};
}

Failure MemcachedConnection::nonsense(const MemcachedReply& reply) {
  return fail("answers what was not asked: '" + std::string(reply.line.substr(0, 80)) + "'");
}

Status MemcachedConnection::wait(short events) {
  const int ready = wait_for(fd_.get(), events, timeout_ms_);
  if (ready > 0) return {};
  return fail(ready == 0 ? fmt::format("did not answer for {} ms (timeout_ms)", timeout_ms_)
                         : "cannot be waited for: " + message_of(errno));
}

// Receive what is there, or nothing: then the result is false.
Result<bool> MemcachedConnection::take_in() {
  const int fd = fd_.get();
  if (fd < 0) return left_behind();
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == buffer_.size() && begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
    end_ = buffered();
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const ssize_t got = ::recv(fd, buffer_.data() + end_, buffer_.size() - end_, MSG_DONTWAIT);
  if (got == 0) return fail("closed the connection");
  if (got < 0) return errno == EAGAIN ? Result<bool>(false) : lost();
  end_ += static_cast<size_t>(got);
  return true;
}

Status MemcachedConnection::fill() {
  for (;;) {
    PERDURA_ASSIGN(const bool received, take_in());
    if (received) return {};
    PERDURA_TRY(wait(POLLIN));
  }
}

Status MemcachedConnection::send(std::span<iovec> pieces) {
  const int fd = fd_.get();
  if (fd < 0) return left_behind();
  if (broken_) return given_up();
  const MemcachedExchange exchange(*this);
  while (!pieces.empty()) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = std::min(pieces.size(), kPiecesMax);
    const ssize_t sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      PERDURA_TRY(wait(POLLIN | POLLOUT));
      PERDURA_TRY(take_in());
      continue;
    }
    if (sent < 0) return lost();
    auto left = static_cast<size_t>(sent);
    while (!pieces.empty() && left >= pieces.front().iov_len) {
      left -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (left == 0) continue;
    pieces.front().iov_base = static_cast<char*>(pieces.front().iov_base) + left;
    pieces.front().iov_len -= left;
  }
  return {};
}

Status MemcachedConnection::send(std::string_view request) {
  iovec piece{const_cast<char*>(request.data()), request.size()};
  return send({&piece, 1});
}

Result<MemcachedReply> MemcachedConnection::receive() {
  if (broken_ && !forked()) return given_up();
  const MemcachedExchange exchange(*this);
  size_t line_bytes = 0;
  for (;;) {
    const std::string_view unread(buffer_.data() + begin_, buffered());
    line_bytes = unread.substr(0, kLineBytesMax).find(kLineEnd);
    if (line_bytes != std::string_view::npos) break;
    if (unread.size() >= kLineBytesMax) return nonsense({unread, {}});
    PERDURA_TRY(fill());
  }
  const auto at = [&](size_t offset) { return buffer_.data() + begin_ + offset; };
  MemcachedReply reply{{at(0), line_bytes}, {}};
  size_t reply_bytes = line_bytes + kLineEnd.size();
  if (reply.is("VA ")) {
    u32 value_bytes = 0;
    if (std::from_chars(at(3), at(line_bytes), value_bytes).ec != std::errc{})
      return nonsense(reply);
    const size_t value_at = reply_bytes;
    reply_bytes += value_bytes + kLineEnd.size();
    while (buffered() < reply_bytes) PERDURA_TRY(fill());
    reply = {{at(0), line_bytes}, {at(value_at), value_bytes}};
    if (std::string_view(at(value_at + value_bytes), kLineEnd.size()) != kLineEnd)
      return nonsense(reply);
  }
  begin_ += reply_bytes;
  return reply;
}

Result<MemcachedReply> MemcachedConnection::ask(std::string_view request) {
  PERDURA_TRY(send(request));
  return receive();
}

// Lines "STAT 27:addr tcp:127.0.0.1:40312", among others, then "END".
Result<std::vector<std::string>> list_connections(MemcachedConnection& connection) {
  const MemcachedExchange exchange(connection);
  PERDURA_TRY(connection.send("stats conns\r\n"));
  std::vector<std::string> addresses;
  for (;;) {
    PERDURA_ASSIGN(const MemcachedReply reply, connection.receive());
    if (reply.line == "END") return addresses;
    if (!reply.is("STAT ")) return connection.nonsense(reply);
    constexpr std::string_view kAddress = ":addr tcp";
    const size_t at = reply.line.find(kAddress);
    const size_t colon = reply.line.find(':', at + kAddress.size());
    if (at != std::string_view::npos && colon != std::string_view::npos)
      addresses.push_back(plain_address(reply.line.substr(colon + 1)));
  }
}

}  // namespace perdura::media
