// A region of objects, for those who look at a store; who opens it as a heap is refused.
#include <algorithm>
#include <thread>

#include "object/object_copies.hpp"
#include "object/object_look.hpp"
#include "object/object_owner.hpp"
#include "object/object_table.hpp"
#include "region/engine_rules.hpp"
#include "store/look_again.hpp"
#include "store/recovery.hpp"
#include "store/storage.hpp"
#include "store/versions.hpp"

namespace perdura::store {
namespace {

Failure holds_objects(const region::Volume& volume, const format::RegionRecord& record) {
  return {Code::kUnsupported, "region '" + std::string(record.name) + "' of '" + volume.name() +
                                  "' holds objects, not a heap; open it with perdura::Objects, or "
                                  "choose another region"};
}

class NoStorage final : public Storage {
 public:
  NoStorage(const region::Volume& volume, const format::RegionRecord& record)
      : volume_(volume), record_(record) {}

  Status recover() override { return holds_objects(volume_, record_); }
  u64 durable_version() const override { return 0; }
  Result<std::unique_ptr<region::Region>> map(const format::RegionRecord&) override {
    return holds_objects(volume_, record_);
  }
  Status load_rest(region::Region&, track::Tracker&) override {
    return holds_objects(volume_, record_);
  }
  bool usually_in_background(const track::Tracker&) const override { return false; }
  Result<std::unique_ptr<commit::Engine>> make_engine(const Parts&) override {
    return holds_objects(volume_, record_);
  }

 private:
  const region::Volume& volume_;
  const format::RegionRecord record_;
};

ObjectDescription description_of(const object::ObjectTable::Entry& entry) {
  const format::ObjectHead& head = entry.head;
  return {.name = head.name,
          .type = head.type,
          .bytes = head.bytes,
          .log_bytes = head.log_lines * kLineBytes,
          .head_place = entry.place,
          .copy = head.copy,
          .copy_place = is_in_overflow(head) ? 0 : resilient_place(head),
          .copy_bytes = format::object_image_bytes(head),
          .checkpoint = head.checkpoint,
          .history = head.history,
          .callers_max = head.callers,
          .archive_bytes = head.archive_lines * kLineBytes,
          .archive_used_bytes = head.archive_used * kLineBytes,
          .overflow_store = is_in_overflow(head) ? head.copy_place[1] : 0,
          .overflow_place = is_in_overflow(head) ? head.copy_place[0] : 0,
          .stand_in_place = stand_in_place(head),
          .owner_pid = entry.owner.pid,
          .owner_lives = object::is_running(entry.owner),
          .copy_writes = {entry.wear.copy_writes[0], entry.wear.copy_writes[1]},
          .log_writes = entry.wear.log_lines / head.log_lines,
          .head_writes = entry.head_writes(),
          .content = {}};
}

ObjectDescription::Content content_of(object::ObjectLook&& look) {
  ObjectDescription::Content content{.tail = look.tail,
                                     .new_entries = look.pending_entries,
                                     .resilient_entries = look.resilient_entries,
                                     .archived_calls = look.archived_calls,
                                     .functions = std::move(look.functions),
                                     .callers = {}};
  for (const format::ObjectCaller& each : look.callers)
    content.callers.push_back({each.potid, each.calls});
  return content;
}

/// The one in `overflow` that has copies of this region's objects; nullptr: none says so.
std::unique_ptr<object::OverflowStore> overflow_store_of(const region::Volume& volume,
                                                         const format::RegionRecord& record,
                                                         region::Volume& overflow) {
  if (!region::may_overflow_to(record, overflow.store_id())) return nullptr;
  const format::Superblock own = volume.superblock();
  for (const format::RegionRecord& each : overflow.regions()) {
    if (!region::engine_rules(each).is_overflow) continue;
    auto found = std::make_unique<object::OverflowStore>(overflow, each.region);
    if (found->check_whose(&own, record.region) && found->is_bound()) return found;
  }
  return nullptr;
}

class ObjectInspection final : public Inspection {
 public:
  using Inspection::Inspection;

  RegionDescription outline() const override {
    RegionDescription region;
    region.record = record_;
    for (const auto kind : {format::ExtentKind::kObjectHeads, format::ExtentKind::kObjects})
      for (const format::Extent& extent : volume_.extents(kind, record_.region)) {
        region.extents.push_back(extent);
        region.home_bytes += extent.length;
      }
    return region;
  }

