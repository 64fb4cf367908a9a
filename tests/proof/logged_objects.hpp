// Objects whose calls are logged, in recorded runs: what was called of them, and what is known of
// that at each moment.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <perdura/objects.hpp>

#include "jobs.hpp"
#include "media/decorator.hpp"
#include "model/object/objects_runtime.hpp"

namespace perdura::proof {

constexpr u64 kLanes = 4;
using LaneCalls = std::array<u64, kLanes>;

/// A state that tells which calls made it, in their order in each lane.
struct Lane {
  u64 calls;
  u64 mixed;
  u64 sum;
};
template <u64 kWords>
struct Lanes {
  static_assert(kWords % kLanes == 0);
  template <u64 kCount>
  struct Words {
    u64 words[kCount];
  };

  Lane lanes[kLanes];
  u64 words[kWords];  ///< of the lane with this remainder

  void put(u32 lane, u64 value) noexcept {
    Lane& at = lanes[lane];
    u64& word = words[(at.calls * kLanes + lane) % kWords];
    object_changed(&at, sizeof at);
    object_changed(&word, sizeof word);
    at.mixed = (at.mixed ^ (value + 0xd1342543de82ef95)) * 0x9e3779b97f4a7c15 + 1;
    word = at.mixed;
    put_behind(at);
    ++at.calls;
  }
  u64 tell(u32 lane, u64 value) noexcept {
    put(lane, value);
    return lanes[lane].mixed;
  }
  u64 stir(u64 value) noexcept {
    churn(value);
    return lanes[0].mixed;
  }
  void churn(u64 value) noexcept {
    object_changed(lanes, sizeof lanes);
    for (u32 lane = 1; lane < kLanes; ++lane) lanes[lane].mixed += lanes[lane - 1].mixed * 31;
    put(0, value ^ lanes[kLanes - 1].mixed);
  }
  void put_long(u32 lane, Words<40> value) noexcept { put(lane, sum(value)); }
  void put_longer(u32 lane, Words<180> value) noexcept { put(lane, sum(value)); }
  void add(u32 lane, u64 value, u64 calls) noexcept {
    object_changed(&lanes[lane], sizeof lanes[lane]);
    lanes[lane].sum += value;
    lanes[lane].calls += calls;
  }

  static Domain of(u32 lane) noexcept { return Domain(lane); }
  static bool join(std::tuple<u32, u64, u64>& first,
                   const std::tuple<u32, u64, u64>& next) noexcept {
    if (std::get<0>(first) != std::get<0>(next)) return false;
    std::get<1>(first) += std::get<1>(next);
    std::get<2>(first) += std::get<2>(next);
    return true;
  }

 private:
  /// Of one that is flexible: which call this is says as well how large the object is.
  void put_behind(Lane& at) noexcept {
    const u64 bytes = object_bytes();
    if (bytes < sizeof(Lanes) + kLanes * sizeof(u64)) return;
    const u64 count = round_down((bytes - sizeof(Lanes)) / sizeof(u64), kLanes);
    const u64 lane = static_cast<u64>(&at - lanes);  // whose words are no other one's
    u64& word = reinterpret_cast<u64*>(this + 1)[(at.calls * kLanes + lane) % count];
    object_changed(&word, sizeof word);
    word = at.mixed += count;
  }
  template <u64 kCount>
  static u64 sum(const Words<kCount>& value) noexcept {
    u64 sum = 0;
    for (u64 i = 0; i < kCount; ++i) sum = sum * 31 + value.words[i];
    return sum;
  }
};
/// One whose methods are known to report.
struct ReportingLanes : Lanes<4096> {};
/// One that gets other sizes.
struct FlexibleLanes : Lanes<8> {
  static constexpr bool kIsFlexible = true;
};

/// In the order of Methods.
enum class Method : size_t { kPut, kTell, kStir, kChurn, kPutLong, kPutLonger, kAdd };

/// Which state an object has.
enum class ObjectState : u64 { kSmall, kLarge, kReporting, kFlexible };

detail::ObjectType type_of(ObjectState state);

/// What is wrong with objects that were opened, or "".
struct ObjectsVerdict {
  std::string problem;
  bool refused = false;  ///< they cannot be opened
  bool lost = false;  ///< some calls that were answered are not there; all that is there is right
};

/// An object of a run, from its making to its removal.
struct LoggedObject {
  static constexpr size_t kNever = ~size_t{0};
  /// So many calls were durable by then; if one thread calls, the first number is of all.
  struct Told {
    LaneCalls calls;
    size_t by;  ///< recorded calls of the medium
  };

