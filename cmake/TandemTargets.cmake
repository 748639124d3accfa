# A library or test per folder, made of the files that lie there.

# tandem_library(NAME [RECURSE] [EXCLUDE FILE...] [PRECOMPILED <header>...] DEPS...): the .cc files of
# this folder (RECURSE: and below). PRECOMPILED: headers of libraries that only this folder includes.
function(tandem_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "RECURSE" "" "DEPS;EXCLUDE;PRECOMPILED")
  if(ARG_RECURSE)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "*.cc")
  else()
    file(GLOB sources CONFIGURE_DEPENDS "*.cc")
  endif()
  foreach(file IN LISTS ARG_EXCLUDE)
    list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  endforeach()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC tandem_compiler ${ARG_DEPS})
  if(ARG_PRECOMPILED)
    target_precompile_headers(${name} PRIVATE ${tandem_common_headers} ${ARG_PRECOMPILED})
  else()
    target_precompile_headers(${name} REUSE_FROM tandem_precompiled_library)
  endif()
endfunction()

# tandem_test(NAME DEPS...): the .cc files of this folder become one program, every TEST in it a
# ctest. Without LABELS they are labelled `unit` and built by the target unit_tests: what runs under
# sanitizers. Those labelled `long` run while no other test does.
function(tandem_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "DEPS;LABELS")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(TANDEM_SANITIZER)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "*.cc")
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE tandem_compiler tandem_test_support ${ARG_DEPS} GTest::gmock
                                        GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${tandem_test_options})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(${name} REUSE_FROM tandem_precompiled_test)
  if(ARG_LABELS STREQUAL "unit")
    set_property(GLOBAL APPEND PROPERTY TANDEM_UNIT_TESTS ${name})
  endif()
  set(alone FALSE)
  if(ARG_LABELS STREQUAL "long")
    set(alone TRUE)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" RUN_SERIAL ${alone})
endfunction()

include(GoogleTest)
