// Arrays over the ranks of a group, and their way to other ranks: each rank sends what it has of
// them, and what ranks that are no more had, from the stores to where its new owner has it.
#include <perdura/mpi.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "array_state.hpp"

namespace perdura::mpi::detail {
namespace {

constexpr std::uint64_t kMessageBytesMax = std::uint64_t{256} << 20;  // MPI counts with an int

/// Of what elements are in: words, so that a type is known of each block.
constexpr perdura_type kElements{"perdura::mpi::Elements", 8, 8, 0, nullptr};
const perdura::detail::KnownType known_elements{kElements};

std::uint64_t bytes_of(const Part& part, std::size_t element) {
  return part.rows * part.columns * element;
}

Part common(const Part& a, const Part& b) {
  Part part;
  part.row = std::max(a.row, b.row);
  part.column = std::max(a.column, b.column);
  const std::uint64_t rows_end = std::min(a.row + a.rows, b.row + b.rows);
  const std::uint64_t columns_end = std::min(a.column + a.columns, b.column + b.columns);
  part.rows = rows_end > part.row ? rows_end - part.row : 0;
  part.columns = columns_end > part.column ? columns_end - part.column : 0;
  if (part.rows == 0 || part.columns == 0) part.rows = part.columns = 0;
  return part;
}

/// Lines of bytes at equal distances, in the memory of a part.
struct Lines {
  std::byte* first;
  std::uint64_t count;
  std::uint64_t bytes;
  std::uint64_t distance;
};

/// Both sides see the same lines, which where neither has gaps are one.
Lines lines_in(std::byte* memory, const Part& whole, const Part& part, bool in_one,
               std::size_t element) {
  Lines lines{
      memory + ((part.row - whole.row) * whole.columns + part.column - whole.column) * element,
      part.rows, part.columns * element, whole.columns * element};
  if (in_one) lines = {lines.first, 1, lines.bytes * lines.count, 0};
  return lines;
}

/// One message for as many lines as fit it, or for a piece of one; the same on both sides.
template <class Each>
void for_each_message(const Lines& lines, Each&& each) {
  if (lines.bytes == 0) return;
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kMessageBytesMax / lines.bytes);
  for (std::uint64_t line = 0; line < lines.count; line += at_once) {
    Lines some = lines;
    some.first += line * lines.distance;
    some.count = std::min(at_once, lines.count - line);
    for (std::uint64_t done = 0; done < lines.bytes; done += kMessageBytesMax) {
      Lines piece = some;
      piece.first += done;
      piece.bytes = std::min(kMessageBytesMax, lines.bytes - done);
      each(piece);
    }
  }
}

/// Messages that are on their way.
class Messages {
 public:
  explicit Messages(MPI_Comm communicator) : communicator_(communicator) {}
  void send(const Lines& lines, int to) {
    start(lines, [&](const Lines& some, MPI_Datatype type, int count, MPI_Request* request) {
      return MPI_Isend(some.first, count, type, to, 0, communicator_, request);
    });
  }
  void receive(const Lines& lines, int from) {
    start(lines, [&](const Lines& some, MPI_Datatype type, int count, MPI_Request* request) {
      return MPI_Irecv(some.first, count, type, from, 0, communicator_, request);
    });
  }
  void finish() {
    check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
    requests_.clear();
  }

 private:
  template <class Call>
  void start(const Lines& lines, Call&& call) {
    for_each_message(lines, [&](const Lines& some) {
      MPI_Request& request = requests_.emplace_back();
      if (some.count == 1)
        return check(call(some, MPI_BYTE, static_cast<int>(some.bytes), &request));
      MPI_Datatype type = MPI_DATATYPE_NULL;
      check(MPI_Type_create_hvector(static_cast<int>(some.count), static_cast<int>(some.bytes),
                                    static_cast<MPI_Aint>(some.distance), MPI_BYTE, &type));
      check(MPI_Type_commit(&type));
      check(call(some, type, 1, &request));
      check(MPI_Type_free(&type));  // when the message is through
    });
  }

  const MPI_Comm communicator_;
  std::vector<MPI_Request> requests_;
};

void copy(const Lines& from, const Lines& to) {
  for (std::uint64_t line = 0; line < from.count; ++line)
    std::memcpy(to.first + line * to.distance, from.first + line * from.distance, from.bytes);
}

/// What a rank knows of an array before anything is done.
struct Known {
  std::uint32_t code = 0;
  std::uint32_t ranks_here = 0;  ///< of its own state; 0: none
  std::uint32_t has_former = 0;  ///< of the ranks before, whose stores it has, how many have one
  std::uint32_t reserved = 0;
  Shape shape{};  ///< of the former one
  char message[256] = {};

