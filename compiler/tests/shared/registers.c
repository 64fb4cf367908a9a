// More values in registers than calls of others keep, around a report.
void work(unsigned long* stored, const unsigned long* given, unsigned long* result) {
  unsigned long a = given[0], b = given[1], c = given[2], d = given[3], e = given[4];
  unsigned long f = a * 3, g = b * 5, h = c * 7, i = d * 9, j = e * 11, k = a ^ b, l = c ^ d;
  __asm__ volatile("" : "+r"(f), "+r"(g), "+r"(h), "+r"(i), "+r"(j), "+r"(k), "+r"(l));
  stored[0] = 1;
  __asm__ volatile("" : "+r"(f), "+r"(g), "+r"(h), "+r"(i), "+r"(j), "+r"(k), "+r"(l));
  *result = f + 2 * g + 3 * h + 4 * i + 5 * j + 6 * k + 7 * l + a + b + c + d + e;
}
