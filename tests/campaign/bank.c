/* A transfer as GCC compiles it with -fgnu-tm. */
#include "bank.h"

#include <stdlib.h>

uint64_t bank_transfer(struct bank* bank, const struct transfer* transfer) {
  const struct transfer what = *transfer;
  uint64_t number;
  __transaction_atomic {
    bank->accounts[what.from] -= what.amount;
    bank->accounts[what.to] += what.amount;
    number = ++bank->threads[what.thread].transfers;
    struct receipt* const last = bank->threads[what.thread].last;
    if (what.keeps || last == NULL) {
      struct receipt* const made = malloc(sizeof *made);
      made->before = last;
      made->transfer = number;
      for (int i = 0; i < kReceiptWords; ++i) made->words[i] = number;
      bank->threads[what.thread].last = made;
      bank->threads[what.thread].receipts += 1;
    } else {
      bank->threads[what.thread].last = last->before;
      bank->threads[what.thread].receipts -= 1;
      free(last);
    }
  }
  return number;
}
