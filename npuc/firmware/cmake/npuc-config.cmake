# find_package(npuc): models as libraries of a firmware build.
#
#   npuc_add_model(<library> <model> TARGET <target> [CALIBRATION <table.json or data>] [LOCK <file>] [OPTIONS <...>])
#
# Compiles the model when it, its calibration or its lock changes, and makes a static library whose header is <library>.h.
# Libraries of several models share the driver, the target npuc_runtime, and the kernels of Arm calls, the target
# npuc_kernels, of which the linker takes those that a model calls. CALIBRATION is what `npuc compile` takes with
# --calibration or --data; a .tflite model needs none. Without LOCK the search runs again whenever something changes;
# with it, the file holds its decisions and is to be committed; the target <library>_update_lock searches again and writes
# it anew. OPTIONS are passed to `npuc compile` as they are.

get_filename_component(_npuc_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_program(NPUC_EXECUTABLE npuc HINTS "${_npuc_package}/../../../bin" "${_npuc_package}/.venv/bin" REQUIRED)

# Driver and kernels, from the same npuc as the models; copied where they changed, so that configuring again builds
# nothing. Kernels of float32 compute the same bits everywhere when products are not fused with sums.
if(NOT TARGET npuc_runtime)
  set(_npuc_runtime "${CMAKE_BINARY_DIR}/npuc-runtime")
  set(_npuc_made "${CMAKE_BINARY_DIR}/CMakeFiles/npuc-runtime")
  execute_process(COMMAND "${NPUC_EXECUTABLE}" firmware --runtime-only -o "${_npuc_made}"
                  RESULT_VARIABLE _npuc_status ERROR_VARIABLE _npuc_message)
  if(NOT _npuc_status EQUAL 0)
    message(FATAL_ERROR "npuc firmware failed: ${_npuc_message}")
  endif()
  file(GLOB _npuc_files "${_npuc_made}/*.[ch]")
  file(MAKE_DIRECTORY "${_npuc_runtime}")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E copy_if_different ${_npuc_files} "${_npuc_runtime}"
                  COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB _npuc_kernel_files "${_npuc_runtime}/npuc_kernel_*.c")
  add_library(npuc_kernels STATIC ${_npuc_kernel_files})
  target_include_directories(npuc_kernels PUBLIC "${_npuc_runtime}")
  target_compile_options(npuc_kernels PRIVATE -ffp-contract=off)
  add_library(npuc_runtime STATIC
    "${_npuc_runtime}/npuc_driver.c" "${_npuc_runtime}/npuc_program.c" "${_npuc_runtime}/npuc_calls.c"
    "${_npuc_runtime}/npuc_hooks.c" "${_npuc_runtime}/npuc_float.c" "${_npuc_runtime}/npuc_weights.c")
  target_link_libraries(npuc_runtime PUBLIC npuc_kernels)
endif()

function(npuc_add_model library model)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TARGET;CALIBRATION;LOCK" "OPTIONS")
  if(NOT arg_TARGET OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "npuc_add_model(<library> <model> TARGET <target> [CALIBRATION <table.json or data>] "
                        "[LOCK <file>] [OPTIONS <...>]); got ${ARGV}")
  endif()
  get_filename_component(model "${model}" ABSOLUTE)
  set(depends "${model}")
  set(options ${arg_OPTIONS})
  if(arg_CALIBRATION)
    # A source of data may end in :key and @slice.
    string(REGEX REPLACE "[:@].*$" "" file "${arg_CALIBRATION}")
    string(REGEX MATCH "[:@].*$" part "${arg_CALIBRATION}")
    get_filename_component(file "${file}" ABSOLUTE)
    list(APPEND depends "${file}")
    if(file MATCHES "\\.json$")
      list(APPEND options --calibration "${file}")
    else()
      list(APPEND options --data "${file}${part}")
    endif()
  endif()
  if(arg_TARGET MATCHES "\\.toml$")
    get_filename_component(arg_TARGET "${arg_TARGET}" ABSOLUTE)
    list(APPEND depends "${arg_TARGET}")
  endif()
  if(arg_LOCK)
    get_filename_component(lock "${arg_LOCK}" ABSOLUTE)
    list(APPEND options --lock "${lock}")
    if(EXISTS "${lock}")
      list(APPEND depends "${lock}")
    endif()
  else()
    list(APPEND options --no-lock)
  endif()

  set(program "${CMAKE_CURRENT_BINARY_DIR}/${library}.npu")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${library}-model")
  set(compile "${NPUC_EXECUTABLE}" compile "${model}" --target "${arg_TARGET}" -o "${program}" ${options})
  add_custom_command(
    OUTPUT "${program}" BYPRODUCTS "${program}.map"
    COMMAND ${compile} DEPENDS ${depends} COMMENT "npuc: compiling ${library}" VERBATIM)
  if(arg_LOCK)
    add_custom_target(${library}_update_lock
      COMMAND ${compile} --update-lock COMMENT "npuc: searching for ${library}" VERBATIM)
  endif()
  set(sources "${folder}/${library}.c" "${folder}/${library}_program.c" "${folder}/${library}.h")
  add_custom_command(
    OUTPUT ${sources}
    COMMAND "${NPUC_EXECUTABLE}" firmware "${program}" --name "${library}" -o "${folder}"
    DEPENDS "${program}" COMMENT "npuc: writing C files of ${library}" VERBATIM)
  add_library(${library} STATIC ${sources})
  target_include_directories(${library} PUBLIC "${folder}")
  target_link_libraries(${library} PUBLIC npuc_runtime)
endfunction()
