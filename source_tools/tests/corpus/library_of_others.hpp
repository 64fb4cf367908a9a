// A library of somebody else's: a system header, with functions that have the names of well-known
// ones.
#pragma once
#pragma GCC system_header

struct Vector3 {
  double x;
};
void log(const char* message);
void floor(Vector3& vector);
extern "C" {
void prefetch(int x);
int ffs_of(int x);
int inf(int x);
}
