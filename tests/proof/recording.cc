#include "recording.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "store/backup.hpp"
#include "store/compact.hpp"
#include "store/versions.hpp"
#include "support/earlier_version.hpp"

namespace perdura::proof {
namespace {

std::vector<Workload>& all() {
  static std::vector<Workload> workloads;
  return workloads;
}

constexpr const char* kFile = "state.pd";
constexpr const char* kOverflowFile = "overflow.pd";
constexpr const char* kOriginalFile = "original.pd";
constexpr const char* kNeighbour = "neighbour";

test::ChainRoot& chain_of(detail::ContainerRuntime& container) {
  return *static_cast<test::ChainRoot*>(
      value_or_throw(container.root(TypeRecord<test::ChainRoot>::value)));
}

void in_threads(u64 threads, const std::function<void(u64)>& work,
                const std::function<void()>& meanwhile) {
  std::vector<std::thread> running;
  for (u64 i = 0; i < threads; ++i) running.emplace_back(work, i);
  meanwhile();
  for (std::thread& thread : running) thread.join();
}

}  // namespace

const std::vector<Workload>& workloads() { return all(); }

size_t Session::last_acknowledged() const {
  size_t calls = acknowledgements.back().calls;
  for (const Steps& each : steps) calls = std::max(calls, each.calls);
  for (const LoggedObject& each : logged) calls = std::max(calls, each.last_told());
  return calls;
}

Registration::Registration(const Workload& workload) { all().push_back(workload); }

std::string uri(const MediumKind& medium, const std::string& path) {
  return std::string(medium.scheme) + ":" + path + medium.parameters;
}

Run::Run(const MediumKind& medium, u64 seed) : medium_(medium), seed_(seed) {
  if (medium.on_server) server_ = std::make_unique<test::MemcachedProcess>();
  options.region_limit_bytes = 4 * kMiB;
  options.log_segment_bytes = 32 * kKiB;
  options.log_limit_bytes = 128 * kKiB;
  options.tracking = Tracking::kReported;
  options.lazy_recovery = false;
}

u64 Run::random(u64 below) { return test::mix(seed_ ^ test::mix(++draws_)) % below; }

std::string Run::uri() const {
  return server_ ? server_->uri("state") : proof::uri(medium_, folder_.path(kFile));
}

// What a failed call did to the medium is recorded, and no more.
std::unique_ptr<media::Medium> Run::wrap(std::unique_ptr<media::Medium> inner) {
  geometry_ = inner->geometry();
  return std::make_unique<RefusingWrites>(faults_.wrap(recording_.wrap(std::move(inner))),
                                          refusal_);
}

void Run::open_objects() {
  const bool beside = store_ != nullptr || container_ != nullptr;
  const std::string overflow = proof::uri(medium_, folder_.path(kOverflowFile));
  ObjectsOptions options = options_of_objects(objects_bytes_max_, overflow);
  options.wear_moves = wear_moves_;
  logged_.open(
      uri(), options,
      [this]() -> Result<std::unique_ptr<media::Medium>> {
        PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri(), {}));
        return wrap(std::move(opened.medium));
      },
      [this, overflow]() -> Result<std::unique_ptr<media::Medium>> {
        PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(overflow, {}));
        std::unique_ptr<media::Medium> wrapped = std::make_unique<RefusingWrites>(
            recording_.wrap_beside(std::move(opened.medium), kOverflowAt), refusal_);
        return wrapped;
      });
  objects_alone_ = !beside;
  if (!beside) begin_session();
}

void Run::damage_copy(const std::string& name) {
  const u64 place = logged_.copy_place(name);
  const media::OpenedMedium opened = value_or_throw(media::open_medium(uri(), {.create = false}));
  AlignedBuffer page(kPageBytes);
  value_or_throw(opened.medium->read(place, page.span()));
  page.data()[0] ^= std::byte{1};
  value_or_throw(opened.medium->write(place, page.span(), PERDURA_SITE("damage")));
  value_or_throw(opened.medium->barrier(PERDURA_SITE("damage")));
}

