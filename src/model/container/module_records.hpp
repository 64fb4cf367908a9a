// What a container's state says of the modules that its pointers lead to, while it is open.
//
//   record i    "while words of this version were stored, this build lay at [begin, begin + bytes)"
//
// Records that count (bytes != 0) do not overlap: an address out of the container is in one module.
// A module that is loaded where another one was ends what the other's record says, since words that
// lead there lead into it now. A record of a module that is not loaded any more goes on to count: a
// program may unload its libraries before the last point. So the same build has two records when it
// was unloaded and loaded again elsewhere, or when two copies of a file are loaded.
//
// Under the discovery mutex, while mutators stand still.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "heap/closure.hpp"
#include "model/container/modules.hpp"

namespace perdura::detail {

class ModuleRecords {
 public:
  /// A discovery begins: look at what is loaded now.
  void begin(format::ContainerState& state, heap::Closure::Side own);
  /// Whether an address leads into a module, which is then noted with the symbol that is there.
  /// Throws without memory.
  bool note(u64 address);
  /// Put what was noted into the state. What fails is put there by the next discovery.
  Status put();

 private:
  /// Of a loaded module.
  struct Loaded {
    static constexpr u32 kNone = ~u32{0};
    u32 record = kNone;           ///< that is its own, or that it takes over when it is noted
    bool noted = false;           ///< by this discovery
    std::map<u64, u64> known;     ///< ends of symbols by their beginnings, as offsets
    std::vector<Symbol> symbols;  ///< noted, and not in the state yet
  };

  void match();
  u32 record_for(const Module& module, const std::set<u32>& taken) const;
  void note_symbol(const Module& module, Loaded& loaded, u64 address);
  bool leads_to_unloaded(u64 address);
  Status put_module(const Module& module, Loaded& loaded);
  Status put_symbols(Loaded& loaded);
  template <class T>
  Status append_named(T*& all, u32& count, T one, const std::string& name);
  Result<char*> make_text(const std::string& text);

  Modules modules_;
  std::vector<Loaded> loaded_;  ///< by the modules' numbers
  format::ContainerState* state_ = nullptr;
  bool matched_ = false;  ///< loaded_ is of the modules that there are
  std::optional<heap::Closure::Side> own_;
};

}  // namespace perdura::detail
