// Goal: objects whose heads move are as they were answered, whatever ends their sessions: crashes,
// also in the opening that follows, and media that fail.
// Method: random sessions against what may be of each object; PERDURA_SEED is the first seed,
// PERDURA_ROUNDS how many, and with PERDURA_FAILS=1 media fail.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "media/decorator.hpp"
#include "media/record.hpp"
#include "model/object/objects_runtime.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "store/versions.hpp"
#include "support/files.hpp"
#include "support/filtered_queue.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"
#include "support/worn_objects.hpp"

namespace perdura::test {
namespace {

struct Failing {
  std::mt19937_64* random = nullptr;
  u64 one_in = 0;  ///< 0: none
  bool any = false;

  bool refuses(const media::Site& site, bool& written) {
    if (one_in == 0) return false;
    if (!std::string_view(site.what).starts_with("object") &&
        !std::string_view(site.what).starts_with("cleared"))
      return false;
    if ((*random)() % one_in != 0) return false;
    written = (*random)() % 2 == 0;
    any = true;
    return true;
  }
};

class FailingMedium final : public media::Decorator {
 public:
  FailingMedium(std::unique_ptr<media::Medium> inner, Failing& plan)
      : Decorator(std::move(inner)), plan_(plan) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    bool written = false;
    if (!plan_.refuses(site, written)) return Decorator::write(offset, data, site);
    if (written) PERDURA_TRY(Decorator::write(offset, data, site));
    return Failure{Code::kIo, "refused"};
  }
  Status barrier(const media::Site& site) override {
    bool written = false;
    if (!plan_.refuses(site, written)) return Decorator::barrier(site);
    return Failure{Code::kIo, "refused"};
  }
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<FilteredQueue>(
        Decorator::queue(), [this](u64, const media::Site& site, const auto& submit) -> Status {
          bool written = false;
          if (!plan_.refuses(site, written)) return submit();
          if (written) PERDURA_TRY(submit());
          return Failure{Code::kIo, "refused"};
        });
  }

 private:
  Failing& plan_;
};

/// What may be there of an object.
struct May {
  u64 low = 0, high = 0;
  bool be_absent = false, be_present = true;
};
using Model = std::map<std::string, May>;

u64 heads_written(const media::History& history, size_t end) {
  u64 count = 0;
  for (size_t i = 0; i < end; ++i) {
    const media::RecordedCall& call = history.calls()[i];
    count += call.kind == media::RecordedCall::Kind::kWrite && call.succeeded &&
             std::string_view(call.site->what) == "object head";
  }
  return count;
}

class MovingHeadsInSessions : public testing::TestWithParam<const char*> {
 protected:
  std::string uri(const char* name = "objects.pd") const { return GetParam() + folder_.path(name); }
  const Hot initial_{};
  const std::vector<detail::ObjectMethod> methods_ = [] {
    const auto all = detail::methods_of<Hot>(Methods<Hot>{});
    return std::vector<detail::ObjectMethod>(all.begin(), all.end());
  }();
  detail::ObjectType type() const {
    return {typeid(Hot).name(), sizeof(Hot), methods_, &initial_, false};
  }
  // By name, so that it is the same each time.
  static ObjectOptions options(const std::string& name) {
    const u64 n = std::stoull(name.substr(1));
    ObjectOptions options{.log_bytes = 8192, .checkpoint_calls = 1 + n % 3};
    if (n % 7 == 3) options.history = ObjectHistory::kLast;
    if (n % 7 == 5) {
      options.history = ObjectHistory::kAll;
      options.callers = 4;
      options.archive_bytes = 1 << 16;
    }
    if (n % 5 == 1) options.durability = ObjectDurability::kRelaxed;
    if (n % 5 == 2) options.durability = ObjectDurability::kEach;
    if (n % 4 == 3) options.servers = 0;
    return options;
  }
  /// How often heads were written, as the table says.
  u64 writes_said() const {
    return media::open_medium(uri(), {.read_only = true}) ? writes_in(table_of(uri())) : 0;
  }
  static bool is_relaxed(const std::string& name) {
    return options(name).durability == ObjectDurability::kRelaxed;
  }
  static u64 now(detail::OpenObject& object, bool& whole) {
    u64 count = 0;
    value_or_throw(object.core().read([&](const void* state) {
      count = static_cast<const Hot*>(state)->now();
      whole = static_cast<const Hot*>(state)->is_whole();
    }));
    return count;
  }
  static Result<u64> try_call(detail::OpenObject& object) {
    u64 answer = 0;
    PERDURA_TRY(object.core().call(object.call_of(0, 0, Domain::kAll, {}), &answer));
    object.level();
    return answer;
  }

  const TempDir folder_{TempDir::kMemory};
};

INSTANTIATE_TEST_SUITE_P(Media, MovingHeadsInSessions, testing::Values("emu:", "file:"),
                         name_of_scheme);

