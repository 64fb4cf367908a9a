// A store as C has it.
#pragma once

#include <perdura/perdura.h>
#include <perdura/store.hpp>

struct perdura_store {
  perdura::Store store;
};

namespace perdura::detail {

/// What allocates, or gives back, in a transaction of C is part of it, also before its first word.
Store& joined(perdura_store* store);

/// Throws for NULL.
const char* required_name(const char* name);

}  // namespace perdura::detail
