// A scenario of fault_test.cc: a closed store with a damaged page, opened by programs that want to
// be told (OnDamage::kThrow) and verify what they use, while calls fail.
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/assert.hpp"
#include "campaign/fault_session.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

constexpr u64 kPageWords = kPageBytes / sizeof(u64);
constexpr u64 kDamaged = 20 * kPageWords;  ///< a word of the block in slot 0, which is its index
constexpr u64 kStored = 40 * kPageWords;   ///< the program stores there

Extras::Slot& block_of(Store& store) {
  return static_cast<Extras*>(store.get_root("extras"))->slots[0];
}

// In each place that has the word, with its neighbours: of dual copies both do.
void damage(const std::string& path) {
  FileBytes bytes = read_file(path);
  const u64 pattern[] = {kDamaged - 1, kDamaged, kDamaged + 1};
  u64 found = 0;
  for (size_t at = 0; at + sizeof pattern <= bytes.size(); at += sizeof(u64)) {
    if (std::memcmp(bytes.data() + at, pattern, sizeof pattern) != 0) continue;
    bytes[at + sizeof(u64)] ^= std::byte{8};
    ++found;
  }
  PERDURA_ASSERT(found != 0);
  write_file(path, bytes);
}

/// Each word is its index, but for those of the damaged page, and the one that is stored to.
bool is_intact(const Extras::Slot& block) {
  for (u64 i = 0; i < block.count; ++i)
    if ((i + kPageWords < kDamaged || i > kDamaged + kPageWords) && i != kStored &&
        block.words[i] != i)
      return false;
  return true;
}

/// Where parts cannot be verified one by one all are before it is open, and it is refused.
std::optional<Store> open(const std::string& uri, const Options& options) {
  try {
    return in_library([&] { return Store::open(uri, options); });
  } catch (const Error& error) {
    if (error.code() != Code::kCorrupt) throw;
    return std::nullopt;
  }
}

/// A checkpoint that may say what is damaged, and then is taken again.
void checkpoint(Session& session, Store& store, bool& told) {
  session.attempt([&] {
    try {
      in_library([&] { store.checkpoint(); });
    } catch (const Error& error) {
      if (error.code() != Code::kCorrupt) throw;
      told = true;
      in_library([&] { store.checkpoint(); });
    }
  });
}

// The faults are over: the page is damaged for whoever opens the store, and its neighbours are not.
void expect_damaged(Session& session, const std::string& uri, const Options& options, u64 durable,
                    u64 newest) {
  Store store = Store::open(uri, options);
  const Extras::Slot& block = block_of(store);
  if (!is_intact(block)) session.problem("words beside a damaged page are not what they were");
  const u64 stored = block.words[kStored];
  if (stored < durable || stored > newest) session.problem("a version lost a word");
  if (block.words[kDamaged] != 0) session.problem("a damaged page was shown");
  try {
    store.checkpoint();
    session.problem("a program that read a damaged page was not told");
  } catch (const Error& error) {
    if (error.code() != Code::kCorrupt) session.problem(error.what());
  }
  try {
    store.close();
  } catch (const Error& error) {
    if (error.code() != Code::kCorrupt) session.problem(error.what());
  }
}

}  // namespace

void meet_damage(Session& session) {
  const std::string path = session.path() + ".damaged";
  const std::string uri = session.uri().substr(0, session.uri().find(':')) + ":" + path;
  Options options = session.options();
  options.verify = Verify::kBeforeUse;
  options.on_damage = OnDamage::kThrow;
  std::filesystem::copy_file(session.path(), path,
                             std::filesystem::copy_options::overwrite_existing);
  damage(path);

  u64 durable = kStored, newest = kStored;
  for (u64 round = 0; round < 2; ++round)
    session.attempt([&] {
      std::optional<Store> store = open(uri, options);
      if (!store) return;
      bool told = false;
      u64* const words = in_library([&] {
        u64* const found = block_of(*store).words;
        store->touch(found + kStored, sizeof *found);
        found[kStored] = ++newest;
        return found;
      });
      u64 version = store->durable_version();
      checkpoint(session, *store, told);
      if (store->durable_version() > version) durable = newest;
      version = store->durable_version();
      if (in_library([&] { return static_cast<volatile u64*>(words)[kDamaged]; }) != 0)
        session.problem("a damaged page was shown");
      checkpoint(session, *store, told);
      if (store->durable_version() > version && !told)
        session.problem("a program that read a damaged page was not told");
      in_library([&] { store.reset(); });
    });
  disarm_calls();
  expect_damaged(session, uri, options, durable, newest);
}

}  // namespace perdura::test
