// Goal: a pointer of a container into a program or library leads to the same function or variable
// after each opening, wherever the libraries and the region are then, and whichever libraries were
// loaded and unloaded while the container was open.
// Method: libraries (c/plugin) under several names are loaded, unloaded and loaded again at places
// that are taken or left free before; the container is opened by the same process.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "support/files.hpp"

namespace {

using Call = int (*)(int);

struct Calls {
  Call first;
  Call second;
};

/// Pointers far from each other, and pages without any between them.
struct Far {
  Call first;
  std::byte rest[3 * 4096];
  Call second;
};

struct Table {
  Call first;
  std::uint64_t count;
  Call more[];
};

struct Owner {
  Table* table;
  Far* far;
};

}  // namespace

PERDURA_TYPE(Calls, first, second)
PERDURA_TYPE(Far, first, second)
PERDURA_TYPE_OF(Table, PERDURA_POINTER(Table, first), PERDURA_FLEXIBLE_POINTERS(Table, more))
PERDURA_TYPE(Owner, table, far)

namespace perdura::test {
namespace {

/// A part of the address space that nobody else gets.
class Taken {
 public:
  Taken(void* place, u64 bytes) : place_(place), bytes_(bytes) {}
  Taken(Taken&& other) noexcept
      : place_(std::exchange(other.place_, nullptr)), bytes_(other.bytes_) {}
  ~Taken() {
    if (place_ != nullptr) ::munmap(place_, bytes_);
  }

  static Taken at(u64 address, u64 bytes) {
    void* const place = ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place), address);
    return {place, bytes};
  }
  static Taken anywhere(u64 bytes) {
    void* const place = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(place, MAP_FAILED);
    return {place, bytes};
  }
  u64 begin() const { return reinterpret_cast<std::uintptr_t>(place_); }

 private:
  void* place_;
  u64 bytes_;
};

class Library {
 public:
  explicit Library(const std::string& path)
      : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(handle_, nullptr) << ::dlerror();
  }
  Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  Call call(const char* name = "plugin_add") const {
    return reinterpret_cast<Call>(::dlsym(handle_, name));
  }
  u64 begin() const {
    link_map* map = nullptr;
    EXPECT_EQ(::dlinfo(handle_, RTLD_DI_LINKMAP, &map), 0);
    return map->l_addr;
  }

 private:
  void* handle_;
};

constexpr u64 kLibraryBytes = 64 * kKiB;  // more than one takes

class ModulesOfContainers : public testing::Test {
 protected:
  void SetUp() override {
    build(1, "one.so");
    build(1, "copy.so");
    build(2, "two.so");
  }

  void build(int build, const std::string& name) const {
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    std::filesystem::copy_file(PLUGINS "/" + std::to_string(build) + "/plugin.so", file(name),
                               std::filesystem::copy_options::overwrite_existing);
  }
  std::string file(const std::string& name) const { return folder_.path(name); }
  Library load(const std::string& name) const { return Library(file(name)); }
  /// Where another library was: `place` is taken so long as that takes.
  Library load_elsewhere(const std::string& name, u64 place) const {
    const Taken taken = Taken::at(place, kLibraryBytes / 4);
    return load(name);
  }

  Container open(u64 address = 0) const {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.region_address = address;
    return Container::open("file:" + folder_.path("container.pd"), options);
  }

  const TempDir folder_;
};

