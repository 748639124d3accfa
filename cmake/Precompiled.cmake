# The libraries' headers that most files include, parsed once a build instead of once a file. Not under
# a compiler cache, which knows whole files and cannot share precompiled headers.
if(CCACHE_PROGRAM)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
set(tandem_common_headers <algorithm> <functional> <map> <memory> <mutex> <span> <string> <vector>
    <absl/container/flat_hash_map.h> <absl/container/inlined_vector.h> <absl/status/statusor.h>
    <fmt/format.h>)
# Test code is compiled for the reader of a failure, not for speed. -pthread comes with gRPC and must be
# the same everywhere.
set(tandem_test_options -pthread $<$<CONFIG:Release>:-O0>)

# tandem_precompiled(NAME POSITION_INDEPENDENT ON|OFF OPTIONS FLAG... DEPS LIBRARY... HEADERS
# <header>...): a set for targets with the same flags, by
# target_precompile_headers(TARGET REUSE_FROM NAME).
function(tandem_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "POSITION_INDEPENDENT" "OPTIONS;DEPS;HEADERS")
  set(source "${PROJECT_BINARY_DIR}/${name}.cc")
  file(GENERATE OUTPUT "${source}" CONTENT "")
  add_library(${name} OBJECT "${source}")
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE "${ARG_POSITION_INDEPENDENT}")
  target_link_libraries(${name} PRIVATE tandem_compiler absl::flat_hash_map absl::inlined_vector
                                        absl::statusor fmt::fmt ${ARG_DEPS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${tandem_common_headers} ${ARG_HEADERS})
endfunction()

tandem_precompiled(tandem_precompiled_library POSITION_INDEPENDENT ON)
if(BUILD_TESTING)
  tandem_precompiled(tandem_precompiled_test POSITION_INDEPENDENT OFF OPTIONS ${tandem_test_options}
                     DEPS GTest::gmock HEADERS <gmock/gmock.h> <gtest/gtest.h>)
endif()
