// Goal: what a container keeps beside the program's objects is believed only if it can be: forged
// with checksums that fit, it is damage and no crash, at its address and at another one.
// Method: a store's program makes what looks like the state of a container, with one thing wrong.
#include "heap/container_view.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "heap/container_types.hpp"
#include "store/runtime.hpp"
#include "support/container_graph.hpp"
#include "track/mutators.hpp"

namespace {

/// Like what a container keeps, but that nothing in it is known to be a pointer.
struct Plain {
  std::byte bytes[64];
};

}  // namespace

PERDURA_TYPE(Plain)

namespace perdura::test {
namespace {

using format::ContainerModule;
using format::ContainerShadow;
using format::ContainerState;
using format::ContainerSymbol;

constexpr const perdura_type& kState = TypeRecord<ContainerState>::value;

class ContainerStates : public testing::Test {
 protected:
  using Forge = std::function<void(Store& store, ContainerState& state)>;

  static Options options(u64 address = 0) {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.region_address = address;
    return options;
  }
  std::string uri() const { return "file:" + folder_.path("forged.pd"); }

  void make_state(const perdura_type& type, const Forge& forge) const {
    Store store = Store::open(uri(), options());
    auto* const state = static_cast<ContainerState*>(store.allocate(type, 1));
    state->version = format::kContainerVersion;
    forge(store, *state);
    detail::Mutator& mutator = store.runtime().mutators().this_thread();
    const track::InOperation operation(mutator);
    value_or_throw(store.runtime().heap().roots().set(mutator, format::kContainerRoot, state, 0));
    store.touch(state, sizeof *state);
  }
  void expect_damage(const perdura_type& type, const Forge& forge) const {
    make_state(type, forge);
    for (const u64 address : {0ul, 0x551000000000ul})
      EXPECT_EQ(code_of([&] { Container::open(uri(), options(address)); }), Code::kCorrupt);
    std::filesystem::remove(folder_.path("forged.pd"));
  }

  const TempDir folder_{TempDir::kMemory};
};

template <class T>
T* make_array(Store& store, u64 count = 1) {
  return static_cast<T*>(store.allocate(TypeRecord<T>::value, count));
}

char* make_name(Store& store) {
  auto* const text = static_cast<char*>(store.allocate(heap::kContainerText, 16));
  std::memset(text, 'x', 15);
  return text;
}

TEST_F(ContainerStates, AWholeOneIsOpened) {
  make_state(kState, [](Store& store, ContainerState& state) {
    state.modules = make_array<ContainerModule>(store);
    state.modules->name = make_name(store);
    state.module_count = 1;
  });
  for (const u64 address : {0ul, 0x551000000000ul}) {
    Container container = Container::open(uri(), options(address));
    container.point();
  }
}

TEST_F(ContainerStates, PointersThatDoNotMoveAreDamage) {
  expect_damage(TypeRecord<Plain>::value, [](Store& store, ContainerState& state) {
    state.modules = make_array<ContainerModule>(store);
    state.modules->name = make_name(store);
    state.module_count = 1;
  });
  expect_damage(kState, [](Store& store, ContainerState& state) {
    state.modules = reinterpret_cast<ContainerModule*>(make_array<Plain>(store));
    state.modules->name = make_name(store);
    state.module_count = 1;
  });
}

TEST_F(ContainerStates, ArraysThatAreNotThereAreDamage) {
  expect_damage(kState, [](Store& store, ContainerState& state) {
    state.symbols = make_array<ContainerSymbol>(store);
    state.symbol_count = 1'000'000;
  });
  expect_damage(kState, [](Store& store, ContainerState& state) {
    state.marked = reinterpret_cast<u64*>(store.allocate(TypeRecord<Plain>::value, 1));
    state.marked_words = 8;
  });
  expect_damage(kState, [](Store&, ContainerState& state) {  // a later point would give it back
    state.modules = reinterpret_cast<ContainerModule*>(&state);
  });
  expect_damage(kState, [](Store&, ContainerState& state) {
    state.shadows = reinterpret_cast<ContainerShadow*>(0x1000);
    state.shadow_count = 1;
  });
}

TEST_F(ContainerStates, ElementsThatCannotBeAreDamage) {
  expect_damage(kState, [](Store& store, ContainerState& state) {
    state.modules = make_array<ContainerModule>(store);
    state.modules->name = make_name(store);
    std::memset(state.modules->name, 'x', 16);  // without an end
    state.module_count = 1;
  });
  expect_damage(kState, [](Store& store, ContainerState& state) {
    state.symbols = make_array<ContainerSymbol>(store);
    state.symbols->name = make_name(store);  // of a module that is not there
    state.symbol_count = 1;
  });
  expect_damage(kState, [](Store& store, ContainerState& state) {
    state.shadows = make_array<ContainerShadow>(store);
    *state.shadows = {0x1000, 16, make_name(store)};
    state.shadow_count = 1;
    store.deallocate(state.shadows->copy);
  });
}

// The type of a state of version 1 does not say that there is a pointer to shadows; when others
// move there are none.
TEST_F(ContainerStates, AnEarlierOneHoldsShadows) {
  make_state(heap::kContainerState1, [](Store&, ContainerState& state) { state.version = 1; });
  const auto other = "file:" + folder_.path("other.pd");
  {
    Container container = Container::open(uri(), options());
    Container owner = Container::open(other, options());
    owner.root<Chain>().first = make<Link>(nullptr, u64{7});
    owner.point();
    container.root<Chain>().first = owner.root<Chain>().first;
    container.close();
  }
  for (const u64 address : {0x551000000000ul, 0x552000000000ul}) {
    Container container = Container::open(uri(), options(address));
    ASSERT_TRUE(container.contains(container.root<Chain>().first));
    EXPECT_EQ(container.root<Chain>().first->number, 7u);
    const HeapAudit audit = container.audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
  }
}

}  // namespace
}  // namespace perdura::test
