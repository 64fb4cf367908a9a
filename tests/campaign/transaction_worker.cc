// transaction_worker URI DURABILITY
//
// Moves money between accounts in eight threads, each of which has a stack of receipts that grows
// and shrinks, until it is killed; takes checkpoints now and then. Prints what it finds: "found
// THREAD TRANSFERS", or a sentence that says what is wrong; then "done THREAD TRANSFERS" for each
// transfer that is durable. Compiled with PERDURA_ITM its transfers are those of bank.c.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <perdura/perdura.hpp>

#include "bank.h"
#include "support/ledger.hpp"

namespace {

using namespace perdura;

constexpr u64 kThreads = kBankThreads;

void say(const char* what, u64 thread, u64 transfers) {
  char line[64];
  const int length = std::snprintf(line, sizeof line, "%s %lu %lu\n", what, thread, transfers);
  if (::write(1, line, static_cast<size_t>(length)) != length) std::_Exit(1);
}

std::string check(const Store& store, const bank& bank) {
  std::int64_t sum = 0;
  for (const std::int64_t account : bank.accounts) sum += account;
  if (sum != 0) return "money was made or lost";
  u64 receipts = 0;
  for (const auto& thread : bank.threads) {
    u64 count = 0;
    for (const receipt* receipt = thread.last; receipt != nullptr; receipt = receipt->before) {
      ++count;
      if (receipt->transfer > thread.transfers) return "a receipt of a transfer that never was";
      for (const u64 word : receipt->words)
        if (word != receipt->transfer) return "a receipt is not whole";
    }
    if (count != thread.receipts) return "receipts are missing";
    receipts += count;
  }
  const HeapAudit audit = store.audit();
  if (!audit.clean) return audit.problem;
  // The bank, the state of transactions, and what leads to roots.
  if (audit.live_blocks > receipts + 2 + audit.roots + audit.types) return "blocks are left over";
  return {};
}

#ifndef PERDURA_ITM  // else it is GCC's

u64 do_transfer(Store& store, bank& bank, const transfer& what) {
  auto& own = bank.threads[what.thread];
  std::int64_t& from = bank.accounts[what.from];
  std::int64_t& to = bank.accounts[what.to];
  return atomically(store, [&](Transaction& tx) {
    tx.write(from, tx.read(from) - what.amount);
    tx.write(to, tx.read(to) + what.amount);
    const u64 number = tx.read(own.transfers) + 1;
    tx.write(own.transfers, number);
    receipt* const last = tx.read(own.last);
    if (what.keeps != 0 || last == nullptr) {
      auto* const made = static_cast<receipt*>(tx.allocate(sizeof(receipt)));
      made->before = last;
      made->transfer = number;
      for (u64& word : made->words) word = number;
      tx.write(own.last, made);
      tx.write(own.receipts, tx.read(own.receipts) + 1);
    } else {
      tx.write(own.last, tx.read(last->before));
      tx.write(own.receipts, tx.read(own.receipts) - 1);
      tx.deallocate(last);
    }
    return number;
  });
}

#else

u64 do_transfer(Store&, bank& bank, const transfer& what) { return bank_transfer(&bank, &what); }

#endif

// One of four that are relaxed is waited for, and said to be done.
void transfer_once(Store& store, bank& bank, u64 thread, bool relaxed, std::mt19937_64& random) {
  const u64 from = random() % kBankAccounts, to = random() % kBankAccounts;
  const auto amount = static_cast<std::int64_t>(random() % 100);
  const u64 done = do_transfer(store, bank, {thread, from, to, amount, random() % 3 != 0});
  if (relaxed) {
    if (done % 4 != 0) return;
    wait_for_commit(store, last_commit(store));
  }
  say("done", thread, done);
}

Durability durability_of(const std::string& name) {
  if (name == "lazy_bulk") return Durability::kLazyBulk;
  if (name == "per_write") return Durability::kPerWrite;
  return name == "relaxed" ? Durability::kRelaxed : Durability::kNonTemporal;
}

int work(const std::string& uri, const std::string& way) {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.log_segment_bytes = 64 * kKiB;
  options.log_limit_bytes = 512 * kKiB;
  Store store = Store::open(uri, options);
  auto& bank = store.root<struct bank>("bank");
  store.checkpoint();
  if (const std::string problem = check(store, bank); !problem.empty()) {
    std::puts(problem.c_str());
    return 1;
  }
  for (u64 thread = 0; thread < kThreads; ++thread)
    say("found", thread, bank.threads[thread].transfers);
  const Durability durability = durability_of(way);
  set_durability(store, durability);
  set_logging(store, way == "undo" ? Logging::kUndo : Logging::kRedo);
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(test::mix(static_cast<u64>(::getpid()) * kThreads + thread));
      for (;;) transfer_once(store, bank, thread, durability == Durability::kRelaxed, random);
    });
  for (;;) {
    ::usleep(5000);
    store.checkpoint();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return work(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
}
