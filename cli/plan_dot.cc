// A plan as a graph for Graphviz.
#include <fmt/format.h>

#include "cli/plan_formats.h"

namespace tandem::cli {
namespace {

// A string in double quotes (Graphviz: "The DOT Language", ID).
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

class DotWriter {
 public:
  explicit DotWriter(const PlanReport& report)
      : report_(report), definers_(report.values.size(), -1) {
    for (size_t task = 0; task < report.tasks.size(); ++task) {
      for (const int output : report.tasks[task].outputs) {
        if (output >= 0) definers_[static_cast<size_t>(output)] = static_cast<int>(task);
      }
    }
  }

  std::string Write() {
    text_ = "digraph plan {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n";
    text_ += "  edge [fontname=\"sans-serif\", fontsize=8];\n";
    AddBlock(0, 1);
    for (size_t task = 0; task < report_.tasks.size(); ++task) AddEdges(task);
    return text_ + "}\n";
  }

 private:
  void AddBlock(int block, size_t depth) {
    const std::string indent(depth * 2, ' ');
    for (const ScheduleReport& item : report_.blocks[static_cast<size_t>(block)]) {
      if (item.branches.empty()) AddTask(item.task, indent);
      for (size_t i = 0; i < item.branches.size(); ++i) {
        text_ += fmt::format("{}subgraph cluster_{} {{\n{}  label=\"tower {}\";\n", indent,
                             item.branches[i], indent, i);
        AddBlock(item.branches[i], depth + 1);
        text_ += indent + "}\n";
      }
    }
  }

  void AddTask(int index, const std::string& indent) {
    const TaskReport& task = report_.tasks[static_cast<size_t>(index)];
    const std::string label = task.name + "\n" + KernelText(task);
    text_ += fmt::format("{}t{} [label={}{}];\n", indent, index, Quoted(label),
                         task.kernel == "view" ? ", style=dashed" : "");
  }

  // Values without a task come from nodes of their own: inputs, and constants that are read as they
  // are; what is packed is part of its task.
  void AddEdges(size_t index) {
    const TaskReport& task = report_.tasks[index];
    for (size_t port = 0; port < task.inputs.size(); ++port) {
      if (task.inputs[port] < 0 || (port < task.packed.size() && task.packed[port])) continue;
      const auto v = static_cast<size_t>(task.inputs[port]);
      std::string from = fmt::format("t{}", definers_[v]);
      if (definers_[v] < 0) {
        from = fmt::format("v{}", v);
        text_ +=
            fmt::format("  {} [shape=ellipse, label={}];\n", from, Quoted(report_.values[v].name));
      }
      text_ += fmt::format("  {} -> t{} [label={}];\n", from, index, Quoted(EdgeLabel(v)));
    }
    for (const int output : task.outputs) {
      if (output < 0 || report_.values[static_cast<size_t>(output)].memory != "output") continue;
      const auto v = static_cast<size_t>(output);
      text_ += fmt::format("  o{} [shape=ellipse, label={}];\n", v, Quoted(report_.values[v].name));
      text_ += fmt::format("  t{} -> o{} [label={}];\n", index, v, Quoted(EdgeLabel(v)));
    }
  }

  std::string EdgeLabel(size_t v) const {
    const ValueReport& value = report_.values[v];
    std::string label(DTypeName(value.dtype));
    label += value.shape ? ToString(*value.shape) : value.extents;
    if (value.layout != Layout::kNative) label += fmt::format("\n{}", LayoutName(value.layout));
    return label;
  }

  const PlanReport& report_;
  std::vector<int> definers_;  // by value: its task, or -1
  std::string text_;
};

}  // namespace

std::string ToDot(const PlanReport& report) { return DotWriter(report).Write(); }

}  // namespace tandem::cli
