#include "engine/ops/window.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace tandem::ops {
namespace {

constexpr int64_t kLargest = (int64_t{1} << 31) - 1;

AutoPad ReadAutoPad(NodeReader& reader) {
  const std::string name = reader.String("auto_pad", "NOTSET");
  if (name == "NOTSET") return AutoPad::kNotSet;
  if (name == "VALID") return AutoPad::kValid;
  if (name == "SAME_UPPER") return AutoPad::kSameUpper;
  if (name == "SAME_LOWER") return AutoPad::kSameLower;
  reader.Fail(InvalidArgument(
      "attribute 'auto_pad' is '{}' where NOTSET, VALID, SAME_UPPER or SAME_LOWER is expected",
      name));
  return AutoPad::kNotSet;
}

Status CheckCounts(const WindowAttributes& attributes, size_t axes) {
  RETURN_IF_ERROR(CheckWindowCount("kernel_shape", attributes.kernel.size(), axes));
  RETURN_IF_ERROR(CheckWindowCount("strides", attributes.strides.size(), axes));
  RETURN_IF_ERROR(CheckWindowCount("dilations", attributes.dilations.size(), axes));
  return CheckWindowCount("pads", attributes.pads.size(), 2 * axes);
}

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t CeilDiv(int64_t a, int64_t b) { return -FloorDiv(-a, b); }

// The attributes of one axis; `in` and `out` are not set.
kernels::WindowAxis AxisOf(const WindowAttributes& attributes, std::span<const int64_t> kernel,
                           size_t axis) {
  kernels::WindowAxis result;
  result.kernel = kernel[axis];
  if (!attributes.strides.empty()) result.stride = attributes.strides[axis];
  if (!attributes.dilations.empty()) result.dilation = attributes.dilations[axis];
  if (!attributes.pads.empty()) {
    result.pad_begin = attributes.pads[axis];
    result.pad_end = attributes.pads[axis + kernel.size()];
  }
  return result;
}

int64_t Reach(const kernels::WindowAxis& axis) { return (axis.kernel - 1) * axis.dilation + 1; }

void ResolveSame(AutoPad auto_pad, kernels::WindowAxis& axis) {
  axis.out = CeilDiv(axis.in, axis.stride);
  const int64_t total = std::max<int64_t>(0, (axis.out - 1) * axis.stride + Reach(axis) - axis.in);
  const int64_t less = total / 2;
  axis.pad_begin = auto_pad == AutoPad::kSameUpper ? less : total - less;
  axis.pad_end = total - axis.pad_begin;
}

Status ResolveExplicit(const WindowAttributes& attributes, kernels::WindowAxis& axis) {
  const int64_t room = axis.in + axis.pad_begin + axis.pad_end - Reach(axis);
  const bool ceil_mode = attributes.ceil_mode && attributes.auto_pad == AutoPad::kNotSet;
  axis.out = (ceil_mode ? CeilDiv(room, axis.stride) : FloorDiv(room, axis.stride)) + 1;
  // No window starts in the padding behind the input.
  if (ceil_mode && (axis.out - 1) * axis.stride >= axis.in + axis.pad_begin) --axis.out;
  if (axis.out >= 1 || axis.in == 0) {
    axis.out = std::max<int64_t>(axis.out, 0);
    return absl::OkStatus();
  }
  return InvalidArgument(
      "a window of extent {} (kernel {}, dilation {}) does not fit into an input of extent {} with "
      "pads {} and {}",
      Reach(axis), axis.kernel, axis.dilation, axis.in, axis.pad_begin, axis.pad_end);
}

Status ResolveAxis(const WindowAttributes& attributes, kernels::WindowAxis& axis) {
  switch (attributes.auto_pad) {
    case AutoPad::kSameUpper:
    case AutoPad::kSameLower:
      ResolveSame(attributes.auto_pad, axis);
      return absl::OkStatus();
    case AutoPad::kNotSet:
    case AutoPad::kValid:
      return ResolveExplicit(attributes, axis);
  }
  return absl::OkStatus();
}

// out = floor((c*N + rest) / stride) + 1 is a multiple of N when stride divides c and
// floor(rest / stride) is -1.
graph::Dim SymbolicExtent(const WindowAttributes& attributes, const kernels::WindowAxis& axis,
                          const graph::Dim& in) {
  const bool same =
      attributes.auto_pad == AutoPad::kSameUpper || attributes.auto_pad == AutoPad::kSameLower;
  if (same) return ExactDiv(in, axis.stride);
  const int64_t rest = axis.pad_begin + axis.pad_end - Reach(axis);
  const bool ceil_mode = attributes.ceil_mode && attributes.auto_pad == AutoPad::kNotSet;
  if (ceil_mode && axis.stride > 1) return {};
  return FloorDiv(rest, axis.stride) == -1 ? ExactDiv(in, axis.stride) : graph::Dim();
}

Status CheckAxes(const WindowAttributes& attributes, std::span<const int64_t> kernel, size_t axes) {
  if (kernel.size() != axes) {
    return InvalidArgument("the window has {} axes where the input has {} spatial axes",
                           kernel.size(), axes);
  }
  for (const int64_t extent : kernel) {
    if (extent < 1 || extent > kLargest) {
      return InvalidArgument("the window has extents {} where values from 1 to {} are expected",
                             std::vector<int64_t>(kernel.begin(), kernel.end()), kLargest);
    }
  }
  return CheckCounts(attributes, axes);
}

}  // namespace

