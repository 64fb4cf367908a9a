// Goal: a job of MPI processes whose memory is durable takes hardly longer than without, and its
// points cost less than files that each rank writes by hand; to agree costs about as much as MPI's
// own agreement; an array goes to more or fewer ranks about as fast as MPI and the disk can.
// Method: real jobs, by mpirun, each rank bound to a core, on this machine. Cannon's product
// (examples/mpi) in memory, with a point after each step, and with files written by hand, in turn;
// what starting a job takes is measured with a product of nothing and taken off each. The rest is
// measured inside of a job (mpi/mpi_measure.cc).
#if defined(PERDURA_BENCH_MPI)
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "child.hpp"
#include "harness.hpp"

namespace perdura::bench {
namespace {

using Figures = std::map<std::string, double>;

/// Runs `command` by so many ranks in `folder`; what it prints of the form "name number", and the
/// seconds that it took.
Figures run_job(const std::string& folder, int ranks, const std::string& command) {
  const std::string output = folder + "/output";
  const std::string line =
      "cd '" + folder +
      "' && OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1 " +
      std::string(MPIRUN) + " " + MPIRUN_RANKS + " " + std::to_string(ranks) + " " + MPIRUN_FLAGS +
      " " + command + " >'" + output + "'";
  const double begin = now_s();
  if (std::system(line.c_str()) != 0)
    throw std::runtime_error("'" + line + "' has failed; see what it said");
  Figures figures;
  figures["seconds"] = now_s() - begin;
  std::ifstream in(output);
  std::string name;
  for (std::string text; std::getline(in, text);) {
    std::istringstream words(text);
    double value = 0;
    if (words >> name >> value) figures[name] = value;
  }
  return figures;
}

class Folder {
 public:
  explicit Folder(Context& context) : path_(context.path(Place::kDisk, "mpi")) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  const std::string& path() const { return path_; }
  void clear() const {
    for (const auto& each : std::filesystem::directory_iterator(path_))
      std::filesystem::remove_all(each.path());
  }

 private:
  const std::string path_;
};

void measure_matrix(Context& context) {
  const Folder folder(context);
  const std::string rows = std::to_string(context.scale(2000, 800));
  const std::string products = std::to_string(context.scale(16, 4));
  std::vector<double> starts, plain, durable, files, ratios, costs, costs_of_files;
  for (int i = 0; i < context.scale(11, 2); ++i) {
    const auto seconds = [&](const std::string& program, const std::string& count) {
      folder.clear();
      return run_job(folder.path(), 4, program + " " + rows + " " + count).at("seconds");
    };
    // One behind the other, since the machine's speed changes from minute to minute.
    starts.push_back(seconds(CANNON_IN_MEMORY, "0"));
    const bool durable_first = i % 2 == 0;  // the job before has left something to be written
    double durable_s = durable_first ? seconds(CANNON, products) : 0;
    const double plain_s = seconds(CANNON_IN_MEMORY, products);
    if (!durable_first) durable_s = seconds(CANNON, products);
    const double files_s = seconds(CANNON_FILES, products);
    durable.push_back(durable_s - starts.back());
    plain.push_back(plain_s - starts.back());
    files.push_back(files_s - starts.back());
    ratios.push_back(durable.back() / plain.back());
    costs.push_back(durable_s - plain_s);
    costs_of_files.push_back(files_s - plain_s);
    context.progress("round {}: {:.2f} s in memory, {:.2f} s durable, {:.2f} s with files", i + 1,
                     plain.back(), durable.back(), files.back());
  }
  const Json detail = {{"start_s", median(starts)},    {"in_memory_s", median(plain)},
                       {"durable_s", median(durable)}, {"files_s", median(files)},
                       {"cost_s", median(costs)},      {"cost_of_files_s", median(costs_of_files)}};
  context.figure("mpi_matrix", "ratio", Reach::at_most(1.03), {median(ratios), detail});
  context.figure("mpi_file", "ratio", Reach::at_most(0.5),
                 {median(costs) / median(costs_of_files), detail});
}

Measured count_lines() {
  std::ifstream in(std::string(PERDURA_SOURCES) + "/examples/mpi/cannon.cc");
  int lines = 0;
  for (std::string line; std::getline(in, line);) lines += line.ends_with("// D") ? 1 : 0;
  if (lines == 0) throw std::runtime_error("examples/mpi/cannon.cc has no lines that are marked");
  return {static_cast<double>(lines), {}};
}

void measure_agreement(Context& context) {
  const Folder folder(context);
  const Figures figures =
      run_job(folder.path(), 4, std::string(MPI_MEASURE) + " agree file:group-%r.pd file:alone-");
  const double more = figures.at("point_us") - figures.at("alone_and_barrier_us");
  context.figure("mpi_agree_us", "us", Reach::at_most(2 * figures.at("allreduce_us")),
                 {more,
                  {{"point_us", figures.at("point_us")},
                   {"alone_and_barrier_us", figures.at("alone_and_barrier_us")},
                   {"barrier_us", figures.at("barrier_us")},
                   {"alone_us", figures.at("alone_us")},
                   {"allreduce_us", figures.at("allreduce_us")}}});
}

Measured redistribute(Context& context) {
  const std::string bytes =
      std::to_string(context.scale(std::uint64_t{1} << 30, std::uint64_t{64} << 20));
  Json detail;
  double worst = 0;
  for (const int ranks : {3, 6}) {
    const Folder folder(context);
    std::vector<double> opens, moves, points, by_hand, ratios;
    for (int i = 0; i < context.scale(5, 1); ++i) {
      folder.clear();
      run_job(folder.path(), 4, std::string(MPI_MEASURE) + " write file:array-%r.pd " + bytes);
      const Figures figures = run_job(
          folder.path(), ranks, std::string(MPI_MEASURE) + " distribute file:array-%r.pd " + bytes);
      opens.push_back(figures.at("open_s"));
      moves.push_back(figures.at("move_s"));
      points.push_back(figures.at("point_s"));
      by_hand.push_back(figures.at("by_hand_s"));
      ratios.push_back((moves.back() + points.back()) / by_hand.back());
    }
    worst = std::max(worst, median(ratios));
    detail["to_" + std::to_string(ranks)] = {{"open_s", median(opens)},
                                             {"move_s", median(moves)},
                                             {"point_s", median(points)},
                                             {"by_hand_s", median(by_hand)},
                                             {"ratios", ratios}};
  }
  return {worst, detail};
}

void run(Context& context) {
  if (context.wants("mpi_matrix") || context.wants("mpi_file")) measure_matrix(context);
  context.measure("mpi_lines", "lines", Reach::at_most(6), count_lines);
  if (context.wants("mpi_agree_us")) measure_agreement(context);
  context.measure("redistribute", "ratio", Reach::at_most(1.5),
                  [&] { return redistribute(context); });
}

const Registration kMpi("cluster_mpi", "jobs of several MPI processes against jobs without", run);

}  // namespace
}  // namespace perdura::bench
#endif