void Run::open() {
  const detail::WrapMedium wrap = [this](std::unique_ptr<media::Medium> inner) {
    return this->wrap(std::move(inner));
  };
  const std::string name = uri();
  if (contained_) {
    container_ = detail::ContainerRuntime::open(name, options, {.wrap = wrap});
  } else {
    store_ = std::make_unique<test::WrappedStore>(name, options, wrap);
    ledger_ = static_cast<test::Ledger*>(store_->get_root("ledger"));
  }
  objects_ = durable_objects_;
  chain_ = durable_chain_;
  begin_session();
}

void Run::begin_session() {
  Session session;
  session.acknowledgements.push_back({acknowledged_, 0});
  if (!sessions_.empty()) {
    session.steps_at = sessions_.back().steps_at;
    session.objects_at = sessions_.back().objects_at;
    session.chain_at = sessions_.back().chain_at;
    session.steps = sessions_.back().steps;
    for (Steps& each : session.steps) each.calls = 0;
    session.ledger_offset = sessions_.back().ledger_offset;
    session.transactions_offset = sessions_.back().transactions_offset;
  }
  transactions_begun_ = false;
  sessions_.push_back(std::move(session));
}

u64 Run::roll_back(u64 version) {
  media::OpenedMedium opened = value_or_throw(media::open_medium(uri(), {.create = false}));
  begin_session();
  const u64 made = value_or_throw(store::roll_back(wrap(std::move(opened.medium)), {}, version));
  Session& session = sessions_.back();
  if (session.steps_at.contains(version)) steps_begun_[made] = session.steps_at[version];
  if (session.chain_at.contains(version)) chain_begun_[made] = session.chain_at[version];
  durable_objects_ = session.objects_at[version];
  acknowledge(made);
  end_session();
  return made;
}

// --- backups ------------------------------------------------------------------------------------

void Run::use_original(Engine engine) {
  use_chunks(4096, 3);
  original_ = engine;
}

void Run::use_copied_original(Engine engine) {
  if (engine == Engine::kRemap) use_chunks(4096, 3);
  options.engine = engine;
  original_ = engine;
}

// The version has the number that it has in the original.
void Run::copy() {
  const u64 steps = steps_so_far();
  store_->close();
  store_.reset();
  begin_session();
  store::CopyOptions copy;
  copy.progress_bytes = 64 * kKiB;
  copy.wrap_to = [this](std::unique_ptr<media::Medium> inner) { return wrap(std::move(inner)); };
  const auto copied = value_or_throw(store::copy(original_uri(), uri(), copy));
  steps_begun_[copied.regions[0].version] = steps;
  acknowledge(copied.regions[0].version);
  end_session();
}

std::string Run::original_uri() const { return proof::uri(medium_, folder_.path(kOriginalFile)); }

Options Run::options_of_original() const {
  Options of_original = options;
  of_original.engine = *original_;
  return of_original;
}

void Run::open_original() {
  store_ = std::make_unique<test::WrappedStore>(original_uri(), options_of_original());
  ledger_ = static_cast<test::Ledger*>(store_->get_root("ledger"));
}

Result<u64> Run::send() {
  store::CopyOptions copy;
  copy.versions_kept = options.versions_kept;
  copy.progress_bytes = 64 * kKiB;
  copy.wrap_to = [this](std::unique_ptr<media::Medium> inner) { return wrap(std::move(inner)); };
  PERDURA_ASSIGN(const store::Copied copied, store::back_up(original_uri(), uri(), copy));
  return copied.regions[0].version;
}

// The original goes on.
void Run::back_up() {
  begin_session();
  const u64 made = value_or_throw(send());
  steps_begun_[made] = steps_so_far();
  acknowledge(made);
  auto original = std::move(store_);
  test::Ledger* const ledger = ledger_;
  end_session();
  store_ = std::move(original);
  ledger_ = ledger;
}

