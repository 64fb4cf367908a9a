#include <exception>

#include "library_of_others.hpp"

int counted = 0;
void log(const char*) { ++counted; }  // because: logs global
void floor(Vector3& vector) { vector.x = ++counted; }  // because: floors global
struct Fault : std::exception {
  int code = 0;
  ~Fault() override;
};
Fault::~Fault() { ++counted; }  // because: ends_fault global; because: catches_fault global
