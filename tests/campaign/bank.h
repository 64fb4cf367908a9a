/* What transaction_worker.cc works on, and one step of it in plain C (bank.c). */
#ifndef PERDURA_TESTS_CAMPAIGN_BANK_H
#define PERDURA_TESTS_CAMPAIGN_BANK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kBankThreads = 8, kBankAccounts = 1000, kReceiptWords = 9 };

struct receipt {
  struct receipt* before;
  uint64_t transfer;
  uint64_t words[kReceiptWords];
};

struct bank {
  int64_t accounts[kBankAccounts];
  struct {
    uint64_t transfers;
    struct receipt* last;
    uint64_t receipts;
  } __attribute__((aligned(64))) threads[kBankThreads];
};

struct transfer {
  uint64_t thread;
  uint64_t from, to;
  int64_t amount;
  int keeps; /* a receipt: else the last one is given back */
};

/* In a transaction. Returns the number of the thread's transfer. */
uint64_t bank_transfer(struct bank* bank, const struct transfer* transfer);

#ifdef __cplusplus
}
#endif

#endif
