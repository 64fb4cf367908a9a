#include "logged_objects.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "base/checksum.hpp"
#include "object/function_name.hpp"
#include "support/filtered_queue.hpp"
#include "support/window_medium.hpp"

namespace perdura::proof {
namespace {

using Small = Lanes<8>;
using Large = Lanes<1024>;

template <class State>
detail::ObjectType type_of() {
  static const State initial{};
  static const auto methods = detail::methods_of<State>(Methods<State>{});
  return {typeid(State).name(), sizeof(State), methods, &initial, FlexibleState<State>};
}

using Bytes = std::vector<std::byte>;
using Callers = std::array<format::ObjectCaller, kLanes>;

const Lane& lane_of(const Bytes& state, u64 lane) {
  return reinterpret_cast<const Lane*>(state.data())[lane];
}

LaneCalls calls_of(const Bytes& state) {
  LaneCalls calls{};
  for (u64 lane = 0; lane < kLanes; ++lane) calls[lane] = lane_of(state, lane).calls;
  return calls;
}

u64 sum(const LaneCalls& calls) { return std::accumulate(calls.begin(), calls.end(), u64{0}); }

// `callers`: nullptr where there is no history.
u64 digest_of(const Bytes& state, const Callers* callers) {
  const u64 digest = checksum(state.data(), state.size());
  return callers == nullptr ? digest : digest * 31 + checksum(callers, sizeof *callers);
}

u64 digest_of_lane(const Bytes& state, u64 lane, const Callers* callers) {
  std::vector<u64> parts;
  const Lane& own = lane_of(state, lane);
  parts.insert(parts.end(), {own.calls, own.mixed, own.sum});
  const auto* const words = reinterpret_cast<const u64*>(state.data() + kLanes * sizeof(Lane));
  const u64 count = (state.size() - kLanes * sizeof(Lane)) / sizeof(u64);
  for (u64 i = lane; i < count; i += kLanes) parts.push_back(words[i]);
  const u64 digest = checksum(parts.data(), parts.size() * sizeof(u64));
  if (callers == nullptr) return digest;
  return digest * 31 + checksum(&(*callers)[lane], sizeof(format::ObjectCaller));
}

/// An open object as it is.
struct Found {
  Bytes state;
  Callers callers{};
};
Found look_at(detail::OpenObject& open, const LoggedObject& object) {
  Found found;
  found.state.resize(value_or_throw(open.core().bytes()));
  value_or_throw(open.core().read(
      [&](const void* state) { std::memcpy(found.state.data(), state, found.state.size()); }));
  if (object.options.history != ObjectHistory::kNone)
    for (u32 lane = 0; lane < kLanes; ++lane)
      found.callers[lane] = value_or_throw(open.core().caller(lane));
  return found;
}

// A lane's calls saw these of others, each of which was called before.
std::string check_cut(const LoggedObject& object, const LaneCalls& calls) {
  for (u64 lane = 0; lane < kLanes && !object.merges; ++lane) {
    if (calls[lane] == 0 || calls[lane] > object.seen[lane].size()) continue;
    const LaneCalls& seen = object.seen[lane][calls[lane] - 1];
    for (u64 other = 0; other < kLanes; ++other)
      if (seen[other] > calls[other])
        return "call " + std::to_string(calls[lane]) + " of lane " + std::to_string(lane) +
               " is there, and call " + std::to_string(seen[other]) + " of lane " +
               std::to_string(other) + ", which was before it, is not";
  }
  return {};
}

std::string check_told(const LoggedObject& object, const LaneCalls& calls, size_t call) {
  for (const LoggedObject::Told& told : object.told) {
    if (told.by > call) continue;
    const bool holds = object.in_order
                           ? sum(told.calls) <= sum(calls)
                           : std::ranges::equal(told.calls, calls, std::less_equal<u64>{});
    if (!holds)
      return "call " + std::to_string(sum(told.calls)) + " was answered, " +
             std::to_string(sum(calls)) + " are there";
  }
  return {};
}

bool is_instant(Method method) { return method == Method::kTell || method == Method::kStir; }

template <auto Method, class... A>
Bytes packed(const A&... arguments) {
  const auto context = detail::TraitsOf<Method>::pack(arguments...);
  return {context.begin(), context.end()};
}
template <u64 kCount>
Small::Words<kCount> words_from(u64 value) {
  Small::Words<kCount> words;
  std::iota(std::begin(words.words), std::end(words.words), value);
  return words;
}

Bytes context_of(const LoggedObject::Made& made) {
  switch (made.method) {
    case Method::kPut:
      return packed<&Small::put>(made.lane, made.value);
    case Method::kTell:
      return packed<&Small::tell>(made.lane, made.value);
    case Method::kStir:
      return packed<&Small::stir>(made.value);
    case Method::kChurn:
      return packed<&Small::churn>(made.value);
    case Method::kPutLong:
      return packed<&Small::put_long>(made.lane, words_from<40>(made.value));
    case Method::kPutLonger:
      return packed<&Small::put_longer>(made.lane, words_from<180>(made.value));
    case Method::kAdd:
      return packed<&Small::add>(made.lane, made.value, u64{1});
  }
  throw std::runtime_error("no such method");
}

/// A call, of an object that is open.
class CallOf {
 public:
  CallOf(detail::OpenObject& open, const LoggedObject::Made& made)
      : context_(context_of(made)), is_instant_(is_instant(made.method)) {
    const bool of_all = made.method == Method::kStir || made.method == Method::kChurn;
    call_ = open.call_of(static_cast<size_t>(made.method), made.lane,
                         of_all ? Domain::kAll : Small::of(made.lane), context_);
  }
  CallOf(const CallOf&) = delete;