// A page without any between them, in one object: each is looked at once, or what was changed to
// lead to where the library is now would be taken for a pointer of before.
TEST_F(ModulesOfContainers, EachPointerIsRestoredOnce) {
  constexpr u64 kMore = 4000;
  u64 place = 0;
  {
    const Library library = load("one.so");
    place = library.begin();
    Container container = open();
    auto& owner = container.root<Owner>();
    owner.far = make<Far>();
    owner.far->first = library.call();
    owner.far->second = library.call("plugin_old");
    owner.table = static_cast<Table*>(
        allocate_flexible(TypeRecord<Table>::value, sizeof(Table) + kMore * sizeof(Call)));
    owner.table->first = library.call();
    owner.table->more[kMore - 1] = library.call("plugin_old");
    container.point();
    EXPECT_EQ(container.statistics().foreign_pointers, 0u);
    container.close();
  }
  for (int i = 0; i < 3; ++i) {  // also after a point of what was restored
    const Library library = load_elsewhere("one.so", place);
    place = library.begin();
    Container container = open();
    const auto& owner = container.root<Owner>();
    EXPECT_EQ(owner.far->first, library.call());
    EXPECT_EQ(owner.far->second, library.call("plugin_old"));
    EXPECT_EQ(owner.table->first, library.call());
    EXPECT_EQ(owner.table->more[kMore - 1], library.call("plugin_old"));
    EXPECT_EQ(container.statistics().restored_pointers, 4u);
    EXPECT_EQ(container.statistics().nulled_pointers, 0u);
    container.close();
  }
}

// The addresses are those of the first one.
TEST_F(ModulesOfContainers, ALibraryTakesThePlaceOfAnother) {
  {
    Container container = open();
    auto& calls = container.root<Calls>();
    std::optional<Library> library(load("one.so"));
    const u64 place = library->begin();
    calls.first = library->call();
    container.point();
    calls.first = nullptr;
    library.reset();
    library.emplace(load("two.so"));
    ASSERT_EQ(library->begin(), place) << "the dynamic linker chose another place";
    calls.second = library->call();
    container.point();
    container.close();
  }
  const Library one = load("one.so");
  const Library two = load("two.so");
  Container container = open();
  EXPECT_EQ(container.root<Calls>().first, nullptr);
  EXPECT_EQ(container.root<Calls>().second, two.call());
  EXPECT_EQ(container.statistics().restored_pointers, 1u);
}

// The symbols are those of the second one too: another build of it is asked for them.
TEST_F(ModulesOfContainers, SymbolsAreOfTheLibraryThatIsThere) {
  {
    Container container = open();
    auto& calls = container.root<Calls>();
    std::optional<Library> library(load("one.so"));
    const u64 place = library->begin();
    calls.first = library->call();
    calls.second = library->call("plugin_old");
    container.point();
    calls.second = nullptr;
    library.reset();
    library.emplace(load("two.so"));
    ASSERT_EQ(library->begin(), place) << "the dynamic linker chose another place";
    calls.first = library->call();
    container.point();
    container.discard();
  }
  build(1, "two.so");
  const Library two = load("two.so");
  Container container = open();
  EXPECT_EQ(container.root<Calls>().first, two.call());
  container.point();
}

TEST_F(ModulesOfContainers, TwoCopiesOfALibraryAreTwo) {
  u64 place = 0;
  {
    const Library one = load("one.so");
    const Library copy = load("copy.so");
    place = one.begin();
    Container container = open();
    auto& calls = container.root<Calls>();
    calls.first = one.call();
    calls.second = copy.call();
    container.point();
    EXPECT_EQ(container.statistics().foreign_pointers, 0u);
    container.close();
  }
  {
    const Taken taken = Taken::at(place, kLibraryBytes / 4);
    const Library copy = load("copy.so");
    const Library one = load("one.so");
    Container container = open();
    EXPECT_EQ(container.root<Calls>().first, one.call());
    EXPECT_EQ(container.root<Calls>().second, copy.call());
    EXPECT_EQ(container.statistics().nulled_pointers, 0u);
    container.close();
  }
  {  // one of them serves for both
    const Library copy = load("copy.so");
    Container container = open();
    EXPECT_EQ(container.root<Calls>().first, copy.call());
    EXPECT_EQ(container.root<Calls>().second, copy.call());
    container.close();
  }
}

// Two libraries of one name, which are built again.
TEST_F(ModulesOfContainers, LibrariesOfOneNameAreToldApartByTheirFolders) {
  build(1, "a/plugin.so");
  build(1, "b/plugin.so");
  {
    const Library a = load("a/plugin.so");
    const Library b = load("b/plugin.so");
    Container container = open();
    container.root<Calls>() = {a.call(), b.call()};
    container.close();
  }
  build(2, "a/plugin.so");
  build(2, "b/plugin.so");
  const Library a = load("a/plugin.so");
  const Library b = load("b/plugin.so");
  Container container = open();
  EXPECT_EQ(container.root<Calls>().first, a.call());
  EXPECT_EQ(container.root<Calls>().second, b.call());
}

