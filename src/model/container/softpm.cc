#include <perdura/compat/softpm.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <perdura/typed.h>
#include <perdura/container.hpp>

#include "base/process.hpp"
#include "media/medium.hpp"
#include "model/container/container_runtime.hpp"
#include "model/own_store.hpp"
#include "store/c_error.hpp"

namespace perdura {
namespace {

std::string uri_of(int magic) {
  char suffix[16];
  std::snprintf(suffix, sizeof suffix, ".%08x", static_cast<unsigned>(magic));
  return media::uri_beside(detail::own_store_uri(), suffix);
}

constexpr char kUntypedRoot[] = "softpm root of ";

bool is_untyped_root(Container& container, const void* root) {
  return value_or_throw(container.runtime().runtime().heap().type_name(root))
      .starts_with(kUntypedRoot);
}

/// The record of a root of which the program does not say where pointers are: each word may be one.
const perdura_type& root_type(int bytes) {
  struct Root {
    std::string name;
    perdura_slot slot;
    perdura_type type;
  };
  static constinit std::map<int, Root>* roots = nullptr;  // never destroyed
  std::lock_guard lock(process_mutex(ProcessMutex::kRootTypes));
  if (roots == nullptr) roots = new std::map<int, Root>;
  // First: where there is no memory for it, nothing without a name stays behind.
  std::string name = kUntypedRoot + std::to_string(bytes) + " bytes";
  const auto [found, fresh] = roots->try_emplace(bytes);
  Root& root = found->second;
  if (fresh) {
    const auto words = static_cast<u32>(bytes) / 8 * 8;
    root.name = std::move(name);
    root.slot = {"words", PERDURA_SLOT_MAYBE, 0, words, nullptr, 0, 0, 0};
    root.type = {root.name.c_str(), static_cast<u32>(bytes), 8, words != 0 ? 1u : 0u, &root.slot};
  }
  return root.type;
}

/// What the paper's containers do (§3.3, §4): chunks, watched one by one, remapped and written
/// while the program goes on.
Options chunked(bool create = true) {
  Options options;
  options.create = create;
  options.engine = Engine::kRemap;
  options.capture = Capture::kBackground;
  return options;
}

/// The program's open containers.
class Containers {
 public:
  int create(int magic, const perdura_type& type, void** root) {
    std::lock_guard lock(mutex_);
    require_closed(magic);
    Container container = Container::open(uri_of(magic), chunked());
    if (container.runtime().existing_root() != nullptr) {
      container.discard();
      throw Error(Code::kMisuse, "the container " + std::to_string(magic) +
                                     " exists; pCRestore opens it, pCDelete removes it");
    }
    *root = container.root(type);
    return add(magic, std::move(container));
  }

  int open(int magic, const perdura_type& type, void** root) {
    std::lock_guard lock(mutex_);
    require_closed(magic);
    Container container = Container::open(uri_of(magic), chunked());
    *root = container.root(type);
    return add(magic, std::move(container));
  }

  /// With `type`: a root of another type is refused, unless nothing is known of it.
  int restore(int magic, void** root, const perdura_type* type = nullptr) {
    std::lock_guard lock(mutex_);
    require_closed(magic);
    Container container = Container::open(uri_of(magic), chunked(false));
    void* const found = container.runtime().existing_root();
    if (found == nullptr) {
      container.discard();
      throw Error(Code::kNotFound, "the container " + std::to_string(magic) +
                                       " never had a persistence point; make it with pCAlloc");
    }
    if (type != nullptr && !is_untyped_root(container, found)) (void)container.root(*type);
    *root = found;
    return add(magic, std::move(container));
  }

  /// `call(container)` of the one with an identifier.
  template <class Call>
  void with(int id, Call&& call) {
    std::lock_guard lock(mutex_);
    if (id < 1 || static_cast<size_t>(id) > all_.size() || !all_[id - 1].container)
      throw Error(Code::kNotFound, "no open container has the identifier " + std::to_string(id));
    call(all_[id - 1]);
  }

  void discard(int id) {
    with(id, [](Open& open) {
      open.container->discard();
      open.container.reset();
    });
  }

  void remove(int magic) {
    if (const int id = id_of(magic); id != 0) discard(id);
    value_or_throw(media::remove_medium(uri_of(magic)));
  }

  int id_of(int magic) {
    std::lock_guard lock(mutex_);
    const Open* const open = find_magic(magic);
    return open != nullptr ? open->id : 0;
  }

  struct Open {
    int id;
    int magic;
    unsigned interval_ms = 0;
    bool warns = false;
    std::optional<Container> container;
  };

 private:
  Open* find_magic(int magic) {
    for (Open& open : all_)
      if (open.container && open.magic == magic) return &open;
    return nullptr;
  }

