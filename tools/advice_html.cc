// The page of perdura advise: plots as SVG, nothing to load from elsewhere.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "advice.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWidth = 860;
constexpr double kHeight = 180;
constexpr double kLeft = 90;
constexpr double kBottom = 30;
constexpr double kTop = 24;

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') safe += "&lt;";
    else if (c == '&') safe += "&amp;";
    else safe += c;
  }
  return safe;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start") {
  return fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string begin_plot(const std::string& title, double height) {
  return fmt::format("<svg width='{}' height='{}' viewBox='0 0 {} {}'>\n", kWidth,
                     height + kTop + kBottom, kWidth, height + kTop + kBottom) +
         text_at(kLeft, 14, title);
}

std::string axes(double height, const std::string& top, double seconds) {
  return fmt::format("<path d='M{0} {1}V{2}H{3}' class='axis'/>\n", kLeft, kTop, kTop + height,
                     kWidth) +
         text_at(kLeft - 6, kTop + 10, top, "end") + text_at(kLeft - 6, kTop + height, "0", "end") +
         text_at(kLeft, kTop + height + 16, "0 s") +
         text_at(kWidth - 4, kTop + height + 16, fmt::format("{:.1f} s", seconds), "end");
}

/// A curve over the time of the run.
std::string curve(const std::string& title, const std::vector<double>& values, double seconds,
                  const std::function<std::string(double)>& label) {
  const double most = std::max(1e-9, *std::max_element(values.begin(), values.end()));
  std::string path;
  for (size_t i = 0; i < values.size(); ++i)
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L",
                        kLeft + (kWidth - kLeft) * (static_cast<double>(i) + 0.5) /
                                    static_cast<double>(values.size()),
                        kTop + kHeight * (1 - values[i] / most));
  return begin_plot(title, kHeight) + axes(kHeight, label(most), seconds) + "<path d='" + path +
         "' class='curve'/>\n</svg>\n";
}

/// Where in the heap, and when: the darker, the more lines changed.
std::string heat_map(const Json& sample, double seconds) {
  const Json& columns = sample.at("columns");
  std::map<u64, u64> rows;  // of chunks that ever changed
  double most = 1;
  for (const Json& column : columns)
    for (const Json& chunk : column.at("chunks")) {
      rows.emplace(chunk.at(0), 0);
      most = std::max(most, double{chunk.at(1)});
    }
  constexpr u64 kRowsMax = 160;
  u64 number = 0;
  for (auto& [chunk, row] : rows) row = number++ * kRowsMax / std::max<u64>(kRowsMax, rows.size());
  const u64 count = std::max<u64>(1, std::min<u64>(rows.size(), kRowsMax));
  const double height = std::clamp(4.0 * static_cast<double>(count), 40.0, 320.0);
  const double row_height = height / static_cast<double>(count);
  const double width = (kWidth - kLeft) / static_cast<double>(std::max<size_t>(1, columns.size()));
  std::string cells;
  for (size_t x = 0; x < columns.size(); ++x) {
    std::map<u64, double> lines;
    for (const Json& chunk : columns[x].at("chunks"))
      lines[rows.at(chunk.at(0))] += double{chunk.at(1)};
    for (const auto& [row, value] : lines)
      cells += fmt::format(
          "<rect x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{:.1f}' fill-opacity='{:.2f}'/>\n",
          kLeft + width * static_cast<double>(x),
          kTop + height - row_height * static_cast<double>(row + 1), width, row_height,
          0.08 + 0.92 * std::min(1.0, std::log1p(value) / std::log1p(most)));
  }
  return begin_plot(fmt::format("Where the heap changes (address upwards, {} of it that ever did)",
                                bytes_text(rows.size() * u64{sample.at("chunk_bytes")})),
                    height) +
         axes(height, "end", seconds) + "<g class='heat'>\n" + cells + "</g></svg>\n";
}