std::vector<int64_t> ReadWindowList(NodeReader& reader, std::string_view name, int64_t least) {
  std::vector<int64_t> values = reader.Ints(name);
  for (const int64_t value : values) {
    if (value < least || value > kLargest) {
      reader.Fail(InvalidArgument("attribute '{}' is {} where values from {} to {} are expected",
                                  name, values, least, kLargest));
      return {};
    }
  }
  return values;
}

Status CheckWindowCount(std::string_view name, size_t count, size_t expected) {
  if (count == 0 || count == expected) return absl::OkStatus();
  return InvalidArgument("attribute '{}' has {} values where {} are expected", name, count,
                         expected);
}

WindowAttributes ReadWindow(NodeReader& reader, int features) {
  WindowAttributes attributes;
  if ((features & kWindowNoAutoPad) == 0) attributes.auto_pad = ReadAutoPad(reader);
  attributes.kernel = ReadWindowList(reader, "kernel_shape", 1);
  attributes.strides = ReadWindowList(reader, "strides", 1);
  attributes.pads = ReadWindowList(reader, "pads", 0);
  if ((features & kWindowDilations) != 0) {
    attributes.dilations = ReadWindowList(reader, "dilations", 1);
  }
  if ((features & kWindowCeilMode) != 0) attributes.ceil_mode = reader.Flag("ceil_mode", false);
  if ((features & kWindowKernelRequired) != 0 && attributes.kernel.empty()) {
    reader.Fail(InvalidArgument("attribute 'kernel_shape' is missing or empty"));
  }
  if (!attributes.kernel.empty()) {
    const Status counts = CheckCounts(attributes, attributes.kernel.size());
    if (!counts.ok()) reader.Fail(counts);
  }
  const bool padded = std::ranges::any_of(attributes.pads, [](int64_t pad) { return pad != 0; });
  if (attributes.auto_pad != AutoPad::kNotSet && padded) {
    reader.Fail(InvalidArgument("attribute 'pads' is {} beside auto_pad {}, which excludes it",
                                reader.Ints("pads"), reader.String("auto_pad", "NOTSET")));
  }
  return attributes;
}

StatusOr<kernels::WindowAxes> ResolveWindow(const WindowAttributes& attributes,
                                            std::span<const int64_t> kernel,
                                            std::span<const int64_t> in) {
  RETURN_IF_ERROR(CheckAxes(attributes, kernel, in.size()));
  kernels::WindowAxes axes;
  for (size_t i = 0; i < in.size(); ++i) {
    kernels::WindowAxis axis = AxisOf(attributes, kernel, i);
    axis.in = in[i];
    RETURN_IF_ERROR(ResolveAxis(attributes, axis));
    axes.push_back(axis);
  }
  return axes;
}

StatusOr<graph::DimVector> InferWindow(const WindowAttributes& attributes,
                                       std::span<const int64_t> kernel,
                                       std::span<const graph::Dim> in) {
  RETURN_IF_ERROR(CheckAxes(attributes, kernel, in.size()));
  graph::DimVector out;
  for (size_t i = 0; i < in.size(); ++i) {
    kernels::WindowAxis axis = AxisOf(attributes, kernel, i);
    if (!in[i].is_number()) {
      out.push_back(SymbolicExtent(attributes, axis, in[i]));
      continue;
    }
    axis.in = in[i].number();
    RETURN_IF_ERROR(ResolveAxis(attributes, axis));
    out.emplace_back(axis.out);
  }
  return out;
}

}  // namespace tandem::ops
