// The calls of C++'s exceptions, so that an exception is undone with the transaction that throws
// it.
#include <cxxabi.h>
#include <unwind.h>

#include "abi.hpp"

using namespace perdura::detail;

extern "C" {

void* _ITM_cxa_allocate_exception(size_t size) {
  void* const exception = abi::__cxa_allocate_exception(size);
  itm::exception_allocated(exception);
  return exception;
}

void _ITM_cxa_free_exception(void* exception) {
  itm::exception_freed(exception);
  abi::__cxa_free_exception(exception);
}

[[noreturn]] void _ITM_cxa_throw(void* exception, std::type_info* type, void (*destroy)(void*)) {
  itm::exception_thrown(exception);
  abi::__cxa_throw(exception, type, destroy);
}

void* _ITM_cxa_begin_catch(void* header) {
  // Not what the handler gets: that may be a base, or what a pointer leads to.
  itm::catch_begins(static_cast<_Unwind_Exception*>(header) + 1);
  return abi::__cxa_begin_catch(header);
}

void _ITM_cxa_end_catch() {
  itm::catch_ends();
  abi::__cxa_end_catch();
}
}
