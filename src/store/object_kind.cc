// A region of objects, for those who look at a store; who opens it as a heap is refused.
#include "object/object_copies.hpp"
#include "object/object_log.hpp"
#include "object/object_table.hpp"
#include "store/storage.hpp"

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

  Status read_versions() override {
    table_.emplace(volume_, record_.region);
    return table_->read();
  }

  void describe_versions(RegionDescription& region) const override {
    region.objects.emplace();
    for (const object::ObjectTable::Entry& each : table_->all()) {
      region.objects->push_back({.name = each.head.name,
                                 .type = each.head.type,
                                 .bytes = each.head.bytes,
                                 .log_bytes = each.head.log_lines * kLineBytes});
      region.backed_bytes += each.head.bytes;
    }
  }

  // Beside a writer an object is never as its head said a moment ago.
  void check(const Status& read, CheckReport& report, const Progress& progress) override {
    if (!read) return add_damage(report, "objects", read.failure().message, record_.name);
    if (volume_.medium().has_writer()) return;
    u64 done = 0;
    for (const object::ObjectTable::Entry& each : table_->all()) {
      progress("verifying the objects", done++, table_->all().size());
      if (const Status whole = check_object(each); !whole)
        add_damage(report, "objects",
                   "object '" + std::string(each.head.name) + "': " + whole.failure().message,
                   record_.name);
    }
    progress("verifying the objects", done, done);
  }

 private:
  u64 durable_version() const override { return 0; }
  Result<std::unique_ptr<region::Region>> map_newest(const format::RegionRecord&) override {
    return holds_objects(volume_, record_);
  }

  Status check_object(const object::ObjectTable::Entry& entry) {
    object::ObjectCopies copies(volume_.linear(), entry.place, entry.head, entry.unclear);
    AlignedBuffer state(std::max<u64>(format::object_image_bytes(entry.head), 1));
    PERDURA_TRY(copies.load(state.span()));
    PERDURA_ASSIGN(const auto log, object::ObjectLog::create(volume_.linear(),
                                                             {.offset = entry.head.log_place,
                                                              .lines = entry.head.log_lines,
                                                              .identity = entry.head.identity,
                                                              .session = entry.head.session},
                                                             entry.head.checkpoint));
    return log->recover(entry.head.session);
  }

  std::optional<object::ObjectTable> table_;
};

class ObjectKind final : public EngineKind {
 public:
  Status check_options(const Options&) const override { return {}; }
  Status check_creation(const Options&, const media::Medium&) const override { return {}; }
  void fill_record(const Options&, format::RegionRecord& record) const override {
    record.engine = format::EngineId::kObjects;
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

}  // namespace

const EngineKind& object_kind() {
  static const ObjectKind kind;
  return kind;
}

}  // namespace perdura::store
