// Goal: whatever a program does with its objects, with whichever options, they are what a model in
// ordinary memory says, call by call; opened again in order they are as they were, and after the
// death of the process a prefix of their calls, which has each that was answered. Those that keep
// all calls answer what is called again.
// Method: 10,000 histories drawn from a seed (PERDURA_OBJECT_HISTORIES changes how many, a slice
// draws fewer; PERDURA_SEED repeats a run), of several objects and sessions each, one after the
// other in stores of either medium. What the process has in memory is dropped where it dies.
// Copies of objects are damaged between sessions.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "logged_objects.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"

namespace perdura::proof {
namespace {

constexpr u64 kStoresOf = 25;  // histories

class History {
 public:
  History(std::string uri, u64 seed)
      : uri_(std::move(uri)), random_(seed), objects_([this] { return now_; }) {}

  /// Throws where something is not as it has to be.
  void run() {
    in_order_ = draw(4) != 0;
    for (u64 sessions = 1 + draw(5); sessions != 0; --sessions) {
      objects_.open(uri_, {}, {}, {});
      for (u64 actions = draw(12); actions != 0; --actions) act();
      end_session(draw(2) == 0);
    }
    // Nothing is left for the next history.
    objects_.open(uri_, {}, {}, {});
    for (const std::string& name : there_) {
      (void)object(name);
      objects_.remove(name);
    }
    end_session(true);
  }

 private:
  using Handle = LoggedObjects::Handle;

  u64 draw(u64 below) { return random_() % below; }
  u32 lane() { return static_cast<u32>(draw(kLanes)); }

  ObjectOptions options() {
    constexpr u64 kCheckpointCalls[] = {1, 3, 10, 1000, ~u64{0}};
    constexpr u32 kServers[] = {0, 1, 2, 64};
    constexpr u32 kCallers[] = {4, 16};
    constexpr ObjectHistory kHistories[] = {ObjectHistory::kNone, ObjectHistory::kNone,
                                            ObjectHistory::kLast, ObjectHistory::kAll};
    ObjectOptions options;
    // On a disk a page more than the longest entry.
    options.log_bytes = (uri_.starts_with("file:") ? u64{8192} : u64{4096}) << draw(3);
    options.checkpoint_calls = kCheckpointCalls[draw(std::size(kCheckpointCalls))];
    options.durability = static_cast<ObjectDurability>(draw(4));
    options.servers = kServers[draw(std::size(kServers))];
    options.callers = kCallers[draw(std::size(kCallers))];
    options.history = kHistories[draw(std::size(kHistories))];
    options.archive_bytes = 1 << 20;
    options.verify_replay = draw(4) == 0;
    return options;
  }

  Handle& object(const std::string& name) {
    const bool is_new = there_.insert(name).second;
    const ObjectState state = draw(3) == 0 ? ObjectState::kLarge : ObjectState::kSmall;
    Handle& handle = objects_.object(name, options(), state);
    if (is_new && !in_order_) {
      objects_.let_threads_call(name);
      handle.object().merges = true;
    }
    return handle;
  }

  void call(Handle& handle, u32 lane, u64 value) const {
    switch (value % 16) {
      case 0:
        return handle.put_long(lane, value);
      case 1:
        return handle.put_longer(lane, value);
      case 2:
      case 3:
        return handle.tell(lane, value);
      case 4:
        return in_order_ ? handle.churn(value) : handle.put(lane, value);
      case 5:
        return in_order_ ? handle.stir(value) : handle.tell(lane, value);
      case 6:
      case 7:
      case 8:
      case 9:
        return handle.add(lane, value);
      default:
        return handle.put(lane, value);
    }
  }

  void call_in_threads(Handle& handle) {
    std::vector<std::thread> threads;
    for (u32 lane = 0; lane < 3; ++lane)
      threads.emplace_back([this, &handle, lane, seed = random_()] {
        std::mt19937_64 values(seed);
        for (u64 calls = values() % 30; calls != 0; --calls) call(handle, lane, values());
      });
    for (std::thread& thread : threads) thread.join();
  }

  void act() {
    ++now_;
    const std::string name(1, static_cast<char>('a' + draw(3)));
    if (draw(16) == 0 && there_.contains(name)) {
      (void)object(name);
      objects_.remove(name);
      there_.erase(name);
      return;
    }
    Handle& handle = object(name);
    switch (draw(6)) {
      case 0:
        return handle.sync();
      case 1:
        return void(handle.checkpoint());
      default:
        break;
    }
    if (!in_order_) return call_in_threads(handle);
    for (u64 calls = draw(40); calls != 0; --calls) call(handle, lane(), random_());
  }

  void end_session(bool in_order) {
    if (in_order) objects_.close();
    else objects_.abandon();
    // The other copy, and the log, have all; but for calls that are done before they are durable.
    std::vector<std::string> open;
    for (const LoggedObject& each : objects_.end_session())
      if (each.gone_by == LoggedObject::kNever && objects_.has_copy_place(each.name) &&
          each.options.durability != ObjectDurability::kRelaxed && each.options.servers != 0)
        open.push_back(each.name);
    if (!open.empty() && draw(4) == 0) damage(open[draw(open.size())]);
  }

  void damage(const std::string& name) {
    const std::string path = uri_.substr(uri_.find(':') + 1);
    test::flip_bit(path, objects_.copy_place(name) + draw(32), static_cast<unsigned>(draw(8)));
  }

  const std::string uri_;
  std::mt19937_64 random_;
  u64 now_ = 0;
  bool in_order_ = true;
  LoggedObjects objects_;
  std::set<std::string> there_;
};

TEST(ObjectHistories, AreThoseOfTheModel) {
  const auto number = [](const char* name, u64 otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  const u64 histories =
      number("PERDURA_OBJECT_HISTORIES", test::slice_or_whole(600, 10'000) / test::kSlower);
  const u64 first = number("PERDURA_SEED", std::random_device{}());
  std::printf("PERDURA_SEED=%lu\n", first);
  const test::TempDir folder(test::TempDir::kMemory);
  for (u64 i = 0; i < histories; ++i) {
    const u64 seed = first + i;
    const std::string path = folder.path("objects.pd");
    // A run from any seed on begins with a store that is new.
    if (i % kStoresOf == 0) std::filesystem::remove(path);
    const std::string uri = (first + i / kStoresOf) % 4 == 0 ? "file:" + path : "emu:" + path;
    try {
      History(uri, seed).run();
    } catch (const std::exception& error) {
      FAIL() << "history " << seed << ", the " << i % kStoresOf + 1
             << "th of its store: " << error.what();
    }
  }
}

}  // namespace
}  // namespace perdura::proof
