// malloc-cfrac STEPS: whole numbers of any size, each in a block of its own, after Barrett's cfrac,
// which factors numbers by continued fractions (in Zorn's collection, and in mimalloc-bench). This
// takes so many steps of the expansion of the root of a number of 45 digits; in each one it makes
// the next residue, divides it by small primes to see whether it is smooth, and checks at the end
// that A² ≡ ±Q, modulo the number, for the last one. Most blocks are of 16 to 32 bytes, and live
// for a few operations. One thread.
#include "load.h"

/// Not below 0. Never changed once it is made; freed with its last holder.
struct number {
  uint32_t holders;
  uint32_t count;     ///< of digits
  uint32_t digits[];  ///< the lowest first; the highest is not 0
};

static struct number* new_number(uint32_t count) {
  struct number* const made = malloc(sizeof *made + count * sizeof(uint32_t));
  if (made == NULL) abort();
  made->holders = 1;
  made->count = count;
  return made;
}

static struct number* hold(struct number* of) {
  ++of->holders;
  return of;
}

static void drop(struct number* of) {
  if (--of->holders == 0) free(of);
}

static struct number* trimmed(struct number* of) {
  while (of->count != 0 && of->digits[of->count - 1] == 0) --of->count;
  return of;
}

static struct number* small(uint32_t value) {
  struct number* const made = new_number(1);
  made->digits[0] = value;
  return trimmed(made);
}

static int compare(const struct number* a, const struct number* b) {
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  for (uint32_t i = a->count; i-- != 0;)
    if (a->digits[i] != b->digits[i]) return a->digits[i] < b->digits[i] ? -1 : 1;
  return 0;
}

// Each takes what it is given from its holder, and makes a number anew.

static struct number* sum(struct number* a, struct number* b) {
  if (a->count < b->count) {
    struct number* const other = a;
    a = b;
    b = other;
  }
  struct number* const made = new_number(a->count + 1);
  uint64_t carry = 0;
  for (uint32_t i = 0; i < a->count; ++i) {
    carry += (uint64_t)a->digits[i] + (i < b->count ? b->digits[i] : 0);
    made->digits[i] = (uint32_t)carry;
    carry >>= 32;
  }
  made->digits[a->count] = (uint32_t)carry;
  drop(a);
  drop(b);
  return trimmed(made);
}

/// `b` is not more than `a`.
static struct number* difference(struct number* a, struct number* b) {
  struct number* const made = new_number(a->count);
  int64_t carry = 0;
  for (uint32_t i = 0; i < a->count; ++i) {
    carry += (int64_t)a->digits[i] - (i < b->count ? b->digits[i] : 0);
    made->digits[i] = (uint32_t)carry;
    carry >>= 32;
  }
  drop(a);
  drop(b);
  return trimmed(made);
}

static struct number* product(struct number* a, struct number* b) {
  struct number* const made = new_number(a->count + b->count);
  memset(made->digits, 0, made->count * sizeof *made->digits);
  for (uint32_t i = 0; i < a->count; ++i) {
    uint64_t carry = 0;
    for (uint32_t k = 0; k < b->count; ++k) {
      carry += (uint64_t)a->digits[i] * b->digits[k] + made->digits[i + k];
      made->digits[i + k] = (uint32_t)carry;
      carry >>= 32;
    }
    made->digits[i + b->count] = (uint32_t)carry;
  }
  drop(a);
  drop(b);
  return trimmed(made);
}

static struct number* half(struct number* a) {
  struct number* const made = new_number(a->count);
  for (uint32_t i = 0; i < a->count; ++i)
    made->digits[i] = a->digits[i] >> 1 | (i + 1 < a->count ? a->digits[i + 1] << 31 : 0);
  drop(a);
  return trimmed(made);
}

static struct number* divided_by_small(struct number* a, uint32_t by, uint32_t* rest) {
  struct number* const made = new_number(a->count);
  uint64_t left = 0;
  for (uint32_t i = a->count; i-- != 0;) {
    left = left << 32 | a->digits[i];
    made->digits[i] = (uint32_t)(left / by);
    left %= by;
  }
  *rest = (uint32_t)left;
  drop(a);
  return trimmed(made);
}