  bool have_overflow(region::Volume& overflow) override {
    if (region::engine_rules(record_).is_overflow) return false;
    overflow_ = overflow_store_of(volume_, record_, overflow);
    return overflow_ != nullptr;
  }

  // Beside a writer an object may have the place of one whose head was read before that left it, or
  // space that the store did not have yet. Or its head came to a place that had been read before,
  // and is in none that was: then there is another head that says it has gone.
  Status read_versions() override {
    std::vector<object::ObjectTable::Gone> before;
    for (int looks = 0;; ++looks) {
      was_written_ = volume_.medium().has_writer();
      state_ = volume_.state();
      table_.emplace(volume_, record_.region);
      Status read = table_->read();
      const bool written = was_written_ || volume_.medium().has_writer();
      if (!written || looks == kLooksMax) return read;
      std::vector<object::ObjectTable::Gone> gone = table_->gone();
      if (read && looks != 0 && gone == before) return read;
      before = std::move(gone);
      std::this_thread::sleep_for(kLookAgain);
      PERDURA_TRY(volume_.look_again());
    }
  }

  void describe_versions(RegionDescription& region) const override {
    if (region::engine_rules(record_).is_overflow) {
      const auto known = object::read_overflow_record(volume_, record_.region);
      OverflowDescription& overflow = region.overflow.emplace();
      if (!known || known->magic == 0) return;
      overflow.is_known = true;
      std::ranges::copy(known->uuid, overflow.uuid);
      overflow.region = known->region;
      return;
    }
    region.objects.emplace();
    for (const object::ObjectTable::Entry& each : table_->all()) {
      ObjectDescription object = description_of(each);
      if (!volume_.medium().has_writer() && !is_in_overflow(each.head))
        if (Result<object::ObjectLook> look = object::look_at(volume_.linear(), each); look)
          object.content = content_of(std::move(*look));
      region.objects->push_back(std::move(object));
      region.backed_bytes += each.head.bytes;
    }
  }

  // Beside a writer an object is never as its head said a moment ago.
  void check(const Status& read, CheckReport& report, const Progress& progress) override {
    if (!read) return add_damage(report, "objects", read.failure().message, record_.name);
    if (was_written_) return;
    const size_t before = report.findings.size();
    if (region::engine_rules(record_).is_overflow) {
      check_record(report);
      return (void)is_as_it_was_read(report, before);
    }
    if (overflow_)
      if (const Status there = table_->have_overflow(*overflow_); !there)
        add_damage(report, "objects", there.failure().message, record_.name);
    u64 done = 0;
    for (const object::ObjectTable::Entry& each : table_->all()) {
      progress("verifying the objects", done++, table_->all().size());
      if (is_in_overflow(each.head) && !overflow_) add_note_of_overflow(each.head, report);
      if (const auto look = object::look_at(volume_.linear(), each, overflow_.get()); !look)
        add_damage(report, "objects",
                   "object '" + std::string(each.head.name) + "': " + look.failure().message,
                   record_.name);
    }
    progress("verifying the objects", done, done);
    (void)is_as_it_was_read(report, before);
  }

 private:
  void add_note_of_overflow(const format::ObjectHead& head, CheckReport& report) const {
    report.findings.push_back({Finding::Severity::kNote, "objects",
                               "the copy of object '" + std::string(head.name) +
                                   "' is in an overflow store; name that (--overflow) to verify it",
                               record_.name, std::nullopt, std::nullopt});
  }
  // Whose the copies are is written before there is one.
  void check_record(CheckReport& report) const {
    const auto known = object::read_overflow_record(volume_, record_.region);
    if (!known) return add_damage(report, "objects", known.failure().message, record_.name);
    if (known->magic == 0 && !volume_.extents(format::ExtentKind::kObjects, record_.region).empty())
      add_damage(
          report, "objects",
          "whose copies of objects these are (its record) is damaged; restore it from a copy",
          record_.name);
  }
  u64 durable_version() const override { return 0; }
  Result<std::unique_ptr<region::Region>> map_newest(const format::RegionRecord&) override {
    return holds_objects(volume_, record_);
  }

  std::optional<object::ObjectTable> table_;
  std::unique_ptr<object::OverflowStore> overflow_;
};

class ObjectKind final : public EngineKind {
 public:
  Status check_options(const Options&) const override { return {}; }
  Status check_creation(const Options&, const media::Medium&) const override { return {}; }
  void fill_record(const Options&, format::RegionRecord& record) const override {
    record.engine = format::EngineId::kObjects;
  }
  Result<std::unique_ptr<VersionSource>> source(region::Volume& volume,
                                                const format::RegionRecord& record,
                                                const WantedVersion&) const override {
    return holds_no_versions(volume, record);
  }

