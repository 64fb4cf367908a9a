// The stores of ranks that this process has locked for itself while a group is opened.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <perdura/options.hpp>

#include "base/result.hpp"
#include "media/medium.hpp"
#include "store/runtime.hpp"

namespace perdura::store {

class GroupClaims {
 public:
  /// Nobody has the rank's store open from here on but this process. Where there is none, or where
  /// this process has it open already for another region, there is nothing to be had of it.
  Status claim(u32 rank, const std::string& uri, const Options& options,
               const detail::InternalOptions& internal);
  bool has(u32 rank) const { return media_.contains(rank); }
  /// To open a store on it and close that again; nullptr: it is not had.
  std::unique_ptr<media::Medium> lend(u32 rank) const;
  /// For good; nullptr: it is not had.
  std::unique_ptr<media::Medium> take(u32 rank);
  /// All but this one are anybody's again.
  void keep_only(u32 rank);

 private:
  std::map<u32, std::unique_ptr<media::Medium>> media_;
};

}  // namespace perdura::store
