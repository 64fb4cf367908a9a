#include "pmem_pool.hpp"

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "measure.hpp"

namespace perdura::bench {
namespace {

constexpr char kLayout[] = "bench";
constexpr std::size_t kPoolBytes = kGiB;

[[noreturn]] void fail() { throw std::runtime_error(pmemobj_errormsg()); }

void control(PMEMobjpool* pool, const char* name, void* argument) {
  if (pmemobj_ctl_set(pool, name, argument) != 0) fail();
}

/// Flags for allocations of a new class.
std::uint64_t make_class(PMEMobjpool* pool, const PmemHeaders& headers) {
  pobj_alloc_class_desc wanted{};
  wanted.unit_size = headers.unit_bytes;
  wanted.alignment = headers.alignment;
  wanted.units_per_block = 4096;  // so that a new block is rarely wanted
  wanted.header_type = headers.type;
  control(pool, "heap.alloc_class.new.desc", &wanted);
  return POBJ_CLASS_ID(wanted.class_id);
}

}  // namespace

PmemPool::PmemPool(PMEMobjpool* pool, std::uint64_t lists) : pool_(pool) {
  if (pool == nullptr) fail();
  lists_ = static_cast<PMEMoid*>(pmemobj_direct(pmemobj_root(pool, lists * sizeof(PMEMoid))));
  if (lists_ == nullptr) fail();
}

PmemPool PmemPool::create(const std::string& path, std::uint64_t lists,
                          const PmemHeaders& headers) {
  setenv("PMEM_IS_PMEM_FORCE", "1", 1);
  int touch_pages = 1;
  control(nullptr, "prefault.at_create", &touch_pages);
  PmemPool made(pmemobj_create(path.c_str(), kLayout, kPoolBytes, 0600), lists);
  auto no_statistics = POBJ_STATS_DISABLED;
  control(made.pool_, "stats.enabled", &no_statistics);
  if (headers.unit_bytes != 0) made.class_flags_ = make_class(made.pool_, headers);
  return made;
}

PmemPool PmemPool::open(const std::string& path, std::uint64_t lists) {
  return PmemPool(pmemobj_open(path.c_str(), kLayout), lists);
}

PmemPool::PmemPool(PmemPool&& from) noexcept
    : pool_(std::exchange(from.pool_, nullptr)),
      lists_(from.lists_),
      class_flags_(from.class_flags_) {}

PmemPool::~PmemPool() {
  if (pool_ != nullptr) pmemobj_close(pool_);
}

void PmemPool::insert(std::uint64_t list, std::uint64_t key) {
  PMEMoid& first = lists_[list];
  volatile bool failed = false;  // it is left by longjmp
  TX_BEGIN(pool_) {
    const PMEMoid id = pmemobj_tx_xalloc(sizeof(PmemNode), 0, class_flags_);
    *static_cast<PmemNode*>(pmemobj_direct(id)) = {first, key, key, {}};
    pmemobj_tx_add_range_direct(&first, sizeof first);
    first = id;
  }
  TX_ONABORT { failed = true; }
  TX_END
  if (failed) fail();
}

}  // namespace perdura::bench
