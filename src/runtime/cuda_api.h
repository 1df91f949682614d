// cuda_api: what lathe calls of CUDA, found at run time, and the numbers that it passes.
// In: the driver's library and the run-time compiler's (NVRTC). Out: pointers to their functions.
// Invariant: nothing of CUDA is needed to build or to start.
// Example: CudaApi api; TRY(cuda_api_open(&api, err)); api.StreamSynchronize(stream)
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef int32_t CudaDeviceId;
typedef uint64_t CudaAddress;
typedef struct CudaContextObject *CudaContext;
typedef struct CudaStreamObject *CudaStream;
typedef struct CudaEventObject *CudaEvent;
typedef struct CudaModuleObject *CudaModule;
typedef struct CudaFunctionObject *CudaFunction;
typedef struct CudaGraphObject *CudaGraph;
typedef struct CudaGraphExecObject *CudaGraphExec;
typedef struct NvrtcProgramObject *NvrtcProgram;

// CUlaunchAttribute and CUlaunchConfig of cuda.h. Early: the kernel may begin while the one before it in the stream ends; it
// waits by itself (griddepcontrol.wait) before it reads what that one wrote.
typedef struct CudaLaunchAttribute { int32_t id, pad; union { int32_t number; uint8_t bytes[64]; } value; } CudaLaunchAttribute;
typedef struct CudaLaunch {
    unsigned grid[3], block[3], shared_bytes;
    CudaStream stream;
    CudaLaunchAttribute *attributes;
    unsigned n_attributes;
} CudaLaunch;
enum { CUDA_LAUNCH_EARLY = 6, CUDA_MAJOR_WITH_EARLY = 9 };

typedef struct CudaApi {
#define CUDA_FUNCTION(name, symbol, ...) int32_t (*name) __VA_ARGS__;
#define NVRTC_FUNCTION(name, symbol, ...) int32_t (*nvrtc##name) __VA_ARGS__;
#include "runtime/cuda_api.def"
#undef CUDA_FUNCTION
#undef NVRTC_FUNCTION
} CudaApi;

// Numbers of cuda.h.
enum {
    CUDA_SUCCESS = 0,
    CUDA_CAPABILITY_MAJOR = 75, CUDA_CAPABILITY_MINOR = 76, CUDA_MULTIPROCESSORS = 16, CUDA_SHARED_BYTES = 8,
    CUDA_FUNCTION_THREADS = 0, CUDA_FUNCTION_SHARED_BYTES = 1, CUDA_FUNCTION_LOCAL_BYTES = 3, CUDA_FUNCTION_REGISTERS = 4,
    CUDA_STREAM_ALONE = 1, CUDA_CAPTURE_THREAD = 1,
};

// LATHE_DEVICE where one of the libraries is missing or lacks a function: says what to install.
bool cuda_api_open(CudaApi *api, Error *err) MUST_CHECK;
const char *cuda_status_name(const CudaApi *api, int32_t status);   // "CUDA_ERROR_OUT_OF_MEMORY"
