// What opening an object takes, in one process or in one of several that share it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/object/objects_runtime.hpp"

namespace perdura::detail {

/// What is refused of an object that is opened or made says of which.
template <class Done>
Done naming(std::string_view object, const std::string& store, Done&& done) {
  if (done) return std::move(done);
  return Failure{done.failure().code, "object '" + std::string(object) + "' of '" + store +
                                          "': " + done.failure().message};
}
/// kInvalidArgument where a name of the type's, or of its methods', is not lasting, or two methods
/// claim one.
Status check_names(const ObjectType& type);
/// Of an object with this head, that they can be its functions'.
Status check_function_names(const std::vector<std::string>& names, const format::ObjectHead& head);
/// kUnsupported where only one build may do what it has logged, and nobody can tell which this is.
Status check_build(const format::ObjectBuild& build, const ObjectOptions& options);
/// Whether an object with such a head is one of the type.
bool is_of_type(const format::ObjectHead& found, const ObjectType& type);
/// kTypeMismatch, of an object that is not of the type, or has another size.
Failure other_type(const format::ObjectHead& found, const ObjectType& type,
                   const std::string& store);
/// What the names mean in this program: those of its methods, with the names that these had.
Result<std::vector<object::Function>> functions_of(const std::vector<std::string>& names,
                                                   const ObjectType& type);
/// Of each method the place of its name.
std::vector<u16> numbers_of(const std::vector<std::string>& names, const ObjectType& type);
/// It begins when it has been made, or recovered, for which it has all memory then. `runtime`:
/// whose object it is.
std::shared_ptr<OpenObject> about_to_open(const std::vector<std::string>& names,
                                          const ObjectType& type, const ObjectOptions& options,
                                          const std::shared_ptr<RuntimeLink>& runtime);
/// As they lie on the medium.
u64 bytes_of(const std::vector<std::string>& names);
object::CoreOptions core_options(const ObjectOptions& options, const format::ObjectHead& head);
/// Those of the type that are not among the names get numbers behind these.
std::vector<std::string> with_methods(std::vector<std::string> names, const ObjectType& type);
/// Of an object that processes share: `names` are those of its functions.
Status check_shared(const ObjectType& type, const std::vector<std::string>& names,
                    bool keeps_all_calls);

/// Memory for an object that is made or recovered, which other processes may open: given back if
/// that fails.
class NewBlock {
 public:
  NewBlock(std::shared_ptr<store::SharedMemory> memory, u32 region, u64 head_place)
      : memory_(std::move(memory)), region_(region), head_place_(head_place) {}
  ~NewBlock() {
    if (made_) memory_->free(*made_);
  }
  NewBlock(const NewBlock&) = delete;

  /// Of one process: nothing.
  void add_to(object::ObjectCore::Parts& parts) {
    if (!memory_) return;
    parts.peers = memory_.get();
    parts.memory = [this](const object::ObjectMemory::Sizes& sizes) { return make(sizes); };
  }
  u32 publish() {
    if (!memory_) return 0;
    memory_->publish(*made_);
    return *std::exchange(made_, std::nullopt);
  }

 private:
  // A recovery may be tried again, with another copy.
  Result<object::ObjectMemory> make(const object::ObjectMemory::Sizes& sizes) {
    if (made_) memory_->free(*std::exchange(made_, std::nullopt));
    Result<store::SharedMemory::Made> made = memory_->make(region_, head_place_, sizes);
    if (!made) return made.failure();
    made_ = made->block;
    return object::ObjectMemory::among_processes(std::move(made->memory), sizes, true);
  }

  const std::shared_ptr<store::SharedMemory> memory_;
  const u32 region_;
  const u64 head_place_;
  std::optional<u32> made_;
};

}  // namespace perdura::detail
