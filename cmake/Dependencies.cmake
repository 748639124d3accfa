# Everything comes from Debian bookworm; deploy/packages-build.txt lists the packages.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(Protobuf REQUIRED)
find_package(hwy REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(spdlog REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(CLI11 REQUIRED)

if(TANDEM_TBB)
  find_package(TBB REQUIRED)
endif()

# libonnx and xxhash ship no CMake package.
find_library(ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
find_path(ONNX_INCLUDE_DIR onnx/onnx-ml.pb.h REQUIRED)
add_library(onnx_proto INTERFACE)
target_link_libraries(onnx_proto INTERFACE ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)
target_include_directories(onnx_proto SYSTEM INTERFACE ${ONNX_INCLUDE_DIR})
target_compile_definitions(onnx_proto INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)

find_library(XXHASH_LIBRARY xxhash REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(xxhash INTERFACE)
target_link_libraries(xxhash INTERFACE ${XXHASH_LIBRARY})
target_include_directories(xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})

if(TANDEM_DAEMON)
  find_package(gRPC REQUIRED)
  find_package(Boost REQUIRED)
endif()
