// Scenarios of fault_test.cc: objects whose calls are logged, in a store of their own.
#include <filesystem>
#include <set>
#include <span>

#include <perdura/objects.hpp>

#include "campaign/fault_session.hpp"

namespace perdura::test {

/// Whole where each of its words is of the last call that stored there.
struct Counted {
  static constexpr std::uint64_t kWords = 900;
  std::uint64_t count;
  std::uint64_t lanes[4];
  std::uint64_t words[kWords];
  void step(std::uint32_t lane) noexcept {
    ++count;
    words[count % kWords] = mix(count);
    lanes[lane] += 1;
  }
  std::uint64_t next() noexcept {
    step(0);
    return count;
  }
  void add(std::uint32_t lane, std::uint64_t times) noexcept { lanes[lane] += times; }
  std::uint64_t is_whole() const noexcept {
    for (std::uint64_t i = 0; i < kWords; ++i) {
      const std::uint64_t back = (count % kWords + kWords - i) % kWords;  // of the last one there
      if (words[i] != (back < count ? mix(count - back) : 0)) return 0;
    }
    return 1;
  }
  std::uint64_t steps() const noexcept { return count; }
  static Domain of(std::uint32_t lane) noexcept { return Domain(lane); }
  static bool join(std::tuple<std::uint32_t, std::uint64_t>& first,
                   const std::tuple<std::uint32_t, std::uint64_t>& next) noexcept {
    if (std::get<0>(first) != std::get<0>(next)) return false;
    std::get<1>(first) += std::get<1>(next);
    return true;
  }
};

/// Whole where each word that it has room for is its place's.
struct Grown {
  static constexpr bool kIsFlexible = true;
  std::uint64_t count;
  std::uint64_t next() noexcept {
    std::uint64_t at = 0;
    for (std::uint64_t& word : object_rest<std::uint64_t>(this)) word = mix(at++);
    return ++count;
  }
  std::uint64_t steps() const noexcept { return count; }
  std::uint64_t known() const noexcept {
    std::uint64_t words = 0;
    for (const std::uint64_t word : object_rest<std::uint64_t>(this)) {
      if (word != mix(words)) break;
      ++words;
    }
    return words;
  }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Grown>
    : perdura::MethodList<perdura::Instant<&perdura::test::Grown::next>> {};
template <>
struct perdura::Methods<perdura::test::Counted>
    : perdura::MethodList<
          perdura::Instant<&perdura::test::Counted::next>,
          perdura::Deferrable<&perdura::test::Counted::step>,
          perdura::Deferrable<&perdura::test::Counted::add, &perdura::test::Counted::of,
                              &perdura::test::Counted::join, perdura::kCommutes>> {};

namespace perdura::test {
namespace {

ObjectOptions object_options(ObjectHistory history,
                             ObjectDurability durability = ObjectDurability::kInstants) {
  ObjectOptions options;
  options.log_bytes = 8192;
  options.checkpoint_calls = 10;
  options.history = history;
  options.callers = 4;
  options.archive_bytes = 1 << 16;
  options.durability = durability;
  return options;
}

/// What the program was told of an object.
struct Known {
  const char* name;
  ObjectOptions options;
  u64 told = 0;
  u64 called = 0;

