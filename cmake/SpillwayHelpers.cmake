# One folder, one static library with an alias; tests link the library and never re-list its sources.
#
#   spillway_library(engine_gguf SOURCES reader.cc DEPS spillway::engine_base PRIVATE_DEPS OpenSSL::Crypto)
#   spillway_executable(spillway-gateway SOURCES main.cc DEPS spillway::gateway)
#   spillway_test(gguf_reader_test SOURCES gguf_reader_test.cc DEPS spillway::engine_gguf LABELS unit)

function(spillway_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(spillway_${name} STATIC ${ARG_SOURCES})
  add_library(spillway::${name} ALIAS spillway_${name})
  target_include_directories(spillway_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(spillway_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

function(spillway_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

function(spillway_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

# A library of the generated messages and stubs of the given .proto files (paths relative to proto/).
function(spillway_proto_library name)
  cmake_parse_arguments(ARG "" "" "PROTOS" ${ARGN})
  set(out ${CMAKE_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(proto ${ARG_PROTOS})
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(files ${out}/${stem}.pb.cc ${out}/${stem}.pb.h ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
    add_custom_command(
      OUTPUT ${files}
      COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR}/proto --cpp_out=${out} --grpc_out=${out}
              --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin> ${CMAKE_SOURCE_DIR}/proto/${proto}
      DEPENDS ${CMAKE_SOURCE_DIR}/proto/${proto})
    list(APPEND sources ${files})
  endforeach()
  add_library(spillway_${name} STATIC ${sources})
  add_library(spillway::${name} ALIAS spillway_${name})
  target_include_directories(spillway_${name} SYSTEM PUBLIC ${out})
  target_link_libraries(spillway_${name} PUBLIC gRPC::grpc++ protobuf::libprotobuf)
  target_compile_options(spillway_${name} PRIVATE -w)
endfunction()
