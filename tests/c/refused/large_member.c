/* Places in type records have 32 bits. This must not compile. */
#include <perdura/type.h>

struct large {
  char before[(size_t)1 << 32];
  void* member;
};

PERDURA_DEFINE_TYPE(large_type, struct large, PERDURA_POINTER(struct large, member));

int main(void) { return large_type.slot_count == 1 ? 0 : 1; }
