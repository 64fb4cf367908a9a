// Groups of MPI processes: one version of the memory of all of them. docs/mpi.md explains.
//
//   perdura::mpi::Group group(MPI_COMM_WORLD, "file:state-%r.pd");
//   perdura::mpi::Array<double> field(group, "field", 1'000'000);
//   auto& step = group.root<long>("step");
//   for (; step < steps; group.point()) {
//     auto op = group.operation();
//     ...                              // field[i] = ...
//     ++step;
//   }
//
// When the job dies, however many of its processes do, and whenever: start all of it again. Each
// rank finds what it had at the newest point that all ranks have.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <perdura/detail/group.hpp>
#include <perdura/options.hpp>
#include <perdura/store.hpp>

namespace perdura::mpi {

/// The ranks of a communicator, each with a store of its own. What is called collective is called
/// by all of them, in the same order, as MPI's own functions are; it throws perdura::Error on all
/// ranks or on none, and says which rank has failed. No thread but the one that calls uses MPI:
/// MPI_THREAD_FUNNELED will do. One thread at a time uses a group; its store any thread may.
class Group {
 public:
  /// Collective. Opens or makes the stores, at the newest version that all ranks have. In `store`,
  /// a URI, and in options.region %r stands for the rank and %n for the number of ranks. Other
  /// ranks are not to be started with other options. Throws what Store::open throws; kNotFound,
  /// kCorrupt, kForeign where the ranks have no version in common, and nothing was changed then.
  Group(MPI_Comm communicator, std::string_view store, const Options& options = {});
  /// Collective, closes as close() does, but reports nothing. While an exception is on its way, and
  /// after MPI_Finalize, it is not, and makes no version.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// The communicator, a duplicate, for the group alone.
  MPI_Comm communicator() const noexcept { return communicator_; }
  /// This rank's. Versions are the group's: checkpoints of the store alone throw kMisuse.
  Store& store() { return member_->store(); }
  Operation operation() { return store().operation(); }
  template <class T, class... Args>
  T& root(std::string_view name, Args&&... args) {
    return store().root<T>(name, std::forward<Args>(args)...);
  }

  /// Collective. Each rank cuts and writes, all agree, and only then is the version the one to
  /// recover. Returns its number, the same on all ranks; where nothing has changed on any of them,
  /// that of the last one. Where it fails on one rank it fails on all: the version before is the
  /// newest, and the next point has the changes. Outside of operations.
  std::uint64_t point();
  /// Collective. Each rank cuts; what was cut is written while the program goes on. All agree on it
  /// in the next collective call of the group, which throws what became of it. A crash before that
  /// finds it, or the version before, on all ranks.
  void point_async();
  /// Collective. Until all that was cut is durable on all ranks; the number of the newest version.
  std::uint64_t sync() { return member_->sync(); }
  /// The number of the newest version that all are known to have; 0: none yet.
  std::uint64_t version() const noexcept { return member_->version(); }
  /// Collective. A last point; the store is closed in order.
  void close();

  /// How many ranks wrote the version that was opened; 0: there was none. Where there are more or
  /// fewer now each Array is distributed anew when it is constructed, which is to be before the
  /// first point. What else a rank has is in its own store, and that of ranks that are no more in
  /// the stores that store_of() has.
  int ranks_before() const noexcept { return static_cast<int>(member_->ranks_before()); }
  /// The store of a rank that wrote that version: this rank's own, or one that it has open to be
  /// read until the first point; nullptr: another rank has it.
  Store* store_of(int rank_before) { return member_->store_of(static_cast<unsigned>(rank_before)); }

  /// For Array and Matrix.
  perdura::detail::GroupMember& member() noexcept { return *member_; }

