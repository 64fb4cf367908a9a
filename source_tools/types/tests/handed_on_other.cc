// The other file of handed_on.cc, which casts nothing.
#include "handed_on.hpp"

void touch() { of_variable[0] = of_function()[0] = OfTemplate<int>::bytes[0] = 'x'; }