  const object::Call& call() const { return call_; }
  /// Returns its answer, or 0.
  u64 make(detail::OpenObject& open) const {
    u64 answer = 0;
    value_or_throw(is_instant_ ? open.core().call(call_, &answer) : open.core().defer(call_));
    return answer;
  }

 private:
  const Bytes context_;
  const bool is_instant_;
  object::Call call_;
};

/// Runs again what is recorded of it, each lane's calls by themselves. What is wrong, or "".
std::string run_again(detail::OpenObject& open, const LoggedObject& object, const Found& before) {
  if (object.options.history != ObjectHistory::kAll) return {};
  for (u64 lane = 0; lane < kLanes; ++lane) {
    const u64 recorded = before.callers[lane].calls;
    u64 i = 0;
    for (const LoggedObject::Made& made : object.made[lane]) {
      if (i == recorded && made.resized == 0) break;
      if (!open.core().is_answering())
        return "call " + std::to_string(i) + " of lane " + std::to_string(lane) +
               (made.resized == 0 ? " is not recorded" : " is recorded, the resize before it not");
      if (made.resized != 0) {
        value_or_throw(open.resize(made.resized));
        continue;
      }
      ++i;
      if (make_call(open, made) != made.answer)
        return "call " + std::to_string(i) + " of lane " + std::to_string(lane) +
               " is recorded with another answer";
    }
    if (i != recorded)
      return "more calls of lane " + std::to_string(lane) + " are recorded than were made";
  }
  if (open.core().is_answering()) return "more calls are recorded than it has done";
  const Found after = look_at(open, object);
  return after.state == before.state ? "" : "calls that are recorded were done again";
}

}  // namespace

detail::ObjectType type_of(ObjectState state) {
  switch (state) {
    case ObjectState::kSmall:
      return type_of<Small>();
    case ObjectState::kLarge:
      return type_of<Large>();
    case ObjectState::kReporting:
      return type_of<ReportingLanes>();
    case ObjectState::kFlexible:
      return type_of<FlexibleLanes>();
  }
  throw std::runtime_error("no such state");
}

u64 make_call(detail::OpenObject& open, const LoggedObject::Made& made) {
  return CallOf(open, made).make(open);
}

ObjectsVerdict LoggedObject::check(detail::OpenObject& open, size_t call, LaneCalls* found) const {
  const Found now = look_at(open, *this);
  const LaneCalls calls = calls_of(now.state);
  if (found != nullptr) *found = calls;
  const Callers* const callers = options.history != ObjectHistory::kNone ? &now.callers : nullptr;
  const std::string which = "object '" + name + "': ";
  if (in_order) {
    if (!may_be(sum(calls), digest_of(now.state, callers), call))
      return {which + "its first " + std::to_string(sum(calls)) + " calls do not make it"};
  } else {
    for (u64 lane = 0; lane < kLanes; ++lane)
      if (calls[lane] >= lanes[lane].size() ||
          lanes[lane][calls[lane]] != digest_of_lane(now.state, lane, callers))
        return {which + "the first " + std::to_string(calls[lane]) + " calls of lane " +
                std::to_string(lane) + " do not make it"};
    if (std::string wrong = check_cut(*this, calls); !wrong.empty()) return {which + wrong};
  }
  if (const std::string wrong = run_again(open, *this, now); !wrong.empty()) return {which + wrong};
  const std::string lost = check_told(*this, calls, call);
  if (lost.empty()) return {};
  return {.problem = which + lost, .lost = true};
}

// Between two calls it has had the size of before and each that it was given there, or of these the
// last one that is durable and those after it.
bool LoggedObject::may_be(u64 calls, u64 digest, size_t call) const {
  if (calls >= digests.size()) return false;
  bool may_be = digests[calls] == digest;
  for (const Resized& each : resized) {
    if (each.calls < calls) continue;
    // One that is durable has the calls before it: fewer are lost, and said to be so.
    if (each.calls > calls) break;
    may_be = each.digest == digest || (may_be && each.by > call);
  }
  return may_be;
}

size_t LoggedObject::last_told() const {
  size_t last = made_by != kNever ? made_by : 0;
  if (gone_by != kNever) last = std::max(last, gone_by);
  for (const Resized& each : resized)
    if (each.by != kNever) last = std::max(last, each.by);
  for (const Told& each : told) last = std::max(last, each.by);
  return last;
}

namespace {

// Each is one that may be there, and those that must be are.
ObjectsVerdict check_all(const std::vector<LoggedObject>& objects, detail::ObjectsRuntime& runtime,
                         size_t call) {
  const std::vector<ObjectDescription> there = value_or_throw(runtime.list());
  for (const ObjectDescription& each : there) {
    ObjectsVerdict verdict{"object '" + each.name + "' is there"};
    for (const LoggedObject& object : objects) {
      const detail::ObjectType type = type_of(object.state);
      if (object.name != each.name || object::type_text(type.name) != each.type ||
          !object.may_be_there(call))
        continue;
      verdict =
          object.check(*value_or_throw(runtime.object(each.name, type, object.options)), call);
      if (verdict.problem.empty()) break;
    }
    if (!verdict.problem.empty()) return verdict;
  }
  for (const LoggedObject& object : objects)
    if (object.must_be_there(call) &&
        std::ranges::none_of(there, [&](const auto& each) { return each.name == object.name; }))
      return {"object '" + object.name + "' is gone"};
  return {};
}

}  // namespace

ObjectsOptions options_of_objects(u64 bytes_max, const std::string& overflow) {
  ObjectsOptions options;
  options.bytes_max = bytes_max;
  if (bytes_max != 0) options.overflow = overflow;
  return options;
}

ObjectsVerdict check_logged(const std::vector<LoggedObject>& objects, u64 bytes_max,
                            const detail::ObjectsRuntime::OpenMedium& open_medium, size_t call) {
  static std::atomic<u64> number{0};  // each state is a medium of its own
  try {
    std::shared_ptr<media::Medium> whole;
    const auto window = [&](u64 begin, u64 end,
                            const char* name) -> Result<std::unique_ptr<media::Medium>> {
      if (!whole) {
        PERDURA_ASSIGN(std::unique_ptr<media::Medium> opened, open_medium());
        whole = std::move(opened);
      }
      std::unique_ptr<media::Medium> part =
          std::make_unique<test::WindowMedium>(whole, begin, end, name);
      return part;
    };
    const std::string uri = "file:/nowhere/state-" + std::to_string(++number);
    const auto runtime = value_or_throw(detail::ObjectsRuntime::open(
        uri, options_of_objects(bytes_max, uri + ".overflow"),
        [&] { return bytes_max == 0 ? open_medium() : window(0, kOverflowAt, "the store"); },
        [&] { return window(kOverflowAt, ~u64{0}, "the overflow store"); }));
    ObjectsVerdict verdict = check_all(objects, *runtime, call);
    runtime->abandon();
    return verdict;
  } catch (const Error& error) {
    return {.problem = std::string("opening objects fails: ") + error.what(), .refused = true};
  }
}

Status RefusingWrites::write(u64 offset, media::Bytes data, const media::Site& site) {
  return unless_refused(site, [&] { return inner().write(offset, data, site); });
}

std::unique_ptr<media::WriteQueue> RefusingWrites::queue() {
  return std::make_unique<test::FilteredQueue>(
      inner().queue(), [this](u64, const media::Site& site, const std::function<Status()>& submit) {
        return unless_refused(site, submit);
      });
}

Status RefusingWrites::grow(u64 size, bool prewrite) {
  return unless_refused(
      PERDURA_SITE("more space"), [&] { return inner().grow(size, prewrite); }, Code::kNoSpace);
}

Status RefusingWrites::unless_refused(const media::Site& site, const std::function<Status()>& write,
                                      Code code) {
  const bool refuses = site.what == refusal_.site && refusal_.count != 0 &&
                       (refusal_.after == 0 || refusal_.after-- == 0);
  if (!refuses) return write();
  --refusal_.count;
  if (refusal_.is_written) PERDURA_TRY(write());
  return Failure{code, "this write is refused"};
}

// --- what a run does ----------------------------------------------------------------------------

namespace {

// Those that are recorded, and what came between them and behind the last one.
void keep_recorded(std::vector<LoggedObject::Made>& made, u64 calls) {
  auto end = made.begin();
  for (; end != made.end(); ++end)
    if (end->resized == 0 && calls-- == 0) break;
  made.erase(end, made.end());
}

}  // namespace

// Of an object that was there in an earlier session: a prefix of its calls, from which it goes on.
LoggedObjects::Handle::Handle(LoggedObject object, std::shared_ptr<detail::OpenObject> open,
                              const std::function<size_t()>& calls)
    : object_(std::move(object)), open_(std::move(open)), calls_(calls) {
  LaneCalls found{};
  if (const ObjectsVerdict verdict = object_.check(*open_, calls_(), &found);
      !verdict.problem.empty())
    throw std::runtime_error(verdict.problem);
  const Found now = look_at(*open_, object_);
  callers_ = now.callers;
  for (u64 lane = 0; lane < kLanes; ++lane) keep_recorded(object_.made[lane], callers_[lane].calls);
  models_.assign(object_.in_order ? 1 : kLanes, now.state);
  if (object_.in_order) object_.digests.resize(sum(found) + 1);
  if (!object_.resized.empty()) {  // it is of one of the sizes that it may be of
    const bool has_callers = object_.options.history != ObjectHistory::kNone;
    object_.digests.back() = digest_of(now.state, has_callers ? &callers_ : nullptr);
    std::erase_if(object_.resized, [&](const auto& each) { return each.calls >= sum(found); });
  }
  for (u64 lane = 0; lane < kLanes && !object_.in_order; ++lane) {
    object_.lanes[lane].resize(found[lane] + 1);
    object_.seen[lane].resize(std::min(object_.seen[lane].size(), found[lane]));
    returned_[lane] = found[lane];
  }
  note_told(found);
}

void LoggedObjects::Handle::let_threads_call() {
  object_.in_order = false;
  models_.assign(kLanes, models_.front());
  const LaneCalls calls = calls_of(models_.front());
  const Callers* const callers =
      object_.options.history != ObjectHistory::kNone ? &callers_ : nullptr;
  for (u64 lane = 0; lane < kLanes; ++lane) {
    object_.lanes[lane].assign(calls[lane] + 1, 0);
    object_.lanes[lane].back() = digest_of_lane(models_.front(), lane, callers);
    object_.seen[lane].assign(calls[lane], {});
    returned_[lane] = calls[lane];
  }
}

LaneCalls LoggedObjects::Handle::returned() const {
  if (object_.in_order) return {object_.digests.size() - 1};
  LaneCalls calls{};
  for (u64 lane = 0; lane < kLanes; ++lane) calls[lane] = returned_[lane];
  return calls;
}

void LoggedObjects::Handle::note_told(const LaneCalls& calls) {
  const std::lock_guard lock(told_mutex_);
  object_.told.push_back({calls, calls_()});
}

// What the call makes of the object, which may be found as soon as it was called. Its answer.
u64 LoggedObjects::Handle::model(Method method, u32 lane, std::span<const std::byte> context) {
  Bytes& state = models_[object_.in_order ? 0 : lane];
  const detail::ObjectMethod& function =
      type_of(object_.state).methods[static_cast<size_t>(method)];
  u64 answer = 0;
  {
    const object::InMethod in_method(state.size());
    function.run(state.data(), context.data(), &answer);
  }
  const Callers* callers = nullptr;
  if (object_.options.history != ObjectHistory::kNone) {
    format::ObjectCaller& caller = callers_[lane];
    caller = {.potid = lane,
              .answer_bytes = static_cast<u32>(function.result_bytes),
              .calls = caller.calls + 1,
              .answer = {}};
    std::memcpy(caller.answer, &answer, function.result_bytes);
    callers = &callers_;
  }
  if (object_.in_order) object_.digests.push_back(digest_of(state, callers));
  else object_.lanes[lane].push_back(digest_of_lane(state, lane, callers));
  return answer;
}

void LoggedObjects::Handle::log(LoggedObject::Made made, const std::function<u64()>& make) {
  const u32 lane = made.lane;
  LaneCalls seen = returned();
  if (!object_.in_order) object_.seen[lane].push_back(seen);
  made.answer = model(made.method, lane, context_of(made));
  if (object_.options.history == ObjectHistory::kAll) object_.made[lane].push_back(made);
  if (make() != made.answer)
    throw std::runtime_error("object '" + object_.name + "': an answer is not the model's");
  if (is_instant(made.method)) {
    ++seen[object_.in_order ? 0 : lane];
    if (object_.options.durability != ObjectDurability::kRelaxed) note_told(seen);
  }
  ++returned_[lane];
  open_->level();
}

// What is there of a call that was none.
void LoggedObjects::Handle::take_back(const LoggedObject::Made& made) {
  if (object_.in_order) {
    object_.digests.pop_back();
  } else {
    object_.lanes[made.lane].pop_back();
    object_.seen[made.lane].pop_back();
  }
  if (object_.options.history == ObjectHistory::kAll) object_.made[made.lane].pop_back();
}

bool LoggedObjects::Handle::tell_unless_it_stays_away(u32 lane, u64 value) {
  return log_unless({Method::kTell, lane, value, 0},
                    [this](const Error&) { return open_->core().is_away(); });
}

void LoggedObjects::Handle::look() {
  const Found now = look_at(*open_, object_);
  const Callers* const callers =
      object_.options.history != ObjectHistory::kNone ? &now.callers : nullptr;
  bool is_so = true;
  if (object_.in_order)
    is_so = object_.may_be(object_.digests.size() - 1, digest_of(now.state, callers), calls_());
  for (u64 lane = 0; lane < kLanes && !object_.in_order; ++lane)
    is_so = is_so && digest_of_lane(now.state, lane, callers) == object_.lanes[lane].back();
  if (!is_so)
    throw std::runtime_error("object '" + object_.name + "' is not what its calls make it");
}

void LoggedObjects::Handle::sync() {
  const LaneCalls calls = returned();
  value_or_throw(open_->core().sync());
  note_told(calls);
}

bool LoggedObjects::Handle::checkpoint() {
  const LaneCalls calls = returned();
  if (!open_->core().checkpoint()) return false;
  note_told(calls);
  open_->level();
  return true;
}

// It is durable when it returns, with all that was called before: where threads call it is known of
// each lane what it is from then on. Of a program that is run again caller 0 does it.
void LoggedObjects::Handle::resize(u64 words) {
  const u64 bytes = type_of(object_.state).bytes + words * sizeof(u64);
  for (Bytes& state : models_) state.resize(bytes);
  const bool has_callers = object_.options.history != ObjectHistory::kNone;
  const Callers* const callers = has_callers ? &callers_ : nullptr;
  const LaneCalls calls = returned();
  object_.resized.push_back(
      {sum(calls), digest_of(models_.front(), callers), LoggedObject::kNever});
  if (object_.options.history == ObjectHistory::kAll)
    object_.made[0].push_back({.method = {}, .lane = 0, .value = 0, .answer = 0, .resized = bytes});
  value_or_throw(open_->resize(bytes));
  if (object_.in_order) {
    object_.resized.back().by = calls_();
  } else {
    object_.resized.clear();
    for (u64 lane = 0; lane < kLanes; ++lane)
      object_.lanes[lane].back() = digest_of_lane(models_[lane], lane, callers);
  }
  note_told(calls);
}

void LoggedObjects::open(const std::string& uri, const ObjectsOptions& options,
                         const detail::ObjectsRuntime::OpenMedium& open_medium,
                         const detail::ObjectsRuntime::OpenMedium& open_overflow) {
  runtime_ = value_or_throw(detail::ObjectsRuntime::open(uri, options, open_medium, open_overflow));
  // What may be there or not has been decided.
  const std::vector<ObjectDescription> there = value_or_throw(runtime_->list());
  std::erase_if(objects_, [&](const LoggedObject& object) {
    return std::ranges::none_of(there, [&](const auto& each) { return each.name == object.name; });
  });
}

LoggedObjects::Handle& LoggedObjects::object(const std::string& name, const ObjectOptions& options,
                                             ObjectState state, size_t methods) {
  if (const auto open = handles_.find(name); open != handles_.end()) return *open->second;
  const auto known = std::ranges::find(objects_, name, &LoggedObject::name);
  const bool is_known = known != objects_.end() && known->gone_from == LoggedObject::kNever;
  LoggedObject object;
  if (is_known) {
    object = *known;
    object.options = options;
    object.options.log_bytes = known->options.log_bytes;
    object.options.history = known->options.history;
    object.options.callers = known->options.callers;
    object.options.archive_bytes = known->options.archive_bytes;
  } else {
    object = {.name = name, .state = state, .options = options};
    const detail::ObjectType type = type_of(state);
    const auto* const initial = static_cast<const std::byte*>(type.initial);
    const Callers none{};
    Callers callers = none;
    for (u32 lane = 0; lane < kLanes; ++lane) callers[lane].potid = lane;
    Bytes made(initial, initial + type.bytes);
    made.resize(std::max(made.size(), options.bytes));
    object.digests = {
        digest_of(made, options.history != ObjectHistory::kNone ? &callers : nullptr)};
    object.made_from = calls_();
    object.made_by = LoggedObject::kNever;
  }
  // In each state that a crash leaves it is known whose entries wait. Of a run that is replayed by
  // a later build they are another one's.
  object.options.same_build |= same_build_;
  detail::ObjectType type = type_of(object.state);
  type.methods = type.methods.first(std::min(methods, type.methods.size()));
  auto open = value_or_throw(runtime_->object(name, type, object.options));
  if (object.made_by == LoggedObject::kNever) object.made_by = calls_();
  if (is_known) objects_.erase(known);
  auto handle = std::make_unique<Handle>(std::move(object), std::move(open), calls_);
  return *handles_.emplace(name, std::move(handle)).first->second;
}

void LoggedObjects::let_threads_call(const std::string& name) {
  handles_.at(name)->let_threads_call();
}

void LoggedObjects::note_all_told(const std::string& name) {
  LoggedObject& known = *std::ranges::find(objects_, name, &LoggedObject::name);
  LaneCalls calls{known.digests.size() - 1};
  for (u64 lane = 0; lane < kLanes && !known.in_order; ++lane)
    calls[lane] = known.lanes[lane].size() - 1;
  known.told.push_back({calls, 0});
}

void LoggedObjects::remove(const std::string& name) {
  LoggedObject object;
  if (const auto open = handles_.find(name); open != handles_.end()) {
    object = std::move(open->second->object());
    handles_.erase(open);
  } else {
    const auto known = std::ranges::find_if(objects_, [&](const LoggedObject& each) {
      return each.name == name && each.gone_from == LoggedObject::kNever;
    });
    object = std::move(*known);
    objects_.erase(known);
  }
  object.gone_from = calls_();
  value_or_throw(runtime_->remove(name));
  object.gone_by = calls_();
  objects_.push_back(std::move(object));
}

std::vector<LoggedObject> LoggedObjects::record() const {
  std::vector<LoggedObject> objects = objects_;
  for (const auto& [name, handle] : handles_) objects.push_back(handle->object());
  return objects;
}

void LoggedObjects::close() {
  value_or_throw(runtime_->close());
  for (const auto& [name, handle] : handles_) handle->note_all_told();
  runtime_.reset();
}

void LoggedObjects::abandon() {
  if (runtime_) runtime_->abandon();
  runtime_.reset();
}

// In the next session all this was before its first call.
std::vector<LoggedObject> LoggedObjects::end_session() {
  std::vector<LoggedObject> session = record();
  for (const auto& [name, handle] : handles_) {
    const format::ObjectHead head = handle->open().core().settled_head();
    if (is_in_overflow(head)) copy_places_.erase(name);
    else copy_places_[name] = resilient_place(head);
  }
  handles_.clear();
  objects_ = session;
  std::erase_if(objects_, [](const auto& each) { return each.gone_by != LoggedObject::kNever; });
  for (LoggedObject& object : objects_) {
    object.made_from = object.made_by = 0;
    object.gone_from = LoggedObject::kNever;
    for (LoggedObject::Told& told : object.told) told.by = 0;
    for (LoggedObject::Resized& each : object.resized)
      if (each.by != LoggedObject::kNever) each.by = 0;
  }
  return session;
}

}  // namespace perdura::proof
