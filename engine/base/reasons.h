// Several reasons why something is refused, as one status.
#pragma once

#include <initializer_list>

#include "engine/base/status.h"

namespace tandem {

// The messages of all that failed, separated by "; ", with the code of the first; OK when none did.
Status AllReasons(std::initializer_list<Status> reasons);

}  // namespace tandem
