// Goal: a transaction stores to the bytes of its fields and to none beside them, in memory, in its
// record, and where it is undone. Method: fields of all sizes drawn side by side, some of them the
// transactions', the others stored to without one meanwhile; a plain array says what is where, now
// and after a crash.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"
#include "support/transaction_ways.hpp"

namespace perdura::test {
namespace {

constexpr size_t kBytes = 256;
using Bytes = std::array<u8, kBytes>;
struct alignas(64) Area {
  Bytes bytes;
};

class TransactionFields : public TransactionWays {};

/// Fields that follow each other.
struct Field {
  size_t at;
  size_t bytes;
  bool transactional;
};

template <size_t kSize>
struct Raw {
  std::array<u8, kSize> bytes;
};

template <class T>
void write_as(Transaction& tx, u8* place, const u8* value) {
  T typed;
  std::memcpy(&typed, value, sizeof typed);
  auto& field = *reinterpret_cast<T*>(place);
  tx.write(field, typed);
  const T found = tx.read(field);
  EXPECT_EQ(std::memcmp(&found, value, sizeof found), 0);
}

void write(Transaction& tx, u8* place, const u8* value, size_t bytes) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(place) % bytes == 0;
  switch (bytes) {
    case 1:
      return write_as<u8>(tx, place, value);
    case 2:
      return is_aligned ? write_as<u16>(tx, place, value) : write_as<Raw<2>>(tx, place, value);
    case 3:
      return write_as<Raw<3>>(tx, place, value);
    case 4:
      return is_aligned ? write_as<u32>(tx, place, value) : write_as<Raw<4>>(tx, place, value);
    case 7:
      return write_as<Raw<7>>(tx, place, value);
    case 8:
      return is_aligned ? write_as<u64>(tx, place, value) : write_as<Raw<8>>(tx, place, value);
    default:
      ASSERT_EQ(bytes, 13u);
      return write_as<Raw<13>>(tx, place, value);
  }
}

class Draw {
 public:
  explicit Draw(u64 seed) : random_(seed) {
    constexpr std::array<size_t, 7> kSizes{1, 2, 3, 4, 7, 8, 13};
    for (size_t at = 0; at < kBytes;) {
      const size_t bytes = std::min(kSizes[random_() % kSizes.size()], kBytes - at);
      if (std::find(kSizes.begin(), kSizes.end(), bytes) == kSizes.end()) break;
      fields.push_back({at, bytes, random_() % 2 == 0});
      at += bytes;
    }
  }
  u64 operator()(u64 end) { return random_() % end; }
  /// Some fields, each with its new bytes.
  template <class Store>
  void store(bool transactional, const Store& store) {
    for (u64 i = 1 + (*this)(6); i != 0; --i) {
      const Field& field = fields[(*this)(fields.size())];
      if (field.transactional != transactional) continue;
      std::array<u8, 16> value{};
      for (u8& each : value) each = static_cast<u8>(random_());
      store(field, value.data());
    }
  }

  std::vector<Field> fields;

 private:
  std::mt19937_64 random_;
};

TEST_P(TransactionFields, AreStoredToAndNoByteBeside) {
  constexpr u64 kSeeds = 20;
  constexpr u64 kSteps = 60;
  Store store = open();
  for (u64 seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    const std::string name = "area " + std::to_string(seed);
    Bytes& bytes = store.root<Area>(name).bytes;
    store.checkpoint();
    Bytes now{};      // what is there
    Bytes durable{};  // after a crash
    const auto plainly = [&] {
      draw.store(false, [&](const Field& field, const u8* value) {
        std::memcpy(&bytes[field.at], value, field.bytes);
        std::memcpy(&now[field.at], value, field.bytes);
      });
    };
    for (u64 step = 0; step < kSteps; ++step) {
      Bytes then = now;  // in the transaction's fields, if it commits
      const auto some = [&](Transaction& tx) {
        draw.store(true, [&](const Field& field, const u8* value) {
          write(tx, &bytes[field.at], value, field.bytes);
          std::memcpy(&then[field.at], value, field.bytes);
        });
        plainly();
      };
      const bool fails = draw(4) == 0;
      try {
        atomically(store, [&](Transaction& tx) {
          some(tx);
          const Bytes before = then;
          try {
            atomically(store, [&](Transaction& inner) {
              some(inner);
              some(inner);
              if (draw(2) == 0) throw std::runtime_error("the part");
            });
          } catch (const std::runtime_error&) {
            then = before;
          }
          some(tx);
          if (fails) throw std::runtime_error("all of it");
        });
      } catch (const std::runtime_error&) {
      }
      for (const Field& field : draw.fields) {
        if (!field.transactional || fails) continue;
        std::memcpy(&now[field.at], &then[field.at], field.bytes);
        std::memcpy(&durable[field.at], &then[field.at], field.bytes);
      }
      ASSERT_EQ(bytes, now) << "step " << step;
    }
    after_crash([=](Store& found) {
      EXPECT_EQ(found.find_root<Area>(name)->bytes, durable) << "seed " << seed;
    });
  }
}

// Another thread's field, in the same word.
TEST_P(TransactionFields, LoseNothingThatOthersStoreBeside) {
  constexpr u32 kTransactions = 30'000;
  struct Pair {
    u32 ours;
    u32 others;
  };
  Store store = open();
  set_durability(store, Durability::kRelaxed);
  auto& pair = store.root<Pair>("pair");
  std::atomic<bool> ended = false;
  std::thread thread([&] {
    for (u32 i = 0; i < kTransactions; ++i) {
      try {
        atomically(store, [&](Transaction& tx) {
          tx.write(pair.ours, tx.read(pair.ours) + 1);
          if (i % 3 == 0) throw std::runtime_error("no");
        });
      } catch (const std::runtime_error&) {
      }
    }
    ended = true;
  });
  u32 count = 0;
  const std::atomic_ref<u32> others(pair.others);
  for (; !ended; ++count) {
    const auto operation = store.operation();
    operation.touch(&pair.others, sizeof pair.others);
    others.store(others.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  thread.join();
  EXPECT_EQ(pair.others, count);
  EXPECT_EQ(pair.ours, kTransactions - kTransactions / 3);
}

INSTANTIATE_TEST_SUITE_P(Ways, TransactionFields, kTransactionWays,
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace perdura::test
