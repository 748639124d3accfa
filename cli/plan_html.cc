// A plan as a web page.
#include <fmt/format.h>

#include <algorithm>

#include "cli/plan_formats.h"
#include "engine/work.h"

namespace tandem::cli {
namespace {

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{0}</title>
<style>
body {{ font: 14px/1.4 sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; margin-bottom: 2em; }}
th, td {{ border-bottom: 1px solid #ddd; padding: 2px 8px; text-align: left; vertical-align: top; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
td.bar div {{ background: #4a7; height: 1em; }}
</style>
</head>
<body>
<h1>{0}</h1>
)";

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Cell(std::string_view text) { return "<td>" + Escaped(text) + "</td>"; }

std::string Number(double number) {
  return fmt::format("<td class=\"number\">{:.0f}</td>", number);
}

std::string Number(const std::optional<double>& number) {
  return number ? Number(*number) : "<td></td>";
}

// A table with a heading; `columns` separated by '|', `rows` of cells.
std::string Table(std::string_view heading, std::string_view columns, const std::string& rows) {
  std::string text = fmt::format("<h2>{}</h2>\n<table>\n<tr>", Escaped(heading));
  for (size_t begin = 0; begin <= columns.size();) {
    const size_t end = std::min(columns.find('|', begin), columns.size());
    text += fmt::format("<th>{}</th>", columns.substr(begin, end - begin));
    begin = end + 1;
  }
  return text + "</tr>\n" + rows + "</table>\n";
}

std::string Row(const std::string& cells) { return "<tr>" + cells + "</tr>\n"; }

// Where in the schedule each task stands: "" outside of forks, "1.0" in tower 0 within tower 1.
void AddTowers(const PlanReport& report, int block, const std::string& tower,
               std::vector<std::string>& towers) {
  for (const ScheduleReport& item : report.blocks[static_cast<size_t>(block)]) {
    if (item.branches.empty()) towers[static_cast<size_t>(item.task)] = tower;
    for (size_t i = 0; i < item.branches.size(); ++i) {
      AddTowers(report, item.branches[i], fmt::format("{}{}{}", tower, tower.empty() ? "" : ".", i),
                towers);
    }
  }
}

std::string ValuesCell(const PlanReport& report, const std::vector<int>& ports) {
  std::string text;
  for (const int port : ports) {
    if (!text.empty()) text += "<br>";
    if (port < 0) continue;
    const ValueReport& value = report.values[static_cast<size_t>(port)];
    text += Escaped(fmt::format("{} {}{}", value.name, DTypeName(value.dtype),
                                value.shape ? ToString(*value.shape) : value.extents));
    if (value.layout != Layout::kNative) text += fmt::format(" {}", LayoutName(value.layout));
    if (!value.memory.empty()) text += ", " + Escaped(value.memory);
  }
  return "<td>" + text + "</td>";
}

std::string KernelCell(const TaskReport& task) {
  std::string text = Escaped(KernelText(task));
  for (const std::string& attribute : task.attributes) text += "<br>" + Escaped(attribute);
  return "<td>" + text + "</td>";
}

std::string TaskRows(const PlanReport& report) {
  std::vector<std::string> towers(report.tasks.size());
  AddTowers(report, 0, "", towers);
  double longest = 0;
  for (const TaskReport& task : report.tasks) longest = std::max(longest, task.estimated_seconds);
  std::string rows;
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const TaskReport& task = report.tasks[i];
    const double share = longest > 0 ? 100 * task.estimated_seconds / longest : 0;
    rows +=
        Row(Number(static_cast<double>(i)) + Cell(task.name) + KernelCell(task) + Cell(towers[i]) +
            ValuesCell(report, task.inputs) + ValuesCell(report, task.outputs) +
            Number(task.multiply_adds) + Number(task.moved_bytes) +
            fmt::format("<td class=\"bar\"><div style=\"width: {:.0f}px\"></div></td>", share));
  }
  return rows;
}

// The tasks of a plan, then those of the bodies in it.
std::string TaskTables(const PlanReport& report, const std::string& heading) {
  std::string text =
      Table(heading, "|nodes|kernel|tower|reads|computes|multiply-adds|bytes moved|estimated time",
            TaskRows(report));
  for (const TaskReport& task : report.tasks) {
    for (size_t i = 0; i < task.bodies.size(); ++i) {
      text += TaskTables(task.bodies[i],
                         fmt::format("{}, {} of {}", heading, task.body_names[i], task.name));
    }
  }
  return text;
}

std::string TotalRows(const PlanReport& report) {
  std::string rows;
  const auto add = [&rows](std::string_view name, double number) {
    rows += Row(Cell(name) + Number(number));
  };
  add("tasks", static_cast<double>(report.tasks.size()));
  add("forks", report.forks);
  add("parts", static_cast<double>(report.parts));
  add("bytes of weights", static_cast<double>(report.constant_bytes));
  add("bytes of packs", static_cast<double>(report.pack_bytes));
  if (report.arena_bytes) add("bytes of the arena", static_cast<double>(*report.arena_bytes));
  const Work work = WorkOf(report);
  add("multiply-adds", work.multiply_adds);
  add("bytes moved", work.moved_bytes);
  add("tasks of unknown cost", work.unknown_tasks);
  add("nodes folded", static_cast<double>(report.folded_nodes.size()));
  add("bytes folded into", static_cast<double>(report.folded_bytes));
  rows += Row(Cell("requests") + Cell(JoinText(report)));
  return rows;
}

}  // namespace

std::string ToHtml(const PlanReport& report, const std::string& title) {
  std::string packs;
  for (const PackReport& pack : report.packs) {
    packs += Row(Cell(pack.name) + Number(static_cast<double>(pack.bytes)));
  }
  std::string passes;
  for (const PassReport& pass : report.passes) {
    passes += Row(Cell(pass.pass) + Number(pass.changes) +
                  Number(static_cast<double>(pass.time.count()) * 1e-3));
  }
  std::string declines;
  for (const Decline& decline : report.declines) {
    declines += Row(Cell(decline.pass) + Cell(decline.node) + Cell(decline.role) +
                    Cell(decline.rule) + Cell(decline.numbers));
  }
  return fmt::format(kHead, Escaped(title)) + Table("Totals", "of|", TotalRows(report)) +
         TaskTables(report, "Tasks") + Table("Packs", "format|bytes", packs) +
         Table("Passes", "pass|changes|us", passes) +
         Table("Declined", "pass|node|role|rule|numbers", declines) + "</body>\n</html>\n";
}

}  // namespace tandem::cli