u64 from_environment(const char* name, u64 otherwise) {
  const char* const said = std::getenv(name);
  return said == nullptr ? otherwise : std::strtoull(said, nullptr, 10);
}

TEST_P(MovingHeadsInSessions, AllThatWasAnsweredIsThere) {
  const u64 first = from_environment("PERDURA_SEED", 1);
  const u64 rounds = from_environment("PERDURA_ROUNDS", 20);
  const bool fails = from_environment("PERDURA_FAILS", 0) != 0;
  u64 moved = 0, crashes = 0, twice = 0;
  for (u64 seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::filesystem::remove(folder_.path("objects.pd"));
    Model model;
    bool is_made = false;
    const u64 names = random() % 3 == 0 ? 20 : 4;
    for (int session = 0; session < 8; ++session) {
      SCOPED_TRACE("session " + std::to_string(session));
      ObjectsOptions how;
      const u64 moves[] = {0, 1, 1, 2, 5};
      how.wear_moves = moves[random() % 5];
      media::Recording recording;
      Failing failing{.random = &random};
      std::vector<std::pair<size_t, Model>> notes{{0, model}};
      std::map<std::string, std::shared_ptr<detail::OpenObject>> open;
      const auto note = [&] { notes.emplace_back(recording.size(), model); };
      const u64 said_before = session == 0 ? 0 : writes_said();
      std::unique_ptr<detail::ObjectsRuntime> runtime;
      runtime = value_or_throw(
          detail::ObjectsRuntime::open(uri(), how, [&]() -> Result<std::unique_ptr<media::Medium>> {
            PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri(), {}));
            return recording.wrap(
                std::make_unique<FailingMedium>(std::move(opened.medium), failing));
          }));
      // What is there is as it may be.
      for (const auto& said : value_or_throw(runtime->list()))
        ASSERT_TRUE(model.contains(said.name) && model[said.name].be_present) << said.name;
      const auto all = value_or_throw(runtime->list());
      for (auto& [name, may] : model) {
        const bool there =
            std::ranges::any_of(all, [&](const auto& each) { return each.name == name; });
        ASSERT_TRUE(there ? may.be_present : may.be_absent) << name;
        may.be_present = there;
        may.be_absent = !there;
      }
      std::erase_if(model, [](const auto& each) { return !each.second.be_present; });
      const auto open_one = [&](const std::string& name) -> bool {
        if (open.contains(name)) return true;
        const bool was = model.contains(name);
        if (!was) {  // it may be there from now on
          model[name] = {.be_absent = true, .be_present = true};
          note();
        }
        auto made = runtime->object(name, type(), options(name));
        if (!made) {
          EXPECT_TRUE(failing.any) << name << ": " << made.failure().message;
          if (!failing.any) throw Error(Code::kIo, "that");
          return false;
        }
        bool whole = false;
        const u64 count = now(**made, whole);
        May& may = model[name];
        EXPECT_TRUE(whole) << name;
        EXPECT_GE(count, may.low) << name;
        EXPECT_LE(count, may.high) << name;
        if (count < may.low || count > may.high || !whole) throw Error(Code::kIo, "that");
        may = {.low = count, .high = count};
        if (options(name).history == ObjectHistory::kAll)
          for (u64 i = 1; i <= count; ++i) {
            u64 answer = 0;
            value_or_throw((*made)->core().call((*made)->call_of(0, 0, Domain::kAll, {}), &answer));
            EXPECT_EQ(answer, i);
          }
        open[name] = *made;
        note();
        return true;
      };
      bool failed = false;
      if (fails && random() % 2 == 0) failing.one_in = 10 + random() % 60;
      const u64 steps = random() % 60;
      for (u64 step = 0; step < steps; ++step) {
        const std::string name = "o" + std::to_string(random() % (random() % 2 == 0 ? 2 : names));
        const u64 what = random() % 40;
        if (what == 0 && model.contains(name)) {
          open.erase(name);
          model[name].be_absent = true;
          note();
          const Status removed = runtime->remove(name);
          if (removed) model.erase(name);
          else failed = true;
          note();
          continue;
        }
        try {
          if (!open_one(name)) {
            failed = true;
            continue;
          }
        } catch (const Error& error) {
          ASSERT_TRUE(failing.any) << error.what();
          failed = true;
          open.erase(name);
          continue;
        }
        May& may = model[name];
        detail::OpenObject& object = *open[name];
        if (what < 4) {
          note();
          const Result<u64> version = object.core().checkpoint();
          object.level();
          if (version) may.low = may.high;
          if (!version) {
            ASSERT_TRUE(failing.any) << version.failure().message;
          }
          note();
          continue;
        }
        for (u64 i = random() % 5; i != 0; --i) {
          ++may.high;
          note();
          const Result<u64> answer = try_call(object);
          if (!answer) {
            ASSERT_TRUE(failing.any) << answer.failure().message;
            failed = true;
            break;
          }
          if (may.low + 1 == may.high && !is_relaxed(name)) {
            ASSERT_EQ(*answer, may.high);
          }
          if (!is_relaxed(name)) may.low = may.high;
          note();
        }
      }
      moved += value_or_throw(runtime->moves()).heads;
      (void)failed;
      const bool closes = random() % 5 == 0;
      std::vector<std::string> opened;
      for (const auto& [name, object] : open) opened.push_back(name);
      open.clear();
      if (closes) {
        failing.one_in = 0;
        Model last = model;
        const Status closed = runtime->close();
        if (!failing.any) {
          ASSERT_TRUE(closed);
          for (const std::string& name : opened) model[name].low = model[name].high;
        }
        note();
      } else {
        runtime->abandon();
      }
      runtime.reset();
      const media::History history = recording.history();
      size_t end = history.calls().size();
      if (!closes) {
        ++crashes;
        if (random() % 4 != 0 && end != 0) end = 1 + random() % end;
        // Whole records, drawn atoms, or both.
        const u64 salt = random();
        const u64 kind = random() % 5;
        const FileBytes image = history.after_crash(end, [&](size_t at, u64 atom) {
          std::mt19937_64 draw(salt ^ (at << 20) ^ (kind == 2 ? atom : 0));
          if (kind == 0) return true;
          if (kind == 1) return false;
          if (kind == 4) {  // heads are there, and of others some atoms
            if (std::string_view(history.calls()[at].site->what) == "object head") return true;
            return std::mt19937_64(salt ^ (at << 20) ^ atom)() % 2 == 0;
          }
          return draw() % 2 == 0;
        });
        write_file(folder_.path("objects.pd"), image);
        // As it was noted before and after the crash.
        Model before, after;
        for (const auto& [at, noted] : notes)
          if (at <= end) before = noted;
        after = before;
        for (const auto& [at, noted] : notes)
          if (at > end) {
            after = noted;
            break;
          }
        model = before;
        for (auto& [name, may] : model) {
          const auto later = after.find(name);
          if (later == after.end()) {
            may.be_absent = true;
            continue;
          }
          may.low = std::min(may.low, later->second.low);
          may.high = std::max(may.high, later->second.high);
          may.be_absent |= later->second.be_absent;
          may.be_present |= later->second.be_present;
        }
        for (const auto& [name, may] : after)
          if (!model.contains(name)) {
            model[name] = may;
            model[name].be_absent = true;
          }
      }
      if (!std::filesystem::exists(folder_.path("objects.pd"))) {
        model.clear();
        continue;
      }
      if (from_environment("PERDURA_FUZZ_COUNTS", 1) != 0 && session != 0 && !failing.any) {
        const u64 said = writes_said() - said_before;
        const u64 written = heads_written(history, end);
        if (closes) {
          EXPECT_EQ(said, written);
        }
        // At each crash one place may have lost what was said of it, or said too much.
        else {
          EXPECT_GE(said + 2, written);
          EXPECT_LE(said, written);
        }
      }
      const auto report = store::check(uri(), {});
      if (!report) {
        ASSERT_FALSE(is_made) << report.failure().message;
        std::filesystem::remove(folder_.path("objects.pd"));
        model.clear();
        continue;
      }
      is_made = true;
      ASSERT_FALSE(report->damaged()) << report->findings.front().message;
      if (random() % 8 == 0) {  // others look at a copy: they share it, or remove something
        std::filesystem::copy_file(folder_.path("objects.pd"), folder_.path("copy.pd"),
                                   std::filesystem::copy_options::overwrite_existing);
        const std::string wrong = in_child([&]() -> std::string {
          ObjectsOptions shared;
          shared.shared = true;
          shared.wear_moves = 1;
          Objects objects = Objects::open(uri("copy.pd"), shared);
          for (const auto& each : objects.list()) {
            if (!model.contains(each.name)) return each.name + " should not be";
            if (options(each.name).history == ObjectHistory::kAll) continue;
            auto one = objects.object<Hot>(each.name, options(each.name));
            const u64 count = one.read<&Hot::now>();
            if (count < model[each.name].low || count > model[each.name].high)
              return each.name + " counts otherwise";
            (void)one.call<&Hot::next>();
          }
          objects.close();
          Objects again = Objects::open(uri("copy.pd"), {});
          return value_or_throw(store::check(uri("copy.pd"), {})).damaged() ? "damaged" : "";
        });
        ASSERT_EQ(wrong, "");
      }
      (void)twice;
    }
  }
  std::printf("moves %lu crashes %lu\n", static_cast<unsigned long>(moved),
              static_cast<unsigned long>(crashes));
}

}  // namespace
}  // namespace perdura::test
