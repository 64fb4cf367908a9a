// perdura classify: a page by itself.
#include <fmt/format.h>

#include "classify.hpp"

namespace perdura::source {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

constexpr const char* kHead =
    "<!doctype html>\n<meta charset=\"utf-8\">\n<title>perdura classify</title>\n<style>\n"
    "body{font:15px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\n"
    "code{font:13px ui-monospace,monospace}\n"
    ".deferrable{color:#176b2c}.instant{color:#a33}.read{color:#2456a6}\n"
    "details{margin:.2em 0}li{margin:.3em 0}.at{color:#777}\n</style>\n";

}  // namespace

std::string as_html(const Classification& found) {
  std::string text = kHead;
  std::string owner;
  for (const Classified& each : found.methods) {
    if (each.method.owner != owner) {
      owner = each.method.owner;
      text += fmt::format("<h2><code>{}</code></h2>\n", escaped(owner));
    }
    const char* const verdict = name_of(each.judgement.verdict);
    text +=
        fmt::format("<details><summary><b class=\"{0}\">{0}</b> <code>{1}</code></summary>\n<ul>\n",
                    verdict, escaped(each.method.signature));
    for (const Reason& reason : each.judgement.reasons) {
      text += fmt::format("<li>{} <span class=\"at\">{}</span>. To change that, {}.",
                          escaped(sentence(reason)), escaped(text_of(found.program, reason.at)),
                          escaped(remedy(reason.kind)));
      if (!reason.calls.empty()) {
        text += "<ul>\n";
        for (std::size_t i = 0; i < reason.calls.size(); ++i)
          text += fmt::format("<li>calls <code>{}</code> <span class=\"at\">{}</span></li>\n",
                              escaped(reason.callees[i]),
                              escaped(text_of(found.program, reason.calls[i])));
        text += "</ul>";
      }
      text += "</li>\n";
    }
    text += "</ul></details>\n";
  }
  return text;
}

}  // namespace perdura::source
