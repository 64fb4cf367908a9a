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
constexpr size_t kValueBytesMax = kMiB;        // a block has 4 KiB, a lock as many addresses
constexpr size_t kUnreadBytesMax = 64 * kMiB;  // a million refusals
constexpr size_t kListLinesMax = 1 << 20;      // 65,535 connections have some 400,000
constexpr std::string_view kLineEnd = "\r\n";

std::string message_of(int error_number) { return std::generic_category().message(error_number); }

std::string address_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  char host[NI_MAXHOST] = "";  // with the name of a link
  char port[sizeof "65535"] = "";
  auto* const any = reinterpret_cast<sockaddr*>(&storage);
  (void)::getsockname(fd, any, &length);
  (void)::getnameinfo(any, length, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
  return plain_address(std::string(host) + ":" + port);
}

u64 end_of(int timeout_ms) { return now_ns() + static_cast<u64>(timeout_ms) * 1'000'000; }

// As poll(): 0 when the time is over, however many signals come meanwhile.
int wait_until(u64 end_ns, int fd, short events) {
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
  const int ready = wait_until(end_of(timeout_ms), fd, POLLOUT);
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

std::string plain_address(std::string_view listed) {
  std::string address(listed);
  // "[fe80::1%eth0]:40312": a server does not say which link, nor do we. An address that is one of
  // two links' is taken for both, and so for a connection that is still there.
  if (const size_t link = address.find('%'); link != std::string::npos)
    address.erase(link, address.find_last_of("]:") - link);
  std::erase(address, '[');
  std::erase(address, ']');
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped)) address.erase(0, kMapped.size());
  return address;
}

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

u64 MemcachedConnection::deadline() const { return end_of(timeout_ms_); }

Status MemcachedConnection::wait(short events, u64 end_ns) {
  const int ready = wait_until(end_ns, fd_.get(), events);
  if (ready > 0) return {};
  if (ready == 0) return too_late();
  return fail("cannot be waited for: " + message_of(errno));
}

Failure MemcachedConnection::too_late() {
  return fail(fmt::format("did not answer for {} ms (timeout_ms)", timeout_ms_));
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
  if (buffered() > kUnreadBytesMax) return fail("answers more than was asked");
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const ssize_t got = ::recv(fd, buffer_.data() + end_, buffer_.size() - end_, MSG_DONTWAIT);
  if (got == 0) return fail("closed the connection");
  if (got < 0) return errno == EAGAIN ? Result<bool>(false) : lost();
  end_ += static_cast<size_t>(got);
  return true;
}

Status MemcachedConnection::fill(u64 end_ns) {
  for (;;) {
    PERDURA_ASSIGN(const bool received, take_in());
    if (received) return {};
    PERDURA_TRY(wait(POLLIN, end_ns));
  }
}

Status MemcachedConnection::send(std::span<iovec> pieces) {
  const int fd = fd_.get();
  if (fd < 0) return left_behind();
  if (broken_) return given_up();
  const MemcachedExchange exchange(*this);
  const u64 end_ns = deadline();
  while (!pieces.empty()) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = std::min(pieces.size(), kPiecesMax);
    const ssize_t sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) {
      PERDURA_TRY(wait(POLLIN | POLLOUT, end_ns));
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

Result<MemcachedReply> MemcachedConnection::receive(u64 end_ns) {
  if (broken_ && !forked()) return given_up();
  const MemcachedExchange exchange(*this);
  // After the deadline what is there is looked at once more: this process may have been stopped.
  bool late = false;
  const auto fill_in_time = [&]() -> Status {
    if (late) return too_late();
    late = now_ns() >= end_ns;
    return fill(end_ns);
  };
  size_t line_bytes = 0;
  for (;;) {
    const std::string_view unread(buffer_.data() + begin_, buffered());
    line_bytes = unread.substr(0, kLineBytesMax).find(kLineEnd);
    if (line_bytes != std::string_view::npos) break;
    if (unread.size() >= kLineBytesMax) return nonsense({unread, {}});
    PERDURA_TRY(fill_in_time());
  }
  const auto at = [&](size_t offset) { return buffer_.data() + begin_ + offset; };
  MemcachedReply reply{{at(0), line_bytes}, {}};
  size_t reply_bytes = line_bytes + kLineEnd.size();
  if (reply.is("VA ")) {
    u32 value_bytes = 0;
    if (std::from_chars(at(3), at(line_bytes), value_bytes).ec != std::errc{} ||
        value_bytes > kValueBytesMax)
      return nonsense(reply);
    const size_t value_at = reply_bytes;
    reply_bytes += value_bytes + kLineEnd.size();
    while (buffered() < reply_bytes) PERDURA_TRY(fill_in_time());
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

Status MemcachedConnection::list_to_the_end(std::string_view request, const TakeListed& take) {
  const MemcachedExchange exchange(*this);
  const u64 end_ns = deadline();
  PERDURA_TRY(send(request));
  for (size_t lines = 0; lines < kListLinesMax; ++lines) {
    PERDURA_ASSIGN(const MemcachedReply reply, receive(end_ns));
    if (reply.line == "END") return {};
    constexpr std::string_view kStat = "STAT ";
    if (!reply.is(kStat)) return nonsense(reply);
    const std::string_view item = reply.line.substr(kStat.size());
    const size_t name_bytes = std::min(item.find(' '), item.size());
    take(item.substr(0, name_bytes), item.substr(std::min(name_bytes + 1, item.size())));
  }
  return fail("lists more than any server has");
}

// A want of memory while a list is taken fails the call, not the connection and with it the medium:
// what is still to come of the list is read first.
Status MemcachedConnection::list(std::string_view request, const TakeListed& take) {
  std::exception_ptr thrown;
  PERDURA_TRY(list_to_the_end(request, [&](std::string_view name, std::string_view value) {
    try {
      if (!thrown) take(name, value);
    } catch (...) {
      thrown = std::current_exception();
    }
  }));
  if (thrown) std::rethrow_exception(thrown);
  return {};
}

// "STAT 27:addr tcp:127.0.0.1:40312", among others.
Result<std::vector<std::string>> list_connections(MemcachedConnection& connection) {
  std::vector<std::string> addresses;
  const auto take = [&](std::string_view name, std::string_view value) {
    const size_t colon = value.find(':');
    if (name.ends_with(":addr") && value.starts_with("tcp") && colon != std::string_view::npos)
      addresses.push_back(plain_address(value.substr(colon + 1)));
  };
  PERDURA_TRY(connection.list("stats conns\r\n", take));
  return addresses;
}

}  // namespace perdura::media
