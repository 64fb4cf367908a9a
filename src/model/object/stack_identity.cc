#include "model/object/stack_identity.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "model/container/modules.hpp"

namespace perdura::detail {
namespace {

constexpr int kFramesMax = 256;  // the innermost ones

const Module* module_at(const std::vector<Module>& modules, const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto found = std::ranges::find_if(
      modules, [at](const Module& each) { return at >= each.begin && at < each.end; });
  return found == modules.end() ? nullptr : &*found;
}

// Libraries beside the program; where they are part of it their frames are as the program's.
std::vector<const Module*> libraries(const std::vector<Module>& modules) {
  std::vector<const Module*> found;
  const void* const symbols[] = {::dlsym(RTLD_DEFAULT, "__libc_start_main"),
                                 ::dlsym(RTLD_DEFAULT, "__cxa_throw"),
                                 reinterpret_cast<const void*>(&module_at)};
  for (const void* const symbol : symbols)
    if (const Module* const module = symbol == nullptr ? nullptr : module_at(modules, symbol);
        module != nullptr && !module->path.empty())
      found.push_back(module);
  return found;
}

void append(std::string& text, const void* data, size_t bytes) {
  text.append(static_cast<const char*>(data), bytes);
}

// A build is the same file wherever that is; without an id its name must do.
void append_frame(std::string& text, const Module& module, u64 address) {
  if (module.build_id_bytes != 0) append(text, module.build_id.data(), module.build_id_bytes);
  else text += module.name();
  const u64 offset = address - module.begin;
  append(text, &offset, sizeof offset);
}

u64 sum_of_stack(const void* returns_to, u32 parent) {
  void* frames[kFramesMax];
  void** const end = frames + ::backtrace(frames, kFramesMax);
  void** frame = std::find(frames, end, returns_to);
  if (frame == end) frame = frames;
  const std::vector<Module> modules = loaded_modules();
  const std::vector<const Module*> left_out = libraries(modules);
  std::string text;
  append(text, &parent, sizeof parent);
  for (; frame != end; ++frame)
    if (const Module* const module = module_at(modules, *frame);
        module != nullptr && std::ranges::find(left_out, module) == left_out.end())
      append_frame(text, *module, reinterpret_cast<std::uintptr_t>(*frame));
  return checksum(text.data(), text.size());
}

}  // namespace

Result<int> StackIdentities::next(const void* returns_to, u32 parent) {
  const u64 sum = sum_of_stack(returns_to, parent);
  std::lock_guard lock(mutex_);
  const u64 made_of[2] = {sum, times_[sum]++};
  const u64 whole = checksum(made_of, sizeof made_of);
  const int number = static_cast<int>(static_cast<u32>(whole) | 0x80000000u);
  if (const auto [given, is_new] = given_.try_emplace(number, whole);
      !is_new && given->second != whole)
    return Failure{Code::kMisuse, "two places of the program come to the same number, " +
                                      std::to_string(number) +
                                      "; choose one for an object or thread of one of them"};
  return number;
}

}  // namespace perdura::detail