static struct number* shifted(struct number* a, uint32_t bits) {
  struct number* const made = new_number(a->count + bits / 32 + 1);
  memset(made->digits, 0, made->count * sizeof *made->digits);
  for (uint32_t i = 0; i < a->count; ++i) {
    const uint64_t wide = (uint64_t)a->digits[i] << bits % 32;
    made->digits[i + bits / 32] |= (uint32_t)wide;
    made->digits[i + bits / 32 + 1] |= (uint32_t)(wide >> 32);
  }
  drop(a);
  return trimmed(made);
}

static uint32_t bits_of(const struct number* a) {
  return a->count == 0 ? 0 : a->count * 32 - (uint32_t)__builtin_clz(a->digits[a->count - 1]);
}

/// What is left of `a` divided by `b`; how often goes to `*times`, unless that is NULL.
static struct number* rest_of(struct number* a, struct number* b, struct number** times) {
  struct number* quotient = small(0);
  while (compare(a, b) >= 0) {
    uint32_t bits = bits_of(a) - bits_of(b);
    struct number* part = shifted(hold(b), bits);
    if (compare(part, a) > 0) {
      part = half(part);
      --bits;
    }
    a = difference(a, part);
    if (times != NULL) quotient = sum(quotient, shifted(small(1), bits));
  }
  drop(b);
  if (times != NULL) *times = quotient;
  else drop(quotient);
  return a;
}

static struct number* root_of(struct number* a) {
  struct number* root = shifted(small(1), (bits_of(a) + 1) / 2);
  for (;;) {  // Newton's iteration, from above
    struct number* times;
    drop(rest_of(hold(a), hold(root), &times));
    struct number* const next = half(sum(hold(root), times));
    if (compare(next, root) >= 0) {
      drop(next);
      drop(a);
      return root;
    }
    drop(root);
    root = next;
  }
}

static struct number* read_number(const char* text) {
  struct number* made = small(0);
  for (; *text != 0; ++text) made = sum(product(made, small(10)), small((uint32_t)(*text - '0')));
  return made;
}

static const uint32_t kPrimes[] = {2,   3,   5,   7,   11,  13,  17,  19,  23,  29,  31, 37, 41,
                                   43,  47,  53,  59,  61,  67,  71,  73,  79,  83,  89, 97, 101,
                                   103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157};

/// Whether small primes are all that divides it.
static int is_smooth(struct number* of) {
  for (size_t i = 0; i < sizeof kPrimes / sizeof *kPrimes; ++i)
    for (;;) {
      uint32_t rest;
      struct number* const quotient = divided_by_small(hold(of), kPrimes[i], &rest);
      if (rest != 0) {
        drop(quotient);
        break;
      }
      drop(of);
      of = quotient;
    }
  const int smooth = of->count == 1 && of->digits[0] == 1;
  drop(of);
  return smooth;
}

int main(int argc, char** argv) {
  const uint64_t steps = number_of(argc, argv, 1);
  pin_thread(0);
  const double begin = now_s();
  struct number* const n = read_number("310418504927165093478223490816372518350927461");
  struct number* const root = root_of(hold(n));
  // (P + root of n) / Q, and the numerators A of the convergents, modulo n.
  struct number* p = small(0);
  struct number* q = small(1);
  struct number* before = small(1);
  struct number* a = hold(root);
  struct number* term = hold(root);
  uint64_t smooth = 0, checksum = 0;
  for (uint64_t step = 0; step < steps; ++step) {
    p = difference(product(hold(term), hold(q)), p);
    struct number* times;
    struct number* const rest = rest_of(difference(hold(n), product(hold(p), hold(p))), q, &times);
    if (rest->count != 0) abort();  // it divides
    drop(rest);
    q = times;
    drop(term);
    smooth += (uint64_t)is_smooth(hold(q));
    for (uint32_t i = 0; i < q->count; ++i) checksum = checksum * 31 + q->digits[i];
    // A² ≡ (-1)^(step + 1) Q holds here.
    if (step + 1 == steps) {
      struct number* square = rest_of(product(hold(a), hold(a)), hold(n), NULL);
      if (step % 2 == 0) square = difference(hold(n), square);
      if (compare(square, q) != 0) abort();
      drop(square);
    }
    drop(rest_of(sum(hold(root), hold(p)), hold(q), &term));
    struct number* const next = rest_of(sum(product(hold(term), hold(a)), before), hold(n), NULL);
    before = a;
    a = next;
  }
  say_result(now_s() - begin, checksum ^ smooth << 48);
  struct number* const all[] = {n, root, p, q, before, a, term};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) drop(all[i]);
  return 0;
}
