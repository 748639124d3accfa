// A plan as a graph for Graphviz.
#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

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

// Adds the tasks of one plan to a graph's text; those of bodies stand in frames within it. `prefix`
// begins the names of all nodes and frames.
class DotWriter {
 public:
  DotWriter(const PlanReport& report, std::string prefix, std::string& text)
      : report_(report),
        prefix_(std::move(prefix)),
        definers_(report.values.size(), -1),
        text_(text) {
    for (size_t task = 0; task < report.tasks.size(); ++task) {
      for (const int output : report.tasks[task].outputs) {
        if (output >= 0) definers_[static_cast<size_t>(output)] = static_cast<int>(task);
      }
    }
  }

  void Write(size_t depth) {
    AddBlock(0, depth);
    const std::string indent(depth * 2, ' ');
    for (size_t task = 0; task < report_.tasks.size(); ++task) AddInputs(task);
    for (const int output : report_.outputs) AddOutput(output);
    for (const auto& [from, name] : sources_) {
      text_ += fmt::format("{}{} [shape=ellipse, label={}];\n", indent, from, Quoted(name));
    }
    for (const auto& [to, name] : sinks_) {
      text_ += fmt::format("{}{} [shape=ellipse, label={}];\n", indent, to, Quoted(name));
    }
    for (const auto& [ends, values] : edges_) {
      std::string label;
      for (const int value : values) label += (label.empty() ? "" : "\n") + EdgeLabel(value);
      text_ +=
          fmt::format("{}{} -> {} [label={}];\n", indent, ends.first, ends.second, Quoted(label));
    }
  }

 private:
  void AddBlock(int block, size_t depth) {
    const std::string indent(depth * 2, ' ');
    for (const ScheduleReport& item : report_.blocks[static_cast<size_t>(block)]) {
      if (item.branches.empty()) AddTask(item.task, depth);
      for (size_t i = 0; i < item.branches.size(); ++i) {
        text_ += fmt::format("{}subgraph cluster_{}{} {{\n{}  label=\"tower {}\";\n", indent,
                             prefix_, item.branches[i], indent, i);
        AddBlock(item.branches[i], depth + 1);
        text_ += indent + "}\n";
      }
    }
  }

  void AddTask(int index, size_t depth) {
    const TaskReport& task = report_.tasks[static_cast<size_t>(index)];
    const std::string label = task.name + "\n" + KernelText(task);
    const std::string name = TaskName(index);
    text_ += fmt::format("{}{} [label={}{}];\n", std::string(depth * 2, ' '), name, Quoted(label),
                         task.kernel == "view" ? ", style=dashed" : "");
    for (size_t i = 0; i < task.bodies.size(); ++i) {
      AddBody(task.bodies[i], task.body_names[i], fmt::format("{}b{}_", name, i), name, depth);
    }
  }

  // A frame, and in it a node without a box that the edge from the task leads to.
  void AddBody(const PlanReport& body, const std::string& name, const std::string& prefix,
               const std::string& task, size_t depth) {
    const std::string indent(depth * 2, ' ');
    text_ += fmt::format("{0}subgraph cluster_{1} {{\n{0}  {1} [shape=plaintext, label={2}];\n",
                         indent, prefix, Quoted(name));
    DotWriter(body, prefix, text_).Write(depth + 1);
    text_ += fmt::format("{0}}}\n{0}{1} -> {2} [style=dotted];\n", indent, task, prefix);
  }

  // What is packed is part of its task.
  void AddInputs(size_t index) {
    const TaskReport& task = report_.tasks[index];
    for (size_t port = 0; port < task.inputs.size(); ++port) {
      if (port < task.packed.size() && task.packed[port]) continue;
      AddEdge(task.inputs[port], TaskName(static_cast<int>(index)));
    }
  }

  void AddOutput(int value) {
    if (value < 0) return;
    const std::string to = fmt::format("{}o{}", prefix_, value);
    sinks_[to] = report_.values[static_cast<size_t>(value)].name;
    AddEdge(value, to);
  }

  // Values without a task come from nodes of their own: inputs, and constants that are read as they
  // are.
  void AddEdge(int value, const std::string& to) {
    if (value < 0) return;
    const int task = definers_[static_cast<size_t>(value)];
    std::string from = TaskName(task);
    if (task < 0) {
      from = fmt::format("{}v{}", prefix_, value);
      sources_[from] = report_.values[static_cast<size_t>(value)].name;
    }
    edges_[{from, to}].insert(value);
  }

  std::string TaskName(int task) const { return fmt::format("{}t{}", prefix_, task); }

  std::string EdgeLabel(int v) const {
    const ValueReport& value = report_.values[static_cast<size_t>(v)];
    std::string label(DTypeName(value.dtype));
    label += value.shape ? ToString(*value.shape) : value.extents;
    if (value.layout != Layout::kNative) label += fmt::format("\n{}", LayoutName(value.layout));
    return label;
  }

  const PlanReport& report_;
  const std::string prefix_;
  std::vector<int> definers_;                   // by value: its task, or -1
  std::map<std::string, std::string> sources_;  // nodes of inputs and constants, and their labels
  std::map<std::string, std::string> sinks_;    // nodes of outputs, and their labels
  // Values by the two nodes that they go between.
  std::map<std::pair<std::string, std::string>, std::set<int>> edges_;
  std::string& text_;
};

}  // namespace

std::string ToDot(const PlanReport& report) {
  std::string text = "digraph plan {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n";
  text += "  edge [fontname=\"sans-serif\", fontsize=8];\n";
  DotWriter(report, "", text).Write(1);
  return text + "}\n";
}

}  // namespace tandem::cli
