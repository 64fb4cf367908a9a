// Goal: whatever a container keeps of types, modules, symbols, pages and shadows, opening it here
// or at another address, and taking a point, end with a sentence or work; nothing crashes or reads
// out of bounds. Method: the input overwrites fields in the memory of a container that was made
// here, and makes that a version: so every sum fits.
#include <perdura/container.hpp>
#include <perdura/store.hpp>

#include <array>
#include <optional>

#include "format/container_format.hpp"
#include "format/heap_format.hpp"
#include "store/runtime.hpp"
#include "support/target.hpp"

namespace {

struct Entry {
  Entry* next;
  const char* name;
  int (*rule)(int);
  std::uintptr_t word;
};

int rule(int value) { return value + 1; }

}  // namespace

PERDURA_TYPE_OF(Entry, PERDURA_POINTER(Entry, next), PERDURA_POINTER(Entry, name),
                PERDURA_POINTER(Entry, rule), PERDURA_MAYBE(Entry, word))

namespace perdura::fuzz {
namespace {

constexpr size_t kPatchesMax = 16;

enum How : u8 { kMove = 1, kUse = 2, kReopen = 4 };

struct Patch {
  u8 place;
  u8 width;  ///< 1, 2, 4 or 8 bytes: its two lowest bits
  u8 how;    ///< set, add, xor, or a value of kValues
  u8 unused;
  u32 offset;
  u64 value;
};
static_assert(sizeof(Patch) == 16);

constexpr u64 kValues[] = {
    0, 1, kPageBytes, kRegionAddress, kRegionAddress + kMiB, u64{1} << 44, u64{1} << 63, ~u64{0}};

Options options(u64 address) {
  Options options;
  options.tracking = Tracking::kProtect;
  options.region_limit_bytes = 16 * kMiB;
  options.region_address = address;
  options.lazy_recovery = false;
  return options;
}

struct Base {
  Bytes image;
  /// Region offsets: header, units, types, the state and what it leads to, objects.
  std::vector<u64> places;
};

Base make_base() {
  MemoryFile file;
  file.resize(kPageBytes);
  const std::string uri = "emu:" + file.path();
  {
    MemoryFile other_file;
    other_file.resize(kPageBytes);
    Container other =
        Container::open("emu:" + other_file.path(), options(kRegionAddress + 2 * kGiB));
    auto& others = other.root<Entry>();
    for (int i = 0; i < 20; ++i)
      others.next = make<Entry>(others.next, "shared", rule, std::uintptr_t{7});
    other.point();
    Container container = Container::open(uri, options(kRegionAddress));
    auto& root = container.root<Entry>();
    root.next = others.next;
    for (int i = 0; i < 200; ++i)
      root.next = make<Entry>(root.next, "a name", rule, std::uintptr_t{7});
    container.close();
    other.discard();
  }
  Base base;
  base.image = file.read();
  Store store = Store::open(uri, options(kRegionAddress));
  const auto offset = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) - kRegionAddress;
  };
  const auto& state =
      *static_cast<const format::ContainerState*>(store.get_root(format::kContainerRoot));
  const auto& header = *reinterpret_cast<const format::HeapHeader*>(kRegionAddress);
  base.places = {0,
                 format::kUnitTableOffset,
                 header.types,
                 header.roots,
                 header.data_begin,
                 offset(&state),
                 offset(state.modules),
                 offset(state.symbols),
                 offset(state.marked),
                 offset(state.modules[0].name),
                 offset(state.root),
                 offset(static_cast<const Entry*>(state.root)->next)};
  for (u64 unit = 0; unit < header.units_end; ++unit)
    base.places.push_back(header.data_begin + unit * format::kUnitBytes);
  base.places.push_back(offset(state.shadows));
  base.places.push_back(offset(state.shadows[0].copy));
  drop(std::move(store));
  return base;
}

void apply(Store& store, const Base& base, const Patch& patch) {
  const size_t width = size_t{1} << (patch.width & 3);
  const u64 at = base.places[patch.place % base.places.size()] + patch.offset % 1200;
  const u64 backed = store.runtime().region().home()->backed_until(0);
  if (at + width > backed) return;
  change(reinterpret_cast<std::byte*>(kRegionAddress + at), width, patch.how, patch.value, kValues);
}

void open_and_use(const std::string& uri, u8 how) {
  try {
    Options chosen = options((how & kMove) != 0 ? kRegionAddress + kGiB : kRegionAddress);
    chosen.create = false;
    Container container = Container::open(uri, chosen);
    try {
      if ((how & kUse) != 0) {
        // What is in the objects is the program's matter.
        auto* const entry = make<Entry>(nullptr, "another", rule, std::uintptr_t{0});
        container.root<Entry>().next = entry;
        container.point();
        require(container.root<Entry>().next != entry, "a point moves what is reachable");
      }
      (void)container.audit();
    } catch (const Error& error) {
      require(*error.what() != '\0', "a refusal says why");
    }
    container.discard();
  } catch (const Error& error) {
    require(*error.what() != '\0', "a refusal says why");
  }
}

}  // namespace
}  // namespace perdura::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace perdura;
  using namespace perdura::fuzz;
  static const Base base = make_base();
  static MemoryFile file;
  Input input(data, size);
  const u8 how = input.take<u8>();
  file.write(base.image);
  const std::string uri = "emu:" + file.path();
  try {
    Store store = Store::open(uri, options(kRegionAddress));
    for (size_t i = 0; i < kPatchesMax && !input.empty(); ++i)
      apply(store, base, input.take<Patch>());
    store.close();
  } catch (const Error&) {
    return 0;
  }
  open_and_use(uri, how);
  if ((how & kReopen) != 0) open_and_use(uri, how ^ kMove);
  return 0;
}
