// Goal: whatever calls of the C API follow each other, the store holds what a model holds: blocks
// and their bytes, roots, versions. After a crash it holds a version that was acknowledged or begun
// since, whole.
// Method: the input is a list of calls. Wrong ones, such as freeing a block twice, must be refused
// and change nothing. A crash drops the store with everything that is not durable.
#include <perdura/perdura.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <perdura/store.hpp>

#include "support/target.hpp"

// What the handle is (src/store/c_api.cc): to drop it as a crash would, and to audit the heap.
struct perdura_store {
  perdura::Store store;
};

namespace perdura::fuzz {
namespace {

constexpr u64 kRegionBytes = 8 * kMiB;
constexpr size_t kSlots = 32;
constexpr size_t kRoots = 6;
constexpr size_t kOpsMax = 256;
constexpr u64 kBlockMax = 128 * kKiB;
constexpr const char* kTableRoot = "table";

enum class Call : u8 {
  kAlloc,
  kAlignedAlloc,
  kRealloc,
  kFree,
  kWrite,
  kSetRoot,
  kRemoveRoot,
  kBegin,
  kEnd,
  kCheckpoint,
  kAsync,
  kWait,
  kCrash,
  kClose,
  kMisuse,
  kCalls,
};

struct Op {
  u8 call;
  u8 slot;
  u16 size;
};
static_assert(sizeof(Op) == 4);

/// In the store: where the blocks are.
struct Table {
  struct Slot {
    std::byte* block;
    u64 size;
    u64 stamp;
  };
  Slot slots[kSlots];
};

/// The same without pointers, and the roots by their slot.
struct Model {
  struct Block {
    u64 size;
    u64 stamp;
    bool operator==(const Block&) const = default;
  };
  std::map<u64, Block> blocks;
  std::map<u64, u64> roots;
  bool operator==(const Model&) const = default;
};

/// The bytes of a block with this stamp.
const std::byte* pattern(u64 stamp) {
  constexpr u64 kPeriod = 251;
  static const Bytes bytes = [] {
    Bytes all(kBlockMax + kPeriod);
    for (u64 i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i % kPeriod);
    return all;
  }();
  return bytes.data() + stamp % kPeriod;
}

class Session {
 public:
  explicit Session(u8 how) {
    file_.resize(kPageBytes);
    constexpr std::array kTrackings = {PERDURA_TRACK_REPORTED,  PERDURA_TRACK_REPORTED,
                                       PERDURA_TRACK_BITMAP,    PERDURA_TRACK_PROTECT,
                                       PERDURA_TRACK_USERFAULT, PERDURA_TRACK_AUTOMATIC};
    options_.tracking = kTrackings[(how >> 1) % kTrackings.size()];
    options_.region_limit_bytes = kRegionBytes;
    options_.region_address = kRegionAddress;
    options_.log_limit_bytes = 2 * kMiB;
    uri_ = ((how & 1) != 0 ? "file:" : "emu:") + file_.path();
    open();
    table_ = static_cast<Table*>(perdura_alloc(store_, sizeof(Table)));
    require(table_ != nullptr, "a new store has space");
    perdura_touch(store_, table_, sizeof *table_);
    std::memset(static_cast<void*>(table_), 0, sizeof *table_);
    require(perdura_root_set(store_, kTableRoot, table_) == 0, "a new store takes a root");
    checkpoint();
  }

  void run(Input& input) {
    for (size_t i = 0; i < kOpsMax && !input.empty(); ++i) run(input.take<Op>());
    end_all();
    crash();
    check();
    close();
  }

 private:
  void run(const Op& op) {
    const u64 slot = op.slot % kSlots;
    switch (static_cast<Call>(op.call % static_cast<u8>(Call::kCalls))) {
      case Call::kAlloc:
        return alloc(slot, size_of(op), 0);
      case Call::kAlignedAlloc:
        return alloc(slot, size_of(op), u64{1} << op.slot / kSlots * 2);
      case Call::kRealloc:
        return reallocate(slot, size_of(op));
      case Call::kFree:
        return free(slot);
      case Call::kWrite:
        return write(slot, op.size);
      case Call::kSetRoot:
        return set_root(op.size % kRoots, slot);
      case Call::kRemoveRoot:
        return remove_root(op.size % kRoots);
      case Call::kBegin:
        return begin();
      case Call::kEnd:
        return end();
      case Call::kCheckpoint:
        return checkpoint();
      case Call::kAsync:
        return async();
      case Call::kWait:
        return wait(op.size);
      case Call::kCrash:
        end_all();
        return crash();
      case Call::kClose:
        return close_and_open();
      default:
        return misuse(slot, op.size);
    }
  }