std::string table(const Advice& advice) {
  std::string html = "<table><tr><th>way</th>";
  for (const IntervalAdvice& each : advice.intervals)
    html += fmt::format("<th colspan='2'>every {}</th>", interval_text(each.ms));
  html += "</tr><tr><th></th>";
  for (size_t i = 0; i < advice.intervals.size(); ++i) html += "<th>copied</th><th>time</th>";
  html += "</tr>\n";
  for (size_t w = 0; w < advice.ways.size(); ++w) {
    const WayAdvice& way = advice.ways[w];
    html += "<tr><td>" + escaped(way.way.name) + "</td>";
    if (way.failure)
      html += fmt::format("<td colspan='{}'>{}</td>", 2 * advice.intervals.size(),
                          escaped(way.failure->message));
    for (size_t i = 0; i < way.predictions.size(); ++i) {
      const Prediction& each = way.predictions[i];
      if (each.checkpoints == 0) {
        html += "<td></td><td></td>";
        continue;
      }
      html += fmt::format("<td>{}</td><td{}>{:.2f} ± {:.2f}</td>", bytes_text(each.bytes),
                          advice.intervals[i].best == w ? " class='best'" : "", each.slowdown,
                          each.doubt);
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

}  // namespace

std::string to_html(const Advice& advice, const Json& sample, const std::string& title) {
  const double column_ms = sample.at("column_ms");
  const Json& columns = sample.at("columns");
  const double seconds = column_ms * static_cast<double>(columns.size()) / 1000;
  std::vector<double> pages;
  std::vector<double> lines;
  std::vector<double> blocks;
  std::vector<double> fault_ms;
  for (const Json& column : columns) {
    pages.push_back(double{column.at("pages")} * kPageBytes * 1000 / column_ms);
    lines.push_back(double{column.at("lines")} * kLineBytes * 1000 / column_ms);
    blocks.push_back(double{column.at("blocks")} * 1000 / column_ms);
    fault_ms.push_back(double{column.at("pages")} * advice.ways.front().costs.fault / 1e6 * 1000 /
                       column_ms);
  }
  const auto bytes = [](double value) { return bytes_text(static_cast<u64>(value)) + "/s"; };
  const auto count = [](double value) { return fmt::format("{:.0f}/s", value); };
  const auto milliseconds = [](double value) { return fmt::format("{:.2f} ms/s", value); };
  std::string html =
      "<!doctype html><meta charset='utf-8'><title>" + escaped(title) +
      "</title>\n<style>body{font:14px sans-serif;margin:2em auto;max-width:900px}"
      "svg{font-size:11px;display:block;margin:1em 0}.axis{stroke:#888;fill:none}"
      ".curve{stroke:#136;fill:none;stroke-width:1.2}.heat{fill:#a20}"
      "table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;"
      "border-bottom:1px solid #ddd}td:first-child{text-align:left}.best{font-weight:bold;"
      "background:#dfd}</style>\n<h1>" +
      escaped(title) + "</h1>\n";
  html += fmt::format(
      "<p>{:.2f} s without checkpoints; {} in {} live at its end. Times are multiples of that run "
      "time, with checkpoints during which the program waits; copied is the mean of a checkpoint. "
      "The way that is recommended for an interval is marked: the simplest, where what is quicker "
      "is in doubt.</p>\n",
      advice.base_ns / 1e9, bytes_text(sample.at("live_bytes")),
      count_text(sample.at("live_blocks"), "block"));
  html += table(advice);
  if (columns.empty()) return html;
  html += curve(fmt::format("Pages stored to, in bytes, by checkpoints every {} ms",
                            u64{sample.at("column_interval_ms")}),
                pages, seconds, bytes);
  html += curve("Lines that changed, in bytes", lines, seconds, bytes);
  html += curve("Allocated blocks that changed", blocks, seconds, count);
  html += curve("Time in page faults", fault_ms, seconds, milliseconds);
  html += heat_map(sample, seconds);
  return html;
}

}  // namespace perdura::tools
