#include "engine/ops/einsum_equation.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"

namespace tandem::ops {
namespace {

// A term without blanks, its ellipsis as one '.'.
StatusOr<std::string> ReadTerm(std::string_view text) {
  std::string term;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (absl::ascii_isalpha(static_cast<unsigned char>(c))) {
      term += c;
    } else if (text.substr(i, 3) == "..." && term.find('.') == std::string::npos) {
      term += '.';
      i += 2;
    } else {
      return InvalidArgument(
          "attribute 'equation' has the term '{}' where letters and one ellipsis are expected",
          text);
    }
  }
  return term;
}

// The output that an equation without one means: the ellipsis, then the labels that occur once.
std::string ImplicitOutput(const std::vector<std::string>& terms) {
  std::map<char, int> counts;
  for (const std::string& term : terms) {
    for (const char c : term) ++counts[c];
  }
  std::string output;
  for (const auto& [c, count] : counts) {
    if (c == '.' || count == 1) output += c;
  }
  return output;
}

Status CheckOutput(const std::string& output, const std::vector<std::string>& terms) {
  for (const char c : output) {
    if (c != '.' && std::ranges::count(output, c) > 1) {
      return InvalidArgument("attribute 'equation' names '{}' twice in its output", c);
    }
    const bool known = std::ranges::any_of(
        terms, [c](const std::string& term) { return term.find(c) != std::string::npos; });
    if (c != '.' && !known) {
      return InvalidArgument("attribute 'equation' names '{}' in its output alone", c);
    }
  }
  return absl::OkStatus();
}

Labels Spelled(const std::string& term, int ellipsis) {
  Labels labels;
  for (const char c : term) {
    if (c != '.') {
      labels.push_back(static_cast<unsigned char>(c));
      continue;
    }
    for (int k = ellipsis; k-- > 0;) labels.push_back(kEllipsis + k);
  }
  return labels;
}

}  // namespace

StatusOr<Equation> Equation::Parse(std::string_view text) {
  Equation equation;
  equation.text_ = text;
  std::string dense;
  for (const char c : text) {
    if (!absl::ascii_isspace(static_cast<unsigned char>(c))) dense += c;
  }
  const size_t arrow = dense.find("->");
  std::string_view rest(dense);
  rest = rest.substr(0, arrow);
  while (true) {
    const size_t comma = rest.find(',');
    ASSIGN_OR_RETURN(std::string term, ReadTerm(rest.substr(0, comma)));
    equation.terms_.push_back(std::move(term));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (arrow == std::string::npos) {
    equation.output_ = ImplicitOutput(equation.terms_);
  } else {
    ASSIGN_OR_RETURN(equation.output_, ReadTerm(std::string_view(dense).substr(arrow + 2)));
  }
  RETURN_IF_ERROR(CheckOutput(equation.output_, equation.terms_));
  return equation;
}

StatusOr<Subscripts> Equation::Resolve(std::span<const int> ranks) const {
  Subscripts subscripts;
  int widest = 0;
  for (size_t k = 0; k < terms_.size(); ++k) {
    const std::string& term = terms_[k];
    const auto letters = static_cast<int>(term.size());
    const bool has_ellipsis = term.find('.') != std::string::npos;
    const int ellipsis = has_ellipsis ? ranks[k] - (letters - 1) : 0;
    if (ellipsis < 0 || (!has_ellipsis && ranks[k] != letters)) {
      return InvalidArgument("input {} has rank {} where its term of equation '{}' has {}{} labels",
                             k, ranks[k], text_, has_ellipsis ? "at least " : "",
                             has_ellipsis ? letters - 1 : letters);
    }
    widest = std::max(widest, ellipsis);
    subscripts.operands.push_back(Spelled(term, ellipsis));
  }
  if (widest > 0 && output_.find('.') == std::string::npos) {
    return InvalidArgument("the output of equation '{}' has no ellipsis for {} axes", text_,
                           widest);
  }
  subscripts.output = Spelled(output_, widest);
  return subscripts;
}

StatusOr<graph::Dim> ExtentOf(int label, const Subscripts& subscripts,
                              std::span<const graph::DimVector* const> dims) {
  graph::Dim extent = 1;
  for (size_t k = 0; k < subscripts.operands.size(); ++k) {
    const Labels& labels = subscripts.operands[k];
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      if (labels[axis] != label) continue;
      const graph::Dim& own = (*dims[k])[axis];
      if (own.SameAs(1) || own.SameAs(extent)) continue;
      if (extent.SameAs(1)) {
        extent = own;
      } else if (own.is_number() && extent.is_number()) {
        return InvalidArgument("input {} has extent {} of axis {} where {} is expected", k,
                               own.number(), axis, extent.number());
      } else if (own.is_number()) {
        extent = own;
      } else if (!extent.is_number()) {
        extent = graph::Dim();
      }
    }
  }
  return extent;
}

std::optional<std::string> Spell(const Subscripts& subscripts) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::map<int, char> letters;
  std::string text;
  const auto append = [&](const Labels& labels) {
    for (const int label : labels) {
      if (!letters.contains(label) && letters.size() < kLetters.size()) {
        letters.emplace(label, kLetters[letters.size()]);
      }
      const auto found = letters.find(label);
      if (found != letters.end()) text += found->second;
    }
  };
  size_t labels = subscripts.output.size();
  for (const Labels& operand : subscripts.operands) {
    if (!text.empty() || &operand != &subscripts.operands.front()) text += ',';
    append(operand);
    labels += operand.size();
  }
  text += "->";
  append(subscripts.output);
  // As many letters as axes, commas between the operands, and the arrow.
  if (text.size() != labels + subscripts.operands.size() - 1 + 2) return std::nullopt;
  return text;
}

}  // namespace tandem::ops
