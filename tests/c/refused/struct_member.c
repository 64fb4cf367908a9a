/* Not a program: a structure is no PERDURA_MEMBER, which does not compile; PERDURA_VALUE says it.
 */
#include <perdura/type.h>

struct point {
  float x;
};
struct line {
  struct point from;
};
PERDURA_STRUCT(line_type, struct line, PERDURA_MEMBER(struct line, from));
