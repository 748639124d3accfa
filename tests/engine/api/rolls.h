// Rolling a tensor along an axis, in the two ways in which exporters write it.
#pragma once

#include <string>

#include "tests/support/model_builder.h"

namespace tandem::test {

enum class Roll { kSlices, kGather };

struct Turn {
  int64_t shift = 1;  // the element at this place comes first
  int64_t axis = 0;
  int64_t extent = 8;  // of the axis
};

// to = from, rolled.
void AddRoll(Roll roll, const std::string& from, const std::string& to, const Turn& turn,
             ModelBuilder& builder);

}  // namespace tandem::test
