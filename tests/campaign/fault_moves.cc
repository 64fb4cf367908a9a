// A scenario of fault_test.cc: objects that move out to an overflow store and come home, since two
// of five have space.
#include <array>
#include <filesystem>
#include <optional>

#include <perdura/objects.hpp>

#include "campaign/fault_session.hpp"

namespace perdura::test {

/// Some pages, each word of which is of the last call that stored there.
struct Roaming {
  static constexpr std::uint64_t kWords = 1200;
  std::uint64_t count;
  std::uint64_t words[kWords];
  void step() noexcept {
    ++count;
    words[count * 7 % kWords] = mix(count);
  }
  std::uint64_t next() noexcept {
    step();
    return count;
  }
  std::uint64_t steps() const noexcept { return count; }
  std::uint64_t is_whole() const noexcept {
    std::uint64_t stored = 0;
    for (const std::uint64_t word : words) stored += word != 0 ? 1 : 0;
    if (stored != std::min(count, kWords)) return 0;
    for (std::uint64_t back = 0; back < std::min(count, kWords); ++back)
      if (words[(count - back) * 7 % kWords] != mix(count - back)) return 0;
    return 1;
  }
};
static_assert(Roaming::kWords % 7 != 0, "each call has a word of its own");

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Roaming>
    : perdura::MethodList<perdura::Instant<&perdura::test::Roaming::next>,
                          perdura::Deferrable<&perdura::test::Roaming::step>> {};

namespace perdura::test {
namespace {

constexpr u64 kObjects = 5;
constexpr u64 kLogBytes = 4096;
constexpr u64 kEachBytes = 2 * 3 * kPageBytes + kLogBytes;
static_assert(sizeof(Roaming) > 2 * kPageBytes && sizeof(Roaming) <= 3 * kPageBytes);

/// What the program was told of an object.
struct Told {
  u64 answered = 0;
  u64 called = 0;
};

class Pool {
 public:
  explicit Pool(Session& session)
      : session_(session),
        uri_(session.uri().substr(0, session.uri().find(':')) + ":" + session.path() + ".objects"),
        overflow_("file:" + session.path() + ".overflow?io_uring=0") {
    // An earlier run may have left them there.
    for (const char* each : {".objects", ".overflow"})
      std::filesystem::remove(session.path() + each);
  }

  // A third of the calls of an object have a deferred one before them, in which it comes home.
  void call_at_random(u64 round) {
    const ObjectsOptions options = this->options();
    Objects objects = in_library([&] { return Objects::open(uri_, options); });
    std::array<std::optional<perdura::Object<Roaming>>, kObjects> all;
    for (u64 i = 0; i < 6 * kObjects; ++i) {
      const u64 at = mix(round * 1000 + i) % kObjects;
      session_.attempt([&] {
        if (!all[at]) {
          const std::string name = this->name(at);
          all[at].emplace(in_library([&] { return objects.object<Roaming>(name, of_object()); }));
        }
        Told& told = told_[at];
        if (i % 3 == 0) {
          ++told.called;
          in_library([&] { all[at]->defer<&Roaming::step>(); });
        }
        ++told.called;
        const u64 answer = in_library([&] { return all[at]->call<&Roaming::next>(); });
        if (answer <= told.answered) session_.problem("a call that was answered is lost");
        told.answered = answer;
        if (answer > told.called) session_.problem("more calls than there were");
      });
    }
    for (auto& each : all) each.reset();
    in_library([&] { objects.close(); });
  }

  // Without faults: what was told is there, and nothing else than what was called.
  void check() {
    Objects objects = Objects::open(uri_, options());
    for (u64 at = 0; at < kObjects; ++at) {
      perdura::Object<Roaming> object = objects.object<Roaming>(name(at), of_object());
      const u64 count = object.read<&Roaming::steps>();
      if (count < told_[at].answered) session_.problem("a call that was answered is lost");
      if (count > told_[at].called) session_.problem("a call was done that never was");
      if (object.read<&Roaming::is_whole>() == 0) session_.problem("an object is not whole");
      if (object.call<&Roaming::next>() != count + 1)
        session_.problem("a call is not the next one");
      told_[at] = {.answered = count + 1, .called = count + 1};
    }
    objects.close();
  }

 private:
  static std::string name(u64 at) { return "object " + std::to_string(at); }
  ObjectsOptions options() const {
    return {.bytes_max = 2 * kEachBytes + kObjects * kPageBytes, .overflow = overflow_};
  }
  static ObjectOptions of_object() {
    ObjectOptions options;
    options.log_bytes = kLogBytes;
    options.checkpoint_calls = 4;
    return options;
  }

  Session& session_;
  const std::string uri_;
  const std::string overflow_;
  std::array<Told, kObjects> told_{};
};

}  // namespace

// A move that fails is none: whatever fails, each object is where it was or where it went, with all
// that was answered.
void move_objects(Session& session) {
  Pool pool(session);
  for (u64 round = 0; round < 2; ++round) session.attempt([&] { pool.call_at_random(round); });
  disarm_calls();
  pool.check();
  pool.check();
}

}  // namespace perdura::test