  // Mostly small ones.
  static u64 size_of(const Op& op) {
    const u64 size = op.size;
    return size < 0xc000 ? size % 600 : size < 0xf000 ? size : (size - 0xefff) * 32;
  }
  u64 next_stamp() { return ++stamps_; }

  void open() {
    perdura_store* store = nullptr;
    if (perdura_open(uri_.c_str(), &options_, &store) != 0)
      finding(std::string("the store is not opened: ") + perdura_last_error());
    store_ = store;
  }

  // --- changes -----------------------------------------------------------------------------------

  void fill(u64 slot, std::byte* block, u64 size) {
    const u64 stamp = next_stamp();
    perdura_touch(store_, block, size);
    std::memcpy(block, pattern(stamp), size);
    perdura_touch(store_, &table_->slots[slot], sizeof(Table::Slot));
    table_->slots[slot] = {block, size, stamp};
    model_.blocks[slot] = {size, stamp};
  }

  void alloc(u64 slot, u64 size, u64 alignment) {
    if (model_.blocks.contains(slot)) free(slot);
    begin();
    auto* block =
        static_cast<std::byte*>(alignment == 0 ? perdura_alloc(store_, size)
                                               : perdura_aligned_alloc(store_, alignment, size));
    if (block == nullptr) {
      require(*perdura_last_error() != '\0', "a refusal says why");
    } else {
      const u64 wanted = std::max<u64>(alignment, 16);
      require(reinterpret_cast<std::uintptr_t>(block) % wanted == 0, "a block is aligned");
      require(perdura_usable_size(store_, block) >= size, "a block is as large as asked for");
      fill(slot, block, size);
    }
    end();
  }

  void reallocate(u64 slot, u64 size) {
    if (!model_.blocks.contains(slot)) return;
    const Table::Slot old = table_->slots[slot];
    begin();
    auto* moved = static_cast<std::byte*>(perdura_realloc(store_, old.block, size));
    if (moved != nullptr) {
      require(std::memcmp(moved, pattern(old.stamp), std::min(old.size, size)) == 0,
              "a moved block keeps its bytes");
      // Roots of the old block point nowhere now.
      if (moved != old.block) remove_roots_of(slot);
      fill(slot, moved, size);
    }
    end();
  }

  void free(u64 slot) {
    if (!model_.blocks.contains(slot)) return;
    check_block(slot);
    begin();
    std::byte* const block = table_->slots[slot].block;
    require(perdura_free(store_, block) == 0, "a block is freed");
    require(perdura_free(store_, block) == -PERDURA_MISUSE, "a block is not freed twice");
    perdura_touch(store_, &table_->slots[slot], sizeof(Table::Slot));
    table_->slots[slot] = {};
    remove_roots_of(slot);
    model_.blocks.erase(slot);
    end();
  }

  void write(u64 slot, u16 draw) {
    const auto found = model_.blocks.find(slot);
    if (found == model_.blocks.end()) return;
    begin();
    fill(slot, table_->slots[slot].block,
         draw % 4 == 0 ? found->second.size / 2 : found->second.size);
    end();
  }

  static std::string root_name(u64 root) {
    return root == 0 ? std::string(255, 'r') : "root " + std::to_string(root);
  }

  void set_root(u64 root, u64 slot) {
    if (!model_.blocks.contains(slot)) return;
    if (perdura_root_set(store_, root_name(root).c_str(), table_->slots[slot].block) == 0)
      model_.roots[root] = slot;
    else require(*perdura_last_error() != '\0', "a refusal says why");
  }

  void remove_root(u64 root) {
    require(perdura_root_set(store_, root_name(root).c_str(), nullptr) == 0, "a root is removed");
    model_.roots.erase(root);
  }

  void remove_roots_of(u64 slot) {
    for (u64 root = 0; root < kRoots; ++root) {
      const auto found = model_.roots.find(root);
      if (found != model_.roots.end() && found->second == slot) remove_root(root);
    }
  }

  void begin() {
    require(perdura_operation_begin(store_) == 0, "an operation begins");
    ++depth_;
  }
  void end() {
    if (depth_ == 0) return;
    perdura_operation_end(store_);
    --depth_;
  }
  void end_all() {
    while (depth_ != 0) end();
  }

  void misuse(u64 slot, u16 draw) {
    int local = 0;
    const auto refused = [](int result) { require(result < 0, "a wrong call is refused"); };
    switch (draw % 6) {
      case 0:
        return refused(perdura_free(store_, &local));
      case 1:
        return refused(perdura_root_set(store_, "", table_));
      case 2:
        return refused(perdura_root_set(store_, "outside", &local));
      case 3:
        return refused(perdura_wait(store_, ~u64{0}));
      case 4:
        return require(perdura_aligned_alloc(store_, 24, 8) == nullptr, "24 is no alignment");
      default:
        break;
    }
    if (model_.blocks.contains(slot) && model_.blocks[slot].size > 8)
      refused(perdura_free(store_, table_->slots[slot].block + 8));
  }