  void fail(Code what, const std::string& text) {
    if (code != 0) return;
    code = static_cast<std::uint32_t>(what);
    std::memcpy(message, text.data(), std::min(text.size(), sizeof message - 1));
  }
};

class Distribution {
 public:
  Distribution(Group& group, std::string_view name, const Shape& shape, const Element& element)
      : group_(group), name_(name), shape_(shape), element_(element) {}

  void* run() {
    const std::vector<Known> all = learn();
    const auto is_here = [this](const Known& each) {
      return each.ranks_here == static_cast<std::uint32_t>(group_.size());
    };
    if (std::ranges::all_of(all, is_here)) return here()->elements;
    int former = 0;
    for (const Known& each : all) former += static_cast<int>(each.has_former);
    if (former != 0 && former != group_.ranks_before())
      throw Error(Code::kCorrupt, describe() + " is in the stores of " + std::to_string(former) +
                                      " of " + std::to_string(group_.ranks_before()) +
                                      " ranks alone; give the group the stores that wrote it");
    std::optional<Shape> from;
    for (const Known& each : all)
      if (each.has_former != 0) from = each.shape;
    return from ? redistribute(*from) : make();
  }

 private:
  std::string describe() const { return "the array '" + std::string(name_) + "'"; }
  /// What a store has of it, or nullptr: also where another rank had no room, and the root alone
  /// was made.
  ArrayState* find(Store& store) const {
    ArrayState* const state = store.find_root<ArrayState>(name_);
    return state != nullptr && state->version != 0 ? state : nullptr;
  }
  ArrayState* here() const { return find(group_.store()); }

