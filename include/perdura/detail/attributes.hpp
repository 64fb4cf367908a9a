// [[perdura::deferrable]] and [[perdura::instant]] say of methods what they are, to the source
// tools (docs/refactoring.md). GCC is told that they are no mistakes, and says nothing else less
// for it. Clang has no such pragma: there -Wno-unknown-attributes does it.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma GCC diagnostic ignored_attributes "perdura::"
#endif
