// What all files of a program have: whichever file's code is there makes it.
#pragma once
#include <cstdlib>

struct Node {
  Node* next;
  long value;
};
inline char* of_variable = new char[64];
inline char* of_function() {
  static char* bytes = static_cast<char*>(std::malloc(64));
  return bytes;
}
template <class T>
struct OfTemplate {
  static char* bytes;
};
template <class T>
char* OfTemplate<T>::bytes = new char[64];
void touch();
