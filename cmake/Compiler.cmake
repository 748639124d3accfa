# Flags that every target of the project has. ISA flags never appear here: kernels choose theirs with
# function attributes.
add_library(tandem_compiler INTERFACE)
target_compile_options(tandem_compiler INTERFACE
  -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual -Werror -Wno-missing-field-initializers
  # Flow-sensitive warnings that g++ 12 raises wrongly inside std::string and absl::InlinedVector.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>
  -ffp-contract=off -fno-omit-frame-pointer)
target_include_directories(tandem_compiler INTERFACE "${PROJECT_SOURCE_DIR}")

if(TANDEM_SANITIZER STREQUAL "address")
  # Checks of every pointer that is followed are left out: they take as long to compile as all else, and
  # what they find AddressSanitizer finds or the processor allows.
  set(sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=all
      -fno-sanitize=null,alignment,object-size,pointer-overflow,vptr)
elseif(TANDEM_SANITIZER STREQUAL "thread")
  set(sanitizer_flags -fsanitize=thread)
elseif(NOT TANDEM_SANITIZER STREQUAL "")
  message(FATAL_ERROR "TANDEM_SANITIZER is '${TANDEM_SANITIZER}'; address or thread are known")
endif()
target_compile_options(tandem_compiler INTERFACE ${sanitizer_flags})
target_link_options(tandem_compiler INTERFACE ${sanitizer_flags})

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()
