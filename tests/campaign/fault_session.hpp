// A store under faults: what a scenario of fault_test.cc does with it, and what must hold
// afterwards.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "campaign/fault_server.hpp"
#include "media/fault.hpp"
#include "support/call_faults.hpp"
#include "support/ledger.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {

/// What fails: a call of the medium or one of the system; or the server goes before one.
struct Point {
  bool of_medium = false;
  media::Fault medium;
  CallFault call;
  Loss loss = Loss::kNone;

  std::string describe() const;
};

/// Survives a child.
struct Outcome {
  std::atomic<u64> acknowledged[Ledger::kShards];
  std::atomic<u64> acknowledged_changes;
  std::atomic<u64> acknowledged_object;
  std::atomic<u64> errors;
  std::atomic<u64> fired;
};

/// Has a root of its own, and points to nothing.
struct Object {
  static constexpr u64 kWords = 700;
  u64 words[kWords];  ///< equal
};

/// Blocks beside the ledger, all of known content.
struct Extras {
  static constexpr u64 kSlots = 32;
  u64 changes;
  struct Slot {
    u64* words;
    u64 count;
    u64 value;
  } slots[kSlots];
};

class Session;

/// What a scenario finds on the medium.
enum class Before { kNothing, kClosed, kShortLog, kLongLog };

struct Scenario {
  const char* name;
  const char* scheme;      ///< of the URI
  const char* parameters;  ///< of the URI
  Before before;
  Options options;
  void (*run)(Session& session);
  bool late_writes = false;   ///< writes happen as late as they may
  bool no_direct_io = false;  ///< a file system without O_DIRECT
  /// A fault handler of the library cannot report a failed call: it ends the program.
  bool may_end = false;
  u64 calls_max = 120;  ///< of a kind that fail, unless all are wanted

  bool on_server() const { return std::string_view(scheme) == "memcached"; }
};
const std::vector<Scenario>& scenarios();
/// Some of them: fault_objects.cc, fault_moves.cc, fault_damage.cc.
void call_objects(Session& session);
void call_objects_otherwise(Session& session);
void resize_objects(Session& session);
void move_objects(Session& session);
void meet_damage(Session& session);
inline void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

class Session {
 public:
  /// `path`: of the URI. `desk`: of the server, if the medium is on one.
  Session(const Scenario& scenario, std::string path, const Point* point, Outcome& outcome,
          const ServerDesk* desk);

  // --- for scenarios; every call that fails must say why
  void open();
  void steps(u64 count, u64 shard = 0);
  /// A new block of `words` in a slot, instead of the one there; 0 words: none.
  void exchange(u64 slot, u64 words, u64 alignment = 16);
  void rewrite(u64 slot);
  void set_root(const char* name, bool present);
  void write_object();
  /// Of the object alone.
  void checkpoint_object();
  void checkpoint();
  void checkpoint_async();
  void every(std::chrono::milliseconds interval);
  /// Each thread does so with its own shard, and takes checkpoints.
  void threads(u64 count, u64 steps);
  void close();
  /// Of the C++ surface, or the C one, on the store that nobody has open.
  std::string uri() const;
  const Options& options() const { return scenario_.options; }
  template <class Call>
  bool attempt(Call&& call);
  void problem(const std::string& text);
  bool is_open() const { return store_.has_value(); }
  const Point* point() const { return point_; }
  std::string path() const { return path_; }

  // --- for the campaign
  /// The faults are over: what is wrong, or "".
  std::string finish();
  /// What is wrong with what is left of the store, or "": nothing acknowledged is lost, unless the
  /// server lost it, and then that is an error.
  static std::string check_what_is_left(const std::string& uri, const Options& options,
                                        const Outcome& outcome, const Point* point,
                                        const ServerDesk* desk);
  /// Make what `scenario` finds.
  static std::string prepare(const Scenario& scenario, const std::string& path);
  const media::FaultPlan& plan() const { return plan_; }
  media::FaultPlan& plan() { return plan_; }

 private:
  void begin();
  static std::string reopen_and_check(const std::string& uri, const Options& options,
                                      const Outcome& outcome);
  static bool has_store(const ServerDesk& desk);
  void lose_server();
  void change();
  std::string finish_without_server();
  std::string check_in_memory();
  void note_acknowledged(const std::array<u64, Ledger::kShards>& steps, u64 changes,
                         bool server_lost);
  void take_checkpoint(bool async);
  std::string last_words(const std::exception& error, std::optional<Code> code);

  const Scenario& scenario_;
  const std::string path_;
  const Point* const point_;
  Outcome& outcome_;
  const ServerDesk* const desk_;
  std::atomic<bool> server_lost_{false};
  bool existed_;            ///< the store on the server: it is not to be made again
  bool is_closed_ = false;  ///< the medium, to all use
  media::FaultPlan plan_;
  std::optional<WrappedStore> store_;
  Ledger* ledger_ = nullptr;
  Extras* extras_ = nullptr;
  std::mutex mutex_;
  std::string problem_;
  std::string last_error_;
  u64 flushes_before_ = 0;  ///< that failed before the store was opened last
  u64 value_ = 1;
  static constexpr int kOpeningsMax = 3;  ///< a fault for ever need not be met at every step
  int openings_ = 0;
};

template <class Call>
bool Session::attempt(Call&& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    if (std::string text = last_words(error, error.code()); !text.empty()) problem(text);
  } catch (const std::exception& error) {
    if (std::string text = last_words(error, std::nullopt); !text.empty()) problem(text);
  }
  ++outcome_.errors;
  return false;
}

}  // namespace perdura::test
