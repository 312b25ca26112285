#include "sim/report/html_page.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "sim/report/svg_plot.h"

namespace quire::sim {
namespace {

constexpr std::string_view kStyle = R"(
:root{--bg:#fff;--fg:#1b1f24;--soft:#667080;--line:#e3e7ec;--card:#f6f8fa;
--c0:#2f6fde;--c1:#e07b39;--c2:#2a9d6f;--c3:#b44bb0;--c4:#c8a415;--c5:#4aa3c7;--c6:#d3455b;--c7:#7a6ad8}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e7eaee;--soft:#97a1ae;--line:#2b3139;--card:#1d2127}}
body{margin:0 auto;max-width:1340px;padding:24px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:22px;margin:0 0 4px}
.facts{color:var(--soft);margin:0 0 16px}.facts b{color:var(--fg);font-weight:500}
.facts span{margin-right:18px;white-space:nowrap}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin:14px 0}
.cards div{background:var(--card);border-radius:8px;padding:10px 12px}
.cards b{display:block;font-size:19px;font-weight:600}.cards small{color:var(--soft)}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(480px,1fr));gap:18px;margin:18px 0}
svg{width:100%;height:auto;background:var(--card);border-radius:8px}
.grid{stroke:var(--line)}.tick,.label{fill:var(--soft);font-size:11px}.title{fill:var(--fg);font-size:13px;font-weight:600}
.s0{stroke:var(--c0)}.f0{fill:var(--c0)}.s1{stroke:var(--c1)}.f1{fill:var(--c1)}.s2{stroke:var(--c2)}.f2{fill:var(--c2)}.s3{stroke:var(--c3)}.f3{fill:var(--c3)}
.s4{stroke:var(--c4)}.f4{fill:var(--c4)}.s5{stroke:var(--c5)}.f5{fill:var(--c5)}.s6{stroke:var(--c6)}.f6{fill:var(--c6)}.s7{stroke:var(--c7)}.f7{fill:var(--c7)}
table{border-collapse:collapse;margin:8px 0}td,th{padding:3px 14px 3px 0;text-align:right;border-bottom:1px solid var(--line)}
td:first-child,th:first-child{text-align:left}th{color:var(--soft);font-weight:500}
pre{background:var(--card);border-radius:8px;padding:14px;overflow:auto;font-size:13px}
.verdict{border-left:4px solid var(--c2);padding:6px 12px;background:var(--card);border-radius:4px}
.verdict.backlogged{border-color:var(--c4)}.verdict.overloaded{border-color:var(--c6)}
)";

}  // namespace

std::string html_cards(const LabelledValues& cards) {
  std::string out = "<div class=\"cards\">";
  for (const auto& [label, value] : cards) {
    fmt::format_to(std::back_inserter(out), "<div><b>{}</b><small>{}</small></div>",
                   escape_html(value), escape_html(label));
  }
  return out + "</div>";
}

std::string html_page(const std::string& title, const LabelledValues& facts,
                      const std::string& body) {
  std::string line;
  for (const auto& [label, value] : facts) {
    fmt::format_to(std::back_inserter(line), "<span>{} <b>{}</b></span> ", escape_html(label),
                   escape_html(value));
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>{0}</title>"
      "<style>{1}</style>\n<h1>{0}</h1><p class=\"facts\">{2}</p>\n{3}\n</html>\n",
      escape_html(title), kStyle, line, body);
}

}  // namespace quire::sim
