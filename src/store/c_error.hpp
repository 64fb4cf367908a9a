// A C surface: failures are a negative code, and the sentence that perdura_last_error gives.
#pragma once

#include <atomic>
#include <exception>
#include <new>

#include <perdura/perdura.h>
#include <perdura/detail/stm.hpp>
#include <perdura/error.hpp>
#include <perdura/options.hpp>

namespace perdura::detail {

/// Keeps what perdura_last_error and perdura_last_code say; returns the negative code.
int keep_error(Code code, const char* message) noexcept;

class Runtime;

/// Transactions of C, through whose code no exception finds its way (model/transaction/fstm.cc).
struct CTransactions {
  /// Where this thread has begun one that has no store yet, it is this one's from now on. Throws.
  void (*join)(Runtime& runtime);
  bool (*is_to_begin_again)(const TransactionAgain& again) noexcept;
  /// Does not return.
  void (*begin_again)(TransactionAgain::Why why) noexcept;
};
/// nullptr: there was none yet.
inline constinit std::atomic<const CTransactions*> c_transactions{nullptr};

/// Runs a call that throws: 0 or the negative code. Where it ends a transaction of C, that begins
/// again; where one of C++, what it throws is thrown on, to there.
template <class Call>
int c_call(Call&& call) {
  const CTransactions* transactions = nullptr;
  TransactionAgain::Why why{};
  try {
    call();
    return 0;
  } catch (const TransactionAgain& again) {
    transactions = c_transactions.load(std::memory_order_relaxed);
    if (transactions == nullptr || !transactions->is_to_begin_again(again)) throw;
    why = again.why;
  } catch (const Error& error) {
    return keep_error(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return keep_error(Code::kNoMemory, "out of memory");
  } catch (const std::exception& error) {
    return keep_error(Code::kIo, error.what());
  }
  transactions->begin_again(why);  // when the exception is gone, which nobody else would end
  return 0;
}

/// What `call` returns; NULL when it fails.
template <class Call>
void* pointer_of(Call&& call) {
  void* pointer = nullptr;
  return c_call([&] { pointer = call(); }) == 0 ? pointer : nullptr;
}

/// Throws for NULL.
const perdura_type& required(const perdura_type* type);

/// Of a perdura_options of so many bytes; throws where it sets what is not known here.
Options options_of(const perdura_options* options, std::size_t bytes);
/// What programs hand over that were compiled before sizes were.
constexpr std::size_t kFirstOptionsBytes = 96;

}  // namespace perdura::detail
