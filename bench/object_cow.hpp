// The peer `cow` of the benchmark `object`: an object with a copy in memory that calls change and
// log, and of which a checkpoint is made by copy-on-write (SIMPO §3.2.1, Figure 6 (3)): a new block
// of NVM, the resilient copy copied to it, what is in memory written over that, the root changed to
// lead to it, the old block given back.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "harness.hpp"
#include "object_matrix.hpp"

namespace perdura::bench {

class CowMatrix {
 public:
  CowMatrix(Context& context, std::uint64_t checkpoint_calls);
  ~CowMatrix();
  CowMatrix(const CowMatrix&) = delete;
  CowMatrix& operator=(const CowMatrix&) = delete;

  // As an Object has it, of all_inc alone.
  template <auto Method>
  void defer(std::int32_t by) {
    static_assert(Method == &Matrix::all_inc);
    all_inc(by);
  }
  template <auto Method>
  void call(std::int32_t by) {
    static_assert(Method == &Matrix::all_inc_told);
    all_inc(by);
  }
  /// The resilient copy.
  template <auto Method>
  Matrix read() const {
    static_assert(Method == &Matrix::all);
    return nvm_->blocks[nvm_->root].matrix;
  }
  /// What was called is durable.
  void sync();

 private:
  struct alignas(kLineBytes) Block {
    Matrix matrix;
  };
  static constexpr std::uint64_t kBlocks = 64;
  struct alignas(kLineBytes) Entry {
    std::uint64_t index;
    std::int64_t by;
    std::uint64_t rest[6];
  };
  static constexpr std::uint64_t kEntries = 16384;
  struct Nvm {
    alignas(kLineBytes) std::uint64_t root;
    alignas(kLineBytes) std::uint64_t used;  ///< a bit for each block
    Block blocks[kBlocks];
  };

  void all_inc(std::int32_t by);
  void checkpoint();
  void write_word(std::uint64_t& word, std::uint64_t value);
  static void write_block(const Block& from, Block& to);

  const std::uint64_t checkpoint_calls_;
  Context& context_;
  const std::string path_;
  Nvm* nvm_;
  Mutex mutex_;
  Block memory_{};
  const Buffer log_;  ///< a line for each call, in memory, as a relaxed object of ours has it
  std::uint64_t calls_ = 0;
  std::uint64_t calls_since_ = 0;
};

}  // namespace perdura::bench
