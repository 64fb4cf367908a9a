// Goal: what a crash in the middle of a head's move leaves does no harm where processes share the
// objects next.
// Method: one of them is killed at each call of the medium; the other one goes on, and who opens
// after them finds all.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "media/record.hpp"
#include "model/object/objects_runtime.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "store/versions.hpp"
#include "support/fellows.hpp"
#include "support/files.hpp"
#include "support/killing_medium.hpp"
#include "support/object_medium.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"
#include "support/worn_objects.hpp"

namespace perdura::test {
namespace {

class MovingHeadsShared : public testing::TestWithParam<const char*> {
 protected:
  std::string uri(const char* name = "objects.pd") const { return GetParam() + folder_.path(name); }
  static ObjectOptions options() { return {.log_bytes = 8192, .checkpoint_calls = 2}; }
  const Hot initial_{};
  const std::vector<detail::ObjectMethod> methods_ = [] {
    const auto all = detail::methods_of<Hot>(Methods<Hot>{});
    return std::vector<detail::ObjectMethod>(all.begin(), all.end());
  }();
  detail::ObjectType type() const {
    return {typeid(Hot).name(), sizeof(Hot), methods_, &initial_, false};
  }
  const TempDir folder_{TempDir::kMemory};
};
INSTANTIATE_TEST_SUITE_P(Media, MovingHeadsShared, testing::Values("emu:", "file:"),
                         name_of_scheme);

TEST_P(MovingHeadsShared, AnyDeathAfterACrashInAMove) {
  media::Recording recording;
  size_t begin = 0;
  {
    ObjectsOptions how;
    how.wear_moves = 2;
    const auto runtime = value_or_throw(
        detail::ObjectsRuntime::open(uri(), how, [&]() -> Result<std::unique_ptr<media::Medium>> {
          PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri(), {}));
          return recording.wrap(std::move(opened.medium));
        }));
    const auto cold = value_or_throw(runtime->object("cold", type(), options()));
    const auto hot = value_or_throw(runtime->object("hot", type(), options()));
    begin = recording.size();
    for (u64 i = 1; i <= 30; ++i) {
      u64 answer = 0;
      value_or_throw(hot->core().call(hot->call_of(0, 0, Domain::kAll, {}), &answer));
      hot->level();
    }
    runtime->abandon();
  }
  std::vector<FileBytes> images;
  for_each_crash(
      recording.history(), begin, 2,
      [&](size_t, const FileBytes& image) {
        write_file(folder_.path("crashed.pd"), image);
        if (heads_in(table_of(uri("crashed.pd"))) == 3) images.push_back(image);
      },
      [&] { return images.size() < 3; });
  ASSERT_EQ(images.size(), 3u);
  u64 deaths = 0;
  for (const FileBytes& image : images)
    for (const bool beside : {true, false})
      for (std::int64_t calls = 1; calls <= 60; ++calls) {
        SCOPED_TRACE(std::to_string(calls) + (beside ? " beside" : ""));
        const NothingLeft nothing_left(uri("crashed.pd"));
        write_file(folder_.path("crashed.pd"), image);
        ObjectsOptions shared;
        shared.shared = true;
        shared.wear_moves = 1;
        std::unique_ptr<Objects> other;
        if (beside) other = std::make_unique<Objects>(Objects::open(uri("crashed.pd"), shared));
        const pid_t child = ::fork();
        if (child == 0) {
          KillingMedium::Count left{calls};
          auto opened = detail::ObjectsRuntime::open(
              uri("crashed.pd"), shared, [&]() -> Result<std::unique_ptr<media::Medium>> {
                PERDURA_ASSIGN(media::OpenedMedium medium,
                               media::open_medium(uri("crashed.pd"), {}));
                return std::unique_ptr<media::Medium>(
                    std::make_unique<KillingMedium>(std::move(medium.medium), left));
              });
          if (opened) {
            auto hot = (*opened)->object("hot", type(), options());
            if (hot)
              for (int i = 0; i < 20; ++i) {
                u64 answer = 0;
                (void)(*hot)->core().call((*hot)->call_of(0, 0, Domain::kAll, {}), &answer);
              }
          }
          ::kill(::getpid(), SIGKILL);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        ++deaths;
        if (!other) other = std::make_unique<Objects>(Objects::open(uri("crashed.pd"), shared));
        u64 count = 0;
        {
          auto hot = other->object<Hot>("hot", options());
          count = hot.read<&Hot::now>();
          for (u64 i = 1; i <= 5; ++i) ASSERT_EQ(hot.call<&Hot::next>(), count + i);
          count += 5;
        }
        other->close();
        ASSERT_EQ(heads_in(table_of(uri("crashed.pd"))), 2u);
        ASSERT_FALSE(value_or_throw(store::check(uri("crashed.pd"), {})).damaged());
        ObjectsOptions how;
        how.wear_moves = 1;
        Objects last = Objects::open(uri("crashed.pd"), how);
        auto hot = last.object<Hot>("hot", options());
        ASSERT_EQ(hot.read<&Hot::now>(), count);
        ASSERT_EQ(last.object<Hot>("cold", options()).read<&Hot::now>(), 0u);
        (void)hot.call<&Hot::next>();
      }
  EXPECT_GT(deaths, 100u);
}

}  // namespace
}  // namespace perdura::test
