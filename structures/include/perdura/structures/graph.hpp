// A directed graph with weights, in arrays, as the state of an object whose calls are logged
// (docs/objects.md): SIMPO's Graph (Table 3), whose joinwt, removewt and adjacent are these.
//
//   vertex v    count_[v]    to_[v]: [ 7 ][ 2 ][ 9 ]…    weights_[v]: [ w ][ w ][ w ]…
//
// A vertex has room for so many edges that leave it. One more is dropped, and counted at the
// vertex: joinwt is deferred and cannot say so. Vertices that there are not are refused when a
// method is called. Calls of different blocks of vertices may run at the same time: nothing is kept
// of the graph as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <perdura/objects.hpp>

namespace perdura::structures {

template <class Weight, std::size_t Vertices, std::size_t Degree>
  requires std::is_trivially_copyable_v<Weight> && (Vertices != 0) && (Degree != 0) &&
           (Vertices <= INT32_MAX) && (Degree <= UINT32_MAX)
class Graph {
 public:
  static constexpr std::size_t kVertices = Vertices;
  static constexpr std::size_t kDegree = Degree;
  using Vertex = std::uint32_t;

  // --- deferrable
  /// An edge that is there gets the weight.
  void joinwt(Vertex from, Vertex to, Weight weight) noexcept {
    const std::uint32_t at = find(from, to);
    if (at == Degree) return void(++dropped_[from]);
    if (at == count_[from]) to_[from][count_[from]++] = to;
    weights_[from][at] = weight;
  }
  /// Changes nothing where there is no such edge.
  void removewt(Vertex from, Vertex to) noexcept {
    const std::uint32_t at = find(from, to);
    if (at == count_[from]) return;
    const std::uint32_t last = --count_[from];
    to_[from][at] = to_[from][last];
    weights_[from][at] = weights_[from][last];
  }

  // --- reads
  /// The weight of the edge; nothing where there is none.
  std::optional<Weight> adjacent(Vertex from, Vertex to) const noexcept {
    if (from >= Vertices) return std::nullopt;
    const std::uint32_t at = find(from, to);
    if (at == count_[from]) return std::nullopt;
    return weights_[from][at];
  }
  /// How many edges leave a vertex.
  std::uint32_t degree(Vertex from) const noexcept { return from < Vertices ? count_[from] : 0; }
  /// How many found no room at a vertex.
  std::uint32_t dropped(Vertex from) const noexcept { return from < Vertices ? dropped_[from] : 0; }

  // --- what is said of the methods
  static Domain domain(Vertex from) noexcept {
    return Domain(static_cast<std::int32_t>(from / kBlock));
  }
  static bool can_join(Vertex from, Vertex to, Weight) noexcept { return have(from, to); }
  static bool have(Vertex from, Vertex to) noexcept { return from < Vertices && to < Vertices; }

 private:
  static constexpr Vertex kBlock = 64;
  /// Where the edge is, or would come.
  std::uint32_t find(Vertex from, Vertex to) const noexcept {
    std::uint32_t at = 0;
    while (at != count_[from] && to_[from][at] != to) ++at;
    return at;
  }

  // Whole lines for a block, so that no two domains share one.
  alignas(64) std::uint32_t count_[Vertices];
  alignas(64) std::uint32_t dropped_[Vertices];
  alignas(64) Vertex to_[Vertices][Degree];
  alignas(64) Weight weights_[Vertices][Degree];
};

}  // namespace perdura::structures

template <class Weight, std::size_t Vertices, std::size_t Degree>
struct perdura::Methods<perdura::structures::Graph<Weight, Vertices, Degree>>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::structures::Graph<Weight, Vertices, Degree>::joinwt,
                              &perdura::structures::Graph<Weight, Vertices, Degree>::domain,
                              &perdura::structures::Graph<Weight, Vertices, Degree>::can_join>,
          perdura::Deferrable<&perdura::structures::Graph<Weight, Vertices, Degree>::removewt,
                              &perdura::structures::Graph<Weight, Vertices, Degree>::domain,
                              &perdura::structures::Graph<Weight, Vertices, Degree>::have>> {};