void Run::failing_back_up(const media::Fault& fault) {
  begin_session();
  faults_.arm(fault);
  const Result<u64> made = send();
  faults_.disarm();
  if (made) {
    steps_begun_[*made] = steps_so_far();
    acknowledge(*made);
  } else {
    sessions_.back().failures.push_back({acknowledged_ + 1, recording_.size()});
  }
  auto original = std::move(store_);
  test::Ledger* const ledger = ledger_;
  end_session();
  if (random(2) == 0) tear();
  store_ = std::move(original);
  ledger_ = ledger;
}

void Run::open_drained() {
  Options of_original = options_of_original();
  of_original.drain = uri();
  const detail::InternalOptions internal{
      .wrap_drain = [this](std::unique_ptr<media::Medium> inner) {
        return wrap(std::move(inner));
      }};
  begin_session();
  copies_before_ = acknowledged_;
  store_ = std::make_unique<test::WrappedStore>(original_uri(), of_original, internal);
  ledger_ = static_cast<test::Ledger*>(store_->get_root("ledger"));
}

// The backup has a version for each that it was sent, and may have had one that nobody heard of.
void Run::drained() {
  while (store_->runtime().drained_version() != store_->durable_version())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const u64 made = copies_before_ + store_->statistics().drained_versions;
  steps_begun_[made] = steps_so_far();
  acknowledge(made);
}

void Run::compact() {
  media::OpenedMedium opened = value_or_throw(media::open_medium(uri(), {.create = false}));
  begin_session();
  value_or_throw(store::compact(wrap(std::move(opened.medium))));
  end_session();
}

void Run::open_neighbour(Engine engine) {
  Options other = options;
  other.region = kNeighbour;
  other.region_address = 0;
  other.engine = engine;
  other.tracking = Tracking::kAutomatic;
  other.aliases = 0;
  neighbour_ = detail::ContainerRuntime::open(uri(), other);
}

void Run::neighbour_point() {
  test::ChainRoot& chain = chain_of(*neighbour_);
  for (u64 i = 0; i < 1 + random(30); ++i) test::push(chain, random(1000));
  for (u64 i = 0; i < random(20); ++i) test::pop(chain);
  value_or_throw(neighbour_->point());
}

void Run::remove_neighbour() {
  media::OpenedMedium opened = value_or_throw(media::open_medium(uri(), {.create = false}));
  begin_session();
  value_or_throw(store::remove_region(wrap(std::move(opened.medium)), kNeighbour));
  end_session();
}

void Run::end_session() {
  neighbour_.reset();
  logged_.abandon();
  store_.reset();
  container_.reset();
  sessions_.back().logged = logged_.end_session();
  chain_begun_.clear();
  sessions_.back().history = recording_.history();
  ledger_ = nullptr;
  relaxed_.clear();
  steps_begun_.clear();
}

void Run::close() {
  if (neighbour_) value_or_throw(neighbour_->close());
  if (logged_.is_open()) logged_.close();
  if (objects_alone_) return end_session();
  const u64 steps = steps_so_far();
  if (contained_) value_or_throw(container_->close());
  else store_->close();
  detail::Runtime& runtime = contained_ ? container_->runtime() : store_->runtime();
  const u64 version = runtime.checkpointer().durable_version();
  durable_objects_ = objects_;
  steps_begun_[version] = steps;
  if (contained_) chain_begun_[version] = chain_;
  acknowledge(version);
  end_session();
}

void Run::kill() {
  if (store_) store_->crash();
  end_session();
}

void Run::cut_power() {
  kill();
  tear();
}

void Run::tear() {
  const media::History& history = sessions_.back().history;
  // In the middle of what came after the last acknowledgement.
  const size_t from = sessions_.back().last_acknowledged();
  const size_t end = from + random(history.calls().size() - from + 1);
  const testing::CrashState state(history, end, medium_.tearing);
  const std::vector<std::byte> left =
      state.content([this](size_t, u32 options) { return static_cast<u32>(random(options)); });
  const auto leave = [this](const char* file, std::span<const std::byte> bytes) {
    if (bytes.empty()) std::filesystem::remove(folder_.path(file));
    else testing::write_file(folder_.path(file), {bytes.begin(), bytes.end()});
  };
  const std::span all(left);
  if (objects_bytes_max_ == 0) return leave(kFile, all);
  const size_t first = std::min<size_t>(left.size(), kOverflowAt);
  leave(kFile, all.first(first));
  leave(kOverflowFile, all.subspan(first));
}