 private:
  void expect_distributed();

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  bool has_pointed_ = false;
  bool is_closed_ = false;
  std::unique_ptr<detail::GroupMember> member_;
};

namespace detail {

/// A matrix of elements over a grid of ranks, and the rectangle of one of them. Vectors have one
/// column.
struct Shape {
  std::uint64_t rows = 0;
  std::uint64_t columns = 1;
  std::uint32_t grid_rows = 1;
  std::uint32_t grid_columns = 1;
  bool operator==(const Shape&) const = default;
};
struct Part {
  std::uint64_t row = 0;
  std::uint64_t rows = 0;
  std::uint64_t column = 0;
  std::uint64_t columns = 0;
  bool operator==(const Part&) const = default;
};
Part part_of(const Shape& shape, unsigned rank) noexcept;
Shape shape_of_vector(std::uint64_t size, int ranks) noexcept;
Shape shape_of_matrix(std::uint64_t rows, std::uint64_t columns, int ranks);

struct Element {
  std::size_t bytes;
  std::uint64_t fingerprint;
};
/// This rank's elements of the array of this name, made or distributed anew. Collective.
void* elements_of(Group& group, std::string_view name, const Shape& shape, const Element& element);

template <class T>
constexpr void require_element() {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                "elements go from rank to rank as bytes: they are trivially copyable, and without "
                "pointers");
}

}  // namespace detail

/// A vector, of which each rank has a part: the first ranks the first elements. New elements are
/// zero. After a restart with more or fewer ranks it is distributed anew from the stores of those
/// that wrote it.
template <class T>
class Array {
 public:
  /// Collective: all ranks name the same array, and the same size. Throws kTypeMismatch where there
  /// is one of this name with other elements or of another size.
  Array(Group& group, std::string_view name, std::uint64_t size)
      : size_(size),
        part_(detail::part_of(detail::shape_of_vector(size, group.size()),
                              static_cast<unsigned>(group.rank()))),
        elements_(static_cast<T*>(detail::elements_of(group, name,
                                                      detail::shape_of_vector(size, group.size()),
                                                      {sizeof(T), Store::fingerprint<T>()}))) {
    detail::require_element<T>();
  }

  std::uint64_t size() const noexcept { return size_; }  ///< of all ranks together
  /// This rank has [first(), first() + local().size()).
  std::uint64_t first() const noexcept { return part_.row; }
  std::span<T> local() const noexcept { return {elements_, part_.rows}; }
  /// By the index in the whole, of this rank's elements alone.
  T& operator[](std::uint64_t index) const noexcept { return elements_[index - part_.row]; }

 private:
  std::uint64_t size_;
  detail::Part part_;
  T* elements_;
};

/// A matrix in blocks, of which each rank has one: the ranks are a grid, as square as
/// MPI_Dims_create makes it, row by row. Else as Array.
template <class T>
class Matrix {
 public:
  Matrix(Group& group, std::string_view name, std::uint64_t rows, std::uint64_t columns)
      : shape_(detail::shape_of_matrix(rows, columns, group.size())),
        part_(detail::part_of(shape_, static_cast<unsigned>(group.rank()))),
        elements_(static_cast<T*>(
            detail::elements_of(group, name, shape_, {sizeof(T), Store::fingerprint<T>()}))) {
    detail::require_element<T>();
  }

  std::uint64_t rows() const noexcept { return shape_.rows; }  ///< of all ranks together
  std::uint64_t columns() const noexcept { return shape_.columns; }
  int grid_rows() const noexcept { return static_cast<int>(shape_.grid_rows); }
  int grid_columns() const noexcept { return static_cast<int>(shape_.grid_columns); }
  std::uint64_t first_row() const noexcept { return part_.row; }  ///< of this rank's block
  std::uint64_t first_column() const noexcept { return part_.column; }
  std::uint64_t local_rows() const noexcept { return part_.rows; }
  std::uint64_t local_columns() const noexcept { return part_.columns; }
  /// Row by row, without gaps.
  T* data() const noexcept { return elements_; }
  /// By row and column in the whole, of this rank's block alone.
  T& operator()(std::uint64_t row, std::uint64_t column) const noexcept {
    return elements_[(row - part_.row) * part_.columns + (column - part_.column)];
  }

 private:
  detail::Shape shape_;
  detail::Part part_;
  T* elements_;
};

}  // namespace perdura::mpi
