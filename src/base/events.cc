#include "base/events.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/process.hpp"

namespace perdura {
namespace {

constexpr const char* kNames[] = {
    "checkpoint failed", "checkpoint late",  "medium slow",           "damage",
    "other tracker",     "unreported parts", "operations waited for", "shared objects",
    "outside operation", "drain failed"};
static_assert(std::size(kNames) == kEventKinds);

std::array<std::atomic<bool>, kEventKinds> said_in_process{};

/// A line of stderr, written at once so that those of several threads do not mix, and without
/// memory of the heap: mutators that stand still, or whom a fault has stopped, may be at its lock.
class StderrLine {
 public:
  StderrLine& add(std::string_view text) {
    const size_t length = std::min(text.size(), sizeof text_ - 1 - used_);
    std::copy_n(text.data(), length, text_ + used_);
    used_ += length;
    return *this;
  }
  StderrLine& add(u64 number) {
    char digits[20];
    char* at = digits + sizeof digits;
    do *--at = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    return add({at, static_cast<size_t>(digits + sizeof digits - at)});
  }
  void write() {
    text_[used_++] = '\n';
    const ssize_t written = ::write(STDERR_FILENO, text_, used_);
    (void)written;  // there is nobody to tell
  }

 private:
  char text_[4096];
  size_t used_ = 0;
};

}  // namespace

const char* name_of(EventKind kind) {
  const auto number = static_cast<size_t>(kind);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

Events& Events::nobody() {
  static constinit MadeOnce<Events> events;
  return events.get([] { return new Events; });
}

Events::~Events() {
  deliver();
  for (size_t kind = 0; kind < limits_.size(); ++kind)
    for (const Limit& limit : limits_[kind])
      if (const u64 left_out = limit.left_out.load(std::memory_order_relaxed); left_out != 0)
        StderrLine()
            .add("perdura: '")
            .add(store_)
            .add("': ")
            .add(left_out)
            .add(" more like the last that was said of: ")
            .add(kNames[kind])
            .write();
}

void Events::tell(EventKind kind, Code code, std::string_view message, Line line) noexcept {
  told_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  if (listener_) call(kind, code, message);
  else write(kind, code, message, line);
}

void Events::defer(EventKind kind, Code code, std::string_view message, Line line) noexcept {
  told_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  if (listener_) keep(kind, code, message);
  else write(kind, code, message, line);
}

bool Events::was_said(EventKind kind) {
  return said_in_process[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
}

void Events::write(EventKind kind, Code code, std::string_view message, Line line) noexcept {
  switch (line) {
    case Line::kNone:
      return;
    case Line::kLimited:
      return say(kind, code, message);
    case Line::kOnceAProcess:
      if (said_in_process[static_cast<size_t>(kind)].exchange(true, std::memory_order_relaxed))
        return;
      break;
    case Line::kAlways:
      break;
  }
  StderrLine().add("perdura: ").add(message).write();
}

// Of several threads that find the second over one says so.
void Events::say(EventKind kind, Code code, std::string_view message) noexcept {
  Limit& limit = limits_[static_cast<size_t>(kind)][static_cast<size_t>(code)];
  const u64 now = std::max<u64>(clock_(), 1);
  u64 said = limit.said_ns.load(std::memory_order_relaxed);
  const bool is_due = said == 0 || now - said >= kLineNs;
  if (!is_due || !limit.said_ns.compare_exchange_strong(said, now, std::memory_order_relaxed)) {
    limit.left_out.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const u64 left_out = limit.left_out.exchange(0, std::memory_order_relaxed);
  StderrLine line;
  line.add("perdura: ").add(message);
  if (left_out != 0) line.add(" (").add(left_out).add(" more of these)");
  line.write();
}

void Events::call(EventKind kind, Code code, std::string_view message) noexcept {
  const std::atomic<u64>* const version = version_.load(std::memory_order_acquire);
  const Event event{kind, code, store_, message,
                    version == nullptr ? 0 : version->load(std::memory_order_acquire)};
  try {
    listener_(event);
  } catch (const std::exception& error) {
    StderrLine()
        .add("perdura: Options::on_event threw: ")
        .add(error.what())
        .add("; it was told: ")
        .add(message)
        .write();
  } catch (...) {
    StderrLine().add("perdura: Options::on_event threw; it was told: ").add(message).write();
  }
}

void Events::post(EventKind kind, Code code, std::string_view message) noexcept {
  StderrLine().add("perdura: ").add(message).write();
  told_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  if (listener_) keep(kind, code, message);
}

void Events::keep(EventKind kind, Code code, std::string_view message) noexcept {
  for (Post& post : posts_) {
    u8 free = Post::kFree;
    if (!post.state.compare_exchange_strong(free, Post::kBeingWritten, std::memory_order_acquire))
      continue;
    post.kind = kind;
    post.code = code;
    post.length = std::min(message.size(), kMessageMax);
    std::copy_n(message.data(), post.length, post.text);
    post.state.store(Post::kReady, std::memory_order_release);
    return;
  }
  posts_left_out_.fetch_add(1, std::memory_order_relaxed);
}

void Events::deliver() noexcept {
  for (Post& post : posts_) {
    u8 ready = Post::kReady;
    if (!post.state.compare_exchange_strong(ready, Post::kBeingWritten, std::memory_order_acquire))
      continue;
    call(post.kind, post.code, {post.text, post.length});
    post.state.store(Post::kFree, std::memory_order_release);
  }
  const u64 left_out = posts_left_out_.exchange(0, std::memory_order_relaxed);
  if (left_out == 0) return;
  char text[160];
  const int length = std::snprintf(text, sizeof text,
                                   "%llu more events came at once and were left out; "
                                   "Store::damaged_pages names what is damaged",
                                   static_cast<unsigned long long>(left_out));
  call(EventKind::kDamage, Code::kCorrupt, {text, static_cast<size_t>(length)});
}

}  // namespace perdura
