# Reference data outside the repository (TANDEM_REFERENCE_DIR): its archives are unpacked once into
# the build tree.
#
# tandem_use_reference_data(TARGET): TARGET is built after the archives of models/ and conformance/
# are unpacked, and finds them in the directory that the definition TANDEM_REFERENCE_DATA names. Does
# nothing when TANDEM_REFERENCE_DIR is empty.
function(tandem_use_reference_data target)
  if(TANDEM_REFERENCE_DIR STREQUAL "")
    return()
  endif()
  set(folder "${PROJECT_BINARY_DIR}/reference")
  if(NOT TARGET tandem_reference_data)
    file(GLOB archives CONFIGURE_DEPENDS "${TANDEM_REFERENCE_DIR}/models/*.tar.xz"
         "${TANDEM_REFERENCE_DIR}/conformance/*.tar.xz")
    set(stamps "")
    foreach(archive IN LISTS archives)
      get_filename_component(name "${archive}" NAME)
      set(stamp "${folder}/${name}.unpacked")
      add_custom_command(
        OUTPUT "${stamp}"
        COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
        COMMAND "${CMAKE_COMMAND}" -E chdir "${folder}" "${CMAKE_COMMAND}" -E tar xf "${archive}"
        COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
        DEPENDS "${archive}"
        COMMENT "Unpacking ${name}")
      list(APPEND stamps "${stamp}")
    endforeach()
    add_custom_target(tandem_reference_data DEPENDS ${stamps})
  endif()
  add_dependencies(${target} tandem_reference_data)
  target_compile_definitions(${target} PRIVATE "TANDEM_REFERENCE_DATA=\"${folder}\"")
endfunction()
