// Where the demo's stores live: files that it made and removes again.
#pragma once

#include <string>
#include <vector>

namespace demo {

class StorePlace {
 public:
  /// `uri` says where, and how the names of the stores begin; empty takes a new directory on the
  /// disk. `names` are the stores. Refuses a file that is there already: the demo starts from
  /// nothing.
  StorePlace(const std::string& uri, bool keep, const std::vector<std::string>& names);
  ~StorePlace();
  StorePlace(const StorePlace&) = delete;
  StorePlace& operator=(const StorePlace&) = delete;

  /// The store's URI.
  std::string uri(const std::string& name) const;
  /// Its space may be given back, unless it is to be kept.
  void done_with(const std::string& name) const;
  /// Where the stores are, for people.
  std::string text() const { return uri("*"); }

 private:
  bool keep_;
  std::string directory_;  ///< made by us; empty when the user named a store
  std::string base_;       ///< the URI that the user named, or one in our directory
  std::vector<std::string> names_;
};

}  // namespace demo
