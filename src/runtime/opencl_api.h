// opencl_api: what lathe calls of OpenCL, found at run time, and the numbers that it passes.
// In: the system's libOpenCL. Out: pointers to its functions. Invariant: nothing of OpenCL is needed to build or to start.
// Example: OpenclApi api; TRY(opencl_api_open(&api, err)); api.Finish(queue)
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef struct OpenclPlatformObject *OpenclPlatform;
typedef struct OpenclDeviceObject *OpenclDevice;
typedef struct OpenclContextObject *OpenclContext;
typedef struct OpenclQueueObject *OpenclQueue;
typedef struct OpenclMemoryObject *OpenclMemory;
typedef struct OpenclProgramObject *OpenclProgram;
typedef struct OpenclKernelObject *OpenclKernel;
typedef struct OpenclEventObject *OpenclEvent;

typedef struct OpenclApi {
#define OPENCL_FUNCTION(result, name, ...) result (*name) __VA_ARGS__;
#include "runtime/opencl_api.def"
#undef OPENCL_FUNCTION
} OpenclApi;

// Numbers of CL/cl.h.
enum {
    OPENCL_SUCCESS = 0,
    OPENCL_PLATFORM_NAME = 0x0902, OPENCL_PLATFORM_VERSION = 0x0901,
    OPENCL_TYPE = 0x1000, OPENCL_COMPUTE_UNITS = 0x1002, OPENCL_LARGEST_BUFFER = 0x1010, OPENCL_PARAMETER_BYTES = 0x1017,
    OPENCL_SINGLE_CONFIG = 0x101B, OPENCL_LOCAL_BYTES = 0x1023, OPENCL_IS_LITTLE_ENDIAN = 0x1026, OPENCL_IS_AVAILABLE = 0x1027,
    OPENCL_HAS_COMPILER = 0x1028, OPENCL_NAME = 0x102B, OPENCL_DRIVER_VERSION = 0x102D, OPENCL_VERSION = 0x102F,
    OPENCL_SHARES_HOST_MEMORY = 0x1035,
    OPENCL_CPU = 1 << 1, OPENCL_GPU = 1 << 2,
    OPENCL_ROUNDS_DIVISION = 1 << 7,
    OPENCL_READ_WRITE = 1 << 0, OPENCL_READ_ONLY = 1 << 2, OPENCL_USE_HOST = 1 << 3,
    OPENCL_TIMES_COMMANDS = 1 << 1,
    OPENCL_BINARY_SIZES = 0x1165, OPENCL_BINARIES = 0x1166, OPENCL_BUILD_LOG = 0x1183,
    OPENCL_ARGUMENTS = 0x1191, OPENCL_GROUP_ITEMS = 0x11B0, OPENCL_DECLARED_GROUP = 0x11B1, OPENCL_KERNEL_LOCAL_BYTES = 0x11B2,
    OPENCL_TIME_START = 0x1282, OPENCL_TIME_END = 0x1283,
};
#define OPENCL_ANY_TYPE UINT64_C(0xFFFFFFFF)

// LATHE_DEVICE where there is no such library or it lacks a function: says what to install.
bool opencl_api_open(OpenclApi *api, Error *err) MUST_CHECK;
const char *opencl_status_name(int32_t status);   // "out of resources"