  bool is_relaxed() const { return options.durability == ObjectDurability::kRelaxed; }
};

std::string uri_of_objects(const Session& session) {
  // An earlier run may have left one there.
  std::filesystem::remove(session.path() + ".objects");
  return session.uri().substr(0, session.uri().find(':')) + ":" + session.path() + ".objects";
}

void call(Session& session, Objects& objects, Known& known) {
  perdura::Object<Counted> object =
      in_library([&] { return objects.object<Counted>(known.name, known.options); });
  for (u64 i = 0; i < 8; ++i)
    session.attempt([&] {
      in_library([&] {
        for (std::uint32_t lane = 0; lane < 4; ++lane)
          object.defer<&Counted::add>(lane, std::uint64_t{1});
      });
      ++known.called;
      in_library([&] { object.defer<&Counted::step>(std::uint32_t{1}); });
      ++known.called;
      const u64 answer = in_library([&] { return object.call<&Counted::next>(); });
      if (answer > known.called) session.problem("more calls than there were");
      if (!known.is_relaxed()) known.told = answer;
      if (i == 5) in_library([&] { object.checkpoint(); });
      if (i == 3) in_library([&] { object.sync(); });
      if (i == 3 || i == 5) known.told = answer;
    });
}

// What was told is there, and nothing else than what was called. (The second round repeats the
// first one, so where all calls are kept it is answered what that was.)
void check(Session& session, const std::string& uri, const Known& known) {
  Objects objects = Objects::open(uri);
  const perdura::Object<Counted> object = objects.object<Counted>(known.name, known.options);
  const u64 count = object.read<&Counted::steps>();
  if (count < known.told) session.problem("a call that was answered is lost");
  if (count > known.called) session.problem("a call was done that never was");
  if (object.read<&Counted::is_whole>() == 0) session.problem("an object is not whole");
}

void call_all(Session& session, const ObjectsOptions& options, std::span<Known> known) {
  const std::string uri = uri_of_objects(session);
  bool may_be_there = false;
  for (u64 round = 0; round < 2; ++round)
    session.attempt([&] {
      Objects objects = in_library([&] { return Objects::open(uri, options); });
      for (Known& each : known) session.attempt([&] { call(session, objects, each); });
      session.attempt([&] {
        in_library([&] {
          may_be_there = true;
          objects.object<Counted>("other", object_options(ObjectHistory::kNone))
              .call<&Counted::next>();
          objects.remove("other");
          may_be_there = false;
        });
      });
      in_library([&] { objects.close(); });
    });
  disarm_calls();
  for (const Known& each : known) check(session, uri, each);
  if (!may_be_there && Objects::open(uri).list().size() != known.size())
    session.problem("an object that was removed is there");
}

}  // namespace

// Each call is done and durable, or fails; then no other one succeeds until objects are opened
// again.
void call_objects(Session& session) {
  Known known[] = {{"plain", object_options(ObjectHistory::kNone)},
                   {"callers", object_options(ObjectHistory::kLast)},
                   {"all", object_options(ObjectHistory::kAll)}};
  call_all(session, {}, known);
}

// The same of each durability, where processes may share the objects.
void call_objects_otherwise(Session& session) {
  Known known[] = {{"each", object_options(ObjectHistory::kNone, ObjectDurability::kEach)},
                   {"two steps", object_options(ObjectHistory::kLast, ObjectDurability::kTwoSteps)},
                   {"relaxed", object_options(ObjectHistory::kNone, ObjectDurability::kRelaxed)}};
  call_all(session, {.shared = true}, known);
}

// An object has the size that it was given last, or one that the program asked for since, and all
// that was called.
void resize_objects(Session& session) {
  const std::string uri = uri_of_objects(session);
  const ObjectsOptions there = {.wear_moves = 3};
  constexpr u64 kWords[] = {700, 20, 1500, 1499, 3000};
  ObjectOptions made = object_options(ObjectHistory::kLast);
  made.bytes = sizeof(Grown) + 100 * sizeof(u64);
  u64 told = 0, called = 0;
  std::set<u64> sizes{made.bytes};
  for (u64 round = 0; round < 2; ++round)
    session.attempt([&] {
      Objects objects = in_library([&] { return Objects::open(uri, there); });
      perdura::Object<Grown> object =
          in_library([&] { return objects.object<Grown>("grown", made); });
      for (const u64 words : kWords)
        session.attempt([&] {
          const u64 bytes = sizeof(Grown) + words * sizeof(u64);
          sizes.insert(bytes);
          in_library([&] { object.resize(bytes); });
          sizes = {bytes};
          ++called;
          told = in_library([&] { return object.call<&Grown::next>(); });
          if (told > called) session.problem("more calls than there were");
        });
      in_library([&] { objects.close(); });
    });
  disarm_calls();
  Objects objects = Objects::open(uri, there);
  perdura::Object<Grown> object = objects.object<Grown>("grown", made);
  if (object.read<&Grown::steps>() < told) session.problem("a call that was answered is lost");
  if (!sizes.contains(object.bytes())) session.problem("an object has a size that it never had");
  const u64 words = (object.bytes() - sizeof(Grown)) / sizeof(u64);
  object.call<&Grown::next>();
  if (object.read<&Grown::known>() != words) session.problem("an object is not whole");
  objects.close();
}

}  // namespace perdura::test
