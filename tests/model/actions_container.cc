// A container in another region of the store. Its root counts the steps, and what it leads to
// follows from the count:
//
//   root ──chain──▶ links, older ones behind        root ──far──▶ functions on two pages
//   root ──item───▶ the item of the last step ◀── aside, an excluded pointer, or it leads to
//   root ──pinned─▶ an object that may not move          an object that nothing else leads to
//
// Functions are the program's, or of one of two libraries that come and go.
#include <dlfcn.h>
#include <sys/mman.h>

#include "chain_steps.hpp"
#include "live.hpp"

namespace perdura::model {

using Call = int (*)(int);

struct Item {
  u64 number;
  Item* self;
  Call call;
};

/// Functions on pages with others between them.
struct Far {
  Call first;
  u8 rest[2 * 4096];
  Call second;
};

/// Its record is not known before it is used, so that a session may be of a program that has
/// another layout under this name.
struct Tag {
  u64 number;
  Tag* self;
};
struct OtherTag {
  u64 number;
  u64 added;
  OtherTag* self;
};

struct Guest {
  test::ChainRoot chain;
  u64 steps;
  Tag* tag;
  Item* aside;  // before what makes its object move
  Item* item;
  Item* pinned;
  Far* far;
};

}  // namespace perdura::model

PERDURA_TYPE(perdura::model::Item, self, call)
PERDURA_TYPE(perdura::model::Far, first, second)
PERDURA_TYPE(perdura::model::Guest, chain, tag, aside, item, pinned, far)

namespace perdura::model {
namespace {

int double_of(int value) { return 2 * value; }
int negative_of(int value) { return -value; }

constexpr u64 kLibraries = 2;

/// A library, while it is loaded.
class Library {
 public:
  void load(u64 build) {
    if (handle_ != nullptr) return;
    const std::string path = PLUGINS "/" + std::to_string(build + 1) + "/plugin.so";
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require(handle_ != nullptr, "cannot load " + path);
  }
  void unload() {
    if (handle_ != nullptr) ::dlclose(std::exchange(handle_, nullptr));
  }
  Call call() const { return reinterpret_cast<Call>(::dlsym(handle_, "plugin_add")); }

 private:
  void* handle_ = nullptr;
};

constexpr perdura_slot kTagSlots[] = {
    {"self", PERDURA_SLOT_POINTER, offsetof(Tag, self), sizeof(Tag*), nullptr, 0, 0, 0}};
constexpr perdura_type kTagType = {"model::Tag", sizeof(Tag), alignof(Tag), 1, kTagSlots};
constexpr perdura_slot kOtherTagSlots[] = {
    {"self", PERDURA_SLOT_POINTER, offsetof(OtherTag, self), sizeof(OtherTag*), nullptr, 0, 0, 0}};
constexpr perdura_type kOtherTagType = {"model::Tag", sizeof(OtherTag), alignof(OtherTag), 1,
                                        kOtherTagSlots};

enum class Aside : u8 { kItem, kLoose };
Aside aside_of(u64 step) { return test::mix(step + 1) % 2 == 0 ? Aside::kItem : Aside::kLoose; }
bool has_pinned(u64 step) { return test::mix(step + 2) % 3 == 0; }
/// Which library has the functions of a step; kLibraries or more: the program.
u64 library_of(u64 step) { return test::mix(step + 3) % (kLibraries + 2); }

/// Addresses that nothing else gets. Of small pieces: these are where a library would come.
class Taken {
 public:
  explicit Taken(u64 bytes) : pieces_(bytes / kPieceBytes) {
    for (void*& piece : pieces_) piece = take(kPieceBytes);
  }
  ~Taken() {
    for (void* const piece : pieces_) ::munmap(piece, kPieceBytes);
  }
  Taken(const Taken&) = delete;

  /// The highest that are free: what has room nowhere above comes there.
  static u64 free(u64 bytes) {
    void* const found = take(bytes);
    ::munmap(found, bytes);
    return reinterpret_cast<u64>(found);
  }

