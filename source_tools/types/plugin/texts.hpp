// Texts of a module, each once.
#pragma once

#include <map>
#include <string>

#include <llvm/IR/Constants.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Module.h>

namespace perdura::types {

class Texts {
 public:
  explicit Texts(llvm::Module& module) : module_(module) {}

  /// The address of its first character.
  llvm::Constant* of(const std::string& text) {
    llvm::Constant*& known = known_[text];
    if (known != nullptr) return known;
    llvm::Constant* const data = llvm::ConstantDataArray::getString(module_.getContext(), text);
    auto* const made = new llvm::GlobalVariable(module_, data->getType(), true,
                                                llvm::GlobalValue::PrivateLinkage, data);
    made->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    made->setAlignment(llvm::Align(1));
    return known = made;
  }

 private:
  llvm::Module& module_;
  std::map<std::string, llvm::Constant*> known_;
};

}  // namespace perdura::types
