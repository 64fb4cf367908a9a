// What a store on a RADOS cluster consists of. docs/format/rados.md describes it.
#pragma once

#include "format/object_medium_format.hpp"

namespace perdura::format {

/// Of the object "head", which is an MediumHead.
constexpr char kRadosMagic[8] = {'\x89', 'P', 'R', 'A', 'D', '\r', '\n', '\x1a'};
constexpr u32 kRadosVersion = 1;

}  // namespace perdura::format
