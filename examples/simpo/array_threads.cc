// SIMPO's fourth listing: threads that share a persistent object (docs/simpo.md).
//
//   array_threads THREADS CALLS
//
// Each thread calls CALLS times: it increments its row, at times all rows, and at times asks for
// its row's sum. Kill the program and start it again: each thread goes on behind its last call that
// is durable, so that in the end each of them has happened once.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <perdura/error.hpp>

#include "array_refactored.hpp"

namespace {

constexpr int kPoid = 1;

struct Work {
  TwoDimIntArray* array;
  int row;
  long long calls;
};

enum class Kind { kAllInc, kRowInc, kRowSum };
Kind kind_of(long long call) {
  if (call % 50 == 49) return Kind::kRowSum;
  return call % 50 == 24 ? Kind::kAllInc : Kind::kRowInc;
}

void* work(void* argument) {
  const Work& work = *static_cast<const Work*>(argument);
  TwoDimIntArray& array = *work.array;
  for (long long call = porecorded(kPoid, potid_self()); call < work.calls; ++call) {
    switch (kind_of(call)) {
      case Kind::kAllInc:
        array.simpo_allInc();
        break;
      case Kind::kRowInc:
        array.simpo_rowInc(work.row, work.row);
        break;
      case Kind::kRowSum:
        array.simpo_rowSum(work.row, work.row);
    }
  }
  return nullptr;
}

// Whether the rows are what all calls of all threads come to.
bool is_complete(TwoDimIntArray& array, int threads, long long calls) {
  long long all = 0;
  long long own = 0;
  for (long long call = 0; call < calls; ++call) {
    all += kind_of(call) == Kind::kAllInc;
    own += kind_of(call) == Kind::kRowInc;
  }
  bool complete = true;
  for (int row = 0; row < TwoDimIntArray::kRows; ++row) {
    const long long element = all * threads + (row < threads ? own : 0);
    complete = complete && array.simpo_rowSum(row) == TwoDimIntArray::kColumns * element;
  }
  return complete;
}

int run(int threads, long long calls) {
  TwoDimIntArray array(kPoid);
  std::vector<Work> works;
  for (int row = 0; row < threads; ++row) {
    works.push_back({&array, row, calls});
    std::printf("thread %d goes on at %lld\n", row + 1, porecorded(kPoid, row + 1));
  }
  std::fflush(stdout);
  std::vector<pthread_t> workers(works.size());
  for (int row = 0; row < threads; ++row)
    if (pthread_create_simpo(&workers[row], nullptr, &work, &works[row], row + 1) != 0) return 2;
  for (const pthread_t worker : workers) pthread_join(worker, nullptr);
  array.simpo_printAll();
  if (!is_complete(array, threads, calls)) {
    std::fprintf(stderr, "the array is not what its calls come to\n");
    return 1;
  }
  std::printf("complete\n");
  std::fflush(stdout);  // before the destructor frees it
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count == 3 ? std::atoi(arguments[1]) : 0;
  const long long calls = count == 3 ? std::atoll(arguments[2]) : 0;
  if (threads < 1 || threads > TwoDimIntArray::kRows || calls < 1) {
    std::fprintf(stderr, "use: %s THREADS CALLS, of 1 to %d threads\n", arguments[0],
                 TwoDimIntArray::kRows);
    return 2;
  }
  try {
    return run(threads, calls);
  } catch (const perdura::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