test::Ledger& Run::ledger() {
  if (ledger_ == nullptr) {
    const auto op = store_->operation();
    ledger_ = test::make_ledger(op, seed_, node_words_max);
    op.set_root("ledger", ledger_);
  }
  return *ledger_;
}

void Run::steps(u64 count, u64 shard) {
  test::Ledger& ledger = this->ledger();
  for (u64 i = 0; i < count; ++i) test::do_step(store_->operation(), ledger, shard);
}

void Run::concurrent_steps(u64 threads, u64 count, const std::function<void()>& meanwhile) {
  ledger();
  in_threads(threads, [this, count](u64 shard) { steps(count, shard); }, meanwhile);
}

detail::Transactions& Run::transactions() {
  detail::Transactions& transactions = detail::transactions_of(store_->runtime());
  if (transactions_begun_) return transactions;
  transactions_begun_ = true;
  transactions.set_durability(durability_);
  transactions.set_logging(logging_);
  detail::Runtime& runtime = store_->runtime();
  const auto offset_of = [&](const void* object) {
    return static_cast<u64>(static_cast<const std::byte*>(object) - runtime.region().base());
  };
  Session& session = sessions_.back();
  session.transactions_offset =
      offset_of(value_or_throw(runtime.heap().roots().get(format::kTransactionRoot, 0)));
  session.ledger_offset = offset_of(&ledger());
  committed_ = ledger().steps;
  return transactions;
}

void Run::set_durability(Durability durability) {
  durability_ = durability;
  if (transactions_begun_) transactions().set_durability(durability);
}

void Run::set_logging(Logging logging) {
  logging_ = logging;
  if (transactions_begun_) transactions().set_logging(logging);
}

void Run::transact(u64 count, u64 shard) {
  detail::Transactions& transactions = this->transactions();
  test::Ledger& ledger = this->ledger();
  for (u64 i = 0; i < count; ++i) {
    u64 number = 0;
    store_->atomically([&](Transaction& tx) {
      test::do_step(tx, ledger, shard);
      number = tx.read(ledger.shards[shard].steps);
    });
    ++committed_;
    if (durability_ == Durability::kNone) continue;
    const std::lock_guard lock(commits_mutex_);
    relaxed_[transactions.last_commit()] = {shard, number, 0};
    acknowledge_commits(durability_ == Durability::kRelaxed ? transactions.durable_commit()
                                                            : transactions.last_commit());
  }
}

void Run::acknowledge_commits(u64 durable) {
  const size_t calls = recording_.size();
  const auto end = relaxed_.upper_bound(durable);
  for (auto each = relaxed_.begin(); each != end; ++each) {
    each->second.calls = calls;
    sessions_.back().steps.push_back(each->second);
  }
  relaxed_.erase(relaxed_.begin(), end);
}

void Run::wait_for_commits() {
  if (relaxed_.empty()) return;
  transactions().wait_for(relaxed_.rbegin()->first);
  acknowledge_commits(relaxed_.rbegin()->first);
}

void Run::transact_in_vain(u64 count, u64 shard) {
  struct Undone {};
  transactions();
  test::Ledger& ledger = this->ledger();
  for (u64 i = 0; i < count; ++i) {
    try {
      store_->atomically([&](Transaction& tx) {
        for (int steps = 0; steps < 3; ++steps) test::do_step(tx, ledger, shard);
        throw Undone{};
      });
    } catch (const Undone&) {
    }
  }
}

void Run::concurrent_transactions(u64 threads, u64 count, const std::function<void()>& meanwhile) {
  transactions();
  in_threads(threads, [this, count](u64 shard) { transact(count, shard); }, meanwhile);
}

u64 Run::steps_so_far() const {
  if (transactions_begun_) return committed_;
  return ledger_ != nullptr ? std::atomic_ref(ledger_->steps).load() : 0;
}

void Run::push_link(u64 number) {
  test::push(chain_of(*container_), number);
  chain_.push_back(number);
}