  std::vector<Known> learn() {
    Known mine;
    try {
      if (const ArrayState* const state = here()) {
        expect_same(*state);
        mine.ranks_here = state->ranks;
        if (state->ranks == static_cast<std::uint32_t>(group_.size())) expect_same_grid(*state);
      }
      for (int rank = 0; rank < group_.ranks_before(); ++rank) {
        Store* const store = group_.store_of(rank);
        if (store == nullptr) continue;
        const ArrayState* const state = find(*store);
        if (state == nullptr || state->ranks != static_cast<std::uint32_t>(group_.ranks_before()))
          continue;
        expect_same(*state);
        ++mine.has_former;
        mine.shape = {state->rows, state->columns, state->grid_rows, state->grid_columns};
      }
    } catch (const Error& error) {
      mine.fail(error.code(), error.what());
    }
    std::vector<Known> all(static_cast<std::size_t>(group_.size()));
    check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE,
                        group_.communicator()));
    throw_first(all);
    return all;
  }

  void throw_first(const std::vector<Known>& all) const {
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].code != 0)
        throw Error(static_cast<Code>(all[rank].code),
                    "rank " + std::to_string(rank) + " of the group: " + all[rank].message);
  }

  void expect_same(const ArrayState& state) const {
    if (state.version != kArrayVersion)
      throw Error(Code::kUnsupported, describe() + " has format version " +
                                          std::to_string(state.version) +
                                          "; use the library that wrote it");
    if (state.element_bytes != element_.bytes || state.fingerprint != element_.fingerprint)
      throw Error(Code::kTypeMismatch, describe() + " has elements of another type");
    if (state.rows != shape_.rows || state.columns != shape_.columns)
      throw Error(Code::kTypeMismatch, describe() + " has " + std::to_string(state.rows) + " x " +
                                           std::to_string(state.columns) +
                                           " elements; construct it with that size, or "
                                           "another one with another name");
  }

  // The same number of elements, and other ones.
  void expect_same_grid(const ArrayState& state) const {
    if (state.grid_rows == shape_.grid_rows && state.grid_columns == shape_.grid_columns) return;
    const auto grid = [](std::uint32_t rows, std::uint32_t columns) {
      return std::to_string(rows) + " x " + std::to_string(columns) + " ranks";
    };
    throw Error(Code::kTypeMismatch,
                describe() + " is distributed over " + grid(state.grid_rows, state.grid_columns) +
                    ", and would be over " + grid(shape_.grid_rows, shape_.grid_columns) +
                    "; construct it as what it was made as, an Array or a Matrix");
  }

  Part own_part() const { return part_of(shape_, static_cast<unsigned>(group_.rank())); }

  // All have their memory, and the root, or none goes on.
  std::byte* allocate(bool zeroed) {
    std::byte* memory = nullptr;
    Known mine;
    try {
      (void)group_.store().root<ArrayState>(name_);
      const std::uint64_t words = (bytes_of(own_part(), element_.bytes) + 7) / 8;
      memory = static_cast<std::byte*>(
          group_.member().allocate(kElements, 8 * std::max<std::uint64_t>(words, 1), zeroed));
    } catch (const Error& error) {
      mine.fail(error.code(), error.what());
    }
    std::vector<Known> all(static_cast<std::size_t>(group_.size()));
    check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE,
                        group_.communicator()));
    const bool failed = std::ranges::any_of(all, [](const Known& each) { return each.code != 0; });
    if (failed && memory != nullptr) group_.store().deallocate(memory);
    throw_first(all);
    return memory;
  }

  void* make() {
    std::byte* const memory = allocate(true);
    set_state(memory);
    return memory;
  }

  // In the caller's operation, if it is in one: until the next point all of it may be undone.
  void set_state(std::byte* memory) {
    const auto op = group_.store().operation();
    ArrayState& state = group_.store().root<ArrayState>(name_);
    op.touch(&state, sizeof state);
    void* const old = state.elements;
    state = {.version = kArrayVersion,
             .element_bytes = static_cast<std::uint32_t>(element_.bytes),
             .fingerprint = element_.fingerprint,
             .rows = shape_.rows,
             .columns = shape_.columns,
             .grid_rows = shape_.grid_rows,
             .grid_columns = shape_.grid_columns,
             .ranks = static_cast<std::uint32_t>(group_.size()),
             .reserved = 0,
             .elements = memory,
             .reserved1 = 0};
    if (old != nullptr) op.deallocate(old);
  }

  // Receives are begun first. What stays in this process is copied meanwhile.
  void* redistribute(const Shape& from) {
    std::byte* const memory = allocate(false);
    const Part own = own_part();
    {
      const auto op = group_.store().operation();
      op.touch(memory, bytes_of(own, element_.bytes));
      Messages messages(group_.communicator());
      for (int before = 0; before < group_.ranks_before(); ++before) {
        const int holder = before % group_.size();
        if (holder == group_.rank()) continue;
        const Part part = part_of(from, static_cast<unsigned>(before));
        const Part both = common(part, own);
        messages.receive(lines_in(memory, own, both, in_one(part, own, both), element_.bytes),
                         holder);
      }
      for (int before = group_.rank(); before < group_.ranks_before(); before += group_.size())
        send_part(messages, from, before, memory);
      messages.finish();
    }
    set_state(memory);
    return memory;
  }

  void send_part(Messages& messages, const Shape& from, int before, std::byte* memory) {
    const Part part = part_of(from, static_cast<unsigned>(before));
    auto* const held = static_cast<std::byte*>(find(*group_.store_of(before))->elements);
    for (int to = 0; to < group_.size(); ++to) {
      const Part theirs = part_of(shape_, static_cast<unsigned>(to));
      const Part both = common(part, theirs);
      const bool one = in_one(part, theirs, both);
      const Lines lines = lines_in(held, part, both, one, element_.bytes);
      if (to != group_.rank()) messages.send(lines, to);
      else copy(lines, lines_in(memory, theirs, both, one, element_.bytes));
    }
  }

  static bool in_one(const Part& a, const Part& b, const Part& both) {
    return both.columns == a.columns && both.columns == b.columns;
  }

  Group& group_;
  const std::string_view name_;
  const Shape shape_;
  const Element element_;
};

std::uint64_t share(std::uint64_t count, std::uint64_t of, std::uint64_t index) {
  return count / of * index + std::min(count % of, index);
}

}  // namespace

Part part_of(const Shape& shape, unsigned rank) noexcept {
  const unsigned row = rank / shape.grid_columns, column = rank % shape.grid_columns;
  Part part;
  part.row = share(shape.rows, shape.grid_rows, row);
  part.rows = share(shape.rows, shape.grid_rows, row + 1) - part.row;
  part.column = share(shape.columns, shape.grid_columns, column);
  part.columns = share(shape.columns, shape.grid_columns, column + 1) - part.column;
  return part;
}

Shape shape_of_vector(std::uint64_t size, int ranks) noexcept {
  return {size, 1, static_cast<std::uint32_t>(ranks), 1};
}

Shape shape_of_matrix(std::uint64_t rows, std::uint64_t columns, int ranks) {
  int grid[2] = {0, 0};
  check(MPI_Dims_create(ranks, 2, grid));
  return {rows, columns, static_cast<std::uint32_t>(grid[0]), static_cast<std::uint32_t>(grid[1])};
}

void* elements_of(Group& group, std::string_view name, const Shape& shape, const Element& element) {
  return Distribution(group, name, shape, element).run();
}

}  // namespace perdura::mpi::detail
