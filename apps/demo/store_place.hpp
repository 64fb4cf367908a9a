// Where the demo's stores live: files that it made and removes again.
#pragma once

#include <string>
#include <vector>

namespace demo {

class StorePlace {
 public:
  /// `uri` names the store that is killed; empty takes a new directory on the disk. Refuses a
  /// file that is there already: the demo starts from nothing.
  StorePlace(const std::string& uri, bool keep);
  ~StorePlace();
  StorePlace(const StorePlace&) = delete;
  StorePlace& operator=(const StorePlace&) = delete;

  /// The store of the run that is killed, and of the one that is not.
  const std::string& killed() const { return killed_; }
  const std::string& undisturbed() const { return undisturbed_; }

 private:
  bool keep_;
  std::string directory_;  ///< made by us; empty when the user named a store
  std::string killed_, undisturbed_;
};

}  // namespace demo