  /// What was called, and what that answers; all of it follows from these.
  struct Made {
    Method method;
    u32 lane;
    u64 value;
    u64 answer;
    u64 resized = 0;  ///< not 0: it is no call; one that keeps all calls got so many bytes
  };

  /// Another size, with what the object was in it after so many calls.
  struct Resized {
    u64 calls;
    u64 digest;
    size_t by;  ///< recorded calls of the medium when it returned
  };

  std::string name;
  ObjectState state = ObjectState::kSmall;
  ObjectOptions options;
  bool in_order = true;  ///< one thread calls, so what each call makes of the state is known
  bool merges = false;   ///< a call may be part of an entry before those of other threads
  /// What the object is after so many calls, from 0; or each of its lanes.
  std::vector<u64> digests{};
  std::array<std::vector<u64>, kLanes> lanes{};
  /// In their order. Of such an object one thread calls.
  std::vector<Resized> resized{};
  /// Where threads call: those of the lanes that had returned when a call of a lane began.
  std::array<std::vector<LaneCalls>, kLanes> seen{};
  std::vector<Told> told{};
  /// Of one that keeps all calls these, by lane; the program is run again from them.
  std::array<std::vector<Made>, kLanes> made{};
  size_t made_from = 0;  ///< it may be there, by then it is
  size_t made_by = 0;
  size_t gone_from = kNever;
  size_t gone_by = kNever;

  bool may_be_there(size_t call) const { return made_from <= call && call < gone_by; }
  bool must_be_there(size_t call) const { return made_by <= call && call <= gone_from; }
  /// Of an object that is open, after so many calls of the medium. What it has recorded is called
  /// again.
  ObjectsVerdict check(detail::OpenObject& open, size_t call, LaneCalls* found = nullptr) const;

  /// The calls of the medium by the last of all that the program was told.
  size_t last_told() const;
  /// After so many calls of its own and so many of the medium it may be this.
  bool may_be(u64 calls, u64 digest, size_t call) const;

  Json json() const;
  static LoggedObject of(const Json& json);
};

/// By the program whose objects are open. Returns its answer, or 0.
u64 make_call(detail::OpenObject& open, const LoggedObject::Made& made);

constexpr u64 kOverflowAt = kMiB;
/// With space for so many bytes and an overflow store for the others; 0: as they are by themselves.
ObjectsOptions options_of_objects(u64 bytes_max, const std::string& overflow);
/// Those of a session: what must be there, and nothing else. Both stores are in one medium.
ObjectsVerdict check_logged(const std::vector<LoggedObject>& objects, u64 bytes_max,
                            const detail::ObjectsRuntime::OpenMedium& open_medium, size_t call);

/// Which writes of a medium fail, by their sites, and what becomes of those.
struct Refusal {
  std::string site;         ///< "": none; "more space": the medium does not grow
  u64 after = 0;            ///< so many of them succeed
  u64 count = ~u64{0};      ///< and then so many fail
  bool is_written = false;  ///< all the same
};
class RefusingWrites final : public media::Decorator {
 public:
  RefusingWrites(std::unique_ptr<media::Medium> inner, Refusal& refusal)
      : Decorator(std::move(inner)), refusal_(refusal) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override;
  std::unique_ptr<media::WriteQueue> queue() override;
  Status grow(u64 size, bool prewrite) override;

 private:
  Status unless_refused(const media::Site& site, const std::function<Status()>& write,
                        Code code = Code::kIo);

