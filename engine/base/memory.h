// Memory that the machine offers to this process.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

// Bytes this process may hold before the system ends it: the least of the cgroups' limits (v1 or
// v2) and the physical memory; 0 when nothing is told. `root` is prefixed to /proc and /sys, for
// tests.
uint64_t AvailableMemory(const std::string& root = "");

// Gives back to the system what this process has freed but its allocator keeps: much after the
// loading of a model. Takes milliseconds.
void ReleaseFreedMemory();

}  // namespace tandem
