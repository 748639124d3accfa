// Parallel on one oneTBB arena.
#pragma once

#include <memory>

#include "engine/base/parallel.h"

namespace tandem::runtime {

// An arena of `threads` >= 1 threads, callers included.
std::unique_ptr<Parallel> MakeTbbParallel(int threads);

}  // namespace tandem::runtime