  Refusal& refusal_;
};

/// What a run does things to objects with. One thread makes, opens and removes them.
class LoggedObjects {
 public:
  class Handle;

  /// `calls`: how many of the medium are recorded. `same_build`: that is said of each opening; else
  /// as its options do.
  explicit LoggedObjects(std::function<size_t()> calls, bool same_build = true)
      : calls_(std::move(calls)), same_build_(same_build) {}

  void open(const std::string& uri, const ObjectsOptions& options,
            const detail::ObjectsRuntime::OpenMedium& open_medium,
            const detail::ObjectsRuntime::OpenMedium& open_overflow);
  bool is_open() const { return runtime_ != nullptr; }
  detail::ObjectsRuntime& runtime() const { return *runtime_; }
  /// Made where there is none; else of `options` those of this opening count. Of its methods only
  /// the first `methods` are the program's. Where that is refused all is as it was.
  Handle& object(const std::string& name, const ObjectOptions& options = {},
                 ObjectState state = ObjectState::kSmall, size_t methods = 7);
  /// From now on several threads call it, each a lane of its own, and none stirs.
  void let_threads_call(const std::string& name);
  /// All that was called of one is there when it is opened next.
  void note_all_told(const std::string& name);
  /// Open or not.
  void remove(const std::string& name);
  void close();
  void abandon();
  /// Where the resilient copy of one is that was open last.
  u64 copy_place(const std::string& name) const { return copy_places_.at(name); }
  bool has_copy_place(const std::string& name) const { return copy_places_.contains(name); }
  /// What there was in the session.
  std::vector<LoggedObject> end_session();

 private:
  std::vector<LoggedObject> record() const;

  const std::function<size_t()> calls_;
  const bool same_build_;
  std::unique_ptr<detail::ObjectsRuntime> runtime_;
  std::map<std::string, std::unique_ptr<Handle>> handles_;
  std::vector<LoggedObject> objects_;  ///< those of which there is no handle
  std::map<std::string, u64> copy_places_;
};

/// An open object. Lanes may be called by threads of their own.
class LoggedObjects::Handle {
 public:
  Handle(LoggedObject object, std::shared_ptr<detail::OpenObject> open,
         const std::function<size_t()>& calls);

  void put(u32 lane, u64 value) { log({Method::kPut, lane, value, 0}); }
  void put_long(u32 lane, u64 value) { log({Method::kPutLong, lane, value, 0}); }
  void put_longer(u32 lane, u64 value) { log({Method::kPutLonger, lane, value, 0}); }
  void add(u32 lane, u64 value) { log({Method::kAdd, lane, value, 0}); }
  void churn(u64 value) { log({Method::kChurn, 0, value, 0}); }
  /// Throws where the answer is not the model's.
  void tell(u32 lane, u64 value) { log({Method::kTell, lane, value, 0}); }
  void stir(u64 value) { log({Method::kStir, 0, value, 0}); }
  /// As tell(); false where it fails since the object cannot come home for it: then it is no call.
  bool tell_unless_it_stays_away(u32 lane, u64 value);
  /// Throws where the answer is not the model's.
  void log(LoggedObject::Made made) {
    log(made, [&] { return make_call(*open_, made); });
  }
  /// One that another process makes.
  void log(LoggedObject::Made made, const std::function<u64()>& make);
  /// False where it fails, and `is_none(error)` says that it is no call.
  template <class IsNone>
  bool log_unless(LoggedObject::Made made, const IsNone& is_none);
  /// Throws where it is not what all that was called makes it. Nobody calls meanwhile.
  void look();
  void sync();
  /// Whether it succeeded.
  bool checkpoint();
  /// Of a flexible one: it has so many words behind its state. Nobody calls meanwhile.
  void resize(u64 words);
  /// The same; false where it fails, and `is_none(error)` says that the object is as it was.
  template <class IsNone>
  bool resize_unless(u64 words, const IsNone& is_none);

  /// All that returned is durable.
  void note_all_told() { note_told(returned()); }

