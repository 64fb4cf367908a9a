// Processes that have an object open at once, each of which does what it is told.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <perdura/objects.hpp>

#include "base/bits.hpp"
#include "support/process.hpp"

namespace perdura::test {

/// Declared before those that share a store: when they have gone, or were killed, what they leave
/// of their memory goes as well.
class NothingLeft {
 public:
  explicit NothingLeft(std::string uri) : uri_(std::move(uri)) {}
  ~NothingLeft() {
    try {
      Objects::open(uri_, {.create = false});
    } catch (const Error&) {
    }
  }
  NothingLeft(const NothingLeft&) = delete;

 private:
  const std::string uri_;
};

/// What all processes of a test see, at one address.
struct Board {
  std::atomic<u64> inside{0};        ///< a method of this process has begun, and waits
  std::atomic<u64> goes_on{0};       ///< until this is set
  std::atomic<u64> dies_joining{0};  ///< a process
  std::atomic<u64> noted{0};         ///< by methods that run
};
inline Board& board() {
  static auto* const made = new (::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board;
  return *made;
}

/// After n calls `mixed` is one value: who finds another one finds a state that is torn.
struct Tally {
  u64 count;
  u64 first[100];
  u64 last[100];
  u64 notes[4];

  u64 next() noexcept {
    ++count;
    for (u64& each : first) each = count;
    for (u64& each : last) each = count;
    return count;
  }
  /// In process `pid` it stands in the middle until it may go on.
  u64 next_in(u64 pid) noexcept {
    ++count;
    for (u64& each : first) each = count;
    if (pid == static_cast<u64>(::getpid())) {
      board().inside = pid;
      while (board().goes_on == 0) ::usleep(100);
    }
    for (u64& each : last) each = count;
    return count;
  }
  void add(u64 calls) noexcept {
    for (u64 i = 0; i < calls; ++i) next();
  }
  void note(std::uint32_t what, u64 times) noexcept { notes[what % 4] += times; }
  void tell(u64 number) noexcept {
    next();
    board().noted = number;
  }
  bool is_whole() const noexcept {
    for (u64 i = 0; i < 100; ++i)
      if (first[i] != count || last[i] != count) return false;
    return true;
  }
  Tally all() const noexcept { return *this; }

  static Domain of(std::uint32_t what) noexcept { return Domain(static_cast<int>(what)); }
  static bool join(std::tuple<std::uint32_t, u64>& into,
                   const std::tuple<std::uint32_t, u64>& next) noexcept {
    if (std::get<0>(into) != std::get<0>(next)) return false;
    std::get<1>(into) += std::get<1>(next);
    if (board().dies_joining == static_cast<u64>(::getpid())) ::kill(::getpid(), SIGKILL);
    return true;
  }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Tally>
    : perdura::MethodList<
          perdura::Instant<&perdura::test::Tally::next>,
          perdura::Instant<&perdura::test::Tally::next_in>,
          perdura::Deferrable<&perdura::test::Tally::add>,
          perdura::Deferrable<&perdura::test::Tally::tell>,
          perdura::Deferrable<&perdura::test::Tally::note, &perdura::test::Tally::of,
                              &perdura::test::Tally::join, perdura::kCommutes>> {};

namespace perdura::test {

enum class Order : u64 {
  kOpen,
  kNext,
  kNextIn,
  kAdd,
  kTell,
  kNote,
  kLook,
  kSync,
  kLetGo,  ///< of its Object
  kHave,   ///< one again
  kRemove,
  kClose
};

struct Told {
  u64 value = 0;
  Tally tally{};
  int code = 0;  ///< of the Error; 0: none
  char why[400]{};
};

/// One that opens "tally" of a store, shared or not, when it is told to.
class Fellow {
 public:
  Fellow(const std::string& uri, const ObjectOptions& options, bool shared = true)
      : process_([=](ToldProcess::Ends ends) { return live(ends, uri, options, shared); }) {}

  pid_t pid() const { return process_.pid(); }
  Told ask(Order order, u64 argument = 0) {
    tell(order, argument);
    return answer();
  }
  void tell(Order order, u64 argument = 0) {
    process_.order(static_cast<u64>(order) | argument << kOrderBits);
  }
  Told answer() {
    Told told;
    if (!process_.get(told)) std::snprintf(told.why, sizeof told.why, "it has died");
    return told;
  }
  std::string kill() { return process_.kill(); }
  /// It has killed itself, or ended: what was wrong.
  std::string wait() { return process_.wait(); }

 private:
  struct Opened {
    Objects objects;
    std::optional<Object<Tally>> tally;
  };

  static constexpr int kOrderBits = 4;

  static std::string live(ToldProcess::Ends ends, const std::string& uri,
                          const ObjectOptions& options, bool shared) {
    std::optional<Opened> opened;
    u64 told_to = 0;
    while (::read(ends.orders, &told_to, sizeof told_to) == sizeof told_to) {
      const auto order = static_cast<Order>(told_to % (1 << kOrderBits));
      Told told;
      try {
        if (order == Order::kOpen) {
          ObjectsOptions how;
          how.shared = shared;
          opened.emplace(Opened{Objects::open(uri, how), {}});
          opened->tally.emplace(opened->objects.object<Tally>("tally", options));
        } else {
          obey(*opened, options, order, told_to >> kOrderBits, told);
        }
      } catch (const Error& error) {
        told.code = static_cast<int>(error.code());
        std::snprintf(told.why, sizeof told.why, "%s", error.what());
      }
      if (::write(ends.replies, &told, sizeof told) != sizeof told) return "nobody listens";
    }
    return "";
  }
  static void obey(Opened& opened, const ObjectOptions& options, Order order, u64 argument,
                   Told& told) {
    switch (order) {
      case Order::kOpen:
        break;
      case Order::kNext:
        for (u64 i = 0; i <= argument; ++i) told.value = opened.tally->call<&Tally::next>();
        break;
      case Order::kNextIn:
        told.value = opened.tally->call<&Tally::next_in>(argument);
        break;
      case Order::kAdd:
        opened.tally->defer<&Tally::add>(argument);
        break;
      case Order::kTell:
        opened.tally->defer<&Tally::tell>(argument);
        break;
      case Order::kNote:
        opened.tally->defer<&Tally::note>(static_cast<std::uint32_t>(argument), u64{1});
        break;
      case Order::kLook:
        told.tally = opened.tally->read<&Tally::all>();
        told.value = told.tally.count;
        break;
      case Order::kSync:
        opened.tally->sync();
        break;
      case Order::kLetGo:
        opened.tally.reset();
        break;
      case Order::kHave:
        opened.tally.emplace(opened.objects.object<Tally>("tally", options));
        break;
      case Order::kRemove:
        opened.tally.reset();
        opened.objects.remove("tally");
        break;
      case Order::kClose:
        opened.objects.close();
        break;
    }
  }

  ToldProcess process_;
};

}  // namespace perdura::test