  // --- versions ----------------------------------------------------------------------------------

  void remember(u64 version) {
    const auto [at, fresh] = versions_.try_emplace(version, model_);
    require(fresh || at->second == model_, "a version has one content");
  }

  void checkpoint() {
    u64 version = 0;
    const int result = perdura_checkpoint(store_, &version);
    if (depth_ != 0) return require(result == -PERDURA_MISUSE, "no checkpoint in an operation");
    if (result != 0) finding(std::string("a checkpoint fails: ") + perdura_last_error());
    require(version >= acknowledged_, "versions go up");
    remember(version);
    acknowledged_ = version;
  }

  void async() {
    u64 version = 0;
    const int result = perdura_checkpoint_async(store_, &version);
    if (depth_ != 0) return require(result == -PERDURA_MISUSE, "no checkpoint in an operation");
    if (result != 0) finding(std::string("a checkpoint fails: ") + perdura_last_error());
    require(version > acknowledged_, "an asynchronous checkpoint makes a version");
    remember(version);
    begun_ = version;
  }

  void wait(u16 draw) {
    if (begun_ == 0 || draw % 2 == 0) return;
    if (perdura_wait(store_, begun_) != 0)
      finding(std::string("a checkpoint fails: ") + perdura_last_error());
    acknowledged_ = std::max(acknowledged_, begun_);
    require(perdura_durable_version(store_) >= acknowledged_, "what is waited for is durable");
  }

  void crash() {
    drop(std::unique_ptr<perdura_store>(std::exchange(store_, nullptr)));
    reopen();
    const u64 version = perdura_durable_version(store_);
    require(version >= acknowledged_, "what was acknowledged is there");
    const auto found = versions_.find(version);
    require(found != versions_.end(), "the version was begun");
    model_ = found->second;
    acknowledged_ = version;
    check();
  }

  void close() {
    if (perdura_close(std::exchange(store_, nullptr)) != 0)
      finding(std::string("closing fails: ") + perdura_last_error());
  }

  void close_and_open() {
    if (depth_ != 0) {
      require(perdura_close(store_) == -PERDURA_MISUSE, "no closing in an operation");
      return;
    }
    close();
    reopen();
    const u64 version = perdura_durable_version(store_);
    require(version >= acknowledged_, "what was acknowledged is there");
    remember(version);
    acknowledged_ = version;
    check();
  }

  void reopen() {
    options_.must_exist = 1;
    open();
    begun_ = 0;
    table_ = static_cast<Table*>(perdura_root_get(store_, kTableRoot));
    require(table_ != nullptr, "the table's root is there");
  }

  // --- the store against the model ---------------------------------------------------------------

  void check_block(u64 slot) const {
    const Model::Block& block = model_.blocks.at(slot);
    const Table::Slot& actual = table_->slots[slot];
    require(actual.size == block.size && actual.stamp == block.stamp, "a slot is as in the model");
    require(perdura_usable_size(store_, actual.block) >= block.size, "its block is allocated");
    require(std::memcmp(actual.block, pattern(block.stamp), block.size) == 0,
            "its bytes are as in the model");
  }

  void check() const {
    for (u64 slot = 0; slot < kSlots; ++slot) {
      if (model_.blocks.contains(slot)) check_block(slot);
      else require(table_->slots[slot].block == nullptr, "an empty slot has no block");
    }
    for (u64 root = 0; root < kRoots; ++root) {
      const void* object = perdura_root_get(store_, root_name(root).c_str());
      const auto found = model_.roots.find(root);
      if (found == model_.roots.end()) require(object == nullptr, "a root that was not set");
      else require(object == table_->slots[found->second].block, "a root is as in the model");
    }
    const HeapAudit audit = store_->store.audit();
    if (!audit.clean) finding("the heap is damaged: " + audit.problem);
    // The table and its root, the blocks, the roots.
    require(audit.live_blocks == 2 + model_.blocks.size() + model_.roots.size(),
            "the heap holds the model's blocks and no others");
  }

  MemoryFile file_;
  perdura_options options_{};
  std::string uri_;
  perdura_store* store_ = nullptr;
  Table* table_ = nullptr;
  Model model_;
  std::map<u64, Model> versions_;  ///< what may be found after a crash
  u64 acknowledged_ = 0;
  u64 begun_ = 0;  ///< the last asynchronous one, 0: none
  u64 stamps_ = 0;
  u64 depth_ = 0;
};

}  // namespace
}  // namespace perdura::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace perdura::fuzz;
  Input input(data, size);
  Session session(input.take<std::uint8_t>());
  session.run(input);
  return 0;
}