  void require_closed(int magic) {
    if (find_magic(magic) != nullptr)
      throw Error(Code::kMisuse, "the container " + std::to_string(magic) + " is open");
  }

  int add(int magic, Container container) {
    const int id = static_cast<int>(all_.size()) + 1;
    all_.push_back({id, magic, 0, false, std::move(container)});
    return id;
  }

  std::mutex mutex_;
  std::deque<Open> all_;  ///< by identifier
};

// Never closed: what no point made durable when the program ends is not.
Containers& containers() {
  static constinit PerProcess<Containers> all;
  return all.get();
}

}  // namespace
}  // namespace perdura

using perdura::containers;
using perdura::detail::c_call;
using perdura::detail::required;

namespace {
/// What `call` returns, or a negative code.
template <class Call>
int identifier_of(void** root, Call&& call) {
  int id = 0;
  const int result = c_call([&] {
    if (root == nullptr)
      throw perdura::Error(perdura::Code::kInvalidArgument,
                           "a pointer is needed that is to lead to the root");
    id = call();
  });
  return result == 0 ? id : result;
}
}  // namespace

extern "C" {

int pCAlloc(int magic, int cSSize, void** cStruct) {
  return identifier_of(cStruct, [&] {
    if (cSSize <= 0)
      throw perdura::Error(perdura::Code::kInvalidArgument,
                           "the root of a container has at least a byte");
    return containers().create(magic, perdura::root_type(cSSize), cStruct);
  });
}

int pCOpen(int magic, int cSSize, void** cStruct) {
  return identifier_of(cStruct, [&] {
    if (cSSize <= 0)
      throw perdura::Error(perdura::Code::kInvalidArgument,
                           "the root of a container has at least a byte");
    return containers().open(magic, perdura::root_type(cSSize), cStruct);
  });
}

int pCAllocTyped(int magic, const perdura_type* type, void** cStruct) {
  return identifier_of(cStruct,
                       [&] { return containers().create(magic, required(type), cStruct); });
}

int pCOpenTyped(int magic, const perdura_type* type, void** cStruct) {
  return identifier_of(cStruct, [&] { return containers().open(magic, required(type), cStruct); });
}

int pCRestore(int magic, void** cStruct) {
  return identifier_of(cStruct, [&] { return containers().restore(magic, cStruct); });
}

// A size that is not the type's is that of more: then each word may be a pointer.
int perdura_typed_pCAlloc(int magic, int bytes, void** root, const perdura_type* type) {
  if (type == nullptr || bytes < 0 || static_cast<unsigned>(bytes) != type->size)
    return pCAlloc(magic, bytes, root);
  return pCAllocTyped(magic, type, root);
}

int perdura_typed_pCOpen(int magic, int bytes, void** root, const perdura_type* type) {
  if (type == nullptr || bytes < 0 || static_cast<unsigned>(bytes) != type->size)
    return pCOpen(magic, bytes, root);
  return pCOpenTyped(magic, type, root);
}

int perdura_typed_pCRestore(int magic, void** root, const perdura_type* type) {
  return identifier_of(root, [&] { return containers().restore(magic, root, type); });
}

int pCSetAttr(int cID, struct cattr* attr) {
  return c_call([&] {
    containers().with(cID, [&](auto& open) {
      open.container->point_every(std::chrono::milliseconds{attr->interval_ms});
      open.interval_ms = attr->interval_ms;
      open.container->warn_of_sharing(attr->warn_of_sharing != 0);
      open.warns = attr->warn_of_sharing != 0;
    });
  });
}

struct cattr* pCGetAttr(int magic) {
  // Made when it is needed: a library that is loaded has little memory of each thread.
  static thread_local std::unique_ptr<cattr> attributes;
  const int result = c_call([&] {
    containers().with(containers().id_of(magic), [&](auto& open) {
      attributes = std::make_unique<cattr>(
          cattr{magic, open.interval_ms, open.container->durable_version(),
                open.container->runtime().runtime().statistics().region_backed_bytes,
                open.container->statistics().shared_objects, open.warns});
    });
  });
  return result == 0 ? attributes.get() : nullptr;
}

void pPoint(int cID) {
  c_call(
      [&] { containers().with(cID, [](auto& open) { open.container->runtime().start_point(); }); });
}

int pSync(int cID) {
  return c_call([&] { containers().with(cID, [](auto& open) { open.container->sync(); }); });
}

void pCFree(int cID) {
  c_call([&] { containers().discard(cID); });
}

void pCDelete(int magic) {
  c_call([&] { containers().remove(magic); });
}

void pExclude(int cID, void* ptr) {
  c_call([&] { containers().with(cID, [&](auto& open) { open.container->exclude(ptr); }); });
}

}  // extern "C"
