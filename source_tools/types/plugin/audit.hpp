// Checks of stored pointers against type records (perdura-clang --perdura-audit).
#pragma once

namespace llvm {
class Module;
}

namespace perdura::types {

/// Whether the module was changed.
bool audit(llvm::Module& module);

}  // namespace perdura::types
