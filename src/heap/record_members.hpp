// Records that say all members of a structure in C (PERDURA_STRUCT): what its program states in C++
// by the type itself. The store knows the structure by the name that it has in C++.
#pragma once

#include <vector>

#include <perdura/type.h>

#include "heap/members.hpp"

namespace perdura::heap {

/// Whether a record says all members.
bool has_all_members(const perdura_type& type);
/// Whether such a slot says something of a member beside whether there are pointers in it.
bool is_number_slot(const perdura_slot& slot);

/// The name by which a store knows the type of a record: of one that says all members its mangled
/// name, "7account" of `struct account`; of another one what it says.
Result<std::string> name_of_record(const perdura_type& type);

/// As classes_of a type in C++, of a record that says all members. kInvalidArgument where a member
/// is missing, or is there twice.
Result<std::vector<Class>> classes_of(const perdura_type& type);
/// Of a type of the program, by what it states of it in C++ or in its record; nothing where
/// neither says what it is made of.
Result<std::vector<Class>> classes_of_program(const perdura_type& type);

/// An object of `now` from one that was a `former`: what members of the same names had. Both say
/// all members, and can_evolve says of them that it can be done. kInvalidArgument names a member
/// whose number the new type does not have.
Status evolve_record(const perdura_type& former, const perdura_type& now, const void* was,
                     void* object);
/// kInvalidArgument names the member that cannot be made of what it was.
Status can_evolve(const perdura_type& former, const perdura_type& now);

}  // namespace perdura::heap