  Result<std::unique_ptr<VersionTarget>> target(region::Volume& volume,
                                                const format::RegionRecord& record) const override {
    return holds_no_versions(volume, record);
  }

  std::unique_ptr<Storage> storage(region::Volume& volume, const format::RegionRecord& record,
                                   const Options&) const override {
    return std::make_unique<NoStorage>(volume, record);
  }
  std::unique_ptr<Inspection> inspection(region::Volume& volume,
                                         const format::RegionRecord& record) const override {
    return std::make_unique<ObjectInspection>(volume, record);
  }
  Result<u64> roll_back(region::Volume& volume, const format::RegionRecord& record, u64,
                        const Progress&) const override {
    return holds_objects(volume, record);
  }
};

// Of the regions of objects that have this name, or of all.
Result<format::RegionRecord> region_with(region::Volume& volume, std::string_view region,
                                         std::string_view name) {
  std::vector<format::RegionRecord> found;
  for (const format::RegionRecord& record : volume.regions()) {
    if (!region::engine_rules(record).has_objects ||
        (!region.empty() && region != std::string_view(record.name)))
      continue;
    object::ObjectTable table(volume, record.region);
    PERDURA_TRY(table.read());
    if (table.find(name) != nullptr) found.push_back(record);
  }
  if (found.size() == 1) return found.front();
  const std::string object = "object '" + std::string(name) + "'";
  if (found.empty())
    return Failure{Code::kNotFound,
                   "'" + volume.name() + "' has no " + object +
                       (region.empty() ? "" : " in region '" + std::string(region) + "'") +
                       "; `perdura info` names those that it has"};
  return Failure{Code::kInvalidArgument, "'" + volume.name() + "' has an " + object +
                                             " in several regions, one of them '" +
                                             std::string(found.front().name) + "'; say in which"};
}

// What of the overflow store is an object's its head here says, and nothing there: so there is
// nothing to be written, and it is only looked whether it is the one.
Status check_overflow(const region::Volume& volume, const format::RegionRecord& record,
                      const format::ObjectHead& head, media::MediumOptions options,
                      const OverflowStoreOf& overflow) {
  if (overflow.uri.empty()) {
    if (!is_in_overflow(head) || overflow.is_lost) return {};
    return Failure{Code::kMisuse, "object '" + std::string(head.name) + "' of '" + volume.name() +
                                      "' is in an overflow store; name that (--overflow), or, if "
                                      "it is lost, say so (--overflow-lost)"};
  }
  options.read_only = true;
  PERDURA_ASSIGN(auto medium, open_existing(overflow.uri, options));
  PERDURA_ASSIGN(const auto there, open_volume_to_read(std::move(medium)));
  const bool has_it = !is_in_overflow(head) || head.copy_place[1] == there->store_id();
  if (has_it && overflow_store_of(volume, record, *there) != nullptr) return {};
  return Failure{Code::kMisuse, "'" + there->name() + "' is not the overflow store of '" +
                                    volume.name() +
                                    "', or does not say so any more; name the one that is"};
}

}  // namespace

Result<bool> remove_object(std::string_view uri, std::string_view region, std::string_view name,
                           const media::MediumOptions& options, const OverflowStoreOf& overflow) {
  return guarded([&]() -> Result<bool> {
    PERDURA_ASSIGN(auto medium, open_existing(uri, options));
    PERDURA_ASSIGN(auto volume, open_volume(std::move(medium), false, 0));
    if (volume->medium().linear() == nullptr)
      return Failure{Code::kNotFound, "'" + volume->name() + "' holds no objects"};
    PERDURA_ASSIGN(const format::RegionRecord record, region_with(*volume, region, name));
    object::ObjectTable table(*volume, record.region);
    PERDURA_TRY(table.read());
    PERDURA_TRY(table.remove_stale());
    const object::ObjectTable::Entry entry = *table.find(name);
    PERDURA_TRY(check_overflow(*volume, record, entry.head, options, overflow));
    object::ObjectCopies copies(volume->linear(), entry);
    PERDURA_TRY(copies.remove());
    PERDURA_TRY(volume->end_session());
    return is_in_overflow(entry.head);
  });
}

const EngineKind& object_kind() {
  static const ObjectKind kind;
  return kind;
}

}  // namespace perdura::store