  const LoggedObject& object() const { return object_; }
  LoggedObject& object() { return object_; }
  detail::OpenObject& open() { return *open_; }
  void let_threads_call();

 private:
  u64 model(Method method, u32 lane, std::span<const std::byte> context);
  void take_back(const LoggedObject::Made& made);
  LaneCalls returned() const;
  void note_told(const LaneCalls& calls);

  LoggedObject object_;
  std::shared_ptr<detail::OpenObject> open_;
  const std::function<size_t()>& calls_;
  std::vector<std::vector<std::byte>> models_;  ///< one; or of each lane
  std::array<format::ObjectCaller, kLanes> callers_{};
  std::array<std::atomic<u64>, kLanes> returned_{};
  std::mutex told_mutex_;
};

template <class IsNone>
bool LoggedObjects::Handle::log_unless(LoggedObject::Made made, const IsNone& is_none) {
  std::vector<std::byte>& model = models_[object_.in_order ? 0 : made.lane];
  const std::vector<std::byte> state = model;
  const format::ObjectCaller caller = callers_[made.lane];
  try {
    log(made);
    return true;
  } catch (const Error& error) {
    if (open_->core().has_failed() || !is_none(error)) throw;
    model = state;
    callers_[made.lane] = caller;
    take_back(made);
    return false;
  }
}

template <class IsNone>
bool LoggedObjects::Handle::resize_unless(u64 words, const IsNone& is_none) {
  const std::vector<std::vector<std::byte>> states = models_;
  try {
    resize(words);
    return true;
  } catch (const Error& error) {
    if (open_->core().has_failed() || !is_none(error)) throw;
    models_ = states;
    object_.resized.pop_back();
    if (object_.options.history == ObjectHistory::kAll) object_.made[0].pop_back();
    return false;
  }
}

}  // namespace perdura::proof

template <perdura::u64 kWords>
struct perdura::Methods<perdura::proof::Lanes<kWords>>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::proof::Lanes<kWords>::put,
                              &perdura::proof::Lanes<kWords>::of>,
          perdura::Instant<&perdura::proof::Lanes<kWords>::tell,
                           &perdura::proof::Lanes<kWords>::of>,
          perdura::Instant<&perdura::proof::Lanes<kWords>::stir>,
          perdura::Deferrable<&perdura::proof::Lanes<kWords>::churn>,
          perdura::Deferrable<&perdura::proof::Lanes<kWords>::put_long,
                              &perdura::proof::Lanes<kWords>::of>,
          perdura::Deferrable<&perdura::proof::Lanes<kWords>::put_longer,
                              &perdura::proof::Lanes<kWords>::of>,
          perdura::Deferrable<&perdura::proof::Lanes<kWords>::add,
                              &perdura::proof::Lanes<kWords>::of,
                              &perdura::proof::Lanes<kWords>::join, perdura::kCommutes>> {};
template <>
struct perdura::Methods<perdura::proof::FlexibleLanes>
    : perdura::Methods<perdura::proof::Lanes<8>> {};
template <>
struct perdura::Methods<perdura::proof::ReportingLanes>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::proof::ReportingLanes::put,
                              &perdura::proof::ReportingLanes::of, perdura::kReports>,
          perdura::Instant<&perdura::proof::ReportingLanes::tell,
                           &perdura::proof::ReportingLanes::of, perdura::kReports>,
          perdura::Instant<&perdura::proof::ReportingLanes::stir, perdura::kReports>,
          perdura::Deferrable<&perdura::proof::ReportingLanes::churn, perdura::kReports>,
          perdura::Deferrable<&perdura::proof::ReportingLanes::put_long,
                              &perdura::proof::ReportingLanes::of, perdura::kReports>,
          perdura::Deferrable<&perdura::proof::ReportingLanes::put_longer,
                              &perdura::proof::ReportingLanes::of, perdura::kReports>,
          perdura::Deferrable<
              &perdura::proof::ReportingLanes::add, &perdura::proof::ReportingLanes::of,
              &perdura::proof::ReportingLanes::join, perdura::kCommutes, perdura::kReports>> {};
