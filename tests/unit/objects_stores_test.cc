// Goal: a store of objects and its overflow store are refused where they do not belong together,
// with a sentence, and who is refused leaves behind what was there: no new store, no new region, no
// store that is bound. What a store is to another one, and whether copies there are whole, info and
// check say. Method: all wrong pairs, before and after which the files are compared; the built
// command.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <perdura/objects.hpp>
#include <perdura/store.hpp>

#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {

/// More than half of what the stores here may have.
struct Wide {
  std::uint64_t words[4096];
  std::uint64_t next() noexcept { return ++words[0]; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Wide>
    : perdura::MethodList<perdura::Instant<&perdura::test::Wide::next>> {};

namespace perdura::test {
namespace {

constexpr std::uint64_t kEach = 2 * sizeof(Wide) + 8192;

class ObjectsStores : public testing::Test {
 protected:
  std::string uri(const char* name) const { return "file:" + folder_.path(name); }
  ObjectsOptions with(const char* overflow) const {
    return {.bytes_max = kEach + 4 * kPageBytes, .overflow = uri(overflow)};
  }
  /// One object has space; of two one is away.
  void make(const char* name, const char* overflow, int objects = 2) const {
    Objects opened = Objects::open(uri(name), with(overflow));
    for (int i = 0; i < objects; ++i)
      opened.object<Wide>("number " + std::to_string(i), {.log_bytes = 8192}).call<&Wide::next>();
    opened.close();
  }
  void make_heap(const char* name, const char* region = "") const {
    Store store = Store::open(uri(name), {.region = region});
    (void)store.root<perdura::map<perdura::string, int>>("visits");
    store.checkpoint();
    store.close();
  }
  /// A store without regions.
  void make_empty(const char* name) const {
    make_heap(name);
    const std::string out = output_of("remove " + folder_.path(name) + " main", 0);
    EXPECT_EQ(regions_of(name).size(), 0u) << out;
  }
  bool exists(const char* name) const { return std::filesystem::exists(folder_.path(name)); }
  std::vector<std::string> regions_of(const char* name) const {
    std::vector<std::string> names;
    for (const auto& each : value_or_throw(store::outline(uri(name), {})).regions)
      names.push_back(each.name());
    return names;
  }
  std::string output_of(const std::string& arguments, int exit_code) const {
    const std::string out = folder_.path("out");
    const std::string command =
        std::string("'") + PERDURA_COMMAND + "' " + arguments + " >'" + out + "' 2>&1";
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), exit_code);
    std::ifstream file(out, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  const TempDir folder_{TempDir::kMemory};
};

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

TEST_F(ObjectsStores, WhatHoldsSomethingElseIsNoOverflowStore) {
  make_heap("heap");
  make_heap("another", "graphs");
  {
    Objects::open(uri("objects")).object<Wide>("one").call<&Wide::next>();
  }
  {
    Objects::open(uri("objects 2"), {.region = "mine"}).object<Wide>("one").call<&Wide::next>();
  }
  for (const char* holder : {"heap", "another", "objects", "objects 2"}) {
    const std::vector<std::string> before = regions_of(holder);
    expect_error([&] { Objects::open(uri("store"), with(holder)); }, Code::kInvalidArgument,
                 "is no overflow store: its region '" + before.at(0) + "' holds ");
    EXPECT_EQ(regions_of(holder), before) << "a region that nobody wants is left";
    EXPECT_FALSE(exists("store")) << "a store that nobody wants is left";
  }
  // Nor where the store is there.
  {
    Objects::open(uri("store")).object<Wide>("one").call<&Wide::next>();
  }
  expect_error([&] { Objects::open(uri("store"), with("another")); }, Code::kInvalidArgument,
               "is no overflow store: its region 'graphs' holds a heap; choose a new store");
  EXPECT_EQ(regions_of("another").size(), 1u);
}

// There are objects already: to be refused them would help nobody.
TEST_F(ObjectsStores, WhatIsAddedToAnOverflowStoreLaterIsLetBe) {
  make("store", "overflow");
  make_heap("overflow", "graphs");
  Objects objects = Objects::open(uri("store"), with("overflow"));
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(objects.object<Wide>("number " + std::to_string(i)).call<&Wide::next>(), 2u);
}

TEST_F(ObjectsStores, WhoIsRefusedLeavesNoStoreBehind) {
  make("store", "overflow");
  expect_error([&] { Objects::open(uri("new"), with("overflow")); }, Code::kMisuse,
               "has objects of another store");
  EXPECT_FALSE(exists("new")) << "a store that nobody wants is left";
  // A region of another store that is there.
  make_heap("heap", "graphs");
  expect_error([&] { Objects::open(uri("heap"), with("overflow")); }, Code::kMisuse,
               "has objects of another store");
  EXPECT_EQ(regions_of("heap").size(), 1u) << "a region that nobody wants is left";
  // A store that is nobody's yet, where objects lie in another one: it can still be another's.
  make_empty("free");
  expect_error([&] { Objects::open(uri("store"), with("free")); }, Code::kMisuse,
               "lie in another overflow store");
  EXPECT_TRUE(regions_of("free").empty()) << "a region that nobody wants is left";
  make("other", "free");
  expect_error([&] { Objects::open(uri("missing"), {.create = false, .overflow = uri("none")}); },
               Code::kNotFound, "missing");
  EXPECT_FALSE(exists("missing") || exists("none"));
}

TEST_F(ObjectsStores, TheOverflowStoreSaysWhoseItIs) {
  make("store", "overflow");
  const auto description = value_or_throw(store::describe(uri("overflow"), {}));
  ASSERT_TRUE(description.regions.at(0).overflow.has_value());
  EXPECT_TRUE(description.regions.at(0).overflow->is_known);
  const std::string store = output_of("info " + folder_.path("store"), 0);
  const std::string uuid =
      store.substr(store.find("UUID"), store.find('\n', store.find("UUID")) - store.find("UUID"))
          .substr(13);
  const std::string info = output_of("info " + folder_.path("overflow"), 0);
  expect_contains(
      info,
      "overflow     an overflow store, with copies of objects of region 1 of store " + uuid + "\n");
  expect_contains(output_of("info --json " + folder_.path("overflow"), 0), "\"store\": \"" + uuid);
  EXPECT_EQ(info.find("objects      "), std::string::npos) << info;
}

TEST_F(ObjectsStores, CheckVerifiesWhatIsAway) {
  make("store", "overflow");
  const std::string both =
      "check " + folder_.path("store") + " --overflow " + folder_.path("overflow");
  expect_contains(output_of("check " + folder_.path("store"), 0), "name that (--overflow)");
  EXPECT_EQ(output_of(both, 0).find("note"), std::string::npos);
  make("other", "another");
  expect_contains(
      output_of("check " + folder_.path("store") + " --overflow " + folder_.path("another"), 2),
      "is not the overflow store of");
  const auto description = value_or_throw(store::describe(uri("store"), {}));
  for (const auto& each : *description.regions.at(0).objects)
    if (each.overflow_place != 0) flip_bit(folder_.path("overflow"), each.overflow_place + 9000, 1);
  expect_contains(output_of(both, 1), "does not fit its checksum");
}

// With its copy there: the next object that moves out gets that space.
TEST_F(ObjectsStores, RemoveTakesOneThatIsAwayAndItsCopy) {
  make("store", "overflow");
  make("other", "another");
  const auto away = [&] {
    const auto description = value_or_throw(store::describe(uri("store"), {}));
    for (const auto& each : *description.regions.at(0).objects)
      if (each.overflow_place != 0) return std::pair(each.name, each.overflow_place);
    return std::pair(std::string(), u64{0});
  };
  const auto [name, place] = away();
  ASSERT_NE(place, 0u);
  const std::string remove =
      "remove " + folder_.path("store") + " --object '" + name + "' --overflow ";
  expect_contains(output_of("remove " + folder_.path("store") + " --object '" + name + "'", 2),
                  "object '" + name + "' of '" + folder_.path("store") +
                      "' is in an overflow store; name that (--overflow), or, if it is lost, say "
                      "so (--overflow-lost)");
  expect_contains(output_of(remove + folder_.path("another"), 2), "is not the overflow store of");
  expect_contains(output_of(remove + folder_.path("missing"), 2), "missing");
  EXPECT_EQ(away().first, name) << "it is gone though that was refused";
  expect_contains(
      output_of(
          "remove " + folder_.path("store") + " objects --overflow " + folder_.path("overflow"), 2),
      "--overflow is for an --object");
  EXPECT_EQ(output_of(remove + folder_.path("overflow"), 0),
            "object '" + name + "' is removed, which was in the overflow store\n");
  EXPECT_EQ(
      output_of("check " + folder_.path("store") + " --overflow " + folder_.path("overflow"), 0)
          .find("note"),
      std::string::npos);
  // Its space there is another one's.
  const auto bytes = std::filesystem::file_size(folder_.path("overflow"));
  {
    Objects objects = Objects::open(uri("store"), with("overflow"));
    EXPECT_EQ(objects.list().size(), 1u);
    objects.object<Wide>("third", {.log_bytes = 8192}).call<&Wide::next>();
  }
  EXPECT_EQ(away().second, place);
  EXPECT_NE(away().first, name);
  EXPECT_EQ(std::filesystem::file_size(folder_.path("overflow")), bytes);
  // One that is here needs no overflow store, and it may be named.
  EXPECT_EQ(output_of("remove --json " + folder_.path("store") + " --object third --overflow " +
                          folder_.path("overflow"),
                      0)
                .find("\"was_in_overflow\": true"),
            std::string::npos);
  // Where that store is lost, what lies there can still be given up.
  std::filesystem::remove(folder_.path("overflow"));
  expect_contains(output_of("remove --json " + folder_.path("store") + " --object '" +
                                away().first + "' --overflow-lost",
                            0),
                  "\"was_in_overflow\": true");
  EXPECT_EQ(Objects::open(uri("store")).list().size(), 0u);
  expect_contains(output_of("remove --help", 0), "--overflow-lost");
}

// As a record that is cut short, or rots, says nothing.
TEST_F(ObjectsStores, CheckFindsThatItDoesNotSayWhoseItIsAnyMore) {
  make("store", "overflow");
  const FileBytes bytes = read_file(folder_.path("overflow"));
  const u64 magic = format::kOverflowMagic;
  for (u64 at = 0; at + kPageBytes <= bytes.size(); at += kPageBytes)
    if (std::memcmp(bytes.data() + at + 8, &magic, sizeof magic) == 0)
      flip_bit(folder_.path("overflow"), at + 20, 2);
  expect_contains(output_of("check " + folder_.path("overflow"), 1), "(its record) is damaged");
  expect_contains(output_of("info " + folder_.path("overflow"), 0), "does not say of which store");
}

}  // namespace
}  // namespace perdura::test
