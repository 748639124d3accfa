// Whether time grows as the size does, measured so that other programs bend it little.
#pragma once

#include <functional>

namespace tandem::test {

// The most that twice the size may take, as a multiple, of what is linear.
inline constexpr double kLinear = 2.5;

// Processor time of this thread.
double SecondsOfThread();

// Time for twice the size against time for the size, in seven alternating pairs: the lower
// quartile, so that a limit is passed only when the whole range between the quartiles is beyond it.
// `seconds` is what work of a size takes.
double RatioOfTwice(const std::function<double(int)>& seconds, int size);

}  // namespace tandem::test