 private:
  static constexpr u64 kPieceBytes = 4 * kPageBytes;

  static void* take(u64 bytes) {
    void* const taken =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(taken != MAP_FAILED, "no address space is left");
    return taken;
  }

  std::vector<void*> pieces_;
};

}  // namespace

/// The container in a session.
struct GuestRun {
  Live& live;
  std::optional<Taken> taken{};  ///< libraries come elsewhere than in other sessions
  Library libraries[kLibraries]{};
  std::optional<Container> container{};
  Item* loose = nullptr;  ///< what only the excluded pointer leads to
  Item* pinned = nullptr;

  void open(u64 number);
  void open_container();
  void step();
  void check(bool is_opened);
  Call call_of(u64 step) const {
    const u64 library = library_of(step);
    if (library < kLibraries) return libraries[library].call();
    return library % 2 == 0 ? double_of : negative_of;
  }
};

Options container_options(const Live& live, const char* region) {
  Options options = live.session.options;
  options.region = region;
  options.aliases = 0;
  options.version = 0;
  options.region_address = 0;
  options.tracking = Tracking::kAutomatic;
  options.capture = Capture::kAutomatic;
  options.granule_bytes = 64;
  return options;
}

namespace {

Options guest_options(const Live& live) { return container_options(live, "guest"); }

}  // namespace

// Libraries come in an order that chance says, so each may be where the other one was.
void GuestRun::open(u64 number) {
  if (live.session.taken_bytes != 0) taken.emplace(live.session.taken_bytes);
  for (u64 i = 0; i < kLibraries; ++i) {
    const u64 build = (i + number) % kLibraries;
    libraries[build].load(build);
  }
  open_container();
  Guest& root = container->root<Guest>();
  require_reached(live.journal, Part::kGuest, root.steps, "the container");
  container->exclude(&root.aside);
  check(true);
  const HeapAudit audit = container->audit();
  require(audit.clean, "the container's heap is damaged: " + audit.problem);
}

// Where libraries come next time, if the session says so.
void GuestRun::open_container() {
  Options options = guest_options(live);
  if (live.session.guest_below_libraries) {
    options.region_address = Taken::free(options.region_limit_bytes);
    try {
      container.emplace(live.library([&] { return Container::open(live.uri, options); }));
      return;
    } catch (const Error& error) {
      if (error.code() != Code::kAddressTaken) throw;  // by another thread
      options.region_address = 0;
    }
  }
  container.emplace(live.library([&] { return Container::open(live.uri, options); }));
}

/// `is_opened`: it is as its last version says.
void GuestRun::check(bool is_opened) {
  const Guest& root = container->root<Guest>();
  std::vector<u64> numbers;
  const std::string problem = test::check_chain(root.chain, &numbers);
  require(problem.empty(), "in the container: " + problem);
  require(numbers == expected_chain(root.steps), "the container holds another chain");
  if (root.steps == 0) return;
  require(root.item != nullptr && root.item->number == root.steps && root.item->self == root.item,
          "the container's item is not that of the last step");
  require(root.tag != nullptr && root.tag->self == root.tag, "the container's tag is wrong");
  const Call call = call_of(root.steps);
  require(root.item->call == call && root.far->first == call && root.far->second == call,
          "a function of the container is another one");
  if (aside_of(root.steps) == Aside::kItem)
    require(root.aside == root.item, "an excluded pointer does not lead to where its object is");
  else
    require(root.aside == (is_opened ? nullptr : loose),
            "an excluded pointer leads to something else");
  require(root.pinned == (is_opened ? nullptr : pinned), "a pinned object is somewhere else");
}

void GuestRun::step() {
  Journal& journal = live.journal;
  const u64 step = journal.done_of(Part::kGuest) + 1;
  const u64 library = library_of(step);
  if (library < kLibraries) libraries[library].load(library);
  {
    const auto operation = container->operation();
    Guest& root = container->root<Guest>();
    step_chain(root.chain, step);
    destroy(std::exchange(root.item, make<Item>(step, nullptr, call_of(step))));
    root.item->self = root.item;
    root.aside = root.item;
    if (Item* const old = std::exchange(loose, nullptr)) destroy(old);
    if (aside_of(step) == Aside::kLoose) root.aside = loose = make<Item>(step, nullptr, nullptr);
    root.pinned = nullptr;
    if (Item* const old = std::exchange(pinned, nullptr)) destroy(old);
    if (has_pinned(step)) {
      root.pinned = pinned = make<Item>(step, nullptr, nullptr);
      pin(pinned);
    }
    if (root.tag == nullptr) {
      root.tag = static_cast<Tag*>(allocate(kTagType));
      root.tag->self = root.tag;
    }
    if (root.far == nullptr) root.far = make<Far>();
    root.far->first = root.far->second = call_of(step);
    root.steps = step;
    journal.done_of(Part::kGuest) = step;
  }
  // Nothing leads to the other ones any more.
  for (u64 i = 0; i < kLibraries; ++i)
    if (i != library) libraries[i].unload();
}

namespace {

/// A program with another layout of a type may not have what a version holds of it.
void be_other_build(Live& live) {
  live.journal.use(Feature::kOtherBuild);
  const perdura::detail::KnownType other(kOtherTagType);
  // Without its libraries, which are looked for later.
  try {
    Container::open(live.uri, guest_options(live)).discard();
  } catch (const Error& error) {
    if (live.expected(error)) throw;
    require(error.code() == Code::kTypeMismatch,
            std::string("another build's opening threw: ") + error.what());
    return;
  }
  require(live.journal.acknowledged_of(Part::kGuest) == 0,
          "a build with another layout opened the container");
}

/// The store's own containers have their blocks from the store, also in a container's operation.
void allocate_in_store(GuestRun& guest) {
  const auto operation = guest.container->operation();
  const auto both = guest.live.store->operation();  // so that no version has the vector
  const perdura::vector<u64> numbers(10, u64{1});
  require(guest.live.store->contains(numbers.data()), "a vector is not in the only store");
}

const ActionRegistration kGuest({
    .name = "container",
    .weight = 1.3,
    .by_one_thread = true,
    .possible = has_regions,
    .run =
        [](Live& live, LaneRun&, const Action& action) {
          Journal& journal = live.journal;
          if (live.session.other_build) return be_other_build(live);
          for (const Feature feature :
               {Feature::kContainer, Feature::kRegion, Feature::kPins, Feature::kFunctions})
            journal.use(feature);
          if (live.guest == nullptr) {
            const auto opened = std::make_shared<GuestRun>(live);
            opened->open(action.number / 8 % 2);
            live.guest = opened;
          }
          GuestRun& guest = *live.guest;
          guest.check(false);
          if (live.program.standard && !live.session.full_disk) allocate_in_store(guest);
          for (u64 left = 1 + action.number % 5; left != 0; --left) guest.step();
          const u64 steps = journal.done_of(Part::kGuest);
          if (action.number % 8 < 4) {
            live.library([&] { guest.container->point(); });
          } else if (action.number % 8 < 6) {
            live.library([&] { guest.container->point_async(); });
            live.library([&] { guest.container->sync(); });
          } else {
            return;
          }
          live.acknowledge(Part::kGuest, steps);
          guest.check(false);
        },
});

}  // namespace

void close_guest(Live& live) {
  if (live.guest == nullptr) return;
  const u64 steps = live.journal.done_of(Part::kGuest);
  try {
    live.guest->container->close();
  } catch (const Error& error) {
    if (!live.expected(error)) throw;
    return;
  }
  if (live.session.fault_at == 0) live.acknowledge(Part::kGuest, steps);
}

}  // namespace perdura::model
