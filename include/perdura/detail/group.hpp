// A group of processes that have one version of all their memory, whatever it is that they talk by:
// what perdura/mpi.hpp is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <perdura/options.hpp>
#include <perdura/store.hpp>

namespace perdura::detail {

struct InternalOptions;

/// How the processes of a group, its ranks, talk. All of them make the same calls in the same
/// order, each in one thread at a time.
class GroupPeers {
 public:
  virtual ~GroupPeers() = default;
  virtual unsigned rank() const = 0;  ///< from 0
  virtual unsigned size() const = 0;
  /// Of each value the least that any rank has.
  virtual void minimum(std::int64_t* values, std::size_t count) = 0;
  /// `bytes` bytes of each rank, one behind the other, to all of them.
  virtual void gather(const void* mine, std::size_t bytes, void* all) = 0;
};

/// One rank of a group, and its store. Its functions throw perdura::Error, all ranks alike, with
/// the failure of one of them. All but the const ones are called by all ranks in the same order; by
/// one thread at a time, outside of operations.
class GroupMember {
 public:
  /// `store` is a URI in which %r stands for the rank, %n for the number of ranks; so does
  /// options.region. `internal` is for tests.
  static std::unique_ptr<GroupMember> open(std::unique_ptr<GroupPeers> peers,
                                           std::string_view store, const Options& options,
                                           const InternalOptions* internal = nullptr);
  /// Without a last version.
  ~GroupMember();
  GroupMember(const GroupMember&) = delete;

  /// In a forked child of the process that opened it.
  bool is_inherited() const noexcept;
  Store& store();
  GroupPeers& peers() noexcept;
  /// The newest version that all ranks have; 0: none yet.
  std::uint64_t version() const noexcept;

  std::uint64_t point();
  void point_async();
  std::uint64_t sync();
  /// A last version; the store is closed in order.
  void close();

  /// How many ranks wrote the version that was opened; 0: there was none. Where it is not size()
  /// their memory is to be distributed anew before the next version: each rank has the stores of
  /// some of those that wrote it.
  unsigned ranks_before() const noexcept;
  /// The store of a rank that wrote that version: store() or one that is open to be read until the
  /// next version; nullptr: another rank has it. No two have the same.
  Store* store_of(unsigned rank_before);
  /// Memory of store() for elements of this type; zeroed, or for who stores to all of it.
  void* allocate(const perdura_type& type, std::size_t bytes, bool zeroed);
  /// The names of the roots with this fingerprint in such a store.
  std::vector<std::string> roots_of(unsigned rank_before, std::uint64_t fingerprint);

 private:
  class Member;
  explicit GroupMember(std::unique_ptr<Member> member);
  std::unique_ptr<Member> member_;
};

}  // namespace perdura::detail
