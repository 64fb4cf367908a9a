// Goal: who looks at objects beside the program that has them open finds no damage where there is
// none, though objects take the places of others meanwhile; damage is found all the same.
// Method: a reader's medium that lets the writer go on before it loads the last heads, so that what
// was read of the first ones is of another moment; and heads that are forged there.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include <perdura/objects.hpp>

#include "format/object_format.hpp"
#include "media/decorator.hpp"
#include "media/medium.hpp"
#include "object/object_table.hpp"
#include "store/recovery.hpp"
#include "store/storage.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {

/// As large as it is told to be.
struct Cells {
  static constexpr bool kIsFlexible = true;
  std::uint64_t sum;
  std::uint64_t add(std::uint64_t by) noexcept { return sum += by; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Cells>
    : perdura::MethodList<perdura::Instant<&perdura::test::Cells::add>> {};

namespace perdura::test {
namespace {

/// Says before it loads something where that is.
class ToldMedium final : public media::Decorator {
 public:
  ToldMedium(std::unique_ptr<Medium> inner, const std::function<void(u64 place)>& about_to)
      : Decorator(std::move(inner)), about_to_(about_to) {}
  Status load(std::span<const media::ReadRequest> requests) override {
    for (const media::ReadRequest& request : requests) {
      about_to_(request.offset);
      PERDURA_TRY(inner().load({&request, 1}));
    }
    return {};
  }

 private:
  const std::function<void(u64 place)>& about_to_;
};

class ObjectsBesideWriter : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kObjects = 17;  // the heads of the last one are in an extent of their own

  ObjectsBesideWriter() {
    for (int i = 0; i < kObjects; ++i)
      made_.push_back(objects_.object<Cells>("object " + std::to_string(i),
                                             {.log_bytes = 8192, .bytes = kBytes}));
  }

  /// What a check says that begins now. `meanwhile`: before the last heads are read for the first
  /// time.
  store::CheckReport checked(const std::function<void(region::Volume&)>& meanwhile) {
    region::Volume* volume = nullptr;
    u64 last = ~u64{0};
    const std::function<void(u64)> about_to = [&](u64 place) {
      if (place != last) return;
      last = ~u64{0};
      meanwhile(*volume);
    };
    auto opened = value_or_throw(media::open_medium(uri_, {.create = false, .read_only = true}));
    const auto looked_at = value_or_throw(store::open_volume_to_read(
        std::make_unique<ToldMedium>(std::move(opened.medium), about_to)));
    volume = looked_at.get();
    const format::RegionRecord record = looked_at->regions().front();
    last = looked_at->extents(format::ExtentKind::kObjectHeads, record.region).back().medium_offset;
    const auto inspection = store::engine_kind(record).inspection(*looked_at, record);
    store::CheckReport report;
    inspection->check(inspection->read_versions(), report, [](const char*, u64, u64) {});
    EXPECT_EQ(last, ~u64{0}) << "nobody has read the last heads";
    return report;
  }

  static constexpr std::uint64_t kBytes = 16 << 10;

  const TempDir folder_{TempDir::kMemory};
  const std::string uri_ = std::string(GetParam()) + folder_.path("objects.pd");
  Objects objects_ = Objects::open(uri_);
  std::vector<Object<Cells>> made_;
};

INSTANTIATE_TEST_SUITE_P(Media, ObjectsBesideWriter, testing::Values("emu:", "file:"),
                         [](const auto& info) {
                           return std::string(info.param).substr(0, std::strlen(info.param) - 1);
                         });

// The first one leaves its place, for one that the store did not have yet, and the last one gets
// it.
TEST_P(ObjectsBesideWriter, AreWholeWhereOneTakesThePlaceOfAnother) {
  const store::CheckReport report = checked([this](region::Volume&) {
    made_.front().resize(64 << 20);
    made_.back().resize(kBytes - 8);
  });
  EXPECT_FALSE(report.damaged()) << report.findings.front().message;
}

TEST_P(ObjectsBesideWriter, AreDamagedWhereTwoAreAtOnePlace) {
  FileBytes bytes = read_file(folder_.path("objects.pd"));
  const auto head_of = [&](u64 place, u64 slot) {
    return reinterpret_cast<format::ObjectHead*>(bytes.data() + place +
                                                 slot * format::kObjectHeadBytes);
  };
  u64 place = 0;
  const store::CheckReport report = checked([&](region::Volume& volume) {
    const auto heads = volume.extents(format::ExtentKind::kObjectHeads);
    place = heads.back().medium_offset;
    for (u64 slot = 0; slot < 2; ++slot) {
      format::ObjectHead* const forged = head_of(place, slot);
      forged->copy_place[0] = head_of(heads.front().medium_offset, 0)->copy_place[0];
      forged->checksum = object::head_checksum(*forged);
    }
    write_file(folder_.path("objects.pd"), bytes);
  });
  ASSERT_TRUE(report.damaged());
  EXPECT_NE(report.findings.front().message.find("(medium offset " + std::to_string(place) +
                                                 ") names space that is not free"),
            std::string::npos)
      << report.findings.front().message;
}

}  // namespace
}  // namespace perdura::test
