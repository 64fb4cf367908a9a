// The ranks of a group talk by MPI: in the thread that calls, by two collective functions.
#include <perdura/mpi.hpp>

#include <utility>
#include <vector>

#include "array_state.hpp"

namespace perdura::mpi {
namespace {

class MpiPeers final : public perdura::detail::GroupPeers {
 public:
  MpiPeers(MPI_Comm communicator, int rank, int size)
      : communicator_(communicator),
        rank_(static_cast<unsigned>(rank)),
        size_(static_cast<unsigned>(size)) {}

  unsigned rank() const override { return rank_; }
  unsigned size() const override { return size_; }
  void minimum(std::int64_t* values, std::size_t count) override {
    detail::check(MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_INT64_T, MPI_MIN,
                                communicator_));
  }
  void gather(const void* mine, std::size_t bytes, void* all) override {
    detail::check(MPI_Allgather(mine, static_cast<int>(bytes), MPI_BYTE, all,
                                static_cast<int>(bytes), MPI_BYTE, communicator_));
  }

 private:
  const MPI_Comm communicator_;
  const unsigned rank_;
  const unsigned size_;
};

bool is_finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

}  // namespace

// Where the program lets MPI return its failures; usually it ends the job.
void detail::check(int error) {
  if (error == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(error, text, &length);
  throw Error(Code::kIo, "MPI: " + std::string(text, static_cast<std::size_t>(length)) +
                             "; the ranks cannot go on together: end the job, and start it again");
}

Group::Group(MPI_Comm communicator, std::string_view store, const Options& options) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0 || is_finalized())
    throw Error(Code::kMisuse, "a group is opened between MPI_Init and MPI_Finalize");
  detail::check(MPI_Comm_dup(communicator, &communicator_));
  try {
    detail::check(MPI_Comm_rank(communicator_, &rank_));
    detail::check(MPI_Comm_size(communicator_, &size_));
    member_ = perdura::detail::GroupMember::open(
        std::make_unique<MpiPeers>(communicator_, rank_, size_), store, options);
  } catch (...) {
    MPI_Comm_free(&communicator_);
    throw;
  }
}

Group::~Group() {
  if (member_->is_inherited()) {
    // The group is the parent's, and so is MPI; what its threads had locked stays locked here.
    (void)member_.release();
    return;
  }
  const bool may_talk = std::uncaught_exceptions() == 0 && !is_finalized();
  if (may_talk) {
    try {
      close();
    } catch (const std::exception&) {  // a destructor cannot report; close() does
    }
  }
  member_.reset();
  if (may_talk) MPI_Comm_free(&communicator_);
}

std::uint64_t Group::point() {
  expect_distributed();
  const std::uint64_t version = member_->point();
  has_pointed_ = true;
  return version;
}

void Group::point_async() {
  expect_distributed();
  member_->point_async();
  has_pointed_ = true;
}

void Group::close() {
  if (is_closed_) return;
  expect_distributed();
  is_closed_ = true;
  member_->close();
}

// With the first version of more or fewer ranks the stores of those that are no more are of no use.
void Group::expect_distributed() {
  if (has_pointed_ || member_->ranks_before() == 0 || ranks_before() == size_) return;
  std::string missing;
  for (int rank = 0; rank < ranks_before(); ++rank) {
    if (store_of(rank) == nullptr) continue;
    for (const std::string& name :
         member_->roots_of(static_cast<unsigned>(rank), Store::fingerprint<detail::ArrayState>())) {
      const auto* const here = store().find_root<detail::ArrayState>(name);
      if (here == nullptr || here->ranks != static_cast<std::uint32_t>(size_)) missing = name;
    }
  }
  int lacks = missing.empty() ? 0 : 1;
  detail::check(MPI_Allreduce(MPI_IN_PLACE, &lacks, 1, MPI_INT, MPI_MAX, communicator_));
  if (lacks == 0) return;
  throw Error(Code::kMisuse, "the group was " + std::to_string(ranks_before()) + " ranks and is " +
                                 std::to_string(size_) +
                                 ": construct each Array and Matrix before the first point" +
                                 (missing.empty() ? "" : ", as '" + missing + "'") +
                                 ", or what ranks that are no more have of it would be lost");
}

}  // namespace perdura::mpi