// A library is loaded again at another place, and pointers of before are still there.
TEST_F(ModulesOfContainers, ALibraryIsLoadedAgainElsewhere) {
  {
    Container container = open();
    auto& owner = container.root<Owner>();
    owner.far = make<Far>();
    std::optional<Library> library(load("one.so"));
    const u64 place = library->begin();
    owner.far->first = library->call();
    container.point();
    library.reset();
    library.emplace(load_elsewhere("one.so", place));
    ASSERT_NE(library->begin(), place);
    owner.far->second = library->call();  // on another page
    container.point();
    container.close();
  }
  for (int i = 0; i < 2; ++i) {
    const Library library = load("one.so");
    Container container = open();
    const auto& owner = container.root<Owner>();
    EXPECT_EQ(owner.far->first, library.call());
    EXPECT_EQ(owner.far->second, library.call());
    container.close();
  }
}

// Programs unload their libraries before the last point.
TEST_F(ModulesOfContainers, ALibraryIsUnloadedBeforeTheLastPoint) {
  {
    Container container = open();
    auto& calls = container.root<Calls>();
    std::optional<Library> library(load("one.so"));
    calls.first = library->call();
    container.point();
    library.reset();
    calls.second = nullptr;  // the page is looked at again
    container.point();
    EXPECT_EQ(container.statistics().foreign_pointers, 0u);
    container.close();
  }
  const Library library = load("one.so");
  Container container = open();
  EXPECT_EQ(container.root<Calls>().first, library.call());
}

// Where a library was is something else now: a pointer to that is no pointer into the library.
TEST_F(ModulesOfContainers, SomethingElseTakesThePlaceOfALibrary) {
  {
    Container container = open();
    auto& calls = container.root<Calls>();
    std::optional<Library> library(load("one.so"));
    const u64 place = library->begin();
    calls.first = library->call();
    container.point();
    calls.first = nullptr;
    library.reset();
    const Taken taken = Taken::at(place, kLibraryBytes / 4);
    calls.second = reinterpret_cast<Call>(place + 16);
    container.point();
    EXPECT_EQ(container.statistics().foreign_pointers, 1u);
    container.close();
  }
  const Library library = load("one.so");
  Container container = open();
  EXPECT_EQ(container.root<Calls>().second, nullptr);
  EXPECT_EQ(container.statistics().nulled_pointers, 1u);
}

// A restored pointer looks like one into the region as long as those are not moved.
TEST_F(ModulesOfContainers, ALibraryIsLoadedWhereTheRegionWas) {
  constexpr u64 kBytes = 64 * kMiB;
  constexpr u64 kElsewhere = 0x551000000000;
  u64 begin = 0;
  // The place for volatile objects, which a process has once, is not to be this one.
  Container::open("file:" + folder_.path("first.pd")).close();
  {
    begin = round_up(Taken::anywhere(2 * kBytes).begin(), kGiB / 64);
    const Library library = load("one.so");
    Container container = open(begin);
    ASSERT_LT(reinterpret_cast<std::uintptr_t>(&container.root<Calls>()) - begin, kBytes);
    container.root<Calls>().first = library.call();
    container.close();
  }
  std::vector<Taken> taken;
  for (u64 bytes = kBytes / 2; bytes >= kPageBytes;)
    if (Taken each = Taken::anywhere(bytes); each.begin() - begin >= kBytes)
      taken.push_back(std::move(each));  // no library comes there
    else bytes /= 2;
  const Library library = load("one.so");
  ASSERT_LT(library.begin() - begin, kBytes);
  for (int i = 0; i < 2; ++i) {
    Container container = open(kElsewhere);
    EXPECT_EQ(container.root<Calls>().first, library.call());
    EXPECT_EQ(container.statistics().nulled_pointers, 0u);
    container.close();
  }
}

}  // namespace
}  // namespace perdura::test