void Run::pop_link() {
  test::pop(chain_of(*container_));
  if (!chain_.empty()) chain_.pop_back();
}

void Run::move() {
  constexpr u64 kFirst = 0x5540'0000'0000;
  options.region_address = options.region_address == 0 ? kFirst : options.region_address + kGiB;
}

void Run::make_earlier_version(u32 version) {
  const media::OpenedMedium opened = value_or_throw(media::open_medium(uri(), {.create = false}));
  test::make_earlier_version(*opened.medium, version);
}

u64 object_word(u64 value, u64 index) { return test::mix(value ^ test::mix(index)); }

// The first word is its number of words.
void Run::set_object(const std::string& name, u64 value, u64 words) {
  const auto op = store_->operation();
  auto* object = static_cast<u64*>(store_->get_root(name.c_str()));
  if (object == nullptr) {
    object = static_cast<u64*>(
        typed_ ? op.allocate_flexible(TypeRecord<TypedObject>::value, words * sizeof(u64))
               : op.allocate_apart(words * sizeof(u64)));
    object[0] = words;
    op.set_root(name.c_str(), object);
  }
  op.touch(object, object[0] * sizeof(u64));
  u64 first = 1;
  if (typed_) {
    auto& typed = *reinterpret_cast<TypedObject*>(object);
    typed.self = &typed;
    typed.middle = object + object[0] / 2;
    first = sizeof(TypedObject) / sizeof(u64);
  }
  for (u64 i = first; i < object[0]; ++i) object[i] = object_word(value, i);
  objects_[name] = value;
}

void Run::remove_object(const std::string& name) {
  const auto op = store_->operation();
  void* const object = store_->get_root(name.c_str());
  if (object == nullptr) return;
  op.set_root(name.c_str(), nullptr);
  op.deallocate(object);
  objects_.erase(name);
}

u64 Run::checkpoint_object(const std::string& name) {
  const u64 version = value_or_throw(store_->runtime().checkpoint_root(name));
  durable_objects_[name] = objects_.at(name);
  acknowledge(version);
  return version;
}

void Run::try_checkpoint_object(const std::string& name) {
  try {
    checkpoint_object(name);
  } catch (const Error& error) {
    if (error.code() != Code::kMisuse) throw;
  }
}

u64 Run::checkpoint() {
  const u64 steps = steps_so_far();
  const u64 version = contained_ ? value_or_throw(container_->point()) : store_->checkpoint();
  if (contained_) chain_begun_[version] = chain_;
  durable_objects_ = objects_;
  steps_begun_.try_emplace(version, steps);
  acknowledge(version);
  return version;
}

bool Run::failing_checkpoint(const media::Fault& fault) {
  faults_.arm(fault);
  const u64 version = store_->durable_version() + 1;
  const auto made = store_->runtime().checkpoint();
  faults_.disarm();
  if (made) acknowledge(*made);
  else sessions_.back().failures.push_back({version, recording_.size()});
  return !made;
}

u64 Run::checkpoint_async() {
  const u64 steps = steps_so_far();
  const u64 version =
      contained_ ? value_or_throw(container_->point_async()) : store_->checkpoint_async();
  if (contained_) chain_begun_[version] = chain_;
  steps_begun_.try_emplace(version, steps);
  return version;
}

void Run::wait(u64 version) {
  if (contained_) value_or_throw(container_->sync());
  else store_->wait(version);
  acknowledge(version);
}

void Run::acknowledge(u64 version) {
  acknowledged_ = std::max(acknowledged_, version);
  sessions_.back().acknowledgements.push_back({version, recording_.size()});
  if (const auto begun = steps_begun_.find(version); begun != steps_begun_.end())
    sessions_.back().steps_at.emplace(version, begun->second);
  sessions_.back().objects_at[version] = durable_objects_;
  if (const auto begun = chain_begun_.find(version); begun != chain_begun_.end()) {
    durable_chain_ = begun->second;
    sessions_.back().chain_at[version] = durable_chain_;
  }
}

}  // namespace perdura::proof
