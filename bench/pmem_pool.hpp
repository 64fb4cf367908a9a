// Lists in a pool of libpmemobj on emulated persistent memory, for a comparison with ours: set up
// as somebody would who wants it to win. Every page of the pool is touched before it is used, no
// statistics are kept, and nodes can have an allocation class of their own.
#pragma once

#include <libpmemobj.h>

#include <array>
#include <cstdint>
#include <string>

namespace perdura::bench {

struct PmemNode {
  PMEMoid next;
  std::uint64_t key;
  std::uint64_t value;
  std::uint64_t rest[4];
};
static_assert(sizeof(PmemNode) == 64);

/// What nodes are allocated with.
struct PmemHeaders {
  const char* name;
  std::size_t unit_bytes;  ///< of their allocation class; 0: the default one
  std::size_t alignment;
  pobj_header_type type;
};
/// By default a node takes 128 bytes. With a class for it the header of 16 bytes is right before
/// the node, which then begins anywhere in a line; without a header there are lines of nodes, and
/// no types.
constexpr std::array<PmemHeaders, 3> kPmemHeaders = {{
    {"default", 0, 0, POBJ_HEADER_COMPACT},
    {"compact", sizeof(PmemNode) + 16, 0, POBJ_HEADER_COMPACT},
    {"none", sizeof(PmemNode), sizeof(PmemNode), POBJ_HEADER_NONE},
}};

class PmemPool {
 public:
  static PmemPool create(const std::string& path, std::uint64_t lists, const PmemHeaders& headers);
  static PmemPool open(const std::string& path, std::uint64_t lists);
  PmemPool(PmemPool&& from) noexcept;
  ~PmemPool();

  /// At the head of a list, in a transaction.
  void insert(std::uint64_t list, std::uint64_t key);

  const PmemNode* first(std::uint64_t list) const { return node(lists_[list]); }
  static const PmemNode* next(const PmemNode& of) { return node(of.next); }

 private:
  PmemPool(PMEMobjpool* pool, std::uint64_t lists);
  static const PmemNode* node(PMEMoid id) {
    return static_cast<const PmemNode*>(pmemobj_direct(id));
  }

  PMEMobjpool* pool_;
  PMEMoid* lists_;
  std::uint64_t class_flags_ = 0;
};

}  // namespace perdura::bench
