// metal_api: what lathe calls of macOS for Metal: the Objective-C runtime and one function of the framework, found at run time.
// In: the system's libraries. Out: pointers to their functions; objects are asked by messages.
// Invariant: nothing of macOS is needed to build or to start. A message is sent through a pointer of its own type, as the
// runtime wants it. Example: SEND(api, void, command, "commit", (ObjcId, ObjcSelector))
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef struct ObjcObject *ObjcId;
typedef struct ObjcSelectorName *ObjcSelector;

typedef struct MetalApi {
    ObjcId (*class_named)(const char *name);
    ObjcSelector (*selector)(const char *name);
    void (*send)(void);                  // of the type that a message has
    void *(*pool_push)(void);
    void (*pool_pop)(void *pool);
    ObjcId (*default_device)(void);
} MetalApi;

typedef struct MetalSize { unsigned long width, height, depth; } MetalSize;

// types: of the object, the selector and the arguments, which follow.
#define SEND(api, result, object, name, types, ...) \
    (((result(*) types)(api)->send)((object), (api)->selector(name) __VA_OPT__(,) __VA_ARGS__))

// LATHE_DEVICE where this is no macOS or it has no Metal.
bool metal_api_open(MetalApi *api, Error *err) MUST_CHECK;
ObjcId metal_string(const MetalApi *api, const char *text);              // until the pool is popped
const char *metal_text(const MetalApi *api, ObjcId string);              // the same; "" for nil
const char *metal_reason(const MetalApi *api, ObjcId error);             // what an NSError says
void metal_release(const MetalApi *api, ObjcId object);                  // nil is allowed
