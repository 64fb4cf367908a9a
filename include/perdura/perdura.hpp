// Perdura: a program's own memory, durable. The whole C++ API.
#pragma once

#include <perdura/allocator.hpp>
#include <perdura/container.hpp>
#include <perdura/durable.hpp>
#include <perdura/error.hpp>
#include <perdura/field.hpp>
#include <perdura/objects.hpp>
#include <perdura/options.hpp>
#include <perdura/store.hpp>
#include <perdura/transaction.hpp>
