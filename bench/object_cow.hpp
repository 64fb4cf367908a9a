// Peers of the benchmark `object`: objects with a copy in memory that calls change and log, and
// checkpoints as SIMPO describes them.
//
//   cow      copy-on-write (§3.2.1, Figure 6 (3)): a new block of NVM, the resilient copy copied to
//            it, what is in memory written over that, the root changed to lead to it, the old block
//            given back
//   masked   two copies and an index of the resilient one (§3.2.2), in three steps behind the copy:
//            the index with a mask, 8, which says that the log may be behind it; the log's last
//            entry and the cursor of what is resilient; the index without the mask. Ours has all of
//            that in one head with a checksum, which is one step.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "harness.hpp"
#include "object_matrix.hpp"

namespace perdura::bench {

/// A file in memory, all of it mapped.
class NvmFile {
 public:
  NvmFile(Context& context, const char* stem, std::size_t size);
  ~NvmFile();
  NvmFile(const NvmFile&) = delete;
  NvmFile& operator=(const NvmFile&) = delete;
  void* at() const { return at_; }

 private:
  Context& context_;
  const std::string path_;
  const std::size_t size_;
  void* const at_;
};

class CopiedMatrix {
 public:
  virtual ~CopiedMatrix() = default;
  CopiedMatrix(const CopiedMatrix&) = delete;
  CopiedMatrix& operator=(const CopiedMatrix&) = delete;

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
    return resilient();
  }
  /// What was called is durable.
  void sync();

 protected:
  struct alignas(kLineBytes) Block {
    Matrix matrix;
  };
  explicit CopiedMatrix(std::uint64_t checkpoint_calls);

  virtual void checkpoint(const Block& memory, std::uint64_t calls) = 0;
  virtual const Matrix& resilient() const = 0;
  static void write_word(std::uint64_t& word, std::uint64_t value);
  static void write_block(const Block& from, Block& to);

 private:
  struct alignas(kLineBytes) Entry {
    std::uint64_t index;
    std::int64_t by;
    std::uint64_t rest[6];
  };
  static constexpr std::uint64_t kEntries = 16384;

  void all_inc(std::int32_t by);

  const std::uint64_t checkpoint_calls_;
  Mutex mutex_;
  Block memory_{};
  const Buffer log_;  ///< a line for each call, in memory, as a relaxed object of ours has it
  std::uint64_t calls_ = 0;
  std::uint64_t calls_since_ = 0;
};

class CowMatrix final : public CopiedMatrix {
 public:
  CowMatrix(Context& context, std::uint64_t checkpoint_calls);

 private:
  static constexpr std::uint64_t kBlocks = 64;
  struct Nvm {
    alignas(kLineBytes) std::uint64_t root;
    alignas(kLineBytes) std::uint64_t used;  ///< a bit for each block
    Block blocks[kBlocks];
  };

  void checkpoint(const Block& memory, std::uint64_t calls) override;
  const Matrix& resilient() const override { return nvm().blocks[nvm().root].matrix; }
  Nvm& nvm() const { return *static_cast<Nvm*>(file_.at()); }

  const NvmFile file_;
};

class MaskedMatrix final : public CopiedMatrix {
 public:
  MaskedMatrix(Context& context, std::uint64_t checkpoint_calls);

 private:
  static constexpr std::uint64_t kMask = 8;
  struct Nvm {
    alignas(kLineBytes) std::uint64_t index;
    alignas(kLineBytes) std::uint64_t last_state;  ///< of the last entry: resilient
    alignas(kLineBytes) std::uint64_t cursor;      ///< of what is resilient
    Block copies[2];
  };

  void checkpoint(const Block& memory, std::uint64_t calls) override;
  const Matrix& resilient() const override { return nvm().copies[nvm().index & ~kMask].matrix; }
  Nvm& nvm() const { return *static_cast<Nvm*>(file_.at()); }

  const NvmFile file_;
};

}  // namespace perdura::bench
